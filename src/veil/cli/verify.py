"""`veil verify`: check certificates of how good a policy is."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..common.rounding import lower_text, upper_text
from .options import Further
from .progress import working
from .shared import JsonOption, argument, open_policy, open_scenario, print_facts, print_json, told_of_source

PROBLEM_FILE, POLICY_FILE = "problem.bin", "policy.safetensors"
CONFIDENCE_LABEL = "with confidence"
_CONFIDENCE = 1 - 1e-6  # of all statistical claims together, as veil.verify has it

if TYPE_CHECKING:
    from ..formats.results.folder import Result
    from ..policy.policy import Policy
    from ..problem.problem import Problem
    from ..proof.certificate import Certificate
    from ..proof.checking import Verification


def verify(
    places: Annotated[
        list[str],
        argument(
            metavar="RESULT | SCENARIO RESULT | SCENARIO POLICY CERTIFICATE",
            help="A result folder, also with a scenario to compare it with; or scenario, policy and certificate file.",
        ),
    ],
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Check a certificate from the arrays of the problem and the policy; nothing in the certificate is trusted.

    A result folder is complete, so you can check it anywhere. The output says whether its scenario is still there and
    unchanged. --set verify.NAME=VALUE gives options of veil.verify about statistical claims: confidence (of all
    together), sequences (drawn for each) and seed (to repeat the draws, which are otherwise fresh).

    Exit codes: 0 the certificate holds, 5 it does not hold, 2 it could not be checked (a file is missing or cannot be read).

    Example: veil verify patrol-result
    """
    from ..formats.results.verified import check_document, check_told
    from ..proof.certificate import Certificate
    from ..proof.verify import check_scenario, draws_of
    from ..proof.verify import verify as check
    from ..proof.verify_files import verify_files
    from ..proof.words import check_words

    more = Further("verify", changes, check)
    changes, drawn = more.changes, more.of(check)
    parts = _parts(places)
    draws = draws_of(drawn.get("confidence", _CONFIDENCE), drawn.get("sequences"), drawn.get("seed"))
    certificate = Certificate.load(parts.certificate)
    with working("checking the certificate", quiet=as_json):
        found = verify_files(certificate, parts.record, Path(parts.policy), draws=draws) if parts.has_record else None
        if found is not None:
            check_words(certificate, found.record)
        problem = parts.problem(changes)
        if problem is not None:
            acting = _acting(problem, parts)
            check_scenario(certificate, problem, acting)
            found = found or check(certificate, problem, acting, **drawn)
            if parts.result is not None:
                check_document(parts.result, certificate, found, problem, acting)
        elif parts.result is not None:
            check_told(parts.result, certificate)
    assert found is not None
    print_verified(certificate, found, parts, problem, changes, as_json=as_json)


def print_verified(
    certificate: "Certificate",
    found: "Verification",
    parts: "_Parts",
    problem: "Problem | None",
    changes: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """The result of a verification, in words or as JSON."""
    told = parts.told(problem)
    solved_with = () if parts.result is None or parts.scenario else parts.result.document.problem.changes
    changes = changes or tuple(solved_with)
    drawn = {one.name: found.sampled[one.number].lower for one in certificate.channels if one.number in found.sampled}
    again = certificate.with_task(found.least(certificate.hidden))
    facts: dict[str, object] = {
        "holds": True,
        "scenario": parts.scenario or (None if parts.result is None else parts.result.scenario),
        "scenario_compared": problem is not None,
        "scenario_told": told,
        "changes": list(changes),
        "fingerprint": certificate.problem_hash,
        "certificate": str(parts.certificate),
        "lower": certificate.lower,
        "likely_lower": certificate.likely_lower if certificate.likely_lower > certificate.lower else None,
        "upper": certificate.upper,
        "gap": certificate.gap,
        "expected_return": certificate.expected_return,
        "threshold": certificate.threshold,
        "feasible": certificate.feasible,
        "recomputed_lower": again,
        "recomputed_upper": found.upper,
        "recomputed_likely_lower": drawn or None,
        "delayed_upper": None if certificate.delayed is None else certificate.delayed.upper,
        "recomputed_delayed_upper": found.delayed,
        "claim": certificate.claim,
    }
    if as_json:
        print_json(facts)
        return
    print("the certificate holds")
    print_facts(
        [
            ("problem", None if problem is None else problem.name),
            ("scenario", told),
            ("changed", ", ".join(changes) or None),
            ("fingerprint", certificate.problem_hash),
            ("claimed", _bounds(certificate, certificate.lower, certificate.upper)),
            ("recomputed", _bounds(certificate, again, found.upper)),
            ("", _delayed(certificate, found)),
            *[(CONFIDENCE_LABEL, f"{name}: at least {lower_text(bits, 6)} bits in the verifier's draws")
              for name, bits in drawn.items()],
            (
                "return",
                f"{certificate.expected_return:.6g}, computed to within {upper_text(certificate.return_error, significant=2)}",
            ),
            ("threshold", "none" if certificate.threshold is None else f"{certificate.threshold:.6g}"),
        ]
    )  # fmt: skip
    for line in certificate.summary().splitlines():
        print("\n" + textwrap.fill(line, 100, break_on_hyphens=False))


@dataclass(frozen=True)
class _Parts:
    """What a verification is about: the certificate, the folder it belongs to, the policy, and the scenario if one is given."""

    certificate: Path
    result: "Result | None"
    scenario: str | None
    policy: Path | str

    @property
    def record(self) -> Path:
        """The arrays of the problem in the result folder."""
        return self.certificate.parent / PROBLEM_FILE

    @property
    def has_record(self) -> bool:
        """Whether the folder has the arrays, and no other policy was given."""
        return self.result is not None and self.policy == self.result.folder / POLICY_FILE and self.record.exists()

    def problem(self, changes: tuple[str, ...]) -> "Problem | None":
        """The problem of the scenario that is given, else of the folder; None if only its arrays are there.

        **Raises:** `CertificateError` if the folder has another one than its certificate is about.
        """
        from ..common.errors import CertificateError, InputError
        from ..formats.results.scenario import SCENARIO

        if self.scenario is not None:
            return open_scenario(self.scenario, changes).problem
        assert self.result is not None
        if SCENARIO not in self.result.document.files and self.has_record:
            return None
        if not (self.result.folder / SCENARIO).is_file():
            raise InputError(str(self.result.folder), [f"it has no {SCENARIO}: name the scenario before it"])
        if self.result.problem_differs:
            raise CertificateError(f"{SCENARIO}: it is not the problem of this result")
        return self.result.problem

    def told(self, problem: "Problem | None") -> str:
        """What was compared with which scenario."""
        if self.scenario is not None:
            return f"{self.scenario} is this problem"
        assert self.result is not None
        own = f"not compared: checked for the arrays in {PROBLEM_FILE}; " if problem is None else ""
        return f"{own}{told_of_source(self.result)}"


def _acting(problem: "Problem", parts: _Parts) -> "Policy":
    """The policy; one of a result folder that is there and is no policy of the problem does not bear out the certificate."""
    from ..common.errors import CertificateError, PolicyFileError, VeilError
    from ..common.files import check_ordinary, reason

    policy = str(parts.policy)
    if parts.result is None or Path(policy) != parts.result.folder / POLICY_FILE:
        return open_policy(problem, policy)
    try:
        check_ordinary(policy)
    except OSError as error:
        raise PolicyFileError(f"{policy} cannot be read: {reason(error)}") from None
    try:
        return open_policy(problem, policy)
    except VeilError as error:
        raise CertificateError(f"the policy is not that of the certificate: {error}") from error


def _bounds(certificate: "Certificate", lower: float, upper: float) -> str:
    """Both bounds; the upper one alone where nothing is proven of the policy."""
    from ..common.text import in_parentheses

    unit = f"bits plus {certificate.task}" if certificate.task else "bits"
    high = f"{upper_text(upper, 6)} {unit}{in_parentheses(certificate.trivial)}"
    return f"{lower_text(lower, 6)} … {high}" if certificate.proves_policy else f"any policy at most {high}"


def _delayed(certificate: "Certificate", found: "Verification") -> str | None:
    """The bound over agents that do not see the current observation, claimed and recomputed; None where there is none."""
    if certificate.delayed is None or found.delayed is None:
        return None
    high, again = upper_text(certificate.delayed.upper, 6), upper_text(found.delayed, 6)
    return f"without seeing the current observation at most {high} bits (recomputed: {again})"


def _parts(places: list[str]) -> _Parts:
    """What is to be verified. A result folder has all of its parts, a certificate alone only itself."""
    from ..common.errors import InputError
    from ..formats.results.folder import CERTIFICATE, DOCUMENT, read_result

    if len(places) > 3:
        raise InputError("verify", [f"found {len(places)} arguments, expected at most SCENARIO POLICY CERTIFICATE"])
    place = places[-1]
    scenario = places[0] if len(places) > 1 else None
    policy = places[1] if len(places) > 2 else None
    path, result = Path(place), None
    if not path.exists():
        raise InputError(place, ["not found, expected a result folder or a certificate file"])
    if path.is_dir() or path.name == DOCUMENT:
        result = read_result(path, check_files=False)
        if result.certificate is None:
            why = result.document.certificate_note
            raise InputError(
                place, [f"this result has no certificate ({why}): create one with veil measure --certificate"]
            )
        path = result.certificate
    elif path.name == CERTIFICATE and (path.parent / DOCUMENT).exists() and policy is None:
        result = read_result(path.parent, check_files=False)
    if result is not None:
        return _Parts(path, result, scenario, policy or result.folder / POLICY_FILE)
    if policy is None:
        words = (
            "a certificate file does not contain the scenario and the policy: veil verify SCENARIO POLICY CERTIFICATE"
        )
        raise InputError(place, [words])
    return _Parts(path, None, scenario, policy)
