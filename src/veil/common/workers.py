"""Work spread over processes of this machine or the workers of a Dask cluster, in the same order for any number of them."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from .clock import UNLIMITED, Clock, OutOfTime, Stop
from .errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from distributed import Client

    from .processes import Subject

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

CONNECT_SECONDS = 10.0
_AHEAD = 2  # shares handed to each worker: one to do, one that waits there
_ATTEMPTS = 5  # at a share whose worker is lost
_REMEDY = "give each of them more memory, or use fewer workers"
_WAIT_SECONDS = 0.5  # between two looks at the clock while workers compute


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
        self._backend: _Backend | None = None
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
        backend = self._connected()
        with backend.guarded():
            known = self._sent(backend, subject)
            pending: deque[_Share] = deque()
            remaining = iter(items)
            try:
                while True:
                    while len(pending) < _AHEAD * backend.threads() and (item := next(remaining, None)) is not None:
                        pending.append(_Share(backend, work, known, item, clock))
                    if not pending:
                        return
                    yield pending[0].result(clock)
                    pending.popleft()
            finally:
                with suppress(OSError, TimeoutError):
                    for share in pending:
                        share.future.cancel()

    def _connected(self) -> "_Backend":
        if self._backend is None:
            given = self._workers
            self._backend = (
                _Cluster(given, self._closing) if isinstance(given, str) else _Local(int(given), self._closing)
            )
        return self._backend

    def _sent(self, backend: "_Backend", subject: object) -> Any:
        """What stands for the subject in shares."""
        from .processes import MOST_SUBJECTS

        if id(subject) not in self._known:
            while len(self._known) >= MOST_SUBJECTS:
                self._known.pop(next(iter(self._known)))
            self._known[id(subject)] = subject, backend.send(subject)
        return self._known[id(subject)][1]

    def __reduce__(self) -> "tuple[type[Team], tuple[()]]":
        """A worker that is sent a team does its work alone."""
        return Team, ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._known.clear()
        self._backend = None
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


class _Backend(Protocol):
    """Who computes shares: `lost` are the errors after which a share is computed again."""

    lost: tuple[type[BaseException], ...]

    def threads(self) -> int:
        """How many shares are computed at a time."""
        ...

    def send(self, subject: object) -> Any:
        """Make a subject known; returns what stands for it."""
        ...

    def submit(self, work: Callable[..., Any], known: Any, item: object, seconds: float) -> Any:
        """A future of `_timed`."""
        ...

    def guarded(self) -> AbstractContextManager[None]:
        """Turn the loss of all workers into `InputError`."""
        ...


class _Local:
    """Processes on this machine."""

    def __init__(self, workers: int, closing: ExitStack):
        from . import processes

        self._subject = processes.Subject
        self.lost: tuple[type[BaseException], ...] = (processes.WorkerLost,)
        self._processes = processes.Processes(workers)
        closing.callback(self._processes.close)

    def threads(self) -> int:
        return self._processes.number

    def send(self, subject: object) -> "Subject":
        return self._subject(subject)

    def submit(self, work: Callable[..., Any], known: "Subject", item: object, seconds: float) -> "Future[Any]":
        return self._processes.submit(_timed, work, item, seconds, subject=known)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except self.lost as error:
            raise InputError(
                "workers", [f"a share of the work ended {_ATTEMPTS} workers ({error}): {_REMEDY}"]
            ) from None


class _Cluster:
    """The workers of a Dask cluster."""

    def __init__(self, address: str, closing: ExitStack):
        self._distributed, self._address = _distributed(), address
        self.lost: tuple[type[BaseException], ...] = (self._distributed.KilledWorker,)
        self._client: Any = connected(address, closing)

    def threads(self) -> int:
        return max(1, sum(self._client.nthreads().values()))

    def send(self, subject: object) -> Any:
        return self._client.scatter(subject, broadcast=True, hash=False)

    def submit(self, work: Callable[..., Any], known: Any, item: object, seconds: float) -> Any:
        return self._client.submit(_timed, known, work, item, seconds, pure=False)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except self._distributed.KilledWorker:
            raise InputError("workers", [f"a share of the work ended {_ATTEMPTS} workers: {_REMEDY}"]) from None
        except (self._distributed.CancelledError, OSError) as error:
            raise InputError("workers", [f"{self._address} was lost: {str(error) or type(error).__name__}"]) from None


class _Share:
    """A share of some work."""

    def __init__(self, backend: _Backend, work: Callable[..., Any], known: Any, item: object, clock: Clock):
        self._submit = lambda: backend.submit(work, known, item, clock.left)
        self._lost = backend.lost
        self.future, self._attempts = self._submit(), 1

    def result(self, clock: Clock) -> Any:
        """Its result; begun again where its worker is lost. Raises `OutOfTime`."""
        while True:
            clock.check()
            try:
                found = self.future.result(timeout=_WAIT_SECONDS)
            except TimeoutError:
                if self.future.done():
                    raise
                continue
            except self._lost:
                if self._attempts >= _ATTEMPTS:
                    raise
                self.future, self._attempts = self._submit(), self._attempts + 1
                continue
            if found is None:
                raise OutOfTime(Stop.TIME_LIMIT)
            clock.check()
            return found[0]


def _timed(subject: S, work: Callable[[S, I, Clock], R], item: I, seconds: float) -> tuple[R] | None:
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
    except (OSError, TimeoutError, ValueError, TypeError) as error:  # TypeError: tls:// without a certificate
        message = f"no Dask scheduler answers there: {str(error) or type(error).__name__}"
        raise InputError(address, [message]) from None
    return closing.enter_context(client)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        remedy = "pip install 'veil[cluster]', or give a number of processes on this machine"
        raise InputError("workers", [f"a scheduler needs Dask, which is not installed: {remedy}"]) from None
    return distributed
