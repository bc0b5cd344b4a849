"""The items of a certificate: what is claimed of quantities and channels, and bounds over all policies with their rules.

The forms of fields are those that `check_form` takes; arrays are checked where they are used.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from ..common.exact import rounded_down
from .reading import formed, is_amount, is_finite, whole

MOST_SEQUENCES = 10**7  # of a statistical claim


@dataclass(frozen=True, eq=False)
class ProvenQuantity:
    """What is claimed of a quantity under the policy; the return is the first of a certificate.

    **Attributes:** `name`; `relation`, `"≥"` or `"≤"`; `bound`, a number, also where a percentage was asked for, None where
    there is none; `value` of the quantity, within `error`; `met`: it is within its bound, without a tolerance. `sequences`: 0
    where this is proven; otherwise it holds with confidence, over so many of the verifier's own draws. `factor`: by which the
    quantity counts in the objective, beside the bits.
    """

    name: str
    relation: str
    bound: float | None = field(metadata=formed((is_finite,)))
    value: float = field(metadata=formed(is_finite))
    error: float = field(metadata=formed(is_amount))
    met: bool = field(metadata=formed(bool))
    sequences: int = field(default=0, metadata=formed(whole(0, MOST_SEQUENCES)))
    factor: float = field(default=0.0, metadata=formed(is_finite))

    @property
    def missing(self) -> float:
        """By how much it may miss its bound at most; 0 where it does not."""
        if self.bound is None or self.met:
            return 0.0
        return max(0.0, math.nextafter(self.sign * (self.bound - self.value) + self.error, math.inf))

    @property
    def sign(self) -> int:
        """+1 where the quantity must be its bound or more, −1 where it must be its bound or less."""
        return 1 if self.relation == "≥" else -1

    @property
    def text(self) -> str:
        """The constraint in words, its bound in full: `energy ≤ 20.0`."""
        return f"{self.name} {self.relation} {self.bound if self.bound is None else float(self.bound)!r}"


@dataclass(frozen=True, eq=False)
class Sampled:
    """A statistical claim: the bits lie between `lower` and `upper` with confidence, over the verifier's own draws.

    `sequences`: how many the verifier draws at first, unless it is told otherwise.
    """

    lower: float = field(metadata=formed(is_amount))
    upper: float = field(metadata=formed(is_amount))
    sequences: int = field(metadata=formed(whole(2, MOST_SEQUENCES)))


@dataclass(frozen=True, eq=False)
class ProvenChannel:
    """What is claimed of `H(Z|Y)` of a channel under the policy.

    **Attributes:** `number` of the channel in the problem, 0 for its own; `name`; `min`, `max`: its bounds in bits, None where
    there is none; `lower`, `upper`: between which the bits are proven to lie; `window`, `prune`, `merge`: how these were found;
    `sampled`: what is claimed with confidence beside that, or None.
    """

    number: int = field(metadata=formed(whole()))
    name: str
    min: float | None = field(metadata=formed((is_finite,)))
    max: float | None = field(metadata=formed((is_finite,)))
    lower: float = field(metadata=formed(is_amount))
    upper: float = field(metadata=formed(is_amount))
    window: tuple[int, int] = field(metadata=formed((whole(-1), ...)))
    prune: float = field(metadata=formed(is_amount))
    merge: int = field(metadata=formed(whole()))
    sampled: Sampled | None = field(default=None, metadata=formed((Sampled,)))

    @property
    def met(self) -> bool:
        """Whether the policy is proven to keep the bounds, without a tolerance."""
        return self.keeps(self.lower, self.upper)

    def keeps(self, lower: float, upper: float) -> bool:
        """Whether bits between two numbers are within the bounds."""
        return (self.min or 0.0) <= lower and (self.max is None or upper <= self.max)


@dataclass(frozen=True, eq=False)
class ObserverRule:
    """The observer of a channel in the proof of an upper bound: its memory and its rule of inference.

    `first[e]` is its node after the first event, `following[t][node, e]` that after the next, -1 where it has none;
    `costs[node, z] = −log2 q(z|node)` at time T, `Σ_z 2^−cost ≤ 1`, infinite where it excludes z. `memory` says in words
    what it remembers; `channel`: the number of its channel; `weight`: of its bits in the bound.

    For a secret that is a whole path the rule is one of states before others, `q_t(x_t|x_{t+1},node)` and `q_T(x_T|node)`:
    `path_keys[t]` lists the triples (node, x_{t+1}, x_t) that it does not exclude, in order, with x_{t+1} = 0 at t = T, and
    `path_costs[t]` the bits of each. Where path and events do not tell the hidden state x, what the path shows takes its place.
    For a secret with a value at every time there is a rule for each, `each[t][node, z] = −log2 q_t(z|node)`.
    """

    first: Int[np.ndarray, " F"]
    following: tuple[Int[np.ndarray, "n E"], ...]
    costs: Float[np.ndarray, "n Z"]
    memory: str
    channel: int = field(default=0, metadata=formed(whole()))
    weight: float = field(default=1.0, metadata=formed(is_amount))
    path_keys: tuple[Int[np.ndarray, "k 3"], ...] = ()
    path_costs: tuple[Float[np.ndarray, " k"], ...] = ()
    each: tuple[Float[np.ndarray, "n Z"], ...] = ()


@dataclass(frozen=True, eq=False)
class ProvenBound:
    """An upper bound in bits on the least of the hidden channels, over all policies that meet the constraints.

    **Attributes:** `delay`: 0 for all policies; 1 for those whose choice at time t depends on the states up to t and on the
    observations up to t − 1, not on that of t. Every policy that does not see the observations is among these. `upper`, in
    bits; `prices`: the multiplier of each quantity, in bits per unit of it; `rules`: the observers that prove the bound.
    """

    delay: int = field(metadata=formed(whole(0, 1)))
    upper: float = field(metadata=formed(is_finite))
    prices: tuple[float, ...] = field(metadata=formed((is_amount, ...)))
    rules: tuple[ObserverRule, ...] = field(metadata=formed((ObserverRule, ...)))


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs of a time, as a witness: belief i has the numbers `weight[ends[i] … ends[i + 1] − 1]` at places that
    are `x · Z + z` once the secret is settled and x before; `child[i, event]`: the belief of the next time that bounds what the
    event leads to, -1 for none."""

    ends: Int[np.ndarray, " m"]
    place: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    child: Int[np.ndarray, "k E"]


@dataclass(frozen=True, eq=False)
class BeliefBound:
    """A lower bound in bits on what is hidden in the own channel by all policies of agents that see what the observer sees, its
    actions included, and nothing else, and that meet the constraints.

    **Attributes:** `lower`; `prices`, of each quantity; `first[event]`: the belief of time 0 that bounds what the first event
    leads to, -1 for none; `points`: the beliefs of time 0 and later.
    """

    lower: float = field(metadata=formed(is_finite))
    prices: tuple[float, ...] = field(metadata=formed((is_amount, ...)))
    first: Int[np.ndarray, " F"]
    points: tuple[Beliefs, ...] = field(metadata=formed((Beliefs, ...)))


@dataclass(frozen=True, eq=False)
class Register:
    """What the agent remembers, as an automaton: of a memory policy, or of a history policy that acts on several observers.

    Of a table: the memory is `m · nodes + node`, where the agent chooses the node with the action, among `nodes`. `codes`: for
    each row `what the agent knows · n · nodes + memory`, in order, n being the length of `step`; `start[s, event + 1]` the
    memory at time 0, event -1 for none, and `step[m, s, s', event]` the next m, where an axis of length 1 stands for what does
    not matter. An agent that does not see its state has such a register always, over its own readings.

    Of a history policy: `start` and `step` of the memory m in its situations `(k · M + m) · S + s`; `label (1, M, S)`: the
    value that it acts on once the time is `time`.
    """

    start: Int[np.ndarray, "s f"]
    step: Int[np.ndarray, "n s t e"]
    codes: Int[np.ndarray, " C"]
    nodes: int
    label: Int[np.ndarray, "L M S"]
    time: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Claim:
    """What a verifier checks of a certificate: lists of items, and what they are about.

    **Attributes:** `goal` "opaque": the policy hides at least `lower`, and no policy more than `upper`; "transparent": it hides
    at most `upper`. `hidden`: the numbers of the channels whose least is bounded; `quantities`, the return first; `channels`,
    the own one first; `bounds` over all policies. `problem_hash`: the fingerprint of the problem, `record_hash` of its arrays,
    `policy_hash`. `values (2, N)`: what is earned after the horizon for an infinite return, and for its negative; `register`:
    what the policy remembers; `beliefs`: with goal "transparent" a lower bound over all policies.
    """

    goal: str = field(metadata=formed(lambda goal: goal in ("opaque", "transparent")))
    hidden: tuple[int, ...] = field(metadata=formed((whole(), ...)))
    quantities: tuple[ProvenQuantity, ...] = field(metadata=formed((ProvenQuantity, ...)))
    channels: tuple[ProvenChannel, ...] = field(metadata=formed((ProvenChannel, ...)))
    bounds: tuple[ProvenBound, ...] = field(metadata=formed((ProvenBound, ...)))
    problem_hash: str
    record_hash: str
    policy_hash: str
    values: Float[np.ndarray, "2 N"] | None = None
    register: Register | None = field(default=None, metadata=formed((Register,)))
    beliefs: BeliefBound | None = field(default=None, metadata=formed((BeliefBound,)))

    @property
    def least(self) -> list[ProvenChannel]:
        """The channels that are hidden."""
        return [one for number in self.hidden for one in self.channels if one.number == number]

    def with_task(self, bits: float) -> float:
        """Bits, and what the quantities add to them at least, rounded down."""
        exact = Fraction(bits)
        for one in self.quantities:
            factor = Fraction(one.factor)
            exact += factor * Fraction(one.value) - abs(factor) * Fraction(one.error)
        return rounded_down(exact)

    @property
    def lower(self) -> float:
        """Bits that the policy is proven to hide in the least of the hidden channels, and what it has of the task, if any; with
        goal "transparent" what no policy is proven to hide less than."""
        if self.goal == "opaque":
            return self.with_task(min(one.lower for one in self.least))
        return 0.0 if self.beliefs is None else max(0.0, self.beliefs.lower)

    @property
    def upper(self) -> float:
        """What no policy is proven to exceed; with goal "transparent" the bits that the policy is proven to hide at most."""
        return self.bounds[0].upper if self.goal == "opaque" else self.channels[0].upper

    @property
    def kept(self) -> dict[int, float]:
        """The bits that must be kept in channels which are not hidden: with their weights they lower the bound."""
        return {one.number: one.min for one in self.channels if one.min and one.number not in self.hidden}
