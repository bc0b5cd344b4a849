"""One run, for the command line, studies and the studio: solve a problem into a result folder, and go on from a checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...common.errors import VeilError
from ...common.signals import interrupts_wait
from ...planning.methods import METHODS
from ...planning.solution import Solution, Status
from ...planning.solve import given_solution, solve
from ...policy.policy import Policy
from ...problem.problem import Problem
from .document import ResultDocument
from .folder import write_result
from .scenario import Origin


def measure_scenario(
    problem: Problem, policy: Policy, settings: Mapping[str, Any], folder: str | Path, origin: Origin
) -> tuple[Solution, ResultDocument]:
    """Measure a given policy and write the result folder; of `settings` it uses the seed and the time limit."""
    seed, limit = settings.get("seed", 0), settings.get("time_limit")
    solution = given_solution(problem, policy, seed=seed, time_limit=limit)
    return solution, write_result(folder, problem, solution, origin)


def run_scenario(
    problem: Problem,
    settings: Mapping[str, Any],
    folder: str | Path,
    origin: Origin,
    *,
    checkpoint: Path | None = None,
    checkpoint_every: float | None = None,
    keep_interrupted: bool = True,
) -> tuple[Solution, ResultDocument]:
    """Solve a problem and write the result folder; the solution and the document that was written.

    **Arguments:** `settings` of `veil.solve`; `origin` of the problem; `checkpoint`: where a method that has checkpoints keeps
    its state every so many seconds, and from which the run goes on if the file is there; `keep_interrupted`: whether the best
    policy of a search that Ctrl-C ended is written.

    **Raises:** as `veil.solve` and `write_result`; `KeyboardInterrupt` if the search was interrupted and that is not kept.
    """
    given = dict(settings)
    if checkpoint is not None and "checkpoint" in METHODS.get(given.get("method", "auto")).options:
        given["checkpoint"] = checkpoint
        if checkpoint_every is not None:
            given["checkpoint_every"] = checkpoint_every
        if checkpoint.is_file():
            given["resume"] = checkpoint
    try:
        solution = solve(problem, **given)
    except VeilError:
        if checkpoint is None or "resume" not in given:
            raise
        checkpoint.unlink()  # of an older version, or cut off with its machine
        solution = solve(problem, **{name: value for name, value in given.items() if name != "resume"})
    if solution.status is Status.INTERRUPTED and not keep_interrupted:
        raise KeyboardInterrupt
    with interrupts_wait():
        return solution, write_result(folder, problem, solution, origin)
