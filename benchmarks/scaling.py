"""How the sampled gradient grows: with the horizon, the number of sequences and the non-zeros; and two large grids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import veil
from benchmarks import common
from benchmarks.common import Sample, Settings, mib_text, say, seconds_text
from benchmarks.gpu import large_grid, random_policy
from benchmarks.scaling_large import HEADER, large_rows
from veil.engine.chain import make_chain
from veil.engine.columns import ColumnPass
from veil.engine.kernel import SparseKernel
from veil.engine.sampling import draw_events
from veil.measure.question import SecretValue
from veil.measure.sampled import sample

TITLE = "growth with the horizon, the sequences and the non-zeros"
NAME = "paper-false-alarms"
HORIZONS, HORIZON_SEQUENCES = (50, 150, 500, 1500, 5000), 256
COUNTS, COUNT_HORIZON = (100, 300, 1000, 3000, 10_000, 30_000), 20
SIDES, SIDE_HORIZON, SIDE_SEQUENCES = (50, 100, 200, 300, 450, 700), 6, 64
CACHE_BYTES = 32 * 2**20  # the last-level cache of the machine that these were chosen on


@dataclass(frozen=True)
class Line:
    """Times against one size, and the exponent of the power law through their medians."""

    sizes: Sequence[int]
    times: list[Sample]

    @property
    def exponent(self) -> float:
        return self.fit(np.array([sample.median for sample in self.times]))

    @property
    def range(self) -> tuple[float, float]:
        """The exponents of the rounds one by one."""
        found = [self.fit(np.array(values)) for values in zip(*(s.values for s in self.times), strict=True)]
        return min(found), max(found)

    def fit(self, times: np.ndarray) -> float:
        return float(np.polyfit(np.log(self.sizes), np.log(times), 1)[0])


def in_turn(work: Callable[[int], Callable[[], Any]], sizes: Sequence[int], rounds: int) -> Line:
    times = common.take_turns({str(size): work(size) for size in sizes}, rounds)
    return Line(sizes, [times[str(size)] for size in sizes])


def against_horizon(settings: Settings) -> Line:
    problem = veil.gallery.load(NAME)

    def work(horizon: int) -> Callable[[], Any]:
        chain = make_chain(problem.replace(horizon=horizon), random_policy(problem))
        return lambda: sample(SecretValue(chain), sequences=HORIZON_SEQUENCES, gradient=True)

    return in_turn(work, HORIZONS, settings.rounds(0, most=3))


def against_sequences(settings: Settings) -> Line:
    problem = veil.gallery.load(NAME).replace(horizon=COUNT_HORIZON)
    chain = make_chain(problem, random_policy(problem))
    return in_turn(
        lambda n: lambda: sample(SecretValue(chain), sequences=n, gradient=True), COUNTS, settings.rounds(0, most=5)
    )


def against_nonzeros(settings: Settings) -> tuple[Line, list[int]]:
    """Seconds of one pass with its gradient over grids of growing side, and their non-zeros."""
    nonzeros: list[int] = []

    def work(side: int) -> Callable[[], Any]:
        problem = large_grid(side, SIDE_HORIZON, everywhere=True)
        chain = make_chain(problem, random_policy(problem))
        assert isinstance(chain.hidden.kernel, SparseKernel)
        nonzeros.append(len(chain.hidden.kernel.indices))
        events = draw_events(chain, SIDE_SEQUENCES, np.random.default_rng(0))
        slope = np.full((SIDE_SEQUENCES, 2), 1.0 / SIDE_SEQUENCES)
        chain.matrices(0)
        return lambda: ColumnPass(chain, events, gradient=True, memory_bytes=2**33).pull_back(slope)

    line = in_turn(work, SIDES, settings.rounds(0, most=3))
    return line, nonzeros


def run(settings: Settings) -> str:
    horizon = against_horizon(settings)
    say(f"scaling: exponent {horizon.exponent:.3f} against T")
    count = against_sequences(settings)
    say(f"scaling: exponent {count.exponent:.3f} against sequences")
    side, nonzeros = against_nonzeros(settings)
    say("scaling: sides", *(f"{s} {seconds_text(t.median)}" for s, t in zip(SIDES, side.times, strict=True)))
    rows = large_rows(settings)
    return report(horizon, count, side, nonzeros, rows, settings)


def report(
    horizon: Line, count: Line, side: Line, nonzeros: list[int], rows: list[list[str]], settings: Settings
) -> str:
    units = [n * SIDE_SEQUENCES * SIDE_HORIZON for n in nonzeros]
    costs = [Sample(tuple(v / unit * 1e9 for v in s.values)) for s, unit in zip(side.times, units, strict=True)]
    sizes = [8 * s * s * SIDE_SEQUENCES for s in SIDES]
    beyond = [cost.median for cost, size in zip(costs, sizes, strict=True) if size > CACHE_BYTES]
    spread = max(beyond) / min(beyond) - 1
    table = [
        [f"{s}×{s}", f"{n:,}", mib_text(size), took.text(seconds_text), cost.text(lambda value: f"{value:.2f} ns")]
        for s, n, size, took, cost in zip(SIDES, nonzeros, sizes, side.times, costs, strict=True)
    ]
    header = ["grid", "non-zeros", "one message", "time", "a non-zero, sequence and step"]
    return f"""\
Value and gradient by sampling, the drawing included, random softmax policy. `{NAME}` (36 states, dense):

{common.markdown_table(["T", *(f"{t:,}" for t in HORIZONS), "exponent"], [_line(horizon, f"{HORIZON_SEQUENCES} sequences")])}

{common.markdown_table(["sequences", *(f"{n:,}" for n in COUNTS), "exponent"], [_line(count, f"T = {COUNT_HORIZON}")])}

Exponents: least squares through the logarithms of the medians; in brackets the least and largest of the rounds one by
one. The target is at most 1.15. Sequences share prefixes, so more of them cost less each.

The sparse pass (`ColumnPass`, value and gradient) on open grids, T = {SIDE_HORIZON}, {SIDE_SEQUENCES} sequences, one thread:

{common.markdown_table(header, table)}

Where one message is beyond the cache of {mib_text(CACHE_BYTES)}, the largest cost is {spread:.0%} above the least
(target: within 30%).

One gradient by `opacity_gradient(…, method="sampled")`, each in a process of its own, the checks of policy and chain
included; *model* is the time to build the problem, before:

{common.markdown_table(HEADER, rows)}

{figure(horizon, count, costs, settings)}
"""


def _line(line: Line, label: str) -> list[str]:
    low, high = line.range
    return [label, *(seconds_text(s.median) for s in line.times), f"**{line.exponent:.3f}** [{low:.3f} – {high:.3f}]"]


def figure(horizon: Line, count: Line, costs: list[Sample], settings: Settings) -> str:
    """Time against T and sequences with a line of slope 1, and the cost of a non-zero."""
    picture = Figure(figsize=(8.8, 3.1), layout="constrained")
    panels = picture.subplots(1, 3)
    lines = ((horizon, "horizon T", common.BLUE), (count, "sequences", common.GREEN))
    for axes, (line, label, colour) in zip(panels, lines, strict=False):
        times = [sample.median for sample in line.times]
        straight = [times[-1] * size / line.sizes[-1] for size in line.sizes]
        axes.loglog(line.sizes, straight, color=common.GREY, linestyle="--", label="slope 1")
        axes.loglog(line.sizes, times, color=colour, marker="o", label=f"exponent {line.exponent:.2f}")
        axes.set(xlabel=label, ylabel="seconds", title=f"Time against {label}")
        axes.legend(frameon=False, fontsize=8)
    sizes = [8 * s * s * SIDE_SEQUENCES / common.MIB for s in SIDES]
    medians = [cost.median for cost in costs]
    panels[2].semilogx(sizes, medians, color=common.BLUE, marker="o")
    panels[2].fill_between(sizes, [min(c.values) for c in costs], [max(c.values) for c in costs], alpha=0.2)
    panels[2].axvline(CACHE_BYTES / common.MIB, color=common.VERMILION, linewidth=1.5)
    panels[2].annotate("cache ", (CACHE_BYTES / common.MIB, 0), ha="right", va="bottom", fontsize=8)
    panels[2].set(xlabel="MiB a message", ylabel="ns", title="A non-zero, sequence and step")
    panels[2].set_ylim(bottom=0)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)
    return common.save_figure(settings, picture, "scaling", "time against horizon and sequences, and cost a non-zero")
