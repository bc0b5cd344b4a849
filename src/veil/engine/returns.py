"""The expected return of a policy and its gradient in the policy's table, exact, over a finite or an infinite horizon."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..problem.model import Model
from ..problem.problem import Problem
from ..problem.return_rounding import centre_of
from .chain import Chain, sum_by_cell
from .hidden import Hidden
from .kernel import Matrix


def evaluate_return(problem: Problem, chain: Chain) -> tuple[float, Float[np.ndarray, "T C A"]]:
    """The expected return and `∂V/∂π_t(a|c)` (the policy-gradient theorem: `γ^t P(x_t = x) Q_t(x,a)`, summed over x in c).

    Over the horizon: `V = E[Σ_{t<T} γ^t R(s_t,a_t) + γ^T R_T(s_T)]`. Over an infinite horizon: the discounted sum; a
    time-dependent policy plays optimally for the return once its last table is used up.

    Cost: `O(T · nnz(P))`; over an infinite horizon, two linear solves.
    """
    values, slopes = evaluate_returns(problem, chain.hidden, chain.table[None], stationary=chain.stationary)
    return float(values[0]), slopes[0]


def evaluate_returns(
    problem: Problem, hidden: Hidden, tables: Float[np.ndarray, "B T C A"], *, stationary: bool
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B T C A"]]:
    """`evaluate_return` for many tables at once, each to the last bit what it is alone."""
    starts = np.broadcast_to(hidden.start, (len(tables), hidden.num_states))
    return returns_from(problem, hidden, starts, tables, stationary=stationary)


def return_values(
    problem: Problem,
    hidden: Hidden,
    tables: Float[np.ndarray, "B T C A"],
    *,
    stationary: bool,
    starts: Float[np.ndarray, "B N"] | None = None,
) -> Float[np.ndarray, " B"]:
    """The returns of `evaluate_returns` or, from given starts, of `returns_from` alone, to the last bit, without slopes."""
    starts = np.broadcast_to(hidden.start, (len(tables), hidden.num_states)) if starts is None else starts
    hidden, offset = _centred(problem, hidden)
    if problem.return_over == "infinite" and stationary:
        return _stationary_forever(hidden, starts, tables)[0] + offset
    values = np.broadcast_to(_terminal(problem, hidden, offset), starts.shape)
    for time in range(hidden.horizon - 1, -1, -1):
        actions = _action_values(hidden, values)
        actions *= tables[:, 0 if stationary else time][:, hidden.cell]
        values = np.sum(actions, axis=2)
    return np.sum(starts * values, axis=1) + offset


def _terminal(problem: Problem, hidden: Hidden, offset: float) -> Float[np.ndarray, " N"]:
    """What the states of time T are worth to the return, less the offset of rewards that are centred."""
    return values_afterwards(problem, hidden) - offset if problem.return_over == "infinite" else hidden.terminal


def returns_from(
    problem: Problem,
    hidden: Hidden,
    starts: Float[np.ndarray, "B N"],
    tables: Float[np.ndarray, "B T C A"],
    *,
    stationary: bool,
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B T C A"]]:
    """`evaluate_returns` where each policy begins in a distribution of its own."""
    hidden, offset = _centred(problem, hidden)
    totals, slopes = _returns_from(problem, hidden, offset, starts, tables, stationary=stationary)
    return totals + offset, slopes


def _centred(problem: Problem, hidden: Hidden) -> tuple[Hidden, float]:
    """Rewards that are large beside their spread less their centre, and what that takes from every return.

    The sums then keep their digits, and no rounding of a policy's rows, which sum to nearly 1, moves a constant return.
    """
    shift, discount, horizon = centre_of(hidden.reward), hidden.discount, hidden.horizon
    endless = problem.return_over == "infinite"
    last = 0.0 if endless else centre_of(hidden.terminal)
    if not shift and not last:
        return hidden, 0.0
    if endless:
        offset = shift / (1 - discount)
    else:
        steps = float(horizon) if discount == 1 else (1 - discount**horizon) / (1 - discount)
        offset = shift * steps + discount**horizon * last
    return replace(hidden, reward=hidden.reward - shift, terminal=hidden.terminal - last), offset


def return_of_actions(problem: Problem, hidden: Hidden, actions: Int[np.ndarray, "T C"]) -> float:
    """The return over the horizon of a deterministic table, to the last bit that of `evaluate_return`, without the table."""
    hidden, offset = _centred(problem, hidden)
    values, states = hidden.terminal[None], np.arange(hidden.num_states)
    for chosen in actions[::-1]:
        values = _action_values(hidden, values)[:, states, chosen[hidden.cell]]
    return float(np.sum(hidden.start[None] * values, axis=1)[0] + offset)


def _returns_from(
    problem: Problem, hidden: Hidden, offset: float, starts: np.ndarray, tables: np.ndarray, *, stationary: bool
) -> tuple[np.ndarray, np.ndarray]:
    if problem.return_over == "infinite" and stationary:
        return _stationary_forever(hidden, starts, tables)
    return _over_horizon(hidden, starts, tables, _terminal(problem, hidden, offset), stationary=stationary)


def _action_values(hidden: Hidden, values: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B N A"]:
    """`R(x,a) + γ Σ_x' P(x'|x,a) v(x')`."""
    ahead = _times(values, hidden.kernel.stacked.T).reshape(len(values), *hidden.reward.shape)
    ahead *= hidden.discount
    ahead += hidden.reward
    return ahead


def _times(rows: Float[np.ndarray, "B n"], matrix: Matrix) -> Float[np.ndarray, "B m"]:
    """`row @ matrix` for each row by itself: a product of all rows together would round otherwise than that of one."""
    if isinstance(matrix, np.ndarray):
        return np.matmul(np.ascontiguousarray(rows)[:, None], matrix)[:, 0]
    found = [row @ matrix for row in rows]
    return found[0][None] if len(found) == 1 else np.stack(found)


def _over_horizon(
    hidden: Hidden, starts: np.ndarray, tables: np.ndarray, terminal: np.ndarray, *, stationary: bool
) -> tuple[np.ndarray, np.ndarray]:
    horizon, batch = hidden.horizon, len(tables)
    weights = tables[:, :, hidden.cell]  # (B, T|1, N, A)
    taken = [starts[:, :, None] * weights[:, 0]] if horizon else []  # P(x_t = x, a_t = a)
    occupied = [starts]
    for time in range(1, horizon):
        occupied.append(_times(taken[-1].reshape(batch, -1), hidden.kernel.stacked))
        taken.append(occupied[-1][:, :, None] * weights[:, 0 if stationary else time])
    slope = np.zeros((batch, tables.shape[1], *hidden.reward.shape))
    values = np.broadcast_to(terminal, starts.shape)
    for time in range(horizon - 1, -1, -1):
        actions = _action_values(hidden, values)
        slope[:, 0 if stationary else time] += hidden.discount**time * occupied[time][:, :, None] * actions
        values = np.sum(weights[:, 0 if stationary else time] * actions, axis=2)
    return np.sum(starts * values, axis=1), sum_by_cell(hidden, slope)


def _stationary_forever(hidden: Hidden, starts: np.ndarray, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    totals, slopes = np.empty(len(tables)), np.zeros((len(tables), 1, *hidden.reward.shape))
    for number, table in enumerate(tables):
        weights = table[0][hidden.cell]
        transitions = hidden.kernel.mix(weights)
        values = _solve(transitions, hidden.discount, np.sum(weights * hidden.reward, axis=1))
        occupied = _solve(transitions.T, hidden.discount, starts[number])
        totals[number] = starts[number] @ values
        slopes[number, 0] = occupied[:, None] * _action_values(hidden, values[None])[0]
    return totals, sum_by_cell(hidden, slopes)


def _solve(transitions, discount: float, right: np.ndarray) -> np.ndarray:
    """The v with `v = right + discount · transitions @ v`."""
    if sp.issparse(transitions):
        return np.asarray(spla.spsolve(sp.csc_array(sp.eye_array(len(right)) - discount * transitions), right))
    return np.linalg.solve(np.eye(len(right)) - discount * transitions, right)


def values_afterwards(problem: Problem, hidden: Hidden) -> Float[np.ndarray, " N"]:
    """What the best continuation after the horizon earns from each hidden state; raises `InputError` where none is known."""
    if len(problem.models) > 1 and not problem.agent.knows_model:
        raise InputError(
            "return over an infinite horizon",
            ["a time-dependent policy plays on optimally after its last table, and an agent who does not know which model"
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
