"""`veil solve` and `veil frontier`: search for policies, and keep what was found."""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .report import remove_stale, write_beside
from .shared import (
    GALLERY,
    INFEASIBLE,
    INTERRUPTED,
    LIMIT,
    SOLVED,
    JsonOption,
    Opened,
    ScenarioArgument,
    console,
    guarded,
    note,
    open_scenario,
    print_json,
    print_table,
    stop,
    write_text,
)

if TYPE_CHECKING:
    from ..common.clock import Progress
    from ..planning.solution import Status

MemoryOption = Annotated[
    str | None,
    typer.Option(
        help="What the policy may depend on: markov, timed, states:K, observations:K or controller:N, the last three with"
        " +clock or -clock behind.",
        show_default="as the scenario says, else markov",
    ),
]
ObjectiveOption = Annotated[
    Literal["entropy", "leakage", "guess"] | None,
    typer.Option(help="H(Z|Y), I(Z;Y), or the observer's chance of guessing right.", show_default="entropy"),
]
EvaluationOption = Annotated[
    Literal["auto", "exact", "bracket", "sampled"] | None,
    typer.Option(help="How values are found during the search.", show_default="auto"),
]
SeedOption = Annotated[int | None, typer.Option(min=0, help="Of all random choices.", show_default="0")]
SequencesOption = Annotated[
    int | None, typer.Option(min=2, max=10**8, help="Runs that a sampled search draws.", show_default="2000")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no notes.")]


@guarded
def solve(
    scenario: ScenarioArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder of the result.", show_default="the scenario's name and -result"),
    ] = None,
    method: Annotated[
        Literal["auto", "ascent", "primal-dual", "game"] | None, typer.Option(help="The method.", show_default="auto")
    ] = None,
    memory: MemoryOption = None,
    goal: Annotated[
        Literal["opaque", "transparent"] | None,
        typer.Option(help="Hide the secret, or show it.", show_default="opaque"),
    ] = None,
    objective: ObjectiveOption = None,
    evaluation: EvaluationOption = None,
    per_start: Annotated[
        bool | None, typer.Option("--per-start/--on-average", help="The return must be kept from every start.")
    ] = None,
    min_opacity: Annotated[
        float | None, typer.Option(min=0, help="Bits to keep hidden; the return is then maximised.")
    ] = None,
    seed: SeedOption = None,
    starts: Annotated[int | None, typer.Option(min=1, max=100_000, help="How many policies to begin from.")] = None,
    sequences: SequencesOption = None,
    time_limit: Annotated[float | None, typer.Option(min=0, help="Seconds for the search.")] = None,
    iterations: Annotated[int | None, typer.Option(min=0, help="Steps of the search at most.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="File that the search is written to now and then.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Such a file, to go on from.")] = None,
    certificate: Annotated[
        bool | None,
        typer.Option("--certificate/--no-certificate", help="Prove how far from the best possible the answer is."),
    ] = None,
    certificate_time_limit: Annotated[float, typer.Option(min=0, help="Seconds for the proof.")] = 20.0,
    report: Annotated[
        bool, typer.Option("--report", help="Write report.html, a page about the result, as well.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the policy that hides the most while it keeps the return, and write it with its history and its proof.

    What is not given here is taken from the scenario. Ctrl-C ends the search and keeps the best policy so far.

    Exit codes: 0 solved, 2 bad input, 3 infeasible, 4 a limit was hit (the best so far is saved), 130 interrupted.

    Example: veil solve patrol.toml -o patrol-result --memory timed --time-limit 60
    """
    opened = open_scenario(scenario)
    given = {
        "method": method, "memory": None if memory is None else parse_memory(memory), "goal": goal, "objective": objective,
        "evaluation": evaluation, "per_start": per_start, "min_opacity": min_opacity, "seed": seed, "starts": starts,
        "sequences": sequences, "time_limit": time_limit, "iterations": iterations, "checkpoint": checkpoint,
        "resume": resume, "certificate": certificate,
    }  # fmt: skip
    said = {name: value for name, value in given.items() if value is not None}
    settings = opened.settings
    if method == "game" and settings.get("method", "auto") != "game":  # the scenario's settings are those of a search
        settings = {name: value for name, value in settings.items() if name in ("seed", "time_limit", "certificate")}
    options = settings | said
    folder = default_folder(scenario) if output is None else output
    options["certificate_time_limit"] = certificate_time_limit
    document, code = _search(opened, options, folder, report=report, show=not as_json, quiet=quiet)
    if as_json:
        print_json(document | {"folder": str(folder), "exit_code": code})
    stop(code)


def _search(
    opened: Opened, options: dict[str, Any], folder: Path, *, report: bool, show: bool, quiet: bool
) -> tuple[dict[str, Any], int]:
    """Search, prove, write and tell; returns the document that was written and the exit code."""
    from ..formats.results.folder import check_writable, write_result
    from ..planning.solve import solve as find

    check_writable(folder)
    with endings_keep_the_best(), progress_bar(quiet) as tell:
        solution = find(opened.problem, **options, progress=tell)
    with interrupts_wait():
        document = write_result(
            folder, opened.problem, solution, scenario=opened.source, certificate=solution.certificate,
            note=solution.certificate_note,
        )  # fmt: skip
        remove_stale(folder)
    page = write_beside(folder, opened.problem, solution) if report else None
    if show:
        print(solution.summary())
        if solution.certificate is None:
            print(f"no certificate: {solution.certificate_note}")
        print(f"written to {folder}: {', '.join([*document.files, 'result.json'])}")
        if page is not None:
            print(f"report: {page}")
    told = {} if page is None else {"report": str(page)}
    return document.model_dump(mode="json") | told, code_of_status(solution.status, solution.feasible)


def default_folder(scenario: str) -> Path:
    """Where a result goes if nothing else is said: a folder here, named after the scenario."""
    name = scenario.removeprefix(GALLERY) if scenario.startswith(GALLERY) else Path(scenario).stem
    return Path(f"{name}-result")


def parse_memory(text: str) -> Any:
    """A class of policies from the command line; raises `InputError`."""
    from .. import Controller, ObservationMemory, StateMemory
    from ..common.errors import InputError

    if text in ("markov", "timed"):
        return text
    kinds: dict[str, Callable[..., Any]] = {
        "states": StateMemory,
        "observations": ObservationMemory,
        "controller": Controller,
    }
    kind, _, rest = text.partition(":")
    number = rest.removesuffix("+clock").removesuffix("-clock")
    if kind not in kinds or not number.isdecimal() or len(number) > 6:
        raise InputError(
            "--memory", [f"it is {text!r}, expected markov, timed, states:K, observations:K or controller:N"]
        )
    clock = {"clock": rest.endswith("+clock")} if rest != number else {}
    return kinds[kind](int(number), **clock)


def code_of_status(status: "Status", feasible: bool = True) -> int:
    """The exit code that stands for the end of a search."""
    codes = {"CONVERGED": SOLVED, "INTERRUPTED": INTERRUPTED, "INFEASIBLE": INFEASIBLE}
    code = codes.get(status.name, LIMIT)
    return INFEASIBLE if code == SOLVED and not feasible else code


@contextlib.contextmanager
def progress_bar(quiet: bool) -> "Iterator[bool | Callable[[Progress], None]]":
    """What to hand to a search as `progress`: a function that moves a bar, or False where nobody looks."""
    if quiet or not sys.stderr.isatty():
        yield False
        return
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description:>8}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[news]}")
    with Bar(*columns, TimeElapsedColumn(), console=console(error=True), transient=True) as bar:
        task = bar.add_task("begin", total=None, news="")

        def tell(news: "Progress") -> None:
            bar.update(task, description=news.phase, completed=news.iteration, total=max(1, news.of), news=news.values)

        yield tell


@contextlib.contextmanager
def endings_keep_the_best() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM interrupts the search, which then closes; only the third gives that up as well."""
    times = 0

    def interrupt(*_: Any) -> None:
        nonlocal times
        times += 1
        if times == 2:
            note("veil: ending, a moment; once more to give up what was found")
        else:
            raise KeyboardInterrupt

    with _handling({signal.SIGINT: interrupt, signal.SIGTERM: interrupt}):
        yield


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Nothing interrupts what is being written; it takes a moment only."""
    with _handling({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_IGN}):
        yield


@contextlib.contextmanager
def _handling(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@guarded
def frontier(
    scenario: ScenarioArgument,
    points: Annotated[int, typer.Option(min=2, max=10_000, help="How many.")] = 20,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the curve: .csv, else JSON.", show_default=False)
    ] = None,
    memory: MemoryOption = None,
    objective: ObjectiveOption = None,
    evaluation: EvaluationOption = None,
    seed: SeedOption = None,
    starts: Annotated[int | None, typer.Option(min=1, max=100_000, help="How many policies to begin from.")] = None,
    sequences: SequencesOption = None,
    time_limit: Annotated[float | None, typer.Option(min=0, help="Seconds for the whole curve.")] = None,
    iterations: Annotated[int | None, typer.Option(min=0, help="Steps at most of the first search.")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find the most that can be hidden for each return, from where return costs nothing to the largest.

    Exit codes: 0 the whole curve, 2 bad input, 4 the time was up (the points found are kept), 130 interrupted.

    Example: veil frontier patrol.toml --points 10 -o curve.csv
    """
    from .. import frontier as sweep

    opened = open_scenario(scenario)
    given = {
        "memory": None if memory is None else parse_memory(memory), "objective": objective, "evaluation": evaluation,
        "seed": seed, "starts": starts, "sequences": sequences, "time_limit": time_limit, "iterations": iterations,
    }  # fmt: skip
    options = {name: value for name, value in opened.settings.items() if name in given}
    options |= {name: value for name, value in given.items() if value is not None}
    with endings_keep_the_best(), progress_bar(quiet) as tell:
        curve = sweep(opened.problem, points, progress=tell, **options)
    document = _curve_document(opened, curve, points)
    if output is not None:
        write_text(output, _curve_text(document, output), force=True)
    if as_json:
        print_json(document)
    else:
        print(f"{curve.policy_class}: {len(curve.points)} of {points} points in {curve.seconds:.1f} s")
        rows = [[float(point[name]) for name in _POINT] for point in document["points"]]
        print_table(["threshold", "return", "bits", "bits a unit"], rows)
    stop(code_of_status(curve.status))


_POINT = ("threshold", "expected_return", "opacity_bits", "price_bits")


def _curve_document(opened: Opened, curve: Any, wanted: int) -> dict[str, Any]:
    from ..formats.results.folder import opacity_document, problem_document

    points = [
        {
            "threshold": point.threshold,
            "expected_return": point.expected_return,
            "opacity_bits": point.opacity.bits,
            "price_bits": point.price_bits,
            "opacity": opacity_document(point.opacity),
        }
        for point in curve.points
    ]
    return {
        "format": "veil-frontier-1",
        "problem": problem_document(opened.problem, opened.source),
        "policy_class": curve.policy_class,
        "status": curve.status.name,
        "seconds": curve.seconds,
        "points_wanted": wanted,
        "points": points,
    }


def _curve_text(document: dict[str, Any], path: Path) -> str:
    from ..formats.documents import json_text

    if path.suffix != ".csv":
        return json_text(document)
    lines = [",".join(repr(point[name]) for name in _POINT) for point in document["points"]]
    return "\n".join([",".join(_POINT), *lines]) + "\n"
