"""`veil queries`: what an observer that chooses where to look is left with at least, and a plan of its queries."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Further, with_changes
from .progress import QuietOption, reported
from .shared import SOLVED, JsonOption, ScenarioArgument, TimeLimitOption, guarded, open_scenario, print_json, stop


@guarded
@with_changes
def queries(
    scenario: ScenarioArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the plan as a policy to this file.", show_default=False)
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write a certificate of both bounds to this file; within a further --time-limit.", show_default=False
        ),
    ] = None,
    time_limit: TimeLimitOption = 60.0,
    *,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    changes: tuple[str, ...] = (),
) -> None:
    """Bound what an observer that chooses its queries can learn, and find a plan; for scenarios with [querying].

    --set queries.NAME=VALUE gives further options of veil.best_queries, such as price (bits per unit of cost) and seed.

    To check a certificate: veil verify SCENARIO plan.safetensors FILE.

    Exit codes: 0 done, 2 bad input.

    Example: veil queries gallery:camera-guard --time-limit 20 -o plan.safetensors --certificate proof.json
    """
    from .. import best_queries

    more = Further("queries", changes, best_queries)
    problem = open_scenario(scenario, more.changes).problem
    asked: dict[str, Any] = {"time_limit": time_limit}
    with reported(quiet=quiet) as progress:
        found = best_queries(problem, progress=progress, **asked | more.of(best_queries))
    if output is not None:
        found.policy.save(output)
    if certificate is not None:
        found.certify(**asked).save(certificate)
    if as_json:
        names = ("lower", "upper", "how", "floor", "greedy", "blind", "nodes", "seconds")
        print_json({"format": "veil-queries-1"} | {name: getattr(found, name) for name in names})
    else:
        print(found.summary())
    stop(SOLVED)
