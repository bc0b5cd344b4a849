"""Expressions of operators and brackets: text to the order in which they are worked out, with errors that name the column."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from .errors import InputError

QUOTED = r"""(?P<quoted>"[^"]*"|'[^']*')"""
_MOST_CHARACTERS = 10_000
_MOST_SHOWN = 60  # characters of a text in a message


@dataclass(frozen=True)
class Part:
    """An operand or an operator of an expression, and where it stands.

    **Attributes:** `kind`: `"prefix"`, `"infix"`, or the group of the language's pattern that an operand matched; `text`;
    `column`, from 1.
    """

    kind: str
    text: str
    column: int


@dataclass(frozen=True)
class Language:
    """What the expressions of a language are made of.

    **Arguments:**

    - `name`, in messages, and an `example`.
    - `pattern`: one part of a text after any space, in a named group: `"sign"` for operators and brackets, `"word"`, `"quoted"`
      (as `QUOTED`, the text is what is inside), and others for further operands.
    - `alike`: other ways to write operators.
    - `prefix`, `infix`: the operators, each with how tightly it binds; one of `to_the_right` groups its right side first.
    - `operand`, `operator`: what a message says is expected where one is missing.
    """

    name: str
    example: str
    pattern: re.Pattern[str]
    alike: Mapping[str, str]
    prefix: Mapping[str, int]
    infix: Mapping[str, int]
    to_the_right: Collection[str]
    operand: str
    operator: str

    def parse(self, text: str) -> list[Part]:
        """The parts in the order in which they are worked out, operators after their operands.

        By Dijkstra's shunting yard, without recursion. **Raises:** `InputError` naming the column.
        """
        if not isinstance(text, str):
            raise InputError(self.name, [f"found a {type(text).__name__}, expected text such as {self.example!r}"])
        if len(text) > _MOST_CHARACTERS:
            found = f"it has {len(text):,} characters"
            raise InputError(self.name, [f"{found}, expected at most {_MOST_CHARACTERS:,}"])
        output: list[Part] = []
        waiting: list[Part] = []  # operators and opening brackets
        wants_operand = True
        for part in self._parts(text):
            known = self.prefix if wants_operand else self.infix
            bracket = "(" if wants_operand else ")"
            if part.kind != "sign" and wants_operand:
                output.append(part)
                wants_operand = False
            elif part.kind != "sign" or part.text not in (*known, bracket):
                expected = self.operand if wants_operand else f"{self.operator}, or the end"
                self.refuse(text, part.column, f"found {part.text!r}, expected {expected}")
            elif part.text == "(":
                waiting.append(part)
            elif part.text == ")":
                while waiting and waiting[-1].text != "(":
                    output.append(waiting.pop())
                if not waiting:
                    self.refuse(text, part.column, "found ')' without its '(', expected the end")
                waiting.pop()
            else:
                operator = Part("prefix" if wants_operand else "infix", part.text, part.column)
                # An operator before its operand always waits for it.
                while not wants_operand and waiting and self._goes_first(waiting[-1], operator):
                    output.append(waiting.pop())
                waiting.append(operator)
                wants_operand = True
        if wants_operand:
            self.refuse(text, len(text) + 1, f"found the end, expected {self.operand}")
        for part in reversed(waiting):
            if part.text == "(":
                self.refuse(text, part.column, "this '(' is not closed, expected ')' after it")
            output.append(part)
        return output

    def refuse(self, text: str, column: int, message: str) -> NoReturn:
        """Raise `InputError` about a column of a text."""
        begin = max(0, min(column - 40, len(text) - _MOST_SHOWN))
        end = begin + _MOST_SHOWN
        shown = "…" * (begin > 0) + text[begin:end] + "…" * (end < len(text))
        raise InputError(f"{self.name} {shown!r}", [f"column {column}: {message}"])

    def _parts(self, text: str) -> Iterator[Part]:
        place, end = 0, len(text.rstrip())
        while place < end:
            match = self.pattern.match(text, place)
            if match is None:
                rest = text[place:].lstrip()
                quote = f"the quote {rest[0]} is not closed"
                what = quote if rest[0] in "\"'" else f"{rest[0]!r} is not understood here"
                self.refuse(text, len(text) - len(rest) + 1, f"{what}, expected an operator or {self.operand}")
            kind = str(match.lastgroup)
            sign = self.alike.get(match[kind], match[kind])
            if kind in ("word", "sign") and (kind == "sign" or sign in self.prefix or sign in self.infix):
                yield Part("sign", sign, match.start(kind) + 1)
            else:
                inside = match[kind][1:-1] if kind == "quoted" else match[kind]
                yield Part(kind, inside, match.start(kind) + 1)
            place = match.end()

    def _goes_first(self, earlier: Part, later: Part) -> bool:
        if earlier.text == "(":
            return False
        binds = self.prefix if earlier.kind == "prefix" else self.infix
        return binds[earlier.text] + (later.text not in self.to_the_right) > self.infix[later.text]
