"""`verify`: the check of `checking.py` for a scenario's problem and a policy."""

from ..common.errors import CertificateError, InputError
from ..common.values import same
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from ..problem.terms import with_task
from .certificate import Certificate
from .checking import Draws, Verification, check
from .claims import MOST_SEQUENCES
from .compiled import record_of
from .described import described, policy_words
from .reading import whole
from .words import check_words


def verify(
    certificate: Certificate,
    problem: Problem,
    policy: Policy,
    *,
    confidence: float = 1 - 1e-6,
    sequences: int | None = None,
    seed: int | None = None,
) -> Verification:
    """Check a certificate against the problem and the policy: recompute its bounds and its return, rounding outward.

    **Arguments:**

    - `certificate`: from `veil.certify`, `Solution.certificate` or `Certificate.load`; no number in it is trusted.
    - `problem`, `policy`: what it is about; they must have the hashes that the certificate states.
    - `confidence`: of all statistical claims together. `sequences`: how many the verifier draws at first for each, those of
      the claim by default; `seed`: of these draws, for a reproducible rerun. By default they come from the randomness
      of the system, which the author of a certificate cannot foresee.

    Cost: one forward pass of the policy over its histories and one backward induction over each observer's graph; for
    statistical claims the filter along each drawn sequence.

    **Returns:** a `Verification` with the recomputed numbers.

    **Raises:** `CertificateError` saying what failed, the most basic defect first; `InputError` if an argument is of
    another kind.
    """
    _check_arguments(certificate, problem, policy)
    draws = draws_of(confidence, sequences, seed)
    check_scenario(certificate, problem, policy)
    problem = counted_problem(certificate, problem)
    agent, register = described(problem, policy)
    found = check(certificate, record_of(problem), agent, register, draws)
    check_words(certificate, found.record)
    return found


def check_scenario(certificate: Certificate, problem: Problem, policy: Policy) -> None:
    """Raise `CertificateError` unless a certificate is about a problem and a policy: by their hashes, and by what the policy
    remembers in the problem. No number is recomputed."""
    problem = counted_problem(certificate, problem)
    expected = {"problem_hash": fingerprint(problem), "record_hash": record_of(problem).digest}
    expected["policy_class"] = policy_words(problem, policy)
    expected["policy_hash"] = policy.on(problem).digest()
    for name, value in expected.items():
        found = getattr(certificate, name)
        if found != value:
            raise CertificateError(f"{name}: the certificate says {found!r}, found {value!r}")
    if not same(certificate.register, described(problem, policy)[1]):
        raise CertificateError("register: it is not what the policy remembers in this problem")


def counted_problem(certificate: Certificate, problem: Problem) -> Problem:
    """The problem with the quantities that the task of a certificate counts.

    **Raises:** `CertificateError` where it is no task of the problem.
    """
    try:
        return with_task(problem, certificate.task or None)
    except (InputError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CertificateError(f"quantities: the task is none of the problem's ({error})") from None


def draws_of(confidence: float, sequences: int | None, seed: int | None) -> Draws:
    """How the verifier draws, of the arguments of `verify`. **Raises:** `InputError` where one of them is none."""
    defects = list[str]()
    if not (isinstance(confidence, float) and 0 < confidence < 1):
        defects.append(f"confidence is {confidence!r}, expected a number between 0 and 1")
    if sequences is not None and not whole(2, MOST_SEQUENCES)(sequences):
        defects.append(f"sequences is {sequences!r}, expected a whole number, 2 to 10,000,000")
    if seed is not None and not (type(seed) is int and seed >= 0):
        defects.append(f"seed is {seed!r}, expected a whole number, 0 or more")
    if defects:
        raise InputError("verify", defects)
    return Draws(1 - confidence, sequences, seed)


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
