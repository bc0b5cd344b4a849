"""Prices and weights from columns: the linear program against its dual, mixtures that meet everything, and why rounds end."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.test_records import prepared, random_pairs
from tests.problem.test_constraints import make_problem
from veil.common.clock import Clock, Stop
from veil.engine.hidden import build
from veil.engine.return_range import threshold
from veil.game import rounds as module
from veil.game.multiplier import FlowPoint
from veil.game.pairs import FullHistory, LastEvents, make_pairs
from veil.game.records import RecordBits
from veil.game.rounds import OwnBits, Rounds, _Column
from veil.problem.return_rounding import further_rounding, return_rounding

_LIMITS = (veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%"))


def rounds_of(limits: Any = _LIMITS, seed: int = 3, **settings: Any) -> Rounds:
    """Rounds of a small problem, by default with two constraints beside the threshold."""
    problem = make_problem(limits, seed, horizon=2)
    pairs = make_pairs(build(problem), FullHistory())
    counted = settings.pop("counted", OwnBits(pairs))
    return Rounds(problem, pairs, counted, threshold(problem), settings.pop("gap", 1e-3))


def counting(hidden: int, kept: list[float]) -> Any:
    return SimpleNamespace(num_hidden=hidden, kept=np.array(kept), bits=lambda joint: np.zeros(hidden + len(kept)))


def column(bits: list[float], slack: list[float] | None = None) -> Any:
    return _Column(None, np.array(bits), np.array(slack or []))  # type: ignore[arg-type]


# The linear program.


@pytest.mark.parametrize("seed", range(24))
def test_shares_and_multipliers_prove_each_other(seed: int):
    """The mixture meets everything, and no column is worth more than it at the weights and prices: strong duality."""
    rng = np.random.default_rng([seed, 19])
    hidden, kept = 1 + seed % 3, rng.uniform(0.1, 0.6, size=seed // 3 % 3).tolist()
    rounds = rounds_of((), counted=counting(hidden, kept))
    bits, slack = rng.random((5, hidden + len(kept))), rng.normal(size=(5, seed % 2 * 2))
    bits[0, hidden:], slack[0] = 0.7, 0.2  # so that everything can be met
    rounds.columns = [column(*one) for one in zip(bits.tolist(), slack.tolist(), strict=True)]
    shares, weights, prices = rounds._mixed()
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1.0)
    assert (shares @ bits[:, hidden:] >= rounds.aim - 1e-9).all()
    assert (shares @ slack >= -1e-9).all()
    assert (weights >= 0).all()
    assert (prices >= 0).all()
    assert weights[:hidden].sum() == pytest.approx(1.0)
    assert (len(weights), len(prices)) == (hidden + len(kept), slack.shape[1])
    worth = bits @ weights - rounds.aim @ weights[hidden:] + slack @ prices
    assert worth.max() == pytest.approx((shares @ bits[:, :hidden]).min(), abs=1e-9)


def test_what_the_first_column_misses_may_be_missed():
    """Its slack is the best there is; what must be kept and is not is paid for with the largest price."""
    rounds = rounds_of((), counted=counting(1, [0.9]))
    rounds.columns = [column([0.1, 0.5], [-0.01]), column([0.8, 0.4], [-0.03]), column([0.2, 0.6], [-0.01])]
    shares, weights, _ = rounds._mixed()
    np.testing.assert_allclose(shares, [0.0, 0.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(weights, [1.0, module._LARGEST_PRICE])


# Mixtures.


def test_the_policy_that_is_kept_hides_most_of_those_that_keep_what_must_be_kept():
    rounds = rounds_of((), counted=counting(2, [0.3]))
    for bits, lower in (
        ([0.9, 0.9, 0.2], -np.inf),
        ([0.5, 0.2, 0.4], 0.2),
        ([0.1, 0.9, 0.4], 0.2),
        ([0.7, 0.4, 0.31], 0.4),
        ([0.8, 0.8, 0.3], 0.4),  # just what must be kept may be less by rounding
        ([0.45, 0.41, 0.9], 0.41),
    ):
        rounds._take(column(bits))
        assert rounds.lower == lower
    assert len(rounds.columns) == 6
    assert rounds.mixture is rounds.columns[-1]


def test_the_first_column_meets_all_constraints():
    rounds = rounds_of()
    (first,) = rounds.columns
    assert first.slack.min() > 0.1
    assert rounds.lower == first.bits[0]
    assert rounds.threshold is not None
    assert first.point.outcome.expected_return >= rounds.threshold
    for table, even in zip(rounds._inside(), rounds.agent.uniform(), strict=True):
        np.testing.assert_allclose(table.sum(axis=0), 1.0)
        assert (table[even == 0] == 0).all()


def test_states_that_the_first_column_never_reaches_have_even_odds(monkeypatch: pytest.MonkeyPatch):
    rounds = rounds_of()
    found = module.feasible_mixture(rounds.problem)
    flows = [flow.copy() for flow in found.flows]
    flows[1][2] = 0.0
    monkeypatch.setattr(module, "feasible_mixture", lambda _: SimpleNamespace(flows=flows))
    tables = rounds._inside()
    there = rounds.pairs.layers[1].x == 2
    assert there.any()
    np.testing.assert_array_equal(tables[1][:, there], 0.5)
    for x in (0, 1, 3):
        here = rounds.pairs.layers[1].x == x
        np.testing.assert_allclose(tables[1][:, here], (flows[1][x] / flows[1][x].sum())[:, None].repeat(here.sum(), 1))


@pytest.mark.parametrize(
    ("limit", "number"),
    [(_LIMITS[0], 0), (_LIMITS[1], 0), (veil.Return(max="99%", reward="energy"), 1)],
    ids=["energy", "probability", "return"],
)
def test_a_mixture_is_moved_inside_by_twice_what_is_missing(limit: Any, number: int):
    """With the first column, so that the slack, or the return, is as far inside as it was outside."""
    rounds = rounds_of((limit,))
    first, wanted = rounds.columns[0], rounds.threshold
    assert wanted is not None

    def lacking(one: _Column) -> list[float]:
        return [*(-one.slack).tolist(), wanted - one.point.outcome.expected_return]

    tables = rounds.agent.uniform() if number else rounds.agent.max_return_response()[1]
    outside = rounds._column(FlowPoint(*rounds.agent.flows(tables)))
    inside, far = lacking(first)[number], lacking(outside)[number]
    assert inside < 0 < far
    near = rounds._column(outside.point.mixed(first.point, (far - 1e-6) / (far - inside)))
    moved = rounds._moved_inside(near)
    assert lacking(near)[number] == pytest.approx(1e-6, rel=1e-6)
    assert lacking(moved)[number] == pytest.approx(-1e-6, rel=1e-3)
    assert max(lacking(moved)) < 0
    share = 2e-6 / (1e-6 - inside)
    for found, one, two in zip(moved.point.flows, near.point.flows, first.point.flows, strict=True):
        np.testing.assert_allclose(found, (1 - share) * one + share * two, atol=1e-11)
    assert rounds._moved_inside(first) is first


def test_a_mixture_keeps_more_than_rounding_can_take():
    """A slack of nothing, or a return of just the threshold, is no proof: both are moved by what the sums may be off."""
    rounds = rounds_of()
    kept = rounds.kept_slack
    np.testing.assert_array_equal(
        kept, np.maximum(1e-12, 4 * np.array(further_rounding(rounds.problem)) / rounds.units)
    )
    first, wanted = rounds.columns[0], rounds.threshold
    assert wanted is not None
    just = _Column(first.point, first.bits, np.zeros(2))
    rounds.columns[0] = _Column(first.point, first.bits, np.ones(2))
    assert rounds._moved_inside(just) is not just
    aim = max(1e-12 * (1 + abs(wanted)), 4 * return_rounding(rounds.problem))
    for surplus, moved in ((0.0, True), (0.5 * aim, True), (2 * aim, False)):
        outcome = SimpleNamespace(**(vars(first.point.outcome) | {"expected_return": wanted + surplus}))
        outcome.mixed = lambda other, weight: first.point.outcome
        point: Any = FlowPoint(outcome, first.point.flows)  # type: ignore[arg-type]
        one = _Column(point, first.bits, np.ones(2))
        assert (rounds._moved_inside(one) is not one) == moved


@pytest.mark.parametrize("played", [1, 3])
def test_the_policy_of_a_round_is_the_mixture_of_the_columns(monkeypatch: pytest.MonkeyPatch, played: int):
    rounds = rounds_of(gap=1e-2)
    seen: list[np.ndarray] = []
    solved = rounds._mixed

    def mixed() -> Any:
        found = solved()
        seen.append(found[0])
        return found

    monkeypatch.setattr(rounds, "_mixed", mixed)
    for number in range(played):
        columns = len(rounds.columns)
        assert rounds.play(200, Clock()) == "gap reached"
        assert rounds.games == number + 1
        used = rounds.columns[: columns + 1]
        assert len(seen[-1]) == len(used)
        newest = rounds.columns[-1]
        for time, flow in enumerate(newest.point.flows):
            expected = sum(share * one.point.flows[time] for share, one in zip(seen[-1], used, strict=True))
            np.testing.assert_allclose(flow, expected, atol=1e-8)
        assert newest.bits[0] >= seen[-1] @ [one.bits[0] for one in used] - 1e-9  # entropy is concave
        assert rounds.lower <= rounds.upper + 1e-9


# Why rounds end.


def run(monkeypatch: pytest.MonkeyPatch, played: list[tuple[float, float, str]], **settings: Any) -> tuple[str, int]:
    rounds = rounds_of((), gap=0.25)
    left = iter(played)

    def play(iterations: int, clock: Clock) -> str:
        rounds.lower, rounds.upper, ended = next(left)
        rounds.games += 1
        return ended

    monkeypatch.setattr(rounds, "play", play)
    return rounds.run(10, settings.get("clock", Clock())), rounds.games


def test_rounds_end_at_the_gap(monkeypatch: pytest.MonkeyPatch):
    wide, close = (0.0, 1.0, "iterations"), (0.5, 0.75, "iterations")
    assert run(monkeypatch, [close, wide]) == ("gap reached", 1)
    assert run(monkeypatch, [wide, wide, close, wide]) == ("gap reached", 3)
    assert run(monkeypatch, [wide] * 100) == ("iterations", module._ROUNDS)


@pytest.mark.parametrize("reason", [Stop.REQUESTED, Stop.INTERRUPTED])
def test_rounds_end_with_the_caller_and_say_so(monkeypatch: pytest.MonkeyPatch, reason: Stop):
    wide, close = (0.0, 1.0, str(reason)), (0.5, 0.75, str(reason))
    assert run(monkeypatch, [wide, wide]) == (reason, 1)
    assert run(monkeypatch, [close, wide]) == (reason, 1)


def test_rounds_end_at_the_deadline(monkeypatch: pytest.MonkeyPatch):
    assert run(monkeypatch, [(0.0, 1.0, "time limit")] * 9, clock=Clock(0.0)) == ("time limit", 1)


def test_the_result_has_the_best_policy_or_the_last_one():
    problem = make_problem((), 3, horizon=2)
    pairs = make_pairs(build(problem), LastEvents(1))
    rounds = Rounds(problem, pairs, OwnBits(pairs), threshold(problem), 1e-2)
    assert rounds.run(100, Clock()) == "gap reached"
    found = rounds.result("gap reached", 2.5)
    assert (found.lower, found.upper, found.seconds) == (pytest.approx(rounds.lower), rounds.upper, 2.5)
    assert rounds.games == 1
    even = rounds._column(FlowPoint(*rounds.agent.flows(rounds.agent.uniform())))
    assert abs(even.bits[0] - rounds.lower) > 1e-3
    rounds.mixture, rounds.columns = None, [even, column([0.0]), rounds.columns[-1]]
    again = rounds.result("x", 0.0)
    assert (again.lower, again.stopped) == (pytest.approx(rounds.columns[-1].bits[0]), "x")


def test_weights_of_a_game_sum_to_one_and_small_ones_are_left_out():
    problem = random_pairs(1)
    pairs, _, records = prepared(problem)
    for given, proving in (([0.6, 0.2], [0.75, 0.25]), ([2.0, 1e-10], [1.0, 0.0])):
        rounds = Rounds(problem, pairs, RecordBits(pairs, records, np.zeros(0)), None, 1e-2)
        rounds.weights = np.array(given)
        rounds.play(5, Clock())
        np.testing.assert_allclose(rounds.proving, proving, rtol=1e-12)
