"""The runs of a studio: each is a process of its own, with a folder that outlives it."""

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.json_text import parse_json
from ..study.columns import column_values
from .events import Events
from .folders import CHECKPOINT, CURVE, EVENTS, RESULT, SCENARIO, RunDocument, asked, read_run
from .own import open_own
from .record import Record
from .routes import Refused
from .work import END_SECONDS

_MOST_RUNNING, _MOST_RUNS = 8, 500
_CLOSE_SECONDS = 5.0  # that the runs have to save their best when the server ends
_ERRORS = "errors.txt"
_LINE = 65_536


class Run:
    """One run: what was asked, how it stands, and its process while it has one.

    **Attributes:** `id`; `folder`; `document`, what was asked; `record`, what it reported; `process`; `state`, one of
    `running`, `stopping`, `stopped`, `done`, `failed`.
    """

    def __init__(self, folder: Path, document: RunDocument):
        self.id, self.folder, self.document = folder.name, folder, document
        self.record = Record()
        self.process: subprocess.Popen[bytes] | None = None
        self.follower: threading.Thread | None = None
        self.state, self.answer = "stopped", dict[str, Any]()

    @property
    def result(self) -> Path:
        """The result folder, which is there once a policy was found."""
        return self.folder / RESULT

    @property
    def is_resumable(self) -> bool:
        """Whether it can go on from where it ended."""
        ended = self.answer.get("status") in (None, "INTERRUPTED", "TIME_LIMIT", "NOT_SEARCHED")
        return self.state in ("stopped", "done") and ended

    def settle(self) -> None:
        """Read from the folder how the run stands, once it has no process."""
        self.answer = self._answer()
        if self.document.error:
            self.state = "failed"
        else:
            ended = self.answer.get("status") not in (None, "INTERRUPTED")
            self.state = "done" if ended else "stopped"

    def _answer(self) -> dict[str, Any]:
        """The numbers of the result; none where there is none that can be read."""
        if self.document.kind == "frontier":
            return _curve_answer(self.folder / CURVE)
        from ..formats.results.folder import read_result

        try:
            found = read_result(self.result, check_files=False).document
        except InputError:
            return {}
        answer, proof = found.answer, found.certificate
        return column_values(found.model_dump()) | {
            "message": answer.message,
            "goal": answer.goal,
            "proven": "" if proof is None else proof.summary,
            "delayed_upper": None if proof is None else proof.delayed_upper,
            "note": found.certificate_note,
            "doubts": " ".join(answer.doubts),
        }

    def summary(self) -> dict[str, Any]:
        """What a page shows of it: while it runs the newest report, afterwards the result."""
        ended = self.state not in ("running", "stopping") and bool(self.answer)
        return {
            "id": self.id,
            "kind": self.document.kind,
            "name": self.document.name,
            "settings": self.document.settings,
            "wanted": self.document.points,
            "created": self.document.created,
            "state": self.state,
            "error": self.document.error,
            "resumable": self.is_resumable,
            "continues": (self.folder / CHECKPOINT).is_file(),
            "has_result": (self.result / "result.json").is_file(),
            "points": self.record.points,
            **(self.answer if ended else self.record.latest),
        }


def _curve_answer(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_bytes())
        points = [[one["expected_return"], one["opacity_bits"]] for one in found["points"]]
        return {"status": found["status"], "policy_class": found["policy_class"], "seconds": found["seconds"],
                "points": points}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return {}


class Runs:
    """All runs of a folder; every method may be called from any thread.

    **Arguments:** `folder`; `events`: told of every change.
    """

    def __init__(self, folder: Path, events: Events):
        self._folder, self._events = folder, events
        self._lock = threading.RLock()
        self._runs: dict[str, Run] = {}
        self._closed = False
        for place in sorted(folder.iterdir(), key=lambda one: one.name.zfill(12)) if folder.is_dir() else ():
            self._load(place)

    def _load(self, place: Path) -> None:
        try:
            run = Run(place, read_run(place))
        except InputError as error:
            print(f"veil: a run is left out: {error}", file=sys.stderr, flush=True)
            return
        run.record.read(place / EVENTS)
        run.settle()
        self._runs[run.id] = run

    def get(self, name: str) -> Run:
        """A run by its name; raises `Refused` where there is none."""
        with self._lock:
            if name not in self._runs:
                raise Refused(404, f"there is no run {name}")
            return self._runs[name]

    def summaries(self) -> list[dict[str, Any]]:
        """What a page shows of each, the oldest first."""
        with self._lock:
            return [run.summary() for run in self._runs.values()]

    def start(self, text: str, name: str, base: Path | None, settings: dict[str, Any]) -> Run:
        """Begin a run of a scenario; raises `InputError` where something is wrong with it or with the settings."""
        document = asked(text, name, base, settings)
        with self._lock:
            self._check_room()
            number = 1 + max((int(known) for known in self._runs if known.isdecimal()), default=0)
            while (self._folder / str(number)).exists():
                number += 1
            folder = self._folder / str(number)
            folder.mkdir(parents=True)
            run = self._runs[folder.name] = Run(folder, document)
            try:
                (folder / SCENARIO).write_text(text, encoding="utf-8")
                self._begin(run)
            except BaseException:  # a full disk
                del self._runs[run.id]
                shutil.rmtree(folder, ignore_errors=True)
                raise
            return run

    def resume(self, name: str) -> Run:
        """Let a run that was stopped go on."""
        with self._lock:
            run = self.get(name)
            if not run.is_resumable:
                raise Refused(409, f"run {name} is {run.state}: only a stopped run can be resumed")
            self._check_room()
            self._begin(run)
            return run

    def stop(self, name: str) -> Run:
        """End a run with its best so far; it is `stopping` until its process is gone."""
        with self._lock:
            run = self.get(name)
            if run.process is not None:
                run.state = "stopping"
                self._close_pipe(run)
                self._tell(run)
            return run

    def remove(self, name: str) -> None:
        """End a run and delete its folder."""
        with self._lock:
            run = self.get(name)
            process, follower = run.process, run.follower
            del self._runs[name]
            if process is not None:
                process.kill()
        if follower is not None:
            follower.join()
        shutil.rmtree(run.folder, ignore_errors=True)
        self._events.publish("gone", {"id": name}, name)

    def close(self) -> None:
        """End all processes; each has a moment to save its best."""
        with self._lock:
            self._closed = True
            alive = [run for run in self._runs.values() if run.process is not None]
            for run in alive:
                self._close_pipe(run)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for run in alive:
            process, follower = run.process, run.follower
            if process is not None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                process.kill()
            if follower is not None:
                follower.join()

    def _check_room(self) -> None:
        if self._closed:
            raise Refused(503, "the studio is closing")
        if sum(run.process is not None for run in self._runs.values()) >= _MOST_RUNNING:
            raise Refused(409, f"{_MOST_RUNNING} runs are at work: stop one first")
        if len(self._runs) >= _MOST_RUNS:
            raise Refused(409, f"there are {_MOST_RUNS} runs: remove some first")

    def _begin(self, run: Run) -> None:
        run.document = run.document.model_copy(update={"error": ""})
        run.document.write(run.folder)
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # runs side by side share the cores
        (run.folder / _ERRORS).unlink(missing_ok=True)
        with open_own(run.folder / _ERRORS, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as errors:
            run.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "veil.studio.work", str(run.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**threads, **os.environ},
                start_new_session=True,  # Ctrl-C in the terminal ends the server, which ends the runs
            )
        run.state = "running"
        run.follower = threading.Thread(target=self._follow, args=(run, run.process), daemon=True)
        run.follower.start()
        self._tell(run)

    def _follow(self, run: Run, process: "subprocess.Popen[bytes]") -> None:
        """Take in what a process reports, until it ends."""
        failure = ""
        assert process.stdout is not None
        with ExitStack() as closing:
            kept = None
            with suppress(OSError):  # what cannot be kept is still shown
                kept = closing.enter_context(open_own(run.folder / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            while line := process.stdout.readline(_LINE):
                with self._lock:
                    if self._runs.get(run.id) is not run:
                        continue
                    if kept is not None:
                        with suppress(OSError):
                            kept.write(line)
                            kept.flush()
                    failure = run.record.take(line) or failure
                    self._tell(run)
        process.stdout.close()
        status = process.wait()
        with self._lock:
            self._close_pipe(run)
            if self._runs.get(run.id) is not run:
                return
            if not failure and status > 0 and run.state == "running":
                failure = _last_line(run.folder / _ERRORS) or f"its process ended with status {status}"
            if failure:
                run.document = run.document.model_copy(update={"error": failure})
                with suppress(OSError):
                    run.document.write(run.folder)
            run.settle()
            run.process = run.follower = None
            self._tell(run)

    def _close_pipe(self, run: Run) -> None:
        """Close what the process waits on, and see to it that it ends."""
        process = run.process
        if process is None or process.stdin is None or process.stdin.closed:
            return
        with suppress(OSError):
            process.stdin.close()
        late = threading.Timer(END_SECONDS + 2, process.kill)
        late.daemon = True
        late.start()
        threading.Thread(target=lambda: (process.wait(), late.cancel()), daemon=True).start()

    def _tell(self, run: Run) -> None:
        self._events.publish("run", run.summary(), run.id)


def _last_line(path: Path) -> str:
    with suppress(OSError):
        lines = path.read_bytes()[-4096:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""
