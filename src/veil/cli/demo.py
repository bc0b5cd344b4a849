"""`veil demo`: from a problem to its answer, proof and report, on the paper's grid and on an office floor."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .shared import JsonOption, print_json, print_table

if TYPE_CHECKING:
    from ..planning.solution import Solution

_FLOOR_SECONDS, _PROOF_SECONDS = 14.0, 8.0
_PAPER: tuple[str, ...] = ("the paper, its own layout, sampled", "0.930", "0.328", "", "")
_SEARCHES: dict[str, dict[str, Any]] = {
    "stationary policy, as in the paper": {},
    "time-dependent policy": {"memory": "timed"},
    "history policy, by the game (gap 0.001)": {"method": "game"},
}


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for results and reports.")
    ] = Path("veil-demo"),
    as_json: JsonOption = False,
) -> None:
    """Solve the paper's problem and an office floor, prove both answers, and write their reports. Takes under a minute.

    Example: veil demo
    """
    from .. import __version__
    from ..formats.results.document import encoded
    from ..formats.results.folder import check_writable

    for name in ("paper", "night-shift"):
        check_writable(output / name)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        print(f"veil {__version__}")
        found = {"paper": _paper(output / "paper"), "night-shift": _floor(output / "night-shift")}
        print("\nOpen the reports in a browser:")
        for page, _ in found.values():
            print(f"  {page.resolve()}")
    if as_json:
        print_json(
            {
                name: {"opacity": encoded(solution.opacity), "report": str(page)}
                for name, (page, solution) in found.items()
            }
        )


def _paper(folder: Path) -> "tuple[Path, Solution]":
    """The paper's problem in three classes of policies, with the proof of the first and the trade-off with the return."""
    import veil

    from ..report.html import write_report

    problem = veil.gallery.load("paper-last-state")
    print(
        "\n1. The paper's grid: a robot hides whether it ends on a marked cell (?). Ten decisions, return at least 0.3.\n"
        "S: start; G: goals, which pay; b, r, y, g: the ranges of four sensors, each of which the observer receives.\n"
    )
    print(_drawing("paper-last-state"))
    rows, solutions = list[tuple[str, ...]]([_PAPER]), list["Solution"]()
    for point in veil.soft.soft_sweep(problem, temperatures=(0.02, 0.03)):
        name = f"entropy-regularised baseline, τ = {point.temperature}"
        rows.append((name, f"{point.opacity.bits:.4f}", f"{point.expected_return:.4f}", "", ""))
    for name, settings in _SEARCHES.items():
        print(f"solving: {name} …", flush=True)
        begin = time.perf_counter()
        solution = _kept(veil.solve(problem, progress=False, **settings))
        seconds = time.perf_counter() - begin
        assert solution.certificate is not None
        bits, bound = f"{solution.opacity.bits:.4f}", f"{solution.certificate.upper:.4f}"
        rows.append((name, bits, f"{solution.expected_return:.4f}", bound, f"{seconds:.1f} s"))
        solutions.append(solution)
    print()
    print_table(["policy", "hidden bits", "return", "at most (proven)", "time"], rows)
    solution = solutions[0]
    assert solution.certificate is not None
    begin = time.perf_counter()
    veil.verify(solution.certificate, problem, solution.policy)
    print(f"\nThe stationary policy {solution.certificate.summary()}")
    print(f"Verified in {time.perf_counter() - begin:.1f} s; the verifier imports no solver.")
    print("\ncomputing the trade-off between bits and return …", flush=True)
    curve = veil.frontier(problem, points=6, starts=6, progress=False)
    solution.save(folder, scenario="gallery:paper-last-state")
    write_report(folder / "report.html", problem, solution, frontier=curve)
    return folder / "report.html", solution


def _floor(folder: Path) -> "tuple[Path, Solution]":
    """A time-dependent policy for an office floor, on sampled gradients, with its proof."""
    import veil

    from ..report.html import write_report

    problem = veil.gallery.load("night-shift")
    size = f"{problem.num_states} cells, T = {problem.horizon}"
    print(f"\n2. An office floor, {size}: a guard hides whether the shift ends in the vault (v).")
    print("S: start; G: control points, which pay; #: walls. Four cameras watch the corridor and the vault.\n")
    print(_drawing("night-shift"))
    print(f"solving: time-dependent policy, {_FLOOR_SECONDS:g} s, and its proof, {_PROOF_SECONDS:g} s …", flush=True)
    limits: dict[str, Any] = {"time_limit": _FLOOR_SECONDS, "certificate_time_limit": _PROOF_SECONDS}
    solution = _kept(veil.solve(problem, memory="timed", progress=False, **limits))
    print(f"\n{solution.summary()}")
    solution.save(folder, scenario="gallery:night-shift")
    write_report(folder / "report.html", problem, solution)
    return folder / "report.html", solution


def _kept(solution: "Solution") -> "Solution":
    """The answer; Ctrl-C, which ends a search with the best policy so far, ends the demo."""
    if solution.certificate is None:
        raise KeyboardInterrupt
    return solution


def _drawing(name: str) -> str:
    """The drawing of a problem of the gallery, as its file has it."""
    from .. import gallery

    text = gallery.scenario_text(name)
    return text.split('drawing = """\n', 1)[1].split('"""', 1)[0].rstrip() + "\n"
