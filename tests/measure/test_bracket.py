"""Brackets: proven bounds at any horizon."""

import itertools
import math

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences, chain_of, on_sparse_kernel, small_cases, total_of
from tests.random_problems import Case
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
@pytest.mark.parametrize("reveal", [True, False], ids=["lower", "upper"])
@pytest.mark.parametrize("kind", KINDS)
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
