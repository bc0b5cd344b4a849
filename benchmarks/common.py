"""What the benchmarks share: taking turns, peak memory in a process of its own, tables, figures, the machine."""

import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

if TYPE_CHECKING:  # so that modules without figures run without matplotlib
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).parent / "figures"
# Okabe and Ito's colours, which stay apart for all kinds of colour vision.
BLUE, ORANGE, GREEN, VERMILION, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#777777"
MIB = 2**20
_LARGEST_FIGURE = 120_000


@dataclass(frozen=True)
class Settings:
    """How thorough a run is. `quick`: one round each, to see that everything works."""

    quick: bool = False

    def rounds(self, seconds_a_round: float, *, most: int = 7, seconds: float = 8.0, least: int = 3) -> int:
        """How many rounds fit the time that one row may take."""
        if self.quick:
            return 1
        return min(most, max(least, int(seconds / max(seconds_a_round, 1e-9))))


@dataclass(frozen=True)
class Sample:
    """The same quantity from several rounds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def over(self, other: "Sample") -> "Sample":
        """The ratio of each round, which the noise that both share leaves alone."""
        return Sample(tuple(a / b for a, b in zip(self.values, other.values, strict=True)))

    def text(self, show: Callable[[float], str]) -> str:
        """The median, and the range over the rounds in brackets."""
        if len(self.values) == 1:
            return show(self.median)
        return f"{show(self.median)} [{show(min(self.values))} – {show(max(self.values))}]"


def say(*words: object) -> None:
    """One line of progress."""
    print("bench:", *words, flush=True)


def clock(work: Callable[[], Any]) -> float:
    """The seconds that one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def take_turns(contenders: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Sample]:
    """Time the contenders one after the other, `rounds` times over, the order turned around each time."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for _ in range(rounds):
        for name in order:
            # Work of milliseconds is repeated within the round: one interruption would be all that is measured.
            first = clock(contenders[name])
            again = 0 if first > 0.1 else min(10, int(0.1 / max(first, 1e-4)))
            times[name].append(statistics.median([first, *(clock(contenders[name]) for _ in range(again))]))
        order.reverse()
    return {name: Sample(tuple(found)) for name, found in times.items()}


@dataclass(frozen=True)
class Measured:
    """What one piece of work took in a process of its own: see `child`."""

    seconds: float
    before_bytes: int
    peak_bytes: int
    result: Any


def in_subprocess(prepare: Callable[..., Callable[[], Any]], **arguments: Any) -> Measured:
    """Run the work that `prepare(**arguments)` returns in a fresh process."""
    target = f"{prepare.__module__}:{prepare.__name__}"
    command = [sys.executable, "-m", "benchmarks.child", target, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{target} failed in its process:\n{done.stderr}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def relative_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference of two gradients in any coordinate, over the largest coordinate."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def seconds_text(seconds: float) -> str:
    """Three digits, in the unit that suits."""
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"


def mib_text(num_bytes: float) -> str:
    return f"{num_bytes / MIB:,.0f} MiB"


def ratio_text(ratio: float) -> str:
    return f"{ratio:.{0 if ratio >= 100 else 1 if ratio >= 10 else 2}f}×"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with its first column to the left and the rest to the right."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def save_figure(settings: Settings, figure: "Figure", name: str, description: str) -> str:
    """Write a small PNG into `figures/` and return the Markdown that shows it; a quick run writes nothing."""
    if settings.quick:
        return f"(no figure in a quick run: {description})"
    FIGURES.mkdir(exist_ok=True)
    path = FIGURES / f"{name}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    size = path.stat().st_size
    if size > _LARGEST_FIGURE:
        raise RuntimeError(f"{path} has {size} bytes, expected at most {_LARGEST_FIGURE}")
    return f"![{description}](figures/{name}.png)"


def machine_line() -> str:
    """Processor, cores, memory and versions, and how busy others keep the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # pyright: ignore[reportOptionalSubscript]
    threads = os.environ["OPENBLAS_NUM_THREADS"]
    return (
        f"{cores} cores ({_processor()}), {memory:.0f} GiB; Python {platform.python_version()}, NumPy {np.__version__}"
        f" ({blas['name']} {blas['version']}, threads: {threads}), SciPy {scipy.__version__}; load before the run"
        f" {os.getloadavg()[0]:.1f}"
    )


def source_mark() -> str:
    """A few digits that change with any line of `src/veil`: which code was measured, and whether it stayed the same."""
    files = sorted((ROOT / "src" / "veil").rglob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:10]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
