"""Models as NumPy `.npz` files, dense or sparse, and matrices that SciPy saved."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp

from ...common.checks import Defects
from ...common.errors import InputError, ModelFileError
from ...engine.induced import InducedHMM, induced_hmm
from ...policy.policy import Policy
from ...problem.model import Model
from ...problem.observer import Observer
from ...problem.problem import Problem
from ..imported import Imported
from ..text import write_file
from .npz import LIMIT_BYTES, NUMBERS, TEXT, packed, read_arrays

P = ParamSpec("P")
R = TypeVar("R")

# The arrays of a file, and whether they hold numbers or text.
_KEYS = {
    "transitions": NUMBERS,
    "transitions_data": NUMBERS,
    "transitions_indices": NUMBERS,
    "transitions_indptr": NUMBERS,
    "rewards": NUMBERS,
    "initial": NUMBERS,
    "discount": NUMBERS,
    "terminal_rewards": NUMBERS,
    "available": NUMBERS,
    "emissions": NUMBERS,
    "sees_actions": NUMBERS,
    "sees_initial": NUMBERS,
    "state_names": TEXT,
    "action_names": TEXT,
    "observation_names": TEXT,
}
_PREFIXES = {"variable:": NUMBERS + TEXT, "label:": NUMBERS}


def from_arrays(path: str | Path, *, limit_bytes: int = LIMIT_BYTES) -> Imported:
    """The model in a NumPy `.npz` file.

    Arrays, all but `rewards`, `initial` and the transitions optional:

    - `transitions` `(S, A, S)`; or, sparse, `transitions_data`, `transitions_indices`, `transitions_indptr`: the CSR form
      of an `(A·S, S)` matrix whose row `a·S + s` is `P(·|s,a)`. A row may be empty where `available` says so.
    - `rewards` `(S, A)` or `(S,)`; `initial` `(S,)`; `discount` `()`; `terminal_rewards` `(S,)`; `available` `(S, A)`.
    - `emissions` `(S, O)` or `(A, S, O)`; `sees_actions` `()`; `sees_initial` `()`.
    - `state_names` `(S,)`, `action_names` `(A,)`, `observation_names` `(O,)`: text.
    - `variable:NAME` `(S,)`: values for expressions; `label:NAME` `(S,)` of bool.

    **Arguments:** `limit_bytes`: the largest total size of the arrays; a file may always hold 16 times its own size.

    Nothing is unpickled. **Raises:** `ModelFileError` naming the array; `InputError` if the arrays are not a model.
    """
    arrays, unknown = read_arrays(path, limit_bytes, _kinds_of)
    name = Path(path).name
    missing = [key for key in ("rewards", "initial") if key not in arrays]
    if missing:
        raise ModelFileError(path, f"it has no array {missing[0]!r}, expected one; it has {_listed(arrays)}")
    notes = [f"array {key!r} is unknown and was left out" for key in unknown]
    if "discount" not in arrays:
        notes.append("no discount is given: 1 is assumed")
    transitions = _transitions(arrays, path)
    model = _from(
        path,
        Model,
        transitions,
        arrays["rewards"],
        arrays["initial"],
        _scalar(arrays, "discount", 1.0, path),
        arrays.get("terminal_rewards"),
        _names(arrays, "state_names"),
        _names(arrays, "action_names"),
        available=arrays.get("available"),
    )
    observer = _observer(arrays, model, path)
    variables = _with_prefix(arrays, "variable:", model.num_states, path)
    labels = {key: values != 0 for key, values in _with_prefix(arrays, "label:", model.num_states, path).items()}
    return Imported(model, observer, name, "NumPy arrays", tuple(notes), variables, labels)


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
        raise ModelFileError(
            path, f"its format is {kind!r}, expected 'csr', 'csc' or 'coo', as scipy.sparse.save_npz writes it"
        )
    for key in ("shape", "data", *needed):
        if key not in arrays:
            raise ModelFileError(path, f"it has no array {key!r}, expected one, as scipy.sparse.save_npz writes it")
    shape = arrays["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise ModelFileError(path, f"array 'shape' is {shape.tolist()!r:.60}, expected two sizes")
    rows, columns = (int(size) for size in shape)
    if 8 * (rows + columns) > limit_bytes:  # a sparse matrix of nothing still has a number for each row
        raise ModelFileError(path, f"it has {rows:,} rows and {columns:,} columns, expected fewer: raise limit_bytes")
    if kind == "coo":
        places = [_indices(arrays, key, size, path) for key, size in (("row", rows), ("col", columns))]
        _check_lengths(arrays, ("data", "row", "col"), path)
        return sp.csr_array((_floats(arrays, "data", path), tuple(places)), shape=(rows, columns))
    outer, inner = (rows, columns) if kind == "csr" else (columns, rows)
    parts = _compressed(arrays, "data", "indices", "indptr", outer, inner, path)
    make = sp.csr_array if kind == "csr" else sp.csc_array
    return sp.csr_array(make(parts, shape=(rows, columns)))


def _kinds_of(key: str) -> str | None:
    for prefix, kind in _PREFIXES.items():
        if key.startswith(prefix) and len(key) > len(prefix):
            return kind
    return _KEYS.get(key)


def _transitions(arrays: Mapping[str, np.ndarray], path: str | Path) -> np.ndarray | list[sp.csr_array]:
    parts = ("transitions_data", "transitions_indices", "transitions_indptr")
    if "transitions" in arrays:
        if any(part in arrays for part in parts):
            raise ModelFileError(
                path, "it has 'transitions' and 'transitions_data', expected dense or sparse, not both"
            )
        return arrays["transitions"]
    for part in parts:
        if part not in arrays:
            raise ModelFileError(
                path,
                f"it has no array 'transitions', nor {part!r}, expected dense or sparse transitions; it has {_listed(arrays)}",
            )
    size = arrays["initial"].size
    rows = arrays["transitions_indptr"].size - 1
    if size == 0 or rows <= 0 or rows % size:
        raise ModelFileError(
            path, f"array 'transitions_indptr' has {rows + 1} entries, expected A·S + 1 with S = {size}"
        )
    data, indices, indptr = _compressed(arrays, *parts, rows, size, path)
    starts = range(0, rows, size)
    return [
        sp.csr_array(
            (
                data[indptr[row] : indptr[row + size]],
                indices[indptr[row] : indptr[row + size]],
                indptr[row : row + size + 1] - indptr[row],
            ),
            shape=(size, size),
        )
        for row in starts
    ]


def _compressed(
    arrays: Mapping[str, np.ndarray], data: str, indices: str, indptr: str, outer: int, inner: int, path: str | Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays of a compressed matrix, checked: SciPy's own routines read beyond them if they are wrong."""
    _check_lengths(arrays, (data, indices), path)
    places = _indices(arrays, indices, inner, path)
    starts = arrays[indptr]
    good = starts.ndim == 1 and starts.dtype.kind in "iu" and len(starts) == outer + 1
    if good:
        starts = starts.astype(np.int64)
        good = starts[0] == 0 and starts[-1] == len(places) and bool((np.diff(starts) >= 0).all())
    if not good:
        raise ModelFileError(
            path, f"array {indptr!r} is wrong, expected {outer + 1} numbers that rise from 0 to {len(places)}"
        )
    return _floats(arrays, data, path), places, starts


def _indices(arrays: Mapping[str, np.ndarray], key: str, size: int, path: str | Path) -> np.ndarray:
    array = arrays[key]
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < size):
        raise ModelFileError(path, f"array {key!r} is wrong, expected whole numbers from 0 to {size - 1}")
    return array.astype(np.int64)


def _floats(arrays: Mapping[str, np.ndarray], key: str, path: str | Path) -> np.ndarray:
    if arrays[key].ndim != 1:
        raise ModelFileError(path, f"array {key!r} has shape {arrays[key].shape}, expected one axis")
    return arrays[key].astype(np.float64)


def _check_lengths(arrays: Mapping[str, np.ndarray], keys: Sequence[str], path: str | Path) -> None:
    sizes = {key: arrays[key].size for key in keys}
    if len(set(sizes.values())) > 1:
        raise ModelFileError(
            path, f"arrays {', '.join(map(repr, keys))} have lengths {list(sizes.values())}, expected one length"
        )


def _observer(arrays: Mapping[str, np.ndarray], model: Model, path: str | Path) -> Observer | None:
    if "emissions" not in arrays:
        return None
    observer = _from(
        path,
        Observer,
        arrays["emissions"],
        _names(arrays, "observation_names"),
        bool(_scalar(arrays, "sees_actions", 0.0, path)),
        bool(_scalar(arrays, "sees_initial", 1.0, path)),
    )
    defects = Defects(f"{path}")
    observer.check(model.states, model.actions, defects)
    defects.raise_if_any()
    return observer


def _from(path: str | Path, make: Callable[P, R], *parts: P.args, **more: P.kwargs) -> R:
    """Build a part; its defects are told with the name of the file."""
    try:
        return make(*parts, **more)
    except InputError as error:
        raise InputError(f"{path}: {error.subject}", error.defects) from None


def _scalar(arrays: Mapping[str, np.ndarray], key: str, otherwise: float, path: str | Path) -> float:
    if key not in arrays:
        return otherwise
    if arrays[key].size != 1:
        raise ModelFileError(path, f"array {key!r} has shape {arrays[key].shape}, expected one number")
    return float(arrays[key].reshape(()))


def _names(arrays: Mapping[str, np.ndarray], key: str) -> list[str] | None:
    return [str(name) for name in arrays[key].ravel()] if key in arrays else None


def _with_prefix(arrays: Mapping[str, np.ndarray], prefix: str, size: int, path: str | Path) -> dict[str, np.ndarray]:
    found = {}
    for key, values in arrays.items():
        if key.startswith(prefix):
            if values.shape != (size,):
                raise ModelFileError(path, f"array {key!r} has shape {values.shape}, expected ({size},)")
            found[key.removeprefix(prefix)] = values
    return found


def _listed(arrays: Mapping[str, np.ndarray]) -> str:
    return ", ".join(map(repr, list(arrays)[:12])) or "none that is known"
