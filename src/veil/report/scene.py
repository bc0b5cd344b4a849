"""What a picture of a problem shows: positions of the states, sensor ranges, starts, goals and secret states."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..problem.layout import Layout
from ..problem.problem import Problem
from .placing import place

MOST_NODES = 40  # of a graph that is still legible; of more states the most visited are shown
MOST_CELLS = 40_000  # of a grid that is drawn as one; a larger one shows its most visited cells as a graph
_MOVED = 0.5  # the share of states in which an action has to go one way to be drawn as an arrow that way


@dataclass(frozen=True, eq=False)
class Range:
    """The range of one sensor: `states`, where it reports most often, `rate`, its largest rate, `elsewhere`, its smallest."""

    name: str
    states: Int[np.ndarray, " k"]
    rate: float
    elsewhere: float


@dataclass(frozen=True, eq=False)
class Scene:
    """A problem as a picture.

    **Attributes:** `shown`, the indices of the states in the picture; `places`, `(n, 2)`, their x and y (down), in cells
    or steps; `layout`, of a grid, else None; `ranges`; `starts`, `goals`, `secrets`: masks over all states; `edges`, of a
    graph: pairs of positions in `shown` between which a step is possible.
    """

    problem: Problem
    shown: Int[np.ndarray, " n"]
    places: Float[np.ndarray, "n 2"]
    layout: Layout | None
    ranges: tuple[Range, ...]
    starts: Bool[np.ndarray, " S"]
    goals: Bool[np.ndarray, " S"]
    secrets: Bool[np.ndarray, " S"]
    edges: Int[np.ndarray, "e 2"]

    @property
    def is_grid(self) -> bool:
        """Whether the states are cells."""
        return self.layout is not None

    @property
    def names(self) -> list[str]:
        """The names of the shown states."""
        return [self.problem.model.states[int(state)] for state in self.shown]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        if self.layout is not None:
            return float(self.layout.columns), float(self.layout.rows)
        width, height = self.places.max(axis=0)
        return float(width) + 1.0, float(height) + 1.0

    @cached_property
    def walls(self) -> list[tuple[int, int]]:
        """The cells of a grid that no state holds."""
        if self.layout is None:
            return []
        free = np.zeros((self.layout.rows, self.layout.columns), dtype=bool)
        free[tuple(np.array(self.layout.cells, dtype=int).reshape(-1, 2).T)] = True
        return [(row, column) for row, column in np.argwhere(~free).tolist()]

    @cached_property
    def directions(self) -> list[tuple[int, int] | None]:
        """Of a grid: for each action where it leads, (right, down), (0, 0) where it stays; None where that varies."""
        if self.layout is None:
            return [None] * self.problem.num_actions
        cells = np.array(self.layout.cells, dtype=int).reshape(-1, 2)[:, ::-1]
        return [_direction(matrix, cells) for matrix in self.problem.model.matrices]


def make_scene(problem: Problem, importance: Float[np.ndarray, " S"] | None = None) -> Scene:
    """The picture of a problem.

    **Arguments:** `importance`: which states to show where a graph has more than forty: those with the largest numbers;
    by default those that are nearest to a start. Starts are shown before others.
    """
    model = problem.model
    graph = sp.csr_array(sum(abs(matrix) for one in problem.models for matrix in one.matrices))
    starts = _any_start(problem)
    paid = np.max([np.maximum(one.rewards.max(axis=1), one.terminal_rewards) for one in problem.models], axis=0)
    layout = drawn_layout(problem)
    if layout is not None:
        shown = np.arange(model.num_states)
        places = np.array(layout.cells, dtype=float).reshape(-1, 2)[:, ::-1] + 0.5
        edges = np.zeros((0, 2), dtype=int)
    else:
        shown = _most_important(graph, starts, importance)
        part = sp.csr_array(graph[shown][:, shown])
        places = place(part)
        edges = np.argwhere(part.toarray() > 0)
    return Scene(
        problem,
        shown,
        places,
        layout,
        sensor_ranges(problem),
        starts,
        paid > 0,
        problem.secret.marked_states(problem),
        edges,
    )


def drawn_layout(problem: Problem) -> Layout | None:
    """The grid that a problem is drawn on; None where it is drawn as a graph."""
    return problem.layout if problem.num_states <= MOST_CELLS else None


def sensor_ranges(problem: Problem) -> tuple[Range, ...]:
    """What each sensor of the observer covers, from the rates at which it reports; one that reports alike everywhere: all.

    An observer that names no sensors is taken to have one for each observation but the silent one; where that makes more
    than a picture can tell apart, none.
    """
    observer = problem.observer
    sensors = {name: list(muted) for name, muted in observer.sensors.items()}
    if not sensors:
        others = [o for o in range(observer.num_observations) if o != observer.silent]
        sensors = {observer.observations[o]: [o] for o in others} if len(others) <= 8 else {}
    found = []
    for name, reports in sensors.items():
        rates = np.max([matrix[:, reports].toarray() for matrix in observer.base_matrices], axis=0).sum(axis=1)
        low, high = float(rates.min()), float(rates.max())
        inside = rates > (low + high) / 2 if high > low else np.ones(len(rates), dtype=bool)
        found.append(Range(name, np.flatnonzero(inside), high, low))
    return tuple(found)


def _any_start(problem: Problem) -> Bool[np.ndarray, " S"]:
    return np.max([one.initial for one in problem.models], axis=0) > 0


def _most_important(graph: sp.csr_array, starts: np.ndarray, importance: np.ndarray | None) -> np.ndarray:
    size = len(starts)
    if size <= MOST_NODES:
        return np.arange(size)
    if importance is None:
        importance = -_steps_from(graph, starts).astype(float)
    order = np.lexsort((np.arange(size), -importance, ~starts))
    return np.sort(order[:MOST_NODES])


def _steps_from(graph: sp.csr_array, starts: np.ndarray) -> np.ndarray:
    """How many steps each state is from a start; the number of states where there is no way."""
    steps = np.where(starts, 0, len(starts))
    edge, time = np.flatnonzero(starts), 0
    while len(edge):
        time += 1
        reached = np.unique(graph[edge].indices)
        edge = reached[steps[reached] > time]
        steps[edge] = time
    return steps


def _direction(matrix: sp.csr_array, cells: np.ndarray) -> tuple[int, int] | None:
    """Where an action goes in most states in which it goes anywhere."""
    dense_row = np.repeat(np.arange(len(cells)), np.diff(matrix.indptr))
    # The likeliest successor of each row: the last of its entries when sorted by probability.
    order = np.lexsort((matrix.data, dense_row))
    ends = matrix.indptr[1:][np.diff(matrix.indptr) > 0] - 1
    likeliest = order[ends]
    moves = cells[matrix.indices[likeliest]] - cells[dense_row[likeliest]]
    going = moves[moves.any(axis=1)]
    if not len(going):
        return (0, 0)
    ways, count = np.unique(going, axis=0, return_counts=True)
    if count.max() < _MOVED * len(going):
        return None
    right, down = ways[count.argmax()].tolist()
    return (int(right), int(down))
