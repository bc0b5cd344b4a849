"""The solver settings of a scenario, made from the `[solve]` table against its model."""

from collections.abc import Mapping

from ...common.checks import Defects
from ...common.errors import VeilError
from ...common.settings import Given
from ...planning.methods import METHODS, unsupported
from ...policy.memories import Memory
from ...policy.memories.registry import MEMORIES
from ...policy.memories.words import memory_of
from ...problem.problem import Problem
from .forms import validated
from .keys import read_keys
from .models import ScenarioModel
from .solve_table import Settings, memory_form


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
    if "memory" in given and model is not None:
        try:
            memory = given["memory"] = _memory(given["memory"], model, defects.under("memory"))
            if isinstance(memory, Memory) and problem is not None:
                memory.resolve(problem)
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


def _memory(given: str | Mapping[str, object], model: ScenarioModel, defects: Defects) -> Memory | str | None:
    """The memory that a file gives: a word, or a table with the key of one kind; None with every defect noted."""
    if isinstance(given, str):
        return memory_of(given)
    kinds = [key for key in given if key in MEMORIES]
    if len(kinds) != 1:
        defects.add(f"found {' and '.join(kinds) or 'none'}, expected one of {', '.join(MEMORIES)}")
        return None
    memory, before = MEMORIES.get(kinds[0]), len(defects)
    form = validated(memory_form(kinds[0]), given, defects)
    table = {} if form is None else read_keys(memory.keys, form, model, defects)
    return memory.from_table(table) if len(defects) == before else None
