"""What tests need of Storm: skipped, with the way to install it, where stormpy is missing."""

from pathlib import Path
from typing import Any

import pytest


def stormpy() -> Any:
    """The package; the test is skipped where it is not installed."""
    return pytest.importorskip("stormpy", reason="this needs stormpy: pip install 'veil[prism]'")


def build(program: Path) -> Any:
    """The sparse model that Storm builds of a PRISM program, with all labels, rewards and valuations."""
    storm = stormpy()
    return storm.build_model(storm.parse_prism_program(str(program)), options=storm.BuilderOptions(build_full=True))


def value(model: Any, formula: str) -> float:
    """What Storm computes for a property at the first initial state."""
    storm = stormpy()
    found = storm.model_checking(model, storm.parse_properties(formula)[0], only_initial_states=True)
    return float(found.get_value(next(iter(model.initial_states))))
