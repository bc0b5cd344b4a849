"""From the problem to the report: solve the paper's problem, prove the answer, compare, report."""

import time
from pathlib import Path

from features import floor

import veil
from veil.report.html import write_report

GRID = """
     0 1 2 3 4 5
  0  b b . G . r      b, r, y, g  ranges of four sensors, each detects with probability 0.9
  1  . . . ? . r      G           goals, 0.1 for each decision taken there
  2  . . . . . .      ?           secret cells: is the robot on one of them at the end?
  3  . S . g g G      S           start; moves slip to either side with probability 0.1
  4  y . ? g g .
  5  y . . . ? .      ten decisions, expected return at least 0.3
"""
FOLDER = Path("out") / "demo"
FLOOR_SECONDS = 30
PROOF_SECONDS = 20


def row(name: str, bits: float | None, returned: float | None, bound: float | None, seconds: float | None) -> None:
    """A line of the table; unknown values are left blank."""
    cells = (
        "" if bits is None else f"{bits:.4f}",
        "" if returned is None else f"{returned:.4f}",
        "" if bound is None else f"{bound:.4f}",
        "" if seconds is None else f"{seconds:.1f} s",
    )
    print(f"  {name:<44}{cells[0]:>8}{cells[1]:>9}{cells[2]:>9}{cells[3]:>9}".rstrip())


def main() -> None:
    """Solve, prove, compare, report."""
    print("veil", veil.__version__, "· the paper's last-state problem (its layout as reconstructed)")
    print(GRID)
    problem = veil.gallery.load("paper-last-state")
    found = {}
    for name, settings in {
        "stationary policy, as in the paper": {},
        "time-dependent policy": {"memory": "timed"},
        "history policy, by the game (gap 0.001)": {"method": "game"},
    }.items():
        print(f"solving: {name} …", flush=True)
        begin = time.perf_counter()
        found[name] = veil.solve(problem, **settings), time.perf_counter() - begin
    print(f"\n  {'':<44}{'bits':>8}{'return':>9}{'bound':>9}{'time':>9}")
    row("the paper, its layout, sampled", 0.930, 0.328, None, None)
    for point in veil.soft.soft_sweep(problem, temperatures=(0.02, 0.03)):
        row(
            f"entropy-regularised baseline, τ = {point.temperature}",
            point.opacity.bits,
            point.expected_return,
            None,
            None,
        )
    for name, (solution, seconds) in found.items():
        row(name, solution.opacity.bits, solution.expected_return, solution.certificate.upper, seconds)

    solution, _ = found["stationary policy, as in the paper"]
    begin = time.perf_counter()
    veil.verify(solution.certificate, problem, solution.policy)
    print(f"\nThe stationary policy {solution.certificate.summary()}")
    print(f"The certificate was verified in {time.perf_counter() - begin:.1f} s; the verifier imports no solver.")

    print("\nthe trade-off between return and bits …", flush=True)
    curve = veil.frontier(problem, points=8, starts=8)
    solution.save(FOLDER, scenario="gallery:paper-last-state")
    write_report(FOLDER / "report.html", problem, solution, frontier=curve)
    print(f"\nReport (HTML): {(FOLDER / 'report.html').resolve()}")
    print(f"Policy, history and certificate: {FOLDER.resolve()}")
    plan_floor()


def plan_floor() -> None:
    """A time-dependent policy for a floor of about a thousand cells, on sampled gradients, with what can be claimed of it."""
    problem = floor(8)
    print(
        f"\nplanning on a floor of {problem.num_states:,} cells, T = {problem.horizon}, for {FLOOR_SECONDS} s …",
        flush=True,
    )
    solution = veil.solve(problem, memory="timed", time_limit=FLOOR_SECONDS, certificate=False)
    print(solution.summary())
    proof = veil.certify(problem, solution.policy, PROOF_SECONDS)
    veil.verify(proof, problem, solution.policy)
    print(f"\nThe policy {proof.summary()}")
    report = FOLDER / "floor.html"
    write_report(report, problem, solution, certificate=proof)
    print(f"\nReport (HTML): {report.resolve()}")


if __name__ == "__main__":
    main()
