"""Immutable objects: equal and hashed by content, copied by reference, pickled through their constructor."""

import dataclasses
import functools
import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import NoReturn

import numpy as np
import scipy.sparse as sp

_LONGEST_TEXT = 60  # characters of a text within a repr
_ITEMS_READ = 64  # of a sequence, for its hash
_MOST_ITEMS = 4  # of a short sequence within a repr


class Value:
    """An immutable object that is defined by the arguments of its constructor.

    Two objects of one class are equal where their arguments are: arrays number for number, NaN equal to NaN. The hash
    reads all numbers, once. A copy is the object itself. A pickle holds the arguments, and loading it calls the constructor,
    which checks them.

    A dataclass is described by its fields, every other class by the attributes with the names of its parameters, unless it
    defines `_arguments`; such a class calls `_seal` at the end of its constructor.
    """

    def _arguments(self) -> dict[str, object]:
        """The keyword arguments with which the constructor makes an equal object."""
        return {name: getattr(self, name) for name in _parameters(type(self))}

    def __post_init__(self) -> None:
        """Make the arrays of a dataclass read-only, without touching those of the caller."""
        for name, value in self._arguments().items():
            if isinstance(value, np.ndarray) and value.flags.writeable:
                object.__setattr__(self, name, read_only(value))

    def _seal(self) -> None:
        self.__dict__["_sealed"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_sealed" in self.__dict__:
            self._refuse(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        remedy = "use replace(…)" if hasattr(self, "replace") else "make a new one"
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: the object is immutable, {remedy}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Value)
        known = self.__dict__.get("_hash"), other.__dict__.get("_hash")
        if None not in known and known[0] != known[1]:
            return False
        return same(self._arguments(), other._arguments())

    def __hash__(self) -> int:
        found = self.__dict__.get("_hash")
        if found is None:
            content = tuple(_content(value) for value in self._arguments().values())
            found = self.__dict__["_hash"] = hash((type(self).__name__, content))
        return found

    def __copy__(self):
        return self

    def __deepcopy__(self, memo: dict[int, object]):
        return self

    def __reduce__(self):
        return _rebuild, (type(self), self._arguments())

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={brief(value)}" for name, value in self._arguments().items())
        return f"{type(self).__name__}({shown})"


@functools.cache
def _parameters(kind: type) -> tuple[str, ...]:
    """The parameters of a constructor; of a dataclass its fields."""
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else None
    return tuple(inspect.signature(kind).parameters) if fields is None else tuple(one.name for one in fields)


def read_only(array: np.ndarray) -> np.ndarray:
    """The same numbers, not to be written to through this array."""
    view = array.view()
    view.flags.writeable = False
    return view


def same(first: object, second: object) -> bool:
    """Whether two arguments are equal: arrays number for number, mappings and sequences item by item, NaN to NaN."""
    if first is second:
        return True
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and _same_arrays(first, second)
    if isinstance(first, sp.csr_array) or isinstance(second, sp.csr_array):
        return isinstance(first, sp.csr_array) and isinstance(second, sp.csr_array) and _same_sparse(first, second)
    if isinstance(first, float) and isinstance(second, float):
        return first == second or (first != first and second != second)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return len(first) == len(second) and all(map(same, first, second))
    if dataclasses.is_dataclass(first) and type(first) is type(second) and not isinstance(first, Value):
        return all(same(getattr(first, one.name), getattr(second, one.name)) for one in dataclasses.fields(first))
    return bool(first == second)


def brief(value: object) -> str:
    """A value within a repr: on one line, arrays by their shape, long texts and collections cut."""
    if isinstance(value, np.ndarray | sp.csr_array):
        return f"<array {'×'.join(map(str, value.shape or ()))}>"
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_TEXT else value[: _LONGEST_TEXT - 1] + "…")
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, Sequence | Mapping) and not isinstance(value, bytes):
        plain = isinstance(value, tuple | list) and all(isinstance(one, str | float | int | None) for one in value)
        if plain and len(value) <= _MOST_ITEMS:
            inside = ", ".join(map(brief, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
        return f"<{len(value)} item{'s' * (len(value) != 1)}>"
    return " ".join(repr(value).split())


def _same_arrays(first: np.ndarray, second: np.ndarray) -> bool:
    inexact = first.dtype.kind in "fc" and second.dtype.kind in "fc"
    return np.array_equal(first, second, equal_nan=inexact)


def _same_sparse(first: sp.csr_array, second: sp.csr_array) -> bool:
    return first.shape == second.shape and (first - second).count_nonzero() == 0


def _content(value: object) -> Hashable:
    """What of an argument goes into a hash: equal arguments (`same`) have equal contents.

    Of a sequence the first items are read and the last: a model may have a million names.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return _numbers(value)
    if isinstance(value, sp.csr_array):
        matrix = value if value.has_canonical_format else value.copy()
        matrix.sum_duplicates()
        kept = matrix.data != 0
        row = np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))
        return value.shape, _numbers(row[kept]), _numbers(matrix.indices[kept]), _numbers(matrix.data[kept])
    if isinstance(value, float):
        return "nan" if value != value else value
    if isinstance(value, Mapping):
        return frozenset((key, _content(item)) for key, item in value.items())
    if dataclasses.is_dataclass(value) and not isinstance(value, Value | type):
        return tuple(_content(getattr(value, one.name)) for one in dataclasses.fields(value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return len(value), *map(_content, value[:_ITEMS_READ]), *map(_content, value[-1:])
    return value if isinstance(value, Hashable) else None


def _numbers(array: np.ndarray) -> Hashable:
    """The shape of an array, and a hash of its numbers that does not depend on their type."""
    if array.dtype.kind not in "biuf":
        return array.shape
    numbers = array.astype(np.float64) + 0.0  # no negative zeros
    numbers[np.isnan(numbers)] = np.nan
    return array.shape, hash(numbers.tobytes())


def _rebuild(kind: type[Value], arguments: dict[str, object]) -> Value:
    return kind(**arguments)
