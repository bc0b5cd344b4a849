"""Time limits, stop requests and interrupts, and what is reported of a search: to a function, on a line, or not at all."""

import math

import pytest

import veil
from tests.seeds import looped
from veil.common.clock import Clock, OutOfTime, Progress, Stop, interruptible, too_large_if_late


def news(iteration: int = 5) -> Progress:
    return Progress("climbing", iteration, 10, 0.25, 0.5, 1.5, 3.0)


class Time:
    """A time source that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


# Deadlines.


def test_it_stops_at_the_deadline(time: Time):
    clock = Clock(2.0, now=time)
    time.now += 1.75
    clock.check()
    assert (clock.spent, clock.left) == (1.75, 0.25)
    time.now += 0.25
    with pytest.raises(OutOfTime) as end:
        clock.check()
    assert end.value.reason is clock.reason is Stop.TIME_LIMIT
    time.now += 5
    assert clock.left == 0.0


@looped("limit", [None, math.inf])
def test_without_a_limit_it_never_stops(time: Time, limit: float | None):
    clock = Clock(limit, now=time)
    time.now += 1e9
    clock.check(ahead=1e300)
    assert (clock.spent, clock.left) == (1e9, math.inf)


@looped("limit", [0.0, -1.0])
def test_a_deadline_that_has_already_passed(time: Time, limit: float):
    clock = Clock(limit, now=time)
    assert clock.left == 0.0
    with pytest.raises(OutOfTime):
        clock.check()
    with pytest.raises(OutOfTime):
        clock.share(0.5).check()


def test_work_that_would_pass_the_deadline_is_not_begun(time: Time):
    clock = Clock(10.0, now=time)
    clock.check(ahead=10.0)
    with pytest.raises(OutOfTime):
        clock.check(ahead=10.5)


def test_seconds_before_an_interruption_count_but_not_against_the_limit(time: Time):
    clock = Clock(5.0, now=time)
    clock.resume_after(100.0)
    time.now += 1.0
    assert (clock.spent, clock.left) == (101.0, 4.0)


def test_a_share_is_a_part_of_what_is_left(time: Time):
    whole = Clock(10.0, now=time)
    time.now += 2.0
    part = whole.share(0.25, more=1.0)
    assert (part.time_limit, part.left, part.spent) == (3.0, 3.0, 0.0)
    assert Clock(now=time).share(0.1).left == math.inf


# Stop requests, interrupts, iterations.


def test_a_stop_request_reaches_every_share(time: Time):
    asked = False
    clock = Clock(10.0, stop=lambda: asked, now=time)
    inner = clock.share(0.5).share(0.5)
    inner.check()
    asked = True
    for one in (clock, inner, clock.silent()):
        with pytest.raises(OutOfTime) as end:
            one.check()
        assert end.value.reason is Stop.REQUESTED
    time.now += 100
    assert clock.reason is Stop.REQUESTED


def test_an_interrupt_becomes_the_same_exception():
    with pytest.raises(OutOfTime, match="interrupted") as end, interruptible():
        raise KeyboardInterrupt
    assert end.value.reason is Stop.INTERRUPTED


def test_work_without_a_partial_result_is_too_large():
    with pytest.raises(veil.TooLargeError, match="the tree"), too_large_if_late("the tree"):
        Clock(0.0).check()


def test_iterations():
    assert Clock().allows(10**9)
    assert [Clock(iterations=2).allows(iteration) for iteration in (0, 1, 2)] == [True, True, False]
    assert Clock(iterations=2).share().iterations is None
    assert Clock(iterations=3).silent().iterations == 3


# Progress.


def test_a_function_is_told_everything_and_nothing_is_drawn(time: Time, capsys):
    told: list[Progress] = []
    with Clock(progress=told.append, now=time) as clock:
        time.now += 10
        clock.report(news(1))
        clock.report(news(2))
        clock.silent().report(news(3))
        clock.share().silent().report(news(4))
        clock.share(0.5).share(0.5).report(news(5))
    assert [one.iteration for one in told] == [1, 2, 5]
    assert capsys.readouterr() == ("", "")


def test_a_line_is_drawn_after_two_seconds_ten_times_a_second_and_erased(time: Time, capsys):
    with Clock(progress=True, now=time) as clock:
        time.now += 1.9
        clock.report(news())
        assert capsys.readouterr().err == ""
        time.now += 0.2
        clock.report(news())
        line = capsys.readouterr().err
        assert line.startswith("\r")
        assert "\n" not in line
        for part in ("climbing", " 50%", "0.2500 bits", "return 0.5", "multiplier 1.5"):
            assert part in line
        time.now += 0.05
        clock.report(news())
        assert capsys.readouterr().err == ""
        time.now += 0.06
        clock.report(news(10))
        assert "100%" in capsys.readouterr().err
    assert capsys.readouterr().err.strip(" \r") == ""


@looped("progress", [None, False])
def test_nothing_is_drawn_without_a_terminal(time: Time, capsys, progress: bool | None):
    with Clock(progress=progress, now=time) as clock:
        time.now += 10
        clock.report(news())
    assert capsys.readouterr() == ("", "")
