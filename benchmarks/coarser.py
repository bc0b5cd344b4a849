"""Coarser versions of a problem, and the policies of the problem that their policies become: warm starts to compare."""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.sparse.csgraph import shortest_path

import veil
from veil.problem.problem import Problem

Lift = Callable[[Float[np.ndarray, "t k A"]], Float[np.ndarray, "T S A"]]
"""The table of a coarser problem's policy, one row of time where it is stationary, as one for the problem."""


def half_horizon(problem: Problem) -> tuple[Problem, Lift]:
    """Half as many decisions; each table is used for two of the problem's."""
    shorter = -(-problem.horizon // 2)

    def lift(table: Float[np.ndarray, "t k A"]) -> Float[np.ndarray, "T S A"]:
        return table if len(table) == 1 else table[np.arange(problem.horizon) // 2]

    return problem.replace(horizon=shorter), lift


def fewer_states(problem: Problem) -> tuple[Problem, Lift]:
    """States alike in reward, observations and secret that are neighbours are one: 2 × 2 cells, or equally far from the start.

    Transitions are means over the states of a group. The secret is about the last state.
    """
    group = _groups(problem)
    count, model = int(group.max()) + 1, problem.model
    members = sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(count, len(group)))
    means = sp.csr_array(sp.diags_array(1 / np.asarray(members.sum(axis=1)).ravel()) @ members)
    coarse = veil.Model(
        [sp.csr_array(means @ matrix @ members.T) for matrix in model.matrices],
        means @ model.rewards,
        members @ model.initial,
        model.discount,
        terminal_rewards=means @ model.terminal_rewards,
    )
    observer = veil.Observer(sp.csr_array(means @ problem.observer.matrices[0]))
    secret = veil.LastState(np.unique(group[_secret_states(problem)]).tolist())
    found = veil.Problem(coarse, observer, secret, problem.horizon, problem.min_return)
    return found, lambda table: table[:, group]


def _secret_states(problem: Problem) -> Int[np.ndarray, " k"]:
    assert isinstance(problem.secret, veil.LastState)
    assert problem.secret.states is not None
    return np.array([problem.model.states.find(one) for one in problem.secret.states])


def _groups(problem: Problem) -> Int[np.ndarray, " S"]:
    """The group of each state."""
    model = problem.model
    if problem.layout is not None:
        place = np.array(problem.layout.cells) // 2
    else:
        graph = sp.csr_array(sum(model.matrices[1:], model.matrices[0]))
        place = shortest_path(graph, unweighted=True, indices=int(model.initial.argmax()))[:, None]
        place = np.where(np.isfinite(place), place, -1.0)
    secret = np.zeros((problem.num_states, 1))
    secret[_secret_states(problem)] = 1.0
    seen = problem.observer.matrices[0].toarray()
    return np.unique(np.hstack([place, secret, model.rewards, seen]), axis=0, return_inverse=True)[1].ravel()
