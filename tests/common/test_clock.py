"""Limits of time, and what is told of a search: to a function, on a line, or not at all."""

import sys
from types import SimpleNamespace

import pytest

from veil.common import clock as watch_module
from veil.common.clock import Progress, Stopped, Watch


def news(iteration: int = 5) -> Progress:
    return Progress("climbing", iteration, 10, 0.25, 0.5, 1.5, 3.0)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(watch_module, "clock", found)
    return found


def test_it_stops_when_the_time_is_up(clock: Clock):
    watch = Watch(time_limit=2.0)
    clock.now += 1.9
    watch.check()
    assert watch.time_left == pytest.approx(0.1)
    clock.now += 0.2
    with pytest.raises(Stopped):
        watch.check()


def test_without_a_limit_it_never_stops(clock: Clock):
    watch = Watch()
    clock.now += 1e9
    watch.check()
    assert watch.seconds == 1e9


def test_seconds_before_an_interruption_count_but_not_against_the_limit(clock: Clock):
    watch = Watch(time_limit=5.0)
    watch.resume_after(100.0)
    clock.now += 1.0
    assert watch.seconds == 101.0
    assert watch.time_left == 4.0


def test_a_function_is_told_everything_and_nothing_is_drawn(clock: Clock, capsys):
    told: list[Progress] = []
    watch = Watch(progress=told.append)
    clock.now += 10
    watch.tell(news(1))
    watch.tell(news(2))
    watch.close()
    assert [one.iteration for one in told] == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_a_line_is_drawn_after_two_seconds_ten_times_a_second_and_wiped(clock: Clock, capsys):
    watch = Watch(progress=True)
    clock.now += 1.9
    watch.tell(news())
    assert capsys.readouterr().err == ""
    clock.now += 0.2
    watch.tell(news())
    line = capsys.readouterr().err
    assert line.startswith("\r")
    assert "\n" not in line
    for part in ("climbing", " 50%", "0.2500 bits", "return 0.5", "λ 1.5"):
        assert part in line
    clock.now += 0.05
    watch.tell(news())
    assert capsys.readouterr().err == ""
    clock.now += 0.06
    watch.tell(news(10))
    assert "100%" in capsys.readouterr().err
    watch.close()
    assert capsys.readouterr().err.strip(" \r") == ""


def test_a_line_fits_a_narrow_terminal(clock: Clock, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    watch = Watch(progress=True)
    clock.now += 3
    watch.tell(news())
    assert len(capsys.readouterr().err) == 40


@pytest.mark.parametrize("progress", [None, False])
def test_silence_where_nobody_watches(clock: Clock, capsys, progress: bool | None):
    watch = Watch(progress=progress)
    clock.now += 10
    watch.tell(news())
    watch.close()
    assert capsys.readouterr() == ("", "")


def test_a_line_is_drawn_on_a_terminal(clock: Clock, monkeypatch):
    written: list[str] = []
    terminal = SimpleNamespace(isatty=lambda: True, write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", terminal)
    watch = Watch()
    clock.now += 3
    watch.tell(news())
    assert "climbing" in "".join(written)


def test_no_standard_error_at_all(clock: Clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    watch = Watch()
    clock.now += 3
    watch.tell(news())
    watch.close()
