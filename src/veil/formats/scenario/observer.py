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
from .features import read_features
from .models import MOST_SENSOR_CELLS, ScenarioModel, lookup
from .schema import ObserverTable

MOST_EMISSIONS = 2**22  # numbers in the table of emissions
MOST_READINGS = 2**14  # combinations of readings of independent sensors

_WAYS = ("sensors", "emissions", "action_emissions", "variables")
_OF_EMISSIONS = ("observations", "rest", "silent", "mutes")  # keys that only tables of emissions use
_TIME = re.compile(r"([0-9]{1,6})(, end)?")
_LIMITS = {"most_readings": MOST_READINGS, "most_emissions": MOST_EMISSIONS}


def ways_given(table: ObserverTable) -> list[str]:
    """The keys of the table that say what the observer sees; an empty table of emissions leaves all to `rest`."""
    empty = {"sensors": ({},), "variables": (None,)}
    return [key for key in _WAYS if getattr(table, key) not in empty.get(key, (None,))]


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
        if made is not None and len(defects) == before:
            made = _with_emissions_at(made, table, model, defects)
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
    if way == "sensors":
        return _from_sensors(table, model, defects)
    if way == "variables":
        return _from_variables(table, model, defects)
    if way in ("emissions", "action_emissions"):
        return _from_emissions(table, model, defects)
    if way == "features" or (model.grid is None and model.imported.observer is None):
        return blind(model.model, *seen)
    if model.grid is not None:
        return sensor_observer(model.grid.sensors, model.grid.rates, model.grid.readings, *seen, **_LIMITS)
    assert model.imported.observer is not None
    return _seeing(model.imported.observer, *seen)


def _with_emissions_at(
    observer: Observer, table: ObserverTable, model: ScenarioModel, defects: Defects
) -> Observer | None:
    """The observer with what is emitted at single times."""
    if not table.emissions_at:
        return observer
    if table.emissions is None and table.action_emissions is None:
        defects.add("found emissions_at, which needs emissions or action_emissions", "emissions_at")
        return None
    before, given = len(defects), {}
    same = {"observations": list(observer.observations.all()), "mutes": {}, "silent": None, "action_emissions": None}
    for key, rows in table.emissions_at.items():
        part, when = defects.under("emissions_at", key), when_of(key)
        if when is None:
            part.add(f"found {key!r}, expected a time, as in [observer.emissions_at.3], 'end', or '3, end'")
            continue
        if table.action_emissions is not None and time_of(when) != 0:
            part.add(f"found {key!r}, expected time 0: other times have a form in files for emissions on states alone")
            continue
        then = _from_emissions(table.model_copy(update=same | {"emissions": rows}), model, part, rows_at=part)
        if then is not None:
            given[when] = then.matrices[0]
    return observer.replace(emissions_at=given) if len(defects) == before else None


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


def _from_emissions(
    table: ObserverTable, model: ScenarioModel, defects: Defects, rows_at: Defects | None = None
) -> Observer | None:
    """A table of emissions; what a row leaves to 1 goes to the observation `rest`. `rows_at`: where defects of rows go."""
    before = len(defects)
    states, actions = model.model.num_states, model.model.num_actions
    by_action = table.action_emissions is not None
    given = table.action_emissions if table.action_emissions is not None else {"": table.emissions or {}}
    tables = [*given.values(), *table.emissions_at.values()]
    named = (name for rows in tables for row in rows.values() for name in row)
    default: dict[str, None] = dict.fromkeys([*([table.rest] if table.rest else []), *named])
    names = list(default if table.observations is None else table.observations)
    numbers = {name: index for index, name in enumerate(names)}
    _check_size(states * (actions if by_action else 1), len(names))
    emissions = np.zeros((actions if by_action else 1, states, len(names)))
    filled = np.zeros(emissions.shape[:2], dtype=bool)
    rows_of = defects.under("action_emissions" if by_action else "emissions") if rows_at is None else rows_at
    for action, rows in given.items():
        part = rows_of.under(action) if by_action else rows_of
        a = lookup(model.action_numbers, action, "action", part) if by_action else 0
        for state, row in rows.items():
            s = lookup(model.state_numbers, state, "state", part, state)
            for name, probability in row.items():
                o = lookup(numbers, name, "observation", part, state)
                if s is not None and a is not None and o is not None:
                    emissions[a, s, o] = probability
                    filled[a, s] = True
            total = sum(row.values())
            if abs(total - 1) > SUM_TOLERANCE and (table.rest is None or table.rest in row or total > 1):
                remedy = "" if table.rest is not None else ': or name the observation that takes the rest, rest = "…"'
                part.add(f"the probabilities sum to {total:.12g}, expected 1{remedy}", state)
    if table.rest is None:
        _note_missing(filled, model, rows_of)
    elif (rest := lookup(numbers, table.rest, "observation", defects, "rest")) is not None:
        _give_rest(emissions, rest)
    silent, mutes = _silence(table, numbers, defects)
    if len(defects) > before:
        return None
    seen = (table.sees_actions, table.sees_initial)
    return Observer(emissions if by_action else emissions[0], names, *seen, silent=silent, sensors=mutes)


def _silence(
    table: ObserverTable, numbers: Mapping[str, int], defects: Defects
) -> tuple[int | None, dict[str, dict[int, int]]]:
    """The silent observation and what each sensor's reports turn into, by number."""
    silent = None if table.silent is None else lookup(numbers, table.silent, "observation", defects, "silent")
    mutes: dict[str, dict[int, int]] = {}
    for sensor, given in table.mutes.items():
        pairs = [
            [lookup(numbers, name, "observation", defects, "mutes", sensor, pair[0]) for name in pair]
            for pair in given.items()
        ]
        mutes[sensor] = {source: target for source, target in pairs if source is not None and target is not None}
    return silent, mutes


def _give_rest(emissions: np.ndarray, rest: int) -> None:
    totals = emissions.sum(axis=-1)
    short = (1 - totals > SUM_TOLERANCE) & (emissions[..., rest] == 0)
    emissions[..., rest] = np.where(short, 1 - totals, emissions[..., rest])


def _note_missing(filled: np.ndarray, model: ScenarioModel, defects: Defects) -> None:
    for a, s in np.argwhere(~filled)[:21].tolist():
        after = f" after {model.model.actions[a]!r}" if len(filled) > 1 else ""
        row = f"{model.model.states[s]!r}{after}"
        defects.add(f"has no row for state {row}: give it, or the observation rest for all others")
