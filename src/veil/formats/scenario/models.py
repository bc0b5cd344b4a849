"""The models of a scenario: a grid or a graph made into a model, with all by which its other tables name states."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from ...common.checks import MOST_LISTED, Defects
from ...common.errors import InputError
from ...common.suggest import suggestion
from ...problem.grid.drawing import SIGNS, Drawing, read_drawing
from ...problem.grid.frame import Frame
from ...problem.grid.sensors import Cell
from ...problem.grid.shapes import Cone, Disc, Shape
from ...problem.grid.world import GridWorld, Sensor
from ...problem.model import Model
from ..imported import Imported
from ..propositions import is_comparison
from ..rows import normalised
from .schema import MOST_CELLS, DrawnSensor, Graph, Grid, PaidStates
from .text import shown
from .types import Drawn, StateSet, Where

MOST_STATES = 50_000
MOST_ACTIONS = 256
MOST_PAIRS = 1_000_000  # (state, action), over all models
MOST_TRANSITIONS = 120_000  # over all models
MOST_SENSOR_CELLS = 2_000_000  # sensors times cells
MOST_WORK = 10**8  # characters of expressions times states, and the like for signs


@dataclass(eq=False)
class ScenarioModel:
    """A model, and what the other tables of a scenario refer to.

    **Attributes:** `imported`: the model with its variables and labels, and the observer where a model file brings one;
    `signs`, the cells of each character, where it is a drawn grid; `readers`: how the values of keys of some forms are read.
    """

    imported: Imported
    signs: Mapping[str, Sequence[Cell]] = field(default_factory=dict)
    readers: dict[object, Callable[[Any, Defects], object]] = field(default_factory=dict)
    _work: int = 0  # of MOST_WORK
    _drawn: dict[str, list[int]] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """The model."""
        return self.imported.model

    @property
    def grid(self) -> GridWorld | None:
        """The world, where the model is a grid."""
        return self.imported.grid

    @cached_property
    def state_numbers(self) -> dict[str, int]:
        """The index of each state's name."""
        return {name: index for index, name in enumerate(self.model.states.all())}

    @cached_property
    def action_numbers(self) -> dict[str, int]:
        """The index of each action's name."""
        return {name: index for index, name in enumerate(self.model.actions.all())}

    def find(self, wanted: StateSet, defects: Defects) -> list[int]:
        """The indices of a set of states, each once; what cannot be found is noted."""
        if isinstance(wanted, Where):
            return self._where(wanted.where, defects)
        if isinstance(wanted, Drawn):
            return self._where_drawn(wanted.drawn, defects)
        keys = wanted if isinstance(wanted, list) else [wanted]
        found = dict.fromkeys(self._number(key, defects) for key in keys)
        return [index for index in found if index is not None]

    def proposition(self, name: str) -> list[int] | None:
        """The states where a proposition is true that is a sign, a comparison, a variable or a zone; else None."""
        if name in self.state_numbers:
            return None
        defects, found = Defects(f"proposition {name!r}"), None
        if self.grid is not None and name in self.signs:
            found = self._where_drawn(name, defects)
        elif name in self.imported.variables or is_comparison(name):
            found = self._where(name, defects)
        elif name in self.imported.labels:
            found = np.flatnonzero(self.imported.labels[name]).tolist()
        defects.raise_if_any()
        return found

    def _number(self, key: str | int, defects: Defects) -> int | None:
        if isinstance(key, str):
            return lookup(self.state_numbers, key, "state", defects)
        if key < self.model.num_states:
            return key
        defects.add(f"found state {key}, expected an index from 0 to {self.model.num_states - 1}")
        return None

    def _where(self, expression: str, defects: Defects) -> list[int]:
        if not self._can_afford(len(expression) * self.model.num_states, defects):
            return []
        try:
            mask = self.imported.mask(expression)
        except InputError as error:
            for defect in error.defects:
                defects.add(f"the expression {shown(expression)}: {defect}")
            return []
        found = np.flatnonzero(mask).tolist()
        if not found:
            defects.add(f"the expression {shown(expression)} holds in no state, expected at least one")
        return found

    def _where_drawn(self, sign: str, defects: Defects) -> list[int]:
        cells = self.signs.get(sign)
        if self.grid is None or not cells:
            known = suggestion(sign, self.signs) if self.grid is not None else "nothing is drawn"
            defects.add(f"the sign {sign!r} is drawn nowhere, expected a sign of the drawing: {known}")
            return []
        if not self._can_afford(20 * len(cells), defects):
            return []
        if sign not in self._drawn:
            walls = set(self.grid.walls)
            names = [f"r{row}c{column}" for row, column in cells if (row, column) not in walls]
            self._drawn[sign] = [self.state_numbers[name] for name in names]
        if not self._drawn[sign]:
            defects.add(f"the sign {sign!r} stands for walls, which are not states")
        return self._drawn[sign]

    def _can_afford(self, work: int, defects: Defects) -> bool:
        """Whether the sets of states of this file can still be found in about a second."""
        self._work += work
        if self._work > MOST_WORK:
            defects.add("too many or too long sets of states for so many states, expected fewer expressions and signs")
        return self._work <= MOST_WORK


def lookup(numbers: Mapping[str, int], key: str, what: str, defects: Defects, *at: str | int) -> int | None:
    """The index of a name, or None with the defect noted."""
    if key not in numbers:
        # Beyond the defects that are listed no message is needed, and suggestions take time.
        hint = suggestion(key, numbers) if len(defects) < MOST_LISTED else ""
        defects.add(f"unknown {what} {shown(key)}: {hint}", *at)
    return numbers.get(key)


def paid_states(
    entries: Sequence[PaidStates], found: ScenarioModel, defects: Defects
) -> tuple[Float[np.ndarray, "S A"], Float[np.ndarray, " S"]]:
    """What the parts of a reward pay for decisions and for the last state; every defect is noted."""
    paid, ends = np.zeros((found.model.num_states, found.model.num_actions)), np.zeros(found.model.num_states)
    for number, entry in enumerate(entries):
        part = defects.under(number)
        where = slice(None) if entry.states is None else found.find(entry.states, part.under("states"))
        if entry.last:
            if entry.action is not None:
                part.add("found beside last = true: there is no decision in the last state", "action")
            ends[where] += entry.reward
        elif entry.action is None:
            paid[where] += entry.reward
        elif (action := lookup(found.action_numbers, entry.action, "action", part, "action")) is not None:
            paid[where, action] += entry.reward
    return paid, ends


def read_grid(table: Grid, defects: Defects) -> ScenarioModel | None:
    """The model of a `[grid]`; None with every defect noted."""
    before = len(defects)
    drawn = _read_drawing(table, defects)
    if drawn is None or len(defects) > before:
        return None
    cells = drawn.rows * drawn.columns
    if len(drawn.sensors) * cells > MOST_SENSOR_CELLS:
        found = f"found {len(drawn.sensors)} sensors over {cells:,} cells"
        defects.add(f"{found}, expected at most {MOST_SENSOR_CELLS:,} pairs of them", "sensors")
        return None
    try:
        grid = GridWorld(
            drawn.rows,
            drawn.columns,
            walls=[*drawn.places["wall"], *table.walls],
            slip=table.slip,
            stay=table.stay,
            starts=_starts(table, drawn),
            goals=_goals(table, drawn),
            goals_pay_last=table.goals_pay_last,
            secrets=[*drawn.places["secret"], *table.secrets],
            absorbing=[*drawn.places["absorbing"], *table.absorbing],
            sensors=drawn.sensors,
            readings=table.readings,
            discount=table.discount,
            zones=_zones(table, drawn),
            frame=read_frame(table, defects),
        )
        if len(defects) > before:
            return None
        return ScenarioModel(grid_model(grid), drawn.signs)
    except InputError as error:
        defects.take(error)
        return None


def grid_model(grid: GridWorld) -> Imported:
    """The model of a grid with its variables, `x` and `y` in metres among them if it has a frame, and its zones as labels."""
    where = np.array(grid.cells, dtype=int).reshape(-1, 2)
    valuations = {"row": where[:, 0], "column": where[:, 1]}
    if grid.frame is not None:
        points = np.round([grid.centre((row, column)) for row, column in where.tolist()], 9).reshape(-1, 2)
        valuations |= {"x": points[:, 0], "y": points[:, 1]}
    number = {cell: state for state, cell in enumerate(grid.cells)}
    labels = {}
    for zone, cells in grid.zones.items():
        labels[zone] = np.zeros(len(number), dtype=bool)
        labels[zone][[number[cell] for cell in cells if cell in number]] = True
    return Imported(grid.model(), valuations=valuations, labels=labels, grid=grid)


def read_frame(table: Grid, defects: Defects) -> Frame | None:
    """Where the grid lies in metres, if the table says."""
    if table.cell_size is not None:
        return Frame(table.cell_size, table.origin or (0.0, 0.0), table.yaw or 0.0)
    for key in ("origin", "yaw"):
        if getattr(table, key) is not None:
            defects.add("found without a cell_size, expected the side of a cell in metres beside it", key)
    return None


def _zones(table: Grid, drawn: Drawing) -> dict[str, list[Cell]]:
    zones: dict[str, list[Cell]] = {}
    for sign, meaning in table.legend.items():
        if meaning.zone is not None:
            zones.setdefault(meaning.zone, []).extend(drawn.signs.get(sign, ()))
    return zones


def read_shape(given: DrawnSensor, defects: Defects) -> Shape | None:
    """The disc or cone of a sensor, if it has one."""
    if given.disc is not None and given.cone is not None:
        defects.add("found disc and cone, expected one of them: use two sensors", "cone")
    if given.cone is not None:
        return Cone(**dict(given.cone))
    return None if given.disc is None else Disc(**dict(given.disc))


def _read_drawing(table: Grid, defects: Defects) -> Drawing | None:
    """What is drawn; without a drawing an empty grid of the size that is given."""
    sensors, further = {}, []
    for sign, given in table.sensors.items():
        shape = read_shape(given, defects.under("sensors", sign))
        made = Sensor(given.name or sign, given.cells, given.detection, given.false_alarm, shape)
        if len(sign) > 1 and (shape is not None or given.cells):
            further.append(made)  # which no character of the drawing can mean
        else:
            sensors[sign] = made
    if table.drawing is None:
        if table.legend:
            defects.add("found a legend, but nothing is drawn", "legend")
        if table.rows is None or table.columns is None:
            defects.add("is missing, expected a drawing, or rows and columns", "drawing")
            return None
        _check_cells(table.rows * table.columns, "rows", defects)
        ranged = [*sensors.values(), *further]
        return Drawing(table.rows, table.columns, {word: [] for word in SIGNS.values()}, ranged, {})
    for key in ("rows", "columns"):
        if getattr(table, key) is not None:
            defects.add("found beside a drawing, which says the size: leave it out", key)
    characters = len("".join(table.drawing.split()))
    if characters > 2 * MOST_CELLS:
        _check_cells(characters, "drawing", defects)
        return None
    legend = {sign: meaning.roles for sign, meaning in table.legend.items()}
    drawn = read_drawing(table.drawing, sensors, legend, defects.under("drawing"))
    drawn.sensors.extend(further)
    _check_cells(drawn.rows * drawn.columns, "drawing", defects)
    for sign, meaning in table.legend.items():
        for key, role in (("reward", "goal"), ("weight", "start")):
            if getattr(meaning, key) is not None and role not in meaning.roles:
                defects.add(f"has a {key} but is no {role}: add {role!r} to what it is", "legend", sign)
    return drawn


def _check_cells(cells: int, key: str, defects: Defects) -> None:
    if cells > MOST_CELLS:
        remedy = "build a larger grid w = veil.GridWorld(…), veil.Imported(w.model(), w.observer()).save('w.npz'), use [file]"
        defects.add(f"found {cells:,} cells, expected at most {MOST_CELLS:,}: {remedy}", key)


def _starts(table: Grid, drawn: Drawing) -> list[Cell] | dict[Cell, float]:
    weights = dict.fromkeys(drawn.places["start"], 1.0)
    for sign, meaning in table.legend.items():
        if meaning.weight is not None:
            weights.update(dict.fromkeys(drawn.signs.get(sign, ()), meaning.weight))
    weights.update((start.cell, start.weight) for start in table.starts)
    # Equal weights are left to the grid, whose own division keeps 1/n exact.
    return list(weights) if len(set(weights.values())) <= 1 else normalised(weights)


def _goals(table: Grid, drawn: Drawing) -> dict[Cell, float]:
    rewards = dict.fromkeys(drawn.places["goal"], table.goal_reward)
    for sign, meaning in table.legend.items():
        if meaning.reward is not None:
            rewards.update(dict.fromkeys(drawn.signs.get(sign, ()), meaning.reward))
    return rewards | {goal.cell: goal.reward for goal in table.goals}


def read_graph(table: Graph, defects: Defects) -> ScenarioModel | None:
    """The model of a `[graph]`; None with every defect noted."""
    before = len(defects)
    steps = table.transitions
    states = _names(table.states, (name for step in steps for name in (step.state, *step.following)))
    actions = _names(table.actions, (step.action for step in steps))
    if not steps:
        defects.add("is missing or empty, expected at least one entry for each state", "transitions")
    if table.initial is None:
        defects.add("is missing, expected the state in which it starts", "initial")
    for what, size, most in (
        ("states", len(states), MOST_STATES),
        ("actions", len(actions), MOST_ACTIONS),
        ("pairs of state and action", len(states) * len(actions), MOST_PAIRS),
    ):
        if size > most:
            defects.add(f"found {size:,} {what}, expected at most {most:,}: put a large model into a [file]")
    if len(defects) > before:
        return None
    entries = [(s.state, s.action, name, chance) for s in steps for name, chance in s.following.items()]
    number_of = [number for number, step in enumerate(steps) for _ in step.following]
    rewards: dict[str | tuple[str, str], float] = {}
    for state, paid in table.rewards.items():
        rewards |= (
            {(state, action): value for action, value in paid.items()} if isinstance(paid, dict) else {state: paid}
        )
    try:
        model = Model.from_entries(
            entries,
            rewards,
            table.initial or {},
            table.discount,
            table.terminal_rewards,
            state_names=states,
            action_names=actions,
        )
    except InputError as error:
        for message, at, where in error.found:
            if at[:1] == ("transitions",) and len(at) > 1:
                at = ("transitions", number_of[int(at[1])])
            defects.add(message, *at, where=where)
        return None
    return ScenarioModel(Imported(model))


def _names(given: list[str] | None, named: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(named)) if given is None else given
