"""Work shared by a team: the same results for any team, regardless of which workers are lost."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reproduction.run
from reproduction.store import Settings

import veil
from tests.planning.test_layers import corridor
from veil.common.clock import UNLIMITED, Clock, OutOfTime
from veil.common.workers import ALONE, Team, is_team
from veil.engine import kernel
from veil.measure import bracket
from veil.planning import frontier, layers, values
from veil.planning.frontier import Frontier
from veil.planning.solution import Solution


def doubled(subject: int, item: int, clock: Clock) -> tuple[int, bool]:
    return subject * item, isinstance(clock, Clock)


def lethal(folder: Path, item: int, clock: Clock) -> int:
    """Ends its worker the first time it is computed."""
    if not (folder / str(item)).exists():
        (folder / str(item)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def endless(subject: None, item: int, clock: Clock) -> int:
    while True:
        clock.check()


@pytest.fixture(scope="module")
def team() -> Iterator[Team]:
    with Team(2) as made:
        yield made


def test_what_is_a_team():
    for good in (1, "2", "tcp://10.0.0.1:8786", np.int64(3), ALONE):
        assert is_team(good)
    for bad in (0, "0", "-1", "", " ", True, False, 1.5, None):
        assert not is_team(bad)
        with pytest.raises(veil.InputError, match="expected a whole number, 1 or more, or the address of a Dask"):
            Team(bad)  # pyright: ignore[reportArgumentType]
    assert Team("1").alone
    problem = veil.gallery.load("two-rooms")
    for call in (
        veil.solve,
        veil.frontier,
        lambda p, workers: veil.opacity(p, veil.MarkovPolicy.uniform(p), workers=workers),
    ):
        with pytest.raises(veil.InputError, match="workers is 0"):
            call(problem, workers=0)


def test_shares_come_in_order_from_endless_items(team: Team):
    for who in (ALONE, team):
        found = who.shares(doubled, 3, iter(range(10**9)))
        assert [next(found) for _ in range(7)] == [(3 * number, True) for number in range(7)]


def test_a_team_keeps_the_time(team: Team):
    with pytest.raises(OutOfTime):
        list(team.shares(endless, None, [1], Clock(0.1)))
    with pytest.raises(OutOfTime):
        list(team.shares(endless, None, [1], Clock(2.0, stop=lambda: True)))


def test_no_result_depends_on_the_team(team: Team, monkeypatch: pytest.MonkeyPatch):
    """Samples, gradients, brackets, searches and frontiers, with everything shared that can be."""
    for module, name, value in (
        (values, "_SPREAD_SECONDS", 0.0),
        (bracket, "_SPREAD_SECONDS", 0.0),
        (values, "_BATCH_NUMBERS", 1),
        (layers, "_PART", 128),
        (layers, "_PART_BYTES", 1),
        (layers, "_VALUED", 128),
        (frontier, "_ITERATIONS", 2),
    ):
        monkeypatch.setattr(module, name, value)
    doors, path = veil.gallery.load("badge-doors"), veil.gallery.load("night-round")
    uniform = veil.MarkovPolicy.uniform(doors)
    theta = np.random.default_rng(0).normal(size=uniform.probabilities.shape)
    few: dict[str, Any] = {"starts": 3, "iterations": 2, "certificate": False, "progress": False}
    calls: dict[str, Callable[[Team], tuple[Any, ...]]] = {
        "sample": lambda who: (veil.opacity(doors, uniform, "sampled", sequences=10_000, workers=who),),
        "error": lambda who: (veil.opacity(doors, uniform, "sampled", sequences=100, std_error=0.01, workers=who),),
        "gradient": lambda who: veil.opacity_gradient(doors, theta, "sampled", sequences=9000, workers=who),
        "path": lambda who: (
            veil.opacity(path, veil.MarkovPolicy.uniform(path), "sampled", sequences=9000, workers=who),
        ),
        "bracket": lambda who: (veil.opacity(doors, uniform, "bracket", width=1e-9, workers=who),),
        "search": lambda who: _answer(veil.solve(doors, evaluation="exact", workers=who, **few)),
        "frontier": lambda who: _curve(veil.frontier(doors, 2, starts=2, iterations=2, workers=who)),
    }
    for name, call in calls.items():
        _assert_same(name, call(ALONE), call(team))
    monkeypatch.setattr(kernel, "ALWAYS_DENSE_STATES", 0)
    monkeypatch.setattr(kernel, "_DENSE_FILL", 2.0)
    lane = corridor(veil.LastState(["r0c3"]))
    sampled = [_answer(veil.solve(lane, evaluation="sampled", workers=who, **few)) for who in (ALONE, team)]
    _assert_same("sampled search", *sampled)


def _answer(solution: Solution) -> tuple[Any, ...]:
    assert isinstance(solution.policy, veil.MarkovPolicy)
    return solution.opacity, solution.expected_return, solution.policy.probabilities


def _curve(found: Frontier) -> tuple[Any, ...]:
    return tuple(part for point in found.points for part in (point.opacity, point.price_bits, point.policy.table))


def _assert_same(name: str, one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert len(one) == len(other), name
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, name


@pytest.mark.slow
def test_parts_of_the_reproduction_are_shared(team: Team):
    asked = [(piece.name, {}) for piece in reproduction.run.pieces(Settings(quick=True)) if piece.name == "layouts"]
    alone, shared = (
        [result for result, _ in who.shares(reproduction.run._worked, Settings(quick=True), asked)]
        for who in (ALONE, team)
    )
    assert alone == shared
    assert alone[0]["layouts"]


@pytest.mark.slow
def test_shares_of_lost_workers_are_computed_again(tmp_path: Path):
    with Team(2) as own:
        assert list(own.shares(lethal, tmp_path, range(4), UNLIMITED)) == [0, 1, 2, 3]
