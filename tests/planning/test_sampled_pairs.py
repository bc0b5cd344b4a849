"""Pairs on samples: values, gradients and answers against those on all sequences."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn
from tests.planning.test_pairs import two_sensors
from veil.common.clock import UNLIMITED, Clock
from veil.common.errors import InputError, TooLargeError
from veil.measure.loss import loss_bits, sampled_loss
from veil.measure.pairs import PairValue
from veil.measure.result import Opacity
from veil.planning import pair_terms
from veil.planning.options import SolveOptions
from veil.planning.pair_terms import make_pair_task
from veil.planning.policy_class import make_space
from veil.planning.sampled_points import SampledPoints
from veil.planning.sampled_values import SampledLoss, SampleSecrecy
from veil.planning.starts import richest_table
from veil.planning.task import Task, make_task
from veil.planning.values import make_secrecy

SIGMAS = 5.0
FAST: dict[str, Any] = {"memory": "timed", "evaluation": "sampled", "certificate": False, "progress": False}
NAIVE = veil.Pair("naive", belief=veil.Belief("uniform", doubt=0.1), min=0.2)


def tasks(problem: veil.Problem, **options: Any) -> tuple[Task, Task]:
    """A task on all sequences, and the same on samples."""
    space, found = make_space(problem, "timed"), []
    for evaluation in ("exact", "sampled"):
        given = SolveOptions(method="ascent", memory="timed", evaluation=evaluation, **options)
        own, pairs = make_pair_task(space, given, make_secrecy(space, evaluation=evaluation), None)
        found.append(make_task(space, secrecy=own, pairs=pairs))
    return found[0], found[1]


def problem_of(seed: int) -> veil.Problem:
    problem = two_sensors(seed, min=0.3, max=0.4)
    return problem.replace(pairs=[*problem.pairs, NAIVE])


@pytest.mark.parametrize(
    "options", [{}, {"hide": "own, other, start, naive"}, {"task": "0.5*H(start) - 2*H(other) + H(naive)"}]
)
def test_values_and_gradients_are_those_on_all_sequences(options: dict[str, Any]) -> None:
    """Estimates of score, slacks and gradients along a direction lie within their errors of the exact ones."""
    exact, sampled = tasks(problem_of(1), **options)
    assert [one.kind for one in sampled.pairs.secrecies if one is not None] == ["sampled"] * len(
        [one for one in exact.pairs.secrecies if one is not None]
    )
    points = SampledPoints(sampled, richest_table(sampled.space), SolveOptions(method="ascent", memory="timed"))
    table, other = drawn(sampled.space, 2, seed=4)
    direction = points._used(other - table)
    wanted = exact.evaluate(table[None])
    batches = [points._evaluate(table, 1500, seed) for seed in range(24)]
    # A bound is kept by a standard error of its estimate: without the bits of pairs the slacks are exact.
    least, bounds = len(sampled.pairs.least), len(sampled.pairs.bounds)
    slopes = np.array([[np.sum(direction * one) for one in (score, *slack)] for _, score, slack in batches])
    expected = [np.sum((other - table) * one) for one in (wanted.score_slope[0], *wanted.slack_slope[0])]
    error = slopes.std(axis=0, ddof=1) / len(batches) ** 0.5
    np.testing.assert_array_less(np.abs(slopes.mean(axis=0) - expected), SIGMAS * error + 1e-9)
    slacks = np.array([point.slack for point, _, _ in batches])
    margin = slacks[:, least : least + bounds].std(axis=0, ddof=1)  # about a standard error of a batch
    found = slacks[:, least : least + bounds].mean(axis=0) + margin
    np.testing.assert_allclose(found, wanted.slack[0, least : least + bounds], atol=float(np.max(margin, initial=0.0)))
    np.testing.assert_allclose(slacks.mean(axis=0)[least + bounds :], wanted.slack[0, least + bounds :], atol=1e-9)
    scores = np.array([point.score for point, _, _ in batches])
    # The least of several estimates is below the least of their means by less than an error of one batch.
    assert scores.mean() == pytest.approx(
        float(wanted.score[0]), abs=float(2 * scores.std() if least else scores.std())
    )


def test_a_sampled_loss_has_its_error() -> None:
    """The loss on drawn sequences, for measuring and for searching, and the error of a rule that excludes what happens."""
    problem = problem_of(3)
    policy = veil.MarkovPolicy(np.full((3, 2), [0.3, 0.7]))
    belief = NAIVE.belief
    assert belief is not None
    exact = loss_bits(problem, policy, belief)
    bits, error = sampled_loss(problem, policy, belief, sequences=4000, seed=2)
    assert 0 < error < 0.05
    assert abs(bits - exact) < SIGMAS * error
    space = make_space(problem.pair("naive"), "timed")
    found = SampledLoss(space, belief, 100, 0, "").estimate(space.table_of(policy), 4000, 7, UNLIMITED)
    assert abs(found.bits - exact) < SIGMAS * found.std_error
    with pytest.raises(TooLargeError, match="before the first sequences"):
        sampled_loss(problem, policy, belief, clock=Clock(-1.0))
    never = veil.Belief(veil.MarkovPolicy(np.full((3, 2), [1.0, 0.0])))
    seen = problem.replace(observer=veil.Observer(np.eye(3), sees_actions=True), pairs=())
    assert sampled_loss(seen, policy, never)[0] == np.inf
    lost = SampledLoss(make_space(seen, "timed"), never, 100, 0, "")
    with pytest.raises(InputError, match="give it a doubt"):
        lost.fresh(make_space(seen, "timed").table_of(policy), 50, 0, UNLIMITED)


def test_pairs_are_measured_on_samples() -> None:
    """`pair_values` with samples: every pair within its error of the exact value."""
    problem, policy = problem_of(2), veil.MarkovPolicy(np.full((3, 2), [0.3, 0.7]))
    exact = veil.pair_values(problem, policy, "exact")
    sampled = veil.pair_values(problem, policy, "sampled", sequences=4000, seed=1, time_limit=100)
    for wanted, found in zip(exact, sampled, strict=True):
        assert found.opacity.method == "sampled"
        assert 0 < found.std_error < 0.05
        assert abs(found.bits - wanted.bits) < SIGMAS * found.std_error
        assert f"± {found.std_error:.2g}" in found.fact()[1]


@pytest.mark.parametrize(
    ("bits", "words"),
    [(0.56, "at least 0.5"), (0.51, "(met, but only within"), (0.49, "(not met, but only within"), (0.4, "(not met)")],
)
def test_a_bound_within_the_error_is_said_to_be(bits: float, words: str) -> None:
    """A sampled value near its bound does not decide whether the bound is kept, and the words say so."""
    found = PairValue("foe", Opacity(bits, 0.0, 1.0, 1.0, "sampled", 100, std_error=0.02), min=0.5)
    assert found.fact()[1].endswith(words if words.endswith(("5", ")")) else f"{words} the sampling error)")
    assert found.is_undecided == ("within" in words)
    assert found.met == (bits >= 0.5)


def test_answers_on_samples_come_near_the_exact_ones() -> None:
    """The least of two, and a bound on another pair: feasible, and about as good as on exact gradients."""
    problem = two_sensors(1)
    plain: dict[str, Any] = {"memory": "timed", "certificate": False, "progress": False, "starts": 2, "iterations": 60}
    short: dict[str, Any] = FAST | {"iterations": 40, "starts": 2}
    exact, least = (veil.solve(problem, hide="own, other", **options) for options in (plain, short))
    assert least.settings["gradients"] == "fresh samples"
    assert least.least_bits >= exact.least_bits - 0.03
    wanted = exact.pairs[0].bits - 0.05
    kept = problem.replace(pairs=[replace(problem.pairs[0], min=wanted)])
    bounded = [veil.solve(kept, **options) for options in (short, plain)]
    assert all(one.feasible and one.pairs[0].met for one in bounded)
    assert bounded[0].opacity.bits >= bounded[1].opacity.bits - 0.03


@pytest.mark.slow
def test_a_friend_on_samples() -> None:
    """Bits hidden from a foe less those hidden from a friend, about as many as on exact gradients."""
    problem = two_sensors(1)
    plain: dict[str, Any] = {"memory": "timed", "certificate": False, "progress": False, "starts": 3, "iterations": 150}
    friend = veil.solve(problem, task="-1*H(other)", iterations=120, **FAST)
    best = veil.solve(problem, task="-1*H(other)", **plain)
    scores = [one.opacity.bits - one.pairs[0].bits for one in (friend, best)]
    assert friend.task_value == pytest.approx(-friend.pairs[0].bits, abs=1e-12)
    assert scores[0] >= scores[1] - 0.02


def test_where_one_pair_is_too_large_all_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair whose sequences are too many makes the whole search one on samples; asked for exactly, it is named."""

    def too_large(*_: Any, **__: Any) -> Any:
        raise TooLargeError("too many sequences")

    monkeypatch.setattr(pair_terms, "make_secrecy", too_large)
    space, given = make_space(two_sensors(0)), SolveOptions(method="ascent", hide="own, other")
    own, pairs = make_pair_task(space, given, make_secrecy(space), None)
    assert isinstance(own, SampleSecrecy)
    assert "pairs are too many" in own.reason
    assert isinstance(pairs.secrecies[0], SampleSecrecy)
    assert pairs.secrecies[1] is None
    with pytest.raises(TooLargeError, match="pair 'other': too many"):
        make_pair_task(space, replace(given, evaluation="exact"), make_secrecy(space), None)
    with pytest.raises(InputError, match="'bracket' is not available with pairs"):
        make_pair_task(space, given, make_secrecy(space, evaluation="bracket"), None)
