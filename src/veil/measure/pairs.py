"""What stays hidden in each pair (secret, observer) of a problem under one policy, and whether that is within its bounds."""

import math
from dataclasses import dataclass

from ..common.errors import InputError
from ..common.values import Value
from ..policy.policy import Policy
from ..problem.pairs import Pair
from ..problem.problem import Problem
from .evaluate import Method, opacity
from .loss import loss_bits
from .result import Opacity


@dataclass(frozen=True, eq=False, repr=False)
class PairValue(Value):
    """A pair of a problem and what a policy hides in it.

    **Attributes:** `name` of the pair; `opacity`, that of the pair alone; `min`, `max`: its bounds in bits, None where there is
    none; `price_bits`: the multiplier of its bound, how many bits of what is maximised one more bit of the bound costs to first
    order, NaN where it is not known; `loss_bits`: the loss `E[−log2 q(Z|Y)]` of its observer, where a belief says what it
    assumes, else NaN.
    """

    name: str
    opacity: Opacity
    min: float | None = None
    max: float | None = None
    price_bits: float = float("nan")
    loss_bits: float = float("nan")

    @property
    def bits(self) -> float:
        """What the pair counts: `H(Z|Y)`, or the loss of an observer who may be wrong."""
        return self.opacity.bits if math.isnan(self.loss_bits) else self.loss_bits

    @property
    def met(self) -> bool:
        """Whether the bits are within the bounds; no tolerance."""
        low, high = -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max
        return low <= self.bits <= high

    @property
    def text(self) -> str:
        """The bounds in words: `H(foe) ≥ 0.5`."""
        given = (("≥", self.min), ("≤", self.max))
        return " and ".join(f"H({self.name}) {sign} {bound:g}" for sign, bound in given if bound is not None)

    def fact(self) -> tuple[str, str]:
        """Name and value for a table."""
        given = (("at least", self.min), ("at most", self.max))
        wanted = " and ".join(f"{words} {bound:g}" for words, bound in given if bound is not None)
        required = f", required: {wanted}{'' if self.met else ' (not met)'}" if wanted else ""
        price = f"; price {self.price_bits:.4g}" if wanted and not math.isnan(self.price_bits) else ""
        shown = f"{self.opacity.bits:.6f} of {self.opacity.prior_bits:.6f} bits ({self.opacity.method})"
        if not math.isnan(self.loss_bits):
            shown = f"loss {self.loss_bits:.6f} bits; {shown} from who knows the policy"
        return f"pair {self.name}", f"{shown}{required}{price}"


def pair_values(
    problem: Problem, policy: Policy, method: Method = "auto", *, seed: int = 0, time_limit: float | None = None
) -> tuple[PairValue, ...]:
    """What a policy hides in each pair beside the problem's own, in the order of `problem.pairs`.

    Each opacity equals `veil.opacity(problem.pair(name), policy)`; of a pair with a belief the loss of its observer is added,
    which needs all sequences. **Arguments:** `method`, `seed`, `time_limit`: as for
    `veil.opacity`, for each pair.

    **Raises:** `InputError` where the policy does not fit the problem, or acts on what the problem's own observer sees and a
    pair has another observer; `TooLargeError`.
    """
    found = []
    for pair in problem.pairs:
        check_observations(pair, needed=policy.needs_observations)
        hidden = opacity(problem.pair(pair.name), policy, method, seed=seed, time_limit=time_limit)
        loss = math.nan
        if pair.belief is not None:
            loss = loss_bits(problem.pair(pair.name), policy, pair.belief, time_limit=time_limit)
        found.append(PairValue(pair.name, hidden, pair.min, pair.max, loss_bits=loss))
    return tuple(found)


def check_observations(pair: Pair, *, needed: bool) -> None:
    """Raise `InputError` where a policy acts on observations that are not those of the pair's observer."""
    if needed and pair.observer is not None:
        acts = "the policy acts on what the problem's own observer sees, and this pair has another observer"
        raise InputError(f"pair {pair.name!r}", [f"{acts}: use a policy that acts on states and the time"])
