"""Scenario files: one problem a TOML file, with the settings to solve it; read, checked and never executed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ...common.checks import Defects
from ...common.errors import InputError, VeilError
from ...common.settings import Given
from ...measure.certain import CERTAIN, with_disclosure
from ...policy.markov import MarkovPolicy
from ...policy.policy import Policy
from ...problem.agent import AgentSees
from ...problem.belief import UNIFORM, Belief
from ...problem.constraints import Constraint, Return
from ...problem.grid.frame import Frame
from ...problem.keys import PolicyFile
from ...problem.layout import Layout
from ...problem.masks import COST, Masks
from ...problem.model import Model
from ...problem.observer import Observer
from ...problem.pairs import Pair
from ...problem.problem import Problem
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import Secret
from ...problem.together import Together
from ...querying.problem import COST as QUERYING
from ...querying.problem import Querying
from ..policies.files import load_policy
from .changes import apply_changes
from .files import inside, read_file
from .forms import read_secret_form, read_tables
from .keys import make, read_keys
from .models import MOST_TRANSITIONS, ScenarioModel, read_graph, read_grid
from .observer import read_observer, ways_given
from .parts import read_constraints, read_secret, read_settings, with_rewards
from .schema import MOST_CELLS, QUERIES, Differences, Graph, Grid, ModelFile, ObserverTable, QueryingTable, SecretForm
from .text import ScenarioDefects, Source, check_values, read_scenario_text
from .types import Table

Stage = tuple[str, Callable[[Problem, Sequence[Constraint]], Problem | None]]
_MODELS = ("grid", "graph", "file")
MOST_MATRICES = 512  # actions of all models together


@dataclass(frozen=True, eq=False)
class Scenario:
    """What a scenario file says.

    **Attributes:** `problem`; `settings`, the arguments for `veil.solve` that the file gives: `veil.solve(s.problem,
    **s.settings)`; `description`, its story; `source`, the file; `text`, what was read, before any changes.
    """

    problem: Problem
    settings: Given
    description: str
    source: str
    text: str

    def __repr__(self) -> str:
        return f"Scenario({self.source!r}: {self.problem!r})"


def load(path: str | Path, *, allow_outside: bool = False) -> Problem:
    """The problem of a scenario file.

    **Arguments:** `path`; `allow_outside`: whether a model file that it names may lie outside its folder.

    **Raises:** `ScenarioError` listing every defect, each with its line, table and key, what was found and expected.
    """
    return load_scenario(path, allow_outside=allow_outside).problem


def load_scenario(path: str | Path, *, allow_outside: bool = False, changes: Iterable[str] = ()) -> Scenario:
    """The problem of a scenario file, with the settings to solve it; arguments and errors as for `load`.

    **Arguments:** `changes`: texts `KEY=VALUE` whose values replace those of the file, as `--set` takes them.
    """
    path = Path(path)
    source = Source(str(path), read_scenario_text(path))
    apply_changes(source, changes)
    return build_scenario(source, name=path.stem[:200], folder=path.parent, allow_outside=allow_outside)


def read_scenario(
    text: str,
    *,
    source: str = "scenario",
    name: str = "scenario",
    folder: str | Path | None = None,
    allow_outside: bool = False,
    changes: Iterable[str] = (),
) -> Scenario:
    """A scenario from the text of its file.

    **Arguments:** `source`, named in messages; `name` of the problem, unless the text gives one; `folder`, where model
    files are looked for, None for none at all; `allow_outside`, as for `load`; `changes`, as for `load_scenario`.

    **Raises:** `ScenarioError`, as `load`.
    """
    read = Source(source, text)
    apply_changes(read, changes)
    return build_scenario(read, name=name, folder=None if folder is None else Path(folder), allow_outside=allow_outside)


def build_scenario(source: Source, *, name: str, folder: Path | None = None, allow_outside: bool = False) -> Scenario:
    """A scenario from parsed tables; arguments and errors as for `read_scenario`."""
    defects = ScenarioDefects(source)
    check_values(source.data, defects)
    defects.raise_if_any()
    reader = _Reader(source.data, defects, folder, allow_outside)
    problem = reader.problem(reader.tables.name or name or "scenario")
    settings = read_settings(reader.tables.solve, problem, reader.first, defects.under("solve"))
    defects.raise_if_any()
    assert problem is not None
    return Scenario(problem, MappingProxyType(settings), reader.tables.description, source.name, source.text)


class _Reader:
    """Makes a problem of the tables of a file, noting every defect on the way."""

    def __init__(self, data: Mapping[str, object], defects: Defects, folder: Path | None, allow_outside: bool):
        self.tables, self._wrong = read_tables(data, defects)
        self._defects, self._folder, self._allow_outside = defects, folder, allow_outside
        self._secret_form: SecretForm | None = None
        self._assumed: list[Table | None] = []  # models that observers assume
        if "secret" not in self._wrong:
            self._secret_form = read_secret_form(self.tables.secret, defects.under("secret"))
        self._models = [] if self._wrong & {*_MODELS, "models"} else self._read_models()
        self.first = self._models[0] if self._models else None

    def problem(self, name: str) -> Problem | None:
        """The problem; None with every defect noted."""
        tables, defects, first = self.tables, self._defects, self.first
        if first is None:
            return None
        first.readers |= {
            Observer: lambda given, part: read_observer(given, first, tables.horizon, part, further=True),
            Secret: lambda given, part: self._pair_secret(given, first, part),
            Belief: lambda given, part: make(Belief, given, first, part, model=self._assumed_model(given, part)),
            PolicyFile: self._policy,
        }
        observer, agent_sees = self._observer(first), self._agent(first)
        form = self._secret_form
        secret = first.imported.secret if tables.secret is None else None  # that of a program with secret variables
        if secret is None and form is not None:
            secret = read_secret(form, tables.models, first, defects.under("secret"), defects)
        rewarded = [with_rewards(found, tables.rewards, defects.under("rewards")) for found in self._models]
        models = [model for model in rewarded if model is not None]
        constraints = read_constraints(tables.constraints, first, defects.under("constraints"))
        pairs = [make(Pair, one, first, defects.under("pairs", number)) for number, one in enumerate(tables.pairs)]
        if defects or observer is None or secret is None or agent_sees is None:
            if secret is not None and models and "horizon" not in self._wrong:
                secret.resolve(models, tables.horizon, defects.under("secret"))
            return None
        if tables.masks is not None and tables.querying is not None:
            defects.add("found beside [masks], expected one of them", "querying")
            return None
        stages = self._stages(first)
        late = {name: [one for one in constraints if _reward(one) == name] for name in stages}
        try:
            found = Problem(
                models if len(models) > 1 else models[0],
                observer,
                secret,
                tables.horizon,
                tables.min_return,
                tables.return_over,
                constraints=[one for one in constraints if _reward(one) not in stages],
                pairs=[one for one in pairs if one is not None],
                agent_sees=agent_sees,
                name=name,
                layout=self._layout(first),
            )
        except InputError as error:
            defects.take(error)
            return None
        for name, (table, extend) in stages.items():
            if name == CERTAIN and not late[name]:
                continue
            try:
                found = extend(found, late[name])
            except VeilError as error:
                defects.take(error, table)
            if found is None or defects:
                return None
        return found

    def _stages(self, first: ScenarioModel) -> dict[str, Stage]:
        """What is made of the problem, one after the other: by the reward that it adds, its table and how it is made."""
        masks, querying, part = self.tables.masks, self.tables.querying, self._defects.under("masks")
        found: dict[str, Stage] = {}
        hiding = None if masks is None else make(Masks, masks, first, part)
        if hiding is not None:
            found[COST] = "masks", hiding.apply
        if querying is not None:
            found[QUERYING] = "querying", lambda problem, late: self._asked(problem, querying, first, late)
        return found | {CERTAIN: ("constraints", with_disclosure)}

    def _pair_secret(self, given: Mapping[str, object], first: ScenarioModel, part: Defects) -> Secret | None:
        form = read_secret_form(given, part)
        return None if form is None else read_secret(form, self.tables.models, first, part, self._defects)

    def _read_models(self) -> list[ScenarioModel]:
        """The model, or every one of `[[models]]`; none where one of them has defects."""
        tables, defects, before = self.tables, self._defects, len(self._defects)
        given = [kind for kind in _MODELS if getattr(tables, kind) is not None]
        if len(given) > 1:
            defects.add(f"found beside [{given[0]}], expected one model: [grid], [graph] or [file]", given[1])
        if not given and not tables.models:
            defects.add("there is no model, expected a table [grid], [graph] or [file]")
        if self._secret_form is not None:
            several = SECRETS.get(self._secret_form.kind).several_models
            if tables.models and not several:
                only = 'which only a secret such as kind = "which_model" can use'
                defects.add(f"found [[models]], {only}", "models")
            if several and len(tables.models) < 2:
                needed = f"{self._secret_form.kind} needs two [[models]] or more"
                defects.add(f"{needed}, found {len(tables.models)}", "secret", "kind")
        if len(defects) > before:
            return []
        parts = [defects.under("models", number) for number in range(len(tables.models))]
        planned = [self._planned(model, part) for model, part in zip(tables.models, parts, strict=True)]
        planned = planned or [(getattr(tables, given[0]), defects.under(given[0]))]
        self._check_bulk([table for table, _ in planned])
        if len(defects) > before:
            return []
        found = [self._read_model(table, part) for table, part in planned if table is not None]
        models = [model for model in found if model is not None]
        return models if len(models) == len(planned) else []

    def _planned(self, model: Differences, part: Defects) -> tuple[Table | None, Defects]:
        """The table of one of several models, with what it takes over from the common one, and its defects."""
        own = [kind for kind in _MODELS if getattr(model, kind) is not None]
        common = [kind for kind in _MODELS if getattr(self.tables, kind) is not None]
        kind = (own or common or [""])[0]
        if len(own) > 1 or not kind:
            part.add(f"found {' and '.join(own) or 'none'}, expected one of grid, graph and file")
            return None, part
        table, base = getattr(model, kind), getattr(self.tables, kind)
        if table is None:
            return base, self._defects.under(kind)
        if base is None:
            return table, part.under(kind)
        changes = {key: getattr(table, key) for key in table.model_fields_set}
        return base.model_copy(update=changes), _Merged(set(changes), part.under(kind), self._defects.under(kind))

    def _assumed_model(self, table: Differences, part: Defects) -> Model | None:
        """The model that an observer assumes; None where that is the scenario's, or with every defect noted."""
        if all(getattr(table, kind) is None for kind in _MODELS):
            return None
        planned, part = self._planned(table, part)
        self._assumed.append(planned)
        before = len(self._defects)
        self._check_bulk(self._assumed)
        if len(self._defects) > before:
            return None
        found = None if planned is None else self._read_model(planned, part)
        return None if found is None else found.model

    def _policy(self, path: str, part: Defects) -> Policy | Literal["uniform"] | None:
        """The policy in a file, or the word `uniform`; None with every defect noted."""
        if path == UNIFORM:
            return UNIFORM
        if self._folder is None:
            part.add("found a policy file, but this text has no folder to look in: use 'uniform'")
            return None
        found = inside(path, self._folder, self._allow_outside, part)
        try:
            return None if found is None else load_policy(found)
        except VeilError as error:
            part.take(error)
            return None

    def _check_bulk(self, tables: Sequence[Table | None]) -> None:
        """Several models multiply what one file can ask for."""
        graphs = [table for table in tables if isinstance(table, Graph)]
        where = ("models",) if self.tables.models else ("graph", "transitions")
        steps = sum(len(step.following) for table in graphs for step in table.transitions)
        if steps > MOST_TRANSITIONS:
            found = f"found {steps:,} transitions in all"
            self._defects.add(
                f"{found}, expected at most {MOST_TRANSITIONS:,}: put a large model into a [file]", *where
            )
        actions = sum(len({step.action for step in table.transitions}) for table in graphs)
        if actions > MOST_MATRICES:
            self._defects.add(f"found {actions:,} actions in all, expected at most {MOST_MATRICES:,}", *where)
        cells = sum(_cells(table) for table in tables if isinstance(table, Grid))
        if cells > 2 * MOST_CELLS and len(tables) > 1:
            found = f"found about {cells:,} cells in all"
            self._defects.add(f"{found}, expected at most {2 * MOST_CELLS:,}: put large models into files", "models")

    def _read_model(self, table: Table, defects: Defects) -> ScenarioModel | None:
        if isinstance(table, Grid):
            return read_grid(table, defects)
        if isinstance(table, Graph):
            return read_graph(table, defects)
        assert isinstance(table, ModelFile)
        if self._folder is None:
            defects.add("found a model file, but this text has no folder to look in", "path")
            return None
        return read_file(table, self._folder, self._allow_outside, defects)

    def _observer(self, first: ScenarioModel) -> Observer | None:
        if self._wrong & {"observer", "observers"}:
            return None
        table = self.tables.observer or ObserverTable.model_validate({})
        if not ways_given(table):
            for number, other in enumerate(self._models[1:], 1):
                if not _same_observer(first, other):
                    differs = "its observer differs from that of entry 1"
                    self._defects.add(f"{differs}, expected one for all: give it in [observer]", "models", number)
        found = [read_observer(table, first, self.tables.horizon, self._defects.under("observer"))]
        for number, one in enumerate(self.tables.observers):
            found.append(
                read_observer(one, first, self.tables.horizon, self._defects.under("observers", number), further=True)
            )
        observers = [one for one in found if one is not None]
        if len(observers) < len(found) or len(found) == 1:
            return found[0] if len(found) == 1 else None
        try:
            return Together(*observers)
        except VeilError as error:
            self._defects.take(error, "observers")
            return None

    def _asked(
        self, problem: Problem, table: QueryingTable, first: ScenarioModel, late: Sequence[Constraint]
    ) -> Problem | None:
        """The problem of an observer that asks; None with every defect noted."""
        part = self._defects.under("querying")
        given = read_keys((*Querying.keys, QUERIES), table, first, part)
        walker, queries = given.pop("walker"), given.pop("queries")
        if queries is None and problem.min_return is not None:
            words = f"whose return is what its queries cost: set a constraint on the reward {QUERYING!r}"
            self._defects.add(f"found beside [querying], {words}", "min_return")
        if queries is not None and late:
            part.add("found beside a constraint on what queries cost, which they decide: leave one out", "queries")
        if self._defects:
            return None
        querying = Querying(**given, walker=MarkovPolicy.uniform(problem) if walker == UNIFORM else walker)
        if queries is None:
            return querying.apply(problem, late)
        queries = MarkovPolicy.uniform(querying.apply(problem)) if queries == UNIFORM else queries
        return querying.against(problem, queries)

    def _layout(self, first: ScenarioModel) -> Layout | None:
        table = self.tables.layout
        if first.grid is not None or table is None:
            return None if first.grid is None else first.grid.layout
        frame = None if table.cell_size is None else Frame(table.cell_size, table.origin, table.yaw)
        return Layout(table.rows, table.columns, tuple(table.cells), frame)

    def _agent(self, first: ScenarioModel) -> AgentSees | None:
        """What the agent sees; None with every defect noted."""
        table = self.tables.agent
        if table is None or "agent" in self._wrong:
            return "state"
        part = self._defects.under("agent")
        if not (table.model_fields_set - {"sees"} or table.model_extra):
            return table.sees or "state"
        if table.sees is not None:
            part.add("found beside the agent's sensors, expected one of them", "sees")
            return None
        return read_observer(table, first, self.tables.horizon, part, further=True)


class _Merged(Defects):
    """The defects of a table of one of several models, whose keys stand in its own table or in the common one."""

    def __init__(self, own: set[str], in_own: Defects, in_common: Defects):
        super().__init__(in_own.subject)
        self._own, self._in_own, self._in_common = own, in_own, in_common

    def add(self, message: str, *at: str | int, where: str = "") -> None:
        part = self._in_common if at and at[0] not in self._own else self._in_own
        part.add(message, *at, where=where)

    def __len__(self) -> int:
        return len(self._in_own)


def _reward(constraint: Constraint) -> str | None:
    """The name of the reward that a constraint bounds, if it names one."""
    return constraint.reward if isinstance(constraint, Return) else None


def _same_observer(first: ScenarioModel, other: ScenarioModel) -> bool:
    """Whether two models bring the same observer: one observer sees whichever of them runs."""
    if first.grid is not None and other.grid is not None:
        return (first.grid.sensors, first.grid.readings) == (other.grid.sensors, other.grid.readings)
    one, two = first.imported.observer, other.imported.observer
    if one is None or two is None:
        return one is two and first.grid is other.grid
    return one.replace(sensors=None, silent=None) == two.replace(sensors=None, silent=None)


def _cells(grid: Grid) -> int:
    """How many cells a grid has at most."""
    return len(grid.drawing) // 2 if grid.drawing is not None else (grid.rows or 0) * (grid.columns or 0)
