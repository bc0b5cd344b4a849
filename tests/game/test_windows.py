"""Games on windows: the two around the secret's time enclose the value of the whole game."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.cases import counted_blind_games, first_or_last
from tests.policy.test_history import play
from tests.seeds import seeds
from veil.common.clock import Clock, Progress
from veil.engine.hidden import build
from veil.game import windows
from veil.game.pairs import TailEvents, make_pairs
from veil.game.solve import solve_game
from veil.game.windows import solve_window_game
from veil.problem.problem import ReturnOver


@pytest.mark.parametrize("seed", seeds(12, 40))
def test_the_two_games_enclose_the_whole(seed):
    problem, threshold = first_or_last(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    told: list[Progress] = []
    solve_window_game(problem, threshold=threshold, gap=0.0, steps=1, clock=Clock(3.0, progress=told.append))
    assert told
    for one in told:
        assert one.opacity_bits <= whole.upper + 1e-9
        assert one.upper_bits >= whole.lower - 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_a_policy_that_was_told_can_be_played(seed):
    problem, threshold = first_or_last(seed, kinds=("last",))
    pairs = make_pairs(build(problem), TailEvents(1), told_at=1)
    result = solve_game(problem, threshold=threshold, gap=1e-2, iterations=100, pairs=pairs)
    policy, rng = result.policy(problem), np.random.default_rng(seed)
    returns = [play(problem, policy, rng, run) for run in range(300)]
    assert np.mean(returns) == pytest.approx(result.expected_return, abs=5 * np.std(returns) / np.sqrt(300) + 1e-2)


def test_sixty_steps_on_the_papers_grid():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    result = solve_window_game(problem, threshold=4.9, gap=0.05, clock=Clock(60.0))
    assert result.gap <= 0.05
    assert result.revealing.expected_return >= 4.9


def test_the_game_without_memory_is_solved_once(monkeypatch: pytest.MonkeyPatch):
    solved = counted_blind_games(monkeypatch)
    problem = veil.gallery.load("paper-last-state").replace(horizon=6, min_return="80%")
    first = solve_window_game(problem, gap=2e-2, clock=Clock(60.0))
    assert first.revealing_steps > 2
    assert len(solved) == 1
    solve_window_game(problem, gap=0.5, blind=first.forgetting.blind, clock=Clock(20.0))
    assert len(solved) == 1


def test_a_stop_request_and_an_expired_clock_still_give_both_bounds():
    problem = veil.gallery.load("paper-last-state").replace(horizon=40)
    for clock, reason in ((Clock(0.0), "time limit"), (Clock(60.0, stop=lambda: True), "stop requested")):
        result = solve_window_game(problem, clock=clock)
        assert result.stopped == reason
        assert 0 <= result.lower <= result.upper <= 1.0 + 1e-12


def test_an_interrupt_ends_with_the_best_so_far():
    def interrupt(news: Progress) -> None:
        if news.iteration == 2:
            raise KeyboardInterrupt

    problem = veil.gallery.load("paper-last-state").replace(horizon=40)
    result = solve_window_game(problem, gap=1e-2, clock=Clock(60.0, progress=interrupt))
    assert result.stopped == "interrupted"
    assert result.revealing_steps == result.forgetting_steps == 2


def test_the_secret_must_be_settled_first_or_last():
    problem = veil.gallery.load("paper-last-state").replace(secret=veil.StateAt(3, [0]), horizon=30)
    with pytest.raises(veil.InputError, match="settled at time 3, expected 0 or the horizon 30"):
        solve_window_game(problem)


@pytest.mark.parametrize("length", [1, 4, 8])
@pytest.mark.parametrize("return_over", ["horizon", "infinite"])
def test_the_first_steps_pay_what_the_best_continuation_earns(return_over: ReturnOver, length: int):
    model = veil.gallery.load("paper-initial-state", horizon=9).model
    discounted = veil.Model(model.matrices, model.rewards, model.initial, 0.9)
    problem = veil.gallery.load("paper-initial-state", horizon=9).replace(
        model=discounted, min_return=None, return_over=return_over
    )
    first = windows._first_steps(problem, length)
    assert first.horizon == length
    assert veil.max_return(first) == pytest.approx(veil.max_return(problem), abs=1e-9)


def test_the_first_steps_have_all_models():
    moves = np.array([[[0.5, 0.5]], [[0.2, 0.8]]])
    models = [veil.Model(moves, np.array([[0.0], [gain]]), 0) for gain in (1.0, 2.0)]
    problem = veil.Problem(models, veil.Observer(np.eye(2)), veil.WhichModel([0.5, 0.5]), 4)
    first = windows._first_steps(problem, 2)
    assert len(first.models) == 2
    for made, model in zip(first.models, models, strict=True):
        two = moves[:, 0] @ model.rewards[:, 0] + model.rewards[:, 0]  # what two further steps earn
        np.testing.assert_allclose(made.terminal_rewards, two)


# Why windows end, with games whose bounds are given.


def enclosed(monkeypatch: pytest.MonkeyPatch, games: list[tuple[float, float]], horizon: int = 3, **settings: Any):
    """The windows of games with these bounds, in the order in which they are played; the next one does not fit."""
    left = iter(games)

    def solved(problem, **given):
        bounds = next(left, None)
        if bounds is None:
            raise veil.TooLargeError("no more games")
        return SimpleNamespace(lower=bounds[0], upper=bounds[1], multiplier=1.0, stopped="gap reached", blind=None)

    monkeypatch.setattr(windows, "solve_game", solved)
    told: list[Progress] = []
    clock = settings.pop("clock", Clock(progress=told.append))
    problem = veil.gallery.load("paper-last-state", horizon=horizon).replace(min_return=None)
    options: dict[str, Any] = {"gap": 0.01} | settings
    result = solve_window_game(problem, steps=1, clock=clock, **options)
    return result, [(one.iteration, one.opacity_bits, one.upper_bits) for one in told]


def test_windows_grow_to_the_whole_horizon_and_each_side_keeps_its_best(monkeypatch: pytest.MonkeyPatch):
    games = [(0.5, 1.0), (0.0, 0.9), (0.3, 1.0), (0.0, 0.8), (0.4, 0.85)]
    result, told = enclosed(monkeypatch, games)
    assert told == [(1, 0.5, 0.9), (2, 0.5, 0.8), (3, 0.5, 0.8)]
    assert (result.lower, result.revealing_steps, result.upper, result.forgetting_steps) == (0.5, 1, 0.8, 2)
    assert result.gap == 0.8 - 0.5
    assert result.bounds() == [(result.forgetting, 0.5)]
    assert result.stopped == "whole horizon"  # where both sides are one game
    result, told = enclosed(monkeypatch, [(0.2, 0.8), (0.2, 0.8), (0.4, 0.6)], horizon=2)
    assert told[-1] == (2, 0.4, 0.6)
    assert result.revealing is result.forgetting


def test_windows_end_at_the_gap_asked_for(monkeypatch: pytest.MonkeyPatch):
    result, told = enclosed(monkeypatch, [(0.5, 1.0), (0.0, 0.75)], gap=0.25)
    assert result.stopped == "gap reached"
    assert len(told) == 1


def test_windows_end_where_one_closes_less_than_its_share_of_the_gap(monkeypatch: pytest.MonkeyPatch):
    games = [(0.0, 1.0), (0.0, 1.0), (0.25, 1.0), (0.0, 0.75), (0.25, 1.0), (0.0, 0.5)]
    result, told = enclosed(monkeypatch, games, horizon=9, least=0.5)
    assert [upper - lower for _, lower, upper in told] == [1.0, 0.5, 0.25]  # half of it is enough
    assert result.stopped == "memory"
    result, told = enclosed(monkeypatch, games, horizon=9, least=0.6)
    assert [upper - lower for _, lower, upper in told] == [1.0, 0.5]
    assert result.stopped == "too slow"


def test_windows_end_where_the_next_one_does_not_fit(monkeypatch: pytest.MonkeyPatch):
    result, told = enclosed(monkeypatch, [(0.5, 1.0), (0.0, 0.9)])
    assert (result.lower, result.upper, result.stopped, len(told)) == (0.5, 0.9, "memory", 1)
    for none in ([], [(0.5, 1.0)]):  # not both sides of the first
        with pytest.raises(veil.TooLargeError):
            enclosed(monkeypatch, none)


def test_a_window_is_not_begun_where_it_would_pass_the_deadline(monkeypatch: pytest.MonkeyPatch):
    """The next one may cost four times as much: here each report takes two seconds, and nothing else takes any."""
    for limit, expected in ((9.75, 1), (10.0, 2), (11.75, 2), (12.0, 3)):
        now, told = [0.0], []

        def report(news: Progress, now=now, told=told) -> None:
            told.append(news)
            now[0] += 2.0

        clock = Clock(limit, progress=report, now=lambda now=now: now[0])
        result, _ = enclosed(monkeypatch, [(0.0, 1.0)] * 20, horizon=9, clock=clock)
        assert result.stopped == "time limit"
        assert len(told) == expected
