"""Other grids that the paper's text allows: drawn at random, kept where they behave as the text says."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from veil.engine.return_range import max_return
from veil.measure.evaluate import expected_return, opacity
from veil.problem.grid.sensors import Cell, Sensor
from veil.problem.grid.world import GridWorld
from veil.problem.problem import Problem
from veil.problem.secrets.initial_state import InitialState
from veil.tradeoffs.soft import PAPER_TEMPERATURES, soft_policy

from .published import (
    BASELINE_BELOW_BITS,
    BASELINE_FAILS_FROM,
    CORNERS,
    DETECTION,
    GOAL_REWARD,
    GRID,
    HORIZON,
    THRESHOLD,
)

LETTERS = "bryg"
SOFT_DISCOUNT = 0.9
# Sensor ranges are blocks of these sizes, rows × columns; three blocks hold a corner, the last lies elsewhere.
_BLOCKS = ((1, 2), (2, 1), (2, 2), (1, 3), (3, 1))
_GOALS, _SECRETS = (1, 2, 3), (2, 3, 4)


@dataclass(frozen=True)
class PaperGrid:
    """Where everything is on the 6×6 grid; `ranges` are the cells of the sensors b, r, y and g."""

    goals: tuple[Cell, ...]
    secrets: tuple[Cell, ...]
    start: Cell
    ranges: tuple[tuple[Cell, ...], ...]

    def _problem(self, starts: tuple[Cell, ...], name: str, *, initial: bool) -> Problem:
        world = GridWorld(
            GRID,
            GRID,
            starts=starts,
            goals=dict.fromkeys(self.goals, GOAL_REWARD),
            secrets=self.secrets,
            sensors=[Sensor(letter, cells, DETECTION) for letter, cells in zip(LETTERS, self.ranges, strict=True)],
        )
        secret = InitialState() if initial else None
        return world.problem(HORIZON, secret=secret, min_return=THRESHOLD, name=name)

    def last_state(self) -> Problem:
        """The last-state problem: is the robot, which begins at the start cell, in a secret cell in the end."""
        return self._problem((self.start,), "last state", initial=False)

    def initial_state(self) -> Problem:
        """The initial-state problem: from which of the four corners did the robot start."""
        return self._problem(CORNERS, "initial state", initial=True)

    def drawing(self) -> list[str]:
        """One line a row, in the signs of `GridWorld.from_ascii`, the start of the last-state problem marked."""
        signs = {cell: letter for letter, cells in zip(LETTERS, self.ranges, strict=True) for cell in cells}
        for cells, sign in ((self.goals, "G"), (self.secrets, "?"), ((self.start,), "S")):
            for cell in cells:
                signs[cell] = signs.get(cell, "") + sign
        return [
            " ".join(f"{signs.get((row, column), '.'):<2}" for column in range(GRID)).rstrip() for row in range(GRID)
        ]

    def document(self) -> dict[str, list]:
        """As JSON holds it."""
        return {
            "goals": [list(cell) for cell in self.goals],
            "secrets": [list(cell) for cell in self.secrets],
            "start": list(self.start),
            "ranges": [[list(cell) for cell in cells] for cells in self.ranges],
        }

    @staticmethod
    def from_document(document: dict) -> "PaperGrid":
        """The layout that `document` wrote."""
        return PaperGrid(
            _cells(document["goals"]),
            _cells(document["secrets"]),
            _cells([document["start"]])[0],
            tuple(_cells(cells) for cells in document["ranges"]),
        )


def _cells(listed: list) -> tuple[Cell, ...]:
    return tuple((int(row), int(column)) for row, column in listed)


# The frozen reconstruction of the gallery, cell by cell; a test holds the two together.
RECONSTRUCTION = PaperGrid(
    goals=((0, 3), (3, 5)),
    secrets=((1, 3), (4, 2), (5, 4)),
    start=(3, 1),
    ranges=(((0, 0), (0, 1)), ((0, 5), (1, 5)), ((4, 0), (5, 0)), ((3, 3), (3, 4), (4, 3), (4, 4))),
)


def draw_layout(generator: np.random.Generator) -> PaperGrid | None:
    """One layout that meets what the text states of the picture; None where the blocks drawn do not fit.

    Four disjoint ranges, three of which hold a corner each while the fourth corner is uncovered: so corners give different
    readings with probability 0.9 or more. (With all four covered no policy could hide more than `H(S_0|O_0)` = 0.2 bits,
    and the paper reports 0.329; with fewer than three, two corners read alike.) One to three goals, two to four secrets,
    a start off the corners, all different cells; goals, secrets and start may lie in a range.
    """
    corners = [CORNERS[number] for number in generator.permutation(4)]
    taken: set[Cell] = {corners[3]}
    ranges = []
    for corner in (*corners[:3], None):
        block = _block(generator, corner)
        if taken & set(block):
            return None
        taken |= set(block)
        ranges.append(block)
    others = [divmod(int(number), GRID) for number in generator.permutation(GRID * GRID)]
    num_goals, num_secrets = int(generator.choice(_GOALS)), int(generator.choice(_SECRETS))
    start = next(cell for cell in others if cell not in CORNERS)
    others.remove(start)
    goals, secrets = others[:num_goals], others[num_goals : num_goals + num_secrets]
    return PaperGrid(tuple(sorted(goals)), tuple(sorted(secrets)), start, tuple(ranges))


def _block(generator: np.random.Generator, corner: Cell | None) -> tuple[Cell, ...]:
    """A block of cells in a corner, or anywhere."""
    height, width = _BLOCKS[int(generator.integers(len(_BLOCKS)))]
    if corner is None:
        top, left = int(generator.integers(GRID - height + 1)), int(generator.integers(GRID - width + 1))
    else:
        top, left = (0 if corner[0] == 0 else GRID - height), (0 if corner[1] == 0 else GRID - width)
    return tuple((row, column) for row in range(top, top + height) for column in range(left, left + width))


def defects(layout: PaperGrid) -> list[str]:
    """What of the paper's text a layout does not meet, in words; empty for an admissible one. Cheap conditions first.

    The threshold can be reached from the start and from the corners; the start in two different corners is told apart by
    the first reading with probability 0.8 or more; the baseline meets the threshold before τ = 0.03 and misses it from
    there on; it hides less than 0.4 bits of the last state at every τ.
    """
    problem, corners = layout.last_state(), layout.initial_state()
    for one in (problem, corners):
        if max_return(one) < THRESHOLD:
            return [f"{one.name}: the threshold {THRESHOLD} cannot be reached"]
    if reading_overlap(corners) > 0.2:
        return ["two corners give the same first reading too often"]
    policies = {}
    for tau in PAPER_TEMPERATURES:
        policies[tau] = soft_policy(problem, tau, discount=SOFT_DISCOUNT)
        earns = expected_return(problem, policies[tau]) >= THRESHOLD
        if earns != (tau < BASELINE_FAILS_FROM):
            return [f"the baseline {'meets' if earns else 'misses'} the threshold at τ = {tau:g}"]
    for tau, policy in policies.items():
        bits = opacity(problem, policy, "exact").bits
        if bits >= BASELINE_BELOW_BITS:
            return [f"the baseline hides {bits:.3f} bits at τ = {tau:g}"]
    return []


def reading_overlap(problem: Problem) -> float:
    """The largest probability with which the first readings of two start states agree, `max Σ_o b_i(o) b_j(o)`."""
    starts = np.flatnonzero(problem.models[0].initial)
    rows = problem.observer.emissions[starts]
    agree = rows @ rows.T
    return float(np.max(agree - np.diag(np.diag(agree)))) if len(starts) > 1 else 0.0


def admissible_layouts(seed: int) -> Iterator[tuple[int, PaperGrid]]:
    """Admissible layouts other than the reconstruction, one after the other, each with how many were drawn so far."""
    generator, drawn = np.random.default_rng([seed, 20240803]), 0
    while True:
        drawn += 1
        layout = draw_layout(generator)
        if layout is not None and layout != RECONSTRUCTION and not defects(layout):
            yield drawn, layout
