"""Opacity estimated from sampled observation sequences, with its standard error and an unbiased gradient."""

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import TooLargeError
from ..common.logs import entropy_bits
from ..common.workers import Workers, team_of
from ..engine.chain import Chain
from ..engine.columns import ColumnPass
from ..engine.device import DevicePass, device_memory, on_accelerator
from ..engine.joint import DEFAULT_MEMORY
from ..engine.sampling import draw_events
from ..engine.sequences import SequencePass
from ..engine.strings import StringPass
from .result import Opacity

if TYPE_CHECKING:
    from .question import Question

Pass = SequencePass | StringPass | ColumnPass | DevicePass
_CHUNK = 4096  # sequences at a time; memory stays bounded whatever their number
_MOST = 10_000_000
_LEAST = 200
_ENOUGH_LANES = 128
_TIMELY_CHUNKS = 20  # in which the time is divided where it is short
# Seconds a step, sequence and transition: value, value with gradient. Measured on one core, rounded up.
_SPARSE_RATES, _DENSE_RATES = (2e-9, 1e-8), (3e-10, 1.2e-9)


def sequence_pass(
    chain: Chain,
    events: Int[np.ndarray, "k T+1"],
    *,
    gradient: bool,
    memory_bytes: int,
    pad_to: int = 0,
    clock: Clock = UNLIMITED,
) -> Pass:
    """Posteriors along sequences by the pass that suits chain and machine.

    For an observer without a clock along the strings that are written from the sequences. Else on an accelerator, if there is
    one; else shared prefixes for a dense chain, and columns for a sparse one.
    """
    if chain.written is not None:
        return StringPass(chain, events, gradient=gradient, memory_bytes=memory_bytes, clock=clock)
    if on_accelerator(chain):
        return DevicePass(chain, events, pad_to=pad_to)
    if chain.hidden.kernel.is_sparse:
        return ColumnPass(chain, events, gradient=gradient, memory_bytes=memory_bytes, clock=clock)
    return SequencePass(chain, events, gradient=gradient, memory_bytes=memory_bytes, clock=clock)


def sample(
    question: "Question",
    *,
    sequences: int = 2000,
    std_error: float | None = None,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    clock: Clock = UNLIMITED,
    workers: Workers = 1,
    gradient: bool = False,
    partial: bool = True,
) -> "tuple[Tally, Float[np.ndarray, 'T C A'] | None, str]":
    """The mean of a function of drawn sequences, unbiased, and an unbiased estimate of its gradient in the policy's table.

    **Arguments:** `sequences`: how many to draw; with `std_error`, draws more, in chunks, until the standard error is at
    most that (or ten million are drawn). `workers`: see `Team`; every chunk has its own stream of random numbers, so the
    estimate does not depend on it. `clock`: if the time does not suffice, the estimate is that of the sequences so far, and
    the third of what is returned says so; without `partial`, `OutOfTime` is raised.

    Cost: `O(T · sequences · nnz(P))`; memory does not grow with the number of sequences.

    **Raises:** `TooLargeError` if not even a first chunk of sequences fits the time.
    """
    sizes = timely_sizes(
        question.drawn_chain, sequences, memory_bytes, clock if partial else UNLIMITED, gradient=gradient
    )
    chunks, tally, why = chunks_of(sizes, sequences, seed, memory_bytes), Tally(), ""
    slope = np.zeros(question.chain.table.shape) if gradient else None
    try:
        with team_of(workers) as team:
            work = functools.partial(type(question).draw, gradient=gradient)
            for found, part in team.shares(work, question, chunks, clock):
                tally.add(found)
                if slope is not None and part is not None:
                    slope += part
                if tally.count >= sequences and tally.is_enough(std_error):
                    break
    except OutOfTime:
        if not partial:
            raise
        why = late(tally, f"a standard error of {std_error:g}" if std_error else f"{sequences:,}")
    if slope is not None and tally.count != sequences:
        slope *= sequences / tally.count
    return tally, slope, why


@dataclass(frozen=True)
class Chunk:
    """A share of a sample: how many sequences `of` all, from which stream of random numbers, with what memory and shape."""

    size: int
    stream: tuple[int, int]
    memory_bytes: int
    pad_to: int
    of: int

    def generator(self) -> np.random.Generator:
        """Its random numbers."""
        seed, index = self.stream
        return np.random.default_rng([seed, index] if index else seed)

    def events(self, chain: Chain, clock: Clock) -> Int[np.ndarray, "size T+1"]:
        """Its sequences."""
        found = draw_events(chain, self.size, self.generator(), clock)
        clock.check()
        return found

    def run(self, chain: Chain, events: Int[np.ndarray, "size T+1"], clock: Clock, *, gradient: bool) -> "Pass":
        """The pass along its sequences."""
        return sequence_pass(
            chain, events, gradient=gradient, memory_bytes=self.memory_bytes, pad_to=self.pad_to, clock=clock
        )

    def estimate(
        self,
        run: "Pass",
        bits: Float[np.ndarray, "k *R"],
        slope: Float[np.ndarray, "k *R Z"] | None,
        weights: Float[np.ndarray, " R"] | None = None,
    ) -> "tuple[Tally, Float[np.ndarray, 'T C A'] | None]":
        """The sums of `bits` of each distinct sequence, and the gradient of their mean if `slope` is given.

        `slope`: the gradient in `P(z,y)` of what is summed over all sequences, `Σ_y P(y) bits(y)`. Subtracting from it the
        mean of the other sequences of the chunk changes no expectation, and lowers the variance as a rule. `weights`: of the
        times, if the secret has a value at every time.
        """
        result = run.result
        tally = Tally.of(result.count, bits if weights is None else bits @ weights)
        if slope is None:
            return tally, None
        baseline = (result.count @ bits - bits) / (self.size - 1)
        cotangent = slope - baseline[..., None]
        cotangent *= result.count.reshape(-1, *(1,) * bits.ndim) / self.of
        if weights is not None:
            cotangent *= weights[:, None]
        return tally, run.pull_back(np.where(result.posterior > 0, cotangent, 0.0))


def chunks_of(sizes: list[int], sequences: int, seed: int, memory_bytes: int) -> Iterator[Chunk]:
    """Chunks of these sizes, each with a stream of random numbers of its own, and then more of the first size, endlessly."""
    endless, most = itertools.chain(sizes, itertools.repeat(sizes[0])), max(sizes)
    return (Chunk(size, (seed, index), memory_bytes, most, sequences) for index, size in enumerate(endless))


def opacity_of_posteriors(
    prior: Float[np.ndarray, " Z"], posterior: Float[np.ndarray, "k Z"], reason: str = ""
) -> Opacity:
    """The estimate from `P(z)` and the posteriors `P(z|y)` of independent sequences of a chain."""
    return Tally.of(np.ones(len(posterior)), entropy_bits(posterior)).result(float(entropy_bits(prior)), reason)


def late(tally: "Tally", wanted: str) -> str:
    """What to say of an estimate that the time limit cut short; raises `TooLargeError` if there is none."""
    if tally.count < 2:
        raise TooLargeError(
            "the time limit ended before the first sequences were evaluated: raise time_limit, or shorten the horizon"
        ) from None
    return f"{tally.count:,} sequences instead of {wanted}: the time limit allowed no more"


@dataclass
class Tally:
    """Running sums of `h(y)`."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, count: np.ndarray, bits: np.ndarray) -> "Tally":
        """The sums of `bits`, each `count` times."""
        return cls(int(count.sum()), float(count @ bits), float(count @ bits**2))

    def add(self, other: "Tally") -> None:
        """Take in the sums of further sequences."""
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    @property
    def mean(self) -> float:
        """The estimate."""
        return self.total / self.count

    @property
    def std_error(self) -> float:
        """Its standard error; 0 if it is infinite."""
        if not np.isfinite(self.total):
            return 0.0
        return float(np.sqrt(max(0.0, self.squares / self.count - self.mean**2) / (self.count - 1)))

    def result(self, prior: float, reason: str = "") -> Opacity:
        """The estimate; a sample proves nothing, so that the bounds are 0 and `prior`, the entropy of the secret."""
        return Opacity(
            bits=self.mean,
            lower=0.0,
            upper=prior,
            prior_bits=prior,
            method="sampled",
            num_sequences=self.count,
            std_error=self.std_error,
            reason=reason or f"{self.count:,} sampled sequences",
        )

    def is_enough(self, std_error: float | None) -> bool:
        """Whether a target is reached, or as much as can be drawn."""
        # A few sequences that happen to be alike have no spread: they do not reach any target.
        reached = std_error is None or (self.std_error <= std_error and self.count >= _LEAST)
        return reached or self.count >= _MOST


def timely_sizes(chain: Chain, sequences: int, memory_bytes: int, clock: Clock, *, gradient: bool) -> list[int]:
    """`chunk_sizes`; smaller ones where all sequences are forecast to take most of the time, so that some get done."""
    each = sequence_seconds(chain, gradient=gradient)
    enough = sequences * each <= clock.left / 2
    most = _CHUNK if enough else max(2, min(_CHUNK, int(clock.left / each / _TIMELY_CHUNKS)))
    return chunk_sizes(chain, sequences, memory_bytes, most)


def sequence_seconds(chain: Chain, *, gradient: bool) -> float:
    """A rough forecast of what one sequence takes on one ordinary core."""
    kernel = chain.hidden.kernel
    rate = (_SPARSE_RATES if kernel.is_sparse else _DENSE_RATES)[gradient]
    rows = 1 if chain.written is None else chain.hidden.horizon + 1  # a message for each prefix of a string
    return rate * rows * chain.hidden.horizon * len(chain.hidden.emitters) * kernel.num_entries


def chunk_sizes(chain: Chain, sequences: int, memory_bytes: int, most: int = _CHUNK) -> list[int]:
    """How many sequences to work on at a time: chunks as equal as can be, none of them a single sequence.

    A single sequence would have no others to take a baseline from; equal chunks need one compiled shape.
    """
    hidden = chain.hidden
    memory = device_memory() if on_accelerator(chain) else memory_bytes
    if chain.written is not None:
        memory = memory_bytes // (hidden.horizon + 1)  # a message for each prefix of a string
    room = memory // (8 * hidden.num_states * (hidden.horizon + 8))
    if room < _ENOUGH_LANES:  # keep checkpoints in time instead of every message
        room = memory // int(8 * hidden.num_states * (2 * hidden.horizon**0.5 + 8))
    most = max(2, min(most, int(room)))
    chunks = max(1, min(-(-sequences // most), sequences // 2))
    size, larger = divmod(sequences, chunks)
    return [size + 1] * larger + [size] * (chunks - larger)
