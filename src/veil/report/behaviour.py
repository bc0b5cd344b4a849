"""A policy seen from the states of the model: occupancies, action probabilities and transitions over time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from ..engine.chain import Chain, make_chain
from ..policy.policy import Policy
from ..problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Behaviour:
    """A policy in a problem; memory and knowledge other than state and time are averaged over.

    **Attributes:** `problem`, `policy`, `chain`; `plain`: whether the policy depends on state and time only, so that
    it is defined in states that it never visits.
    """

    problem: Problem
    policy: Policy
    chain: Chain
    plain: bool

    @property
    def timed(self) -> bool:
        """Whether the action probabilities in a state change with time."""
        return not (self.chain.stationary and self.plain)

    @cached_property
    def occupancy(self) -> Float[np.ndarray, "T+1 S"]:
        """`P(s_t = s)` for t = 0 … T."""
        return np.asarray(self.chain.occupancies @ self._states)

    def occupancy_in(self, model: int) -> Float[np.ndarray, "T+1 S"]:
        """`P(s_t = s | the model that runs)`; zeros where the model never runs."""
        inside = self.chain.hidden.model_index == model
        found = np.asarray(self.chain.occupancies[:, inside] @ self._states[inside])
        mass = found.sum(axis=1, keepdims=True)
        return np.divide(found, mass, out=np.zeros_like(found), where=mass > 0)

    @cached_property
    def visits(self) -> Float[np.ndarray, " S"]:
        """The expected number of decisions in each state."""
        return self.occupancy[:-1].sum(axis=0) if self.problem.horizon else self.occupancy[0]

    def actions(self, time: int | None = None) -> Float[np.ndarray, "S A"]:
        """`P(a_t = a | s_t = s)`; for time None the average over all decisions.

        Rows of states that are never visited are those of a plain policy, zeros otherwise.
        """
        times = range(self.problem.horizon) if time is None else (time,)
        if self.plain and (self.chain.stationary or time is not None):
            return self.chain.table[0 if self.chain.stationary else time]
        total = np.zeros((self.problem.num_states, self.chain.table.shape[2]))
        for one in times:
            total += self._states.T @ (self.chain.occupancies[one][:, None] * self.chain.weights(one))
        nodes = total.shape[1] // self.problem.num_actions  # a controller chooses its next node with the action
        total = total.reshape(len(total), self.problem.num_actions, nodes).sum(axis=2)
        mass = total.sum(axis=1, keepdims=True)
        return np.divide(total, mass, out=np.zeros_like(total), where=mass > 0)

    def moves(self, time: int | None = None) -> sp.csr_array:
        """`P(s_{t+1} = s' | s_t = s)`, `(S, S)`; for time None over all decisions. Rows of states never visited are empty."""
        chain, states = self.chain, self._states
        if time is not None:
            times = [(time, chain.occupancies[time])]
        elif chain.stationary:
            times = [(0, chain.occupancies[:-1].sum(axis=0))] if self.problem.horizon else []
        else:
            times = [(one, chain.occupancies[one]) for one in range(self.problem.horizon)]
        total = sp.csr_array((self.problem.num_states, self.problem.num_states))
        for one, here in times:
            used = np.flatnonzero(here)
            for matrix in chain.matrices(one):
                rows = sp.csr_array(sp.csr_array(matrix)[used] * here[used, None])
                total = total + states[used].T @ rows @ states
        mass = np.asarray(total.sum(axis=1)).ravel()
        scale = np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)
        return sp.csr_array(sp.diags_array(scale) @ total)

    @cached_property
    def _states(self) -> sp.csr_array:
        """Which state of the model each hidden state is."""
        hidden = self.chain.hidden
        places = (np.arange(hidden.num_states), hidden.state)
        return sp.csr_array((np.ones(hidden.num_states), places), shape=(hidden.num_states, self.problem.num_states))


def behave(problem: Problem, policy: Policy) -> Behaviour:
    """The behaviour of a policy; raises `InputError` where it does not fit the problem."""
    chain = make_chain(problem, policy)
    by_state = policy.memory in ("markov", "timed") and problem.num_cells == problem.num_states
    return Behaviour(problem, policy, chain, by_state)
