"""The answer that a report is about, from a solution or a result folder, and the verdict on it in two sentences."""

from dataclasses import dataclass

from ..common.errors import InputError
from ..common.rounding import lower_text, upper_text
from ..common.text import in_parentheses
from ..formats.results.folder import Result
from ..formats.results.verified import verified_certificate
from ..measure.result import Opacity
from ..planning.solution import CLOCK_WORDS, Solution, Status, is_short, lacks_clock
from ..planning.solve import given_solution
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.trivial import trivial_bound
from ..proof.certificate import Certificate
from ..proof.statement import CONFIDENCE
from .style import number_text


@dataclass(frozen=True, eq=False)
class Claim:
    """What is proven: `lower` and `upper` in bits (`lower` of all policies, if revealing is the goal), and `summary` in words.

    `delayed`: a smaller upper bound over agents that do not see the current observation; `trivial`: why the upper bound says
    nothing about this problem, empty where it does; `likely`: a larger lower bound, with confidence 1 − 1e-6.
    """

    lower: float
    upper: float
    summary: str
    delayed: float | None = None
    trivial: str = ""
    likely: float | None = None

    @property
    def sentences(self) -> list[str]:
        """The claim in words, line by line."""
        subject = "The policy " if self.summary.startswith("hides") else ""
        return f"{subject}{self.summary}".splitlines()


@dataclass(frozen=True, eq=False)
class Answer:
    """A solution, what is proven of it, why not more, and the version of veil that found it."""

    solution: Solution
    claim: Claim | None
    note: str
    version: str | None

    @property
    def searched(self) -> bool:
        """Whether a search found the policy; if not, it was given, and only measured."""
        return self.solution.status is not Status.GIVEN

    @property
    def proof_is_short(self) -> bool:
        """Whether the proof of what the policy hides did not finish."""
        found = self.solution
        return (
            self.claim is not None and found.goal == "opaque" and is_short(found, self.claim.likely or self.claim.lower)
        )


def make_answer(
    problem: Problem, given: Solution | Result | Answer, certificate: Certificate | Claim | None = None
) -> Answer:
    """The answer in a `Solution` or in a result that was read; an `Answer` as it is.

    **Arguments:** `certificate`: of the policy, where the solution has none.

    **Raises:** `InputError` on anything else, and where the result is about another problem.
    """
    if isinstance(given, Answer):
        return given
    if isinstance(given, Result):
        found, proof = given.solution(problem), certificate
        if proof is None:
            proof = verified_certificate(given, problem)
        return Answer(found, _claim(problem, proof), found.certificate_note, given.document.veil)
    if not isinstance(given, Solution):
        raise InputError("report", [f"found a {type(given).__name__}, expected a Solution or a result folder's Result"])
    proof = given.certificate if certificate is None else certificate
    return Answer(given, _claim(problem, proof), given.certificate_note if certificate is None else "", None)


def audit(problem: Problem, policy: Policy, *, seed: int = 0, time_limit: float | None = None) -> Answer:
    """The answer about a policy that was given; arguments and errors as for `given_solution`."""
    return Answer(given_solution(problem, policy, seed=seed, time_limit=time_limit), None, Status.GIVEN.value, None)


def verdict(answer: Answer) -> str:
    """What was found, and what is proven, in two sentences; the first alone where nothing was searched for."""
    found = answer.solution
    first = f"{_measured(found)}, {_earned(found)}."
    return f"{first} {_proven(answer)}." if answer.searched else first


def _measured(found: Solution) -> str:
    opacity = found.opacity
    if opacity.is_vacuous:
        return "There is nothing to hide: the secret is certain before anything is observed"
    if found.goal == "transparent":
        return f"The observer learns {bits_text(opacity.leakage_bits)} of the secret's {bits_text(opacity.prior_bits)} bits"
    return f"The policy hides {_hidden(opacity)} of the secret's {bits_text(opacity.prior_bits)} bits from the observer"


def _earned(found: Solution) -> str:
    earned = f"with expected return {number_text(found.expected_return)}"
    if found.threshold is None:
        return earned
    required = number_text(found.threshold)
    missed = [one.text for one in found.constraints[1:] if not one.met]
    if found.feasible or missed:
        return f"{earned} (required: at least {required}){''.join(f', but misses {text}' for text in missed)}"
    return f"{earned}, below the required {required}"


def _proven(answer: Answer) -> str:
    claim, found = answer.claim, answer.solution
    if claim is None:
        return "No bound is proven"
    if found.goal == "transparent":
        least = f", and every policy at least {lower_text(claim.lower)}" if claim.lower > 0 else ""
        return f"Proven: the policy hides at most {upper_text(claim.upper)} bits{least}"
    short = "; what this policy hides is not proven within the limit" if answer.proof_is_short else ""
    short = f"; {CLOCK_WORDS}" if lacks_clock(found) else short
    likely = (
        "" if claim.likely is None else f"; {CONFIDENCE}: the policy hides at least {lower_text(claim.likely)} bits"
    )
    which = "" if found.threshold is None else " that meet the requirement"
    blind = "" if claim.delayed is None else f", {upper_text(claim.delayed)} without seeing the current observation"
    least = "" if found.hide == OWN else f" on the least of {found.hide}"
    unit = f"bits plus {found.task}" if found.task else "bits"
    upper = f"{upper_text(claim.upper)} {unit}{in_parentheses(claim.trivial)}"
    return f"Proven upper bound{least} over all policies{which}: {upper}{blind}{short}{likely}"


def _claim(problem: Problem, certificate: Certificate | Claim | None) -> Claim | None:
    if certificate is None or isinstance(certificate, Claim):
        return certificate
    delayed = None if certificate.delayed is None else certificate.delayed.upper
    trivial = "" if certificate.task else trivial_bound(problem, certificate.upper, certificate.hide)
    lower, likely = certificate.hidden_bits if certificate.beliefs is None else (certificate.lower, 0.0)
    likely = likely if likely > lower else None
    return Claim(lower, certificate.upper, certificate.summary(), delayed, trivial, likely)


def bits_text(value: float) -> str:
    """Bits to four digits, without a negative zero."""
    return f"{round(value, 4) + 0.0:.4f}"


def _hidden(opacity: Opacity) -> str:
    if opacity.method == "sampled":
        return f"about {bits_text(opacity.bits)} (± {opacity.std_error:.2g}, estimated)"
    if opacity.upper - opacity.lower > 5e-5:
        return f"{lower_text(opacity.lower)} to {upper_text(opacity.upper)}"
    return bits_text(opacity.bits)
