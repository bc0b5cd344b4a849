"""Work spread over processes: a sample by 1, 2 and 4 workers with what it sends, and the cost of a study's machinery."""

import pickle
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil

import veil
from benchmarks.common import Settings, say, seconds_text
from benchmarks.gpu import large_grid, random_policy
from veil.common.workers import local
from veil.engine.chain import make_chain

TITLE = "work spread over processes"
SIDE, HORIZON, SEQUENCES = 60, 40, 24_576
WORKERS = (1, 2, 4)
RUNS, RUN_SECONDS = 20, 10.0


def sample_rows(settings: Settings) -> list[str]:
    """Seconds, speed-up and equality of one sampled value by 1, 2 and 4 workers; the processes are started before."""
    problem = large_grid(SIDE, HORIZON, everywhere=True)
    policy = random_policy(problem)
    sequences = SEQUENCES // 4 if settings.quick else SEQUENCES
    rows, first, alone = [], None, 0.0
    for workers in WORKERS:
        with ExitStack() as closing:
            where = 1 if workers == 1 else str(local(workers, closing).scheduler_info()["address"])
            if workers > 1:
                veil.opacity(
                    problem, policy, "sampled", sequences=64 * workers, workers=where
                )  # imports are not counted
            begin = time.perf_counter()
            found = veil.opacity(problem, policy, "sampled", sequences=sequences, workers=where)
            seconds = time.perf_counter() - begin
        first, alone = first or found, alone or seconds
        same = "yes" if found == first else f"no: {found.bits!r} against {first.bits!r}"
        rows.append(f"| {workers} | {seconds_text(seconds)} | {alone / seconds:.2f} | {same} |")
        say("spread", f"{workers} workers: {seconds:.1f} s")
    return rows


def bytes_text() -> str:
    """What travels: the chain once to each worker, a chunk's sums back, or its part of the gradient."""
    problem = large_grid(SIDE, HORIZON, everywhere=True)
    chain = make_chain(problem, random_policy(problem))
    table = np.zeros(chain.table.shape)
    return (
        f"The chain of this problem is {len(pickle.dumps(chain)) / 2**20:.1f} MiB, sent once to each worker; a chunk of 4,096"
        f" sequences sends back {len(pickle.dumps((1, 1.0, 1.0)))} bytes of sums, with a gradient"
        f" {len(pickle.dumps(table)) / 2**20:.2f} MiB."
    )


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
    rows = sample_rows(settings)
    return "\n".join(
        [
            f"One sampled value of a grid of {SIDE}×{SIDE} cells, T = {HORIZON}, {SEQUENCES:,} sequences in six chunks"
            f" (`veil.opacity(…, workers=…)`), on {psutil.cpu_count()} cores:",
            "",
            "| workers | seconds | speed-up | same number to the last bit |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
            bytes_text(),
            "",
            study_text(settings),
        ]
    )
