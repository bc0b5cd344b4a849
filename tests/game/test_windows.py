"""Games on windows: the two around the secret's time enclose the value of the whole game."""

import numpy as np
import pytest

import veil
from tests.game.cases import first_or_last
from tests.policy.test_history import play
from tests.seeds import in_blocks
from veil.common.clock import Clock, Progress
from veil.engine.compile import build
from veil.game.pairs import TailEvents, make_pairs
from veil.game.solve import solve_game
from veil.game.windows import solve_window_game
from veil.planning.game_method import lasting


@in_blocks(2, 40)
def test_the_two_games_enclose_the_whole(seed):
    problem, threshold = first_or_last(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    told: list[Progress] = []
    solve_window_game(problem, threshold=threshold, gap=0.0, steps=1, clock=Clock(3.0, progress=told.append))
    assert told
    for one in told:
        assert one.opacity_bits <= whole.upper + 1e-9
        assert one.upper_bits >= whole.lower - 1e-9


@in_blocks(4, 12)
@pytest.mark.slow
def test_a_policy_that_was_told_can_be_played(seed):
    problem, threshold = first_or_last(seed, kinds=("last",))
    pairs = make_pairs(build(problem), TailEvents(1), told_at=1)
    result = solve_game(problem, threshold=threshold, gap=1e-2, iterations=100, pairs=pairs)
    policy, rng = result.policy(problem), np.random.default_rng(seed)
    returns = [play(problem, policy, rng, run) for run in range(300)]
    assert np.mean(returns) == pytest.approx(result.expected_return, abs=5 * np.std(returns) / np.sqrt(300) + 1e-2)


@pytest.mark.slow
def test_sixty_steps_on_the_papers_grid():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    result = solve_window_game(problem, threshold=4.9, gap=0.05, clock=Clock(60.0))
    assert result.gap <= 0.05
    assert result.revealing.expected_return >= 4.9


def test_an_interrupt_ends_with_the_best_so_far():
    def interrupt(news: Progress) -> None:
        if news.iteration == 2:
            raise KeyboardInterrupt

    problem = veil.gallery.load("paper-last-state").replace(horizon=15)
    result = solve_window_game(problem, gap=1e-2, clock=Clock(60.0, progress=interrupt))
    assert result.stopped == "interrupted"
    assert result.revealing_steps == result.forgetting_steps == 2


def test_the_secret_must_be_settled_first_or_last():
    problem = veil.gallery.load("paper-last-state").replace(secret=veil.StateAt(3, [0]), horizon=30)
    with pytest.raises(veil.InputError, match="settled at time 3, expected 0 or the horizon 30"):
        solve_window_game(problem)


@pytest.mark.parametrize("return_over", ["horizon", "infinite"])
def test_the_first_steps_pay_what_the_best_continuation_earns(return_over):
    """Of a secret settled at time 0: the policy of the window earns its return over the whole horizon."""
    problem = veil.gallery.load("paper-initial-state", horizon=9)
    model = veil.Model(problem.model.matrices, problem.model.rewards, problem.model.initial, 0.9)
    problem = problem.replace(model=model, min_return="70%", return_over=return_over)
    found = solve_window_game(problem, gap=1.0, steps=3)
    assert found.problem.horizon == found.revealing_steps == 3
    assert veil.max_return(found.problem) == pytest.approx(veil.max_return(problem), abs=1e-9)
    policy = lasting(problem, found.revealing.policy(found.problem))
    assert veil.expected_return(problem, policy) == pytest.approx(found.revealing.expected_return, abs=1e-9)


def test_the_first_steps_have_all_models():
    moves = np.array([[[0.5, 0.5]], [[0.2, 0.8]]])
    models = [veil.Model(moves, np.array([[0.0], [gain]]), 0) for gain in (1.0, 2.0)]
    problem = veil.Problem(models, veil.Observer(np.eye(2)), veil.WhichModel([0.5, 0.5]), 4)
    first = solve_window_game(problem, gap=1.0).problem
    for made, model in zip(first.models, models, strict=True):
        two = moves[:, 0] @ model.rewards[:, 0] + model.rewards[:, 0]  # what two further steps earn
        np.testing.assert_allclose(made.terminal_rewards, two)


@pytest.mark.slow
def test_windows_end_at_the_gap_or_with_the_memory():
    problem = veil.gallery.load("paper-last-state", horizon=5).replace(min_return="80%")
    wide = solve_window_game(problem, gap=1.0, steps=1)
    assert (wide.stopped, wide.revealing_steps) == ("gap reached", 1)
    small = solve_window_game(problem, gap=1e-2, steps=1, memory_bytes=2**18)
    assert small.stopped == "memory"
    whole = solve_window_game(problem, gap=1e-2, steps=1)
    assert wide.lower <= small.lower <= whole.lower <= whole.upper <= small.upper <= wide.upper
    with pytest.raises(veil.TooLargeError):
        solve_window_game(problem, memory_bytes=2**10)
