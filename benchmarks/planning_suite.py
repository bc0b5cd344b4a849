"""The planning suite: `veil.solve` beside baselines (`planning_baselines`) at equal wall time on the same machine.

`python -m benchmarks.planning_suite` runs all rows, `python -m benchmarks.planning_suite floor-960 masks --seconds 30` some
of them. Rows whose names end in `-held-out` are layouts that nothing was tuned on. Other work on the same cores slows
everything: processor seconds are printed beside the wall time, and the seconds after which `veil.solve` had its first
feasible policy.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import veil
from benchmarks.common import markdown_table, say
from benchmarks.planning_baselines import softened, straight_line_jax, twenty_lines
from benchmarks.planning_problems import floor_of_rooms, masks, network, open_grid, random_masks, watched_grid
from veil.engine.return_range import threshold
from veil.problem.problem import Problem


@dataclass(frozen=True)
class Row:
    """One problem and class of policies, and the seconds that each contender has.

    `primal_dual`: whether the paper's algorithm runs too.
    """

    make: Callable[[], Problem]
    memory: Any
    seconds: float
    primal_dual: bool = False


PRIMAL_DUAL = "primal-dual"
ROWS = {
    "floor-960": Row(lambda: floor_of_rooms((6, 6), 5, 60), "timed", 30.0),
    "floor-960-stationary": Row(lambda: floor_of_rooms((6, 6), 5, 60), "markov", 30.0, primal_dual=True),
    "floor-960-held-out": Row(lambda: floor_of_rooms((5, 7), 5, 60, seed=1), "timed", 30.0),
    "floor-8000": Row(lambda: floor_of_rooms((12, 14), 7, 100), "timed", 120.0),
    "open-30": Row(lambda: open_grid(30, 60), "markov", 60.0),
    "open-30-timed": Row(lambda: open_grid(30, 60), "timed", 60.0),
    "open-100": Row(lambda: open_grid(100, 100), "markov", 120.0),
    "watched-100": Row(lambda: watched_grid(100, 100), "markov", 60.0),
    "watched-100-timed": Row(lambda: watched_grid(100, 100), "timed", 60.0),
    "masks": Row(masks, "markov", 60.0, primal_dual=True),
    "masks-timed": Row(masks, "timed", 60.0),
    "masks-held-out": Row(lambda: random_masks(1), "markov", 60.0),
    "masks-timed-held-out": Row(lambda: random_masks(1), "timed", 60.0),
    "network-500": Row(lambda: network(168, 30), "markov", 30.0, primal_dual=True),
    "network-500-timed": Row(lambda: network(168, 30), "timed", 30.0),
    "network-2000": Row(lambda: network(670, 40), "markov", 60.0),
    "network-2000-timed": Row(lambda: network(670, 40), "timed", 60.0),
    "network-2000-held-out": Row(lambda: network(670, 40, seed=1), "timed", 60.0),
    "paper": Row(lambda: veil.gallery.load("paper-last-state"), "markov", 10.0),
    "later": Row(lambda: veil.gallery.load("later-last-state"), "markov", 30.0),
    "false-alarms": Row(lambda: veil.gallery.load("paper-false-alarms"), "markov", 30.0),
}


@dataclass(frozen=True)
class Found:
    """What one contender found, measured in the same way for all."""

    bits: float
    missed: float
    wall: float
    processor: float

    def text(self) -> str:
        missed = f" (misses the threshold by {self.missed:.3g})" if self.missed > 0 else ""
        return f"{self.bits:.3f}{missed}"


def measured(problem: Problem, policy: veil.Policy, begin: tuple[float, float]) -> Found:
    """A policy on 2,000 fresh sequences."""
    wall, processor = time.perf_counter() - begin[0], time.process_time() - begin[1]
    bits = veil.opacity(problem, policy, "sampled", sequences=2000, seed=12345).bits
    wanted = threshold(problem)
    missed = 0.0 if wanted is None else max(0.0, wanted - veil.expected_return(problem, policy))
    return Found(bits, missed, wall, processor)


def solved(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """`veil.solve` with its defaults."""
    found = veil.solve(problem, memory=memory, time_limit=seconds, certificate=False, progress=False)
    first = f"{found.history.seconds[0]:.2f} s" if len(found.history) else "never"
    say(f"first policy with an estimate after {first} of {found.seconds:.1f} s, {found.iterations} iterations")
    return found.policy


def primal_dual(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """The paper's algorithm on sampled gradients."""
    return veil.solve(
        problem,
        memory=memory,
        method="primal-dual",
        gradients="sampled",
        time_limit=seconds,
        certificate=False,
        progress=False,
    ).policy


CONTENDERS: dict[str, Callable[[Problem, Any, float], veil.Policy]] = {
    "veil.solve": solved,
    "Adam, 20 lines": twenty_lines,
    "straight-line JAX": straight_line_jax,
    "soft": softened,
    PRIMAL_DUAL: primal_dual,
}


def compare_rows(names: list[str], seconds: float | None) -> str:
    """Each row with each contender, one after the other."""
    rows = []
    for name in names:
        row = ROWS[name]
        problem, limit = row.make(), row.seconds if seconds is None else seconds
        cells = [name, f"{problem.num_states:,}", str(problem.horizon), str(row.memory), f"{limit:g} s"]
        for words, contender in CONTENDERS.items():
            if words == PRIMAL_DUAL and not row.primal_dual:
                cells.append("")
                continue
            begin = time.perf_counter(), time.process_time()
            found = measured(problem, contender(problem, row.memory, limit), begin)
            say(f"{name}, {words}: {found.text()} bits, {found.wall:.1f} s, processor {found.processor:.1f} s")
            cells.append(found.text())
        rows.append(cells)
    return markdown_table(["problem", "states", "T", "class", "limit", *CONTENDERS], rows)


def main() -> None:
    """Run the rows named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning_suite", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one or more of {', '.join(ROWS)}; all if none")
    parser.add_argument("--seconds", type=float, help="for each contender, instead of the row's own")
    options = parser.parse_args()
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"unknown row {name!r}, expected one of {', '.join(ROWS)}")
    names = options.rows or list(ROWS)
    print(compare_rows(names, options.seconds))


if __name__ == "__main__":
    main()
