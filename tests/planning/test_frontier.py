"""The curve between hiding and return."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.test_return_range import harvest
from tests.planning.small_problems import Interrupting, random_problem, tiny_problem
from tests.unproven import solve
from veil.planning.frontier import Frontier, FrontierPoint, frontier
from veil.planning.options import MemoryName
from veil.planning.policy_class import make_space
from veil.planning.starts import richest_table


def largest(problem: veil.Problem, memory: str = "markov") -> float:
    space = make_space(problem, memory)
    return veil.expected_return(problem, space.policy(richest_table(space)))


@pytest.fixture(scope="module")
def curve() -> Frontier:
    return frontier(random_problem(12), 7)


def hold_in_order(problem: veil.Problem, found: Frontier, count: int) -> None:
    assert len(found.points) == count
    thresholds = np.array([point.threshold for point in found.points])
    assert np.all(np.diff(thresholds) > 0)
    np.testing.assert_allclose(np.diff(thresholds), np.diff(thresholds).mean(), rtol=1e-9)
    assert np.all(np.diff(found.returns) >= -1e-12)
    assert np.all(np.diff(found.bits) <= 0)
    assert np.all(found.prices_bits >= 0)
    for point in found.points:
        assert veil.expected_return(problem, point.policy) == point.expected_return
        assert point.expected_return >= point.threshold
        assert veil.opacity(problem, point.policy, "exact").bits == point.opacity.bits
        for other in found.points:  # who earns as much and hides more would serve here too
            if other.expected_return >= point.threshold:
                assert point.opacity.bits >= other.opacity.bits


@pytest.mark.parametrize(("seed", "memory"), [(4, "markov"), (5, "timed"), (0, "markov")])
def test_points_are_in_order_and_keep_what_they_claim(seed: int, memory: MemoryName):
    problem = random_problem(seed)
    found = frontier(problem, 5, memory=memory)
    hold_in_order(problem, found, 5)
    assert found.points[-1].threshold == pytest.approx(largest(problem, memory), abs=1e-11)
    assert found.policy_class == {"markov": "stationary Markov policies", "timed": "time-dependent policies"}[memory]


def test_the_curve_runs_from_the_freest_policy_to_the_largest_return(curve: Frontier):
    problem = random_problem(12)
    hold_in_order(problem, curve, 7)
    free = solve(problem.replace(min_return=None))
    assert curve.bits[0] == pytest.approx(free.opacity.bits, abs=1e-6)
    assert curve.returns[-1] == pytest.approx(largest(problem), abs=1e-12)
    assert curve.status is veil.Status.CONVERGED
    assert curve.seconds > 0


def test_each_point_is_as_good_as_a_search_of_its_own(curve: Frontier):
    for point in curve.points[1:-1:2]:
        alone = solve(random_problem(12).replace(min_return=point.threshold), starts=8, iterations=200)
        assert point.opacity.bits >= alone.opacity.bits - 1e-3


def test_prices_are_slopes_of_the_curve(curve: Frontier):
    thresholds = np.array([point.threshold for point in curve.points])
    slopes = -np.diff(curve.bits) / np.diff(thresholds)
    # The curve of this problem is concave: each price lies between the slopes on both sides.
    assert np.all(np.diff(slopes) > 0)
    for index in range(1, 6):
        low, high = slopes[index - 1], slopes[index]
        assert low - 0.01 <= curve.prices_bits[index] <= high + 0.01
    assert curve.prices_bits[0] == 0


def test_no_bits_buy_more_than_the_largest_return(curve: Frontier):
    assert curve.prices_bits[-1] == np.inf
    assert np.all(np.isfinite(curve.prices_bits[:-1]))
    assert curve.summary().splitlines()[-1].endswith("inf")


def test_every_policy_reaches_its_threshold_without_tolerance():
    for seed in (5, 31):
        problem = random_problem(seed)
        for point in frontier(problem, 4, starts=4, iterations=40).points:
            assert veil.expected_return(problem, point.policy) >= point.threshold


def test_a_return_with_a_poor_local_maximum():
    """A plain SQP method finds 0.3724 bits at a return of 2.6507, from every start."""
    found = frontier(random_problem(16), 6)
    point = [point for point in found.points if point.threshold <= 2.6507][-1]
    assert point.opacity.bits >= 0.371


def test_the_same_seed_gives_the_same_curve():
    problem = tiny_problem(0)
    first, again = (frontier(problem, 3, seed=2) for _ in range(2))
    np.testing.assert_array_equal(first.bits, again.bits)
    np.testing.assert_array_equal(first.returns, again.returns)
    for one, other in zip(first.points, again.points, strict=True):
        assert one.policy.table.tobytes() == other.policy.table.tobytes()


def test_the_threshold_of_the_problem_is_not_used():
    problem = tiny_problem(1)
    plain, hard = frontier(problem, 3), frontier(problem.replace(min_return=1e9), 3)
    np.testing.assert_array_equal(plain.bits, hard.bits)


def test_where_a_clock_earns_more():
    """Leaving at random earns 3.125 at most, with a clock 4; everything is seen, so nothing is hidden."""
    stationary, timed = frontier(harvest(), 3), frontier(harvest(), 3, memory="timed")
    assert stationary.returns[-1] == pytest.approx(3.125, abs=1e-9)
    assert timed.returns[-1] == pytest.approx(4, abs=1e-9)
    assert np.all(timed.bits == 0)


@pytest.mark.slow
def test_return_that_costs_nothing_is_one_point_many_times():
    problem = random_problem(3)
    model = veil.Model(
        problem.model.matrices, np.ones((problem.num_states, problem.num_actions)), problem.model.initial
    )
    found = frontier(problem.replace(model=model, min_return=None), 3)
    assert len(found.points) == 3
    np.testing.assert_allclose(found.returns, problem.horizon)
    assert np.ptp(found.bits) <= 1e-3


def test_limits_are_honoured():
    problem = random_problem(12)
    none = frontier(problem, 30, time_limit=0.0)
    assert none.points == ()
    assert none.status is veil.Status.TIME_LIMIT
    few = frontier(problem, 500, time_limit=1.0)
    assert few.status is veil.Status.TIME_LIMIT
    assert few.seconds < 4
    assert len(few.points) < 500
    for point in few.points:
        assert point.expected_return >= point.threshold


def test_an_interrupt_leaves_what_was_found():
    calls = []

    def stop(news) -> None:
        calls.append(news)
        if len(calls) == 900:
            raise KeyboardInterrupt

    found = frontier(random_problem(12), 8, progress=stop)
    assert found.status is veil.Status.INTERRUPTED
    assert 1 <= len(found.points) < 8


def test_bad_input_is_refused():
    problem = tiny_problem(0)
    for points in (1, 0, 2.5, "many", True):
        with pytest.raises(veil.InputError, match="points is"):
            frontier(problem, points)  # type: ignore[arg-type]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"goal": "transparent"}, "there is no option 'goal'"),
        ({"min_opacity": 0.1}, "there is no option 'min_opacity'"),
        ({"memory": "much"}, "memory is 'much', expected 'markov', 'timed'"),
        ({"memory": "history"}, "memory: method='ascent' has 'markov' and 'timed' and 'finite', found 'history': use"),
        ({"objective": "bits"}, "objective is 'bits', expected one of 'entropy'"),
        ({"time_limit": "long"}, "time_limit is 'long'"),
        ({"time_limit": -1.0, "seed": -1}, "frontier: 2 defects"),
    ]
    for options, said in wrong:
        with pytest.raises(veil.InputError, match=said):
            frontier(problem, **options)


def test_the_summary_is_a_table(curve: Frontier):
    lines = curve.summary().splitlines()
    assert lines[0].startswith("stationary Markov policies: 7 points in ")
    assert lines[0].endswith("converged")
    assert len(lines) == 9
    assert isinstance(curve.points[0], FrontierPoint)
    assert f"{curve.points[3].opacity.bits:.4f}" in lines[5]
    assert veil.frontier is frontier


def test_thresholds_can_be_listed():
    problem = veil.gallery.load("two-rooms")
    largest = veil.max_return(problem)
    wanted = [0.9 * largest, 0.2 * largest, 0.2 * largest]
    found = veil.frontier(problem, thresholds=wanted, starts=2, iterations=20, progress=False)
    assert [point.threshold for point in found.points] == sorted(set(wanted))
    assert all(point.expected_return >= point.threshold for point in found.points)
    assert found.bits[0] >= found.bits[1]
    assert all(point.price_bits < float("inf") for point in found.points)
    with pytest.raises(veil.InfeasibleError):
        veil.frontier(problem, thresholds=[largest + 1], progress=False)
    for wrong in ([], ["a"], "0.1", [float("nan")]):
        with pytest.raises(veil.InputError, match="thresholds"):
            veil.frontier(problem, thresholds=wrong)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("thresholds", [None, "given"])
def test_a_curve_continues_from_its_file(thresholds: str | None, tmp_path: Path):
    problem, path = tiny_problem(3), tmp_path / "curve"
    top = largest(problem)
    few: dict[str, Any] = {"starts": 1, "iterations": 3, "seed": 1}
    few["thresholds"] = None if thresholds is None else [top - 0.3, top - 0.2, top - 0.1]
    whole = frontier(problem, 3, progress=False, **few)
    cut = frontier(problem, 3, progress=Interrupting(10), checkpoint=path, **few)
    assert cut.status is veil.Status.INTERRUPTED
    reports: list[object] = []
    again = frontier(problem, 3, progress=reports.append, checkpoint=path, **few)
    assert again.points == whole.points
    assert again.status is whole.status
    assert reports  # the points that were missing were searched
    reports.clear()
    assert frontier(problem, 3, progress=reports.append, checkpoint=path, **few).points == whole.points
    assert not reports  # and now nothing is missing


def test_a_file_of_another_curve_is_refused(tmp_path: Path):
    problem, path = tiny_problem(3), tmp_path / "curve"
    few: dict[str, Any] = {"starts": 1, "iterations": 2, "progress": False, "checkpoint": path}
    frontier(problem, 2, **few)
    with pytest.raises(veil.errors.CheckpointError, match="points: 2 there, 3 here"):
        frontier(problem, 3, **few)
    with pytest.raises(veil.errors.CheckpointError, match="checkpoint of another run"):
        solve(problem, resume=path)
    path.write_bytes(b"veil-checkpoint-1 and no more")
    with pytest.raises(veil.errors.CheckpointError, match="cannot be read as a checkpoint"):
        frontier(problem, 2, **few)


def test_proven_bounds_hold_for_every_policy_and_do_not_increase():
    problem = veil.gallery.load("two-rooms")
    found = frontier(problem, 3, starts=2, iterations=15, proof_seconds=20)
    assert np.all(found.upper_bits >= found.bits)
    assert np.all(np.diff(found.upper_bits) <= 0)
    for point in found.points:
        best = veil.solve(problem.replace(min_return=point.threshold), "game", "history", certificate=False)
        assert best.opacity.bits <= point.upper_bits <= best.opacity.bits + 0.01
    assert np.isinf(frontier(problem, 3, starts=2, iterations=15).upper_bits).all()
    with pytest.raises(veil.InputError, match="proof_seconds: bounds are about the entropy"):
        frontier(problem, 3, objective="guess", proof_seconds=1)


def test_an_interrupt_of_the_proofs_keeps_the_points(monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veil.planning.frontier.certify", interrupted)
    found = frontier(veil.gallery.load("two-rooms"), 3, starts=2, iterations=15, proof_seconds=20)
    assert found.status is veil.Status.INTERRUPTED
    assert len(found.points) == 3
    assert np.isinf(found.upper_bits).all()
