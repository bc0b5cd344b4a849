"""Where propositions of formulas are true that are expressions over a model's variables, or signs of a drawn grid."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from ..common.errors import InputError
from ..problem.constraints import Probability
from ..problem.formulas.formula import Formula
from ..problem.secrets.holds import Holds
from ..problem.secrets.secret import State

Find = Callable[[str], Sequence[State] | None]
"""The states where a proposition is true; None where it is neither an expression nor a sign."""

F = TypeVar("F")
_COMPARISON = frozenset("<>=!")


def is_comparison(name: str) -> bool:
    """Whether a proposition compares a variable, such as `x>3`."""
    return not _COMPARISON.isdisjoint(name)


def with_meanings(given: F, find: Find) -> F:
    """A secret or constraint about formulas with labels of the propositions that `find` knows; any other as it is.

    **Raises:** `InputError` with the column of a proposition whose states cannot be found. Formulas that cannot be read are
    left to what uses them.
    """
    if not isinstance(given, (Holds, Probability)):
        return given
    formulas = given.formulas if isinstance(given, Holds) else (given.formula,)
    found = dict(given.labels or {})
    for text in map(str, formulas if isinstance(formulas, tuple) else ()):
        try:
            names = Formula(text).propositions
        except InputError:
            continue
        for name in (name for name in names if name not in found):
            try:
                states = find(name)
            except InputError as error:
                place = f"column {text.find(name) + 1}: " if name in text else ""
                raise InputError(f"formula {text!r}", [f"{place}{one}" for one in error.defects]) from None
            if states is not None:
                found[name] = states
    return replace(given, labels=found)
