"""The contest of ours with the baseline: beaten means more bits at no less return, and a loss is called one."""

import pytest
from reproduction.layouts import RECONSTRUCTION
from reproduction.sensitivity import contest, repeat
from reproduction.store import Settings, Times

import veil
from tests.seeds import looped

LIMITS = {"starts": 2, "iterations": 15}


@pytest.fixture
def rooms() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return=0.3)


@looped("limits", [LIMITS, {"starts": 1, "iterations": 0}])  # the second loses
def test_every_temperature_is_contested(rooms: veil.Problem, limits: dict[str, int]):
    found = contest(rooms, limits, seed=0)
    assert len(found["baseline"]) == 10
    assert found["ours"][0]["return"] >= 0.3
    for point, lead in zip(found["baseline"], found["beaten"], strict=True):
        equal = [one["bits"] for one in found["ours"] if one["return"] >= point["return"]]
        assert lead == pytest.approx(max(equal) - point["bits"])
    assert found["holds"] == found["tops"] == (min(found["beaten"]) > 0) == (limits is LIMITS)


@pytest.mark.slow
def test_both_conclusions_on_the_reconstruction():
    found = repeat(RECONSTRUCTION, Settings(quick=True), Times())
    for one in found.values():
        assert one["holds"]
        assert one["tops"]
