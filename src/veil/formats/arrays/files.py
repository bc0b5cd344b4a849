"""Models as NumPy `.npz` files, dense or sparse, and matrices that SciPy saved."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ...common.checks import Defects
from ...common.errors import InputError
from ...engine.induced import InducedHMM, induced_hmm
from ...policy.policy import Policy
from ...problem.model import Model
from ...problem.observer import Observer
from ...problem.problem import Problem
from ..imported import Imported
from ..text import write_file
from .npz import LIMIT_BYTES, NUMBERS, TEXT, Arrays, packed, read_arrays

# The arrays of a file, and whether they hold numbers or text.
_OF_NUMBERS = (
    *("transitions", "transitions_data", "transitions_indices", "transitions_indptr", "rewards", "initial", "discount"),
    *("terminal_rewards", "available", "emissions", "sees_actions", "sees_initial"),
)
_OF_TEXT = ("state_names", "action_names", "observation_names")
_PREFIXES = {"variable:": NUMBERS + TEXT, "label:": NUMBERS}


def from_arrays(path: str | Path, *, limit_bytes: int = LIMIT_BYTES) -> Imported:
    """The model in a NumPy `.npz` file.

    Arrays, all but `rewards`, `initial` and the transitions optional:

    - `transitions` `(S, A, S)`; or, sparse, `transitions_data`, `transitions_indices`, `transitions_indptr`: the CSR form
      of an `(A·S, S)` matrix whose row `a·S + s` is `P(·|s,a)`. A row may be empty if `available` is False there.
    - `rewards` `(S, A)` or `(S,)`; `initial` `(S,)`; `discount` `()`; `terminal_rewards` `(S,)`; `available` `(S, A)`.
    - `emissions` `(S, O)` or `(A, S, O)`; `sees_actions` `()`; `sees_initial` `()`.
    - `state_names` `(S,)`, `action_names` `(A,)`, `observation_names` `(O,)`: text.
    - `variable:NAME` `(S,)`: values for expressions; `label:NAME` `(S,)` of bool.

    **Arguments:** `limit_bytes`: the largest total size of the arrays; a file may always hold 16 times its own size.

    Nothing is unpickled. **Raises:** `ModelFileError` naming the array; `InputError` if the arrays are not a model.
    """
    arrays, unknown = read_arrays(path, limit_bytes, _kinds_of)
    for key in ("rewards", "initial"):
        arrays.need(key, f"expected one; it has {arrays.listed}")
    notes = [f"array {key!r} is unknown and was left out" for key in unknown]
    if "discount" not in arrays:
        notes.append("no discount is given: 1 is assumed")
    transitions = _transitions(arrays)
    try:
        model = Model(
            transitions,
            arrays["rewards"],
            arrays["initial"],
            arrays.scalar("discount", 1.0),
            arrays.get("terminal_rewards"),
            arrays.names("state_names"),
            arrays.names("action_names"),
            available=arrays.get("available"),
        )
        observer = _observer(arrays, model)
    except InputError as error:
        raise InputError(f"{path}: {error.subject}", error.defects) from None
    variables = _with_prefix(arrays, "variable:", model.num_states)
    labels = {key: values != 0 for key, values in _with_prefix(arrays, "label:", model.num_states).items()}
    return Imported(model, observer, Path(path).name, "NumPy arrays", tuple(notes), variables, labels)


def save_arrays(path: str | Path, imported: Imported) -> tuple[str, ...]:
    """Write a model with its observer, variables and labels as a `.npz` file, sparse, complete or not at all.

    The same model gives the same bytes. **Returns:** no notes: nothing is left out.

    **Raises:** `ModelFileError` where it cannot be written.
    """
    model, observer = imported.model, imported.observer
    stacked = sp.csr_array(sp.vstack(model.matrices))
    arrays: dict[str, np.ndarray] = {
        "transitions_data": stacked.data,
        "transitions_indices": stacked.indices.astype(np.int64),
        "transitions_indptr": stacked.indptr.astype(np.int64),
        "rewards": model.rewards,
        "initial": model.initial,
        "discount": np.array(model.discount),
        "terminal_rewards": model.terminal_rewards,
        "available": model.available,
    }
    named = [("state_names", model.states), ("action_names", model.actions)]
    if observer is not None:
        observer.refuse_schedule("writing arrays")
        arrays["emissions"] = observer.emissions
        arrays["sees_actions"] = np.array(observer.sees_actions)
        arrays["sees_initial"] = np.array(observer.sees_initial)
        named.append(("observation_names", observer.observations))
    arrays |= {key: np.array(names.all()) for key, names in named if names.given}
    arrays |= {f"variable:{name}": np.asarray(values) for name, values in imported.valuations.items()}
    arrays |= {f"label:{name}": np.asarray(values, dtype=bool) for name, values in imported.labels.items()}
    write_file(path, packed(arrays))
    return ()


def chain_to_arrays(path: str | Path, problem: Problem, policy: Policy) -> InducedHMM:
    """Write the hidden Markov model that a policy induces, with the names of `hmmlearn.hmm.CategoricalHMM`.

    Arrays: `startprob_` `(M,)`, `transmat_` `(M, M)`, `emissionprob_` `(M, E)`, and `rewards` `(M,)`,
    `terminal_rewards` `(M,)`, `states` `(M,)`, `symbols` `(E,)`.

    **Raises:** `InputError` where the policy does not fit; `ModelFileError` where it cannot be written.
    """
    chain = induced_hmm(problem, policy)
    arrays = {
        **chain.hmmlearn(),
        "rewards": chain.rewards,
        "terminal_rewards": chain.terminal_rewards,
        "states": np.array(chain.states),
        "symbols": np.array(chain.symbols),
    }
    write_file(path, packed(arrays))
    return chain


def load_sparse(path: str | Path, *, limit_bytes: int = LIMIT_BYTES) -> sp.csr_array:
    """A matrix that `scipy.sparse.save_npz` wrote, for `Model([one for each action], …)`; CSR, CSC or COO.

    **Raises:** `ModelFileError`; sizes and indices are checked before memory is allocated.
    """
    arrays, _ = read_arrays(path, limit_bytes, lambda key: "S" + TEXT if key == "format" else NUMBERS)
    kind = str(arrays["format"].astype(str)) if "format" in arrays and arrays["format"].ndim == 0 else "none"
    needed = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}.get(kind)
    if needed is None:
        raise arrays.error(
            f"its format is {kind!r}, expected 'csr', 'csc' or 'coo', as scipy.sparse.save_npz writes it"
        )
    for key in ("shape", "data", *needed):
        arrays.need(key, "expected one, as scipy.sparse.save_npz writes it")
    shape = arrays["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise arrays.error(f"array 'shape' is {shape.tolist()!r:.60}, expected two sizes")
    rows, columns = (int(size) for size in shape)
    if 8 * (rows + columns) > limit_bytes:  # a sparse matrix of nothing still has a number for each row
        raise arrays.error(f"it has {rows:,} rows and {columns:,} columns, expected fewer: raise limit_bytes")
    if kind == "coo":
        places = [_indices(arrays, key, size) for key, size in (("row", rows), ("col", columns))]
        _check_lengths(arrays, ("data", "row", "col"))
        return sp.csr_array((arrays.floats("data"), tuple(places)), shape=(rows, columns))
    outer, inner = (rows, columns) if kind == "csr" else (columns, rows)
    parts = _compressed(arrays, "data", "indices", "indptr", outer, inner)
    make = sp.csr_array if kind == "csr" else sp.csc_array
    return sp.csr_array(make(parts, shape=(rows, columns)))


def _kinds_of(key: str) -> str | None:
    for prefix, kind in _PREFIXES.items():
        if key.startswith(prefix) and len(key) > len(prefix):
            return kind
    return NUMBERS if key in _OF_NUMBERS else TEXT if key in _OF_TEXT else None


def _transitions(arrays: Arrays) -> np.ndarray | list[sp.csr_array]:
    parts = ("transitions_data", "transitions_indices", "transitions_indptr")
    if "transitions" in arrays:
        if any(part in arrays for part in parts):
            raise arrays.error("it has 'transitions' and 'transitions_data', expected dense or sparse, not both")
        return arrays["transitions"]
    for part in parts:
        arrays.need(part, f"nor 'transitions', expected dense or sparse transitions; it has {arrays.listed}")
    size = arrays["initial"].size
    rows = arrays["transitions_indptr"].size - 1
    if size == 0 or rows <= 0 or rows % size:
        raise arrays.error(f"array 'transitions_indptr' has {rows + 1} entries, expected A·S + 1 with S = {size}")
    stacked = sp.csr_array(_compressed(arrays, *parts, rows, size), shape=(rows, size))
    return [sp.csr_array(stacked[row : row + size]) for row in range(0, rows, size)]


def _compressed(
    arrays: Arrays, data: str, indices: str, indptr: str, outer: int, inner: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays of a compressed matrix, checked: SciPy's own routines read beyond them if they are wrong."""
    _check_lengths(arrays, (data, indices))
    places = _indices(arrays, indices, inner)
    starts = arrays[indptr]
    good = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) == outer + 1
    if good:
        starts = starts.astype(np.int64)
        good = starts[0] == 0 and starts[-1] == len(places) and bool((np.diff(starts) >= 0).all())
    if not good:
        raise arrays.error(f"array {indptr!r} is wrong, expected {outer + 1} numbers that rise from 0 to {len(places)}")
    return arrays.floats(data), places, starts


def _indices(arrays: Arrays, key: str, size: int) -> np.ndarray:
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < size):
        raise arrays.error(f"array {key!r} is wrong, expected whole numbers from 0 to {size - 1}")
    return array.astype(np.int64)


def _check_lengths(arrays: Arrays, keys: Sequence[str]) -> None:
    sizes = [arrays[key].size for key in keys]
    if len(set(sizes)) > 1:
        raise arrays.error(f"arrays {', '.join(map(repr, keys))} have lengths {sizes}, expected one length")


def _observer(arrays: Arrays, model: Model) -> Observer | None:
    if "emissions" not in arrays:
        return None
    sees = (bool(arrays.scalar("sees_actions", 0.0)), bool(arrays.scalar("sees_initial", 1.0)))
    observer = Observer(arrays["emissions"], arrays.names("observation_names"), *sees)
    defects = Defects("observer")
    observer.check(model.states, model.actions, defects)
    defects.raise_if_any()
    return observer


def _with_prefix(arrays: Arrays, prefix: str, size: int) -> dict[str, np.ndarray]:
    found = {key: values for key, values in arrays.items() if key.startswith(prefix)}
    for key, values in found.items():
        if values.shape != (size,):
            raise arrays.error(f"array {key!r} has shape {values.shape}, expected ({size},)")
    return {key.removeprefix(prefix): values for key, values in found.items()}
