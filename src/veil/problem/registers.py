"""Registers: finite memories that follow the states of a run, and several of them as one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from ..common.errors import TooLargeError
from ..common.values import Value

_MOST_PLACES = 2**24  # pairs of a value of the product and a state: a table of 128 MiB


@dataclass(frozen=True, eq=False, repr=False)
class Register(Value):
    """A memory with the values `0 … M-1`: `start[s_0]` at time 0, then `step[m, s']` on entering `s'`.

    The memory of a secret, the automaton of a formula and what the agent knows beside its state are registers. `names` are
    for people: two registers are the same if their numbers are.
    """

    start: Int[np.ndarray, " S"]
    step: Int[np.ndarray, "M S"]
    names: tuple[str, ...]

    @classmethod
    def empty(cls, num_states: int) -> "Register":
        """The register that remembers nothing."""
        return cls(np.zeros(num_states, dtype=int), np.zeros((1, num_states), dtype=int), ("",))

    @property
    def size(self) -> int:
        """M, how many values it has."""
        return len(self.step)

    def at(self, state: Int[np.ndarray, " N"]) -> "Register":
        """The same register over larger states, of which each shows as one of the states here."""
        return Register(self.start[state], self.step[:, state], self.names)

    def equals(self, other: "Register") -> bool:
        """Whether both hold the same value on every run."""
        return self is other or (np.array_equal(self.start, other.start) and np.array_equal(self.step, other.step))


def product(parts: Sequence[Register]) -> tuple[Register, list[Int[np.ndarray, " M"]]]:
    """Several registers as one, whose value is the tuple of theirs; and the value of each part at each of its values.

    Of one register it is that register. Of several, only tuples that some sequence of states reaches are kept.

    **Raises:** `TooLargeError` if they need too large a table.
    """
    if len(parts) == 1:
        return parts[0], [np.arange(parts[0].size)]
    numbers: dict[tuple[int, ...], int] = {}
    kinds, start = np.unique(np.stack([one.start for one in parts], axis=1), axis=0, return_inverse=True)
    for kind in kinds.tolist():
        numbers[tuple(kind)] = len(numbers)
    found, step = list(numbers), []
    for values in found:  # grows while it is read
        after, inverse = np.unique(
            np.stack([one.step[value] for one, value in zip(parts, values, strict=True)], axis=1),
            axis=0,
            return_inverse=True,
        )
        row = []
        for kind in map(tuple, after.tolist()):
            if kind not in numbers:
                numbers[kind] = len(found)
                found.append(kind)
            row.append(numbers[kind])
        step.append(np.array(row)[inverse.ravel()])
        if len(parts[0].start) * len(found) > _MOST_PLACES:
            raise TooLargeError(f"{len(found):,} states or more need too large a table")
    places = np.array(found)
    names = tuple(
        "/".join(filter(None, (str(one.names[value]) for one, value in zip(parts, values, strict=True))))
        for values in found
    )
    return Register(start.ravel(), np.array(step), names), list(places.T)
