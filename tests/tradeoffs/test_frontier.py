"""The curve between hiding and return, or along another constraint: in order, as good as single searches, proven, resumed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, Interrupting, harvest, limited, random_problem, tiny_problem
from veil.tradeoffs.frontier import Frontier

LIMITED = limited([veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")], 3)


@pytest.fixture(scope="module")
def curve() -> Frontier:
    return veil.frontier(random_problem(12), 6, progress=False)


def largest(problem: veil.Problem, memory: Any = "markov") -> float:
    """The largest return of a class."""
    free = problem.replace(min_return=None)
    return veil.solve(free, memory=memory, min_opacity=0.0, starts=2, iterations=10, **FEW).expected_return


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


@pytest.mark.parametrize(("seed", "memory"), [(5, "timed"), pytest.param(31, "markov", marks=pytest.mark.slow)])
def test_points_are_in_order_and_keep_what_they_claim(seed: int, memory: Any):
    problem = random_problem(seed)
    found = veil.frontier(problem, 4, memory=memory, starts=3, iterations=40, progress=False)
    hold_in_order(problem, found, 4)
    assert found.points[-1].threshold == pytest.approx(largest(problem, memory), abs=1e-9)
    assert found.policy_class == {"markov": "stationary Markov policies", "timed": "time-dependent policies"}[memory]


def test_the_curve_runs_from_the_freest_policy_to_the_largest_return(curve: Frontier):
    problem = random_problem(12)
    hold_in_order(problem, curve, 6)
    free = veil.solve(problem.replace(min_return=None), **FEW)
    assert curve.bits[0] == pytest.approx(free.opacity.bits, abs=1e-6)
    assert curve.returns[-1] == pytest.approx(largest(problem), abs=1e-9)
    assert curve.status is veil.Status.CONVERGED
    assert (curve.along, curve.relation) == ("return", "≥")
    for point in curve.points[1:-1:2]:  # each is as good as a search of its own
        alone = veil.solve(problem.replace(min_return=point.threshold), starts=4, iterations=100, **FEW)
        assert point.opacity.bits >= alone.opacity.bits - 1e-3


def test_prices_are_slopes_of_the_curve(curve: Frontier):
    """The curve of this problem is concave: each price lies between the slopes on both sides."""
    thresholds = np.array([point.threshold for point in curve.points])
    slopes = -np.diff(curve.bits) / np.diff(thresholds)
    assert np.all(np.diff(slopes) > 0)
    for index in range(1, 5):
        assert slopes[index - 1] - 0.01 <= curve.prices_bits[index] <= slopes[index] + 0.01
    assert curve.prices_bits[0] == 0
    assert curve.prices_bits[-1] == np.inf  # no bits buy more than the largest return
    assert np.all(np.isfinite(curve.prices_bits[:-1]))


def test_the_summary_is_a_table(curve: Frontier):
    lines = curve.summary().splitlines()
    assert lines[0].startswith("stationary Markov policies: 6 points in ")
    assert lines[0].endswith("converged")
    assert len(lines) == 8
    assert f"{curve.points[3].opacity.bits:.4f}" in lines[5]
    assert lines[-1].endswith("inf")


@pytest.mark.slow
def test_a_return_with_a_poor_local_maximum():
    """A plain SQP method finds 0.3724 bits at a return of 2.6507, from every start."""
    found = veil.frontier(random_problem(16), 6, progress=False)
    point = [point for point in found.points if point.threshold <= 2.6507][-1]
    assert point.opacity.bits >= 0.371


def test_the_same_seed_gives_the_same_curve_and_the_threshold_of_the_problem_is_not_used():
    problem, few = tiny_problem(0), {"seed": 2, "starts": 2, "iterations": 20, "progress": False}
    first, again, hard = (veil.frontier(one, 3, **few) for one in (problem, problem, problem.replace(min_return=1e9)))  # type: ignore[arg-type]
    for other in (again, hard):
        np.testing.assert_array_equal(first.bits, other.bits)
        np.testing.assert_array_equal(first.returns, other.returns)
        for one, two in zip(first.points, other.points, strict=True):
            assert one.policy.table.tobytes() == two.policy.table.tobytes()


def test_where_a_clock_earns_more():
    """Leaving at random earns 3.125 at most, with a clock 4; everything is seen, so nothing is hidden."""
    few: dict[str, Any] = {"starts": 2, "iterations": 20, "progress": False}
    stationary, timed = (veil.frontier(harvest(), 3, memory=memory, **few) for memory in ("markov", "timed"))
    assert stationary.returns[-1] == pytest.approx(3.125, abs=1e-9)
    assert timed.returns[-1] == pytest.approx(4, abs=1e-9)
    assert np.all(timed.bits == 0)


@pytest.mark.slow
def test_return_that_costs_nothing_is_one_point_many_times():
    problem = random_problem(3)
    rewards = np.ones((problem.num_states, problem.num_actions))
    model = veil.Model(problem.model.matrices, rewards, problem.model.initial)
    found = veil.frontier(problem.replace(model=model, min_return=None), 3, progress=False)
    assert len(found.points) == 3
    np.testing.assert_allclose(found.returns, problem.horizon)
    assert np.ptp(found.bits) <= 1e-3


def test_thresholds_can_be_listed():
    problem = veil.gallery.load("two-rooms")
    most = veil.max_return(problem)
    wanted = [0.9 * most, 0.2 * most, 0.2 * most]
    found = veil.frontier(problem, thresholds=wanted, starts=2, iterations=20, progress=False)
    assert [point.threshold for point in found.points] == sorted(set(wanted))
    assert all(point.expected_return >= point.threshold for point in found.points)
    assert found.bits[0] >= found.bits[1]
    assert np.all(np.isfinite(found.prices_bits))
    with pytest.raises(veil.InfeasibleError):
        veil.frontier(problem, thresholds=[most + 1], progress=False)


# Limits


def test_limits_are_honoured():
    problem = random_problem(12)
    none = veil.frontier(problem, 30, time_limit=0.0, progress=False)
    assert none.points == ()
    assert none.status is veil.Status.TIME_LIMIT
    few = veil.frontier(problem, 500, time_limit=0.4, progress=False)
    assert few.status is veil.Status.TIME_LIMIT
    assert few.seconds < 4
    assert len(few.points) < 500
    for point in few.points:
        assert point.expected_return >= point.threshold


def test_a_short_time_is_shared_by_the_points_and_said():
    """The first search does not take all of the time, and points whose searches had hardly begun are doubted."""
    problem = random_problem(12).replace(horizon=40)
    found = veil.frontier(problem, 4, evaluation="sampled", time_limit=6.0, progress=False)
    assert len(found.points) == 4
    assert found.status is veil.Status.TIME_LIMIT
    hurried = veil.frontier(problem, 4, evaluation="sampled", time_limit=0.2, progress=False)
    assert "raise time_limit" in hurried.doubts[0]
    assert hurried.doubts[0] in hurried.summary()


def test_points_that_the_time_cut_short_are_searched_again(tmp_path: Path):
    problem = random_problem(12).replace(horizon=40)
    few: dict[str, Any] = {"evaluation": "sampled", "checkpoint": tmp_path / "curve", "seed": 1}
    few["thresholds"] = [share * veil.max_return(problem) for share in (0.5, 0.7, 0.9)]
    cut = veil.frontier(problem, 3, time_limit=2.0, progress=False, **few)
    reports: list[object] = []
    more = veil.frontier(problem, 3, time_limit=5.0, progress=reports.append, **few)
    assert reports
    known = {point.threshold: point for point in cut.points}
    assert set(known) <= {point.threshold for point in more.points}
    for point in more.points:
        assert point.threshold not in known or point.opacity.bits >= known[point.threshold].opacity.bits


def test_an_interrupt_leaves_what_was_found():
    found = veil.frontier(tiny_problem(3), 8, starts=2, iterations=10, progress=Interrupting(45))
    assert found.status is veil.Status.INTERRUPTED
    assert 1 <= len(found.points) < 8
    for point in found.points:
        assert point.expected_return >= point.threshold


def test_bad_input_is_refused():
    problem = tiny_problem(0)
    wrong: list[tuple[dict[str, Any], str]] = [
        *(({"points": points}, "points is") for points in (1, 0, 2.5, "many", True)),
        *(({"thresholds": given}, "thresholds") for given in ([], ["a"], "0.1", [float("nan")])),
        ({"goal": "transparent"}, "there is no option 'goal'"),
        ({"min_opacity": 0.1}, "there is no option 'min_opacity'"),
        ({"memory": "much"}, "memory is 'much', expected 'markov', 'timed'"),
        ({"memory": "history"}, "memory: method='ascent' has 'markov' and 'timed' and 'finite', found 'history': use"),
        ({"objective": "bits"}, "objective is 'bits', expected one of 'entropy'"),
        ({"time_limit": -1.0, "seed": -1}, "frontier: 2 defects"),
        ({"objective": "guess", "proof_seconds": 1}, "proof_seconds: bounds are about the entropy"),
    ]
    for options, said in wrong:
        with pytest.raises(veil.InputError, match=said):
            veil.frontier(problem, **options)


# Checkpoints


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.slow
def test_a_curve_continues_from_its_file(listed: bool, tmp_path: Path):
    problem, path = tiny_problem(3), tmp_path / "curve"
    top = largest(problem)
    few: dict[str, Any] = {"starts": 1, "iterations": 3, "seed": 1}
    few["thresholds"] = [top - 0.3, top - 0.2, top - 0.1] if listed else None
    whole = veil.frontier(problem, 3, progress=False, **few)
    cut = veil.frontier(problem, 3, progress=Interrupting(10), checkpoint=path, **few)
    assert cut.status is veil.Status.INTERRUPTED
    reports: list[object] = []
    again = veil.frontier(problem, 3, progress=reports.append, checkpoint=path, **few)
    assert again.points == whole.points
    assert again.status is whole.status
    assert reports  # the points that were missing were searched
    reports.clear()
    assert veil.frontier(problem, 3, progress=reports.append, checkpoint=path, **few).points == whole.points
    assert not reports  # and now nothing is missing


def test_a_file_of_another_curve_is_refused(tmp_path: Path):
    problem, path = tiny_problem(3), tmp_path / "curve"
    few: dict[str, Any] = {"starts": 1, "iterations": 2, "progress": False, "checkpoint": path}
    veil.frontier(problem, 2, **few)
    with pytest.raises(veil.errors.CheckpointError, match="points: 2 there, 3 here"):
        veil.frontier(problem, 3, **few)
    with pytest.raises(veil.errors.CheckpointError, match="thresholds"):
        veil.frontier(problem, 2, thresholds=[0.1], **few)
    with pytest.raises(veil.errors.CheckpointError, match="checkpoint of another run"):
        veil.solve(problem, resume=path, **FEW)
    path.write_bytes(b"veil-checkpoint-1 and no more")
    with pytest.raises(veil.errors.CheckpointError, match="cannot be read as a checkpoint"):
        veil.frontier(problem, 2, **few)


# Proofs


def test_proven_bounds_hold_for_every_policy_and_do_not_increase():
    problem, few = veil.gallery.load("two-rooms"), {"starts": 2, "iterations": 15, "progress": False}
    found = veil.frontier(problem, 3, proof_seconds=20, **few)  # type: ignore[arg-type]
    assert np.all(found.upper_bits >= found.bits)
    assert np.all(np.diff(found.upper_bits) <= 0)
    for point in found.points:
        best = veil.solve(problem.replace(min_return=point.threshold), "game", **FEW)
        assert best.opacity.bits <= point.upper_bits + 1e-9
        assert point.upper_bits <= best.opacity.bits + 0.01
    assert np.isinf(veil.frontier(problem, 3, **few).upper_bits).all()  # type: ignore[arg-type]


# Along other constraints


@pytest.mark.parametrize(
    ("along", "sign"), [("return", 1), ("energy", -1), pytest.param("G !s2", 1, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_a_curve_along_any_constraint_keeps_the_others(along: str, sign: int):
    curve = veil.frontier(LIMITED, 3, along=along, memory="timed", starts=1, iterations=5, progress=False)
    assert along in curve.along
    assert len(curve.points) >= 2
    thresholds = np.array([point.threshold for point in curve.points])
    assert np.all(sign * np.diff(thresholds) > 0)
    assert np.all(np.diff(curve.bits) <= 0)
    assert np.all(sign * (curve.values - thresholds) >= 0)
    for point in curve.points:
        for one in veil.constraint_values(LIMITED, point.policy):
            assert one.value == pytest.approx(point.value, abs=1e-12) if along in one.name else one.met
    assert curve.prices_bits[0] == 0
    assert along in curve.summary() or curve.along in curve.summary()


def test_which_constraint_a_curve_is_along():
    both = limited([veil.Return("10%", "90%", reward="energy"), veil.Return(max="95%")], 3)
    few: dict[str, Any] = {"starts": 1, "iterations": 5, "thresholds": [1.9, 2.2], "progress": False}
    with pytest.raises(veil.InputError, match="several constraints have: use 'energy ≥' or 'energy ≤'"):
        veil.frontier(both, 3, along="energy")
    with pytest.raises(veil.InputError, match="did you mean 'energy'"):
        veil.frontier(both, 3, along="enrgy")
    for along in ("energy <=", " energy ≤ "):
        curve = veil.frontier(both, 2, along=along, **few)
        assert [point.threshold for point in curve.points] == [2.2, 1.9]
        assert (curve.along, curve.relation) == ("energy", "≤")
