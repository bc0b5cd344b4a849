"""Work spread over processes: a sampled value and gradient by 1, 2 and 4 workers, what they send, and a study's own cost."""

import os
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

import veil
from benchmarks.common import Settings, say, seconds_text
from benchmarks.gpu import large_grid, random_policy
from veil.common.clock import Clock
from veil.common.workers import Team, Workers
from veil.engine.chain import Chain, make_chain
from veil.measure.sampled import chunk_sizes

TITLE = "work spread over processes"
SIDE, HORIZON = 60, 40
VALUED, CLIMBED = 24_576, 16_384  # sequences of the value and of the gradient
MEMORY = 2**29  # bytes of the messages of a chunk: four workers fit a small machine
WORKERS = (1, 2, 4)
RUNS, RUN_SECONDS = 20, 10.0
ROUNDS = 50  # messages whose mean time is taken

Call = Callable[[Workers], object]


def calls(settings: Settings) -> dict[str, tuple[int, Call]]:
    """What is measured: a value and a gradient on samples of a model with 3,600 states, each with its sequences."""
    problem = large_grid(SIDE, HORIZON, everywhere=True)
    policy = random_policy(problem)
    theta = np.random.default_rng(0).normal(size=(problem.num_cells, problem.num_actions))
    part = 4 if settings.quick else 1
    valued, climbed = VALUED // part, CLIMBED // part

    def value(workers: Workers) -> object:
        return veil.opacity(problem, policy, "sampled", sequences=valued, memory_bytes=MEMORY, workers=workers)

    def gradient(workers: Workers) -> object:
        found, slope = veil.opacity_gradient(
            problem, theta, "sampled", sequences=climbed, memory_bytes=MEMORY, workers=workers
        )
        return found, slope.tobytes()

    return {"value": (valued, value), "gradient": (climbed, gradient)}


def sample_rows(settings: Settings) -> list[str]:
    """Seconds, speed-up and equality for each number of workers; the processes are started and warm before."""
    rows, first, alone = [], dict[str, object](), dict[str, float]()
    measured = calls(settings)
    for workers in WORKERS:
        with Team(workers) as team:
            list(team.shares(_warm, None, range(4 * workers)))
            for name, (sequences, call) in measured.items():
                begin = time.perf_counter()
                found = call(team)
                seconds = time.perf_counter() - begin
                same = "yes" if found == first.setdefault(name, found) else "no"
                speed_up = alone.setdefault(name, seconds) / seconds
                rows.append(
                    f"| {name} | {sequences:,} | {workers} | {seconds_text(seconds)} | {speed_up:.2f} | {same} |"
                )
                say("spread", f"{name}, {workers} workers: {seconds:.1f} s")
    return rows


def _warm(_: None, item: int, clock: Clock) -> int:
    """Import what the measured calls need."""
    problem = large_grid(6, 4, everywhere=True)
    veil.opacity(problem, random_policy(problem), "sampled", sequences=8)
    return item


def _echo(subject: np.ndarray, item: np.ndarray, clock: Clock) -> np.ndarray:
    return item


def messages_text(chain: Chain) -> str:
    """What travels, how long a message takes, and from which work on a share is worth its message."""
    table, none = np.zeros(chain.table.shape), np.zeros(0)
    with Team(2) as team:
        list(team.shares(_echo, none, [none] * 4))
        small = _mean_seconds(team, none)
        large = _mean_seconds(team, np.zeros(2**20))
    per_mib = max(0.0, large - small) / 16  # 8 MiB there and 8 MiB back
    mib = len(pickle.dumps(table)) / 2**20
    there_and_back = small + 2 * mib * per_mib
    return (
        f"The chain of this problem is {len(pickle.dumps(chain)) / 2**20:.1f} MiB, sent once to each worker; a chunk sends back"
        f" {len(pickle.dumps((1, 1.0, 1.0)))} bytes of sums, with a gradient {mib:.2f} MiB. Between processes here an empty"
        f" share takes {1e3 * small:.1f} ms there and back and each MiB {1e3 * per_mib:.1f} ms: a share with a table of this"
        f" size both ways takes a tenth of its time for its message from {seconds_text(10 * there_and_back)} of work on."
    )


def _mean_seconds(team: Team, item: np.ndarray) -> float:
    """Of one message there and back, one after the other."""
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        list(team.shares(_echo, item[:0], [item]))
    return (time.perf_counter() - begin) / ROUNDS


def study_text(settings: Settings) -> str:
    """The processor time of a study beside that of its runs."""
    runs = 4 if settings.quick else RUNS
    limit = 2.0 if settings.quick else RUN_SECONDS
    study = veil.Study(
        ["gallery:paper-initial-state"],
        vary={"solve.seed": range(runs)},
        set={"solve.time_limit": limit, "solve.certificate": False, "solve.starts": 200, "solve.iterations": 100_000},
    )
    with tempfile.TemporaryDirectory() as folder:
        before, begin = _processor_seconds(), time.perf_counter()
        result = study.run(Path(folder) / "study", workers=2)
        wall, spent = time.perf_counter() - begin, _processor_seconds() - before
        inside = sum(float(row["seconds"]) for row in result.rows())
    return (
        f"A study of {runs} runs of {limit:g} s on two workers: the searches took {inside:.0f} s of wall time in all, the study"
        f" {wall:.0f} s with two of them at a time ({100 * (2 * wall / inside - 1):.1f}% above half of that), and the driver"
        f" itself {spent:.1f} s of processor time ({100 * spent / inside:.1f}%)."
    )


def _processor_seconds() -> float:
    times = psutil.Process().cpu_times()
    return times.user + times.system


def run(settings: Settings) -> str:
    os.environ["OMP_NUM_THREADS"] = "1"  # a process alone would use all cores by threads
    problem = large_grid(SIDE, HORIZON, everywhere=True)
    chain = make_chain(problem, random_policy(problem))
    rows = sample_rows(settings)
    return "\n".join(
        [
            f"A sampled value and a sampled gradient of a grid of {SIDE}×{SIDE} cells, T = {HORIZON}, in chunks of"
            f" {max(chunk_sizes(chain, VALUED, MEMORY))} sequences (`workers=` of `veil.opacity` and `veil.opacity_gradient`),"
            f" one thread for each process (`OMP_NUM_THREADS=1`), on {psutil.cpu_count()} cores:",
            "",
            "| what | sequences | workers | seconds | speed-up | same to the last bit |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            messages_text(chain),
            "",
            study_text(settings),
        ]
    )
