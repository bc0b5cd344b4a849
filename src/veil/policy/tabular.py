"""Policies given by a table of action probabilities: what Markov, time-dependent and memory policies have in common."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..common.checks import Defects, check_shape
from ..common.logs import natural_log
from ..problem.problem import Problem
from .files import save_table
from .memories import Memory
from .player import TablePlayer
from .policy import Policy
from .recall import Recall, recall
from .tables import MARKOV, TIMED, check_table


class TablePolicy(Policy):
    """A policy with one table over (row, choice), or one for each decision.

    The rows are the states, or the pairs (what the agent knows, state) where the secret says that it knows more, or
    with a memory the pairs of these and what is remembered. `np.asarray(policy)` is `probabilities`.
    """

    _name: ClassVar[str]  # in messages, and in words for the class

    def __init__(self, probabilities: ArrayLike):
        axes = TIMED if self.timed else MARKOV
        self.probabilities: Float[np.ndarray, "*T C A"] = check_table(probabilities, axes, self._name)
        self._seal()

    @property
    def table(self) -> Float[np.ndarray, "T C A"]:
        """The probabilities with a leading axis of length T, or 1 where they do not depend on time."""
        return self.probabilities if self.timed else self.probabilities[None]

    def logits(self) -> Float[np.ndarray, "*T C A"]:
        """Parameters θ with `softmax(θ)` equal to this policy: `ln π`, -inf at zeros."""
        return natural_log(self.probabilities)

    def rows(self, problem: Problem) -> Problem | Recall:
        """What the rows of the table are for: the problem's own, or those with what is remembered."""
        return recall(problem, self.memory) if isinstance(self.memory, Memory) else problem

    def over(self, rows: Int[np.ndarray, " C"]) -> "TablePolicy | None":
        """See `Policy.over`; a policy with a memory has rows of its own."""
        return None if isinstance(self.memory, Memory) else type(self)(self.probabilities[..., rows, :])

    @property
    def needs_observations(self) -> bool:
        """Whether the agent must see what the observer sees to execute the policy."""
        return isinstance(self.memory, Memory) and self.memory.needs_observations

    def describe(self) -> str:
        """The kind of policy in words."""
        return f"a {self._name}"

    def check(self, problem: Problem) -> None:
        """Raise `InputError` where the table does not fit the problem or takes an action that is not available."""
        defects, table, rows = Defects("policy"), self.table, self.rows(problem)
        what = "its table (time, state, action)" if isinstance(rows, Problem) else "its table (time, row, entry)"
        if not check_shape(table, ("T", rows.num_cells, rows.num_actions), what, defects) and isinstance(rows, Recall):
            defects.add(
                f"its rows are not those of {rows.memory.name} in problem {problem.name!r}, which"
                " MemoryPolicy.row_names(problem, memory) lists: they depend on the states, the horizon and the observations"
            )
        if self.timed and len(table) != problem.horizon:
            defects.add(
                f"it has tables for {len(table)} steps, expected one for each of the {problem.horizon} decisions"
            )
        defects.raise_if_any()
        if rows.available.all():  # which spares large tables a comparison
            return
        cells, names = rows.cell_names, self.choice_names(problem)

        def taken(index: np.ndarray) -> str:
            time, cell, action = index.tolist()
            when = f" at time {time}" if self.timed else ""
            return (
                f"state {cells[cell]!r}{when} takes action {names[action]!r} with probability"
                f" {table[time, cell, action]:.6g}, expected 0: the action is not available there"
            )

        defects.add_each(np.argwhere((table > 0) & ~rows.available), taken)
        defects.raise_if_any()

    def choice_names(self, problem: Problem) -> tuple[str, ...]:
        """The names of the entries of a row."""
        rows = self.rows(problem)
        return rows.model.actions.all() if isinstance(rows, Problem) else rows.action_names

    def _player(self, problem: Problem, *, seed: int, model: int | None) -> TablePlayer:
        """Begin a run; see `Policy.player`. A policy without memory plays on in any state, possible or not."""
        self.check(problem)
        steps, rows = problem.horizon if self.timed else None, None
        if isinstance(self.memory, Memory):
            steps, rows = self.memory.span(problem), recall(problem, self.memory)
        return TablePlayer(problem, self.table, rows, timed=self.timed, steps=steps, seed=seed, model=model)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all; see `Policy.save`."""
        save_table(path, self._file_kind(), self.probabilities)

    def _file_kind(self) -> str:
        return "timed" if self.timed else "markov"

    def _content(self) -> tuple[str, Sequence[np.ndarray]]:
        return self._file_kind(), [self.table]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.probabilities, dtype=dtype, copy=copy)


def table_of(policy: Policy, problem: Problem) -> Float[np.ndarray, "T C A"]:
    """The table of a policy that has one and fits the problem; raises `InputError` otherwise."""
    table_policy(policy).check(problem)
    return table_policy(policy).table


def table_policy(policy: Policy, problem: Problem | None = None) -> TablePolicy:
    """The policy, if it is given by a table, or has one in the problem; raises `InputError` otherwise."""
    if problem is not None and isinstance(policy, Policy):
        policy = policy.on(problem)
    if isinstance(policy, TablePolicy):
        return policy
    defects = Defects("policy")
    kind = policy.describe() if isinstance(policy, Policy) else f"a {type(policy).__name__}"
    defects.add(f"it is {kind}, expected a policy given by a table: veil.MarkovPolicy(probabilities)")
    defects.raise_if_any()
    raise AssertionError
