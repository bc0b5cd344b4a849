"""Refuses a step of some work that would end after the deadline, forecast from the step before it."""

import contextlib
from collections.abc import Iterator
from typing import Protocol

_MEASURABLE_SECONDS = 0.01  # of a step, from which its pace is known


class Watch(Protocol):
    """What loops need of a clock."""

    @property
    def spent(self) -> float:
        """Seconds since it was started."""
        ...

    def check(self, ahead: float = 0.0) -> None:
        """Raise `OutOfTime` where the work has to end now, or would pass the deadline with `ahead` more seconds of it."""
        ...


class Pace:
    """The pace of some work.

    **Arguments:** `clock`, None for work without a limit; `seconds`: a forecast for one unit of work, until a step was long
    enough to be measured.
    """

    def __init__(self, clock: Watch | None, seconds: float):
        self.clock, self.seconds = clock, seconds

    @contextlib.contextmanager
    def step(self, units: float) -> Iterator[None]:
        """A step of so many units of work. **Raises:** `OutOfTime`, before the step."""
        if self.clock is None:
            yield
            return
        self.clock.check(ahead=self.seconds * units)
        begin = self.clock.spent
        yield
        spent = self.clock.spent - begin
        if spent > _MEASURABLE_SECONDS and units > 0:
            self.seconds = spent / units
