"""What a solver searches: a class of policies as tables over one hidden chain, quick enough for an inner loop."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.errors import InputError, TooLargeError
from ..engine.additive import expected_sums, sums_and_gradients
from ..engine.chain import Chain
from ..engine.compile import build
from ..engine.hidden import Hidden, keep_observed, observed
from ..engine.paid import Paid
from ..engine.return_range import averaged_table, normalised
from ..engine.string_walk import StringBatch
from ..policy.lift import lifted_table
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..policy.memories import Memory, choices
from ..policy.memory import MemoryPolicy
from ..policy.policy import Policy
from ..policy.recall import recall
from ..policy.tables import uniform_table
from ..policy.tabular import table_policy
from ..problem.problem import Problem
from .backend import Tables
from .device_layout import Layout
from .layers import Layers

if TYPE_CHECKING:
    from .device_layers import DeviceLayers

Table = Float[np.ndarray, "T C A"]
"""Of a policy: for each time, or for all, a distribution of actions in each cell."""


@dataclass(frozen=True, eq=False)
class Space:
    """All policies of one class for one problem: tables `(T|1, C, A)` that drive one hidden chain.

    **Attributes:** `memory`, as it was asked for; `hidden`: the chain, in product with what the agent remembers;
    `stationary`: whether one table serves all times; `shape` of a table; `available`, `(C, A)`: which entries of a row
    may be positive; `describe`: the class in words; `needs_observations`: whether the agent must see what the observer
    sees to play such a policy; `on_device`: how searches on samples are laid out on JAX's device, None for NumPy.
    """

    problem: Problem
    memory: "str | Memory"
    hidden: Hidden
    stationary: bool
    shape: tuple[int, int, int]
    available: Bool[np.ndarray, "C A"]
    describe: str
    needs_observations: bool
    on_device: Layout | None = None
    rows: Int[np.ndarray, " C"] | None = None

    def on_reachable_rows(self) -> "Space":
        """The class without the rows of states that no run reaches within the horizon: from one start of a grid of a million
        states, 5,000 are reached in a hundred decisions.
        """
        if isinstance(self.memory, Memory) or not self.is_large:
            return self
        smaller = observed(self.hidden)
        rows = np.unique(np.concatenate([self.hidden.cell, smaller.cell]))
        if len(rows) == self.hidden.num_cells:
            return self

        def renumbered(hidden: Hidden) -> Hidden:
            return replace(hidden, cell=np.searchsorted(rows, hidden.cell), num_cells=len(rows))

        hidden = renumbered(self.hidden)
        if smaller is not self.hidden:
            keep_observed(hidden, renumbered(smaller))
        shape = (self.shape[0], len(rows), self.shape[2])
        return replace(self, hidden=hidden, shape=shape, rows=rows, available=self.available[rows])

    @property
    def is_large(self) -> bool:
        """Whether searches leave out rows of a table that nothing within the horizon depends on."""
        return self.hidden.kernel.is_sparse and self.problem.return_over != "infinite"

    def chain(self, table: Table) -> Chain:
        """The hidden chain under a table, which is not checked."""
        return Chain(self.hidden, table, stationary=self.stationary)

    def visits(self, table: Table) -> Float[np.ndarray, "T C"]:
        """How often a run is expected in each row of a table."""
        found = np.zeros(self.shape[:2])
        for time, occupied in enumerate(self.chain(table).occupancies[: self.hidden.horizon]):
            np.add.at(found[0 if self.stationary else time], self.hidden.cell, occupied)
        return found

    @cached_property
    def layers(self) -> "Layers | DeviceLayers":
        """The passes of searches on samples."""
        if self.on_device is None:
            return Layers(self.hidden)
        from .device_layers import DeviceLayers

        return DeviceLayers(self.hidden, self.on_device)

    @cached_property
    def _summed(self) -> list[tuple[Hidden, Paid]]:
        """For each quantity the chain on which it is summed, and what is paid on it: without formulas if it needs none."""
        found, smaller = [(self.hidden, one) for one in self.hidden.paid], observed(self.hidden)
        if smaller is not self.hidden:
            plain = [number for number, one in enumerate(self.problem.quantities) if one.register is None]
            for number, one in zip(plain, smaller.paid, strict=True):
                found[number] = smaller, one
        return found

    def sums(
        self, tables: Tables, numbers: Sequence[int], *, starts: Float[np.ndarray, "B N"] | None = None
    ) -> Float[np.ndarray, "K B"]:
        """The expected sums of some quantities, by their numbers, for each table."""
        return self.summed(tables, numbers, gradient=False, starts=starts)[0]

    def summed(
        self,
        tables: Tables,
        numbers: Sequence[int],
        *,
        gradient: bool = True,
        starts: Float[np.ndarray, "B N"] | None = None,
    ) -> tuple[Float[np.ndarray, "K B"], list[Any]]:
        """The same with their gradients in the tables, one for each number; None where they are not asked for."""
        if self.on_device is not None and starts is None:
            layers: Any = self.layers
            return layers.summed(tables, numbers, gradient=gradient)
        values, gradients = np.empty((len(numbers), len(tables))), list[Any]([None] * len(numbers))
        given: dict[str, Any] = {"stationary": self.stationary, "starts": starts}
        chosen = [self._summed[one] if starts is None else (self.hidden, self.hidden.paid[one]) for one in numbers]
        for hidden in {id(one): one for one, _ in chosen}.values():
            places = [place for place, (one, _) in enumerate(chosen) if one is hidden]
            paid = [chosen[place][1] for place in places]
            if not gradient:
                values[places] = expected_sums(hidden, tables, paid, **given)
                continue
            values[places], each = sums_and_gradients(hidden, tables, paid, **given)
            for place, found in zip(places, each, strict=True):
                gradients[place] = found
        return values, gradients

    def softmax(self, theta: Table) -> Table:
        """`π ∝ exp θ` over the available actions; -inf gives an exact zero. Nothing is checked."""
        open_theta = np.where(self.available, theta, -np.inf)
        weights = np.exp(open_theta - open_theta.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights

    def policy(self, table: Table) -> MarkovPolicy | TimedPolicy | MemoryPolicy:
        """The policy of a table; raises `InputError` where a row is not a distribution."""
        if self.rows is not None:
            whole = np.tile(uniform_table(self.problem), (len(table), 1, 1))
            whole[:, self.rows] = table
            table = whole
        rows = table[0] if self.stationary else table
        if isinstance(self.memory, Memory):
            return MemoryPolicy(self.memory, rows)
        return MarkovPolicy(rows) if self.stationary else TimedPolicy(rows)

    def table_of(self, policy: Policy) -> Table:
        """The table with which this class plays like a policy of the same class or a smaller one.

        **Raises:** `InputError` where the policy does not fit the problem or this class cannot play like it.
        """
        if isinstance(self.memory, Memory):
            return lifted_table(self.problem, self.memory, policy)
        policy = table_policy(policy, self.problem)
        policy.check(self.problem)
        table, smaller = policy.table, policy.memory
        table = table if self.rows is None else table[:, self.rows]
        if isinstance(smaller, Memory):
            raise InputError("policy", [f"it has {smaller.name}, which {self.describe} have not: use its memory"])
        if not policy.timed:
            return table if self.stationary else np.tile(table, (self.shape[0], 1, 1))
        if self.stationary:
            raise InputError("policy", [f"it depends on the time, and {self.describe} do not: use memory='timed'"])
        return table

    def table_of_flows(self, played: Problem, flows: Iterable[tuple[Any, Float[np.ndarray, "n A"]]]) -> Table:
        """The table whose policy takes each action as often as flows in the problem of an agent that sees its state do.

        **Arguments:** `played`: that problem; `flows`: at each time some of its hidden states, and the flows of their actions.
        """
        given, problem, hidden = self.problem, self.problem.informed, build(played)
        by_cell, even = np.zeros((problem.horizon, hidden.num_cells, problem.num_actions)), uniform_table(problem)
        for found, (states, flow) in zip(by_cell, flows, strict=False):
            np.add.at(found, hidden.cell[states], flow)
        restricted = self.rows is not None and given.agent.sees_state
        if restricted:  # the rows that are searched alone: a hundredth of all, perhaps
            by_cell, even = by_cell[:, self.rows], even[self.rows]
        stationary = normalised(by_cell.sum(axis=0), even)
        timed = np.stack([normalised(one, stationary) for one in by_cell])
        if restricted:
            return stationary[None] if self.stationary else timed
        if self.stationary:
            table = stationary if given.agent.sees_state else averaged_table(given, timed).mean(axis=0)
            return self.table_of(MarkovPolicy(table))
        return self.table_of(TimedPolicy(averaged_table(given, timed)))


def make_space(problem: Problem, memory: "str | Memory" = "markov") -> Space:
    """The class of policies that `memory` names.

    **Arguments:** `memory`: `"markov"` (one table for all times), `"timed"` (a table for each decision), or an
    `ObservationMemory`, `StateMemory`, `ZoneMemory` or `Controller`.

    Cost: that of the hidden chain, in product with the memory; it is built once for each problem and memory.

    **Raises:** `InputError` on anything else and where the problem does not allow the memory; `TooLargeError`.
    """
    if isinstance(memory, Memory):
        found = recall(problem, memory)
        clock = " and a clock" if memory.clock else ""
        words, hidden, available = f"policies with {memory.name}{clock}", build(problem, memory), found.available
        memory, stationary, needs = found.memory, not memory.clock, memory.needs_observations
    elif isinstance(memory, str) and memory in ("markov", "timed"):
        stationary, needs = memory == "markov", False
        words = "stationary Markov policies" if stationary else "time-dependent policies"
        words += "" if problem.agent.sees_state else " on the newest reading"
        hidden, available = build(problem, memory), problem.available
    else:
        raise InputError("memory", [f"it is {memory!r}, expected 'markov', 'timed', or one of {choices()}"])
    return Space(
        problem=problem,
        memory=memory,
        hidden=hidden,
        stationary=stationary,
        shape=(1 if stationary else problem.horizon, *available.shape),
        available=available,
        describe=words,
        needs_observations=needs,
    )


def any_table(space: Space) -> Table:
    """A table with no symmetry: under the uniform one histories may tell the same, which they do under no other."""
    weights = space.available * np.random.default_rng(0).uniform(1, 2, space.shape)
    return weights / weights.sum(axis=-1, keepdims=True)


def all_strings(space: Space, seconds: float) -> StringBatch | None:
    """All strings of an observer without a clock; None if they are too many, or take more than the seconds of work."""
    try:
        return StringBatch(space.hidden, space.available, stationary=space.stationary, most_seconds=seconds)
    except TooLargeError:
        return None


def smaller_classes(memory: "str | Memory") -> "tuple[str, ...]":
    """The classes without memory that a class contains, smaller ones first: stationary, then time-dependent policies."""
    if not isinstance(memory, Memory):
        return ("markov",) if memory == "timed" else ()
    return ("markov", "timed") if memory.clock else ("markov",)


def memory_words(memory: "str | Memory") -> str:
    """A memory as it is written to files: its name, or how it is made in Python."""
    return memory if isinstance(memory, str) else repr(memory)
