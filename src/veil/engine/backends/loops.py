"""The loops of a pass over a sparse chain and of drawing runs, compiled by Numba. Only `compiled` imports this module.

They are compiled when the module is imported, for these types of arrays alone, and kept in Numba's cache: next to this file, or
in the cache folder of the user. Sums may be taken in another order than NumPy's, and products fused with sums, so that results
agree with the plain ones up to rounding; nothing else is relaxed. Draws are the plain ones to the last bit.

Five entries of a row are added up in one loop, with weight 0 in place of those that the last five lack: a cell of a grid has up
to five successors, and what is in between stays in the registers of the processor.
"""

from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]: an extra that not everybody has
import numpy as np
from numba import types  # pyright: ignore[reportMissingImports]

from ..sequences import TINY

_SUMS = {"reassoc", "contract"}


def _read(kind: Any, dimensions: int = 1) -> Any:
    """The type of an array in C order that is only read; one that may be written to serves as well."""
    return types.Array(kind, dimensions, "C", readonly=True)


_Indices, _Places, _Events = _read(types.int32), _read(types.int64), _read(types.uint32)
_Numbers, _Columns, _Out = _read(types.float64), _read(types.float64, 2), types.float64[:, ::1]
_Matrix = (_Indices, _Indices, _Numbers)
_Rows = (_Indices, _Indices, _Indices, _Numbers)
_Factor = (_Columns, _Places, _Events, _Numbers)


def _compiled(*arguments: Any, fastmath: Any = False) -> Callable[[Callable[..., None]], Any]:
    def decorate(function: Callable[..., None]) -> Any:
        given: dict[str, Any] = {"nogil": True, "fastmath": fastmath}
        try:
            return numba.njit(types.void(*arguments), cache=True, **given)(function)
        except Exception:  # a cache that cannot be read or written raises whatever its folder and its files do
            return numba.njit(types.void(*arguments), **given)(function)

    return decorate


@numba.njit
def _five(data: Any, entry: int, last: int) -> Any:
    """The next five entries of a row and their numbers; past its end the last one again, with 0."""
    i, j, m, n, o = entry, min(entry + 1, last), min(entry + 2, last), min(entry + 3, last), min(entry + 4, last)
    b, c = data[j] if j > i else 0.0, data[m] if m > j else 0.0
    d, e = data[n] if n > m else 0.0, data[o] if o > n else 0.0
    return i, j, m, n, o, data[i], b, c, d, e


@_compiled(_Columns, _Places, _Places, _Numbers, _Indices, _Columns, types.float64[::1], fastmath=_SUMS)
def mix(table: Any, cell: Any, here: Any, actions: Any, indptr: Any, probabilities: Any, data: Any) -> None:
    """`data = Σ_a π(a|x) actions(a) P(x'|x,a)` of each entry."""
    num_actions = len(actions)
    weights = np.empty(num_actions)
    for row in range(len(here)):
        chosen = table[cell[here[row]]]
        for action in range(num_actions):
            weights[action] = chosen[action] * actions[action]
        for entry in range(indptr[row], indptr[row + 1]):
            likely, total = probabilities[entry], 0.0
            for action in range(num_actions):
                total += weights[action] * likely[action]
            data[entry] = total


@numba.njit
def _inverse(scale: Any) -> Any:
    """See `sequences.inverse`."""
    result = np.zeros(len(scale))
    for k in range(len(scale)):
        if scale[k] >= TINY:
            result[k] = 1.0 / scale[k]
    return result


@_compiled(*_Matrix, _Columns, *_Factor, types.boolean, _Out, fastmath=_SUMS)
def ahead(
    indptr: Any,
    indices: Any,
    data: Any,
    columns: Any,
    emission: Any,
    there: Any,
    events: Any,
    scale: Any,
    adds: bool,
    out: Any,
) -> None:
    """`out = F · (M @ columns)` with `F = emission[there][:, events] / scale` and M in CSR format; with `adds`, `out += …`."""
    width = out.shape[1]
    product, factor, weight = np.zeros(width), np.empty(width), _inverse(scale)
    for row in range(len(out)):
        begin, last = indptr[row], indptr[row + 1] - 1
        if last < begin:
            product[:] = 0.0
        for entry in range(begin, last + 1, 5):
            i, j, m, n, o, a, b, c, d, e = _five(data, entry, last)
            va, vb, vc = columns[indices[i]], columns[indices[j]], columns[indices[m]]
            vd, ve = columns[indices[n]], columns[indices[o]]
            if entry == begin:
                for k in range(width):
                    product[k] = a * va[k] + b * vb[k] + c * vc[k] + d * vd[k] + e * ve[k]
            else:
                for k in range(width):
                    product[k] += a * va[k] + b * vb[k] + c * vc[k] + d * vd[k] + e * ve[k]
        likely, result = emission[there[row]], out[row]
        for k in range(width):
            factor[k] = likely[events[k]]
        if adds:
            for k in range(width):
                result[k] += product[k] * (factor[k] * weight[k])
        else:
            for k in range(width):
                result[k] = product[k] * (factor[k] * weight[k])


@_compiled(_Columns, *_Factor, _Out, fastmath=_SUMS)
def weigh(columns: Any, emission: Any, there: Any, events: Any, scale: Any, out: Any) -> None:
    """`out = F · columns`."""
    width = out.shape[1]
    factor, weight = np.empty(width), _inverse(scale)
    for row in range(len(out)):
        likely, result, given = emission[there[row]], out[row], columns[row]
        for k in range(width):
            factor[k] = likely[events[k]]
        for k in range(width):
            result[k] = given[k] * (factor[k] * weight[k])


@_compiled(*_Matrix, _Columns, _Columns, _Columns, _Places, _Numbers, types.boolean, _Out, _Out, fastmath=_SUMS)
def against(
    indptr: Any,
    indices: Any,
    data: Any,
    probabilities: Any,
    columns: Any,
    left: Any,
    here: Any,
    actions: Any,
    adds: bool,
    out: Any,
    found: Any,
) -> None:
    """`out = M @ columns` (with `adds`, `out += …`), and `found[here] += actions · Σ_x' P(x'|x,a) (left ⊗ columns)(x,x')`."""
    width, num_actions = out.shape[1], len(actions)
    for row in range(len(out)):
        begin, last = indptr[row], indptr[row + 1] - 1
        result, given, gained = out[row], left[row], found[here[row]]
        if not adds:
            result[:] = 0.0
        for entry in range(begin, last + 1, 5):
            i, j, m, n, o, a, b, c, d, e = _five(data, entry, last)
            va, vb, vc = columns[indices[i]], columns[indices[j]], columns[indices[m]]
            vd, ve = columns[indices[n]], columns[indices[o]]
            sa = sb = sc = sd = se = 0.0
            for k in range(width):
                factor = given[k]
                sa += factor * va[k]
                sb += factor * vb[k]
                sc += factor * vc[k]
                sd += factor * vd[k]
                se += factor * ve[k]
                result[k] += a * va[k] + b * vb[k] + c * vc[k] + d * vd[k] + e * ve[k]
            sb = sb if j > i else 0.0
            sc = sc if m > j else 0.0
            sd = sd if n > m else 0.0
            se = se if o > n else 0.0
            for action in range(num_actions):
                total = sa * probabilities[i, action] + sb * probabilities[j, action] + sc * probabilities[m, action]
                total += sd * probabilities[n, action] + se * probabilities[o, action]
                gained[action] += actions[action] * total


@_compiled(
    *_Matrix,
    _Indices,
    _Indices,
    _Columns,
    _Columns,
    _Columns,
    *_Factor,
    _Places,
    _Numbers,
    types.boolean,
    _Out,
    _Out,
    fastmath=_SUMS,
)
def turned(
    indptr: Any,
    indices: Any,
    data: Any,
    order: Any,
    ends: Any,
    probabilities: Any,
    columns: Any,
    right: Any,
    emission: Any,
    there: Any,
    events: Any,
    scale: Any,
    here: Any,
    actions: Any,
    adds: bool,
    out: Any,
    found: Any,
) -> None:
    """`ahead`, and `found[here] += actions · Σ_x' P(x'|x,a) (columns ⊗ F · right)(x,x')`; M is a transposed matrix.

    Its entries are those of the matrix, whose rows end at `ends`, in this `order`.
    """
    width, num_actions = out.shape[1], len(actions)
    factor, inside, weight = np.empty(width), np.empty(width), _inverse(scale)
    outer, gained = np.empty(len(order)), np.empty(num_actions)
    for row in range(len(out)):
        emitted, result, given = emission[there[row]], out[row], right[row]
        for k in range(width):
            factor[k] = emitted[events[k]]
        for k in range(width):
            factor[k] *= weight[k]
            inside[k] = given[k] * factor[k]
        if not adds:
            result[:] = 0.0
        begin, last = indptr[row], indptr[row + 1] - 1
        for entry in range(begin, last + 1, 5):
            i, j, m, n, o, a, b, c, d, e = _five(data, entry, last)
            va, vb, vc = columns[indices[i]], columns[indices[j]], columns[indices[m]]
            vd, ve = columns[indices[n]], columns[indices[o]]
            sa = sb = sc = sd = se = 0.0
            for k in range(width):
                value = inside[k]
                sa += value * va[k]
                sb += value * vb[k]
                sc += value * vc[k]
                sd += value * vd[k]
                se += value * ve[k]
                result[k] += factor[k] * (a * va[k] + b * vb[k] + c * vc[k] + d * vd[k] + e * ve[k])
            outer[order[i]], outer[order[j]], outer[order[m]], outer[order[n]] = sa, sb, sc, sd
            outer[order[o]] = se
    for row in range(len(here)):
        gained[:] = 0.0
        for entry in range(ends[row], ends[row + 1]):
            likely, total = probabilities[entry], outer[entry]
            for action in range(num_actions):
                gained[action] += likely[action] * total
        into = found[here[row]]
        for action in range(num_actions):
            into[action] += actions[action] * gained[action]


@numba.njit
def _drawn(begin: int, end: int, columns: Any, sums: Any, uniform: float) -> int:
    """The column of the last entry whose running sum is not above a share of the row's: see `sampling.RowDraws.draw`."""
    wanted = sums[begin] + uniform * (sums[end] - sums[begin])
    first, last = begin, end - 1
    while first < last:
        middle = (first + last + 1) // 2
        if sums[middle] <= wanted:
            first = middle
        else:
            last = middle - 1
    return columns[last]


@_compiled(
    types.int64,
    _read(types.float64, 3),
    _read(types.float64, 3),
    _Places,
    *_Rows,
    *_Rows,
    _Places,
    types.int64[::1],
    types.int64[:, ::1],
)
def walk(
    begin: int,
    uniform: Any,
    table: Any,
    cell: Any,
    moves_first: Any,
    moves_end: Any,
    moves_columns: Any,
    moves_sums: Any,
    seen_first: Any,
    seen_end: Any,
    seen_columns: Any,
    seen_sums: Any,
    emitter_of: Any,
    states: Any,
    events: Any,
) -> None:
    """The steps of `Layers.draw` from time `begin` on, one for each row of `uniform`; `states` are written over.

    The rows from which events are drawn are those of all emitters, one emitter after the other.
    """
    num_actions, num_states = table.shape[2], len(cell)
    for step in range(len(uniform)):
        time, drawn = begin + step, uniform[step]
        choices = table[time if len(table) > 1 else 0]
        for run in range(len(states)):
            weights, total = choices[cell[states[run]]], 0.0
            for action in range(num_actions):
                total += weights[action]
            wanted, reached, taken = drawn[0, run] * total, 0.0, 0
            for action in range(num_actions):
                reached += weights[action]
                if reached > wanted:
                    taken = action
                    break
            row = states[run] * num_actions + taken
            states[run] = _drawn(moves_first[row], moves_end[row], moves_columns, moves_sums, drawn[1, run])
            row = emitter_of[taken] * num_states + states[run]
            events[run, time + 1] = _drawn(seen_first[row], seen_end[row], seen_columns, seen_sums, drawn[2, run])
