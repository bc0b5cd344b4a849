"""Messages of many sequences over a large sparse model: columns of one array, products by rows of a CSR matrix.

The same pass as `sequences.SequencePass`, laid out for models whose transitions do not fit a dense matrix. A message
array is `(N, n)`, so that a transition moves whole rows of n numbers, and a product costs what its non-zeros cost. The
scale of each column is folded into the next emission, which saves a pass over the array, in both directions:

- forward `X_{t+1} = F_t · (K_tᵀ X_t)` with `F_t = B(·, o_{t+1}) / s_t` and `s_t` the column sums of `X_t`; `Π s_t = P(y)`;
- adjoint `Ĝ_t = K_t (F_t · Ĝ_{t+1})` with gradient `X_t ⊗ (F_t · Ĝ_{t+1})` in `K_t`: the same F serves.
"""

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log, posteriors
from .backends.column_steps import ColumnSteps, reached
from .buffers import Buffers
from .chain import Chain, sum_by_cell
from .each_time import Reading, pull_labels, readings
from .hidden import Emitter
from .sequences import Posteriors, inverse
from .threads import cores, in_threads, one_blas_thread
from .written import need_clock

_LANE, _LANE_NUMBERS = 64, 2**17  # sequences that travel together: at least so many, or a message of this size
_LEAST_LANE, _THREAD_NUMBERS = 32, 2**16  # sequences and numbers of a message that are worth a thread
_BLOCK = 2**18  # numbers of a message made at a time: 2 MiB
# Up to so many events, and from so many numbers on, a product with a matrix of zeros and weights selects columns faster than
# indices do.
_FEW_EVENTS, _MANY_NUMBERS = 16, 2**12
_MOST_SUMS, _MOST_SLOPES = 8, 2**26  # gradients that lanes are added up in, at most, and numbers of all of them


class ColumnPass:
    """Posteriors of the secret along given event sequences over a sparse model, and the gradient of a function of them.

    The interface is that of `SequencePass`. Lanes of 64 or more sequences are worked on by as many threads as there are cores,
    whose number changes nothing in the result. Where the messages of a lane do not fit its share of the memory, every k-th is
    kept and the rest computed again. `clock` is checked at each step of each lane. `steps`: the transitions under the chain's
    table, where they were made before.
    """

    @one_blas_thread
    def __init__(
        self,
        chain: Chain,
        events: Int[np.ndarray, "k T+1"],
        *,
        gradient: bool,
        memory_bytes: int,
        clock: Clock = UNLIMITED,
        steps: ColumnSteps | None = None,
    ):
        need_clock(chain.hidden.written)
        self._chain, self._readings = chain, readings(chain)
        self._steps = ColumnSteps(chain.hidden, chain.table) if steps is None else steps
        self._shape = chain.table.shape
        lanes = np.array_split(events, self._num_lanes(len(events)))  # equal lanes, so that no thread waits for another
        self._ends = np.cumsum([len(lane) for lane in lanes])[:-1]
        # With a gradient the messages of all lanes are kept at once, each lane's in proportion to its sequences.
        share = memory_bytes / len(events) if gradient else memory_bytes / (min(len(lanes), cores()) * len(lanes[0]))
        given, kind = (self._steps, self._readings), _kind_of_lane(self._steps)
        self._lanes = list(in_threads(lambda lane: kind(*given, lane, gradient, share * len(lane), clock), lanes))
        self.result = Posteriors(
            log_likelihood=np.concatenate([lane.log_likelihood for lane in self._lanes]),
            posterior=np.concatenate([lane.posterior for lane in self._lanes]),
            count=np.ones(len(events)),
            index=np.arange(len(events)),
        )

    def _num_lanes(self, sequences: int) -> int:
        largest = max((len(pattern.there) for pattern in self._steps.patterns), default=1)
        lanes = -(-sequences // max(_LANE, _LANE_NUMBERS // largest))
        return max(lanes, min(_MOST_SUMS, sequences // _LEAST_LANE, sequences * largest // _THREAD_NUMBERS))

    @one_blas_thread
    def pull_back(self, slope: Float[np.ndarray, "k *R Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(y) · ∂/∂P(z,y)` of each sequence."""
        slope = slope.reshape(len(slope), len(self._readings), -1)
        hidden, parts = self._steps.hidden, np.split(slope, self._ends)
        shape = self._shape[0], hidden.num_states, self._shape[2]
        sums = min(len(self._lanes), _MOST_SUMS, max(1, _MOST_SLOPES // max(1, math.prod(shape))))
        slopes, labels = [np.zeros(shape) for _ in range(sums)], dict[int, np.ndarray]()
        # Lane i adds to sum i mod n, one after the other: the result depends neither on the cores nor on which is fast.
        for begin in range(0, len(self._lanes), sums):
            wave = slice(begin, begin + sums)
            items = list(zip(self._lanes[wave], parts[wave], slopes, strict=False))
            for found in in_threads(lambda item: item[0].pull_back(item[1], item[2]), items):
                for time, part in found.items():
                    sum_of_lanes = labels.setdefault(time, np.zeros((hidden.num_states, part.shape[1])))
                    sum_of_lanes[reached(hidden, time)] += part
        result = sum_by_cell(hidden, functools.reduce(np.add, slopes))
        pull_labels(self._chain, labels, result)
        return result


def _kind_of_lane(steps: ColumnSteps) -> "type[Lane]":
    if not steps.is_compiled:
        return Lane
    from .compiled_columns import CompiledLane  # imports Numba

    return CompiledLane


class Lane:
    """Some sequences, forward to the split and backward to it; messages of a time are about its reachable states."""

    def __init__(
        self,
        steps: ColumnSteps,
        readings: list[Reading],
        events: np.ndarray,
        gradient: bool,
        memory_bytes: float,
        clock: Clock,
    ):
        hidden = steps.hidden
        self.hidden, self.steps, self.events = hidden, steps, events
        self._buffers, self._scratch = Buffers.of(hidden), {}
        split, horizon = readings[-1].time, hidden.horizon
        times = list(range(horizon - 1, split - 1, -1)) if hidden.each is None else []
        first, middle, last = (reached(hidden, time) for time in (0, split, horizon))
        self._is_forecast = hidden.each is not None and hidden.each.ahead > 0
        self._earlier = {reading.time: reading.label for reading in readings[:-1]}
        self._place = {reading.time: place for place, reading in enumerate(readings)}
        self._read: list[np.ndarray] = []
        self._totals: dict[int, np.ndarray] = {}
        sizes = [8 * len(pattern.there) * len(events) for pattern in steps.patterns]
        kept = memory_bytes, gradient, self._buffers, clock
        self._forward = _Kept(list(range(split)), sum(sizes[:split]), *kept)
        self._backward = _Kept(times, sum(sizes[split:]), *kept)
        start = hidden.first_columns.take(first, events[:, 0], self._take(len(first)))
        self._label = readings[-1].label[middle]
        self._alpha, logs = self._forward.run(start, np.add.reduce, self._ahead, self._read_earlier)
        self._alpha_scale = _over(self._alpha, self._alpha.sum(axis=0))
        self._beta: np.ndarray | None = None  # all ones, where nothing comes after the split
        both = self._alpha
        if self._backward.times:
            end = np.ones((len(last), len(events)))
            self._beta, more = self._backward.run(end, np.maximum.reduce, self._back)
            self._beta_scale = _over(self._beta, self._beta.max(axis=0))
            logs, both = logs + more, self._alpha * self._beta
        joint = both.T @ self._label
        self._total = joint.sum(axis=1)
        self.log_likelihood = logs + natural_log(self._total)
        self.posterior = posteriors(joint)
        if hidden.each is not None:
            self.posterior = np.stack([*self._read, self.posterior], axis=1)
        if not gradient:
            self._give_back()

    def pull_back(self, slope: Float[np.ndarray, "k R Z"], found: Float[np.ndarray, "T N A"]) -> dict[int, np.ndarray]:
        """Pull the slope in the posteriors back through both sides, and add it to a gradient.

        Returns the slopes in the labels of each time, if they depend on the policy.
        """
        self._found, self._slope = found, slope
        self._outer: dict[tuple[int, int], tuple[int, np.ndarray]] = {}
        self._label_slopes: dict[int, np.ndarray] = {}
        inside = slope[:, -1] * inverse(self._total)[:, None]
        if self._is_forecast:
            self._label_slopes[len(self._forward.times)] = self._alpha @ inside
        spread = self._label @ inside.T
        if self._forward.times:
            first = spread if self._beta is None else spread * self._beta  # without beta there is no other side
            first *= inverse(self._alpha_scale)
            self._forward.back(first, self._ahead, self._pull_ahead, self._pull_earlier)
        if self._backward.times:
            spread *= self._alpha
            spread *= inverse(self._beta_scale)
            self._backward.back(spread, self._back, self._pull_back)
        for (_, emitter), (time, outer) in self._outer.items():
            self._add(time, emitter, outer)
        self._give_back()
        return self._label_slopes

    def _read_earlier(self, time: int, messages: np.ndarray, scale: np.ndarray) -> None:
        """Note the posteriors of a time before the last that counts."""
        if time in self._earlier:
            joint = messages.T @ self._earlier[time][reached(self.hidden, time)]
            joint *= inverse(scale)[:, None]
            self._totals[time] = joint.sum(axis=1)
            self._read.append(posteriors(joint))

    def _pull_earlier(self, time: int, messages: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
        """The gradient of what was read at a time in its messages."""
        if time not in self._earlier:
            return None
        inside = self._slope[:, self._place[time]] * (inverse(self._totals[time]) * inverse(scale))[:, None]
        if self._is_forecast:
            self._label_slopes[time] = messages @ inside
        label = self._earlier[time][reached(self.hidden, time)]
        return np.matmul(label, inside.T, out=self._buffer("read", len(label)))

    def _take(self, rows: int) -> np.ndarray:
        return self._buffers.take(rows, len(self.events))

    def _give_back(self) -> None:
        """Leave the arrays to the next lane or pass; this lane is done."""
        self._buffers.give(self._alpha, self._beta, *self._scratch.values())
        self._alpha = self._beta = None
        self._scratch.clear()

    def _buffer(self, name: str, rows: int) -> np.ndarray:
        """An array `(rows, n)` that the next call of the same name overwrites."""
        if name not in self._scratch or len(self._scratch[name]) < rows:
            self._scratch[name] = self._take(rows)
        return self._scratch[name][:rows]

    def _emission(self, emitter: Emitter, time: int, rows: slice, weight: np.ndarray, out: np.ndarray) -> np.ndarray:
        """`F = B_c(·, o_{t+1}) · weight` over some states of the next time, written over `out`."""
        there, events = self.steps.patterns[time].there[rows], self.events[:, time + 1]
        if self.hidden.num_events <= _FEW_EVENTS and out.size >= _MANY_NUMBERS:
            selection = np.zeros((self.hidden.num_events, len(events)))
            selection[events, np.arange(len(events))] = weight
            return np.matmul(emitter.emission[there], selection, out=out)
        emitter.columns.take(there, events, out)
        out *= weight
        return out

    def _blocks(self, size: int) -> Iterator[slice]:
        """Rows some at a time, so that what is made of them is still in the cache when it is used."""
        step = max(1, _BLOCK // len(self.events))
        for begin in range(0, size, step):
            yield slice(begin, min(begin + step, size))

    def _ahead(self, time: int, messages: np.ndarray, scale: np.ndarray) -> np.ndarray:
        matrices, weight = self.steps.matrices(time, turned=True), inverse(scale)
        result = self._take(len(self.steps.patterns[time].there))
        for rows in self._blocks(len(result)):
            here = result[rows]
            for number, (emitter, matrix) in enumerate(zip(self.hidden.emitters, matrices, strict=True)):
                emission = self._emission(
                    emitter, time, rows, weight, self._buffer("more", len(here)) if number else here
                )
                emission *= matrix.product(messages, rows, self._buffer("product", len(here)))
                if number:
                    here += emission
        return result

    def _pull_ahead(self, time: int, messages: np.ndarray, scale: np.ndarray, slope: np.ndarray) -> np.ndarray:
        # With one emitter the messages are not needed any more when the result is written.
        out = messages if len(self.hidden.emitters) == 1 else self._take(len(messages))
        return self._against(time, scale, slope, messages, out)

    def _back(self, time: int, messages: np.ndarray, scale: np.ndarray) -> np.ndarray:
        return self._against(time, scale, messages, None, self._take(len(self.steps.patterns[time].here)))

    def _against(
        self, time: int, scale: np.ndarray, columns: np.ndarray, left: np.ndarray | None, out: np.ndarray
    ) -> np.ndarray:
        """`Σ_c K_c (F_c · columns)`, written over `out`; with `left` the slope `left ⊗ (F_c · columns)` in `K_c` is noted."""
        pattern, weight = self.steps.patterns[time], inverse(scale)
        inside = self._buffer("inside", len(pattern.there))
        for number, emitter in enumerate(self.hidden.emitters):
            for rows in self._blocks(len(inside)):
                self._emission(emitter, time, rows, weight, inside[rows])
                inside[rows] *= columns[rows]
            if left is not None:
                self._note(time, number, pattern.outer(left, inside))
            matrix = self.steps.matrices(time, turned=False)[number]
            for rows in self._blocks(len(out)):
                if number:
                    out[rows] += matrix.product(inside, rows, self._buffer("product", rows.stop - rows.start))
                else:
                    matrix.product(inside, rows, out[rows])
        return out

    def _pull_back(self, time: int, messages: np.ndarray, scale: np.ndarray, slope: np.ndarray) -> np.ndarray:
        pattern, weight, result = self.steps.patterns[time], inverse(scale), self._take(len(messages))
        result.fill(0.0)
        inside = self._buffer("inside", len(pattern.there))
        for number, emitter in enumerate(self.hidden.emitters):
            matrix = self.steps.matrices(time, turned=True)[number]
            for rows in self._blocks(len(inside)):
                emission = self._emission(emitter, time, rows, weight, inside[rows])
                product = matrix.product(slope, rows, self._buffer("product", len(emission)))
                product *= emission
                result[rows] += product
                emission *= messages[rows]
            self._note(time, number, pattern.outer(slope, inside))
        return result

    def _note(self, time: int, emitter: int, outer: np.ndarray) -> None:
        """Add to the gradient; of a stationary policy, the outer products of equal steps are added up first."""
        if len(self.steps.table) > 1:
            self._add(time, emitter, outer)
            return
        _, total = self._outer.setdefault((id(self.steps.patterns[time]), emitter), (time, outer))
        if total is not outer:
            total += outer

    def _add(self, time: int, emitter: int, outer: np.ndarray) -> None:
        pattern, emitters = self.steps.patterns[time], self.hidden.emitters
        gained = pattern.contract(outer)
        if len(emitters) > 1:
            gained *= emitters[emitter].actions
        part = self._found[self.steps.row(time)]
        if len(pattern.here) == len(part):
            part += gained
        else:
            part[pattern.here] += gained


def _read_nothing(time: int, messages: np.ndarray, scale: np.ndarray) -> None:
    """Where only the last messages count."""


class _Kept:
    """The messages along one side of the split, kept or checkpointed."""

    def __init__(
        self, times: list[int], all_bytes: int, memory_bytes: float, keep: bool, buffers: Buffers, clock: Clock
    ):
        self.times, self._buffers, self._clock = times, buffers, clock
        steps = len(times)
        self.every = 1 if (1 + 6 / max(1, steps)) * all_bytes <= memory_bytes else max(2, round(steps**0.5))
        self.keep = keep
        self._messages: dict[int, np.ndarray] = {}
        self._scales: list[np.ndarray] = []

    def run(
        self, messages: np.ndarray, scale_of: Callable, step: Callable, read: Callable = _read_nothing
    ) -> tuple[np.ndarray, np.ndarray]:
        """All steps; the last messages (their own scale still in them) and the sum of the logarithms of the scales.

        `read` is given the messages of each time but the last, and their scale.
        """
        scale = scale_of(messages, axis=0)
        logs = natural_log(scale)
        for position, time in enumerate(self.times):
            self._clock.check()
            read(time, messages, scale)
            before, messages = messages, step(time, messages, scale)
            self._scales.append(scale)
            if self.keep and position % self.every == 0:
                self._messages[position] = before
            else:
                self._buffers.give(before)
            scale = scale_of(messages, axis=0)
            logs = logs + natural_log(scale)
        return messages, logs

    def back(self, slope: np.ndarray, step: Callable, pull: Callable, read: Callable = _read_nothing) -> None:
        """All steps backwards, from the gradient in the last messages; `read` finds what to add at each time before."""
        for begin in range((len(self.times) - 1) // self.every * self.every, -1, -self.every):
            end = min(begin + self.every, len(self.times))
            for position in range(begin + 1, end):
                self._clock.check()
                before = position - 1
                self._messages[position] = step(self.times[before], self._messages[before], self._scales[before])
            for position in range(end - 1, begin - 1, -1):
                self._clock.check()
                messages, time, scale = self._messages.pop(position), self.times[position], self._scales[position]
                added = read(time, messages, scale)  # before the messages are written over
                later, slope = slope, pull(time, messages, scale, slope)
                if added is not None:
                    slope += added
                self._buffers.give(later, None if slope is messages else messages)
        self._buffers.give(slope)


def _over(columns: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Divide columns by their scale in place, and return the scale."""
    columns *= inverse(scale)
    return scale
