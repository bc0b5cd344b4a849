"""The observer of a scenario: the grid's sensors, sensors over states, variables, tables of emissions, or the file's own."""

import re
from collections.abc import Mapping

import numpy as np

from ...common.checks import SUM_TOLERANCE, Defects
from ...common.errors import TooLargeError, VeilError
from ...common.suggest import suggestion
from ...problem.emissions import When, time_of
from ...problem.grid.sensors import JOIN, SILENT, Sensor, check_single, rates_of, sensor_observer
from ...problem.observer import Observer
from ...problem.observers.feature import blind
from ..sensing import observer_from_values
from .models import MOST_SENSOR_CELLS, ScenarioModel, lookup
from .parts import read_features
from .schema import ObserverTable

MOST_EMISSIONS = 2**22  # numbers in the table of emissions
MOST_READINGS = 2**14  # combinations of readings of independent sensors

_OF_EMISSIONS = ("observations", "rest", "silent", "mutes", "emissions_at")  # keys that only tables of emissions use
_TIME = re.compile(r"([0-9]{1,6})(, end)?")
_LIMITS = {"most_readings": MOST_READINGS, "most_emissions": MOST_EMISSIONS}


def ways_given(table: ObserverTable) -> list[str]:
    """The keys of the table that say what the observer sees; an empty table of emissions leaves all to `rest`."""
    empty = {"sensors": ({},), "variables": (None,)}
    return [key for key in _MAKERS if getattr(table, key) not in empty.get(key, (None,))]


def read_observer(
    table: ObserverTable, model: ScenarioModel, horizon: int, defects: Defects, *, further: bool = False
) -> Observer | None:
    """The observer of a scenario, or a `further` one, who does not have the grid's sensors; None with every defect noted."""
    before = len(defects)
    ways, features = ways_given(table), read_features(table, model, defects)
    has_sensors = model.grid is not None and bool(model.grid.sensors) and not further
    if further and not ways and not features:
        defects.add("nothing says what it sees, expected sensors, emissions, action_emissions or variables")
    if len(ways) + has_sensors > 1:
        found = " and ".join((["the grid's sensors"] if has_sensors else []) + ways)
        defects.add(f"found {found}, expected one way to say what the observer sees", ways[-1])
    elif not ways and model.grid is None and model.imported.observer is None and not features:
        defects.add(
            "nothing says what the observer sees, expected emissions, action_emissions or sensors in [observer]"
        )
    scheduled = table.times is not None or table.untimed
    for key in _OF_EMISSIONS:
        if key == "silent" and scheduled:
            continue
        if getattr(table, key) and table.emissions is None and table.action_emissions is None:
            defects.add(f"found {key}, which only emissions and action_emissions use", key)
    if len(defects) > before:
        return None
    try:
        made = _made(table, ways[0] if ways else "features" if further else "model", model, defects)
        if made is None or len(defects) > before:
            return None
        for feature in features:
            made = feature.apply(made, model.model, horizon)
        return _scheduled(made, table, defects)
    except VeilError as error:
        defects.take(error)
        return None


def _made(table: ObserverTable, way: str, model: ScenarioModel, defects: Defects) -> Observer | None:
    seen = (table.sees_actions, table.sees_initial)
    if way in _MAKERS:
        return _MAKERS[way](table, model, defects)
    if way == "features" or (model.grid is None and model.imported.observer is None):
        return blind(model.model, *seen)
    if model.grid is not None:
        return sensor_observer(model.grid.sensors, model.grid.rates, model.grid.readings, *seen, **_LIMITS)
    assert model.imported.observer is not None
    return _seeing(model.imported.observer, *seen)


def _scheduled(observer: Observer, table: ObserverTable, defects: Defects) -> Observer | None:
    """The observer with the times at which it receives something, and whether it has a clock."""
    changes: dict[str, object] = {}
    if table.times is not None:
        changes["times"] = table.times if table.times == "end" else tuple(table.times)
    if table.untimed:
        changes["untimed"] = True
    if changes and table.silent is not None:
        numbers = {name: index for index, name in enumerate(observer.observations)}
        changes["silent"] = lookup(numbers, table.silent, "observation", defects, "silent")
        if changes["silent"] is None:
            return None
    return observer.replace(**changes) if changes else observer


def when_of(key: str) -> When | None:
    """The time that a key of `emissions_at` means; None if it means none."""
    if key == "end":
        return key
    time = _TIME.fullmatch(key)
    if time is None:
        return None
    return (int(time[1]), "end") if time[2] else int(time[1])


def time_key(when: When) -> str:
    """The key of a time, which `when_of` reads."""
    return f"{when[0]}, end" if isinstance(when, tuple) else str(when)


def _seeing(observer: Observer, sees_actions: bool, sees_initial: bool) -> Observer:
    """The observer of a model file, to which the scenario adds whether it sees actions and the start."""
    names = observer.observations.all() if observer.observations.given else None
    return observer.replace(
        observation_names=names,
        sees_actions=sees_actions or observer.sees_actions,
        sees_initial=sees_initial and observer.sees_initial,
    )


def _check_size(rows: float, observations: float) -> None:
    if rows * observations > MOST_EMISSIONS:
        raise TooLargeError(
            f"the observer's table would have {rows:,.0f} rows of {observations:,.0f} observations, expected at most"
            f" {MOST_EMISSIONS:,} numbers: use fewer states or observations"
        )


def _from_sensors(table: ObserverTable, model: ScenarioModel, defects: Defects) -> Observer | None:
    size, before = model.model.num_states, len(defects)
    if len(table.sensors) * size > MOST_SENSOR_CELLS:
        found = f"found {len(table.sensors):,} sensors over {size:,} states"
        defects.add(f"{found}, expected at most {MOST_SENSOR_CELLS:,} pairs of them", "sensors")
        return None
    covered = np.zeros((size, len(table.sensors)), dtype=bool)
    sensors = []
    for column, (name, given) in enumerate(table.sensors.items()):
        part = defects.under("sensors", name)
        if JOIN in name or name == SILENT:
            part.add(f'found a name with "{JOIN}", or "{SILENT}", which mean several reports and none: rename it')
        covered[model.find(given.states, part.under("states")), column] = True
        sensors.append(Sensor(name, (), given.detection, given.false_alarm))
    if table.readings == "single":

        def place(state: int) -> str:
            return f"state {model.model.states[state]!r}"

        check_single(sensors, covered, rates_of(sensors, covered), place, defects.under("readings"))
    if len(defects) > before:
        return None
    rates = rates_of(sensors, covered)
    return sensor_observer(sensors, rates, table.readings, table.sees_actions, table.sees_initial, **_LIMITS)


def _from_variables(table: ObserverTable, model: ScenarioModel, defects: Defects) -> Observer | None:
    names, variables = table.variables or [], model.imported.variables
    for number, name in enumerate(names):
        if name not in variables:
            hint = suggestion(name, variables)
            defects.add(f"unknown variable {name!r}: {hint}", "variables", number)
    if not names:
        defects.add("is empty, expected the names of variables", "variables")
    columns = [(name, variables[name]) for name in names if name in variables]
    if len(columns) < max(len(names), 1):
        return None
    codes = np.stack([np.unique(values, return_inverse=True)[1] for _, values in columns])
    _check_size(model.model.num_states, np.unique(codes, axis=1).shape[1])
    seen = observer_from_values(dict(columns))
    return seen.replace(sees_actions=table.sees_actions, sees_initial=table.sees_initial)


def _from_emissions(table: ObserverTable, model: ScenarioModel, defects: Defects) -> Observer | None:
    """Tables of emissions, for each action or for all, and at single times."""
    before, by_action = len(defects), table.action_emissions is not None
    given = table.action_emissions if table.action_emissions is not None else {"": table.emissions or {}}
    named = (name for rows in (*given.values(), *table.emissions_at.values()) for row in rows.values() for name in row)
    default: dict[str, None] = dict.fromkeys([*([table.rest] if table.rest else []), *named])
    names = list(default if table.observations is None else table.observations)
    numbers = {name: index for index, name in enumerate(names)}
    _check_size(model.model.num_states * (model.model.num_actions if by_action else 1), len(names))
    rest = None if table.rest is None else lookup(numbers, table.rest, "observation", defects, "rest")
    part = defects.under("action_emissions" if by_action else "emissions")
    for action in given if by_action else ():
        lookup(model.action_numbers, action, "action", part)
    actions = model.action_numbers if by_action else [""]
    emissions = [
        _rows(given.get(action, {}), table, numbers, rest, model, part.under(action) if action else part, action)
        for action in actions
    ]
    at: dict[When, np.ndarray] = {}
    for key, rows in table.emissions_at.items():
        part, when = defects.under("emissions_at", key), when_of(key)
        if when is None:
            part.add(f"found {key!r}, expected a time, as in [observer.emissions_at.3], 'end', or '3, end'")
        elif by_action and time_of(when) != 0:
            part.add(f"found {key!r}, expected time 0: other times have a form in files for emissions on states alone")
        else:
            at[when] = _rows(rows, table, numbers, rest, model, part)
    silent = None if table.silent is None else lookup(numbers, table.silent, "observation", defects, "silent")
    for sensor, muted in table.mutes.items():
        for pair in muted.items():
            for name in pair:
                lookup(numbers, name, "observation", defects, "mutes", sensor, pair[0])
    if len(defects) > before:
        return None
    seen = (table.sees_actions, table.sees_initial)
    tables = np.array(emissions) if by_action else emissions[0]
    return Observer(tables, names, *seen, silent=silent, sensors=table.mutes, emissions_at=at or None)


def _rows(
    rows: Mapping[str, Mapping[str, float]],
    table: ObserverTable,
    numbers: Mapping[str, int],
    rest: int | None,
    model: ScenarioModel,
    defects: Defects,
    action: str = "",
) -> np.ndarray:
    """The emissions of the states, `(S, O)`; what a row leaves to 1 goes to the observation `rest`."""
    emissions = np.zeros((model.model.num_states, len(numbers)))
    filled = np.zeros(len(emissions), dtype=bool)
    for state, row in rows.items():
        s = lookup(model.state_numbers, state, "state", defects, state)
        for name, probability in row.items():
            o = lookup(numbers, name, "observation", defects, state)
            if s is not None and o is not None:
                emissions[s, o] = probability
                filled[s] = True
        total = sum(row.values())
        if abs(total - 1) > SUM_TOLERANCE and (table.rest is None or table.rest in row or total > 1):
            remedy = "" if table.rest is not None else ': or name the observation that takes the rest, rest = "…"'
            defects.add(f"the probabilities sum to {total:.12g}, expected 1{remedy}", state)
    if table.rest is None:
        for s in np.flatnonzero(~filled)[:21].tolist():
            state = f"{model.model.states[s]!r}" + (f" after {action!r}" if action else "")
            defects.add(f"has no row for state {state}: give it, or the observation rest for all others")
    elif rest is not None:
        missing = 1 - emissions.sum(axis=-1)
        short = (missing > SUM_TOLERANCE) & (emissions[:, rest] == 0)
        emissions[short, rest] = missing[short]
    return emissions


_MAKERS = {
    "sensors": _from_sensors,
    "emissions": _from_emissions,
    "action_emissions": _from_emissions,
    "variables": _from_variables,
}
