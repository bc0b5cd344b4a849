"""The expected return of a policy and its slope in the policy's table, exact, over the horizon or for ever."""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Float

from ..problem.errors import InputError
from ..problem.model import Model
from ..problem.problem import Problem
from .chain import Chain, sum_over


def evaluate_return(problem: Problem, chain: Chain) -> tuple[float, Float[np.ndarray, "T C A"]]:
    """The expected return and `∂V/∂π_t(a|c)` (the policy-gradient theorem: `γ^t P(x_t = x) Q_t(x,a)`, summed over x in c).

    Over the horizon: `V = E[Σ_{t<T} γ^t R(s_t,a_t) + γ^T R_T(s_T)]`. For ever: the discounted sum; a policy with a clock
    plays optimally for the return once its last table is used up.

    Cost: `O(T · nnz(P))`; for ever, two linear solves.
    """
    if problem.return_over == "infinite" and chain.stationary:
        return _stationary_forever(chain)
    terminal = chain.hidden.terminal
    if problem.return_over == "infinite":
        terminal = _values_afterwards(problem, chain)
    return _over_horizon(chain, terminal)


def _action_values(chain: Chain, values: np.ndarray) -> Float[np.ndarray, "N A"]:
    """`Σ_x' P(x'|x,a) v(x')`."""
    kernel = chain.hidden.kernel
    if kernel.is_sparse:
        ones = np.ones((1, kernel.num_states))
        return kernel.contract(kernel.outer(ones, values[None]))
    return kernel.contract(np.broadcast_to(values, (kernel.num_states, kernel.num_states)))


def _over_horizon(chain: Chain, terminal: np.ndarray) -> tuple[float, np.ndarray]:
    hidden = chain.hidden
    slope = np.zeros(chain.table.shape)
    values = terminal
    for time in range(hidden.horizon - 1, -1, -1):
        actions = hidden.reward + hidden.discount * _action_values(chain, values)
        occupied = hidden.discount**time * chain.occupancies[time]
        np.add.at(slope[0 if chain.stationary else time], hidden.cell, occupied[:, None] * actions)
        values = np.sum(chain.weights(time) * actions, axis=1)
    return float(hidden.start @ values), slope


def _stationary_forever(chain: Chain) -> tuple[float, np.ndarray]:
    hidden = chain.hidden
    transitions = sum_over(chain.matrices(0))
    values = _solve(transitions, hidden.discount, np.sum(chain.weights(0) * hidden.reward, axis=1))
    occupied = _solve(transitions.T, hidden.discount, hidden.start)
    actions = hidden.reward + hidden.discount * _action_values(chain, values)
    slope = np.zeros(chain.table.shape)
    np.add.at(slope[0], hidden.cell, occupied[:, None] * actions)
    return float(hidden.start @ values), slope


def _solve(transitions, discount: float, right: np.ndarray) -> np.ndarray:
    """The v with `v = right + discount · transitions @ v`."""
    if sp.issparse(transitions):
        return np.asarray(spla.spsolve(sp.csc_array(sp.eye_array(len(right)) - discount * transitions), right))
    return np.linalg.solve(np.eye(len(right)) - discount * transitions, right)


def _values_afterwards(problem: Problem, chain: Chain) -> Float[np.ndarray, " N"]:
    hidden = chain.hidden
    if len(problem.models) > 1 and not problem.secret_table.agent_knows:
        raise InputError(
            "return over an infinite horizon",
            ["a policy with a clock plays on optimally after its last table, and an agent who does not know which model"
             " runs cannot: use a Markov policy, WhichModel(agent_knows=True), or return_over='horizon'"],
        )  # fmt: skip
    values = np.stack([optimal_values(model) for model in problem.models])
    return values[hidden.model_index, hidden.state]


def optimal_values(model: Model) -> Float[np.ndarray, " S"]:
    """`V*(s)`, the largest discounted return over an infinite horizon, by policy iteration; the discount is below 1."""
    expected = np.where(model.available, 0.0, -np.inf)
    choice = np.argmax(np.where(model.available, model.rewards, -np.inf), axis=1)
    stacked = sp.csr_array(sp.vstack(model.matrices, format="csr"))
    states = np.arange(model.num_states)
    while True:
        transitions = stacked[choice * model.num_states + states]
        values = _solve(transitions, model.discount, model.rewards[states, choice])
        for action, matrix in enumerate(model.matrices):
            expected[:, action] = model.rewards[:, action] + model.discount * (matrix @ values)
        expected[~model.available] = -np.inf
        better = expected.max(axis=1) > expected[states, choice] + 1e-12 * (1 + np.abs(values))
        if not better.any():
            return values
        choice = np.where(better, np.argmax(expected, axis=1), choice)
