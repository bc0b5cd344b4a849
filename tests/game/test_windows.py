"""Games on windows: the two around the secret's time enclose the value of the whole game."""

import numpy as np
import pytest

import veil
from tests.game.cases import first_or_last, grown
from tests.policy.test_history import play
from tests.seeds import in_blocks
from veil.common.clock import Clock, Progress
from veil.engine.compile import build
from veil.game.enclose import enclose
from veil.game.pairs import TailEvents, make_pairs
from veil.game.solve import solve_game


@in_blocks(2, 40)
def test_the_two_games_enclose_the_whole(seed):
    problem, threshold = first_or_last(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    told: list[Progress] = []
    grown(problem, threshold=threshold, gap=0.0, clock=Clock(3.0, progress=told.append))
    assert told[0].phase == "windows"
    for one in told:
        assert one.opacity_bits <= whole.upper + 1e-9
        assert one.upper_bits >= whole.lower - 1e-9


@in_blocks(4, 12)
@pytest.mark.slow
def test_a_policy_that_was_told_can_be_played(seed):
    problem, threshold = first_or_last(seed, kinds=("last",))
    pairs = make_pairs(build(problem), TailEvents(1), told_at=1)
    result = solve_game(problem, threshold=threshold, gap=1e-2, iterations=100, pairs=pairs)
    policy, rng = result.policy(), np.random.default_rng(seed)
    returns = [play(problem, policy, rng, run) for run in range(300)]
    assert np.mean(returns) == pytest.approx(result.expected_return, abs=5 * np.std(returns) / np.sqrt(300) + 1e-2)


@pytest.mark.slow
def test_sixty_steps_on_the_papers_grid():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    result = enclose(problem, threshold=4.9, gap=0.05, clock=Clock(60.0))
    assert result.gap <= 0.05
    assert result.best.expected_return >= 4.9


def test_an_interrupt_ends_with_the_best_so_far():
    def interrupt(news: Progress) -> None:
        if news.iteration == 2:
            raise KeyboardInterrupt

    problem = veil.gallery.load("paper-last-state").replace(horizon=15)
    result = grown(problem, gap=1e-2, clock=Clock(60.0, progress=interrupt))
    assert result.stopped == "interrupted"
    assert result.best.graph.told_at == problem.horizon - 2
    assert result.games[0].graph.kind == f"the events after time {problem.horizon - 2}"


@pytest.mark.parametrize("return_over", ["horizon", "infinite"])
def test_the_first_steps_pay_what_the_best_continuation_earns(return_over):
    """Of a secret settled at time 0: the policy of the window earns its return over the whole horizon."""
    problem = veil.gallery.load("paper-initial-state", horizon=9)
    model = veil.Model(problem.model.matrices, problem.model.rewards, problem.model.initial, 0.9)
    problem = problem.replace(model=model, min_return="70%", return_over=return_over)
    found = grown(problem, gap=1.0)
    assert found.best.problem.horizon == 2
    assert veil.max_return(found.best.problem) == pytest.approx(veil.max_return(problem), abs=1e-9)
    policy = found.policy(problem)
    assert veil.expected_return(problem, policy) == pytest.approx(found.best.expected_return, abs=1e-9)


def test_the_first_steps_have_all_models():
    moves = np.array([[[0.5, 0.5]], [[0.2, 0.8]]])
    models = [veil.Model(moves, np.array([[0.0], [gain]]), 0) for gain in (1.0, 2.0)]
    problem = veil.Problem(models, veil.Observer(np.eye(2)), veil.WhichModel([0.5, 0.5]), 4)
    first = grown(problem, gap=1.0).best.problem
    for made, model in zip(first.models, models, strict=True):
        two = moves[:, 0] @ model.rewards[:, 0] + model.rewards[:, 0]  # what two further steps earn
        np.testing.assert_allclose(made.terminal_rewards, two)


def test_a_game_on_the_first_steps_alone_is_not_called_exact():
    """Nothing is hidden in them, and the game of who stops looking after them is no better than what was known."""
    problem = veil.gallery.load("paper-initial-state", horizon=9)
    found = grown(problem.replace(observer=veil.Observer(np.eye(problem.num_states))), gap=1.0)
    assert (found.lower, found.upper) == (0.0, pytest.approx(0.0, abs=1e-9))
    assert not found.is_exact
