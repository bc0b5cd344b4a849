"""Cases: searches by each method, in each class of policies, for each objective, and curves of them."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import veil

from .numbers import of_policy, of_solution
from .problems import MEMORIES, endless, markov, problem
from .registry import case

THRESHOLD = "60%"
_HALF = 8  # iterations of a search after which it is taken up again
_ASCENT: dict[str, Any] = {"starts": 3, "iterations": 20, "certificate": False, "progress": False}


def _but(**changes: Any) -> dict[str, Any]:
    """The settings of an ascent, with some changed."""
    return _ASCENT | changes


def ascent(secret: str = "last", horizon: int = 3, min_return: Any = THRESHOLD, **settings: Any) -> dict[str, Any]:
    of = problem(secret, horizon=horizon, min_return=min_return)
    return of_solution(veil.solve(of, **_but(**settings)))


for _secret in ("last", "initial", "at", "automaton", "model", "model_unknown"):
    case(f"ascent-{_secret}", _secret, search=True)(ascent)
case("ascent-timed", memory="timed", seed=2, search=True)(ascent)
case("ascent-transparent", goal="transparent", search=True)(ascent)
case("ascent-leakage", objective="leakage", search=True)(ascent)
case("ascent-guess", objective="guess", search=True)(ascent)
case("ascent-per-start", per_start=True, min_return=-0.5, search=True)(ascent)
case("ascent-min-opacity", min_opacity=0.5, search=True)(ascent)
case("ascent-bracket", evaluation="bracket", iterations=8, search=True)(ascent)
case("ascent-sampled", evaluation="sampled", sequences=100, seed=3, search=True)(ascent)
case("ascent-until-it-converges", horizon=2, iterations=None, starts=4, search=True)(ascent)


def ascent_with_memory(memory: str) -> dict[str, Any]:
    return ascent(memory=MEMORIES[memory](), iterations=12)


for _memory in MEMORIES:
    case(f"ascent-memory-{_memory}", _memory, search=True)(ascent_with_memory)


@case("ascent-given-start", search=True)
def ascent_given_start() -> dict[str, Any]:
    of = problem("at", "sees_actions", 3, min_return=THRESHOLD)
    return of_solution(veil.solve(of, "ascent", start=markov(of), seed=1, **_but(starts=1)))


@case("ascent-endless", search=True)
def ascent_endless() -> dict[str, Any]:
    return of_solution(veil.solve(endless(), **_ASCENT))


@case("ascent-grid", search=True)
def ascent_grid() -> dict[str, Any]:
    of = veil.gallery.load("paper-last-state", horizon=6, min_return=0.05)
    return of_solution(veil.solve(of, **_but(iterations=8)))


def primal_dual(secret: str = "last", **settings: Any) -> dict[str, Any]:
    of = problem(secret, horizon=3, min_return=settings.pop("min_return", THRESHOLD))
    plain: dict[str, Any] = {"iterations": 30, "certificate": False, "progress": False}
    return of_solution(veil.solve(of, "primal-dual", **(plain | settings)))


case("primal-dual-exact", search=True)(primal_dual)
case("primal-dual-timed", "initial", memory="timed", step=2.0, multiplier_step=0.3, search=True)(primal_dual)
case("primal-dual-sampled", gradients="sampled", sequences=60, seed=4, iterations=15, search=True)(primal_dual)
case("primal-dual-per-start", "at", per_start=True, min_return=-0.5, search=True)(primal_dual)
case("primal-dual-transparent", "model", goal="transparent", search=True)(primal_dual)


def game(secret: str, watcher: str = "states", horizon: int = 3, **settings: Any) -> dict[str, Any]:
    of = problem(secret, watcher, horizon, min_return=THRESHOLD)
    return of_solution(veil.solve(of, "game", certificate=False, progress=False, **settings))


for _secret in ("last", "initial", "at", "automaton", "model"):
    case(f"game-{_secret}", _secret, search=True)(game)
case("game-sees-actions", "last", "sees_actions", gap=0.01, search=True)(game)
case("game-long-last", "last", horizon=40, gap=0.2, search=True)(game)
case("game-long-initial", "initial", horizon=40, gap=0.1, search=True)(game)
case("game-stopped", "last", iterations=3, gap=1e-9, search=True)(game)


def curve(**settings: Any) -> dict[str, Any]:
    """The points of a frontier."""
    found = veil.frontier(problem("last", horizon=2), 3, progress=False, **settings)
    return {
        "returns": found.returns,
        "bits": found.bits,
        "thresholds": [point.threshold for point in found.points],
        "course": {"prices": found.prices_bits, "policies": [of_policy(point.policy) for point in found.points]},
    }


case("frontier", starts=2, iterations=20, search=True)(curve)
case("frontier-timed-guess", memory="timed", objective="guess", starts=2, iterations=20, search=True)(curve)


def resumed(method: Any, **settings: Any) -> dict[str, Any]:
    """A search that is taken up again from what was written half way, beside the one that wrote it; the two are equal."""
    of = problem("at", horizon=3, min_return=THRESHOLD)
    with tempfile.TemporaryDirectory() as folder:
        newest, half = Path(folder) / "newest", Path(folder) / "half"

        def keep(progress: Any) -> None:
            if not half.exists() and newest.exists() and progress.iteration >= _HALF:
                shutil.copy(newest, half)

        writing = {"checkpoint": newest, "checkpoint_every": 0.0, "progress": keep}
        whole = veil.solve(of, method, certificate=False, **writing, **settings)
        again = veil.solve(of, method, certificate=False, resume=half, progress=False, **settings)
    same = whole.policy == again.policy
    return {"whole": of_solution(whole), "again": of_solution(again), "same": same}


case("resume-ascent", "ascent", starts=3, iterations=16, search=True)(resumed)
case("resume-primal-dual", "primal-dual", iterations=16, search=True)(resumed)
