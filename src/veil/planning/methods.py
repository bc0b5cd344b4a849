"""The methods of `veil.solve`: one registry that names them all, and what each must say of itself.

Another package adds a method by an entry point: a class that satisfies `Method`, and in its `pyproject.toml`

    [project.entry-points."veil.methods"]
    my-method = "my_package.module:MyMethod"

It is then chosen by `veil.solve(problem, "my-method")`, `method = "my-method"` in `[solve]`, or `--method my-method`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from ..common.errors import InputError
from ..common.registry import Registry
from ..common.settings import checked, settings
from ..common.writers import writer
from .options import SolveOptions

if TYPE_CHECKING:
    from ..problem.problem import Problem
    from .solution import Solution


class Method(Protocol):
    """A way to solve a problem. A method is a class that can be made without arguments.

    An option that a method does not declare is refused before any work; one that is left at its default never is.

    **Attributes:**

    - `summary`: what it finds and how, in one line.
    - `goals`, `objectives`: the values of these options that it supports.
    - `memories`: the classes of policies that it searches, among `"markov"`, `"timed"`, `"finite"` (a finite memory) and
      `"history"`.
    - `options`: the names of the further options that it uses, among those of `SolveOptions` that not every method has.
    """

    summary: ClassVar[str]
    goals: ClassVar[tuple[str, ...]]
    objectives: ClassVar[tuple[str, ...]]
    memories: ClassVar[tuple[str, ...]]
    options: ClassVar[frozenset[str]]

    def solve(self, problem: "Problem", options: SolveOptions) -> "Solution":
        """The best policy that the method finds within `options.time_limit`.

        `options` have been checked; `veil.solve` makes the certificate.

        **Raises:** `InfeasibleError` where no policy reaches the threshold; other subclasses of `VeilError`.
        """
        ...


def _missing(entry: object) -> str | None:
    needed = ("summary", "goals", "objectives", "memories", "options", "solve")
    missing = [name for name in needed if not hasattr(entry, name)]
    if not isinstance(entry, type):
        return f"it is {entry!r}, expected a class"
    return f"it has no {', '.join(missing)}: see veil.planning.methods.Method" if missing else None


METHODS: Registry[type[Method]] = Registry(
    "method",
    "veil.methods",
    {
        "auto": "veil.planning.table_methods:AscentMethod",
        "ascent": "veil.planning.table_methods:AscentMethod",
        "primal-dual": "veil.planning.table_methods:PrimalDualMethod",
        "game": "veil.planning.game_method:GameMethod",
        "queries": "veil.planning.methods:QueryMethod",
    },
    _missing,
)


def options_of(method: str) -> frozenset[str]:
    """The options that only some methods have, and one of veil's own does."""
    return frozenset(name for name, one in settings(SolveOptions).items() if method in one.about.methods)


class QueryMethod:
    """`veil.best_queries` as a method of `veil.solve`: plans of an observer that chooses where to look, by `veil.querying`."""

    summary = (
        "the least that an observer which chooses its queries is left with, between bounds, by a search of beliefs"
    )
    goals = ("transparent",)
    objectives = ("entropy",)
    memories = ("markov", "timed", "finite", "history")  # the plan remembers all answers, whatever is asked for
    options = options_of("queries")

    def solve(self, problem: "Problem", options: SolveOptions) -> "Solution":
        """See `Method`. A task `-0.1*return` is the price of queries in bits.

        **Raises:** `InputError` where the goal is not `"transparent"`, or the agent sees more than the observer.
        """
        if options.goal != "transparent":
            words = "an observer that queries wants to know the secret: pass goal='transparent'"
            raise InputError("solve", [f"method 'queries' has goal 'transparent', found {options.goal!r}: {words}"])
        return writer("queries")(problem, options)


def unsupported(method: str, given: Mapping[str, object]) -> dict[str, str]:
    """The options that a method does not have or whose values it does not support, each with what to say of it.

    **Raises:** `InputError` where there is no such method; `PluginError` where it cannot be loaded.
    """
    known = METHODS.get(method)
    found: dict[str, str] = {}
    for name, value in given.items():
        setting = settings(SolveOptions)[name]
        if setting.is_default(value):
            continue
        if name in ("goal", "objective", "memory"):
            supported = known.memories if name == "memory" else known.goals if name == "goal" else known.objectives
            # A file may give a memory as a word such as `states:2`.
            kind = value if isinstance(value, str) and ":" not in value else "finite"
            if kind not in supported:
                remedy = ": use method='game'" if value == "history" else ""
                found[name] = f"method={method!r} has {_listed(supported)}, found {value!r}{remedy}"
        elif setting.about.methods and name not in known.options:
            found[name] = f"method={method!r} does not have this option, only {_listed(setting.about.methods)}"
    return found


def check_options(options: SolveOptions) -> SolveOptions:
    """The options as plain values; raises `InputError` with everything that is wrong with them or that the method lacks."""
    options, wrong = checked(options)
    if options.method not in METHODS:
        wrong["method"] = f"method is {options.method!r}, expected {METHODS.expected(options.method)}"
    else:
        given = {name: getattr(options, name) for name in settings(SolveOptions) if name not in wrong}
        wrong |= {name: f"{name}: {words}" for name, words in unsupported(options.method, given).items()}
    if wrong:
        raise InputError("solve", wrong.values())
    return replace(options, time_limit=None) if options.time_limit == math.inf else options


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join(map(repr, names))
