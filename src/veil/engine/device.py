"""The pass over sequences on an accelerator: the same numbers as on the CPU, by JAX in float64.

Messages are columns `(N, n)`, as in `columns`, whose two recursions are used here as they stand. Sparse transitions are
kept as padded lists of neighbours, predecessors for the way forward and successors for the way back, so that both
directions and the gradient are gathers of whole rows; the adjoint of a gather would be a scatter, several times slower.
What depends on the problem alone stays on the device; a call sends the policy and the sequences and fetches the gradient.
Two functions are compiled, one for each direction, for each shape.
"""

import functools
import importlib.util
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import natural_log
from .chain import Chain, sum_over
from .hidden import Hidden
from .kernel import DenseKernel, SparseKernel
from .sequences import Posteriors

if TYPE_CHECKING:
    import jax

    Array = np.ndarray | jax.Array

# Padded neighbour lists may be this much longer than the transitions before the CPU serves better.
_MOST_PADDING = 4.0


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

    statistics = jax.devices()[0].memory_stats() or {}
    return int(statistics.get("bytes_limit", 2**33)) // 2


def on_accelerator(chain: Chain) -> bool:
    """Whether there is an accelerator, and the neighbour lists of a sparse chain are short enough for its layout."""
    kernel = chain.hidden.kernel
    if accelerator() is None:
        return False
    if not isinstance(kernel, SparseKernel):
        return True
    widest = max(np.diff(kernel.indptr).max(initial=1), np.bincount(kernel.indices).max(initial=1))
    return widest * kernel.num_states <= _MOST_PADDING * len(kernel.rows)


class _Near(NamedTuple):
    """Padded neighbour lists: `out_column[x, d]` is the d-th successor of x, reached with `probability[x, d, a]`.

    `in_row[x', d]` is the d-th predecessor of x', and `in_slot` the place of that transition in the successor lists,
    flattened; a pad points behind the last, at a weight of zero.
    """

    out_column: "Array"
    probability: "Array"
    in_row: "Array"
    in_slot: "Array"


class _Fixed(NamedTuple):
    """What does not depend on the policy, on the device: transitions as `_Near` or dense `(A, N, N)`."""

    transitions: "_Near | Array"
    actions: "Array"  # (C, A), 1 where the channel has the action
    emissions: "Array"  # (C, N, E)
    label: "Array"
    root: "Array"
    cell: "Array | None"  # (N,), or None where hidden states and rows of the policy are the same


def _near(kernel: SparseKernel) -> _Near:
    size, edges = kernel.num_states, len(kernel.rows)
    counts = np.diff(kernel.indptr)
    width = int(counts.max(initial=1))
    slot = kernel.rows * width + np.arange(edges) - kernel.indptr[kernel.rows]
    out_column = np.zeros(size * width, dtype=np.int32)
    probability = np.zeros((size * width, kernel.num_actions))
    out_column[slot], probability[slot] = kernel.indices, kernel.probabilities
    into = np.argsort(kernel.indices, kind="stable")
    arriving = np.bincount(kernel.indices, minlength=size)
    starts = np.cumsum(arriving) - arriving
    most = int(arriving.max(initial=1))
    place = kernel.indices[into] * np.int64(most) + np.arange(edges) - starts[kernel.indices[into]]
    in_row = np.zeros(size * most, dtype=np.int32)
    in_slot = np.full(size * most, size * width, dtype=np.int32)
    in_row[place], in_slot[place] = kernel.rows[into], slot[into]
    return _Near(
        out_column.reshape(size, width),
        probability.reshape(size, width, -1),
        in_row.reshape(size, most),
        in_slot.reshape(size, most),
    )


_PLACED: WeakKeyDictionary[Hidden, _Fixed] = WeakKeyDictionary()


def _place(hidden: Hidden) -> _Fixed:
    """The fixed arrays of a hidden chain, sent to the device once."""
    import jax

    if hidden not in _PLACED:
        kernel = hidden.kernel
        assert isinstance(kernel, (DenseKernel, SparseKernel))
        same = hidden.num_cells == hidden.num_states and np.array_equal(hidden.cell, np.arange(hidden.num_states))
        fixed = _Fixed(
            transitions=_near(kernel) if isinstance(kernel, SparseKernel) else kernel.array,
            actions=np.stack([channel.actions for channel in hidden.channels]).astype(float),
            emissions=np.stack([channel.emission for channel in hidden.channels]),
            label=hidden.label,
            root=hidden.root,
            cell=None if same else hidden.cell,
        )
        _PLACED[hidden] = jax.device_put(fixed)
    return _PLACED[hidden]


@functools.cache
def _compiled():
    """The two compiled functions; made on first use, since importing JAX takes a while."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def mix(fixed: _Fixed, table):
        """The transitions of each channel under one table of the policy: dense, or weights of both neighbour lists."""
        policy = table if fixed.cell is None else table[fixed.cell]
        if not isinstance(fixed.transitions, _Near):
            return [jnp.einsum("xa,axy->xy", policy * c, fixed.transitions, precision="highest") for c in fixed.actions]
        near, weights = fixed.transitions, []
        for actions in fixed.actions:
            out = jnp.sum((policy * actions)[:, None, :] * near.probability, axis=2)
            weights.append((out, jnp.append(out.ravel(), 0.0)[near.in_slot]))
        return weights

    def push(fixed: _Fixed, matrix, columns):
        """`Kᵀ @ columns`."""
        if not isinstance(fixed.transitions, _Near):
            return jnp.matmul(matrix.T, columns, precision="highest")
        rows = fixed.transitions.in_row
        return sum_over(matrix[1][:, d, None] * columns[rows[:, d]] for d in range(rows.shape[1]))

    def pull(fixed: _Fixed, matrix, columns):
        """`K @ columns`."""
        if not isinstance(fixed.transitions, _Near):
            return jnp.matmul(matrix, columns, precision="highest")
        rows = fixed.transitions.out_column
        return sum_over(matrix[0][:, d, None] * columns[rows[:, d]] for d in range(rows.shape[1]))

    def outer(fixed: _Fixed, left, right):
        """`Σ_n left(x,n) right(x',n)`, `(N, N)`, or `(N, D)` over the successors."""
        if not isinstance(fixed.transitions, _Near):
            return jnp.matmul(left, right.T, precision="highest")
        rows = fixed.transitions.out_column
        return jnp.stack([jnp.sum(left * right[rows[:, d]], axis=1) for d in range(rows.shape[1])], axis=1)

    def contract(fixed: _Fixed, table, gathered):
        """The gradient in a table of the policy from the gradients in the transitions of each channel."""
        slope = jnp.zeros((fixed.label.shape[0], table.shape[1]))
        for number, part in enumerate(gathered):
            if isinstance(fixed.transitions, _Near):
                found = jnp.einsum("xd,xda->xa", part, fixed.transitions.probability, precision="highest")
            else:
                found = jnp.einsum("axy,xy->xa", fixed.transitions, part, precision="highest")
            slope = slope + found * fixed.actions[number]
        return slope if fixed.cell is None else jnp.zeros_like(table).at[fixed.cell].add(slope)

    def divided(columns, scale):
        return jnp.where(scale > 0, columns / jnp.where(scale > 0, scale, 1.0), 0.0)

    def emissions(fixed: _Fixed, events, scale):
        return [divided(emission[:, events], scale) for emission in fixed.emissions]

    def mixer(fixed: _Fixed, table):
        """The mixed transitions of a time; mixed once where the policy does not depend on time."""
        if table.shape[0] != 1:
            return lambda time: mix(fixed, table[time])
        once = mix(fixed, table[0])
        return lambda time: once

    def forward(fixed: _Fixed, table, events, times, later):
        """Posteriors, the scales whose product is `P(y)`, and all messages. `later`: times after the split, last first."""
        matrices = mixer(fixed, table)

        def ahead(columns, time):
            scale = columns.sum(axis=0)
            factors = emissions(fixed, events[time + 1], scale)
            pairs = zip(factors, matrices(time), strict=True)
            return sum_over(factor * push(fixed, matrix, columns) for factor, matrix in pairs), (columns, scale)

        def back(columns, time):
            scale = columns.max(axis=0)
            factors = emissions(fixed, events[time + 1], scale)
            pairs = zip(factors, matrices(time), strict=True)
            return sum_over(pull(fixed, matrix, factor * columns) for factor, matrix in pairs), (columns, scale)

        start = fixed.root[:, events[0]]
        alpha, (alphas, scales) = jax.lax.scan(ahead, start, times)
        # Ones that depend on the data: the compiler would spend seconds folding sums over constants of this size.
        ones = jnp.where(start >= 0, 1.0, 0.0)
        beta, (betas, more) = jax.lax.scan(back, ones, later)
        alpha_scale, beta_scale = alpha.sum(axis=0), beta.max(axis=0)
        both = divided(alpha, alpha_scale) * divided(beta, beta_scale)
        joint = jnp.matmul(fixed.label.T, both, precision="highest")
        total = joint.sum(axis=0)
        scales = jnp.concatenate([scales, more, alpha_scale[None], beta_scale[None], total[None]])
        return divided(joint, total), scales, (alphas, betas, alpha, beta, total)

    def backward(fixed: _Fixed, table, kept, events, times, later, slope):
        """The gradient in the policy's table, `(1 or T, C, A)`, from the gradient in the posteriors."""
        alphas, betas, alpha, beta, total = kept
        alpha_scale, beta_scale = alpha.sum(axis=0), beta.max(axis=0)
        spread = divided(jnp.matmul(fixed.label, slope, precision="highest"), total)
        matrices, stationary = mixer(fixed, table), table.shape[0] == 1
        empty = jnp.zeros_like(alpha[:, :1])
        one = jnp.stack([jnp.zeros_like(outer(fixed, empty, empty))] * len(fixed.emissions))
        # A stationary policy adds up what it gathers before the actions are told apart; one with a clock must not.
        start = one if stationary else jnp.zeros_like(table)

        def note(gathered, time, parts):
            if stationary:
                return gathered + jnp.stack(parts)
            return gathered.at[time].add(contract(fixed, table[0], parts))

        def pull_ahead(carry, step):
            (slope, gathered), (columns, time) = carry, step
            factors = emissions(fixed, events[time + 1], columns.sum(axis=0))
            inside = [factor * slope for factor in factors]
            gathered = note(gathered, time, [outer(fixed, columns, rows) for rows in inside])
            pairs = zip(matrices(time), inside, strict=True)
            return (sum_over(pull(fixed, matrix, rows) for matrix, rows in pairs), gathered), None

        def pull_back(carry, step):
            (slope, gathered), (columns, time) = carry, step
            factors = emissions(fixed, events[time + 1], columns.max(axis=0))
            gathered = note(gathered, time, [outer(fixed, slope, factor * columns) for factor in factors])
            pairs = zip(factors, matrices(time), strict=True)
            return (sum_over(factor * push(fixed, matrix, slope) for factor, matrix in pairs), gathered), None

        first = divided(spread * divided(beta, beta_scale), alpha_scale)
        second = divided(spread * divided(alpha, alpha_scale), beta_scale)
        (_, gathered), _ = jax.lax.scan(pull_ahead, (first, start), (alphas, times), reverse=True)
        (_, gathered), _ = jax.lax.scan(pull_back, (second, gathered), (betas, later), reverse=True)
        return contract(fixed, table[0], gathered)[None] if stationary else gathered

    return jax.jit(forward), jax.jit(backward)


class DevicePass:
    """Posteriors of the secret along given event sequences, on the device of JAX; the interface of `SequencePass`.

    **Arguments:** `pad_to`: fewer sequences are filled up to this number, so that a last, smaller chunk has the shape of
    the others and nothing is compiled for it.
    """

    def __init__(self, chain: Chain, events: Int[np.ndarray, "k T+1"], *, pad_to: int = 0):
        hidden, split = chain.hidden, chain.hidden.split_time
        self._forward, self._backward = _compiled()
        self._fixed = _place(hidden)
        # With no decisions at all the loops are empty, but still traced on a table.
        self._shape = chain.table.shape
        self._table = chain.table if len(chain.table) else np.zeros((1, *chain.table.shape[1:]))
        self._count = len(events)
        filled = np.concatenate([events, np.repeat(events[:1], max(0, pad_to - len(events)), axis=0)])
        self._events = np.ascontiguousarray(filled.T)
        self._times = np.arange(split, dtype=np.int32)
        self._later = np.arange(hidden.horizon - 1, split - 1, -1, dtype=np.int32)
        posterior, scales, self._kept = self._forward(self._fixed, self._table, self._events, self._times, self._later)
        self.result = Posteriors(
            log_likelihood=natural_log(np.asarray(scales)).sum(axis=0)[: self._count],
            posterior=np.asarray(posterior).T[: self._count],
            count=np.ones(self._count),
            index=np.arange(self._count),
        )

    def pull_back(self, slope: Float[np.ndarray, "k Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(y) · ∂/∂P(z,y)` of each sequence."""
        filled = np.zeros((slope.shape[1], self._events.shape[1]))
        filled[:, : self._count] = slope.T
        found = self._backward(self._fixed, self._table, self._kept, self._events, self._times, self._later, filled)
        return np.asarray(found).reshape(self._shape) if self._shape[0] else np.zeros(self._shape)
