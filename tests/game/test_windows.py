"""Games on windows: the two around the secret's time enclose the value of the whole game."""

import numpy as np
import pytest

import veil
from tests.game.cases import first_or_last
from tests.policy.test_history import play
from tests.seeds import seeds
from veil.common.clock import Clock, Progress
from veil.engine.hidden import build
from veil.game import ascent, windows
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
    solved = []

    def counted(*arguments, **named):
        solved.append(1)
        return blind(*arguments, **named)

    blind = ascent.solve_blind_game
    monkeypatch.setattr(ascent, "solve_blind_game", counted)
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


@pytest.mark.parametrize("return_over", ["horizon", "infinite"])
def test_the_first_steps_pay_what_the_best_continuation_earns(return_over: ReturnOver):
    model = veil.gallery.load("paper-initial-state", horizon=9).model
    discounted = veil.Model(model.matrices, model.rewards, model.initial, 0.9)
    problem = veil.gallery.load("paper-initial-state", horizon=9).replace(
        model=discounted, min_return=None, return_over=return_over
    )
    first = windows._first_steps(problem, 4)
    assert first.horizon == 4
    assert veil.max_return(first) == pytest.approx(veil.max_return(problem), abs=1e-9)
