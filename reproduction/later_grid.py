"""The authors' later grid, known exactly: their published policies beside ours at the same return, and the proven bound."""

from typing import Any

from veil import gallery

from .measured import measure, play_game, search
from .published import LaterRun
from .store import Settings, Times

_GAP, _QUICK_GAP = 2e-3, 1e-2
_MARKOV, _QUICK_MARKOV = {"starts": 12}, {"starts": 3, "iterations": 60}
_TIMED, _QUICK_TIMED = {"starts": 4}, {"starts": 1, "iterations": 40}


def beside(run: LaterRun, settings: Settings, times: Times) -> dict[str, Any]:
    """The best stationary policy, the best time-dependent one and the game, all at the return of a published policy.

    **Returns:** `markov` and `timed`, as `measure` gives them; `history_bits`: what the best policy with any memory is
    known to hide; `upper`: the proven upper bound.
    """
    problem, quick = gallery.load(run.problem, min_return=run.expected_return), settings.quick
    with times.of("stationary policy"):
        markov = search(problem, settings.seed, **(_QUICK_MARKOV if quick else _MARKOV))
    with times.of("time-dependent policy"):
        limits = _QUICK_TIMED if quick else _TIMED
        timed = search(problem, settings.seed, memory="timed", start=markov.policy, **limits)
    with times.of("proof (the game)"):
        game = play_game(problem, _QUICK_GAP if quick else _GAP)
    with times.of("measures"):
        found = {
            "markov": measure(problem, markov.policy, game, settings.seed),
            "timed": measure(problem, timed.policy, game, settings.seed),
        }
    return found | {"history_bits": game.lower, "upper": game.upper}
