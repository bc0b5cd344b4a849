"""Objects of veil as plain numbers; words, times and versions are left out."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import veil

from .values import Digest

_METHODS = ("exact", "bracket", "sampled")
_TIMES = ("seconds",)


def of_opacity(found: veil.Opacity) -> dict[str, Any]:
    """All numbers of an opacity; the method by its place in (exact, bracket, sampled)."""
    return {
        "bits": found.bits,
        "lower": found.lower,
        "upper": found.upper,
        "prior_bits": found.prior_bits,
        "leakage_bits": found.leakage_bits,
        "std_error": found.std_error,
        "interval": list(found.interval()),
        "num_sequences": found.num_sequences,
        "method": _METHODS.index(found.method),
    }


def of_policy(policy: Any) -> Any:
    """The table of a policy; the bytes of its file where it is one on the history."""
    return policy.probabilities if hasattr(policy, "probabilities") else file_bytes(policy)


def file_bytes(kept: Any) -> bytes:
    """What `save` writes, for anything that writes one file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        kept.save(path)
        return path.read_bytes()


def of_solution(found: veil.Solution) -> dict[str, Any]:
    """The answer, and under `course` all that depends on the path of the search."""
    history = found.history
    return {
        "bits": found.opacity.bits,
        "expected_return": found.expected_return,
        "threshold": found.threshold,
        "feasible": found.feasible,
        "upper_bits": found.upper_bits,
        "course": {
            "opacity": of_opacity(found.opacity),
            "price_bits": found.price_bits,
            "stationarity_bits": found.stationarity_bits,
            "iterations": found.iterations,
            "converged": found.status is veil.Status.CONVERGED,
            "needs_observations": found.needs_observations,
            "policy": of_policy(found.policy),
            "history": {
                "iteration": history.iteration,
                "opacity_bits": history.opacity_bits,
                "expected_return": history.expected_return,
                "multiplier": history.multiplier,
                "step": history.step,
                "multipliers": history.multipliers,
            },
        },
    }


def of_certificate(found: veil.Certificate) -> dict[str, Any]:
    """What is claimed, and under `course` the witness that proves it."""
    rules = found.bounds[0].rules[:1] if found.bounds else ()
    arrays = [array for one in rules for array in (one.first, *one.following, one.costs)]
    own = found.channels[0]
    joined = hashlib.sha256(b"".join(array.astype("<f8").tobytes() for array in arrays)).hexdigest()
    return {
        "lower": found.lower,
        "upper": found.upper,
        "expected_return": found.expected_return,
        "threshold": found.threshold,
        "feasible": found.feasible,
        "problem": Digest(found.problem_hash),
        "course": {
            "return_error": found.return_error,
            "best_known": found.best_known,
            "gaps": [found.gap, found.class_gap, found.solver_gap],
            "price": found.price,
            "window": list(own.window),
            "prune": own.prune,
            "merge": own.merge,
            "values": found.values,
            "witness": Digest(joined),
            "shapes": [list(array.shape) for array in arrays],
        },
    }


def of_document(document: Any) -> Any:
    """The numbers in a JSON document, and its hash of the problem; texts and times are left out, and what is then empty."""
    if isinstance(document, dict):
        kept = {key: of_document(entry) for key, entry in document.items() if key not in _TIMES}
        kept = {key: entry for key, entry in kept.items() if entry not in ({}, [])}
        if "fingerprint" in document:
            kept["fingerprint"] = Digest(document["fingerprint"])
        return kept
    if isinstance(document, list):
        return [entry for entry in map(of_document, document) if entry not in ({}, [])]
    return {} if isinstance(document, str) else document


def without_comments(path: str | os.PathLike[str]) -> bytes:
    """The lines of a text file that are no comments (`//` or `#`)."""
    lines = Path(path).read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if not line.lstrip().startswith((b"//", b"#")))
