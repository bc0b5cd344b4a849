"""How often each thing happened in recorded runs whose states are known; moments with something unknown are left out."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

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


def choice_counts(logs: Logs, num_states: int, num_actions: int) -> sp.csr_array:
    """`(S, A)`: how often each action was taken in each state."""
    return _tally(logs.state, actions_taken(logs, num_actions), (num_states, num_actions))


def actions_taken(logs: Logs, num_actions: int) -> Int[np.ndarray, " n"]:
    """The actions as recorded; where there is one action only, it was taken at every decision."""
    return logs.action if num_actions > 1 else np.where(logs.ends, UNKNOWN, 0)


def _tally(row: np.ndarray, column: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    known = (row != UNKNOWN) & (column != UNKNOWN)
    found = sp.coo_array((np.ones(int(known.sum())), (row[known], column[known])), shape=shape)
    return sp.csr_array(found)
