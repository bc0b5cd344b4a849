"""The default method on samples: fresh draws, averages, batches that grow, and checks of what may be the answer.

Parameters are averaged, batches grow as noise takes over, and at growing intervals the average and the newest policy are made
feasible and compared with the best answer so far on sequences of their own; where checks find nothing better the starts that
were set aside are taken up again, the most promising first, since what a start is worth early says little about where it ends.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import OutOfTime
from .ascent import CLIMB, DONE, LAST, Ascent, AscentState, Group, fields_of
from .backend import Draw
from .first_order import DECAYS, MEMORY, Moments, first_order_step
from .layers import PART
from .mixing import mixed_until
from .objective import CERTAIN, Objective
from .options import SolveOptions
from .parameters import RARE, Parameters
from .schedule import MOST_BATCH, SHARE_OF_ROUNDS, Schedule
from .values import GAP_BITS, STILL, Values

# A mean over n steps keeps a share 1 / (2n − 1) of the square of pure noise: a batch is doubled below about twice that, after
# three times these steps.
_SIGNAL, _DOUBLED_AFTER = 1 / MEMORY[True][0], 32
# Checks: the least and the most sequences (standard errors of 0.03 and 0.0035 bits where those of single sequences spread by
# half a bit), their share of those of all gradients, by what factor of iterations one follows another, and what the iterations
# between two cost at least beside a check: checks take less than a fifth of the time. The first one comes after a few steps.
_CHECKED, _SHARE_OF_CHECKS, _CHECK_GROWTH, _CHECK_COSTS, FIRST_CHECK = (2 * PART, 20_000), 0.1, 1.3, 4.0, 8
# Checks without a gain of so many bits, far below their errors, that end the search: five times as many iterations (1.3⁶).
_IDLE_CHECKS, _GAIN_BITS = 6, 1e-4
_RISING_BITS = 5e-3  # a check that gains less is no progress: the errors of the largest checks are of this size
# Newton's steps that make a candidate feasible at most, each of which about squares what is missed: by judgement.
_RESTORING = 8
_SHARE_OF_CLOSING = 0.06  # of a time limit, for the last candidate and its estimate: by judgement


@dataclass(frozen=True, eq=False, kw_only=True)
class SampledState(AscentState):
    """Where a search on samples stands. Each start is a group of its own.

    **Attributes:** `batch`: sequences of a gradient; `check_at`: the iteration of the next check; `idle`: checks in a row that
    found nothing better; `slower`: by what steps were cut after noise had led the search away; `aside` and
    `aside_multiplier`: the starts that were set aside; `exploring`: whether the present one was, and has not come to the best
    answer yet, and `lacking` by how much; `best_theta`: the parameters of the best answer, if that cannot be a mixture.
    """

    batch: int
    check_at: int
    idle: int
    slower: float
    aside: Sequence[Any]
    aside_multiplier: Float[np.ndarray, "n K"]
    exploring: int
    lacking: float
    best_theta: Any


class SampledAscent(Ascent[SampledState]):
    """See `Ascent`; `batch`: sequences of the first gradients."""

    decays = DECAYS[True]

    def __init__(
        self,
        objective: Objective,
        parameters: Parameters,
        starts: Sequence[Any],
        known: Sequence[Any],
        schedule: Schedule,
        options: SolveOptions,
        batch: int,
    ):
        super().__init__(objective, parameters, starts, known, schedule, options)
        limit = objective.clock.time_limit
        self._first_batch, self.closing = batch, _SHARE_OF_CLOSING * limit if math.isfinite(limit) else 0.0
        self.compared = Draw(_CHECKED[0], options.seed + 1)

    # Beginning.

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> SampledState:
        """See `Iteration`."""
        theta = [self.parameters.of(table)[None] for table in self.starts]
        mixes = self.parameters.mixes
        if mixes:
            tables = [*self.known, *([] if known is None else known)]
        else:  # only what the parameters can say may be the answer
            tables = [self.parameters.tables(theta[0])[0]]
        made = [tables[0], *(self._mended(table) for table in tables[1:])]
        scores = [self._score(table, PART) for table in made]
        score = max(scores)
        best = made[scores.index(score)]
        return SampledState(
            batch=self._first_batch,
            check_at=FIRST_CHECK,
            idle=0,
            slower=1.0,
            aside=[],
            aside_multiplier=np.zeros((0, self.objective.num_constraints)),
            exploring=0,
            lacking=np.inf,
            best_theta=np.zeros((0, 0)) if mixes else theta[0][0],
            history=self._first_row(best, score),
            **self.begun(theta, best, score),
        )

    def fresh(self, theta: Any) -> Group:
        """Parameters without a past; their average begins with them."""
        return super().fresh(theta)._replace(average=theta)

    def _first_row(self, table: Any, score: float) -> Float[np.ndarray, "k 6"]:
        """What is known before the search, as a row of the history at iteration 0; no row where it is not feasible."""
        objective = self.objective
        if not np.isfinite(score) or objective.has_terms or not objective.weight:
            return np.zeros((0, 6))
        returns = float(objective.space.sums(table[None], (0,))[0, 0])
        return np.array([[0.0, objective.weight * score, returns, 0.0, 0.0, objective.clock.spent]])

    def unpack(self, arrays: dict[str, np.ndarray]) -> SampledState:
        """See `Iteration`."""
        state, placed = SampledState.of(arrays), self.parameters.restored
        names = ("theta", "mean", "square", "average", "aside")
        return replace(state, **{name: [placed(one) for one in getattr(state, name)] for name in names})

    # One iteration.

    def advance(self, state: SampledState) -> SampledState:
        """See `Iteration`: one step of each start, and the check that is due, if one is."""
        state = super().advance(state)
        state = self._louder(state) if state.phase == LAST else state
        return self._considered(state) if state.iteration >= state.check_at else state

    def rate(self, state: SampledState) -> float:
        """See `Ascent`."""
        return state.slower * self.parameters.scale * self.schedule.rate(state.iteration - state.begun)

    def draw(self, state: SampledState, number: int) -> Draw:
        """The sequences of one gradient: fresh ones in each iteration."""
        stream = np.random.SeedSequence([self.options.seed, state.iteration, number])
        return Draw(state.batch, int(stream.generate_state(1)[0]))

    def led(
        self, state: SampledState, tables: Any, values: Values, multipliers: Float[np.ndarray, "n K"]
    ) -> tuple[SampledState, int]:
        """The state with its leader, and the number of that; what may be the answer is found by the checks."""
        leader = int(np.argmax(values.worth(multipliers)))
        return replace(state, leader=leader), leader

    def phase(self, state: SampledState) -> str:
        """See `Ascent`."""
        return "choosing" if state.phase == CLIMB and len(state.theta) > 1 else "sampling"

    @property
    def is_late(self) -> bool:
        """Whether rounds on a machine slower than forecast leave too little of the time limit to the last start."""
        return self.objective.clock.is_past(1 - SHARE_OF_ROUNDS)

    def part(self, state: SampledState, kept: Int[np.ndarray, " k"], others: Int[np.ndarray, " m"]) -> SampledState:
        """Some of the starts; the others are set aside."""
        aside = [state.theta[one] for one in others] + list(state.aside)
        multipliers = np.concatenate([*(state.multiplier[one] for one in others), state.aside_multiplier])
        fields = fields_of([state.groups[one] for one in kept])
        return replace(state, **fields, aside=aside, aside_multiplier=multipliers)

    def finish(self, state: SampledState) -> SampledState:
        """The state in which one start is left."""
        return replace(state, phase=LAST, begun=state.iteration, check_at=state.iteration + FIRST_CHECK)

    # The last one.

    def _louder(self, state: SampledState) -> SampledState:
        """The batch doubled where noise has taken over; the next check comes after as many sequences as before."""
        if state.batch >= MOST_BATCH or state.inside < _DOUBLED_AFTER or state.iteration == state.begun:
            return state
        total, signal = float(state.square[0].sum()), float((state.mean[0][:, 0] ** 2).sum())
        if signal >= _SIGNAL * total:
            return state
        until = math.ceil((state.check_at - state.iteration) / 2)
        return replace(state, batch=2 * state.batch, inside=0, check_at=state.iteration + until)

    def _considered(self, state: SampledState) -> SampledState:
        """With the best answer so far, and the iteration of the next check."""
        sequences = self._sequences_of_check(state)
        before = self._score(state.best, sequences)  # on the same number of sequences as its contenders
        score, newest, gained = before, -np.inf, dict[str, Any]()
        group = state.groups[min(state.leader, len(state.theta) - 1)]
        for theta in (group.average, group.theta):
            table, kept = self._contender(theta, group.square)
            found = self._score(table, sequences)
            newest = max(newest, found)
            if found > score:
                score = found
                gained = {"best": table, "best_theta": kept, "best_multiplier": group.multiplier[0]}
        single = state.phase == LAST
        after = replace(
            state,
            best_score=score,
            check_at=state.iteration + self._until_check(state, sequences),
            idle=0 if score > before + _GAIN_BITS or not single else state.idle + 1,
            **gained,
        )
        return self._directed(after, newest, before) if single else after

    def _directed(self, state: SampledState, newest: float, before: float) -> SampledState:
        """What the search goes on with after a check: the same, one that was set aside, or the best answer so far."""
        rising = newest - before > _RISING_BITS
        if state.exploring and not rising:
            lacking = before - newest
            rising, state = state.lacking - lacking > max(_RISING_BITS, 0.25 * lacking), replace(state, lacking=lacking)
        elif rising:
            state = replace(state, exploring=0, lacking=np.inf)
        noisy = state.batch > self._first_batch or state.exploring or state.iteration - state.begun > 4 * _DOUBLED_AFTER
        if rising or not noisy:
            return state
        has_time = math.isfinite(self.objective.clock.time_limit)
        if state.aside and has_time and not self.near_most(state, 4 * _RISING_BITS):
            following = replace(state, aside=state.aside[1:], aside_multiplier=state.aside_multiplier[1:])
            following = replace(following, slower=1.0, batch=self._first_batch, exploring=1)
            following = replace(following, check_at=state.iteration + 4 * FIRST_CHECK)
            return self._taken_up(following, state.aside[0], state.aside_multiplier[:1])
        if newest < before - _RISING_BITS:  # noise has led the search away: shorter steps, more sequences
            mixes = self.parameters.mixes
            theta = self.parameters.of(state.best, RARE) if mixes else state.best_theta
            batch = min(2 * state.batch, MOST_BATCH)
            following = replace(state, slower=state.slower / 2, batch=batch, exploring=0)
            return self._taken_up(following, theta[None], state.best_multiplier[None])
        return state

    def _taken_up(self, state: SampledState, theta: Any, multiplier: Float[np.ndarray, "1 K"]) -> SampledState:
        """From other parameters on, which have no past but their multipliers."""
        fields = fields_of([self.fresh(theta)._replace(multiplier=multiplier)])
        return replace(state, **fields, begun=state.iteration, since=state.iteration, inside=0, lacking=np.inf)

    def _until_check(self, state: SampledState, sequences: int) -> int:
        """Iterations to the next check: a share of those so far, and enough to cost some times as much as this one did."""
        least = _CHECK_COSTS * sequences / max(1, state.batch)
        count = state.iteration - state.begun
        return max(int(_CHECK_GROWTH * count) + 1 - count, math.ceil(least))

    def _sequences_of_check(self, state: SampledState) -> int:
        drawn = (state.iteration - state.begun) * state.batch
        return int(np.clip(_SHARE_OF_CHECKS * drawn, *_CHECKED))

    def _contender(self, theta: Any, square: Any) -> tuple[Any, Any]:
        """The policy of parameters `(1, R, A)` as it may be the answer: made feasible, or where it cannot be mixed as it is."""
        if not self.parameters.mixes:
            return self.parameters.tables(theta)[0], theta[0]
        return self._mended(self.parameters.tables(self._restored(theta, square))[0]), np.zeros((0, 0))

    def _restored(self, theta: Any, square: Any) -> Any:
        """Parameters moved to the nearest ones that meet the bounds on quantities, which costs fewer bits than a mixture.

        Near means in Adam's metric, by Newton's steps: what moves most is what the bits depend on least.
        """
        objective, parameters, count = self.objective, self.parameters, self.objective.num_constraints
        exact = np.zeros(count - objective.num_bits, dtype=bool)
        if not len(exact):
            return theta
        for _ in range(_RESTORING):
            objective.clock.check()
            tables = parameters.tables(theta)
            found = objective.sums(tables)
            if found.slack.min() >= 0:
                break
            jacobian = parameters.pull_back(theta, tables, found.slack_gradient)
            moments = replace(Moments.none(theta, exact, 0), square=square, count=1)
            step, _ = first_order_step(
                moments,
                0 * theta,
                found.slack - GAP_BITS,
                jacobian,
                exact,
                rate=1.0,
                decays=self.decays,
                returned=1.0,
            )
            theta = parameters.bounded(theta + step)
        return theta

    def _mended(self, table: Any) -> Any:
        """The table with about the least share of the safe one that makes the quantities suffice."""
        objective = self.objective
        if objective.num_constraints == objective.num_bits:
            return table
        return mixed_until(
            lambda one: float(objective.sums(one[None], gradient=False).slack.min()) - STILL,
            table,
            self.safe,
            objective.clock,
            check=True,
        )

    def _score(self, table: Any, sequences: int) -> float:
        """What an answer is worth, on draws that are the same for all of them; -inf where it is not feasible."""
        draw = Draw(sequences, self.options.seed + 1)
        if np.any(self.objective.sums(table[None], gradient=False).slack < 0):
            return -np.inf
        values = self.objective.evaluate(table[None], draw, gradient=False, errors=CERTAIN)
        return float(values.score[0]) if values.feasible[0] else -np.inf

    # The end.

    def is_done(self, state: SampledState) -> bool:
        """Whether all iterations were made, or the last checks found nothing better."""
        asked = self.options.iterations is not None
        stalled = state.idle >= _IDLE_CHECKS and state.batch >= MOST_BATCH
        return state.phase == DONE or state.iteration >= self.schedule.total or (not asked and stalled)

    def candidates(self, state: SampledState) -> Float[np.ndarray, "B T C A"]:
        """See `Iteration`: the best answer so far, the newest parameters among its contenders."""
        return np.asarray(self.last(state).best)[None]

    def last(self, state: SampledState) -> SampledState:
        """The state with the newest parameters among the contenders; as it is where the time does not suffice."""
        if not state.iteration or state.phase == DONE:
            return state
        try:
            return self._considered(state)
        except OutOfTime:
            return state

    def met(self, state: SampledState) -> list[Any]:
        """See `Iteration`: what was known, and starts that were set aside."""
        return [*self.known, *(self.parameters.tables(theta)[0] for theta in state.aside)]

    def describe(self) -> dict[str, object]:
        """See `Iteration`: how many starts there were, and how gradients are made."""
        sequences = f"{self._first_batch} to {MOST_BATCH} for each gradient"
        return super().describe() | {"gradients": "fresh samples", "sequences": sequences}
