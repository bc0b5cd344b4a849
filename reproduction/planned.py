"""The paper's two problems solved to the end: the best stationary policy, what is proven, and at the paper's own return."""

from typing import Any

from veil import gallery
from veil.policy.tabular import table_policy
from veil.problem.problem import Problem

from .measured import measure, play_game, search
from .published import PaperResult
from .store import Settings, Times

_GAP, _QUICK_GAP = 1e-3, 1e-2
_QUICK = {"starts": 6, "iterations": 120}


def plan(paper: PaperResult, settings: Settings, times: Times) -> dict[str, Any]:
    """The default search at the threshold of the paper, and at the return that the paper reports.

    **Returns:** `at_threshold` and (full runs) `at_paper_return`, each as `measure` gives it, with the `policy` and what
    the game knows: `history_bits` of the best policy with any memory.
    """
    problem = gallery.load(paper.problem)
    found = {"at_threshold": _solved(problem, settings, times)}
    if not settings.quick:
        found["at_paper_return"] = _solved(problem.replace(min_return=paper.expected_return), settings, times)
    return found


def _solved(problem: Problem, settings: Settings, times: Times) -> dict[str, Any]:
    with times.of("search"):
        solution = search(problem, settings.seed, **(_QUICK if settings.quick else {}))
    with times.of("game"):
        game = play_game(problem, _QUICK_GAP if settings.quick else _GAP)
    with times.of("measures"):
        numbers = measure(problem, solution.policy, game, settings.seed)
    own = {
        "policy": table_policy(solution.policy).probabilities,
        "history_bits": game.lower,
        "iterations": solution.iterations,
    }
    return numbers | own | {"status": solution.status.name, "price_bits": solution.price_bits}
