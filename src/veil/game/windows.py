"""Windows around the secret's time: two small games on each enclose the value of the whole game.

For a secret settled at time T and a window of k steps, s = T − k:

    max H(Z | X_s, O_{s+1:T})  ≤  max H(Z|Y)  ≤  max H(Z | O_{s+1:T})

over policies with return ≥ δ. On the right the observer forgets everything before s; on the left it is told X_s, after
which what came before says no more. Either is a game on a public graph of k steps, whose cost depends on k and not on T.
For a secret settled at time 0 the window is the first k steps: on the right the observer stops looking, on the left it is
told X_k, and the agent continues for the return alone. Both bounds converge as k grows where the agent can mix within k steps.
"""

from dataclasses import dataclass

import numpy as np

from ..engine.return_range import best_action_values
from ..policy.history import Decisions, HistoryPolicy
from ..problem.model import Model
from ..problem.problem import Problem
from .pairs import FullHistory, ObserverMemory, TailEvents


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two games of a window: its problem, the observer's memory, when the observer is told the hidden state."""

    problem: Problem
    memory: ObserverMemory
    told_at: int | None


def has_windows(problem: Problem) -> bool:
    """Whether the secret has its value at the first or the last time."""
    table = problem.secret_table
    return table.time in (0, problem.horizon) and table.path is None and table.each is None


def window_sides(problem: Problem, length: int) -> tuple[Side, Side]:
    """The games of a window: first the one whose observer is told the hidden state, then the one who forgets."""
    time, horizon = problem.secret_table.time, problem.horizon
    if length == horizon:
        whole = Side(problem, FullHistory(), None)
        return whole, whole
    if time == horizon:
        begin = horizon - length
        return Side(problem, TailEvents(begin), begin), Side(problem, TailEvents(begin), None)
    assert time == 0
    first = _first_steps(problem, length)
    return Side(first, FullHistory(), length), Side(first, FullHistory(), None)


def _first_steps(problem: Problem, length: int) -> Problem:
    """The problem up to a time before its horizon, with what the best continuation earns as its terminal rewards."""
    models = []
    for model in problem.models:
        best = best_action_values(problem, model)
        value = best[min(length, len(best) - 1)].max(axis=1)
        names = model.states.all(), model.actions.all()
        models.append(
            Model(
                model.matrices, model.rewards, model.initial, model.discount, value, *names, available=model.available
            )
        )
    return problem.replace(
        model=models if len(models) > 1 else models[0], horizon=length, return_over="horizon", min_return=None
    )


def lasting(problem: Problem, policy: HistoryPolicy) -> HistoryPolicy:
    """A policy on the first steps, made one for the whole horizon: after them it plays for the return alone.

    For secrets settled by then: what comes after depends on the state and the model only, and tells no more of the secret.
    """
    begin = policy.horizon
    if begin == problem.horizon:
        return policy
    table, observer = problem.secret_table, problem.observer
    memories, values = len(table.memory_names), len(table.value_names)
    size = len(problem.models) * memories * problem.num_states
    events = observer.num_events(problem.num_actions)
    best = [best_action_values(problem, model) for model in problem.models]
    decisions = list(policy.decisions)
    for time in range(begin, problem.horizon):
        scores = np.stack([each[min(time, len(each) - 1)] for each in best])  # (K, S, A)
        choice = np.repeat(np.argmax(scores, axis=2)[:, None], memories, axis=1).ravel()
        rows = np.eye(problem.num_actions)[np.repeat(choice, values)]
        situation, value = np.divmod(np.arange(size * values), values)
        decisions.append(Decisions(np.zeros_like(value), situation, value, rows))
    end = np.where(policy.following[-1] >= 0, 0, -1).astype(np.int32)
    after = [np.zeros((1, events), dtype=np.int32)] * (problem.horizon - begin)
    following = [*policy.following[:-1], end, *after]
    return HistoryPolicy(policy.first, following, decisions, executable=policy.executable)
