"""Brackets: proven bounds at any horizon."""

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences, chain_of, on_sparse_kernel, small_cases, total_of
from tests.marks import chequered
from tests.random_problems import Case
from veil.common.clock import OutOfTime, Stop
from veil.engine import clustering
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.size import TreeSize
from veil.engine.window import Cut, Window
from veil.measure import bracket
from veil.measure.bracket import Bounds, bracket_gradient, bracket_opacity, deepen, deepest, end_gradient
from veil.measure.exact import Budget, exact_gradient, exact_opacity
from veil.policy.tables import softmax_pull_back

KINDS = ("last", "initial", "at", "automaton")
NO_LIMIT = Budget(time_limit=math.inf)
ROUNDING = 1e-12


def end(chain: Chain, radius: int, reveal: bool) -> tuple[float, np.ndarray]:
    return end_gradient(chain, radius=radius, reveal=reveal, memory_bytes=NO_LIMIT.memory_bytes)


def end_value(chain: Chain, radius: int, reveal: bool) -> float:
    """The same without its slope, which is quicker."""
    return total_of(JointWalk(Cut(chain, Window.around(chain, radius), reveal=reveal).chain))


def ends(chain: Chain, radius: int) -> tuple[float, float]:
    return end_value(chain, radius, True), end_value(chain, radius, False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_radius_holds_the_exact_value_and_a_larger_one_is_no_worse(kind: str):
    wide = 0
    for case in small_cases(75, kind, work=1_000):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        before = (0.0, np.inf)
        for radius in range(case.spec.horizon + 2):
            lower, upper = ends(chain, radius)
            assert lower - ROUNDING <= exact <= upper + ROUNDING
            assert lower >= before[0] - ROUNDING
            assert upper <= before[1] + ROUNDING
            before = lower, upper
            wide += upper - lower > 0.01
        assert before == pytest.approx((exact, exact), abs=ROUNDING)  # the last window is whole
    assert wide > 30


@pytest.mark.parametrize("kind", [*KINDS, "model"])
def test_deepening_yields_ever_better_bounds_until_they_meet(kind: str):
    for case in small_cases(15, kind, work=1_000):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        steps = list(deepen(chain, NO_LIMIT, width=0.0))
        assert steps[0].lower == 0
        for earlier, later in itertools.pairwise(steps):
            assert later.lower >= earlier.lower
            assert later.upper <= earlier.upper
        for bounds in steps:
            assert bounds.lower <= exact <= bounds.upper  # rounded outwards, so without any tolerance
        assert steps[-1].width <= 1e-11


@pytest.mark.parametrize("width", [1e-1, 1e-2, 1e-6])
def test_the_width_asked_for_is_reached_and_the_work_stops_there(width: float):
    early = 0
    for case in small_cases(30, "last"):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        seen: list[Bounds] = []
        found = bracket_opacity(chain, NO_LIMIT, width=width, progress=seen.append)
        assert found.method == "bracket"
        assert found.bits == found.lower
        assert found.lower <= exact <= found.upper
        assert found.upper - found.lower <= width
        assert found.prior_bits == pytest.approx(exact_opacity(chain, NO_LIMIT).prior_bits, abs=1e-15)
        assert all(bounds.width > width for bounds in seen[1:-1])
        assert (seen[-1].lower, seen[-1].upper) == (found.lower, found.upper)
        early += len(seen) < case.spec.horizon + 3
    assert early > 3


def test_a_mixing_chain_is_bracketed_at_a_horizon_that_no_tree_reaches():
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.full(3, 5.0), size=(3, 2)), np.zeros((3, 2)), 0)
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    widths = {}
    for horizon in (12, 500):
        problem = veil.Problem(model, observer, veil.LastState({0}), horizon)
        chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
        widths[horizon] = [bounds.width for bounds in deepen(chain, Budget(), width=1e-6)]
        assert widths[horizon][-1] <= 1e-6
    # Late in a long run the start no longer matters: the same windows serve both horizons.
    np.testing.assert_allclose(widths[500][1:], widths[12][1 : len(widths[500])], rtol=0.1, atol=1e-6)
    assert len(widths[500]) < 13


# The cycle that ergodicity alone does not help


def cycle(horizon: int, initial) -> veil.Problem:
    """Four states in a ring; each step stays or advances, with probability 1/2; the observer sees the parity."""
    transitions = np.zeros((4, 1, 4))
    for state in range(4):
        transitions[state, 0, [state, (state + 1) % 4]] = 0.5
    model = veil.Model(transitions, np.zeros((4, 1)), initial)
    return veil.Problem(model, veil.Observer(np.eye(2)[[0, 1, 0, 1]]), veil.LastState({0}), horizon)


def test_a_cycle_seen_through_its_parity_keeps_half_a_bit():
    problem = cycle(12, np.full(4, 0.25))
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    for radius in range(13):
        assert ends(chain, radius) == pytest.approx((0, 0.5), abs=1e-14)
    assert ends(chain, 13) == pytest.approx((0.5, 0.5), abs=1e-14)


def test_a_cycle_from_a_known_start_keeps_half_a_bit_until_the_window_is_whole():
    """Who saw the start can follow it and knows everything, but no window that leaves the start out can tell."""
    problem = cycle(60, 0)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    for radius in (1, 4, 8):
        assert ends(chain, radius) == pytest.approx((0, 0.5), abs=1e-6)
    short = make_chain(cycle(8, 0), veil.MarkovPolicy(np.ones((4, 1))))
    lower, upper = ends(short, 6)
    assert lower == pytest.approx(0, abs=1e-14)
    assert upper > 0.2
    assert ends(short, 9) == pytest.approx((0, 0), abs=1e-14)


# Within a budget


def test_a_window_too_large_for_the_time_is_pruned_and_still_holds(monkeypatch: pytest.MonkeyPatch):
    """Nothing fits and nothing is merged, so that every window is walked without its rarest histories."""
    monkeypatch.setattr(TreeSize, "seconds", lambda *_, **__: float("inf"))
    monkeypatch.setattr(bracket, "_merged", lambda *_: iter(()))
    monkeypatch.setattr(bracket, "_PRUNINGS", (0.3, 0.05, 0.01))
    pruned = 0
    for kind in KINDS:
        for case in small_cases(20, kind, work=1_000):
            chain = chain_of(case)
            exact = total_of(JointWalk(chain))
            found = bracket_opacity(chain, Budget(time_limit=100.0), width=1e-9)
            assert found.lower <= exact <= found.upper
            pruned += found.upper - found.lower > 1e-6
    assert pruned > 10


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_windows_with_merged_histories_hold_the_exact_value(monkeypatch: pytest.MonkeyPatch, share: float):
    monkeypatch.setattr(TreeSize, "seconds", lambda *_, **__: float("inf"))
    monkeypatch.setattr(clustering, "_ROWS_APART", 2)
    monkeypatch.setattr(bracket, "_CLUSTER_SHARE", share)
    monkeypatch.setattr(bracket, "_STRIDE", 1)
    monkeypatch.setattr(bracket, "_CHARGED_SHARE", math.inf)  # keep the clusters as they are
    cases = [case for kind in KINDS for case in small_cases(15, kind, work=1_000)]
    merged = 0
    for case in cases:
        chain, exact = chain_of(case), total_of(JointWalk(chain_of(case)))
        steps = list(deepen(chain, Budget(time_limit=100.0), width=0.0))
        assert all(bounds.lower <= exact <= bounds.upper and bounds.walked == 0 for bounds in steps)
        merged += steps[-1].width > 1e-6
    assert merged > 5


def test_a_long_window_is_merged_instead_of_enumerated():
    problem = veil.gallery.load("paper-last-state").replace(horizon=100)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    found = deepest(bracket._merged(chain, Budget(time_limit=math.inf), Bounds(0.3549, 0.3569, 13, 0), 14, 1e-3))
    assert found.radius > 16  # enumerated, 16 steps leave 1.03e-3 bits
    assert found.width <= 1e-3
    assert 0.355590 <= found.upper <= 0.356620  # what those 16 steps have proven
    assert found.lower <= 0.356620
    assert found.merged > 0


def test_no_time_at_all_gives_the_trivial_bounds_or_better():
    for case in small_cases(10, "last"):
        chain = chain_of(case)
        found = bracket_opacity(chain, Budget(time_limit=1e-9), width=0.0)
        assert found.lower <= total_of(JointWalk(chain)) <= found.upper
        assert found.upper <= found.prior_bits + ROUNDING


def test_five_to_the_eleven_sequences_are_bracketed():
    problem = veil.gallery.load("paper-false-alarms")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    found = bracket_opacity(chain, Budget(), width=0.05)
    assert found.upper - found.lower <= 0.05
    assert 0 < found.lower < found.upper < found.prior_bits
    assert "windows of" in found.reason


# Slopes


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize(("kind", "reveal"), chequered(KINDS, [True, False]))
def test_the_slope_of_either_end_is_that_of_central_differences(kind: str, reveal: bool, timed: bool):
    steep, rng = 0, np.random.default_rng(0)
    for case in small_cases(8, kind, work=500, timed=timed):
        theta = rng.normal(size=case.policy.probabilities.shape)
        for radius in range(case.spec.horizon + 2):

            def value(parameters: np.ndarray, case: Case = case, radius: int = radius) -> float:
                chain = make_chain(case.problem, type(case.policy).softmax(parameters, case.problem))
                return end_value(chain, radius, reveal)

            policy = type(case.policy).softmax(theta, case.problem)
            level, directions = value(theta), rng.normal(size=(2, *theta.shape))
            rises = [(value(theta + 1e-5 * d) - value(theta - 1e-5 * d)) / 2e-5 for d in directions]
            for chain in (make_chain(case.problem, policy), on_sparse_kernel(make_chain(case.problem, policy))):
                bits, slope = end(chain, radius, reveal)
                assert bits == pytest.approx(level, abs=1e-13)
                gradient = softmax_pull_back(policy.table, slope).reshape(theta.shape)
                for direction, rise in zip(directions, rises, strict=True):
                    assert np.sum(gradient * direction) == pytest.approx(rise, abs=1e-7)
            steep += np.abs(gradient).max(initial=0) > 1e-4
    assert steep >= 3


@pytest.mark.parametrize("reveal", [True, False], ids=["lower", "upper"])
def test_the_slope_of_either_end_is_right_in_every_coordinate(reveal: bool):
    steep = 0
    for case in small_cases(40, "at", work=2_000):
        if not case.spec.secret.time == case.spec.horizon - 2 == 2:
            continue
        theta = np.random.default_rng(1).normal(size=case.policy.probabilities.shape)

        def value(parameters: np.ndarray, case: Case = case) -> float:
            chain = make_chain(case.problem, type(case.policy).softmax(parameters, case.problem))
            return end_value(chain, 1, reveal)

        policy = type(case.policy).softmax(theta, case.problem)
        _, slope = end(make_chain(case.problem, policy), 1, reveal)
        gradient = softmax_pull_back(policy.table, slope).reshape(theta.shape)
        np.testing.assert_allclose(gradient, central_differences(value, theta, 1e-5), atol=1e-8)
        steep += np.abs(gradient).max() > 1e-3
    assert steep >= 1


def test_the_slope_of_a_whole_window_is_the_exact_one():
    for case in small_cases(20):
        chain = chain_of(case)
        _, expected = exact_gradient(chain, NO_LIMIT)
        for reveal in (True, False):
            _, found = end(chain, case.spec.horizon + 1, reveal)
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("width", [0.0, 0.05])
def test_a_bracket_comes_with_the_slope_of_its_lower_end(width: float):
    for case in small_cases(20):
        chain = chain_of(case)
        seen: list[Bounds] = []
        plain = bracket_opacity(chain, NO_LIMIT, width=width, progress=seen.append)
        found, slope = bracket_gradient(chain, NO_LIMIT, width=width)
        assert (found.lower, found.upper, found.method) == (plain.lower, plain.upper, "bracket")
        np.testing.assert_array_equal(slope, end(chain, seen[-1].radius, True)[1])


def test_the_slope_of_a_pruned_window_keeps_to_the_time_limit(monkeypatch: pytest.MonkeyPatch):
    limits = []

    class Watched(JointWalk):
        def run(self, *args, **kwargs):
            limits.append(self.clock.time_limit)
            return super().run(*args, **kwargs)

    monkeypatch.setattr(bracket, "JointWalk", Watched)
    problem = veil.gallery.load("two-rooms")
    bracket_gradient(make_chain(problem, veil.MarkovPolicy.uniform(problem)), Budget(time_limit=100.0), width=0.0)
    assert len(limits) > 2
    assert all(map(math.isfinite, limits))


# The course of windows


def test_bounds_keep_the_better_of_either_end():
    first = Bounds(0.25, 0.75, 3, 10, walked=3)
    better = first.improved(0.5, 0.8, 4, 20)
    assert (better.lower, better.upper, better.width) == (0.5, 0.75, 0.25)
    assert (better.radius, better.num_sequences, better.walked, better.merged) == (4, 20, 4, 0.0)
    merged = better.improved(0.4, 0.7, 8, 30, merged=1e-6)
    assert (merged.lower, merged.upper, merged.radius, merged.walked, merged.merged) == (0.5, 0.7, 8, 4, 1e-6)
    pruned = better.improved(0.4, 0.7, 8, 30, pruned_below=1e-6)
    assert (pruned.walked, pruned.pruned_below) == (8, 1e-6)


def test_windows_grow_by_half_of_what_the_pace_asks_for():
    """Each step halves the width from 1: of the 12 steps to a 4096th, half are taken at a time."""
    wanted = 1 / 4096 / bracket._WINDOW_SHARE
    course = bracket._Course(wanted)
    assert course.steps(2, 1.0) == bracket._STRIDE  # no pace is known
    assert course.steps(6, 1 / 16) == 4  # 8 steps are left
    assert course.steps(10, 1 / 256) == 2
    assert course.steps(12, 1 / 1024) == 1
    assert course.steps(13, 1 / 2048) == 1  # half of one, rounded up
    assert course.steps(14, 1 / 4096) == 0
    slow = bracket._Course(wanted)
    slow.steps(1, 1.0)
    assert slow.steps(2, 0.999) == 2 * bracket._STRIDE  # no more than that at once
    assert slow.steps(2, 0.9) == bracket._STRIDE  # the same window again
    assert slow.steps(3, 0.9) == bracket._STRIDE  # no narrower
    whole = bracket._Course(0.0)
    assert [whole.steps(radius, 0.0) for radius in (1, 2)] == [bracket._STRIDE] * 2  # nothing is narrow enough
    assert [whole.steps(radius, width) for radius, width in ((3, 0.5), (7, 0.25))] == [bracket._STRIDE] * 2


def test_an_outlook_is_the_pace_of_the_last_windows():
    outlook = bracket._Outlook(1e-3, 20)
    assert outlook.next_seconds == outlook.seconds(0) == 0
    outlook.add(0.4, 1.0)
    assert outlook.next_seconds == 0
    outlook.add(0.2, 2.0)
    assert outlook.next_seconds == 4.0
    assert outlook.seconds(2) == 0
    outlook.add(0.1, 4.0)
    assert outlook.next_seconds == 8.0
    assert outlook.seconds(2) == pytest.approx(4.0 * 2**7)  # seven halvings to a thousandth
    assert outlook.seconds(18) == pytest.approx(4.0 * 2**2)  # the horizon ends two steps on
    assert outlook.seconds(20) == 4.0
    outlook.add(0.1, 1.0)  # quicker than before: no cheaper is expected
    assert outlook.next_seconds == 1.0
    assert bracket._Outlook(1.0, 20).seconds(0) == 0
    done = bracket._Outlook(0.1, 20)
    for seconds in (1.0, 2.0, 4.0):
        done.add(0.1, seconds)
    assert done.seconds(3) == 4.0  # the width is reached
    endless = bracket._Outlook(0.0, 10**6)
    for width, seconds in ((0.4, 1.0), (0.4, 1e3), (0.4, 1e6)):
        endless.add(width, seconds)
    assert 1e9 < endless.seconds(0) <= 1e12  # no further than any time limit
    quick = bracket._Outlook(1e-3, 20)
    quick.add(0.4, 0.001)
    quick.add(0.2, 0.04)
    assert quick.next_seconds == pytest.approx(0.04 * 2)  # what took no time tells nothing


def test_the_words_of_a_window():
    assert bracket.window_text(Bounds(0, 1, 3, 5)) == "windows of 3 steps around the secret's time"
    assert bracket.window_text(Bounds(0, 1, 3, 5, merged=1e-9)).endswith(
        "time, with histories merged that nearly agree"
    )


@pytest.mark.parametrize(("walked", "radius", "late"), [(5, 5, 0), (5, 2, 1), (2, 0, 1), (5, 0, 2)])
def test_a_gradient_that_is_late_is_that_of_a_window_three_steps_narrower(
    walked: int, radius: int, late: int, monkeypatch: pytest.MonkeyPatch
):
    chain, asked = chain_of(next(iter(small_cases(1, "last")))), []

    def gradient(_: Chain, **given: Any) -> tuple[float, np.ndarray]:
        asked.append(given)
        if len(asked) <= late:
            raise OutOfTime(Stop.TIME_LIMIT)
        return 0.0, np.full(2, float(given["radius"]))

    monkeypatch.setattr(bracket, "end_gradient", gradient)
    best = Bounds(0.1, 0.2, walked, 7, pruned_below=1e-8, walked=walked)
    if late == 2:
        with pytest.raises(veil.TooLargeError, match="outgrew its time limit"):
            bracket.bracket_slope(chain, best, NO_LIMIT)
        return
    found, slope = bracket.bracket_slope(chain, best, NO_LIMIT)
    assert slope.tolist() == [radius, radius]
    assert ("the gradient is that of" in found.reason) == (radius < walked)
    assert all(one["prune_below"] == 1e-8 and one["reveal"] for one in asked)
    assert (found.lower, found.upper, found.num_sequences) == (0.1, 0.2, 7)


@pytest.mark.parametrize(("lost", "walks"), [(0.0, 1), (1e-6, 1), (2e-5, 2), (0.1, 2), (0.2, 1)])
def test_pruning_ends_where_it_is_reached_or_hopeless(lost: float, walks: int):
    """What is left out counts little below a tenth of the width, and too much above a tenth of a bit."""
    asked: list[float] = []

    class Pair:
        def evaluate(self, budget: Budget, below: float, *, spread: bool) -> tuple[float, float, float, int]:
            asked.append(below)
            return 0.4, 0.6, lost if len(asked) == 1 else 0.0, 9

    found = list(bracket._pruned(cast(Any, Pair()), NO_LIMIT, Bounds(0.3, 0.7, 2, 5), 3, 1e-4))
    assert asked == list(bracket._PRUNINGS[:walks])
    assert (found[0].lower, found[0].upper, found[0].pruned_below) == (0.4, 0.6, bracket._PRUNINGS[0])
    assert len(found) == 1  # the second is no better
    assert not list(bracket._pruned(cast(Any, Pair()), NO_LIMIT, Bounds(0.4, 0.6, 2, 5), 3, 1e-4))


@pytest.mark.parametrize(("charged", "finer"), [(0.2, (0.8 * 0.6 * 0.2 / 0.2) ** 2), (100.0, 0.05), (0.1, None)])
def test_clusters_are_finer_where_they_charge_more_than_their_share_of_the_width(
    charged: float, finer: float | None, monkeypatch: pytest.MonkeyPatch
):
    """The bounds are 0.2 bits apart, of which merging may cost 0.6: beyond, by the square of what is too much."""
    asked: list[float] = []

    class Whole:
        def is_whole(self, chain: Chain) -> bool:
            return True

    class Pair:
        window = Whole()

        def evaluate(self, budget: Budget, *, clusters: Any, spread: bool) -> tuple[float, float, float, int]:
            asked.append(clusters.threshold)
            return 0.4, 0.6, charged if len(asked) == 1 else 0.0, 9

    chain = chain_of(next(iter(small_cases(1, "last"))))
    monkeypatch.setattr(bracket.Stakes, "of", lambda *_: None)
    monkeypatch.setattr(bracket._Pair, "around", lambda *_: Pair())
    (found,) = bracket._merged(chain, NO_LIMIT, Bounds(0.0, 1.0, 2, 5), 3, 1e-9)  # the second walk is no better
    assert (found.lower, found.upper, found.merged) == (0.4, 0.6, bracket._CLUSTER_SHARE)
    assert asked[1:] == ([] if finer is None else [pytest.approx(bracket._CLUSTER_SHARE * finer * found.width)])


def test_an_upper_bound_without_rare_histories_counts_what_they_may_hide():
    """A window of the whole horizon forgets nothing: what is left out is all that its upper end lacks."""
    left_out = 0.0
    for case in small_cases(10, "last", work=1_000):
        chain = chain_of(case)
        pair = bracket._Pair.around(chain, chain.hidden.horizon + 1, NO_LIMIT.clock)
        lower, upper, lost, _ = pair.evaluate(NO_LIMIT, 0.05)
        assert lower <= total_of(JointWalk(chain)) <= upper
        left_out += lost
    assert left_out > 0.1
