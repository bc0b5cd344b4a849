"""The words, numbers and signs of a `.pomdp` file, with their lines, read one line at a time."""

import math
import re
from pathlib import Path

import numpy as np

from ...common.errors import ModelFileError
from ..text import END, shown, to_number

# A sign may stand apart from its number. Anything else that holds together is one token, judged where it is used.
_TOKEN = re.compile(r"[:*]|[+-][ \t]+[0-9.][^\s:*]*|[^\s:*]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")


def is_name(token: str) -> bool:
    """Whether a token can name a state, an action or an observation."""
    return _NAME.fullmatch(token) is not None


class Tokens:
    """The tokens of a text, in order; knows the line of each.

    **Arguments:** `text`; `path`, for the messages.
    """

    def __init__(self, text: str, path: str | Path):
        self.path = path
        self._lines = text.split("\n")
        self._next = 0  # the line to read next
        self._tokens: list[str] = []
        self._place = 0  # in the tokens at hand
        self._starts: list[tuple[int, int]] = [(0, 1)]  # (first token, line) of the lines at hand
        self.line = 1  # of the token that was taken last

    def error(self, message: str, line: int | None = None) -> ModelFileError:
        """A fault at a line: that of the last token, unless another is given."""
        return ModelFileError(self.path, message, self.line if line is None else line)

    def peek(self, ahead: int = 0) -> str:
        """A token to come, the next by default; `END` at the end of the file."""
        while self._place + ahead >= len(self._tokens):
            if not self._read_line():
                return END
        return self._tokens[self._place + ahead]

    def take(self) -> str:
        """The next token, which becomes the last one taken; `END` at the end of the file."""
        token = self.peek()
        if token is not END:
            self._advance(1)
        return token

    def expect(self, sign: str, after: str) -> None:
        """Take a token that must be there."""
        found = self.take()
        if found != sign:
            raise self.error(f"{shown(found)} found, expected {sign!r} after {after}")

    def number(self, what: str) -> float:
        """Take one finite number."""
        token = self.take()
        value = to_number(token)
        if value is None:
            raise self.error(f"{shown(token)} found, expected {what}")
        return value

    def numbers(self, count: int, what: str) -> np.ndarray:
        """Take so many finite numbers, `(count,)`; they may go over many lines."""
        # The file must hold them, so its size bounds the memory, for any count that is declared.
        parts: list[np.ndarray] = []
        left = count
        while left:
            if self.peek() is END:
                raise self.error(f"the file ends after {count - left} of {count} numbers, expected {what}")
            stretch = self._tokens[self._place : self._place + left]
            parts.append(self._convert(stretch, what, count, count - left))
            self._advance(len(stretch))
            left -= len(stretch)
        return np.concatenate(parts) if parts else np.zeros(0)

    def _convert(self, stretch: list[str], what: str, count: int, before: int) -> np.ndarray:
        values = np.array([math.nan if (value := to_number(token)) is None else value for token in stretch])
        if np.isnan(values).any():
            wrong = int(np.flatnonzero(np.isnan(values))[0])
            self._advance(wrong + 1)
            where = f"number {before + wrong + 1} of {count}"
            raise self.error(f"{shown(stretch[wrong])} found for {where}, expected {what}")
        return values

    def _advance(self, count: int) -> None:
        self._place += count
        while len(self._starts) > 1 and self._starts[1][0] < self._place:
            self._starts.pop(0)
        self.line = self._starts[0][1]

    def _read_line(self) -> bool:
        if self._next >= len(self._lines):
            return False
        found = _TOKEN.findall(self._lines[self._next].partition("#")[0])
        self._next += 1
        if found:
            if self._place >= len(self._tokens):  # all taken: forget them
                self._tokens, self._starts, self._place = [], [], 0
            self._starts.append((len(self._tokens), self._next))
            self._tokens += found
        return True
