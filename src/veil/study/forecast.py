"""How long a study takes: from the pace so far, and before it begins from earlier runs and time limits."""

import time
from collections.abc import Sequence

from .definition import Run
from .folder import StudyFolder


class Forecast:
    """The pace of a study that is under way."""

    def __init__(self) -> None:
        self._begin, self._ended = time.monotonic(), 0

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._begin

    def note_end(self) -> None:
        """Count a run that ended."""
        self._ended += 1

    def seconds_left(self, left: int) -> float | None:
        """Seconds for what is left at the pace so far; None before the first run ended."""
        return round(self.spent / self._ended * left, 1) if self._ended else None


def forecast_seconds(runs: Sequence[Run], done: Sequence[Run], kept: StudyFolder) -> tuple[float | None, str]:
    """Seconds of processor time for runs that are to do, and what this is taken from; None where nothing is known.

    The mean of finished runs of the same scenario, of all finished ones, else the time limit of the runs.
    """
    from .table import seconds_of

    by_scenario: dict[str, list[float]] = {}
    for run in done:
        found = seconds_of(kept, run.key)
        if found is not None:
            by_scenario.setdefault(run.scenario, []).append(found)
    every = [seconds for values in by_scenario.values() for seconds in values]
    if every:
        means = {name: sum(values) / len(values) for name, values in by_scenario.items()}
        return sum(means.get(run.scenario, sum(every) / len(every)) for run in runs), "the runs that are finished"
    limits = [_time_limit(run) for run in runs]
    known = [limit for limit in limits if limit is not None]
    return (sum(known), "their time limits, at most") if known and len(known) == len(runs) else (None, "")


def _time_limit(run: Run) -> float | None:
    found = [text.partition("=")[2] for text in run.changes if text.startswith("solve.time_limit=")]
    try:
        return float(found[-1]) if found else None
    except ValueError:
        return None
