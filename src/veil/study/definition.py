"""What a study asks: scenarios, values to vary, and the runs that these make together."""

import glob
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.checks import Defects
from ..common.errors import InputError
from ..common.suggest import suggestion
from ..common.values import Value
from ..formats.gallery import GALLERY
from ..formats.scenario.toml import value_of
from ..problem.belief import UNIFORM
from .columns import COLUMNS
from .content import Files, files_of_changes, hashed, hashed_policy, text_and_files
from .derived import Derived

if TYPE_CHECKING:
    from .table import StudyResult

MOST_RUNS = 1_000_000
_KEY_LENGTH = 16
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One run of a study: `veil solve` of a scenario with changes.

    **Attributes:** `scenario`: `gallery:NAME` or a path; `changes`: texts `KEY=VALUE`, as `--set` takes them; `factors`:
    what distinguishes it from the other runs, by name; `key`: a hash of the scenario's text, the files that it names and
    the changes, which names its folder; `text` and `files`: what was hashed, empty for a run that is read from a folder;
    `policy`: what is measured in place of a search.
    """

    scenario: str
    changes: tuple[str, ...]
    factors: dict[str, Any]
    key: str
    text: str = field(default="", repr=False)
    files: Files = field(default=(), repr=False)
    policy: str | None = None

    @property
    def label(self) -> str:
        """The factors on one line."""
        return ", ".join(
            f"{name} {value}" if name != "scenario" else str(value) for name, value in self.factors.items()
        )


@dataclass(frozen=True, eq=False, repr=False)
class Study(Value):
    """Many runs of `veil.solve`, or measured policies: every scenario with every case and every combination of what varies.

    **Arguments:**

    - `scenarios`: `gallery:NAME`, paths of scenario files, or patterns such as `floors/*.toml`.
    - `vary`: for each key of a scenario (`min_return`, `solve.seed`, `grid.slip`) the list of its values.
    - `set`: for each key the one value that all runs have.
    - `cases`: for each name a mapping of keys to values that belong together, such as the sensors of one design.
    - `policies`: `"uniform"`, policy files, result folders, or patterns. If any are given, each is measured in every scenario,
      and nothing is searched.
    - `derived`: for each name an expression over the columns of the table, such as `bits / prior_bits`.
    - `attempts`: how often a run is started if its worker is lost.
    - `limit`: seconds after which a run's worker is ended; None for no limit.
    - `name`; `folder`, which paths start from.

    **Raises:** `InputError` listing what is wrong.

        study = veil.Study(["gallery:two-rooms"], vary={"min_return": ["50%", "90%"], "solve.seed": [0, 1, 2]})
        table = study.run("rooms-study", workers=2).rows()
    """

    scenarios: Sequence[str]
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    set: Values = field(default_factory=dict)
    cases: Mapping[str, Values] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    attempts: int = 5
    limit: float | None = None
    name: str = "study"
    folder: str | Path = "."
    policies: Sequence[str] = ()

    def __post_init__(self) -> None:
        defects = Defects("study")
        for name, expected in (("scenarios", "gallery:NAME"), ("policies", "uniform")):
            given = getattr(self, name)
            listed = isinstance(given, Sequence) and not isinstance(given, str)
            if not (listed and all(isinstance(one, str) for one in given)):
                defects.add(f"{name} is {given!r}, expected a list of paths or {expected}")
        for key, values in self.vary.items():
            if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not len(values):
                defects.add(f"vary, {key}: found {values!r}, expected a list of values")
        self._check_derived(defects)
        if not isinstance(self.attempts, int) or self.attempts < 1:
            defects.add(f"attempts is {self.attempts!r}, expected a whole number, 1 or more")
        if self.limit is not None and not self.limit > 0:
            defects.add(f"limit is {self.limit!r}, expected seconds above 0, or None")
        count = len(list(self.cases) or [""])
        for values in self.vary.values():
            count *= len(values)
        if count > MOST_RUNS:
            defects.add(f"it has {count:,} runs of each scenario, expected at most {MOST_RUNS:,}")
        defects.raise_if_any()

    def _check_derived(self, defects: Defects) -> None:
        known = [*COLUMNS, *self.vary, "scenario", "case", "policy"]
        for name, expression in self.derived.items():
            try:
                missing = sorted(Derived(name, expression).columns - set(known))
                for column in missing:
                    defects.add(f"derived, {name}: there is no column {column!r}: {suggestion(column, known)}")
            except InputError as error:
                for defect in error.defects:
                    defects.add(f"derived, {name}: {defect}")
            if not name.isidentifier() or name in known:
                defects.add(f"derived, {name}: expected a name of letters, digits and _ that no other column has")
            known.append(name)

    @staticmethod
    def load(path: str | Path) -> "Study":
        """The study of a TOML file; raises `ScenarioError` listing every defect with its line."""
        from .file import load_study

        return load_study(path)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs in the order of the file: scenarios, then cases, then combinations.

        **Raises:** `InputError` where a scenario cannot be read, and where two runs are the same.
        """
        found = tuple(self._expanded())
        by_key: dict[str, Run] = {}
        for run in found:
            other = by_key.setdefault(run.key, run)
            if other is not run:
                raise InputError("study", [f"two runs are the same: {other.label}; {run.label}"])
        return found

    def _expanded(self) -> Iterator[Run]:
        names, cases = list(self.vary), self.cases or {"": dict[str, Any]()}
        policies: dict[str | None, Files] = {policy: hashed_policy(policy) for policy in self._found("policies")}
        policies = policies or {None: ()}
        scenarios = self._found("scenarios")
        if not scenarios:
            raise InputError("study", ["scenarios is empty, expected paths of scenario files or gallery:NAME"])
        for scenario in scenarios:
            text, names_of_files = text_and_files(scenario)
            content, named = _hash(text), dict[tuple[str, ...], Files]()  # many runs name the same files, read once
            combined = itertools.product(cases.items(), policies.items(), itertools.product(*self.vary.values()))
            for (case, own), (policy, acting), values in combined:
                varied = dict(zip(names, values, strict=True))
                changes = _changes({**self.set, **own, **varied})
                factors = {"scenario": _short(scenario)} | ({"case": case} if self.cases else {})
                factors |= {} if policy is None else {"policy": self._name_of(policy)}
                wanted = (*names_of_files, *files_of_changes(changes))
                if wanted not in named:
                    named[wanted] = hashed(scenario, wanted)
                files = (*named[wanted], *acting)
                given = () if policy is None else ("policy", UNIFORM if policy == UNIFORM else "")
                key = _hash(content, *changes, *(known for _, known in files), *given)
                yield Run(scenario, changes, factors | varied, key, text, files, policy)

    def _name_of(self, policy: str) -> str:
        return policy if policy == UNIFORM else os.path.relpath(policy, self.folder)

    def _found(self, what: str) -> list[str]:
        """The scenarios or the policies with patterns resolved, in order, each once."""
        found: list[str] = []
        for one in getattr(self, what):
            if one.startswith(GALLERY) or one == UNIFORM:
                matches = [one]
            else:
                pattern = os.path.join(self.folder, one)
                matches = sorted(glob.glob(pattern)) if glob.has_magic(one) else [pattern]
                if not matches:
                    raise InputError("study", [f"no file matches {one!r} in {os.path.abspath(self.folder)}"])
            found += [match for match in matches if match not in found]
        return found

    def run(
        self,
        folder: str | Path,
        *,
        workers: int | None = None,
        memory: int | None = None,
        scheduler: str | None = None,
        resources: dict[str, float] | None = None,
        retry_failed: bool = False,
        repair: bool = False,
        tell: Callable[[dict[str, object]], None] | None = None,
    ) -> "StudyResult":
        """Run what is not done yet; a study that was stopped, extended or damaged is completed by the same call.

        **Arguments:**

        - `folder`: the study's folder, made if there is none.
        - `workers`: processes on this machine, as many as it has cores by default; 1 runs one after the other in this
          process. Several need, in a script, a call below `if __name__ == "__main__":`.
        - `memory`: bytes for each of them.
        - `scheduler`: address of a Dask scheduler, `tcp://…` or `tls://…`, instead; its workers see the folder under the
          same path. Needs the extra `veil[cluster]`.
        - `resources`: what a run needs of a worker of the scheduler, such as `{"GPU": 1}`.
        - `retry_failed`: whether runs that failed before are started again.
        - `repair`: whether finished runs are checked against their hashes first; damaged ones are set aside and made again.
        - `tell`: called with every event, as it is appended to `events.jsonl`.

        **Returns:** the `StudyResult`. A run that fails is part of it, with its reason.

        **Raises:** `InputError` if the study or the folder is not in order, or the scheduler cannot be reached.
        """
        from .drive import run_study
        from .executors import Cluster, Executor, Local, Serial

        count = (os.cpu_count() or 1) if workers is None else workers
        if count < 1:
            raise InputError("study", [f"workers is {workers}, expected 1 or more"])
        if resources and scheduler is None:
            words = "resources are those of the workers of a scheduler, and none is given: give its address"
            raise InputError("study", [words])

        def start() -> Executor:
            if scheduler is not None:
                return Cluster(scheduler, resources)
            alone = count == 1 and memory is None and self.limit is None
            return Serial() if alone else Local(count, memory)

        return run_study(self, folder, start, tell, retry_failed=retry_failed, repair=repair)

    def __repr__(self) -> str:
        return f"Study({self.name!r}: {len(self.scenarios)} scenarios, varying {', '.join(self.vary) or 'nothing'})"


def _short(scenario: str) -> str:
    return scenario if scenario.startswith(GALLERY) else Path(scenario).stem


def _changes(values: Values) -> tuple[str, ...]:
    """Values by key as the texts that `--set` takes; None removes a key."""
    return tuple(f"{key}={'' if value is None else value_of(value)}" for key, value in values.items())


def _hash(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_KEY_LENGTH]
