"""The hidden chain in product with the agent's memory: against all runs listed one by one, by the definitions."""

import gc
import itertools
import re
import weakref
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.engine.runs import MEMORIES, Enumerator, random_policy, remembering_cases
from tests.marks import chequered, halved
from tests.random_problems import KINDS
from veil.engine import remember as module
from veil.engine.chain import Chain, make_chain
from veil.engine.hidden import build
from veil.engine.kernel import DenseKernel, SparseKernel
from veil.engine.remember import remember
from veil.engine.returns import evaluate_return
from veil.engine.sampling import draw_events
from veil.measure.bracket import bracket_opacity, end_gradient
from veil.measure.exact import Budget, exact_gradient
from veil.measure.sampled import sampled_opacity
from veil.planning.policy_class import make_space
from veil.policy import recall as recalling
from veil.policy.memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from veil.policy.memory import MemoryPolicy
from veil.policy.tables import softmax_pull_back

WATCHERS = [
    {},
    {"sees_actions": True, "on_actions": False},
    {"sees_actions": False, "on_actions": True},
    {"sees_actions": True, "on_actions": True},
]


def close(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, abs=1e-12, rel=1e-12)


def most_runs(memory: Memory) -> int:
    """How many runs are listed; where the agent chooses its nodes, each is listed once for each choice of nodes."""
    return 2_000 if isinstance(memory, Controller) else 20_000


# Against every run


@pytest.mark.parametrize(("kind", "name"), chequered(KINDS, MEMORIES))
def test_the_joint_table_and_the_return_are_those_of_all_runs(kind: str, name: str):
    memory = MEMORIES[name]
    for number, fixed in enumerate(WATCHERS):
        for case in remembering_cases(3, kind, most_runs(memory), **fixed):
            policy = random_policy(case.problem, memory, seed=number, sparse=number % 2 == 1)
            runs = Enumerator(case.spec, case.problem, policy).run()
            table = veil.measures.joint_table(case.problem, policy)
            assert set(table.sequences) == set(runs.joint)
            for sequence, row in zip(table.sequences, table.probabilities, strict=True):
                expected = [runs.joint[sequence].get(z, 0.0) for z in range(len(row))]
                np.testing.assert_allclose(row, expected, atol=1e-14, rtol=1e-12)
            close(veil.opacity(case.problem, policy, "exact").bits, runs.bits)
            close(veil.expected_return(case.problem, policy), runs.expected_return)


def test_the_cases_cover_every_watcher_and_agents_who_know():
    cases = [c for kind in KINDS for fixed in WATCHERS for c in remembering_cases(3, kind, **fixed)]
    assert {c.problem.observer.sees_first for c in cases} == {True, False}
    assert any(c.problem.observer.sees_first and c.problem.observer.sees_actions for c in cases)
    assert any(not c.spec.sees_initial and not c.spec.on_actions for c in cases)
    known = {(c.spec.secret.kind, c.spec.secret.agent_knows) for c in cases}
    assert {("automaton", True), ("automaton", False), ("model", True), ("model", False)} <= known
    assert any(not c.problem.available.all() for c in cases)
    assert max(c.spec.horizon for c in cases) >= 3


@pytest.mark.parametrize(("kind", "name"), chequered(KINDS, MEMORIES))
def test_the_rows_are_what_some_policy_can_reach(kind: str, name: str):
    """Under a policy that takes every action, the runs meet each row of the table, and no other."""
    memory = MEMORIES[name]
    for case in itertools.chain(*(remembering_cases(2, kind, most_runs(memory), **fixed) for fixed in WATCHERS)):
        policy = MemoryPolicy.uniform(case.problem, memory)
        runs = Enumerator(case.spec, case.problem, policy).run()
        assert runs.rows == set(MemoryPolicy.row_names(case.problem, memory))


@pytest.mark.parametrize("name", MEMORIES)
def test_the_chain_keeps_its_laws(name: str):
    for kind in KINDS:
        for case in remembering_cases(4, kind):
            found = remember(case.problem, MEMORIES[name])
            hidden = found.hidden
            np.testing.assert_allclose(hidden.root.sum(axis=1), hidden.start, atol=1e-15)
            assert hidden.start.sum() == pytest.approx(1)
            assert found.available.shape == (hidden.num_cells, hidden.reward.shape[1])
            assert found.available.shape[0] == len(found.cell_names) == hidden.cell.max() + 1
            chain = make_chain(case.problem, MemoryPolicy.uniform(case.problem, MEMORIES[name]))
            np.testing.assert_allclose(chain.occupancies.sum(axis=1), 1, atol=1e-12)
            assert (chain.occupancies.sum(axis=0) > 0).all()  # nothing that cannot be reached
            assert np.sum([c.actions for c in hidden.channels], axis=0).tolist() == [1] * hidden.reward.shape[1]
            entered = chain.occupancies[1:].sum(axis=0) > 0
            for channel in hidden.channels:
                np.testing.assert_allclose(channel.emission[entered].sum(axis=1), 1, atol=1e-9)


# Lifted policies


@pytest.mark.parametrize(("kind", "name"), chequered(KINDS, MEMORIES))
def test_a_lifted_policy_plays_like_the_one_it_was_lifted_from(kind: str, name: str):
    memory = MEMORIES[name]
    for number, case in enumerate(remembering_cases(6, kind)):
        problem = case.problem
        generator = np.random.default_rng(number)
        shape = (problem.num_cells, problem.num_actions)
        policies: list = [veil.MarkovPolicy.softmax(generator.normal(size=shape), problem)]
        if memory.clock:
            policies.append(veil.TimedPolicy.softmax(generator.normal(size=(problem.horizon, *shape)), problem))
        for policy in policies:
            lifted = MemoryPolicy.lift(problem, memory, policy)
            close(veil.opacity(problem, lifted, "exact").bits, veil.opacity(problem, policy, "exact").bits)
            close(veil.expected_return(problem, lifted), veil.expected_return(problem, policy))


LARGER: list[tuple[Memory, Memory]] = [
    (ObservationMemory(1), ObservationMemory(2)),
    (ObservationMemory(1, clock=False), ObservationMemory(3)),
    (ObservationMemory(2, clock=False), ObservationMemory(9, clock=False)),
    (ObservationMemory(9), ObservationMemory(8)),  # both are longer than any run
    (StateMemory(1), StateMemory(2)),
    (StateMemory(2, clock=False), StateMemory(5)),
    (ZoneMemory([[0]]), ZoneMemory([[1], [0]])),
    (ZoneMemory([["s1"], [0]], clock=False), ZoneMemory([[0, 1], [0], [1]])),
    (Controller(2), Controller(3)),
    (Controller(1), Controller(2, clock=True)),
    (Controller(2, clock=True), Controller(2, clock=True)),
]


@pytest.mark.parametrize(("smaller", "larger"), LARGER)
def test_a_policy_with_less_memory_is_lifted_to_more(smaller: Memory, larger: Memory):
    for kind in KINDS:
        for case in itertools.chain(*(remembering_cases(2, kind, **fixed) for fixed in WATCHERS[:2])):
            policy = random_policy(case.problem, smaller, seed=3)
            lifted = MemoryPolicy.lift(case.problem, larger, policy)
            assert lifted.memory.describe() == larger.describe()
            expected, found = (
                veil.measures.joint_table(case.problem, policy),
                veil.measures.joint_table(case.problem, lifted),
            )
            assert found.sequences == expected.sequences
            np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=1e-14)
            close(veil.expected_return(case.problem, lifted), veil.expected_return(case.problem, policy))


@pytest.mark.parametrize("name", MEMORIES)
def test_a_lift_to_itself_changes_nothing(name: str):
    (case,) = remembering_cases(1, "last")
    policy = random_policy(case.problem, MEMORIES[name])
    again = MemoryPolicy.lift(case.problem, MEMORIES[name], policy)
    np.testing.assert_array_equal(again.probabilities, policy.probabilities)


# Slopes


@pytest.mark.parametrize(("name", "sparse"), chequered(MEMORIES, [False, True]))
def test_the_gradient_is_that_of_central_differences(name: str, sparse: bool):
    budget = Budget()
    for kind, fixed in zip(("last", "initial", "automaton", "model"), WATCHERS, strict=True):
        (case,) = remembering_cases(1, kind, most_runs=3000, **fixed)
        problem, space = case.problem, make_space(case.problem, MEMORIES[name])
        theta = np.random.default_rng(5).normal(size=space.shape)
        table = space.softmax(theta)

        def chain(theta: np.ndarray, space=space) -> Chain:
            found = space.chain(space.softmax(theta))
            dense = isinstance(found.hidden.kernel, DenseKernel)
            return on_sparse_kernel(found) if sparse and dense else found

        def bits(theta: np.ndarray, chain=chain) -> float:
            return exact_gradient(chain(theta), budget)[0].bits

        def value(theta: np.ndarray, chain=chain, problem=problem) -> float:
            return evaluate_return(problem, chain(theta))[0]

        slope = softmax_pull_back(table, exact_gradient(chain(theta), budget)[1])
        check_slope(bits, theta, slope)
        check_slope(value, theta, softmax_pull_back(table, evaluate_return(problem, chain(theta))[1]))
        close(value(theta), veil.expected_return(problem, space.policy(table)))
        given = theta[0] if space.stationary else theta
        found, public = veil.opacity_gradient(problem, given, memory=MEMORIES[name])
        np.testing.assert_allclose(public, slope[0] if space.stationary else slope, atol=1e-12)
        close(found.bits, bits(theta))
        again, public = veil.measures.return_gradient(problem, given, memory=MEMORIES[name])
        close(again, value(theta))
        assert public.shape == given.shape


def check_slope(
    function: Callable[[np.ndarray], float], at: np.ndarray, slope: np.ndarray, directions: int = 6
) -> None:
    """The slope along some directions, each of which moves every parameter."""
    generator = np.random.default_rng(8)
    for _ in range(directions):
        along = generator.normal(size=at.shape)
        expected = (function(at + 1e-5 * along) - function(at - 1e-5 * along)) / 2e-5
        assert np.vdot(slope, along) == pytest.approx(expected, abs=2e-8)


# What else reads the chain


@pytest.mark.parametrize("name", halved(MEMORIES))
def test_brackets_contain_the_exact_value_and_close(name: str):
    for kind in KINDS:
        for case in remembering_cases(3, kind):
            chain = make_chain(case.problem, random_policy(case.problem, MEMORIES[name]))
            exact = veil.opacity(case.problem, random_policy(case.problem, MEMORIES[name]), "exact").bits
            for radius in range(case.problem.horizon + 2):
                lower, _ = end_gradient(chain, radius=radius, reveal=True, memory_bytes=2**28)
                upper, _ = end_gradient(chain, radius=radius, reveal=False, memory_bytes=2**28)
                assert lower - 1e-12 <= exact <= upper + 1e-12
            found = bracket_opacity(chain, Budget(), width=0.0)
            assert found.lower <= exact <= found.upper
            assert found.upper - found.lower < 1e-10


@pytest.mark.parametrize("name", MEMORIES)
def test_the_slope_of_a_bracket_is_that_of_central_differences(name: str):
    for case in remembering_cases(3, "at", most_runs=3000):
        space = make_space(case.problem, MEMORIES[name])
        theta = np.random.default_rng(6).normal(size=space.shape)
        for reveal in (True, False):

            def end(theta: np.ndarray, space=space, reveal=reveal) -> tuple[float, np.ndarray]:
                return end_gradient(space.chain(space.softmax(theta)), radius=1, reveal=reveal, memory_bytes=2**28)

            slope = softmax_pull_back(space.softmax(theta), end(theta)[1])
            check_slope(lambda t, end=end: end(t)[0], theta, slope)


@pytest.mark.parametrize("name", MEMORIES)
def test_the_filter_ends_with_the_posterior_of_the_joint_table(name: str):
    for kind, fixed in itertools.product(KINDS, WATCHERS):
        (case,) = remembering_cases(1, kind, **fixed)
        policy = random_policy(case.problem, MEMORIES[name])
        table = veil.measures.joint_table(case.problem, policy)
        watcher = veil.ObserverFilter(case.problem, policy)
        for sequence, row in list(zip(table.sequences, table.posterior, strict=True))[:5]:
            watcher.reset()
            for event in sequence:
                watcher.update(event)
            np.testing.assert_allclose(watcher.posterior, row, atol=1e-12)


@pytest.mark.parametrize("name", MEMORIES)
def test_drawn_sequences_have_the_law_of_the_table(name: str):
    for fixed in WATCHERS:
        (case,) = remembering_cases(1, "last", most_runs=3000, **fixed)
        policy = random_policy(case.problem, MEMORIES[name])
        table = veil.measures.joint_table(case.problem, policy)
        drawn = draw_events(make_chain(case.problem, policy), 20_000, np.random.default_rng(1))
        known = {tuple(row): place for place, row in enumerate(table.events.tolist())}
        counts = np.bincount([known[tuple(row)] for row in drawn.tolist()], minlength=len(known))
        expected = table.probabilities.sum(axis=1)
        spread = np.sqrt(expected * (1 - expected) / len(drawn))
        assert (np.abs(counts / len(drawn) - expected) <= 5 * spread + 1e-12).all()


@pytest.mark.parametrize("name", MEMORIES)
def test_a_sample_comes_near_the_exact_value(name: str):
    for kind in KINDS:
        (case,) = remembering_cases(1, kind)
        policy = random_policy(case.problem, MEMORIES[name])
        exact = veil.opacity(case.problem, policy, "exact").bits
        found = sampled_opacity(make_chain(case.problem, policy), sequences=2000, seed=2)
        assert abs(found.bits - exact) <= 5 * found.std_error + 1e-9


@pytest.mark.parametrize("name", MEMORIES)
def test_bits_over_time_end_with_the_opacity_and_never_rise(name: str):
    for kind in KINDS:
        (case,) = remembering_cases(1, kind)
        policy = random_policy(case.problem, MEMORIES[name])
        bits = veil.measures.bits_over_time(case.problem, policy)
        close(bits[-1], veil.opacity(case.problem, policy, "exact").bits)
        assert (np.diff(bits) <= 1e-12).all()


@pytest.mark.parametrize("name", ["state", "zones", "controller"])
def test_the_cost_of_an_observation_is_asked_of_the_same_table(name: str):
    """The rows do not depend on the observer, unless the agent remembers what it shows."""
    (case,) = remembering_cases(1, "last", sees_actions=False, on_actions=False)
    policy = random_policy(case.problem, MEMORIES[name])
    before = veil.opacity(case.problem, policy, "exact").bits
    for observation, cost in veil.measures.observation_costs(case.problem, policy, silent=0).items():
        muted = case.problem.replace(observer=case.problem.observer.without([observation], silent=0))
        close(cost, veil.opacity(muted, policy, "exact").bits - before)
        assert cost >= -1e-12


# For ever


def forever(case, memory: Memory) -> veil.Problem:
    """The problem of a case with a return over all times."""
    model = case.problem.model
    paid = veil.Model([m.copy() for m in model.matrices], model.rewards, model.initial, 0.5, available=model.available)
    return veil.Problem(paid, case.problem.observer, case.problem.secret, case.problem.horizon,
                        return_over="infinite", agent_sees_observations=True)  # fmt: skip


@pytest.mark.parametrize(
    "memory", [ObservationMemory(1, clock=False), StateMemory(2, clock=False), ZoneMemory([[0], [1]], clock=False),
               Controller(2)], ids=lambda memory: memory.name
)  # fmt: skip
def test_a_policy_without_a_clock_acts_for_ever(memory: Memory):
    for case in remembering_cases(4, "last"):
        problem = forever(case, memory)
        policy = random_policy(problem, memory, seed=7)
        # Sixty steps of a discount of one half leave nothing; all rows are reached within them.
        long = problem.replace(return_over="horizon", horizon=60)
        assert MemoryPolicy.row_names(long, memory) == MemoryPolicy.row_names(problem, memory)
        assert veil.expected_return(problem, policy) == pytest.approx(veil.expected_return(long, policy), abs=1e-12)
        lifted = MemoryPolicy.lift(problem, memory, veil.MarkovPolicy.uniform(problem))
        close(veil.expected_return(problem, lifted), veil.expected_return(problem, veil.MarkovPolicy.uniform(problem)))


@pytest.mark.parametrize("memory", [ObservationMemory(2), StateMemory(1), ZoneMemory([[0]]), Controller(2, clock=True)])
def test_a_policy_with_a_clock_plays_on_optimally(memory: Memory):
    for case in remembering_cases(4, "last"):
        problem = forever(case, memory)
        shape = (problem.horizon, problem.num_cells, problem.num_actions)
        policy = veil.TimedPolicy.softmax(np.random.default_rng(1).normal(size=shape), problem)
        close(
            veil.expected_return(problem, MemoryPolicy.lift(problem, memory, policy)),
            veil.expected_return(problem, policy),
        )


# Size


def test_it_is_built_once_and_goes_with_the_problem():
    (case,) = remembering_cases(1, "last")
    problem = case.problem.replace(name="short-lived")
    found = remember(problem, ZoneMemory([["s0"], [1]]))
    assert remember(problem, ZoneMemory([[0], ["s1", 1]])) is found  # the same zones
    assert remember(problem, ZoneMemory([[0], [1]], clock=False)) is not found
    gone = weakref.ref(problem)
    del problem
    gc.collect()
    assert gone() is None


def test_a_product_that_is_too_large_is_refused_before_it_is_made(monkeypatch):
    problem = veil.gallery.load("paper-last-state").replace(agent_sees_observations=True)
    with monkeypatch.context() as patched:
        patched.setattr(recalling, "MOST_STATES", 20_000)
        with pytest.raises(veil.TooLargeError, match=r"more than 20,000 hidden states of the 36 .* remember less"):
            remember(problem, StateMemory(10, clock=False))
        patched.setattr(recalling, "_AT_ONCE", 1000)  # what several pieces find must be counted once
        patched.setattr(recalling, "MOST_STATES", 3138)
        assert remember(problem.replace(), StateMemory(3)).hidden.num_states == 3138
    with pytest.raises(veil.TooLargeError, match=r"more than 2\^62 values"):
        remember(problem.replace(horizon=100), ObservationMemory(100))
    monkeypatch.setattr(module, "_MOST_NUMBERS", 100)
    with pytest.raises(veil.TooLargeError, match="transitions of 5 actions, more than 100 numbers"):
        remember(problem, StateMemory(1))


def test_following_in_pieces_gives_the_same(monkeypatch):
    (case,) = remembering_cases(1, "automaton")
    whole = remember(case.problem, StateMemory(2)).hidden
    monkeypatch.setattr(recalling, "_AT_ONCE", 1)
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    pieces = remember(case.problem.replace(), StateMemory(2)).hidden
    np.testing.assert_array_equal(pieces.kernel.array, whole.kernel.array)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(pieces.cell, whole.cell)


def test_a_larger_product_is_sparse_and_right():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees_observations=True)
    policy = veil.MarkovPolicy.softmax(np.random.default_rng(2).normal(size=(36, 5)), problem)
    expected = veil.opacity(problem, policy, "exact").bits
    for memory in (StateMemory(2), ObservationMemory(4), ZoneMemory([[0], [7, 8], [35]])):
        assert isinstance(remember(problem, memory).hidden.kernel, SparseKernel)
        close(veil.opacity(problem, MemoryPolicy.lift(problem, memory, policy), "exact").bits, expected)


def test_one_node_is_no_memory():
    """The product with a controller of one node is the hidden chain itself, as far as it can be reached."""
    for kind in KINDS:
        (case,) = remembering_cases(1, kind)
        found, plain = remember(case.problem, Controller(1)).hidden, build(case.problem)
        assert found.num_states <= plain.num_states
        assert found.root.sum() == pytest.approx(plain.root.sum())
        assert len(found.channels) == len(plain.channels)


def test_an_agent_who_sees_nothing_cannot_remember_it():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees_observations=False)
    with pytest.raises(veil.InputError, match=r"StateMemory\(k\).*agent_sees_observations=True"):
        remember(problem, ObservationMemory(1))


@pytest.mark.parametrize("memory", [StateMemory(1), Controller(2)])
def test_as_many_transitions_as_are_allowed(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    """The product of two rooms and a memory: its transitions times its actions are counted before it is made."""
    problem = veil.gallery.load("two-rooms")
    made = remember(problem, memory).hidden.kernel
    assert isinstance(made, DenseKernel)
    entries = max(np.count_nonzero(matrix) for matrix in made.array[:: 1 if isinstance(memory, StateMemory) else 2])
    monkeypatch.setattr(module, "_MOST_NUMBERS", 0)
    monkeypatch.setattr(module, "_REMEMBERED", WeakKeyDictionary())
    with pytest.raises(veil.TooLargeError, match="more than 0 numbers in all") as caught:
        remember(problem, memory)
    found = re.search(r"with ([\d,]+) transitions of (\d+) actions", str(caught.value))
    assert found is not None
    most = int(found[1].replace(",", "")) * int(found[2])
    assert most >= entries * int(found[2])
    monkeypatch.setattr(module, "_MOST_NUMBERS", most)
    assert remember(problem, memory).hidden.num_states == made.num_states
    monkeypatch.setattr(module, "_MOST_NUMBERS", most - 1)
    monkeypatch.setattr(module, "_REMEMBERED", WeakKeyDictionary())
    with pytest.raises(veil.TooLargeError, match=f"more than {most - 1:,} numbers in all: remember less"):
        remember(problem, memory)
