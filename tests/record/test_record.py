"""Every case gives what was frozen; see the docstring of this package for how to change a value on purpose."""

from functools import cache
from typing import Any

import pytest

from .cases import CASES
from .frozen import read, unlike
from .values import shown

_MOST_SHOWN = 10


@cache
def frozen() -> dict[str, Any]:
    return read()


@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_what_was_frozen(name: str):
    places = unlike(frozen(), name, CASES[name].run())
    told = [f"{name}, {place}: frozen {shown(old)}, found {shown(new)}" for place, old, new in places[:_MOST_SHOWN]]
    assert not places, "\n".join([f"{len(places)} places of the case {name!r} differ", *told])


def test_no_frozen_case_is_forgotten():
    assert set(frozen()["cases"]) == set(CASES)
