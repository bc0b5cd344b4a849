"""Seeds of a repeated check: the first few in every run, all of them in `make test-all`."""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


def looped(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but all values are one case; a failure says which of them it was."""
    listed = (names,) if isinstance(names, str) else names

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**others: Any) -> None:
            for value in values:
                given = (value,) if isinstance(names, str) else value
                with noted(f"{', '.join(listed)}: {value!r}"):
                    test(**dict(zip(listed, given, strict=True)), **others)

        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in listed]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


@contextmanager
def noted(note: str) -> Iterator[None]:
    """Add a note to whatever is raised inside."""
    try:
        yield
    except BaseException as error:
        error.add_note(note)
        raise


def in_blocks(quick: int, total: int, size: int = 20) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a test of one `seed` into one case for each block of them; a failure says which seed it was."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(block: range, **others: Any) -> None:
            for seed in block:
                with noted(f"seed {seed}"):
                    test(seed=seed, **others)

        given = inspect.signature(test)
        renamed = [one.replace(name="block") if name == "seed" else one for name, one in given.parameters.items()]
        run.__signature__ = given.replace(parameters=renamed)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("block", blocks(quick, total, size))(run)

    return decorate
