"""The driver of a study: hands over what is not done, counts attempts, notes what happens, keeps the table up to date."""

import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ..common.errors import InputError
from ..formats.gallery import GALLERY
from ..problem.belief import UNIFORM
from .definition import Run, Study
from .executors import Executor, Outcome, SchedulerLost
from .folder import StudyFolder
from .forecast import Forecast
from .job import Job
from .table import StudyResult

_WAIT_SECONDS = 0.5
_RECONNECT_SECONDS = 120.0
_TABLE_SECONDS = 60.0  # between two writings of the table while runs go on
Event = dict[str, object]


def run_study(
    study: Study,
    folder: str | Path,
    start: Callable[[], Executor],
    tell: Callable[[Event], None] | None = None,
    *,
    retry_failed: bool = False,
    repair: bool = False,
) -> StudyResult:
    """Run what is not done yet, as `Study.run` says; `start` makes an executor, and another one where it is lost."""
    kept = StudyFolder(folder)
    _ = study.runs  # what is wrong with them is told before there is a folder
    kept.make()
    with kept.locked():
        kept.prepare(study)
        _Driver(study, kept, start, tell or (lambda event: None)).run(retry_failed, repair)
    return StudyResult(kept.path)


@dataclass
class _Driver:
    study: Study
    kept: StudyFolder
    start: Callable[[], Executor]
    tell: Callable[[Event], None]
    attempts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.result = StudyResult(self.kept.path)

    def run(self, retry_failed: bool, repair: bool) -> None:
        for key in self.result.set_aside_damaged() if repair else ():
            self._event("damaged", key=key, run=self.result.runs[key].label)
        pending = self._pending(retry_failed)
        self._event("study", name=self.study.name, runs=len(self.study.runs), to_do=len(pending))
        if not pending:
            self.result.write_table()
            return
        begin = time.monotonic()
        try:
            self._complete(pending)
        finally:
            self.kept.tidy()
            self.result.write_table()
        failed = sum(self.kept.failure(run.key) is not None for run in self.study.runs)
        self._event("end", runs=len(self.study.runs), failed=failed, seconds=round(time.monotonic() - begin, 1))

    def _pending(self, retry_failed: bool) -> dict[str, Run]:
        """The runs that are neither done nor failed, in order."""
        found: dict[str, Run] = {}
        for run in self.study.runs:
            if self.kept.is_done(run.key):
                self.kept.forget_failure(run.key)
                continue
            if retry_failed:
                self.kept.forget_failure(run.key)
            if self.kept.failure(run.key) is None:
                found[run.key] = run
        return found

    def _complete(self, pending: dict[str, Run]) -> None:
        """Execute all that is pending, on as many executors one after the other as are lost on the way."""
        executor = self.start()
        self._event("executor", words=executor.words, dashboard=executor.dashboard)
        forecast = Forecast()
        try:
            while pending:
                try:
                    self._pass(executor, pending, forecast)
                except SchedulerLost:
                    self._event("scheduler lost", waiting=_RECONNECT_SECONDS)
                    with suppress(Exception):
                        executor.close()
                    executor = self._again()
        finally:
            executor.close()

    def _again(self) -> Executor:
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while True:
            try:
                return self.start()
            except InputError as error:
                if time.monotonic() > deadline:
                    more = "finished runs are kept, and the same command continues"
                    raise InputError(error.subject, [*map(str, error.defects), more]) from None
                time.sleep(1.0)

    def _pass(self, executor: Executor, pending: dict[str, Run], forecast: Forecast) -> None:
        """Hand over and collect until nothing is pending; raises `SchedulerLost`."""
        waiting, written = deque(pending.values()), time.monotonic()
        while pending:
            for _ in range(min(executor.room(), len(waiting))):
                self._hand_over(executor, waiting.popleft())
            for outcome in executor.finished(_WAIT_SECONDS):
                again = self._take(outcome, pending, forecast)
                if again is not None:
                    waiting.append(again)
            if time.monotonic() - written > _TABLE_SECONDS:
                self.result.write_table()
                written = time.monotonic()

    def _hand_over(self, executor: Executor, run: Run) -> None:
        limit = self.study.limit
        policy = run.policy if run.policy in (None, UNIFORM) else os.path.abspath(run.policy)
        scenario = run.scenario if run.scenario.startswith(GALLERY) else os.path.abspath(run.scenario)
        executor.submit(Job(run.key, scenario, run.text, run.files, run.changes, str(self.kept.path), limit, policy))

    def _take(self, outcome: Outcome, pending: dict[str, Run], forecast: Forecast) -> Run | None:
        """Note how an attempt ended; returns the run where it is begun again."""
        key = outcome.job.key
        run = pending[key]
        self.attempts[key] = self.attempts.get(key, 0) + 1
        lost = outcome.lost and not self.kept.is_done(key)  # a worker may be lost after it wrote the result
        reason = outcome.reason if lost or not outcome.lost else ""
        if not reason and not self.kept.is_done(key):
            reason = "its worker says it is done, and this machine does not see the result: is the folder shared?"
        if lost and self.kept.failure(key) is None and self.attempts[key] < self.study.attempts:
            self._event("again", key=key, run=run.label, reason=reason, attempt=self.attempts[key])
            return run
        del pending[key]
        facts: Event = {"key": key, "run": run.label}
        if reason and self.kept.failure(key) is None:
            self.kept.note_failure(key, reason, self.attempts[key])
        forecast.note_end()
        more: Event = {"left": len(pending), "left_seconds": forecast.seconds_left(len(pending))}
        if reason:
            self._event("failed", **facts, reason=reason, **more)
        else:
            self._event("done", **facts, **self.result.brief(key), **more)
        return None

    def _event(self, kind: str, **facts: object) -> None:
        self.tell(self.kept.event(kind, **facts))
