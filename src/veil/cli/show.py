"""`veil show`: the gallery, formats, schemas, formulas, the installation."""

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

from .installation import installation
from .shared import JsonOption, argument, option, print_json, print_table, write_text

# Which document a JSON schema describes, and the function that makes it; imported when it is asked for.
_SCHEMAS = {
    "scenario": "veil.formats.scenario.schema:schema",
    "result": "veil.formats.results.document:result_schema",
    "frontier": "veil.formats.results.curve:frontier_schema",
    "policy": "veil.formats.policies.text:policy_schema",
    "fit": "veil.learning.fitted:fit_schema",
    "audit": "veil.learning.audited:audit_schema",
}


def _complete(incomplete: str) -> list[str]:
    return [name for name in _SHOWN if name.startswith(incomplete)]


def show(
    subject: Annotated[
        str,
        argument(
            metavar="gallery|formats|schema|formula|installation",
            help="The problems that come with veil; file formats; a JSON schema; the automaton of a formula; versions,"
            " devices and a self-test.",
            autocompletion=_complete,
        ),
    ],
    detail: Annotated[
        str | None,
        argument(
            metavar="DETAIL",
            help=f"Of schema: {', '.join(_SCHEMAS)}; of formula: the formula, such as 'F (badge & X F vault)'.",
        ),
    ] = None,
    output: Annotated[
        Path | None, option("--output", "-o", help="Of formula: draw the automaton to this SVG file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what comes with veil. Every command that takes a scenario file also accepts gallery:NAME.

    Exit codes: 0 done, 1 the self-test of the installation failed, 2 bad input.

    Example: veil show gallery

    Example: veil show schema scenario > scenario.schema.json

    Example: veil show formula 'G (open -> O key)' -o key.svg
    """
    from ..common.errors import InputError
    from ..common.suggest import suggestion

    unused = [("DETAIL", detail is not None and subject not in ("schema", "formula"), "schema and formula"),
              ("--output", output is not None and subject != "formula", "formula")]  # fmt: skip
    for what, is_given, of in unused:
        if is_given:
            raise InputError(what, [f"veil show {subject} does not take it; it is for {of}"])
    if subject == "formula":
        if detail is None:
            raise InputError("show", ["name a formula too, such as veil show formula 'F vault'"])
        _formula(detail, output, as_json)
    elif subject == "schema":
        _schema(detail or "scenario")
    elif subject in _SHOWN:
        _SHOWN[subject](as_json)
    else:
        raise InputError("show", [f"there is nothing called {subject!r}: {suggestion(subject, _SHOWN)}"])


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

    if kind not in _SCHEMAS:
        raise InputError("show schema", [f"there is no schema {kind!r}: {suggestion(kind, _SCHEMAS)}"])
    print_json(resolve_name(_SCHEMAS[kind])())


def _formula(text: str, svg: Path | None, as_json: bool) -> None:
    """Read a formula and show the smallest automaton that accepts the runs on which it holds; draw it to a file if asked."""
    from ..problem.formulas.drawing import conditions
    from ..problem.formulas.formula import Formula

    read = Formula(text)
    automaton = read.automaton()
    arrows = [(f"q{here}", words, f"q{there}") for (here, there), words in conditions(automaton).items()]
    accepting = [f"q{state}" for state, accepts in enumerate(automaton.accepting.tolist()) if accepts]
    if svg is not None:
        write_text(svg, read.svg(), force=True, marker="<svg")
    if as_json:
        steps = [dict(zip(("from", "if", "to"), arrow, strict=True)) for arrow in arrows]
        print_json(
            {
                "formula": text,
                "propositions": list(read.propositions),
                "states": len(automaton.accepting),
                "accepting": accepting,
                "arrows": steps,
                "file": None if svg is None else str(svg),
            }
        )
        return
    print(f"propositions   {', '.join(read.propositions) or 'none'}")
    print(f"states         {len(automaton.accepting)}, from q0; accepting: {', '.join(accepting) or 'none'}")
    print_table(["from", "if", "to"], arrows)
    if svg is not None:
        print(f"written to {svg}")


_SHOWN: dict[str, Callable[..., None]] = {
    "gallery": _gallery,
    "formats": _formats,
    "schema": _schema,
    "formula": _formula,
    "installation": installation,
}
