"""Cases: games enclosed from both sides where the tree would be too large, turn by turn, without limits of time."""

from typing import Any

import veil
from tests.game.cases import grown
from veil.common.clock import Clock, Progress

from .problems import problem
from .registry import case


def turns(of: veil.Problem, **settings: Any) -> dict[str, Any]:
    """Both bounds, and under `course` those after each turn with the tables of the policy."""
    told: list[Progress] = []
    found = grown(of, clock=Clock(progress=told.append), **settings)
    course = [(one.iteration, one.opacity_bits, one.upper_bits, one.multiplier) for one in told]
    return {"lower": found.lower, "upper": found.upper, "course": {"rounds": course, "tables": found.best.tables}}


def enclosed(secret: str, **settings: Any) -> dict[str, Any]:
    return turns(problem(secret, horizon=5, min_return="60%"), **settings)


case("game-grown-initial", "initial", gap=2e-3, nodes=2, most_nodes=6, windows=False, search=True)(enclosed)
case("game-grown-at", "at", gap=2e-3, nodes=2, most_nodes=6, search=True)(enclosed)
case("game-grown-last", "last", gap=1e-3, nodes=2, most_nodes=6, search=True)(enclosed)


@case("game-grown-grid", search=True)
def grown_grid() -> dict[str, Any]:
    of = veil.gallery.load("paper-last-state", horizon=6, min_return="80%")
    return turns(of, gap=3e-3, nodes=8, most_nodes=64, windows=False)


@case("game-path", search=True)
def path() -> dict[str, Any]:
    return turns(veil.gallery.load("night-round", horizon=3, min_return=0.1), gap=0.02)
