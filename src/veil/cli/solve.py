"""`veil solve` and `veil frontier`: search for policies, and keep what was found."""

import contextlib
import math
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..common.settings import settings
from ..common.signals import handling
from ..planning.options import SolveOptions
from ..tradeoffs.options import FrontierOptions
from .options import Further, with_options
from .progress import QuietOption, reported
from .report import remove_stale, write_beside
from .shared import (
    DOUBTED,
    GALLERY,
    INFEASIBLE,
    INTERRUPTED,
    LIMIT,
    NOT_SEARCHED,
    SOLVED,
    JsonOption,
    Opened,
    ScenarioArgument,
    check_output,
    note,
    open_policy,
    open_scenario,
    option,
    print_json,
    print_table,
    stop,
    write_text,
)

if TYPE_CHECKING:
    from ..common.settings import Given
    from ..formats.results.document import ResultDocument
    from ..planning.solution import Solution, Status
    from ..tradeoffs.frontier import Frontier


@with_options(SolveOptions)
def solve(
    scenario: ScenarioArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the result.", show_default="SCENARIO-result")
    ] = None,
    *,
    report: Annotated[bool, typer.Option("--report", help="Also write report.html, a page about the result.")] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the result of another run in the folder.")
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    changes: tuple[str, ...] = (),
    **options: object,
) -> None:
    """Find the policy with the largest opacity that meets the threshold on the return; save it with its history and proof.

    Options that you do not give are taken from the scenario's table [solve]. Set options without a flag, such as starts,
    iterations, goal, task, hide and features, with --set solve.NAME=VALUE. Ctrl-C stops the search, keeps the best policy found
    so far and says how to continue. A result of another problem, goal, objective, method or memory is not overwritten
    unless you pass --force.

    Exit codes: 0 solved, 2 bad input, 3 infeasible, 4 a limit was reached (the best so far is saved), 6 the time
    limit ended the search before its first iteration, 8 the answer may be far from the best, 130 interrupted.

    Example: veil solve patrol.toml -o patrol-result --memory timed --time-limit 60
    """
    from ..formats.results.folder import check_rerun, check_writable
    from ..formats.results.run import run_scenario

    opened = open_scenario(scenario, changes)
    chosen = _merged(opened.settings, _given(options, opened), quiet)
    folder = default_folder(scenario) if output is None else output
    check_writable(folder)
    if not force:
        check_rerun(folder, _question(opened, chosen))
    with reported(quiet=quiet) as progress, endings_keep_the_best():
        solution, document = run_scenario(opened.problem, {**chosen, "progress": progress}, folder, opened.origin)
    document, code = _tell(solution, document, folder, report=report, show=not as_json)
    if not quiet:
        tell_how_to_continue(solution.status, chosen, folder)
    if as_json:
        print_json({**document, "folder": str(folder), "exit_code": code})
    stop(code)


def _given(options: dict[str, object], opened: Opened) -> "Given":
    """The flags that were given, as `veil.solve` takes them."""
    given = {name: value for name, value in options.items() if value is not None}
    if "memory" in given:
        from ..policy.memories.words import memory_of

        given["memory"] = memory_of(str(given["memory"]))
    if "start" in given:
        given["start"] = open_policy(opened.problem, str(given["start"]))
    if "resume" in settings(SolveOptions) and Path(str(given.get("checkpoint", ""))).is_file():
        given["resume"] = given["checkpoint"]
    return given


def _question(opened: Opened, options: "Given") -> dict[str, object]:
    """What a result answers, by which a rerun is known."""
    from ..policy.memory import memory_document
    from ..problem.fingerprint import fingerprint

    known = settings(SolveOptions)
    asked = {name: options.get(name, known[name].default) for name in ("goal", "objective", "method", "memory")}
    method = "ascent" if asked["method"] == "auto" else asked["method"]
    memory = memory_document(asked["memory"])
    return asked | {"problem": fingerprint(opened.problem), "method": method, "memory": memory}


def _merged(scenario: "Given", given: "Given", quiet: bool) -> "Given":
    """The scenario's options and the flags, which go first; without what another method that a flag names does not have."""
    method = given.get("method", scenario.get("method", "auto"))
    if method != scenario.get("method", "auto"):
        from ..planning.methods import unsupported

        unused = unsupported(method, {name: value for name, value in scenario.items() if name != "method"})
        if unused and not quiet:
            note(f"veil: method {method} does not use these options of the scenario: {', '.join(unused)}")
        scenario = {name: value for name, value in scenario.items() if name not in unused}
    return {**scenario, **given}


def tell_how_to_continue(status: "Status", options: "Given", folder: Path) -> None:
    """After an interruption or at the time limit, how to continue the search."""
    if status.name not in ("INTERRUPTED", "TIME_LIMIT", "NOT_SEARCHED"):
        return
    kept = options.get("checkpoint")
    if kept is not None and Path(kept).is_file():
        note("veil: to continue the search, run the same command again")
    elif status.name != "NOT_SEARCHED" and options.get("method", "auto") in ("auto", "ascent", "primal-dual"):
        note(f"veil: to continue from this policy, run the same command with --start {folder}")


def _tell(
    solution: "Solution", document: "ResultDocument", folder: Path, *, report: bool, show: bool
) -> tuple[Mapping[str, object], int]:
    """Report what was written; returns the document and the exit code."""
    remove_stale(folder)
    page = write_beside(folder, solution) if report else None
    if show:
        print(solution.summary())
        print(f"written to {folder}: {', '.join([*document.files, 'result.json'])}")
        if page is not None:
            print(f"report: {page}")
    told = {} if page is None else {"report": str(page)}
    return document.model_dump(mode="json") | told, code_of_answer(solution)


def default_folder(scenario: str) -> Path:
    """The default folder of a result: in the working directory, named after the scenario."""
    name = scenario.removeprefix(GALLERY) if scenario.startswith(GALLERY) else Path(scenario).stem
    return Path(f"{name}-result")


def code_of_answer(solution: "Solution") -> int:
    """The exit code of an answer: that of its status, unless there are reasons to doubt an answer that was searched for."""
    return doubted(code_of_status(solution.status, solution.feasible), solution.doubts)


def doubted(code: int, doubts: Sequence[str]) -> int:
    """The exit code of an answer with reasons to doubt it."""
    return DOUBTED if code in (SOLVED, LIMIT) and doubts else code


def code_of_status(status: "Status", feasible: bool = True) -> int:
    """The exit code of a status."""
    codes = {"CONVERGED": SOLVED, "INTERRUPTED": INTERRUPTED, "INFEASIBLE": INFEASIBLE, "NOT_SEARCHED": NOT_SEARCHED}
    code = codes.get(status.name, LIMIT)
    return INFEASIBLE if code == SOLVED and not feasible else code


@contextlib.contextmanager
def endings_keep_the_best() -> Iterator[None]:
    """The first Ctrl-C or SIGTERM ends the search with its best result; only the third discards that as well."""
    times = 0

    def interrupt(*_: object) -> None:
        nonlocal times
        times += 1
        if times == 2:
            note("veil: stopping; press again to discard the result")
        else:
            raise KeyboardInterrupt

    with handling({signal.SIGINT: interrupt, signal.SIGTERM: interrupt}):
        yield


@with_options(FrontierOptions)
def frontier(
    scenario: ScenarioArgument,
    output: Annotated[Path | None, option("--output", "-o", help="File for the curve: .csv, else JSON.")] = None,
    *,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    changes: tuple[str, ...] = (),
    **options: object,
) -> None:
    """Find the largest opacity for each threshold on the return, up to the largest return.

    With --along the bound of another constraint is moved, up to the strictest that policies can meet. --set
    frontier.thresholds=[0.1, 0.2] names the bounds, instead of --points.

    The time limit is for the whole curve; starts and iterations of the scenario's table [solve] are those of its first
    search. With --proof-time-limit an upper bound over all policies is proven at each point.

    Exit codes: 0 the whole curve, 2 bad input, 4 the time limit was reached (the points found are kept), 8 points may be far
    from the best, 130 interrupted.

    Example: veil frontier patrol.toml --points 10 -o curve.csv

    Example: veil frontier patrol.toml --along energy --set "frontier.thresholds=[10, 15, 20]"
    """
    from .. import frontier as sweep
    from ..common.rounding import upper_text
    from ..formats.documents import json_text
    from ..formats.results.curve import curve_document, curve_marker

    marker = "" if output is None else curve_marker(output)
    check_output(output, marker)
    more = Further("frontier", changes, sweep)
    opened = open_scenario(scenario, more.changes)
    known = settings(FrontierOptions)
    settled = {name: value for name, value in opened.settings.items() if name in known}
    chosen = {**settled, **more.of(sweep), **_given(options, opened)}
    with reported(quiet=quiet) as progress, endings_keep_the_best():
        curve = sweep(opened.problem, **chosen, progress=progress)
    if curve.status.name in ("INTERRUPTED", "TIME_LIMIT") and chosen.get("checkpoint") and not quiet:
        note("veil: to continue the curve, run the same command again")
    named = chosen.get("thresholds")
    points = len(set(named)) if named is not None else chosen.get("points", known["points"].default)
    document = curve_document(opened.problem, curve, points, scenario=opened.source, changes=opened.changes)
    if output is not None:
        write_text(output, _csv(curve) if output.suffix == ".csv" else json_text(document), force=True, marker=marker)
    if as_json:
        print_json(document)
    else:
        print(f"{curve.policy_class}: {len(curve.points)} of {points} points in {curve.seconds:.1f} s")
        names = ["threshold", curve.along, "bits", "bits per unit"]
        rows = [[one.threshold, one.value, one.opacity.bits, one.price_bits] for one in curve.points]
        if any(math.isfinite(one.upper_bits) for one in curve.points):
            names.append("proven at most")
            rows = [[*row, float(upper_text(one.upper_bits, 6))] for row, one in zip(rows, curve.points, strict=True)]
        print_table(names, rows)
        for doubt in curve.doubts:
            print(doubt)
    stop(doubted(code_of_status(curve.status), curve.doubts))


def _csv(curve: "Frontier") -> str:
    from ..formats.results.curve import curve_names, curve_rows

    lines = [curve_names(curve), *(map(repr, row) for row in curve_rows(curve))]
    return "".join(",".join(line) + "\n" for line in lines)
