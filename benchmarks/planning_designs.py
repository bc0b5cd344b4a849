"""Ways to search on samples, compared on the rows of the planning suite: batches, steps, draws, starts, directions."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from veil.planning.sampled_values import SampleSecrecy
from veil.planning.stochastic import StochasticAscent
from veil.planning.stochastic_state import DECAYS, StepPace
from veil.planning.task import make_task

from benchmarks.coarser import Lift, fewer_states, half_horizon
from veil.common.clock import Clock, OutOfTime
from veil.planning import stochastic
from veil.planning.options import SolveOptions
from veil.planning.policy_class import Space, make_space
from veil.planning.starts import richest_table
from veil.policy.markov import MarkovPolicy
from veil.policy.policy import Policy
from veil.policy.timed import TimedPolicy
from veil.problem.problem import Problem

_DAMPING = 1e-3  # of the largest number of visits, added to those of each row
_MOST_KL = 0.05  # nats of a whole run between the policies before and after a step
_NATURAL_RATE = 0.03  # of the natural gradient's step, for the rate 0.1 of Adam
_SHARE_OF_COARSER = 0.2  # of the time, for the search of a coarser problem


class NaturalAscent(StochasticAscent):
    """Natural gradient with momentum: the Fisher information of a softmax row is its visits times `diag π − π πᵀ`."""

    def _moved(self, theta: Any, table: Any, gradient: Any, moments: Any, pace: StepPace) -> Any:
        visits, first = self._visits(table), DECAYS[0]
        rows = self._used(table)
        advantage = gradient / np.maximum(rows, 1e-6) / (visits + _DAMPING * visits.max())[:, None]
        mean = first * moments[0] + (1 - first) * advantage
        square = DECAYS[1] * moments[1] + (1 - DECAYS[1]) * gradient**2
        step = pace.rate * _NATURAL_RATE / 0.1 * mean / pace.mean_scale
        return theta + self._limited(theta, table, visits, step), mean, square

    def _visits(self, table: Any) -> Any:
        """How often each row that can be used is used."""
        space = self.task.space
        visits = np.zeros(space.shape[:2])
        for time, occupied in enumerate(space.layers.returns(table, self._terminal)[2]):
            np.add.at(visits[0 if space.stationary else time], space.hidden.cell, np.asarray(occupied))
        return visits.ravel()[self._rows]

    def _limited(self, theta: Any, table: Any, visits: Any, step: Any) -> Any:
        """The step, cut where it would change the distribution of runs by more than the limit."""
        before = self._used(table)
        for _ in range(20):
            after = self._used(self._table(theta + step))
            ratio = np.where(before > 0, before, 1.0) / np.maximum(after, 1e-300)
            distance = float(visits @ np.sum(before * np.log(np.where(before > 0, ratio, 1.0)), axis=1))
            if distance <= _MOST_KL:
                break
            step = step * max(0.2, min(0.9, (_MOST_KL / distance) ** 0.5))
        return step


class TrustRegion(NaturalAscent):
    """Adam's direction with the same limit on the change of the distribution of runs."""

    def _moved(self, theta: Any, table: Any, gradient: Any, moments: Any, pace: StepPace) -> Any:
        moved, mean, square = StochasticAscent._moved(self, theta, table, gradient, moments, pace)
        return theta + self._limited(theta, table, self._visits(table), moved - theta), mean, square


@dataclass(frozen=True)
class Design:
    """A way to search on samples: constants of `veil.planning.stochastic`, whether draws are fresh, starts, direction.

    `coarser`: makes a problem whose answer is one of the starts.
    """

    words: str
    constants: dict[str, Any]
    fresh: bool = True
    starts: int | None = None
    kind: Callable[..., StochasticAscent] = StochasticAscent
    coarser: Callable[[Problem], tuple[Problem, Lift]] | None = None


DESIGNS = (
    Design("as it is: Adam, batch by signal to noise, four soft starts halved, going back", {}),
    Design("batch 16 throughout", {"_LEAST_BATCH": 16, "_MOST_BATCH": 16, "_BATCH_SECONDS": 0.0}),
    Design("batch 256 throughout", {"_LEAST_BATCH": 256, "_MOST_BATCH": 256, "_BATCH_SECONDS": 0.0}),
    Design("step 0.1 instead of 0.3", {"_FIRST_RATE": 0.1}),
    Design("natural gradient with a limit on the change of runs", {}, kind=NaturalAscent),
    Design("Adam with a limit on the change of runs (trust region)", {}, kind=TrustRegion),
    Design("common draws: the same in every iteration", {}, fresh=False),
    Design("one soft start, nothing to halve", {}, starts=1),
    Design("never going back to the best answer", {"_LOST_BITS": 1e9}),
    Design("never beginning again elsewhere", {"_MOST_RESTARTS": 0}),
    Design("a warm start from half the horizon", {}, coarser=half_horizon),
    Design("a warm start from fewer states", {}, coarser=fewer_states),
)


class FixedDraws(SampleSecrecy):
    """Common random numbers: every gradient from one seed."""

    def fresh(self, table: np.ndarray, sequences: int, seed: int, clock: Clock) -> Any:
        return super().fresh(table, sequences, 0, clock)


def run_design(design: Design, space: Space, seconds: float) -> tuple[np.ndarray, int]:
    """The table that one search by a design finds, and its iterations."""
    before = {name: getattr(stochastic, name) for name in design.constants}
    try:
        for name, value in design.constants.items():
            setattr(stochastic, name, value)
        clock = Clock(seconds)
        start = None if design.coarser is None else _warm_start(design, space, clock.share(_SHARE_OF_COARSER))
        return _searched(design, space, clock, start)
    finally:
        for name, value in before.items():
            setattr(stochastic, name, value)


def _searched(design: Design, space: Space, clock: Clock, start: Policy | None = None) -> tuple[np.ndarray, int]:
    secrecy = SampleSecrecy if design.fresh else FixedDraws
    task = replace(make_task(space, secrecy=secrecy(space, "entropy", 2000, 0, "")), clock=clock)
    options = SolveOptions(starts=design.starts, start=start)
    table, iterations = richest_table(space), 0
    method = design.kind(task, table, options)
    with contextlib.suppress(OutOfTime):
        state = method.begin()
        while clock.left > 0.1 * clock.time_limit and not method.is_done(state):
            table, iterations = state.best, state.iteration
            state = method.advance(state)
        table, iterations = method.candidates(state)[0], state.iteration
    return table, iterations


def _warm_start(design: Design, space: Space, clock: Clock) -> Policy:
    """What a search finds for the coarser problem, as a policy of the problem."""
    assert design.coarser is not None
    coarse, lift = design.coarser(space.problem)
    found = make_space(coarse, space.memory)
    policy = found.policy(_searched(design, found, clock)[0])
    assert isinstance(policy, MarkovPolicy | TimedPolicy)
    table = lift(policy.table)
    return MarkovPolicy(table[0]) if space.stationary else TimedPolicy(table)
