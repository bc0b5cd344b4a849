"""The default method: many starts side by side, the better ones for longer, the best to the end, made feasible exactly.

All starts take first-order steps (`first_order`), which keep the bounds. After each round the better part of them goes on, by
what they are worth on the same draws. What differs between exact values and samples is in `on_exact_values` and `on_samples`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import Progress
from ..engine.threads import in_threads
from .ascent_state import CLIMB, DONE, AscentState, Moved
from .first_order import Moments, first_order_step
from .objective import Objective
from .on_exact_values import OnExactValues
from .on_samples import FIRST_CHECK, OnSamples
from .options import SolveOptions
from .parameters import Parameters, TableParameters
from .ranking import distinct, without_gradients, worth
from .schedule import Schedule
from .values import Values

INSIDE = 0.01  # slack that steps keep where a policy cannot be made feasible by mixing: by judgement
_LEAST_WEIGHT = 0.02  # of the newest parameters in their average, which is over about the last 50 steps then


class Ascent:
    """The method as a sequence of states.

    **Arguments:** `objective`; `parameters`; `starts`: tables to begin from; `known`: tables that may be the answer as long as
    nothing better is found, first a feasible one that candidates are mixed with; `schedule`; `options`, of which it uses
    `seed` and `iterations`; `batch`: sequences of the first gradients, of samples.
    """

    def __init__(
        self,
        objective: Objective,
        parameters: Parameters,
        starts: Sequence[Float[np.ndarray, "T C A"]],
        known: Sequence[Float[np.ndarray, "T C A"]],
        schedule: Schedule,
        options: SolveOptions,
        batch: int = 0,
    ):
        self.objective, self.parameters, self.schedule = objective, parameters, schedule
        self._starts, self._known, self._options, self._first_batch = starts, known, options, batch
        if objective.is_sampled:
            self._kind: OnSamples | OnExactValues = OnSamples(objective, parameters, known[0], schedule, options, batch)
        else:
            assert isinstance(parameters, TableParameters)
            self._kind = OnExactValues(objective, parameters, known[0], schedule, self._kept)
        self.closing = self._kind.closing

    # Beginning.

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> AscentState:
        """The state before the first iteration; `known`: further tables that may be the answer."""
        theta = [self.parameters.of(table)[None] for table in self._starts]
        if self.parameters.mixes:
            tables = [*self._known, *([] if known is None else known)]
        else:  # only what the parameters can say may be the answer
            tables = [self.parameters.tables(theta[0])[0]]
        best, score = self._kind.best_known(tables)
        groups = self._kind.begun(theta)
        return AscentState(
            phase=CLIMB if theta[0].size else DONE,
            round=0,
            iteration=0,
            inside=0,
            begun=0,
            since=0,
            batch=self._first_batch,
            check_at=FIRST_CHECK,
            idle=0,
            exploring=0,
            leader=0,
            lacking=np.inf,
            slower=1.0,
            **groups,
            aside=[],
            aside_multiplier=np.zeros((0, self.objective.num_constraints)),
            best=best,
            best_theta=np.zeros((0, 0)) if self.parameters.mixes else theta[0][0],
            best_score=score,
            best_multiplier=groups["multiplier"][0][0],
            leading=best,
            polish={},
            ends=np.zeros((0, 2)),
            history=self._kind.first_row(best, score),
        )

    # One iteration.

    def advance(self, state: AscentState) -> AscentState:
        """One iteration further."""
        self.objective.clock.check(ahead=self.closing)
        kind = self._kind
        if isinstance(kind, OnExactValues) and state.phase != CLIMB:
            after, tables, values, multiplier = kind.polished(state)
            return kind.followed(self._noted(after, [(tables, values)], 0.0, multiplier))
        rate = state.slower * self.parameters.scale * self.schedule.rate(state.iteration - state.begun)
        after, found = self._stepped(state, rate)
        after = self._noted(after, found, rate, np.concatenate(list(after.multiplier)))
        if state.phase == CLIMB and (after.inside >= self._length(after.round) or kind.is_late):
            after = self._next_round(after)
        return kind.checked(after)

    def _length(self, number: int) -> int:
        return self.schedule.rounds[number][0] if number < len(self.schedule.rounds) else 0

    def _stepped(self, state: AscentState, rate: float) -> tuple[AscentState, list[tuple[Any, Values]]]:
        """All groups after a step, and what was found where it began."""
        found = list(in_threads(lambda number: self._moved(state, number, rate), range(len(state.theta))))
        parts = {name: [getattr(one, name) for one in found] for name in ("theta", "mean", "square", "multiplier")}
        if state.average:
            parts["average"] = [one.average for one in found]
        after = replace(state, iteration=state.iteration + 1, inside=state.inside + 1, **parts)
        return after, [(one.tables, one.values) for one in found]

    def _moved(self, state: AscentState, number: int, rate: float) -> "Moved":
        """One group after a step."""
        objective, theta, count = self.objective, state.theta[number], state.iteration - state.begun
        tables = self.parameters.tables(theta)
        values = objective.evaluate(tables, self._kind.draw(state, number))
        step, moments = first_order_step(
            Moments(state.mean[number], state.square[number], state.multiplier[number], state.iteration - state.since),
            self.parameters.pull_back(theta, tables, values.score_gradient),
            values.slack if self.parameters.mixes else values.slack - INSIDE,
            self.parameters.pull_back(theta, tables, values.slack_gradient),
            objective.is_noisy,
            rate=rate,
            decays=self._kind.decays,
            num_least=values.num_least,
        )
        theta, average = self.parameters.bounded(theta + step), None
        if state.average:
            weight = max(_LEAST_WEIGHT, 2 / (count + 2))
            average = state.average[number] + weight * (theta - state.average[number])
        return Moved(theta, moments.mean, moments.square, moments.multiplier, average, tables, values)

    def _noted(
        self, state: AscentState, found: list[tuple[Any, Values]], rate: float, multipliers: Float[np.ndarray, "n K"]
    ) -> AscentState:
        """With one more line of history, that of the policy that leads."""
        objective, clock = self.objective, self.objective.clock
        values = without_gradients([one for _, one in found])
        state, leader = self._kind.led(state, found[0][0], values, multipliers)
        price = objective.price(multipliers[leader])
        bits, returns = float(values.bits[leader]), float(values.returns[leader])
        total = self.schedule.total
        clock.report(Progress(self._kind.phase(state), state.iteration, total, bits, returns, price, clock.spent))
        row = (state.iteration, bits, returns, price, rate, clock.spent)
        return replace(state, history=np.vstack([state.history, row]))

    # Rounds.

    def _next_round(self, state: AscentState) -> AscentState:
        """The better part of the starts; the rest is set aside."""
        number = state.round
        if number < len(self.schedule.rounds):
            state = self._kept(state, self.schedule.rounds[number][1])
            state = replace(state, round=number + 1, inside=0)
        while state.round < len(self.schedule.rounds) and not self._length(state.round):
            state = replace(self._kept(state, self.schedule.rounds[state.round][1]), round=state.round + 1)
        if state.round < len(self.schedule.rounds):
            return state
        return self._kind.finish(state)

    def _kept(self, state: AscentState, count: int) -> AscentState:
        """The best distinct starts, by what they are worth once feasible, on the same draws."""
        objective = self.objective
        multipliers = np.concatenate(list(state.multiplier))
        if len(multipliers) <= count:
            return state
        tables = [self.parameters.tables(theta) for theta in state.theta]
        values = without_gradients([objective.evaluate(one, self._kind.compared, gradient=False) for one in tables])
        price = np.tile(multipliers.max(axis=0, initial=0.0), (len(multipliers), 1))
        worths = worth(values, price)
        order = distinct(objective.space, (table for group in tables for table in group), worths)
        kept, others = order[:count], order[count:]
        left = others if count > 1 else order  # the last comparison is also of the one that stays
        ends = np.column_stack([worths, values.returns / objective.unit])[left]
        state = replace(state, ends=np.vstack([state.ends, ends]))
        return self._kind.part(state, kept, others)

    # The end.

    def is_done(self, state: AscentState) -> bool:
        """Whether all iterations were made, nothing better can be found, or the last checks found nothing better."""
        return self._kind.is_done(state)

    def unpack(self, arrays: dict[str, np.ndarray]) -> AscentState:
        """The state of the arrays in a checkpoint."""
        state, placed = AscentState.of(arrays), self.parameters.restored
        names = ("theta", "mean", "square", "average", "aside")
        return replace(state, **{name: [placed(one) for one in getattr(state, name)] for name in names})

    def candidates(self, state: AscentState) -> Float[np.ndarray, "B T C A"]:
        """Tables that may be the answer: the best that was feasible, and the one that leads now, made feasible."""
        return self._kind.candidates(state)

    def last(self, state: AscentState) -> AscentState:
        """The state with the newest parameters among the contenders; as it is where the time does not suffice."""
        return self._kind.last(state)

    def met(self, state: AscentState) -> list[Any]:
        """Tables that the search met beside its candidates: the known ones, and starts that were set aside."""
        return [*self._known, *(self.parameters.tables(theta)[0] for theta in state.aside)]

    def describe(self) -> dict[str, object]:
        """How many starts there were, and how gradients are made."""
        return {"starts": len(self._starts) - (self._options.start is not None), **self._kind.about}
