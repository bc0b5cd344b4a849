"""The secrets `visited` and `first_reached`: which zones did the run pass through, and which of them first?"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from ...common.checks import Defects, distinct
from ..keys import Key, States
from ..model import Model
from .secret import Secret, SecretTable, State, membership, states_of

if TYPE_CHECKING:
    from ..problem import Problem

_MOST_ZONES = 12  # whose combinations are told apart


@dataclass(frozen=True, eq=False, repr=False)
class _Zones(Secret):
    """A secret about the zones that a run passes through: what both kinds have in common."""

    most_zones: ClassVar[int]
    question: ClassVar[str]

    zones: Mapping[str, Iterable[State]]
    agent_knows: bool = field(default=False, kw_only=True)

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """A memory of the zones so far; the label at time T is the memory."""
        before = len(defects)
        if not isinstance(self.zones, Mapping) or not 0 < len(self.zones) <= self.most_zones:
            found = f"{len(self.zones)} zones" if isinstance(self.zones, Mapping) else repr(self.zones)
            defects.add(f"found {found}, expected a mapping of 1 to {self.most_zones} names to states", "zones")
            return None
        inside = np.array([
            membership(models[0].states, states, defects.under("zones", name))
            for name, states in self.zones.items()
        ])  # fmt: skip
        if len(defects) > before:
            return None
        names, step = self._memory(inside)
        names = tuple(distinct(names))  # zones may be called "none", or "a and b" beside "a" and "b"
        return SecretTable(
            time=horizon,
            value_names=names,
            label=np.repeat(np.arange(len(names))[None, :, None], inside.shape[1], axis=2),
            memory_start=step[0],
            memory_step=step,
            memory_names=names,
            agent_knows=bool(self.agent_knows),
        )

    @abstractmethod
    def _memory(self, inside: Int[np.ndarray, "Q S"]) -> tuple[tuple[str, ...], Int[np.ndarray, "M S"]]:
        """The names of the memory's states, the first before anything was read, and their steps."""

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return self.question

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """The states of each zone."""
        return states_of(problem, self.zones)


_AGENT_KNOWS = Key("agent_knows", bool, "Whether the policy may depend on the zones visited so far.", False)


@dataclass(frozen=True, eq=False, repr=False)
class Visited(_Zones):
    """Which zones did the run pass through?

    **Arguments:** `zones`: a mapping from names to states, at most 12; the values of the secret are the sets of zones.
    `agent_knows`: whether the policy may depend on the zones visited so far.
    """

    kind = "visited"
    keys = (Key("zones", dict[str, States], "The zones: `name = states`.", most=_MOST_ZONES), _AGENT_KNOWS)
    most_zones = _MOST_ZONES
    question = "Which zones were visited?"

    def _memory(self, inside: Int[np.ndarray, "Q S"]) -> tuple[tuple[str, ...], Int[np.ndarray, "M S"]]:
        """The sets of zones that can have been visited, as bits, in the order of their numbers."""
        zones, bits = list(self.zones), 1 << np.arange(len(inside))
        entered = (bits[:, None] * inside).sum(axis=0)
        sets = {0}
        for here in np.unique(entered).tolist():
            sets |= {visited | here for visited in sets}
        known = np.array(sorted(sets))
        names = [
            " and ".join(zone for zone, bit in zip(zones, bits, strict=True) if one & bit) or "none" for one in known
        ]
        return tuple(names), np.searchsorted(known, known[:, None] | entered[None])


@dataclass(frozen=True, eq=False, repr=False)
class FirstReached(_Zones):
    """Which of several zones did the run reach first?

    **Arguments:** `zones`: a mapping from names to states; a state of several zones counts for the first of them.
    `agent_knows`: whether the policy may depend on it.
    """

    kind = "first_reached"
    keys = (Key("zones", dict[str, States], "The zones: `name = states`.", most=1000), _AGENT_KNOWS)
    most_zones = 1000
    question = "Which zone was reached first?"

    def _memory(self, inside: Int[np.ndarray, "Q S"]) -> tuple[tuple[str, ...], Int[np.ndarray, "M S"]]:
        """0 before any zone, then the number of the first."""
        entered = np.where(inside.any(axis=0), 1 + inside.argmax(axis=0), 0)
        numbers = np.arange(len(inside) + 1)
        return ("none", *self.zones), np.where(numbers[:, None] > 0, numbers[:, None], entered[None])
