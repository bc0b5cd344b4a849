"""Messages of many sequences over a large sparse model: columns of one array, products by rows of a CSR matrix.

The same pass as `sequences.SequencePass`, laid out for models whose transitions do not fit a dense matrix. A message
array is `(N, n)`, so that a transition moves whole rows of n numbers, and a product costs what its non-zeros cost. The
scale of each column is folded into the next emission, which saves a pass over the array, in both directions:

- forward `X_{t+1} = F_t · (K_tᵀ X_t)` with `F_t = B(·, o_{t+1}) / s_t` and `s_t` the column sums of `X_t`; `Π s_t = P(y)`;
- adjoint `Ĝ_t = K_t (F_t · Ĝ_{t+1})` with gradient `X_t ⊗ (F_t · Ĝ_{t+1})` in `K_t`: the same F serves.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log, posteriors
from .chain import Chain, Slopes
from .kernel import SparseKernel
from .sequences import Posteriors, inverse
from .threads import one_blas_thread

_LANE = 64  # sequences that travel together
_STRETCH = 2**21  # numbers of a product made at a time


class ColumnPass:
    """Posteriors of the secret along given event sequences over a sparse model, and the gradient of a function of them.

    The interface is that of `SequencePass`. Lanes of up to 64 sequences are worked on by as many threads as there are cores.
    Where the messages of a lane do not fit its share of the memory, every k-th is kept and the rest computed again.
    `clock` is checked at each step of each lane.
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
    ):
        assert isinstance(chain.hidden.kernel, SparseKernel)
        self.slopes = Slopes(chain) if gradient else None
        self.label = chain.hidden.label
        turned = _Turned(chain)
        lanes = np.array_split(events, -(-len(events) // _LANE))  # equal lanes, so that no thread waits for another
        self._ends = np.cumsum([len(lane) for lane in lanes])[:-1]
        self._workers = min(len(lanes), os.cpu_count() or 1)
        # With a gradient the messages of all lanes are kept at once, each lane's in proportion to its sequences.
        share = memory_bytes / len(events) if gradient else memory_bytes / (self._workers * len(lanes[0]))
        self._lanes = self._each(lambda lane: _Lane(chain, turned, lane, self.slopes, share * len(lane), clock), lanes)
        self.result = Posteriors(
            log_likelihood=np.concatenate([lane.log_likelihood for lane in self._lanes]),
            posterior=np.concatenate([lane.posterior for lane in self._lanes]),
            count=np.ones(len(events)),
            index=np.arange(len(events)),
        )

    @one_blas_thread
    def pull_back(self, slope: Float[np.ndarray, "k Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(y) · ∂/∂P(z,y)` of each sequence."""
        assert self.slopes is not None
        parts = np.split(slope, self._ends)
        self._each(lambda pair: pair[0].pull_back(pair[1]), list(zip(self._lanes, parts, strict=True)))
        return self.slopes.table()

    def _each(self, work: Callable, items: list) -> list:
        if self._workers == 1:
            return [work(item) for item in items]
        pool = ThreadPoolExecutor(self._workers)
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(cancel_futures=True)  # after an error the lanes that wait are not started


class _Turned:
    """The transposed transitions of each channel; made once for a stationary policy."""

    def __init__(self, chain: Chain):
        self._chain = chain
        self._made: tuple[sp.csr_array, ...] | None = None
        if chain.stationary and chain.hidden.horizon:
            self._made = self._make(0)

    def __call__(self, time: int) -> tuple[sp.csr_array, ...]:
        return self._make(time) if self._made is None else self._made

    def _make(self, time: int) -> tuple[sp.csr_array, ...]:
        kernel = self._chain.hidden.kernel
        assert isinstance(kernel, SparseKernel)
        return tuple(kernel.transposed(sp.csr_array(matrix)) for matrix in self._chain.matrices(time))


class _Lane:
    """Up to 64 sequences, forward to the split and backward to it."""

    def __init__(
        self,
        chain: Chain,
        turned: _Turned,
        events: np.ndarray,
        slopes: Slopes | None,
        memory_bytes: float,
        clock: Clock,
    ):
        self.chain, self.turned, self.events, self.slopes = chain, turned, events, slopes
        self._buffers: list[np.ndarray] = []
        split, horizon = chain.hidden.split_time, chain.hidden.horizon
        size = 8 * chain.hidden.num_states * len(events)
        self._forward = _Kept(list(range(split)), size, memory_bytes, slopes is not None, clock)
        times = list(range(horizon - 1, split - 1, -1))
        self._backward = _Kept(times, size, memory_bytes, slopes is not None, clock)
        start = chain.hidden.first_columns.take(events[:, 0], np.empty((chain.hidden.num_states, len(events))))
        self._alpha, logs = self._forward.run(start, np.add.reduce, self._ahead)
        self._alpha_scale = _over(self._alpha, self._alpha.sum(axis=0))
        self._beta: np.ndarray | None = None  # all ones, where nothing comes after the split
        both = self._alpha
        if self._backward.times:
            self._beta, more = self._backward.run(np.ones_like(start), np.maximum.reduce, self._back)
            self._beta_scale = _over(self._beta, self._beta.max(axis=0))
            logs, both = logs + more, self._alpha * self._beta
        joint = both.T @ chain.hidden.label
        self._total = joint.sum(axis=1)
        self.log_likelihood = logs + natural_log(self._total)
        self.posterior = posteriors(joint)

    def pull_back(self, slope: np.ndarray) -> None:
        spread = self.chain.hidden.label @ (slope * inverse(self._total)[:, None]).T
        if self._forward.times:
            first = spread if self._beta is None else spread * self._beta  # without beta there is no other side
            first *= inverse(self._alpha_scale)
            self._forward.back(first, np.add.reduce, self._ahead, self._pull_ahead)
        if self._backward.times:
            spread *= self._alpha
            spread *= inverse(self._beta_scale)
            self._backward.back(spread, np.maximum.reduce, self._back, self._pull_back)

    def _emissions(self, time: int, scale: np.ndarray, *, reuse: bool = False) -> list[np.ndarray]:
        """`F = B_c(·, o_{t+1}) / scale` for each channel, `(N, n)`; with `reuse` in arrays that the next call overwrites.

        Fresh arrays of this size come as untouched pages, and touching them first costs as much as the arithmetic.
        """
        events = self.events[:, time + 1]
        weight = inverse(scale)
        channels = self.chain.hidden.channels
        found = self._buffers if reuse else []
        if not found:
            found.extend(np.empty((self.chain.hidden.num_states, len(events))) for _ in channels)
        for channel, emission in zip(channels, found, strict=True):
            channel.columns.take(events, out=emission)
            emission *= weight
        return found

    def _ahead(self, time: int, messages: np.ndarray, scale: np.ndarray) -> np.ndarray:
        result: np.ndarray | None = None
        for matrix, emission in zip(self.turned(time), self._emissions(time, scale), strict=True):
            for rows, part in _stretches(matrix, messages):
                emission[rows] *= part @ messages
            result = emission if result is None else np.add(result, emission, out=result)
        assert result is not None
        return result

    def _pull_ahead(self, time: int, messages: np.ndarray, scale: np.ndarray, slope: np.ndarray) -> np.ndarray:
        kernel, slopes = self.chain.hidden.kernel, self.slopes
        assert isinstance(kernel, SparseKernel)
        assert slopes is not None
        inside = self._emissions(time, scale, reuse=True)
        for number, emission in enumerate(inside):
            emission *= slope
            slopes.add_outer(time, number, kernel.outer_columns(messages, emission))
        return self._through(time, inside, into=slope)

    def _back(self, time: int, messages: np.ndarray, scale: np.ndarray) -> np.ndarray:
        inside = self._emissions(time, scale, reuse=True)
        for emission in inside:
            emission *= messages
        return self._through(time, inside, into=np.empty_like(messages))

    def _through(self, time: int, inside: list[np.ndarray], into: np.ndarray) -> np.ndarray:
        """`Σ_c K_c inside_c`, written over `into`."""
        for number, (matrix, columns) in enumerate(zip(self.chain.matrices(time), inside, strict=True)):
            assert isinstance(matrix, sp.csr_array)
            for rows, part in _stretches(matrix, columns):
                if number:
                    into[rows] += part @ columns
                else:
                    into[rows] = part @ columns
        return into

    def _pull_back(self, time: int, messages: np.ndarray, scale: np.ndarray, slope: np.ndarray) -> np.ndarray:
        kernel, slopes = self.chain.hidden.kernel, self.slopes
        assert isinstance(kernel, SparseKernel)
        assert slopes is not None
        result = np.zeros_like(slope)
        factors = self._emissions(time, scale, reuse=True)
        for number, (matrix, emission) in enumerate(zip(self.turned(time), factors, strict=True)):
            for rows, part in _stretches(matrix, slope):
                result[rows] += emission[rows] * (part @ slope)
            emission *= messages
            slopes.add_outer(time, number, kernel.outer_columns(slope, emission))
        return result


def _stretches(matrix: sp.csr_array, columns: np.ndarray) -> Iterator[tuple[slice, sp.csr_array]]:
    """The matrix some rows at a time, so that what is made of them is still in the cache when it is used."""
    step = max(1, _STRETCH // columns.shape[1])
    if step >= len(columns):
        yield slice(None), matrix
        return
    for begin in range(0, len(columns), step):
        rows = slice(begin, min(begin + step, len(columns)))
        yield rows, matrix[rows]


class _Kept:
    """The messages along one side of the split, kept or checkpointed."""

    def __init__(self, times: list[int], size: int, memory_bytes: float, keep: bool, clock: Clock):
        self.times, self._clock = times, clock
        steps = len(times)
        self.every = 1 if (steps + 6) * size <= memory_bytes else max(2, round(steps**0.5))
        self.keep = keep
        self._messages: dict[int, np.ndarray] = {}

    def run(self, messages: np.ndarray, scale_of: Callable, step: Callable) -> tuple[np.ndarray, np.ndarray]:
        """All steps; the last messages (their own scale still in them) and the sum of the logarithms of the scales."""
        scale = scale_of(messages, axis=0)
        logs = natural_log(scale)
        for position, time in enumerate(self.times):
            self._clock.check()
            if self.keep and position % self.every == 0:
                self._messages[position] = messages
            messages = step(time, messages, scale)
            scale = scale_of(messages, axis=0)
            logs = logs + natural_log(scale)
        return messages, logs

    def back(self, slope: np.ndarray, scale_of: Callable, step: Callable, pull: Callable) -> None:
        """All steps backwards, from the gradient in the last messages."""
        for begin in range((len(self.times) - 1) // self.every * self.every, -1, -self.every):
            end = min(begin + self.every, len(self.times))
            for position in range(begin + 1, end):
                self._clock.check()
                before = self._messages[position - 1]
                self._messages[position] = step(self.times[position - 1], before, scale_of(before, axis=0))
            for position in range(end - 1, begin - 1, -1):
                self._clock.check()
                messages = self._messages.pop(position)
                slope = pull(self.times[position], messages, scale_of(messages, axis=0), slope)


def _over(columns: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Divide columns by their scale in place, and return the scale."""
    columns *= inverse(scale)
    return scale
