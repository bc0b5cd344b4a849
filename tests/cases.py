"""Tables of cases in one test: every case is tried, and all that fail are reported together."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def each(cases: Mapping[str, Case], check: Callable[[Case], object]) -> None:
    """Call `check` with each case; fail once, with the name and the error of each case that failed."""
    assert cases
    failed = []
    for name, case in cases.items():
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")
    assert not failed, f"{len(failed)} of {len(cases)} cases failed\n" + "\n".join(failed)
