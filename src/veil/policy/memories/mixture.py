"""A private coin, tossed at the start, that chooses one of several tables."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from ...problem.keys import Key
from ...problem.problem import Problem
from ...problem.registers import Numbers, Register
from .memory import Memory, clock_key, several

_MOST_TABLES = 1000  # beyond, a row of a table has more entries than any problem could use


@dataclass(frozen=True)
class Mixture(Memory):
    """A private coin, tossed with the first decision and hidden from the observer, chooses one of k tables for the whole run.

    The joint law of secret and observations is linear in the weights of the coin, so a mixture of policies that meet linear
    constraints meets them too, and hides at least the mean of what they hide. At the first decision the policy is a
    distribution over pairs (action, table); later the table stays. The weights may depend on the row in which the run begins.

    **Arguments:** `tables` ≥ 1; `clock`, whether the tables also depend on the time.
    """

    kind = "mixture"
    keys = (
        Key(
            "mixture",
            int,
            "A private coin, tossed at the start, chooses one of this many tables.",
            least=1,
            most=_MOST_TABLES,
        ),
        clock_key(False),
    )

    needs_states = False

    tables: int = 2
    clock: bool = False

    def __post_init__(self) -> None:
        self.check_number("tables", most=_MOST_TABLES)

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"a coin that chooses one of {several(self.tables, 'table')}"

    def register(self, problem: Problem) -> "_CoinRegister":
        """The table that was chosen."""
        return _CoinRegister(self.tables)


class _CoinRegister(Register):
    """`Mixture` of a problem: 0 until the coin is tossed, then the number of the table, from 1."""

    def __init__(self, tables: int):
        self.size = self.nodes = tables + 1

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(state)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(memory)

    def choices(self, memory: Numbers) -> Bool[np.ndarray, "n nodes"]:
        nodes = np.arange(self.nodes)
        return np.where(memory[:, None] > 0, nodes == memory[:, None], nodes > 0)

    def name(self, memory: int) -> str:
        return f"table {memory}" if memory else "coin not tossed"

    def coarser(self, memory: Numbers, smaller: Register) -> Numbers | None:
        # Tables beyond those of the smaller mixture are never chosen; they act as copies.
        if not isinstance(smaller, _CoinRegister) or smaller.size > self.size:
            return None
        return np.where(memory > 0, (memory - 1) % (smaller.size - 1) + 1, 0)
