"""Policies with a finite memory: a table over what the agent knows and what it remembers, time-dependent or not."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ..common.checks import SUM_TOLERANCE, Defects, is_number
from ..common.errors import InputError, PluginError, PolicyFileError
from ..common.json_text import parse_json
from ..problem.problem import Problem
from .lift import lifted_table, mixed_table
from .memories import Memory, Mixture, choices
from .memories.registry import MEMORIES
from .policy import Policy
from .recall import recall
from .tables import MARKOV, TIMED, softmax_table, uniform_table
from .tabular import TablePolicy


class MemoryPolicy(TablePolicy):
    """`π(a | row of the problem, memory)`, the same at all times or, if `memory.clock`, one for each time.

    **Arguments:**

    - `memory`: an `ObservationMemory`, `StateMemory`, `ZoneMemory`, `Controller`, `Mixture`, or the `Memory` of another
      package.
    - `probabilities`: `(C', A')`, or `(T, C', A')` if `memory.clock`; each row a distribution. The rows are the pairs
      (row of the problem, memory) that some policy can reach, in order: `MemoryPolicy.row_names(problem, memory)`. The
      entries of a row are the actions; of a `Controller` the pairs (action, next node), `a · nodes + node`, and of a
      `Mixture` the pairs (action, table), with table 0 before the coin is tossed.

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
        """Whether each decision has a separate table."""
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
        longer one, zones to more zones, a controller to one with more nodes, a mixture to one of more tables. A controller
        lifted from a policy without nodes chooses its next node uniformly, and a mixture its table.

        **Raises:** `InputError` if this memory does not determine what the policy depends on.
        """
        table = lifted_table(problem, memory, policy)
        return cls(recall(problem, memory).memory, table if memory.clock else table[0])

    @classmethod
    def mixture(cls, problem: Problem, policies: Sequence[tuple[Policy, float]]) -> "MemoryPolicy":
        """The policy with a `Mixture` whose private coin chooses one of several, time-dependent if one of them is.

        **Arguments:** `policies`: pairs (policy, weight) of Markov and time-dependent policies; the weights sum to 1.

        **Raises:** `InputError` if a policy does not fit or has a memory, or the weights are no distribution.
        """
        defects = Defects("mixture")
        for number, (one, weight) in enumerate(policies):
            if not isinstance(one, TablePolicy) or isinstance(one.memory, Memory):
                defects.add(f"policy {number} is {one!r}, expected a MarkovPolicy or a TimedPolicy")
            if not is_number(weight) or not weight >= 0:
                defects.add(f"weight {number} is {weight!r}, expected a number, 0 or more")
        defects.raise_if_any()
        total = sum(weight for _, weight in policies)
        if abs(total - 1) > SUM_TOLERANCE:
            raise InputError("mixture", [f"the weights sum to {total!r}, expected 1"])
        found = [one for one, _ in policies if isinstance(one, TablePolicy)]
        timed = any(one.timed for one in found)
        for one in found:
            one.check(problem)
        tables = [
            np.tile(one.table, (problem.horizon, 1, 1)) if timed and not one.timed else one.table for one in found
        ]
        memory = Mixture(len(tables), clock=timed)
        table = mixed_table(problem, memory, tables, [weight for _, weight in policies])
        return cls(recall(problem, memory).memory, table if timed else table[0])

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
