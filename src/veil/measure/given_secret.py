"""The expected return given the value of the secret: in which runs a policy earns what it earns."""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.errors import InputError
from ..common.values import Value
from ..engine.additive import expected_values
from ..engine.chain import Chain, make_chain
from ..engine.paid import Paid, solve_discounted, steps_paid
from ..engine.return_range import return_extremes
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.return_rounding import centre_of

_LEAST_PROBABILITY = 0.01  # of a value whose return is worth a remark
_UNEVEN = (
    0.5  # share of the overall return, above the smallest attainable one, below which a value's return is remarkable
)
_MOST_SHOWN = 8
_TINY = 1e-9  # share of the largest return, below which a return is shown as 0
_MOST_WORK = 2**28  # transitions of all steps that are followed only to show the numbers: about a second


@dataclass(frozen=True, eq=False, repr=False)
class ReturnGivenSecret(Value):
    """`E[return | Z = z]` for each value z of a secret.

    **Attributes:** `values`, their names; `probability`, `(Z,)`, `P(z)`; `expected_return`, `(Z,)`, NaN where a value does not
    occur; `smallest`: the smallest return that policies can reach.
    """

    values: tuple[str, ...]
    probability: Float[np.ndarray, " Z"]
    expected_return: Float[np.ndarray, " Z"]
    smallest: float

    @property
    def overall(self) -> float:
        """The expected return, `Σ_z P(z) E[return | Z = z]`."""
        occurs = self.probability > 0
        return float(self.probability[occurs] @ self.expected_return[occurs])

    @property
    def is_uneven(self) -> bool:
        """Whether runs of some value, of probability 1% or more, earn less than half of what all runs earn on average.

        Returns are counted from the smallest attainable one.
        """
        likely = self.probability >= _LEAST_PROBABILITY
        earned = self.expected_return[likely] - self.smallest
        return bool((earned < _UNEVEN * (self.overall - self.smallest)).any())

    @property
    def differs(self) -> bool:
        """Whether runs of some value earn more than runs of another, beyond rounding."""
        earned = self.expected_return[self.probability > 0]
        return bool(np.ptp(earned) > _TINY * np.abs(earned).max())

    def document(self) -> dict[str, float | None]:
        """The numbers by the names of the values; null for a value that does not occur."""
        numbers = self.expected_return.tolist()
        return {name: None if math.isnan(x) else x for name, x in zip(self.values, numbers, strict=True)}

    @property
    def text(self) -> str:
        """The return of each value of the secret that occurs, in words: `0 if elsewhere; 1.71 if secret`."""
        order = np.flatnonzero(self.probability > 0).tolist()
        earned = self.expected_return[order]
        earned[np.abs(earned) < _TINY * np.abs(earned).max()] = 0.0
        parts = [f"{x:.6g} if {self.values[z]}" for x, z in zip(earned, order[:_MOST_SHOWN], strict=False)]
        more = [f"{len(order) - _MOST_SHOWN:,} more values"] if len(order) > _MOST_SHOWN else []
        return "; ".join([*parts, *more])

    def fact(self) -> tuple[str, str]:
        """A line that follows that of the return in a table."""
        return "", f"given the secret: {self.text}"


def return_given_secret(problem: Problem, policy: Policy, *, pair: str = OWN) -> ReturnGivenSecret:
    """The expected return of a policy in the runs of each value of the secret, exact.

    `E[return | Z = z] = Σ_x λ(z|x) (G_τ(x) + d^τ P(x_τ = x) V_τ(x)) / P(z)`: at the secret's time τ its value is a label of the
    hidden state x, `G_τ(x) = E[what was paid before τ; x_τ = x]` follows the chain forward, and `V_τ(x)`, what is paid from τ
    on, backward.

    **Arguments:** `pair`: whose secret.

    Cost: one forward and one backward pass.

    **Raises:** `InputError` if the policy does not fit the problem, or the secret is a whole path.
    """
    chain = make_chain(problem, policy, pair=pair)
    hidden = chain.hidden
    if hidden.path is not None:
        raise InputError("return_given_secret", ["the secret is a whole path, expected one with a value at one time"])
    paid, split, labels = hidden.paid[0], hidden.split_time, hidden.labels
    if chain.followed is not None and paid.after is not None:
        paid = replace(paid, terminal=paid.last, after=None)  # a history policy does not continue as before
    occupied, collected, centre = _before(chain, paid)
    earned = collected + paid.discount**split * occupied * _ahead(chain, paid)
    probability, total = labels.T @ occupied, labels.T @ earned
    given = np.divide(total, probability, out=np.full(len(total), np.nan), where=probability > 0)
    values = problem.only(pair).secret_values
    return ReturnGivenSecret(values, probability, given + centre, return_extremes(problem).smallest)


def shown_return_given_secret(problem: Problem, policy: Policy, pair: str = OWN) -> ReturnGivenSecret | None:
    """`return_given_secret` for people; None for a secret that is a path, and where it would take more than about a second."""
    channel = problem.channel(pair)
    steps = problem.horizon * len(channel.table.memory_names) * sum(one.num_transitions for one in problem.models)
    if channel.table.path is not None or steps > _MOST_WORK:
        return None
    return return_given_secret(problem, policy, pair=pair)


def _before(chain: Chain, paid: Paid) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"], float]:
    """`P(x_τ = x)`, and `G_τ(x)` without the centre of the rewards, whose sum is the third."""
    hidden, centre = chain.hidden, centre_of(paid.reward)
    reward, here, collected = paid.reward - centre, hidden.start, np.zeros(hidden.num_states)
    for time in range(hidden.split_time):
        flow = here[:, None] * chain.weights(time)
        total = flow * paid.discount**time * reward + collected[:, None] * chain.weights(time)
        collected = total.ravel() @ hidden.kernel.stacked
        here = flow.ravel() @ hidden.kernel.stacked
    return here, collected, centre * steps_paid(paid.discount, hidden.split_time)


def _ahead(chain: Chain, paid: Paid) -> Float[np.ndarray, " N"]:
    """`V_τ(x)`: what is paid from the secret's time on."""
    hidden = chain.hidden
    if paid.after is not None and chain.stationary:
        weights = chain.weights(0)
        return solve_discounted(hidden.kernel.mix(weights), paid.discount, np.sum(weights * paid.reward, axis=1))
    values = paid.last
    for time in range(hidden.horizon - 1, hidden.split_time - 1, -1):
        values = np.sum(chain.weights(time) * expected_values(hidden, paid, values[None])[0].T, axis=1)
    return values
