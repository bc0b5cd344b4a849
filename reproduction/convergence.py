"""The convergence of the paper's primal-dual method: opacity and return over the iterations, gradients from sampled runs."""

from typing import Any

import numpy as np

from veil import gallery
from veil.measure.evaluate import opacity
from veil.planning.backend import Backend
from veil.planning.channels import Asked, make_backend
from veil.planning.objective import Channels, Objective, make_objective
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.primal_dual import PrimalDual, PrimalDualState
from veil.planning.safe_tables import richest_table
from veil.policy.markov import MarkovPolicy
from veil.problem.problem import Problem

from .measured import measure, play_game, sampled_return
from .published import PaperResult
from .store import Settings, Times

SEQUENCES = 1000  # runs of a gradient, and of an estimate along the way
_ITERATIONS = {"last": 1500, "initial": 2500}
_QUICK_ITERATIONS = {"last": 1100, "initial": 300}
_ESTIMATES = 60  # points of a curve at which opacity and return are estimated, as the paper draws them
_GAP, _QUICK_GAP = 1e-3, 1e-2


def converge(paper: PaperResult, settings: Settings, times: Times) -> dict[str, Any]:
    """The paper's algorithm on one of its problems, from the uniform policy, with its sampled gradients.

    **Returns:** `curve`: exact opacity and return of every iterate and the multiplier; `estimates`: opacity and return as
    1,000 sampled runs show them, with their errors, at some iterates; `answer`: the best feasible policy, as `measure`
    gives it; `last`: exact numbers of the last iterate, which may lie a little below the threshold; the settings used.
    """
    problem = gallery.load(paper.problem)
    iterations = (_QUICK_ITERATIONS if settings.quick else _ITERATIONS)[paper.key]
    chosen = SolveOptions(gradients="sampled", sequences=SEQUENCES, iterations=iterations, seed=settings.seed)
    every = max(1, iterations // _ESTIMATES)
    with times.of("search"):
        climb = Climb(problem, chosen)
        estimates = [_estimate(climb, problem, settings.seed) for _ in climb.steps(every)]
    with times.of("game"):
        game = play_game(problem, _QUICK_GAP if settings.quick else _GAP)
    policy, history = climb.answer(), climb.state.history
    return {
        "iterations": iterations,
        "settings": climb.method.describe(),
        "curve": {"bits": history[:, 1], "return": history[:, 2], "multiplier": history[:, 3]},
        "estimates": estimates,
        "last": {"bits": history[-1, 1], "return": history[-1, 2]},
        "answer": measure(problem, policy, game, settings.seed) | {"policy": policy.probabilities},
    }


class Climb:
    """The primal-dual method step by step, so that iterates can be looked at on the way.

    **Arguments:** `backend`: what is maximised in place of the problem's own opacity.
    """

    def __init__(self, problem: Problem, options: SolveOptions, backend: Backend | None = None):
        self.space = make_space(problem, "markov")
        own = make_backend(self.space, Asked()) if backend is None else backend
        self.task: Objective = make_objective(self.space, Channels((own,)))
        self.method = PrimalDual(self.task, richest_table(self.space), options)
        self.state: PrimalDualState = self.method.begin()

    def steps(self, every: int = 1):
        """Go on to the end; stops before the first iteration and after each `every` to be looked at."""
        yield self.state.iteration
        while not self.method.is_done(self.state):
            self.state = self.method.advance(self.state)
            if self.state.iteration % every == 0:
                yield self.state.iteration

    @property
    def policy(self) -> MarkovPolicy:
        """The policy of the present iterate."""
        return MarkovPolicy(self.space.softmax(self.state.theta)[0])

    def answer(self) -> MarkovPolicy:
        """The best feasible policy: one that was met, or the last one made feasible."""
        tables = self.method.candidates(self.state)
        values = self.task.evaluate(tables)
        return MarkovPolicy(tables[int(np.argmax(np.where(values.feasible, values.score, -np.inf)))][0])


def _estimate(climb: Climb, problem: Problem, seed: int) -> dict[str, float]:
    """What the paper's figure shows of an iterate: both quantities from fresh runs."""
    iteration = climb.state.iteration
    stream = int(np.random.SeedSequence([seed, iteration, 7]).generate_state(1)[0])
    found = opacity(problem, climb.policy, "sampled", sequences=SEQUENCES, seed=stream)
    mean, error = sampled_return(problem, climb.policy, stream, SEQUENCES)
    return {
        "iteration": iteration,
        "bits": found.bits,
        "bits_error": found.std_error,
        "return": mean,
        "return_error": error,
    }
