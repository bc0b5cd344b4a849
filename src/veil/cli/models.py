"""`veil new`, `veil gallery`, `veil schema` and `veil convert`: scenarios and models as files."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .changes import with_changes
from .convert import convert_file
from .shared import JsonOption, ReadOption, guarded, print_json, print_table, write_text

ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")]


@guarded
def new(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="Name of the scenario; the file is NAME.toml.")
    ] = "scenario",
    kind: Annotated[
        Literal["grid", "graph", "file"], typer.Option(help="A drawn grid, named states, or a model file.")
    ] = "grid",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a commented scenario to start from; it can be solved without changes.

    Example: veil new patrol
    """
    from ..formats.gallery import starter

    path = Path(name if name.endswith(".toml") else f"{name}.toml")
    write_text(path, starter(kind, path.stem[:200]), force=force)
    if as_json:
        print_json({"file": str(path), "kind": kind})
        return
    print(f"written to {path}: edit it, look at it with veil inspect {path}, solve it with veil solve {path}")


def _complete_name(incomplete: str) -> list[str]:
    from .. import gallery

    return [name for name in gallery.names() if name.startswith(incomplete)]


@guarded
def gallery(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Problem to write; without it, all are listed.", autocompletion=_complete_name
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File to write, - for standard output.", show_default="NAME.toml"),
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """List the problems that come with veil, or write one of them as a scenario file.

    Every command that takes a scenario file also accepts gallery:NAME.

    Example: veil gallery office-patrol -o office.toml
    """
    from .. import gallery as problems

    if name is None:
        listed = [(known, problems.describe(known)) for known in problems.names()]
        if as_json:
            print_json({"problems": [{"name": known, "description": words} for known, words in listed]})
        else:
            print_table(["name", "what it is"], listed)
        return
    text = problems.scenario_text(name)
    path = output or f"{name}.toml"
    if path != "-":
        write_text(Path(path), text, force=force)
    if as_json:
        print_json({"name": name, "file": path} if path != "-" else {"name": name, "scenario": text})
    else:
        print(text if path == "-" else f"written to {path}")


@guarded
def schema(
    result: Annotated[bool, typer.Option("--result", help="Print the schema of result.json instead.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write.", show_default="standard output")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the JSON schema of scenario files, for validation and completion in editors, or the schema of results.

    Example: veil schema -o scenario.schema.json
    """
    from ..formats.documents import json_text
    from ..formats.results.document import result_schema
    from ..formats.scenario.schema import schema as scenario_schema

    found = result_schema() if result else scenario_schema()
    if output is None:
        print_json(found)
        return
    write_text(output, json_text(found), force=force)
    if as_json:
        print_json({"file": str(output)})
    else:
        print(f"written to {output}")


@guarded
@with_changes
def convert(
    source: Annotated[
        str | None,
        typer.Argument(metavar="IN", help="A model, a scenario or gallery:NAME, a policy or a result folder."),
    ] = None,
    target: Annotated[Path | None, typer.Argument(metavar="OUT", help="File to write.", show_default=False)] = None,
    secret: Annotated[
        str | None,
        typer.Option(help="For .toml from a model file: secret states, as an expression: 'x=3 & door=open'."),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="For a policy: its scenario, which has the names of states and actions.", show_default=False),
    ] = None,
    option: ReadOption = None,
    formats: Annotated[
        bool, typer.Option("--formats", help="List the formats and what each can do, and exit.")
    ] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Convert a model between formats, a model into a scenario, or a policy into text and back, by the file extensions.

    Example: veil convert tiger.pomdp tiger.toml --secret 'state=tiger-left' --horizon 6
    """
    if formats:
        _list_formats(as_json)
        return
    if source is None or target is None:
        raise typer.BadParameter("expected two files, IN and OUT; veil convert --formats lists the formats")
    done = convert_file(source, target, secret=secret, changes=changes, scenario=scenario, options=option, force=force)
    if as_json:
        print_json({"from": source, "to": str(target), "summary": done.summary, "notes": list(done.notes)})
        return
    if done.summary:
        print(done.summary)
    for line in done.notes:
        print(f"  note          {line}")
    print(f"written to {target}")


def _list_formats(as_json: bool) -> None:
    from ..formats.registry import format_table

    rows = format_table()
    if as_json:
        print_json({"formats": rows})
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
