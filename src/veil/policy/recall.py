"""The rows of a policy's table with memory: every pair of what the agent knows and remembers that some policy can reach."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from ..common.errors import InputError
from ..common.memo import memo
from ..problem.agent import Reading
from ..problem.problem import Problem
from ..problem.product import Product, explore
from ..problem.registers import NewestEvent, Register, TimeRegister
from .memories.memory import Memory, choices


@dataclass(frozen=True, eq=False)
class Recall:
    """What an agent with a memory can get into.

    A row of a policy's table is a pair `(row of the problem, memory)`, coded as `row · size + memory` and in that order.
    `product` has the hidden states behind the rows; its last register is the memory. `base_row`: the row of the problem of
    each.

    The actions are those of the model; if the agent chooses its next memory they are the pairs (action, next node),
    `a · nodes + node`.
    """

    memory: Memory
    register: Register
    product: Product
    base_row: Int[np.ndarray, " N"]
    base_available: Bool[np.ndarray, "c A"]
    base_cell_names: tuple[str, ...]
    base_action_names: tuple[str, ...]

    @cached_property
    def rows(self) -> tuple[Int[np.ndarray, " C"], Int[np.ndarray, " N"]]:
        """The codes of the table's rows, and the row of each hidden state."""
        codes, row = np.unique(self.base_row * self.register.size + self.product.parts[-1], return_inverse=True)
        return codes, row.ravel()

    @property
    def num_cells(self) -> int:
        """How many rows a table has."""
        return len(self.rows[0])

    @property
    def num_actions(self) -> int:
        """How many entries a row has."""
        return self.base_available.shape[1] * self.register.nodes

    @cached_property
    def available(self) -> Bool[np.ndarray, "C A"]:
        """Which entries of a row may be positive."""
        cell, memory = np.divmod(self.rows[0], self.register.size)
        found = self.base_available[cell][:, :, None] & self.register.choices(memory)[:, None]
        return found.reshape(len(cell), -1)

    @cached_property
    def cell_names(self) -> tuple[str, ...]:
        """The name of each row."""
        pairs = zip(*(part.tolist() for part in np.divmod(self.rows[0], self.register.size)), strict=True)
        return tuple(f"{self.base_cell_names[cell]} ({self.register.name(memory)})" for cell, memory in pairs)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """The name of each entry of a row."""
        if self.register.nodes == 1:
            return self.base_action_names
        return tuple(
            f"{name}, to {self.register.name(n)}" for name in self.base_action_names for n in range(self.register.nodes)
        )

    def find_row(self, cell: int, memory: int) -> int | None:
        """The row of a pair (row of the problem, memory); None if it cannot be reached."""
        codes, wanted = self.rows[0], cell * self.register.size + memory
        place = int(np.searchsorted(codes, wanted))
        return place if place < len(codes) and codes[place] == wanted else None


def recall(problem: Problem, memory: Memory) -> Recall:
    """What an agent with this memory can get into, in this problem.

    The registers of its hidden states are the time, if what is seen depends on it; the newest event, if the memory reads what
    the observer receives; and the memory.

    Cost: linear in the steps between the hidden states; found once for each problem and memory.

    **Raises:** `InputError` if the problem does not allow the memory; `TooLargeError` beyond two million hidden states.
    """
    if not isinstance(memory, Memory):
        raise InputError("memory", [f"it is {memory!r}, expected one of {choices()}"])
    memory = memory.resolve(problem)
    return memo(problem, (recall, memory), lambda: _recall(problem, memory))


def sensing(problem: Problem, *, reads: bool = False) -> list[Register]:
    """The registers behind what the agent sees: the time, if what is seen depends on it; the newest event; its reading.

    **Arguments:** `reads`: whether its memory reads what it receives.
    """
    agent, observer, reading = problem.agent, problem.observer, problem.reading
    reads = reads or reading is not None
    times = observer.varies or (reads and agent.sees is not None and agent.sees.varies)
    found: list[Register] = [TimeRegister(problem.horizon)] if times else []
    if reads and not agent.apart:
        events = observer.num_events(problem.num_actions)
        found.append(NewestEvent(events, observer.sees_actions))  # a first event comes without an action
    return found if reading is None else [*found, reading]


def base_rows(problem: Problem, product: Product) -> Int[np.ndarray, " N"]:
    """The row of the problem of each hidden state of a product with the registers of `sensing`."""
    model, held, state, *values = product.parts
    readings = [value for one, value in zip(product.registers, values, strict=True) if isinstance(one, Reading)]
    return problem.row_of(model, held, state, *readings)


def _recall(problem: Problem, memory: Memory) -> Recall:
    register = memory.register(problem)
    if register.reads_events and not memory.needs_observations:
        raise InputError("memory", [f"the register of {memory.name} reads events: set needs_observations on its class"])
    registers = [*sensing(problem, reads=register.reads_events), register]
    product = explore(problem, registers, memory.span(problem), memory.name)
    return Recall(
        memory=memory,
        register=register,
        product=product,
        base_row=base_rows(problem, product),
        base_available=problem.available,
        base_cell_names=problem.cell_names,
        base_action_names=problem.model.actions.all(),
    )
