"""Study files: a study as TOML, read and checked, with every defect at its line."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..common.errors import InputError
from ..formats.scenario.forms import validated
from ..formats.scenario.text import ScenarioDefects, Source, check_values, read_scenario_text
from ..formats.scenario.types import Name, Table
from .definition import Study


class CaseTable(Table):
    """One of `[[cases]]`: values that belong together."""

    name: Name
    set: dict[str, Any] = Field(default_factory=dict)


class StudyFile(Table):
    """The keys of a study file."""

    name: Name | None = None
    description: str = ""
    scenarios: Annotated[list[Name], Field(min_length=1)]
    set: dict[str, Any] = Field(default_factory=dict)
    vary: dict[str, Any] = Field(default_factory=dict)
    cases: list[CaseTable] = Field(default_factory=list)
    derived: dict[str, str] = Field(default_factory=dict)
    policies: list[Name] = Field(default_factory=list)
    attempts: Annotated[int, Field(ge=1, le=1000)] = 5
    limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


def load_study(path: str | Path) -> Study:
    """The study of a file; paths in it start from its folder. Raises `ScenarioError` listing every defect."""
    path = Path(path)
    source = Source(str(path), read_scenario_text(path))
    defects = ScenarioDefects(source)
    check_values(source.data, defects)
    defects.raise_if_any()
    tables = validated(StudyFile, source.data, defects)
    defects.raise_if_any()
    assert tables is not None
    vary = dict(_flat(tables.vary))
    for key, values in vary.items():
        if not isinstance(values, list) or not values:
            defects.add(f"found {values!r}, expected a list of the values of {key}", "vary", key.split(".")[0])
    names = [case.name for case in tables.cases]
    for name in {name for name in names if names.count(name) > 1}:
        defects.add(f"two cases have the name {name!r}, expected different names", "cases")
    defects.raise_if_any()
    try:
        cases = {case.name: dict(_flat(case.set)) for case in tables.cases}
        read = {"vary": vary, "set": dict(_flat(tables.set)), "cases": cases}
        about = {"name": tables.name or path.stem[:200], "folder": path.parent}
        return Study(**tables.model_dump(exclude={"description"}) | read | about)
    except InputError as error:
        defects.take(error)
        defects.raise_if_any()
        raise


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by their keys joined with dots, as `solve.seed`."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value
