"""The hidden chain in product with the agent's memory: against all runs listed one by one, by the definitions."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel, return_and_gradient
from tests.engine.runs import MEMORIES, Enumerator, random_policy, remembering_cases
from tests.marks import chequered, halved
from tests.random_problems import KINDS
from tests.seeds import looped
from veil.engine.chain import Chain, make_chain
from veil.engine.compile import build
from veil.engine.kernel import DenseKernel, SparseKernel
from veil.engine.sampling import draw_events
from veil.measure.bracket import end_gradient
from veil.measure.exact import Budget
from veil.measure.ladder import Settings, measure
from veil.measure.question import SecretValue
from veil.planning.policy_class import make_space
from veil.policy.memories import Controller, Memory, Mixture, ObservationMemory, StateMemory, ZoneMemory
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
    return 2_000 if isinstance(memory, Controller | Mixture) else 20_000


# Against every run


QUICK = [(kind, WATCHERS[number % 4]) for number, kind in enumerate(KINDS)]
ALL = [(kind, watcher) for kind in KINDS for watcher in WATCHERS]


@pytest.mark.parametrize("cases", [QUICK, pytest.param(ALL, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize("name", MEMORIES)
def test_the_joint_table_and_the_return_are_those_of_all_runs(name: str, cases: list):
    """Under a policy that takes every action, the runs also meet each row of the table, and no other."""
    memory = MEMORIES[name]
    for number, (kind, fixed) in enumerate(cases):
        for case in remembering_cases(2, kind, most_runs(memory), **fixed):
            policy = random_policy(case.problem, memory, seed=number, sparse=number % 2 == 1)
            runs = Enumerator(case.spec, case.problem, policy).run()
            table = veil.measures.joint_table(case.problem, policy)
            assert set(table.sequences) == set(runs.joint), (kind, number)
            for sequence, row in zip(table.sequences, table.probabilities, strict=True):
                expected = [runs.joint[sequence].get(z, 0.0) for z in range(len(row))]
                np.testing.assert_allclose(row, expected, atol=1e-14, rtol=1e-12)
            close(veil.opacity(case.problem, policy, "exact").bits, runs.bits)
            close(veil.expected_return(case.problem, policy), runs.expected_return)
            every = Enumerator(case.spec, case.problem, MemoryPolicy.uniform(case.problem, memory)).run()
            assert every.rows == set(MemoryPolicy.row_names(case.problem, memory)), (kind, number)


# Lifted policies


@looped("name", MEMORIES)
def test_a_lifted_policy_plays_like_the_one_it_was_lifted_from(name: str):
    memory = MEMORIES[name]
    for number, case in enumerate(itertools.chain(*(remembering_cases(2, kind) for kind in KINDS))):
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
    (Mixture(2), Mixture(3)),
    (Mixture(1), Mixture(2, clock=True)),
]


@looped(("smaller", "larger"), LARGER)
def test_a_policy_with_less_memory_is_lifted_to_more(smaller: Memory, larger: Memory):
    for kind, fixed in QUICK:
        for case in remembering_cases(2, kind, **fixed):
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
            return SecretValue(chain(theta)).exact(budget).opacity.bits

        def value(theta: np.ndarray, chain=chain, problem=problem) -> float:
            return return_and_gradient(chain(theta))[0]

        found = SecretValue(chain(theta)).exact(budget, gradient=True).gradient
        assert found is not None
        slope = softmax_pull_back(table, found)
        check_slope(bits, theta, slope)
        check_slope(value, theta, softmax_pull_back(table, return_and_gradient(chain(theta))[1]))
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
        for case in remembering_cases(1, kind):
            chain = make_chain(case.problem, random_policy(case.problem, MEMORIES[name]))
            exact = veil.opacity(case.problem, random_policy(case.problem, MEMORIES[name]), "exact").bits
            for radius in range(case.problem.horizon + 2):
                lower, _ = end_gradient(chain, radius=radius, reveal=True, memory_bytes=2**28)
                upper, _ = end_gradient(chain, radius=radius, reveal=False, memory_bytes=2**28)
                assert lower - 1e-12 <= exact <= upper + 1e-12
            found = measure(chain, Settings("bracket", Budget(), 0.0)).opacity
            assert found.lower <= exact <= found.upper
            assert found.upper - found.lower < 1e-10


@pytest.mark.parametrize("name", MEMORIES)
def test_the_slope_of_a_bracket_is_that_of_central_differences(name: str):
    for case in remembering_cases(1, "at", most_runs=3000):
        space = make_space(case.problem, MEMORIES[name])
        theta = np.random.default_rng(6).normal(size=space.shape)
        for reveal in (True, False):

            def end(theta: np.ndarray, space=space, reveal=reveal) -> tuple[float, np.ndarray]:
                return end_gradient(space.chain(space.softmax(theta)), radius=1, reveal=reveal, memory_bytes=2**28)

            slope = softmax_pull_back(space.softmax(theta), end(theta)[1])
            check_slope(lambda t, end=end: end(t)[0], theta, slope)


@pytest.mark.parametrize("name", MEMORIES)
def test_filter_bits_over_time_and_draws_are_those_of_the_joint_table(name: str):
    for kind, fixed in QUICK:
        (case,) = remembering_cases(1, kind, most_runs=3000, **fixed)
        policy = random_policy(case.problem, MEMORIES[name])
        table = veil.measures.joint_table(case.problem, policy)
        watcher = veil.ObserverFilter(case.problem, policy)
        for sequence, row in list(zip(table.sequences, table.posterior, strict=True))[:5]:
            watcher.reset()
            for event in sequence:
                watcher.update(event)
            np.testing.assert_allclose(watcher.posterior, row, atol=1e-12)
        bits = veil.measures.bits_over_time(case.problem, policy)
        close(bits[-1], table.bits)
        assert (np.diff(bits) <= 1e-12).all()
        drawn = draw_events(make_chain(case.problem, policy), 5_000, np.random.default_rng(1))
        known = {tuple(row): place for place, row in enumerate(table.events.tolist())}
        counts = np.bincount([known[tuple(row)] for row in drawn.tolist()], minlength=len(known))
        expected = table.probabilities.sum(axis=1)
        spread = np.sqrt(expected * (1 - expected) / len(drawn))
        assert (np.abs(counts / len(drawn) - expected) <= 5 * spread + 1e-3).all(), kind


@looped("name", ["state", "zones", "controller"])
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
                        return_over="infinite", agent_sees="state+observations")  # fmt: skip


@looped(
    "memory", [ObservationMemory(1, clock=False), StateMemory(2, clock=False), ZoneMemory([[0], [1]], clock=False),
               Controller(2)]
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


@looped("memory", [ObservationMemory(2), StateMemory(1), ZoneMemory([[0]]), Controller(2, clock=True)])
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


def test_a_product_that_is_too_large_is_refused_before_it_is_made():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees="state+observations")
    with pytest.raises(veil.TooLargeError, match=r"hidden states of the 36 .* remember less"):
        MemoryPolicy.uniform(problem, StateMemory(10, clock=False))
    with pytest.raises(veil.TooLargeError, match=r"more than 2\^62 values"):
        MemoryPolicy.uniform(problem.replace(horizon=100), ObservationMemory(100))


def test_a_larger_product_is_sparse_and_right():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees="state+observations")
    policy = veil.MarkovPolicy.softmax(np.random.default_rng(2).normal(size=(36, 5)), problem)
    expected = veil.opacity(problem, policy, "exact").bits
    for memory in (StateMemory(2), ObservationMemory(4), ZoneMemory([[0], [7, 8], [35]])):
        assert isinstance(build(problem, memory).kernel, SparseKernel)
        close(veil.opacity(problem, MemoryPolicy.lift(problem, memory, policy), "exact").bits, expected)


def test_an_agent_who_sees_nothing_cannot_remember_it():
    problem = veil.gallery.load("paper-last-state").replace(agent_sees="state")
    with pytest.raises(veil.InputError, match=r"StateMemory\(k\).*agent_sees='state\+observations'"):
        build(problem, ObservationMemory(1))
