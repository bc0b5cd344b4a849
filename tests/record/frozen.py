"""The frozen file: one line for each case, so that a change of a case is a change of a line."""

import json
from pathlib import Path
from typing import Any

from .environment import environment
from .registry import CASES
from .values import differences

FILE = Path(__file__).with_name("frozen.json")


def read() -> dict[str, Any]:
    """The environment that the record was made in, and the frozen cases."""
    return json.loads(FILE.read_text())


def write(cases: dict[str, Any]) -> None:
    """Write the cases, in the order of the registry, with the present environment."""
    lines = [f"{json.dumps(name)}: {json.dumps(cases[name], separators=(',', ':'))}" for name in CASES if name in cases]
    head = json.dumps(environment(), indent=1)
    FILE.write_text(f'{{"environment": {head},\n"cases": {{\n' + ",\n".join(lines) + "\n}}\n")


def unlike(frozen: dict[str, Any], name: str, found: Any) -> list[tuple[str, Any, Any]]:
    """Where a result differs from the frozen one: bit for bit in the same environment, else by more than its tolerance."""
    if name not in frozen["cases"]:
        return [("", "absent", "present")]
    tolerance = None if frozen["environment"] == environment() else CASES[name].tolerance
    return list(differences(frozen["cases"][name], found, tolerance))
