"""Where runs are executed: in this process one after the other, or by the workers of a Dask cluster."""

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..common.errors import InputError
from .job import Job, perform

if TYPE_CHECKING:
    from distributed import Client, Future

_THREADS: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_AHEAD = 2  # runs handed to each worker: one to do, one that waits there
_CONNECT_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: `reason` is empty where the result is there; `lost`: it may go better in another attempt."""

    job: Job
    reason: str = ""
    lost: bool = False


class SchedulerLost(Exception):
    """The scheduler cannot be reached any more; what was handed to it has to be handed over again."""


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


class Cluster:
    """Runs by the workers of a Dask cluster.

    **Arguments:** `workers`: processes of a cluster on this machine, with one thread each; `memory`: bytes for each of
    them; `scheduler`: the address of a running scheduler instead, whose workers see the study's folder under the same
    path; `resources`: what a run needs of a worker, such as `{"GPU": 1}`.

    **Raises:** `InputError` where Dask is missing or the scheduler cannot be reached.
    """

    def __init__(
        self,
        workers: int = 0,
        *,
        memory: int | None = None,
        scheduler: str | None = None,
        resources: dict[str, float] | None = None,
    ):
        self._resources = resources or None
        self._futures: dict[Future, Job] = {}
        self._tries = 0
        self._closing = ExitStack()
        distributed = _distributed()
        self._errors = distributed.KilledWorker, (distributed.CancelledError, OSError, TimeoutError)
        try:
            self._client: Client = self._connected(scheduler) if scheduler else self._local(workers, memory)
        except BaseException:
            self._closing.close()
            raise
        self.dashboard = str(self._client.dashboard_link or "")

    def _connected(self, address: str) -> "Client":
        distributed = _distributed()
        try:
            client = distributed.Client(address, timeout=_CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            message = f"no Dask scheduler answers there: {str(error) or type(error).__name__}"
            raise InputError(address, [message]) from None
        self.words = f"the Dask cluster {address}"
        return self._closing.enter_context(client)

    def _local(self, workers: int, memory: int | None) -> "Client":
        from dask import config

        distributed = _distributed()
        folder = self._closing.enter_context(
            tempfile.TemporaryDirectory(prefix="veil-study-", ignore_cleanup_errors=True)
        )
        # A worker that dies is told to the driver at once, which counts the attempts itself.
        self._closing.enter_context(
            config.set({"distributed.scheduler.allowed-failures": 0, "distributed.admin.system-monitor.interval": "2s"})
        )
        before = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update(_THREADS)
        self._closing.callback(_restore, before)
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit="auto" if memory is None else memory,
                local_directory=folder,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                silence_logs=50,
            )
        except RuntimeError as error:
            remedy = "in a script, call it below if __name__ == '__main__':, since each worker reads the script again"
            raise InputError("study", [f"the workers did not start ({error}): {remedy}"]) from None
        self._closing.enter_context(cluster)
        self.words = f"{workers} worker processes on this machine"
        return self._closing.enter_context(distributed.Client(cluster))

    def room(self) -> int:
        """As many as keep every worker busy, and one more for each."""
        threads = sum(self._nthreads().values())
        return max(0, _AHEAD * threads - len(self._futures))

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
        killed, gone = self._errors
        job = self._futures.pop(future)
        if future.cancelled():
            raise SchedulerLost
        try:
            error = future.exception(timeout=_CONNECT_SECONDS)
        except gone:
            raise SchedulerLost from None
        if error is None:
            return Outcome(job, str(self._guarded(lambda: future.result(timeout=_CONNECT_SECONDS))))
        if isinstance(error, killed):
            reason = "its worker ended before the run did: out of memory, killed, or its machine was lost"
            return Outcome(job, reason, lost=True)
        if isinstance(error, _distributed().CancelledError):
            raise SchedulerLost
        return Outcome(job, f"{type(error).__name__}: {error}", lost=True)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._errors[1]:
            raise SchedulerLost from None

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        for future in self._futures:
            future.release()
        self._futures.clear()
        self._closing.close()


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        remedy = "pip install 'veil[cluster]', or give workers=1 to run one after the other"
        raise InputError("study", [f"runs at the same time need Dask, which is not installed: {remedy}"]) from None
    return distributed
