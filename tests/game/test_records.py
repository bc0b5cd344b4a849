"""The game against observers who do not share: records, bounds over all policies, and the optimum of a convex solver."""

import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.planning.test_pairs import two_sensors
from tests.problem.test_together import random_case
from tests.proof.plain import code, saved
from tests.random_problems import distributions
from tests.seeds import in_blocks, looped
from veil.common.clock import Clock
from veil.engine.return_range import threshold
from veil.game.bounds import Bounds
from veil.game.records import Players, players_of
from veil.game.responses import AgentProblem
from veil.game.solve import solve_game
from veil.problem.apart import apart
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


def random_secrets(seed: int) -> veil.Problem:
    """The same with a secret of its own for each pair: of the last time, an earlier one, or with a memory."""
    problem, rng = random_pairs(seed), np.random.default_rng([seed, 12])
    asked = [
        veil.LastState([1]),
        veil.StateAt(int(rng.integers(problem.horizon)), [0]),
        veil.Visited({"zero": [0]}),
        veil.InitialState(),
    ]
    order = rng.permutation(len(asked)).tolist()
    pairs = [
        replace(one, secret=asked[order[number]], observer=one.observer if seed % 5 else None)
        for number, one in enumerate(problem.pairs)
    ]
    return problem.replace(pairs=pairs)


def prepared(problem: veil.Problem) -> tuple[Players, AgentProblem]:
    """The observers of all channels, with the agent who acts on what all of them see."""
    players = players_of(problem, ("own", *(one.name for one in problem.pairs)), 2**31, Clock())
    return players, AgentProblem(players.problem, players.pairs, players.table)


def convex_optimum(problem: veil.Problem, bound: float | None = None) -> float:
    """`max min_j H_j` over all policies on the hidden state and all histories, or the most of the first under a bound."""
    import cvxpy as cp  # pyright: ignore[reportMissingImports]

    players, agent = prepared(problem)
    pairs = players.pairs
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
    bits = []
    for part in players.table.parts:  # P(record, value) of one observer, from the pairs of the last time
        size, entries = len(part.entry), len(part.key)
        joint = sp.csr_array((np.ones(size), (part.entry, np.arange(size))), shape=(entries, size)) @ here
        record = part.key // part.width
        rows = sp.csr_array((record[:, None] == record).astype(float)) @ joint
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
        try:
            program.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-6, tol_gap_rel=1e-6, tol_feas=1e-6)
    assert isinstance(program.value, float)
    return program.value


def test_what_observers_see_of_what_they_share() -> None:
    """Each observation of those who share is taken apart into theirs."""
    rng = np.random.default_rng(0)
    observers = [veil.Observer(distributions(rng, 3, size)) for size in (2, 3, 2)]
    together = Together(*observers).observations.all()
    for name, parts in zip(together, shared_parts(*observers), strict=True):
        assert name == " & ".join(one.observations[part] for one, part in zip(observers, parts, strict=True))


@in_blocks(6, 12)
def test_records_hide_what_the_pairs_hide(seed: int) -> None:
    """On the tree of all histories the entropy given an observer's record is the opacity of its pair alone."""
    problem, two = random_case(seed, sees_actions=seed % 2 == 1)
    secrets = (None, None, None, None, veil.LastState([1]), veil.StateAt(1, [0]), veil.Visited({"two": [2]}))
    problem = problem.replace(pairs=[veil.Pair("two", two, secrets[seed % 7])])
    policy = veil.MarkovPolicy(distributions(np.random.default_rng([seed, 5]), 3, 2))
    players, agent = prepared(problem)
    pairs = players.pairs
    joint = agent.outcome([policy.probabilities[pairs.hidden.state[one.x]].T for one in pairs.layers[:-1]]).joint
    found = players.table.bits(joint)
    assert found[0] == pytest.approx(veil.opacity(problem, policy, "exact").bits, abs=1e-12)
    assert found[1] == pytest.approx(veil.pair_values(problem, policy, "exact")[0].bits, abs=1e-12)


def check_optimum(problem: veil.Problem, folder: Path, *, covered: bool = True) -> None:
    """A certificate of `max min`, and of the most of one pair under a bound on another, that both verifiers accept.

    The second one does not cover policies that act on what several secrets remember.
    """
    names = ("own", *(one.name for one in problem.pairs))
    wanted = convex_optimum(problem)
    check_certificate(problem, names, wanted, folder, covered=covered)
    most = solve_game(problem, hide=("p0",)).upper
    bound = min(0.5 * (wanted + most), most - 0.02)  # the last bits have no bounded price
    if len(problem.pairs) == 1 and bound > 0:
        bounded = problem.replace(pairs=[replace(problem.pairs[0], min=bound)])
        check_certificate(bounded, ("own",), convex_optimum(problem, bound), folder, covered=covered)


def check_certificate(
    problem: veil.Problem, names: tuple[str, ...], optimum: float, folder: Path, *, covered: bool
) -> None:
    """What the game finds lies within 0.002 bits around the optimum, and both of its bounds are proven."""
    found = solve_game(problem, hide=names)
    assert found.lower - 1e-5 <= optimum <= found.upper + 1e-5
    assert found.upper - found.lower <= 2e-3
    policy = found.policy()
    proof = veil.certify(problem, policy, hide=", ".join(names), game=Bounds.of(found), progress=False)
    assert optimum - 1e-5 <= proof.upper <= found.upper + 1e-9
    bits = {"own": veil.opacity(problem, policy).bits} | {
        one.name: one.bits for one in veil.pair_values(problem, policy)
    }
    assert proof.lower == pytest.approx(min(bits[name] for name in names), abs=1e-9)
    assert proof.lower >= proof.upper - 2e-3
    assert all(one.met for one in proof.pairs)
    veil.verify(proof, problem, policy)
    assert code(saved(folder, problem, policy, proof)) == 0
    if not covered:
        even = veil.MarkovPolicy.uniform(problem)
        proof = veil.certify(problem, even, hide=", ".join(names), game=Bounds.of(found), progress=False)
        assert proof.upper <= found.upper + 1e-9
        veil.verify(proof, problem, even)
        assert code(saved(folder, problem, even, proof)) == 0


def is_covered(problem: veil.Problem) -> bool:
    """Whether the secrets differ by their values at time T alone, or not at all."""
    own = problem.secret_table
    tables = [problem.only(one.name).secret_table for one in problem.pairs]
    late = all(
        one.time == own.time == problem.horizon and len(one.memory_names) == len(own.memory_names) == 1
        for one in tables
    )
    return late or all(one.time == own.time and np.array_equal(one.label, own.label) for one in tables)


@looped("seed", (1, 2, 4))
def test_the_optimum_of_a_convex_solver(seed: int, tmp_path: Path) -> None:
    """`max min` and the most under a bound lie between the bounds, which are 0.002 bits apart or less and are proven."""
    check_optimum(random_pairs(seed), tmp_path / "result")


@looped("seed", (5, 10, 11, 25))
def test_the_optimum_of_several_secrets(seed: int, tmp_path: Path) -> None:
    """The same where each pair asks something else."""
    problem = random_secrets(seed)
    check_optimum(problem, tmp_path / "result", covered=is_covered(problem))


def test_several_secrets_without_a_decision() -> None:
    """Over horizon 0 there is one policy, and what it hides is the bound."""
    problem = random_secrets(11).replace(horizon=0, min_return=None)
    groups = veil.LastState(groups={"a": [0], "b": [1]})
    problem = problem.replace(
        pairs=[replace(problem.pairs[0], secret=groups), veil.Pair("start", secret=veil.InitialState())]
    )
    names = ("own", "p0", "start")
    even = veil.MarkovPolicy.uniform(problem)
    found = solve_game(problem, hide=names)
    bits = [veil.opacity(problem, even, "exact", pair=name).bits for name in names]
    assert found.lower == pytest.approx(min(bits), abs=1e-9)
    assert found.upper == pytest.approx(min(bits), abs=2e-3)


def dear_bits(kept: float, scale: float = 1.0, min_return: float = 0.0) -> veil.Problem:
    """One decision with odds q: the own pair hides `h(0.05 + q/2)`, and its friend `h(0.4 + q/5)`, which is 1 at q = 1/2."""
    moves = np.zeros((5, 2, 5))
    moves[0] = [0, 0.55, 0.05, 0, 0.4], [0, 0.05, 0.35, 0.6, 0]
    moves[range(1, 5), :, range(1, 5)] = 1.0
    rewards = np.zeros((5, 2))
    rewards[0, 0] = scale
    model = veil.Model(moves, rewards, 0)
    friend = veil.Pair("friend", secret=veil.LastState([1, 2]), min=kept)
    observer = veil.Observer(np.ones((5, 1)))
    return veil.Problem(model, observer, veil.LastState([1]), 1, min_return * scale, pairs=[friend])


@pytest.mark.parametrize("kept", [0.999, 0.9999, 0.999999])
def test_bits_that_are_kept_may_have_any_price(kept: float) -> None:
    """The last of them cost 21, 82 and 884 bits for a bit: no policy that keeps them is missed for it."""
    pytest.importorskip("cvxpy")
    problem = dear_bits(kept)
    optimum = convex_optimum(problem, kept)
    found = solve_game(problem, hide=("own",), gap=1e-5)
    assert found.lower - 2e-5 <= optimum <= found.upper + 2e-5
    assert found.upper - found.lower <= 1e-5
    own, price = (one.weight for one in found.rules)
    assert own == 1
    assert price > 20 * (1 + 2 * (kept > 0.9995) + 30 * (kept > 0.99995))
    answer = veil.solve(problem, "game", "history", gap=1e-4, progress=False)
    assert answer.feasible
    assert answer.pairs[0].bits >= kept
    assert answer.opacity.bits == pytest.approx(optimum, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e250])
def test_the_unit_of_rewards_does_not_change_the_answer(scale: float) -> None:
    for kept, share in ((0.98, 0.9), (0.9999, 0.3)):
        one, other = (solve_game(dear_bits(kept, by, share), hide=("own",), gap=1e-4) for by in (1.0, scale))
        assert other.lower == pytest.approx(one.lower, abs=2e-4)
        assert other.upper == pytest.approx(one.upper, abs=2e-4)
        assert other.multiplier * scale == pytest.approx(one.multiplier, rel=0.2, abs=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_bits_that_no_policy_keeps_are_infeasible(scale: float) -> None:
    """At the largest return the friend keeps `h(0.6) = 0.971` bits."""
    for kept in (0.98, 0.972):
        with pytest.raises(veil.InfeasibleError, match="friend"):
            solve_game(dear_bits(kept, scale, 1.0), hide=("own",))
    assert solve_game(dear_bits(0.97, scale, 1.0), hide=("own",)).lower > 0


@pytest.mark.slow
def test_the_optimum_of_a_convex_solver_on_many_problems(tmp_path: Path) -> None:
    """The same on a hundred problems of each kind."""
    for seed in range(5, 105):
        check_optimum(random_pairs(seed), tmp_path / "result")
        problem = random_secrets(seed)
        check_optimum(problem, tmp_path / "result", covered=is_covered(problem))


def test_what_is_left_out() -> None:
    """Pairs with a belief or an upper bound have no part in the game, whose bound holds all the same; whole paths have none."""
    problem = two_sensors(1)
    wrong = problem.replace(pairs=[*problem.pairs, veil.Pair("wrong", belief=veil.Belief("uniform"))])
    own = solve_game(wrong, hide=("own",))
    both = solve_game(wrong, hide=("own", "wrong"))
    assert [one.name for one in both.rules] == ["own"]
    assert both.upper == own.upper
    friend = problem.replace(pairs=[replace(problem.pairs[0], max=0.1)])
    alone = solve_game(friend, hide=("own",))
    assert alone.upper == own.upper
    assert alone.views == {}
    path = problem.replace(pairs=[veil.Pair("path", secret=veil.Trajectory())])
    assert solve_game(path, hide=("own", "path")).upper == own.upper
    with pytest.raises(veil.InputError, match="whole path"):
        solve_game(problem.replace(secret=veil.Trajectory(), pairs=problem.pairs[:1]), hide=("own", "other"))
    for one, name in ((wrong, "wrong"), (path, "path")):
        with pytest.raises(veil.InputError, match=f"pair '{name}'.* without a belief, and not for several whole paths"):
            apart(one, ("own", name))


def test_the_threshold_is_that_of_the_problem_or_the_one_given() -> None:
    problem = random_pairs(1)
    own = threshold(problem)
    assert own is not None
    for given, expected in ((None, own), (own / 2, own / 2)):
        found = solve_game(problem, hide=("own", "p0"), threshold=given, gap=0.1)
        assert found.threshold == expected
        assert found.expected_return >= expected
        assert 0 < found.lower <= found.upper
