"""When to stop and what to tell meanwhile: time and iteration limits, interrupts, the progress line."""

import math
import shutil
import sys
import time as clock
from collections.abc import Callable
from dataclasses import dataclass


class Stopped(Exception):
    """Raised inside an evaluation when the time is up."""


@dataclass(frozen=True)
class Progress:
    """What a search can tell of itself at any moment."""

    phase: str
    iteration: int
    of: int
    opacity_bits: float
    expected_return: float
    multiplier: float
    seconds: float

    @property
    def values(self) -> str:
        """The numbers in words; a proof has no return of its own."""
        earned = "" if math.isnan(self.expected_return) else f"return {self.expected_return:.4g}  "
        return f"{self.opacity_bits:.4f} bits  {earned}λ {self.multiplier:.3g}"


class Watch:
    """The clock of one search.

    **Arguments:** `time_limit`: seconds from now, None for no limit; `iterations`: the most that are made, None for the
    method's own number; `progress`: True to draw a line on standard error once two seconds have passed, a function to be
    called instead, False for silence, None to draw where a person watches.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        iterations: int | None = None,
        progress: "bool | Callable[[Progress], None] | None" = None,
    ):
        self._begin = clock.monotonic()
        self._deadline = math.inf if time_limit is None else clock.monotonic() + time_limit
        self.iterations = iterations
        self._tell = progress if callable(progress) else None
        self._draw = progress is True or (progress is None and sys.stderr is not None and sys.stderr.isatty())
        self._drawn = False
        self._last = clock.monotonic()

    @property
    def seconds(self) -> float:
        """Since the search began, time before an interruption included."""
        return clock.monotonic() - self._begin

    def resume_after(self, seconds: float) -> None:
        """Count the seconds that the search took before it was interrupted."""
        self._begin -= seconds

    @property
    def time_left(self) -> float:
        """Seconds until the limit."""
        return self._deadline - clock.monotonic()

    def check(self) -> None:
        """Raise `Stopped` when the time is up."""
        if clock.monotonic() > self._deadline:
            raise Stopped

    def tell(self, news: Progress) -> None:
        """Pass on how far the search is; lines are drawn ten times a second at most."""
        if self._tell is not None:
            self._tell(news)
        now = clock.monotonic()
        if not self._draw or self.seconds < 2 or now - self._last < 0.1:
            return
        self._last, self._drawn = now, True
        share = min(1.0, news.iteration / max(1, news.of))
        bar = "█" * round(24 * share) + "░" * (24 - round(24 * share))
        line = f"{news.phase:>8} {bar} {100 * share:3.0f}%  {news.values}  {news.seconds:.0f} s"
        width = _width()
        sys.stderr.write(f"\r{line[:width]:<{width}}")
        sys.stderr.flush()

    def close(self) -> None:
        """Wipe the line."""
        if self._drawn:
            sys.stderr.write("\r" + " " * _width() + "\r")
            sys.stderr.flush()


def _width() -> int:
    """Of the line; one that wraps could not be drawn over."""
    return min(100, shutil.get_terminal_size((101, 24)).columns - 1)
