"""`veil simulate`: a policy as the observer sees it, in drawn runs or in observations that are given."""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from .shared import (
    BAD_INPUT,
    INTERRUPTED,
    SOLVED,
    Document,
    PairOption,
    PolicyArgument,
    ScenarioArgument,
    SeedOption,
    check_output,
    event_text,
    open_measured,
    open_policy,
    option,
    print_json,
    print_table,
    stop,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..common.checks import Names
    from ..engine.filter import ObserverFilter
    from ..measure.attack_result import Event
    from ..policy.policy import Policy
    from ..problem.problem import Problem

_COLUMNS = ("run", "time", "state", "action", "observation", "secret")


def simulate(
    scenario: ScenarioArgument,
    policy: PolicyArgument,
    pair: PairOption = "own",
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="Number of runs.")] = 1,
    seed: SeedOption = 0,
    output: Annotated[Path | None, option("--output", "-o", help="CSV file to write, one line per step.")] = None,
    observations_only: Annotated[
        bool,
        typer.Option("--observations", help="Print only the observations, one per line, as --observed reads them."),
    ] = False,
    observed: Annotated[
        str | None,
        option(
            metavar="FILE",
            help="Draw no runs: read observations from this file (- for standard input), one per line, and print the"
            " observer's belief after each.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document; with --observed one for each line.")
    ] = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Simulate a policy: states, actions, observations, and the secret of each run; or track the observer's belief.

    With --observed a line is an observation; if the observer sees actions, ACTION,OBSERVATION (the first has no action). An
    empty line starts a new run. An impossible observation is reported and leaves the belief unchanged.

    Exit codes: 0 done, 2 bad input or a line was not understood, 130 after Ctrl-C.

    Example: veil simulate patrol.toml patrol-result --runs 100 -o runs.csv

    Example: printf '0\\nbeep\\n' | veil simulate gallery:two-rooms uniform --observed -

    Example: veil simulate patrol.toml uniform --observations | veil simulate patrol.toml uniform --observed -
    """
    problem = open_measured(scenario, changes).problem
    acting = open_policy(problem, policy)
    check_output(output, ",".join(_COLUMNS))
    if observed is not None:
        _observe(problem, acting, pair, observed, as_json)
        return
    played = _play(problem, acting, pair, runs, seed)
    if output is not None:
        write_text(output, _runs_csv(played), force=True, marker=",".join(_COLUMNS))
    if as_json:
        print_json({"problem": problem.name, "seed": seed, "runs": played})
    elif observations_only:
        print("\n\n".join("\n".join(map(event_text, _seen(run))) for run in played))
    elif output is not None:
        print(f"{runs:,} runs written to {output}")
    else:
        for number, run in enumerate(played):
            rows = zip(range(len(run["states"])), run["states"], [*run["actions"], ""], _texts(run), strict=True)
            print_table(["time", "state", "action", "observation"], rows, title=f"run {number}: {run['secret']}")


def _observe(problem: "Problem", policy: "Policy", pair: str, place: str, as_json: bool) -> None:
    """Print the observer's belief after each line of a file, or of standard input."""
    from .. import ObserverFilter

    observer, code = ObserverFilter(problem, policy, pair=pair), SOLVED
    try:
        with contextlib.nullcontext(sys.stdin) if place == "-" else open(place, encoding="utf-8") as stream:
            tell = _print_line if as_json else _columns(observer)
            for step in _steps(observer, stream):
                code = code if step.get("understood", True) else BAD_INPUT
                tell(step)
    except KeyboardInterrupt:  # the usual way to stop
        code = INTERRUPTED
    stop(code)


def _print_line(step: Document) -> None:
    """One JSON document."""
    print(json.dumps(step, ensure_ascii=False, allow_nan=False), flush=True)


def _columns(observer: "ObserverFilter") -> "Callable[[Document], None]":
    """A function that prints a step as a line in columns, and on standard error why a line was refused."""
    problem = observer.problem
    actions = problem.model.actions.all() if problem.observer.sees_actions else ("",)
    longest = max(map(len, actions)) + 1 + max(map(len, problem.observer.observations.all()))
    width = max(11, min(40, longest))

    def say(time: str, seen: str, rest: Iterable[str]) -> None:
        shown = (text.ljust(max(8, len(value))) for text, value in zip(rest, observer.values, strict=True))
        print(f"{time:>4}  {seen:<{width}}  {'  '.join(shown)}".rstrip(), flush=True)

    def tell(step: Document) -> None:
        if "error" in step:
            print(f"line {step['line']}: {step['error']}", file=sys.stderr, flush=True)
        seen = "(new run)" if "new_run" in step else "(refused)" if "error" in step else step["observation"]
        time = "-" if step["time"] is None else str(step["time"])
        say(time, seen, (f"{value:.6f}" for value in step["posterior"].values()))

    say("time", "observation", observer.values)
    return tell


def _steps(observer: "ObserverFilter", stream: TextIO) -> Iterator[Document]:
    """The posterior after each line."""
    from ..common.errors import ImpossibleObservationError, VeilError

    for number, line in enumerate(iter(stream.readline, ""), 1):  # iterating over the file itself would read ahead
        text, more = line.strip(), Document()
        if not text:
            observer.reset()
            more["new_run"] = True
        else:
            try:
                _take_in(observer, text)
            except ImpossibleObservationError as error:
                more = {"impossible": True, "error": str(error)}
            except VeilError as error:
                more = {"understood": False, "error": str(error)}
        posterior = dict(zip(observer.values, observer.posterior.tolist(), strict=True))
        yield {"line": number, "observation": text, **more, "time": observer.time, "posterior": posterior}


def _take_in(observer: "ObserverFilter", text: str) -> None:
    from ..common.errors import VeilError

    horizon = observer.problem.horizon
    if observer.time is not None and observer.time >= horizon:
        raise VeilError(f"the run is over, since the horizon is {horizon}: an empty line starts a new one")
    observer.update(_event(observer, text))


def _event(observer: "ObserverFilter", text: str) -> "str | int | tuple[str | int, str | int]":
    """An event as the filter takes it: an observation, or a pair with the action before it."""
    problem = observer.problem
    if not problem.observer.sees_actions or observer.time is None:
        return _key(problem.observer.observations, text)
    action, comma, observation = text.partition("\t" if "\t" in text else ",")
    if not comma:
        return text  # the filter says what it expected
    return _key(problem.model.actions, action.strip()), _key(problem.observer.observations, observation.strip())


def _key(names: "Names", text: str) -> str | int:
    """The name; or a number, if nothing has that name."""
    try:
        names.find(text)
    except KeyError:
        return int(text) if text.isdecimal() and len(text) < 10 else text
    return text


def _play(problem: "Problem", policy: "Policy", pair: str, runs: int, seed: int) -> list[Document]:
    """Simulated runs by names: secret, states, actions, observations (None where none is received at time 0)."""
    import numpy as np

    from ..engine.chain import make_chain
    from ..engine.hidden import event_name
    from ..engine.sampling import draw_runs

    chain, actions = make_chain(problem, policy, pair=pair), policy.choice_names(problem)
    hidden, drawn = chain.hidden, draw_runs(chain, runs, np.random.default_rng(seed))
    problem = problem.only(pair)
    states, first = problem.model.states, 0 if problem.observer.sees_first else 1
    secrets = hidden.label[drawn.states[:, hidden.split_time]].argmax(axis=1)
    return [
        {
            "secret": problem.secret_values[int(secrets[run])],
            "states": [states[int(hidden.state[x])] for x in drawn.states[run]],
            "actions": [actions[int(a)] for a in drawn.actions[run]],
            "observations": [
                event_name(problem, int(event), time) if time >= first else None
                for time, event in enumerate(drawn.events[run])
            ],
        }
        for run in range(runs)
    ]


def _seen(run: Document) -> "list[Event]":
    return [event for event in run["observations"] if event is not None]


def _texts(run: Document) -> list[str]:
    return ["" if event is None else event_text(event) for event in run["observations"]]


def _runs_csv(played: list[Document]) -> str:
    import csv
    import io

    from ..common.text import csv_cell

    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_COLUMNS)
    for number, run in enumerate(played):
        columns = zip(run["states"], [*run["actions"], ""], _texts(run), strict=True)
        for time, column in enumerate(columns):
            lines.writerow([number, time, *(csv_cell(text) for text in (*column, run["secret"]))])
    return text.getvalue()
