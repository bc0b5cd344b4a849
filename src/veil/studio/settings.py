"""What the form of the Plan pane can set: the options of the solver, and the changes to a scenario that stand for them."""

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from ..common.errors import InputError, ScenarioError
from ..common.settings import settings as settings_of
from ..formats.scenario.text import parse
from ..planning.methods import METHODS, unsupported
from ..planning.options import SolveOptions
from ..policy.memories.words import numbered
from ..tradeoffs.options import FrontierOptions

_OWN = ("horizon", "min_return")  # keys of the scenario itself
# Those that a form shows; all others can be set in the [solve] table of the scenario.
SHOWN = ("time_limit", "iterations", "starts", "seed", "goal", "objective", "evaluation", "certificate_time_limit")
_MOST_TEXT = 1_000


def read_changes(given: Mapping[str, Any]) -> tuple[list[str], Literal["solve", "frontier"], int]:
    """The changes `KEY=VALUE` to the scenario, what is sought, and the number of points of a frontier.

    A setting that is None or an empty text is left as the scenario has it.

    **Raises:** `InputError` listing settings that there are not and values of another type; their ranges are checked where
    the scenario is read.
    """
    known = [name for name, one in settings_of(SolveOptions).items() if one.about.in_file]
    wrong: list[str] = []
    changes: list[str] = []
    asked = {name: value for name, value in given.items() if value is not None and value != ""}
    kind, points = asked.pop("kind", "solve"), asked.pop("points", settings_of(FrontierOptions)["points"].default)
    if kind not in ("solve", "frontier"):
        wrong.append(f"kind is {kind!r}, expected solve or frontier")
    if type(points) is not int:
        wrong.append(f"points is {points!r}, expected a whole number")
    for name, value in asked.items():
        if name not in known and name not in _OWN:
            wrong.append(f"there is no setting {name[:60]!r}")
            continue
        written = _toml(value)
        if written is None:
            wrong.append(f"{name} is {str(value)[:60]!r}, expected a number, a text or yes or no")
        changes.append(f"{name if name in _OWN else f'solve.{name}'}={written}")
    if wrong:
        raise InputError("settings", wrong)
    return changes, kind, points


def without_unused(text: str, given: Mapping[str, Any]) -> list[str]:
    """Changes that remove from the [solve] table of a scenario what another method that is asked for does not have.

    They come before all others. What is wrong with the text or the method is found where the scenario is read.
    """
    method = given.get("method")
    if not isinstance(method, str) or method not in METHODS:
        return []
    try:
        table = parse("scenario", text).get("solve")
    except ScenarioError:
        return []
    known = settings_of(SolveOptions)
    if not isinstance(table, dict) or table.get("method", "auto") == method:
        return []
    own = {name: value for name, value in table.items() if name in known and name != "method"}
    return [f"solve.{name}=" for name in unsupported(method, own)]


def _toml(value: object) -> str | None:
    """A value as TOML writes it; None where it is no plain value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if len(value) <= _MOST_TEXT else None
    if isinstance(value, (int, float)):
        return repr(value) if math.isfinite(value) and abs(value) < 2**63 else None
    return None


def choices() -> dict[str, Any]:
    """What the form offers: methods with their summaries and memories, and each setting with its help, range and default."""
    known = settings_of(SolveOptions)
    methods = [
        {"name": name, "summary": METHODS.get(name).summary, "memories": list(METHODS.get(name).memories)}
        for name in METHODS.names()
    ]
    shown = [
        {
            "name": one.name,
            "help": one.about.help,
            "kind": one.kind,
            "choices": list(one.choices),
            "least": one.about.least,
            "default": one.default_text,
            "methods": list(one.about.methods),
        }
        for one in (known[name] for name in SHOWN)
    ]
    return {"methods": methods, "memory": known["memory"].about.help, "memories": numbered(), "settings": shown}
