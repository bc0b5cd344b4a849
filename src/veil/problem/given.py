"""Transitions and rewards of a model as users give them: arrays, sparse matrices, entries and rewards by name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool
from numpy.typing import ArrayLike

from ..common.checks import SUM_TOLERANCE, Defects, Names, as_floats, check_shape, sum_defect

State = str | int
Entry = tuple[State, State, State, float]
Tables = ArrayLike | Sequence[sp.sparray | sp.spmatrix]


def as_matrices(transitions: Tables, defects: Defects) -> tuple[sp.csr_array, ...]:
    """One canonical CSR matrix an action: sorted, without stored zeros, without duplicates."""
    if is_sparse(transitions):
        defects.add("transitions are one sparse matrix, expected a list with one sparse matrix (S, S) for each action")
        return ()
    if isinstance(transitions, Sequence) and any(is_sparse(matrix) for matrix in transitions):
        return _from_sparse(transitions, defects)
    array = as_floats(transitions, "transitions", defects)
    if array is None or not check_shape(array, ("S", "A", "S"), "transitions", defects):
        return ()
    if 0 in array.shape:
        defects.add(f"transitions have shape {array.shape}, expected at least one state and one action")
    elif array.shape[0] != array.shape[2]:
        defects.add(f"transitions have shape {array.shape}, expected (S, A, S) with the same S first and last")
    return tuple(sp.csr_array(array[:, action, :]) for action in range(array.shape[1])) if not defects else ()


def _from_sparse(transitions: Sequence[object], defects: Defects) -> tuple[sp.csr_array, ...]:
    size = next(shape_of(matrix)[0] for matrix in transitions if is_sparse(matrix))
    if size == 0:
        defects.add("transition matrices have no states, expected at least one")
        return ()
    return sparse_tables(transitions, (size, size), "transition matrix of action", f"({size}, {size})", defects)


def is_sparse(value: object) -> TypeGuard[sp.csr_array]:
    """Whether a value is one of SciPy's sparse matrices."""
    return bool(sp.issparse(value))


def shape_of(matrix: sp.csr_array) -> tuple[int, ...]:
    """The shape of a sparse matrix, which SciPy's types leave open."""
    return cast(tuple[int, ...], matrix.shape)


def canonical(matrix: sp.csr_array) -> sp.csr_array:
    """A sparse matrix as CSR: sorted, without stored zeros, without duplicates."""
    result = sp.csr_array(matrix, dtype=np.float64, copy=True)
    result.sum_duplicates()
    result.eliminate_zeros()
    return result


def check_rows(
    matrix: sp.csr_array,
    entry_name: Callable[[int, int], str],
    row_name: Callable[[int], str],
    defects: Defects,
    *,
    filled: Bool[np.ndarray, " S"] | None = None,
    empty: str = "",
) -> None:
    """Note every entry of a table that is no probability, and every row that does not sum to one.

    **Arguments:** `entry_name`: of a row and a column, `row_name`: in words; `filled`: the rows that must sum to one, all by
    default; `empty`: what to say of one of these without an entry.
    """

    def wrong(entry: int) -> str:
        row, found = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1, matrix.data[entry]
        wanted = "a probability in [0, 1]" if np.isfinite(found) else "a finite number"
        return f"{entry_name(row, int(matrix.indices[entry]))} is {found:.17g}, expected {wanted}"

    data = matrix.data
    defects.add_each(np.flatnonzero(~np.isfinite(data) | (data < 0) | (data > 1 + SUM_TOLERANCE)), wrong)
    with np.errstate(invalid="ignore"):
        sums = np.asarray(matrix.sum(axis=1)).ravel()
    off = (np.abs(sums - 1) > SUM_TOLERANCE) & np.isfinite(sums)  # others were named above, entry by entry
    off = off if filled is None else off & filled
    defects.add_each(
        np.flatnonzero(off),
        lambda row: f"{row_name(row)} {sum_defect(float(sums[row])) if sums[row] or not empty else empty}",
    )


def sparse_tables(
    given: Sequence[object], shape: tuple[int, ...], what: str, words: str, defects: Defects
) -> tuple[sp.csr_array, ...]:
    """Sparse matrices as canonical CSR; those of another shape or kind of numbers are noted.

    **Arguments:** `what` one of them is; `words`: the shape that is expected.
    """
    found = []
    for action, one in enumerate(given):
        if not is_sparse(one) or shape_of(one) != shape or 0 in shape:
            has = getattr(one, "shape", type(one).__name__)
            defects.add(f"{what} {action} has shape {has}, expected a sparse {words}")
        elif one.dtype.kind not in "biuf":
            defects.add(f"{what} {action} holds {one.dtype}, expected real numbers")
        else:
            found.append(canonical(one))
    return tuple(found)


def read_entries(entries: Iterable[Entry], defects: Defects) -> list[Entry]:
    """Entries (state, action, next state, probability) as a list; what is none is noted."""
    listed: list[Entry] = []
    if not isinstance(entries, Iterable):
        defects.add(f"entries are {entries!r}, expected a list of (state, action, next state, probability)")
        return listed
    for number, entry in enumerate(entries):
        try:
            state, action, following, probability = entry
            listed.append((state, action, following, float(probability)))
        except (TypeError, ValueError):
            defects.add(f"entry {number} is {entry!r}, expected (state, action, next state, probability)")
    return listed


def matrices_from_entries(
    listed: list[Entry], states: Names, actions: Names, defects: Defects
) -> tuple[list[sp.csr_array], np.ndarray]:
    """One matrix an action, and which actions some entry makes available, `(S, A)`."""
    rows: list[list[int]] = [[] for _ in range(len(actions))]
    columns: list[list[int]] = [[] for _ in range(len(actions))]
    values: list[list[float]] = [[] for _ in range(len(actions))]
    seen: dict[tuple[int, int, int], int] = {}
    totals: dict[tuple[int, int], tuple[int, float]] = {}  # for a pair (state, action): its first entry, and the sum
    available = np.zeros((len(states), len(actions)), dtype=bool)
    for number, (state, action, following, probability) in enumerate(listed):
        part = defects.under("transitions", number, where=f"entry {number}")
        s = states.find_or_note(state, "", part)
        a = actions.find_or_note(action, "", part)
        n = states.find_or_note(following, "", part)
        if s is None or a is None or n is None:
            continue
        if seen.setdefault((s, a, n), number) != number:
            found = f"(state {state!r}, action {action!r}, next state {following!r})"
            part.add(f"{found} was given before: give one entry with the sum")
            continue
        rows[a].append(s)
        columns[a].append(n)
        values[a].append(probability)
        first, total = totals.get((s, a), (number, 0.0))
        totals[s, a] = (first, total + probability)
    available[tuple(np.array(list(totals), dtype=int).reshape(-1, 2).T)] = True
    if all(0 <= entry[3] <= 1 for entry in listed):  # else the model names the entry that is no probability
        for (s, a), (number, total) in totals.items():
            if abs(total - 1) > SUM_TOLERANCE:
                defects.add(
                    f"{row_name(states[s], actions[a])} sums to {total:.12g}, expected 1", "transitions", number
                )
    size = (len(states), len(states))
    return [sp.csr_array((v, (r, c)), shape=size) for v, r, c in zip(values, rows, columns, strict=True)], available


def rewards_from_mapping(rewards: Mapping[Any, float], states: Names, actions: Names, defects: Defects) -> np.ndarray:
    """Rewards `(S, A)` from those of pairs (state, action), or of states for all actions."""
    table = np.zeros((len(states), len(actions)))
    for key, value in rewards.items():
        pair = key if isinstance(key, tuple) else (key, None)
        if len(pair) != 2:
            defects.add(f"reward key {key!r} is not understood, expected (state, action) or state")
            continue
        part = defects.under(*(str(name) for name in pair if name is not None), where=f"reward {key!r}")
        state = states.find_or_note(pair[0], "", part)
        action = None if pair[1] is None else actions.find_or_note(pair[1], "", part)
        if state is not None:
            table[state, slice(None) if action is None else action] += as_number(value, "the value", part)
    return table


def row_name(state: str, action: str) -> str:
    """A row of the transitions in words."""
    return f"transition row (state {state!r}, action {action!r})"


def as_number(value: object, what: str, defects: Defects) -> float:
    """A number; what is none is noted."""
    try:
        return float(cast(float, value))
    except (TypeError, ValueError):
        defects.add(f"{what} is {value!r}, expected a number")
        return 0.0
