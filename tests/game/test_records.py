"""The game against observers who do not share: records, bounds over all policies, and the optimum of a convex solver."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.planning.test_pairs import two_sensors
from tests.problem.test_masks import distributions
from tests.problem.test_together import random_case
from veil.common.logs import conditional_entropy_bits
from veil.engine.hidden import build
from veil.engine.return_range import threshold
from veil.game.pairs import FullHistory, Pairs, make_pairs
from veil.game.records import records_of, solve_records_game
from veil.game.responses import AgentProblem
from veil.problem.together import Together, shared_parts


def random_pairs(seed: int) -> veil.Problem:
    """Two or three observers of one secret, with a threshold on the return, sometimes with a bound on one of them."""
    rng = np.random.default_rng([seed, 11])
    states, horizon = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    model = veil.Model(distributions(rng, states, 2, states), rng.uniform(size=(states, 2)), distributions(rng, states))
    shown = rng.integers(2, size=(2 + (seed % 4 == 0 and horizon < 3), states))
    own, *others = [veil.Observer(0.7 * np.eye(2)[one] + 0.15) for one in shown]
    secret = veil.LastState([0]) if seed % 3 else veil.InitialState()
    pairs = [veil.Pair(f"p{number}", one) for number, one in enumerate(others)]
    return veil.Problem(model, own, secret, horizon, "30%", pairs=pairs)


def prepared(problem: veil.Problem) -> tuple[Pairs, AgentProblem, list[sp.csr_array]]:
    observers = [problem.observer, *(one.observer for one in problem.pairs if one.observer is not None)]
    joint = problem.replace(pairs=(), observer=Together(*observers))
    pairs = make_pairs(build(joint), FullHistory())
    return pairs, AgentProblem(joint, pairs), records_of(pairs, joint.observer, observers)


def convex_optimum(problem: veil.Problem, bound: float | None = None) -> float:
    """`max min_j H_j` over all policies on the hidden state and all histories, or the most of the first under a bound."""
    import cvxpy as cp  # pyright: ignore[reportMissingImports]

    pairs, agent, records = prepared(problem)
    actions, flows, constraints, gained = agent.num_actions, [], [], 0.0
    here = pairs.start
    for time, layer in enumerate(pairs.layers[:-1]):
        flow = cp.Variable(actions * len(layer), nonneg=True)
        total = sp.hstack([sp.eye_array(len(layer))] * actions)
        blocked = np.flatnonzero(~agent.available[:, layer.x].ravel())
        constraints += [total @ flow == here] + ([flow[blocked] == 0] if len(blocked) else [])
        gained = gained + agent.reward(time).ravel() @ flow
        here = pairs.steps[time].T @ flow
        flows.append(flow)
    gained = gained + agent.terminal @ here
    size, values = pairs.reachable.shape
    leaves = sp.csr_array(
        (np.ones(len(pairs.leaf)), (pairs.leaf, np.arange(len(pairs.leaf)))), shape=(size * values, len(pairs.leaf))
    )
    bits = []
    for record in records:
        joint = sp.kron(record, sp.eye_array(values)) @ (leaves @ here)
        rows = sp.kron(sp.eye_array(joint.size // values), np.ones((values, values))) @ joint
        bits.append(-cp.sum(cp.rel_entr(joint, rows)) / math.log(2))
    wanted = threshold(problem)
    assert wanted is not None
    constraints.append(gained >= wanted)
    if bound is None:
        least = cp.Variable()
        constraints += [one >= least for one in bits]
    else:
        least = bits[0]
        constraints.append(bits[1] >= bound)
    program = cp.Problem(cp.Maximize(least), constraints)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        program.solve(solver=cp.CLARABEL)
    assert isinstance(program.value, float)
    return program.value


def test_what_observers_see_of_what_they_share() -> None:
    """Each observation of those who share is taken apart into theirs."""
    rng = np.random.default_rng(0)
    observers = [veil.Observer(distributions(rng, 3, size)) for size in (2, 3, 2)]
    together = Together(*observers).observations.all()
    for name, parts in zip(together, shared_parts(*observers), strict=True):
        assert name == " & ".join(one.observations[part] for one, part in zip(observers, parts, strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_records_hide_what_the_pairs_hide(seed: int) -> None:
    """On the tree of all histories the entropy given an observer's record is the opacity of its pair alone."""
    problem, two = random_case(seed, sees_actions=seed % 2 == 1)
    problem = problem.replace(pairs=[veil.Pair("two", two)])
    policy = veil.MarkovPolicy(distributions(np.random.default_rng([seed, 5]), 3, 2))
    pairs, agent, records = prepared(problem)
    joint = agent.outcome([policy.probabilities[pairs.hidden.state[one.x]].T for one in pairs.layers[:-1]]).joint
    found = [conditional_entropy_bits(one @ joint) for one in records]
    assert found[0] == pytest.approx(veil.opacity(problem, policy, "exact").bits, abs=1e-12)
    assert found[1] == pytest.approx(veil.pair_values(problem, policy, "exact")[0].bits, abs=1e-12)


def check_optimum(seed: int) -> None:
    problem = random_pairs(seed)
    names = ("own", *(one.name for one in problem.pairs))
    found = solve_records_game(problem, names)
    wanted = convex_optimum(problem)
    assert found.lower - 1e-6 <= wanted <= found.upper + 1e-6
    assert found.upper - found.lower <= 2e-3
    weights = list(found.weights.values())
    assert sum(weights) == pytest.approx(1)
    if len(problem.pairs) == 1:
        bound = 0.5 * (wanted + solve_records_game(problem, ("p0",)).upper) - 1e-3
        bounded = problem.replace(pairs=[replace(problem.pairs[0], min=max(bound, 0.0))])
        under = solve_records_game(bounded, ("own",))
        assert under.lower - 1e-5 <= convex_optimum(problem, max(bound, 0.0)) <= under.upper + 1e-5
        assert under.upper - under.lower <= 2e-3


@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_of_a_convex_solver(seed: int) -> None:
    """`max min` and the most under a bound lie between the bounds, which are 0.002 bits apart or less."""
    check_optimum(seed)


@pytest.mark.slow
def test_the_optimum_of_a_convex_solver_on_many_problems() -> None:
    """The same on a hundred problems."""
    for seed in range(5, 105):
        check_optimum(seed)


def test_what_is_refused() -> None:
    """Pairs of different secrets have no such bound, nor have beliefs and whole paths."""
    problem = two_sensors(1)
    with pytest.raises(veil.InputError, match="pairs of one secret"):
        solve_records_game(problem, ("own", "start"))
    with pytest.raises(veil.InputError, match="whole path"):
        solve_records_game(problem.replace(secret=veil.Trajectory()), ("own", "other"))
