"""Tables of action probabilities: checks, softmax and its adjoint, shared by all policies."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, as_floats, check_distributions, check_shape, frozen
from ..problem.problem import Problem
from .recall import Recall, recall

Axes = tuple[str, ...]
MARKOV: Axes = ("state", "action")
TIMED: Axes = ("time", "state", "action")


class Policy(Protocol):
    """What every policy offers: one table over (time or 1, what the agent tells apart, action)."""

    @property
    def table(self) -> Float[np.ndarray, "T C A"]:
        """The probabilities, with a leading axis of length T, or 1 when they do not depend on time."""
        ...


def check_table(probabilities: Any, axes: Axes, subject: str) -> np.ndarray:
    """The table as a read-only array; raises `InputError` unless every row is a distribution."""
    defects = Defects(subject)
    array = as_floats(probabilities, "probabilities", defects)
    if array is not None and check_shape(array, axes, "probabilities", defects):
        if 0 in array.shape[-2:]:
            defects.add(f"probabilities have shape {array.shape}, expected at least one state and one action")
        check_distributions(array, lambda *i: f"row {_place(axes, i)}", lambda *i: f"entry {_place(axes, i)}", defects)
    defects.raise_if_any()
    assert array is not None
    return frozen(array)


def check_fits(policy: Policy, problem: Problem) -> Float[np.ndarray, "T C A"]:
    """The policy's table; raises `InputError` where it does not fit the problem or takes an action not available."""
    table = getattr(policy, "table", None)
    defects = Defects("policy")
    if table is None:
        defects.add(f"it is a {type(policy).__name__}, expected a policy: veil.MarkovPolicy(probabilities)")
        defects.raise_if_any()
    assert table is not None
    rows = rows_of(policy, problem)
    what = "its table (time, state, action)" if isinstance(rows, Problem) else "its table (time, row, entry)"
    if not check_shape(table, ("T", rows.num_cells, rows.num_actions), what, defects) and isinstance(rows, Recall):
        defects.add(
            f"its rows are not those of {rows.memory.name} in problem {problem.name!r}, which"
            " MemoryPolicy.row_names(problem, memory) lists: they depend on the states, the horizon and the observations"
        )
    if not policy_is_stationary(policy) and len(table) != problem.horizon:
        defects.add(f"it has tables for {len(table)} steps, expected one for each of the {problem.horizon} decisions")
    defects.raise_if_any()
    actions = problem.model.actions.all() if isinstance(rows, Problem) else rows.action_names
    for time, cell, action in np.argwhere((table > 0) & ~rows.available)[:21]:
        when = "" if policy_is_stationary(policy) else f" at time {time}"
        defects.add(
            f"state {rows.cell_names[cell]!r}{when} takes action {actions[action]!r} with probability"
            f" {table[time, cell, action]:.6g}, expected 0: the action is not available there"
        )
    defects.raise_if_any()
    return table


def rows_of(policy: Policy, problem: Problem) -> Problem | Recall:
    """What the rows of a policy's table are for: the problem's own situations, or those with what it remembers."""
    memory = getattr(policy, "memory", None)
    return problem if memory is None else recall(problem, memory)


def policy_is_stationary(policy: Policy) -> bool:
    """Whether one table serves all times."""
    return not getattr(policy, "timed", False)


def softmax_table(theta: Any, problem: Problem | Recall | None, axes: Axes) -> Float[np.ndarray, "*T C A"]:
    """`π(a|s) = exp θ(s,a) / Σ exp θ(s,·)` over the available actions; -inf gives an exact zero.

    **Raises:** `InputError` on NaN, +inf, a shape that does not fit, or a row without a finite parameter.
    """
    defects = Defects("softmax parameters")
    array = as_floats(theta, "theta", defects)
    expected = axes if problem is None else (*axes[:-2], problem.num_cells, problem.num_actions)
    if array is not None and check_shape(array, expected, "theta", defects):
        if array.shape[-1] == 0:
            defects.add(f"theta has shape {array.shape}, expected at least one action")
        for index in np.argwhere(np.isnan(array) | (array == np.inf))[:21]:
            defects.add(f"theta {_place(axes, index)} is {array[tuple(index)]}, expected a number or -inf")
    defects.raise_if_any()
    assert array is not None
    if problem is not None:
        array = np.where(problem.available, array, -np.inf)
    top = array.max(axis=-1, keepdims=True)
    for index in np.argwhere(top[..., 0] == -np.inf)[:21]:
        defects.add(f"theta row {_place(axes, index)} is -inf for every available action, expected one finite entry")
    defects.raise_if_any()
    weights = np.exp(array - top)
    return weights / weights.sum(axis=-1, keepdims=True)


def softmax_pull_back(table: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The gradient in θ from the slope in π: `π(a|s) (g(s,a) − Σ_a' π(a'|s) g(s,a'))`."""
    return table * (slope - np.sum(table * slope, axis=-1, keepdims=True))


def uniform_table(problem: Problem | Recall) -> Float[np.ndarray, "C A"]:
    """Each available action with the same probability."""
    mask = problem.available
    return mask / mask.sum(axis=1, keepdims=True)


def deterministic_table(actions: Any, problem: Problem, axes: Axes) -> Float[np.ndarray, "*T C A"]:
    """One action a row, given by name or index; raises `InputError` naming each row that is wrong."""
    defects = Defects("deterministic policy")
    chosen = np.array(actions, dtype=object)
    if chosen.size == 0 and axes == TIMED:
        chosen = chosen.reshape(0, problem.num_cells)  # no decisions, no tables
    check_shape(chosen, (*axes[:-2], problem.num_cells), "actions", defects)
    defects.raise_if_any()
    table = np.zeros((*chosen.shape, problem.num_actions))
    for index in np.ndindex(chosen.shape):
        when = f"time {index[0]}, " if axes == TIMED else ""
        where = f"{when}state {problem.cell_names[index[-1]]!r}"
        action = problem.model.actions.find_or_note(chosen[index], where, defects)
        if action is not None:
            table[(*index, action)] = 1.0
            if not problem.available[index[-1], action]:
                defects.add(f"{where}: action {chosen[index]!r} is not available there")
    defects.raise_if_any()
    return table


def _place(axes: Axes, index: Any) -> str:
    return "(" + ", ".join(f"{axis} {number}" for axis, number in zip(axes, index, strict=False)) + ")"
