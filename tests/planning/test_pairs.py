"""Planning with pairs: gradients, bounds, the least of several, a friend and a foe, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.problem.test_masks import distributions
from tests.proof.test_second_verifier import code
from veil.planning.options import SolveOptions
from veil.planning.pair_terms import make_pair_task
from veil.planning.policy_class import make_space
from veil.planning.task import Task, make_task, nearest_weights
from veil.planning.values import make_secrecy

FAST: dict[str, Any] = {"memory": "timed", "certificate": False, "starts": 3, "iterations": 150, "progress": False}


def two_sensors(seed: int = 0, **bounds: Any) -> veil.Problem:
    """A problem whose observer sees one thing, with a pair that sees another, and one that wants to know the start."""
    rng = np.random.default_rng(seed)
    model = veil.Model(distributions(rng, 3, 2, 3), rng.uniform(size=(3, 2)), distributions(rng, 3))
    mine, other = (veil.Observer(0.8 * np.eye(3)[order] + 0.2 / 3) for order in ([0, 0, 1], [0, 1, 1]))
    made = [veil.Pair("other", other, **bounds), veil.Pair("start", secret=veil.InitialState())]
    return veil.Problem(model, mine, veil.LastState([1]), 3, "20%", pairs=made)


def task_of(problem: veil.Problem, **options: str) -> Task:
    space, given = make_space(problem, "timed"), SolveOptions(method="ascent", memory="timed", **options)  # type: ignore[arg-type]
    secrecy, pairs = make_pair_task(space, given, make_secrecy(space), None)
    return make_task(space, secrecy=secrecy, pairs=pairs)


@pytest.mark.parametrize("options", [{}, {"hide": "own, other, start"}, {"task": "0.5*H(start) - 2*H(other)"}])
def test_gradients_by_differences(options: dict[str, str]) -> None:
    """Slopes of the score, of the slacks and of the augmented Lagrangian agree with differences along random directions."""
    task = task_of(two_sensors(1, min=0.3, max=0.4), **options)
    rng = np.random.default_rng(3)
    table = distributions(rng, *task.space.shape)
    direction = distributions(rng, *task.space.shape) - table
    step, multiplier = 1e-6, nearest_weights(rng.uniform(size=(1, task.num_constraints)))
    multiplier[:, len(task.pairs.least) :] = 0.7
    ends = [task.evaluate((table + sign * step * direction)[None]) for sign in (1, -1)]
    here = task.evaluate(table[None])
    pull = here.pulls(multiplier, 6.0)
    slope = here.score_slope + np.einsum("bk,bktca->btca", pull, here.slack_slope)
    merits = [float(one.merit(multiplier, 6.0)[0]) for one in ends]
    assert (merits[0] - merits[1]) / (2 * step) == pytest.approx(float(np.sum(slope[0] * direction)), abs=1e-5)
    bounds = slice(len(task.pairs.least), None)
    differences = (ends[0].slack - ends[1].slack)[0, bounds] / (2 * step)
    np.testing.assert_allclose(differences, np.einsum("ktca,tca->k", here.slack_slope[0, bounds], direction), atol=1e-6)


def test_nearest_weights() -> None:
    """They are weights, and no other weights are nearer."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 4)) * rng.uniform(0.1, 5, size=(40, 1))
    found, others = nearest_weights(points), rng.dirichlet(np.full(4, 0.3), size=(40, 200))
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    assert np.all(found >= 0)
    near = np.linalg.norm(points - found, axis=1)
    assert np.all(near <= np.linalg.norm(points[:, None] - others, axis=2).min(axis=1) + 1e-12)


def test_the_least_of_several_lies_between_its_bounds() -> None:
    """`max min` is at least the least of either optimum, and at most the smaller of the two optima."""
    problem = two_sensors(1)
    own, other, least = (veil.solve(problem, hide=hide, **FAST) for hide in ("own", "other", "own, other"))
    assert own.least_bits == own.opacity.bits
    assert other.least_bits == other.pairs[0].bits
    assert least.least_bits == min(least.opacity.bits, least.pairs[0].bits)
    alone = veil.solve(problem.pair("other"), **FAST)
    assert other.least_bits == pytest.approx(alone.opacity.bits, abs=1e-5)
    assert least.least_bits <= min(own.least_bits, other.least_bits) + 1e-9
    assert least.least_bits >= min(other.opacity.bits, other.pairs[0].bits) - 1e-9
    assert least.least_bits >= min(own.opacity.bits, own.pairs[0].bits) - 1e-9
    assert "least" in least.summary()
    short = veil.solve(problem, hide="own, other", iterations=3, starts=2)
    assert short.certificate is not None
    assert short.certificate.lower == pytest.approx(short.least_bits, abs=1e-9)
    assert least.least_bits <= short.certificate.upper < least.least_bits + 0.02
    assert "in the least of own and other" in short.summary()


def test_bounds_are_met_and_have_a_price() -> None:
    """A bound on another pair costs bits of the own one, as its price says; a bound that is out of reach is named."""
    problem = two_sensors(1)
    free, most = veil.solve(problem, **FAST), veil.solve(problem, hide="other", **FAST)
    wanted = 0.5 * (free.pairs[0].bits + most.pairs[0].bits)
    assert free.pairs[0].bits + 0.01 < wanted < most.pairs[0].bits - 0.01
    bounded = [
        veil.solve(problem.replace(pairs=[replace(problem.pairs[0], min=bits)]), **FAST)
        for bits in (wanted, wanted + 1e-3)
    ]
    assert all(one.feasible and one.pairs[0].met for one in bounded)
    assert bounded[0].pairs[0].bits == pytest.approx(wanted, abs=1e-4)
    assert bounded[0].opacity.bits <= free.opacity.bits
    cost = (bounded[0].opacity.bits - bounded[1].opacity.bits) / 1e-3
    assert bounded[0].pairs[0].price_bits == pytest.approx(cost, rel=0.05)
    strict = problem.replace(pairs=[replace(problem.pairs[0], min=most.pairs[0].bits + 0.1)])
    short: dict[str, Any] = FAST | {"iterations": 40}
    missed = veil.solve(strict, **short)
    assert missed.status is veil.Status.INFEASIBLE
    assert not missed.feasible
    assert "H(other) ≥" in missed.detail


def test_a_friend_and_a_foe() -> None:
    """A friend who may miss few bits, by a bound or by a term: the friend knows more than without, the foe no less."""
    problem = two_sensors(5)
    free = veil.solve(problem, **FAST)
    limit = free.pairs[0].bits - 0.03
    bounded = veil.solve(problem.replace(pairs=[replace(problem.pairs[0], max=limit)]), **FAST)
    assert bounded.feasible
    assert bounded.pairs[0].bits <= limit
    assert bounded.opacity.bits <= free.opacity.bits + 1e-9
    weighed = veil.solve(problem, task="-1*H(other)", **FAST)
    assert weighed.task_value == pytest.approx(-weighed.pairs[0].bits, abs=1e-12)
    score = [one.opacity.bits - one.pairs[0].bits for one in (weighed, free, bounded)]
    assert score[0] >= max(score) - 1e-6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max": 0.9}, "leaves the upper bounds of these pairs out, which are not convex: other"),
        ({"min": 0.2, "belief": veil.Belief(doubt=0.1)}, "leaves the bounds on pairs out"),
    ],
)
def test_a_certificate_says_which_bounds_it_leaves_out(changes: dict[str, Any], words: str) -> None:
    """A friend's bound and a loss are not part of the proven upper bound, and the summary says so."""
    problem = two_sensors(2)
    problem = problem.replace(pairs=[replace(problem.pairs[0], **changes)])
    solution = veil.solve(problem, "ascent", "timed", starts=2, iterations=20, certificate_time_limit=2)
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)
    assert words in solution.summary()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hide": "foe"}, "there is no pair 'foe'"),
        ({"task": "H(foe)"}, "column 1: there is no pair 'foe'"),
        ({"hide": "other", "objective": "guess"}, "objective='entropy'"),
        ({"hide": "other", "goal": "transparent"}, "goal='opaque'"),
        ({"hide": "other", "min_opacity": 0.1}, "use one"),
        ({"hide": "other", "method": "primal-dual"}, "hide: method='primal-dual' does not have this option"),
        ({"task": "H(other", "method": "ascent"}, "never closed"),
        ({"method": "game", "memory": "history"}, "pair 'start'.* cannot be told: use method='ascent'"),
        ({"features": "one-hot"}, "trained on samples"),
        ({"method": "primal-dual", "gradients": "sampled"}, "bounds on pairs need"),
    ],
)
def test_what_is_refused(options: dict[str, object], words: str) -> None:
    """Options that do not go together are refused before any work, with the remedy."""
    with pytest.raises(veil.VeilError, match=words):
        veil.solve(two_sensors(0, min=0.1), **options)  # type: ignore[arg-type]


def test_the_game_refuses_paths_beside_other_secrets_and_what_it_could_not_tell() -> None:
    problem = two_sensors().replace(pairs=[veil.Pair("path", secret=veil.Trajectory())])
    with pytest.raises(veil.InputError, match=r"pair 'path'.*a whole path or several models and another secret"):
        veil.solve(problem, "game", hide="own, path", progress=False)
    start = problem.replace(pairs=[veil.Pair("start", secret=veil.InitialState())])
    with pytest.raises(veil.InputError, match=r"pair 'own': .* cannot be told: use method='ascent'"):
        veil.solve(start, "game", hide="start", progress=False)


def test_primal_dual_keeps_bounds_on_pairs() -> None:
    """The paper's algorithm has a multiplier for each bound."""
    problem = two_sensors(1, min=0.6)
    solution = veil.solve(problem, "primal-dual", "timed", iterations=150, certificate=False)
    assert solution.feasible
    assert solution.pairs[0].met


@pytest.mark.parametrize("hide", ["own, other", "other"])
def test_the_game_of_pairs_is_proven_from_both_sides(hide: str, tmp_path: Path) -> None:
    """Its answer hides no less than time-dependent policies, comes back from its folder, and is verified there."""
    problem = two_sensors(1).replace(pairs=two_sensors(1).pairs[:1])
    best = veil.solve(problem, "game", hide=hide, progress=False)
    timed = veil.solve(problem, hide=hide, **FAST)
    assert best.certificate is not None
    assert isinstance(best.policy, veil.HistoryPolicy)
    assert best.policy.sees == tuple(hide.split(", "))
    assert timed.least_bits - 1e-3 <= best.least_bits <= best.certificate.upper
    assert best.certificate.lower == pytest.approx(best.least_bits, abs=1e-9)
    assert best.certificate.upper - best.certificate.lower <= 2e-3
    best.save(tmp_path / "result")
    assert veil.load_policy(tmp_path / "result" / "policy.safetensors") == best.policy
    assert code(tmp_path / "result") == 0


def test_a_game_of_pairs_that_does_not_fit() -> None:
    """A time-dependent policy takes its place, found on samples where one observer's sequences do not fit either."""
    problem = two_sensors(1).replace(horizon=8, pairs=two_sensors(1).pairs[:1])
    found = veil.solve(problem, "game", hide="own, other", time_limit=1, certificate=False, progress=False)
    assert "does not fit" in found.policy_class
    assert found.feasible
    longer = problem.replace(horizon=60)
    found = veil.solve(longer, "game", hide="own, other", time_limit=1, certificate=False, progress=False)
    assert "does not fit" in found.policy_class
    assert (found.feasible, found.method, found.opacity.method) == (True, "game", "sampled")
