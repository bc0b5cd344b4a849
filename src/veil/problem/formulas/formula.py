"""`veil.Formula`: a property of runs, written in linear temporal logic on finite runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ...common.errors import InputError
from ...common.values import Value
from .automaton import DEFAULT_STATES, FormulaAutomaton, Letter, automaton_of
from .drawing import to_svg
from .syntax import Node, parse

_MOST_PROPOSITIONS = 12  # of an automaton over all sets of them: 4,096 letters


@dataclass(frozen=True, eq=False, repr=False)
class Formula(Value):
    """A property of a run `s_0, …, s_T`: true or false of every finite run.

    **Arguments:** `text`, such as `"F (badge & X F vault) & G !alarm"`. Propositions are words, comparisons (`x>3`) or texts in
    quotes; the meanings are given with the secret or the constraint that uses the formula.

    | written | holds at a time if |
    | --- | --- |
    | `!a`, `a & b`, `a \\| b`, `a -> b`, `a <-> b` | as usual; also `not`, `and`, `or` |
    | `X a`, `WX a` | there is a next time and a holds then; there is none, or a holds then |
    | `F a`, `G a` | a holds now or later; a holds now and always later |
    | `a U b`, `a W b`, `a R b` | a holds until b does, which comes; or which may not come; b holds up to when a does, if ever |
    | `Y a` | there is a time before and a held then |
    | `O a`, `H a` | a holds or held; a holds and always held |
    | `a S b` | b holds or held, and a has held since |
    | `true`, `false`, `last` | constants; this is the last time |

    The formula is read at time 0. Unary operators bind most strongly, then `U`, `W`, `R` and `S` (to the right), `&`, `|`,
    `->`, `<->`.

    **Raises:** `InputError` with the column.
    """

    text: str

    def __post_init__(self) -> None:
        assert self.root  # what is wrong with the text is said at once

    @cached_property
    def root(self) -> Node:
        """The tree of the formula."""
        return parse(self.text)

    @cached_property
    def propositions(self) -> tuple[str, ...]:
        """The propositions that occur, in the order of the text."""
        return tuple(dict.fromkeys(node.name for node in self.root.walk() if node.operator == "prop"))

    def automaton(
        self, letters: Sequence[Iterable[str]] | None = None, *, most_states: int = DEFAULT_STATES
    ) -> FormulaAutomaton:
        """The smallest deterministic automaton that accepts the runs on which the formula holds.

        **Arguments:** `letters`: the sets of propositions that can be true together, by default all; `most_states`.

        **Raises:** `TooLargeError` before the memory is used.
        """
        if letters is None:
            names = self.propositions
            if len(names) > _MOST_PROPOSITIONS:
                found = f"it has {len(names)} propositions, expected at most {_MOST_PROPOSITIONS}"
                raise InputError("formula", [f"{found}, or the letters that can occur"])
            letters = [
                [name for bit, name in enumerate(names) if number >> bit & 1] for number in range(2 ** len(names))
            ]
        known = [frozenset(letter) for letter in letters]
        return automaton_of(self.root, list(dict.fromkeys(known)), most_states)

    def svg(self, letters: Sequence[Iterable[str]] | None = None) -> str:
        """The automaton as a picture, SVG text; `letters` as for `automaton`.

        **Raises:** `TooLargeError` beyond 60 states.
        """
        return to_svg(self.automaton(letters))

    def holds(self, run: Sequence[Iterable[str]]) -> bool:
        """Whether the formula holds on a run, given by the propositions that are true at each time.

        Directly by the meaning of each operator, without an automaton. Cost: linear in the run for each subformula.
        """
        if not run:
            raise InputError("run", ["it is empty, expected at least one time"])
        values: dict[Node, list[bool]] = {}
        word = [frozenset(letter) for letter in run]
        for node in self.root.walk():
            values[node] = _along(node, [values[part] for part in node.parts], word)
        return values[self.root][0]

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    def __str__(self) -> str:
        return self.text


def _along(node: Node, parts: list[list[bool]], word: list[Letter]) -> list[bool]:
    """The truth values of a formula at all times, from those of its parts."""
    size = len(word)
    times = range(size)
    first = parts[0] if parts else []
    second = parts[1] if len(parts) > 1 else []
    match node.operator:
        case "prop":
            return [node.name in letter for letter in word]
        case "true" | "false":
            return [node.operator == "true"] * size
        case "last":
            return [time == size - 1 for time in times]
        case "!":
            return [not value for value in first]
        case "&":
            return [a and b for a, b in zip(first, second, strict=True)]
        case "|":
            return [a or b for a, b in zip(first, second, strict=True)]
        case "X":
            return [*first[1:], False]
        case "WX":
            return [*first[1:], True]
        case "Y":
            return [False, *first[:-1]]
        case "F":
            return [any(first[time:]) for time in times]
        case "G":
            return [all(first[time:]) for time in times]
        case "O":
            return [any(first[: time + 1]) for time in times]
        case "H":
            return [all(first[: time + 1]) for time in times]
        case "U":
            return [any(second[when] and all(first[time:when]) for when in range(time, size)) for time in times]
        case "R":
            return [all(second[when] or any(first[time:when]) for when in range(time, size)) for time in times]
        case "S":
            return [any(second[when] and all(first[when + 1 : time + 1]) for when in range(time + 1)) for time in times]
    raise AssertionError(node.operator)
