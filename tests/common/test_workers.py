"""Work shared by a team: the same results for any team, regardless of which workers are lost, and reached by nobody else."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import veil
from veil.common.clock import UNLIMITED, Clock, OutOfTime
from veil.common.processes import Processes, WorkerLost
from veil.common.workers import ALONE, Team, is_team

ROOT = Path(__file__).parents[2]


def doubled(subject: int, item: int, clock: Clock) -> tuple[int, bool]:
    return subject * item, isinstance(clock, Clock)


def lethal(folder: Path, item: int, clock: Clock) -> int:
    """Ends its worker the first time one computes it."""
    here = (folder / "here").read_text() == str(os.getpid())
    if here:
        time.sleep(0.1)
    elif not (folder / str(item)).exists():
        (folder / str(item)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def endless(subject: None, item: int, clock: Clock) -> int:
    while True:
        clock.check()


def greedy(megabytes: int) -> int:
    """Uses memory for longer than it is looked at."""
    taken = np.ones(megabytes * 2**17)
    time.sleep(20)
    return int(taken[0])


class Counting(Team):
    """Counts what is handed out."""

    asked = 0

    def shares(self, work: Any, subject: Any, items: Iterable[Any], clock: Clock = UNLIMITED) -> Iterator[Any]:
        self.asked += 1
        return super().shares(work, subject, items, clock)


@pytest.fixture(scope="module")
def team() -> Iterator[Counting]:
    with Counting(2) as made:
        yield made


def test_what_is_a_team():
    for good in (1, "2", "auto", "tcp://10.0.0.1:8786", np.int64(3), ALONE):
        assert is_team(good)
    for bad in (0, "0", "-1", "", " ", True, False, 1.5, None):
        assert not is_team(bad)
        with pytest.raises(veil.InputError, match="a whole number, 1 or more, or the address of a Dask"):
            Team(bad)  # pyright: ignore[reportArgumentType]
    assert Team("1").alone
    problem = veil.gallery.load("two-rooms")
    for call in (
        veil.solve,
        veil.frontier,
        lambda p, workers: veil.opacity(p, veil.MarkovPolicy.uniform(p), workers=workers),
    ):
        with pytest.raises(veil.InputError, match="workers is 0"):
            call(problem, workers=0)


def test_shares_come_in_order_from_endless_items(team: Team):
    for who in (ALONE, team):
        found = who.shares(doubled, 3, iter(range(10**9)))
        assert [next(found) for _ in range(7)] == [(3 * number, True) for number in range(7)]


def test_a_team_keeps_the_time(team: Team):
    with pytest.raises(OutOfTime):
        list(team.shares(endless, None, [1], Clock(0.1)))
    with pytest.raises(OutOfTime):
        list(team.shares(endless, None, [1], Clock(2.0, stop=lambda: True)))


def test_no_other_user_can_reach_the_workers(team: Team):
    """Nothing listens, neither at a port nor at a socket with a name: there is nothing to connect to."""
    assert len(list(team.shares(doubled, 1, range(8)))) == 8
    own = psutil.Process()
    everyone = [own, *own.children(recursive=True)]
    assert len(everyone) >= 2
    listening = [
        (one.pid, open_socket.laddr)
        for one in everyone
        for open_socket in one.net_connections("all")
        if open_socket.status == psutil.CONN_LISTEN or (isinstance(open_socket.laddr, str) and open_socket.laddr)
    ]
    assert listening == []


def test_no_result_depends_on_the_team(team: Counting):
    """Samples, gradients and searches that are shared."""
    doors, path = veil.gallery.load("badge-doors"), veil.gallery.load("night-round")
    uniform = veil.MarkovPolicy.uniform(doors)
    theta = np.random.default_rng(0).normal(size=uniform.probabilities.shape)
    long = doors.replace(horizon=10)
    few: dict[str, Any] = {"starts": 6, "iterations": 1, "certificate": False, "progress": False}
    calls: dict[str, Callable[[Team], tuple[Any, ...]]] = {
        "sample": lambda who: (veil.opacity(doors, uniform, "sampled", sequences=10_000, workers=who),),
        "error": lambda who: (veil.opacity(doors, uniform, "sampled", sequences=100, std_error=0.01, workers=who),),
        "gradient": lambda who: veil.opacity_gradient(doors, theta, "sampled", sequences=9000, workers=who),
        "path": lambda who: (
            veil.opacity(path, veil.MarkovPolicy.uniform(path), "sampled", sequences=9000, workers=who),
        ),
        "search": lambda who: answer(veil.solve(long, evaluation="exact", workers=who, **few)),
    }
    for name, call in calls.items():
        team.asked = 0
        assert_same(name, call(ALONE), call(team))
        assert team.asked, f"{name}: nothing was shared"


def answer(solution: veil.Solution) -> tuple[Any, ...]:
    assert isinstance(solution.policy, veil.MarkovPolicy)
    return solution.opacity, solution.expected_return, solution.policy.probabilities


def assert_same(name: str, one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert len(one) == len(other), name
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, name


@pytest.mark.slow
def test_shares_of_lost_workers_are_computed_again(tmp_path: Path):
    (tmp_path / "here").write_text(str(os.getpid()))
    with Team(2) as own:
        while len(list(tmp_path.iterdir())) < 3:  # two were lost
            assert list(own.shares(lethal, tmp_path, range(40), UNLIMITED)) == list(range(40))


def test_a_worker_over_its_memory_is_ended_and_says_so():
    processes = Processes(1, memory=600 * 2**20)
    try:
        assert processes.submit(max, 2, 3).result(timeout=60) == 3
        with pytest.raises(WorkerLost, match=r"expected at most 0\.59"):
            processes.submit(greedy, 900).result(timeout=60)
        assert processes.submit(max, 4, 3).result(timeout=60) == 4
    finally:
        processes.close()


SCRIPT = """
import os

import veil
from veil.common.workers import Team


class Doubled:
    def __call__(self, subject, item, clock):
        return os.getpid(), subject * item


with Team(3) as team:
    while True:
        found = list(team.shares(Doubled(), 2, range(50)))
        assert [value for _, value in found] == list(range(0, 100, 2))
        if len({process for process, _ in found}) > 1:
            break
print("begun", "shared")
"""


def test_a_script_needs_no_guard_and_may_define_what_is_shared(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "begun shared\n", "")


def test_what_cannot_be_shared_is_computed_here():
    """By themselves workers are used where they can be; who asks for them is told why they cannot."""
    unsendable = (number for number in range(3))  # no generator travels
    with Team("auto") as team:
        time.sleep(1.1)
        assert list(team.shares(lambda subject, item, clock: item, unsendable, range(4))) == [0, 1, 2, 3]
    with Team(2) as team, pytest.raises(veil.InputError, match="generator"):
        list(team.shares(lambda subject, item, clock: item, unsendable, range(4)))


class Nested:
    """Work that is shared by the team that shares it."""

    def __init__(self, team: Team):
        self.team = team


def nested(subject: Nested, item: int, clock: Clock) -> int:
    return sum(value for value, _ in subject.team.shares(doubled, item, range(4)))


def test_a_share_may_have_shares(team: Team):
    for _ in range(3):  # also once the processes have started
        assert list(team.shares(nested, Nested(team), range(6))) == [6 * item for item in range(6)]
        time.sleep(1.0)


def test_several_threads_share_a_team(team: Team):
    def ask(subject: int) -> list[tuple[int, bool]]:
        return list(team.shares(doubled, subject, range(20)))

    with ThreadPoolExecutor(4) as pool:
        for subject, found in enumerate(pool.map(ask, range(8))):
            assert found == [(subject * item, True) for item in range(20)]
