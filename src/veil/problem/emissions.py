"""Emissions as users give them, as sparse tables, and when they hold."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from numpy.typing import ArrayLike

from ..common.checks import Defects, as_floats, as_tuple
from .given import Tables, is_sparse, shape_of, sparse_tables

Matrices = tuple[sp.csr_array, ...]
"""One table `(S, O)`, or one for each action."""
Times = frozenset[int] | Literal["end"] | None
When = int | Literal["end"] | tuple[int, Literal["end"]]
"""A time; the last time, whichever it is; or a time if it is the last."""


def as_matrices(emissions: object, defects: Defects) -> Matrices:
    """One canonical CSR matrix, or one for each action: sorted, without stored zeros, without duplicates."""
    if is_sparse(emissions):
        return _from_sparse([emissions], defects)
    if isinstance(emissions, Sequence) and any(is_sparse(matrix) for matrix in emissions):
        return _from_sparse(emissions, defects)
    array = as_floats(emissions, "emissions", defects)
    if array is not None and array.ndim not in (2, 3):
        defects.add(f"emissions have shape {array.shape}, expected (S, O), or (A, S, O) on (action, next state)")
    if array is not None and 0 in array.shape:
        defects.add(f"emissions have shape {array.shape}, expected at least one state and one observation")
    if array is None or defects:
        return ()
    return tuple(sp.csr_array(table) for table in array.reshape(-1, *array.shape[-2:]))


def _from_sparse(emissions: Sequence[object], defects: Defects) -> Matrices:
    shape = next(shape_of(matrix) for matrix in emissions if is_sparse(matrix))
    return sparse_tables(emissions, shape, "emission matrix", "(S, O), the same for all actions", defects)


def shape_of_emissions(emissions: Tables | sp.sparray | sp.spmatrix) -> tuple[int, ...]:
    """The shape of emissions in the form in which they are given."""
    if is_sparse(emissions):
        return shape_of(emissions)
    if isinstance(emissions, Sequence) and is_sparse(emissions[0]):
        return (len(emissions), *shape_of(emissions[0]))
    return np.shape(cast(ArrayLike, emissions))


def read_times(times: object, defects: Defects) -> Times:
    """The times at which something is received; what they are not is noted."""
    if times is None or (isinstance(times, str) and times == "end"):
        return times
    listed = as_tuple(times)
    if not isinstance(listed, tuple) or not all(map(_is_time, listed)):
        defects.add(f"times are {times!r}, expected whole numbers, 0 or more, or 'end'")
        return None
    return frozenset(int(time) for time in listed)


def read_scheduled(given: object, shape: tuple[int, ...], defects: Defects) -> dict[When, Matrices]:
    """The emissions of single times, in order. At time 0, which no action leads to, tables of actions are left out."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        defects.add(f"emissions_at is {given!r}, expected a mapping from times to emissions")
        return {}
    found: dict[When, Matrices] = {}
    for key, emissions in cast(Mapping[Any, Any], given).items():
        when = _as_when(key)
        if when is None:
            defects.add(
                f"emissions_at has the time {key!r}, expected a whole number, 0 or more, 'end', or (time, 'end')"
            )
            continue
        before = len(defects)
        matrices = as_matrices(emissions, defects)
        given = () if len(defects) > before else shape_of_emissions(emissions)
        begins = time_of(when) == 0 and len(shape) == 3  # no action leads to time 0
        if given and given != shape and not (begins and given == shape[-2:]):
            what = f"(S, O), {shape[-2:]}" if begins else f"that of emissions, {shape}"
            defects.add(f"emissions_at {key} has shape {given}, expected {what}")
        if not (begins and given == shape):
            found[when] = matrices
    defects.raise_if_any()
    return dict(sorted(found.items(), key=lambda item: number_of(item[0])))


def time_of(when: When) -> int | None:
    """The time that is named; None if that is only the last one."""
    return None if when == "end" else when[0] if isinstance(when, tuple) else when


def moments(named: Iterable[int], ends: bool) -> list[tuple[When | None, int | None, bool]]:
    """When emissions may differ, as (when, time, whether it is the last); None stands for every other time.

    **Arguments:** `named` times, and whether the last time may differ from others: `ends`.
    """
    found: list[tuple[When | None, int | None, bool]] = [(None, None, False)]
    found += [(time, time, False) for time in named]
    if ends:
        found += [("end", None, True), *(((time, "end"), time, True) for time in named)]
    return found


def number_of(when: When) -> int:
    """A number for each: a time is its own, `"end"` is -1, `(0, "end")` is -2, `(1, "end")` is -3, …"""
    time = time_of(when)
    return -1 if time is None else -2 - time if isinstance(when, tuple) else time


def _as_when(key: object) -> When | None:
    if isinstance(key, tuple) and len(key) == 2 and _is_time(key[0]) and key[1] == "end":
        return int(cast(int, key[0])), "end"
    if isinstance(key, str):
        return "end" if key == "end" else None
    return int(cast(int, key)) if _is_time(key) else None


def _is_time(time: object) -> bool:
    return isinstance(time, (int, np.integer)) and not isinstance(time, bool) and int(time) >= 0


def always(observation: int, states: int, observations: int) -> sp.csr_array:
    """The table of states that all emit one observation."""
    places = np.full(states, observation)
    return sp.csr_array((np.ones(states), places, np.arange(states + 1)), shape=(states, observations))


def moved_columns(matrix: sp.csr_array, column: Int[np.ndarray, " O"]) -> sp.csr_array:
    """The table whose probabilities are in other columns: that of observation o in `column[o]`."""
    return sp.csr_array((matrix.data, column[matrix.indices], matrix.indptr), shape=matrix.shape)


def with_column(matrix: sp.csr_array) -> sp.csr_array:
    """The table with a further observation, which no state emits."""
    rows, columns = shape_of(matrix)
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(rows, columns + 1))


def same_matrices(one: Matrices, two: Matrices) -> bool:
    """Whether two emissions have the same numbers."""
    return len(one) == len(two) and all(abs(a - b).nnz == 0 for a, b in zip(one, two, strict=True))
