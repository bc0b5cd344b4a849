"""The initial-state number in three readings: the observer sees o_0; it does not; and the paper's formulas as printed."""

from typing import Any

from veil import gallery
from veil.measure.evaluate import expected_return, opacity
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.policy.markov import MarkovPolicy

from .convergence import Climb
from .literal import first_readings, literal_bits, sampled_literal_bits, to_climb
from .measured import SEQUENCES, kept_policy, measure, play_game, search
from .store import Settings, Times

PROBLEM = "paper-initial-state"
LITERAL = "best found for the formulas as printed"
_GAP, _QUICK_GAP = 1e-3, 1e-2
_QUICK = {"starts": 3, "iterations": 60}
_ITERATIONS, _QUICK_ITERATIONS = 800, 40


def read(planned: dict[str, Any], converged: dict[str, Any], settings: Settings, times: Times) -> dict[str, Any]:
    """Policies found under each reading, each measured under all three.

    **Arguments:** `planned`, `converged`: the pieces of the initial-state problem whose observer sees o_0.

    **Returns:** `policies`: for each its name in `words`, the three numbers and the return; `unseen`: the best policy
    against an observer who does not see o_0, as `measure` gives it; `literal`: the largest literal number that the paper's
    algorithm (exact gradients of the literal formulas) found, with a sampled estimate.
    """
    with times.of("o_0 not seen"):
        unseen, hidden = _unseen(settings)
    with times.of("the formulas as printed"):
        literal = _literal_policy(settings)
    bits, error = sampled_literal_bits(gallery.load(PROBLEM), literal, settings.seed, SEQUENCES)
    policies = {
        "best with o_0 seen": kept_policy(planned["at_threshold"]),
        "primal-dual, o_0 seen": kept_policy(converged["answer"]),
        "best with o_0 not seen": hidden,
        LITERAL: literal,
    }
    return {
        "policies": [{"words": words} | _three(policy) for words, policy in policies.items()],
        "unseen": unseen,
        "literal": _three(literal) | {"sampled": bits, "sampled_error": error, "policy": literal.probabilities},
    }


def _unseen(settings: Settings) -> tuple[dict[str, Any], MarkovPolicy]:
    problem = gallery.load(PROBLEM, sees_initial=False)
    found = search(problem, settings.seed, **(_QUICK if settings.quick else {}))
    game = play_game(problem, _QUICK_GAP if settings.quick else _GAP)
    assert isinstance(found.policy, MarkovPolicy)
    return measure(problem, found.policy, game, settings.seed), found.policy


def _literal_policy(settings: Settings) -> MarkovPolicy:
    """What the primal-dual method finds where it climbs the literal number."""
    problem = gallery.load(PROBLEM, sees_initial=False)
    backend = to_climb(make_space(problem, "markov"), first_readings(problem))
    iterations = _QUICK_ITERATIONS if settings.quick else _ITERATIONS
    climb = Climb(problem, SolveOptions(iterations=iterations, seed=settings.seed), backend)
    for _ in climb.steps(iterations):
        pass
    return climb.answer()


def _three(policy: MarkovPolicy) -> dict[str, float]:
    """One policy under the three readings."""
    seen, unseen = gallery.load(PROBLEM), gallery.load(PROBLEM, sees_initial=False)
    return {
        "seen": opacity(seen, policy, "exact").bits,
        "unseen": opacity(unseen, policy, "exact").bits,
        "literal": literal_bits(unseen, policy, first_readings(seen)),
        "return": expected_return(seen, policy),
    }
