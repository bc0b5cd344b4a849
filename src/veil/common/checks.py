"""Checks shared by all constructors: collect every defect, then raise once."""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, TypeGuard, TypeVar, overload

import numpy as np

from .errors import REST, Defect, InputError, Place, VeilError
from .suggest import suggestion

T = TypeVar("T")

# A row of probabilities may miss 1 by what a few roundings leave; it is used as given, never renormalised.
SUM_TOLERANCE = 1e-9
MOST_LISTED = 20
_SINGLE_PRECISION = 1e-4  # by how much a row may miss 1 that was normalised in 32 bits
_MOST_SHOWN = 4  # names in a repr


class Defects:
    """Collects defects of one subject; `raise_if_any` raises them all in one `InputError`."""

    def __init__(self, subject: str):
        self.subject = subject
        self._found: list[Defect] = []
        self._more = 0

    def add(self, message: str, *at: str | int, where: str = "") -> None:
        """Note one defect; beyond twenty they are only counted.

        **Arguments:** `message`: found against expected, and the remedy; `at`: the names and indices that lead to the value
        within the subject, as `"groups", "port"`, so that a reader of files can name the line; `where`: the same in words.
        """
        if len(self._found) < MOST_LISTED:
            self._found.append(Defect(message, at, where))
        else:
            self._more += 1

    def add_each(self, places: Sequence[Any] | np.ndarray, message: Callable[[Any], str], *at: str | int) -> None:
        """Note a defect at each of some places; messages are made for those that are listed, the others are counted."""
        for place in places[:MOST_LISTED]:
            self.add(message(place), *at)
        self._count(max(0, len(places) - MOST_LISTED))

    def _count(self, number: int) -> None:
        self._more += number

    def take(self, error: VeilError, *at: str | int, where: str = "") -> None:
        """Note every defect of an error that a part of the subject raised."""
        part = self.under(*at, where=where)
        for defect in error.found if isinstance(error, InputError) else (Defect(str(error)),):
            part.add(defect.message, *defect.at, where=defect.where)

    def under(self, *at: str | int, where: str = "") -> "Defects":
        """The same collection, for a part of the subject to which `at` leads."""
        return _Part(self, at, where)

    def __len__(self) -> int:
        return len(self._found) + self._more

    def __bool__(self) -> bool:
        return len(self) > 0

    def raise_if_any(self) -> None:
        """Raise `InputError` with all defects noted so far, if there are any."""
        if self._found:
            rest = [f"{REST}{self._more:,} more of the same kinds"] if self._more else []
            raise InputError(self.subject, [*self._found, *rest])


class _Part(Defects):
    """Notes in the collection of the whole, each with the way to the part before its own."""

    def __init__(self, whole: Defects, at: Place, where: str):
        super().__init__(whole.subject)
        self._whole, self._at, self._where = whole, at, where

    def add(self, message: str, *at: str | int, where: str = "") -> None:
        words = ", ".join(part for part in (self._where, where) if part)
        self._whole.add(message, *self._at, *at, where=words)

    def _count(self, number: int) -> None:
        self._whole._count(number)

    def __len__(self) -> int:
        return len(self._whole)

    def raise_if_any(self) -> None:
        self._whole.raise_if_any()


def frozen(array: np.ndarray) -> np.ndarray:
    """A contiguous float64 copy that cannot be written to."""
    result = np.array(array, dtype=np.float64, order="C")
    result.flags.writeable = False
    return result


_NO_NUMBERS = {"c": "complex numbers", "S": "text", "U": "text", "m": "durations", "M": "dates"}  # by kind of dtype


def as_floats(value: object, what: str, defects: Defects) -> np.ndarray | None:
    """A contiguous float64 copy of `value`, or None with the defect noted."""
    try:
        if np.ma.is_masked(value):
            raise TypeError("some entries are masked: fill them first, as in array.filled(0)")
        array = np.asarray(value)
        if array.dtype.kind in _NO_NUMBERS:
            raise TypeError(_NO_NUMBERS[array.dtype.kind])
        return np.array(array, dtype=np.float64, order="C")
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor that requires a gradient
        defects.add(f"{what} is not an array of real numbers ({error}); give nested lists or a NumPy array of floats")
        return None


def check_shape(array: np.ndarray, expected: Sequence[int | str], what: str, defects: Defects) -> bool:
    """Whether `array` has the expected shape; a string in `expected` is a free dimension, named in the message."""
    good = array.ndim == len(expected) and all(
        isinstance(want, str) or have == want for have, want in zip(array.shape, expected, strict=False)
    )
    if not good:
        wanted = "(" + ", ".join(str(size) for size in expected) + ("," if len(expected) == 1 else "") + ")"
        defects.add(f"{what} has shape {array.shape}, expected {wanted}")
    return good


def check_finite(array: np.ndarray, place: Callable[..., str], defects: Defects) -> bool:
    """Whether all entries are finite; `place(*index)` names the place of an entry."""
    if array.size == 0 or (np.isfinite(array.min()) and np.isfinite(array.max())):  # NaN is the least and the largest
        return True
    defects.add_each(
        np.argwhere(~np.isfinite(array)),
        lambda index: f"{place(*index)} is {array[tuple(index)]}, expected a finite number",
    )
    return False


def check_distributions(
    rows: np.ndarray, row_name: Callable[..., str], entry_name: Callable[..., str], defects: Defects
) -> None:
    """Note every entry that is not a probability and every row (last axis) that does not sum to one."""
    if not check_finite(rows, entry_name, defects):
        return
    if rows.size and (rows.min() < 0 or rows.max() > 1 + SUM_TOLERANCE):
        defects.add_each(
            np.argwhere((rows < 0) | (rows > 1 + SUM_TOLERANCE)),
            lambda index: f"{entry_name(*index)} is {rows[tuple(index)]:.17g}, expected a probability in [0, 1]",
        )
    sums = rows @ np.ones(rows.shape[-1])
    off = np.argwhere(np.abs(sums - 1) > SUM_TOLERANCE)
    defects.add_each(off, lambda index: f"{row_name(*index)} {sum_defect(float(sums[tuple(index)]))}")


def sum_defect(total: float) -> str:
    """What is wrong with a row of probabilities of this sum, and the remedy, which depends on how far it is from one."""
    found = f"sums to {total:.12g}, expected 1"
    if abs(total - 1) < _SINGLE_PRECISION:
        return f"{found} within {SUM_TOLERANCE:g}: numbers of 32 bits? Convert to float64 first, then divide by the sum"
    return f"{found}: divide it by its sum if that is meant"


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is one real number; truth values are not."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


@overload
def as_tuple(value: Iterable[T]) -> tuple[T, ...]: ...
@overload
def as_tuple(value: object) -> object: ...
def as_tuple(value: object) -> object:
    """Several things as a tuple, so that they can be read more than once; anything else as it is, for a later check."""
    is_one = isinstance(value, (str, bytes, int, np.integer))
    return (value,) if is_one else tuple(value) if isinstance(value, Iterable) else value


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with the number of the place added to those that occur more than once: no two are equal."""
    found = list(names)
    while len(set(found)) < len(found):  # `a [0]` may itself be one of the names
        times = Counter(found)
        found = [name if times[name] == 1 else f"{name} [{place}]" for place, name in enumerate(found)]
    return found


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is text that files can hold: no half of a character, such as `"\\ud800"`."""
    return isinstance(value, str) and (value.isascii() or value.encode(errors="ignore").decode() == value)


class Names(Sequence[str]):
    """The names of the states, actions or observations of a model: a sequence of strings that also finds their indices.

    It compares equal to any sequence of the same strings. Where no names are given, name i is `prefix` with i behind it,
    made when it is asked for, so that a million implicit names cost nothing.

    **Arguments:** `kind` of thing, for messages; `size`: how many; `names`: distinct non-empty strings, or None for
    implicit ones; `prefix` of these; `defects`: where wrong names are noted.
    """

    def __init__(self, kind: str, size: int, names: Sequence[str] | None, prefix: str, defects: Defects):
        self.kind = kind
        self.size = size
        self._prefix = prefix
        self._names: tuple[str, ...] | None = None
        self._index: dict[str, int] = {}
        if isinstance(names, Names) and len(names) == size:  # checked when they were made
            self._prefix, self._names, self._index = names._prefix, names._names, names._index
        elif names is not None:
            self._names = self._checked(names, defects)
            self._index = {name: position for position, name in enumerate(self._names)}

    @property
    def given(self) -> bool:
        """Whether the names were given, or are implicit."""
        return self._names is not None

    def all(self) -> tuple[str, ...]:
        """Every name, in order of the indices."""
        return self._names if self._names is not None else tuple(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | tuple[str, ...]:
        if self._names is not None:
            return self._names[index]
        places = range(self.size)[index]
        if isinstance(places, range):
            return tuple(f"{self._prefix}{place}" for place in places)
        return f"{self._prefix}{places}"

    def __len__(self) -> int:
        return self.size

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._index_of(name) is not None

    def index(self, value: str, start: int = 0, stop: int | None = None) -> int:
        """The index of a name; raises `ValueError` where there is none, as `list.index` does."""
        found = self._index_of(value) if isinstance(value, str) else None
        if found is None or found not in range(self.size)[start:stop]:
            raise ValueError(self._unknown(value))
        return found

    def count(self, value: str) -> int:
        """1 where the name is there, else 0."""
        return int(value in self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Names) and not self.given and not other.given:
            return (self.size, self._prefix) == (other.size, other._prefix)
        if isinstance(other, tuple | list | Names):
            return len(self) == len(other) and all(map(operator.eq, self, other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.all())

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:_MOST_SHOWN]))
        return f"<{self.size} {self.kind} name{'s' * (self.size != 1)}: {shown}{', …' * (self.size > _MOST_SHOWN)}>"

    def _checked(self, names: Sequence[str], defects: Defects) -> tuple[str, ...]:
        """As many names as there should be, with every defect noted."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            defects.add(f"{self.kind} names are {names!r}, expected a list of {self.size} strings")
            return self[:]
        named = tuple(names)
        if len(named) != self.size:
            defects.add(f"{len(named)} {self.kind} names given, expected {self.size}")
        for position, name in enumerate(named):
            if not is_text(name) or not name:
                defects.add(f"{self.kind} name {position} is {name!r}, expected a non-empty text in UTF-8")
        found = tuple(map(str, named))
        if len(set(found)) < len(found):
            twice = sorted(name for name, times in Counter(found).items() if times > 1)
            defects.add(f"{self.kind} names must differ, but these occur twice: {', '.join(map(repr, twice[:5]))}")
        return (found + self[len(found) :])[: self.size]

    def find(self, key: object) -> int:
        """The index of a name or an index; raises `KeyError` with a full sentence when there is none."""
        index = self._index_of(key)
        if index is None:
            raise KeyError(self._unknown(key))
        return index

    def find_or_note(self, key: object, where: str, defects: Defects) -> int | None:
        """`find`, with the defect noted in place of an exception; `where`, if any, is written before it."""
        index = self._index_of(key)
        if index is None:
            # Beyond the defects that are listed no message is needed, and suggestions take time.
            message = self._unknown(key) if len(defects) < MOST_LISTED else ""
            defects.add(f"{where}: {message}" if where else message)
        return index

    def _index_of(self, key: object) -> int | None:
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return int(key) if 0 <= key < self.size else None
        if not isinstance(key, str):
            return None
        if self._names is not None:
            return self._index.get(key)
        digits = key.removeprefix(self._prefix)
        is_one = digits.isdecimal() and len(digits) < 20 and key == f"{self._prefix}{int(digits)}"
        return int(digits) if is_one and int(digits) < self.size else None

    def _unknown(self, key: object) -> str:
        if isinstance(key, str):
            return f"unknown {self.kind} {key!r}: {suggestion(key, self[:1001])}"
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            return f"{self.kind} {int(key)} does not exist: indices run from 0 to {self.size - 1}"
        return f"{self.kind} {key!r} is a {type(key).__name__}, expected a name or an index"
