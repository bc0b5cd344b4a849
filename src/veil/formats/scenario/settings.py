"""The solver settings of a scenario, made from the `[solve]` table against its model."""

from ...common.checks import Defects
from ...common.errors import VeilError
from ...common.settings import Given
from ...planning.methods import METHODS, unsupported
from ...policy.memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from ...problem.problem import Problem
from .models import ScenarioModel
from .solve_table import MemoryTable, Settings


def read_settings(
    table: Settings | None, problem: Problem | None, model: ScenarioModel | None, defects: Defects
) -> Given:
    """The arguments of `veil.solve` that a scenario gives: those of its keys, no others.

    **Arguments:** `problem`, `model`: None where they have defects, and then what depends on them is not checked.
    """
    if table is None:
        return {}
    given = {key: getattr(table, key) for key in type(table).model_fields if key in table.model_fields_set}
    _check_method(given, defects)
    if isinstance(given.get("memory"), MemoryTable) and model is not None:
        try:
            memory = _memory(given["memory"], model, defects.under("memory"))
            if memory is not None and problem is not None:
                memory.resolve(problem)
                given["memory"] = memory
        except VeilError as error:
            defects.take(error, "memory")
    return given


def _check_method(given: Given, defects: Defects) -> None:
    """Note a method that is not there, and what the method does not have."""
    method = given.get("method", "auto")
    if method not in METHODS:
        defects.add(f"found {method!r}, expected {METHODS.expected(method)}", "method")
        return
    try:
        for key, words in unsupported(method, given).items():
            defects.add(words, key)
    except VeilError as error:
        defects.take(error, "method")


def _memory(table: MemoryTable, model: ScenarioModel, defects: Defects) -> Memory | None:
    kinds = [key for key in ("observations", "states", "zones", "controller") if getattr(table, key) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        defects.add(f"found {found}, expected one of observations, states, zones and controller")
        return None
    clock = {} if table.clock is None else {"clock": table.clock}
    if table.observations is not None:
        return ObservationMemory(table.observations, **clock)
    if table.states is not None:
        return StateMemory(table.states, **clock)
    if table.controller is not None:
        return Controller(table.controller, **clock)
    before = len(defects)
    zones = [model.find(zone, defects.under("zones", number)) for number, zone in enumerate(table.zones or ())]
    return ZoneMemory(zones, **clock) if len(defects) == before else None
