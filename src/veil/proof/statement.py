"""A claim with its words: all that the file of a certificate says, and the numbers that its words are made from."""

from dataclasses import dataclass

import numpy as np

from ..common.rounding import lower_text, trivial_words
from .arithmetic import FLOOR
from .claims import Claim, ProvenBound, ProvenChannel

CONFIDENCE = "with confidence 1 − 1e-6"
"""How a statistical claim is named, beside "proven"."""


def likely_bits(channel: ProvenChannel) -> tuple[float, float]:
    """Between which bits a channel lies with confidence: the proven bounds, or closer ones."""
    lower, upper, drawn = channel.lower, channel.upper, channel.sampled
    return (lower, upper) if drawn is None else (max(lower, drawn.lower), min(upper, drawn.upper))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Statement(Claim):
    """A claim, what is told with it, and both in words; `veil.Certificate` says what each field is."""

    best_known: float | None
    policy_class: str
    bound_class: str
    versions: dict[str, str]
    claim: str
    seal: str

    @property
    def task(self) -> str:
        """The sum of quantities that counts beside the bits, as for `veil.solve`; empty where there is none."""
        return " + ".join(f"{one.factor!r}*{one.name}" for one in self.quantities if one.factor).replace("+ -", "- ")

    @property
    def hidden_bits(self) -> tuple[float, float]:
        """The fewest bits that the policy hides in a hidden channel: proven, and with confidence; 0 with goal
        "transparent"."""
        if self.goal != "opaque":
            return 0.0, 0.0
        return min(one.lower for one in self.least), min(likely_bits(one)[0] for one in self.least)

    @property
    def likely_lower(self) -> float:
        """The same with confidence 1 − 1e-6 over the verifier's own draws: `lower`, or more."""
        return self.with_task(self.hidden_bits[1]) if self.goal == "opaque" else 0.0

    @property
    def likely_upper(self) -> float:
        """`upper`, with goal "transparent" also what holds with confidence 1 − 1e-6 over the verifier's own draws."""
        return self.upper if self.goal == "opaque" else likely_bits(self.channels[0])[1]

    @property
    def delayed(self) -> ProvenBound | None:
        """The smaller bound over agents that do not see the current observation, if there is one."""
        return self.bounds[1] if len(self.bounds) > 1 else None

    @property
    def hide(self) -> tuple[str, ...]:
        """The names of the hidden channels."""
        return tuple(one.name for one in self.least)

    @property
    def is_exact(self) -> bool:
        """Whether `lower` comes from all histories over the whole horizon: but for rounding it is what the policy hides."""
        if not self.bounds:
            return False
        whole = (-1, len(self.bounds[0].rules[0].following) + 1)
        return all(one.window == whole and one.prune <= FLOOR and not one.merge for one in self.least)

    @property
    def proves_policy(self) -> bool:
        """Whether something is proven of what the policy hides: False if it is 0 because the time did not suffice."""
        return self.goal != "opaque" or self.is_exact or float(lower_text(self.hidden_bits[0])) > 0

    @property
    def trivial(self) -> str:
        """Why the upper bound says nothing about this problem, such as `trivial: log2 of 3 values`; otherwise empty."""
        rules = self.bounds[0].rules if self.bounds and not (self.task or self.bounds[0].rules[0].path_keys) else ()
        counts = [one.costs.shape[1] for one in rules if one.channel in self.hidden and np.ndim(one.costs) == 2]
        return trivial_words(self.upper, min(counts)) if counts else ""
