"""`veil reproduce`: the experiments of the paper, from the scenario to the tables and figures, with one command."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .shared import JsonOption, SeedOption, guarded, note, print_facts, print_json, print_table


@guarded
def reproduce(
    what: Annotated[
        Literal["paper"], typer.Argument(metavar="paper", help="What to reproduce: the paper.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results, tables and figures.")] = Path(
        "reproduction"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="A short run, under two minutes: fewer starts, iterations and layouts.")
    ] = False,
    seed: SeedOption = 0,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would be done and how long it takes, no more.")
    ] = False,
    write_docs: Annotated[
        Path | None,
        typer.Option(help="Folder that gets the page and its figures as well, as docs.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run every experiment of the paper and put its numbers beside ours.

    The convergence of the primal-dual method, the comparison with entropy-regularised policies, the authors' later grid, other
    layouts of the grid, and the initial-state number in three readings. Each part is kept as it is ready: a run that was
    stopped goes on where it was when it is started again. The same seed gives the same tables and figures.

    Example: veil reproduce paper --quick -o reproduction
    """
    from reproduction.run import plan_lines, run, write_pages
    from reproduction.store import Settings

    settings = Settings(quick=quick, seed=seed)
    if plan:
        lines = plan_lines(output, settings)
        print_json({"plan": lines}) if as_json else print("\n".join(lines))
        return
    store, results = run(output, settings, note)
    paths = write_pages(output, store, results)
    if write_docs is not None:
        paths += write_pages(write_docs, store, results)
    if as_json:
        print_json(_document(results, settings, paths))
    else:
        _show(results, paths)


def _document(results: dict[str, Any], settings: Any, paths: list[Path]) -> dict[str, Any]:
    """The tables as data, and the files."""
    from reproduction import table

    tables = {
        "paper": (table.PAPER_HEADINGS, table.paper_rows(results)),
        "baseline": (table.BASELINE_HEADINGS, table.baseline_rows(results)),
        "later": (table.LATER_HEADINGS, table.later_rows(results)),
        "readings": (table.READING_HEADINGS, table.reading_rows(results)),
        "layouts": (table.CONTEST_HEADINGS, table.contest_rows(results)),
    }
    return {
        "format": "veil-reproduction-1",
        "quick": settings.quick,
        "seed": settings.seed,
        "conclusions": table.conclusions(results),
        "tables": {name: {"headings": headings, "rows": rows} for name, (headings, rows) in tables.items()},
        "results": results,
        "files": [str(path) for path in paths],
    }


def _show(results: dict[str, Any], paths: list[Path]) -> None:
    from reproduction import table

    print_table(table.PAPER_HEADINGS, table.paper_rows(results), title="The paper's numbers beside ours")
    print()
    print_table(table.LATER_HEADINGS, table.later_rows(results), title="The authors' later grid")
    print()
    counts = table.conclusions(results)
    print_facts(
        (
            f"{words}: ours beats every baseline at equal or better return",
            f"on {counts[key]} of {counts['layouts']} layouts",
        )
        for words, key in (("last state", "last_holds"), ("initial state", "initial_holds"))
    )
    for page in paths:
        if page.name == "reproduction.md":
            print(f"written: {page}, with its figures and wall times beside it")
