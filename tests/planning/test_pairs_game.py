"""Parts of the game against the observers of several pairs: what it refuses, what it is played for, and its sizes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.planning.test_pairs import two_sensors
from tests.record.planned import constrained
from veil.common.clock import Clock
from veil.engine.return_range import max_return, threshold
from veil.planning import pairs_game
from veil.planning.pairs_game import aimed_return, least_hidden, pair_prices, played_pairs, solve_pairs, watching
from veil.problem.return_rounding import return_rounding


def sensors(**bounds: Any) -> veil.Problem:
    """The problem with the pair of another observer alone, whose secret is the same."""
    problem = two_sensors(1, **bounds)
    return problem.replace(pairs=problem.pairs[:1])


def test_pairs_that_must_keep_bits_are_played_after_those_that_are_hidden():
    assert played_pairs(sensors(min=0.3), ("own",)) == ("own", "other")
    assert played_pairs(sensors(min=0.3), ("other", "own")) == ("other", "own")
    assert played_pairs(sensors(min=0.3), ("other",)) == ("other",)
    assert played_pairs(sensors(), ("own", "other")) == ("own", "other")


@pytest.mark.parametrize("hide", [("own",), ("own", "other"), ("other",)])
@pytest.mark.parametrize("bounds", [{"max": 0.5}, {"min": 0.1, "max": 0.5}])
def test_a_bound_from_above_is_refused(hide: tuple[str, ...], bounds: dict[str, float]):
    with pytest.raises(veil.InputError, match=r"pair 'other'.*H\(other\) ≤ 0.5 is not convex"):
        played_pairs(sensors(**bounds), hide)


def test_the_game_is_played_for_the_threshold_and_what_rounding_may_take_of_it():
    problem = random_problem(1)
    wanted, most = threshold(problem), max_return(problem)
    assert wanted is not None
    assert aimed_return(problem) == wanted + return_rounding(problem) < most
    assert aimed_return(problem.replace(min_return=most)) == most
    assert aimed_return(problem.replace(min_return=None)) is None
    limited = constrained()
    assert aimed_return(limited) == threshold(limited)


@pytest.mark.parametrize(
    ("limit", "memory"), [(None, 2**29), (1000.0, 2**29), (100.0, 100 * 2**21), (1.0, 2**21), (0.25, 2**21)]
)
def test_the_tree_is_as_large_as_the_time_allows(monkeypatch: pytest.MonkeyPatch, limit: float | None, memory: int):
    problem, asked = sensors(), dict[str, Any]()

    def play(problem: veil.Problem, hide: tuple[str, ...], **given: Any) -> Any:
        asked.update(given, hide=hide)
        return SimpleNamespace(policy=lambda: "policy")

    monkeypatch.setattr(pairs_game, "solve_records_game", play)
    clock = Clock(limit, now=lambda: 0.0)
    assert solve_pairs(problem, ("own", "other"), gap=0.01, iterations=7, clock=clock)[1] == "policy"
    assert asked.pop("memory_bytes") == memory
    assert asked == {
        "hide": ("own", "other"), "threshold": aimed_return(problem), "gap": 0.01, "iterations": 7, "clock": clock
    }  # fmt: skip


def test_prices_are_those_of_the_pairs_that_must_keep_bits():
    game: Any = SimpleNamespace(
        rules=[SimpleNamespace(name="own", weight=1.0), SimpleNamespace(name="other", weight=0.25)]
    )
    assert pair_prices(sensors(min=0.3), game) == (0.25,)
    assert pair_prices(sensors(), game) == ()
    game.rules = game.rules[:1]
    assert pair_prices(sensors(min=0.3), game) == (0.0,)


def test_a_policy_of_a_pair_acts_on_what_its_observer_sees():
    """It hides from that observer what it hides in the problem of the pair, and the least is that of the pairs named."""
    problem = sensors(min=0.3)
    found = veil.solve(problem.pair("other"), "game", certificate=False, progress=False)
    assert isinstance(found.policy, veil.HistoryPolicy)
    policy = watching(problem, found.policy, "other")
    assert policy.sees == ("other",)
    hidden = veil.opacity(problem, policy, pair="other").bits
    assert hidden == pytest.approx(found.opacity.bits, abs=1e-9)
    own = veil.opacity(problem, policy)
    solution: Any = SimpleNamespace(opacity=own, policy=policy)
    assert abs(own.bits - hidden) > 1e-3
    for names, least in ((("own",), own.bits), (("other",), hidden), (("own", "other"), min(own.bits, hidden))):
        np.testing.assert_allclose(least_hidden(problem, solution, names), least, atol=1e-9)


def test_the_least_that_is_hidden_is_the_lower_end_of_what_is_known():
    solution: Any = SimpleNamespace(opacity=SimpleNamespace(interval=lambda: (0.25, 0.75)))
    assert least_hidden(sensors(), solution, ("own",)) == 0.25


def test_a_pair_that_is_not_played_is_refused_where_what_is_hidden_in_it_cannot_be_told(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuse(problem: veil.Problem, known: Any, name: str) -> None:
        raise veil.InputError("pair", [name])

    monkeypatch.setattr(pairs_game, "apart_for", refuse)
    assert played_pairs(sensors(), ("own", "other")) == ("own", "other")
    with pytest.raises(veil.InputError, match=r"pair 'other'.*hides in it cannot be told"):
        played_pairs(sensors(), ("own",))


@pytest.mark.parametrize(("times", "events"), [(0, 0), (1, 5), (2, 5)])
def test_a_policy_of_a_pair_watches_all_of_its_events(monkeypatch: pytest.MonkeyPatch, times: int, events: int):
    """It watches none where there is one decision, before anything is seen."""
    monkeypatch.setattr(pairs_game, "HistoryPolicy", lambda *_, **given: given["views"])
    policy: Any = SimpleNamespace(
        first=np.zeros(3), following=[np.zeros((2, 5))] * times, decisions=(), executable=True, told_at=None, told=None
    )
    views: Any = watching(sensors(), policy, "other")
    first, after = views["other"]
    assert (first.tolist(), after.tolist()) == ([0, 1, 2], list(range(events)))
