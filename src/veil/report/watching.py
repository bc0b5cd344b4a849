"""Runs as the observer sees them: what it receives, what it believes after each event, and where it thinks the agent is."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InputError, TooLargeError
from ..common.logs import divergence_bits
from ..engine.filter import ObserverFilter
from ..engine.hidden import event_name
from ..engine.over_time import posteriors_over_time
from ..engine.sampling import Runs, draw_runs
from ..measure.measures import JointTable, RevealingSequence, joint_table
from ..problem.problem import Problem
from .behaviour import Behaviour

_MEMORY, _SECONDS = 2**28, 10.0  # what the table of all sequences may take here
_DRAWN = 400  # runs from which telling ones are chosen
_WORK = 1.5e8  # numbers that drawing and filtering those may pass through


@dataclass(frozen=True, eq=False)
class Watched:
    """One run and what the observer makes of it.

    **Attributes:** `title`; `observations`, one a time, None where nothing is received at time 0; `posterior`,
    `(T+1, Z)`; `belief`, `(T+1, S)`, where it thinks the agent is; `states` `(T+1,)` and `secret`, what is true, None
    where only the observations are known.
    """

    title: str
    observations: tuple[Any, ...]
    posterior: Float[np.ndarray, "T+1 Z"]
    belief: Float[np.ndarray, "T+1 S"]
    states: Int[np.ndarray, " T+1"] | None
    secret: int | None


@dataclass(frozen=True)
class Revealing:
    """The observation sequences that tell the observer most, and in words how they were found.

    `guess`: the chance that the observer's best guess is right, `prior_guess` the same before it sees anything.
    """

    sequences: tuple[RevealingSequence, ...]
    exact: bool
    how: str
    guess: float
    prior_guess: float


def event_text(event: Any) -> str:
    """An event in one piece of text; nothing for nothing."""
    if event is None:
        return ""
    return " · ".join(event) if isinstance(event, tuple) else str(event)


def watch(behaviour: Behaviour, observations: Sequence[Any], *, title: str = "run") -> Watched:
    """What the observer believes along given observations: as many as it has received so far, up to the whole run.

    **Raises:** `ImpossibleObservationError`, `InputError` as `ObserverFilter.update`.
    """
    problem, given = behaviour.problem, list(observations)
    first = problem.observer.sees_first
    if len(given) > problem.horizon + first:
        most = problem.horizon + first
        raise InputError("observations", [f"found {len(given)}, expected at most {most}: the horizon is reached then"])
    events = given if first else [None, *given]
    if not events:
        raise InputError("observations", ["there are none, expected at least one"])
    watcher = ObserverFilter(problem, behaviour.policy)
    posterior, belief = [], []
    state, size = behaviour.chain.hidden.state, problem.num_states
    for event in events:
        if event is not None:
            watcher.update(event)
        posterior.append(watcher.posterior)
        belief.append(np.bincount(state, weights=watcher.belief, minlength=size))
    return Watched(title, tuple(_names(problem, events)), np.array(posterior), np.array(belief), None, None)


@dataclass(frozen=True, eq=False)
class Sample:
    """Runs that were drawn: `runs`, those to look at; of all of them `events`, `(n, T+1)`, and `final`, `(n, Z)`, the
    posteriors in the end."""

    runs: list[Watched]
    events: Int[np.ndarray, "n T+1"]
    final: Float[np.ndarray, "n Z"]


def sample_runs(behaviour: Behaviour, count: int, seed: int = 0) -> Sample:
    """Some sampled runs: the first that were drawn and, of all, that which gave the secret away most and that which misled.

    **Arguments:** `count`: how many to look at, two or more.
    """
    problem, chain = behaviour.problem, behaviour.chain
    step = (problem.horizon + 1) * chain.hidden.num_states * len(problem.secret_values)
    drawn = draw_runs(chain, int(np.clip(_WORK // step, max(count, 8), _DRAWN)), np.random.default_rng(seed))
    final = deque(posteriors_over_time(chain, drawn.events), maxlen=1)[0]
    values = chain.hidden.label[drawn.states[:, chain.hidden.split_time]].argmax(axis=1)
    on_truth = final[np.arange(len(values)), values]
    chosen = [(run, f"Run {run + 1}") for run in range(count - 2)]
    chosen += [(int(on_truth.argmax()), "Most given away"), (int(on_truth.argmin()), "Most misled")]
    return Sample([_watched(behaviour, drawn, run, title) for run, title in chosen], drawn.events, final)


def sample_run(behaviour: Behaviour, seed: int = 0) -> Watched:
    """One run, drawn with a seed."""
    return _watched(behaviour, draw_runs(behaviour.chain, 1, np.random.default_rng(seed)), 0, "Run 1")


def _watched(behaviour: Behaviour, drawn: Runs, run: int, title: str) -> Watched:
    problem, hidden = behaviour.problem, behaviour.chain.hidden
    events = [event_name(problem, int(event), time) for time, event in enumerate(drawn.events[run])]
    seen = watch(behaviour, events if problem.observer.sees_first else events[1:], title=title)
    value = int(hidden.label[drawn.states[run, hidden.split_time]].argmax())
    return replace(seen, states=hidden.state[drawn.states[run]], secret=value)


def most_revealing(behaviour: Behaviour, sample: Sample, top: int) -> Revealing:
    """The sequences that tell most: of all where their table fits in memory, else of those that were drawn."""
    problem = behaviour.problem
    try:
        table = joint_table(problem, behaviour.policy, memory_bytes=_MEMORY, time_limit=_SECONDS)
    except TooLargeError:
        return _of_sample(behaviour, sample.events, sample.final, top)
    how = f"All {table.num_sequences:,} possible observation sequences were compared."
    return Revealing(tuple(table.revealing(top)), True, how, table.guess_probability, table.prior_guess_probability)


def _of_sample(behaviour: Behaviour, events: np.ndarray, final: np.ndarray, top: int) -> Revealing:
    """As `JointTable.revealing`, of the sequences that were drawn, each with the share of the draws that it makes up."""
    problem = behaviour.problem
    distinct, first, count = np.unique(events, axis=0, return_index=True, return_counts=True)
    prior = behaviour.chain.prior
    share, posterior = count / len(events), final[first]
    drawn = JointTable(problem, share[:, None] * posterior, distinct)
    gain = divergence_bits(posterior, np.broadcast_to(prior, posterior.shape))
    # The sample's own prior would hide what the sequences have in common: they are held against the true one.
    order = np.lexsort((np.arange(len(gain)), -share, -gain))[:top]
    names, values = drawn.sequences, problem.secret_values
    found = tuple(
        RevealingSequence(
            names[row],
            float(share[row]),
            dict(zip(values, posterior[row].tolist(), strict=True)),
            float(gain[row]),
            float(gain[row] * share[row]),
        )
        for row in order.tolist()
    )
    how = f"There are too many sequences to compare them all: these are of {len(events):,} sampled runs."
    return Revealing(found, False, how, drawn.guess_probability, float(prior.max()))


def _names(problem: Problem, events: Sequence[Any]) -> list[Any]:
    """Events by name, whichever way they were given."""

    def name(names: Any, key: Any) -> str:
        return names[names.find(key)]

    found: list[Any] = []
    for event in events:
        if isinstance(event, tuple):
            found.append((name(problem.model.actions, event[0]), name(problem.observer.observations, event[1])))
        else:
            found.append(None if event is None else name(problem.observer.observations, event))
    return found
