"""Policies with a finite memory: a table over (what the agent can tell, what it remembers), with or without a clock."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.errors import InputError, PolicyFileError, VeilError
from ..common.logs import natural_log
from ..problem.problem import Problem
from .files import save_table
from .lift import lifted_table
from .memories import CHOICES, Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from .player import Player
from .recall import recall
from .tables import MARKOV, TIMED, Policy, check_table, softmax_table, uniform_table

_KINDS: dict[str, type[Memory]] = {
    "observations": ObservationMemory,
    "states": StateMemory,
    "zones": ZoneMemory,
    "controller": Controller,
}


class MemoryPolicy:
    """`π(a | what the agent can tell, what it remembers)`, at each time the same or, with a clock, its own.

    **Arguments:**

    - `memory`: an `ObservationMemory`, `StateMemory`, `ZoneMemory` or `Controller`.
    - `probabilities`: `(C', A')`, or `(T, C', A')` where `memory.clock`; each row a distribution. The rows are the pairs
      (row of the problem, memory) that some policy can reach, in order: `MemoryPolicy.row_names(problem, memory)`. The
      entries of a row are the actions; of a `Controller` the pairs (action, next node), `a · nodes + node`.

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    def __init__(self, memory: Memory, probabilities: Any):
        if not isinstance(memory, Memory):
            raise InputError("memory policy", [f"memory is {memory!r}, expected one of {CHOICES}"])
        self.memory = memory
        axes = TIMED if memory.clock else MARKOV
        self.probabilities: Float[np.ndarray, "*T C A"] = check_table(probabilities, axes, "memory policy")
        self._player: Player | None = None

    @classmethod
    def uniform(cls, problem: Problem, memory: Memory) -> "MemoryPolicy":
        """Each available action with the same probability, whatever is remembered; the next node likewise."""
        rows = recall(problem, memory)
        table = uniform_table(rows)
        return cls(rows.memory, np.tile(table, (problem.horizon, 1, 1)) if memory.clock else table)

    @classmethod
    def softmax(cls, theta: Any, problem: Problem, memory: Memory) -> "MemoryPolicy":
        """`π ∝ exp θ` over the available actions; theta has the shape of `probabilities`."""
        rows = recall(problem, memory)
        return cls(rows.memory, softmax_table(theta, rows, TIMED if memory.clock else MARKOV))

    @classmethod
    def lift(cls, problem: Problem, memory: Memory, policy: Policy) -> "MemoryPolicy":
        """The policy with this memory that plays like a given one with less.

        A Markov policy can be lifted to any memory, one with a clock to any memory with a clock; a window to a longer
        one, zones to more zones, a controller to one with more nodes. A controller lifted from a policy without nodes
        chooses its next node uniformly.

        **Raises:** `InputError` where this memory does not tell what the policy needs to know.
        """
        table = lifted_table(problem, memory, policy)
        return cls(recall(problem, memory).memory, table if memory.clock else table[0])

    @staticmethod
    def row_names(problem: Problem, memory: Memory) -> tuple[str, ...]:
        """What each row of a table is for."""
        return recall(problem, memory).cell_names

    @property
    def timed(self) -> bool:
        """Whether each decision has a table of its own."""
        return self.memory.clock

    @property
    def table(self) -> Float[np.ndarray, "T C A"]:
        """The probabilities, with a time axis of length one where there is no clock."""
        return self.probabilities if self.timed else self.probabilities[None]

    def logits(self) -> Float[np.ndarray, "*T C A"]:
        """Parameters θ with `softmax(θ)` equal to this policy: `ln π`, -inf at zeros."""
        return natural_log(self.probabilities)

    def start(self, problem: Problem, seed: int = 0, *, model: int | None = None) -> Player:
        """Begin a run: the player that is returned keeps what the agent remembers; `act` of the policy uses the newest.

        **Arguments:** `seed` of the player's choices; `model`: the index of the model that runs, where the agent knows it.

        **Raises:** `InputError` where the policy does not fit the problem.
        """
        self._player = Player(problem, self, seed=seed, model=model)
        return self._player

    def act(self, state: str | int, observation: Any = None) -> int:
        """The next action, by index, in the run that `start` began; see `Player.act`."""
        if self._player is None:
            raise VeilError("no run has begun: call policy.start(problem) before policy.act(state)")
        return self._player.act(state, observation)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all; its memory is stored with it."""
        save_table(path, "memory " + memory_to_text(self.memory), self.probabilities)

    def __repr__(self) -> str:
        return f"MemoryPolicy({self.memory.describe()}: {self.table.shape[1]} rows, {self.table.shape[2]} entries each)"


def memory_to_text(memory: Memory) -> str:
    """A memory as one line of JSON, the same for the same memory."""
    (kind,) = [kind for kind, cls in _KINDS.items() if isinstance(memory, cls)]
    return json.dumps({"kind": kind, **vars(memory)}, sort_keys=True, separators=(",", ":"))


def memory_from_text(text: str, path: str | Path) -> Memory:
    """The memory that `memory_to_text` wrote down; raises `PolicyFileError` on anything else."""
    try:
        found = json.loads(text)
        kind = _KINDS[found.pop("kind")]
        expected = sorted(field.name for field in fields(kind))
        if sorted(found) != expected:
            raise ValueError(f"its fields are {sorted(found)}, expected {expected}")
        return kind(**found)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise PolicyFileError(f"{path} holds a policy whose memory cannot be read ({error}): {text!r}") from None
