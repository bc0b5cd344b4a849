"""The named cases: each a function without arguments that returns numbers, arrays, bytes, lists and mappings of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

from .values import freeze

EXACT_TOLERANCE, SEARCH_TOLERANCE = 1e-9, 1e-6


@dataclass(frozen=True)
class Case:
    """A computation to repeat; `tolerance` is what numbers may differ by in another environment."""

    compute: Callable[[], Any]
    tolerance: float

    def run(self) -> Any:
        """The frozen form of the result, with one BLAS thread: how sums are split up among threads changes their bits."""
        with threadpool_limits(1):
            return freeze(self.compute())


CASES: dict[str, Case] = {}


def case(
    name: str, *arguments: Any, search: bool = False, **named: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under a name, called with the given arguments; a search may differ more elsewhere."""

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        if name in CASES:
            raise ValueError(f"there are two cases {name!r}")
        tolerance = SEARCH_TOLERANCE if search else EXACT_TOLERANCE
        CASES[name] = Case(partial(compute, *arguments, **named), tolerance)
        return compute

    return register
