"""How uncertain the path of hidden states is after given event sequences: a sum of a term for each step, and its gradient.

With `A_t(x)` the sum of `P(path, y_0 … y_t)` over the paths that end in x, and `L_t(x)` that of `P log P`, a step with the
transitions `W = Σ_c K_c diag(B_c(·,y_{t+1}))` is `A ← A W`, `L ← L W + A (W log W)`, since the logarithm of the probability of
a path is a sum over its steps. In the end `H(path | y) = log P(y) − Σ_x L_T(x) / P(y)`. Both are divided by the same scale at
each step.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import log2_or_zero
from .chain import Chain, Slopes, sum_over
from .threads import one_blas_thread

Pair = tuple[np.ndarray, np.ndarray]


class PathPass:
    """`H(x_0 … x_T | y)` in bits of each distinct sequence, `bits`; `count[i]` of the given ones are sequence i.

    **Arguments:** `events`, `(k, T+1)`, of a chain with dense transitions whose observer has a clock, each possible.

    Cost: for each distinct sequence and step three products with the transitions, five with the gradient.
    """

    @one_blas_thread
    def __init__(self, chain: Chain, events: Int[np.ndarray, "k T+1"], *, gradient: bool, clock: Clock = UNLIMITED):
        self.chain, self._clock = chain, clock
        self._events, count = np.unique(events, axis=0, return_counts=True)
        self.count: Float[np.ndarray, " n"] = count.astype(float)
        first = chain.hidden.root[:, self._events[:, 0]].T
        self._logs = np.zeros(len(first))
        found, self._kept = self._scaled(first, first * log2_or_zero(first), self._logs), list[Pair]()
        for time in range(chain.hidden.horizon):
            if gradient:
                self._kept.append(found)
            found = self._scaled(*self._step(found, time), self._logs)
        self.bits: Float[np.ndarray, " n"] = self._logs - found[1].sum(axis=1)

    def _scaled(self, mass: np.ndarray, logs: np.ndarray, total: np.ndarray) -> Pair:
        """Messages that sum to one, and their companions divided alike; the logarithms of the scales are added to `total`."""
        scale = mass.sum(axis=1)
        total += log2_or_zero(scale)
        return mass / scale[:, None], logs / scale[:, None]

    def _groups(self, time: int) -> Iterator[tuple[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray]]:
        """For each event after a time: its sequences, its emission in each emitter, the transitions W and their logarithms."""
        hidden, matrices = self.chain.hidden, self.chain.matrices(time)
        event = self._events[:, time + 1]
        for one in np.unique(event):
            self._clock.check()
            emitted = [emitter.emission[:, one] for emitter in hidden.emitters]
            weight = sum_over(matrix * emission for matrix, emission in zip(matrices, emitted, strict=True))
            yield np.flatnonzero(event == one), emitted, weight, log2_or_zero(weight)

    def _step(self, found: Pair, time: int) -> Pair:
        """One step on, before scaling."""
        mass, logs = np.empty_like(found[0]), np.empty_like(found[1])
        for rows, _, weight, log_weight in self._groups(time):
            mass[rows] = found[0][rows] @ weight
            logs[rows] = found[1][rows] @ weight + found[0][rows] @ (weight * log_weight)
        return mass, logs

    @one_blas_thread
    def pull_back(
        self, weight: Float[np.ndarray, " n"], baseline: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, "T C A"]:
        """`Σ_i weight_i E[(−log2 P(path|y_i) − baseline_i) ∇ log P(path, y_i) | y_i]`, in the policy's table.

        With the number of sequence i as its weight, that is an unbiased estimate of the gradient of `H(path | Y)`.
        """
        chain, slopes = self.chain, Slopes(self.chain)
        shape = (len(self.bits), chain.hidden.num_states)
        after: Pair = np.ones(shape), np.zeros(shape)
        for time in range(chain.hidden.horizon - 1, -1, -1):
            before: Pair = np.empty(shape), np.empty(shape)
            for rows, emitted, weighted, log_weight in self._groups(time):
                mass, logs = (part[rows] for part in self._kept[time])
                ahead, ahead_logs = after[0][rows], after[1][rows]
                before[0][rows] = ahead @ weighted.T
                before[1][rows] = ahead_logs @ weighted.T + ahead @ (weighted * log_weight).T
                # The mass is over P(y), in the scales of both sides.
                share = (weight[rows] / (mass * before[0][rows]).sum(axis=1))[:, None]
                surprise = (self._logs - baseline)[rows, None]
                for number, emission in enumerate(emitted):
                    seen, seen_logs = share * ahead * emission, share * ahead_logs * emission
                    found = mass.T @ (surprise * seen - seen_logs) - logs.T @ seen - (mass.T @ seen) * log_weight
                    slopes.add_outer(time, number, found)
            scale = before[0].sum(axis=1, keepdims=True)
            after = before[0] / scale, before[1] / scale
        return slopes.table()
