"""Cases: games enclosed from both sides where the tree would be too large, round by round, without limits of time."""

from collections.abc import Callable
from typing import Any

import veil
from veil.common.clock import Clock, Progress
from veil.game.path_windows import enclose_path_game
from veil.game.refine import refine_game
from veil.game.windows import solve_window_game

from .problems import problem
from .registry import case

Enclosed = Callable[..., Any]


def rounds(enclose: Enclosed, of: veil.Problem, **settings: Any) -> dict[str, Any]:
    """Both bounds, and under `course` those after each round with the tables of the policy."""
    told: list[Progress] = []
    found = enclose(of, clock=Clock(progress=told.append), **settings)
    course = [(one.iteration, one.opacity_bits, one.upper_bits, one.multiplier) for one in told]
    best = found.best if enclose is not solve_window_game else found.revealing
    return {"lower": found.lower, "upper": found.upper, "course": {"rounds": course, "tables": best.tables}}


def refined(secret: str, **settings: Any) -> dict[str, Any]:
    return rounds(refine_game, problem(secret, horizon=5, min_return="60%"), **settings)


def windows(secret: str) -> dict[str, Any]:
    return rounds(solve_window_game, problem(secret, horizon=5, min_return="60%"), gap=1e-3, steps=1)


case("game-refined-initial", "initial", gap=2e-3, nodes=2, most_nodes=6, search=True)(refined)
case("game-refined-at", "at", gap=2e-3, nodes=2, most_nodes=6, search=True)(refined)
case("game-windows-last", "last", search=True)(windows)
case("game-windows-initial", "initial", search=True)(windows)


@case("game-refined-grid", search=True)
def refined_grid() -> dict[str, Any]:
    of = veil.gallery.load("paper-last-state", horizon=6, min_return="80%")
    return rounds(refine_game, of, gap=3e-3, nodes=8, most_nodes=64)


@case("game-path", search=True)
def path() -> dict[str, Any]:
    return rounds(enclose_path_game, veil.gallery.load("night-round", horizon=3, min_return=0.1), gap=0.02)
