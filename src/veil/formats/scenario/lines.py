"""Where every key and entry of a TOML text stands, which the parser of the standard library does not tell."""

import re
import tomllib
from dataclasses import dataclass, field

from ...common.errors import Place

# Strings; an unclosed one runs to the end, so that a scan never looks at a character twice.
STRING = (
    r'"""(?:[^"\\]++|\\.|"{1,2}+(?!"))*+"{0,5}'
    r"|'''(?:[^']++|'{1,2}+(?!'))*+'{0,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
)
_TOKEN = re.compile(
    rf"(?P<string>{STRING})|#[^\n]*+|(?P<mark>[\[\]{{}},=.\n])|(?P<word>[^\s\[\]{{}},=#.\"']+)", re.DOTALL
)


@dataclass(frozen=True)
class Spans:
    """Where the parts of a text stand, as offsets of characters.

    **Attributes:** `begins`: where each key, table and list entry is first named; `values`: for each key with a value where the
    key begins, where its value begins and ends; `tables`: for each header where it begins and ends, in the order of the text.
    """

    begins: dict[Place, int] = field(default_factory=dict[Place, int])
    values: dict[Place, tuple[int, int, int]] = field(default_factory=dict[Place, tuple[int, int, int]])
    tables: dict[Place, tuple[int, int]] = field(default_factory=dict[Place, tuple[int, int]])


def spans(text: str) -> Spans:
    """The place of every key, value and header of a text, which must be valid TOML. Cost: one pass over the text."""
    scan = _Scan(text)
    scan.read()
    return scan.spans


class _Scan:
    """A recursive descent over the tokens of a text; the word at hand is the one not yet passed."""

    def __init__(self, text: str):
        self._text = text
        self._tokens = (found for found in _TOKEN.finditer(text) if found.lastgroup is not None)
        self._word, self._start, self._end = "", 0, 0
        self._passed = 0  # the end of the word before the one at hand
        self.spans = Spans()
        self._advance()

    def read(self) -> None:
        table: Place = ()
        counts: dict[Place, int] = {}
        while self._word:
            if self._word == "\n":
                self._advance()
            elif self._word == "[":
                begin = self._start
                self._advance()
                several = self._word == "["
                if several:
                    self._advance()
                table = self._resolved(self._key("]"), counts)
                self._advance()
                if several:
                    self._advance()
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                self.spans.tables[table] = begin, self._passed
                self._begin(table, 1, begin)
            else:
                self._pair(table)

    def _begin(self, place: Place, first: int, begin: int) -> None:
        """Note where a place is named, and the tables on the way that were not named before."""
        for length in range(first, len(place) + 1):
            self.spans.begins.setdefault(place[:length], begin)

    def _pair(self, table: Place) -> None:
        begin = self._start
        place = (*table, *self._key("="))
        self._advance()
        value = self._start
        self._begin(place, len(table) + 1, begin)
        self._value(place)
        self.spans.values[place] = begin, value, self._passed

    def _value(self, place: Place) -> None:
        opening = self._word
        if opening not in ("[", "{"):
            while self._word and self._word not in (",", "]", "}", "\n"):
                self._advance()  # a number with a point and a date with a blank are several tokens
            return
        self._advance()
        number = 0
        while self._word and self._word not in ("]", "}"):
            if self._word in ("\n", ","):
                self._advance()
            elif opening == "{":
                self._pair(place)
            else:
                self.spans.begins[(*place, number)] = self._start
                self._value((*place, number))
                number += 1
        self._advance()

    def _key(self, end: str) -> Place:
        parts: list[str] = []
        while self._word and self._word != end:
            if self._word != ".":
                parts.append(_unquoted(self._word))
            self._advance()
        return tuple(parts)

    def _resolved(self, key: Place, counts: dict[Place, int]) -> Place:
        """The key of a header with the number of the entry after each list of tables on the way."""
        place: Place = ()
        for position, part in enumerate(key):
            place = (*place, part)
            if position < len(key) - 1 and place in counts:
                place = (*place, counts[place])
        return place

    def _advance(self) -> None:
        found = next(self._tokens, None)
        self._passed = self._end
        if found is None:
            self._word, self._start = "", len(self._text)
        else:
            self._word, self._start, self._end = found.group(), found.start(), found.end()


def _unquoted(token: str) -> str:
    if token[:1] == '"':
        return str(tomllib.loads(f"x = {token}")["x"])  # with its escapes
    return token[1:-1] if token[:1] == "'" else token
