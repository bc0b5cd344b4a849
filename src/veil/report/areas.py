"""The areas of a picture: the groups of the secret, what constraints avoid or ask for, goals and traps, each with a colour."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ..problem.constraints import Probability
from ..problem.formulas.formula import Formula
from ..problem.problem import Problem
from .style import BLUE, GREEN, GREY, MAROON, ORANGE, PALETTE, PURPLE, SKY, VERMILION, colours

MOST_GROUPS = 8  # of a secret that a picture can tell apart; of more, all have one colour
_GROUPS = (VERMILION, PURPLE, ORANGE, SKY, GREEN, BLUE)
_SECRET = "secret: "
_INSET = 0.07  # of a cell, by which an outline lies inside


@dataclass(frozen=True, eq=False)
class Area:
    """States that belong together.

    **Attributes:** `role`: `secret`, `avoid`, `visit`, `goal` or `absorbing`; `name`, in the legend; `sign`, its letter in a
    cell; `colour`; `states`, a mask.
    """

    role: str
    name: str
    sign: str
    colour: str
    states: Bool[np.ndarray, " S"]


def find_areas(
    problem: Problem, goals: Bool[np.ndarray, " S"], traps: Bool[np.ndarray, " S"], taken: Iterable[str] = ()
) -> tuple[Area, ...]:
    """The areas of a problem, none of them empty.

    **Arguments:** `goals`, `traps`: masks; `taken`: colours that sensors have, which groups avoid as long as there are others.
    """
    found = [Area("goal", "goal", "G", GREEN, goals), Area("absorbing", "absorbing", "X", GREY, traps)]
    found += _secret_areas(problem, set(taken))
    found += _constraint_areas(problem)
    return tuple(area for area in found if area.states.any())


def _secret_areas(problem: Problem, taken: set[str]) -> list[Area]:
    groups = {name: mask for name, mask in problem.secret.marked_groups(problem).items() if mask.any()}
    if len(groups) == 1 or len(groups) > MOST_GROUPS:
        return [Area("secret", "secret", "?", VERMILION, np.any(list(groups.values()), axis=0))]
    order = [colour for colour in _GROUPS if colour not in taken] + [colour for colour in _GROUPS if colour in taken]
    return [
        Area("secret", f"{_SECRET}{name}", "?", order[number % len(order)], mask)
        for number, (name, mask) in enumerate(groups.items())
    ]


def _constraint_areas(problem: Problem) -> list[Area]:
    """The labelled states of formulas: those whose probability is bounded from above are avoided, unless negated."""
    found: dict[tuple[str, str], np.ndarray] = {}
    for constraint in problem.constraints:
        if not isinstance(constraint, Probability) or not constraint.labels:
            continue
        negated = "!" in str(constraint.formula)
        role = "avoid" if (constraint.max is not None) != negated else "visit"
        for name in Formula(str(constraint.formula)).propositions:
            if name not in constraint.labels:
                continue
            mask = found.setdefault((role, name), np.zeros(problem.num_states, dtype=bool))
            mask[[problem.model.states.find(state) for state in constraint.labels[name]]] = True
    looks = {"avoid": ("!", MAROON), "visit": ("+", BLUE)}
    return [Area(role, f"{role}: {name}", *looks[role], mask) for (role, name), mask in found.items()]


def value_colours(areas: Sequence[Area], values: Sequence[str]) -> list[str]:
    """A colour for each value of the secret: that of its area if it has one, else one that no value has."""
    known = {area.name.removeprefix(_SECRET): area.colour for area in areas if area.name.startswith(_SECRET)}
    if not known:
        return colours(list(values))
    rest = [colour for colour in PALETTE if colour not in known.values()]
    others = [value for value in values if value not in known]
    return [known[value] if value in known else rest[others.index(value) % len(rest)] for value in values]


def outline(cells: Int[np.ndarray, "k 2"], inset: float = _INSET) -> Float[np.ndarray, "n 2 2"]:
    """The border of some cells (row, column) as segments of points (x, y), slightly inside, so that two areas show theirs."""
    inside = {(row, column) for row, column in cells.tolist()}
    lines = []
    for row, column in sorted(inside):
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            if (row + down, column + right) in inside:
                continue
            across, along = np.array([right, down], dtype=float), np.array([abs(down), abs(right)], dtype=float)
            middle = np.array([column + 0.5, row + 0.5]) + (0.5 - inset) * across
            ends = []
            for side in (-1, 1):
                beside = (row + side * abs(right), column + side * abs(down))
                corner = (beside[0] + down, beside[1] + right)
                reach = 0.5 - inset if beside not in inside else 0.5 + inset if corner in inside else 0.5
                ends.append(middle + side * reach * along)
            lines.append(ends)
    return np.array(lines).reshape(-1, 2, 2)
