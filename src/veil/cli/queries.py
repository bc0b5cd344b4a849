"""`veil queries`: what an observer that chooses where to look is left with at least, and a plan of its queries."""

from pathlib import Path
from typing import Annotated

import typer

from .changes import with_changes
from .progress import QuietOption, reported
from .shared import SOLVED, JsonOption, ScenarioArgument, guarded, open_scenario, print_json, stop


@guarded
@with_changes
def queries(
    scenario: ScenarioArgument,
    time_limit: Annotated[float, typer.Option(help="Seconds.")] = 60.0,
    price: Annotated[float, typer.Option(help="Bits that one unit of cost counts.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of drawn runs.")] = 0,
    save: Annotated[Path | None, typer.Option(help="Write the plan as a policy to this file.")] = None,
    *,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
    changes: tuple[str, ...] = (),
) -> None:
    """Bound what an observer that chooses its queries can learn, and find a plan; for scenarios with [querying].

    Exit codes: 0 done, 2 bad input.

    Example: veil queries gallery:camera-guard --time-limit 20 --save plan.safetensors
    """
    from .. import best_queries

    problem = open_scenario(scenario, changes).problem
    with reported(quiet=quiet, verbose=False) as progress:
        found = best_queries(problem, time_limit=time_limit, price=price, seed=seed, progress=progress)
    if save is not None:
        found.policy.save(save)
    if as_json:
        names = ("lower", "upper", "how", "floor", "greedy", "blind", "nodes", "seconds")
        print_json({"format": "veil-queries-1"} | {name: getattr(found, name) for name in names})
    else:
        print(found.summary())
    stop(SOLVED)
