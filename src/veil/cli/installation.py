"""`veil show installation`: what is installed, what the machine offers, and whether known values come out."""

import os
import sys
from typing import TypedDict

from .shared import SELF_TEST_FAILED, SOLVED, print_facts, print_json, print_table, stop

_PACKAGES = (
    "veil", "numpy", "scipy", "safetensors", "threadpoolctl", "pydantic", "typer", "rich", "jax", "optax",
    "scikit-learn", "gymnasium", "stormpy", "matplotlib",
)  # fmt: skip
# Worked out by hand (see formats/gallery/two-rooms.toml): 5/8 · log2 5 − 1 and 7/16 · h(3/7).
_UNIFORM_BITS = 0.4512050593046013
_BEST_BITS = 0.43103730951498503


class Check(TypedDict):
    """A known value beside what this machine makes of it."""

    what: str
    found: float
    expected: float
    passed: bool


def installation(as_json: bool) -> None:
    """Check the installation: versions, devices, precision, and a self-test against known values."""
    checks = _checks()
    healthy = all(check["passed"] for check in checks)
    versions, machine = _versions(), _machine()
    if as_json:
        print_json({"healthy": healthy, "versions": versions, "machine": machine, "checks": checks})
    else:
        print_table(["package", "version"], [(name, found or "-") for name, found in versions.items()])
        print_facts(machine.items())
        rows = [
            [check["what"], check["found"], check["expected"], "ok" if check["passed"] else "WRONG"] for check in checks
        ]
        print_table(["check", "found", "expected", ""], rows)
        print("all checks passed" if healthy else "the self-test failed: reinstall veil and its packages")
    stop(SOLVED if healthy else SELF_TEST_FAILED)


def _versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _machine() -> dict[str, object]:
    import platform

    from ..engine.device import accelerator

    return {
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "accelerator": accelerator() or "none (sampled estimates run on the CPU)",
    }


def _checks() -> list[Check]:
    """Known values, each beside what this machine makes of it."""
    import numpy as np

    from .. import MarkovPolicy, ObserverFilter, expected_return, gallery, max_return, opacity

    problem = gallery.load("two-rooms")
    uniform = MarkovPolicy.uniform(problem)
    best = MarkovPolicy([[0.25, 0.75], [0.25, 0.75]])
    observer = ObserverFilter(problem, uniform)
    observer.update("0")
    after_silence = observer.update("0")
    return [
        _check("float64 rounding", float(np.finfo(np.zeros(1).dtype).eps), 2.0**-52, 0.0),
        _check("bits hidden by the uniform policy", opacity(problem, uniform, "exact").bits, _UNIFORM_BITS, 1e-14),
        _check("bits hidden at return 0.75", opacity(problem, best, "exact").bits, _BEST_BITS, 1e-14),
        _check("return of the uniform policy", expected_return(problem, uniform), 0.5, 1e-15),
        _check("largest return", max_return(problem), 1.0, 1e-15),
        _check("posterior after silence", float(after_silence.min()), 0.2, 1e-15),
    ]


def _check(what: str, found: float, expected: float, tolerance: float) -> Check:
    return {"what": what, "found": found, "expected": expected, "passed": abs(found - expected) <= tolerance}
