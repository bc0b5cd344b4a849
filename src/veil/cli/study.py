"""`veil study`: many runs from one file, on this machine or a cluster, and their table."""

import shutil
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..common.signals import handling
from .options import Commands
from .progress import QuietOption
from .shared import (
    GATE_MISSED,
    JsonOption,
    MaxLeakageOption,
    MinOpacityOption,
    argument,
    guarded,
    note,
    option,
    print_facts,
    print_json,
    print_table,
    stop,
)

if TYPE_CHECKING:
    from ..measure.gates import Gate
    from ..study.definition import Study
    from ..study.table import StudyResult

SOME_FAILED = 4


class _RunByDefault(Commands):
    """`veil study FILE` is `veil study run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h", "diff"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


studies = typer.Typer(
    cls=_RunByDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Run a study: scenarios × settings × seeds, on all cores or a cluster. veil study FILE is veil study run FILE.",
)


@studies.command("run")
@guarded
def run(
    study: Annotated[Path, argument(metavar="STUDY", help="A study file (.toml).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the study.", show_default="STUDY-study")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            help="Number of worker processes, 1 for one run after the other; or the address of a Dask scheduler,"
            " such as tcp://host:8786.",
            show_default="cores",
        ),
    ] = None,
    worker_memory: Annotated[
        float | None, typer.Option(min=0.1, help="Memory of each worker in GiB.", show_default="an equal share")
    ] = None,
    resource: Annotated[
        list[str] | None,
        option(help="A resource that a worker must have, such as GPU=1. Repeatable.", metavar="NAME=NUMBER"),
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the runs and forecast their cost.")] = False,
    redo: Annotated[
        bool, typer.Option("--redo", help="Start failed runs again, check finished ones and repeat damaged ones.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Print each event as a line of JSON.")] = False,
    min_opacity: MinOpacityOption = None,
    max_leakage: MaxLeakageOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run what a study still has to do; the same command continues one that was stopped, extended or damaged.

    Each run is a result folder below runs/. The folder also has one table (table.csv, table.parquet), the
    manifest study.json and the log events.jsonl.

    Exit codes: 0 all runs are done, 2 bad input, 4 some runs failed (the table has their reasons), 7 a run misses
    --min-opacity or --max-leakage, 130 interrupted.

    Example: veil study layouts.toml -o layouts-study --workers 2
    """
    from ..study.definition import Study

    asked = Study.load(study)
    folder = Path(f"{study.stem}-study") if output is None else output
    number, scheduler = _team(workers)
    if dry_run:
        _forecast(asked, folder, number, as_json)
        return
    teller = _Teller(len(asked.runs), events=events, quiet=quiet or as_json)
    try:
        with handling({signal.SIGTERM: signal.default_int_handler}):
            result = asked.run(
                folder,
                workers=number,
                memory=None if worker_memory is None else round(worker_memory * 2**30),
                scheduler=scheduler,
                resources=_resources(resource),
                retry_failed=redo,
                repair=redo,
                tell=teller,
            )
    except KeyboardInterrupt:
        continues = f"veil study {study} -o {folder}"
        raise KeyboardInterrupt(
            f"interrupted; what is done is kept, and the same command continues: {continues}"
        ) from None
    finally:
        teller.close()
    missed = result.missed_gates(min_opacity, max_leakage)
    _tell_end(result, missed, as_json, events)
    stop(GATE_MISSED if missed else SOME_FAILED if result.counts()["failed"] else 0)


@studies.command("table")
@guarded
def table(
    folder: Annotated[Path, argument(metavar="FOLDER", help="Folder of a study.")],
    other: Annotated[
        Path | None, argument(metavar="OTHER", help="Folder of another study: show the runs that differ.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Columns besides the factors, separated by commas.",
            show_default="status,bits,expected_return,proven_upper,seconds; of a comparison status,feasible,bits,"
            "expected_return,proven_upper,fingerprint",
        ),
    ] = None,
    *,
    tolerance: Annotated[float, typer.Option(min=0.0, help="In a comparison, ignore differences up to this.")] = 0.0,
    means: Annotated[
        bool,
        typer.Option("--means", help="Show runs that differ only in their seed as one row: mean ± standard deviation."),
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print the table for LaTeX, with the package booktabs.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print the current table of a study, and write it to its folder; or show the runs in which two studies differ.

    Runs of two studies are matched by scenario and factors. Values that depend on a time limit are shown as time_limited and
    do not count for the exit code: the bounds of certificates, and all numbers of runs that ended at their time limit.
    Columns that --columns names always count.

    Exit codes: 0 done, or no difference; 1 some difference; 2 bad input.

    Example: veil study table layouts-study --columns bits,expected_return --means --latex

    Example: veil study table before-study after-study --tolerance 1e-6
    """
    from ..common.errors import InputError
    from ..common.suggest import suggestion
    from ..study.columns import SHOWN
    from ..study.table import StudyResult

    results = [StudyResult(place) for place in (folder, other) if place is not None]
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    for name in wanted or ():
        if not all(name in result.columns for result in results):
            raise InputError("--columns", [f"there is no column {name!r}: {suggestion(name, results[0].columns)}"])
    if len(results) > 1:
        stop(_compare(results[0], results[1], tolerance, wanted, as_json))
    _print(results[0], wanted or SHOWN, means, latex, as_json)


def _compare(
    first: "StudyResult", second: "StudyResult", tolerance: float, columns: list[str] | None, as_json: bool
) -> int:
    """Show the runs in which two studies differ; returns the exit code."""
    from ..study.table import difference

    rows = difference(first, second, tolerance, columns)
    counted = any(row["what"] for row in rows)
    if as_json:
        print_json({"runs": [len(first.runs), len(second.runs)], "differences": rows})
    elif rows:
        _print_rows(list(rows[0]), rows)
        if not counted:
            note("veil: the runs differ only in columns that a time limit decides (time_limited)")
    else:
        print(f"no difference in {len(first.runs)} runs")
    return 1 if counted else 0


def _print(result: "StudyResult", columns: Sequence[str], means: bool, latex: bool, as_json: bool) -> None:
    from ..study.summary import latex_table, over_seeds

    result.write_table()
    shown = list(dict.fromkeys([*result.factors, *columns]))
    rows = [{name: row[name] for name in shown} for row in result.rows()]
    if means:
        rows = over_seeds(result.rows(), result.factors, columns)
        shown = list(rows[0]) if rows else shown
    if as_json:
        plain = [{name: _mean_document(cell) for name, cell in row.items()} for row in rows]
        print_json({"name": result.name, "rows": plain})
    elif latex:
        print(latex_table(shown, [list(row.values()) for row in rows]))
    else:
        _print_rows(shown, rows)
        if limited := result.limited():
            note(f"veil: {limited}")


def _print_rows(headings: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    print_table(headings, [["" if value is None else value for value in row.values()] for row in rows])


def _mean_document(cell: object) -> object:
    from ..study.analysis import Mean

    return {"mean": cell.value, "deviation": cell.deviation} if isinstance(cell, Mean) else cell


def _team(workers: str | None) -> tuple[int | None, str | None]:
    """The number of worker processes, or the address of a scheduler."""
    from ..common.errors import InputError

    if workers is None or "://" in workers:
        return None, workers
    if not workers.isdecimal() or not 1 <= int(workers) < 10**6:
        words = (
            f"found {workers!r}, expected a number of processes, or the address of a scheduler, such as tcp://host:8786"
        )
        raise InputError("--workers", [words])
    return int(workers), None


def _resources(texts: list[str] | None) -> dict[str, float] | None:
    from ..common.errors import InputError

    try:
        return {name: float(number) for name, _, number in (text.partition("=") for text in texts or ())} or None
    except ValueError:
        raise InputError("--resource", [f"found {texts}, expected NAME=NUMBER, such as GPU=1"]) from None


def _forecast(study: "Study", folder: Path, workers: int | None, as_json: bool) -> None:
    """Count runs and forecast their cost, without running anything."""
    import os

    from ..study.folder import StudyFolder
    from ..study.forecast import forecast_seconds

    kept = StudyFolder(folder)
    done = [run for run in study.runs if kept.is_done(run.key)]
    keys = {run.key for run in done}
    left = [run for run in study.runs if run.key not in keys]
    seconds, source = forecast_seconds(left, done, kept)
    count = workers or os.cpu_count() or 1
    wall = None if seconds is None else seconds / min(count, max(1, len(left)))
    other = len(kept.leftovers({run.key: run for run in study.runs}))
    facts = {
        "runs": len(study.runs),
        "done": len(done),
        "to do": len(left),
        "processor time": None if seconds is None else f"{_duration(seconds)}, from {source}",
        f"wall time with {count} workers": None if wall is None else _duration(wall),
        "other runs in the folder": other or None,
    }
    if as_json:
        print_json({"runs": len(study.runs), "done": len(done), "to_do": len(left), "processor_seconds": seconds,
                    "wall_seconds": wall, "workers": count, "forecast_from": source, "other_runs": other})  # fmt: skip
        return
    if seconds is None and left:
        facts["processor time"] = "not known before a run is finished: set solve.time_limit, or run some"
    print_facts(facts.items())


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _tell_end(result: "StudyResult", missed: "list[tuple[str, Gate]]", as_json: bool, events: bool) -> None:
    counts = result.counts()
    for label, one in missed:
        note(f"veil: {label}: {one.text}")
    if as_json:
        told = [{"run": label, **one.document()} for label, one in missed]
        print_json(
            {"folder": str(result.folder), **counts, "table": str(result.folder / "table.csv"), "missed_gates": told}
        )
    elif not events:
        words = f"{counts['done']} of {len(result.runs)} runs done"
        failed = f", {counts['failed']} failed" if counts["failed"] else ""
        print(f"{words}{failed}: {result.folder / 'table.csv'}")
        if limited := result.limited():
            note(f"veil: {limited}")


def _found(event: dict[str, Any]) -> str:
    """The numbers of a run on one line."""
    parts = [f"{event['bits']:.4f} bits, return {event['expected_return']:.4g}, {event['seconds']:.1f} s"]
    return ", ".join(
        [*parts, *([] if event["status"] == "CONVERGED" else [str(event["status"]).lower().replace("_", " ")])]
    )


class _Teller:
    """Tells a person or a pipeline what happens: a line that is redrawn on a terminal, else a line for each run."""

    def __init__(self, runs: int, *, events: bool, quiet: bool):
        self._runs, self._events, self._quiet = runs, events, quiet
        self._draws = sys.stderr.isatty() and not events
        self._drawn = False

    def __call__(self, event: dict[str, Any]) -> None:
        if self._events:
            import json

            print(json.dumps(event, ensure_ascii=False), flush=True)
        elif not self._quiet:
            self._show(event)

    def _show(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "study":
            note(f"veil: {event['runs']} runs, {event['to_do']} to do")
        elif kind == "executor":
            page = f"; Dask's page: {event['dashboard']}" if event.get("dashboard") else ""
            note(f"veil: {event['words']}{page}")
        elif kind in ("done", "failed"):
            self._progress(event)
        elif kind != "end":
            self.close()
            note(f"veil: {kind}: {event.get('run', '')} {event.get('reason', '')}".rstrip())

    def _progress(self, event: dict[str, Any]) -> None:
        left = event["left_seconds"]
        ahead = "" if left is None or not event["left"] else f"; {_duration(left)} left"
        line = (
            f"[{self._runs - event['left']}/{self._runs}] {event['run']}: {event.get('reason') or _found(event)}{ahead}"
        )
        if not self._draws or event["event"] == "failed":
            self.close()
            note(line)
            return
        width = shutil.get_terminal_size().columns - 1  # a line that wraps would stay
        sys.stderr.write(f"\r\x1b[2K{line[:width]}")
        sys.stderr.flush()
        self._drawn = True

    def close(self) -> None:
        """Erase the line that was drawn."""
        if self._drawn:
            sys.stderr.write("\r\x1b[2K")
            self._drawn = False
