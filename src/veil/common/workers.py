"""Work spread over processes of this machine or the workers of a Dask cluster, in the same order for any number of them."""

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from threadpoolctl import ThreadpoolController

from .clock import UNLIMITED, Clock, OutOfTime, Stop
from .errors import InputError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from distributed import Client

    from .processes import Subject

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

AUTO = "auto"
CONNECT_SECONDS = 10.0
_AUTO_SECONDS = 1.0  # of work, after which processes are started by themselves: about what starting one takes
_AHEAD = 2  # shares handed to each worker of a cluster: one to do, one that waits there
_ATTEMPTS = 5  # at a share whose worker is lost
_REMEDY = "give each of them more memory, or use fewer workers"
_HANDED_SECONDS = 2e-4  # in which a thread sends a share off before this one goes on, which would hold it up for longer
_END: Any = object()  # of items
_WAIT_SECONDS = 0.5  # between two looks at the clock while workers compute


@functools.cache
def blas() -> ThreadpoolController:
    """The threads of linear algebra in this process."""
    return ThreadpoolController()


def cores() -> int:
    """Threads or processes that are worth starting: as many as the machine has cores, or fewer if OMP_NUM_THREADS says so."""
    number = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(number, int(asked)) if asked.isdecimal() and int(asked) else number


class Team:
    """Who shares work: this process, alone or with others on this machine, or the workers of a Dask cluster.

    Results come in the order of the items, and what a share is does not depend on who computes it: they are the same for every
    team. Processes are started by the first work that is handed out, and end with the context.

    **Arguments:** `workers`: how many processes compute, this one among them; the address of a Dask scheduler; or `"auto"`: as
    many processes as the machine has cores, once the team is a second old, and this one alone if they cannot be used.

    **Raises:** `InputError` if it is none of these.
    """

    def __init__(self, workers: int | str = 1):
        if isinstance(workers, str) and workers.isdecimal():
            workers = int(workers)
        if not is_team(workers):
            raise InputError("workers", [f"workers is {workers!r}, expected {EXPECTED}"])
        self._is_auto, self._workers = workers == AUTO, cores() if workers == AUTO else workers
        self._begun, self._closing = time.monotonic(), ExitStack()
        self._lock = threading.RLock()  # of what is known
        self._here, self._owner = threading.Lock(), 0  # held by the thread that computes here, and which that is
        self._backend: _Backend | None = None
        self._known: dict[int, tuple[object, Any]] = {}

    @property
    def alone(self) -> bool:
        """Whether all is done by this process."""
        return self._workers == 1 or (self._is_auto and time.monotonic() < self._begun + _AUTO_SECONDS)

    def shares(
        self, work: Callable[[S, I, Clock], R], subject: S, items: Iterable[I], clock: Clock = UNLIMITED
    ) -> Iterator[R]:
        """`work(subject, item, clock)` for each item, in order; several threads may ask at the same time.

        The subject travels once to each worker, and stays there for the next call about it. The items may be endless: no
        more are taken than keep the workers busy. A share whose worker is lost is computed again by another one.

        **Raises:** `OutOfTime` if the clock says so; `InputError` if the workers are not there, or are lost.
        """
        nested = self._owner == threading.get_ident()  # a share that is computed here has shares of its own
        reached = None if self.alone or nested else self._reached(subject)
        if reached is None:
            for item in items:
                yield work(subject, item, clock)
            return
        backend, known = reached
        pending, remaining = deque[_Share | _Done](), iter(items)
        following = next(remaining, _END)
        with backend.guarded():
            try:
                while pending or following is not _END:
                    full = not backend.has_room(len(pending))
                    waits = bool(pending) and (pending[0].is_done or (full and not backend.helps))
                    if waits or following is _END:
                        yield self._result(pending.popleft(), work, subject, clock)
                        continue
                    item, following = following, next(remaining, _END)
                    # A single share is not worth its messages, unless another thread computes here.
                    single = following is _END and not self._here.locked()
                    share = (
                        None if backend.helps and (full or single) else self._handed(backend, work, known, item, clock)
                    )
                    if share is None:
                        with self._computing():
                            share = _Done(item, work(subject, item, clock))
                    pending.append(share)
            finally:
                with suppress(OSError, TimeoutError):
                    for share in pending:
                        share.cancel()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with self._here:
            self._owner = threading.get_ident()
            try:
                yield
            finally:
                self._owner = 0

    def _handed(self, backend: "_Backend", *given: Any) -> "_Share | None":
        """A share that was handed out; None if that is not possible, and nobody asked for it."""
        try:
            return _Share(backend, *given)
        except InputError:
            if not self._is_auto:
                raise
            self._workers = 1
            return None

    def _result(self, share: "_Share | _Done", work: Callable[[S, Any, Clock], R], subject: S, clock: Clock) -> R:
        try:
            return share.result(clock)
        except (InputError, *share.lost):
            if not self._is_auto:
                raise
            self._workers = 1
            return work(subject, share.item, clock)

    def _reached(self, subject: object) -> "tuple[_Backend, Any] | None":
        """Who computes, and what stands for the subject there; None if nobody can be asked by themselves."""
        with self._lock:
            try:
                if self._backend is None:
                    given = self._workers
                    made = (
                        _Cluster(given, self._closing) if isinstance(given, str) else _Local(int(given), self._closing)
                    )
                    self._backend = made
                return self._backend, self._sent(self._backend, subject)
            except InputError:
                if not self._is_auto:
                    raise
                self._workers = 1
                return None

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
"""What `workers=` takes: `"auto"`, a number of processes, the address of a Dask scheduler, or inside the package a team."""
EXPECTED = "'auto', a whole number, 1 or more, or the address of a Dask scheduler"


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
    """Who computes shares: `lost` are the errors after which a share is computed again; `helps`: whether this process too."""

    lost: tuple[type[BaseException], ...]
    helps: bool

    def has_room(self, pending: int) -> bool:
        """Whether one more share would be computed at once, or wait for little, beside so many of the same call."""
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
    """This process and others on this machine, which have shares once they have started."""

    helps = True

    def __init__(self, workers: int, closing: ExitStack):
        from . import processes

        self._subject = processes.Subject
        self.lost: tuple[type[BaseException], ...] = (processes.WorkerLost,)
        self._processes = processes.Processes(workers - 1)
        closing.callback(self._processes.close)
        self._starting = self._processes.start()
        self._busy: set[Future[Any]] = set()

    def has_room(self, pending: int) -> bool:
        return len(self._busy) < sum(one.done() for one in self._starting)

    def send(self, subject: object) -> "Subject":
        return self._subject(subject)

    def submit(self, work: Callable[..., Any], known: "Subject", item: object, seconds: float) -> "Future[Any]":
        future = self._processes.submit(_timed, work, item, seconds, subject=known)
        self._busy.add(future)
        future.add_done_callback(self._busy.discard)
        time.sleep(_HANDED_SECONDS)
        return future

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

    helps = False

    def __init__(self, address: str, closing: ExitStack):
        self._distributed, self._address = _distributed(), address
        self.lost: tuple[type[BaseException], ...] = (self._distributed.KilledWorker,)
        self._client: Any = connected(address, closing)

    def has_room(self, pending: int) -> bool:
        return pending < _AHEAD * max(1, sum(self._client.nthreads().values()))

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


class _Done:
    """A share that was computed here."""

    lost, is_done = (), True

    def __init__(self, item: object, found: Any):
        self.item, self._found = item, found

    def result(self, clock: Clock) -> Any:
        """What was found."""
        return self._found

    def cancel(self) -> None:
        """Nothing is left to do."""


class _Share:
    """A share of some work that was handed out."""

    def __init__(self, backend: _Backend, work: Callable[..., Any], known: Any, item: object, clock: Clock):
        self._submit = lambda: backend.submit(work, known, item, clock.left)
        self.item, self.lost = item, backend.lost
        self._future, self._attempts = self._submit(), 1

    @property
    def is_done(self) -> bool:
        """Whether its result, or its error, is there."""
        return self._future.done()

    def cancel(self) -> None:
        """Do not begin it."""
        self._future.cancel()

    def result(self, clock: Clock) -> Any:
        """Its result; begun again where its worker is lost. Raises `OutOfTime`."""
        while True:
            clock.check()
            try:
                found = self._future.result(timeout=_WAIT_SECONDS)
            except TimeoutError:
                if self._future.done():
                    raise
                continue
            except self.lost:
                if self._attempts >= _ATTEMPTS:
                    raise
                self._future, self._attempts = self._submit(), self._attempts + 1
                continue
            if found is None:
                raise OutOfTime(Stop.TIME_LIMIT)
            clock.check()
            return found[0]


def _timed(subject: S, work: Callable[[S, I, Clock], R], item: I, seconds: float) -> tuple[R] | None:
    """A share of the work on a worker; None where the time was over."""
    try:
        with blas().limit(limits=1, user_api="blas"):
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
