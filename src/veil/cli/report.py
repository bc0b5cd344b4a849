"""`veil report`: a result as an HTML page, and as figures for papers."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Further
from .progress import QuietOption, working
from .shared import (
    GALLERY,
    JsonOption,
    PairOption,
    argument,
    check_output,
    complete_policy,
    complete_scenario,
    is_result,
    open_measured,
    open_policy,
    open_recorded,
    option,
    print_json,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..planning.solution import Solution
    from ..problem.problem import Problem
    from ..report.answer import Answer
    from ..tradeoffs.frontier import Frontier

    _Subject = tuple[Problem, Answer, Path, Path | None]

REPORT = "report.html"
CURVE = "frontier.json"
_SHARE = 0.5  # of the time that is left, for measuring and for the frontier
_MOST_POINTS = 1000
_MOMENT = 0.01  # seconds that each part has at least


def report(
    subject: Annotated[
        str,
        argument(
            metavar="RESULT|SCENARIO",
            help="A result folder, written by veil solve; the folder of a study; or a scenario, with POLICY.",
            autocompletion=complete_scenario,
        ),
    ],
    policy: Annotated[
        str | None,
        argument(
            metavar="POLICY",
            help="A policy to measure in the scenario, without a search: a file, a result folder, or uniform.",
            autocompletion=complete_policy,
        ),
    ] = None,
    pair: PairOption = "own",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="HTML file to write.",
            show_default="report.html in the folder, or SCENARIO-report.html",
        ),
    ] = None,
    frontier: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NUMBER",
            help="A frontier, written by veil frontier -o; or a number of points, to compute it.",
            show_default="frontier.json in the folder, if present",
        ),
    ] = None,
    time_limit: Annotated[
        float | None, option(min=0, help="Time limit in seconds; what does not fit is estimated or left out.")
    ] = None,
    figures: Annotated[Path | None, option(metavar="DIR", help="Folder to write figures for papers to.")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Write a self-contained HTML page about a result, about any policy in a scenario, or about a study, and figures.

    --set report.NAME=VALUE sets runs (sampled runs to show, 6), sequences (revealing sequences, 12), seed, format (of the
    figures: pdf, png or svg), and for a study quantity (the column of its figures, bits).

    Example: veil report patrol-result --frontier 10 --figures figures

    Example: veil report patrol.toml uniform
    """
    from ..common.clock import Clock
    from ..report.figures import write_figures
    from ..report.html import MARKER, write_report
    from ..study.page import write_study_report

    clock = Clock(time_limit)
    more = Further("report", changes, write_report, write_study_report, figure_format)
    ending = figure_format(**more.of(figure_format))
    points, known = _frontier(frontier)

    def left(share: float = 1.0) -> float | None:
        return None if time_limit is None else max(share * clock.left, _MOMENT)

    if policy is None and is_study(subject):
        from ..study.table import StudyResult

        _tell(write_study_report(StudyResult(Path(subject)), **more.of(write_study_report)), as_json)
        return
    shown = more.of(write_report)
    seed = shown.get("seed", 0)
    if policy is None:
        problem, answer, place, folder = _of_result(subject, more.changes, pair)
    else:
        problem, answer, place, folder = _of_policy(subject, policy, more.changes, pair, seed, left(_SHARE))
    place = place if output is None else output
    check_output(place, MARKER.decode())
    curve = _curve(folder, problem, answer.solution, known, points, left(_SHARE), quiet=quiet or as_json)
    with working("writing the report", quiet=quiet or as_json):
        write_report(place, problem, answer, **shown | {"frontier": curve, "time_limit": left()})
        written = [place]
        if figures is not None:
            written += write_figures(figures, ending, problem, answer, frontier=curve, seed=seed)
    _tell(written, as_json)


def figure_format(*, format: str = "pdf") -> str:
    """The format of figures that `--set report.format=` gives."""
    from ..common.errors import InputError

    if format not in ("pdf", "png", "svg"):
        raise InputError("--set", [f"report.format={format}: expected pdf, png or svg"])
    return format


def _frontier(text: str | None) -> tuple[int | None, Path | None]:
    """The number of points to compute, or the file of a frontier."""
    from ..common.errors import InputError

    if text is None or not text.isdecimal():
        return None, None if text is None else Path(text)
    if not 2 <= int(text[:5]) <= _MOST_POINTS:
        raise InputError("--frontier", [f"found {text} points, expected 2 to {_MOST_POINTS:,}"])
    return int(text), None


def _tell(written: "Sequence[Path]", as_json: bool) -> None:
    if as_json:
        print_json({"report": str(written[0]), "files": [str(path) for path in written]})
        return
    for path in written:
        print(f"wrote {path}")


def is_study(text: str) -> bool:
    """Whether a text names the folder of a study."""
    from ..study.folder import MANIFEST

    return (Path(text) / MANIFEST).is_file()


def _of_result(subject: str, changes: tuple[str, ...], pair: str) -> "_Subject":
    """The answer of a result folder, and where its page goes."""
    from ..common.errors import InputError
    from ..formats.results.folder import read_result
    from ..problem.pairs import OWN
    from ..report.answer import make_answer

    if subject.startswith(GALLERY) or (subject.endswith(".toml") and not Path(subject).is_dir()):
        raise InputError(subject, [f"this is a scenario: name a policy too, such as veil report {subject} uniform"])
    if pair != OWN:
        raise InputError("report", ["--pair is for a policy in a scenario; the page of a result lists its pairs"])
    found = read_result(subject)
    problem = open_recorded(found, changes)
    return problem, make_answer(problem, found), found.folder / REPORT, found.folder


def _of_policy(
    subject: str, policy: str, changes: tuple[str, ...], pair: str, seed: int, time_limit: float | None
) -> "_Subject":
    """The answer about a policy in a scenario, and where its page goes; with its proof if it is a result of this problem."""
    from ..common.errors import InputError
    from ..formats.results.folder import read_result
    from ..problem.fingerprint import fingerprint
    from ..problem.pairs import OWN
    from ..report.answer import audit, make_answer

    problem = open_measured(subject, changes).problem
    if pair == OWN and is_result(policy):
        found = read_result(policy)
        if found.document.problem.fingerprint == fingerprint(problem):
            return problem, make_answer(problem, found), found.folder / REPORT, found.folder
    name = subject.removeprefix(GALLERY) if subject.startswith(GALLERY) else Path(subject).stem
    acting = open_policy(problem, policy)
    if pair != OWN and acting.needs_observations:
        acts = "the policy acts on what the problem's own observer sees, whose page shows it"
        raise InputError("report", [f"{acts}: measure this pair with veil measure --pair {pair}"])
    problem = problem.only(pair)
    measured = audit(problem, acting, seed=seed, time_limit=time_limit)
    return problem, measured, Path(f"{name}-{REPORT}"), None


def write_beside(folder: Path, solution: "Solution") -> Path:
    """The report of `veil solve --report`, in the folder of its result."""
    from ..report.html import write_report

    assert solution.problem is not None
    curve = _curve(folder, solution.problem, solution, None, None, None, quiet=True)
    write_report(folder / REPORT, solution.problem, solution, frontier=curve)
    return folder / REPORT


def remove_stale(folder: Path) -> None:
    """Delete the page and the frontier of an older result in the same folder; files that veil did not write stay."""
    from ..common.files import check_replaceable
    from ..formats.results.curve import FORMAT

    for name, marker in ((REPORT, b'name="generator" content="veil"'), (CURVE, FORMAT.encode())):
        with suppress(OSError):
            check_replaceable(folder / name, marker)
            (folder / name).unlink()


def _curve(
    folder: Path | None,
    problem: "Problem",
    solution: "Solution",
    frontier: Path | None,
    points: int | None,
    time_limit: float | None,
    *,
    quiet: bool,
) -> "Path | Frontier | None":
    """The frontier to show: a given file, that of the folder, or one computed now if asked for or quick."""
    from ..formats.results.curve import write_curve
    from ..report.curve import sweep

    if frontier is not None:
        return frontier
    if points is None and folder is None:
        return None
    if points is None and folder is not None and (folder / CURVE).exists():
        return folder / CURVE
    curve = sweep(problem, solution, points, progress=None if points and not quiet else False, time_limit=time_limit)
    if curve is None or folder is None:
        return curve
    with suppress(OSError):  # a folder that cannot be written is reported elsewhere
        return write_curve(folder / CURVE, problem, curve)
    return curve
