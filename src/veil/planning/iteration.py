"""What `search` runs: a method as a sequence of states over tables, which can be stopped and resumed anywhere."""

from abc import abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, Progress


class SavedState:
    """The part of a state that a checkpoint needs: a dataclass of numbers and arrays as arrays, and back.

    A field may also be a list of arrays of one shape, or a dictionary of arrays of any type, whose names are then `field/name`.
    """

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields as arrays."""
        assert is_dataclass(self)
        found: dict[str, np.ndarray] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, dict):
                found |= {f"{one.name}/{name}": np.asarray(array) for name, array in value.items()}
            elif isinstance(value, (list, tuple)):
                found[one.name] = (
                    np.stack([np.asarray(array, dtype=float) for array in value]) if value else np.zeros(0)
                )
            else:
                found[one.name] = np.asarray(value, dtype=float)
        return found

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray]) -> Self:
        """The state of such arrays; whole numbers and numbers are those that their fields declare."""
        assert is_dataclass(cls)
        found: dict[str, object] = {}
        for one in fields(cls):
            kind = str(one.type)
            if kind.startswith("dict"):
                first = f"{one.name}/"
                found[one.name] = {
                    name[len(first) :]: array for name, array in arrays.items() if name.startswith(first)
                }
            elif kind.startswith("Sequence") or "Sequence[" in kind:
                found[one.name] = list(arrays[one.name])
            else:
                kind = one.type
                found[one.name] = kind(arrays[one.name]) if kind in (int, float) else arrays[one.name]
        return cls(**found)


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchState(SavedState):
    """Where a method stands. Everything that the next state depends on can be written to a checkpoint as arrays.

    **Attributes:** `iteration`: how many were made; `best`: the best feasible table so far, the one nearest to feasibility
    where none is feasible; `best_multiplier`: the multipliers of the scaled constraints that go with it; `best_score`: -inf
    where it is not feasible; `ends`: what each start was worth where it ended, and its return in units of its range, no row
    where there was one start; `history`: one row for each iteration, as `History.of` takes them.
    """

    iteration: int
    best: Float[np.ndarray, "T C A"]
    best_multiplier: Float[np.ndarray, " K"]
    best_score: float
    ends: Float[np.ndarray, "n 2"]
    history: Float[np.ndarray, "k 6+K"]

    def told(
        self,
        clock: Clock,
        phase: str,
        total: int,
        bits: float,
        returns: float,
        price: float,
        step: float,
        *prices: float,
    ) -> Self:
        """With one more row of history, which the progress says too."""
        clock.report(Progress(phase, self.iteration, total, bits, returns, price, clock.spent))
        row = (self.iteration, bits, returns, price, step, clock.spent, *prices)
        return replace(self, history=np.vstack([self.history, row]))


S = TypeVar("S", bound=SearchState)


class Iteration(Protocol[S]):
    """A method for one task. The same arguments give the same states, and each depends on the one before alone."""

    @abstractmethod
    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> S:
        """The state before the first iteration; `known`: further tables that may be the answer."""

    @abstractmethod
    def advance(self, state: S) -> S:
        """The state one iteration later."""

    @abstractmethod
    def is_done(self, state: S) -> bool:
        """Whether the method has ended by itself."""

    @abstractmethod
    def unpack(self, arrays: dict[str, np.ndarray]) -> S:
        """The state of the arrays in a checkpoint; raises `KeyError`, `TypeError` or `ValueError` where they are none."""

    @abstractmethod
    def candidates(self, state: S) -> Float[np.ndarray, "B T C A"]:
        """Tables that may be the answer, the best known among them."""

    @abstractmethod
    def met(self, state: S) -> list[Any]:
        """Tables that the search met beside them."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """The options of the method as they are used, defaults filled in."""
