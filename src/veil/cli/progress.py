"""What a long command reports meanwhile: a line on a terminal, a heartbeat without one."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from .shared import note

if TYPE_CHECKING:
    from ..common.clock import Progress, ProgressOption

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
_PATIENT_SECONDS = 2.0  # of silence: a line that comes and goes at once tells nothing
_HEARTBEAT_SECONDS = 30.0  # a log of a night has a thousand lines; schedulers that end silent jobs wait for minutes


@contextlib.contextmanager
def reported(*, quiet: bool) -> "Iterator[ProgressOption]":
    """The value of `progress` for a search, by the flags and by whether standard error is a terminal."""
    if quiet:
        yield False
    elif sys.stderr is not None and sys.stderr.isatty():
        yield None
    else:
        with Log(_HEARTBEAT_SECONDS).beating(_HEARTBEAT_SECONDS) as log:
            yield log


@contextlib.contextmanager
def working(words: str, *, quiet: bool = False) -> Iterator[None]:
    """Say on a terminal what is done, and for how long, if it takes more than a moment."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    shown.add_task(words, total=None)
    later = threading.Timer(_PATIENT_SECONDS, shown.start)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        shown.stop()


class Log:
    """A function for `progress` that writes at most one line every few seconds."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic):
        self._every, self._now = seconds, now
        self._begin = self._last = now()
        self._news: Progress | None = None

    def __call__(self, news: "Progress") -> None:
        """Take in a report."""
        self._news = news
        if self._now() - self._last >= self._every:
            self.write()

    def write(self) -> None:
        """Write the newest report, with the seconds since the command began."""
        self._last = self._now()
        news = self._news
        told = "working" if news is None else f"{news.phase} {news.iteration:,} of {news.of:,}, {news.values}"
        note(f"veil: {self._last - self._begin:.0f} s, {told}")

    @contextlib.contextmanager
    def beating(self, seconds: float) -> "Iterator[Log]":
        """Also write a line after so many seconds in which no report came, until the block ends."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(seconds):
                if self._now() - self._last >= seconds:
                    self.write()

        thread = threading.Thread(target=beat, name="veil-heartbeat", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            done.set()
            thread.join()
