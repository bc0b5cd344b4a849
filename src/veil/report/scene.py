"""What a picture of a problem shows: the spots of the states, sensor ranges, starts, goals, traps and secret states."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..problem.problem import Problem
from .areas import Area, find_areas
from .cells import Cells, find_cells
from .placing import place
from .roles import goals_and_traps
from .style import colours

MOST_NODES = 40  # of a graph that is still legible; of more states the most visited are shown
_LEAST_SHARE = 0.02  # of the way from the smallest to the largest rate, from which a state counts as in range
_MOVED = 0.5  # the share of states in which an action has to go one way to be drawn as an arrow that way


@dataclass(frozen=True, eq=False)
class Range:
    """The range of one sensor.

    **Attributes:** `states`, where it reports more often than elsewhere; `strength`, of each the share of the largest rate;
    `rate`, the largest rate; `elsewhere`, the smallest.
    """

    name: str
    states: Int[np.ndarray, " k"]
    strength: Float[np.ndarray, " k"]
    rate: float
    elsewhere: float


@dataclass(frozen=True, eq=False)
class Scene:
    """A problem as a picture of n spots, which are the cells of a grid or the nodes of a graph.

    **Attributes:** `spots`, `(S,)`, the spot of each state, -1 where it is not in the picture; several states may share a
    cell. `places`, `(n, 2)`, x and y (down) of each spot, in cells or steps; `cells`, of a grid, else None; `ranges`;
    `starts`, `goals`, `traps` (absorbing, without reward), `secrets`: masks over all states; `edges`, of a graph: pairs of
    spots between which a step is possible; `closed`: spots that no step enters; `areas`: what is marked, by name and colour.
    """

    problem: Problem
    spots: Int[np.ndarray, " S"]
    places: Float[np.ndarray, "n 2"]
    cells: Cells | None
    ranges: tuple[Range, ...]
    starts: Bool[np.ndarray, " S"]
    goals: Bool[np.ndarray, " S"]
    traps: Bool[np.ndarray, " S"]
    secrets: Bool[np.ndarray, " S"]
    edges: Int[np.ndarray, "e 2"]
    closed: Int[np.ndarray, " k"]
    areas: tuple[Area, ...] = ()

    @property
    def is_grid(self) -> bool:
        """Whether the spots are cells."""
        return self.cells is not None

    @cached_property
    def shown(self) -> Int[np.ndarray, " n"]:
        """The first state at each spot."""
        first = np.full(len(self.places), self.problem.num_states)
        there = np.flatnonzero(self.spots >= 0)
        np.minimum.at(first, self.spots[there], there)
        return first

    @cached_property
    def names(self) -> list[str]:
        """The names of the spots: of their state, or of the cell where several states share it."""
        states = self.problem.model.states
        shared = self.cells is not None and len(self.shown) < int((self.spots >= 0).sum())
        if self.cells is None or not shared:
            return [states[int(state)] for state in self.shown]
        top, left = self.cells.corner
        return [f"r{int(y) + top}c{int(x) + left}" for x, y in self.places.tolist()]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        if self.cells is not None:
            return float(self.cells.columns), float(self.cells.rows)
        width, height = self.places.max(axis=0)
        return float(width) + 1.0, float(height) + 1.0

    @property
    def part(self) -> str:
        """What of the problem is not in the picture, as a sentence; empty where all of it is."""
        count = f"{self.problem.num_states:,} states"
        if self.cells is not None and self.cells.is_cropped:
            (top, left), (rows, columns) = self.cells.corner, (self.cells.rows, self.cells.columns)
            where = f"rows {top} to {top + rows - 1}, columns {left} to {left + columns - 1}"
            return (
                f"Shown: {where} of a grid of {self.cells.whole[0]:,} × {self.cells.whole[1]:,}, where the policy goes."
            )
        if self.cells is None and len(self.shown) < self.problem.num_states:
            return f"Shown: the {len(self.shown)} most visited of {count}."
        if len(self.shown) < self.problem.num_states:
            return f"Each cell stands for all states in it: {len(self.shown)} cells, {count}."
        return ""

    @cached_property
    def walls(self) -> list[tuple[int, int]]:
        """The cells of a grid that no state holds."""
        if self.cells is None:
            return []
        free = np.zeros((self.cells.rows, self.cells.columns), dtype=bool)
        free[tuple(self.cells.of[self.cells.inside].T)] = True
        return [(row, column) for row, column in np.argwhere(~free).tolist()]

    @cached_property
    def directions(self) -> list[tuple[int, int] | None]:
        """Of a grid: for each action where it leads, (right, down), (0, 0) where it stays; None where that varies."""
        if self.cells is None:
            return [None] * self.problem.num_actions
        return [_direction(matrix, self.cells.of[:, ::-1]) for matrix in self.problem.model.matrices]

    def strengths(self, one: Range) -> dict[int, float]:
        """Each spot that a sensor covers, with the largest share of its rate there."""
        found: dict[int, float] = {}
        for spot, share in zip(self.spots[one.states].tolist(), one.strength.tolist(), strict=True):
            if spot >= 0:
                found[spot] = max(share, found.get(spot, 0.0))
        return found

    def total(self, values: Float[np.ndarray, "*k S"]) -> Float[np.ndarray, "*k n"]:
        """Numbers of the states added up at each spot."""
        return np.asarray(values @ self._at)

    def mean(self, table: Float[np.ndarray, "S A"], weight: Float[np.ndarray, " S"]) -> Float[np.ndarray, "n A"]:
        """The rows of the states averaged at each spot by their weights, equally where these are all zero."""
        if len(self.shown) == int((self.spots >= 0).sum()):
            return table[self.shown]
        given = np.where(self.total(weight)[np.maximum(self.spots, 0)] > 0, weight, 1.0)
        rows = np.asarray(self._at.T @ (given[:, None] * table))
        return rows / self.total(given)[:, None]

    def at(self, states: Int[np.ndarray, " k"]) -> Int[np.ndarray, " m"]:
        """The spots of some states, each once."""
        found = np.unique(self.spots[states])
        return found[found >= 0]

    @cached_property
    def _at(self) -> sp.csr_array:
        there = np.flatnonzero(self.spots >= 0)
        shape = (self.problem.num_states, len(self.places))
        return sp.csr_array((np.ones(len(there)), (there, self.spots[there])), shape=shape)


def make_scene(problem: Problem, importance: Float[np.ndarray, " S"] | None = None) -> Scene:
    """The picture of a problem.

    **Arguments:** `importance`: how often each state is visited; by it a large grid is cropped, and of a graph of more than
    forty states the most important are shown, by default those that are nearest to a start. Starts are shown before others.
    """
    graph = sp.csr_array(sum(abs(matrix) for one in problem.models for matrix in one.matrices))
    starts = _any_start(problem)
    cells = find_cells(problem, importance)
    closed = edges = np.zeros((0, 2), dtype=int)
    if cells is not None:
        held, index = np.unique(cells.of[cells.inside], axis=0, return_inverse=True)
        spots = np.full(problem.num_states, -1)
        spots[cells.inside] = index.ravel()
        if len(held) == problem.num_states:  # in the order of the states, as graphs are
            held, spots = cells.of, np.arange(problem.num_states)
        places = held[:, ::-1] + 0.5
        closed = _closed(graph, starts, spots, len(held))
    else:
        shown = _most_important(graph, starts, importance)
        spots = np.full(problem.num_states, -1)
        spots[shown] = np.arange(len(shown))
        part = sp.csr_array(graph[shown][:, shown])
        places = place(part)
        edges = np.argwhere(part.toarray() > 0)
    goals, traps = goals_and_traps(problem)
    ranges = sensor_ranges(problem)
    return Scene(
        problem,
        spots,
        places,
        cells,
        ranges,
        starts,
        goals,
        traps,
        problem.secret.marked_states(problem),
        edges,
        closed.ravel(),
        find_areas(problem, goals, traps, colours([one.name for one in ranges])),
    )


def _closed(graph: sp.csr_array, starts: np.ndarray, spots: np.ndarray, count: int) -> Int[np.ndarray, " k"]:
    """The spots that no step from another state enters and no run begins in, as the cliff of CliffWalking."""
    entered = np.zeros(len(starts), dtype=bool)
    row = np.repeat(np.arange(len(starts)), np.diff(graph.indptr))
    entered[graph.indices[(graph.indices != row) & (graph.data > 0)]] = True
    is_open = np.zeros(count, dtype=bool)
    is_open[spots[(entered | starts) & (spots >= 0)]] = True
    return np.flatnonzero(~is_open)


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
        rates = np.max([matrix[:, reports].toarray() for matrix in observer.matrices], axis=0).sum(axis=1)
        low, high = float(rates.min()), float(rates.max())
        inside = rates > low + _LEAST_SHARE * (high - low) if high > low else np.ones(len(rates), dtype=bool)
        found.append(Range(name, np.flatnonzero(inside), rates[inside] / max(high, 1e-300), high, low))
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
    """Where an action goes in most states in which it goes anywhere, by the mean of its steps, so that slips cancel out.

    Where the states do not agree, since slips at the border do not cancel out, the sum of all steps decides, if it is large.
    """
    steps = np.asarray(matrix @ cells) - np.asarray(matrix.sum(axis=1)).reshape(-1, 1) * cells
    most = np.abs(steps).max(axis=1)
    going = steps[most > 1e-9] / most[most > 1e-9, None]
    if not len(going):
        return (0, 0)
    ways, count = np.unique(np.sign(np.round(going)).astype(int), axis=0, return_counts=True)
    chosen = ways[count.argmax()]
    if count.max() < _MOVED * len(going):
        total = steps.sum(axis=0)
        if np.abs(total).max() < _MOVED * most.sum():
            return None
        chosen = np.sign(np.round(total / np.abs(total).max())).astype(int)
    right, down = chosen.tolist()
    return (int(right), int(down))
