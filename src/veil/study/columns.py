"""The columns that a result gives to the table of a study and to a run of the studio, and where each stands in its document."""

from collections.abc import Sequence
from typing import Any

COLUMNS: dict[str, tuple[str, ...]] = {
    "status": ("answer", "status"),
    "bits": ("answer", "opacity", "bits"),
    "lower_bits": ("answer", "opacity", "lower"),
    "upper_bits": ("answer", "opacity", "upper"),
    "prior_bits": ("answer", "opacity", "prior_bits"),
    "leakage_bits": ("answer", "opacity", "leakage_bits"),
    "std_error": ("answer", "opacity", "std_error"),
    "measured": ("answer", "opacity", "method"),
    "expected_return": ("answer", "expected_return"),
    "threshold": ("answer", "threshold"),
    "feasible": ("answer", "feasible"),
    "price_bits": ("answer", "price_bits"),
    "proven_lower": ("certificate", "lower"),
    "proven_upper": ("certificate", "upper"),
    "gap": ("certificate", "gap"),
    "iterations": ("answer", "iterations"),
    "seconds": ("answer", "seconds"),
    "method": ("answer", "method"),
    "policy_class": ("answer", "policy_class"),
    "states": ("problem", "states"),
    "horizon": ("problem", "horizon"),
    "fingerprint": ("problem", "fingerprint"),
    "veil": ("veil",),
}

SHOWN = ("status", "bits", "expected_return", "proven_upper", "seconds")
"""The columns that people are shown beside the factors."""


def column_values(document: Any) -> dict[str, Any]:
    """The value of each column in the document of a result, None if it is not known."""
    return {name: _entry(document, place) for name, place in COLUMNS.items()}


def _entry(document: Any, place: Sequence[str]) -> Any:
    for part in place:
        document = document.get(part) if isinstance(document, dict) else None
    return document if isinstance(document, (bool, int, float, str)) else None
