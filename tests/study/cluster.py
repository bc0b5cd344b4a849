"""Dask schedulers and workers as processes of their own, and the bytes of a study's results without times."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def started(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process of Dask that finds veil."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def scheduler(port: int, folder: Path, protocol: str = "tcp") -> subprocess.Popen[bytes]:
    options = ["--protocol", protocol, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-jupyter"]
    return started("distributed.cli.dask_scheduler", *options, folder=folder)


def worker(port: int, folder: Path, protocol: str = "tcp") -> subprocess.Popen[bytes]:
    options = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder), "--death-timeout", "20"]
    return started("distributed.cli.dask_worker", f"{protocol}://127.0.0.1:{port}", *options, folder=folder)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def without_times(folder: Path) -> dict[str, bytes]:
    """The files of all runs of a study, without the entries that are seconds."""
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("runs/*/*")):
        content = path.read_bytes()
        if path.name == "history.csv":
            content = re.sub(rb",[^,\n]*$", b"", content, flags=re.MULTILINE)
        elif path.name == "result.json":
            document = json.loads(content)
            document["answer"].pop("seconds")
            document["files"].pop("history.csv")
            content = json.dumps(document).encode()
        found[f"{path.parent.name}/{path.name}"] = content
    return found
