"""What an observer without a clock holds of a sequence of events: a string, in which silent events leave no trace.

An event has two parts: a letter, which joins the string without its time (or none, if it is silent), and a stamp, which is
known together with its time. Of an observer without a clock all stamps are alike; the observer who is shown the path as well
(`engine.event_entropy`) has the path as stamps.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from ..common.errors import InputError
from ..problem.observer import NO_CLOCK, Observer


@dataclass(frozen=True, eq=False)
class Written:
    """The parts of each event: `letter`, -1 for a silent one, and `stamp`; `first_letter` and `first_stamp` at time 0."""

    first_letter: Int[np.ndarray, " F"]
    first_stamp: Int[np.ndarray, " F"]
    letter: Int[np.ndarray, " E"]
    stamp: Int[np.ndarray, " E"]

    @staticmethod
    def by(observer: Observer) -> "Written | None":
        """What an observer holds; None of one with a clock, who holds the sequence itself."""
        if observer.erased is None:
            return None
        letter = np.arange(observer.num_observations)
        letter[observer.erased] = -1
        first = letter if observer.sees_first else np.full(1, -1)
        return Written(first, np.zeros_like(first), letter, np.zeros_like(letter))

    def shown(
        self,
        first: Int[np.ndarray, " F"],
        first_shown: Int[np.ndarray, " F"],
        event: Int[np.ndarray, " E"],
        shown: Int[np.ndarray, " E"],
    ) -> "Written":
        """The same for new events, each an event before together with something that is seen with its time."""
        return Written(self.first_letter[first], first_shown, self.letter[event], shown)

    @cached_property
    def is_aligned(self) -> bool:
        """Whether the stamps tell at which times the letters came, so that string and stamps tell the events."""
        return all(
            len(np.intersect1d(stamp[letter < 0], stamp[letter >= 0])) == 0
            for letter, stamp in ((self.first_letter, self.first_stamp), (self.letter, self.stamp))
        )

    @cached_property
    def num_letters(self) -> int:
        """One more than the largest letter."""
        return int(max(self.letter.max(initial=-1), self.first_letter.max(initial=-1))) + 1

    @property
    def starts(self) -> bool:
        """Whether the first event can be a letter."""
        return bool(np.any(self.first_letter >= 0))

    @cached_property
    def _events(self) -> tuple[Int[np.ndarray, "K L+1"], Int[np.ndarray, "K L+1"]]:
        """The first and the later event of each stamp and letter, silence in column 0; -1 if there is none."""
        stamps = int(max(self.stamp.max(initial=0), self.first_stamp.max(initial=0))) + 1
        found = np.full((2, stamps, self.num_letters + 1), -1)
        found[0, self.first_stamp, self.first_letter + 1] = np.arange(len(self.first_letter))
        found[1, self.stamp, self.letter + 1] = np.arange(len(self.letter))
        return found[0], found[1]

    def events(self, time: int, stamp: Int[np.ndarray, "*n"], letter: Int[np.ndarray, "*n"]) -> Int[np.ndarray, "*n"]:
        """The events at a time that have these parts; -1 if there is none."""
        return self._events[time > 0][stamp, letter + 1]

    def strings(self, events: Int[np.ndarray, "k T+1"]) -> "Strings":
        """What is held of sequences of events."""
        parts = self.first_letter[events[:, :1]], self.letter[events[:, 1:]]
        letters = np.concatenate(parts, axis=1).astype(np.int32)
        order = np.argsort(letters < 0, axis=1, kind="stable")
        stamps = np.concatenate([self.first_stamp[events[:, :1]], self.stamp[events[:, 1:]]], axis=1)
        return Strings(np.take_along_axis(letters, order, axis=1), stamps.astype(np.int32))

    def letters_until(self, events: Int[np.ndarray, "k T+1"]) -> Int[np.ndarray, "k T+1"]:
        """How many letters each sequence of events has written up to each time."""
        loud = np.concatenate([self.first_letter[events[:, :1]], self.letter[events[:, 1:]]], axis=1) >= 0
        return np.cumsum(loud, axis=1)

    def sequences(self, strings: "Strings") -> Int[np.ndarray, "k T+1"]:
        """A sequence of events for each string: its letters as early as they can come, then silence."""
        letters = strings.letters
        if not self.starts:
            letters = np.concatenate([np.full((len(letters), 1), -1), letters[:, :-1]], axis=1)
        first = self.events(0, strings.stamps[:, :1], letters[:, :1])
        return np.concatenate([first, self.events(1, strings.stamps[:, 1:], letters[:, 1:])], axis=1)


def need_clock(written: Written | None) -> None:
    """Raise `InputError` if the observer has no clock: for what works on sequences with their times alone."""
    if written is not None:
        raise InputError("observer", [NO_CLOCK])


@dataclass(frozen=True, eq=False)
class Strings:
    """Strings of letters, each row ending in -1, with the stamps of all times."""

    letters: Int[np.ndarray, "k T+1"]
    stamps: Int[np.ndarray, "k T+1"]

    def __len__(self) -> int:
        return len(self.letters)

    def __getitem__(self, rows: slice | np.ndarray) -> "Strings":
        return Strings(self.letters[rows], self.stamps[rows])

    @cached_property
    def length(self) -> Int[np.ndarray, " k"]:
        """How many letters each has."""
        return np.count_nonzero(self.letters >= 0, axis=1)

    def distinct(self) -> "tuple[Strings, Int[np.ndarray, ' k']]":
        """Each string once, and the number of each row among them."""
        both = self.letters if not self.stamps.any() else np.concatenate([self.letters, self.stamps], axis=1)
        _, first, number = np.unique(both, axis=0, return_index=True, return_inverse=True)
        return self[first], number.ravel()

    @cached_property
    def prefixes(self) -> "StringTrie":
        """The distinct prefixes."""
        return StringTrie(self)

    @cached_property
    def suffixes(self) -> "StringTrie":
        """The distinct suffixes: the prefixes of the reversed strings."""
        return StringTrie(self.reversed())

    def reversed(self) -> "Strings":
        """The strings read from the last letter."""
        width = self.letters.shape[1]
        column = self.length[:, None] - 1 - np.arange(width)
        letters = np.take_along_axis(self.letters, np.maximum(column, 0), axis=1)
        return Strings(np.where(column >= 0, letters, -1), self.stamps)


class StringTrie:
    """The distinct prefixes of some strings, the shorter ones first; strings with other stamps share none.

    **Attributes:** node i extends `parent[i]` by `letter[i]` and has `depth[i]` letters; `stamps[i]` is the row of `stamp_rows`
    that it belongs to; `node[k, j]` is the node of the first j letters of string k, -1 if it is shorter.
    """

    def __init__(self, strings: Strings):
        letters, longest = strings.letters, int(strings.length.max(initial=0))
        self.stamp_rows, row = _distinct_rows(strings.stamps)
        base, roots = int(letters.max(initial=0)) + 1, len(self.stamp_rows)
        parents, symbols, stamps = [np.zeros(roots, dtype=np.int64)], [np.full(roots, -1)], [np.arange(roots)]
        self.node = np.full((len(letters), longest + 1), -1)
        self.node[:, 0] = row
        self.begin, total = [0], roots
        for depth in range(1, longest + 1):
            long = np.flatnonzero(letters[:, depth - 1] >= 0)
            key, number = np.unique(self.node[long, depth - 1] * base + letters[long, depth - 1], return_inverse=True)
            parent, symbol = np.divmod(key, base)
            self.node[long, depth] = total + number.ravel()
            stamps.append(stamps[-1][parent - self.begin[-1]])
            parents.append(parent)
            symbols.append(symbol)
            self.begin.append(total)
            total += len(key)
        self.begin.append(total)
        self.parent, self.letter = np.concatenate(parents), np.concatenate(symbols)
        self.stamps = np.concatenate(stamps)

    def up_to(self, depth: int) -> int:
        """How many nodes have at most so many letters."""
        return self.begin[min(depth + 1, len(self.begin) - 1)] if depth >= 0 else 0


def _distinct_rows(rows: Int[np.ndarray, "k L"]) -> tuple[Int[np.ndarray, "c L"], Int[np.ndarray, " k"]]:
    if not rows.any():
        return rows[:1], np.zeros(len(rows), dtype=np.int64)
    found, number = np.unique(rows, axis=0, return_inverse=True)
    return found, number.ravel()
