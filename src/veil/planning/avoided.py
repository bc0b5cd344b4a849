"""What soft starts avoid when a search begins again: the states where answers found before earn their return and end.

A search on a large model ends in a local optimum, often one way to earn the return and one place where the secret is decided.
Noise rarely leads out of it: gradients towards other places are zero where the policy never goes there. Soft backward
induction needs no gradient. With the rewards of the states where an answer earns, and the bonuses of those where it ends,
reduced by their shares, it goes to the next best places, and a search can begin there.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.logs import posteriors
from ..engine.hidden import Hidden
from .policy_class import Space


@dataclass(frozen=True, eq=False)
class Avoided:
    """The largest shares of any answer: `earning[x]` of its return, `ending[x, z]` of its probability of secret z."""

    earning: Float[np.ndarray, " N"]
    ending: Float[np.ndarray, "N Z"]

    def and_of(self, space: Space, table: Float[np.ndarray, "T C A"]) -> "Avoided":
        """Those of one more table too. Cost: one forward pass."""
        hidden, occupied = space.hidden, space.chain(table).occupancies
        ends = occupied[hidden.split_time][:, None] * hidden.label
        rates = np.einsum("tna,na->tn", table[:, hidden.cell], _above_least(hidden))
        discounted = hidden.paid[0].discount ** np.arange(hidden.horizon)[:, None] * occupied[:-1]
        earned = np.sum(discounted * rates, axis=0)
        return Avoided(
            np.maximum(self.earning, posteriors(earned[None])[0]),
            np.maximum(self.ending, posteriors(ends.T).T),
        )

    def reward(self, hidden: Hidden) -> Float[np.ndarray, "N A"]:
        """The rewards, moved towards the least of all by the shares."""
        return hidden.paid[0].reward - self.earning[:, None] * _above_least(hidden)

    def prize(self, hidden: Hidden, bonus: Float[np.ndarray, " Z"]) -> Float[np.ndarray, " N"]:
        """What ending in each state is worth: the bonuses of its values above the least of them, less the shares."""
        return (hidden.label * (1 - self.ending)) @ (bonus - bonus.min())


def _above_least(hidden: Hidden) -> Float[np.ndarray, "N A"]:
    reward = hidden.paid[0].reward
    return reward - reward.min()


def nothing_avoided(hidden: Hidden) -> Avoided:
    """Before there is an answer."""
    return Avoided(np.zeros(hidden.num_states), np.zeros((hidden.num_states, hidden.num_values)))
