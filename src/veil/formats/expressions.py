"""Boolean expressions over the variables of a state, as `x=3 & door=open | !(y<2)`; nothing is executed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool

from ..common.errors import InputError
from ..common.suggest import suggestion

_MOST_CHARACTERS = 10_000
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))|(?P<word>[A-Za-z_][A-Za-z0-9_.]*)"
    r"|\"(?P<quoted>[^\"]*)\"|(?P<sign><=>|=>|<=|>=|!=|==|&&|\|\||[=<>!&|()+*-]))"
)
_ALIKE = {"==": "=", "&&": "&", "||": "|", "and": "&", "or": "|", "not": "!"}
# How tightly each sign binds, as in PRISM: `!x=3` is `!(x=3)`.
_TIGHTNESS = {"<=>": 1, "=>": 2, "|": 3, "&": 4, "!": 5, "=": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7}
_TIGHTNESS |= {"+": 8, "-": 8, "*": 9, "negate": 10}
_UNARY = ("!", "negate")
Binary = Callable[[np.ndarray, np.ndarray], np.ndarray]
_ORDER: dict[str, Binary] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARITHMETIC: dict[str, Binary] = {"+": np.add, "-": np.subtract, "*": np.multiply}
_LOGIC: dict[str, Binary] = {
    "&": np.logical_and,
    "|": np.logical_or,
    "=>": lambda left, right: np.logical_or(np.logical_not(left), right),
    "<=>": np.equal,
}


@dataclass(frozen=True)
class _Part:
    """A number, word, quoted text or sign, and the column (from 1) where it stands."""

    kind: str
    text: str
    column: int


@dataclass(frozen=True, eq=False)
class _Value:
    """What a part stands for: `kind` is truth, number, text, word (not a variable) or quoted; the last two have no content."""

    kind: str
    text: str
    column: int
    content: np.ndarray = field(default_factory=lambda: np.zeros(0))


class Expression:
    """An expression over named variables, true or false in each state.

    Comparisons `= != < <= > >=`, arithmetic `+ - *`, logic `! & | => <=>` (also `and or not`), parentheses, `true` and
    `false`, numbers, names of variables, and, against a variable that holds text, a bare or quoted word
    (`door=open`, `state=tiger-left`, `state="two words"`). Quoted text alone is a label, as in PRISM: `"goal" & x<3`.

    **Arguments:** `text`, at most 10,000 characters. Cost of reading: linear.

    **Raises:** `InputError` naming the column.
    """

    def __init__(self, text: str):
        if not isinstance(text, str):
            raise InputError("expression", [f"it is {text!r}, expected text such as 'x=3 & door=open'"])
        if len(text) > _MOST_CHARACTERS:
            raise InputError("expression", [f"it has {len(text)} characters, expected at most {_MOST_CHARACTERS}"])
        self.text = text
        self._steps = self._parse(self._split())

    def evaluate(
        self,
        variables: Mapping[str, np.ndarray],
        size: int,
        labels: Mapping[str, np.ndarray] | None = None,
    ) -> Bool[np.ndarray, " S"]:
        """Where it is true, `(S,)`.

        **Arguments:** `variables`: values in each state, `(S,)` each, of numbers, truth values or text; `size`: S;
        `labels`: sets of states with a name, `(S,)` of bool each.

        Cost: `S` times the number of signs. **Raises:** `InputError` on an unknown name or parts that do not fit.
        """
        stack: list[_Value] = []
        with np.errstate(all="ignore"):  # 1e308*1e308 is inf, larger than everything, as it should be
            for part in self._steps:
                if part.kind != "sign":
                    stack.append(self._meaning(part, variables))
                    continue
                right = stack.pop()
                left = right if part.text in _UNARY else stack.pop()
                stack.append(self._apply(part, left, right, variables, labels or {}))
        result = self._truth(stack.pop(), _Part("", "", 1), variables, labels or {})
        return np.broadcast_to(result, (size,)).copy()

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def _split(self) -> list[_Part]:
        parts, place, end = [], 0, len(self.text.rstrip())
        while place < end:
            match = _TOKEN.match(self.text, place)
            if match is None:
                rest = self.text[place:].lstrip()
                raise self._error(len(self.text) - len(rest) + 1, f"{rest[:1]!r} is not understood here")
            kind = str(match.lastgroup)
            text, column = match[kind], match.start(kind) + 1
            if kind in ("word", "sign") and text in _ALIKE:
                kind, text = "sign", _ALIKE[text]
            parts.append(_Part(kind, text, column))
            place = match.end()
        return parts

    def _parse(self, parts: list[_Part]) -> list[_Part]:
        """The parts in the order in which they are worked out, by Dijkstra's shunting yard: no recursion."""
        output: list[_Part] = []
        waiting: list[_Part] = []
        wants_value = True
        for part in parts:
            is_sign = part.kind == "sign"
            if wants_value and is_sign and part.text not in ("!", "-", "("):
                raise self._error(part.column, f"{part.text!r} found, expected a variable, a number or '('")
            if not wants_value and (not is_sign or part.text in ("!", "(")):
                raise self._error(part.column, f"{part.text!r} found, expected a sign such as '=' or '&', or the end")
            if not is_sign:
                output.append(part)
                wants_value = False
            elif part.text == "(":
                waiting.append(part)
            elif part.text == ")":
                while waiting and waiting[-1].text != "(":
                    output.append(waiting.pop())
                if not waiting:
                    raise self._error(part.column, "unmatched ')'")
                waiting.pop()
            else:
                sign = _Part("sign", "negate", part.column) if wants_value and part.text == "-" else part
                # A sign before its operand always waits for it.
                while not wants_value and waiting and waiting[-1].text != "(" and self._first(waiting[-1], sign):
                    output.append(waiting.pop())
                waiting.append(sign)
                wants_value = True
        if wants_value:
            raise self._error(len(self.text) + 1, "the expression ends, expected a variable, a number or '('")
        for part in reversed(waiting):
            if part.text == "(":
                raise self._error(part.column, "unmatched '(', expected ')' after it")
            output.append(part)
        return output

    @staticmethod
    def _first(earlier: _Part, later: _Part) -> bool:
        to_the_right = later.text == "=>"
        return _TIGHTNESS[earlier.text] + (not to_the_right) > _TIGHTNESS[later.text]

    def _meaning(self, part: _Part, variables: Mapping[str, np.ndarray]) -> _Value:
        if part.kind == "number":
            return _Value("number", part.text, part.column, np.array(float(part.text)))
        if part.kind == "quoted" or part.text not in (*variables, "true", "false"):
            return _Value("quoted" if part.kind == "quoted" else "word", part.text, part.column)
        if part.text not in variables:
            return _Value("truth", part.text, part.column, np.array(part.text == "true"))
        array = np.asarray(variables[part.text])
        kind = {"b": "truth", "i": "number", "u": "number", "f": "number"}.get(array.dtype.kind, "text")
        content = array.astype(np.float64) if kind == "number" else array if kind == "truth" else array.astype(str)
        return _Value(kind, part.text, part.column, content)

    def _apply(
        self,
        sign: _Part,
        left: _Value,
        right: _Value,
        variables: Mapping[str, np.ndarray],
        labels: Mapping[str, np.ndarray],
    ) -> _Value:
        text = sign.text
        if text == "!":
            return _Value("truth", "!…", sign.column, ~self._truth(right, sign, variables, labels))
        if text == "negate":
            return _Value("number", "-…", sign.column, -self._number(right, sign, variables))
        if text in _LOGIC:
            sides = [self._truth(side, sign, variables, labels) for side in (left, right)]
            return _Value("truth", f"…{text}…", sign.column, _LOGIC[text](*sides))
        if text == "-" and left.kind == "word" and (right.kind == "word" or right.text.isdigit()):
            # Two words that are no variables are one word with a hyphen, as in state=tiger-left.
            return _Value("word", f"{left.text}-{right.text}", left.column)
        if text in _ARITHMETIC or text in _ORDER:
            sides = [self._number(side, sign, variables) for side in (left, right)]
            kind, function = ("number", _ARITHMETIC[text]) if text in _ARITHMETIC else ("truth", _ORDER[text])
            return _Value(kind, f"…{text}…", sign.column, function(*sides))
        equal = self._equal(sign, left, right, variables)
        return _Value("truth", f"…{text}…", sign.column, equal if text == "=" else ~equal)

    def _equal(self, sign: _Part, left: _Value, right: _Value, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        if right.kind == "text":
            left, right = right, left
        if left.kind == "text" and right.kind in ("word", "quoted", "text"):
            wanted = right.content if right.kind == "text" else right.text
            if right.kind != "text" and not (left.content == wanted).any():
                known = sorted(set(left.content.tolist()))
                hint = suggestion(right.text, known)
                raise self._error(right.column, f"{left.text!r} is never {right.text!r}: {hint}")
            return np.asarray(left.content == wanted)
        for side in (left, right):
            if side.kind in ("word", "quoted"):
                raise self._unknown_name(side, variables)
        if left.kind != right.kind:
            message = f"{left.text!r} is a {left.kind} and {right.text!r} a {right.kind}, expected two of one kind"
            raise self._error(sign.column, message)
        return np.asarray(left.content == right.content)

    def _truth(
        self, value: _Value, sign: _Part, variables: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        if value.kind == "truth":
            return value.content
        if value.kind in ("quoted", "word") and value.text in labels:
            return np.asarray(labels[value.text], dtype=bool)
        if value.kind == "quoted":
            hint = suggestion(value.text, sorted(labels))
            raise self._error(value.column, f"unknown label {value.text!r}: {hint}")
        if value.kind == "word":
            raise self._unknown_name(value, variables)
        message = f"{value.text!r} is a {value.kind}, expected something true or false, such as {value.text}=1"
        raise self._error(sign.column, message)

    def _number(self, value: _Value, sign: _Part, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        if value.kind == "word":
            raise self._unknown_name(value, variables)
        if value.kind != "number":
            raise self._error(sign.column, f"{value.text!r} is a {value.kind}, expected a number")
        return value.content

    def _unknown_name(self, value: _Value, variables: Mapping[str, np.ndarray]) -> InputError:
        hint = suggestion(value.text, sorted(variables))
        return self._error(value.column, f"unknown variable {value.text!r}: {hint}")

    def _error(self, column: int, message: str) -> InputError:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "…"
        return InputError(f"expression {shown!r}", [f"column {column}: {message}"])
