"""Several secrets over one model as one of time T, whose value is the tuple of theirs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from ..common.checks import Defects, Names
from ..common.errors import InputError, TooLargeError
from .model import Model
from .registers import product
from .secrets.secret import Secret, SecretTable

if TYPE_CHECKING:
    from .problem import Problem

MEMORY = "memory_start", "memory_step"
"""The entries of a secret's table that say what it remembers."""


@dataclass(frozen=True, eq=False, repr=False)
class Joined(Secret):
    """The secrets of some pairs over one model."""

    kind = "joined"

    secrets: tuple[Secret, ...]

    def tables(self, models: Sequence[Model], horizon: int) -> tuple[SecretTable, tuple[Int[np.ndarray, " Z"], ...]]:
        """Their table, and for each of them its value at each value of the tuple."""
        found = [one.resolve(models, horizon, Defects("secrets")) for one in self.secrets]
        return join_secrets([one for one in found if one is not None], horizon)

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable:
        """The table of the tuples."""
        return self.tables(models, horizon)[0]

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return "Which values have the secrets of several pairs?"

    def to_table(self, states: Names) -> dict[str, object]:
        """A scenario file has no form for it."""
        raise InputError(
            "secret", ["that of several pairs together has no form in files: save the problem of the pairs"]
        )


def join_secrets(tables: Sequence[SecretTable], horizon: int) -> tuple[SecretTable, tuple[Int[np.ndarray, " Z"], ...]]:
    """The tables of several secrets as one of time T, and the value of each secret at each value of the tuple.

    A secret that is settled before T is remembered: its value is then a state of the memory. Memories that are all the same
    stay one.

    Cost: the reachable tuples of memories, times the states. **Raises:** `InputError` where they are too many.
    """
    late = [_at_the_end(one, horizon) for one in tables]
    whole, labels = late[0], [one.label[0] for one in late]
    if not all(same_tables(one, whole, *MEMORY) for one in late):
        try:
            register, places = product([one.register for one in late])
        except TooLargeError as error:
            raise InputError("pairs", [f"the memories of their secrets together: {error}"]) from error
        labels = [label[place] for label, place in zip(labels, places, strict=True)]
        whole = replace(whole, memory_start=register.begins, memory_step=register.follows, memory_names=register.names)
    tuples = np.stack(labels, axis=-1)
    settled = (tuples >= 0).all(axis=-1)
    found, number = np.unique(tuples[settled], axis=0, return_inverse=True)
    label = np.full(settled.shape, -1)
    label[settled] = number.ravel()
    names = (
        " & ".join(one.value_names[value] for one, value in zip(late, values, strict=True)) for values in found.tolist()
    )
    return replace(whole, value_names=tuple(names), label=label[None]), tuple(found.T)


def same_tables(one: SecretTable, other: SecretTable, *names: str) -> bool:
    """Whether two secrets have the same entries of these names."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _at_the_end(table: SecretTable, horizon: int) -> SecretTable:
    """The same secret of one model, read at time T: the memory counts the time until it is settled, then holds its value."""
    time, (memories, states) = table.time, table.memory_step.shape
    if time == horizon:
        return table
    values, everywhere = len(table.value_names), np.arange(states)
    settled = np.where(table.label[0] < 0, values, table.label[0])  # the last memory: it has no value
    start = table.memory_start if time else settled[table.memory_start, everywhere]
    steps = [(when + 1) * memories + table.memory_step for when in range(time - 1)]
    steps += [time * memories + settled[table.memory_step, everywhere]] if time else []
    held = time * memories + np.repeat(np.arange(values + 1)[:, None], states, axis=1)
    label = np.full((len(held) + time * memories, states), -1)
    label[time * memories : -1] = np.arange(values)[:, None]
    counted = [f"{name} at {when}".strip() for when in range(time) for name in table.memory_names]
    return replace(
        table,
        time=horizon,
        label=label[None],
        memory_start=start,
        memory_step=np.concatenate([*steps, held]),
        memory_names=(*counted, *table.value_names, "no value"),
    )
