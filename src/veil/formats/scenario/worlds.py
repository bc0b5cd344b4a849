"""The world of a scenario: a drawn grid, a graph, a model file, or several of them, made into models with their names."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...common.checks import SUM_TOLERANCE, Defects
from ...common.errors import InputError, VeilError
from ...problem.grid.drawing import SIGNS, read_drawing
from ...problem.grid.sensors import Cell
from ...problem.grid.world import GridWorld, Sensor
from ...problem.model import Model
from ...problem.observer import Observer
from ..expressions import Expression
from .schema import MOST_CELLS, Graph, Grid
from .text import MOST_LISTED, Notes, Path_, near, shown
from .types import StateSet

MOST_STATES = 50_000
MOST_ACTIONS = 256
MOST_PAIRS = 1_000_000  # (state, action), over all models
MOST_TRANSITIONS = 120_000  # over all models
MOST_SENSOR_CELLS = 2_000_000  # sensors times cells
MOST_WORK = 10**8  # characters of expressions times states, and the like for signs


@dataclass(eq=False)
class World:
    """What the other parts of a scenario refer to: the states and actions, their names, and what the world shows.

    **Attributes:** `model`; `observer`, where the world brings its own; `grid`, `signs` (the cells of each character),
    where it is drawn; `valuations`, the value of each variable in each state, and `labels`, named sets of states.
    """

    model: Model
    observer: Callable[[bool, bool], Observer] | None = None
    grid: GridWorld | None = None
    signs: Mapping[str, Sequence[Cell]] = field(default_factory=dict)
    valuations: Mapping[str, np.ndarray] = field(default_factory=dict)
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    spent: int = 0  # of MOST_WORK
    _found_signs: dict[str, list[int]] = field(default_factory=dict)

    @cached_property
    def variables(self) -> dict[str, np.ndarray]:
        """What expressions speak of: the valuations, and `state` and `index` unless they are names of variables."""
        own = {"state": np.array(self.model.states.all()), "index": np.arange(self.model.num_states)}
        return own | dict(self.valuations)

    @cached_property
    def state_numbers(self) -> dict[str, int]:
        """The index of each state's name."""
        return {name: index for index, name in enumerate(self.model.states.all())}

    @cached_property
    def action_numbers(self) -> dict[str, int]:
        """The index of each action's name."""
        return {name: index for index, name in enumerate(self.model.actions.all())}

    def find(self, wanted: StateSet, path: Path_, notes: Notes) -> list[int]:
        """The indices of a set of states, each once; what cannot be found is noted."""
        if wanted.where is not None:
            return self._where(wanted.where, path, notes)
        if wanted.drawn is not None:
            return self._drawn(wanted.drawn, path, notes)
        found: dict[int, None] = {}
        for key in wanted.names:
            index = self.number(key, path, notes)
            if index is not None:
                found[index] = None
        return list(found)

    def number(self, key: str | int, path: Path_, notes: Notes) -> int | None:
        """The index of one state."""
        if isinstance(key, int):
            if key < self.model.num_states:
                return key
            notes.add(path, f"found state {key}, expected an index from 0 to {self.model.num_states - 1}")
            return None
        return lookup(self.state_numbers, key, "state", path, notes)

    def _where(self, expression: str, path: Path_, notes: Notes) -> list[int]:
        if not self._afford(len(expression) * self.model.num_states, path, notes):
            return []
        try:
            mask = Expression(expression).evaluate(self.variables, self.model.num_states, self.labels)
        except InputError as error:
            note_defects(error, path, notes, f"the expression {shown(expression)}")
            return []
        found = np.flatnonzero(mask).tolist()
        if not found:
            notes.add(path, f"the expression {shown(expression)} holds in no state, expected at least one")
        return found

    def _afford(self, work: int, path: Path_, notes: Notes) -> bool:
        """Whether the sets of states of this file stay within what can be looked at in a moment."""
        self.spent += work
        if self.spent > MOST_WORK:
            notes.add(
                path, "too many or too long sets of states for so many states, expected fewer expressions and signs"
            )
        return self.spent <= MOST_WORK

    def _drawn(self, sign: str, path: Path_, notes: Notes) -> list[int]:
        cells = self.signs.get(sign)
        if self.grid is None or not cells:
            known = near(sign, self.signs) if self.grid is not None else "nothing is drawn"
            notes.add(path, f"the sign {sign!r} is drawn nowhere, expected a sign of the drawing: {known}")
            return []
        if not self._afford(20 * len(cells), path, notes):
            return []
        if sign not in self._found_signs:
            walls = set(self.grid.walls)
            free = [f"r{row}c{column}" for row, column in cells if (row, column) not in walls]
            self._found_signs[sign] = [self.state_numbers[name] for name in free]
        found = self._found_signs[sign]
        if not found:
            notes.add(path, f"the sign {sign!r} stands for walls, where nobody can be")
        return found


def lookup(numbers: Mapping[str, int], key: str, what: str, path: Path_, notes: Notes) -> int | None:
    """The index of a name, or None with the defect noted."""
    if key not in numbers:
        # Suggestions take time: beyond the messages that will be shown there is no need of them.
        hint = near(key, numbers) if len(notes) < MOST_LISTED else ""
        notes.add(path, f"unknown {what} {shown(key)}: {hint}")
        return None
    return numbers[key]


def note_defects(error: VeilError, path: Path_, notes: Notes, what: str = "") -> None:
    """Note every defect of an error that a part of the problem raised; `what` was looked at, where the path is not enough."""
    for defect in error.defects if isinstance(error, InputError) else (str(error),):
        notes.add(path, f"{what}: {defect}" if what else defect)


def make_grid(table: Grid, path: Path_, notes: Notes) -> World | None:
    """The world of a `[grid]`; None with every defect noted."""
    before = len(notes)
    _check_grid_size(table, path, notes)
    if len(notes) > before:
        return None
    sensors = {
        sign: Sensor(given.name or sign, given.cells, given.detection, given.false_alarm)
        for sign, given in table.sensors.items()
    }
    rows, columns, places, drawn_sensors, signs = _drawn(table, sensors, path, notes)
    starts = _starts(table, places["start"], signs)
    if len(notes) > before:
        return None
    if len(drawn_sensors) * rows * columns > MOST_SENSOR_CELLS:
        size = f"{len(drawn_sensors)} sensors over {rows * columns:,} cells"
        notes.add((*path, "sensors"), f"found {size}, expected at most {MOST_SENSOR_CELLS:,} pairs of them")
        return None
    try:
        world = GridWorld(
            rows,
            columns,
            walls=[*places["wall"], *table.walls],
            slip=table.slip,
            stay=table.stay,
            starts=starts,
            goals=_goals(table, places["goal"], signs),
            goals_pay_last=table.goals_pay_last,
            secrets=[*places["secret"], *table.secrets],
            absorbing=[*places["absorbing"], *table.absorbing],
            sensors=drawn_sensors,
            readings=table.readings,
            discount=table.discount,
        )
        where = np.array(world.cells, dtype=int).reshape(-1, 2)
        return World(world.model(), world.observer, world, signs, {"row": where[:, 0], "column": where[:, 1]})
    except InputError as error:
        note_defects(error, path, notes)
        return None


def _check_grid_size(table: Grid, path: Path_, notes: Notes) -> None:
    sized = table.rows is not None and table.columns is not None
    if table.drawing is None:
        if not sized:
            notes.add((*path, "drawing"), "is missing, expected a drawing, or rows and columns")
        elif (cells := (table.rows or 0) * (table.columns or 0)) > MOST_CELLS:
            notes.add((*path, "rows"), f"found {cells:,} cells, expected at most {MOST_CELLS:,}")
        return
    for key in ("rows", "columns"):
        if getattr(table, key) is not None:
            notes.add((*path, key), "found beside a drawing, which says the size: leave it out")
    lines = table.drawing.strip().splitlines()
    spaced = any(len(line.split()) > 1 for line in lines)
    cells = sum(len(line.split()) if spaced else len(line.strip()) for line in lines)
    signs = len("".join(table.drawing.split()))
    for what, size, most in (("cells", cells, MOST_CELLS), ("characters", signs, 2 * MOST_CELLS)):
        if size > most:
            notes.add((*path, "drawing"), f"found {size:,} {what}, expected at most {most:,}")


def _drawn(
    table: Grid, sensors: Mapping[str, Sensor], path: Path_, notes: Notes
) -> tuple[int, int, dict[str, list[Cell]], list[Sensor], dict[str, list[Cell]]]:
    """Size, cells of each role, sensors with their ranges, and cells of each sign."""
    if table.drawing is None:
        places: dict[str, list[Cell]] = {word: [] for word in SIGNS.values()}
        if table.legend:
            notes.add((*path, "legend"), "found a legend, but nothing is drawn")
        return table.rows or 0, table.columns or 0, places, list(sensors.values()), {}
    defects = Defects("drawing")
    legend = {sign: meaning.roles for sign, meaning in table.legend.items()}
    rows, columns, places, ranged = read_drawing(table.drawing, sensors, legend, defects)
    try:
        defects.raise_if_any()
    except InputError as error:
        note_defects(error, (*path, "drawing"), notes)
    for sign, meaning in table.legend.items():
        for key, role in (("reward", "goal"), ("weight", "start")):
            if getattr(meaning, key) is not None and role not in meaning.roles:
                notes.add((*path, "legend", sign), f"has a {key} but is no {role}: add {role!r} to what it is")
    return rows, columns, places, ranged, _signs(table.drawing)


def _signs(drawing: str) -> dict[str, list[Cell]]:
    """The cells in which each character is drawn; lines are cut into cells as `GridWorld.from_ascii` does."""
    lines = [line.strip() for line in drawing.strip().splitlines()]
    spaced = any(len(line.split()) > 1 for line in lines)
    signs: dict[str, list[Cell]] = {}
    for row, line in enumerate(lines):
        for column, token in enumerate(line.split() if spaced else line):
            for sign in dict.fromkeys(token):
                signs.setdefault(sign, []).append((row, column))
    return signs


def _starts(table: Grid, drawn: Sequence[Cell], signs: Mapping[str, Sequence[Cell]]) -> Any:
    weights = dict.fromkeys(drawn, 1.0)
    for sign, meaning in table.legend.items():
        if meaning.weight is not None:
            weights.update(dict.fromkeys(signs.get(sign, ()), meaning.weight))
    for start in table.starts:
        weights[start.cell] = start.weight
    # Equal weights are left to the grid, whose own division keeps 1/n exact.
    return list(weights) if len(set(weights.values())) <= 1 else normalised(weights)


def normalised(weights: Mapping[Any, float]) -> dict[Any, float]:
    """Weights as probabilities: as they are where they sum to 1, else divided by their sum."""
    total = sum(weights.values())
    exact = abs(total - 1) <= SUM_TOLERANCE
    return {key: weight if exact else weight / total for key, weight in weights.items()}


def _goals(table: Grid, drawn: Sequence[Cell], signs: Mapping[str, Sequence[Cell]]) -> dict[Cell, float]:
    rewards = dict.fromkeys(drawn, table.goal_reward)
    for sign, meaning in table.legend.items():
        if meaning.reward is not None:
            rewards.update(dict.fromkeys(signs.get(sign, ()), meaning.reward))
    return rewards | {goal.cell: goal.reward for goal in table.goals}


def make_graph(table: Graph, path: Path_, notes: Notes) -> World | None:
    """The world of a `[graph]`; None with every defect noted."""
    before = len(notes)
    states, actions = _graph_names(table, path, notes)
    if not table.transitions:
        notes.add((*path, "transitions"), "is missing or empty, expected at least one entry for each state")
    if table.initial is None:
        notes.add((*path, "initial"), "is missing, expected the state in which it starts")
    _check_sizes(len(states), len(actions), path, notes)
    if len(notes) > before:
        return None
    matrices, available = _graph_matrices(table, states, actions, path, notes)
    rewards = _graph_rewards(table, states, actions, path, notes)
    terminal = _vector(table.terminal_rewards, states, (*path, "terminal_rewards"), notes)
    initial = _vector(table.initial or {}, states, (*path, "initial"), notes)
    if len(notes) == before and abs(initial.sum() - 1) > SUM_TOLERANCE:
        notes.add((*path, "initial"), f"the probabilities sum to {initial.sum():.12g}, expected 1")
    if len(notes) > before:
        return None
    try:
        return World(
            Model(
                matrices, rewards, initial, table.discount, terminal, list(states), list(actions), available=available
            )
        )
    except InputError as error:
        note_defects(error, path, notes)
        return None


def _graph_names(table: Graph, path: Path_, notes: Notes) -> tuple[dict[str, int], dict[str, int]]:
    named = {
        "states": (name for step in table.transitions for name in (step.state, *(n for n, _ in step.following))),
        "actions": (step.action for step in table.transitions),
    }
    found = []
    for key, default in named.items():
        given = getattr(table, key)
        numbers = {name: index for index, name in enumerate(dict.fromkeys(default if given is None else given))}
        if given is not None and len(numbers) < len(given):
            twice = next(name for name, times in Counter(given).items() if times > 1)
            notes.add((*path, key), f"{shown(twice)} is named twice, expected distinct names")
        found.append(numbers)
    return found[0], found[1]


def _check_sizes(states: int, actions: int, path: Path_, notes: Notes) -> None:
    for what, size, most in (
        ("states", states, MOST_STATES),
        ("actions", actions, MOST_ACTIONS),
        ("pairs of state and action", states * actions, MOST_PAIRS),
    ):
        if size > most:
            notes.add(path, f"found {size:,} {what}, expected at most {most:,}: put a large model into a [file]")


def _graph_matrices(
    table: Graph, states: Mapping[str, int], actions: Mapping[str, int], path: Path_, notes: Notes
) -> tuple[list[sp.csr_array], np.ndarray]:
    """One sparse matrix an action, and which pairs have entries; rows that do not sum to 1 are noted by their entries."""
    size = len(states)
    rows: list[list[int]] = [[] for _ in actions]
    columns: list[list[int]] = [[] for _ in actions]
    values: list[list[float]] = [[] for _ in actions]
    first: dict[tuple[int, int, int], int] = {}
    sums: dict[tuple[int, int], float] = {}
    entry_of: dict[tuple[int, int], int] = {}
    for number, step in enumerate(table.transitions):
        where = (*path, "transitions", number)
        s = lookup(states, step.state, "state", where, notes)
        a = lookup(actions, step.action, "action", where, notes)
        for name, chance in step.following:
            n = lookup(states, name, "state", where, notes)
            if s is None or a is None or n is None:
                continue
            before = first.setdefault((s, a, n), number)
            if before != number:
                notes.add(where, f"repeats entry {before + 1}: give one entry with the sum")
            sums[s, a] = sums.get((s, a), 0.0) + chance
            entry_of.setdefault((s, a), number)
            rows[a].append(s)
            columns[a].append(n)
            values[a].append(chance)
    available = np.zeros((size, len(actions)), dtype=bool)
    available[tuple(np.array(list(sums), dtype=int).reshape(-1, 2).T)] = True
    known, names = list(states), list(actions)
    for (s, a), total in sums.items():
        if abs(total - 1) > SUM_TOLERANCE:
            row = f"the probabilities of state {shown(known[s])} and action {shown(names[a])}"
            notes.add((*path, "transitions", entry_of[s, a]), f"{row} sum to {total:.12g}, expected 1")
    for s in np.flatnonzero(~available.any(axis=1)).tolist():
        notes.add(
            (*path, "transitions"), f"state {shown(known[s])} has no entry, expected at least one: add a waiting action"
        )
    shape = (size, size)
    return [sp.csr_array((v, (r, c)), shape=shape) for v, r, c in zip(values, rows, columns, strict=True)], available


def _graph_rewards(
    table: Graph, states: Mapping[str, int], actions: Mapping[str, int], path: Path_, notes: Notes
) -> np.ndarray:
    rewards = np.zeros((len(states), len(actions)))
    for name, paid in table.rewards.items():
        where = (*path, "rewards", name)
        s = lookup(states, name, "state", where, notes)
        if s is None:
            continue
        if not isinstance(paid, dict):
            rewards[s] = paid
            continue
        for action, value in paid.items():
            a = lookup(actions, action, "action", (*where, action), notes)
            if a is not None:
                rewards[s, a] = value
    return rewards


def _vector(values: Mapping[str, float], states: Mapping[str, int], path: Path_, notes: Notes) -> np.ndarray:
    vector = np.zeros(len(states))
    for name, value in values.items():
        index = lookup(states, name, "state", (*path, name), notes)
        if index is not None:
            vector[index] = value
    return vector
