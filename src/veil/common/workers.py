"""Work spread over processes: shares of it by the workers of a Dask cluster, in the same order for any number of them."""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from .clock import UNLIMITED, Clock, OutOfTime, Stop
from .errors import InputError

if TYPE_CHECKING:
    from distributed import Client

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

CONNECT_SECONDS = 10.0
_THREADS: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_AHEAD = 2  # shares handed to each worker: one to do, one that waits there
_ATTEMPTS = 5  # at a share whose worker is lost
_WAIT_SECONDS = 0.5  # between two looks at the clock while workers compute
_MOST_SUBJECTS = 4  # what several shares are about and workers keep; the oldest is dropped for one more


class Team:
    """Who shares work: this process alone, processes on this machine, or the workers of a Dask cluster.

    Shares are handed out and come back in order, and what a share is does not depend on who computes it: results are the same
    for every team. Processes are started by the first work that is handed out, and end with the context.

    **Arguments:** `workers`: 1 for this process, the number of processes, or the address of a Dask scheduler.

    **Raises:** `InputError` where it is none of these.
    """

    def __init__(self, workers: int | str = 1):
        if isinstance(workers, str) and workers.isdecimal():
            workers = int(workers)
        if not is_team(workers):
            raise InputError("workers", [f"workers is {workers!r}, expected {EXPECTED}"])
        self._workers, self._closing = workers, ExitStack()
        self._client: Any = None
        self._known: dict[int, tuple[object, Any]] = {}

    @property
    def alone(self) -> bool:
        """Whether all is done by this process."""
        return self._workers == 1

    def shares(
        self, work: Callable[[S, I, Clock], R], subject: S, items: Iterable[I], clock: Clock = UNLIMITED
    ) -> Iterator[R]:
        """`work(subject, item, clock)` for each item, in order.

        The subject travels once to each worker, and stays there for the next call about it. The items may be endless: no
        more are taken than keep the workers busy. A share whose worker is lost is computed again by another one.

        **Raises:** `OutOfTime` where the clock says so; `InputError` where the workers are not there, or are lost.
        """
        if self.alone:
            for item in items:
                yield work(subject, item, clock)
            return
        with _told_where_lost(str(self._workers)):
            client, known = self._connected(), self._sent(subject)
            threads = max(1, sum(client.nthreads().values()))
            pending: deque[Any] = deque()
            remaining = iter(items)
            try:
                while True:
                    while len(pending) < _AHEAD * threads and (item := next(remaining, None)) is not None:
                        pending.append(_Share(client, work, known, item, clock))
                    if not pending:
                        return
                    yield pending[0].result(clock)
                    pending.popleft()
            finally:
                with suppress(OSError, TimeoutError):
                    client.cancel([one.future for one in pending])

    def _connected(self) -> Any:
        if self._client is None:
            given = self._workers
            make = connected if isinstance(given, str) else local
            self._client = make(given, self._closing)  # pyright: ignore[reportArgumentType]
        return self._client

    def _sent(self, subject: object) -> Any:
        """What stands for the subject in shares."""
        if id(subject) not in self._known:
            while len(self._known) >= _MOST_SUBJECTS:
                self._known.pop(next(iter(self._known)))
            self._known[id(subject)] = subject, self._client.scatter(subject, broadcast=True, hash=False)
        return self._known[id(subject)][1]

    def __reduce__(self) -> "tuple[type[Team], tuple[()]]":
        """A worker that is sent a team does its work alone."""
        return Team, ()

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *_: object) -> None:
        self._known.clear()
        self._client = None
        self._closing.close()


Workers = int | str | Team
"""What `workers=` takes: a number of processes, the address of a Dask scheduler, or inside the package a team."""
EXPECTED = "a whole number, 1 or more, or the address of a Dask scheduler"


def is_team(workers: object) -> bool:
    """Whether a value of `workers=` is one that `Team` takes, or a team."""
    if isinstance(workers, str):
        with suppress(ValueError):
            return int(workers) >= 1
        return bool(workers.strip())
    number = isinstance(workers, Integral) and not isinstance(workers, bool) and int(workers) >= 1
    return number or isinstance(workers, Team)


ALONE = Team()
"""This process."""


@contextmanager
def team_of(workers: Workers) -> Iterator[Team]:
    """The team itself, which its owner ends, or one that ends with the context."""
    if isinstance(workers, Team):
        yield workers
        return
    with Team(workers) as team:
        yield team


class _Share:
    """A share of some work at a cluster."""

    def __init__(self, client: Any, work: Callable[..., Any], known: Any, item: object, clock: Clock):
        self._submit = lambda: client.submit(_timed, work, known, item, clock.left, pure=False)
        self.future, self._attempts = self._submit(), 1

    def result(self, clock: Clock) -> Any:
        """Its result; begun again where its worker is lost. Raises `OutOfTime`."""
        from distributed import KilledWorker

        while True:
            clock.check()
            try:
                found = self.future.result(timeout=_WAIT_SECONDS)
            except TimeoutError:
                continue
            except KilledWorker:
                if self._attempts >= _ATTEMPTS:
                    raise
                self.future, self._attempts = self._submit(), self._attempts + 1
                continue
            if found is None:
                raise OutOfTime(Stop.TIME_LIMIT)
            clock.check()
            return found[0]


@contextmanager
def _told_where_lost(where: str) -> Iterator[None]:
    """Turn what Dask raises where workers or their scheduler are lost into `InputError`."""
    distributed = _distributed()
    try:
        yield
    except distributed.KilledWorker:
        remedy = "give each of them more memory, or take fewer workers"
        raise InputError("workers", [f"a share of the work ended {_ATTEMPTS} workers: {remedy}"]) from None
    except (distributed.CancelledError, OSError) as error:
        raise InputError("workers", [f"{where} was lost: {str(error) or type(error).__name__}"]) from None


def _timed(work: Callable[[S, I, Clock], R], subject: S, item: I, seconds: float) -> tuple[R] | None:
    """A share of the work on a worker; None where the time was over."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(limits=1, user_api="blas"):
            return (work(subject, item, Clock(seconds)),)
    except OutOfTime:
        return None


def connected(address: str, closing: ExitStack) -> "Client":
    """A client of a running scheduler; raises `InputError` where none answers."""
    try:
        client = _distributed().Client(address, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        message = f"no Dask scheduler answers there: {str(error) or type(error).__name__}"
        raise InputError(address, [message]) from None
    return closing.enter_context(client)


def local(workers: int, closing: ExitStack, memory: int | None = None) -> "Client":
    """A client of a cluster on this machine that is started here, with processes of one thread; `memory`: bytes of each."""
    distributed = _distributed()
    from dask import config

    folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="veil-", ignore_cleanup_errors=True))
    # A worker that dies is told at once: who handed the work over counts the attempts.
    closing.enter_context(config.set({"distributed.scheduler.allowed-failures": 0}))
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(_THREADS)
    closing.callback(_restore, before)
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
        raise InputError("workers", [f"the workers did not start ({error}): {remedy}"]) from None
    closing.enter_context(cluster)
    return closing.enter_context(distributed.Client(cluster))


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
        remedy = "pip install 'veil[cluster]', or give workers=1"
        raise InputError("workers", [f"several workers need Dask, which is not installed: {remedy}"]) from None
    return distributed
