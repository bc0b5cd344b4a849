"""One clock for everything that can take a second: deadline, stop request, iteration limit, progress line."""

import contextlib
import copy
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from .errors import TooLargeError
from .pace import Pace as Pace

# A progress line appears after this many seconds, and is redrawn no more often than every `_REDRAW_SECONDS`.
_PATIENT_SECONDS, _REDRAW_SECONDS = 2.0, 0.1
_BAR_WIDTH, _LINE_WIDTH = 24, 100
_EXPIRED = 1e-9  # seconds of a limit that is used up: a call with it says so


class Stop(StrEnum):
    """Why work has to end before it is done; the values are the words that results report."""

    TIME_LIMIT = "time limit"
    REQUESTED = "stop requested"
    INTERRUPTED = "interrupted"


ENDED_BY_CALLER = (Stop.REQUESTED, Stop.INTERRUPTED)
"""Reasons of an inner search that end the outer one too."""


class OutOfTime(Exception):
    """Raised by `Clock.check` where work has to end; `reason` says why.

    It never leaves the package: the caller that catches it returns the best result so far, or raises `TooLargeError`.
    """

    def __init__(self, reason: Stop):
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Progress:
    """How far a search is: iteration `iteration` of at most `of`, and the values of its best policy so far.

    `expected_return` and `multiplier` are NaN where the search reports none, `upper_bits` where it has no upper bound over all
    policies.
    """

    phase: str
    iteration: int
    of: int
    opacity_bits: float
    expected_return: float
    multiplier: float
    seconds: float
    upper_bits: float = math.nan

    @property
    def values(self) -> str:
        """The numbers in words."""
        bound = "" if math.isnan(self.upper_bits) else f" ≤ {self.upper_bits:.4f}"
        earned = "" if math.isnan(self.expected_return) else f"return {self.expected_return:.4g}  "
        price = "" if math.isnan(self.multiplier) else f"multiplier {self.multiplier:.3g}"
        return f"{self.opacity_bits:.4f}{bound} bits  {earned}{price}".rstrip()


ProgressOption = bool | Callable[[Progress], None] | None


class Clock:
    """How long some work may take, and what is reported meanwhile.

    Inner loops call `check()`, which raises `OutOfTime`; inner searches get a part of the time by `share`. As a context
    manager a clock erases its progress line at the end.

    **Arguments:** `time_limit`: seconds from now, `math.inf` or None for no limit; with 0 or less the deadline has already
    passed. `iterations`: the most that the search makes, None for its own number. `stop`: a function that returns True
    once the caller wants the work to end. `progress`: True draws a line on standard error after two seconds, a function is
    called with each `Progress` instead, False does neither, None draws where standard error is a terminal. `now`: the time
    source, in seconds.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        *,
        iterations: int | None = None,
        stop: Callable[[], bool] | None = None,
        progress: ProgressOption = False,
        now: Callable[[], float] = time.monotonic,
    ):
        self.time_limit = math.inf if time_limit is None else time_limit
        assert not math.isnan(self.time_limit)
        self.iterations = iterations
        self._stop, self._now = stop, now
        self._begin = now()
        self._deadline = self._begin + self.time_limit
        self._report = progress if callable(progress) else None
        self._draws = progress is True or (progress is None and sys.stderr is not None and sys.stderr.isatty())
        self._drawn: float | None = None
        self._late: list[bool] = []  # one list for a clock and its parts

    @property
    def spent(self) -> float:
        """Seconds since the clock was started, those before `resume_after` included."""
        return self._now() - self._begin

    @property
    def left(self) -> float:
        """Seconds until the deadline, 0 after it."""
        return max(0.0, self._deadline - self._now())

    @property
    def rest(self) -> float | None:
        """The seconds left as the limit of another call: none without a deadline, and never 0."""
        return None if math.isinf(self.time_limit) else max(self.left, _EXPIRED)

    @property
    def reason(self) -> Stop | None:
        """Why to end now; None to continue."""
        if self._stop is not None and self._stop():
            return Stop.REQUESTED
        return self.note_late() if self._now() >= self._deadline else None

    def note_late(self) -> Stop:
        """Note that a limit of time ended some work."""
        self._late.append(True)
        return Stop.TIME_LIMIT

    @property
    def was_late(self) -> bool:
        """Whether the time of this clock or of a part of it has ended some work."""
        return bool(self._late)

    def is_past(self, part: float) -> bool:
        """Whether more than a part of the time limit is spent, so that some work must end."""
        return self.left < (1 - part) * self.time_limit and self.note_late() is Stop.TIME_LIMIT

    def check(self, ahead: float = 0.0) -> None:
        """Raise `OutOfTime` where the work has to end now, or would pass the deadline with `ahead` more seconds of it."""
        reason = self.reason
        if reason is None and ahead and ahead > self.left:
            reason = self.note_late()
        if reason is not None:
            raise OutOfTime(reason)

    def allows(self, iteration: int) -> bool:
        """Whether the search may go beyond an iteration."""
        return self.iterations is None or iteration < self.iterations

    def resume_after(self, seconds: float) -> None:
        """Count the seconds that the search took before it was interrupted; the deadline does not move."""
        self._begin -= seconds

    def share(self, part: float = 1.0, *, more: float = 0.0) -> "Clock":
        """A clock for inner work: a part of the time that is left and `more` seconds; stop and progress are this clock's."""
        assert part > 0
        return self._part(part * self.left + more)

    def within(self, seconds: float) -> "Clock":
        """A clock for inner work that may take so many seconds, and no more than are left."""
        return self._part(min(seconds, self.left))

    def _part(self, seconds: float) -> "Clock":
        clock = Clock(seconds, stop=self._stop, progress=self.report, now=self._now)
        clock._late = self._late
        return clock

    def earlier(self, seconds: float) -> "Clock":
        """This clock with a deadline so many seconds earlier, for work after which something is left to do."""
        clock = copy.copy(self)
        clock._deadline -= seconds
        return clock

    def silent(self) -> "Clock":
        """This clock without progress reports."""
        clock = copy.copy(self)
        clock._report, clock._draws = None, False
        return clock

    def report(self, news: Progress) -> None:
        """Pass on how far the search is."""
        if self._report is not None:
            self._report(news)
        now = self._now()
        recent = self._drawn is not None and now - self._drawn < _REDRAW_SECONDS
        if not self._draws or recent or self.spent < _PATIENT_SECONDS:
            return
        self._drawn = now
        share = min(1.0, news.iteration / max(1, news.of))
        full = round(_BAR_WIDTH * share)
        bar = "█" * full + "░" * (_BAR_WIDTH - full)
        line = f"{news.phase:>8} {bar} {100 * share:3.0f}%  {news.values}  {news.seconds:.0f} s"
        width = _line_width()
        sys.stderr.write(f"\r{line[:width]:<{width}}")
        sys.stderr.flush()

    def __enter__(self) -> "Clock":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn is not None:
            sys.stderr.write("\r" + " " * _line_width() + "\r")
            sys.stderr.flush()


UNLIMITED = Clock()
"""The clock of work without limits."""


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn a keyboard interrupt into `OutOfTime`, for searches that return their best result so far."""
    try:
        yield
    except KeyboardInterrupt:
        raise OutOfTime(Stop.INTERRUPTED) from None


@contextlib.contextmanager
def too_large_if_late(message: str) -> Iterator[None]:
    """Turn `OutOfTime` into `TooLargeError(message)`, for work that has no result until it is done."""
    try:
        yield
    except OutOfTime:
        raise TooLargeError(message) from None


def _line_width() -> int:
    """Columns of the progress line: one that wraps could not be drawn over."""
    return min(_LINE_WIDTH, shutil.get_terminal_size((_LINE_WIDTH + 1, 24)).columns - 1)
