"""What stays hidden in each pair (secret, observer) of a problem under one policy, and whether that is within its bounds."""

import math
from dataclasses import dataclass, replace

from ..common.clock import Clock
from ..common.values import Value
from ..policy.policy import Policy, check_call
from ..problem.pairs import Pair
from ..problem.problem import Problem
from .evaluate import Method, opacity
from .exact import Budget
from .loss import loss
from .result import Opacity

_UNDECIDED = 2.0  # standard errors


@dataclass(frozen=True, eq=False, repr=False)
class PairValue(Value):
    """A pair of a problem and what a policy hides in it.

    **Attributes:** `name` of the pair; `opacity`, that of the pair alone; `min`, `max`: its bounds in bits, None if there is
    none; `price_bits`: the multiplier of its bound, how many bits of what is maximised one more bit of the bound costs to first
    order, NaN if it is not known; `loss_bits`: the loss `E[−log2 q(Z|Y)]` of its observer, if a belief says what it
    assumes, else NaN; `loss_std_error`: of a sampled loss, else 0.
    """

    name: str
    opacity: Opacity
    min: float | None = None
    max: float | None = None
    price_bits: float = float("nan")
    loss_bits: float = float("nan")
    loss_std_error: float = 0.0

    @property
    def bits(self) -> float:
        """What the pair counts: `H(Z|Y)`, or the loss of an observer who may be wrong."""
        return self.opacity.bits if math.isnan(self.loss_bits) else self.loss_bits

    @property
    def std_error(self) -> float:
        """The standard error of `bits`: 0 unless they are sampled."""
        return self.opacity.std_error if math.isnan(self.loss_bits) else self.loss_std_error

    @property
    def met(self) -> bool:
        """Whether the bits are within the bounds; no tolerance. Of sampled bits, whether the estimate is."""
        low, high = -math.inf if self.min is None else self.min, math.inf if self.max is None else self.max
        return low <= self.bits <= high

    @property
    def is_undecided(self) -> bool:
        """Whether a bound lies within two standard errors of sampled bits, so that the sample does not decide it."""
        return any(
            abs(self.bits - bound) < _UNDECIDED * self.std_error for bound in (self.min, self.max) if bound is not None
        )

    @property
    def reached(self) -> str:
        """The bits as text, with the standard error of sampled ones."""
        return f"{self.bits:.6g} ± {self.std_error:.2g}" if self.std_error else f"{self.bits:.6g}"

    @property
    def text(self) -> str:
        """The bounds in words: `H(foe) ≥ 0.5`."""
        given = (("≥", self.min), ("≤", self.max))
        return " and ".join(f"H({self.name}) {sign} {bound:g}" for sign, bound in given if bound is not None)

    def fact(self) -> tuple[str, str]:
        """Name and value for a table."""
        given = (("at least", self.min), ("at most", self.max))
        wanted = " and ".join(f"{words} {bound:g}" for words, bound in given if bound is not None)
        held = "" if self.met else "not met"
        if self.is_undecided:
            held = f"{held or 'met'}, but only within the sampling error"
        required = f", required: {wanted}{held and f' ({held})'}" if wanted else ""
        price = f"; price {self.price_bits:.4g}" if wanted and not math.isnan(self.price_bits) else ""
        shown = f"{self.opacity.value} of {self.opacity.prior_bits:.6f} bits ({self.opacity.method})"
        shown = "nothing to hide" if self.opacity.is_vacuous else shown
        if not math.isnan(self.loss_bits):
            error = f" ± {self.loss_std_error:.2g}" if self.loss_std_error else ""
            shown = f"loss {self.loss_bits:.6f}{error} bits; {shown} against an observer who knows the policy"
        return f"pair {self.name}", f"{shown}{required}{price}"


def pair_values(
    problem: Problem,
    policy: Policy,
    method: Method = "auto",
    *,
    sequences: int = 2000,
    seed: int = 0,
    time_limit: float | None = None,
) -> tuple[PairValue, ...]:
    """What a policy hides in each pair besides the problem's own, in the order of `problem.pairs`.

    Each opacity is `veil.opacity(problem, policy, pair=name)`; of a pair with a belief the loss of its observer is added,
    exact if the opacity is and all sequences fit the memory, else sampled. **Arguments:** `method`, `sequences`, `seed`:
    as for `veil.opacity`, for each pair; `time_limit`: seconds for all pairs together, as for `veil.opacity` for each by
    default.

    **Raises:** `InputError` if the policy does not fit the problem; `TooLargeError`.
    """
    check_call(problem, policy)
    Budget(time_limit=math.inf if time_limit is None else time_limit)  # which checks it, also if there are no pairs
    found, clock = list[PairValue](), Clock(time_limit)
    for pair in problem.pairs:
        limit = None if clock.rest is None else clock.rest / (len(problem.pairs) - len(found))
        found.append(pair_value(problem, pair, policy, method, sequences=sequences, seed=seed, time_limit=limit))
    return tuple(found)


def pair_value(
    problem: Problem,
    pair: Pair,
    policy: Policy,
    method: Method = "auto",
    *,
    sequences: int = 2000,
    seed: int = 0,
    time_limit: float | None = None,
    hidden: Opacity | None = None,
) -> PairValue:
    """What a policy hides in one pair of a problem: see `pair_values`; `hidden`: its opacity, where that is known."""
    clock = Clock(time_limit)
    first = time_limit if time_limit is None or pair.belief is None else time_limit / 2
    asked = {"pair": pair.name, "sequences": sequences, "seed": seed}
    hidden = opacity(problem, policy, method, **asked, time_limit=first) if hidden is None else hidden
    found = PairValue(pair.name, hidden, pair.min, pair.max)
    if pair.belief is None:
        return found
    # A bracket of a loss proves nothing worth having.
    how = "auto" if method == "bracket" else method if hidden.method == "exact" else "sampled"
    cost = loss(problem, policy, pair.belief, how, **asked, time_limit=clock.rest)
    return replace(found, loss_bits=cost.bits, loss_std_error=cost.std_error)
