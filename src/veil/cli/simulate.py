"""`veil simulate`: a policy as the observer sees it, in drawn runs or in observations that are given."""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Required, TextIO, TypedDict

import typer

from .options import with_changes
from .shared import (
    BAD_INPUT,
    INTERRUPTED,
    SOLVED,
    PairOption,
    PolicyArgument,
    ScenarioArgument,
    SeedOption,
    event_text,
    guarded,
    open_policy,
    open_scenario,
    print_json,
    print_table,
    stop,
    write_text,
)

if TYPE_CHECKING:
    from ..common.checks import Names
    from ..engine.filter import ObserverFilter
    from ..measure.attack_result import Event
    from ..policy.policy import Policy
    from ..problem.problem import Problem


class Refusal(TypedDict, total=False):
    """What is said of a line of input that gave no new posterior."""

    new_run: bool
    impossible: bool
    understood: bool
    error: str


class Step(Refusal):
    """A line of input, and the posterior after it."""

    line: Required[int]
    observation: Required[str]
    time: Required[int | None]
    posterior: Required[dict[str, float]]


class Run(TypedDict):
    """A simulated run by names; an observation is None where none is received at time 0."""

    secret: str
    states: list[str]
    actions: list[str]
    observations: "list[Event | None]"


def _steps(observer: "ObserverFilter", stream: TextIO) -> Iterator[Step]:
    """The posterior after each line."""
    from ..common.errors import ImpossibleObservationError, VeilError

    for number, line in enumerate(iter(stream.readline, ""), 1):  # iterating over the file itself would read ahead
        text, more = line.strip(), Refusal()
        if not text:
            observer.reset()
            more["new_run"] = True
        else:
            try:
                _take_in(observer, text)
            except ImpossibleObservationError as error:
                more = Refusal(impossible=True, error=str(error))
            except VeilError as error:
                more = Refusal(understood=False, error=str(error))
        posterior = dict(zip(observer.values, observer.posterior.tolist(), strict=True))
        yield Step(line=number, observation=text, **more, time=observer.time, posterior=posterior)


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


class _Lines:
    """One line of text for each step, in columns."""

    def __init__(self, observer: "ObserverFilter"):
        problem = observer.problem
        actions = problem.model.actions.all() if problem.observer.sees_actions else ("",)
        longest = max(map(len, actions)) + 1 + max(map(len, problem.observer.observations.all()))
        self._width = max(11, min(40, longest))
        self._say("time", "observation", observer.values)
        self._columns = [max(8, len(value)) for value in observer.values]

    def step(self, step: Step) -> None:
        """Print the posterior, and on standard error why a line was refused."""
        if "error" in step:
            print(f"line {step['line']}: {step['error']}", file=sys.stderr, flush=True)
        seen = "(new run)" if "new_run" in step else "(refused)" if "error" in step else step["observation"]
        values = step["posterior"].values()
        shown = [f"{value:.6f}".ljust(width) for value, width in zip(values, self._columns, strict=True)]
        self._say("-" if step["time"] is None else str(step["time"]), seen, shown)

    def _say(self, time: str, seen: str, rest: Iterable[str]) -> None:
        print(f"{time:>4}  {seen:<{self._width}}  {'  '.join(f'{text:<8}' for text in rest)}".rstrip(), flush=True)


class _JsonLines:
    """One JSON document per line."""

    def step(self, step: Step) -> None:
        """Print it."""
        print(json.dumps(step, ensure_ascii=False, allow_nan=False), flush=True)


@guarded
@with_changes
def simulate(
    scenario: ScenarioArgument,
    policy: PolicyArgument,
    pair: PairOption = "own",
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="Number of runs.")] = 1,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write, one line per step.", show_default=False)
    ] = None,
    observations_only: Annotated[
        bool,
        typer.Option("--observations", help="Print only the observations, one per line, as --observed reads them."),
    ] = False,
    observed: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw no runs: read observations from this file (- for standard input), one per line, and print the"
            " observer's belief after each.",
            show_default=False,
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
    problem = open_scenario(scenario, changes).problem
    acting = open_policy(problem, policy)
    if observed is not None:
        _observe(problem, acting, pair, observed, as_json)
        return
    played = _play(problem, acting, pair, runs, seed)
    if output is not None:
        write_text(output, _runs_csv(played), force=True)
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

    observer = ObserverFilter(problem, policy, pair=pair)
    tell: _Lines | _JsonLines = _JsonLines() if as_json else _Lines(observer)
    code = SOLVED
    try:
        with contextlib.nullcontext(sys.stdin) if place == "-" else open(place, encoding="utf-8") as stream:
            for step in _steps(observer, stream):
                code = code if step.get("understood", True) else BAD_INPUT
                tell.step(step)
    except KeyboardInterrupt:  # the usual way to stop
        code = INTERRUPTED
    stop(code)


def _play(problem: "Problem", policy: "Policy", pair: str, runs: int, seed: int) -> list[Run]:
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


def _seen(run: Run) -> "list[Event]":
    return [event for event in run["observations"] if event is not None]


def _texts(run: Run) -> list[str]:
    return ["" if event is None else event_text(event) for event in run["observations"]]


def _runs_csv(played: list[Run]) -> str:
    import csv
    import io

    from ..common.text import csv_cell

    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["run", "time", "state", "action", "observation", "secret"])
    for number, run in enumerate(played):
        columns = zip(run["states"], [*run["actions"], ""], _texts(run), strict=True)
        for time, column in enumerate(columns):
            lines.writerow([number, time, *(csv_cell(text) for text in (*column, run["secret"]))])
    return text.getvalue()
