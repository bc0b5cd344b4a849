"""Where propositions of formulas are true that are expressions over a model's variables, or signs of a drawn grid."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def meanings(
    formulas: Iterable[object], labels: Mapping[str, Iterable[State]], find: Find
) -> dict[str, Iterable[State]]:
    """The labels, with those of propositions that `find` knows and that have none.

    **Raises:** `InputError` with the column of a proposition whose states cannot be found. Formulas that cannot be read are
    left to what uses them.
    """
    found = dict(labels)
    for text in map(str, formulas):
        try:
            names = Formula(text).propositions
        except InputError:
            continue
        for name in names:
            if name in found:
                continue
            try:
                states = find(name)
            except InputError as error:
                place = f"column {text.find(name) + 1}: " if name in text else ""
                raise InputError(f"formula {text!r}", [f"{place}{one}" for one in error.defects]) from None
            if states is not None:
                found[name] = states
    return found


def with_meanings(given: F, find: Find) -> F:
    """A secret or constraint about formulas with the labels of `meanings`; any other as it is."""
    if isinstance(given, Holds):
        formulas = given.formulas if isinstance(given.formulas, tuple) else ()
        return replace(given, labels=meanings(formulas, given.labels, find))
    if isinstance(given, Probability):
        return replace(given, labels=meanings([given.formula], given.labels or {}, find))
    return given
