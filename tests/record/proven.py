"""Cases: certificates that are found without meeting a limit of time, each of them verified."""

from typing import Any

import veil

from .numbers import of_certificate
from .problems import endless, history, markov, problem, remembering, timed
from .registry import case


def proof(of: veil.Problem, policy: Any, **settings: Any) -> dict[str, Any]:
    """What is proven of a policy, and what the verifier finds by itself."""
    found = veil.certify(of, policy, 600.0, progress=False, **settings)
    checked = veil.verify(found, of, policy)
    again = {"lower": checked.policy.lower, "policy_upper": checked.policy.upper, "upper": checked.upper}
    return {**of_certificate(found), "verified": again}


def proof_of_secret(secret: str) -> dict[str, Any]:
    of = problem(secret, horizon=3, min_return="30%")
    return proof(of, markov(of))


for _secret in ("last", "initial", "at", "automaton", "model"):
    case(f"certificate-{_secret}", _secret, search=True)(proof_of_secret)


@case("certificate-each-policy", search=True)
def proof_of_policies() -> dict[str, Any]:
    of = problem(horizon=3, min_return="30%")
    policies = {"timed": timed(of), "zones": remembering(of, "zones"), "history": history()}
    return {name: proof(of, policy) for name, policy in policies.items()}


@case("certificate-each-watcher", search=True)
def proof_before_watchers() -> dict[str, Any]:
    found = {name: problem("last", name, 2, min_return="30%") for name in ("on_actions", "sees_actions", "no_start")}
    return {name: proof(of, markov(of)) for name, of in found.items()}


@case("certificate-transparent", search=True)
def proof_transparent() -> dict[str, Any]:
    of = problem(horizon=3)
    return proof(of, markov(of), goal="transparent")


@case("certificate-endless", search=True)
def proof_endless() -> dict[str, Any]:
    return proof(endless().replace(horizon=3), markov(endless()))


@case("certificate-of-a-solution", search=True)
def proof_of_solution() -> dict[str, Any]:
    of = problem("at", horizon=3, min_return="60%")
    found = veil.solve(of, "game", certificate_time_limit=600.0, progress=False)
    assert found.certificate is not None
    return {**of_certificate(found.certificate), "upper_bits": found.upper_bits}
