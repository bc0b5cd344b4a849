"""Where runs are executed: in this process one after the other, by processes of this machine, or by a Dask cluster."""

import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from ..common.errors import InputError
from ..common.processes import Processes, WorkerLost
from ..common.workers import CONNECT_SECONDS, connected
from .job import Job, perform

if TYPE_CHECKING:
    from concurrent.futures import Future as LocalFuture

    from distributed import Future

_AHEAD = 2  # runs handed to each worker of a cluster: one to do, one that waits there


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: `reason` is empty where the result is there; `lost`: it may go better in another attempt."""

    job: Job
    reason: str = ""
    lost: bool = False


class SchedulerLost(Exception):
    """The scheduler or its workers cannot be reached any more; what was handed over has to be handed over again."""


class Executor(Protocol):
    """What the driver of a study needs; `words` and `dashboard` say to people what it is and where to watch it."""

    def room(self) -> int:
        """How many more runs to hand over now."""
        ...

    def submit(self, job: Job) -> None:
        """Hand a run over."""
        ...

    def finished(self, seconds: float) -> list[Outcome]:
        """The attempts that ended, after waiting for one at most so long; raises `SchedulerLost`."""
        ...

    def close(self) -> None:
        """End what was started for it."""
        ...

    words: str
    dashboard: str


class Serial:
    """Runs one after the other, in this process."""

    words, dashboard = "one after the other", ""

    def __init__(self) -> None:
        self._job: Job | None = None

    def room(self) -> int:
        """One, when the last is done."""
        return int(self._job is None)

    def submit(self, job: Job) -> None:
        """Keep the run for `finished`, which does it."""
        self._job = job

    def finished(self, seconds: float) -> list[Outcome]:
        """Do the run."""
        job, self._job = self._job, None
        if job is None:
            return []
        try:
            return [Outcome(job, perform(job))]
        except (OSError, MemoryError, ArithmeticError, RuntimeError, ValueError) as error:
            return [Outcome(job, f"{type(error).__name__}: {error}", lost=True)]

    def close(self) -> None:
        """Nothing was started."""


class Local:
    """Runs by processes of this machine, each of which has one run at a time.

    **Arguments:** `workers`: processes, with one thread each; `memory`: bytes for each of them.
    """

    dashboard = ""

    def __init__(self, workers: int, memory: int | None = None):
        self._processes = Processes(workers, memory)
        self._futures: dict[LocalFuture[str], Job] = {}
        self.words = f"{workers} worker process{'es' if workers != 1 else ''} on this machine"

    def room(self) -> int:
        """One for each process that has none."""
        return self._processes.number - len(self._futures)

    def submit(self, job: Job) -> None:
        """Hand a run to a process."""
        self._futures[self._processes.submit(perform, job)] = job

    def finished(self, seconds: float) -> list[Outcome]:
        """The attempts that ended since the last call; raises `InputError` where the processes cannot be started."""
        ended = wait(self._futures, timeout=seconds, return_when=FIRST_COMPLETED).done
        return [self._outcome(future) for future in ended]

    def _outcome(self, future: "LocalFuture[str]") -> Outcome:
        job = self._futures.pop(future)
        error = future.exception()
        if error is None:
            return Outcome(job, future.result())
        if isinstance(error, InputError):
            raise error
        return Outcome(
            job, str(error) if isinstance(error, WorkerLost) else f"{type(error).__name__}: {error}", lost=True
        )

    def close(self) -> None:
        """End the processes."""
        self._processes.close()


class Cluster:
    """Runs by the workers of a Dask cluster.

    **Arguments:** `scheduler`: the address of a running scheduler, whose workers see the study's folder under the same path;
    `resources`: what a run needs of a worker, such as `{"GPU": 1}`.

    **Raises:** `InputError` where Dask is missing or the scheduler cannot be reached.
    """

    def __init__(self, scheduler: str, resources: dict[str, float] | None = None):
        self._resources = resources or None
        self._futures: dict[Future, Job] = {}
        self._tries = 0
        self._closing = ExitStack()
        self._client = connected(scheduler, self._closing)
        self.words = f"the Dask cluster {scheduler}"
        self.dashboard = str(self._client.dashboard_link or "") if find_spec("bokeh") else ""

    def room(self) -> int:
        """As many as keep every worker busy, and one more for each."""
        return max(0, _AHEAD * sum(self._nthreads().values()) - len(self._futures))

    def _nthreads(self) -> dict[str, int]:
        return self._guarded(lambda: self._client.nthreads())

    def submit(self, job: Job) -> None:
        """Hand a run over, under a name of its own for each attempt."""
        self._tries += 1
        name = f"veil-{job.key}-{os.getpid()}-{self._tries}"
        future = self._guarded(
            lambda: self._client.submit(perform, job, key=name, pure=False, resources=self._resources)
        )
        self._futures[future] = job

    def finished(self, seconds: float) -> list[Outcome]:
        """The attempts that ended since the last call."""
        deadline = time.monotonic() + seconds
        while True:
            ended = [future for future in self._futures if future.done()]
            if ended or time.monotonic() >= deadline:
                return [self._outcome(future) for future in ended]
            if self._client.status not in ("running", "connecting"):
                raise SchedulerLost
            time.sleep(0.02)

    def _outcome(self, future: "Future") -> Outcome:
        from distributed import CancelledError, KilledWorker

        job = self._futures.pop(future)
        if future.cancelled():
            raise SchedulerLost
        try:
            error = future.exception(timeout=CONNECT_SECONDS)
        except (CancelledError, OSError, TimeoutError):
            raise SchedulerLost from None
        if error is None:
            try:
                return Outcome(job, str(self._guarded(lambda: future.result(timeout=CONNECT_SECONDS))))
            except KilledWorker as lost:  # with its answer, before anybody had fetched it
                error = lost
        if isinstance(error, KilledWorker):
            reason = "its worker ended before the run did: out of memory, killed, or its machine was lost"
            return Outcome(job, reason, lost=True)
        if isinstance(error, CancelledError):
            raise SchedulerLost
        return Outcome(job, f"{type(error).__name__}: {error}", lost=True)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        from distributed import CancelledError

        try:
            return call()
        except (CancelledError, OSError, TimeoutError):
            raise SchedulerLost from None

    def close(self) -> None:
        """Leave the cluster."""
        for future in self._futures:
            future.release()
        self._futures.clear()
        self._closing.close()
