"""Scenario files: one problem a TOML file, with the settings to solve it; read, checked and never executed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ...common.errors import InputError
from ...problem.problem import Problem
from .defects import read_tables
from .files import make_file
from .parts import make_observer, make_secret, make_settings
from .schema import MOST_CELLS, Graph, Grid, ModelFile, OneOfSeveral, ScenarioFile, Table, WhichModelSecret
from .text import Notes, Path_, Source, read_text
from .worlds import MOST_TRANSITIONS, World, make_graph, make_grid

_KINDS = ("grid", "graph", "file")
MOST_MATRICES = 512  # actions of all models together
# Where the part stands of which the problem as a whole complains.
_PLACES = {
    "min_return": ("min_return",),
    "horizon": ("horizon",),
    "return_over": ("return_over",),
    "secret": ("secret",),
    "emission": ("observer",),
}
_ONE_MODEL = re.compile(r"model ([0-9]+) ")


@dataclass(frozen=True, eq=False)
class Scenario:
    """What a scenario file says.

    **Attributes:** `problem`; `settings`, the arguments for `veil.solve` that the file gives: `veil.solve(s.problem,
    **s.settings)`; `description`, its story; `source`, the file.
    """

    problem: Problem
    settings: Mapping[str, Any]
    description: str
    source: str

    def __repr__(self) -> str:
        return f"Scenario({self.source!r}: {self.problem!r})"


def load(path: str | Path, *, allow_outside: bool = False) -> Problem:
    """The problem of a scenario file.

    **Arguments:** `path`; `allow_outside`: whether a model file that it names may lie outside its folder.

    **Raises:** `ScenarioError` listing every defect, each with its line, table and key, what was found and expected.
    """
    return load_scenario(path, allow_outside=allow_outside).problem


def load_scenario(path: str | Path, *, allow_outside: bool = False) -> Scenario:
    """The problem of a scenario file, with the settings to solve it; arguments and errors as for `load`."""
    path = Path(path)
    return read_scenario(
        read_text(path), source=str(path), name=path.stem[:200], folder=path.parent, allow_outside=allow_outside
    )


def read_scenario(
    text: str,
    *,
    source: str = "scenario",
    name: str = "scenario",
    folder: str | Path | None = None,
    allow_outside: bool = False,
) -> Scenario:
    """A scenario from the text of its file.

    **Arguments:** `source`, named in messages; `name` of the problem, unless the text gives one; `folder`, where model
    files are looked for, None for none at all; `allow_outside`, as for `load`.

    **Raises:** `ScenarioError`, as `load`.
    """
    notes = Notes(Source(source, text))
    tables = read_tables(notes)
    reader = _Reader(tables, notes, None if folder is None else Path(folder), allow_outside)
    problem, settings = reader.build(tables.name or name or "scenario")
    return Scenario(problem, MappingProxyType(settings), tables.description, source)


class _Reader:
    """Makes a problem of checked tables, noting every defect on the way."""

    def __init__(self, tables: ScenarioFile, notes: Notes, folder: Path | None, allow_outside: bool):
        self._tables, self._notes, self._folder, self._allow_outside = tables, notes, folder, allow_outside
        notes.written_at = self._written_at

    def build(self, name: str) -> tuple[Problem, dict[str, Any]]:
        tables, notes = self._tables, self._notes
        worlds = self._worlds()
        notes.raise_if_any()  # the other parts name states, which are not known without a world
        world = worlds[0]
        observer = make_observer(tables.observer, world, notes)
        self._check_same_watcher(worlds)
        secret = make_secret(tables.secret, tables.models, world, notes)
        notes.raise_if_any()
        assert observer is not None
        assert secret is not None
        try:
            problem = Problem(
                [made.model for made in worlds] if len(worlds) > 1 else world.model,
                observer,
                secret,
                tables.horizon,
                tables.min_return,
                tables.return_over,
                agent_sees_observations=tables.agent_sees_observations,
                name=name,
                layout=None if world.grid is None else world.grid.layout,
            )
        except InputError as error:
            for defect in error.defects:
                notes.add(_place(defect), defect)
            notes.raise_if_any()
            raise
        settings = make_settings(tables.solve, problem, world, notes)
        notes.raise_if_any()
        return problem, settings

    def _worlds(self) -> list[World]:
        tables, notes = self._tables, self._notes
        given = [kind for kind in _KINDS if getattr(tables, kind) is not None]
        if len(given) > 1:
            notes.add((given[1],), f"found beside [{given[0]}], expected one world: [grid], [graph] or [file]")
        if not given and not tables.models:
            notes.add((), "there is no world, expected a table [grid], [graph] or [file]")
        several = isinstance(tables.secret, WhichModelSecret)
        if tables.models and not several:
            notes.add(("models",), 'found [[models]], which only the secret with kind = "which_model" can use')
        if several and len(tables.models) < 2:
            notes.add(("secret", "kind"), f"which_model needs two [[models]] or more, found {len(tables.models)}")
        notes.raise_if_any()
        planned = [self._planned(number, model) for number, model in enumerate(tables.models)]
        planned = planned or [(getattr(tables, given[0]), (given[0],))]
        self._check_bulk([table for table, _ in planned])
        notes.raise_if_any()
        worlds = [self._world(table, path) for table, path in planned if table is not None]
        return [world for world in worlds if world is not None]

    def _planned(self, number: int, model: OneOfSeveral) -> tuple[Table | None, Path_]:
        """The table of one of several models, with what it takes over from the common one, and its place."""
        own = [kind for kind in _KINDS if getattr(model, kind) is not None]
        common = [kind for kind in _KINDS if getattr(self._tables, kind) is not None]
        kind = (own or common or [""])[0]
        if len(own) > 1 or not kind:
            found = " and ".join(own) or "none"
            self._notes.add(("models", number), f"found {found}, expected one of grid, graph and file")
            return None, ()
        table, base = getattr(model, kind), getattr(self._tables, kind)
        if table is None or base is None:
            return (base, (kind,)) if table is None else (table, ("models", number, kind))
        changes = {key: getattr(table, key) for key in table.model_fields_set}
        return base.model_copy(update=changes), ("models", number, kind)

    def _written_at(self, path: Path_) -> Path_:
        """What one of several models takes over stands in the common table."""
        if len(path) < 4 or path[0] != "models" or not isinstance(path[1], int):
            return path
        own = getattr(self._tables.models[path[1]], str(path[2]), None)
        taken_over = own is not None and path[3] not in own.model_fields_set and hasattr(self._tables, str(path[2]))
        return path[2:] if taken_over and getattr(self._tables, str(path[2])) is not None else path

    def _check_bulk(self, tables: Sequence[Table | None]) -> None:
        """Several models multiply what one file can ask for."""
        graphs = [table for table in tables if isinstance(table, Graph)]
        steps = sum(len(step.following) for table in graphs for step in table.transitions)
        if steps > MOST_TRANSITIONS:
            where = ("models",) if self._tables.models else ("graph", "transitions")
            self._notes.add(where, f"found {steps:,} transitions in all, expected at most {MOST_TRANSITIONS:,}")
        actions = sum(len({step.action for step in table.transitions}) for table in graphs)
        if actions > MOST_MATRICES:
            self._notes.add(("models",), f"found {actions:,} actions in all, expected at most {MOST_MATRICES:,}")
        cells = sum(_cells(table) for table in tables if isinstance(table, Grid))
        if cells > 2 * MOST_CELLS and len(tables) > 1:
            self._notes.add(("models",), f"found about {cells:,} cells in all, expected at most {MOST_CELLS:,}")

    def _world(self, table: Table, path: Path_) -> World | None:
        if isinstance(table, Grid):
            return make_grid(table, path, self._notes)
        if isinstance(table, Graph):
            return make_graph(table, path, self._notes)
        assert isinstance(table, ModelFile)
        if self._folder is None:
            self._notes.add((*path, "path"), "found a model file, but this text has no folder to look in")
            return None
        return make_file(table, path, self._notes, self._folder, self._allow_outside)

    def _check_same_watcher(self, worlds: Sequence[World]) -> None:
        """One observer sees whichever model runs: worlds that bring different ones leave open which."""
        first, table = worlds[0], self._tables.observer
        own = table is not None and (table.sensors or table.variables)
        if own or (table is not None and (table.emissions is not None or table.action_emissions is not None)):
            return
        for number, other in enumerate(worlds[1:], 1):
            mine, its = first.observer, other.observer
            if first.grid is not None and other.grid is not None:
                same = (first.grid.sensors, first.grid.readings) == (other.grid.sensors, other.grid.readings)
            elif mine is None or its is None:
                same = mine is its
            else:
                one, two = mine(False, True), its(False, True)
                same = one.observations.all() == two.observations.all() and np.array_equal(one.emissions, two.emissions)
            if not same:
                self._notes.add(
                    ("models", number),
                    "its observer differs from that of entry 1, expected one for all: say it in [observer]",
                )


def _place(defect: str) -> Path_:
    """The key of which a defect of the whole problem speaks."""
    model = _ONE_MODEL.match(defect)
    if model:
        return ("models", int(model[1]))
    return next((where for start, where in _PLACES.items() if defect.startswith(start)), ())


def _cells(grid: Grid) -> int:
    return len(grid.drawing) // 2 if grid.drawing is not None else (grid.rows or 0) * (grid.columns or 0)
