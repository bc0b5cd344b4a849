"""Sampled gradients for a search over a large sparse model: messages over the states that can be reached at each time.

The passes are those of `engine.columns`; what depends on no policy is made once for all policies of a class: the states that
are reachable at each time, the pattern of the transitions between them and the tables to draw from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log
from ..common.memo import memo
from ..common.workers import ALONE, Team
from ..engine.backends.column_steps import ColumnSteps, patterns, reachable_sets
from ..engine.backends.compiled import serves
from ..engine.buffers import keep_pages
from ..engine.chain import Chain
from ..engine.columns import ColumnPass
from ..engine.hidden import Hidden, observed
from ..engine.sampling import Emissions, RowDraws
from ..engine.sequences import Posteriors
from ..engine.strings import StringPass
from .backend import PER_ENTRY, Draw

Measure = Callable[[Posteriors, Int[np.ndarray, "k T+1"]], tuple[np.ndarray, Float[np.ndarray, "k Z"]]]
"""From what a pass finds along sequences, and these: some numbers for each of them, and the cotangents of a gradient."""

# Of messages kept for the adjoint, a quarter of it for the sequences that are worked on at a time; and of what workers know.
_MESSAGE_BYTES = 2**30
PART = 128
"""Sequences that are worked on at a time: 1,024 take 0.75 to 0.79 of the time in such parts as they take at once (one core)."""
SHARES = 8
"""Of an evaluation at most: each has the table in its message, and the answer the gradient."""
_PER_BYTE = 2e-9  # seconds of a message (measured: 1.5 ms for each megabyte)


class Layers:
    """Sampled values and gradients, and soft policies, of one hidden chain.

    A table is `(T, C, A)`, or `(1, C, A)` for all times.

    Cost of making it: the pattern of the transitions between reachable states at all times, once.
    """

    def __init__(self, hidden: Hidden):
        keep_pages()
        self.hidden, self._patterns = hidden, patterns(hidden)
        self._observed = observed(hidden)  # what is seen depends on fewer states than what is paid
        self._sizes = [len(states) for states in reachable_sets(self._observed)]
        self._ends = [pattern.here for pattern in self._patterns] + [pattern.there for pattern in self._patterns[-1:]]
        self._moves, self._emissions = RowDraws(hidden.kernel.stacked), Emissions(hidden)
        self._emitter_of = np.argmax([emitter.actions for emitter in hidden.emitters], axis=0)
        self.expected_seconds = 0.0  # of all plain passes to come: see `is_compiled`
        self._newest: dict[bool, ColumnSteps] = {}  # of what is observed of the chain, and of the chain

    def send(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "T C A"]:
        """The table where the passes work on it."""
        return table

    @property
    def num_entries(self) -> int:
        """Transitions between them."""
        return sum(len(pattern.row) for pattern in patterns(self._observed))

    @property
    def room(self) -> int:
        """Sequences whose messages may be kept at a time."""
        return max(2, _MESSAGE_BYTES // 4 // (8 * (sum(self._sizes) + 6 * max(self._sizes))))

    @property
    def is_compiled(self) -> bool:
        """Whether draws and passes are compiled loops; a function of the expected work, the same in every process."""
        return serves(self.hidden, self.expected_seconds)

    def steps(self, table: Float[np.ndarray, "T C A"], hidden: Hidden | None = None) -> ColumnSteps:
        """The transitions under a table; those of the newest are kept, since it is evaluated in several ways."""
        hidden = hidden or self.hidden
        key = hidden is self._observed
        found = self._newest.get(key)
        if found is None or found.table is not table:
            found = self._newest[key] = ColumnSteps(hidden, table, is_compiled=self.is_compiled)
        return found

    def draw(
        self, table: Float[np.ndarray, "T C A"], count: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "k T+1"]:
        """Event sequences of independent runs under a table."""
        hidden = self.hidden
        if self.is_compiled:
            from ..engine.compiled_draws import CompiledDraws  # imports Numba

            draws = memo(hidden, CompiledDraws, lambda: CompiledDraws(hidden, self._moves, self._emissions))
            return draws.draw(table, count, generator)
        events = np.empty((count, hidden.horizon + 1), dtype=np.int64)
        states, events[:, 0] = self._emissions.first(generator.random(count))
        for time in range(hidden.horizon):
            sums = np.cumsum(table[_row(table, time)][hidden.cell[states]], axis=1)
            drawn = generator.random((3, count))
            actions = np.argmax(sums > (drawn[0] * sums[:, -1])[:, None], axis=1)
            states = self._moves.draw(states * self.hidden.kernel.num_actions + actions, drawn[1])
            events[:, time + 1] = self._emissions.later(self._emitter_of[actions], states, drawn[2])
        return events

    def posteriors(
        self,
        table: Float[np.ndarray, "T C A"],
        events: Int[np.ndarray, "k T+1"],
        clock: Clock = UNLIMITED,
        team: Team = ALONE,
    ) -> Float[np.ndarray, "k Z"]:
        """`P(z|y)` of sequences."""
        return self.measured(table, events, _posterior, clock, team)

    def estimate(
        self,
        table: Float[np.ndarray, "T C A"],
        draw: Draw,
        measure: "Measure",
        clock: Clock,
        team: Team = ALONE,
        *,
        gradient: bool,
    ) -> tuple[float, float, Float[np.ndarray, "T C A"] | None]:
        """The mean of a measure over drawn sequences, its standard error, and with `gradient` the gradient of the mean."""
        shares = _shares(np.arange(draw.sequences))
        given = [_Drawn(len(share), (draw.seed, place)) for place, share in enumerate(shares)]
        values, found = self.along(table, given, measure, clock, team, gradient=gradient)
        return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5), found

    def measured(
        self,
        table: Float[np.ndarray, "T C A"],
        events: Int[np.ndarray, "k T+1"],
        measure: Measure,
        clock: Clock = UNLIMITED,
        team: Team = ALONE,
    ) -> Float[np.ndarray, "k *shape"]:
        """What a measure finds for each sequence."""
        return self.along(table, _shares(events), measure, clock, team, gradient=False)[0]

    def along(
        self,
        table: np.ndarray,
        given: "Sequence[_Drawn | np.ndarray]",
        measure: Measure,
        clock: Clock,
        team: Team,
        *,
        gradient: bool,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """What a measure finds along shares of sequences; a team has them if that is worth its messages.

        With `gradient` also the gradient in the table whose cotangents the measure gives, `P(y) ∂/∂P(z,y)` of the function of
        interest.
        """
        count = sum(map(len, given))
        items = [(table, share, measure, len(share) / count, gradient) for share in given]
        seconds, size = PER_ENTRY * self.num_entries * count / len(given), table.nbytes * (1 + gradient)
        worth = seconds > _PER_BYTE * size and self.num_entries * (table.shape[-1] + 3) * 8 <= _MESSAGE_BYTES
        values, total = list[np.ndarray](), None
        _ = self.is_compiled  # the loops are compiled here, before workers look for them in the cache
        for found, slope in (team if worth else ALONE).shares(_along_share, self, items, clock):
            values.append(found)
            total = slope if total is None else total + slope
        return np.concatenate(values), total

    def _chain(self, table: Float[np.ndarray, "T C A"]) -> Chain:
        return Chain(self._observed, table, stationary=len(table) == 1)

    def passed(self, table: np.ndarray, events: np.ndarray, clock: Clock, *, gradient: bool) -> ColumnPass | StringPass:
        """The pass along sequences, or along the strings that an observer without a clock writes from them."""
        memory = 2 * _MESSAGE_BYTES if gradient else _MESSAGE_BYTES
        if self.hidden.written is not None:
            given = {"gradient": gradient, "memory_bytes": memory, "clock": clock}
            return StringPass(self._chain(table), events, **given, apart=True)
        return ColumnPass(
            self._chain(table),
            events,
            gradient=gradient,
            memory_bytes=memory,
            clock=clock,
            steps=self.steps(table, self._observed),
        )

    def _spread(self, table: Float[np.ndarray, "T C A"]) -> list[Float[np.ndarray, "n Z"]]:
        """`P(x_t, z)` of the reachable states at times 0 … T."""
        hidden, split, steps = self.hidden, self.hidden.split_time, self.steps(table)
        occupied, label = [hidden.start[self._ends[0]]], hidden.label[self._ends[split]]
        for time in range(split):
            occupied.append(steps.push(occupied[-1], time))
        forecast, result = label, [occupied[split][:, None] * label]
        for time in range(split - 1, -1, -1):
            forecast = steps.pull(forecast, time)
            result.append(occupied[time][:, None] * forecast)
        result.reverse()
        for time in range(split, hidden.horizon):
            result.append(steps.push(result[-1], time))
        return result

    def seen(self, table: Float[np.ndarray, "T C A"]) -> tuple[Float[np.ndarray, " Z"], Float[np.ndarray, "T+1 E Z"]]:
        """`P(z)`, and `P(event at t, z)` of the later events, as if all actions emitted like the first emitter."""
        spread = self._spread(table)
        result = np.zeros((len(spread), self.hidden.num_events, self.hidden.num_values))
        emission = self.hidden.emitters[0].emission
        for time, pattern in enumerate(self._patterns):
            result[time + 1] = emission[pattern.there].T @ spread[time + 1]
        return spread[self.hidden.split_time].sum(axis=0), result

    def prior(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, " Z"]:
        """`P(z)`."""
        return self._chain(table).prior

    def soft_table(
        self,
        weight: float,
        prize: Float[np.ndarray, " N"],
        cost: Float[np.ndarray, "T+1 E"],
        terminal: Float[np.ndarray, " N"],
        available: Bool[np.ndarray, "C A"],
    ) -> Float[np.ndarray, "T C A"]:
        """The time-dependent policy that maximises its entropy in nats plus `weight` times the return, a prize for the state
        at the time of the secret, less a cost of each event, by soft backward induction over the reachable states.

        Hidden states that the agent cannot tell apart share the mean of their action values. Rows of states that are not
        reachable are uniform.
        """
        hidden, split = self.hidden, self.hidden.split_time
        table = np.tile(available / available.sum(axis=1, keepdims=True), (hidden.horizon, 1, 1))
        values = weight * hidden.paid[0].discount ** hidden.horizon * terminal[self._ends[-1]]
        prize = prize[self._ends[split]]
        if split == hidden.horizon:
            values = values + prize
        reward = hidden.paid[0].reward
        for time in range(hidden.horizon - 1, -1, -1):
            step = self._patterns[time]
            scores = weight * hidden.paid[0].discount ** time * reward[step.here]
            for emitter in hidden.emitters:
                charge = (emitter.emission @ cost[time + 1])[step.there]
                ahead = step.contract((values - charge)[step.column])
                scores = scores + (ahead if emitter.actions.all() else ahead * emitter.actions)
            cells = hidden.cell[step.here]
            scores = np.where(available[cells], self._cell_means(scores, cells), -np.inf)
            top = scores.max(axis=1, keepdims=True)
            weights = np.exp(scores - top)
            total = weights.sum(axis=1, keepdims=True)
            table[time, cells] = weights / total
            values = (top + natural_log(total))[:, 0]
            if time == split:
                values = values + prize
        return table

    def _cell_means(self, scores: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """For each state the mean of its cell."""
        if self.hidden.rows_are_states:
            return scores
        _, index, count = np.unique(cells, return_inverse=True, return_counts=True)
        if len(count) == len(cells):
            return scores
        sums = np.zeros((len(count), scores.shape[1]))
        np.add.at(sums, index, scores)
        return (sums / count[:, None])[index]

    def time_average(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "1 C A"]:
        """The stationary table that takes each action as often as a time-dependent one."""
        return time_average(self.hidden, table)[None]


def _posterior(found: Posteriors, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The measure that finds `P(z|y)`."""
    return found.posterior, found.posterior


@dataclass(frozen=True)
class _Drawn:
    """Sequences that who works on them draws: how many, and the seed of their stream."""

    size: int
    seed: tuple[int, int]

    def __len__(self) -> int:
        return self.size


def _shares(sequences: np.ndarray) -> list[np.ndarray]:
    """Sequences as they are shared, whoever works on them: all, two halves from 128 on, then shares of 128 and more."""
    count = len(sequences)
    return np.array_split(sequences, min(SHARES, max(count // PART, 1 + (count >= PART))))


def _along_share(
    layers: Layers, item: "tuple[np.ndarray, _Drawn | np.ndarray, Measure, float, bool]", clock: Clock
) -> tuple[np.ndarray, Any]:
    """What is found for some sequences, and what they add to the gradient, in parts that fit the memory."""
    table, given, measure, share, gradient = item
    drawn = isinstance(given, _Drawn)
    events = layers.draw(table, given.size, np.random.default_rng(given.seed)) if drawn else given
    values, total = list[np.ndarray](), None
    for part in np.array_split(events, max(-(-len(events) // layers.room), len(events) // PART)):
        run = layers.passed(table, part, clock, gradient=gradient)
        found, cotangent = measure(run.result, part)
        values.append(found)
        if gradient:
            slope = run.pull_back(cotangent * (share * len(part) / len(events)))
            total = slope if total is None else total + slope
    return np.concatenate(values), total


def _row(table: np.ndarray, time: int) -> int:
    """Which table is used at a time."""
    return 0 if len(table) == 1 else time


def used_rows(hidden: Hidden, times: int) -> Int[np.ndarray, " R"]:
    """The rows of a table `(times, C, A)`, numbered `t · C + c`, that are used by some policy at some time."""
    reached = reachable_sets(hidden)[: hidden.horizon]
    distinct = {id(states): states for states in reached}
    cells = {key: np.unique(hidden.cell[states]) for key, states in distinct.items()}
    if not cells:
        return np.zeros(0, dtype=np.int64)
    if times == 1:
        return np.unique(np.concatenate(list(cells.values())))
    used = [time * hidden.num_cells + cells[id(states)] for time, states in enumerate(reached)]
    return np.concatenate(used)


def time_average(hidden: Hidden, timed: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "C A"]:
    """How often each action is taken in a cell over all times; cells that are never met keep their first row."""
    weights = np.zeros((hidden.num_cells, len(timed)))
    np.add.at(weights, hidden.cell, Chain(hidden, timed, stationary=False).occupancies[:-1].T)
    total = weights.sum(axis=1)[:, None]
    average = np.einsum("ct,tca->ca", weights, timed) / np.where(total > 0, total, 1.0)
    return np.where(total > 0, average, timed[0])
