"""One policy measured in every way that the tables show: exactly, from sampled runs, and by a checked certificate."""

from typing import Any

import numpy as np

from veil.common.clock import Stop
from veil.engine.chain import make_chain
from veil.engine.return_range import threshold as wanted_return
from veil.engine.sampled_returns import sampled_gradient
from veil.engine.sampling import draw_runs
from veil.game.bounds import Bounds
from veil.game.solve import GameResult, solve_game
from veil.measure.evaluate import expected_return, opacity
from veil.planning.solution import Solution, Status
from veil.planning.solve import solve
from veil.policy.markov import MarkovPolicy
from veil.policy.policy import Policy
from veil.problem.fingerprint import fingerprint
from veil.problem.problem import Problem
from veil.proof.certify import certify
from veil.proof.verify import verify

SEQUENCES = 20_000  # of an estimate in the tables
_KEPT_GAMES = 4
_PLAYED: dict[tuple[str, float | None, float], GameResult] = {}
_PATIENCE = 3600.0  # seconds: enough for every tree here, so that no proof depends on the clock


def search(problem: Problem, seed: int, **settings: Any) -> Solution:
    """The default search, in silence and without a certificate, which the tables take from the game.

    **Raises:** `KeyboardInterrupt` where it was interrupted: the best so far must not be kept as the result.
    """
    found = solve(problem, seed=seed, certificate=False, progress=False, **settings)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return found


def play_game(problem: Problem, gap: float) -> GameResult:
    """The game to a gap in bits, without a limit of time, so that the result does not depend on the clock.

    Several experiments ask for that of the same problem: the last few are kept. An interrupt is passed on.
    """
    key = (fingerprint(problem), wanted_return(problem), gap)
    if key not in _PLAYED:
        while len(_PLAYED) >= _KEPT_GAMES:
            _PLAYED.pop(next(iter(_PLAYED)))
        game = solve_game(problem, gap=gap)
        if game.stopped == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        _PLAYED[key] = game
    return _PLAYED[key]


def measure(
    problem: Problem, policy: Policy, game: GameResult, seed: int, *, sequences: int = SEQUENCES
) -> dict[str, Any]:
    """The numbers of a policy.

    **Arguments:** `game`: one of this problem that was played; its observer proves the upper bound; `seed`, `sequences` of
    the sampled estimates.

    **Returns:** `bits`, `return`: exact; `sampled_bits`, `sampled_return` with their `…_error`s; `lower`, `upper`: the
    certificate, which was verified: the policy hides at least `lower`, no policy with return ≥ `threshold` more than
    `upper`; `feasible`.
    """
    sampled = opacity(problem, policy, "sampled", sequences=sequences, seed=seed)
    mean, error = sampled_return(problem, policy, seed, sequences)
    certificate = certify(problem, policy, time_limit=_PATIENCE, game=Bounds.of(game))
    verify(certificate, problem, policy)
    return {
        "bits": opacity(problem, policy, "exact").bits,
        "return": expected_return(problem, policy),
        "sampled_bits": sampled.bits,
        "sampled_bits_error": sampled.std_error,
        "sampled_return": mean,
        "sampled_return_error": error,
        "lower": certificate.lower,
        "upper": certificate.upper,
        "threshold": certificate.threshold,
        "feasible": certificate.feasible,
    }


def sampled_return(problem: Problem, policy: Policy, seed: int, sequences: int) -> tuple[float, float]:
    """The mean return of sampled runs and its standard error."""
    chain = make_chain(problem, policy)
    runs = draw_runs(chain, sequences, np.random.default_rng([seed, 1]))
    mean, error, _ = sampled_gradient(chain, chain.hidden.paid[0], runs)
    return mean, error


def kept_policy(document: dict[str, Any]) -> MarkovPolicy:
    """The stationary policy in the document of a piece."""
    return MarkovPolicy(np.array(document["policy"]))
