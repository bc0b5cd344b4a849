"""`veil fit` and `veil audit`: a model, sensor rates or a policy from recorded runs; what these tell without a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Further
from .shared import (
    JsonOption,
    TimeLimitOption,
    argument,
    check_output,
    complete_scenario,
    open_policy,
    open_scenario,
    option,
    print_json,
    write_text,
)

if TYPE_CHECKING:
    from ..problem.secrets.last_state import LastState

LogsArgument = Annotated[str, argument(metavar="LOGS", help="Recorded runs: a .csv, .jsonl or .json file.")]
ColumnsOption = Annotated[
    str | None,
    option(metavar="NAME=COLUMN,…", help="Names of columns that differ, such as run=episode,time=t,label=outcome."),
]


def fit(
    places: Annotated[
        list[str],
        argument(
            metavar="[SCENARIO] LOGS",
            help="The scenario of the runs, for everything that is not estimated; recorded runs: a .csv, .jsonl or .json"
            " file.",
            autocompletion=complete_scenario,
        ),
    ],
    what: Annotated[
        str | None,
        typer.Option(
            help="What to estimate, separated by commas: model, sensors, policy, rewards.", show_default="all recorded"
        ),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="POLICY", help="The policy, if it is not estimated.", show_default="uniform")
    ] = None,
    columns: ColumnsOption = None,
    time_limit: TimeLimitOption = 60.0,
    output: Annotated[Path | None, option("--output", "-o", metavar="FOLDER", help="Folder to write.")] = None,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Estimate a model, an observer's sensor rates or a policy from recorded runs, and measure what it hides.

    A CSV file has the columns run, time, and any of state, action, observation, reward and label (of the whole run); empty
    cells are unknown. Without a scenario the labels are the secret, and each label has a model.
    The folder gets scenario.toml and policy.safetensors, which the other commands read, and fit.json with every interval.

    --set fit.NAME=VALUE gives further options of veil.fit: prior (pseudo-counts of each probability), confidence, seed, and
    draws (for the interval of the opacity). Without a scenario, fit.secret names the last states that are secret, separated by
    commas.

    Example: veil fit patrol.toml runs.csv --what sensors,policy -o fitted
    """
    from .. import fit as estimate
    from ..common.errors import InputError
    from ..learning.fitted import POLICY, SCENARIO, check_folder

    more = Further("fit", changes, estimate, last_states)
    if len(places) > 2:
        raise InputError("fit", [f"found {len(places)} arguments, expected SCENARIO LOGS, or LOGS alone"])
    scenario, logs = places[0] if len(places) > 1 else None, places[-1]
    if scenario is None and (more.changes or policy is not None):
        where = "--policy" if policy is not None else "--set"
        raise InputError(where, ["it needs a scenario: veil fit SCENARIO LOGS"])
    if output is not None:
        check_folder(output)
    problem = None if scenario is None else open_scenario(scenario, more.changes).problem
    found = estimate(
        logs,
        problem,
        None if what is None else [word.strip() for word in what.split(",")],
        policy=None if problem is None or policy is None else open_policy(problem, policy),
        secret=last_states(**more.of(last_states)),
        columns=_columns(columns),
        **{"time_limit": time_limit, **more.of(estimate)},
    )
    if output is not None:
        found.save(output)
    if as_json:
        print_json(found.document())
        return
    print(found.summary())
    if output is not None:
        print(f"written to {output}: measure it with veil measure {output / SCENARIO} {output / POLICY}")


def last_states(*, secret: str | None = None) -> "LastState | None":
    """The secret of `--set fit.secret=`: names of states, separated by commas."""
    from .. import LastState

    return None if secret is None else LastState([name.strip() for name in str(secret).split(",")])


def _columns(text: str | None) -> dict[str, str] | None:
    """The names of columns that `--columns` gives."""
    from ..common.errors import InputError

    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    for name, equals, column in pairs:
        if not (name.strip() and equals and column.strip()):
            raise InputError(
                "--columns", [f"{name + equals + column!r} found, expected NAME=COLUMN, such as run=episode"]
            )
    return {name.strip(): column.strip() for name, _, column in pairs}


def audit(
    logs: LogsArgument,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV file with the label of each run: columns run and label.",
            show_default="in the logs",
        ),
    ] = None,
    columns: ColumnsOption = None,
    confidence: Annotated[float, typer.Option(min=0, max=1, help="Probability of the intervals.")] = 0.95,
    output: Annotated[Path | None, option("--output", "-o", metavar="FILE", help="JSON file to write.")] = None,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Bound from below what observations leak about a secret, from labelled runs, without a model.

    A CSV file has the columns run, time, observation; the label of a run is in a column label or secret, or in another file.
    Predictors are fitted on some runs and tested on others: what they know has leaked. There is no upper bound without a model.

    --set audit.NAME=VALUE gives further options of veil.audit_logs: predictors (some of counts, chains, logistic, trees and
    recurrent, separated by commas), bins (classes for numbers that are not whole), seed, and curve (also audit parts of the
    runs).

    Example: veil audit logs.csv --labels labels.csv --columns run=episode,time=t
    """
    from ..common.errors import InputError
    from ..formats.documents import json_text
    from ..learning.audit import audit_logs
    from ..learning.audited import FORMAT

    check_output(output, FORMAT)
    more = Further("audit", changes, audit_logs)
    if more.changes:
        raise InputError("--set", ["there is no scenario here: only audit.NAME=VALUE"])
    asked = {"confidence": confidence, "columns": _columns(columns)} | more.of(audit_logs)
    if isinstance(asked.get("predictors"), str):
        asked["predictors"] = [word.strip() for word in asked["predictors"].split(",")]
    found = audit_logs(logs, labels, **asked)
    if output is not None:
        write_text(output, json_text(found.document()), force=True, marker=FORMAT)
    if as_json:
        print_json(found.document())
        return
    print(found.summary())
