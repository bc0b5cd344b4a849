"""A tree of millions of observation sequences within the default memory budget, and within a quarter of it."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import veil
from benchmarks import common
from benchmarks.common import MIB, Measured, Sample, Settings, mib_text, ratio_text, say, seconds_text
from veil.engine.chain import make_chain
from veil.engine.joint import DEFAULT_MEMORY
from veil.engine.size import tree_size

TITLE = "millions of sequences within the memory budget"
NAME = "paper-last-state"
LEAVES = 5_000_000
BUDGETS = (DEFAULT_MEMORY, DEFAULT_MEMORY // 4)
KINDS = ("value", "gradient")
_ROUNDS = 3


@dataclass(frozen=True)
class Row:
    """One kind of work with one budget, over all rounds."""

    kind: str
    budget: int
    rounds: list[Measured]

    @property
    def seconds(self) -> Sample:
        return Sample(tuple(found.seconds for found in self.rounds))

    @property
    def peak_bytes(self) -> int:
        return max(found.peak_bytes for found in self.rounds)

    @property
    def gradient(self) -> np.ndarray:
        return np.array(self.rounds[0].result["gradient"])


def work(kind: str, horizon: int, memory_bytes: int) -> Callable[[], Any]:
    """The work of one process, after a small tree has loaded every module that is needed."""
    problem = veil.gallery.load(NAME)
    theta = np.random.default_rng(0).normal(size=(problem.num_cells, problem.num_actions))

    def evaluate(length: int) -> dict[str, Any]:
        task, gradient = problem.replace(horizon=length), None
        if kind == "gradient":
            result, slope = veil.opacity_gradient(task, theta, method="exact", memory_bytes=memory_bytes)
            gradient = slope.tolist()
        else:
            policy = veil.MarkovPolicy.softmax(theta, task)
            result = veil.opacity(task, policy, method="exact", memory_bytes=memory_bytes)
        return {"bits": result.bits, "num_sequences": result.num_sequences, "gradient": gradient}

    evaluate(6)
    return lambda: evaluate(horizon)


def choose_horizon() -> tuple[int, int]:
    """The shortest horizon with enough sequences, and how many it has."""
    for horizon in count(10):
        problem = veil.gallery.load(NAME).replace(horizon=horizon)
        size = tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem)))
        if size.num_sequences >= LEAVES:
            return horizon, int(size.num_sequences)
    raise AssertionError("count() has no end")


def run(settings: Settings) -> str:
    horizon, leaves = choose_horizon()
    say(f"big_tree: {NAME} with T = {horizon} has {leaves:,} sequences")
    rows = [Row(kind, budget, []) for budget, kind in product(BUDGETS, KINDS)]
    rounds = 1 if settings.quick else _ROUNDS
    for number in range(1, rounds + 1):
        for row in rows if number % 2 else reversed(rows):
            found = common.in_subprocess(work, kind=row.kind, horizon=horizon, memory_bytes=row.budget)
            assert found.result["num_sequences"] == leaves, "the walk and the count of the tree disagree"
            row.rounds.append(found)
            took, peak = seconds_text(found.seconds), mib_text(found.peak_bytes)
            say(f"big_tree {number}/{rounds}: {row.kind}, budget {mib_text(row.budget)}: {took}, peak {peak}")
    return report(rows, horizon, leaves, settings)


def report(rows: list[Row], horizon: int, leaves: int, settings: Settings) -> str:
    by_key = {(row.kind, row.budget): row for row in rows}
    header = ["", "budget", "time", "leaves a second", "peak resident", "peak / budget", "time / full budget"]
    table = []
    for row in rows:
        cost = row.seconds.over(by_key[row.kind, BUDGETS[0]].seconds)
        table.append([
            "value" if row.kind == "value" else "value + gradient",
            mib_text(row.budget),
            row.seconds.text(seconds_text),
            f"{leaves / row.seconds.median / 1e6:.2f} million",
            mib_text(row.peak_bytes),
            f"{row.peak_bytes / row.budget:.0%}",
            "1" if row.budget == BUDGETS[0] else cost.text(ratio_text),
        ])  # fmt: skip
    bits = [found.result["bits"] for row in rows for found in row.rounds]
    full, quarter = (by_key["gradient", budget].gradient for budget in BUDGETS)
    over = [row for row in rows if row.peak_bytes > row.budget]
    verdict = "**The budget is passed**: see the table." if over else "The peak stays within the budget in every round."
    before = max(found.before_bytes for row in rows for found in row.rounds)
    return f"""\
`{NAME}` with horizon {horizon}: **{leaves:,} possible observation sequences** (the shortest horizon with at least
{LEAVES:,}), softmax policy with random parameters (normal, seed 0), no merging, no pruning. The default budget is
{mib_text(BUDGETS[0])}; the same tree is walked with a quarter of it. {verdict}

{common.markdown_table(header, table)}

Median of {len(rows[0].rounds)} rounds, range in brackets, each run in a process of its own, in turn. Peak: the most
resident memory (`VmHWM`) of the whole process in any round, of which interpreter and libraries are about {mib_text(before)}.
All runs agree: the values to {max(bits) - min(bits):.1e} bits, the gradients of the two budgets to
{common.relative_difference(quarter, full):.1e} of the largest coordinate.

{figure(rows, leaves, settings)}
"""


def figure(rows: list[Row], leaves: int, settings: Settings) -> str:
    """Peak memory against the budget, and the speed."""
    picture = Figure(figsize=(8.2, 3.0), layout="constrained")
    left, right = picture.subplots(1, 2, sharey=True)
    names = [f"{'value' if row.kind == 'value' else 'value + gradient'},\n{mib_text(row.budget)}" for row in rows]
    places = np.arange(len(rows))[::-1]
    colours = [common.GREEN if row.kind == "value" else common.BLUE for row in rows]
    peaks = [row.peak_bytes / MIB for row in rows]
    bars = left.barh(places, peaks, color=colours, height=0.6)
    for place, row in zip(places, rows, strict=True):
        mark = [row.budget / MIB] * 2
        left.plot(mark, [place - 0.4, place + 0.4], color=common.VERMILION, linewidth=2.5)
    left.plot([], [], color=common.VERMILION, linewidth=2.5, label="budget")
    left.bar_label(bars, [f"{peak:.0f}" for peak in peaks], padding=3, fontsize=9)
    left.set(xlabel="MiB", title="Peak resident memory, and the budget")
    left.set_yticks(places, names)
    left.legend(frameon=False, fontsize=8, loc="lower right")
    rates = [leaves / row.seconds.median / 1e6 for row in rows]
    ranges = [(leaves / max(row.seconds.values) / 1e6, leaves / min(row.seconds.values) / 1e6) for row in rows]
    errors = np.array([[rate - low, high - rate] for rate, (low, high) in zip(rates, ranges, strict=True)]).T
    bars = right.barh(places, rates, xerr=errors, color=colours, ecolor=common.GREY, capsize=3, height=0.6)
    right.bar_label(bars, [f"{rate:.2f}" for rate in rates], label_type="center", color="white", fontsize=9)
    right.set(xlabel="million sequences a second", title=f"Speed over {leaves / 1e6:.1f} million sequences")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)
    return common.save_figure(settings, picture, "big_tree", "peak memory against the budget, and speed")
