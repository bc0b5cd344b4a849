"""The pane Draw: defects of a scenario with their places, its drawing, changes to it, and opening other files."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import Defect, InputError, ScenarioError, VeilError
from ..formats.gallery import describe, names, scenario_text, starter
from ..formats.registry import can, check_extension, read_model
from ..formats.scenario.edit import Change, edit
from ..formats.scenario.grid_text import grid_scenario
from ..formats.scenario.load import build_scenario
from ..formats.scenario.text import MOST_BYTES, Source, read_scenario_text
from ..formats.scenario.toml import to_toml
from ..problem.problem import Problem
from ..report.page_data import scene_data
from ..report.scene import make_scene
from .cells import grid_document, painted
from .routes import Refused, Request, text_of
from .settings import SHOWN
from .shapes import shape_changes

if TYPE_CHECKING:
    from ..formats.imported import Imported
    from .state import Studio

MOST_CHARACTERS = MOST_BYTES  # of a scenario's text, as in its file
# What the page has controls for beside the drawing.
FIELDS = ("horizon", "min_return", "grid.slip", "grid.stay", "grid.goal_reward", "secret.kind")
_PLANNED = ("method", "memory", *SHOWN)  # of [solve], which the form of the pane Plan shows
_HORIZON = 10  # decisions of a scenario made from a model file, unless another number is given
_MOST_CHANGES = 500
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_NO_NAME = re.compile(r"[^\w.+-]")  # what the name of a file in our own folder should not hold
_IN_DRAWING = re.compile(r"^line \d+, column \d+: ")
_CELL = re.compile(r"\((\d+), (\d+)\)")


def check(request: Request, studio: "Studio") -> dict[str, Any]:
    """What is wrong with a text, and its drawing."""
    return checked(_text(request, studio), studio.name, studio.base)


def change(request: Request, studio: "Studio") -> dict[str, Any]:
    """The text after changes, `{at: [keys], value}`, after painting `cells` and moving a `shape`; with what `check` finds."""
    text, given = _text(request, studio), request.get("changes", [])
    if not isinstance(given, list) or len(given) > _MOST_CHANGES:
        raise Refused(400, f"changes are no list of at most {_MOST_CHANGES}")
    changes = [_change(one) for one in given]
    if request.get("cells") is not None:
        changes += painted(Source(studio.name, text).data, _cells(request["cells"]))
    changed = edit(text, changes)
    if request.get("shape") is not None:
        changed = edit(changed, shape_changes(Source(studio.name, changed).data, request["shape"]))
    return {"text": changed, **checked(changed, studio.name, studio.base)}


def show_gallery(request: Request, studio: "Studio") -> dict[str, Any]:
    """The problems of the gallery, one line on each."""
    return {"problems": [{"name": name, "description": describe(name)} for name in names()]}


def open_another(request: Request, studio: "Studio") -> dict[str, Any]:
    """Put another scenario on the page: `gallery`, a name; `path`, of a file; or `text`, the content of the file `name`.

    A model file has neither secret nor horizon: with `secret`, an expression for the secret last states, and `horizon` it
    becomes a scenario; without a secret, where the file declares none, the answer `needs` it, and nothing is opened. `options`
    are those of the file's format, `NAME=VALUE` separated by blanks.
    """
    if "gallery" in request:
        name = text_of(request, "gallery")
        text = starter("grid") if name == "" else scenario_text(name)
        return _put(studio, text, name or "scenario")
    if "path" in request:
        path = Path(_plain(text_of(request, "path"))).expanduser()
        if can("read_problem", path):
            return _put(studio, read_scenario_text(path), path.stem, path.parent)
        return _opened_model(request, studio, path, str(path))
    name = _NO_NAME.sub("_", text_of(request, "name", "scenario.toml"))[-100:]
    if can("read_problem", name):
        return _put(studio, text_of(request, "text"), Path(name).stem)
    check_extension(name, "read_problem", "read_model")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text(text_of(request, "text"), "utf-8")
        try:
            return _opened_model(request, studio, path, name, Path(folder))
        except VeilError as error:
            raise VeilError(str(error).replace(f"{folder}/", "")) from None


def checked(text: str, name: str, folder: Path | None) -> dict[str, Any]:
    """The defects of a scenario's text, each with its `place`, and its drawing as far as it can be read.

    **Returns:** `defects`: each with `message`, `place` in words, `line` and `cell` (row, column) or None; `drawing`: the grid
    (`cells.grid_document`), for another model its scene (`report.page_data.scene_data`), None where there is neither; `facts`
    about the problem, None where it has defects; `fields`, those of `FIELDS` that the text gives, None where it is no TOML.
    """
    try:
        source = Source(name, text)
    except ScenarioError as error:
        return {"defects": [_unparsed(one) for one in error.found], "drawing": None, "facts": None, "fields": None}
    drawing, fields = grid_document(source.data), _fields(source.data)
    try:
        problem = build_scenario(source, name=name, folder=folder).problem
    except InputError as error:
        placed = [_placed(one, source, text) for one in error.found]
        return {"defects": placed, "drawing": drawing, "facts": None, "fields": fields}
    if drawing is None:
        drawing = {"kind": "scene", **scene_data(make_scene(problem))}
    return {"defects": [], "drawing": drawing, "facts": _facts(problem), "fields": fields}


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in (*FIELDS, *(f"solve.{one}" for one in _PLANNED)):
        table: Any = data
        for part in name.split("."):
            table = table.get(part) if isinstance(table, dict) else None
        found[name] = table if isinstance(table, (bool, int, float, str)) or name == "solve.memory" else None
    return found


def _facts(problem: Problem) -> dict[str, Any]:
    return {
        "name": problem.name,
        "states": problem.num_states,
        "actions": problem.num_actions,
        "observations": problem.observer.num_observations,
        "horizon": problem.horizon,
        "question": problem.secret.describe(problem),
    }


def _unparsed(defect: Defect) -> dict[str, Any]:
    found = _AT_LINE.search(defect.message)
    line = int(found[1]) if found else None
    return {"message": defect.message, "place": f"line {line}" if line else "", "line": line, "cell": None}


def _placed(defect: Defect, source: Source, text: str) -> dict[str, Any]:
    place, line, cell = source.place(defect.at), source.line(defect.at), _cell(defect, source)
    message = defect.message.removeprefix(f"{place}: ")
    if defect.at[:2] == ("grid", "drawing") and len(defect.at) > 2 and line is not None:
        line = _line_of_row(source, text, line, int(defect.at[2]))
        place, message = f"line {line}, [grid] drawing", _IN_DRAWING.sub("", message)
    return {"message": message, "place": place, "line": line, "cell": cell}


def _cell(defect: Defect, source: Source) -> list[int] | None:
    """The cell that a defect is about: that of the drawing, or that which a defect of the grid names."""
    if defect.at[:2] == ("grid", "drawing") and len(defect.at) > 2:
        row, column = (*defect.at[2:], 0)[:2]
        return [int(row), int(column)]
    found = _CELL.search(defect.message) if defect.at[:1] == ("grid",) else None
    return [int(found[1]), int(found[2])] if found else None


def _line_of_row(source: Source, text: str, line: int, row: int) -> int:
    """The line of a row of the drawing, whose key stands in a line; that of the key where they are one line."""
    grid = source.data["grid"]
    assert isinstance(grid, dict)
    drawing = str(grid["drawing"])
    lines = text.splitlines()
    if drawing.count("\n") < row or not re.search(r"(\"\"\"|''')\s*$", lines[line - 1]):
        return line
    blank = len(drawing[: len(drawing) - len(drawing.lstrip())].splitlines()[:-1]) if drawing[:1].isspace() else 0
    return min(line + 1 + blank + row, len(lines))


def _text(request: Request, studio: "Studio") -> str:
    text = text_of(request, "text", studio.scenario)
    if len(text) > MOST_CHARACTERS:
        raise Refused(413, f"the scenario has {len(text):,} characters, expected at most {MOST_CHARACTERS:,}")
    return text


def _plain(path: str) -> str:
    if not path or "\0" in path:
        raise Refused(400, "the path is empty or holds a null character")
    return os.path.abspath(path) if not path.startswith("~") else path


def _change(given: object) -> Change:
    if not isinstance(given, Mapping) or not isinstance(given.get("at"), list) or not given["at"]:
        raise Refused(400, "a change is no object with a list of keys at `at`")
    keys = given["at"]
    if not all(isinstance(key, str) and key for key in keys) or len(keys) > 8:
        raise Refused(400, "the keys of a change are not texts, or more than 8")
    return tuple(keys), _toml_value(given.get("value"))


def _toml_value(value: object, depth: int = 0) -> object:
    """A JSON value that TOML can hold; None, which removes a key, only at the top."""
    if isinstance(value, (bool, int, float, str)) or (value is None and depth == 0):
        return value
    if isinstance(value, list) and depth < 4:
        return [_toml_value(one, depth + 1) for one in value]
    if isinstance(value, dict) and depth < 4:
        return {str(key): _toml_value(one, depth + 1) for key, one in value.items()}
    raise Refused(400, "a value of a change is null inside a list or table, or too deeply nested")


def _cells(given: object) -> list[list[str]]:
    rows = given if isinstance(given, list) else []
    found = [row for row in rows if isinstance(row, list) and row and all(map(_is_token, row))]
    if not found or len(found) < len(rows) or len({len(row) for row in found}) > 1:
        raise Refused(400, "cells are no list of rows of one length, of texts without blanks")
    return found


def _is_token(given: object) -> bool:
    return isinstance(given, str) and given.split() in ([], [given])


def _put(studio: "Studio", text: str, name: str, base: Path | None = None) -> dict[str, Any]:
    """Make a text the scenario of the page."""
    with studio.lock:
        studio.set_scenario(text, name=name[:200], base=base)
        known = {"text": text, "name": studio.title, "edition": studio.edition, "notes": []}
    return {**known, **checked(text, studio.name, base)}


def _opened_model(
    request: Request, studio: "Studio", path: Path, shown: str, folder: Path | None = None
) -> dict[str, Any]:
    """Open a model; `folder`: where files that it names must lie, None for anywhere."""
    found = read_model(path, _options(text_of(request, "options", "")), folder=folder)
    secret, horizon = text_of(request, "secret", "") or None, request.get("horizon", _HORIZON)
    if secret is None and found.secret is None:
        return {"needs": "secret", "summary": found.summary().replace(str(path), shown), "variables": _variables(found)}
    if found.grid is not None:
        table = found.secret_table(secret)
        text = grid_scenario(found.grid, path.stem, _whole(horizon), table, story=[f"From {shown}.", *found.notes])
        return _put(studio, text, path.stem) | {"notes": list(found.notes)}
    if found.observer is None:
        words = "this model has no observer: write a scenario with a [file] table and an [observer], and open that"
        raise InputError(shown, [words])
    problem = found.problem(secret, horizon, name=path.stem)
    text = to_toml(problem, f"From {shown}.")
    if len(text.encode()) > MOST_BYTES:
        words = "it is too large for the text of a scenario: write one with a [file] table beside it, and open that"
        raise InputError(shown, [words])
    opened = _put(studio, text, path.stem)
    return opened | {"notes": list(found.notes)}


def _whole(horizon: object) -> int:
    if isinstance(horizon, bool) or not isinstance(horizon, int):
        raise Refused(400, "the horizon is no whole number")
    return horizon


def _options(text: str) -> dict[str, object]:
    """Options for reading a model file, `NAME=VALUE` separated by blanks."""
    parts = [part.partition("=") for part in text.split()]
    if not all(name and equals for name, equals, _ in parts):
        raise InputError("options", [f"found {text[:80]!r}, expected NAME=VALUE, such as reward_model=gold"])
    return {name: value for name, _, value in parts}


def _variables(found: "Imported") -> list[str]:
    """The variables for an expression, with some of their values."""
    shown = []
    for name, values in found.variables.items():
        some = list(dict.fromkeys(map(str, values[:1000].tolist())))
        shown.append(f"{name}: {', '.join(some[:6])}{', …' if len(some) > 6 else ''}")
    return shown[:20]
