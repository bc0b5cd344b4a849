"""Tables of action probabilities: checks, softmax and its adjoint, shared by all policies that have one."""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..common.checks import SUM_TOLERANCE, Defects, as_floats, check_distributions, check_shape
from ..problem.problem import Problem
from .recall import Recall

Axes = tuple[str, ...]
MARKOV: Axes = ("state", "action")
TIMED: Axes = ("time", "state", "action")


def check_table(probabilities: ArrayLike, axes: Axes, subject: str) -> np.ndarray:
    """The table as a read-only array; raises `InputError` unless every row is a distribution.

    Rows of 32 or 16 bits that miss 1 by no more than rounding are divided by their sums, with a warning that says by how much.
    """
    defects = Defects(subject)
    array = divided_rows(probabilities, defects, warn=subject)
    if array is not None and check_shape(array, axes, "probabilities", defects):
        if 0 in array.shape[-2:]:
            defects.add(f"probabilities have shape {array.shape}, expected at least one state and one action")
        check_distributions(array, lambda *i: f"row {_place(axes, i)}", lambda *i: f"entry {_place(axes, i)}", defects)
    defects.raise_if_any()
    assert array is not None
    array.flags.writeable = False  # it is a copy of our own
    return array


def divided_rows(given: ArrayLike, defects: Defects, *, warn: str = "") -> Float[np.ndarray, "*T C A"] | None:
    """A table in float64 whose rows of 32 or 16 bits are divided by their sums, if those miss 1 by rounding alone.

    A sum of A numbers that were rounded to a relative precision ε misses 1 by at most A · ε. Other rows, and tables of 64 bits,
    are left as they are; None with the defect noted if it is no array of numbers.

    **Arguments:** `warn`: what to call the table in a warning that says how far the rows missed 1; "" for none.
    """
    array = as_floats(given, "probabilities", defects)
    if array is None or array.ndim == 0 or array.size == 0:
        return array
    slack = array.shape[-1] * _PRECISION.get(_float_bytes(given), 0.0)
    sums = array.sum(axis=-1, keepdims=True)
    worst = float(np.abs(sums - 1).max())
    if SUM_TOLERANCE < worst <= slack:  # not NaN
        array /= sums
        if warn:
            warnings.warn(
                f"{warn}: probabilities of {8 * _float_bytes(given)} bits, whose rows miss 1 by up to {worst:.2g}, were divided"
                " by their sums: convert logits to float64 before the softmax to avoid the rounding",
                stacklevel=4,
            )
    return array


_PRECISION = {4: 2.0**-23, 2: 2.0**-7}  # by bytes; of 16 bits that of bfloat16, the coarser of the two kinds


def _float_bytes(given: object) -> int:
    """How many bytes a number of an array takes; 8 for anything else."""
    kind = getattr(given, "dtype", None)
    return int(getattr(kind, "itemsize", 8)) if "float" in str(kind) else 8


def softmax_table(theta: ArrayLike, problem: Problem | Recall | None, axes: Axes) -> Float[np.ndarray, "*T C A"]:
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


def softmax_pull_back(
    table: Float[np.ndarray, "*T C A"], gradient: Float[np.ndarray, "*T C A"]
) -> Float[np.ndarray, "*T C A"]:
    """The gradient with respect to θ from the one with respect to π: `π(a|s) (g(s,a) − Σ_a' π(a'|s) g(s,a'))`."""
    return table * (gradient - np.sum(table * gradient, axis=-1, keepdims=True))


def uniform_table(problem: Problem | Recall) -> Float[np.ndarray, "C A"]:
    """Each available action with the same probability."""
    mask = problem.available
    return mask / mask.sum(axis=1, keepdims=True)


def deterministic_table(actions: ArrayLike, problem: Problem, axes: Axes) -> Float[np.ndarray, "*T C A"]:
    """One action for each row, given by name or index; raises `InputError` naming each row that is wrong."""
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


def _place(axes: Axes, index: Sequence[int] | np.ndarray) -> str:
    return "(" + ", ".join(f"{axis} {number}" for axis, number in zip(axes, index, strict=False)) + ")"
