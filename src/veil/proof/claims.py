"""The items of a certificate: what is claimed of quantities and channels, and bounds over all policies with their rules."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..common.values import Value


@dataclass(frozen=True, eq=False, repr=False)
class ProvenQuantity(Value):
    """What is claimed of a quantity under the policy; the return is the first of a certificate.

    **Attributes:** `name`; `relation`, `"≥"` or `"≤"`; `bound`, a number, also where a percentage was asked for, None where
    there
    is none; `value` of the quantity, within `error`; `met`: it is within its bound, without a tolerance. `sequences`: 0 where
    this is proven; otherwise it holds with confidence, over so many of the verifier's own draws.
    """

    name: str
    relation: str
    bound: float | None
    value: float
    error: float
    met: bool
    sequences: int = 0

    @property
    def sign(self) -> int:
        """+1 where the quantity must be its bound or more, −1 where it must be its bound or less."""
        return 1 if self.relation == "≥" else -1

    @property
    def text(self) -> str:
        """The constraint in words, its bound in full: `energy ≤ 20.0`."""
        return f"{self.name} {self.relation} {self.bound if self.bound is None else float(self.bound)!r}"


@dataclass(frozen=True, eq=False, repr=False)
class Sampled(Value):
    """A statistical claim: the bits lie between `lower` and `upper` with confidence, over the verifier's own draws.

    `sequences`: how many the verifier draws at first, unless it is told otherwise.
    """

    lower: float
    upper: float
    sequences: int


@dataclass(frozen=True, eq=False, repr=False)
class ProvenChannel(Value):
    """What is claimed of `H(Z|Y)` of a channel under the policy.

    **Attributes:** `number` of the channel in the problem, 0 for its own; `name`; `min`, `max`: its bounds in bits, None where
    there is none; `lower`, `upper`: between which the bits are proven to lie; `window`, `prune`, `merge`: how these were found;
    `sampled`: what is claimed with confidence beside that, or None.
    """

    number: int
    name: str
    min: float | None
    max: float | None
    lower: float
    upper: float
    window: tuple[int, int]
    prune: float
    merge: int
    sampled: Sampled | None = None

    @property
    def likely(self) -> tuple[float, float]:
        """Between which bits it lies with confidence: the proven bounds, or closer ones."""
        if self.sampled is None:
            return self.lower, self.upper
        return max(self.lower, self.sampled.lower), min(self.upper, self.sampled.upper)

    @property
    def met(self) -> bool:
        """Whether the policy is proven to keep the bounds, without a tolerance."""
        return self._within(self.lower, self.upper)

    @property
    def likely_met(self) -> bool:
        """Whether it keeps the bounds with confidence."""
        return self._within(*self.likely)

    def _within(self, lower: float, upper: float) -> bool:
        low, high = 0.0 if self.min is None else self.min, float("inf") if self.max is None else self.max
        return low <= lower and upper <= high

    @property
    def text(self) -> str:
        """The bounds in words, in full; empty where there is none."""
        given = (("≥", self.min), ("≤", self.max))
        return " and ".join(f"H({self.name}) {sign} {float(bound)!r}" for sign, bound in given if bound is not None)


@dataclass(frozen=True, eq=False, repr=False)
class ObserverRule(Value):
    """The observer of a channel in the proof of an upper bound: its memory and its rule of inference.

    `first[e]` is its node after the first event, `following[t][node, e]` that after the next, -1 where it has none;
    `costs[node, z] = −log2 q(z|node)` at time T, `Σ_z 2^−cost ≤ 1`, infinite where it excludes z. `memory` says in words
    what it remembers; `channel`: the number of its channel; `weight`: of its bits in the bound.

    For a secret that is a whole path the rule is one of states before others, `q_t(x_t|x_{t+1},node)` and `q_T(x_T|node)`:
    `path_keys[t]` lists the triples (node, x_{t+1}, x_t) that it does not exclude, in order, with x_{t+1} = 0 at t = T, and
    `path_costs[t]` the bits of each. Where path and events do not tell the hidden state x, what the path shows takes its place.
    """

    first: Int[np.ndarray, " F"]
    following: tuple[Int[np.ndarray, "n E"], ...]
    costs: Float[np.ndarray, "n Z"]
    memory: str
    channel: int = 0
    weight: float = 1.0
    path_keys: tuple[Int[np.ndarray, "k 3"], ...] = ()
    path_costs: tuple[Float[np.ndarray, " k"], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class ProvenBound(Value):
    """An upper bound in bits on the least of the hidden channels, over all policies that meet the constraints.

    **Attributes:** `delay`: 0 for all policies; 1 for those whose choice at time t depends on the states up to t and on the
    observations up to t − 1, not on that of t. Every policy that does not see the observations is among these. `upper`, in
    bits; `prices`: the multiplier of each quantity, in bits per unit of it; `rules`: the observers that prove the bound.
    """

    delay: int
    upper: float
    prices: tuple[float, ...]
    rules: tuple[ObserverRule, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Register(Value):
    """What the agent remembers, as an automaton: of a memory policy, or of a history policy that acts on several observers.

    Of a memory policy: `codes`: for each row of its table `row of the problem · n + memory`, in order, `n` being the length of
    `step`; `start[s, event + 1]` at time 0, event -1 for none, and `step[memory, s, s', event]`, where an axis of length 1
    stands for what does not matter; `nodes`: above 1 if the agent chooses its next memory, among so many, with the action.

    Of a history policy: `start` and `step` of the memory m in its situations `(k · M + m) · S + s`; `label (1, M, S)`: the
    value that it acts on once the time is `time`.
    """

    start: Int[np.ndarray, "s f"]
    step: Int[np.ndarray, "n s t e"]
    codes: Int[np.ndarray, " C"]
    nodes: int
    label: Int[np.ndarray, "L M S"]
    time: int
