"""Storm for tests; they are skipped, and say so, on platforms for which stormpy has no wheels."""

from pathlib import Path
from typing import Any

import pytest


def stormpy() -> Any:
    """The package; the test is skipped where it is not installed."""
    return pytest.importorskip("stormpy", reason="stormpy is not installed: pip install 'veil[prism]'")


def build(program: Path) -> Any:
    """The sparse model that Storm builds of a PRISM program, with all labels, rewards and valuations."""
    storm = stormpy()
    return storm.build_model(storm.parse_prism_program(str(program)), options=storm.BuilderOptions(build_full=True))


def value(model: Any, formula: str) -> float:
    """What Storm computes for a property at the first initial state."""
    storm = stormpy()
    found = storm.model_checking(model, storm.parse_properties(formula)[0], only_initial_states=True)
    return float(found.get_value(next(iter(model.initial_states))))
