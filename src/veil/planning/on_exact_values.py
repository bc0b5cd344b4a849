"""How the default method searches on exact values: all starts at once, and those that are left polished one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .ascent_state import DONE, LAST, SETTLE, AscentState, fresh, near_most
from .first_order import DECAYS, Moments
from .mixing import contenders
from .objective import Objective
from .parameters import TableParameters
from .ranking import worth
from .schedule import Schedule
from .second_order import STILL, TOLERANCE_BITS, Polish, begin_polish, polished
from .values import Values


class OnExactValues:
    """What the default method does on exact values; `safe` is inside of the bounds, `keep` chooses the best of the starts."""

    decays, closing, is_late, compared, about = DECAYS[False], 0.0, False, None, dict[str, object]()

    def __init__(
        self,
        objective: Objective,
        parameters: TableParameters,
        safe: Float[np.ndarray, "T C A"],
        schedule: Schedule,
        keep: Callable[[AscentState, int], AscentState],
    ):
        self.objective, self.parameters, self.schedule = objective, parameters, schedule
        self._safe, self._keep = safe, keep

    # Beginning.

    def begun(self, theta: Sequence[Any]) -> dict[str, Any]:
        """Starts without a past, which are evaluated together."""
        return fresh(self.objective, [np.concatenate(theta)]) | {"average": []}

    def best_known(self, tables: Sequence[Any]) -> tuple[Any, float]:
        """The best feasible table and its score; where none is feasible, the nearest to it and -inf."""
        return self.objective.best_of(tables)

    def first_row(self, table: Any, score: float) -> Float[np.ndarray, "k 6"]:
        """No row of the history comes before the first iteration."""
        return np.zeros((0, 6))

    # One iteration.

    def draw(self, state: AscentState, number: int) -> None:
        """No sequences."""

    def led(
        self, state: AscentState, tables: Sequence[Any], values: Values, multipliers: Float[np.ndarray, "n K"]
    ) -> tuple[AscentState, int]:
        """The state with the best feasible table so far and the one that leads, and the number of the leader."""
        leader = values.best
        if values.feasible[leader] and values.score[leader] > state.best_score:
            state = replace(
                state,
                best=tables[leader],
                best_score=float(values.score[leader]),
                best_multiplier=multipliers[leader],
            )
        # What is best but for a slight infeasibility is worth more than what is feasible by chance.
        return replace(state, leading=tables[int(np.argmax(worth(values, multipliers)))]), leader

    def phase(self, state: AscentState) -> str:
        """What progress says."""
        return "climbing"

    def part(self, state: AscentState, kept: Int[np.ndarray, " k"], others: Int[np.ndarray, " m"]) -> AscentState:
        """Some of the starts."""
        moments = Moments(state.mean[0], state.square[0], state.multiplier[0], 0).part(kept)
        parts = {name: [getattr(moments, name)] for name in ("mean", "square", "multiplier")}
        return replace(state, theta=[state.theta[0][kept]], **parts, leader=0)

    def checked(self, state: AscentState) -> AscentState:
        """Every iteration is a check."""
        return state

    # Those that are left.

    def finish(self, state: AscentState) -> AscentState:
        """The state that polishes the first of those that are left."""
        return self._with_polish(state, SETTLE if self.schedule.settle else LAST)

    def polished(self, state: AscentState) -> tuple[AscentState, Any, Values, Float[np.ndarray, "1 K"]]:
        """One step of the leader, with the tables, values and multipliers where it began."""
        after, tables, values, multiplier = polished(self.objective, self.parameters, Polish.of(state.polish))
        theta, prices, one = state.theta[0].copy(), state.multiplier[0].copy(), slice(state.leader, state.leader + 1)
        theta[one], prices[one] = after.theta, after.multiplier
        state = replace(state, iteration=state.iteration + 1, theta=[theta], multiplier=[prices], polish=after.arrays())
        return state, tables, values, multiplier

    def followed(self, state: AscentState) -> AscentState:
        """Where the leader has settled the next one follows, and after them the best of all, to the end."""
        after = Polish.of(state.polish)
        if state.phase == LAST:
            return replace(state, phase=DONE) if after.done or after.inside >= self.schedule.last else state
        if not after.done and after.gap > TOLERANCE_BITS and after.inside < self.schedule.settle:
            return state
        if state.leader + 1 < len(state.theta[0]):
            return self._with_polish(replace(state, leader=state.leader + 1), SETTLE)
        return self._with_polish(state, LAST)

    def _with_polish(self, state: AscentState, phase: int) -> AscentState:
        """The state that polishes its leader, the first of those that are left as long as all settle."""
        if phase == LAST:
            state = self._keep(state, 1)
            if not self.schedule.last:
                return replace(state, phase=DONE)
        one = slice(state.leader, state.leader + 1)
        begun = begin_polish(self.objective, self.parameters, state.theta[0][one], state.multiplier[0][one])
        return replace(state, phase=phase, polish=begun.arrays())

    # The end.

    def is_done(self, state: AscentState) -> bool:
        """Whether all iterations were made, or nothing better can be found."""
        return state.phase == DONE or near_most(self.objective, state, STILL)

    def candidates(self, state: AscentState) -> Float[np.ndarray, "B T C A"]:
        """Tables that may be the answer: the best that was feasible, and the one that leads now, made feasible."""
        one = slice(state.leader, state.leader + 1)
        table = self.parameters.tables(state.theta[0][one])[0] if state.polish else state.leading
        return contenders(self.objective, state, table, self._safe)

    def last(self, state: AscentState) -> AscentState:
        """The state: all that was found was compared."""
        return state
