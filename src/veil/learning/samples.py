"""Pairs of a secret and what was observed, as numbers: what an audit reads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Int

from ..common.checks import Defects
from ..common.errors import InputError
from ..formats.text import shown
from .logs import UNKNOWN, Logs

NOTHING, END = "(nothing)", "(end)"
PAD = -1  # behind the end of a sequence
_MOST_ENTRIES = 2**28  # runs times their longest length


@dataclass(frozen=True, eq=False)
class Samples:
    """Independent pairs of a secret and a sequence of observations.

    **Attributes:** `values` of the secret, and the number of each run's in `secret`; `symbols`: the observations, and `tokens`,
    the number of each, `PAD` behind the end of a run; `ordered`: whether the numbers of the symbols follow their size. If
    the lengths differ, every run ends with the symbol `END`: the observer sees that it is over.
    """

    values: tuple[str, ...]
    secret: Int[np.ndarray, " n"]
    symbols: tuple[str, ...]
    tokens: Int[np.ndarray, "n L"]
    ordered: bool

    def __len__(self) -> int:
        return len(self.secret)

    @property
    def longest(self) -> int:
        """The number of symbols in the longest run."""
        return self.tokens.shape[1]

    @cached_property
    def word(self) -> Int[np.ndarray, " n"]:
        """The number of each run's whole sequence."""
        return np.unique(self.tokens, axis=0, return_inverse=True)[1].reshape(-1)

    def grams(self, order: int) -> Int[np.ndarray, "n L"]:
        """The number of the last `order` symbols at each time, fewer at the beginning; `PAD` behind the end."""
        found = np.zeros_like(self.tokens)
        for back in range(order - 1, -1, -1):
            shifted = np.full_like(self.tokens, PAD)
            shifted[:, back:] = self.tokens[:, : self.longest - back]
            found = numbered(found * (len(self.symbols) + 1) + shifted + 1)
        return np.where(self.tokens == PAD, PAD, found)


def numbered(codes: Int[np.ndarray, "*d"]) -> Int[np.ndarray, "*d"]:
    """The same with the codes that occur numbered from 0 on."""
    return np.unique(codes, return_inverse=True)[1].reshape(codes.shape)


def samples_of(secrets: object, sequences: object, bins: int) -> Samples:
    """Pairs from Python: a value of the secret for each sequence of observations.

    Observations are names, numbers, or None where nothing is received; numbers that are not all whole are put into `bins`
    classes of equal shares.

    **Raises:** `InputError`.
    """
    defects = Defects("audit")
    rows, names = _listed(sequences, "sequences", defects), _listed(secrets, "secrets", defects)
    defects.raise_if_any()
    if len(rows) != len(names):
        defects.add(
            f"there are {len(names):,} secrets and {len(rows):,} sequences, expected one secret for each sequence"
        )
    missing = [number for number, name in enumerate(names) if not _is_value(name)]
    defects.add_each(
        missing,
        lambda number: (
            f"secret {number} is {shown(str(names[number]))}, expected a name or a number: leave runs without a secret out"
        ),
    )
    nested = [number for number, row in enumerate(rows) if isinstance(row, str | bytes) or not _is_listable(row)]
    defects.add_each(nested, lambda number: f"sequence {number} is {rows[number]!r}, expected a list of observations")
    defects.raise_if_any()
    listed = [list(row) for row in rows]  # pyright: ignore[reportArgumentType]
    wrong = [number for number, row in enumerate(listed) if not all(map(_is_entry, row))]
    defects.add_each(wrong, lambda number: f"sequence {number} is {shown(str(listed[number]))}, {_EXPECTED}")
    defects.raise_if_any()
    return _numbered([str(name) for name in names], [[_plain(one) for one in row] for row in listed], bins)


def samples_of_logs(logs: Logs, labels: Mapping[str, str] | None, bins: int) -> Samples:
    """Pairs from recorded runs: the label of each run, its own or that of `labels` by the name of the run.

    **Raises:** `InputError` where a run has no label, or no observation at all.
    """
    defects = Defects(logs.source)
    given = logs.labels if labels is None else tuple(labels.get(name) for name in logs.runs)
    if not any(given):
        remedy = "give a file of labels with the columns run and label, or name the column that holds them"
        raise InputError(logs.source, [f"no run has a label, which says what its secret was: {remedy}"])
    without = [name for name, label in zip(logs.runs, given, strict=True) if not label]
    defects.add_each(without, lambda name: f"run {shown(name)} has no label: leave the run out, or add its label")
    if labels is not None:
        unused = sorted(set(labels) - set(logs.runs))
        defects.add_each(unused, lambda name: f"the labels have run {shown(name)}, which the logs do not have")
    if (logs.observation == UNKNOWN).all():
        defects.add("no observations were recorded: name the column that holds them, as in observation=reading")
    defects.raise_if_any()
    names = logs.names["observation"]
    first, last = np.flatnonzero(logs.begins), np.flatnonzero(logs.ends)
    tokens = [logs.observation[a : b + 1] for a, b in zip(first, last, strict=True)]
    read = [_parsed(name) for name in names]
    number = dict(enumerate(read if None not in read else names))
    return _numbered(list(map(str, given)), [[number.get(int(one)) for one in row] for row in tokens], bins)


_EXPECTED = "expected names, finite numbers, or None if nothing is received"
Entry = str | float | None


def _listed(given: object, what: str, defects: Defects) -> list[object]:
    if isinstance(given, str | bytes) or not _is_listable(given):
        defects.add(f"{what} is {shown(str(given))}, expected a list with an entry for each run")
        return []
    return list(given)  # pyright: ignore[reportArgumentType]


def _is_listable(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, Mapping)


def _is_entry(one: object) -> bool:
    if isinstance(one, float | int | np.number):
        return bool(np.isreal(one)) and math.isfinite(one)
    return one is None or isinstance(one, str)


def _is_value(one: object) -> bool:
    return isinstance(one, str | bool | np.bool_) or (
        isinstance(one, float | int | np.number) and bool(np.isfinite(one))
    )


def _plain(one: object) -> Entry:
    """A number as Python's; booleans and names as text."""
    if one is None or isinstance(one, str):
        return one
    return str(one) if isinstance(one, bool | np.bool_) else float(one)  # pyright: ignore[reportArgumentType]


def _parsed(name: str) -> float | None:
    try:
        found = float(name)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _numbered(secrets: Sequence[str], rows: Sequence[Sequence[Entry]], bins: int) -> Samples:
    """Pairs whose entries were checked."""
    defects = Defects("audit")
    if not rows:
        raise InputError("audit", ["there are no runs, expected at least ten"])
    longest = max(map(len, rows))
    if longest == 0:
        defects.add("every sequence is empty: there is nothing to see")
    ragged = min(map(len, rows)) < longest
    if len(rows) * (longest + ragged) > _MOST_ENTRIES:
        defects.add(f"{len(rows):,} runs of up to {longest:,} observations are too many: audit a part of them")
    defects.raise_if_any()
    values, secret = np.unique(np.array(secrets, dtype=object), return_inverse=True)
    entries = [one for row in rows for one in row]
    kinds = {type(one) for one in entries if one is not None}
    numbers = kinds <= {float}
    if numbers:
        names, place = _classes(np.array([math.nan if one is None else one for one in entries], dtype=float), bins)
    else:
        texts = np.array([NOTHING if one is None else _text(one) for one in entries], dtype=object)
        found, place = np.unique(texts, return_inverse=True)
        names = tuple(map(str, found))
    lengths = np.array([len(row) for row in rows])
    tokens = np.full((len(rows), longest + ragged), PAD, dtype=np.int64)
    tokens[np.arange(longest + ragged) < lengths[:, None]] = place
    if ragged:
        tokens[np.arange(len(rows)), lengths] = len(names)
        names = (*names, END)
    return Samples(tuple(map(str, values)), secret.astype(np.int64), names, tokens, numbers)


def _text(one: str | float) -> str:
    return one if isinstance(one, str) else f"{one:.15g}"


def _classes(numbers: np.ndarray, bins: int) -> tuple[tuple[str, ...], np.ndarray]:
    """Whole numbers by size; others in classes of equal shares. The edges depend on the observations alone."""
    known = np.isfinite(numbers)
    distinct, place = np.unique(numbers[known], return_inverse=True)
    names = [_text(one) for one in distinct]
    if len(distinct) > bins and (distinct != np.round(distinct)).any():
        edges = np.unique(np.quantile(numbers[known], np.arange(1, bins) / bins))
        place = np.searchsorted(edges, numbers[known], side="right")
        ends = [f"{edge:.4g}" for edge in edges]
        names = [f"below {ends[0]}", *(f"{a} to {b}" for a, b in pairwise(ends)), f"from {ends[-1]}"]
    found = np.full(len(numbers), len(names))
    found[known] = place
    return (tuple(names) if known.all() else (*names, NOTHING)), found
