"""The observer, the secret and the solver settings of a scenario, made from its tables against its world."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...common.checks import SUM_TOLERANCE
from ...common.errors import TooLargeError, VeilError
from ...policy.memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from ...problem.grid.sensors import Sensor, sensor_observer
from ...problem.observer import Observer
from ...problem.problem import Problem
from ...problem.secret import Automaton, InitialState, LastState, Secret, StateAt, WhichModel
from ..sensing import noisy, observer_from_values
from .schema import (
    AutomatonSecret,
    InitialStateSecret,
    LastStateSecret,
    MemoryTable,
    OneOfSeveral,
    Settings,
    StateAtSecret,
    Watcher,
)
from .text import Notes, near
from .types import StateSet
from .worlds import MOST_SENSOR_CELLS, World, lookup, normalised, note_defects

MOST_EMISSIONS = 2**22  # numbers in the table of emissions
MOST_READINGS = 2**14  # combinations of readings of independent sensors
MOST_READING_WORK = 2**20
MOST_SECRET_WORK = 2**21  # states times groups or labels
MOST_AUTOMATON = 2**19  # states times states of the automaton, and the latter times labels

_PRIMAL_DUAL = ("step", "multiplier_step", "gradients", "optimizer")


def make_observer(table: Watcher | None, world: World, notes: Notes) -> Observer | None:
    """The observer of a scenario; None with every defect noted."""
    table = Watcher.model_validate({}) if table is None else table
    before = len(notes)
    own = "the grid's sensors" if world.grid is not None and world.grid.sensors else "the file's observations"
    ways = [
        key
        for key in ("sensors", "emissions", "action_emissions", "variables")
        if getattr(table, key) not in (None, {})
    ]
    ways += [key for key in ("emissions", "action_emissions") if getattr(table, key) == {}]  # all shown by `rest`
    drawn = world.grid is not None and bool(world.grid.sensors)
    if len(ways) + drawn > 1:
        found = " and ".join(([own] if drawn else []) + ways)
        notes.add(("observer", ways[-1]), f"found {found}, expected one way to say what the observer sees")
    elif not ways and world.observer is None:
        notes.add(
            ("observer",),
            "nothing says what the observer sees, expected emissions, action_emissions or sensors in [observer]",
        )
    for key in ("observations", "rest", "silent", "mutes"):
        if getattr(table, key) and table.emissions is None and table.action_emissions is None:
            notes.add(("observer", key), f"found {key}, which only emissions and action_emissions use")
    if len(notes) > before:
        return None
    try:
        made = _made(table, ways[0] if ways else "world", world, notes)
        return noisy(made, table.noise) if made is not None and table.noise and len(notes) == before else made
    except VeilError as error:
        note_defects(error, ("observer",), notes)
        return None


def _made(table: Watcher, way: str, world: World, notes: Notes) -> Observer | None:
    seen = (table.sees_actions, table.sees_initial)
    if way == "world":
        assert world.observer is not None
        if world.grid is not None:
            covered = np.zeros((world.model.num_states, len(world.grid.sensors)), dtype=bool)
            for column, sensor in enumerate(world.grid.sensors):
                walls = set(world.grid.walls)
                covered[[world.state_numbers[f"r{r}c{c}"] for r, c in sensor.cells if (r, c) not in walls], column] = (
                    True
                )
            _check_readings(world.grid.sensors, covered, world.grid.readings == "independent")
        return world.observer(*seen)
    if way == "sensors":
        return _from_sensors(table, world, notes)
    if way == "variables":
        return _from_variables(table, world, notes)
    return _from_emissions(table, world, notes)


def _check_readings(sensors: Sequence[Sensor], covered: np.ndarray, independent: bool) -> None:
    """Refuse sensors whose readings would fill a large table, before it is made."""
    rates = np.array([(sensor.detection, sensor.false_alarm) for sensor in sensors]).reshape(-1, 2)
    if not independent:
        observations = len(sensors) + 1
    else:
        kinds = np.unique(np.packbits(covered, axis=1), axis=0, return_index=True)[1]
        chances = np.where(covered[kinds], rates[:, 0], rates[:, 1])
        undecided = ((chances > 0) & (chances < 1)).sum(axis=1)
        observations = float((2.0**undecided).sum())
        # Each kind of cell has its own row, and each observation notes what muting a sensor makes of it.
        work = observations * max(len(kinds), len(sensors)) if observations > 1000 else 0
        if observations > MOST_READINGS or work > MOST_READING_WORK:
            raise TooLargeError(
                f"the sensors have up to {observations:,.0f} combinations of readings, expected at most"
                f' {MOST_READINGS:,}: use fewer false alarms, fewer overlaps, or readings = "single"'
            )
    _check_emissions(len(covered), observations)


def _check_emissions(rows: float, observations: float) -> None:
    if rows * observations > MOST_EMISSIONS:
        raise TooLargeError(
            f"the observer's table would have {rows:,.0f} rows of {observations:,.0f} observations, expected at most"
            f" {MOST_EMISSIONS:,} numbers: use fewer states or observations"
        )


def _from_sensors(table: Watcher, world: World, notes: Notes) -> Observer | None:
    size, before = world.model.num_states, len(notes)
    if len(table.sensors) * size > MOST_SENSOR_CELLS:
        found = f"{len(table.sensors):,} sensors over {size:,} states"
        notes.add(("observer", "sensors"), f"found {found}, expected at most {MOST_SENSOR_CELLS:,} pairs of them")
        return None
    covered = np.zeros((size, len(table.sensors)), dtype=bool)
    sensors = []
    for column, (name, given) in enumerate(table.sensors.items()):
        where = ("observer", "sensors", name)
        if "+" in name or name == "0":
            notes.add(where, 'found a name with "+", or "0", which mean several reports and none: rename it')
        covered[world.find(given.states, (*where, "states"), notes), column] = True
        sensors.append(Sensor(name, (), given.detection, given.false_alarm))
    if table.readings == "single":
        _check_single(sensors, covered, notes)
    if len(notes) > before:
        return None
    _check_readings(sensors, covered, table.readings == "independent")
    return sensor_observer(sensors, covered, table.readings, table.sees_actions, table.sees_initial)


def _check_single(sensors: Sequence[Sensor], covered: np.ndarray, notes: Notes) -> None:
    where = ("observer", "readings")
    if np.any(covered.sum(axis=1) > 1):
        notes.add(where, 'ranges overlap, expected each state in one range at most with readings = "single"')
    alarms = sum(sensor.false_alarm for sensor in sensors)
    most = max([alarms, *(alarms - sensor.false_alarm + sensor.detection for sensor in sensors)])
    if most > 1 + SUM_TOLERANCE:
        notes.add(where, f'a report has probability {most:.12g} in all, expected at most 1 with readings = "single"')


def _from_variables(table: Watcher, world: World, notes: Notes) -> Observer | None:
    columns = []
    for number, name in enumerate(table.variables or ()):
        if name in world.variables:
            columns.append((name, world.variables[name]))
        else:
            notes.add(("observer", "variables", number), f"unknown variable {name!r}: {near(name, world.variables)}")
    if not columns:
        notes.add(("observer", "variables"), "is empty, expected the names of variables")
    if len(columns) < max(len(table.variables or ()), 1):
        return None
    _, places = np.unique(
        np.stack([np.unique(v, return_inverse=True)[1] for _, v in columns]), axis=1, return_inverse=True
    )
    _check_emissions(world.model.num_states, places.max() + 1.0)
    seen = observer_from_values(columns)
    return Observer(seen.emissions, seen.observations.all(), table.sees_actions, table.sees_initial)


def _from_emissions(table: Watcher, world: World, notes: Notes) -> Observer | None:
    """A table of emissions; what a row leaves to 1 goes to the observation `rest`."""
    before = len(notes)
    states, actions = world.model.num_states, world.model.num_actions
    by_action = table.action_emissions is not None
    given = table.action_emissions if table.action_emissions is not None else {"": table.emissions or {}}
    named = (name for rows in given.values() for row in rows.values() for name in row)
    default: dict[str, None] = dict.fromkeys([*([table.rest] if table.rest else []), *named])
    names = list(default if table.observations is None else table.observations)
    numbers = {name: index for index, name in enumerate(names)}
    _check_emissions(states * (actions if by_action else 1), len(names))
    emissions = np.zeros((actions if by_action else 1, states, len(names)))
    key = "action_emissions" if by_action else "emissions"
    filled = np.zeros(emissions.shape[:2], dtype=bool)
    for action, rows in given.items():
        path = ("observer", key, action) if by_action else ("observer", key)
        a = lookup(world.action_numbers, action, "action", path, notes) if by_action else 0
        for state, row in rows.items():
            s = lookup(world.state_numbers, state, "state", (*path, state), notes)
            for name, chance in row.items():
                o = lookup(numbers, name, "observation", (*path, state), notes)
                if s is not None and a is not None and o is not None:
                    emissions[a, s, o] = chance
            if s is not None and a is not None:
                filled[a, s] = True
                total = sum(row.values())
                if abs(total - 1) > SUM_TOLERANCE and (table.rest is None or table.rest in row or total > 1):
                    remedy = (
                        "" if table.rest is not None else ': or name the observation that takes the rest, rest = "…"'
                    )
                    notes.add((*path, state), f"the probabilities sum to {total:.12g}, expected 1{remedy}")
    rest = lookup(numbers, table.rest, "observation", ("observer", "rest"), notes) if table.rest is not None else None
    if rest is not None:
        _give_rest(emissions, rest)
    elif table.rest is None:
        _note_missing(filled, world, key, notes)
    silent, mutes = _silence(table, numbers, notes)
    if len(notes) > before:
        return None
    seen = (table.sees_actions, table.sees_initial)
    return Observer(emissions if by_action else emissions[0], names, *seen, silent=silent, sensors=mutes)


def _silence(table: Watcher, numbers: Mapping[str, int], notes: Notes) -> tuple[int | None, dict[str, dict[int, int]]]:
    """The silent observation and what each sensor's reports turn into, by number."""
    silent = None
    if table.silent is not None:
        silent = lookup(numbers, table.silent, "observation", ("observer", "silent"), notes)
    mutes: dict[str, dict[int, int]] = {}
    for sensor, given in table.mutes.items():
        path = ("observer", "mutes", sensor)
        pairs = [
            [lookup(numbers, name, "observation", (*path, pair[0]), notes) for name in pair] for pair in given.items()
        ]
        mutes[sensor] = {source: target for source, target in pairs if source is not None and target is not None}
    return silent, mutes


def _give_rest(emissions: np.ndarray, rest: int) -> None:
    totals = emissions.sum(axis=-1)
    short = (1 - totals > SUM_TOLERANCE) & (emissions[..., rest] == 0)
    emissions[..., rest] = np.where(short, 1 - totals, emissions[..., rest])


def _note_missing(filled: np.ndarray, world: World, key: str, notes: Notes) -> None:
    for a, s in np.argwhere(~filled)[:21].tolist():
        row = repr(world.model.states[s]) + (f" after {world.model.actions[a]!r}" if len(filled) > 1 else "")
        notes.add(
            ("observer", key), f"says nothing of state {row}: give its row, or the observation rest for all others"
        )


def make_secret(table: Any, models: Sequence[OneOfSeveral], world: World, notes: Notes) -> Secret | None:
    """The secret of a scenario; None with every defect noted."""
    before = len(notes)
    size = world.model.num_states
    made: Secret | None = None
    if table is None or isinstance(table, (LastStateSecret, StateAtSecret)):
        found = _secret_states(None if table is None else table.states, world, notes)
        made = StateAt(table.time, found) if isinstance(table, StateAtSecret) else LastState(found)
    elif isinstance(table, InitialStateSecret):
        if table.groups is None:
            made = InitialState()
        elif len(table.groups) * size > MOST_SECRET_WORK:
            notes.add(("secret", "groups"), f"found {len(table.groups):,} groups over {size:,} states, expected fewer")
        else:
            made = _groups(table.groups, world, notes)
    elif isinstance(table, AutomatonSecret):
        made = _automaton(table, world, notes)
    else:
        made = _which_model(table.agent_knows, models, notes)
    return made if len(notes) == before else None


def _groups(groups: Mapping[str, StateSet], world: World, notes: Notes) -> InitialState:
    owner = np.full(world.model.num_states, -1)
    names, found = list(groups), {}
    for number, (name, wanted) in enumerate(groups.items()):
        path = ("secret", "groups", name)
        found[name] = world.find(wanted, path, notes)
        members = np.array(found[name], dtype=int)
        for state in members[owner[members] >= 0][:3].tolist():
            other = f"state {world.model.states[state]!r} is in group {names[owner[state]]!r} too"
            notes.add(path, f"{other}, expected each state in one group at most")
        owner[members] = number
    return InitialState(found)


def _secret_states(wanted: StateSet | None, world: World, notes: Notes) -> list[int]:
    if wanted is not None:
        return world.find(wanted, ("secret", "states"), notes)
    if world.grid is None or not world.grid.secrets:
        secret = (
            "and no cell of the grid is secret (?)" if world.grid is not None else "which only a grid can leave out"
        )
        notes.add(("secret", "states"), f"is missing, {secret}: name the states")
        return []
    return [world.state_numbers[world.grid.state(*cell)] for cell in world.grid.secrets]


def _automaton(table: AutomatonSecret, world: World, notes: Notes) -> Automaton | None:
    size = world.model.num_states
    states = {table.initial, *(q for q, _, _ in table.transitions), *(q for _, _, q in table.transitions)}
    work = len(states) * max(size, len(table.labels) + 1)
    if work > MOST_AUTOMATON or len(table.labels) * size > MOST_SECRET_WORK:
        found = f"an automaton of {len(states):,} states and {len(table.labels):,} labels over {size:,} states"
        notes.add(("secret",), f"found {found}, expected a smaller one")
        return None
    further = [] if table.otherwise in (None, "stay") else [table.otherwise]
    known: dict[str, int] = dict.fromkeys([*states, *further], 0)
    for number, name in enumerate(table.accepting):
        lookup(known, name, "automaton state", ("secret", "accepting", number), notes)
    labels: dict[str | int, str] = {}
    for label, wanted in table.labels.items():
        for state in world.find(wanted, ("secret", "labels", label), notes):
            if state in labels:
                other = f"state {world.model.states[state]!r} has the label {labels[state]!r} too"
                notes.add(("secret", "labels", label), f"{other}, expected one label a state")
            labels[state] = label
    edges: dict[tuple[str, str], str] = {}
    for number, (state, label, following) in enumerate(table.transitions):
        if (state, label) in edges:
            notes.add(("secret", "transitions", number), f"({state!r}, {label!r}) was given before, expected it once")
        edges[state, label] = following
    return Automaton(
        edges, table.initial, table.accepting, labels, table.default_label, table.otherwise, table.agent_knows
    )


def _which_model(agent_knows: bool, models: Sequence[OneOfSeveral], notes: Notes) -> WhichModel | None:
    if len(models) < 2:
        notes.add(("secret", "kind"), f"which_model needs two [[models]] or more, found {len(models)}")
        return None
    given = [model.weight for model in models]
    weights = [weight for weight in given if weight is not None]
    if weights and len(weights) < len(given):
        notes.add(("models", given.index(None), "weight"), "is missing, expected a weight for each model or for none")
        return None
    if weights and not sum(weights):
        notes.add(("models", 0, "weight"), "all weights are 0, expected one above 0")
        return None
    names = [model.name or f"model {number}" for number, model in enumerate(models)]
    shares = list(normalised(dict(enumerate(weights))).values()) if weights else None
    return WhichModel(shares, names, agent_knows)


def make_settings(table: Settings | None, problem: Problem, world: World, notes: Notes) -> dict[str, Any]:
    """The arguments of `veil.solve` that a scenario gives: those of its keys, no others."""
    if table is None:
        return {}
    given = {key: getattr(table, key) for key in table.model_fields_set}
    for key in _PRIMAL_DUAL:
        if key in given and table.method != "primal-dual":
            notes.add(("solve", key), f'only method = "primal-dual" has this key, and the method is "{table.method}"')
    if isinstance(table.memory, MemoryTable):
        try:
            memory = _memory(table.memory, world, notes)
            if memory is not None:
                memory.resolve(problem)
                given["memory"] = memory
        except VeilError as error:
            note_defects(error, ("solve", "memory"), notes)
    return given


def _memory(table: MemoryTable, world: World, notes: Notes) -> Memory | None:
    kinds = [key for key in ("observations", "states", "zones", "controller") if getattr(table, key) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        notes.add(("solve", "memory"), f"found {found}, expected one of observations, states, zones and controller")
        return None
    clock = {} if table.clock is None else {"clock": table.clock}
    if table.observations is not None:
        return ObservationMemory(table.observations, **clock)
    if table.states is not None:
        return StateMemory(table.states, **clock)
    if table.controller is not None:
        return Controller(table.controller, **clock)
    before = len(notes)
    zones = [
        world.find(zone, ("solve", "memory", "zones", number), notes) for number, zone in enumerate(table.zones or ())
    ]
    return ZoneMemory(zones, **clock) if len(notes) == before else None
