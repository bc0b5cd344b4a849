"""Waiting for runs, and finding the processes that are left."""

import time
from collections.abc import Callable
from pathlib import Path

from veil.studio.runs import Run

# A search that never ends by itself: steps too small to arrive anywhere.
ENDLESS = {"method": "primal-dual", "iterations": 10**9, "step": 1e-6}
SECONDS = 150.0  # far more than anything here takes; a busy machine is no failure


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS:.0f} s for: {what}"
        time.sleep(0.02)


def ended(run: Run) -> Run:
    """Wait until a run has no process."""
    until(lambda: run.process is None, f"run {run.id} to end, which is {run.state}")
    return run


def searching(run: Run) -> Run:
    """Wait until a run reports numbers."""
    until(lambda: run.record.latest or run.process is None, f"run {run.id} to search, which is {run.state}")
    assert run.process is not None, run.summary()
    return run


def processes_of(folder: Path) -> list[int]:
    """The processes whose command names a folder."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                command = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in command:
                found.append(int(place.name))
    return found
