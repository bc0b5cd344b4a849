"""How often each thing happened in recorded runs whose states are known; moments with something unknown are left out."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from .logs import UNKNOWN, Logs


def start_counts(logs: Logs, num_states: int) -> sp.csr_array:
    """`(1, S)`: how many runs began in each state."""
    first = logs.state[logs.begins]
    return _tally(np.zeros_like(first), first, (1, num_states))


def transition_counts(logs: Logs, num_states: int, num_actions: int) -> sp.csr_array:
    """`(A · S, S)`: how often action a in state s, row `a · S + s`, led to each state."""
    now = np.flatnonzero(~logs.ends)
    action, state = actions_taken(logs, num_actions)[now], logs.state[now]
    row = np.where((action == UNKNOWN) | (state == UNKNOWN), UNKNOWN, action * num_states + state)
    return _tally(row, logs.state[now + 1], (num_actions * num_states, num_states))


def emission_counts(
    logs: Logs, num_states: int, num_actions: int, num_observations: int, *, on_actions: bool
) -> sp.csr_array:
    """`(S, O)`: how often each state emitted each observation; `(A · S, O)` on (action, next state)."""
    if not on_actions:
        return _tally(logs.state, logs.observation, (num_states, num_observations))
    now = np.flatnonzero(~logs.ends)
    action, there = actions_taken(logs, num_actions)[now], logs.state[now + 1]
    row = np.where((action == UNKNOWN) | (there == UNKNOWN), UNKNOWN, action * num_states + there)
    return _tally(row, logs.observation[now + 1], (num_actions * num_states, num_observations))


def choice_counts(logs: Logs, num_states: int, num_actions: int, model: np.ndarray | None = None) -> sp.csr_array:
    """`(S, A)`: how often each action was taken in each state; in each model and state, `(K · S, A)`, if `model` is given.

    **Arguments:** `model`: the number of the model of each moment.
    """
    row, rows = logs.state, num_states
    if model is not None:
        row = np.where((row == UNKNOWN) | (model == UNKNOWN), UNKNOWN, model * num_states + row)
        rows = num_states * (int(model.max(initial=0)) + 1)
    return _tally(row, actions_taken(logs, num_actions), (rows, num_actions))


@dataclass(frozen=True, eq=False)
class Rewards:
    """The mean reward of each state and action, `(S, A)`, and of each state in which a run ended, `(S,)`.

    `counts` and `ends`: of how many rewards; where there is none the mean is 0.
    """

    means: Float[np.ndarray, "S A"]
    counts: Int[np.ndarray, "S A"]
    last: Float[np.ndarray, " S"]
    ends: Int[np.ndarray, " S"]


def rewards_of(logs: Logs, num_states: int, num_actions: int) -> Rewards:
    """The means of what was recorded; the reward of a run's last moment, if no action was taken then, is a terminal one."""
    action, known = actions_taken(logs, num_actions), ~np.isnan(logs.reward) & (logs.state != UNKNOWN)
    paid, last = known & (action != UNKNOWN), known & logs.ends & (action == UNKNOWN)
    code = logs.state[paid] * num_actions + action[paid]
    counts = np.bincount(code, minlength=num_states * num_actions)
    sums = np.bincount(code, logs.reward[paid], minlength=num_states * num_actions)
    ends = np.bincount(logs.state[last], minlength=num_states)
    terminal = np.bincount(logs.state[last], logs.reward[last], minlength=num_states)
    shape = (num_states, num_actions)
    means = (sums / np.maximum(counts, 1)).reshape(shape)
    return Rewards(means, counts.reshape(shape), terminal / np.maximum(ends, 1), ends)


def actions_taken(logs: Logs, num_actions: int) -> Int[np.ndarray, " n"]:
    """The actions as recorded; where there is one action only, it was taken at every decision."""
    return logs.action if num_actions > 1 else np.where(logs.ends, UNKNOWN, 0)


def _tally(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    known = (row != UNKNOWN) & (column != UNKNOWN)
    found = sp.coo_array((np.ones(int(known.sum())), (row[known], column[known])), shape=shape)
    return sp.csr_array(found)
