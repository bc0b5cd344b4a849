"""A finite controller, whose next node the policy chooses."""

from dataclasses import dataclass

import numpy as np

from ...problem.keys import Key
from ...problem.problem import Problem
from ...problem.registers import Numbers, Register
from .memory import Memory, clock_key, several

_MOST_NODES = 10_000  # beyond, a row of a table has more entries than any problem could use


@dataclass(frozen=True)
class Controller(Memory):
    """A finite controller: the policy chooses its next node together with the action, hidden from the observer.

    The policy is a distribution over pairs (action, next node), given the node and the row of the problem. It starts in
    node 0.

    **Arguments:** `nodes` ≥ 1; `clock`, whether the table also depends on the time.
    """

    kind = "controller"
    keys = (
        Key(
            "controller",
            int,
            "A controller with this many nodes, whose meaning is found by the search.",
            least=1,
            most=_MOST_NODES,
        ),
        clock_key(False),
    )

    needs_states = False

    nodes: int = 2
    clock: bool = False

    def __post_init__(self) -> None:
        self.check_number("nodes", most=_MOST_NODES)

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"a controller of {several(self.nodes, 'node')}"

    def register(self, problem: Problem) -> "_NodeRegister":
        """The node."""
        return _NodeRegister(self.nodes)


class _NodeRegister(Register):
    """`Controller` of a problem."""

    def __init__(self, nodes: int):
        self.size = self.nodes = nodes

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(state)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(memory)

    def name(self, memory: int) -> str:
        return f"node {memory}"

    def coarser(self, memory: Numbers, smaller: Register) -> Numbers | None:
        # Nodes beyond those of the smaller controller are never entered; they act as copies.
        return memory % smaller.size if isinstance(smaller, _NodeRegister) and smaller.size <= self.size else None
