"""Whether constraints can be met together: against one linear program over all occupancies, and the explanations."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import veil
from tests.problem.test_constraints import ALL, make_problem
from tests.seeds import in_blocks
from veil.common.clock import Clock, OutOfTime
from veil.engine.compile import build
from veil.engine.feasibility import (
    Target,
    best_mixture,
    check_constraints,
    feasible_mixture,
    other_targets,
    strictest_bound,
    target,
    targets,
)
from veil.problem.constraints import Bound


def worst_slack_by_linear_program(problem: veil.Problem) -> float:
    """The largest worst slack over all policies, with a variable for each (time, hidden state, action)."""
    hidden, wanted = build(problem), targets(problem)
    size, actions, horizon = hidden.num_states, problem.num_actions, problem.horizon
    count = horizon * size * actions + size
    flow = np.arange(horizon * size * actions).reshape(horizon, size, actions)
    last = np.arange(count - size, count)
    kernel = np.asarray(hidden.kernel.stacked)
    left, right = np.zeros(((horizon + 1) * size, count + 1)), np.zeros((horizon + 1) * size)
    for time, state in itertools.product(range(horizon + 1), range(size)):
        row = time * size + state
        left[row, flow[time, state] if time < horizon else last[state]] = 1.0
        if time == 0:
            right[row] = hidden.start[state]
        else:
            left[row, flow[time - 1].ravel()] -= kernel[:, state]
    slack, free = np.zeros((len(wanted), count + 1)), np.zeros(len(wanted))
    for number, one in enumerate(wanted):
        scale = one.sign / one.unit
        for time in range(horizon):
            slack[number, flow[time].ravel()] = -scale * one.paid.discount**time * one.paid.reward.ravel()
        slack[number, last] = -scale * one.paid.discount**horizon * one.paid.terminal
        slack[number, -1], free[number] = 1.0, -scale * one.bound
    cost = np.zeros(count + 1)
    cost[-1] = -1.0
    found = linprog(cost, slack, free, left, right, bounds=[(0, None)] * count + [(None, None)])
    return -float(found.fun)


def random_problem(seed: int) -> veil.Problem:
    """Two or three constraints, about half of the sets infeasible."""
    shares = np.random.default_rng([seed, 7]).integers(20, 80, size=3)
    limits = (
        veil.Return(max=f"{shares[0]}%", reward="energy"),
        veil.Probability("F (s2 & X s1)" if seed % 2 else "G !s2", f"{shares[1]}%"),
        veil.Return(max=f"{min(99, shares[2] + 20)}%"),
    )
    return make_problem(limits[: 2 + seed % 2], seed, min_return=f"{shares[2]}%")


@in_blocks(10, 40, 10)
def test_the_largest_worst_slack_against_one_linear_program(seed: int):
    problem = random_problem(seed)
    expected, found = worst_slack_by_linear_program(problem), best_mixture(problem)
    assert found.upper >= expected - 1e-8
    assert found.slack.min() <= expected + 1e-8
    if expected > 1e-6:
        assert found.slack.min() > 0.5 * expected
        check_constraints(problem)
    elif expected < -1e-6:
        assert found.upper < 0
        with pytest.raises(veil.InfeasibleError):
            check_constraints(problem)


def test_an_infeasible_set_is_explained_and_its_relaxation_can_be_met():
    asked = make_problem(
        [veil.Return(max="5%", reward="energy"), veil.Probability("G !s2", min="95%")], min_return=None
    )
    free = veil.Return(min="1%", reward="gain")
    with pytest.raises(veil.InfeasibleError, match="together") as error:
        check_constraints(asked.replace(constraints=[*asked.constraints, free]))
    text = str(error.value)
    assert "energy ≤" in text.split("together")[0]
    assert "P(G !s2) ≥" in text.split("together")[0]
    assert "return" not in text.split("together")[0]  # it does not conflict with the others
    assert "alone, policies reach" in text
    nearest = text.split("the others kept: ")[1].split(". Relax")[0]
    bounds = {part.split()[0]: float(part.split()[-1]) for part in nearest.split(", ")}
    relaxed = [
        veil.Return(max=bounds.get("energy", targets(asked)[0].bound), reward="energy"),
        veil.Probability("G !s2", min=bounds.get("P(G", targets(asked)[1].bound)),
    ]
    check_constraints(asked.replace(constraints=[*relaxed, free]))


def test_one_impossible_constraint_is_named_alone():
    with pytest.raises(veil.InfeasibleError, match=r"no policy meets the constraint energy ≤ 0"):
        check_constraints(make_problem([veil.Return(max=0, reward="energy"), ALL[1]]))
    with pytest.raises(veil.InfeasibleError, match="min_return is 99"):
        check_constraints(make_problem(ALL, min_return=99))


def test_percentages_are_shares_of_the_way_from_the_smallest_to_the_largest():
    for share in (0, 25, 100):
        problem = make_problem([veil.Return(max=f"{share}%", reward="energy")], min_return=None)
        (one,) = targets(problem)
        smallest, largest = one.range.smallest, one.range.largest
        assert one.bound == pytest.approx(smallest + share / 100 * (largest - smallest), rel=1e-12)
        assert (one.sign, one.name, one.unit) == (-1.0, "energy", largest - smallest)
        assert one.slack(one.bound) == 0
        assert one.slack(one.bound - one.unit / 4) == pytest.approx(0.25)
        assert one.text == f"energy ≤ {one.bound:.6g}"
    assert other_targets(problem) == targets(problem)
    assert other_targets(make_problem()) == ()
    (_, energy) = targets(make_problem(ALL[:1]))
    assert other_targets(make_problem(ALL[:1]))[0].bound == energy.bound


def brute_values(problem: veil.Problem, target: Target) -> list[float]:
    """What all deterministic time-dependent policies reach."""
    hidden, paid, found = build(problem), target.paid, []
    kernel = np.asarray(hidden.kernel.stacked).reshape(hidden.num_states, problem.num_actions, -1)
    choices = list(itertools.product(range(problem.num_actions), repeat=hidden.num_states))
    states = np.arange(hidden.num_states)
    for plan in itertools.product(choices, repeat=problem.horizon):
        law, total = hidden.start, 0.0
        for time, chosen in enumerate(plan):
            total += paid.discount**time * float(law @ paid.reward[states, list(chosen)])
            law = law @ kernel[states, list(chosen)]
        found.append(total + paid.discount**problem.horizon * float(law @ paid.terminal))
    return found


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_strictest_bound_is_met_along_with_the_others(sign: float):
    """To a millionth of its range: that bound can be asked for, a little more cannot."""
    free = make_problem([ALL[1]], min_return=None)
    (other,) = targets(free)
    moved = replace(target(free, Bound("return", 0, 1.0, 0.0), is_threshold=True), sign=sign)
    spread = moved.range.largest - moved.range.smallest
    assert strictest_bound(free, moved, []) == (moved.range.largest if sign > 0 else moved.range.smallest)
    bound = strictest_bound(free, moved, [other])
    inside = best_mixture(free, (replace(moved, bound=bound), other))
    assert inside.slack.min() >= 0
    beyond = best_mixture(free, (replace(moved, bound=bound + sign * 4e-6 * spread), other))
    assert beyond.upper < 0
    with pytest.raises(veil.InfeasibleError):
        strictest_bound(free.replace(constraints=[veil.Return(max=-99, reward="energy"), ALL[1]]), moved, [other])


def least_missing_by_linear_program(problem: veil.Problem) -> float:
    """The smallest sum of missing slacks over all mixtures of deterministic policies, each a column."""
    wanted = targets(problem)
    values = np.array([brute_values(problem, one) for one in wanted])
    slacks = np.array([[one.slack(value) for value in row] for one, row in zip(wanted, values, strict=True)])
    count, size = slacks.shape[1], len(wanted)
    found = linprog(
        np.concatenate([np.zeros(count), np.ones(size)]),
        -np.hstack([slacks, np.eye(size)]),
        np.zeros(size),
        np.concatenate([np.ones(count), np.zeros(size)])[None],
        [1.0],
    )
    return float(found.fun)


@in_blocks(4, 4, 4)
def test_a_relaxation_misses_as_little_as_can_be(seed: int):
    limits = [veil.Return(max="20%", reward="energy"), veil.Return(min="70%", reward="gain")]
    problem = make_problem(limits, seed, horizon=2, min_return=None)
    expected = least_missing_by_linear_program(problem)
    found = best_mixture(problem, relax=True)
    assert -np.minimum(found.slack, 0.0).sum() == pytest.approx(expected, abs=1e-8)
    assert -found.upper <= expected + 1e-8


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_constraint_is_missed_by_more_than_the_best_mixture_misses_it(count: int):
    """Bounds that lie one range beyond what can be reached: the worst slack is -1 at best, and the bound on it is as near."""
    problem = make_problem(ALL, horizon=2)
    wanted = [replace(one, bound=one.range.largest + one.unit if one.sign > 0 else one.range.smallest - one.unit)
              for one in targets(problem)[:count]]  # fmt: skip
    assert len(wanted) == count
    found = best_mixture(problem, wanted)
    assert found.is_excluded
    assert found.slack.min() <= found.upper + 1e-12
    assert found.upper <= -1 + 1e-9
    assert found.upper - found.slack.min() <= 2e-3 * -found.upper


def test_a_clock_leaves_the_mixture_of_the_corners_found_so_far_which_is_not_kept():
    """Both of its bounds hold; it is found anew, completely, when it is asked for again."""
    problem = random_problem(3)
    whole, looks, cut = best_mixture(problem), 0, 0
    for allowed in range(problem.horizon, 10 * problem.horizon, problem.horizon):
        looks = 0

        def stop(allowed: int = allowed) -> bool:
            nonlocal looks
            looks += 1
            return looks > allowed

        part = feasible_mixture(problem.replace(), Clock(stop=stop))
        assert part.upper >= whole.upper - 1e-9
        assert part.slack.min() <= whole.upper + 1e-9
        cut += not part.complete
    assert cut
    problem = problem.replace()
    with pytest.raises(OutOfTime):
        feasible_mixture(problem, Clock(0.0))
    check_constraints(problem, Clock(0.0))  # nothing is proven
    assert feasible_mixture(problem).complete


def test_an_expired_clock_leaves_parts_of_the_explanation_out():
    problem = next(one for one in map(random_problem, range(40)) if best_mixture(one).is_excluded)
    feasible_mixture(problem)
    with pytest.raises(veil.InfeasibleError, match=r"alone, policies reach .*\. Relax these"):
        check_constraints(problem, Clock(0.0))


def test_a_constraint_says_what_its_percentage_is_a_share_of():
    problem = make_problem((veil.Return(max="40%", reward="energy"), veil.Return(min=-3.0, reward="energy")), 1)
    percentage, number = other_targets(problem)
    low, high = percentage.range.smallest, percentage.range.largest
    assert percentage.explained == f"energy ≤ {percentage.bound:.6g} (40% of the range {low:.6g} … {high:.6g})"
    assert number.explained == number.text == "energy ≥ -3"
