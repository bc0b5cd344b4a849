"""Studies by several workers: the same bytes as one after the other, regardless of what is killed."""

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import veil
from tests.study.cluster import ROOT, end, free_port, scheduler, without_times, worker
from veil.formats.gallery import scenario_text

SET = {"solve.iterations": 2, "solve.starts": 2, "solve.certificate": False}


def worker_processes() -> list[psutil.Process]:
    """The workers of this process that are alive."""
    found: list[psutil.Process] = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "veil.common.processes" in " ".join(one.cmdline()):
                found.append(one)
    return found


def study(number: int, **changes: Any) -> veil.Study:
    parts: dict[str, Any] = {"vary": {"solve.seed": range(number)}, "set": SET}
    return veil.Study(["gallery:two-rooms"], **(parts | changes))


def test_two_workers_of_which_one_is_killed_make_the_same_bytes(tmp_path: Path):
    killed: list[int] = []

    def kill(event: dict[str, object]) -> None:
        if event["event"] == "done" and not killed:
            workers = worker_processes()
            killed.append(max(workers, key=lambda one: one.cpu_times().user).pid)
            os.kill(killed[0], signal.SIGKILL)

    result = study(6).run(tmp_path / "two", workers=2, tell=kill)
    assert killed
    assert result.counts() == {"done": 6, "failed": 0, "to_do": 0}
    study(6).run(tmp_path / "one", workers=1)
    assert without_times(tmp_path / "two") == without_times(tmp_path / "one")


@pytest.mark.slow
def test_a_run_over_its_limit_is_ended_and_the_others_go_on(tmp_path: Path):
    slow = {"as it is": {}, "slow": {"solve.iterations": 10**6, "solve.starts": 5000, "solve.time_limit": 500}}
    asked = veil.Study(
        ["gallery:paper-last-state"], cases=slow, set=SET | {"horizon": 8, "min_return": "50%"}, limit=8.0
    )
    rows = list(asked.run(tmp_path / "study", workers=1).rows())
    assert [row["status"] for row in rows][1] == "FAILED"
    assert rows[1]["reason"] == "it was ended after its limit of 8 s"
    assert rows[0]["bits"] is not None


def test_no_scheduler_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(veil.InputError, match="no Dask scheduler answers there"):
        study(1).run(tmp_path / "study", scheduler="pigeon://127.0.0.1:1")
    with pytest.raises(veil.InputError, match="resources are those of the workers of a scheduler"):
        study(1).run(tmp_path / "study", workers=2, resources={"GPU": 1})
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(veil.InputError, match=r"pip install 'veil\[cluster\]'"):
        study(1).run(tmp_path / "study", scheduler="tcp://127.0.0.1:1")


@pytest.mark.slow
def test_a_scheduler_with_a_certificate_refuses_whoever_has_not_got_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As the page about clusters sets it up."""
    wanted = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=veil"]
    subprocess.run(
        [*wanted, "-keyout", "key.pem", "-out", "certificate.pem"], cwd=tmp_path, check=True, capture_output=True
    )
    with monkeypatch.context() as own:
        own.setenv("DASK_DISTRIBUTED__COMM__TLS__CA_FILE", str(tmp_path / "certificate.pem"))
        for part in ("SCHEDULER", "WORKER", "CLIENT"):
            own.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{part}__CERT", str(tmp_path / "certificate.pem"))
            own.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{part}__KEY", str(tmp_path / "key.pem"))
        port = free_port()
        processes = [scheduler(port, tmp_path, "tls"), worker(port, tmp_path, "tls")]
        (tmp_path / "study.toml").write_text("scenarios = ['gallery:two-rooms']\n[set]\nsolve.iterations = 2\n")
        command = [sys.executable, "-m", "veil", "study", "study.toml", "--workers", f"tls://127.0.0.1:{port}"]
        paths = {"PYTHONPATH": str(ROOT / "src")}
        known = os.environ | paths
    try:
        told = subprocess.run([*command, "-o", "known"], cwd=tmp_path, env=known, capture_output=True, timeout=120)
        assert told.returncode == 0, told.stderr
        unknown = os.environ | paths
        told = subprocess.run([*command, "-o", "unknown"], cwd=tmp_path, env=unknown, capture_output=True, timeout=120)
        assert told.returncode == 2
        assert b"no Dask scheduler answers there" in told.stderr
    finally:
        for process in processes:
            end(process)


@pytest.mark.slow
def test_two_hundred_runs_by_two_workers_are_those_one_after_the_other(tmp_path: Path):
    asked = veil.Study(
        ["gallery:two-rooms", "gallery:badge-doors"],
        vary={"min_return": ["20%", "50%"], "solve.memory": ["markov", "timed"], "solve.seed": range(25)},
        set=SET,
    )
    asked.run(tmp_path / "two", workers=2)
    asked.run(tmp_path / "one", workers=1)
    found = without_times(tmp_path / "two")
    assert len({name.split("/")[0] for name in found}) == 200
    assert found == without_times(tmp_path / "one")


class Killer(threading.Thread):
    """Kills a random worker process of this one's cluster at random moments."""

    def __init__(self, number: int, seed: int):
        super().__init__(daemon=True)
        self.left, self.random = number, random.Random(seed)

    def run(self) -> None:
        while self.left > 0:
            time.sleep(self.random.uniform(0.1, 2.0))
            workers = worker_processes()
            if workers:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(workers).pid, signal.SIGKILL)
                    self.left -= 1


@pytest.mark.slow
def test_workers_killed_at_fifty_moments_cost_no_run(tmp_path: Path):
    asked = veil.Study(
        ["gallery:badge-doors"],
        vary={"min_return": ["20%", "50%", "60%"], "solve.seed": range(60)},
        set={"solve.iterations": 20, "solve.starts": 4, "solve.certificate": False},
        attempts=1000,
    )
    killer = Killer(50, seed=0)

    def tell(event: dict[str, object]) -> None:
        if event["event"] == "executor":
            killer.start()

    result = asked.run(tmp_path / "two", workers=2, tell=tell)
    missed, killer.left = killer.left, 0  # and it ends
    assert missed == 0, "the study was over before all kills: make it longer"
    assert result.counts() == {"done": 180, "failed": 0, "to_do": 0}
    asked.run(tmp_path / "one", workers=1)
    assert without_times(tmp_path / "two") == without_times(tmp_path / "one")


@pytest.mark.slow
def test_a_scheduler_killed_and_restarted_ten_times_costs_no_run(tmp_path: Path):
    port = free_port()
    processes = [scheduler(port, tmp_path), worker(port, tmp_path), worker(port, tmp_path)]
    restarts = 0

    def restart() -> None:
        nonlocal processes, restarts
        for process in processes:
            end(process)
        processes = [scheduler(port, tmp_path), worker(port, tmp_path), worker(port, tmp_path)]
        restarts += 1

    seen = 0

    def tell(event: dict[str, object]) -> None:
        nonlocal seen
        seen += event["event"] == "done"
        if event["event"] == "done" and seen % 4 == 0 and restarts < 10:
            threading.Thread(target=restart).start()

    asked = study(60, set=SET | {"solve.iterations": 5})
    try:
        result = asked.run(tmp_path / "cluster", scheduler=f"tcp://127.0.0.1:{port}", tell=tell)
    finally:
        for process in processes:
            end(process)
    assert restarts == 10
    assert result.counts() == {"done": 60, "failed": 0, "to_do": 0}
    asked.run(tmp_path / "one", workers=1)
    assert without_times(tmp_path / "cluster") == without_times(tmp_path / "one")


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_and_leaves_no_process(tmp_path: Path):
    (tmp_path / "study.toml").write_text(
        'scenarios = ["gallery:badge-doors"]\n[set]\nsolve.iterations = 10\nsolve.starts = 4\n'
        "[vary]\nsolve.seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\n"
    )
    command = [sys.executable, "-m", "veil", "study", "study.toml", "-o", "study", "--workers", "2", "-q"]
    (tmp_path / "temporary").mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path / "temporary")}
    for seconds in (3.0, 5.0, 7.0):
        process = subprocess.Popen(command, cwd=tmp_path, env=environment)
        time.sleep(seconds)
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive, [one.cmdline() for one in alive]
    assert list((tmp_path / "temporary").iterdir()) == []
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=300)
    assert veil.StudyResult(tmp_path / "study").counts() == {"done": 10, "failed": 0, "to_do": 0}


def page_commands(folder: Path, port: int) -> list[str]:
    """The commands of the page, in order, for this machine, a port and a folder; those for containers are left out."""
    page = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = [line for block in blocks for line in block.splitlines() if "docker" not in line]
    changes = {"HOST": "127.0.0.1", "8786": str(port), "/shared": str(folder), "--nworkers 4": "--nworkers 2"}
    for old, new in changes.items():
        found = [line.replace(old, new) for line in found]
    return found


@pytest.mark.slow
def test_the_commands_of_the_page_about_clusters(tmp_path: Path):
    """Scheduler and workers as processes of their own, then every command of the page against them."""
    study = 'scenarios = ["gallery:two-rooms"]\n[set]\nsolve.iterations = 3\n[vary]\nsolve.seed = [0, 1, 2]\n'
    (tmp_path / "layouts.toml").write_text(study)
    (tmp_path / "large.toml").write_text(scenario_text("two-rooms"))
    folder = str(Path(sys.executable).parent)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    servers: list[subprocess.Popen[bytes]] = []
    commands = page_commands(tmp_path, free_port())
    ran = 0
    try:
        for line in commands:
            if "dask " in line:
                shell, none = ["bash", "-c", f"exec env {line}"], subprocess.DEVNULL
                servers.append(
                    subprocess.Popen(
                        shell, cwd=tmp_path, env=environment, stdout=none, stderr=none, start_new_session=True
                    )
                )
                continue
            command = [sys.executable, "-m", *shlex.split(line)]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
            assert done.returncode in (0, 4), done.stderr
            ran += 1
    finally:
        for process in servers:
            end(process)
    assert (len(servers), ran) == (3, 3)
    for name in ("layouts-study", "gpu-study"):
        assert veil.StudyResult(tmp_path / name).counts() == {"done": 3, "failed": 0, "to_do": 0}
    assert (tmp_path / "large-result" / "result.json").is_file()
