"""Messages along sequences in JAX: the recursions of `columns` and their adjoint, on dense or sparse transitions.

Messages are columns `(N, n)`. Sparse transitions are kept as padded lists of neighbours, predecessors for the way forward and
successors for the way back, so that both directions and the gradient are gathers of whole rows; the adjoint of a gather would
be a scatter, several times slower. All functions take their precision from `Fixed`, float64 or float32.

This module imports JAX: import it inside functions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..common.logs import device_log
from ..common.memo import memo
from .chain import sum_over
from .hidden import Hidden
from .kernel import DenseKernel, SparseKernel

jax.config.update("jax_enable_x64", True)

_FEW_EVENTS = 16  # that are compared instead of looked up; with more, the comparisons would cost more than the product

Array = np.ndarray | jax.Array


class Near(NamedTuple):
    """Padded neighbour lists: `out_column[x, d]` is the d-th successor of x, reached with `probability[x, d, a]`.

    `in_row[x', d]` is the d-th predecessor of x', and `in_slot` the place of that transition in the successor lists,
    flattened; a pad points behind the last, at a weight of zero.
    """

    out_column: Array
    probability: Array
    in_row: Array
    in_slot: Array


class Fixed(NamedTuple):
    """What does not depend on the policy, on the device: transitions as `Near` or dense `(A, N, N)`."""

    transitions: Near | Array
    actions: Array  # (C, A), 1 where the emitter has the action
    emissions: Array  # (C, N, E)
    label: Array
    root: Array
    cell: Array | None  # (N,), or None where hidden states and rows of the policy are the same


def _near(kernel: SparseKernel, precision: type) -> Near:
    size, edges = kernel.num_states, len(kernel.rows)
    counts = np.diff(kernel.indptr)
    width = int(counts.max(initial=1))
    slot = kernel.rows * width + np.arange(edges) - kernel.indptr[kernel.rows]
    out_column = np.zeros(size * width, dtype=np.int32)
    probability = np.zeros((size * width, kernel.num_actions), dtype=precision)
    out_column[slot], probability[slot] = kernel.indices, kernel.probabilities
    into = np.argsort(kernel.indices, kind="stable")
    arriving = np.bincount(kernel.indices, minlength=size)
    starts = np.cumsum(arriving) - arriving
    most = int(arriving.max(initial=1))
    place = kernel.indices[into] * np.int64(most) + np.arange(edges) - starts[kernel.indices[into]]
    in_row = np.zeros(size * most, dtype=np.int32)
    in_slot = np.full(size * most, size * width, dtype=np.int32)
    in_row[place], in_slot[place] = kernel.rows[into], slot[into]
    return Near(
        out_column.reshape(size, width),
        probability.reshape(size, width, -1),
        in_row.reshape(size, most),
        in_slot.reshape(size, most),
    )


def place(hidden: Hidden, precision: type = np.float64) -> Fixed:
    """The fixed arrays of a hidden chain, sent to the device once for each precision."""
    return memo(hidden, (place, precision), lambda: _place(hidden, precision))


def _place(hidden: Hidden, precision: type) -> Fixed:
    kernel = hidden.kernel
    assert isinstance(kernel, (DenseKernel, SparseKernel))
    same = hidden.num_cells == hidden.num_states and np.array_equal(hidden.cell, np.arange(hidden.num_states))
    sparse = isinstance(kernel, SparseKernel)
    fixed = Fixed(
        transitions=_near(kernel, precision) if sparse else kernel.array.astype(precision),
        actions=np.stack([emitter.actions for emitter in hidden.emitters]).astype(precision),
        emissions=np.stack([emitter.emission for emitter in hidden.emitters]).astype(precision),
        label=hidden.label.astype(precision),
        root=hidden.root.astype(precision),
        cell=None if same else hidden.cell,
    )
    return jax.device_put(fixed)


def by_state(fixed: Fixed, rows: Array) -> Any:
    """Rows of the policy's table for each hidden state, `(N, A)`."""
    return rows if fixed.cell is None else rows[fixed.cell]


def by_cell(fixed: Fixed, values: Any, num_cells: int) -> Any:
    """Sums `(C, A)` over the hidden states that the agent cannot tell apart."""
    if fixed.cell is None:
        return values
    return jnp.zeros((num_cells, values.shape[1]), values.dtype).at[fixed.cell].add(values)


def mix_rows(fixed: Fixed, weights: Any) -> Any:
    """`K(x,x') = Σ_a weights(x,a) P(x'|x,a)`: dense, or the weights of both neighbour lists."""
    if not isinstance(fixed.transitions, Near):
        return jnp.einsum("xa,axy->xy", weights, fixed.transitions, precision="highest")
    near = fixed.transitions
    out = jnp.sum(weights[:, None, :] * near.probability, axis=2)
    return out, jnp.append(out.ravel(), jnp.zeros(1, out.dtype))[near.in_slot]


def mix(fixed: Fixed, rows: Any) -> list[Any]:
    """The transitions of each emitter under one table of the policy."""
    policy = by_state(fixed, rows)
    return [mix_rows(fixed, policy * actions) for actions in fixed.actions]


def push(fixed: Fixed, matrix: Any, columns: Any) -> Any:
    """`Kᵀ @ columns`."""
    if not isinstance(fixed.transitions, Near):
        return jnp.matmul(matrix.T, columns, precision="highest")
    rows = fixed.transitions.in_row
    return sum_over(matrix[1][:, d, None] * columns[rows[:, d]] for d in range(rows.shape[1]))


def pull(fixed: Fixed, matrix: Any, columns: Any) -> Any:
    """`K @ columns`."""
    if not isinstance(fixed.transitions, Near):
        return jnp.matmul(matrix, columns, precision="highest")
    rows = fixed.transitions.out_column
    return sum_over(matrix[0][:, d, None] * columns[rows[:, d]] for d in range(rows.shape[1]))


def expect(fixed: Fixed, values: Any) -> Any:
    """`Σ_x' P(x'|x,a) values(x')`, `(N, A)`."""
    if not isinstance(fixed.transitions, Near):
        return jnp.einsum("axy,y->xa", fixed.transitions, values, precision="highest")
    near = fixed.transitions
    return sum_over(
        near.probability[:, d] * values[near.out_column[:, d], None] for d in range(near.out_column.shape[1])
    )


def _outer(fixed: Fixed, left: Any, right: Any) -> Any:
    """`Σ_n left(x,n) right(x',n)`, `(N, N)`, or `(N, D)` over the successors."""
    if not isinstance(fixed.transitions, Near):
        return jnp.matmul(left, right.T, precision="highest")
    rows = fixed.transitions.out_column
    return jnp.stack([jnp.sum(left * right[rows[:, d]], axis=1) for d in range(rows.shape[1])], axis=1)


def _contract(fixed: Fixed, table: Any, gathered: Any) -> Any:
    """The gradient in a table of the policy from the gradients in the transitions of each emitter."""
    slope = jnp.zeros((fixed.label.shape[0], table.shape[1]), table.dtype)
    for number, part in enumerate(gathered):
        if isinstance(fixed.transitions, Near):
            found = jnp.einsum("xd,xda->xa", part, fixed.transitions.probability, precision="highest")
        else:
            found = jnp.einsum("axy,xy->xa", fixed.transitions, part, precision="highest")
        slope = slope + found * fixed.actions[number]
    return by_cell(fixed, slope, table.shape[0])


def divided(columns: Any, scale: Any) -> Any:
    """`columns / scale`, 0 where the scale is."""
    return jnp.where(scale > 0, columns / jnp.where(scale > 0, scale, 1.0), 0.0)


def _factors(fixed: Fixed, events: Any, scale: Any) -> list[Any]:
    """`B_c(·, o) / s` of each emitter, `(N, n)`.

    A few events are compared with each column instead of looked up: the compiler fuses that with the product, so that no array
    of this size is written (a value of 10⁶ states without gradient took 210 ms on an H200, and takes 40).
    """
    count = fixed.emissions.shape[2]
    if count > _FEW_EVENTS:
        return [divided(emission[:, events], scale) for emission in fixed.emissions]
    is_seen = [events == event for event in range(count)]
    found = (sum_over(jnp.where(one, emission[:, event, None], 0.0) for event, one in enumerate(is_seen))
             for emission in fixed.emissions)  # fmt: skip
    return [divided(one, scale) for one in found]


def _mixer(fixed: Fixed, table: Any) -> Callable[[Any], list[Any]]:
    """The mixed transitions of a time; mixed once where the policy does not depend on time."""
    if table.shape[0] != 1:
        return lambda time: mix(fixed, table[time])
    once = mix(fixed, table[0])
    return lambda time: once


class Span(NamedTuple):
    """Which decisions there are, and which messages are kept for the adjoint.

    **Attributes:** `split`, the secret's time; `horizon`; `every`: 0 keeps the messages of all times, k keeps one of k and
    recomputes the others.
    """

    split: int
    horizon: int
    every: int = 0

    @property
    def before(self) -> np.ndarray:
        """Times of the way forward."""
        return np.arange(self.split, dtype=np.int32)

    @property
    def after(self) -> np.ndarray:
        """Times of the way back, the last first."""
        return np.arange(self.horizon - 1, self.split - 1, -1, dtype=np.int32)

    def parts(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The times whose messages are all kept, and the segments `(K, every)` of which the first is."""
        head = len(times) % self.every if self.every else len(times)
        return times[:head], times[head:].reshape(-1, self.every or 1)


def _sweep(step: Callable[[Any, Any], Any], start: Any, times: np.ndarray, span: Span) -> tuple[Any, Any]:
    """All steps from `start`; the last state, and the states that the adjoint needs."""
    head, segments = span.parts(times)
    state, heads = jax.lax.scan(lambda state, time: (step(state, time), state), start, head)
    if not len(segments):
        return state, (heads, None)

    def segment(state: Any, part: Any) -> tuple[Any, Any]:
        return jax.lax.scan(lambda inner, time: (step(inner, time), None), state, part)[0], state

    state, marks = jax.lax.scan(segment, state, segments)
    return state, (heads, marks)


def _sweep_back(
    step: Callable[[Any, Any], Any],
    undo: Callable[[Any, Any, Any], Any],
    carry: Any,
    kept: Any,
    times: np.ndarray,
    span: Span,
) -> Any:
    """`undo(carry, state, time)` for all steps, the last first."""
    (head, segments), (heads, marks) = span.parts(times), kept

    def back(carry: Any, states: Any, part: Any) -> Any:
        return jax.lax.scan(lambda inner, one: (undo(inner, *one), None), carry, (states, part), reverse=True)[0]

    def segment(carry: Any, given: Any) -> tuple[Any, None]:
        mark, part = given
        inside = jax.lax.scan(lambda state, time: (step(state, time), state), mark, part)[1]
        return back(carry, inside, part), None

    if marks is not None:
        carry = jax.lax.scan(segment, carry, (marks, segments), reverse=True)[0]
    return back(carry, heads, head)


def _recursions(fixed: Fixed, table: Any, events: Any) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """One step forward and one step back of states: messages, their scales, and the sum of the logarithms of those before."""
    matrices = _mixer(fixed, table)

    def ahead(state: Any, time: Any) -> Any:
        columns, scale, logs = state
        pairs = zip(_factors(fixed, events[time + 1], scale), matrices(time), strict=True)
        found = sum_over(factor * push(fixed, matrix, columns) for factor, matrix in pairs)
        return found, found.sum(axis=0), logs + device_log(scale)

    def back(state: Any, time: Any) -> Any:
        columns, scale, logs = state
        pairs = zip(_factors(fixed, events[time + 1], scale), matrices(time), strict=True)
        found = sum_over(pull(fixed, matrix, factor * columns) for factor, matrix in pairs)
        return found, found.max(axis=0), logs + device_log(scale)

    return ahead, back


def forward(fixed: Fixed, table: Any, events: Any, span: Span, *, keep: bool = True) -> tuple[Any, Any, Any]:
    """Posteriors `(Z, n)`, `log P(y)`, and what `backward` needs (nothing, unless `keep`), of event sequences `(T+1, n)`."""
    ahead, back = _recursions(fixed, table, events)
    if not keep:  # one segment: only its first messages are kept
        span = span._replace(every=max(1, span.horizon))
    start = fixed.root[:, events[0]]
    logs = jnp.zeros(events.shape[1], start.dtype)
    (alpha, alpha_scale, logs), alphas = _sweep(ahead, (start, start.sum(axis=0), logs), span.before, span)
    # Ones that depend on the data: the compiler would spend seconds folding sums over constants of this size.
    ones = jnp.where(start >= 0, 1.0, 0.0).astype(start.dtype)
    (beta, beta_scale, logs), betas = _sweep(back, (ones, ones.max(axis=0), logs), span.after, span)
    both = divided(alpha, alpha_scale) * divided(beta, beta_scale)
    joint = jnp.matmul(fixed.label.T, both, precision="highest")
    total = joint.sum(axis=0)
    logs = logs + device_log(alpha_scale) + device_log(beta_scale) + device_log(total)
    ends = (alpha, alpha_scale), (beta, beta_scale), total
    return divided(joint, total), logs, (alphas, betas, ends) if keep else None


def no_gradient(fixed: Fixed, table: Any) -> Any:
    """What `backward` adds to: of a stationary policy, gradients in its transitions, which are told apart at the end."""
    if table.shape[0] != 1:
        return jnp.zeros_like(table)
    empty = jnp.zeros_like(fixed.label[:, :1])
    return jnp.stack([jnp.zeros_like(_outer(fixed, empty, empty))] * len(fixed.emissions))


def gradient_of(fixed: Fixed, table: Any, gathered: Any) -> Any:
    """The gradient in the policy's table, `(1 or T, C, A)`, from what `backward` has added up."""
    return gathered if table.shape[0] != 1 else _contract(fixed, table[0], gathered)[None]


def backward(fixed: Fixed, table: Any, kept: Any, events: Any, span: Span, slope: Any, gathered: Any) -> Any:
    """`gathered` with the gradient from the gradient `(Z, n)` in the posteriors, `P(y) ∂/∂P(z,y)`, added to it."""
    alphas, betas, ((alpha, alpha_scale), (beta, beta_scale), total) = kept
    spread = divided(jnp.matmul(fixed.label, slope, precision="highest"), total)
    matrices, (ahead, back) = _mixer(fixed, table), _recursions(fixed, table, events)

    def note(gathered: Any, time: Any, parts: list[Any]) -> Any:
        if table.shape[0] == 1:
            return gathered + jnp.stack(parts)
        return gathered.at[time].add(_contract(fixed, table[0], parts))

    def pull_ahead(carry: Any, state: Any, time: Any) -> Any:
        (slope, gathered), (columns, scale, _) = carry, state
        inside = [factor * slope for factor in _factors(fixed, events[time + 1], scale)]
        gathered = note(gathered, time, [_outer(fixed, columns, rows) for rows in inside])
        pairs = zip(matrices(time), inside, strict=True)
        return sum_over(pull(fixed, matrix, rows) for matrix, rows in pairs), gathered

    def pull_back(carry: Any, state: Any, time: Any) -> Any:
        (slope, gathered), (columns, scale, _) = carry, state
        factors = _factors(fixed, events[time + 1], scale)
        gathered = note(gathered, time, [_outer(fixed, slope, factor * columns) for factor in factors])
        pairs = zip(factors, matrices(time), strict=True)
        return sum_over(factor * push(fixed, matrix, slope) for factor, matrix in pairs), gathered

    first = divided(spread * divided(beta, beta_scale), alpha_scale)
    second = divided(spread * divided(alpha, alpha_scale), beta_scale)
    _, gathered = _sweep_back(ahead, pull_ahead, (first, gathered), alphas, span.before, span)
    _, gathered = _sweep_back(back, pull_back, (second, gathered), betas, span.after, span)
    return gathered


jit_forward = jax.jit(forward, static_argnames=("span", "keep"))


def _whole_backward(fixed: Fixed, table: Any, kept: Any, events: Any, span: Span, slope: Any) -> Any:
    gathered = backward(fixed, table, kept, events, span, slope, no_gradient(fixed, table))
    return gradient_of(fixed, table, gathered)


jit_backward = jax.jit(_whole_backward, static_argnames="span")
