"""Grid worlds: cells with walls, slipping moves, goals, secrets and sensors, as a model and an observer."""

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Integral, Real
from typing import Literal, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ...common.checks import SUM_TOLERANCE, Defects
from ...common.errors import InputError
from ...common.suggest import suggestion
from ...common.values import Value, read_only
from ..agent import AgentSees
from ..layout import Layout
from ..model import Model
from ..observer import Observer
from ..problem import Problem
from ..secrets.last_state import LastState
from ..secrets.secret import Secret
from .drawing import read_drawing
from .frame import Frame, Point
from .sensors import JOIN, SILENT, Cell, Readings, Sensor, check_single, sensor_observer
from .shapes import Cone, Disc

_MOVES = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
_SIDES = {"north": ("west", "east"), "south": ("west", "east"), "west": ("north", "south"), "east": ("north", "south")}


class GridWorld(Value):
    """A grid of `rows × columns` cells `(row, column)`, row 0 at the top. Walls are not states; states are called `r3c1`, ….

    Actions are north, south, west, east and, last, stay. A move goes as intended with probability `1 - 2·slip` and to
    each side with probability `slip`; a move off the grid or into a wall stays in place. `stay` does not slip.

    **Arguments:**

    - `rows`, `columns`: the size.
    - `walls`, `secrets`, `absorbing`: cells. The agent cannot leave an absorbing cell.
    - `slip`: in [0, 0.5].
    - `stay`: whether there is an action that stays in place.
    - `starts`: one cell; or several, equally likely; or a mapping from cells to probabilities.
    - `goals`: a mapping from cells to the reward for each decision taken there.
    - `goals_pay_last`: whether the last state pays the same rewards as well (as terminal rewards).
    - `sensors`: `Sensor`s. A range may include walls, which are no states.
    - `readings`: `"independent"`: sensors report independently, and an observation is the set of sensors that report:
      `"0"` for none, else their names joined with `+`. The alphabet is every set that can occur, and `"0"`.
      `"single"`: at most one sensor reports per step: in a covered cell its sensor with the detection rate, every other
      sensor with its false-alarm rate, and otherwise `"0"`. Ranges must not overlap.
    - `discount`: in [0, 1].
    - `zones`: a mapping from names to cells, which may be walls: for `states_in`, and for `problem(secret="vault")`.
    - `frame`: where the grid lies in metres; then the centres and radii of sensors are in metres, `cell(x, y)` is the cell of a
      point, and `centre(cell)` the point of a cell.

    Cost: linear in the number of cells, with sparse transitions; the emissions are dense, `(S, O)`.

    **Raises:** `InputError` listing every defect found.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        *,
        walls: Iterable[Cell] = (),
        slip: float = 0.1,
        stay: bool = True,
        starts: Cell | Iterable[Cell] | Mapping[Cell, float],
        goals: Mapping[Cell, float] | None = None,
        goals_pay_last: bool = False,
        secrets: Iterable[Cell] = (),
        absorbing: Iterable[Cell] = (),
        sensors: Iterable[Sensor] = (),
        readings: Readings = "independent",
        discount: float = 1.0,
        zones: Mapping[str, Iterable[Cell]] | None = None,
        frame: Frame | None = None,
    ):
        defects = Defects("grid world")
        self.rows = _check_size(rows, "rows", defects)
        self.columns = _check_size(columns, "columns", defects)
        defects.raise_if_any()  # the cells below need the size
        self._numbers: Int[np.ndarray, "rows columns"] = np.zeros((self.rows, self.columns), dtype=np.int64)
        self.walls = self._check_cells(walls, "wall", defects.under("walls"))
        free = np.ones(self._numbers.shape, dtype=bool)
        free[tuple(np.array(self.walls, dtype=int).reshape(-1, 2).T)] = False
        self._numbers = read_only(np.where(free, np.cumsum(free).reshape(free.shape) - 1, -1))
        self.num_states = int(free.sum())
        if not self.num_states:
            defects.add("every cell is a wall, expected at least one free cell")
        self.slip = _check_number(slip, 0, 0.5, "slip", defects)
        self.stay = bool(stay)
        self.discount = _check_number(discount, 0, 1, "discount", defects)
        self.starts = self._check_starts(starts, defects.under("starts"))
        self.goals = self._check_goals(goals, defects.under("goals"))
        self.goals_pay_last = bool(goals_pay_last)
        self.secrets = self._check_cells(secrets, "secret", defects.under("secrets"))
        self.absorbing = self._check_cells(absorbing, "absorbing cell", defects.under("absorbing"))
        self.frame = frame
        if not (frame is None or isinstance(frame, Frame)):
            defects.add(f"frame is {frame!r}, expected a veil Frame(cell_size, origin, yaw)", "frame")
            self.frame = None
        self.zones = self._check_zones(zones, defects.under("zones"))
        self.sensors = self._check_sensors(sensors, defects.under("sensors"))
        self.readings: Readings = readings
        if readings not in ("independent", "single"):
            defects.add(f"readings are {readings!r}, expected 'independent' or 'single'")
        elif readings == "single" and not defects:
            part = defects.under("readings")
            check_single(self.sensors, self.covered, self.rates, lambda s: f"cell {self.cells[s]}", part)
        if not defects:
            self._note_blind_shapes(defects.under("sensors"))
        defects.raise_if_any()
        self._seal()

    @classmethod
    def from_ascii(
        cls,
        drawing: str,
        *,
        sensors: Mapping[str, Mapping[str, str | float] | Sensor] | None = None,
        legend: Mapping[str, str | Sequence[str]] | None = None,
        goal_reward: float = 1.0,
        goals_pay_last: bool = False,
        slip: float = 0.1,
        stay: bool = True,
        readings: Readings = "independent",
        discount: float = 1.0,
        frame: Frame | None = None,
    ) -> "GridWorld":
        """A grid world from a drawing, one line per row.

        If a line holds blanks, cells are tokens between blanks and a token may hold several characters (`gG`: in
        range of sensor g, and a goal); else each character is a cell. `.` floor, `#` wall, `S` start (equally likely),
        `G` goal, `?` secret, `X` absorbing; any other character is a key of `sensors` or `legend`.

        **Arguments:** as for `GridWorld`, and

        - `sensors`: character -> `{"detection": …, "false_alarm": …, "name": …}` (its name is the character by
          default), or a `Sensor`, to whose range the drawn cells are added.
        - `legend`: character -> what it stands for: words among floor, wall, start, goal, secret, absorbing, and
          characters of sensors.
        - `goal_reward`: the reward of every goal.

        **Raises:** `InputError` naming line and column, both counted from 1.
        """
        defects = Defects("grid drawing")
        drawn = read_drawing(drawing, sensors or {}, legend or {}, defects)
        defects.raise_if_any()
        return cls(
            drawn.rows,
            drawn.columns,
            walls=drawn.places["wall"],
            slip=slip,
            stay=stay,
            starts=drawn.places["start"],
            goals=dict.fromkeys(drawn.places["goal"], goal_reward),
            goals_pay_last=goals_pay_last,
            secrets=drawn.places["secret"],
            absorbing=drawn.places["absorbing"],
            sensors=drawn.sensors,
            readings=readings,
            discount=discount,
            frame=frame,
        )

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cell of each state, in the order of the states: row by row, walls left out."""
        return tuple((row, column) for row, column in np.argwhere(self._numbers >= 0).tolist())

    @cached_property
    def covered(self) -> Bool[np.ndarray, "S sensors"]:
        """Which states are in range of which sensor."""
        return np.isfinite(self._detections)

    @cached_property
    def rates(self) -> Float[np.ndarray, "S sensors"]:
        """The probability that each sensor reports in each state."""
        alarms = np.array([sensor.false_alarm for sensor in self.sensors]).reshape(1, -1)
        return np.where(self.covered, self._detections, alarms)

    @cached_property
    def _detections(self) -> Float[np.ndarray, "S sensors"]:
        """The probability of a report in the range of each sensor, of cells and shape the larger one; -inf outside."""
        free = self._numbers >= 0
        found = np.full((*free.shape, len(self.sensors)), -np.inf)
        for number, sensor in enumerate(self.sensors):
            listed = tuple(np.array(tuple(sensor.cells), dtype=int).reshape(-1, 2).T)
            found[(*listed, number)] = sensor.detection
            if sensor.shape is not None:
                cells, rates = sensor.shape.cover(free, self.frame, sensor.detection)
                place = (*cells.T, number)
                found[place] = np.maximum(found[place], rates)
        return found[free]

    def cell(self, x: float, y: float) -> Cell:
        """The cell in which a point lies, in metres; it may be a wall.

        **Raises:** `InputError` if the grid has no frame, or the point lies off the grid.
        """
        down, right = self._framed().to_grid(x, y, self.rows)
        row, column = int(np.floor(down)), int(np.floor(right))
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            (low, left), (high, wide) = self.centre((self.rows - 1, 0)), self.centre((0, self.columns - 1))
            span = f"the corner cells have their centres at ({low:g}, {left:g}) and ({high:g}, {wide:g})"
            raise InputError("grid world", [f"the point ({x:g}, {y:g}) lies off the grid: {span}, in metres"])
        return row, column

    def centre(self, cell: Cell | str) -> Point:
        """The centre of a cell, or of the cell of a state by its name, as (x, y) in metres."""
        if isinstance(cell, str):
            found = re.fullmatch(r"r(\d+)c(\d+)", cell)
            if found is None:
                raise InputError("grid world", [f"{cell!r} is no state of a grid, expected a name such as 'r3c1'"])
            cell = (int(found[1]), int(found[2]))
        row, column = cell
        return self._framed().to_metres(row + 0.5, column + 0.5, self.rows)

    def state_at(self, x: float, y: float) -> str:
        """The name of the state at a point, in metres.

        **Raises:** `InputError` if the grid has no frame, or the point lies off the grid or in a wall.
        """
        row, column = self.cell(x, y)
        if self._numbers[row, column] < 0:
            near = self.centre(self.nearest_free((row, column)))
            hint = f"the nearest free cell has its centre at ({near[0]:g}, {near[1]:g})"
            raise InputError("grid world", [f"the point ({x:g}, {y:g}) lies in the wall ({row}, {column}): {hint}"])
        return self.state(row, column)

    def nearest_free(self, cell: Cell) -> Cell:
        """The free cell whose centre is nearest to that of a cell."""
        cells = np.array(self.cells)
        row, column = cells[((cells - cell) ** 2).sum(axis=1).argmin()].tolist()
        return row, column

    def states_in(self, zone: str) -> list[str]:
        """The names of the states in a zone; raises `InputError` if there is no such zone, or it is all walls."""
        if zone not in self.zones:
            raise InputError("grid world", [f"unknown zone {zone!r}: {suggestion(zone, self.zones)}"])
        found = [self.state(*cell) for cell in self.zones[zone] if self._numbers[cell] >= 0]
        if not found:
            raise InputError("grid world", [f"zone {zone!r} holds no free cell"])
        return found

    def _framed(self) -> Frame:
        if self.frame is None:
            raise InputError(
                "grid world", ["it has no coordinates in metres: give frame=veil.Frame(cell_size, origin)"]
            )
        return self.frame

    def state(self, row: int, column: int) -> str:
        """The name of the state of a cell; refused for a wall and off the grid."""
        defects = Defects("grid world")
        self._check_cell((row, column), "cell", defects)
        defects.raise_if_any()
        return f"r{row}c{column}"

    def model(self) -> Model:
        """The Markov decision process of the grid, with one sparse matrix per action."""
        here = np.arange(self.num_states)
        stuck = self._indicator(self.absorbing)
        # The ring of walls around the grid makes "off the grid" the same case as "into a wall".
        ringed = np.pad(self._numbers, 1, constant_values=-1)
        ahead = {}
        for action, (down, right) in _MOVES.items():
            shifted = ringed[1 + down : 1 + down + self.rows, 1 + right : 1 + right + self.columns]
            target = shifted[self._numbers >= 0]
            ahead[action] = np.where((target < 0) | stuck, here, target)
        straight, aside = np.where(stuck, 1.0, 1 - 2 * self.slip), np.where(stuck, 0.0, self.slip)
        values, sources, shape = np.concatenate([straight, aside, aside]), np.tile(here, 3), (len(here), len(here))
        matrices = []
        for action, (left, right) in _SIDES.items():
            targets = np.concatenate([ahead[action], ahead[left], ahead[right]])
            matrices.append(sp.csr_array((values, (sources, targets)), shape=shape))
        if self.stay:
            matrices.append(sp.csr_array((np.ones(len(here)), (here, here)), shape=shape))
        rewards = self._vector(self.goals)
        return Model(
            matrices,
            rewards,
            self._vector(self.starts),
            self.discount,
            rewards if self.goals_pay_last else None,
            [f"r{row}c{column}" for row, column in self.cells],
            [*_MOVES, "stay"] if self.stay else list(_MOVES),
        )

    def observer(self, sees_actions: bool = False, sees_initial: bool = True) -> Observer:
        """The observer behind the sensors.

        **Raises:** `TooLargeError` if the sensors have more combinations of readings than a table can hold.
        """
        return sensor_observer(self.sensors, self.rates, self.readings, sees_actions, sees_initial)

    def problem(
        self,
        horizon: int,
        *,
        secret: Secret | str | Sequence[str] | None = None,
        min_return: float | str | None = None,
        return_over: Literal["horizon", "infinite"] = "horizon",
        sees_actions: bool = False,
        sees_initial: bool = True,
        agent_sees: AgentSees = "state",
        name: str = "grid",
    ) -> Problem:
        """A problem in this world; `secret` None asks whether the last state is a secret cell.

        `secret` may also be the name of a zone, for whether the last state lies in it, or several, for in which of them.
        """
        if secret is None and not self.secrets:
            raise InputError("grid world", ["it has no secret cells: give secrets=[(row, column), …], or secret=…"])
        return Problem(
            self.model(),
            self.observer(sees_actions, sees_initial),
            secret if isinstance(secret, Secret) else self._secret(secret),
            horizon,
            min_return,
            return_over,
            agent_sees=agent_sees,
            name=name,
            layout=self.layout,
        )

    @property
    def layout(self) -> Layout:
        """Where each state lies, for pictures."""
        return Layout(self.rows, self.columns, self.cells, self.frame)

    def _secret(self, zones: str | Sequence[str] | None) -> Secret:
        if zones is None:
            return LastState([self.state(*cell) for cell in self.secrets])
        if isinstance(zones, str):
            return LastState(self.states_in(zones))
        return LastState(groups={zone: self.states_in(zone) for zone in zones})

    def __repr__(self) -> str:
        return f"GridWorld({self.rows} × {self.columns}, {self.num_states} states, {len(self.sensors)} sensors)"

    def _indicator(self, cells: Iterable[Cell]) -> Bool[np.ndarray, " S"]:
        inside = np.zeros(self._numbers.shape, dtype=bool)
        inside[tuple(np.array(tuple(cells), dtype=int).reshape(-1, 2).T)] = True
        return inside[self._numbers >= 0]

    def _vector(self, values: Mapping[Cell, float]) -> Float[np.ndarray, " S"]:
        vector = np.zeros(self.num_states)
        for cell, value in values.items():
            vector[self._numbers[cell]] = value
        return vector

    def _check_cell(self, cell: object, what: str, defects: Defects, *, wall_fits: bool = False) -> Cell | None:
        try:
            row, column = map(operator.index, cast(Cell, cell))
        except (TypeError, ValueError):
            defects.add(f"{what} {cell!r} is not a cell, expected (row, column), two whole numbers")
            return None
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            size = f"rows 0 to {self.rows - 1} and columns 0 to {self.columns - 1}"
            defects.add(f"{what} ({row}, {column}) lies off the grid, expected {size}: move it, or enlarge the grid")
            return None
        if self._numbers[row, column] < 0 and not wall_fits:
            defects.add(f"{what} ({row}, {column}) is a wall, expected a free cell: move it, or take the wall away")
            return None
        return row, column

    def _check_cells(self, cells: object, what: str, defects: Defects, *, wall_fits: bool = False) -> tuple[Cell, ...]:
        if isinstance(cells, (str, Mapping)) or not isinstance(cells, Iterable):
            defects.add(f"{what}: found {cells!r}, expected a list of cells (row, column)")
            return ()
        checked = [self._check_cell(cell, what, defects, wall_fits=wall_fits) for cell in cells]
        return tuple(dict.fromkeys(cell for cell in checked if cell is not None))

    def _check_values(
        self, values: Mapping[object, object], what: str, kind: str, low: float, high: float, defects: Defects
    ) -> dict[Cell, float]:
        checked = {self._check_cell(cell, what, defects): (cell, value) for cell, value in values.items()}
        return {
            place: _check_number(value, low, high, f"{kind} of {what} {cell}", defects)
            for place, (cell, value) in checked.items()
            if place is not None
        }

    def _check_starts(self, starts: object, defects: Defects) -> dict[Cell, float]:
        if isinstance(starts, Mapping):
            chances = self._check_values(starts, "start", "probability", 0, 1, defects)
            if abs(sum(chances.values()) - 1) > SUM_TOLERANCE and len(chances) == len(starts):
                defects.add(f"probabilities of the starts sum to {sum(chances.values()):.12g}, expected 1")
            return chances
        if isinstance(starts, tuple) and len(starts) == 2 and all(isinstance(part, Integral) for part in starts):
            starts = [starts]  # one cell, given without a list
        if isinstance(starts, Iterable) and not isinstance(starts, str):
            starts = tuple(starts)
        cells = self._check_cells(starts, "start", defects)
        if starts == ():
            defects.add("there is no start, expected at least one cell: give starts=[(row, column), …], or draw an S")
        elif not defects and isinstance(starts, tuple) and len(cells) < len(starts):
            defects.add("a start is given twice, expected distinct cells: give a mapping from cells to probabilities")
        return dict.fromkeys(cells, 1 / max(len(cells), 1))

    def _check_goals(self, goals: object, defects: Defects) -> dict[Cell, float]:
        if goals is not None and not isinstance(goals, Mapping):
            defects.add(f"goals are {goals!r}, expected a mapping from cells to rewards, such as {{(0, 3): 0.1}}")
            return {}
        return self._check_values(goals or {}, "goal", "reward", -np.inf, np.inf, defects)

    def _check_sensors(self, sensors: object, defects: Defects) -> tuple[Sensor, ...]:
        if not isinstance(sensors, Iterable):
            defects.add(f"sensors are {sensors!r}, expected a list of Sensor(name, cells, …)")
            return ()
        checked: list[Sensor] = []
        for position, sensor in enumerate(sensors):
            if not isinstance(sensor, Sensor):
                defects.add(f"sensor {position} is {sensor!r}, expected a veil Sensor(name, cells, …)")
                continue
            what = f"sensor {sensor.name!r}"
            if not isinstance(sensor.name, str) or not sensor.name or JOIN in sensor.name or sensor.name == SILENT:
                defects.add(f"{what}: its name is a non-empty string without {JOIN!r}, and not {SILENT!r}: rename it")
            elif sensor.name in {other.name for other in checked}:
                defects.add(f"{what} is given twice, expected distinct names: rename one, or join their cells")
            _check_number(sensor.detection, 0, 1, f"{what}: detection", defects)
            _check_number(sensor.false_alarm, 0, 1, f"{what}: false_alarm", defects)
            if sensor.shape is not None and not isinstance(sensor.shape, (Disc, Cone)):
                defects.add(f"{what}: shape is {sensor.shape!r}, expected what Sensor.disc or Sensor.cone makes")
                continue
            if sensor.shape is not None:
                sensor.shape.check(defects.under(position, "shape", where=what))
            cells = self._check_cells(sensor.cells, f"{what}: cell", defects, wall_fits=True)
            checked.append(replace(sensor, cells=cells))
        return tuple(checked)

    def _note_blind_shapes(self, defects: Defects) -> None:
        """A shape that covers nothing is a centre in the wrong units or order."""
        units = "(x, y) in metres" if self.frame is not None else "(row, column) in cells: give a frame for metres"
        free = self._numbers >= 0
        for sensor in self.sensors:
            if sensor.shape is not None and not len(sensor.shape.cover(free, self.frame, 1.0)[0]):
                where = f"its centre is {sensor.shape.centre}, which is {units}"
                defects.add(f"sensor {sensor.name!r} covers no free cell: {where}")

    def _check_zones(self, zones: object, defects: Defects) -> dict[str, tuple[Cell, ...]]:
        if zones is None:
            return {}
        if not isinstance(zones, Mapping) or not all(isinstance(name, str) and name for name in zones):
            defects.add(f"zones are {zones!r}, expected a mapping from names to cells")
            return {}
        return {
            name: self._check_cells(cells, f"zone {name!r}: cell", defects, wall_fits=True)
            for name, cells in zones.items()
        }


def _check_size(value: object, what: str, defects: Defects) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        defects.add(f"{what} is {value!r}, expected a whole number, 1 or more")
        return 1
    return int(value)


def _check_number(value: object, low: float, high: float, what: str, defects: Defects) -> float:
    """`value` as a float in [low, high], finite; or `low` with the defect noted."""
    if (
        isinstance(value, Real)
        and not isinstance(value, bool)
        and low <= float(value) <= high
        and np.isfinite(float(value))
    ):
        return float(value)
    expected = f"a number from {low:g} to {high:g}" if np.isfinite(low) else "a finite number"
    defects.add(f"{what} is {value!r}, expected {expected}")
    return low
