"""Many policies at once on one observation tree: what a solver with several starts evaluates thousands of times.

Policies that take every available action share their tree, so its shape is found once and the messages of all policies
run through it side by side: on small problems most of the time of a single pass is spent between the products, and a
batch shares that. Histories and continuations meet in the middle as in `joint`; the adjoint is the same recursion backwards.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from .buffers import keep_pages
from .chain import Chain, sum_by_cell
from .hidden import Hidden, observed
from .kernel import DenseKernel
from .size import tree_size
from .step import Extension, Step
from .supports import Children, Supports
from .threads import cores, one_blas_thread

_AT_ONCE = 2**19
_IN_CACHE = 2**15  # numbers of joint tables that are worked on at a time
_WORTH_A_THREAD = 2**16


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(4, cores()), thread_name_prefix="veil-batch")


# A function of the joint tables `(B, Y, Z)` of several policies: the value for each, `(B,)`, and the gradient in each entry.
Measure = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class BatchTree:
    """The observation tree of all policies that take every available action, and messages on it for many at a time.

    **Arguments:** `hidden`, with a dense kernel; `available`, `(C, A)`; `stationary`: whether tables serve all times.

    Cost of an evaluation for B policies: B times that of a single pass less what lies between its products.

    Example: three policies (B = 3) of `two-rooms` with horizon 2; N = 2, Z = 2, the secret's time is 2. Of the four possible
    sequences, two histories and two continuations meet at time 1. Forward messages have the shapes `(3, 1, 1, 2)` and
    `(3, 1, 2, 2)`: policies, values of the secret, nodes, hidden states. Backward messages carry the secret, `(3, 2, 1, 2)` and
    `(3, 2, 2, 2)`. Their product at time 1, `(3, 2, 2, 2)` for policies, values, histories and continuations, holds the joint
    tables `(3, 4, 2)` of the `pairs` that can occur.
    """

    def __init__(self, hidden: Hidden, available: np.ndarray, *, stationary: bool):
        keep_pages()
        hidden = observed(hidden)
        assert isinstance(hidden.kernel, DenseKernel)
        self.hidden, self.stationary = hidden, stationary
        self.flat = hidden.kernel.array.transpose(1, 0, 2)  # (N, A, N)
        self.masks = [emitter.actions for emitter in hidden.emitters]
        chain = Chain(hidden, available[None].astype(float), stationary=True)
        size = tree_size(chain)
        self.num_sequences = size.num_sequences
        self.meet = size.meet
        self.first = np.flatnonzero(np.any(hidden.root > 0, axis=0))
        supports = Supports(chain)
        self.prefixes, ahead = _levels(supports.first(), supports.ahead, range(self.meet))
        self.suffixes, behind = _levels(supports.last(), supports.back, range(hidden.horizon - 1, self.meet - 1, -1))
        self.pairs = self._find_pairs(ahead, behind)

    @property
    def cost_seconds(self) -> float:
        """The forecast of one evaluation of one policy."""
        return 4e-4 + 6e-8 * self.num_rows * self.hidden.label.shape[1]

    @property
    def num_rows(self) -> int:
        """Rows of the joint table of one policy."""
        return self.prefix_nodes * self.suffix_nodes if self.pairs is None else len(self.pairs)

    @property
    def prefix_nodes(self) -> int:
        """Histories at the meeting time."""
        return len(self.prefixes[-1].parent) if self.prefixes else len(self.first)

    @property
    def suffix_nodes(self) -> int:
        """Continuations after the meeting time."""
        return len(self.suffixes[-1].parent) if self.suffixes else 1

    @property
    def numbers(self) -> int:
        """Numbers of the joint table of one policy, pairs that cannot occur included."""
        return self.prefix_nodes * self.suffix_nodes * self.hidden.label.shape[1]

    @property
    def at_once(self) -> int:
        """Policies that are worked on at a time: so many that what is made of them stays in the cache."""
        return max(1, _AT_ONCE // self.numbers)

    def _find_pairs(self, ahead: np.ndarray, behind: np.ndarray) -> Int[np.ndarray, " Y"] | None:
        """Which pairs of a history and a continuation can occur, pair (i, j) being `i · m + j`; None for all."""
        possible = (ahead.astype(np.float32) @ behind.T.astype(np.float32)).ravel() > 0
        return None if possible.all() else np.flatnonzero(possible)

    def events(self) -> Int[np.ndarray, "Y T+1"]:
        """The sequences of events that the rows of the joint tables are about, in their order."""
        before, after = self.first[:, None], np.zeros((1, 0), dtype=np.int64)
        for level in self.prefixes:
            before = np.concatenate([before[level.parent], level.event[:, None]], axis=1)
        for level in self.suffixes:
            after = np.concatenate([level.event[:, None], after[level.parent]], axis=1)
        pairs = np.arange(self.num_rows) if self.pairs is None else self.pairs
        rows, columns = np.divmod(pairs, len(after))
        return np.concatenate([before[rows], after[columns]], axis=1)

    # One evaluation.

    @one_blas_thread
    def evaluate(
        self, tables: Float[np.ndarray, "B T C A"], measure: Measure, clock: Clock = UNLIMITED
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B T C A"]]:
        """The value of a measure for each policy and its gradient in each table; `clock` is checked before each part."""
        step = self.at_once
        parts = [tables[begin : begin + step] for begin in range(0, len(tables), step)]

        def work(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            clock.check()
            return _Pass(self, part).evaluate(measure)

        # Threads pay where NumPy works long enough between two turns of the interpreter.
        if len(parts) > 1 and self.numbers > _WORTH_A_THREAD:
            found = list(_workers().map(work, parts))
        else:
            found = [work(part) for part in parts]
        return np.concatenate([values for values, _ in found]), np.concatenate([slopes for _, slopes in found])


class _Pass:
    """Messages of several policies through the tree, down and back."""

    def __init__(self, tree: BatchTree, tables: Float[np.ndarray, "B T C A"]):
        self.tree, self.hidden, self.tables = tree, tree.hidden, tables
        self.weights = tables[:, :, tree.hidden.cell]  # (B, T|1, N, A)
        self._mixed: dict[tuple[int, int], np.ndarray] = {}
        states = tree.hidden.num_states
        self._slopes = np.zeros((len(tables), tables.shape[1], len(tree.masks), states, states))

    def evaluate(self, measure: Measure) -> tuple[np.ndarray, np.ndarray]:
        """The values and their gradients in the tables."""
        forward, backward = self.forward(), self.backward()
        alpha, beta = forward[-1], backward[-1]  # (B, V, n, N), (B, W, m, N), one of V and W being 1
        values = np.empty(len(self.tables))
        slopes = np.empty(alpha.shape), np.empty(beta.shape)
        step = max(1, _IN_CACHE // self.tree.numbers)
        for begin in range(0, len(values), step):
            part = slice(begin, begin + step)
            values[part] = self._meet(alpha[part], beta[part], measure, slopes[0][part], slopes[1][part])
        self._pull_forward(slopes[0], forward)
        self._pull_backward(slopes[1], backward)
        return values, self._to_tables()

    def _meet(
        self, alpha: np.ndarray, beta: np.ndarray, measure: Measure, alpha_slope: np.ndarray, beta_slope: np.ndarray
    ) -> np.ndarray:
        """The measure of the joint tables of some policies, and its gradients in their messages at the meeting time."""
        pairs = self.tree.pairs
        product = np.matmul(alpha, beta.swapaxes(2, 3))  # (B, Z, n, m)
        flat = product.reshape(*product.shape[:2], -1)
        joint = flat if pairs is None else flat.take(pairs, axis=2, mode="clip")
        values, slope = measure(joint.swapaxes(1, 2))
        if pairs is None:
            product = np.ascontiguousarray(slope.swapaxes(1, 2)).reshape(product.shape)
        else:
            flat[...] = 0.0
            flat[:, :, pairs] = slope.swapaxes(1, 2)
        _add_products(product, beta, alpha_slope)
        _add_products(product.swapaxes(2, 3), alpha, beta_slope)
        return values

    def _matrix(self, time: int, emitter: int) -> Float[np.ndarray, "B N N"]:
        """`K_t(x,x') = Σ_{a in emitter} π_t(a|x) P(x'|x,a)` of each policy."""
        key = (0 if self.tree.stationary else time, emitter)
        if key not in self._mixed:
            part = self.weights[:, key[0]] * self.tree.masks[emitter]
            # (N, B, A) @ (N, A, N): one product a state
            self._mixed[key] = np.matmul(part.transpose(1, 0, 2), self.tree.flat).transpose(1, 0, 2).copy()
        return self._mixed[key]

    def _step(self, time: int) -> Step:
        """The step of all policies at once; nodes are the third axis."""
        emitters = self.hidden.emitters
        return Step([self._matrix(time, number)[:, None] for number in range(len(emitters))], emitters, axis=2)

    def _lift(self, messages: np.ndarray) -> np.ndarray:
        return messages * self.hidden.label.T[None, :, None, :]

    def forward(self) -> list[np.ndarray]:
        """`α` of every level of the histories."""
        hidden = self.hidden
        start = np.broadcast_to(
            hidden.root[:, self.tree.first].T, (len(self.weights), 1, len(self.tree.first), hidden.num_states)
        )
        messages = [self._lift(start) if hidden.split_time == 0 < self.tree.meet else start]
        for time, level in enumerate(self.tree.prefixes):
            new = self._step(time).forward(messages[-1], level)
            messages.append(self._lift(new) if hidden.split_time == time + 1 < self.tree.meet else new)
        return messages

    def backward(self) -> list[np.ndarray]:
        """`β` of every level of the continuations."""
        hidden = self.hidden
        end_row = np.ones((len(self.weights), 1, 1, hidden.num_states))
        messages = [self._lift(end_row) if hidden.split_time == hidden.horizon >= self.tree.meet else end_row]
        for step, level in enumerate(self.tree.suffixes):
            time = hidden.horizon - 1 - step
            new = self._step(time).backward(messages[-1], level)
            messages.append(self._lift(new) if hidden.split_time == time >= self.tree.meet else new)
        return messages

    def _pull_forward(self, slope: np.ndarray, messages: list[np.ndarray]) -> None:
        hidden = self.hidden
        for time in range(len(self.tree.prefixes) - 1, -1, -1):
            level, old = self.tree.prefixes[time], messages[time]
            if hidden.split_time == time + 1 < self.tree.meet:
                slope = np.sum(slope * hidden.label.T[None, :, None, :], axis=1, keepdims=True)
            slope = self._step(time).pull_forward(old, level, slope, partial(self._add, time))

    def _pull_backward(self, slope: np.ndarray, messages: list[np.ndarray]) -> None:
        hidden = self.hidden
        for step in range(len(self.tree.suffixes) - 1, -1, -1):
            level, old, time = self.tree.suffixes[step], messages[step], hidden.horizon - 1 - step
            if hidden.split_time == time >= self.tree.meet:
                slope = np.sum(slope * hidden.label.T[None, :, None, :], axis=1, keepdims=True)
            slope = self._step(time).pull_backward(old, level, slope, partial(self._add, time))

    def _add(self, time: int, emitter: int, left: np.ndarray, right: np.ndarray) -> None:
        """Add `Σ left(x) right(x')` over values and nodes to the gradient in `K_t`."""
        batch, _, _, states = left.shape
        product = np.matmul(left.reshape(batch, -1, states).transpose(0, 2, 1), right.reshape(batch, -1, states))
        self._slopes[:, 0 if self.tree.stationary else time, emitter] += product

    def _to_tables(self) -> Float[np.ndarray, "B T C A"]:
        batch, steps, cells, actions = self.tables.shape
        result = np.zeros((batch, steps, cells, actions))
        for emitter, mask in enumerate(self.tree.masks):
            outer = self._slopes[:, :, emitter].reshape(batch * steps, *self._slopes.shape[3:])
            by_state = np.matmul(outer.transpose(1, 0, 2), self.tree.flat.transpose(0, 2, 1))  # (N, B·T, A)
            by_state = by_state.transpose(1, 0, 2).reshape(batch, steps, self.hidden.num_states, actions) * mask
            result += sum_by_cell(self.hidden, by_state)
        return result


def _add_products(slope: np.ndarray, messages: np.ndarray, out: np.ndarray) -> None:
    """`Σ slope(i,j) messages(j,x)`, for each value of the secret, or summed over the values that the result does not carry."""
    found = np.matmul(slope, messages)
    np.sum(found, axis=1, keepdims=True, out=out) if out.shape[1] < found.shape[1] else np.copyto(out, found)


def _levels(
    sets: np.ndarray, step: Callable[[np.ndarray, int], Children], times: range
) -> tuple[list[Extension], np.ndarray]:
    """The levels of one side of the tree from the sets of its first nodes, and the sets of its last ones."""
    levels = []
    for time in times:
        children = step(sets, time)
        levels.append(Extension(children.parent, children.event))
        sets = children.sets
    return levels, sets
