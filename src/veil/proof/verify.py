"""The verifier: recomputes from the problem and the policy alone what a certificate claims.

One forward pass (`forward.py`, `policy_values.py`) evaluates the policy against the observer, one backward induction
(`backward.py`) maximises over all policies against the observer's rule; both bound their own rounding errors.
`exact_return.py` decides in whole numbers what floats cannot; `attainable.py` recomputes what percentages are shares of. The
verifier imports NumPy, SciPy, the rooms `common`, `problem` and `policy`, and nothing of `engine`, `measure`, `game` and
`planning`, which find policies and rules; `tests/test_imports.py` checks that through all modules it reaches. What it has in
common with them: a problem is a `Problem`, a policy a `Policy` whose room defines what the rows of a table stand for, and
`common.logs` computes logarithms. `certify` is not independent of it: it searches by other means, and then calls these same
functions to round its numbers.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from ..common.errors import CertificateError, InputError
from ..common.values import Value
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.return_rounding import rounding_of
from .arithmetic import UNIT, require
from .attainable import attainable
from .backward import rule_bound
from .certificate import Certificate
from .checked_problem import CheckedProblem, checked_for, checked_pairs
from .claim import check_claim
from .policy_values import PolicyValues, policy_values
from .witness import Witness

_SAME_RETURN = 1e-9  # of the range of returns: two ways to compute a share of it differ by less, or by rounding


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Value):
    """What is proven: bounds and return of the policy, the upper bound over all policies, `delayed` if it is claimed.

    `pairs`: the values of the policy in each pair that the certificate tells of beside the problem's own, by name.
    """

    policy: PolicyValues
    upper: float
    delayed: float | None = None
    pairs: dict[str, PolicyValues] = field(default_factory=dict[str, PolicyValues])

    def least(self, hide: tuple[str, ...]) -> float:
        """The least lower bound of the policy over some pairs."""
        return min(self.policy.lower if name == OWN else self.pairs[name].lower for name in hide)


def verify(certificate: Certificate, problem: Problem, policy: Policy) -> Verification:
    """Check a certificate against the problem and the policy: recompute its bounds and its return, rounding outward.

    **Arguments:**

    - `certificate`: from `veil.certify`, `Solution.certificate` or `Certificate.load`; no number in it is trusted.
    - `problem`, `policy`: what it is about; they must have the hashes that the certificate states.

    Cost: one forward pass of the policy over its histories and one backward induction over the observer's graph.

    **Returns:** a `Verification` with the recomputed numbers.

    **Raises:** `CertificateError` saying what failed, the most basic defect first; `InputError` where an argument is of
    another kind.
    """
    _check_arguments(certificate, problem, policy)
    try:
        check_claim(certificate, problem, policy)
        return _verify(certificate, CheckedProblem(problem), policy)
    except CertificateError:
        raise
    except (IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CertificateError(f"witness: it cannot be followed ({error})") from error


def _check_arguments(certificate: object, problem: object, policy: object) -> None:
    """Raise `InputError` unless the arguments are of their kinds."""
    wanted = (("certificate", certificate, Certificate), ("problem", problem, Problem), ("policy", policy, Policy))
    defects = [
        f"{name} is {'None' if given is None else f'a {type(given).__name__}'}, expected a veil.{kind.__name__}"
        for name, given, kind in wanted
        if not isinstance(given, kind)
    ]
    if defects:
        raise InputError("verify", [*defects, "call veil.verify(certificate, problem, policy)"])


def _verify(claim: Certificate, problem: CheckedProblem, policy: Policy) -> Verification:
    _check_percentages(claim, problem)
    found = policy_values(
        checked_for(problem.problem, policy, own=problem), policy, claim.window, claim.prune, claim.values,
        bounds=claim.bounds, goal=claim.goal, merge=claim.merge,
    )  # fmt: skip
    _check_value("return", claim.expected_return, claim.return_error, found.expected_return, found.return_error)
    for one, proven in zip(claim.constraints, found.others, strict=True):
        _check_value(one.name, one.value, one.error, proven.value, proven.error)
        require(one.met is proven.met, f"constraints: met is {one.met} for {one.text}, and a value of {proven.value} ±"
                f" {proven.error} is found")  # fmt: skip
    require(claim.feasible is found.feasible, f"feasible: {claim.feasible} is claimed for the threshold {claim.threshold},"
            f" and a return of {found.expected_return} ± {found.return_error} is found")  # fmt: skip
    if claim.goal == "transparent":
        require(claim.lower == 0, f"lower bound: {claim.lower} is claimed for all policies, and only 0 is proven")
        require(claim.upper >= found.upper, f"upper bound: {claim.upper} is claimed, and {found.upper} is found")
        return Verification(found, found.upper)
    pairs = _check_pairs(claim, problem.problem, policy)
    least = Verification(found, 0.0, pairs=pairs).least(claim.hide)
    require(claim.lower <= least, f"lower bound: {claim.lower} is claimed, and {least} is found")
    assert claim.witness is not None  # as its form was checked
    together = checked_pairs(problem.problem, _watching(claim), problem)
    upper = _check_upper("upper bound", claim.upper, claim.witness, claim, together)
    if (late := claim.delayed) is None:
        return Verification(found, upper, pairs=pairs)
    delayed = CheckedProblem(problem.problem, late.delay)
    return Verification(found, upper, _check_upper("delayed", late.upper, late.witness, claim, delayed), pairs)


def _check_pairs(claim: Certificate, problem: Problem, policy: Policy) -> dict[str, PolicyValues]:
    """What is proven of each pair beside the problem's own; raises `CertificateError` where more is claimed."""
    proven: dict[str, PolicyValues] = {}
    for one in claim.pairs:
        found = policy_values(
            checked_for(problem, policy, one.name), policy, one.window, one.prune, claim.values, merge=one.merge
        )
        within = one.lower <= found.lower and found.upper <= one.upper
        require(
            within, f"pair {one.name}: {one.lower} … {one.upper} is claimed, {found.lower} … {found.upper} is found"
        )
        proven[one.name] = found
    return proven


def _watching(claim: Certificate) -> tuple[str, ...]:
    """The pairs whose observers prove the upper bound: each is hidden, or must keep some bits."""
    assert claim.witness is not None
    names, kept = tuple(one.pair for one in claim.witness.rules), claim.kept
    require(len(set(names)) == len(names), f"rule: its pairs are {names}, expected each once")
    wrong = [name for name in names if name not in claim.hide and name not in kept]
    require(not wrong, f"rule: {wrong} are neither hidden nor have lower bounds")
    return names


def _check_upper(name: str, claimed: float, witness: Witness, claim: Certificate, problem: CheckedProblem) -> float:
    """The bound that a rule proves, or `log2 |Z|`, which needs none; raises `CertificateError` where less is claimed."""
    found = rule_bound(problem, witness, claim.bounds, claim.values, claim.kept)
    require(found < math.inf, f"{name}: the rule excludes something that a policy can reach, and so proves nothing")
    require(claimed >= min(found, problem.most_bits), f"{name}: {claimed} is claimed, and {found} is found")
    return min(found, problem.most_bits)


def _check_value(name: str, value: float, error: float, found: float, found_error: float) -> None:
    """Raise `CertificateError` unless a quantity is claimed within an error that holds and is not needlessly large."""
    off = abs(Fraction(value) - Fraction(found)) + Fraction(found_error)
    require(off <= Fraction(error), f"{name}: {value} ± {error} is claimed, and {found} ± {found_error} is found")
    most = 4 * found_error + 32 * UNIT * abs(found)
    require(error <= most, f"{name}: an error of {error} is claimed, and {most} is the most")


def _check_percentages(claim: Certificate, problem: CheckedProblem) -> None:
    """Raise `CertificateError` where a bound is not the share of its quantity's range that the problem asks for."""
    asked = (problem.problem.min_return, *(one.bound for one in problem.problem.others))
    for wanted, bound, paid in zip(asked, claim.bounds, problem.paid, strict=True):
        if not isinstance(wanted, str) or bound is None:
            continue
        ends, share = attainable(problem, paid), float(wanted.removesuffix("%")) / 100
        rounding = _SAME_RETURN * (ends.largest - ends.smallest) + 2 * ends.error
        rounding += 4 * rounding_of(problem.problem, *paid.given, paid.discount)
        found = ends.at(share)
        require(abs(bound - found) <= rounding, f"threshold: {bound} is claimed for {wanted}, and {found} is found")
