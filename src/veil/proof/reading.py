"""Numbers, arrays and items as the verifier takes them: checked for type and range, arrays then in float64 or int64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .arithmetic import LARGEST, Numbers, require

Shape = tuple[int | None, ...]
"""Of an array; None for any length."""
MALFORMED = LookupError, TypeError, ValueError, AttributeError, ArithmeticError
"""What content of another form than the expected one may raise."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers with probabilities: row i has the entries `ends[i] … ends[i + 1] − 1` of `target` and `chance`."""

    ends: Numbers
    target: Numbers
    chance: Float[np.ndarray, " m"]

    @classmethod
    def read(cls, given: Sequence[object], rows: int, columns: int, what: str) -> "Rows":
        """Rows by their parts: each number of a row comes once, in order, with a positive probability."""
        ends, chance = read_integers(given[0], 0, 2**40, (rows + 1,), what), read_floats(given[2], (None,), what)
        target, steps = read_integers(given[1], 0, columns, chance.shape, what), np.diff(ends)
        fits = ends[0] == 0 and ends[-1] == len(target) and (steps >= 0).all()
        require(fits and ((chance > 0) & (chance < np.inf)).all(), f"{what} are no distributions")
        require(np.diff(np.repeat(np.arange(rows), steps) * columns + target) > 0, f"{what} have an entry twice")
        return cls(ends, target, chance)

    @cached_property
    def degree(self) -> Numbers:
        """How many entries each row has."""
        return np.diff(self.ends)

    def of(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """All entries of some rows: the position among these, and the number of the entry."""
        count = self.degree[rows]
        position = np.repeat(np.arange(len(rows)), count)
        return position, np.arange(len(position)) - np.repeat(np.cumsum(count) - count - self.ends[rows], count)

    @cached_property
    def sums(self) -> Float[np.ndarray, " n"]:
        """The computed sum of each row that has entries, whose error `defect_of` allows for."""
        row = np.repeat(np.arange(len(self.degree)), self.degree)
        return np.bincount(row, self.chance, len(self.degree))[self.degree > 0]


def read_integers(given: object, low: int, high: int, shape: Shape, what: str) -> Int[np.ndarray, "..."]:
    """An array of a file as int64, once it is seen to have a shape, and to hold whole numbers of which low ≤ n < high.

    **Raises:** `CertificateError` naming what is wrong; nothing is computed with the numbers before.
    """
    array = _array(given, "iu", shape, what)
    inside = array.size == 0 or (int(array.min()) >= low and int(array.max()) < high)
    require(inside, f"{what}: a number is outside {low} … {high - 1}")
    return array.astype(np.int64)


def read_floats(given: object, shape: Shape, what: str) -> Float[np.ndarray, "..."]:
    """An array of a file as float64, once it is seen to have a shape, and to hold numbers of at most 64 bits and no NaN."""
    array = _array(given, "f", shape, what)
    fits = array.dtype.itemsize <= 8 and not np.isnan(array).any()
    require(fits, f"{what}: numbers of 64 bits are expected, not NaN")
    return array.astype(np.float64)


def _array(given: object, kinds: str, shape: Shape, what: str) -> np.ndarray:
    plain = type(given) is np.ndarray  # not a masked array, whose sums leave numbers out
    found = f"{given.dtype} of shape {given.shape}" if plain else type(given).__name__
    fits = plain and given.dtype.kind in kinds and given.ndim == len(shape)
    fits = fits and all(size in (None, own) for size, own in zip(shape, getattr(given, "shape", ()), strict=True))
    wanted = "floats" if kinds == "f" else "integers"
    require(fits, f"{what}: it is {found}, expected {wanted} of shape {shape}")
    assert isinstance(given, np.ndarray)
    return given


class Arrays:
    """The arrays of a file by name, where none of their numbers is infinite; `what` says in messages what they are of."""

    def __init__(self, arrays: Mapping[str, np.ndarray], what: str):
        self.arrays, self.what = arrays, what

    def integers(self, name: str, low: int, high: int, length: int | None = None) -> Numbers:
        """Whole numbers of which low ≤ n < high."""
        return read_integers(self.arrays[name], low, high, (length,), f"{self.what}: {name}")

    def floats(self, name: str, *shape: int) -> np.ndarray:
        """Finite numbers."""
        found = read_floats(self.arrays[name], shape, f"{self.what}: {name}")
        require(np.isfinite(found), f"{self.what}: {name} has numbers that are not finite")
        return found

    def rows(self, name: str, rows: int, columns: int) -> Rows:
        """Rows in three arrays."""
        parts = [self.arrays[f"{name}.{one}"] for one in ("ends", "column", "chance")]
        return Rows.read(parts, rows, columns, f"{self.what}: {name}")


def is_finite(value: object) -> bool:
    """Whether something is a finite number that a double holds; a truth value is not a number."""
    return isinstance(value, float | int) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def is_amount(value: object) -> bool:
    """Whether something is a finite number, 0 or more."""
    return is_finite(value) and value >= 0  # type: ignore[operator]


def whole(least: int = 0, most: int = 2**31) -> Callable[[object], bool]:
    """What tells whether something is a whole number from `least` to `most`."""

    def inside(value: object) -> bool:
        return type(value) is int and least <= value <= most

    inside.__doc__ = f"Whether something is a whole number from {least} to {most}."
    return inside


def formed(form: object) -> dict[str, object]:
    """The metadata of a field of an item that has a form."""
    return {"form": form}


def forms_of(item: Any) -> dict[str, Any]:
    """The forms of the fields of an item that have one."""
    return {one.name: one.metadata["form"] for one in fields(item) if "form" in one.metadata}


def check_form(value: Any, form: Any, what: str) -> None:
    """Raise `CertificateError` unless a value has a form: a type, with those of the fields of a dataclass; a function that
    tells; `(form,)` for None or that form; `[form]` or `(form, ...)` for a list or a tuple of several; a dictionary with the
    forms of fields."""
    if isinstance(form, tuple) and len(form) == 1:
        return None if value is None else check_form(value, form[0], what)
    kind = type(form) if isinstance(form, dict | list | tuple) else form
    good = type(value) is kind if isinstance(kind, type) else kind(value)
    if not good:  # a function says in its first words what it expects
        words = f"a {kind.__name__}" if isinstance(kind, type) else (kind.__doc__ or "something else").splitlines()[0]
        require(good, f"{what}: it is {short(value)}, expected {words.removeprefix('Whether something is ')}")
    if isinstance(form, list | tuple):
        for one in value:
            check_form(one, form[0], what)
    elif isinstance(form, dict):
        wrong = set(form) - set(value), set(value) - set(form)
        words = f"{what}: its fields are wrong: missing {sorted(wrong[0])}, unknown {short(sorted(wrong[1]))}"
        require(not any(wrong), words)
        for name, own in form.items():
            check_form(value[name], own, f"{what}: {name}")
    elif is_dataclass(form):
        for name, own in forms_of(form).items():
            check_form(getattr(value, name), own, f"{what}: {name}")


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a JSON text in which no key comes twice: another reader might take the other value."""
    require(len(dict(pairs)) == len(pairs), "a key comes twice")
    return dict(pairs)


def short(value: object) -> str:
    """A value for a message; a number of thousands of digits is not written out."""
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) > 2**64 else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
