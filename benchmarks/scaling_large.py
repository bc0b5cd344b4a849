"""One gradient over large grids, each in a process of its own; a part of `scaling`."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import veil
from benchmarks import common
from benchmarks.common import Sample, Settings, mib_text, say, seconds_text
from benchmarks.gpu import large_grid

LARGE = (
    {"side": 100, "horizon": 100, "sequences": 1000, "memory_bytes": 2 * 2**30},
    {"side": 1000, "horizon": 50, "sequences": 64, "memory_bytes": 10 * 2**30},
)
TARGETS = ("under 10 s and 4 GiB", "under 16 GiB")
HEADER = [
    "grid",
    "T",
    "sequences",
    "budget",
    "model",
    "gradient",
    "processor time",
    "peak resident",
    "target",
    "bits",
]


def large(side: int, horizon: int, sequences: int, memory_bytes: int) -> Callable[[], Any]:
    """One gradient over a large grid by the public door, in a process of its own."""
    made: list[veil.Problem] = []
    prepare_s = common.clock(lambda: made.append(large_grid(side, horizon)))
    problem = made[0]
    theta = np.random.default_rng(0).normal(size=(problem.num_cells, problem.num_actions))
    small = large_grid(20, 5)
    veil.opacity_gradient(small, np.zeros((small.num_cells, small.num_actions)), "sampled", sequences=64)

    def work() -> dict[str, Any]:
        options: dict[str, Any] = {"sequences": sequences, "memory_bytes": memory_bytes}
        used = time.process_time()
        result, gradient = veil.opacity_gradient(problem, theta, "sampled", **options)
        used = time.process_time() - used
        assert np.isfinite(gradient).all()
        return {"bits": result.bits, "std_error": result.std_error, "prepare_s": prepare_s, "cpu_s": used}

    return work


def large_rows(settings: Settings) -> list[list[str]]:
    """One row of the table a grid."""
    rows = []
    for options, target in zip(LARGE[:1] if settings.quick else LARGE, TARGETS, strict=False):
        rounds = 1 if settings.quick or options["side"] > 500 else 3
        found = [common.in_subprocess(large, **options) for _ in range(rounds)]
        seconds, peak = Sample(tuple(f.seconds for f in found)), max(f.peak_bytes for f in found)
        cpu = Sample(tuple(f.result["cpu_s"] for f in found))
        size, length = f"{options['side']:,}×{options['side']:,}", f"{options['horizon']}"
        say(f"scaling: {size} grid {seconds.text(seconds_text)}, peak {mib_text(peak)}")
        bits = f"{found[0].result['bits']:.4f} ± {found[0].result['std_error']:.4f}"
        cells = [size, length, f"{options['sequences']:,}", mib_text(options["memory_bytes"])]
        cells.append(seconds_text(found[0].result["prepare_s"]))
        rows.append([*cells, seconds.text(seconds_text), cpu.text(seconds_text), mib_text(peak), target, bits])
    return rows
