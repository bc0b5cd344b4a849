"""The comparison with entropy-regularised policies: ten temperatures, both opacities, and the value."""

from typing import Any

from veil import gallery
from veil.game.solve import GameResult
from veil.problem.problem import Problem
from veil.tradeoffs.soft import PAPER_TEMPERATURES, soft_policy

from .layouts import SOFT_DISCOUNT
from .measured import measure, play_game
from .published import PAPER
from .store import Settings, Times

_GAP, _QUICK_GAP = 1e-3, 1e-2


def compare(settings: Settings, times: Times) -> dict[str, Any]:
    """The baseline on the paper's two problems: `last` and `initial`, a list of `measure`s with their `temperature`."""
    found = {}
    for paper in PAPER:
        problem = gallery.load(paper.problem)
        with times.of("game"):
            game = play_game(problem, _QUICK_GAP if settings.quick else _GAP)
        with times.of("measures"):
            found[paper.key] = [_point(problem, tau, game, settings) for tau in PAPER_TEMPERATURES]
    return found


def _point(problem: Problem, temperature: float, game: GameResult, settings: Settings) -> dict[str, Any]:
    policy = soft_policy(problem, temperature, discount=SOFT_DISCOUNT)
    return {"temperature": temperature} | measure(problem, policy, game, settings.seed)
