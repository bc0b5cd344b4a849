"""What a solver answers: a policy, what it hides and earns, and how the search went."""

import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Float, Int

from ..common.rounding import DIGITS, lower_text, upper_text
from ..common.text import aligned, in_parentheses
from ..common.values import Value
from ..common.writers import writer
from ..engine.feasibility import targets
from ..game.bounds import Bounds
from ..measure.constrained import ConstraintValue
from ..measure.given_secret import shown_return_given_secret
from ..measure.pairs import PairValue
from ..measure.result import Opacity
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.trivial import trivial_bound
from ..proof.certificate import Certificate
from ..proof.statement import CONFIDENCE

if TYPE_CHECKING:
    from .plan import Plan

TOLD_BITS = 0.02
"""Differences worth telling: answers within it of the best count as good in the benchmarks. By judgement."""
_FEW_ITERATIONS = 50  # below which a search that was stopped has hardly begun: the fewest that rounds of starts take
_DOUBTED_BITS = 0.05  # by which an estimate has to be above an answer that is then doubted: more than sampling errors


class Status(Enum):
    """How a search ended; the value is the message."""

    CONVERGED = "converged: no small change of the policy improves it"
    ITERATION_LIMIT = "iteration limit reached: the best policy so far is returned"
    TIME_LIMIT = "time limit reached: the best policy so far is returned"
    NOT_SEARCHED = "time limit reached before the first iteration: allow more time, or ask for a shorter horizon"
    INTERRUPTED = "interrupted: the best policy so far is returned"
    GIVEN = "the policy was measured, not searched for"
    INFEASIBLE = "no policy of this class was found that meets the constraint"


CLOCK_WORDS = "what this policy hides is proven against an observer with a clock, which knows at least as much"


def lacks_clock(solution: "Solution") -> bool:
    """Whether one of the observers that count has no clock: the lower bound is then that of one who has."""
    problem = solution.problem
    return problem is not None and any(problem.channel(name).observer.untimed for name in solution.hidden_pairs)


def is_short(solution: "Solution", lower: float) -> bool:
    """Whether a proven lower bound is far below what was measured: the proof did not finish."""
    measured = {OWN: solution.opacity} | {one.name: one.opacity for one in solution.pairs}
    least = min(measured[name].interval()[0] for name in solution.hidden_pairs)
    return not lacks_clock(solution) and least - lower > TOLD_BITS


@dataclass(frozen=True, eq=False, repr=False)
class History(Value):
    """One entry for each iteration, of the policy that led then; before them, at iteration 0, what the search began with.

    **Attributes:** `iteration`; `opacity_bits` as it was evaluated (exact, the lower end of a bracket, or an estimate);
    `expected_return`; `multiplier`, the price λ of the constraint (the largest where there are several); `step`, the step
    size; `seconds` since the search began; `multipliers`, those of all K constraints, where the method keeps them.
    """

    iteration: Int[np.ndarray, " k"]
    opacity_bits: Float[np.ndarray, " k"]
    expected_return: Float[np.ndarray, " k"]
    multiplier: Float[np.ndarray, " k"]
    step: Float[np.ndarray, " k"]
    seconds: Float[np.ndarray, " k"]
    multipliers: Float[np.ndarray, "k K"]

    def __len__(self) -> int:
        return len(self.iteration)

    @staticmethod
    def of(rows: "list[tuple[float, ...]] | np.ndarray") -> "History":
        """From rows (iteration, bits, return, multiplier, step, seconds, multipliers …)."""
        table = np.asarray(rows, dtype=float)
        table = table if table.ndim == 2 else table.reshape(-1, 6)
        bits, returns, multiplier, step, seconds = table[:, 1:6].T
        return History(table[:, 0].astype(np.int64), bits, returns, multiplier, step, seconds, table[:, 6:])

    def rows(self) -> Float[np.ndarray, "k 6+K"]:
        """The entries as one table."""
        columns = (self.opacity_bits, self.expected_return, self.multiplier, self.step, self.seconds)
        return np.column_stack([self.iteration.astype(float), *columns, self.multipliers])


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Value):
    """The best policy that a search found.

    **Attributes:**

    - `policy`; `policy_class`, the class that was searched, in words; `needs_observations`, whether the agent must see
      what the observer sees to play it.
    - `opacity`, an `Opacity`; `expected_return`, exact.
    - `threshold`, the return that was asked for, None if none was; `feasible`, whether the constraint is met.
    - `status`, a `Status`; `detail`, what else there is to say.
    - `constraints`: every constraint of the problem with its bound, its value and its price, a `ConstraintValue` each; that on
      the return is the first.
    - `prices`: those of the bounds on quantities, in the order of `problem.bounds`; `pair_prices`: of the bounds of pairs.
    - `pairs`: what is hidden in each pair besides the problem's own, a `PairValue` each; `hide`: the names of the pairs
      of which the smallest opacity was maximised.
    - `price_bits`: λ, the bits that one more unit of return would cost, to first order, within the class; NaN for a feature
      policy, and for a search that was stopped in its first iterations.
    - `stationarity_bits`: what the best first-order change of the policy promises; near 0 at a local optimum.
    - `history`, `iterations`, `seconds`, `method`, `goal`, `objective`, `seed`, `settings`.
    - `certificate`: the proof that comes with the answer; `certificate_note`: why there is none, or why it
      may be weaker than it could be.
    - `task`: the sum that was maximised beside the objective or under `min_opacity`, as text, and `task_value`, its
      value, exact but for bits in it that are sampled; empty and NaN if there was none.
    - `plan`: the `Plan` that the search followed, the same for the same problem and options; None of an answer that was not
      searched for. `repeatable`: whether no limit of time decided anything, so that the same plan and seed give the same answer
      on any machine.
    - `basins`: the bits of each of the different policies at which the starts of the search ended, the best first; starts
      that were set aside early may not have reached their optimum. `mixture_gain_bits`: about how many more bits a private
      coin between the answer and a few other policies of the search hides; NaN if that is not known.
    - `upper_bits`: the upper bound over all policies with this return, if the method proves one, with a task on the sum;
    `proof`: the game that proves it, for `certify`.
    - `problem`: what was solved; None if the solution was not made by `veil.solve`.
    """

    policy: Policy
    policy_class: str
    opacity: Opacity
    expected_return: float
    threshold: float | None
    feasible: bool
    status: Status
    method: str
    goal: str = "opaque"
    objective: str = "entropy"
    detail: str = ""
    price_bits: float = 0.0
    stationarity_bits: float = float("nan")
    iterations: int = 0
    seconds: float = 0.0
    seed: int = 0
    needs_observations: bool = False
    history: History = field(default_factory=lambda: History.of([]))
    settings: dict[str, object] = field(default_factory=dict[str, object])
    certificate: Certificate | None = None
    certificate_note: str = ""
    upper_bits: float = float("nan")
    prices: tuple[float, ...] = ()
    constraints: tuple[ConstraintValue, ...] = ()
    pair_prices: tuple[float, ...] = ()
    pairs: tuple[PairValue, ...] = ()
    hide: str = "own"
    task: str = ""
    task_value: float = float("nan")
    proof: Bounds | None = field(default=None, repr=False)
    problem: Problem | None = field(default=None, repr=False)
    plan: "Plan | None" = field(default=None, repr=False)
    repeatable: bool = True
    basins: tuple[float, ...] = ()
    mixture_gain_bits: float = float("nan")

    def summary(self) -> str:
        """The answer as a small table and one or two sentences."""
        ended = f"{self.status.name.lower().replace('_', ' ')} after {self.iterations:,} iterations and {self.seconds:.1f} s"
        lines = [aligned(self._facts()), f"Method: {self.method} over {self.policy_class}, {ended}."]
        if not self.feasible:
            lines.append(f"The constraint is not met: {self.detail or self.status.value}.")
        elif self.needs_observations and self.status is not Status.NOT_SEARCHED:
            lines.append("The agent must see the observations to play this policy.")
        if len(self.basins) > 1 and self.basins[-1] >= 0 and self.basins[0] - self.basins[-1] >= TOLD_BITS:
            ends = f"{self.basins[-1]:.4g} to {self.basins[0]:.4g} bits"
            lines.append(
                f"When the starts were last compared, they had reached {len(self.basins)} different policies, of {ends}."
            )
        return "\n".join([*lines, *self.doubts])

    @property
    def message(self) -> str:
        """The status in words."""
        return self.status.value

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the answer may be far from the best, and what would help: a sentence each, none if nothing is known, or if it is
        proven that no policy hides much more."""
        if not self.feasible or self._is_proven_good:
            return ()
        found = list[str]()
        if self.status is Status.NOT_SEARCHED:
            found.append(f"The best policy known before the search is returned: {self.status.value}.")
        elif self.searched_class and self.searched_class != self.policy_class:
            words = f"The search was stopped while it searched {self.searched_class}, before {self.policy_class}"
            found.append(f"{words}: raise time_limit.")
        elif self.has_hardly_begun:
            last = self.history.opacity_bits[-1] if len(self.history) else 0.0
            ahead = self.goal == "opaque" and self.objective == "entropy" and last > self.opacity.bits + _DOUBTED_BITS
            words = f"The search made only {self.iterations} iteration{'s' * (self.iterations != 1)}"
            if ahead:
                words += f", the last with a policy of about {last:.2g} bits that misses a constraint or was not measured yet"
            words += ", so that the answer may be far from the best"
            found.append(f"{words}: raise time_limit, shorten the horizon, or start from a known policy.")
        prior = self.opacity.prior_bits
        if self.goal == "opaque" and self.hide == OWN and prior < TOLD_BITS:
            amount = f" but for {prior:.2g} bits" if round(prior, DIGITS) else ""
            words = f"Nothing to hide: under this policy the secret is certain{amount} before anything is observed"
            found.append(
                f"{words}. If other policies can make it uncertain, start from one of them or relax a constraint."
            )
        if self.mixture_gain_bits > _DOUBTED_BITS:
            words = "A private coin between this policy and others that the search met hides about"
            clock = "" if getattr(self.policy, "timed", True) is False else ", clock=True"
            found.append(
                f"{words} {self.mixture_gain_bits:.2g} bits more: use memory=veil.Mixture(2{clock}), or raise time_limit."
            )
        return tuple(found)

    @property
    def _is_proven_good(self) -> bool:
        """Whether a certificate or a game bounds all policies close to the answer."""
        if self.goal != "opaque" or self.objective != "entropy" or self.task:
            return False
        proven = [math.inf if self.certificate is None else self.certificate.upper, self.upper_bits]
        return min(bits for bits in proven if not math.isnan(bits)) - self.least_bits <= TOLD_BITS

    @property
    def has_hardly_begun(self) -> bool:
        """Whether the search was stopped so early that neither its answer nor its multipliers say anything about an optimum."""
        few = 1 if self.method == "game" else _FEW_ITERATIONS  # one of a game is a best response to the observer
        stopped = self.status in (Status.TIME_LIMIT, Status.INTERRUPTED) and self.iterations < few
        return self.status is Status.NOT_SEARCHED or stopped

    @property
    def searched_class(self) -> str:
        """The class that the search had come to when it ended, in words; empty if that is not known."""
        return str(self.settings.get("searched", ""))

    @property
    def hidden_pairs(self) -> tuple[str, ...]:
        """The names of the pairs of `hide`."""
        return tuple(name.strip() for name in self.hide.split(","))

    @property
    def least_bits(self) -> float:
        """The smallest opacity among the pairs of `hide`, which was maximised."""
        bits = {OWN: self.opacity.bits} | {one.name: one.bits for one in self.pairs}
        return min(bits[name] for name in self.hidden_pairs)

    def save(self, folder: str | Path, *, scenario: str | None = None) -> None:
        """Write the result folder that `veil solve` writes, complete or not at all.

        It holds the problem, the policy, the history, the certificate and `result.json`, so that it can be read, reported
        and verified anywhere.

        **Arguments:** `folder`: a new one, or one with an older result, which is replaced; `scenario`: the file that the
        problem came from, or `gallery:NAME`, whose text is then kept instead of one that is written from the problem.

        **Raises:** `InputError` if the folder cannot be written or has files that veil did not write, and if
        `problem` is None.
        """
        writer("solution")(folder, self, scenario)

    @staticmethod
    def load(folder: str | Path) -> "Solution":
        """The solution in a result folder, with its problem: `veil.load_result`."""
        return writer("solution from a folder")(folder)

    def _facts(self) -> list[tuple[str, str]]:
        required = "" if self.threshold is None else f", required: at least {self.threshold:.6g}"
        facts = [
            *self.opacity.facts(),
            ("return", f"{self.expected_return:.6g}{required}"),
            *self._shares(),
            *self._uneven(),
        ]
        proof = self.certificate
        if proof is None:
            facts += [("proven", f"no bounds: {self.certificate_note}")] if self.certificate_note else []
        elif self.goal == "transparent":
            least = "" if proof.beliefs is None else f", any policy at least {lower_text(proof.lower, 6)} bits"
            facts.append(("proven", f"this policy hides at most {upper_text(proof.upper, 6)} bits{least}"))
            if proof.likely_upper < proof.upper:
                facts.append((CONFIDENCE, f"this policy hides at most {upper_text(proof.likely_upper, 6)} bits"))
        else:
            problem = self.problem
            trivial = proof.trivial if problem is None else trivial_bound(problem, proof.upper, proof.hide)
            low, high = lower_text(proof.lower, 6), upper_text(proof.upper, 6)
            own = f"this policy at least {low} bits, " if round(proof.lower, DIGITS) > 0 else ""
            what = "" if proof.hide == (OWN,) else f" in the least of {' and '.join(proof.hide)}"
            facts.append(("proven", f"{own}any policy at most {high} bits{what}{in_parentheses(trivial)}"))
            if proof.likely_lower > proof.lower:
                facts.append((CONFIDENCE, f"this policy at least {lower_text(proof.likely_lower, 6)} bits"))
            if proof.delayed is not None:
                blind = upper_text(proof.delayed.upper, 6)
                facts.append(("", f"without seeing the current observation at most {blind} bits"))
            if lacks_clock(self):
                facts.append(("", CLOCK_WORDS))
            if is_short(self, proof.likely_lower):
                words = "what this policy hides is not proven within the limit"
                facts.append(("", f"{words}: raise time_limit or certificate_time_limit"))
        facts += [("", self.certificate_note)] if proof is not None and self.certificate_note else []
        facts += [one.fact() for one in self.constraints[self.threshold is not None :]]
        facts += [one.fact() for one in self.pairs]
        facts += [("least", f"{self.least_bits:.6f} bits, of the pairs {self.hide}")] if self.hide != OWN else []
        facts += self._left_out()
        compared = cast("dict[str, float]", self.settings.get("compared", {}))
        facts += [(name, f"{bits:.6f} bits") for name, bits in compared.items()]
        facts += [("task", f"{self.task_value:.6g} = {self.task}")] if self.task else []
        if self.threshold is not None and self.feasible and not math.isnan(self.price_bits):
            facts.append(("price", f"{self.price_bits:.4g} bits for one more unit of return"))
        return facts

    def _shares(self) -> list[tuple[str, str]]:
        """What the percentages mean that were asked for."""
        wanted = () if self.problem is None else targets(self.problem)
        names = ["" if one.quantity == 0 and one.sign > 0 else f"{one.name}: " for one in wanted]
        return [
            ("", f"{name}{one.share} is {one.bound:.6g}") for name, one in zip(names, wanted, strict=True) if one.share
        ]

    def _uneven(self) -> list[tuple[str, str]]:
        """The return of each value of the secret, if runs of one of them earn far less than the others."""
        given = None if self.problem is None else shown_return_given_secret(self.problem, self.policy)
        if given is None or not given.is_uneven:
            return []
        name, text = given.fact()
        return [(name, f"{text}; the runs of one value earn less than half of what all earn on average")]

    def _left_out(self) -> list[tuple[str, str]]:
        """Which bounds on pairs the proven upper bound leaves out, so that it may be far above."""
        proof = self.certificate
        if proof is None or self.goal != "opaque" or not any(one.text for one in self.pairs):
            return []
        if not proof.pairs:
            return [("", "the proven upper bound ignores the bounds on pairs, so it may be far too high")]
        missed = [one.name for one in proof.pairs if one.max is not None]
        words = "the proven upper bound ignores the upper bounds of these pairs"
        return [("", f"{words}, which are not convex: {', '.join(missed)}")] if missed else []

    def __repr__(self) -> str:
        return f"Solution({self.opacity.bits:.4f} bits, return {self.expected_return:.4g}, {self.status.name})"
