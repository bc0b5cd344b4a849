"""The default solver, through `veil.solve`: feasible without tolerance, repeatable, and as good as a search can tell."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.test_return_range import harvest
from tests.planning.small_problems import drawn, random_problem, tiny_problem
from tests.unproven import solve
from veil.common.clock import UNLIMITED, Clock
from veil.engine.return_range import max_return
from veil.planning import ascent
from veil.planning.ascent import Ascent, State, first_order_gain, lengths, num_starts, repair
from veil.planning.best_returns import best_stationary_return
from veil.planning.options import MemoryName
from veil.planning.policy_class import make_space
from veil.planning.starts import make_starts, richest_table
from veil.planning.task import make_task
from veil.problem.return_rounding import return_rounding
from veil.proof.feasibility import reaches_threshold

QUICK: dict[str, Any] = {"starts": 8, "iterations": 150}


def reaches(problem: veil.Problem, found: veil.Solution) -> bool:
    """Whether the policy's own return is at the threshold or above, in exact arithmetic where floats cannot tell."""
    assert found.threshold is not None
    return found.expected_return >= found.threshold and reaches_threshold(problem, found.policy, -np.inf)


# Feasible, repeatable, stationary


@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1), veil.Controller(2)])
def test_answers_are_exactly_feasible(memory):
    for seed in (0, 1, 4):
        problem = random_problem(seed)
        found = solve(problem, memory=memory, starts=3, iterations=50)
        assert found.feasible
        assert found.threshold == problem.min_return
        assert reaches(problem, found)
        assert found.expected_return == veil.expected_return(problem, found.policy)
        assert found.opacity.method == "exact"


def test_the_return_stated_is_the_return_of_the_policy():
    for seed in range(8):
        problem = random_problem(seed)
        found = solve(problem, starts=2, iterations=10)
        assert found.expected_return == veil.expected_return(problem, found.policy)


def test_a_threshold_of_the_largest_return_is_met():
    for seed in (1, 5):
        problem = random_problem(seed)
        stationary = make_space(problem).policy(richest_table(make_space(problem)))
        returns: list[tuple[MemoryName, float]] = [
            ("timed", max_return(problem)),
            ("markov", veil.expected_return(problem, stationary) - return_rounding(problem)),
        ]
        for memory, largest in returns:
            hard = problem.replace(min_return=largest)
            found = solve(hard, memory=memory, **QUICK)
            assert found.feasible
            assert reaches(hard, found)


@pytest.mark.parametrize("seed", [8, 14, 15, 28])
def test_all_of_the_range_may_be_asked_for(seed: int):
    problem = random_problem(seed).replace(min_return="100%")
    found = solve(problem, memory="timed", starts=2, iterations=10)
    assert found.feasible
    assert found.threshold == max_return(problem)
    assert reaches(problem, found)


@pytest.mark.parametrize("seed", [0, 1, 8, 14])
def test_a_class_that_sums_in_another_order_may_be_asked_for_all_of_the_range(seed: int):
    """However each class sums it up, the largest return can be asked for, and is not lowered."""
    problem = random_problem(seed).replace(min_return="100%")
    for memory in (veil.StateMemory(1), veil.Controller(2, clock=True)):
        found = solve(problem, memory=memory, starts=1, iterations=5)
        assert found.feasible
        assert found.threshold == max_return(problem)
        assert reaches(problem, found)


def test_a_return_that_every_policy_has_is_no_constraint():
    problem = random_problem(3)
    model = veil.Model(
        problem.model.matrices, np.ones((problem.num_states, problem.num_actions)), problem.model.initial
    )
    assert problem.horizon == 4
    found = solve(problem.replace(model=model, min_return=4.0), starts=2, iterations=10)
    assert found.feasible
    assert found.expected_return == found.threshold == 4.0
    free = solve(problem.replace(model=model, min_return=None), starts=2, iterations=10)
    assert found.opacity.bits == pytest.approx(free.opacity.bits, abs=1e-9)


def test_a_return_that_actions_do_not_change_is_no_constraint_but_for_rounding():
    """Both actions do the same, so every policy earns the same and rounds it in its own way."""
    rng = np.random.default_rng(0)
    transitions = np.repeat(rng.dirichlet(np.ones(4), size=(4, 1)), 2, axis=1)
    model = veil.Model(transitions, np.repeat(rng.normal(size=(4, 1)), 2, axis=1), rng.dirichlet(np.ones(4)))
    problem = veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(3), size=4)), veil.LastState({0}), 5)
    earned = veil.expected_return(problem, veil.MarkovPolicy.uniform(problem))
    for wanted in np.nextafter(earned, np.inf), earned, np.nextafter(earned, -np.inf):
        found = solve(problem.replace(min_return=float(wanted)), starts=2, iterations=10)
        assert found.feasible
        assert found.threshold == pytest.approx(wanted, abs=1e-14)
        assert reaches(problem, found)
        assert found.price_bits == 0


@pytest.mark.parametrize("settings", [{}, {"memory": "timed"}, {"objective": "guess"}, {"goal": "transparent"}])
def test_the_same_seed_gives_the_same_bytes(settings: dict[str, Any]):
    problem = random_problem(5)
    first, again = (solve(problem, seed=1, starts=4, iterations=60, **settings) for _ in range(2))
    assert first.policy.digest() == again.policy.digest()
    assert first.opacity == again.opacity
    assert first.expected_return == again.expected_return
    assert first.status is again.status
    np.testing.assert_array_equal(first.history.rows()[:, :5], again.history.rows()[:, :5])


def test_converged_answers_are_stationary():
    converged = 0
    for seed in (0, 1, 4):
        found = solve(random_problem(seed), starts=8)
        if found.status is veil.Status.CONVERGED:
            assert 0 <= found.stationarity_bits <= 1e-3
            converged += 1
    assert converged >= 2


@pytest.mark.parametrize("seed", [2, 59, 62])
def test_an_optimum_is_called_converged_and_has_its_price(seed: int):
    """Seeds whose answer is optimal and on the threshold, where one more unit of return costs 1.65, 0.82 and 1.54 bits."""
    problem = random_problem(seed)
    found = solve(problem)
    assert found.expected_return == pytest.approx(found.threshold, abs=1e-5)
    assert found.status is veil.Status.CONVERGED
    assert found.price_bits == pytest.approx({2: 1.651, 59: 0.820, 62: 1.537}[seed], abs=0.01)


def test_the_price_is_what_the_next_unit_of_return_costs():
    priced = 0
    for seed in (4, 12, 26):
        problem = random_problem(seed)
        found = solve(problem)
        if found.status is not veil.Status.CONVERGED:
            continue
        step = 0.01 * make_task(make_space(problem)).unit
        more = solve(problem.replace(min_return=found.expected_return + step), start=found.policy, **QUICK)
        slope = (found.opacity.bits - more.opacity.bits) / step
        assert found.threshold is not None
        if found.expected_return > found.threshold + 1e-3:
            assert found.price_bits == pytest.approx(0, abs=1e-3)
            continue
        assert found.price_bits == pytest.approx(slope, rel=0.35, abs=0.02)
        priced += 1
    assert priced >= 2


# As good as brute force


def best_on_grid(problem: veil.Problem, memory: str, points: int) -> float:
    """The most bits of any feasible table on a grid; two actions."""
    space = make_space(problem, memory)
    task, axis = make_task(space), np.linspace(0, 1, points)
    rows = space.shape[0] * space.shape[1]
    first = np.array(list(itertools.product(axis, repeat=rows)))
    tables = np.stack([first, 1 - first], axis=-1).reshape(-1, *space.shape)
    kept = tables[np.all(task.slacks(tables) >= 0, axis=1)]
    return float(task.secrecy(kept, UNLIMITED)[0].max())


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 30))])
@pytest.mark.parametrize(("states", "memory", "points"), [(2, "markov", 201), (3, "markov", 31), (2, "timed", 13)])
def test_tiny_problems_are_solved(seed: int, states: int, memory: MemoryName, points: int):
    problem = tiny_problem(seed, states=states, share=(0.2, 0.6, 0.95)[seed % 3])
    found = solve(problem, memory=memory)
    assert reaches(problem, found)
    assert found.opacity.bits >= best_on_grid(problem, memory, points) - 1e-3


# Against the paper's algorithm


def compare(seed: int, **settings) -> float:
    """By how many bits the paper's algorithm is better; ascent must be feasible."""
    problem = random_problem(seed)
    ours = solve(problem, "ascent", **settings)
    theirs = solve(problem, "primal-dual", step=2.0, multiplier_step=1.0, iterations=300, optimizer=None)
    assert ours.feasible
    assert reaches(problem, ours)
    return theirs.opacity.bits - ours.opacity.bits if theirs.feasible else -np.inf


def test_never_worse_than_primal_dual():
    worst = max((compare(seed, **QUICK), seed) for seed in range(3))
    assert worst[0] <= 1e-3, f"seed {worst[1]}"


@pytest.mark.slow
def test_never_worse_than_primal_dual_on_many():
    worst = max((compare(seed), seed) for seed in range(150))
    assert worst[0] <= 1e-3, f"seed {worst[1]}"


@pytest.mark.parametrize("seed", [16, 40])
def test_never_worse_than_primal_dual_in_hard_cases(seed: int):
    """Where a climb leaves the feasible side it comes to rest in a poor local maximum of the return (16), or all of those
    that lead at first are in one basin (40)."""
    assert compare(seed) <= 1e-3


def test_a_return_with_a_poor_local_maximum():
    """Every local optimum of the constrained problem has 0.3724 bits, as 25 runs of a plain SQP method find."""
    assert solve(random_problem(16)).opacity.bits >= 0.371


# Objectives and goals


def leakage(problem: veil.Problem, policy) -> float:
    return veil.opacity(problem, policy, "exact").leakage_bits


def chance(problem: veil.Problem, policy) -> float:
    return veil.measures.joint_table(problem, policy).guess_probability


@pytest.mark.parametrize("measure", [leakage, chance])
def test_each_objective_is_best_in_its_own_measure(measure):
    objective: Any = {leakage: "leakage", chance: "guess"}[measure]
    better = 0
    for seed in (0, 4):
        problem = random_problem(seed)
        own, plain = solve(problem, objective=objective, **QUICK), solve(problem, **QUICK)
        assert reaches(problem, own)
        assert own.objective == objective
        assert measure(problem, own.policy) <= measure(problem, plain.policy) + 1e-3
        better += measure(problem, own.policy) < measure(problem, plain.policy) - 1e-4
    assert better > 0


def test_to_show_is_to_leave_less_uncertain():
    for seed in (1, 4, 5):
        problem = random_problem(seed)
        found = solve(problem, goal="transparent", **QUICK)
        uniform = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact").bits
        assert reaches(problem, found)
        assert found.goal == "transparent"
        assert found.opacity.bits <= uniform + 1e-9
        assert found.opacity.bits <= solve(problem, **QUICK).opacity.bits + 1e-9


@pytest.mark.parametrize("seed", [1, 2, 12])
def test_bits_are_kept_and_the_return_is_the_best(seed: int):
    problem = random_problem(seed).replace(min_return=None)
    most = solve(problem, **QUICK).opacity.bits
    found = solve(problem, min_opacity=0.9 * most, **QUICK)
    assert found.feasible
    assert found.opacity.bits >= 0.9 * most
    assert found.opacity.bits <= 0.9 * most + 1e-4  # nothing is hidden that could have been earned with
    more = problem.replace(min_return=found.expected_return + 0.02)
    assert solve(more, **QUICK).opacity.bits < 0.9 * most
    little = solve(problem, min_opacity=0.0, **QUICK)
    assert little.expected_return == pytest.approx(best_stationary_return(problem)[0], abs=1e-9)


def test_bits_are_kept_without_tolerance():
    problem = random_problem(11).replace(min_return=None)
    most = solve(problem, **QUICK).opacity.bits
    for share in (0.7, 0.9, 0.99):
        found = solve(problem, min_opacity=share * most, **QUICK)
        assert found.opacity.bits >= share * most


@pytest.mark.parametrize(("seed", "share"), [(0, 0.99), (9, 0.9), (10, 0.99), (13, 0.99)])
def test_bits_that_a_known_policy_keeps_are_kept(seed: int, share: float):
    problem = random_problem(seed).replace(min_return=None)
    free = solve(problem, **QUICK)
    found = solve(problem, min_opacity=share * free.opacity.bits, **QUICK)
    assert found.feasible
    assert found.opacity.bits >= share * free.opacity.bits
    assert found.expected_return >= free.expected_return - 1e-9


def test_all_that_can_be_hidden_may_be_asked_for():
    """Two rooms that nothing tells apart, entered at will: one bit, by the uniform policy alone."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, np.arange(2), np.arange(2)] = 1
    model = veil.Model(transitions, [[0.0, 1.0]] * 2, 0)
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), 1)
    for bits in (1.0, 1 - 1e-9):
        found = solve(problem, min_opacity=bits, **QUICK)
        assert found.feasible
        assert found.opacity.bits >= bits
        assert found.expected_return == pytest.approx(0.5, abs=1e-4)


def test_bits_that_are_kept_leave_no_threshold():
    assert solve(random_problem(1), min_opacity=0.1, starts=2, iterations=10).threshold is None


def test_bits_that_nobody_can_keep():
    found = solve(random_problem(0), min_opacity=0.999 + np.log2(5), starts=4, iterations=30)
    assert not found.feasible
    assert found.status is veil.Status.INFEASIBLE
    assert "no policy was found that hides" in found.detail


def test_every_start_state_reaches_the_threshold():
    checked = 0
    options: dict[str, Any] = QUICK | {"iterations": 90}
    for seed in range(20):
        problem = random_problem(seed)
        if np.count_nonzero(problem.model.initial) < 2:
            continue
        space = make_space(problem, "timed")
        own = make_task(space, per_start=True).slacks(richest_table(space)[None])
        assert isinstance(problem.min_return, float)
        least = problem.min_return + float(own.min()) * make_task(space).unit
        easy = problem.replace(min_return=least - 0.05)
        found = solve(easy, memory="timed", per_start=True, **options)
        assert found.feasible
        task = make_task(make_space(easy, "timed"), per_start=True)
        assert isinstance(found.policy, veil.TimedPolicy)
        assert np.all(task.slacks(found.policy.table[None]) >= 0)
        average = solve(easy, memory="timed", **options)
        assert found.opacity.bits <= average.opacity.bits + 1e-3
        checked += 1
        if checked == 2:
            break
    assert checked == 2


# Classes of policies


def test_more_memory_is_never_worse():
    for seed in (0, 5):
        problem = random_problem(seed)
        markov = solve(problem, **QUICK)
        timed = solve(problem, memory="timed", start=markov.policy, **QUICK)
        past = solve(problem, memory=veil.StateMemory(1), start=timed.policy, **QUICK)
        assert reaches(problem, timed)
        assert reaches(problem, past)
        assert timed.opacity.bits >= markov.opacity.bits - 1e-6
        assert past.opacity.bits >= timed.opacity.bits - 1e-6


@pytest.mark.parametrize("iterations", [1, 3, 20])
def test_a_search_is_never_worse_than_where_it_begins(iterations: int):
    problem = random_problem(5)
    good = solve(problem, **QUICK)
    found = solve(problem, start=good.policy, starts=1, iterations=iterations)
    assert found.opacity.bits >= good.opacity.bits - 1e-9


def test_without_a_threshold_the_most_is_hidden():
    problem = random_problem(4)
    free = solve(problem.replace(min_return=None), **QUICK)
    assert free.feasible
    assert free.threshold is None
    assert free.price_bits == 0
    assert free.opacity.bits >= solve(problem, **QUICK).opacity.bits - 1e-6


def test_a_share_of_the_range_may_be_asked_for():
    problem = random_problem(4).replace(min_return="80%")
    found = solve(problem, memory="timed", **QUICK)
    assert found.feasible
    assert reaches(problem, found)
    assert found.threshold is not None
    assert found.threshold < max_return(problem)


def test_what_only_a_clock_can_reach():
    problem = harvest(3.5)
    found = solve(problem, **QUICK)
    assert found.status is veil.Status.INFEASIBLE
    assert not found.feasible
    assert found.expected_return == pytest.approx(3.125, abs=1e-9)
    assert "memory='timed'" in found.detail
    assert "3.125" in found.detail
    assert "The constraint is not met" in found.summary()
    timed = solve(problem, memory="timed", **QUICK)
    assert timed.feasible
    assert reaches(problem, timed)
    controlled = solve(problem, memory=veil.StateMemory(1), **QUICK)
    assert reaches(problem, controlled)


def test_what_nothing_can_reach_is_refused_at_once():
    for method in ("ascent", "primal-dual"):
        with pytest.raises(veil.InfeasibleError, match="no policy reaches more than 4"):
            solve(harvest(4.5), method)


def test_a_problem_without_decisions():
    model = veil.Model(np.full((2, 2, 2), 0.5), np.ones((2, 2)), [0.25, 0.75], terminal_rewards=[4.0, 8.0])
    problem = veil.Problem(model, veil.Observer([[0.75, 0.25], [0.25, 0.75]]), veil.LastState({1}), 0, 7.0)
    found = solve(problem, **QUICK)
    assert found.feasible
    assert found.expected_return == 7
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits)


def test_a_clock_without_decisions():
    model = veil.Model(np.full((2, 2, 2), 0.5), np.ones((2, 2)), [0.25, 0.75])
    problem = veil.Problem(model, veil.Observer([[0.75, 0.25], [0.25, 0.75]]), veil.LastState({1}), 0)
    assert solve(problem, memory="timed").feasible


# Inputs and limits


def test_settings_that_make_no_sense_are_refused_together():
    with pytest.raises(veil.InputError, match="4 defects"):
        solve(random_problem(0), goal="hide", objective="bits", starts=0, time_limit=-1.0)  # type: ignore[arg-type]
    with pytest.raises(veil.InputError, match="no option 'stepp': did you mean 'step'"):
        solve(random_problem(0), "primal-dual", stepp=2)  # pyright: ignore[reportCallIssue]
    with pytest.raises(veil.InputError, match="step: method='auto' does not have this option, only 'primal-dual'"):
        solve(random_problem(0), step=2)


def test_a_bad_limit_is_no_defect_of_a_method_that_is_not_used():
    with pytest.raises(veil.InputError, match="solve: 2 defects"):
        solve(random_problem(0), iterations=-1, starts=0)


def test_limits_are_kept():
    problem = random_problem(5)
    for iterations in (0, 1, 2, 5, 17):
        found = solve(problem, starts=3, iterations=iterations)
        assert found.iterations <= iterations
        assert reaches(problem, found)
    late = solve(problem, time_limit=0.0)
    assert late.status in (veil.Status.TIME_LIMIT, veil.Status.NOT_SEARCHED)
    assert reaches(problem, late)
    told = []
    solve(problem, starts=3, iterations=20, progress=told.append)
    assert told[0].iteration == 1
    assert told[-1].of == 20


def test_an_interrupt_returns_the_best_so_far():
    problem = random_problem(5)

    def stop(news) -> None:
        if news.iteration == 40:
            raise KeyboardInterrupt

    found = solve(problem, starts=4, progress=stop)
    assert found.status is veil.Status.INTERRUPTED
    assert reaches(problem, found)
    assert found.iterations == 39


# Parts


def test_lengths_share_out_the_iterations():
    task = make_task(make_space(random_problem(0)))
    assert sum(lengths(task, None)) == 540
    for iterations in range(1, 200):
        climb, settle, polish = lengths(task, iterations)
        assert climb + settle + polish == iterations
        assert climb >= 1
        assert min(settle, polish) >= 0


def test_more_starts_where_evaluations_are_cheap():
    task = make_task(make_space(random_problem(0)))
    assert num_starts(task) == 36
    task.secrecy.cost_seconds = 10.0
    assert num_starts(task) == 4


def test_of_those_that_found_the_same_only_one_is_kept():
    space = make_space(random_problem(4))
    task = make_task(space)
    tables = drawn(space, 6, 1)
    doubled = np.repeat(tables, 2, axis=0)
    values = task.evaluate(doubled)
    kept = ascent._distinct(values, np.zeros((12, 1)), 4)
    assert len(kept) == 4
    assert len({index // 2 for index in kept.tolist()}) == 4
    assert len(ascent._distinct(task.evaluate(doubled[:2]), np.zeros((2, 1)), 4)) == 2  # the rest is filled up
    # What is short of the threshold is charged for it.
    worth = values.score + np.minimum(values.slack[:, 0], 0)
    assert kept[0] == np.argmax(worth)


def test_half_of_the_starts_come_from_the_feasible_side():
    space = make_space(random_problem(4))
    safe, starts = richest_table(space), np.zeros((5, *space.shape))
    for bits, expected in ((None, [0, 1, 0, 1, 0]), (0.1, [0] * 5)):
        task = make_task(space, min_opacity=bits)
        state = Ascent(task, starts, safe[None]).begin()
        np.testing.assert_array_equal(state.multiplier[:, 0] > 0, expected)


def test_a_repaired_table_is_feasible_and_near():
    for seed in range(8):
        problem = random_problem(seed)
        space = make_space(problem)
        task, safe = make_task(space), richest_table(space)
        for table in drawn(space, 4, seed, sharp=2.0):
            found = repair(task, table, safe)
            assert np.all(task.slacks(found[None]) >= 0)
            assert task.threshold is not None
            assert veil.expected_return(problem, space.policy(found)) >= task.threshold
            if np.all(task.slacks(table[None]) >= 0):
                np.testing.assert_array_equal(found, table)
            np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-14)


def test_the_first_order_gain_is_never_negative_and_nothing_at_a_vertex_that_is_best():
    space = make_space(random_problem(1))
    task = make_task(space)
    rng = np.random.default_rng(0)
    for table in drawn(space, 5):
        assert first_order_gain(task, table, rng.normal(size=space.shape)) >= 0
    slope = rng.normal(size=space.shape)
    best = (slope == slope.max(axis=-1, keepdims=True)).astype(float)
    assert first_order_gain(task, best, slope) == 0


def test_a_state_is_its_arrays():
    problem = random_problem(5)
    space = make_space(problem)
    task, safe = replace(make_task(space), clock=Clock(iterations=40)), richest_table(space)
    method = Ascent(task, make_starts(space, safe, 4, 0), safe[None])
    state = method.begin()
    while not method.is_done(state):
        state = method.advance(state)
        copied = State.of(state.arrays())
        for name, value in state.arrays().items():
            np.testing.assert_array_equal(copied.arrays()[name], value)
    assert state.best_score > -np.inf
    assert len(method.candidates(state)) == 2


# The paper's problems


def test_paper_last_state():
    problem = veil.gallery.load("paper-last-state", min_return=0.3)
    found = solve(problem)
    assert found.opacity.bits >= 0.949
    assert reaches(problem, found)


@pytest.mark.slow
def test_paper_initial_state():
    problem = veil.gallery.load("paper-initial-state", min_return=0.3)
    found = solve(problem)
    assert found.opacity.bits >= 0.319
    assert reaches(problem, found)
    seen = problem.observer
    observer = veil.Observer(seen.emissions, seen.observations.all(), seen.sees_actions, sees_initial=False)
    blind = problem.replace(observer=observer)
    found = solve(blind)
    assert found.opacity.bits >= 1.718
    assert reaches(blind, found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("least", "memory", "bits"), [(0.308, "markov", 0.645), (0.685, "markov", 0.50), (0.685, "timed", 0.67)]
)
def test_later_grid(least: float, memory: MemoryName, bits: float):
    problem = veil.gallery.load("later-last-state", min_return=least)
    found = solve(problem, memory=memory)
    assert found.opacity.bits >= bits
    assert reaches(problem, found)
