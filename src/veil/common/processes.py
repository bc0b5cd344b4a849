"""Worker processes on this machine: each has a pipe to the process that started it, and nobody else can reach it."""

import atexit
import multiprocessing
import os
import pickle
import queue
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .errors import InputError, VeilError

_THREADS: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_REMEDY = "in a script, call it below if __name__ == '__main__':, since each worker reads the script again"
_WATCH_SECONDS = 0.25  # between two looks at the memory of a worker that computes
MOST_SUBJECTS = 4  # that a worker keeps; the oldest is dropped for one more
_KEEP, _DROP, _CALL = range(3)
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class WorkerLost(Exception):
    """A worker process ended before it answered; another one takes its place."""


class Subject:
    """What many calls are about; it travels once to each worker, as the first argument of the calls that name it."""

    _numbers = count()

    def __init__(self, value: object):
        self.number, self.content = next(self._numbers), _bytes(value)


class Processes:
    """Processes of one thread each that answer calls.

    They are started by the first calls, and end with `close` or with this process, even if it is killed. They are reached
    through anonymous pipes only: there is no port, so no other user of the machine can send them work.

    **Arguments:** `number`; `memory`: bytes that each may use, an equal share of the machine's memory by default.

    **Raises:** `InputError` in a process that is itself being started, and reads the script that starts it.
    """

    def __init__(self, number: int, memory: int | None = None):
        try:
            spawn.get_preparation_data("veil-worker")
        except RuntimeError:
            raise InputError("workers", [f"a worker would start workers: {_REMEDY}"]) from None
        self.number, self.memory = number, memory or _machine_memory() // number
        self._calls: queue.SimpleQueue[tuple[Future[Any], bytes, Subject | None] | None] = queue.SimpleQueue()
        self._closed, self._lock = False, threading.Lock()
        self._workers = [_Worker(self.memory) for _ in range(number)]
        self._threads = [threading.Thread(target=self._serve, args=(one,), daemon=True) for one in self._workers]
        self._environment = {name: os.environ.get(name) for name in _THREADS}
        os.environ.update(_THREADS)
        atexit.register(self.close)
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], *arguments: object, subject: Subject | None = None) -> "Future[Any]":
        """Call a function in a worker, with the subject first where one is given.

        **Returns:** a future of its result. It raises what the function raises, `WorkerLost`, or `InputError` where the workers
        cannot be started.
        """
        future: Future[Any] = Future()
        self._calls.put((future, _bytes((function, arguments)), subject))
        return future

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        atexit.unregister(self.close)
        for worker in self._workers:
            self._calls.put(None)
            worker.kill()
        for thread in self._threads:
            thread.join()
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _serve(self, worker: "_Worker") -> None:
        """Hand one call after the other to a worker."""
        while (call := self._calls.get()) is not None:
            future, content, subject = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if self._closed:
                    raise WorkerLost("the workers were ended")
                future.set_result(worker.answer(content, subject))
            except BaseException as error:  # whatever it is, who asked gets it
                future.set_exception(error)
        worker.join()


class _Worker:
    """One process and the pipe to it; started again where it is lost."""

    def __init__(self, memory: int):
        self._memory = memory
        self._process: Any = None
        self._pipe: Connection | None = None
        self._known: list[int] = []
        self._ended, self._lock = False, threading.Lock()

    def answer(self, content: bytes, subject: Subject | None) -> Any:
        """The result of a call; raises what the call raised, `WorkerLost`, `InputError`."""
        pipe = self._pipe or self._start()
        try:
            if subject is not None:
                self._send_subject(pipe, subject)
            pipe.send((_CALL, None if subject is None else subject.number, content))
            while not pipe.poll(_WATCH_SECONDS):
                self._check_memory()
            worked, answer = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            raise WorkerLost(self._lost()) from None
        if worked:
            return answer
        raise answer

    def _send_subject(self, pipe: Connection, subject: Subject) -> None:
        if subject.number in self._known:
            return
        while len(self._known) >= MOST_SUBJECTS:
            pipe.send((_DROP, self._known.pop(0), b""))
        pipe.send((_KEEP, subject.number, subject.content))
        self._known.append(subject.number)

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with self._lock:
            if self._ended:
                raise WorkerLost("the workers were ended")
            process = context.Process(target=_work, args=(theirs,), name="veil-worker")
            process.start()
            self._process, self._pipe, self._known = process, ours, []
        theirs.close()
        try:
            ours.recv_bytes()  # it is ready
        except (EOFError, OSError):
            process, reason = self._process, self._lost()
            if (process.exitcode or 0) > 0:
                raise InputError(
                    "workers", [f"the workers did not start (status {process.exitcode}): {_REMEDY}"]
                ) from None
            raise WorkerLost(reason) from None
        return ours

    def _check_memory(self) -> None:
        if (used := _resident(self._process.pid)) > self._memory:
            self._process.kill()
            self._lost()
            words = f"its worker used {used / 2**30:.2f} GiB of memory, expected at most {self._memory / 2**30:.2f}"
            raise WorkerLost(words)

    def _lost(self) -> str:
        """Forget the process that has ended; returns how it ended."""
        with self._lock:
            process, pipe = self._process, self._pipe
            self._process = self._pipe = None
        if process is None or pipe is None:
            return "the workers were ended"
        pipe.close()
        process.join()
        return f"its worker ended before the run did, with status {process.exitcode}: out of memory, or killed"

    def kill(self) -> None:
        """End the process; it is not started again."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def join(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            self._lost()


def _work(pipe: Connection) -> None:
    """A worker: answer calls until the pipe is closed."""
    with suppress(OSError, AttributeError):
        os.setsid()  # Ctrl-C in the terminal is for the process that started this one, which ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    subjects: dict[int, Any] = {}
    try:
        pipe.send_bytes(b"ready")
        while True:
            kind, number, content = pipe.recv()
            if kind == _KEEP:
                subjects[number] = pickle.loads(content)
            elif kind == _DROP:
                del subjects[number]
            else:
                pipe.send_bytes(_called(content, [] if number is None else [subjects[number]]))
    except (EOFError, OSError):
        os._exit(0)  # who started this one is gone


def _called(content: bytes, first: list[Any]) -> bytes:
    """What a call returns or raises, as bytes."""
    try:
        function, arguments = pickle.loads(content)
        return _bytes((True, function(*first, *arguments)))
    except Exception as error:
        try:
            found = pickle.dumps((False, error))
            pickle.loads(found)
        except Exception:  # an error that cannot travel: its words do
            plain = (
                VeilError(str(error))
                if isinstance(error, VeilError)
                else RuntimeError(f"{type(error).__name__}: {error}")
            )
            found = pickle.dumps((False, plain))
        return found


def _bytes(value: object) -> bytes:
    """A value as bytes, also with functions that were made inside others; raises `InputError` where that is not possible."""
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle
        except ImportError:
            remedy = "pip install 'veil[cluster]', or give workers=1"
            words = f"sharing this work among processes needs cloudpickle, which is not installed ({error}): {remedy}"
            raise InputError("workers", [words]) from None
        return cloudpickle.dumps(value)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _resident(process: int) -> int:
    """Bytes of memory that a process uses; 0 where that is not known."""
    try:
        return int(Path(f"/proc/{process}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        pass
    if os.name != "posix" or os.path.isdir("/proc/self"):
        return 0
    found = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, check=False).stdout.strip()
    return 1024 * int(found) if found.isdigit() else 0


def _machine_memory() -> int:
    """Bytes of memory that the processes of this machine, or of its container, may use."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2**62
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text("ascii")))
    return found
