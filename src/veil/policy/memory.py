"""Policies with a finite memory: a table over what the agent knows and what it remembers, time-dependent or not."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import json
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..common.errors import InputError, PluginError, PolicyFileError
from ..common.text import parse_json
from ..problem.problem import Problem
from .lift import lifted_table
from .memories import Memory, choices
from .memories.registry import MEMORIES
from .policy import Policy
from .recall import recall
from .tables import MARKOV, TIMED, softmax_table, uniform_table
from .tabular import TablePolicy


class MemoryPolicy(TablePolicy):
    """`π(a | row of the problem, memory)`, the same at all times or, where `memory.clock`, one for each time.

    **Arguments:**

    - `memory`: an `ObservationMemory`, `StateMemory`, `ZoneMemory`, `Controller`, or the `Memory` of another package.
    - `probabilities`: `(C', A')`, or `(T, C', A')` where `memory.clock`; each row a distribution. The rows are the pairs
      (row of the problem, memory) that some policy can reach, in order: `MemoryPolicy.row_names(problem, memory)`. The
      entries of a row are the actions; of a `Controller` the pairs (action, next node), `a · nodes + node`.

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    _name = "memory policy"

    def __init__(self, memory: Memory, probabilities: ArrayLike):
        if not isinstance(memory, Memory):
            raise InputError(self._name, [f"memory is {memory!r}, expected one of {choices()}"])
        self._memory: Memory = memory
        super().__init__(probabilities)

    @property
    def memory(self) -> Memory:
        """What is remembered."""
        return self._memory

    @property
    def timed(self) -> bool:
        """Whether each decision has a table of its own."""
        return self._memory.clock

    @classmethod
    def uniform(cls, problem: Problem, memory: Memory) -> "MemoryPolicy":
        """Each available action with the same probability for every memory; the next node likewise."""
        rows = recall(problem, memory)
        table = uniform_table(rows)
        return cls(rows.memory, np.tile(table, (problem.horizon, 1, 1)) if memory.clock else table)

    @classmethod
    def softmax(cls, theta: ArrayLike, problem: Problem, memory: Memory) -> "MemoryPolicy":
        """`π ∝ exp θ` over the available actions; theta has the shape of `probabilities`."""
        rows = recall(problem, memory)
        return cls(rows.memory, softmax_table(theta, rows, TIMED if memory.clock else MARKOV))

    @classmethod
    def lift(cls, problem: Problem, memory: Memory, policy: Policy) -> "MemoryPolicy":
        """The policy with this memory that acts like a given one with less.

        A Markov policy can be lifted to any memory, a time-dependent one to any memory with `clock=True`; a window to a
        longer one, zones to more zones, a controller to one with more nodes. A controller lifted from a policy without
        nodes chooses its next node uniformly.

        **Raises:** `InputError` where this memory does not determine what the policy depends on.
        """
        table = lifted_table(problem, memory, policy)
        return cls(recall(problem, memory).memory, table if memory.clock else table[0])

    @staticmethod
    def row_names(problem: Problem, memory: Memory) -> tuple[str, ...]:
        """What each row of a table is for."""
        return recall(problem, memory).cell_names

    def describe(self) -> str:
        """The kind of policy in words."""
        return f"a policy with {self.memory.name}"

    def _file_kind(self) -> str:
        return "memory " + memory_to_text(self.memory)

    def _content(self) -> tuple[str, list[np.ndarray]]:
        kind = "timed" if self.timed else "markov"
        return f"{kind}, memory {memory_to_text(self.memory)}", [self.table]

    def _arguments(self) -> dict[str, object]:
        return {"memory": self.memory, "probabilities": self.probabilities}

    def __repr__(self) -> str:
        return f"MemoryPolicy({self.memory.describe()}: {self.table.shape[1]} rows, {self.table.shape[2]} entries each)"


def memory_to_text(memory: Memory) -> str:
    """A memory as one line of JSON, the same for the same memory."""
    return json.dumps(memory.content(), sort_keys=True, separators=(",", ":"))


def memory_document(memory: "Memory | str") -> object:
    """A memory as a JSON document: the word that stands for it, or its kind and its fields."""
    return memory if isinstance(memory, str) else json.loads(memory_to_text(memory))


def memory_from_text(text: str, path: str | Path) -> Memory:
    """The memory that `memory_to_text` wrote down; raises `PolicyFileError` on anything else."""
    try:
        found = parse_json(text)
        kind = MEMORIES.get(found.pop("kind"))
        expected = sorted(kind.field_names())
        if sorted(found) != expected:
            raise ValueError(f"its fields are {sorted(found)}, expected {expected}")
        return kind(**found)
    except (ValueError, KeyError, AttributeError, TypeError, PluginError) as error:
        raise PolicyFileError(f"{path} holds a policy whose memory cannot be read ({error}): {text!r}") from None
