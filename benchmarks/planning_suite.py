"""The planning suite: `veil.solve` beside a twenty-line Adam loop and the soft baseline, at equal wall time.

`python -m benchmarks.planning_suite` runs all rows, `python -m benchmarks.planning_suite floor-960 masks --seconds 30` some
of them, and `--designs` compares ways to search on samples instead: batch sizes, steps, fixed draws, starts.
Other work on the same cores slows everything: processor seconds are printed beside the wall time.
"""

import argparse
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import veil
from benchmarks.common import markdown_table, say
from benchmarks.planning_problems import floor_of_rooms, masks, open_grid, watched_grid
from veil.common.clock import UNLIMITED, Clock, OutOfTime
from veil.engine.return_range import max_return, threshold
from veil.planning import stochastic
from veil.planning.options import SolveOptions
from veil.planning.policy_class import Space, make_space
from veil.planning.starts import logits, richest_table
from veil.planning.task import make_task
from veil.planning.values import SampleSecrecy
from veil.policy.tables import softmax_pull_back
from veil.problem.problem import Problem


@dataclass(frozen=True)
class Row:
    """One problem and class of policies, and the seconds that each contender has."""

    make: Callable[[], Problem]
    memory: Any
    seconds: float


ROWS = {
    "floor-960": Row(lambda: floor_of_rooms((6, 6), 5, 60), "timed", 30.0),
    "floor-960-stationary": Row(lambda: floor_of_rooms((6, 6), 5, 60), "markov", 30.0),
    "floor-8000": Row(lambda: floor_of_rooms((12, 14), 7, 100), "timed", 120.0),
    "open-30": Row(lambda: open_grid(30, 60), "markov", 60.0),
    "open-30-timed": Row(lambda: open_grid(30, 60), "timed", 60.0),
    "open-100": Row(lambda: open_grid(100, 100), "markov", 120.0),
    "watched-100": Row(lambda: watched_grid(100, 100), "markov", 60.0),
    "watched-100-timed": Row(lambda: watched_grid(100, 100), "timed", 60.0),
    "masks": Row(masks, "markov", 60.0),
    "masks-timed": Row(masks, "timed", 60.0),
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
    space = make_space(problem, policy.memory)
    bits = SampleSecrecy(space, "entropy", 2, 0, "").estimate(space.table_of(policy), 2000, 12345, UNLIMITED).bits
    wanted = threshold(problem)
    missed = 0.0 if wanted is None else max(0.0, wanted - veil.expected_return(problem, policy))
    return Found(bits, missed, wall, processor)


def solved(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """`veil.solve` with its defaults."""
    return veil.solve(problem, memory=memory, time_limit=seconds, certificate=False, progress=False).policy


def twenty_lines(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """What a user would write: Adam on fresh sampled gradients and an augmented Lagrangian, from near the richest policy."""
    clock, space = Clock(seconds), make_space(problem, memory)
    task = make_task(space, secrecy=SampleSecrecy(space, "entropy", 64, 0, ""))
    safe = richest_table(space, clock.share(0.3))
    theta = logits(space, safe, 0.5)
    mean, square, multiplier, step, best = np.zeros_like(theta), np.zeros_like(theta), 0.0, 0, safe
    while clock.left > 0.02 * seconds:
        step += 1
        table = space.softmax(theta)
        _, slope = task.secrecy.fresh(table, 64, step, UNLIMITED)  # pyright: ignore[reportAttributeAccessIssue]
        _, _, slack, slack_slope = task.constraints(table[None])
        short = float(slack[0, 0]) if slack.size else 1.0
        best = table if short >= 0 else best
        pull = max(0.0, multiplier - 6 * short)
        multiplier = max(0.0, multiplier - 0.6 * short)
        gradient = softmax_pull_back(table, slope + pull * (slack_slope[0, 0] if slack.size else 0.0))
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        theta = theta + 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-12)
    return space.policy(best)


def softened(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """The entropy-regularised baseline: the largest temperature, of a few, whose return meets the threshold."""
    wanted, largest = threshold(problem) or -np.inf, max_return(problem)
    best: veil.Policy | None = None
    clock = Clock(seconds)
    for temperature in np.geomspace(1e-3, 1.0, 10) * max(abs(largest), 1e-9):
        discount = 1 - 1 / max(2, problem.horizon)
        policy = veil.soft.soft_policy(problem, float(temperature), discount=discount)
        if best is not None and (clock.left <= 0 or veil.expected_return(problem, policy) < wanted):
            break
        best = policy
    assert best is not None
    return best


CONTENDERS: dict[str, Callable[[Problem, Any, float], veil.Policy]] = {
    "veil.solve": solved,
    "Adam, 20 lines": twenty_lines,
    "soft": softened,
}


def compare_rows(names: list[str], seconds: float | None) -> str:
    """Each row with each contender, one after the other."""
    rows = []
    for name in names:
        row = ROWS[name]
        problem, limit = row.make(), row.seconds if seconds is None else seconds
        cells = [name, f"{problem.num_states:,}", str(problem.horizon), str(row.memory), f"{limit:g} s"]
        for words, contender in CONTENDERS.items():
            begin = time.perf_counter(), time.process_time()
            found = measured(problem, contender(problem, row.memory, limit), begin)
            say(f"{name}, {words}: {found.text()} bits, {found.wall:.1f} s, processor {found.processor:.1f} s")
            cells.append(found.text())
        rows.append(cells)
    return markdown_table(["problem", "states", "T", "class", "limit", *CONTENDERS], rows)


@dataclass(frozen=True)
class Design:
    """A way to search on samples: constants of `veil.planning.stochastic`, whether draws are fresh, how many starts."""

    words: str
    constants: dict[str, Any]
    fresh: bool = True
    starts: int | None = None


DESIGNS = (
    Design("as it is: batch by signal to noise, four soft starts, going back", {}),
    Design("batch 16 throughout", {"_LEAST_BATCH": 16, "_MOST_BATCH": 16, "_BATCH_SECONDS": 0.0}),
    Design("batch 256 throughout", {"_LEAST_BATCH": 256, "_MOST_BATCH": 256, "_BATCH_SECONDS": 0.0}),
    Design("step 0.1 instead of 0.3", {"_FIRST_RATE": 0.1}),
    Design("the same draws in every iteration", {}, fresh=False),
    Design("one soft start", {}, starts=1),
    Design("never going back to the best answer", {"_LOST_BITS": 1e9}),
)


class FixedDraws(SampleSecrecy):
    """Common random numbers: every gradient from one seed."""

    def fresh(self, table: np.ndarray, sequences: int, seed: int, clock: Clock) -> Any:
        return super().fresh(table, sequences, 0, clock)


def run_design(design: Design, space: Space, seconds: float) -> tuple[Found, int]:
    """One search by a design, from the same safe table."""
    before = {name: getattr(stochastic, name) for name in design.constants}
    begin = time.perf_counter(), time.process_time()
    kind = SampleSecrecy if design.fresh else FixedDraws
    task = make_task(space, secrecy=kind(space, "entropy", 2000, 0, ""))
    try:
        for name, value in design.constants.items():
            setattr(stochastic, name, value)
        clock = Clock(seconds)
        limited = replace(task, clock=clock)
        method = stochastic.StochasticAscent(limited, richest_table(space), SolveOptions(starts=design.starts))
        state = method.begin()
        table = state.best
        with contextlib.suppress(OutOfTime):
            while clock.left > 0.1 * seconds and not method.is_done(state):
                state = method.advance(state)
                table = state.best
            table = method.candidates(state)[0]
    finally:
        for name, value in before.items():
            setattr(stochastic, name, value)
    return measured(space.problem, space.policy(table), begin), state.iteration


def compare_designs(names: list[str], seconds: float | None) -> str:
    """Each design on each row."""
    rows = []
    for design in DESIGNS:
        cells = [design.words]
        for name in names:
            row = ROWS[name]
            space = make_space(row.make(), row.memory)
            found, iterations = run_design(design, space, row.seconds if seconds is None else seconds)
            say(
                f"{name}, {design.words}: {found.text()} bits, {iterations} iterations, processor {found.processor:.1f} s"
            )
            cells.append(f"{found.text()} ({iterations})")
        rows.append(cells)
    return markdown_table(["design: bits (iterations)", *names], rows)


def main() -> None:
    """Run the rows named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning_suite", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one or more of {', '.join(ROWS)}; all if none")
    parser.add_argument("--seconds", type=float, help="for each contender, instead of the row's own")
    parser.add_argument("--designs", action="store_true", help="compare designs of the sampled search")
    options = parser.parse_args()
    for name in options.rows:
        if name not in ROWS:
            parser.error(f"unknown row {name!r}, expected one of {', '.join(ROWS)}")
    names = options.rows or list(ROWS)
    print((compare_designs if options.designs else compare_rows)(names, options.seconds))


if __name__ == "__main__":
    main()
