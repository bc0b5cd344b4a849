"""The certificate: what is claimed of a policy and of all others, as three lists with the rules that prove it."""

from dataclasses import dataclass
from pathlib import Path

from ..common.rounding import lower_text, upper_text
from ..common.values import Value
from .certificate_file import load_fields
from .certificate_writing import save_statement
from .claims import ProvenChannel, ProvenQuantity
from .statement import Statement

DELAYED_CLASS = (
    "policies whose choice does not depend on the current observation, given the states and the earlier observations"
    " (among them all that do not see the observations)"
)
HISTORY = "a history policy"  # how `HistoryPolicy.describe` begins


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Certificate(Statement, Value):
    """A claim about a policy and about all policies, with what is needed to check it.

    **Attributes:**

    - `quantities`: what the policy earns, the return first, then the quantities of all constraints, each with its bound.
    - `channels`: what the policy hides: in the problem's own channel, then in those that are hidden or have bounds.
      `hidden`: the numbers of the channels whose smallest opacity is bounded.
    - `bounds`: upper bounds over all policies that meet every constraint on a quantity and keep the lower bounds `min` of
      channels; an upper bound `max` is not convex and is left out. The first is over all policies; a second one, if it is
      smaller, over agents that do not see the current observation.
    - `goal` "opaque": the policy hides at least `lower` bits, and no policy of `bound_class` more than `upper`. With a `task`
      both count what is hidden and the sum of the task. "transparent": the policy hides at most `upper` bits of its own
      channel, and no policy less than `lower`, which is 0 without `beliefs`.
    - `beliefs`: the witness of a lower bound over all policies that see what the observer sees, from `QueryPlan.certify`.
    - `best_known`: what some policy of `bound_class` is known to hide: told by the solver, not proven here.
    - `policy_class`, `bound_class`: the class of the policy and of the others, and what their agents must see.
    - `values`: what is earned after the horizon, for an infinite return; `register`: what a policy remembers.
    - `problem_hash`, `record_hash`, `policy_hash`, `versions`; `claim`: the claim in words; `seal`: a hash of what no
      computation checks.
    """

    def __repr__(self) -> str:
        met = "" if self.feasible else ", not feasible"
        return f"Certificate({self.goal}: {lower_text(self.lower)} to {upper_text(self.upper)} bits{met})"

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    @property
    def expected_return(self) -> float:
        """The return of the policy, within `return_error`."""
        return self.quantities[0].value

    @property
    def return_error(self) -> float:
        """How far the return can be from `expected_return`."""
        return self.quantities[0].error

    @property
    def threshold(self) -> float | None:
        """What the return must reach."""
        return self.quantities[0].bound

    @property
    def constraints(self) -> tuple[ProvenQuantity, ...]:
        """The quantities besides the return."""
        return self.quantities[1:]

    @property
    def pairs(self) -> tuple[ProvenChannel, ...]:
        """The channels besides the problem's own."""
        return self.channels[1:]

    @property
    def feasible(self) -> bool:
        """Whether the policy is proven to meet every bound on a quantity, without a tolerance."""
        return all(one.met and not one.sequences for one in self.quantities)

    @property
    def likely_feasible(self) -> bool:
        """Whether it meets them, with confidence if not proven."""
        return all(one.met for one in self.quantities)

    @property
    def price(self) -> float:
        """The multiplier λ of return: by how many bits the upper bound falls for one more unit of it, to first order."""
        return self.bounds[0].prices[0] if self.bounds else 0.0

    @property
    def prices(self) -> tuple[float, ...]:
        """The multiplier of each of `constraints`: the bits by which the upper bound falls for one more unit of its bound."""
        return self.bounds[0].prices[1:] if self.bounds else (0.0,) * len(self.constraints)

    @property
    def is_sampled(self) -> bool:
        """Whether something is claimed with confidence only."""
        return any(one.sampled is not None for one in self.channels) or any(one.sequences for one in self.quantities)

    @property
    def class_gap(self) -> float | None:
        """The part of the gap that policies of a larger class are known to gain; None if nothing is known.

        0 for a history policy: there is no larger class. If `lower` is not exact, the policy may hide a part of it itself.
        """
        if self.best_known is None or not self.proves_policy:
            return None
        return 0.0 if self.policy_class.startswith(HISTORY) else max(0.0, self.best_known - self.lower)

    @property
    def solver_gap(self) -> float | None:
        """The part of the gap that a search may still close: the gap without `class_gap`."""
        return None if self.class_gap is None else max(0.0, self.gap - self.class_gap)

    def summary(self) -> str:
        """The claim in a few sentences, lower bounds rounded down and upper bounds up."""
        which = "Upper" if self.beliefs is None else "Lower"
        lines = [self.claim, f"Policy: {self.policy_class}. {which} bound over: {self.bound_class}."]
        if self.delayed is not None:
            lines[-1] += f" Smaller upper bound over: {DELAYED_CLASS}."
        if self.goal == "opaque" and self.feasible:
            lines.insert(1, self._parts_of_the_gap())
        return "\n".join(lines)

    def _parts_of_the_gap(self) -> str:
        likely = self.upper - self.likely_lower
        if self.likely_lower > self.lower and not self.is_exact:
            return f"Gap: {upper_text(likely)} bits with confidence 1 − 1e-6; {upper_text(self.gap)} bits proven."
        if not self.proves_policy:
            return "The parts of the gap are not known, since nothing is proven of what the policy hides."
        if self.class_gap is None or self.solver_gap is None or self.best_known is None:
            return f"Gap: {upper_text(self.gap)} bits; its parts are not known, since no game was solved."
        if self.policy_class.startswith(HISTORY):
            return f"Gap: {upper_text(self.gap)} bits, all of it due to the solver: there is no larger policy class."
        also = "" if self.is_exact else " or to the lower bound, which is not exact"
        late = None if self.delayed is None else upper_text(max(0.0, self.delayed.upper - self.lower))
        blind = (
            "" if late is None else f" Without seeing the current observation a policy can gain at most {late} bits."
        )
        return (
            f"Gap: {upper_text(self.gap)} bits; {upper_text(self.class_gap)} due to the policy class{also} (the solver knows a"
            f" history policy that {'has' if self.task else 'hides'} {lower_text(self.best_known)} bits"
            f"{' with its task' * bool(self.task)}; a better policy of this class may gain a part),"
            f" {upper_text(self.solver_gap)} due to the solver (between that and the upper bound).{blind}"
        )

    def save(self, path: str | Path) -> None:
        """Write `path`, JSON, and beside it the arrays, safetensors, named after their content; the same certificate
        gives the same bytes. The JSON is written last, so a reader that finds it also finds its arrays.

        **Raises:** `CertificateError` if it cannot be written.
        """
        save_statement(self, path)

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """The certificate in a file that `save` wrote, not yet verified.

        **Raises:** `CertificateError` if a file is damaged, saying which and how; `CertificateFileError`, which derives from
        it, if one is missing or cannot be read.
        """
        return cls(**load_fields(path))
