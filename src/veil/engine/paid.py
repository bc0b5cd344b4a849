"""What is paid on a chain: the rewards of one quantity, and what follows the horizon if its sum is infinite."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..common.exact import centre_of
from ..common.memo import memo
from ..problem.model import Model


@dataclass(frozen=True, eq=False)
class Afterwards:
    """The best continuation after the horizon, in state `state[x]` of model `index[x]` for each state x of a chain.

    `is_known`: whether the agent knows its state and which model runs, and can follow that continuation; `sign`: −1 if the
    rewards are negated.
    """

    models: tuple[Model, ...]
    index: Int[np.ndarray, " N"]
    state: Int[np.ndarray, " N"]
    is_known: bool
    sign: float = 1.0

    @property
    def values(self) -> Float[np.ndarray, " N"]:
        """What it earns from each state."""
        return np.stack([optimal_values(model, self.sign) for model in self.models])[self.index, self.state]


@dataclass(frozen=True, eq=False)
class Paid:
    """The rewards of a quantity on the states of a chain: `E[Σ_{t<T} d^t reward(x_t,a_t) + d^T terminal(x_T)]`.

    With `after` the sum is over an infinite horizon: a stationary policy continues as before, and after the last table of a
    time-dependent policy the best continuation follows.
    """

    reward: Float[np.ndarray, "N A"]
    terminal: Float[np.ndarray, " N"]
    discount: float
    after: Afterwards | None = None

    def at(self, states: Int[np.ndarray, " n"]) -> "Paid":
        """The same on other states, each of which pays as one of these."""
        after = self.after
        after = after and replace(after, index=after.index[states], state=after.state[states])
        return replace(self, reward=self.reward[states], terminal=self.terminal[states], after=after)

    def repeated(self, times: int) -> "Paid":
        """The same for actions that each stand for one of these, so many times in a row."""
        return replace(self, reward=np.repeat(self.reward, times, axis=1))

    @property
    def last(self) -> Float[np.ndarray, " N"]:
        """What the state of time T is worth to a time-dependent policy: the terminal reward, or the best continuation.

        **Raises:** `InputError` if the agent does not know in which state or model it would have to continue.
        """
        if self.after is None:
            return self.terminal
        if not self.after.is_known:
            raise InputError(
                "return over an infinite horizon",
                ["a time-dependent policy plays on optimally after its last table, and an agent that does not know its state"
                 " or which model runs cannot: use a Markov policy, WhichModel(agent_knows=True), agent_sees='state', or"
                 " return_over='horizon'"],
            )  # fmt: skip
        return self.after.values

    def centred(self, horizon: int) -> tuple["Paid", float]:
        """Rewards that are large compared with their spread less their centre, and what that takes from every sum.

        The sums then keep their digits, and no rounding of a policy's rows, which sum to nearly 1, moves a constant sum.
        """
        plain, shift, last = self._plain
        if not shift and not last:
            return self, 0.0
        if self.after is not None:
            return plain, shift / (1 - self.discount)
        return plain, shift * steps_paid(self.discount, horizon) + self.discount**horizon * last

    @cached_property
    def _plain(self) -> tuple["Paid", float, float]:
        shift = centre_of(self.reward)
        last = 0.0 if self.after is not None else centre_of(self.terminal)
        if not shift and not last:
            return self, 0.0, 0.0
        return replace(self, reward=self.reward - shift, terminal=self.terminal - last), shift, last


def steps_paid(discount: float, horizon: int) -> float:
    """`Σ_{t<T} d^t`."""
    return float(horizon) if discount == 1 else (1 - discount**horizon) / (1 - discount)


def solve_discounted(transitions, discount: float, right: np.ndarray) -> np.ndarray:
    """The v with `v = right + discount · transitions @ v`."""
    if sp.issparse(transitions):
        from scipy.sparse.linalg import spsolve  # a third of a second, and few problems need it

        return np.asarray(spsolve(sp.csc_array(sp.eye_array(len(right)) - discount * transitions), right))
    return np.linalg.solve(np.eye(len(right)) - discount * transitions, right)


def action_values(
    model: Model,
    values: Float[np.ndarray, " S"],
    discount: float | None = None,
    rewards: Float[np.ndarray, "S A"] | None = None,
) -> Float[np.ndarray, "S A"]:
    """`Q(s,a) = R(s,a) + d Σ_s' P(s'|s,a) v(s')`, -inf for actions that are not available.

    **Arguments:** `discount`, `rewards`: those of the model by default.
    """
    ahead = np.stack([matrix @ values for matrix in model.matrices])
    ahead *= model.discount if discount is None else discount
    ahead += (model.rewards if rewards is None else rewards).T
    if not model.available.all():
        ahead[~model.available.T] = -np.inf
    return ahead.T


def optimal_values(model: Model, sign: float = 1.0) -> Float[np.ndarray, " S"]:
    """The largest discounted sum of `± R` over an infinite horizon, by policy iteration; the discount is below 1.

    Found once for each model and sign.
    """
    return memo(model, (optimal_values, sign), lambda: _optimal_values(model, sign))


def _optimal_values(model: Model, sign: float) -> Float[np.ndarray, " S"]:
    rewards = sign * model.rewards
    choice = np.argmax(np.where(model.available, rewards, -np.inf), axis=1)
    stacked = sp.csr_array(sp.vstack(model.matrices, format="csr"))
    states = np.arange(model.num_states)
    while True:
        transitions = stacked[choice * model.num_states + states]
        values = solve_discounted(transitions, model.discount, rewards[states, choice])
        expected = action_values(model, values, rewards=rewards)
        better = expected.max(axis=1) > expected[states, choice] + 1e-12 * (1 + np.abs(values))
        if not better.any():
            return values
        choice = np.where(better, np.argmax(expected, axis=1), choice)
