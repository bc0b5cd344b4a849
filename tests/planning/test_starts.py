"""Where searches begin."""

import numpy as np
import pytest

import veil
from tests.engine.test_return_range import harvest
from tests.planning.small_problems import drawn, random_problem
from tests.policy.masked import AVAILABLE, masked_problem
from veil.common.clock import Clock
from veil.engine.return_range import max_return, threshold
from veil.planning import starts
from veil.planning.best_returns import best_stationary_return
from veil.planning.policy_class import make_space
from veil.planning.starts import logits, make_starts, richest_table, special_cells

MEMORIES = ["markov", "timed", veil.StateMemory(1), veil.StateMemory(1, clock=False), veil.Controller(2)]


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_richest_table_has_the_largest_return_known(memory):
    for problem in (harvest(), random_problem(0), random_problem(1), masked_problem(3)):
        space = make_space(problem, memory)
        found = veil.expected_return(problem, space.policy(richest_table(space)))
        largest = best_stationary_return(problem)[0] if space.stationary else max_return(problem)
        assert found == pytest.approx(largest, abs=1e-12)


@pytest.mark.parametrize("memory", MEMORIES)
def test_starts_are_the_same_for_the_same_seed(memory):
    space = make_space(random_problem(2), memory)
    richest = richest_table(space)
    for count in (1, 2, 9, 40):
        found = make_starts(space, richest, count, 3)
        assert found.shape == (count, *space.shape)
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found, make_starts(space, richest, count, 3))
    assert not np.array_equal(found, make_starts(space, richest, 40, 4))
    np.testing.assert_array_equal(found[:9], make_starts(space, richest, 9, 3))
    assert len(np.unique(found.reshape(40, -1), axis=0)) == 40


def test_the_first_start_is_nearly_uniform_and_the_second_rich():
    problem = random_problem(3)
    space = make_space(problem)
    richest = richest_table(space)
    tables = space.softmax(make_starts(space, richest, 12, 0))
    uniform = 1 / problem.num_actions
    assert np.abs(tables[0] - uniform).max() < 0.2
    np.testing.assert_allclose(tables[1], 0.5 * richest + 0.5 * uniform, atol=1e-12)
    assert tables.max() < 0.99  # nothing is ruled out
    assert tables.min() > 1e-4


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_given_policy_comes_last(memory):
    problem = masked_problem(3)
    space = make_space(problem, memory)
    given = veil.MarkovPolicy.uniform(problem)
    starts = make_starts(space, richest_table(space), 4, 0, given)
    np.testing.assert_array_equal(starts[:4], make_starts(space, richest_table(space), 4, 0))
    last = space.softmax(starts)[4]
    np.testing.assert_allclose(veil.opacity(problem, space.policy(last), "exact").bits,
                               veil.opacity(problem, given, "exact").bits, atol=1e-12)  # fmt: skip
    own = space.policy(drawn(space, 1)[0])
    last = space.softmax(make_starts(space, richest_table(space), 1, 0, own))[1]
    assert np.abs(last - own.table).max() < 0.02 + 1e-12


def test_a_policy_of_a_larger_class_is_no_start():
    problem = random_problem(3)
    space = make_space(problem)
    with pytest.raises(veil.InputError, match="depends on the time"):
        make_starts(
            space, richest_table(space), 4, 0, veil.TimedPolicy(np.tile(richest_table(space), (problem.horizon, 1, 1)))
        )


def test_parameters_of_a_table_give_the_table_back_mixed():
    space = make_space(masked_problem(2), "timed")
    table = drawn(space, 1)[0]
    uniform = AVAILABLE / AVAILABLE.sum(axis=1, keepdims=True)
    for share in (0.02, 0.5):
        found = logits(space, table, share)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(space.softmax(found), (1 - share) * table + share * uniform, atol=1e-15)


def test_cells_of_consequence_have_a_secret_or_a_reward_and_a_choice():
    assert special_cells(make_space(masked_problem())).tolist() == []  # the pit is secret, but has no choice
    secret_shaft = masked_problem(2, veil.LastState({"shaft"}))
    assert special_cells(make_space(secret_shaft)).tolist() == [1]
    assert special_cells(make_space(harvest())).tolist() == [0, 1]
    paper = veil.gallery.load("paper-last-state")
    found = set(special_cells(make_space(paper)))
    wanted = {6 * row + column for row, column in [(0, 3), (3, 5), (1, 3), (4, 2), (5, 4)]}
    assert found == wanted


def test_bold_starts_settle_one_action_in_one_such_cell():
    space = make_space(veil.gallery.load("paper-last-state"))
    tables = space.softmax(make_starts(space, richest_table(space), 20, 0))
    bold = [t for t in tables[2:] if np.count_nonzero(t.max(axis=-1) > 0.7) == 1]
    assert len(bold) >= 12
    cells = {int(np.argmax(t[0].max(axis=-1))) for t in bold}
    assert cells.issubset(special_cells(space).tolist())
    assert len(cells) > 2


def test_the_search_for_the_richest_ends_when_told_and_where_it_is_enough(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(3), "markov")
    whole = richest_table(space)
    calls = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 2

    clock = Clock(stop=stop)
    np.testing.assert_array_equal(richest_table(space, clock), whole)  # with few states it is never cut short
    assert not calls
    monkeypatch.setattr(starts, "_MANY_STATES", 0)
    with monkeypatch.context() as patched:
        patched.setattr(starts, "_greedy_returns", lambda *_: iter(()))
        assert richest_table(space, clock).shape == space.shape
        assert len(calls) == 3
    found = space.policy(richest_table(space))
    assert veil.expected_return(space.problem, found) >= (threshold(space.problem) or 0.0)


def test_over_many_states_a_greedy_table_that_suffices_spares_the_search(monkeypatch: pytest.MonkeyPatch):
    world = veil.GridWorld(18, 18, starts=(0, 0), goals={(8, 9): 1.0}, secrets=[(5, 5)])
    problem = world.problem(40, min_return="50%")
    space = make_space(problem, "markov")
    assert space.hidden.num_states > starts._MANY_STATES
    monkeypatch.setattr(starts, "best_stationary_return", None)  # which would take seconds
    found = veil.expected_return(problem, space.policy(richest_table(space)))
    assert found >= 0.99 * max_return(problem)


class Large:
    """A class of many states by decree, whose greedy tables and search have the returns that are given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, greedy: list[float], found: float):
        self.space, self.asked = make_space(harvest("50%"), "markov"), list[dict[str, object]]()
        monkeypatch.setattr(starts, "_MANY_STATES", 0)
        monkeypatch.setattr(
            starts, "_greedy_returns", lambda space, enough: [(value, np.full((1, 2, 2), value)) for value in greedy]
        )
        table = np.array([[0.25, 0.75], [1.0, 0.0]])

        def search(problem: veil.Problem, **given: object) -> tuple[float, np.ndarray]:
            self.asked.append(given)
            return found, table

        monkeypatch.setattr(starts, "best_stationary_return", search)


@pytest.mark.parametrize(("greedy", "found", "wanted", "searches"), [
    ([1.0, 3.5, 3.0], 9.0, 3.5, 0),  # enough is half way from the threshold, 3, to the largest return, 4
    ([1.0, 3.4], 3.1, 3.4, 1), ([1.0, 3.4], 3.6, 0.25, 1), ([], -5.0, 0.25, 1),
])  # fmt: skip
def test_greedy_tables_are_taken_where_they_are_well_inside_the_threshold(monkeypatch, greedy, found, wanted, searches):
    large = Large(monkeypatch, greedy, found)
    table = richest_table(large.space, Clock(100.0, now=lambda: 0.0))
    assert table[0, 0, 0] == wanted
    assert len(large.asked) == searches
    for given in large.asked:
        assert given["enough"] == 3.5
        assert given["clock"].time_limit == 25.0  # type: ignore[attr-defined]


def test_greedy_tables_are_tried_until_one_is_enough():
    problem = random_problem(0)
    space = make_space(problem, "markov")
    every = list(starts._greedy_returns(space, np.inf))
    assert len(every) == 2
    for value, table in every:
        assert value == pytest.approx(veil.expected_return(problem, space.policy(table)))
    assert len(list(starts._greedy_returns(space, every[0][0]))) == 1
    assert (
        list(
            starts._greedy_returns(
                make_space(problem.replace(horizon=0, min_return=None, secret=veil.InitialState())), 0.0
            )
        )
        == []
    )


def test_starts_are_bold_three_times_of_four_then_rich_or_random(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(0))
    names = {}
    for name, first in (("_random", 100.0), ("_bold", 200.0), ("_rich", 300.0)):
        made = [np.full(space.shape, first + number) for number in range(9)]
        names[name] = made
        monkeypatch.setattr(starts, name, lambda *_, made=made: iter(made))
    found = make_starts(space, richest_table(space), 18, 0)[:, 0, 0, 0].tolist()
    assert found == [100, 300, 200, 201, 301, 202, 203, 204, 101, 205, 206, 207, 302, 208, 102, 103, 104, 105]
    assert make_starts(space, richest_table(space), 0, 0).shape[0] == 1
