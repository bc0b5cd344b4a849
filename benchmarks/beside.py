"""Two checkouts of veil beside each other: values, gradients and first calls, in processes that take turns.

`python -m benchmarks.beside OTHER` compares this checkout with the one in the folder OTHER (`git worktree add OTHER COMMIT`).
It prints a table of ratios, this one over the other; below one is faster. Each number is the least processor time of some
rounds in one process, which what others do on the machine only adds to, and the median over the processes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
_TURNS = 5
_SECONDS = 0.4  # for the rounds of one case in one process


def main() -> None:
    """Compare, or time the cases of this process's own veil."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=__doc__)
    parser.add_argument("other", nargs="?", help="the folder of the other checkout")
    parser.add_argument("--turns", type=int, default=_TURNS, help="processes for each side")
    parser.add_argument("--cases", action="store_true", help="time the cases here, and print them as JSON")
    given = parser.parse_args()
    if given.cases:
        print(json.dumps(timed()))
        return
    if given.other is None:
        parser.error("name the folder of the other checkout")
    found: dict[Path, list[dict[str, float]]] = {ROOT: [], Path(given.other).resolve(): []}
    for _ in range(given.turns):
        for side, rounds in found.items():
            rounds.append(_process(side))
    mine, theirs = found.values()
    print("| case | other | here | here / other |\n| --- | --- | --- | --- |")
    for case in mine[0]:
        one, two = (statistics.median(row[case] for row in rounds) for rounds in (mine, theirs))
        print(f"| {case} | {two * 1e3:.2f} ms | {one * 1e3:.2f} ms | {one / two:.2f} |")


def _process(side: Path) -> dict[str, float]:
    """The cases of one checkout, in a fresh process."""
    paths = os.pathsep.join([str(side / "src"), str(ROOT)])
    settings = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.beside", "--cases"]
    done = subprocess.run(command, capture_output=True, text=True, env=settings, cwd=ROOT, check=True)
    return json.loads(done.stdout)


def timed() -> dict[str, float]:
    """The seconds of each case."""
    import numpy as np
    from validation.protocols import dining, voting

    import veil

    found: dict[str, float] = {}
    problems = {name: veil.gallery.load(name) for name in veil.gallery.names() if name != "paper-false-alarms"}
    policies = {name: veil.MarkovPolicy.uniform(problem) for name, problem in problems.items()}
    values: list[Callable[[], object]] = []
    slopes: list[Callable[[], object]] = []
    for name, problem in problems.items():
        if problem.secret_table.path is not None or problem.observer.untimed or problem.num_states > 200:
            continue
        theta = np.zeros(policies[name].probabilities.shape)
        values.append(lambda p=problem, q=policies[name]: veil.opacity(p, q, "exact"))
        slopes.append(lambda p=problem, t=theta: veil.opacity_gradient(p, t, "exact"))
    found["gallery, exact values"] = _least(lambda: [one() for one in values])
    found["gallery, exact gradients"] = _least(lambda: [one() for one in slopes])
    for name, make in (("voting 5/4", lambda: voting(5, 4)), ("dining 6", lambda: dining(6))):
        problem = make()
        policy = veil.MarkovPolicy.uniform(problem)
        began = time.process_time()
        veil.opacity(problem, policy, "exact")
        found[f"{name}, first call"] = time.process_time() - began
        found[f"{name}, later calls"] = _least(lambda p=problem, q=policy: veil.opacity(p, q, "exact"))
    everywhere = {(row, column): 1e-4 for row in range(0, 1000, 10) for column in range(0, 1000, 10)}
    camera = veil.Sensor("camera", [(row, column) for row in range(500) for column in range(500)])
    goals = {(999, 999): 1.0}
    world = veil.GridWorld(1000, 1000, starts=everywhere, goals=goals, secrets=[(0, 0)], sensors=[camera])
    large = world.problem(20)
    uniform = veil.MarkovPolicy.uniform(large)
    found["10^6 states, expected return"] = _least(lambda: veil.expected_return(large, uniform))
    found["10^6 states, 20 sampled sequences"] = _least(lambda: veil.opacity(large, uniform, "sampled", sequences=20))
    return found


def _least(work: Callable[[], object]) -> float:
    """The least processor time of some rounds after one that is not counted."""
    work()
    found, began = [], time.monotonic()
    while not found or time.monotonic() - began < _SECONDS:
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


if __name__ == "__main__":
    main()
