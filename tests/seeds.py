"""Seeds of a repeated check: the first few in every run, all of them in `make test-all`."""

from typing import Any

import pytest


def seeds(quick: int, total: int) -> list[Any]:
    """`range(total)`, one case for each seed, of which those from `quick` on are marked slow."""
    return [*range(quick), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(quick, total))]


def blocks(quick: int, total: int, size: int = 20) -> list[Any]:
    """`range(total)` in blocks of `size`, one case for each block, of which those from `quick` on are marked slow.

    A test runs `for seed in block` and puts the seed into the message of its assertion.
    """
    return [
        pytest.param(range(begin, min(begin + size, end)), marks=marks, id=f"{begin}-{min(begin + size, end) - 1}")
        for first, end, marks in ((0, quick, ()), (quick, total, pytest.mark.slow))
        for begin in range(first, end, size)
    ]
