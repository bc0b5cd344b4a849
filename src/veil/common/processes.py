"""Worker processes on this machine: each has a pipe to the process that started it, and nobody else can reach it."""

import atexit
import io
import multiprocessing.connection
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from types import FunctionType
from typing import Any

from .errors import InputError, VeilError
from .regions import Region

_THREADS: dict[str, str] = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_START = "import sys; from veil.common.processes import serve; serve(*map(int, sys.argv[1:]))"
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
        self.number, self.packed = next(self._numbers), _packed(value)


class Processes:
    """Processes of one thread each that answer calls.

    They are started by the first calls, or by `start`, and end with `close` or with this process, even if it is killed. They
    are reached through anonymous pipes only: there is no port, so no other user of the machine can send them work. They do
    not run the script that starts them.

    **Arguments:** `number`; `memory`: bytes that each may use, an equal share of the machine's memory by default.
    """

    def __init__(self, number: int, memory: int | None = None):
        self.number, self.memory = number, memory or _machine_memory() // number
        self._calls: queue.SimpleQueue[tuple[Future[Any], _Packed, Subject | None] | None] = queue.SimpleQueue()
        self._closed, self._lock = False, threading.Lock()
        self._workers = [_Worker(self.memory) for _ in range(number)]
        self._threads = [threading.Thread(target=self._serve, args=(one,), daemon=True) for one in self._workers]
        atexit.register(self.close)
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], *arguments: object, subject: Subject | None = None) -> "Future[Any]":
        """Call a function in a worker, with the subject first where one is given.

        **Returns:** a future of its result. It raises what the function raises, `WorkerLost`, or `InputError` if the workers
        cannot be started.
        """
        future: Future[Any] = Future()
        self._calls.put((future, _packed((function, arguments)), subject))
        return future

    def start(self) -> "list[Future[Any]]":
        """Start the processes; returns a future for each, which is done when that process can answer."""
        return [self.submit(int) for _ in self._workers]

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

    def _serve(self, worker: "_Worker") -> None:
        """Hand one call after the other to a worker."""
        while (call := self._calls.get()) is not None:
            future, packed, subject = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if self._closed:
                    raise WorkerLost("the workers were ended")
                future.set_result(worker.answer(packed, subject))
            except BaseException as error:  # whatever it is, who asked gets it
                future.set_exception(error)
        worker.join()


class _Worker:
    """One process and the pipe to it; started again where it is lost."""

    def __init__(self, memory: int):
        self._memory = memory
        self._process: Any = None
        self._pipe: Connection | None = None
        self._there, self._back = Region(None), Region(None)
        self._known: list[int] = []
        self._ended, self._lock = False, threading.Lock()

    def answer(self, packed: "_Packed", subject: Subject | None) -> Any:
        """The result of a call; raises what the call raised, `WorkerLost`, `InputError`."""
        pipe = self._pipe or self._start()
        try:
            if subject is not None:
                self._send_subject(pipe, subject)
            self._send(pipe, _CALL, None if subject is None else subject.number, packed)
            while not pipe.poll(_WATCH_SECONDS):
                self._check_memory()
            worked, answer = _received(pipe, self._back)
        except (EOFError, OSError):
            raise WorkerLost(self._lost()) from None
        if worked:
            return answer
        raise answer

    def _send(self, pipe: Connection, kind: int, number: int | None, packed: "_Packed") -> None:
        pipe.send((kind, number))
        _send(pipe, self._there, packed)

    def _send_subject(self, pipe: Connection, subject: Subject) -> None:
        if subject.number in self._known:
            return
        while len(self._known) >= MOST_SUBJECTS:
            self._send(pipe, _DROP, self._known.pop(0), _packed(None))
        self._send(pipe, _KEEP, subject.number, subject.packed)
        pipe.recv()  # it was copied
        self._there.clear()  # a subject may be large, and is sent once
        self._known.append(subject.number)

    def _start(self) -> Connection:
        ours, theirs = multiprocessing.connection.Pipe()
        with self._lock:
            if self._ended:
                raise WorkerLost("the workers were ended")
            self._there, self._back = Region.new(), Region.new()
            self._process, self._pipe, self._known = _started(theirs, self._there, self._back), ours, []
        theirs.close()
        try:
            ours.recv_bytes()  # it is ready
        except (EOFError, OSError):
            process, reason = self._process, self._lost()
            if (process.returncode or 0) > 0:
                raise InputError("workers", [f"the workers did not start (status {process.returncode})"]) from None
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
        self._there.close()
        self._back.close()
        process.stdin.close()
        process.wait()
        return f"its worker ended before the run did, with status {process.returncode}: out of memory, or killed"

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


def _started(pipe: Connection, *regions: Region) -> "subprocess.Popen[Any]":
    """A worker that has the other end of a pipe, finds the same modules, and runs no script of the user."""
    handles, given = [pipe.fileno(), *(one.handle for one in regions if one.handle is not None)], dict[str, Any]()
    if sys.platform == "win32":
        os.set_handle_inheritable(handles[0], True)
        given["startupinfo"] = subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles})
    else:
        given["pass_fds"] = handles
    path = os.pathsep.join(one or os.getcwd() for one in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _START, *map(str, handles)],
        env=os.environ | _THREADS | {"PYTHONPATH": path},
        stdin=subprocess.PIPE,  # closed with this process, by which the worker notices its end
        start_new_session=True,  # Ctrl-C in the terminal is for this process, which ends the worker
        **given,
    )


def serve(handle: int, there: int | None = None, back: int | None = None) -> None:
    """A worker: answer calls until the pipe is closed."""
    kind: Any = Connection if os.name == "posix" else multiprocessing.connection.PipeConnection  # pyright: ignore
    pipe: Connection = kind(handle)
    asked, answered = Region(there), Region(back)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    subjects: dict[int, Any] = {}
    try:
        pipe.send_bytes(b"ready")
        while True:
            kind, number = pipe.recv()
            if kind == _CALL:
                content, written = pipe.recv()
                first = [] if number is None else [subjects[number]]
                _send(pipe, answered, _called(content, asked.read(written), first))
                continue
            value = _received(pipe, asked)
            if kind == _KEEP:
                subjects[number] = value
                pipe.send(None)
            else:
                del subjects[number]
    except (EOFError, OSError):
        os._exit(0)  # who started this one is gone


def _called(content: bytes, arrays: list[Any], first: list[Any]) -> "_Packed":
    """What a call returns or raises."""
    try:
        function, arguments = pickle.loads(content, buffers=arrays)
        return _packed((True, function(*first, *arguments)))
    except Exception as error:
        try:
            found = _packed((False, error))
            pickle.loads(found[0], buffers=found[1])
        except Exception:  # an error that cannot travel: its words do
            plain = (
                VeilError(str(error))
                if isinstance(error, VeilError)
                else RuntimeError(f"{type(error).__name__}: {error}")
            )
            found = _packed((False, plain))
        return found


_Packed = tuple[bytes, list[pickle.PickleBuffer]]
"""A value as bytes, without its arrays, and these."""


def _send(pipe: Connection, region: Region, packed: _Packed) -> None:
    pipe.send((packed[0], region.write(packed[1])))


def _received(pipe: Connection, region: Region) -> Any:
    """The value that the other side has sent."""
    content, written = pipe.recv()
    return pickle.loads(content, buffers=region.read(written))


class _Pickler(pickle.Pickler):
    """Refuses functions and classes of the script that runs, which workers do not read."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type | FunctionType) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"{value.__qualname__} is defined in the script")
        return NotImplemented


def _packed(value: object) -> _Packed:
    """A value on its way, also with functions of the script or inside others; raises `InputError` if that is not possible."""
    content, arrays = io.BytesIO(), list[pickle.PickleBuffer]()
    try:
        _Pickler(content, pickle.HIGHEST_PROTOCOL, buffer_callback=arrays.append).dump(value)
        return content.getvalue(), arrays
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            import cloudpickle
        except ImportError:
            remedy = "pip install 'veil[cluster]', or give workers=1"
            words = f"sharing this work among processes needs cloudpickle, which is not installed ({error}): {remedy}"
            raise InputError("workers", [words]) from None
        try:
            return cloudpickle.dumps(value), []
        except Exception as error:  # whatever an object of the user raises
            words = f"this work cannot be shared among processes ({error}): give workers=1"
            raise InputError("workers", [words]) from None


def _end_with_parent() -> None:
    os.read(0, 1)  # returns when the other end is closed
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
