"""All figures of an answer as files, for papers: pdf, png or svg, the same bytes for the same answer."""

from pathlib import Path

from ..common.files import file_errors
from ..formats.results.folder import Result
from ..planning.solution import Solution
from ..problem.problem import Problem
from ..tradeoffs.frontier import Frontier
from . import plot
from .answer import Answer, make_answer
from .curve import read_curve


def write_figures(
    folder: str | Path,
    ending: str,
    problem: Problem,
    answer: Solution | Result | Answer,
    *,
    frontier: Frontier | str | Path | None = None,
    seed: int = 0,
) -> list[Path]:
    """Write policy, occupancy, belief, observer, convergence and, where there is a curve, frontier into a folder.

    **Arguments:** `ending`: `"pdf"`, `"png"` or `"svg"`; the rest as for `write_report`.

    **Returns:** the files.

    **Raises:** `InputError` where they cannot be written or matplotlib is not installed.
    """
    found = make_answer(problem, answer).solution
    made = {
        "policy": plot.policy(problem, found.policy),
        "occupancy": plot.occupancy(problem, found.policy),
        "belief": plot.belief(problem, found.policy, seed=seed),
        "observer": plot.observer(problem),
    }
    if len(found.history):
        made["convergence"] = plot.convergence(found)
    if frontier is not None:
        curve = read_curve(problem, frontier)
        made["frontier"] = plot.frontier(curve.points, found, curve.bounds)
    folder = Path(folder)
    with file_errors(folder, "the folder cannot be made"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, figure in made.items():
        plot.save(figure, folder / f"{name}.{ending}")
    return [folder / f"{name}.{ending}" for name in made]
