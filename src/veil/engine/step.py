"""One step of the observer's messages: histories or continuations extended by one event, forward and backward, and back.

Messages are arrays whose last axis are the N hidden states; one axis counts the nodes, and the others (values of the
secret, policies of a batch) go along. A step does not scale: its users do, each in its own way.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from .chain import Chain, Slopes
from .hidden import Emitter
from .kernel import Matrix

Add = Callable[[int, np.ndarray, np.ndarray], None]


@dataclass(frozen=True, eq=False)
class Extension:
    """The nodes of one level, ordered by event: node i extends `parent[i]` of the level before by `event[i]`.

    Within the nodes of one event all parents are distinct.
    """

    parent: Int[np.ndarray, " m"]
    event: Int[np.ndarray, " m"]

    @staticmethod
    def by(event: int, parent: Int[np.ndarray, " m"]) -> "Extension":
        """Some nodes, all by one event."""
        found = Extension(parent, np.full(len(parent), event))
        found.__dict__["segments"] = (
            [(event, 0, len(parent))] if len(parent) else []
        )  # known, so it is not searched for
        return found

    @cached_property
    def segments(self) -> list[tuple[int, int, int]]:
        """Runs of one event: (event, begin, end)."""
        if len(self.event) == 0:
            return []
        starts = [0, *(np.flatnonzero(self.event[1:] != self.event[:-1]) + 1).tolist()]
        return list(zip(self.event[starts].tolist(), starts, [*starts[1:], len(self.event)], strict=True))


@dataclass(frozen=True, eq=False)
class Step:
    """One step: for each emitter c the transitions `K_c`, `(N, N)`, and the emissions `B_c`, `(E, N)`.

    **Arguments:** `matrices`: one a emitter for all messages, or arrays that `matmul` broadcasts over the leading axes;
    `axis`: the axis of the nodes.

    - forward: `α'(x') = Σ_c B_c(e,x') Σ_x α(x) K_c(x,x')`, the paper's forward messages;
    - backward: `β'(x) = Σ_c Σ_x' K_c(x,x') B_c(e,x') β(x')`, the paper's backward messages;
    - their adjoints give the gradient in the messages of the parents and hand `add` two arrays a emitter whose product,
      summed over all axes but the states, is the gradient in `K_c`.

    Cost: a product of all messages with each matrix; twice that for an adjoint with its gradients.
    """

    matrices: Sequence[Matrix]
    emitters: Sequence[Emitter]
    axis: int = 0

    @staticmethod
    def of(chain: Chain, time: int) -> "Step":
        """The step of a chain from a time to the next."""
        return Step(chain.matrices(time), chain.hidden.emitters)

    def moved(self, messages: np.ndarray) -> list[np.ndarray]:
        """`Σ_x α(x) K_c(x,x')` for each emitter."""
        return [_product(messages, matrix) for matrix in self.matrices]

    def emitted(self, moved: list[np.ndarray], level: Extension) -> np.ndarray:
        """Forward messages of a level from the moved messages of the level before."""
        shape = moved[0].shape
        children = np.empty((*shape[: self.axis], len(level.parent), *shape[self.axis + 1 :]))
        for event, begin, end in level.segments:
            here, empty = children[self._at(slice(begin, end))], True
            for rows, emitter in zip(moved, self.emitters, strict=True):
                if emitter.emits[event]:
                    # Into its place at once: a copy in between costs as much as the product with the matrix.
                    part = here if empty and self.axis == 0 else None
                    part = rows.take(level.parent[begin:end], axis=self.axis, out=part, mode="clip")
                    part *= emitter.by_event[event]
                    if part is not here:
                        np.copyto(here, part) if empty else np.add(here, part, out=here)
                    empty = False
            if empty:
                here[...] = 0.0
        return children

    def forward(self, messages: np.ndarray, level: Extension) -> np.ndarray:
        """Forward messages of a level from those of the level before."""
        return self.emitted(self.moved(messages), level)

    def pull_forward(self, messages: np.ndarray, level: Extension, slope: np.ndarray, add: Add | None) -> np.ndarray:
        """The adjoint of `forward`: the gradient in the parents' messages, from the gradient in the level's."""
        result = None
        for number, matrix, emitter in self._emitting(level):
            inside = np.zeros(messages.shape)
            self._scatter(inside, level, slope, emitter, fresh=True)
            found = _product(inside, _turned(matrix))
            result = found if result is None else np.add(result, found, out=result)
            if add is not None:
                add(number, messages, inside)
        return np.zeros(messages.shape) if result is None else result

    def backward(self, messages: np.ndarray, level: Extension) -> np.ndarray:
        """Backward messages of a level from those of the level before, which lies one step later."""
        result = None
        for _, matrix, emitter in self._emitting(level):
            found = _product(self._gather(messages, level, emitter), _turned(matrix))
            result = found if result is None else np.add(result, found, out=result)
        return np.zeros(messages[self._at(level.parent)].shape) if result is None else result

    def pull_backward(
        self,
        messages: np.ndarray,
        level: Extension,
        slope: np.ndarray,
        add: Add | None,
        into: np.ndarray | None = None,
    ) -> np.ndarray:
        """The adjoint of `backward`: the gradient in the parents' messages, added to `into`, from that in the level's."""
        result = np.zeros(messages.shape) if into is None else into
        for number, matrix, emitter in self._emitting(level):
            self._scatter(result, level, _product(slope, matrix), emitter)
            if add is not None:
                add(number, slope, self._gather(messages, level, emitter))
        return result

    def _emitting(self, level: Extension) -> Iterator[tuple[int, Matrix, Emitter]]:
        """The emitters that can emit some event of a level, by number; the others have no part in it."""
        for number, (matrix, emitter) in enumerate(zip(self.matrices, self.emitters, strict=True)):
            if any(emitter.emits[event] for event, _, _ in level.segments):
                yield number, matrix, emitter

    def _gather(self, messages: np.ndarray, level: Extension, emitter: Emitter) -> np.ndarray:
        """`B_c(e,x') β(x')` of the nodes of a level."""
        rows = messages[self._at(level.parent)]
        for event, begin, end in level.segments:
            rows[self._at(slice(begin, end))] *= emitter.by_event[event]
        return rows

    def _scatter(
        self, into: np.ndarray, level: Extension, rows: np.ndarray, emitter: Emitter, *, fresh: bool = False
    ) -> None:
        """Add `B_c(e,x') · row` of each node of a level to its parent; `fresh`: the parents hold zeros."""
        for event, begin, end in level.segments:
            if emitter.emits[event]:
                parents = self._at(level.parent[begin:end])
                added = rows[self._at(slice(begin, end))] * emitter.by_event[event]
                if fresh:
                    into[parents] = added
                else:
                    into[parents] += added
                fresh = False

    def _at(self, nodes: slice | np.ndarray) -> tuple:
        return (slice(None),) * self.axis + (nodes,)


def adder(slopes: Slopes | None, time: int) -> Add | None:
    """What a step hands its gradients to, for a chain's own transitions at a time."""
    if slopes is None:
        return None

    def add(emitter: int, left: np.ndarray, right: np.ndarray) -> None:
        size = left.shape[-1]
        slopes.add(time, emitter, left.reshape(-1, size), right.reshape(-1, size))

    return add


def _product(messages: np.ndarray, matrix: Matrix) -> np.ndarray:
    if isinstance(matrix, np.ndarray) and matrix.ndim > 2:
        return np.matmul(messages, matrix)
    return (messages.reshape(-1, messages.shape[-1]) @ matrix).reshape(messages.shape)


def _turned(matrix: Matrix) -> Matrix:
    return matrix.swapaxes(-1, -2) if isinstance(matrix, np.ndarray) else matrix.T
