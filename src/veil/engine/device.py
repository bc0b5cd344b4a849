"""The pass over sequences on an accelerator: the same numbers as on the CPU, by JAX in float64.

What depends on the problem alone stays on the device; a call sends the policy and the sequences and fetches the gradient.
Two functions of `device_steps` are compiled, one for each direction, for each shape.
"""

import functools
import importlib.util
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import Float, Int

from .chain import Chain
from .hidden import Hidden
from .kernel import SparseKernel
from .sequences import Posteriors

# Padded neighbour lists may be this much longer than the transitions before the CPU serves better.
_MOST_PADDING = 4.0
_local = threading.local()


@functools.cache
def accelerator() -> str | None:
    """The name of an accelerator that JAX can use, or None. JAX is imported only where a plugin for one is installed."""
    if importlib.util.find_spec("jax") is None or importlib.util.find_spec("jax_plugins") is None:
        return None
    import jax

    device = jax.devices()[0]
    return None if device.platform == "cpu" else str(device.device_kind)


def device_memory() -> int:
    """Bytes that the messages may take on the accelerator: half of what it offers."""
    import jax

    statistics = jax.local_devices()[0].memory_stats() or {}
    return int(statistics.get("bytes_limit", 2**33)) // 2


def num_processes() -> int:
    """How many processes of JAX work together."""
    import jax

    return jax.process_count()


@contextmanager
def without_accelerator() -> Iterator[None]:
    """Leave the accelerator alone in this thread: what it calls back must not wait for it."""
    before = getattr(_local, "host_only", False)
    _local.host_only = True
    try:
        yield
    finally:
        _local.host_only = before


def on_accelerator(chain: Chain) -> bool:
    """Whether there is an accelerator, and its pass suits the chain.

    The neighbour lists of a sparse chain have to be short enough for its layout, and the secret has a value at one time.
    """
    if getattr(_local, "host_only", False) or chain.hidden.each is not None:
        return False
    return accelerator() is not None and is_padded_short(chain.hidden)


def is_padded_short(hidden: Hidden) -> bool:
    """Whether padded neighbour lists are not much longer than the transitions; true of dense ones."""
    kernel = hidden.kernel
    if not isinstance(kernel, SparseKernel):
        return True
    widest = max(np.diff(kernel.indptr).max(initial=1), np.bincount(kernel.indices).max(initial=1))
    return widest * kernel.num_states <= _MOST_PADDING * len(kernel.rows)


class DevicePass:
    """Posteriors of the secret along given event sequences, on the device of JAX; the interface of `SequencePass`.

    **Arguments:** `pad_to`: fewer sequences are filled up to this number, so that a last, smaller chunk has the shape of
    the others and nothing is compiled for it.
    """

    def __init__(self, chain: Chain, events: Int[np.ndarray, "k T+1"], *, pad_to: int = 0):
        from . import device_steps

        hidden = chain.hidden
        self._steps, self._fixed = device_steps, device_steps.place(hidden)
        # With no decisions at all the loops are empty, but still traced on a table.
        self._shape = chain.table.shape
        self._table = chain.table if len(chain.table) else np.zeros((1, *chain.table.shape[1:]))
        self._count = len(events)
        filled = np.concatenate([events, np.repeat(events[:1], max(0, pad_to - len(events)), axis=0)])
        self._events = np.ascontiguousarray(filled.T)
        whole = 8 * hidden.num_states * len(filled) * (hidden.horizon + 8)
        every = max(2, math.isqrt(hidden.horizon)) if whole > device_memory() else 0
        self._span = device_steps.Span(hidden.split_time, hidden.horizon, every)
        posterior, logs, self._kept = device_steps.jit_forward(self._fixed, self._table, self._events, self._span)
        self.result = Posteriors(
            log_likelihood=np.asarray(logs)[: self._count],
            posterior=np.asarray(posterior).T[: self._count],
            count=np.ones(self._count),
            index=np.arange(self._count),
        )

    def pull_back(self, slope: Float[np.ndarray, "k Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(y) · ∂/∂P(z,y)` of each sequence."""
        filled = np.zeros((slope.shape[1], self._events.shape[1]))
        filled[:, : self._count] = slope.T
        run = self._steps.jit_backward
        found = run(self._fixed, self._table, self._kept, self._events, self._span, filled)
        return np.asarray(found).reshape(self._shape) if self._shape[0] else np.zeros(self._shape)
