"""The task that a search maximises beside the opacity, or under it: rewards, probabilities of formulas, bits of pairs.

`-0.1*energy + 2*P(F goal) - H(friend)` is read into terms. Each reward and probability becomes one of `problem.quantities`,
so that values and gradients come the same way as those of bounds; bits hidden in a pair come from `pair_terms`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from ..common.errors import InputError
from ..common.suggest import suggestion
from .constraints import Constraint, Probability, Rebound, Return
from .pairs import OWN
from .problem import Problem
from .secrets.holds import Holds
from .secrets.secret import State

_TERM = re.compile(
    r"""\s*(?P<sign>[+\-−]?)\s*
    (?:(?P<factor>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*[*·]?\s*)?
    (?P<name>[PH]\(|[^\s+\-*·()]+)?""",
    re.VERBOSE,
)
_MOST = 50  # terms
_LIKE = "expected a sum such as '-0.1*energy + P(F goal)'"


@dataclass(frozen=True)
class Term:
    """A factor, and the name of a quantity: `return`, a reward, `P(formula)` or `H(pair)`."""

    factor: float
    name: str
    column: int

    @property
    def formula(self) -> str | None:
        """The formula, where it is a probability."""
        return self.name[2:-1] if self.name.startswith("P(") else None

    @property
    def pair(self) -> str | None:
        """The name of the pair, where it is the bits hidden in one."""
        return self.name[2:-1] if self.name.startswith("H(") else None


def read_terms(text: str) -> tuple[Term, ...]:
    """The terms of a sum; names are looked up by `with_task`.

    **Raises:** `InputError` with the column.
    """
    found: list[Term] = []
    place = 0
    while place < len(text.rstrip()) or not found:
        head = _TERM.match(text, place)
        assert head is not None  # every part of it may be empty
        if found and not head["sign"]:
            _refuse(head.end("sign"), f"found {text[head.end('sign')]!r}, expected + or - between terms")
        name, begin = head["name"], head.start("name")
        if name is None:
            _refuse(head.end(), f"found {repr(text[head.end()]) if head.end() < len(text) else 'the end'}, {_LIKE}")
        place = head.end()
        if name in ("P(", "H("):
            place = _closed(text, head.end())
        factor = float(head["factor"] or 1.0)
        if factor == float("inf"):
            _refuse(head.start("factor"), f"the factor {head['factor']} is not a finite number")
        found.append(Term(-factor if head["sign"] in ("-", "−") else factor, text[begin:place], begin + 1))
        if len(found) > _MOST:
            raise InputError("task", [f"it has more than {_MOST} terms, too many for a sum"])
    return tuple(found)


def _closed(text: str, begin: int) -> int:
    """Where the bracket that opened before `begin` has been closed."""
    depth = 1
    for end in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        if depth == 0:
            return end + 1
    _refuse(begin - 1, "this ( is never closed, expected P(formula) or H(pair)")


def _refuse(place: int, message: str) -> NoReturn:
    raise InputError("task", [f"column {place + 1}: {message}"])


def with_task(problem: Problem, text: str | None) -> Problem:
    """The problem with every quantity of a task among its quantities: those that it lacks come last, without a bound.

    **Raises:** `InputError` where a term names no quantity, or a formula that the agent would have to follow is not a
    constraint of the problem.
    """
    added: dict[str, Constraint] = {}
    for term in _linear(text):
        name = _quantity(problem, term)
        if len(_numbers(problem, name)) > 1:
            raise InputError(
                "task", [f"column {term.column}: several quantities are called {name!r}: bound one of them"]
            )
        if not _numbers(problem, name) and name not in added:
            added[name] = _probability(problem, term) if term.formula is not None else _reward(problem, term)
    if not added:
        return problem
    if problem.return_over == "infinite":
        raise InputError("task", ["quantities of a task are over the horizon, and return_over is 'infinite'"])
    own = problem.constraints[problem.min_return is not None :]
    return problem.replace(constraints=[*own, *added.values()])


def _numbers(problem: Problem, name: str) -> set[int]:
    """The numbers of the quantities of a name: formulas may read alike over other labels."""
    return {0} if name == "return" else {number for known, number in problem.about if known == name}


def _quantity(problem: Problem, term: Term) -> str:
    """The name of its quantity: the first reward is the return."""
    return "return" if term.name == next(iter(problem.model.named_rewards)) else term.name


def _reward(problem: Problem, term: Term) -> Constraint:
    names = list(problem.model.named_rewards)
    name = names[0] if term.name == "return" else term.name
    if name not in names:
        near = suggestion(term.name, ["return", *names])
        raise InputError("task", [f"column {term.column}: there is no reward {term.name!r}: {near}"])
    return Rebound(Return(min=0, reward=name), 1.0, None)


def _probability(problem: Problem, term: Term) -> Constraint:
    formula = str(term.formula)
    try:
        made = Rebound(Probability(formula, min=0, labels=_labels(problem, term)), 1.0, None)
        problem.replace(constraints=[made], min_return=None)
    except InputError as error:
        raise InputError("task", [f"column {term.column}: {one}" for one in error.defects]) from None
    return made


def _labels(problem: Problem, term: Term) -> Mapping[str, Iterable[State]]:
    """The propositions that the secret and the constraints of a problem name.

    **Raises:** `InputError` where the formula of the term has one to which they give different meanings.
    """
    given = [problem.secret.labels] if isinstance(problem.secret, Holds) else []
    for one in problem.constraints:
        inner = one.original if isinstance(one, Rebound) else one
        if isinstance(inner, Probability):
            given.append(inner.labels or {})
    found: dict[str, set[int]] = {}
    states = problem.models[0].states
    for name, members in [entry for labels in given for entry in labels.items()]:
        numbers = {states.find(one) for one in members}
        if found.setdefault(name, numbers) != numbers and re.search(rf"\b{re.escape(name)}\b", str(term.formula)):
            words = f"column {term.column}: the secret and the constraints have different states for {name!r}"
            raise InputError(
                "task", [f"{words}: rename one, or add veil.Probability({term.formula!r}, min=0, labels=…)"]
            )
    return found


def terms_of(problem: Problem, text: str | None) -> tuple[tuple[float, int], ...]:
    """The factors of a task with the numbers of their quantities, of a problem that `with_task` made."""
    return tuple((term.factor, min(_numbers(problem, _quantity(problem, term)))) for term in _linear(text))


def hidden_terms(problem: Problem, text: str | None) -> tuple[tuple[float, str], ...]:
    """The factors of a task that are of bits hidden in pairs, with the names of these.

    **Raises:** `InputError` where there is no pair of that name.
    """
    found = []
    for term in () if text is None else read_terms(text):
        if term.pair is None:
            continue
        if term.pair != OWN and all(term.pair != one.name for one in problem.pairs):
            near = suggestion(term.pair, [OWN, *(one.name for one in problem.pairs)])
            raise InputError("task", [f"column {term.column}: there is no pair {term.pair!r}: {near}"])
        found.append((term.factor, term.pair))
    return tuple(found)


def _linear(text: str | None) -> list[Term]:
    """The terms whose quantities are linear in the occupancies."""
    return [] if text is None else [term for term in read_terms(text) if term.pair is None]
