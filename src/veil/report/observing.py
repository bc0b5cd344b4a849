"""Runs as the observer sees them: the observations, its posterior and its belief after each, and the revealing sequences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..engine.filter import Observation, ObserverFilter
from ..engine.hidden import event_name
from ..engine.over_time import beliefs_over_time, posteriors_over_time
from ..engine.sampling import Runs, draw_runs
from ..measure.measures import Event, JointTable, RevealingSequence, joint_table, sampled_table
from .behaviour import Behaviour

_MEMORY, _SECONDS, _LEAST = 2**28, 4.0, 1e-6  # limits of a table of all sequences: a report should take seconds
_DRAWN = 400  # runs drawn, of which the extremes are shown: enough for one in a hundred to be among them
_WORK = 1.5e8  # entries of all messages of those runs, about a second of filtering


@dataclass(frozen=True, eq=False)
class ObservedRun:
    """One run and what the observer concludes from it.

    **Attributes:** `title`; `observations`, one per time, None where nothing is received at time 0; `posterior`,
    `(T+1, Z)`, of the secret; `belief`, `(T+1, S)`, of the agent's state; `states` `(T+1,)` and `secret`, the true ones,
    None where only the observations are known. Where the whole path is secret, `path` is the most likely one given all
    observations, by the names of its states, and `path_probability` how likely it is.
    """

    title: str
    observations: tuple[Event | None, ...]
    posterior: Float[np.ndarray, "T+1 Z"]
    belief: Float[np.ndarray, "T+1 S"]
    states: Int[np.ndarray, " T+1"] | None = None
    secret: int | None = None
    path: tuple[str, ...] = ()
    path_probability: float = 0.0


def event_text(event: Event | None) -> str:
    """An event as one piece of text; empty for None."""
    if event is None:
        return ""
    return " · ".join(event) if isinstance(event, tuple) else event


def observe(behaviour: Behaviour, observations: Sequence[Observation], *, title: str = "run") -> ObservedRun:
    """What the observer concludes from given observations: those received so far, up to the whole run.

    **Raises:** `ImpossibleObservationError`, `InputError` as `ObserverFilter.update`.
    """
    problem, given = behaviour.problem, list(observations)
    most = problem.horizon + problem.observer.sees_first
    if len(given) > most:
        raise InputError("observations", [f"found {len(given)}, expected at most {most}: the horizon is reached then"])
    if not given and problem.observer.sees_first:
        raise InputError("observations", ["found none, expected at least one"])
    observer = ObserverFilter(problem, behaviour.policy)
    return _observed(behaviour, observer, (observer.event(one) for one in given), title)


@dataclass(frozen=True, eq=False)
class SampledRuns:
    """Runs that were drawn: `runs`, those to show; `events`, `(n, T+1)`, of all of them."""

    runs: list[ObservedRun]
    events: Int[np.ndarray, "n T+1"]


def sample_runs(behaviour: Behaviour, count: int, seed: int = 0) -> SampledRuns:
    """The first `count - 2` of some runs, and of all that were drawn the most revealing and the most misleading one.

    These are the runs in which the posterior probability of the true value ends largest and smallest.

    **Arguments:** `count`: how many to show, two or more.
    """
    problem, chain = behaviour.problem, behaviour.chain
    hidden = chain.hidden
    step = (problem.horizon + 1) * hidden.num_states * len(problem.secret_values)
    drawn = draw_runs(chain, int(np.clip(_WORK // step, max(count, 8), _DRAWN)), np.random.default_rng(seed))
    *_, final = posteriors_over_time(chain, drawn.events)
    values = hidden.label[drawn.states[:, hidden.split_time]].argmax(axis=1)
    on_truth = final[np.arange(len(values)), values]
    chosen = [(run, f"Sample {run + 1}") for run in range(count - 2)]
    chosen += [(int(on_truth.argmax()), "Most revealing"), (int(on_truth.argmin()), "Most misleading")]
    return SampledRuns(_shown(behaviour, drawn, chosen), drawn.events)


def sample_run(behaviour: Behaviour, seed: int | Sequence[int] = 0) -> ObservedRun:
    """One run, drawn with a seed."""
    return _shown(behaviour, draw_runs(behaviour.chain, 1, np.random.default_rng(seed)), [(0, "Sample 1")])[0]


def _shown(behaviour: Behaviour, drawn: Runs, chosen: list[tuple[int, str]]) -> list[ObservedRun]:
    """The runs of the given numbers, under the given titles."""
    hidden, observer = behaviour.chain.hidden, ObserverFilter(behaviour.problem, behaviour.policy)
    first = 0 if behaviour.problem.observer.sees_first else 1
    found = []
    for run, title in chosen:
        if behaviour.chain.written is None:
            seen = _observed(behaviour, observer, drawn.events[run, first:].tolist(), title)
        else:
            seen = _written(behaviour, drawn.events[run], title)
        value = int(hidden.label[drawn.states[run, hidden.split_time]].argmax())
        found.append(replace(seen, states=hidden.state[drawn.states[run]], secret=value))
    return found


def _written(behaviour: Behaviour, events: Int[np.ndarray, " T+1"], title: str) -> ObservedRun:
    """A run as an observer without a clock sees it: what it believes at each time if it watches up to that time only."""
    problem, chain = behaviour.problem, behaviour.chain
    first = 0 if problem.observer.sees_first else 1
    names = [event_name(problem, event, time) if time >= first else None for time, event in enumerate(events.tolist())]
    posterior = [rows[0] for rows in posteriors_over_time(chain, events[None])]
    belief = [
        np.bincount(chain.hidden.state, rows[0], minlength=problem.num_states)
        for rows in beliefs_over_time(chain, events[None])
    ]
    return ObservedRun(title, tuple(names), np.array(posterior), np.array(belief))


def _observed(behaviour: Behaviour, observer: ObserverFilter, events: Iterable[int], title: str) -> ObservedRun:
    problem = behaviour.problem
    names: list[Event | None] = []
    posterior, belief = [], []

    def note(name: Event | None) -> None:
        names.append(name)
        posterior.append(observer.posterior)
        belief.append(observer.state_belief)

    observer.reset()
    if not problem.observer.sees_first:
        note(None)
    for event in events:
        observer.advance(event)
        note(event_name(problem, event, len(names)))
    return ObservedRun(title, tuple(names), np.array(posterior), np.array(belief))


@dataclass(frozen=True, eq=False)
class Revealing:
    """The observation sequences that reveal most: `sequences`, out of `table`; `exact`, whether that holds all of them."""

    sequences: list[RevealingSequence]
    table: JointTable
    exact: bool


def seconds_for(clock: Clock | None) -> float:
    """How long one tree of sequences may take: above 0, where no time is left none is made."""
    return _SECONDS if clock is None else max(min(_SECONDS, clock.left), _LEAST)


def most_revealing(behaviour: Behaviour, sample: SampledRuns, top: int, clock: Clock | None = None) -> Revealing:
    """The sequences that contribute most to the leakage; where not all can be listed, the most telling of a sample."""
    seconds = seconds_for(clock)
    try:
        table = joint_table(behaviour.problem, behaviour.policy, memory_bytes=_MEMORY, time_limit=seconds)
    except TooLargeError:
        table = sampled_table(behaviour.problem, behaviour.chain, sample.events)
        # Shares of a few hundred draws are too coarse to rank by: what a sequence tells is exact.
        return Revealing(table.revealing(top, by="gain_bits"), table, False)
    return Revealing(table.revealing(top), table, True)
