"""Seeds of a repeated check: the first few in every run, all of them in `make test-all`."""

from typing import Any

import pytest


def seeds(quick: int, total: int) -> list[Any]:
    """`range(total)`, of which those from `quick` on are marked slow."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, total))]
