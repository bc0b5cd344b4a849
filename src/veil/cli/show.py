"""`veil show`: what there is to know without a scenario: the gallery, formats, schemas, formulas, the installation."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from .formula import formula
from .installation import installation
from .shared import JsonOption, guarded, print_json, print_table


@guarded
def show(
    what: Annotated[
        Literal["gallery", "formats", "schema", "formula", "installation"],
        typer.Argument(
            metavar="gallery|formats|schema|formula|installation",
            help="The problems that come with veil; file formats; a JSON schema; the automaton of a formula; versions,"
            " devices and a self-test.",
            show_default=False,
        ),
    ],
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUBJECT]",
            help="Of schema: scenario, result, frontier or policy; of formula: the formula, such as 'F (badge & X F vault)'.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Of formula: draw the automaton to this SVG file.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the gallery, file formats, schemas for editors and other programs, what a formula means, or the installation.

    Every command that takes a scenario file also accepts gallery:NAME.

    Exit codes: 0 done, 1 the self-test of the installation failed, 2 bad input.

    Example: veil show gallery

    Example: veil show schema scenario > scenario.schema.json

    Example: veil show formula 'G (open -> O key)' -o key.svg
    """
    from ..common.errors import InputError

    if what == "formula":
        if subject is None:
            raise InputError("show", ["name a formula too, as veil show formula 'F vault'"])
        formula(subject, output, as_json)
        return
    if output is not None:
        raise InputError("--output", ["it is for a formula: veil show formula FORMULA -o FILE"])
    if what == "schema":
        _schema(subject or "scenario")
        return
    if subject is not None:
        raise InputError("show", [f"veil show {what} takes no subject, found {subject!r}"])
    shown: dict[str, Callable[[bool], None]] = {"gallery": _gallery, "formats": _formats, "installation": installation}
    shown[what](as_json)


def _gallery(as_json: bool) -> None:
    from .. import gallery as problems

    listed = [(known, problems.describe(known)) for known in problems.names()]
    if as_json:
        print_json({"problems": [{"name": known, "description": words} for known, words in listed]})
    else:
        print_table(["name", "what it is"], listed)


def _formats(as_json: bool) -> None:
    from ..formats.registry import format_table

    rows = format_table()
    if as_json:
        print_json({"formats": rows})
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _schema(kind: str) -> None:
    from ..common.errors import InputError
    from ..common.suggest import suggestion
    from ..formats.policies.text import policy_schema
    from ..formats.results.curve import frontier_schema
    from ..formats.results.document import result_schema
    from ..formats.scenario.schema import schema

    known = {"scenario": schema, "result": result_schema, "frontier": frontier_schema, "policy": policy_schema}
    if kind not in known:
        raise InputError("show schema", [f"there is no schema {kind!r}: {suggestion(kind, known)}"])
    print_json(known[kind]())
