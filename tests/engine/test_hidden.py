"""The hidden chain: products by hand, what can be reached, and actions that are seen."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.augmented import arrivals, choices
from tests.engine.chains import small_case, small_cases
from tests.random_problems import KINDS, Case
from veil.engine import hidden as hidden_module
from veil.engine.hidden import Channel, EventColumns, Hidden, build, event_name, one_hot
from veil.engine.kernel import DenseKernel


def plain_model(**options) -> veil.Model:
    """`cold` and `hot`, two actions; numbers that cannot be mixed up."""
    transitions = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.3, 0.7], [0.2, 0.8]]])
    return veil.Model(
        transitions, [[1, 2], [3, 4]], [0.75, 0.25], state_names=["cold", "hot"], action_names=["wait", "heat"],
        **options,
    )  # fmt: skip


EMISSIONS = np.array([[0.5, 0.25, 0.25], [0.0, 0.125, 0.875]])


def dense(hidden: Hidden) -> np.ndarray:
    assert isinstance(hidden.kernel, DenseKernel)
    return hidden.kernel.array


# Without private memory


def test_without_memory_the_hidden_chain_is_the_model():
    model = plain_model(terminal_rewards=[5, 6], discount=0.5)
    hidden = build(veil.Problem(model, veil.Observer(EMISSIONS), veil.StateAt(2, {"hot"}), horizon=3))
    np.testing.assert_array_equal(dense(hidden), np.moveaxis(model.transitions, 1, 0))
    np.testing.assert_array_equal(hidden.start, [0.75, 0.25])
    np.testing.assert_array_equal(hidden.root, np.array([[0.75], [0.25]]) * EMISSIONS)
    np.testing.assert_array_equal(hidden.label, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(hidden.reward, model.rewards)
    np.testing.assert_array_equal(hidden.terminal, [5, 6])
    np.testing.assert_array_equal(hidden.cell, [0, 1])
    assert (hidden.split_time, hidden.horizon, hidden.discount) == (2, 3, 0.5)
    assert (hidden.num_states, hidden.num_events, hidden.num_cells) == (2, 3, 2)
    (channel,) = hidden.channels
    assert channel.actions.all()
    np.testing.assert_array_equal(channel.emission, EMISSIONS)


@pytest.mark.parametrize(
    ("secret", "time", "label"),
    [
        (veil.LastState({"hot"}), 3, [[1, 0], [0, 1]]),
        (veil.StateAt(0, {"cold"}), 0, [[0, 1], [1, 0]]),
        (veil.InitialState(), 0, [[1, 0], [0, 1]]),
        (veil.InitialState({"all": ["cold", "hot"]}), 0, [[1], [1]]),
    ],
)
def test_every_secret_is_a_label_at_a_time(secret, time: int, label: list):
    hidden = build(veil.Problem(plain_model(), veil.Observer(EMISSIONS), secret, horizon=3))
    assert hidden.split_time == time
    np.testing.assert_array_equal(hidden.label, label)


def test_who_does_not_see_the_first_observation_receives_one_empty_event():
    observer = veil.Observer(EMISSIONS, sees_initial=False)
    hidden = build(veil.Problem(plain_model(), observer, veil.LastState({1}), horizon=1))
    np.testing.assert_array_equal(hidden.root, [[0.75], [0.25]])


# With an automaton, by hand


def parity_problem(agent_knows: bool) -> veil.Problem:
    """Was `hot` entered an even or an odd number of times, the start counted?"""
    secret = veil.Automaton(
        transitions={("even", "h"): "odd", ("odd", "h"): "even", ("even", "c"): "even", ("odd", "c"): "odd"},
        initial="even",
        accepting={"odd"},
        labels={"hot": "h", "cold": "c"},
        agent_knows=agent_knows,
    )
    return veil.Problem(plain_model(), veil.Observer(EMISSIONS), secret, horizon=3)


def test_product_with_an_automaton_by_hand():
    """Hidden states in order: (even, cold), (even, hot), (odd, cold), (odd, hot)."""
    hidden = build(parity_problem(agent_knows=True))
    np.testing.assert_array_equal(hidden.cell, [0, 1, 2, 3])
    np.testing.assert_array_equal(hidden.state, [0, 1, 0, 1])
    np.testing.assert_array_equal(hidden.start, [0.75, 0, 0, 0.25])  # the automaton has read the start
    np.testing.assert_array_equal(hidden.label, [[1, 0], [1, 0], [0, 1], [0, 1]])
    wait = [[0.9, 0, 0, 0.1], [0.3, 0, 0, 0.7], [0, 0.1, 0.9, 0], [0, 0.7, 0.3, 0]]
    heat = [[0.4, 0, 0, 0.6], [0.2, 0, 0, 0.8], [0, 0.6, 0.4, 0], [0, 0.8, 0.2, 0]]
    np.testing.assert_array_equal(dense(hidden), [wait, heat])
    np.testing.assert_array_equal(hidden.reward, [[1, 2], [3, 4], [1, 2], [3, 4]])
    np.testing.assert_array_equal(hidden.root, hidden.start[:, None] * EMISSIONS[[0, 1, 0, 1]])
    np.testing.assert_array_equal(hidden.channels[0].emission, EMISSIONS[[0, 1, 0, 1]])
    assert (hidden.split_time, hidden.num_cells) == (3, 4)


def test_an_agent_who_does_not_know_the_automaton_has_the_rows_of_the_states():
    hidden = build(parity_problem(agent_knows=False))
    np.testing.assert_array_equal(hidden.cell, [0, 1, 0, 1])
    assert hidden.num_cells == 2


def seen_hot(model: veil.Model) -> veil.Problem:
    secret = veil.Automaton({("no", "h"): "yes"}, "no", {"yes"}, {"hot": "h"}, "c", otherwise="stay", agent_knows=True)
    return veil.Problem(model, veil.Observer(EMISSIONS), secret, horizon=3)


def test_what_cannot_be_reached_is_left_out():
    """Who is in `hot` has seen it: (no, hot) does not occur."""
    hidden = build(seen_hot(plain_model()))
    np.testing.assert_array_equal(hidden.cell, [0, 2, 3])
    np.testing.assert_array_equal(hidden.state, [0, 0, 1])
    np.testing.assert_array_equal(hidden.start, [0.75, 0, 0.25])
    np.testing.assert_array_equal(hidden.label, [[1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(dense(hidden)[0], [[0.9, 0, 0.1], [0, 0.9, 0.1], [0, 0.3, 0.7]])
    assert hidden.num_cells == 4  # a policy still has a row for what cannot occur


def test_what_can_be_reached_in_many_steps_stays():
    """A corridor of ten cells that is walked to its end and back: the far pairs are found step by step."""
    size = 10
    transitions = np.zeros((size, 1, size))
    transitions[np.arange(size), 0, np.minimum(np.arange(size) + 1, size - 1)] = 0.5
    transitions[np.arange(size), 0, np.maximum(np.arange(size) - 1, 0)] += 0.5
    model = veil.Model(transitions, np.zeros((size, 1)), 0)
    secret = veil.Automaton({("no", "end"): "yes"}, "no", {"yes"}, {9: "end"}, "c", otherwise="stay", agent_knows=True)
    hidden = build(veil.Problem(model, veil.Observer(np.ones((size, 1))), secret, horizon=1))
    np.testing.assert_array_equal(hidden.cell, [*range(9), *range(10, 20)])


@pytest.mark.parametrize("seed", range(20))
def test_leaving_out_what_cannot_be_reached_loses_nothing(seed: int):
    case = small_case(seed, "automaton")
    hidden = build(case.problem)
    assert hidden.start.sum() == pytest.approx(1, abs=1e-12)
    rows = dense(hidden).sum(axis=2).T
    available = case.problem.model.available[hidden.state]
    np.testing.assert_allclose(rows, available, atol=1e-12)  # no transition leads out of what is kept
    graph = dense(hidden).sum(axis=0) > 0
    reached = hidden.start > 0
    for _ in range(hidden.num_states):
        reached = reached | (reached @ graph)
    assert reached.all()


# With several models, by hand


@pytest.mark.parametrize("agent_knows", [False, True])
def test_product_with_the_index_of_the_model_by_hand(agent_knows: bool):
    other = veil.Model(
        np.array([[[0, 1], [1, 0]], [[1, 0], [0, 1]]]), [[-1, -2], [-3, -4]], "hot", terminal_rewards=[7, 8],
        state_names=["cold", "hot"], action_names=["wait", "heat"],
    )  # fmt: skip
    secret = veil.WhichModel([0.25, 0.75], agent_knows=agent_knows)
    hidden = build(veil.Problem([plain_model(), other], veil.Observer(EMISSIONS), secret, horizon=3))
    np.testing.assert_array_equal(hidden.model_index, [0, 0, 1, 1])
    np.testing.assert_array_equal(hidden.state, [0, 1, 0, 1])
    np.testing.assert_array_equal(hidden.cell, [0, 1, 2, 3] if agent_knows else [0, 1, 0, 1])
    np.testing.assert_array_equal(hidden.start, [0.1875, 0.0625, 0, 0.75])
    np.testing.assert_array_equal(hidden.label, [[1, 0], [1, 0], [0, 1], [0, 1]])
    wait = [[0.9, 0.1, 0, 0], [0.3, 0.7, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    heat = [[0.4, 0.6, 0, 0], [0.2, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(dense(hidden), [wait, heat])
    np.testing.assert_array_equal(hidden.reward, [[1, 2], [3, 4], [-1, -2], [-3, -4]])
    np.testing.assert_array_equal(hidden.terminal, [0, 0, 7, 8])
    assert hidden.split_time == 0


# Channels


def test_actions_that_are_seen_have_a_channel_each():
    observer = veil.Observer(EMISSIONS, sees_actions=True)
    problem = veil.Problem(plain_model(), observer, veil.LastState({1}), horizon=2)
    hidden = build(problem)
    assert hidden.num_events == 6
    for action, channel in enumerate(hidden.channels):
        assert channel.actions.tolist() == [action == 0, action == 1]
        expected = np.zeros((2, 6))
        expected[:, 3 * action : 3 * action + 3] = EMISSIONS
        np.testing.assert_array_equal(channel.emission, expected)
    assert [event_name(problem, event, 1) for event in (0, 2, 3, 5)] == [
        ("wait", "o0"), ("wait", "o2"), ("heat", "o0"), ("heat", "o2"),
    ]  # fmt: skip
    assert event_name(problem, 2, 0) == "o2"


def test_actions_that_emit_alike_share_a_channel():
    tables = np.stack([EMISSIONS, EMISSIONS[::-1], EMISSIONS])
    model = veil.Model(np.full((2, 3, 2), 0.5), np.zeros((2, 3)), 0)
    hidden = build(veil.Problem(model, veil.Observer(tables), veil.LastState({1}), horizon=2))
    assert len(hidden.channels) == 2
    for channel in hidden.channels:
        for action in np.flatnonzero(channel.actions):
            np.testing.assert_array_equal(channel.emission, tables[action])
    np.testing.assert_array_equal(sum(channel.actions.astype(int) for channel in hidden.channels), [1, 1, 1])
    assert hidden.root.shape == (2, 1)  # nothing is received at time 0


# The paper's augmentation


def seen(kind: str, count: int, on_actions: bool) -> list[Case]:
    return list(small_cases(count, kind, work=2_000, sees_actions=True, on_actions=on_actions))


@pytest.mark.parametrize("on_actions", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_seen_actions_have_the_law_of_the_augmented_model(kind: str, on_actions: bool):
    """The state `(s', a)` shows the observer both: same entropy, same number of sequences, same slope."""
    open_secrets = 0
    for case in seen(kind, 30, on_actions):
        table = case.policy.table
        larger, larger_table, base = arrivals(case.problem, table)
        assert not larger.observer.sees_actions
        policy = type(case.policy)(larger_table if case.spec.timed else larger_table[0])
        found = veil.opacity(case.problem, case.policy, method="exact")
        expected = veil.opacity(larger, policy, method="exact")
        assert found.bits == pytest.approx(expected.bits, abs=1e-12)
        assert found.prior_bits == pytest.approx(expected.prior_bits, abs=1e-12)
        assert found.num_sequences == expected.num_sequences
        open_secrets += found.bits > 0.01

        slope = veil.opacity_gradient(case.problem, case.policy.logits())[1]
        larger_slope = veil.opacity_gradient(larger, policy.logits())[1]
        known = table.shape[1] // case.spec.num_states
        parts = larger_slope.reshape(len(table), known, len(base), case.spec.num_actions)
        summed = np.zeros((len(table), known, case.spec.num_states, case.spec.num_actions))
        for x, state in enumerate(base):
            summed[:, :, state] += parts[:, :, x]
        np.testing.assert_allclose(slope.reshape(summed.shape), summed, atol=1e-12)
    assert open_secrets >= 6


@pytest.mark.parametrize("kind", KINDS)
def test_seen_actions_have_the_law_of_states_and_choices_in_turn(kind: str):
    for case in seen(kind, 30, on_actions=False):
        larger, table = choices(case.problem, case.policy.table, timed=case.spec.timed)
        policy = veil.TimedPolicy(table) if case.spec.timed else veil.MarkovPolicy(table[0])
        found = veil.opacity(case.problem, case.policy, method="exact")
        expected = veil.opacity(larger, policy, method="exact")
        assert found.bits == pytest.approx(expected.bits, abs=1e-12)
        assert found.num_sequences == expected.num_sequences


def test_seeing_actions_matters_here():
    """The comparison above would be empty if what is seen did not depend on the actions."""
    differ = 0
    for case in seen("last", 12, on_actions=False):
        blind = case.problem.replace(
            observer=veil.Observer(case.problem.observer.emissions, sees_initial=case.problem.observer.sees_initial)
        )
        less = veil.opacity(case.problem, case.policy, method="exact").bits
        more = veil.opacity(blind, case.policy, method="exact").bits
        assert less <= more + 1e-12
        differ += more - less > 1e-3
    assert differ >= 3


def test_columns_of_a_table_are_the_same_from_its_entries(monkeypatch: pytest.MonkeyPatch):
    """A large table is not made dense: its columns are filled from the entries."""
    table = sp.csr_array(np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.25, 0.75, 0.0]]))
    rows, events = np.array([0, 2]), np.array([2, 0, 0, 1])
    small = hidden_module.EventColumns(table).take(rows, events, np.empty((2, 4)))
    monkeypatch.setattr(hidden_module, "_SMALL_TABLE", 0)
    large = hidden_module.EventColumns(table).take(rows, events, np.full((2, 4), 7.0))
    np.testing.assert_array_equal(small, table.toarray()[rows][:, events])
    np.testing.assert_array_equal(large, small)


def test_a_state_without_a_value_has_none():
    hidden = replace(build(veil.gallery.load("two-rooms")), labels=one_hot(np.array([-1, 1]), 2))
    assert hidden.value.tolist() == [-1, 1]
    assert hidden.label.tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_dense_tables_up_to_a_limit(monkeypatch: pytest.MonkeyPatch):
    """Emissions of two rooms are four numbers: as many as are allowed, and one too many."""
    hidden = build(veil.gallery.load("two-rooms"))
    monkeypatch.setattr("veil.engine.hidden._DENSE_NUMBERS", 4)
    assert Channel(hidden.channels[0].actions, hidden.channels[0].table).emission.shape == (2, 2)
    monkeypatch.setattr("veil.engine.hidden._DENSE_NUMBERS", 3)
    with pytest.raises(veil.TooLargeError, match=r"2 hidden states with 2 emissions need 0\.0 GiB as dense messages"):
        _ = Channel(hidden.channels[0].actions, hidden.channels[0].table).emission


@pytest.mark.parametrize("small", [True, False])
def test_columns_of_some_events_over_some_states(small: bool, monkeypatch: pytest.MonkeyPatch):
    """From a dense copy or from sparse entries: rows in any order, events more than once, columns without entries."""
    monkeypatch.setattr("veil.engine.hidden._SMALL_TABLE", 2**22 if small else 0)
    rng = np.random.default_rng(0)
    table = rng.random((5, 4)) * (rng.random((5, 4)) < 0.6)
    table[:, 2] = 0.0
    columns = EventColumns(sp.csr_array(table))
    for rows in (np.arange(5), np.array([4, 1, 2]), np.array([0])):
        events = np.array([3, 2, 0, 3, 1])
        out = np.full((len(rows), len(events)), 7.0)
        assert columns.take(rows, events, out) is out
        np.testing.assert_array_equal(out, table[rows][:, events])


def test_states_that_are_never_met_are_left_out_with_what_they_emit():
    """Two of three states, as many as there are observations, and a memory that never leaves its start."""
    moves = np.zeros((3, 1, 3))
    moves[:2, 0, :2] = 0.5
    moves[2, 0, 2] = 1.0
    emissions = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    secret = veil.Automaton(
        {("q", "in"): "r", ("r", "in"): "r"}, "q", {"r"}, {2: "in"}, default_label="out", otherwise="stay"
    )
    model = veil.Model(moves, np.zeros((3, 1)), 0)
    hidden = build(veil.Problem(model, veil.Observer(emissions), secret, 2))
    assert hidden.state.tolist() == [0, 1]
    np.testing.assert_array_equal(hidden.channels[0].emission, emissions[:2])
    np.testing.assert_array_equal(hidden.root, [[0.9, 0.1], [0.0, 0.0]])


def test_more_than_two_gibibytes_are_not_made_dense():
    table = sp.csr_array((2**14, 2**14 + 1))
    with pytest.raises(veil.TooLargeError, match=r"16,384 hidden states with 16,385 emissions need 2\.0 GiB"):
        _ = Channel(np.ones(1, dtype=bool), table).emission
