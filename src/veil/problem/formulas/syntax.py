"""The syntax of formulas: text to a tree, with errors that name the column, and back to text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from ...common.errors import InputError

UNARY = {"!": "not", "X": "next", "WX": "weak next", "F": "finally", "G": "globally",
         "Y": "yesterday", "O": "once", "H": "historically"}  # fmt: skip
BINARY = {"U": "until", "R": "release", "S": "since"}
FUTURE = frozenset({"X", "WX", "F", "G", "U", "R", "last"})
PAST = frozenset({"Y", "O", "H", "S"})
CONSTANTS = ("true", "false", "last")

_MOST_CHARACTERS = 10_000
_MOST_DEPTH = 80  # of brackets inside each other: far above what is written by hand, and within Python's own limit
_MOST_NESTED = 300  # of operators inside each other
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<quoted>"[^"]*"|'[^']*')
  | (?P<compare>[A-Za-z_][\w.]*\s*(?:<=|>=|!=|==|=|<(?!->?)|>)\s*-?[\w.]+)
  | (?P<word>[A-Za-z_][\w.]*)
  | (?P<sign><->|->|&&|\|\||[&|!~()])
  )""",
    re.VERBOSE,
)
_SIGNS = {"&&": "&", "||": "|", "~": "!"}
_WORDS = {"and": "&", "or": "|", "not": "!", "W": "W"}
_LEVELS = ({"<->"}, {"->"}, {"|"}, {"&"}, {"U", "R", "W", "S"})  # from the weakest binding to the strongest
_RIGHT = {"->", "U", "R", "W", "S"}  # a -> b -> c is a -> (b -> c)


@dataclass(frozen=True)
class Node:
    """A formula: `operator` with its `parts`. A proposition has the operator `"prop"` and a `name`."""

    operator: str
    parts: tuple["Node", ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        # Of the parts' hashes, not of the whole tree: subformulas are shared, and a chain of <-> has a huge tree.
        object.__setattr__(self, "_hash", hash((self.operator, self.name, *(part._hash for part in self.parts))))
        object.__setattr__(self, "depth", 1 + max((part.depth for part in self.parts), default=0))

    _hash: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=1)

    def __hash__(self) -> int:
        return self._hash

    def walk(self) -> Iterator["Node"]:
        """Every subformula once, parts before the whole."""
        seen: set[Node] = set()
        stack: list[tuple[Node, bool]] = [(self, False)]
        while stack:
            node, ready = stack.pop()
            if node in seen:
                continue
            if ready:
                seen.add(node)
                yield node
            else:
                stack.append((node, True))
                stack += [(part, False) for part in reversed(node.parts)]

    def __str__(self) -> str:
        if self.operator == "prop":
            plain = re.fullmatch(r"[A-Za-z_][\w.]*", self.name) and self.name not in {
                *UNARY,
                *BINARY,
                *_WORDS,
                *CONSTANTS,
            }
            return self.name if plain else f'"{self.name}"'
        if not self.parts:
            return self.operator
        if self.operator == "!":
            return f"!{self.parts[0]}"
        if len(self.parts) == 1:
            return f"{self.operator} {self.parts[0]}"
        return f"({f' {self.operator} '.join(map(str, self.parts))})"


def parse(text: str) -> Node:
    """The tree of a formula.

    Operators, from the strongest binding: `!` and the unary `X` (next), `WX` (weak next), `F` (at some time), `G` (at all
    times), `Y` (at the time before), `O` (once), `H` (at all times so far); `U` (until), `R` (release), `W` (weak until) and
    `S` (since); `&`; `|`; `->`; `<->`. Constants: `true`, `false` and `last`, true at the last time. A proposition is a word, a
    comparison such as `x>3`, or any text in quotes.

    **Raises:** `InputError` naming the column, what was found there and what was expected.
    """
    return _Parser(text).formula()


class _Parser:
    """Reads tokens from left to right; an operator's right side is read with its own strength of binding."""

    def __init__(self, text: str):
        if not isinstance(text, str):
            raise InputError(
                "formula", [f"found a {type(text).__name__}, expected text such as 'F (badge & X F vault)'"]
            )
        self.text, self.depth = text, 0
        if len(text) > _MOST_CHARACTERS:
            raise InputError("formula", [f"it has {len(text):,} characters, expected at most {_MOST_CHARACTERS:,}"])
        self.tokens = list(self._tokens())
        self.at = 0

    def formula(self) -> Node:
        found = self._level(0)
        if self.at < len(self.tokens):
            self._refuse("an operator such as & or U, or the end")
        if found.depth > _MOST_NESTED:
            raise self._error(0, f"{found.depth} operators inside each other, expected at most {_MOST_NESTED}")
        return found

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        place = 0
        while self.text[place:].strip():
            found = _TOKEN.match(self.text, place)
            if found is None:
                column = place + len(self.text[place:]) - len(self.text[place:].lstrip())
                wrong = self.text[column]
                unclosed = wrong in "\"'"
                what = f"the quote {wrong} is not closed" if unclosed else f"found {wrong!r}, expected a formula"
                raise self._error(column, what)
            kind = str(found.lastgroup)
            yield kind, found.group(kind), found.start(kind)
            place = found.end()

    def _peek(self) -> str:
        """The operator or bracket at hand; empty for a proposition and at the end."""
        if self.at == len(self.tokens):
            return ""
        kind, text, _ = self.tokens[self.at]
        if kind == "sign":
            return _SIGNS.get(text, text)
        is_operator = kind == "word" and (text in UNARY or text in BINARY or text in _WORDS)
        return _WORDS.get(text, text) if is_operator else ""

    def _level(self, level: int) -> Node:
        """A formula whose operators bind at least as strongly as those of a level."""
        if level == len(_LEVELS):
            return self._unary()
        found = self._level(level + 1)
        while (operator := self._peek()) in _LEVELS[level]:
            self.at += 1
            with_same = operator in _RIGHT
            self._enter()
            other = self._level(level if with_same else level + 1)
            self.depth -= 1
            found = _joined(operator, found, other)
        return found

    def _unary(self) -> Node:
        operators = []
        while (operator := self._peek()) in UNARY:
            operators.append(operator)
            self.at += 1
        found = self._atom(operator)
        for one in reversed(operators):
            found = Node(one, (found,))
        return found

    def _atom(self, operator: str) -> Node:
        if operator == "(":
            opened = self.tokens[self.at][2]
            self.at += 1
            self._enter()
            inner = self._level(0)
            self.depth -= 1
            if self._peek() != ")":
                self._refuse(f"a closing bracket for the one in column {opened + 1}")
            self.at += 1
            return inner
        if operator or self.at == len(self.tokens):
            self._refuse("a proposition, a unary operator or an opening bracket")
        kind, text, column = self.tokens[self.at]
        self.at += 1
        if kind == "word" and text in CONSTANTS:
            return Node(text)
        name = text[1:-1].strip() if kind == "quoted" else re.sub(r"\s+", "", text)
        if not name:
            raise self._error(column, "the quotes are empty, expected a proposition")
        return Node("prop", name=name)

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            column = self.tokens[min(self.at, len(self.tokens) - 1)][2]
            raise self._error(column, f"more than {_MOST_DEPTH} brackets inside each other, expected fewer")

    def _refuse(self, expected: str) -> NoReturn:
        if self.at == len(self.tokens):
            raise self._error(len(self.text), f"the formula ends, expected {expected}")
        _, text, column = self.tokens[self.at]
        raise self._error(column, f"found {text!r}, expected {expected}")

    def _error(self, column: int, message: str) -> InputError:
        begin = max(0, column - 40)
        shown = self.text[begin : column + 30].replace("\n", " ")
        return InputError("formula", [f"column {column + 1}: {message}\n    {shown}\n    {' ' * (column - begin)}^"])


def _joined(operator: str, first: Node, second: Node) -> Node:
    if operator == "->":
        return Node("|", (Node("!", (first,)), second))
    if operator == "<->":
        both, neither = Node("&", (first, second)), Node("&", (Node("!", (first,)), Node("!", (second,))))
        return Node("|", (both, neither))
    if operator == "W":
        return Node("R", (second, Node("|", (first, second))))
    return Node(operator, (first, second))
