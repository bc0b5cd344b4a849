"""Readings and secrets as numbers that a network reads: symbols by their place, numbers by centre and spread."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..learning.samples import NOTHING, PAD

OTHER = "(other)"
_MOST_SYMBOLS = 100_000
_MOST_VALUES = 1000


@dataclass(frozen=True, eq=False)
class Coding:
    """How runs are read; made from the first of them.

    **Attributes:** `values` of the secret, the last one stands for all that were not among the first; `symbols`, or None where
    readings are numbers, and their `centre` and `spread`, `(F,)`; `longest`: the most readings of a run.
    """

    values: tuple[str, ...]
    symbols: tuple[str, ...] | None
    centre: Float[np.ndarray, " F"]
    spread: Float[np.ndarray, " F"]
    longest: int

    @staticmethod
    def of(values: Sequence[str], readings: Sequence[Sequence[object]], longest: int) -> "Coding":
        """The coding of some runs. **Raises:** `InputError` where readings are of several kinds, or too many."""
        known = (*sorted(set(values)), OTHER)
        kinds = {_is_symbol(one) for row in readings for one in row if one is not None}
        if len(kinds) > 1:
            raise InputError("train", ["readings are names in some runs and numbers in others, expected one kind"])
        if len(known) > _MOST_VALUES:
            raise InputError(
                "train", [f"the secret has {len(known) - 1:,} values, expected at most {_MOST_VALUES - 1}"]
            )
        if kinds == {False}:
            table = _table([one for row in readings for one in row if one is not None])
            spread = table.std(axis=0)
            return Coding(known, None, table.mean(axis=0), np.where(spread > 0, spread, 1.0), longest)
        symbols = sorted({_name(one) for row in readings for one in row})
        if len(symbols) > _MOST_SYMBOLS:
            remedy = "give numbers as floats, or put them into classes"
            raise InputError("train", [f"there are {len(symbols):,} different readings: {remedy}"])
        return Coding(known, (*symbols, OTHER), np.zeros(0), np.ones(0), longest)

    @property
    def num_inputs(self) -> int:
        """Symbols, or numbers at each time: a flag that something is received comes after those of the sensor."""
        return len(self.centre) + 1 if self.symbols is None else len(self.symbols)

    def secret(self, values: Iterable[str]) -> Int[np.ndarray, " n"]:
        """The number of each value."""
        place = {value: number for number, value in enumerate(self.values)}
        return np.array([place.get(value, len(place) - 1) for value in values], dtype=np.int32)

    def inputs(self, readings: Sequence[Sequence[object]]) -> tuple[np.ndarray, Int[np.ndarray, " n"]]:
        """Symbols `(n, L)`, or numbers `(n, L, F)`, and the lengths of the runs."""
        lengths = np.array([len(row) for row in readings], dtype=np.int32)
        inside = np.arange(self.longest) < lengths[:, None]
        every = [one for row in readings for one in row]
        if self.symbols is not None:
            place = {name: number for number, name in enumerate(self.symbols)}
            found = np.full(inside.shape, PAD, dtype=np.int32)
            found[inside] = [place.get(_name(one), len(place) - 1) for one in every]
            return found, lengths
        numbers = np.zeros((*inside.shape, self.num_inputs), dtype=np.float32)
        received = np.array([one is not None for one in every])
        rows = np.zeros((len(every), self.num_inputs))
        if received.any():
            given = _table([one for one in every if one is not None])
            if given.shape[1] != len(self.centre):
                expected = f"expected {len(self.centre)} as in the first runs"
                raise InputError("train", [f"a reading has {given.shape[1]} numbers, {expected}"])
            rows[received, :-1] = (given - self.centre) / self.spread
            rows[received, -1] = 1.0
        numbers[inside] = rows
        return numbers, lengths

    def document(self) -> dict[str, Any]:
        """For a file."""
        return {
            "values": list(self.values),
            "symbols": None if self.symbols is None else list(self.symbols),
            "centre": self.centre.tolist(),
            "spread": self.spread.tolist(),
            "longest": self.longest,
        }

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Coding":
        """From `document`."""
        symbols = document["symbols"]
        return Coding(
            tuple(document["values"]), None if symbols is None else tuple(symbols), np.array(document["centre"]),
            np.array(document["spread"]), int(document["longest"]),
        )  # fmt: skip


def _is_symbol(reading: object) -> bool:
    return isinstance(reading, str | bool | int | np.integer | np.bool_)


def _name(reading: object) -> str:
    return NOTHING if reading is None else str(reading)


def _table(readings: Sequence[object]) -> Float[np.ndarray, "m F"]:
    try:
        table = np.array([np.ravel(np.asarray(one, dtype=float)) for one in readings])
    except (TypeError, ValueError):
        raise InputError("train", ["readings must be names, or equally many numbers at each time"]) from None
    if not np.isfinite(table).all():
        raise InputError("train", ["a reading is not finite: give None if nothing is received"])
    return table
