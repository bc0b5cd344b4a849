"""Work spread over processes: shares of it by the workers of a Dask cluster, in the same order for any number of them."""

import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from .clock import Clock, OutOfTime, Stop
from .errors import InputError

if TYPE_CHECKING:
    from distributed import Client

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

CONNECT_SECONDS = 10.0
_THREADS: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_AHEAD = 2  # shares handed to each worker: one to do, one that waits there


def shares(
    work: Callable[[S, I, Clock], R], subject: S, items: Iterable[I], clock: Clock, workers: int | str = 1
) -> Iterator[R]:
    """`work(subject, item, clock)` for each item, in order.

    **Arguments:** `workers`: 1 for this process, the number of processes, or the address of a Dask scheduler. The items may be
    endless: no more are taken than keep the workers busy.

    **Raises:** `OutOfTime` where the clock says so; `InputError` where there are no such workers.
    """
    if workers == 1:
        for item in items:
            yield work(subject, item, clock)
        return
    with ExitStack() as closing:
        client: Any = connected(workers, closing) if isinstance(workers, str) else local(workers, closing)
        known = client.scatter(subject, broadcast=True)
        threads = max(1, sum(client.nthreads().values()))
        pending: deque[Any] = deque()
        remaining = iter(items)
        while True:
            while len(pending) < _AHEAD * threads and (item := next(remaining, None)) is not None:
                pending.append(client.submit(_timed, work, known, item, clock.left, pure=False))
            if not pending:
                return
            found = pending.popleft().result(timeout=None if clock.left == float("inf") else clock.left + 1)
            if found is None:
                raise OutOfTime(Stop.TIME_LIMIT)
            clock.check()
            yield found[0]


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
    if workers < 1:
        raise InputError("workers", [f"workers is {workers}, expected 1 or more, or the address of a Dask scheduler"])
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
