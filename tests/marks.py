"""Marks of tests: which combinations of parameters are left to the long run."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def chequered(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """All pairs, every second one marked slow, so that each value of both stays in the quick tests."""
    others: Sequence[Any] = list(second)
    return [
        pytest.param(one, other, marks=pytest.mark.slow if (row + column) % 2 else ())
        for row, one in enumerate(first)
        for column, other in enumerate(others)
    ]
