"""The gallery: problems ready to load, each a scenario file beside this module, and commented scenarios to edit."""

import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...common.errors import InputError
from ...common.suggest import suggestion

# What builds problems is imported when one is built: names and texts of the gallery are there at once.
if TYPE_CHECKING:
    from ...problem.problem import Problem
    from ..scenario.load import Scenario
    from ..scenario.text import Source

GALLERY = "gallery:"
STARTERS = ("grid", "graph", "file")
_NAME_LINE = re.compile(r"^name = .*$", re.MULTILINE)
_NAMES = (
    "two-rooms",
    "paper-last-state",
    "paper-initial-state",
    "paper-false-alarms",
    "later-last-state",
    "later-initial-state",
    "office-patrol",
    "night-shift",
    "courier-depots",
    "network-probe",
    "badge-doors",
    "convoy-checkpoint",
    "convoy-escort",
    "night-round",
    "dynamic-masks",
    "hospital-robot",
    "hospital-departments",
    "language-graph",
    "language-grid",
    "delivery-order",
    "who-met-whom",
    "smart-meter",
    "camera-guard",
)


def names() -> tuple[str, ...]:
    """The names of all problems in the gallery."""
    return _NAMES


def describe(name: str) -> str:
    """One line on a problem of the gallery; its scenario file has the details."""
    return str(_source(name).data["description"]).strip().splitlines()[0]


def load(name: str, **options: object) -> "Problem":
    """A problem of the gallery.

    **Arguments:** `name`, one of `names()`; `options`, values in place of those of its file: `horizon`, `min_return` (None for
    no threshold), `sees_initial`, `sees_actions`; `detection` and `false_alarm` of all its sensors; and the keys `time` and
    `agent_knows` of secrets that have them.

    **Raises:** `InputError` for an unknown name or option, with similar ones, and for a value that does not fit.
    """
    return _scenario(name, options).problem


def load_scenario(name: str, changes: Iterable[str] = ()) -> "Scenario":
    """A problem of the gallery as a scenario; `changes`: texts `KEY=VALUE` in place of what its file says."""
    from ..scenario.changes import apply_changes
    from ..scenario.load import build_scenario

    source = _source(name)
    apply_changes(source, changes)
    return build_scenario(source, name=name)


def open_scenario(text: str, changes: Iterable[str] = ()) -> "Scenario":
    """The scenario of a file, or of the gallery if the text is `gallery:NAME`; `changes` as for `load_scenario`."""
    from ..scenario import load as files_of_scenarios

    if text.startswith(GALLERY):
        return load_scenario(text.removeprefix(GALLERY), changes)
    return files_of_scenarios.load_scenario(text, changes=changes)


def scenario_text(name: str) -> str:
    """The scenario file of a problem.

    **Raises:** `InputError` for an unknown name.
    """
    if name not in _NAMES:
        raise InputError("gallery", [f"unknown problem {name!r}: {suggestion(name, _NAMES)}"])
    return _text(f"{name}.toml")


def starter(kind: str = "grid", name: str | None = None) -> str:
    """A commented scenario to edit, which loads as it is.

    **Arguments:** `kind`: `"grid"`, a drawn grid; `"graph"`, named states; `"file"`, a model file (`model.npz`, which has
    to be put beside it). `name`: that of the scenario, its own by default.

    **Raises:** `InputError` for another kind.
    """
    if kind not in STARTERS:
        expected = f"expected one of {', '.join(STARTERS)}"
        raise InputError("starter", [f"found {kind!r}, {expected}: {suggestion(kind, STARTERS)}"])
    text = _text(f"starters/{kind}.toml")
    return text if name is None else _NAME_LINE.sub(lambda _: f"name = {json.dumps(name)}", text, count=1)


def _text(path: str) -> str:
    return files(__name__).joinpath(path).read_text("utf-8")


def _source(name: str) -> "Source":
    from ..scenario.text import Source

    return Source(f"gallery problem {name!r}", scenario_text(name))


def _scenario(name: str, options: Mapping[str, object]) -> "Scenario":
    import numpy as np

    from ..scenario.load import build_scenario

    source = _source(name)
    tables = _tables_of_options(source.data)
    unknown = [f"unknown option {option!r}: {suggestion(option, tables)}" for option in options if option not in tables]
    if unknown:
        raise InputError(source.name, unknown)
    for option, value in options.items():
        for table in tables[option]:
            if value is None:
                table.pop(option, None)
            else:
                table[option] = value.item() if isinstance(value, np.generic) else value
    return build_scenario(source, name=name)


def _tables_of_options(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Each option, with the tables of the file in which its key stands."""
    observer, secret = data.setdefault("observer", {}), data["secret"]
    tables = {
        "horizon": [data],
        "min_return": [data],
        "sees_initial": [observer],
        "sees_actions": [observer],
    }
    sensors = list((data.get("grid", {}).get("sensors") or observer.get("sensors", {})).values())
    tables |= {option: sensors for option in ("detection", "false_alarm") if sensors}
    return tables | {option: [secret] for option in ("time", "agent_knows") if option in secret}
