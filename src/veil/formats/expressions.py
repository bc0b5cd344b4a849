"""Boolean expressions over the variables of a state, as `x=3 & door=open | !(y<2)`; nothing is executed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from jaxtyping import Bool

from ..common.expressions import QUOTED, Language, Part
from ..common.suggest import suggestion

# How tightly each sign binds, as in PRISM: `!x=3` is `!(x=3)`.
_LANGUAGE = Language(
    "expression",
    "x=3 & door=open",
    re.compile(
        rf"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))|(?P<word>[A-Za-z_][A-Za-z0-9_.]*)"
        rf"|{QUOTED}|(?P<sign><=>|=>|<=|>=|!=|==|&&|\|\||[=<>!&|()+*-]))"
    ),
    alike={"==": "=", "&&": "&", "||": "|", "and": "&", "or": "|", "not": "!"},
    prefix={"!": 5, "-": 10},
    infix={"<=>": 1, "=>": 2, "|": 3, "&": 4, "=": 6, "!=": 6}
    | dict.fromkeys(("<", "<=", ">", ">="), 7)
    | {"+": 8, "-": 8, "*": 9},
    to_the_right=("=>",),
    operand="a variable, a number or '('",
    operator="a sign such as '=' or '&'",
)
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
        self._steps = _LANGUAGE.parse(text)
        self.text = text

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
                if part.kind not in ("prefix", "infix"):
                    stack.append(self._meaning(part, variables))
                    continue
                right = stack.pop()
                left = right if part.kind == "prefix" else stack.pop()
                stack.append(self._apply(part, left, right, variables, labels or {}))
        result = self._truth(stack.pop(), Part("", "", 1), variables, labels or {})
        return np.broadcast_to(result, (size,)).copy()

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def _meaning(self, part: Part, variables: Mapping[str, np.ndarray]) -> _Value:
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
        sign: Part,
        left: _Value,
        right: _Value,
        variables: Mapping[str, np.ndarray],
        labels: Mapping[str, np.ndarray],
    ) -> _Value:
        text = sign.text
        if text == "!":
            return _Value("truth", "!…", sign.column, ~self._truth(right, sign, variables, labels))
        if sign.kind == "prefix":
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

    def _equal(self, sign: Part, left: _Value, right: _Value, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        if right.kind == "text":
            left, right = right, left
        if left.kind == "text" and right.kind in ("word", "quoted", "text"):
            wanted = right.content if right.kind == "text" else right.text
            if right.kind != "text" and not (left.content == wanted).any():
                known = sorted(set(left.content.tolist()))
                hint = suggestion(right.text, known)
                self._error(right.column, f"{left.text!r} is never {right.text!r}: {hint}")
            return np.asarray(left.content == wanted)
        for side in (left, right):
            if side.kind in ("word", "quoted"):
                self._unknown_name(side, variables)
        if left.kind != right.kind:
            message = f"{left.text!r} is a {left.kind} and {right.text!r} a {right.kind}, expected two of one kind"
            self._error(sign.column, message)
        return np.asarray(left.content == right.content)

    def _truth(
        self, value: _Value, sign: Part, variables: Mapping[str, np.ndarray], labels: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        if value.kind == "truth":
            return value.content
        if value.kind in ("quoted", "word") and value.text in labels:
            return np.asarray(labels[value.text], dtype=bool)
        if value.kind == "quoted":
            hint = suggestion(value.text, sorted(labels))
            self._error(value.column, f"unknown label {value.text!r}: {hint}")
        if value.kind == "word":
            self._unknown_name(value, variables)
        message = f"{value.text!r} is a {value.kind}, expected something true or false, such as {value.text}=1"
        self._error(sign.column, message)

    def _number(self, value: _Value, sign: Part, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        if value.kind == "word":
            self._unknown_name(value, variables)
        if value.kind != "number":
            self._error(sign.column, f"{value.text!r} is a {value.kind}, expected a number")
        return value.content

    def _unknown_name(self, value: _Value, variables: Mapping[str, np.ndarray]) -> NoReturn:
        hint = suggestion(value.text, sorted(variables))
        self._error(value.column, f"unknown variable {value.text!r}: {hint}")

    def _error(self, column: int, message: str) -> NoReturn:
        _LANGUAGE.refuse(self.text, column, message)
