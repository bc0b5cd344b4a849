"""`veil certify` and `veil verify`: make and check certificates of how good a policy is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..common.rounding import lower_text, upper_text
from .changes import with_changes
from .progress import QuietOption, VerboseOption, reported
from .shared import (
    GALLERY,
    JsonOption,
    PolicyArgument,
    ScenarioArgument,
    guarded,
    open_policy,
    open_scenario,
    print_facts,
    print_json,
)

if TYPE_CHECKING:
    from ..formats.results.folder import Result
    from ..policy.policy import Policy
    from ..problem.problem import Problem
    from ..proof.certificate import Certificate
    from ..proof.verify import Verification


@guarded
@with_changes
def certify(
    scenario: ScenarioArgument,
    policy: PolicyArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; its arrays go in a second file beside it.")
    ] = Path("certificate.json"),
    time_limit: Annotated[float, typer.Option(min=0, help="Time limit in seconds.")] = 60.0,
    gap: Annotated[float, typer.Option(min=0, help="Stop when the bounds are this close, in bits.")] = 1e-3,
    goal: Annotated[
        Literal["opaque", "transparent"], typer.Option(help="Whether the policy should conceal or reveal the secret.")
    ] = "opaque",
    hide: Annotated[
        str | None,
        typer.Option(
            help="Pairs whose least is proven, by name, separated by commas.", show_default="that of the scenario"
        ),
    ] = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Prove a lower bound on what a policy hides, and an upper bound over all policies with the same threshold.

    `veil verify` checks the file from the scenario and the policy alone.

    Example: veil certify patrol.toml patrol-result -o proof.json
    """
    from ..formats.results.document import certificate_document, problem_document
    from ..problem.pairs import OWN
    from ..proof.certify import certify as issue

    opened = open_scenario(scenario, changes)
    acting = open_policy(opened.problem, policy)
    aim = hide or (str(opened.settings.get("hide", OWN)) if goal == "opaque" else OWN)
    with reported(quiet=quiet or (as_json and not verbose), verbose=verbose) as progress:
        certificate = issue(opened.problem, acting, time_limit, gap, goal=goal, hide=aim, progress=progress)
    certificate.save(output)
    if as_json:
        own = {"file": str(output), "feasible": certificate.feasible, "threshold": certificate.threshold}
        known = {name: getattr(certificate, name) for name in ("best_known", "class_gap", "solver_gap", "price")}
        print_json(
            {
                "problem": problem_document(opened.problem, opened.source),
                **certificate_document(certificate),
                **own,
                **known,
            }
        )
        return
    print(certificate.summary())
    print(f"written to {output}")


@guarded
@with_changes
def verify(
    place: Annotated[
        str, typer.Argument(metavar="DIR|FILE", help="A result folder, or a certificate file.", show_default=False)
    ],
    scenario: Annotated[
        str | None, typer.Option(help="The scenario of the certificate.", show_default="that of the result folder")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The policy of the certificate.", show_default="that of the result folder")
    ] = None,
    as_json: JsonOption = False,
    *,
    changes: tuple[str, ...] = (),
) -> None:
    """Check a certificate from the scenario and the policy alone; nothing in the certificate is trusted.

    Exit codes: 0 the certificate holds, 5 it does not hold, 2 it could not be checked (a file is missing or cannot be read).

    Example: veil verify patrol-result
    """
    from ..formats.results.verified import check_document
    from ..proof.certificate import Certificate
    from ..proof.verify import verify as check

    certificate_path, result, scenario, policy, recorded = _parts(place, scenario, policy)
    opened = open_scenario(scenario, [*recorded, *changes])
    certificate = Certificate.load(certificate_path)
    acting = _acting(opened.problem, policy, result)
    found = check(certificate, opened.problem, acting)
    if result is not None:
        check_document(result, certificate, found, opened.problem, acting)
    facts: dict[str, object] = {
        "holds": True,
        "scenario": scenario,
        "changes": list(opened.changes),
        "problem": opened.problem.name,
        "fingerprint": certificate.problem_hash,
        "certificate": str(certificate_path),
        "lower": certificate.lower,
        "upper": certificate.upper,
        "gap": certificate.gap,
        "expected_return": certificate.expected_return,
        "threshold": certificate.threshold,
        "feasible": certificate.feasible,
        "recomputed_lower": found.least(certificate.hide),
        "recomputed_upper": found.upper,
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
            ("scenario", f"{scenario} ({opened.problem.name})"),
            ("changed", ", ".join(opened.changes) or None),
            ("fingerprint", certificate.problem_hash),
            ("claimed", _bounds(certificate, certificate.lower, certificate.upper)),
            ("recomputed", _bounds(certificate, found.least(certificate.hide), found.upper)),
            ("", _delayed(certificate, found)),
            (
                "return",
                f"{certificate.expected_return!r}, within {upper_text(certificate.return_error, significant=2)}",
            ),
            ("threshold", "none" if certificate.threshold is None else repr(certificate.threshold)),
        ]
    )
    print(certificate.summary())


def _acting(problem: "Problem", policy: str, result: "Result | None") -> "Policy":
    """The policy; one of a result folder that is there and is no policy of the problem does not bear out the certificate."""
    from ..common.errors import CertificateError, PolicyFileError, VeilError
    from ..common.files import check_ordinary
    from ..formats.results.folder import POLICY

    if result is None or Path(policy) != result.folder / POLICY:
        return open_policy(problem, policy)
    try:
        check_ordinary(policy)
    except OSError as error:
        raise PolicyFileError(f"{policy} cannot be read: {error.strerror}") from None
    try:
        return open_policy(problem, policy)
    except VeilError as error:
        raise CertificateError(f"the policy is not that of the certificate: {error}") from error


def _bounds(certificate: "Certificate", lower: float, upper: float) -> str:
    """Both bounds; the upper one alone where nothing is proven of the policy."""
    from ..common.text import in_parentheses

    high = f"{upper_text(upper, 6)} bits{in_parentheses(certificate.trivial)}"
    return f"{lower_text(lower, 6)} … {high}" if certificate.proves_policy else f"any policy at most {high}"


def _delayed(certificate: "Certificate", found: "Verification") -> str | None:
    """The bound over agents that do not see the current observation, claimed and recomputed; None where there is none."""
    if certificate.delayed is None or found.delayed is None:
        return None
    high, again = upper_text(certificate.delayed.upper, 6), upper_text(found.delayed, 6)
    return f"without seeing the current observation at most {high} bits (recomputed: {again})"


def _parts(place: str, scenario: str | None, policy: str | None) -> "tuple[Path, Result | None, str, str, list[str]]":
    """The certificate, the result it belongs to, the scenario, the policy, and the changes that were made to the scenario.

    A result folder names them all, a certificate alone only itself.
    """
    from ..common.errors import InputError
    from ..formats.results.folder import CERTIFICATE, DOCUMENT, POLICY, read_result

    path, result = Path(place), None
    if not path.exists():
        raise InputError(place, ["not found, expected a result folder or a certificate file"])
    if path.is_dir() or path.name == DOCUMENT:
        result = read_result(path, check_files=False)
        if result.certificate is None:
            why = result.document.certificate_note
            raise InputError(place, [f"this result has no certificate ({why}): create one with veil certify"])
        path = result.certificate
    elif path.name == CERTIFICATE and (path.parent / DOCUMENT).exists() and (scenario is None or policy is None):
        result = read_result(path.parent, check_files=False)
    changes: list[str] = []
    if result is not None:
        changes = result.document.problem.changes if scenario is None else []
        scenario, policy = scenario or result.scenario, policy or str(result.folder / POLICY)
    missing = [name for name, value in (("--scenario", scenario), ("--policy", policy)) if value is None]
    if missing:
        raise InputError(
            place, [f"a certificate file does not contain the scenario and the policy: give {' and '.join(missing)}"]
        )
    assert scenario is not None
    assert policy is not None
    if (
        result is not None
        and scenario == result.scenario
        and not scenario.startswith(GALLERY)
        and not Path(scenario).exists()
    ):
        raise InputError(
            place,
            [
                f"its scenario {scenario} is not there: give it with --scenario FILE, or check the folder on its own with"
                f" `python verify_certificate.py {result.folder}`"
            ],
        )
    return path, result, scenario, policy, changes
