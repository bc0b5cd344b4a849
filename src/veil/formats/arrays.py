"""Models as NumPy `.npz` files, dense or sparse, and matrices that SciPy saved: sizes are checked before memory is taken."""

import io
import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..common.checks import Defects
from ..common.errors import InputError, ModelFileError
from ..common.files import write_whole
from ..problem.model import Model
from ..problem.observer import Observer
from .imported import Imported

LIMIT_BYTES = 2**26  # of all arrays together, for a small file; a larger file may hold 16 times its own size
_MOST_MEMBERS = 256
_MOST_HEADER = 4096
_NUMBERS, _TEXT = "fiub", "U"
_HEADER = re.compile(
    r"\{ *'descr' *: *'(?P<type>[<>|=]?[fiubcUSO][0-9]{0,6})' *, *'fortran_order' *: *(?P<columns>True|False) *,"
    r" *'shape' *: *\((?P<shape>[0-9, ]*)\) *,? *\}"
)

# What a file may hold, and of which kind: numbers or text.
_KEYS = {
    "transitions": _NUMBERS,
    "transitions_data": _NUMBERS,
    "transitions_indices": _NUMBERS,
    "transitions_indptr": _NUMBERS,
    "rewards": _NUMBERS,
    "initial": _NUMBERS,
    "discount": _NUMBERS,
    "terminal_rewards": _NUMBERS,
    "available": _NUMBERS,
    "emissions": _NUMBERS,
    "sees_actions": _NUMBERS,
    "sees_initial": _NUMBERS,
    "state_names": _TEXT,
    "action_names": _TEXT,
    "observation_names": _TEXT,
}
_PREFIXES = {"variable:": _NUMBERS + _TEXT, "label:": _NUMBERS}


def load_arrays(path: str | Path, *, limit_bytes: int = LIMIT_BYTES) -> Imported:
    """The model in a NumPy `.npz` file.

    Arrays, all but `rewards`, `initial` and the transitions optional:

    - `transitions` `(S, A, S)`; or, sparse, `transitions_data`, `transitions_indices`, `transitions_indptr`: the CSR form
      of an `(A·S, S)` matrix whose row `a·S + s` is `P(·|s,a)`. A row may be empty where `available` says so.
    - `rewards` `(S, A)` or `(S,)`; `initial` `(S,)`; `discount` `()`; `terminal_rewards` `(S,)`; `available` `(S, A)`.
    - `emissions` `(S, O)` or `(A, S, O)`; `sees_actions` `()`; `sees_initial` `()`.
    - `state_names` `(S,)`, `action_names` `(A,)`, `observation_names` `(O,)`: text.
    - `variable:NAME` `(S,)`: values for expressions; `label:NAME` `(S,)` of bool.

    **Arguments:** `limit_bytes`: how large all arrays together may be; the default lets a file over 4 MiB hold 16 times
    its own size.

    Nothing is unpickled. **Raises:** `ModelFileError` naming the array; `InputError` where the model is none.
    """
    arrays, unknown = _read(path, limit_bytes, _kind_of)
    name = Path(path).name
    missing = [key for key in ("rewards", "initial") if key not in arrays]
    if missing:
        raise ModelFileError(path, f"it has no array {missing[0]!r}, expected one; it has {_listed(arrays)}")
    notes = [f"array {key!r} is not known and was left out" for key in unknown]
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


def save_arrays(
    path: str | Path,
    model: Model,
    observer: Observer | None = None,
    *,
    variables: Mapping[str, np.ndarray] | None = None,
    labels: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write a model as a `.npz` file, sparse, complete or not at all; the same model gives the same bytes.

    **Raises:** `ModelFileError` where it cannot be written.
    """
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
        arrays["emissions"] = observer.emissions
        arrays["sees_actions"] = np.array(observer.sees_actions)
        arrays["sees_initial"] = np.array(observer.sees_initial)
        named.append(("observation_names", observer.observations))
    arrays |= {key: np.array(names.all()) for key, names in named if names.given}
    arrays |= {f"variable:{name}": np.asarray(values) for name, values in (variables or {}).items()}
    arrays |= {f"label:{name}": np.asarray(values, dtype=bool) for name, values in (labels or {}).items()}
    try:
        write_whole(path, packed(arrays))
    except OSError as error:
        raise ModelFileError(path, f"it cannot be written: {error.strerror}") from None


def load_sparse(path: str | Path, *, limit_bytes: int = LIMIT_BYTES) -> sp.csr_array:
    """A matrix that `scipy.sparse.save_npz` wrote, for `Model([one for each action], …)`; CSR, CSC or COO.

    **Raises:** `ModelFileError`; sizes and indices are checked before memory is taken.
    """
    arrays, _ = _read(path, limit_bytes, lambda key: "S" + _TEXT if key == "format" else _NUMBERS)
    kind = str(arrays["format"].astype(str)) if "format" in arrays and arrays["format"].ndim == 0 else "none"
    needed = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}.get(kind)
    if needed is None:
        raise ModelFileError(
            path, f"its format is {kind!r}, expected 'csr', 'csc' or 'coo' as scipy.sparse.save_npz writes"
        )
    for key in ("shape", "data", *needed):
        if key not in arrays:
            raise ModelFileError(path, f"it has no array {key!r}, expected one as scipy.sparse.save_npz writes")
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


def _kind_of(key: str) -> str | None:
    for prefix, kind in _PREFIXES.items():
        if key.startswith(prefix) and len(key) > len(prefix):
            return kind
    return _KEYS.get(key)


def _read(path: str | Path, limit_bytes: int, kind_of: Any) -> tuple[dict[str, np.ndarray], list[str]]:
    """The arrays of a file and the keys that are not known; raises `ModelFileError` on anything that is not as it says."""
    try:
        size = Path(path).stat().st_size
        left = max(limit_bytes, 16 * size)
        arrays: dict[str, np.ndarray] = {}
        unknown = []
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise ModelFileError(path, f"it holds {len(members)} arrays, expected at most {_MOST_MEMBERS}")
            for member in members:
                key = member.filename.removesuffix(".npy")
                if kind_of(key) is None:
                    unknown.append(key[:60])
                    continue
                if key in arrays:
                    raise ModelFileError(path, f"array {key!r} is there twice, expected once")
                arrays[key] = _read_member(archive, member, key, kind_of(key), left, path)
                left -= arrays[key].nbytes
        return arrays, unknown
    except FileNotFoundError:
        raise ModelFileError(path, "there is no such file") from None
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(path, f"it cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError, OverflowError, MemoryError) as error:
        raise ModelFileError(path, f"it cannot be read as a NumPy .npz file: {str(error)[:200]}") from None
    except (TypeError, KeyError, IndexError, SyntaxError, AttributeError, AssertionError) as error:
        # A damaged directory or header makes the readers of the standard library and of NumPy raise what they please.
        raise ModelFileError(path, f"it cannot be read as a NumPy .npz file: {type(error).__name__}") from None


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str, kinds: str, left: int, path: str | Path
) -> np.ndarray:
    """One array; its header is compared with what is allowed before its numbers are read."""
    if member.file_size > left + _MOST_HEADER:
        raise ModelFileError(
            path, f"array {key!r} has {member.file_size:,} bytes, expected at most {left:,}: raise limit_bytes"
        )
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ModelFileError(
            path, f"array {key!r} is compressed in an unusual way, expected numpy.savez or savez_compressed"
        )
    with archive.open(member) as stream:
        shape, by_columns, dtype = _read_header(stream, key, path)
        if dtype.kind not in kinds or dtype.hasobject or dtype.fields is not None:
            wanted = "text" if kinds == _TEXT else "numbers" if _TEXT not in kinds else "numbers or text"
            raise ModelFileError(path, f"array {key!r} is of type {dtype}, expected {wanted}")
        count = math.prod(shape)
        if count * dtype.itemsize > left or len(shape) > 3:
            raise ModelFileError(
                path, f"array {key!r} has shape {shape} of {dtype}, expected at most three axes and {left:,} bytes"
            )
        content = stream.read(count * dtype.itemsize)
        if len(content) != count * dtype.itemsize or stream.read(1):
            raise ModelFileError(path, f"array {key!r} does not hold what its shape {shape} says")
    array = np.frombuffer(content, dtype=dtype)
    return array.reshape(shape, order="F" if by_columns else "C")


def _read_header(stream: Any, key: str, path: str | Path) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether by columns, and type of an array in NumPy's format; read by hand, so that nothing is evaluated."""
    start = stream.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:] not in (b"\x01\x00", b"\x02\x00"):
        raise ModelFileError(path, f"array {key!r} is not in NumPy's format, version 1 or 2")
    size = int.from_bytes(stream.read(2 if start[6] == 1 else 4), "little")
    if size > _MOST_HEADER:
        raise ModelFileError(path, f"array {key!r} has a header of {size:,} bytes, expected at most {_MOST_HEADER:,}")
    header = stream.read(size).decode("latin-1")
    match = _HEADER.fullmatch(header.strip())
    numbers = match["shape"].replace(" ", "").removesuffix(",").split(",") if match else ["?"]
    if match is None or not all(number.isdigit() and len(number) < 19 for number in numbers if numbers != [""]):
        raise ModelFileError(path, f"array {key!r} has a header that is not understood: {header[:60]!r}")
    shape = tuple(int(number) for number in numbers if number)
    return shape, match["columns"] == "True", np.dtype(match["type"])


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a `.npz` file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{key}.npy")  # without the time of day: the same model gives the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def _transitions(arrays: Mapping[str, np.ndarray], path: str | Path) -> Any:
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


def _from(path: str | Path, make: Any, *parts: Any, **more: Any) -> Any:
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
