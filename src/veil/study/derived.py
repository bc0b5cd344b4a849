"""Quantities computed from the columns of a table, as `1 - bits / prior_bits`; nothing else can be executed."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..common.errors import InputError
from ..common.suggest import shortened

_MOST_CHARACTERS = 400
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: lambda left, right: math.pow(left, right),
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "abs": math.fabs, "sqrt": math.sqrt}
_EXPECTED = "expected names of columns, numbers, + - * / ** and min, max, abs, sqrt"


class Derived:
    """An expression over the columns of a row; where a value is missing or undefined the result is None.

    **Raises:** `InputError` where it is none.
    """

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text
        if not isinstance(text, str) or len(text) > _MOST_CHARACTERS or text.count("(") > 20 or text.count("-") > 50:
            raise InputError(
                name, [f"found {shortened(repr(text), 60)}, {_EXPECTED}, at most {_MOST_CHARACTERS} characters"]
            )
        try:
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError):
            raise InputError(name, [f"{text!r} is no expression, {_EXPECTED}"]) from None
        self.columns: set[str] = set()
        self._check(self._tree)

    def _check(self, node: ast.AST) -> None:
        """Refuse everything that is not arithmetic, and note the columns."""
        if isinstance(node, ast.Name):
            self.columns.add(node.id)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            self._check(node.left)
            self._check(node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._check(node.operand)
        elif isinstance(node, ast.Call) and _is_known(node):
            for argument in node.args:
                self._check(argument)
        else:
            found = ast.get_source_segment(self.text, node) if isinstance(node, ast.expr) else None
            raise InputError(self.name, [f"found {shortened(found or self.text, 60)!r}, {_EXPECTED}"])

    def value(self, row: Mapping[str, Any]) -> float | None:
        """The value for a row of the table."""
        try:
            found = self._value(self._tree, row)
        except (ArithmeticError, ValueError, TypeError):
            return None
        return found if math.isfinite(found) else None

    def _value(self, node: ast.AST, row: Mapping[str, Any]) -> float:
        if isinstance(node, ast.Name):
            return float(row[node.id])
        if isinstance(node, ast.Constant):
            return float(node.value)  # pyright: ignore[reportArgumentType]
        if isinstance(node, ast.BinOp):
            return _BINARY[type(node.op)](self._value(node.left, row), self._value(node.right, row))
        if isinstance(node, ast.UnaryOp):
            return -self._value(node.operand, row)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return _FUNCTIONS[node.func.id](*(self._value(argument, row) for argument in node.args))


def _is_known(node: ast.Call) -> bool:
    named = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
    return named and bool(node.args) and not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args)
