"""The default method: many starts side by side, the better ones for longer, the best to the end, made feasible exactly.

All starts take first-order steps (`first_order`), which keep the bounds. After each round the better part of them goes on, by
what they are worth on the same draws. On exact gradients the last one is polished to a stationary point (`second_order`). On
samples its parameters are averaged, its batches grow as noise takes over, and at growing intervals the average and the newest
policy are made feasible and compared with the best answer so far on sequences of their own; where checks find nothing better
the starts that were set aside are taken up again, the most promising first, since what a start is worth early says little about
where it ends.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, Progress
from ..engine.threads import cores
from .ascent_state import AscentState, Moved
from .backend import Draw
from .first_order import DECAYS, Moments, first_order_step
from .mixing import mixed_until
from .objective import CERTAIN, Objective
from .options import SolveOptions
from .parameters import Parameters, TableParameters
from .ranking import distinct, without_gradients, worth
from .schedule import SHARE_OF_ROUNDS, Schedule
from .second_order import Polish, begin_polish, polished
from .values import Values

CLIMB, SETTLE, LAST, DONE = range(4)

# Of samples: sequences of a gradient at most (an error of 0.015 bits in what they hide); pure noise keeps
# (1 − 0.9) / (1 + 0.9) = 0.05 of the gradient's square in its mean, so a batch is doubled below twice that, after three times
# the 10 steps that the mean remembers.
MOST_BATCH, _SIGNAL, _DOUBLED_AFTER = 1024, 0.1, 32
# Checks: the least and the most sequences (standard errors of 0.03 and 0.0035 bits where those of single sequences spread by
# half a bit), their share of those of all gradients, by what factor of iterations one follows another, and what the iterations
# between two cost at least beside a check: checks take less than a fifth of the time. The first one comes after a few steps.
_CHECKED, _SHARE_OF_CHECKS, _CHECK_GROWTH, _CHECK_COSTS, FIRST_CHECK = (256, 20_000), 0.1, 1.3, 4.0, 8
# Checks without a gain of so many bits, far below their errors, that end the search: five times as many iterations (1.3⁶).
_IDLE_CHECKS, _GAIN_BITS = 6, 1e-4
_SETTLED_GAP = (
    1e-3  # bits of the best first-order change, at which those that settle are compared: they gain about as much
)
_AT_MOST = 1e-9  # bits from the most that can be hidden, at which a search on exact values ends
_RISING_BITS = 5e-3  # a check that gains less is no progress: the errors of the largest checks are of this size
_INSIDE = 0.01  # slack that steps keep where a policy cannot be made feasible by mixing: by judgement
# Newton's steps that make a candidate feasible at most, each of which about squares what is missed, and the slack at which they
# aim: by judgement.
_RESTORING, _RESTORED = 8, 1e-5
_MARGIN = 1e-9  # slack that a candidate keeps, so that sums in another order keep the bounds too
# Of the uniform policy in an answer that a search goes back to: with more it would be another policy.
_KEPT_SHARE = 1e-3
_LEAST_WEIGHT = 0.02  # of the newest parameters in their average, which is over about the last 50 steps then
_FIRST_COMPARED = 128  # sequences on which tables are compared before there are iterations: errors of about 0.04 bits
_SHARE_OF_CLOSING = 0.06  # of a time limit, for the last candidate and its estimate: by judgement


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
        self._safe = known[0]
        limit = objective.clock.time_limit
        self.closing = _SHARE_OF_CLOSING * limit if objective.is_sampled and math.isfinite(limit) else 0.0
        self._decays = DECAYS[objective.is_sampled]

    # Beginning.

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> AscentState:
        """The state before the first iteration; `known`: further tables that may be the answer."""
        objective = self.objective
        if self.parameters.mixes:
            best, score = self._best_known([*self._known, *([] if known is None else known)])
            theta = [self.parameters.of(table)[None] for table in self._starts]
        else:  # only what the parameters can say may be the answer
            theta = [self.parameters.of(table)[None] for table in self._starts]
            best = self.parameters.tables(theta[0])[0]
            score = self._score(best, _FIRST_COMPARED)
        groups = theta if objective.is_sampled else [np.concatenate(theta)]
        empty = not groups[0].size
        count = objective.num_constraints
        return AscentState(
            phase=DONE if empty else CLIMB,
            round=0,
            iteration=0,
            inside=0,
            begun=0,
            batch=self._first_batch,
            check_at=FIRST_CHECK,
            idle=0,
            exploring=0,
            leader=0,
            lacking=np.inf,
            slower=1.0,
            **self._fresh(groups),
            aside=[],
            aside_multiplier=np.zeros((0, count)),
            best=best,
            best_theta=np.zeros((0, 0)) if self.parameters.mixes else groups[0][0],
            best_score=score,
            best_multiplier=self._moments(groups[0]).multiplier[0],
            leading=best,
            polish={},
            ends=np.zeros((0, 2)),
            history=self._first_row(best, score),
        )

    def _moments(self, theta: Any) -> Moments:
        return Moments.none(theta, self.objective.is_noisy, len(self.objective.channels.least))

    def _fresh(self, groups: Sequence[Any]) -> dict[str, Any]:
        """Parameters without a past."""
        made = [self._moments(theta) for theta in groups]
        return {
            "theta": groups,
            "mean": [one.mean for one in made],
            "square": [one.square for one in made],
            "multiplier": [one.multiplier for one in made],
            "average": groups if self.objective.is_sampled else [],
        }

    def _best_known(self, tables: Sequence[Any]) -> tuple[Any, float]:
        """The best feasible table and its score; where none is feasible, the nearest to it and -inf."""
        objective = self.objective
        if objective.is_sampled:
            made = [tables[0], *(self._mended(table, self._safe) for table in tables[1:])]
            scores = [self._score(table, _FIRST_COMPARED) for table in made]
            chosen = int(np.argmax(scores))
            return made[chosen], scores[chosen]
        values = objective.evaluate(np.stack(tables))
        chosen = values.best
        return tables[chosen], float(values.score[chosen]) if values.feasible[chosen] else -np.inf

    def _first_row(self, table: Any, score: float) -> Float[np.ndarray, "k 6"]:
        """What is known before the search, as a row of the history at iteration 0; no row where it is not feasible."""
        objective = self.objective
        if not objective.is_sampled or not np.isfinite(score) or objective.has_terms or not objective.weight:
            return np.zeros((0, 6))
        returns = float(objective.space.sums(table[None], (0,))[0, 0])
        return np.array([[0.0, objective.weight * score, returns, 0.0, 0.0, objective.clock.spent]])

    # One iteration.

    def advance(self, state: AscentState) -> AscentState:
        """One iteration further."""
        self.objective.clock.check(ahead=self.closing)
        if state.phase in (SETTLE, LAST) and not self.objective.is_sampled:
            return self._polished(state)
        rate = state.slower * self.parameters.scale * self.schedule.rate(state.iteration - state.begun)
        after, values = self._stepped(state, rate)
        after = self._noted(after, values, rate, np.concatenate(list(after.multiplier)))
        if state.phase == CLIMB and (after.inside >= self._length(after.round) or self._is_late()):
            after = self._next_round(after)
        if after.phase == LAST and self.objective.is_sampled:
            after = self._louder(after)
            if after.iteration >= after.check_at:
                after = self._considered(after)
        elif self.objective.is_sampled and after.iteration >= after.check_at:
            after = self._considered(after)
        return after

    def _is_late(self) -> bool:
        """Whether rounds on a machine slower than forecast leave too little of the time limit to the last start."""
        clock = self.objective.clock
        return self.objective.is_sampled and clock.is_past(1 - SHARE_OF_ROUNDS)

    def _length(self, number: int) -> int:
        return self.schedule.rounds[number][0] if number < len(self.schedule.rounds) else 0

    def _stepped(self, state: AscentState, rate: float) -> tuple[AscentState, list[tuple[Any, Values]]]:
        """All groups after a step, and what was found where it began."""
        numbers = range(len(state.theta))
        if len(state.theta) > 1 and cores() > 1:  # starts on samples, whose steps do not depend on each other
            with ThreadPoolExecutor(cores()) as pool:
                found = list(pool.map(lambda number: self._moved(state, number, rate), numbers))
        else:
            found = [self._moved(state, number, rate) for number in numbers]
        parts = {name: [getattr(one, name) for one in found] for name in ("theta", "mean", "square", "multiplier")}
        if state.average:
            parts["average"] = [one.average for one in found]
        after = replace(state, iteration=state.iteration + 1, inside=state.inside + 1, **parts)
        return after, [(one.tables, one.values) for one in found]

    def _moved(self, state: AscentState, number: int, rate: float) -> "Moved":
        """One group after a step."""
        objective, theta, count = self.objective, state.theta[number], state.iteration - state.begun
        tables = self.parameters.tables(theta)
        values = objective.evaluate(tables, self._draw(state, number))
        step, moments = first_order_step(
            Moments(state.mean[number], state.square[number], state.multiplier[number], count),
            self.parameters.pull_back(theta, tables, values.score_gradient),
            values.slack if self.parameters.mixes else values.slack - _INSIDE,
            self.parameters.pull_back(theta, tables, values.slack_gradient),
            objective.is_noisy,
            rate=rate,
            decays=self._decays,
            num_least=values.num_least,
        )
        theta, average = self.parameters.bounded(theta + step), None
        if state.average:
            weight = max(_LEAST_WEIGHT, 2 / (count + 2))
            average = state.average[number] + weight * (theta - state.average[number])
        return Moved(theta, moments.mean, moments.square, moments.multiplier, average, tables, values)

    def _draw(self, state: AscentState, number: int) -> Draw | None:
        """The sequences of one gradient: fresh ones in each iteration."""
        if not self.objective.is_sampled:
            return None
        stream = np.random.SeedSequence([self._options.seed, state.iteration, number])
        return Draw(state.batch, int(stream.generate_state(1)[0]))

    def _noted(
        self, state: AscentState, found: list[tuple[Any, Values]], rate: float, multipliers: Float[np.ndarray, "n K"]
    ) -> AscentState:
        """With one more line of history, that of the policy that leads; on exact values also the best feasible one so far."""
        objective, clock = self.objective, self.objective.clock
        values = without_gradients([one for _, one in found])
        leader = values.best
        if not objective.is_sampled:
            tables = found[0][0]
            if values.feasible[leader] and values.score[leader] > state.best_score:
                state = replace(
                    state,
                    best=tables[leader],
                    best_score=float(values.score[leader]),
                    best_multiplier=multipliers[leader],
                )
            # What is best but for a slight infeasibility is worth more than what is feasible by chance.
            state = replace(state, leading=tables[int(np.argmax(worth(values, multipliers)))])
        else:
            leader = int(np.argmax(worth(values, multipliers)))
        price = objective.price(multipliers[leader])
        bits, returns = float(values.bits[leader]), float(values.returns[leader])
        phase = "choosing" if state.phase == CLIMB and len(multipliers) > 1 else "sampling"
        phase = phase if objective.is_sampled else "climbing"
        clock.report(Progress(phase, state.iteration, self.schedule.total, bits, returns, price, clock.spent))
        row = (state.iteration, bits, returns, price, rate, clock.spent)
        return replace(
            state, leader=leader if objective.is_sampled else state.leader, history=np.vstack([state.history, row])
        )

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
        if self.objective.is_sampled:
            return replace(state, phase=LAST, begun=state.iteration, check_at=state.iteration + FIRST_CHECK)
        return self._with_polish(state, SETTLE if self.schedule.settle else LAST)

    def _kept(self, state: AscentState, count: int) -> AscentState:
        """The best distinct starts, by what they are worth once feasible, on the same draws."""
        objective = self.objective
        multipliers = np.concatenate(list(state.multiplier))
        if len(multipliers) <= count:
            return state
        tables = [self.parameters.tables(theta) for theta in state.theta]
        draw = Draw(_CHECKED[0], self._options.seed + 1) if objective.is_sampled else None
        values = without_gradients([objective.evaluate(one, draw, gradient=False) for one in tables])
        price = np.tile(multipliers.max(axis=0, initial=0.0), (len(multipliers), 1))
        worths = worth(values, price)
        order = distinct(objective.space, (table for group in tables for table in group), worths)
        kept, others = order[:count], order[count:]
        left = others if count > 1 else order  # the last comparison is also of the one that stays
        ends = np.column_stack([worths, values.returns / objective.unit])[left]
        state = replace(state, ends=np.vstack([state.ends, ends]))
        if not objective.is_sampled:
            moments = Moments(state.mean[0], state.square[0], state.multiplier[0], 0).part(kept)
            return replace(
                state,
                theta=[state.theta[0][kept]],
                mean=[moments.mean],
                square=[moments.square],
                multiplier=[moments.multiplier],
                leader=0,
            )
        names = ("theta", "mean", "square", "multiplier", "average")
        parts = {name: [getattr(state, name)[one] for one in kept] for name in names}
        aside = [state.theta[one] for one in others] + list(state.aside)
        return replace(
            state,
            **parts,
            leader=0,
            aside=aside,
            aside_multiplier=np.concatenate([multipliers[others], state.aside_multiplier]),
        )

    # Those that are left, on exact values.

    def _with_polish(self, state: AscentState, phase: int) -> AscentState:
        """The state that polishes its leader, the first of those that are left as long as all settle."""
        if phase == LAST:
            state = self._kept(state, 1)
            if not self.schedule.last:
                return replace(state, phase=DONE)
        one = slice(state.leader, state.leader + 1)
        begun = begin_polish(self.objective, self._as_tables, state.theta[0][one], state.multiplier[0][one])
        return replace(state, phase=phase, polish=begun.arrays())

    def _polished(self, state: AscentState) -> AscentState:
        """One step of the leader; where it has settled the next one follows, and after them the best of all, to the end."""
        after, tables, values, multiplier = polished(self.objective, self._as_tables, Polish.of(state.polish))
        theta, prices, one = state.theta[0].copy(), state.multiplier[0].copy(), slice(state.leader, state.leader + 1)
        theta[one], prices[one] = after.theta, after.multiplier
        state = replace(state, iteration=state.iteration + 1, theta=[theta], multiplier=[prices], polish=after.arrays())
        state = self._noted(state, [(tables, values)], 0.0, multiplier)
        if state.phase == LAST:
            return replace(state, phase=DONE) if after.done or after.inside >= self.schedule.last else state
        if not after.done and after.gap > _SETTLED_GAP and after.inside < self.schedule.settle:
            return state
        if state.leader + 1 < len(theta):
            return self._with_polish(replace(state, leader=state.leader + 1), SETTLE)
        return self._with_polish(state, LAST)

    @property
    def _as_tables(self) -> TableParameters:
        """The parameters, which are of tables wherever gradients are exact."""
        assert isinstance(self.parameters, TableParameters)
        return self.parameters

    # The last one, on samples.

    def _louder(self, state: AscentState) -> AscentState:
        """The batch doubled where noise has taken over; the next check comes after as many sequences as before."""
        count = state.iteration - state.begun
        if state.batch >= MOST_BATCH or state.inside < _DOUBLED_AFTER:
            return state
        total, signal = float(state.square[0].sum()), float((state.mean[0][:, 0] ** 2).sum())
        if signal >= _SIGNAL * total or not count:
            return state
        until = math.ceil((state.check_at - state.iteration) / 2)
        return replace(state, batch=2 * state.batch, inside=0, check_at=state.iteration + until)

    def _considered(self, state: AscentState) -> AscentState:
        """With the best answer so far, and the iteration of the next check."""
        sequences = self._sequences_of_check(state)
        before = self._score(state.best, sequences)  # on the same number of sequences as its contenders
        score, newest, gained = before, -np.inf, dict[str, Any]()
        number = min(state.leader, len(state.theta) - 1)
        for theta in (state.average[number], state.theta[number]):
            table, kept = self._contender(theta, state.square[number])
            found = self._score(table, sequences)
            newest = max(newest, found)
            if found > score:
                score = found
                gained = {"best": table, "best_theta": kept, "best_multiplier": state.multiplier[number][0]}
        single = state.phase == LAST
        after = replace(
            state,
            best_score=score,
            check_at=state.iteration + self._until_check(state, sequences),
            idle=0 if score > before + _GAIN_BITS or not single else state.idle + 1,
            **gained,
        )
        return self._directed(after, newest, before) if single else after

    def _directed(self, state: AscentState, newest: float, before: float) -> AscentState:
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
        if (
            state.aside
            and math.isfinite(self.objective.clock.time_limit)
            and not self._is_near_most(state, 4 * _RISING_BITS)
        ):
            theta, multiplier = state.aside[0], state.aside_multiplier[:1]
            return self._taken_up(
                state, theta, multiplier, aside=state.aside[1:], left=state.aside_multiplier[1:], exploring=1
            )
        if newest < before - _RISING_BITS:  # noise has led the search away: shorter steps, more sequences
            theta = (
                self.parameters.of(state.best, _KEPT_SHARE)[None] if self.parameters.mixes else state.best_theta[None]
            )
            state = replace(state, slower=state.slower / 2, batch=min(2 * state.batch, MOST_BATCH))
            multiplier = state.best_multiplier[None]
            return self._taken_up(state, theta, multiplier, aside=state.aside, left=state.aside_multiplier, exploring=0)
        return state

    def _taken_up(
        self, state: AscentState, theta: Any, multiplier: np.ndarray, *, aside: Any, left: np.ndarray, exploring: int
    ) -> AscentState:
        """From other parameters on."""
        fresh = self._fresh([theta]) | {"multiplier": [multiplier]}
        return replace(
            state,
            **fresh,
            aside=aside,
            aside_multiplier=left,
            begun=state.iteration,
            inside=0,
            slower=1.0 if exploring else state.slower,
            batch=self._first_batch if exploring else state.batch,
            check_at=state.iteration + 4 * FIRST_CHECK if exploring else state.check_at,
            exploring=exploring,
            lacking=np.inf,
            idle=state.idle,
        )

    def _is_near_most(self, state: AscentState, within: float) -> bool:
        """Whether the best answer so far is within so many bits of what can be hidden at most."""
        return state.best_score > self.objective.most_score - within

    def _until_check(self, state: AscentState, sequences: int) -> int:
        """Iterations to the next check: a share of those so far, and enough to cost some times as much as this one did."""
        least = _CHECK_COSTS * sequences / max(1, state.batch)
        count = state.iteration - state.begun
        return max(int(_CHECK_GROWTH * count) + 1 - count, math.ceil(least))

    def _sequences_of_check(self, state: AscentState) -> int:
        return int(np.clip(_SHARE_OF_CHECKS * (state.iteration - state.begun) * state.batch, *_CHECKED))

    def _contender(self, theta: Any, square: Any) -> tuple[Any, Any]:
        """The policy of parameters `(1, R, A)` as it may be the answer: made feasible, or where it cannot be mixed as it is."""
        if not self.parameters.mixes:
            return self.parameters.tables(theta)[0], theta[0]
        return self._mended(self.parameters.tables(self._restored(theta, square))[0], self._safe), np.zeros((0, 0))

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
                found.slack - _RESTORED,
                jacobian,
                exact,
                rate=1.0,
                decays=self._decays,
                returned=1.0,
            )
            theta = parameters.bounded(theta + step)
        return theta

    def _mended(self, table: Any, safe: Any) -> Any:
        """The table with about the least share of the safe one that makes the quantities suffice."""
        objective = self.objective
        if objective.num_constraints == objective.num_bits:
            return table
        return mixed_until(
            lambda one: float(objective.sums(one[None], gradient=False).slack.min()) - _MARGIN,
            table,
            safe,
            objective.clock,
            check=True,
        )

    def _score(self, table: Any, sequences: int) -> float:
        """What an answer is worth, on draws that are the same for all of them; -inf where it is not feasible."""
        draw = Draw(sequences, self._options.seed + 1)
        if np.any(self.objective.sums(table[None], gradient=False).slack < 0):
            return -np.inf
        values = self.objective.evaluate(table[None], draw, gradient=False, errors=CERTAIN)
        return float(values.score[0]) if values.feasible[0] else -np.inf

    # The end.

    def is_done(self, state: AscentState) -> bool:
        """Whether all iterations were made, nothing better can be found, or the last checks found nothing better."""
        if not self.objective.is_sampled or state.phase == DONE:
            return state.phase == DONE or self._is_near_most(state, _AT_MOST)
        asked = self._options.iterations is not None
        stalled = state.idle >= _IDLE_CHECKS and state.batch >= MOST_BATCH
        return state.iteration >= self.schedule.total or (not asked and stalled)

    def unpack(self, arrays: dict[str, np.ndarray]) -> AscentState:
        """The state of the arrays in a checkpoint."""
        state, placed = AscentState.of(arrays), self.parameters.restored
        names = ("theta", "mean", "square", "average", "aside")
        return replace(state, **{name: [placed(one) for one in getattr(state, name)] for name in names})

    def candidates(self, state: AscentState) -> Float[np.ndarray, "B T C A"]:
        """Tables that may be the answer: the best that was feasible, and the one that leads now, made feasible."""
        if self.objective.is_sampled:
            return np.asarray((self.last(state)).best)[None]
        if not np.isfinite(state.best_score) or not state.theta[0].size:
            return state.best[None]
        one = slice(state.leader, state.leader + 1)
        table = self.parameters.tables(state.theta[0][one])[0] if state.polish else state.leading
        clock = Clock(self.objective.closing_seconds)
        return np.stack(
            [
                state.best,
                mixed_until(
                    lambda one: float(self.objective.slacks(one[None]).min(initial=np.inf)), table, state.best, clock
                ),
            ]
        )

    def last(self, state: AscentState) -> AscentState:
        """The state with the newest parameters among the contenders; as it is where the time does not suffice."""
        if not state.iteration or state.phase == DONE:
            return state
        try:
            return self._considered(state)
        except OutOfTime:
            return state

    def met(self, state: AscentState) -> list[Any]:
        """Tables that the search met beside its candidates: the known ones, and starts that were set aside."""
        return [*self._known, *(self.parameters.tables(theta)[0] for theta in state.aside)]

    def describe(self) -> dict[str, object]:
        """How many starts there were, and how gradients are made."""
        found: dict[str, object] = {"starts": len(self._starts) - (self._options.start is not None)}
        if self.objective.is_sampled:
            found |= {
                "gradients": "fresh samples",
                "sequences": f"{self._first_batch} to {MOST_BATCH} for each gradient",
            }
        return found
