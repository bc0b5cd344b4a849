"""`veil fit`: a model, sensor rates or a policy from recorded runs."""

from pathlib import Path
from typing import Annotated

import typer

from .changes import with_changes
from .shared import (
    JsonOption,
    SeedOption,
    complete_scenario,
    guarded,
    open_policy,
    open_scenario,
    print_json,
)


@guarded
@with_changes
def fit(
    logs: Annotated[
        str,
        typer.Argument(metavar="LOGS", help="Recorded runs: a .csv, .jsonl or .json file.", show_default=False),
    ],
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="The scenario of the runs: gives all that is not estimated.",
            show_default=False,
            autocompletion=complete_scenario,
        ),
    ] = None,
    what: Annotated[
        str | None,
        typer.Option(
            help="What to estimate, separated by commas: model, sensors, policy.", show_default="all recorded"
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="POLICY", help="The policy where none is estimated.", show_default="uniform"),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(
            help="Without a scenario: the secret last states, separated by commas.", show_default="each last state"
        ),
    ] = None,
    prior: Annotated[float, typer.Option(min=0, help="Pseudo-counts of each probability, above 0.")] = 0.5,
    confidence: Annotated[float, typer.Option(min=0, max=1, help="Probability of the intervals.")] = 0.95,
    draws: Annotated[int, typer.Option(min=1, help="Draws for the interval of the opacity: 39 or more for 95%.")] = 50,
    seed: SeedOption = 0,
    time_limit: Annotated[float, typer.Option(min=0, help="Time limit in seconds.")] = 60.0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Estimate a model, an observer's sensor rates or a policy from recorded runs, and measure what is hidden.

    A CSV file has the columns run, time, state, action, observation, as veil simulate writes them; empty cells are not known.
    The folder gets scenario.toml and policy.safetensors, which the other commands read, and fit.json with every interval.

    Example: veil fit runs.csv --scenario patrol.toml --what sensors,policy -o fitted
    """
    from .. import LastState
    from .. import fit as estimate
    from ..common.errors import InputError
    from ..learning.fitted import POLICY, SCENARIO, check_folder

    if scenario is None and (changes or policy is not None):
        raise InputError("--policy" if policy is not None else "--set", ["it needs --scenario SCENARIO"])
    if output is not None:
        check_folder(output)
    problem = None if scenario is None else open_scenario(scenario, changes).problem
    found = estimate(
        logs,
        problem,
        None if what is None else [word.strip() for word in what.split(",")],
        policy=None if problem is None or policy is None else open_policy(problem, policy),
        secret=None if secret is None else LastState([name.strip() for name in secret.split(",")]),
        prior=prior,
        confidence=confidence,
        draws=draws,
        seed=seed,
        time_limit=time_limit,
    )
    if output is not None:
        found.save(output)
    if as_json:
        print_json(found.document())
        return
    print(found.summary())
    if output is not None:
        print(f"written to {output}: measure it with veil measure {output / SCENARIO} {output / POLICY}")
