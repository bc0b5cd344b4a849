"""The contest of ours with the baseline: beaten means more bits at no less return, and a loss is called one."""

from typing import Any

import pytest
from reproduction.layouts import RECONSTRUCTION
from reproduction.sensitivity import contest, draw, repeat
from reproduction.store import Settings, Times

import veil
from reproduction import sensitivity

LIMITS = {"starts": 2, "iterations": 15}


@pytest.fixture
def rooms() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return=0.3)


def test_every_temperature_is_contested(rooms: veil.Problem):
    found = contest(rooms, LIMITS, seed=0)
    assert len(found["baseline"]) == 10
    assert found["ours"][0]["return"] >= 0.3
    for point, lead in zip(found["baseline"], found["beaten"], strict=True):
        equal = [one["bits"] for one in found["ours"] if one["return"] >= point["return"]]
        assert lead == pytest.approx(max(equal) - point["bits"])
    assert found["holds"] == (min(found["beaten"]) > 0)


def test_a_loss_is_called_one(rooms: veil.Problem, monkeypatch: pytest.MonkeyPatch):
    def poor(problem: veil.Problem, min_return: float, *_: Any) -> dict[str, float]:
        return {"bits": 0.0, "return": min_return, "threshold": min_return}

    monkeypatch.setattr(sensitivity, "_ours", poor)
    found = contest(rooms, LIMITS, seed=0)
    assert not found["holds"]
    assert not found["tops"]
    assert max(found["beaten"]) <= 0


def test_a_return_that_none_of_ours_reaches(rooms: veil.Problem, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sensitivity, "_ours", lambda *_: {"bits": 1.0, "return": -1.0, "threshold": 0.3})
    found = contest(rooms, LIMITS, seed=0)
    assert found["beaten"] == [None] * 10
    assert not found["holds"]


def test_layouts_of_a_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sensitivity, "QUICK_LAYOUTS", 1)
    found = draw(Settings(quick=True), Times())
    assert len(found["layouts"]) == 1
    assert found["drawn"] >= 1


@pytest.mark.slow
def test_both_conclusions_on_the_reconstruction():
    found = repeat(RECONSTRUCTION, Settings(quick=True), Times())
    for one in found.values():
        assert one["holds"]
        assert one["tops"]
