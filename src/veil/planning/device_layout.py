"""What a search on an accelerator needs of its memory, planned before anything is sent there."""

import importlib.util
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..common.errors import InputError, TooLargeError
from ..engine.device import accelerator, device_memory, is_padded_short, num_processes
from ..engine.hidden import Hidden
from ..engine.kernel import SparseKernel
from ..problem.pairs import OWN
from .options import SolveOptions

if TYPE_CHECKING:
    from .policy_class import Space

COMPILE_SECONDS = 10.0
"""Forecast of all compilations of a search (measured: 7.5 s on an H200, 3.4 s on an idle CPU)."""

DEVICE_SECONDS = 2.5e-11
"""For each state, time and sequence of a step (measured on an H200: 2.2e-11 to 3e-11)."""

_CHUNKS = (2, 256)  # sequences of a chunk, at least and at most
_CHUNK_NUMBERS = 2**32  # of all messages of a chunk: about 60 ms of an H200's bandwidth; longer is no faster
_MOST_STARTS = 8  # side by side: by judgement
_SHARE_OF_MEMORY = 0.9  # the rest is left to the compiler: by judgement
_SINGLE, _DOUBLE = 4, 8  # bytes of a number
# Bytes for each number of a policy: five tables in float64 (safe, best, a candidate, and the mixture that is evaluated with its
# source) and ten arrays of a step in float32, and what each start adds: a table, parameters, two moments and their average.
_NUMBER_BYTES, _START_BYTES = 5 * _DOUBLE + 10 * _SINGLE, _DOUBLE + 4 * _SINGLE
_MESSAGES = 8  # of a chunk, beside those that are kept
_EXHAUSTED = "RESOURCE_EXHAUSTED"  # in the message of XLA where an allocation fails


@dataclass(frozen=True)
class Sizes:
    """What the memory depends on. `times`: tables of the policy, 1 or T; `neighbours`: of a state, N if dense."""

    states: int
    cells: int
    actions: int
    horizon: int
    times: int
    neighbours: int
    events: int
    values: int

    @staticmethod
    def of(hidden: Hidden, times: int) -> "Sizes":
        """Of a hidden chain and a class of policies."""
        kernel = hidden.kernel
        size = hidden.num_states
        near = -(-kernel.num_entries // size) if isinstance(kernel, SparseKernel) else size
        return Sizes(
            size, hidden.num_cells, kernel.num_actions, hidden.horizon, times, near,
            hidden.num_events * len(hidden.emitters), hidden.num_values,
        )  # fmt: skip

    @property
    def parameters(self) -> int:
        """Numbers of a policy."""
        return self.times * self.cells * self.actions


@dataclass(frozen=True)
class Layout:
    """How a search is laid out: `chunk` sequences at a time; `every`, as in `Span`; at most `starts` side by side."""

    chunk: int
    every: int
    starts: int
    planned_bytes: int


def planned_bytes(sizes: Sizes, starts: int, chunk: int, every: int) -> int:
    """Bytes on the device at the most: the fixed arrays in both precisions, tables, the states of all starts, messages."""
    fixed = (
        (_SINGLE + _DOUBLE) * sizes.states * (sizes.neighbours * (sizes.actions + 2) + sizes.events + 2 * sizes.values)
    )
    policies = sizes.parameters * (_NUMBER_BYTES + _START_BYTES * starts)
    kept = sizes.horizon if not every else -(-sizes.horizon // every) + every
    messages = _SINGLE * sizes.states * chunk * (kept + _MESSAGES)
    soft = _DOUBLE * sizes.states * (sizes.horizon + 3 * sizes.values)
    return fixed + policies + messages + soft


def make_layout(sizes: Sizes, memory_bytes: float) -> Layout | None:
    """The largest chunk, then the fewest checkpoints, then the most starts that fit; None where nothing does."""
    least, most = _CHUNKS
    sparser = max(2, math.isqrt(sizes.horizon))
    wanted = _CHUNK_NUMBERS // max(1, sizes.states * max(1, sizes.horizon))
    chunk = min(most, max(32, 2 ** max(1, int(wanted).bit_length() - 1)))
    while chunk >= least:
        for every in (0, sparser):
            for starts in (_MOST_STARTS >> halved for halved in range(_MOST_STARTS.bit_length())):
                needed = planned_bytes(sizes, starts, chunk, every)
                if needed <= memory_bytes:
                    return Layout(chunk, every, starts, needed)
        chunk //= 2
    return None


def chosen_layout(space: "Space", options: SolveOptions) -> Layout | None:
    """The layout of a search on fresh samples that runs on JAX's devices; None where NumPy serves.

    **Raises:** `InputError` where JAX was asked for and cannot be used.
    """
    if options.device == "cpu" or options.method != "ascent":
        return None
    asked = options.device == "jax"
    why = _unsuitable(space, options, asked=asked)
    if why:
        if asked:
            raise InputError("device", [f"'jax' {why}: use 'cpu'"])
        return None
    sizes = Sizes.of(space.hidden, space.shape[0])
    layout = make_layout(sizes, _SHARE_OF_MEMORY * 2 * device_memory())
    if layout is None and asked:
        needed = planned_bytes(sizes, 1, _CHUNKS[0], max(2, math.isqrt(sizes.horizon)))
        raise TooLargeError(
            f"the search needs {needed / 2**30:.1f} GiB on the device of JAX, which offers"
            f" {2 * device_memory() / 2**30:.1f} GiB: use device='cpu' or a smaller policy class"
        )
    if layout is not None and options.time_limit is not None and num_processes() > 1:
        words = "several processes of JAX have to take the same steps, not the same time: set iterations"
        raise InputError("solve", [f"{words} instead of time_limit"])
    return layout


@contextmanager
def memory_errors(space: "Space", options: SolveOptions) -> Iterator[None]:
    """Turn a failed allocation on the device into a `TooLargeError` that says what was planned and what to do."""
    try:
        yield
    except RuntimeError as error:  # of which jax.errors.JaxRuntimeError is one
        layout = chosen_layout(space, options) if _EXHAUSTED in str(error) else None
        if layout is None:
            raise
        raise TooLargeError(
            f"the device of JAX ran out of memory in chunks of {layout.chunk} sequences, for which"
            f" {layout.planned_bytes / 2**30:.2g} GiB were planned: end other programs that hold its memory, or use"
            " memory='markov', features=, or device='cpu'"
        ) from error


def _unsuitable(space: "Space", options: SolveOptions, *, asked: bool) -> str:
    """Why a search cannot or should not run on JAX's devices; empty where it can."""
    hidden = space.hidden
    if importlib.util.find_spec("jax") is None:
        return "needs JAX (pip install 'veil[gpu]')"
    if not asked and accelerator() is None:
        return "has no accelerator"
    if not asked and options.time_limit is not None and options.time_limit < 2 * COMPILE_SECONDS:
        return "takes longer to compile than the time that is left"
    more = options.min_opacity is not None or options.task is not None or options.per_start or len(hidden.paid) > 1
    more = more or options.hide != OWN or any(one.bounds for one in space.problem.pairs)
    more = more or hidden.each is not None
    if options.objective != "entropy" or more or hidden.path is not None or hidden.written is not None:
        return (
            "maximises the entropy of one secret at one time, against an observer with a clock, under one constraint on the"
            " expected return"
        )
    if hidden.horizon == 0 or (space.problem.return_over == "infinite" and space.stationary):
        return "needs decisions over a horizon and the return over it"
    if not is_padded_short(hidden):
        return "needs transitions to and from about as many states everywhere"
    return ""
