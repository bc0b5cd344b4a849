"""`veil new` and `veil convert`: scenarios and models as files."""

from pathlib import Path
from typing import Annotated

import typer

from .convert import convert_file
from .shared import JsonOption, option, print_json, write_text

_STUDY = "study"
ForceOption = Annotated[bool, typer.Option("--force", "-f", help="Replace an existing file.")]


def _complete_origin(incomplete: str) -> list[str]:
    from .. import gallery

    return [name for name in (*gallery.STARTERS, _STUDY, *gallery.names()) if name.startswith(incomplete)]


def new(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Name of the scenario; the file is NAME.toml.", show_default="ORIGIN"),
    ] = None,
    origin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="ORIGIN",
            help="A commented starter: grid (drawn), graph (named states), file (a model file), or study (many runs); or a"
            " problem of the gallery, as veil show gallery lists them.",
            autocompletion=_complete_origin,
        ),
    ] = "grid",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a scenario or study file to start from; you can solve or run it without changes.

    Example: veil new patrol

    Example: veil new office --from office-patrol
    """
    from importlib.resources import files

    from ..formats import gallery

    started = origin in gallery.STARTERS
    words = name or ("scenario" if started else origin)
    path = Path(words if words.endswith(".toml") else f"{words}.toml")
    if origin == _STUDY:
        text = files("veil.study").joinpath("starter.toml").read_text("utf-8").replace("NAME", path.stem)
    else:
        text = gallery.starter(origin, path.stem[:200]) if started else gallery.scenario_text(origin)
    write_text(path, text, force=force)
    if as_json:
        print_json({"file": str(path), "from": origin})
        return
    if origin == _STUDY:
        print(
            f"written to {path}: edit it, count its runs with veil study {path} --dry-run, run it with veil study {path}"
        )
    else:
        print(f"written to {path}: edit it, look at it with veil inspect {path}, solve it with veil solve {path}")


def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A model, a scenario or gallery:NAME, a policy or a result folder.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; veil show formats lists the formats.")],
    scenario: Annotated[
        str | None, option(help="For a policy: its scenario, for the names of states and actions.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Convert a model between formats, a model into a scenario, or a policy into text and back, by the file extensions.

    Of a model file --set gives horizon, min_return, secret (an expression for the secret states, such as 'x=3 & door=open')
    and file.NAME, an option of its format, such as file.constants=N=4.

    Example: veil convert tiger.pomdp tiger.toml --set secret=state=tiger-left --set horizon=6
    """
    done = convert_file(source, target, changes=changes, scenario=scenario, force=force)
    if as_json:
        print_json({"from": source, "to": str(target), "summary": done.summary, "notes": list(done.notes)})
        return
    if done.summary:
        print(done.summary)
    for line in done.notes:
        print(f"  note          {line}")
    print(f"written to {target}")
