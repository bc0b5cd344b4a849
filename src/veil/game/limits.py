"""When a game has to end: a deadline and a caller who may ask, looked at between any two passes over the pairs."""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

TIME, ASKED, INTERRUPTED = "time limit", "asked to stop", "interrupted"
ENDED_FROM_OUTSIDE = (ASKED, INTERRUPTED)  # such an end of an inner game ends the outer one too


class OutOfTime(Exception):
    """Raised between two passes where the game has to end; its text says why."""


@dataclass(frozen=True)
class Limits:
    """The deadline of a game, by the monotonic clock, and a function that says whether to stop.

    A game within another one has a deadline of its own and the same function.
    """

    deadline: float = np.inf
    should_stop: Callable[[], bool] | None = None
    begin: float = field(default_factory=clock.monotonic)

    @staticmethod
    def of(time_limit: float, should_stop: Callable[[], bool] | None = None) -> "Limits":
        """So many seconds from now."""
        now = clock.monotonic()
        return Limits(now + time_limit, should_stop, now)

    @property
    def spent(self) -> float:
        """Seconds since these limits were set."""
        return clock.monotonic() - self.begin

    @property
    def left(self) -> float:
        """Seconds until the deadline, 0 after it."""
        return max(0.0, self.deadline - clock.monotonic())

    @property
    def reason(self) -> str | None:
        """Why to stop now; None to go on."""
        if self.should_stop is not None and self.should_stop():
            return ASKED
        return TIME if clock.monotonic() > self.deadline else None

    def check(self) -> None:
        """Raise `OutOfTime` where the game has to end."""
        reason = self.reason
        if reason is not None:
            raise OutOfTime(reason)

    def check_unless_over(self) -> None:
        """`check`, except where no time was given at all: what comes is then the least that is always made."""
        if self.deadline > self.begin:
            self.check()

    def share(self, part: float) -> "Limits":
        """The limits of a game within this one, which may take a part of the time that is left."""
        return Limits.of(part * self.left, self.should_stop)
