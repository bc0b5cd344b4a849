"""The curve between hiding and return."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.test_return_range import harvest
from tests.planning.small_problems import Interrupting, random_problem, tiny_problem
from tests.unproven import solve
from veil.common.clock import Clock
from veil.planning import frontier as module
from veil.planning.frontier import Frontier, FrontierPoint, _cleaned, _Sweep, frontier
from veil.planning.frontier_file import Kept
from veil.planning.moved_bound import MovedBound
from veil.planning.options import FrontierOptions, MemoryName, SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.solution import Status
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


# The parts of a sweep


def kept(bits: float, price: float = 0.5, value: float = 0.0) -> Kept:
    hidden = veil.Opacity(bits, bits, bits, 1.0, "exact", 1)
    return Kept(veil.MarkovPolicy(np.ones((1, 1))), value, hidden, price, value)


def test_a_point_of_a_stricter_bound_that_hides_more_serves_the_freer_ones():
    found = {0: kept(0.5, 0.1), 1: kept(0.7, 0.2), 2: kept(0.3, 0.3), 3: kept(0.4, 0.4)}
    points = list(_cleaned(found, np.arange(4.0), np.array([False, False, False, True])))
    assert [point.threshold for point in points] == [0.0, 1.0, 2.0, 3.0]
    assert [point.opacity.bits for point in points] == [0.7, 0.7, 0.4, 0.4]
    assert [point.price_bits for point in points] == [0.0, 0.2, 0.0, np.inf]
    assert [point.threshold for point in _cleaned({0: found[0], 3: found[3]}, np.arange(4.0), np.zeros(4, bool))] == [
        0.0,
        3.0,
    ]


def swept(**settings: Any) -> _Sweep:
    problem = random_problem(1).replace(min_return=None)
    return _Sweep(MovedBound(problem), SolveOptions(method="ascent", **settings), Clock(settings.get("time_limit")))


def test_points_are_spaced_from_the_freest_value_to_the_strictest_bound():
    sweep = swept()
    last = sweep._strictest
    np.testing.assert_allclose(sweep._spaced(last - 1.0, 5), np.linspace(last - 1.0, last, 5))
    np.testing.assert_allclose(sweep._spaced(last + 1.0, 3), [last] * 3)


def test_each_search_begins_from_a_neighbour():
    sweep = swept()
    thresholds, found = np.arange(4.0), {1: kept(0.5)}
    assert sweep._asked(0, found, None) == (None, None)
    assert sweep._asked(0, found, thresholds) == (0.0, None)
    assert sweep._asked(2, found, thresholds) == (2.0, found[1].policy)
    assert sweep._asked(3, found, thresholds) == (3.0, sweep._richest)
    found[2] = kept(0.25)
    assert sweep._asked(1, found, thresholds) == (1.0, found[2].policy)
    assert sweep._asked(2, found, thresholds) == (2.0, sweep._richest)
    sweep._last = veil.MarkovPolicy.uniform(random_problem(1))
    assert sweep._asked(3, found, thresholds) == (3.0, sweep._last)
    assert sweep._asked(2, found, thresholds) == (2.0, sweep._richest)


def test_proofs_share_the_time_and_hold_for_stricter_bounds(monkeypatch: pytest.MonkeyPatch):
    sweep, given = swept(), list[float]()
    sweep._clock = Clock(60.0, now=lambda: 0.0)
    uppers: list[Any] = [0.9, 0.95, veil.TooLargeError("none"), 0.7]

    def proven(problem: veil.Problem, policy: Any, limit: float, **_: Any) -> Any:
        given.append(limit)
        upper = uppers[len(given) - 1]
        if isinstance(upper, BaseException):
            raise upper
        return SimpleNamespace(upper=upper)

    monkeypatch.setattr(module, "certify", proven)
    points = [FrontierPoint(float(n), 0.0, kept(0.5).opacity, 0.0, kept(0.5).policy, 0.0) for n in range(4)]
    found = sweep.bounded(points, 25.0)
    assert [point.upper_bits for point in found] == [0.9, 0.9, 0.9, 0.7]
    assert given == [15.0, 20.0, 25.0, 25.0]
    given.clear()
    uppers[1] = KeyboardInterrupt()
    found = sweep.bounded(points, 25.0)
    assert [point.upper_bits for point in found] == [0.9] * 4
    assert (len(given), sweep.status) == (2, Status.INTERRUPTED)
    late = swept()
    late._clock = Clock(0.0)
    assert [point.upper_bits for point in late.bounded(points, 25.0)] == [np.inf] * 4


def test_a_search_of_a_point_is_short_where_it_begins_from_another(monkeypatch: pytest.MonkeyPatch):
    sweep, given = swept(starts=9, iterations=70), list[SolveOptions]()
    answer = SimpleNamespace(status=Status.CONVERGED)
    monkeypatch.setattr(module, "search", lambda problem, options, make: given.append(options) or answer)
    sweep._search(0.5, None)
    assert (given[0].starts, given[0].iterations, given[0].time_limit) == (9, 70, None)
    policy = veil.MarkovPolicy.uniform(random_problem(1))
    sweep._clock = Clock(30.0, now=lambda: 0.0)
    sweep._search(0.5, policy)
    assert (given[1].starts, given[1].iterations, given[1].time_limit, given[1].start) == (5, 240, 30.0, policy)
    assert sweep.status is Status.CONVERGED
    answer.status = Status.TIME_LIMIT
    sweep._search(0.5, policy)
    assert sweep.status is Status.TIME_LIMIT
    over = swept()
    over._clock = Clock(0.0)
    assert over._search(0.5, None) is None
    assert (over.status, len(given)) == (Status.TIME_LIMIT, 3)


def test_a_file_of_a_curve_knows_its_thresholds(tmp_path: Path):
    moved, space = MovedBound(random_problem(1)), make_space(random_problem(1))
    plain = FrontierOptions(checkpoint=tmp_path / "curve")
    listed, same = (replace(plain, thresholds=given) for given in ([0.5, 0.25], (0.25, 0.5, 0.5)))
    files = [module._file_of(one, moved, space) for one in (plain, listed, same)]
    identities = [one._identity for one in files if one is not None]
    assert identities[0]["thresholds"] is None
    assert identities[1]["thresholds"] == identities[2]["thresholds"] == [0.25, 0.5]
    assert module._file_of(replace(plain, checkpoint=None), moved, space) is None


def test_searches_of_a_curve_are_counted_up_and_down_again():
    reports: list[Any] = []
    found = frontier(tiny_problem(3), 4, starts=1, iterations=3, seed=1, progress=reports.append)
    assert (found.along, found.relation) == ("return", "≥")
    points = [(one.iteration, one.of) for one in reports if one.phase == module.POINT]
    assert points[:4] == [(1, 6), (2, 6), (3, 6), (4, 6)]
    assert set(points[4:]) <= {(5, 6), (6, 6)}  # told where the way down improves a point


def test_half_a_second_of_proof_is_used_and_without_any_nothing_is_proven(monkeypatch: pytest.MonkeyPatch):
    given: list[float] = []
    monkeypatch.setattr(module, "certify", lambda *args, **_: given.append(args[2]) or SimpleNamespace(upper=0.75))
    few: dict[str, Any] = {"starts": 1, "iterations": 2, "progress": False}
    assert frontier(tiny_problem(3), 2, proof_seconds=0.5, **few).upper_bits.tolist() == [0.75, 0.75]
    assert given == [0.5, 0.5]
    assert np.isinf(frontier(tiny_problem(3), 2, **few).upper_bits).all()
    few["progress"] = Interrupting(1)
    assert frontier(tiny_problem(3), 2, proof_seconds=9.0, **few).status is Status.INTERRUPTED
    assert len(given) == 2
