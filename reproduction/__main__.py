"""`python -m reproduction`: run the paper's experiments, tabulate them, and draw their figures."""

from pathlib import Path
from typing import Annotated

import typer

from veil.cli.shared import JsonOption, SeedOption, guarded, note, print_facts, print_json, print_table

from . import table
from .run import plan_lines, run, write_pages
from .store import Settings

app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=False)


@app.command()
@guarded
def reproduce(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results, tables and figures.")] = Path(
        "out/reproduction"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="A short run, under two minutes: fewer starts, iterations and layouts.")
    ] = False,
    seed: SeedOption = 0,
    workers: Annotated[
        str, typer.Option(help="Processes that share the parts, or a Dask scheduler, such as tcp://…")
    ] = "1",
    plan: Annotated[bool, typer.Option("--plan", help="Only list the parts and estimate the time they take.")] = False,
    write_docs: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the page and its figures to as well, such as reproduction.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run every experiment of the paper and compare its numbers with ours.

    The experiments: convergence of the primal-dual method, comparison with entropy-regularised policies, the authors' later
    grid, other layouts of the grid, and the initial-state number in three readings. Each part is saved when it is done, so
    an interrupted run is resumed by the same command. The same seed gives the same tables and figures.

    Example: make reproduce ARGS=--quick
    """
    settings = Settings(quick=quick, seed=seed)
    if plan:
        lines = plan_lines(output, settings)
        print_json({"plan": lines}) if as_json else print("\n".join(lines))
        return
    store, results = run(output, settings, note, workers)
    paths = write_pages(output, store, results)
    if write_docs is not None:
        paths += write_pages(write_docs, store, results)
    if as_json:
        print_json(_document(results, settings, paths))
    else:
        _show(results, paths)


def _document(results: dict[str, object], settings: Settings, paths: list[Path]) -> dict[str, object]:
    """The tables as data, and the files."""
    tables = {
        "paper": (table.PAPER_HEADINGS, table.paper_rows(results)),
        "baseline": (table.BASELINE_HEADINGS, table.baseline_rows(results)),
        "spread": (table.SPREAD_HEADINGS, table.spread_rows(results)),
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


def _show(results: dict[str, object], paths: list[Path]) -> None:
    print_table(table.PAPER_HEADINGS, table.paper_rows(results), title="The paper's numbers and ours")
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
            print(f"wrote {page}, with its figures beside it")


if __name__ == "__main__":
    app(prog_name="python -m reproduction")
