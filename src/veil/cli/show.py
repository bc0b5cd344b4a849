"""`veil show`: what there is to know without a scenario: the gallery, formats, schemas, formulas, the installation."""

from typing import Annotated, Literal

import typer

from .formula import formula
from .installation import installation
from .shared import JsonOption, guarded, print_json, print_table

show = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@show.callback()
def _show() -> None:
    """Show the gallery, file formats, schemas, the automaton of a formula, or the installation."""


@guarded
def gallery(as_json: JsonOption = False) -> None:
    """List the problems that come with veil; every command that takes a scenario file also accepts gallery:NAME.

    Example: veil show gallery
    """
    from .. import gallery as problems

    listed = [(known, problems.describe(known)) for known in problems.names()]
    if as_json:
        print_json({"problems": [{"name": known, "description": words} for known, words in listed]})
    else:
        print_table(["name", "what it is"], listed)


@guarded
def formats(as_json: JsonOption = False) -> None:
    """List the file formats and what veil can read from and write to each.

    Example: veil show formats
    """
    from ..formats.registry import format_table

    rows = format_table()
    if as_json:
        print_json({"formats": rows})
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


@guarded
def schema(
    what: Annotated[
        Literal["scenario", "result"], typer.Argument(metavar="[scenario|result]", help="Which kind of file.")
    ] = "scenario",
    as_json: JsonOption = False,
) -> None:
    """Print the JSON schema of scenario files, for validation and completion in editors, or the schema of results.

    Example: veil show schema > scenario.schema.json
    """
    from ..formats.results.document import result_schema
    from ..formats.scenario.schema import schema as scenario_schema

    del as_json  # it is a JSON document either way
    print_json(result_schema() if what == "result" else scenario_schema())


for _command, _line in {
    gallery: "The problems that come with veil.",
    formats: "File formats, and what can be read and written.",
    schema: "The JSON schema of scenario files or results.",
    formula: "The automaton of a formula.",
    installation: "Versions, devices, and a self-test.",
}.items():
    show.command(short_help=_line)(_command)
