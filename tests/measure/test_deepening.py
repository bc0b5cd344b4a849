"""When windows are merged, pruned or given up, with windows whose bounds, forecasts and times are given."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from veil.common.clock import Clock, OutOfTime, Stop
from veil.measure import bracket
from veil.measure.bracket import Bounds, deepen


class Script:
    """Windows of one chain: for each its forecast, the seconds it takes, and its bounds; `log` says what was done."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        windows: Sequence[tuple[float | None, float, float, float]],
        *,
        limit: float = 1000.0,
        merged: Sequence[Bounds] = (),
        horizon: int = 9,
        whole: int | None = None,
        states: int = 3,
    ):
        self.now, self.log, self.windows = 0.0, list[Any](), windows
        self.whole = horizon + 1 if whole is None else whole
        self.spread = list[bool]()
        self.budget: Any = SimpleNamespace(clock=Clock(limit, now=lambda: self.now))
        hidden = SimpleNamespace(horizon=horizon, num_states=states)
        self.chain: Any = SimpleNamespace(hidden=hidden, prior=np.array([0.5, 0.5]))
        monkeypatch.setattr(bracket._Pair, "around", self._around)
        monkeypatch.setattr(bracket, "_merged", lambda *_: self._logged("merged", merged))
        pruned = [Bounds(0.0, 0.01, 7, 0, pruned_below=1e-6)]
        monkeypatch.setattr(bracket, "_pruned", lambda *_: self._logged("pruned", pruned))

    def _logged(self, word: str, bounds: Sequence[Bounds]) -> Sequence[Bounds]:
        self.log.append(word)
        return bounds

    def _around(self, chain: Any, radius: int, clock: Clock) -> Any:
        forecast, takes, lower, upper = self.windows[radius]

        def evaluate(budget: Any, *, spread: bool) -> tuple[float, float, float, int]:
            self.log.append(radius)
            self.spread.append(spread)
            self.now += takes
            return lower, upper, 0.0, 10 + radius

        window = SimpleNamespace(is_whole=lambda chain: radius >= self.whole)
        return SimpleNamespace(seconds=forecast, evaluate=evaluate, window=window)

    def run(self, width: float = 1e-3, worth: float | None = None) -> list[Bounds]:
        return list(deepen(self.chain, self.budget, width=width, worth_seconds=worth))


QUICK = (0.001, 0.0, 0.25, 0.75)


def test_every_radius_is_taken_until_the_window_is_whole(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [QUICK] * 5, horizon=3)
    found = script.run()
    assert script.log == [0, 1, 2, 3, 4]
    assert found[0] == Bounds(0.0, 1.0 + 1e-12, 0, 0, walked=0)
    assert [(one.radius, one.num_sequences) for one in found[1:]] == [(radius, 10 + radius) for radius in range(5)]
    script = Script(monkeypatch, [QUICK] * 5, horizon=3, whole=2)
    script.run()
    assert script.log == [0, 1, 2]


def test_windows_end_at_the_width(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [QUICK, (0.001, 0.0, 0.5, 0.75), QUICK])
    assert script.run(width=0.25)[-1].width == 0.25
    assert script.log == [0, 1]


def test_histories_are_merged_where_enumerating_takes_a_fiftieth_of_the_time(monkeypatch: pytest.MonkeyPatch):
    """And the window is enumerated all the same where merging gave nothing."""
    close = Bounds(0.4, 0.5, 3, 0, merged=1e-6)
    windows = [QUICK, (19.0, 1.0, 0.25, 0.75), (21.0, 1.0, 0.25, 0.75), QUICK]
    script = Script(monkeypatch, windows, merged=[close])
    assert script.run()[-1] is close
    assert script.log == [0, 1, "merged"]
    script = Script(monkeypatch, windows, horizon=2)
    script.run()
    assert script.log == [0, 1, "merged", 2, 3]
    script = Script(monkeypatch, [(0.019, 0.0, 0.25, 0.75), (0.021, 0.0, 0.25, 0.75)], limit=0.5, merged=[close])
    script.run()
    assert script.log == [0, "merged"]  # what takes a fiftieth of a second is enumerated


def test_a_window_that_does_not_fit_the_time_is_pruned(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [QUICK, (1900.0, 1.0, 0.25, 0.75), (2100.0, 1.0, 0.25, 0.75)])
    found = script.run()  # half of a forecast, before any window has told more
    assert script.log == [0, "merged", 1, "merged", "pruned"]
    assert found[-1].pruned_below == 1e-6


def test_what_windows_took_corrects_the_forecast_of_the_next(monkeypatch: pytest.MonkeyPatch):
    """One that took three times its forecast: the next, forecast at 400 s, would take 1200."""
    script = Script(monkeypatch, [(10.0, 30.0, 0.25, 0.75), (300.0, 0.0, 0.25, 0.75), QUICK], horizon=1)
    script.run(width=0.0)
    assert script.log[:3] == [0, "merged", 1]
    script = Script(monkeypatch, [(10.0, 30.0, 0.25, 0.75), (400.0, 0.0, 0.25, 0.75), QUICK], horizon=1)
    script.run(width=0.0)
    assert script.log == [0, "merged", "pruned"]
    script = Script(monkeypatch, [(0.01, 30.0, 0.25, 0.75), (400.0, 0.0, 0.25, 0.75), QUICK], horizon=1)
    script.run(width=0.0)  # what took no time by forecast tells nothing
    assert script.log == [0, "merged", 1, 2]


def test_two_workers_are_worth_it_where_a_window_takes_seconds(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [(3.9, 3.9, 0.25, 0.75), (1.9, 1.9, 0.25, 0.75), (2.1, 2.1, 0.25, 0.75)], horizon=1)
    script.run()
    assert script.spread == [False, False, True]


def test_the_time_ends_it_wherever_it_ends(monkeypatch: pytest.MonkeyPatch):
    def late(*_: Any) -> Any:
        raise OutOfTime(Stop.TIME_LIMIT)

    script = Script(monkeypatch, [QUICK] * 5)
    monkeypatch.setattr(bracket._Pair, "around", late)
    assert len(script.run()) == 1


# What is worth it.


def halving(seconds: float, count: int = 11) -> list[tuple[float | None, float, float, float]]:
    """Windows each of which halves the width, and takes as long as those before it together."""
    return [(None, seconds * 2**n, 0.0, 2.0**-n) for n in range(count)]


def test_an_uncounted_window_is_forecast_by_those_before_it(monkeypatch: pytest.MonkeyPatch):
    """After 1, 2, 4, 8 s the next takes 16: more than a fiftieth of the time, so that histories are merged."""
    script = Script(monkeypatch, halving(1.0), limit=500.0)
    script.run(width=1e-6)
    assert script.log[:6] == [0, 1, 2, 3, "merged", 4]  # 16 s are more than 10
    script = Script(monkeypatch, halving(1.0), limit=1e5)
    script.run(width=1e-6)
    assert "merged" not in script.log


def test_windows_end_where_the_width_is_out_of_reach(monkeypatch: pytest.MonkeyPatch):
    """Each takes twice the one before, and a thousandth takes ten: 1024 s, more than another way would take."""
    for worth, log in ((2000.0, list(range(11))), (500.0, [0, 1, 2]), (None, list(range(11)))):
        script = Script(monkeypatch, halving(1.0), limit=1e5)
        monkeypatch.setattr(bracket, "_TRIAL_SHARE", 0.0)
        script.run(width=2.0**-10, worth=worth)
        assert script.log == log


def test_windows_are_tried_for_a_twentieth_of_the_time_in_any_case(monkeypatch: pytest.MonkeyPatch):
    """Of 1000 s, that is 50: after 1, 2, 4, 8, 16, 32 s it is over."""
    script = Script(monkeypatch, halving(1.0), limit=1000.0)
    script.run(width=2.0**-10, worth=10.0)
    assert [one for one in script.log if one != "merged"] == [0, 1, 2, 3, 4, 5]


def test_nothing_is_merged_or_pruned_for_a_width_out_of_reach(monkeypatch: pytest.MonkeyPatch):
    """Where the outlook passes what is left of the time, and another way is known."""
    windows = [*halving(1.0, 5), (5000.0, 1.0, 0.0, 0.01)]
    script = Script(monkeypatch, windows, limit=400.0)
    script.run(width=2.0**-10, worth=math.inf)
    assert "pruned" not in script.log
    assert "merged" not in script.log
    script = Script(monkeypatch, windows, limit=400.0)
    script.run(width=2.0**-10)
    assert script.log[-1] == "pruned"
    assert "merged" in script.log
