"""Runs whose states were not recorded: expectation maximisation (Baum and Welch) on the engine's forward and backward steps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import Clock
from ..common.errors import InputError
from ..common.logs import natural_log
from ..engine.chain import Chain, Slopes, make_chain, sum_over
from ..engine.step import Extension, Step, adder
from ..policy.markov import MarkovPolicy
from ..policy.policy import Policy
from ..problem.problem import Problem
from .counting import actions_taken
from .logs import UNKNOWN, Logs
from .parts import CHOICE, EMISSION, Parts, stacked_emissions
from .tables import Table

_ITERATIONS = 200
# Stop where one iteration gains less than this in the objective for each run; later gains are far below its sampling error.
_GAIN = 1e-6
_CHUNK = 4096  # runs of one pass, so that messages stay small


@dataclass(frozen=True, eq=False)
class Sequences:
    """Some runs of one length, each different: `events` `(n, L)`, how often each occurs, and the moment where one begins."""

    events: Int[np.ndarray, "n L"]
    weight: Int[np.ndarray, " n"]
    begins: Int[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Maximised:
    """What expectation maximisation found: `parts` with expected counts, the `objective` after each iteration, and `ln P`."""

    parts: Parts
    objective: tuple[float, ...]
    log_likelihood: float


def expected(logs: Logs, problem: Problem, policy: Policy, names: set[str], prior: float, clock: Clock) -> Maximised:
    """The emissions, the policy or both from observations alone, begun at those of the problem and of `policy`.

    Each iteration counts what is expected given the observations and sets every row to `(count + prior) / total`. The
    objective `ln P(observations) + prior · Σ ln p` does not fall.

    Cost: an iteration is a forward and a backward pass over all runs that differ.

    **Raises:** `InputError` where a run is impossible or incomplete, or other parts are asked for.
    """
    if not names <= {EMISSION, CHOICE}:
        wanted = "what='sensors' or what='policy', or record the states"
        raise InputError(
            logs.source, [f"no states were recorded, from which a model cannot be estimated: use {wanted}"]
        )
    if EMISSION in names and problem.observer.on_actions:
        raise InputError(logs.source, ["emissions on (action, next state) are not estimated without recorded states"])
    if CHOICE in names and not isinstance(policy, MarkovPolicy):
        raise InputError("policy", [f"it is {policy.describe()}, expected a veil.MarkovPolicy to begin with"])
    groups = list(_sequences(logs, problem))
    allowed = {EMISSION: stacked_emissions(problem), CHOICE: sp.csr_array(problem.model.available.astype(float))}
    parts, now, objective = Parts(problem, policy, {}), (problem, policy), []
    while True:
        counts, likelihood = _expected_counts(*now, groups, names, logs)
        if parts.tables:
            values = parts.mean()
            objective.append(likelihood + sum(one.log_prior(values[name]) for name, one in parts.tables.items()))
            slow = len(objective) > 1 and objective[-1] - objective[-2] < _GAIN * logs.num_runs
            if slow or len(objective) == _ITERATIONS or clock.left <= 0:
                return Maximised(parts, tuple(objective), likelihood)
        tables = {name: Table.of(name, counts[name], allowed[name], prior) for name in sorted(names)}
        parts = Parts(problem, policy, tables)
        now = parts.assembled(parts.mean())


def _sequences(logs: Logs, problem: Problem) -> Iterator[Sequences]:
    """The runs by length, a part at a time; event 0 at time 0 where nothing is received then."""
    observer = problem.observer
    event = logs.observation.copy()
    if observer.sees_actions:
        before = np.append(UNKNOWN, actions_taken(logs, problem.num_actions)[:-1])
        pairs = np.where((before == UNKNOWN) | (event == UNKNOWN), UNKNOWN, before * observer.num_observations + event)
        event = np.where(logs.begins, event, pairs)
    if not observer.sees_first:
        event[logs.begins] = 0
    unknown = np.flatnonzero(event == UNKNOWN)
    if len(unknown):
        what = "an action or an observation" if observer.sees_actions else "an observation"
        found = f"{logs.where(int(unknown[0]))}: {what} is missing"
        raise InputError(
            logs.source, [f"{found}, without which runs with hidden states are not used: leave the run out"]
        )
    first = np.flatnonzero(logs.begins)
    lengths = np.flatnonzero(logs.ends) - first + 1
    if lengths.max() > problem.horizon + 1:
        long = f"a run has {lengths.max() - 1} decisions, expected at most the horizon {problem.horizon}"
        raise InputError(logs.source, [f"{long}: set a longer one, or cut the run"])
    for length in np.unique(lengths):
        begins = first[lengths == length]
        events, one, weight = np.unique(
            event[begins[:, None] + np.arange(length)], axis=0, return_index=True, return_counts=True
        )
        for part in range(0, len(events), _CHUNK):
            chosen = slice(part, part + _CHUNK)
            yield Sequences(events[chosen], weight[chosen], begins[one[chosen]])


def _expected_counts(
    problem: Problem, policy: Policy, groups: Sequence[Sequences], names: set[str], logs: Logs
) -> tuple[dict[str, sp.csr_array], float]:
    """The expected counts of emissions and choices given all observations, and `ln P` of these."""
    chain = make_chain(problem, policy)
    slopes = Slopes(chain) if CHOICE in names else None
    seen = np.zeros((problem.num_states, problem.observer.num_observations))
    total = sum(_pass(chain, problem, group, slopes, seen, logs) for group in groups)
    counts = {EMISSION: sp.csr_array(seen)}
    if slopes is not None:  # an expected count is a probability times the gradient of ln P in it
        taken = (slopes.table() * chain.table)[0]
        counts[CHOICE] = sp.csr_array(taken.reshape(-1, problem.num_states, problem.num_actions).sum(axis=0))
    return counts, total


def _pass(
    chain: Chain, problem: Problem, group: Sequences, slopes: Slopes | None, seen: np.ndarray, logs: Logs
) -> float:
    """Forward and backward over some runs; adds to the gradient of `ln P` and to the emissions seen; returns `ln P`."""
    levels = [_level(group.events[:, time]) for time in range(group.events.shape[1])]
    forward: list[Float[np.ndarray, "n N"]] = []
    scales: list[Float[np.ndarray, "n 1"]] = []
    for time, (level, back) in enumerate(levels):
        if time == 0:
            rows = chain.hidden.root[:, group.events[:, 0]].T
        else:
            rows = Step.of(chain, time - 1).forward(forward[-1], level)[back]
        scale = rows.sum(axis=1, keepdims=True)
        if not scale.all():
            moment = int(group.begins[np.argmin(scale[:, 0])]) + time
            found = f"{logs.where(moment)}: this observation is impossible in the scenario after those before it"
            raise InputError(logs.source, [f"{found}: correct the run, or allow it in the scenario"])
        forward.append(rows / scale)
        scales.append(scale)
    backward = np.repeat(group.weight[:, None].astype(float), chain.hidden.num_states, axis=1)
    first = 0 if problem.observer.sees_first else 1
    for time in range(len(levels) - 1, -1, -1):
        if time >= first:
            _add_seen(seen, problem, chain, group.events[:, time], forward[time] * backward)
        if time > 0:
            level, _ = levels[time]
            slope = (backward / scales[time])[level.parent]
            backward = Step.of(chain, time - 1).pull_forward(forward[time - 1], level, slope, adder(slopes, time - 1))
    return float(group.weight @ sum_over(natural_log(scale[:, 0]) for scale in scales))


def _level(event: Int[np.ndarray, " n"]) -> tuple[Extension, Int[np.ndarray, " n"]]:
    """Every run extended by its event, in the order of the events; and the place of each run in that order."""
    order = np.argsort(event, kind="stable")
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return Extension(order, event[order]), back


def _add_seen(
    seen: np.ndarray, problem: Problem, chain: Chain, events: np.ndarray, probabilities: Float[np.ndarray, "n N"]
) -> None:
    """Add the probability of each hidden state at one time to the emissions of its state."""
    number = events % problem.observer.num_observations
    by_observation = np.zeros((problem.observer.num_observations, chain.hidden.num_states))
    np.add.at(by_observation, number, probabilities)
    np.add.at(seen, chain.hidden.state, by_observation.T)
