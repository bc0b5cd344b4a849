"""Opacity estimated from sampled observation sequences, with its standard error and an unbiased gradient."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..common.checks import Defects, is_number
from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import TooLargeError
from ..common.logs import entropy_bits, log2_of_count, log2_or_zero
from ..common.workers import Workers, team_of
from ..engine.chain import Chain
from ..engine.columns import ColumnPass
from ..engine.device import DevicePass, device_memory, on_accelerator
from ..engine.joint import DEFAULT_MEMORY
from ..engine.sampling import draw_events
from ..engine.sequences import SequencePass
from .result import Opacity

_CHUNK = 4096  # sequences at a time; memory stays bounded whatever their number
_MOST = 10_000_000
_LEAST = 200
_ENOUGH_LANES = 128
_TIMELY_CHUNKS = 20  # in which the time is divided where it is short
# Seconds a step, sequence and transition: value, value with gradient. Measured on one core, rounded up.
_SPARSE_RATES, _DENSE_RATES = (2e-9, 1e-8), (3e-10, 1.2e-9)


def check_settings(sequences: int | None, std_error: float | None, seed: int) -> None:
    """Raise `InputError` unless the settings of a sampled estimate make sense."""
    defects = Defects("sampled opacity")
    if sequences is not None and (not isinstance(sequences, (int, np.integer)) or sequences < 2):
        defects.add(f"sequences is {sequences!r}, expected a whole number, 2 or more")
    if std_error is not None and not (is_number(std_error) and std_error > 0):
        defects.add(f"std_error is {std_error!r}, expected bits above 0, or None")
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    defects.raise_if_any()


def sequence_pass(
    chain: Chain,
    events: Int[np.ndarray, "k T+1"],
    *,
    gradient: bool,
    memory_bytes: int,
    pad_to: int = 0,
    clock: Clock = UNLIMITED,
) -> SequencePass | ColumnPass | DevicePass:
    """Posteriors along sequences by the pass that suits chain and machine.

    On an accelerator, where there is one; else shared prefixes for a dense chain, and columns for a sparse one.
    """
    if on_accelerator(chain):
        return DevicePass(chain, events, pad_to=pad_to)
    if chain.hidden.kernel.is_sparse:
        return ColumnPass(chain, events, gradient=gradient, memory_bytes=memory_bytes, clock=clock)
    return SequencePass(chain, events, gradient=gradient, memory_bytes=memory_bytes, clock=clock)


def sampled_opacity(
    chain: Chain,
    *,
    sequences: int = 2000,
    std_error: float | None = None,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    reason: str = "",
    clock: Clock = UNLIMITED,
    workers: Workers = 1,
) -> Opacity:
    """The mean of `h(y) = H(Z|Y=y)` over sampled y (the paper's estimator of the value), unbiased.

    **Arguments:** `sequences`: how many to draw; with `std_error`, draws more, in chunks, until the standard error is at
    most that (or ten million are drawn). The estimate's `lower` and `upper` are the trivial bounds 0 and `H(Z)`: a
    sample proves nothing. `workers`: see `Team`; every chunk has its own stream of random numbers, so the estimate does not
    depend on it. `clock`: where the time does not suffice, the estimate is that of the sequences so far, and the
    reason says so.

    Cost: `O(T · sequences · nnz(P))`; memory does not grow with the number of sequences.

    **Raises:** `TooLargeError` where not even a first chunk of sequences fits the time.
    """
    sizes = timely_sizes(chain, sequences, memory_bytes, clock, gradient=False)
    chunks, tally = chunks_of(sizes, sequences, seed, memory_bytes), Tally()
    try:
        with team_of(workers) as team:
            for found in team.shares(_chunk_value, chain, chunks, clock):
                tally.add(found)
                if tally.count >= sequences and tally.is_enough(std_error):
                    break
    except OutOfTime:
        reason = late(tally, f"a standard error of {std_error:g}" if std_error else f"{sequences:,}", reason)
    return _result(chain.prior, tally, reason)


def sampled_gradient(
    chain: Chain,
    *,
    sequences: int = 2000,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    reason: str = "",
    clock: Clock = UNLIMITED,
    partial: bool = False,
    workers: Workers = 1,
) -> tuple[Opacity, Float[np.ndarray, "T C A"]]:
    """The sampled opacity and an unbiased estimate of its slope in the policy's table.

    The slope is that of `(1/M) Σ_k [h(y_k) + stop(h(y_k) − b_k) · log P(y_k)]` with `b_k` the mean of `h` over the *other*
    sequences of its chunk: independent of `y_k`, so the estimate stays unbiased, and of lower variance as a rule.
    `clock` is checked at each step; where the time does not suffice it raises `OutOfTime`, or with `partial` the estimate
    is that of the chunks so far, as for `sampled_opacity`.
    """
    sizes = timely_sizes(chain, sequences, memory_bytes, clock if partial else UNLIMITED, gradient=True)
    chunks = itertools.islice(chunks_of(sizes, sequences, seed, memory_bytes), len(sizes))
    slope, tally = np.zeros(chain.table.shape), Tally()
    try:
        with team_of(workers) as team:
            for found, part in team.shares(_chunk_slope, chain, chunks, clock):
                slope += part
                tally.add(found)
    except OutOfTime:
        if not partial:
            raise
        reason = late(tally, f"{sequences:,}", reason)
        slope *= sequences / tally.count
    return _result(chain.prior, tally, reason), slope


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

    def run(
        self, chain: Chain, clock: Clock, *, gradient: bool
    ) -> tuple[SequencePass | ColumnPass | DevicePass, "Tally", np.ndarray]:
        """The pass along its sequences, their sums and `h(y)` of each distinct one."""
        events = draw_events(chain, self.size, self.generator(), clock)
        clock.check()
        run = sequence_pass(
            chain, events, gradient=gradient, memory_bytes=self.memory_bytes, pad_to=self.pad_to, clock=clock
        )
        bits = entropy_bits(run.result.posterior)
        return run, Tally.of(run.result.count, bits), bits


def chunks_of(sizes: list[int], sequences: int, seed: int, memory_bytes: int) -> Iterator[Chunk]:
    """Chunks of these sizes, each with a stream of random numbers of its own, and then more of the first size, endlessly."""
    endless, most = itertools.chain(sizes, itertools.repeat(sizes[0])), max(sizes)
    return (Chunk(size, (seed, index), memory_bytes, most, sequences) for index, size in enumerate(endless))


def _chunk_value(chain: Chain, chunk: Chunk, clock: Clock) -> "Tally":
    return chunk.run(chain, clock, gradient=False)[1]


def _chunk_slope(chain: Chain, chunk: Chunk, clock: Clock) -> "tuple[Tally, np.ndarray]":
    """The sums of a chunk, and its part of the slope."""
    run, tally, bits = chunk.run(chain, clock, gradient=True)
    result = run.result
    baseline = (float(result.count @ bits) - bits) / (chunk.size - 1)
    # P(y) ∂/∂P(z,y) of h(y) is -log2 P(z|y) − h(y), and of stop(h − b) log P(y) it is h(y) − b: h cancels.
    advantage = -log2_or_zero(result.posterior) - baseline[:, None]
    weight = result.count[:, None] / chunk.of
    return tally, run.pull_back(np.where(result.posterior > 0, weight * advantage, 0.0))


def opacity_of_posteriors(
    prior: Float[np.ndarray, " Z"], posterior: Float[np.ndarray, "k Z"], reason: str = ""
) -> Opacity:
    """The estimate from `P(z)` and the posteriors `P(z|y)` of independent sequences of a chain."""
    return _result(prior, Tally.of(np.ones(len(posterior)), entropy_bits(posterior)), reason)


def late(tally: "Tally", wanted: str, reason: str) -> str:
    """The reason of an estimate that the time limit cut short; raises `TooLargeError` where there is none."""
    if tally.count < 2:
        raise TooLargeError(
            "the time limit ended before the first sequences were evaluated: raise time_limit, or shorten the horizon"
        ) from None
    cut = f"{tally.count:,} sequences instead of {wanted}: the time limit allowed no more"
    return f"{reason}; {cut}" if reason else cut


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
        """Its standard error."""
        return float(np.sqrt(max(0.0, self.squares / self.count - self.mean**2) / (self.count - 1)))

    def result(self, prior: float, most: float, reason: str) -> Opacity:
        """The estimate; proven are only 0 and `most`, from `prior`, the entropy of the secret."""
        return Opacity(
            bits=self.mean,
            lower=0.0,
            upper=most,
            prior_bits=prior,
            method="sampled",
            num_sequences=self.count,
            std_error=self.std_error,
            reason=reason,
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
    return rate * chain.hidden.horizon * len(chain.hidden.emitters) * kernel.num_entries


def chunk_sizes(chain: Chain, sequences: int, memory_bytes: int, most: int = _CHUNK) -> list[int]:
    """How many sequences to work on at a time: chunks as equal as can be, none of them a single sequence.

    A single sequence would have no others to take a baseline from; equal chunks need one compiled shape.
    """
    hidden = chain.hidden
    memory = device_memory() if on_accelerator(chain) else memory_bytes
    room = memory // (8 * hidden.num_states * (hidden.horizon + 8))
    if room < _ENOUGH_LANES:  # keep checkpoints in time instead of every message
        room = memory // int(8 * hidden.num_states * (2 * hidden.horizon**0.5 + 8))
    most = max(2, min(most, int(room)))
    chunks = max(1, min(-(-sequences // most), sequences // 2))
    size, larger = divmod(sequences, chunks)
    return [size + 1] * larger + [size] * (chunks - larger)


def _result(distribution: Float[np.ndarray, " Z"], tally: Tally, reason: str) -> Opacity:
    prior = float(entropy_bits(distribution))
    most = min(prior, log2_of_count(len(distribution)))
    return tally.result(prior, most, reason or f"{tally.count:,} sampled sequences")
