"""Whether constraints can be met together: against one linear program over all occupancies, and the explanations."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import veil
from tests.problem.test_constraints import ALL, make_problem
from veil.engine.feasibility import best_mixture, check_constraints, targets
from veil.engine.hidden import build


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


@pytest.mark.parametrize("seed", range(20))
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


def test_some_of_these_are_feasible_and_some_are_not():
    signs = [best_mixture(random_problem(seed)).is_excluded for seed in range(20)]
    assert 3 <= sum(signs) <= 17


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


def test_the_ends_of_each_range_can_be_asked_for():
    for limit in (veil.Return(min="100%", reward="energy"), veil.Probability("G !s2", max="0%")):
        check_constraints(make_problem([limit], min_return=None))
