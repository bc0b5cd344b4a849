"""Exact value and gradient on the grids of the paper and of its authors' later work, beside the paper's recursion."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tests.paper_recursion import paper_gradient

import veil
from benchmarks import common
from benchmarks.common import Measured, Sample, Settings, mib_text, ratio_text, say, seconds_text

TITLE = "exact opacity and its gradient, beside the paper's recursion"
HORIZONS = range(6, 13)
CASES = [("paper-last-state", horizon) for horizon in HORIZONS]
CASES += [("paper-initial-state", 10), ("later-last-state", 11), ("later-initial-state", 11)]
RECURSION_SECONDS = 60.0  # a row of the recursion that would take longer is left out
_PROBE = 400  # sequences that the forecast is made from
# The recursion gets its sequences in slices whose derivatives stay in the cache: the best of 5, 10, 20, 40, 80 and 160,
# and 2.6 times faster or more than its own chunks of thousands.
_SLICE = 40
_MEMORY_SEQUENCES = 4_000  # a hundred slices show the recursion's peak


@dataclass(frozen=True)
class Row:
    """What was measured on one problem. The recursion's fields are None where it was left out."""

    name: str
    horizon: int
    num_sequences: int
    times: dict[str, Sample]
    memory: dict[str, Measured]
    forecast: float
    difference: float | None

    @property
    def ratio(self) -> Sample | None:
        return self.times["paper"].over(self.times["gradient"]) if "paper" in self.times else None


class Case:
    """One problem under one softmax policy, ready for both contenders."""

    def __init__(self, name: str, horizon: int):
        self.problem = veil.gallery.load(name).replace(horizon=horizon)
        shape = self.problem.num_cells, self.problem.num_actions
        self.theta = np.random.default_rng(0).normal(size=shape)
        self.policy = veil.MarkovPolicy.softmax(self.theta, self.problem)

    def value(self) -> veil.Opacity:
        return veil.opacity(self.problem, self.policy, method="exact")

    def gradient(self) -> tuple[veil.Opacity, np.ndarray]:
        return veil.opacity_gradient(self.problem, self.theta, method="exact")

    def sequences(self) -> np.ndarray:
        return veil.measures.joint_table(self.problem, self.policy).events

    def recursion(self, sequences: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient by the paper's recursion: sums over sequences, so over slices of them too."""
        model = self.problem.model
        transitions = np.stack([matrix.toarray() for matrix in model.matrices], axis=1)
        inside = np.flatnonzero(self.problem.secret_table.label[0, 0] == 1).tolist()
        secret: Any = "initial" if isinstance(self.problem.secret, veil.InitialState) else inside
        arrays = transitions, self.problem.observer.emissions, model.initial, self.theta
        bits, gradient = 0.0, np.zeros_like(self.theta)
        for begin in range(0, len(sequences), _SLICE):
            part = paper_gradient(*arrays, sequences[begin : begin + _SLICE], secret)
            bits, gradient = bits + part.bits, gradient + part.gradient
        return bits, gradient


def work(kind: str, name: str, horizon: int) -> Callable[[], Any]:
    """What a process of its own does, for the peak memory of one contender."""
    case = Case(name, horizon)
    if kind == "paper":
        sequences = case.sequences()[:_MEMORY_SEQUENCES]
        return lambda: case.recursion(sequences)[0]
    return lambda: (case.value() if kind == "value" else case.gradient()[0]).bits


def measure(name: str, horizon: int, settings: Settings) -> Row:
    case = Case(name, horizon)
    result, gradient = case.gradient()
    sequences = case.sequences()
    assert len(sequences) == result.num_sequences
    probe = sequences[np.linspace(0, len(sequences) - 1, min(_PROBE, len(sequences))).astype(int)]
    case.recursion(probe)
    forecast = common.clock(lambda: case.recursion(probe)) / len(probe) * len(sequences)
    contenders: dict[str, Callable[[], Any]] = {"value": case.value, "gradient": case.gradient}
    difference = None
    if forecast <= RECURSION_SECONDS:
        found: list[np.ndarray] = []
        contenders["paper"] = lambda: found.append(case.recursion(sequences)[1])
        times = common.take_turns(contenders, settings.rounds(forecast))
        difference = common.relative_difference(gradient, found[-1])
    else:
        times = common.take_turns(contenders, settings.rounds(0))
    memory = {kind: common.in_subprocess(work, kind=kind, name=name, horizon=horizon) for kind in contenders}
    return Row(name, horizon, len(sequences), times, memory, forecast, difference)


def run(settings: Settings) -> str:
    rows = []
    for number, (name, horizon) in enumerate(CASES, 1):
        say(f"exact {number}/{len(CASES)}: {name}, T = {horizon}")
        row = measure(name, horizon, settings)
        ratio = "recursion left out" if row.ratio is None else f"recursion {ratio_text(row.ratio.median)} slower"
        say(f"  {row.num_sequences:,} sequences, gradient {seconds_text(row.times['gradient'].median)}, {ratio}")
        rows.append(row)
    return report(rows, settings)


def report(rows: list[Row], settings: Settings) -> str:
    header = ["problem", "T", "sequences", "value", "value + gradient", "recursion", "recursion / veil", "difference"]
    table = common.markdown_table(header, [cells(row) for row in rows])
    peaks = common.markdown_table(
        ["peak memory", "T", "value", "value + gradient", "recursion"],
        [[row.name, str(row.horizon), *(peak(row, key) for key in ("value", "gradient", "paper"))] for row in rows],
    )
    before = max(work.before_bytes for row in rows for key, work in row.memory.items() if key != "paper")
    rounds = [len(row.times["gradient"].values) for row in rows]
    skipped = [f"{row.name} T = {row.horizon}" for row in rows if row.difference is None]
    notes = "One BLAS thread each unless the line above says more. "
    notes += (
        f"Of the recursion were left out: {', '.join(skipped)}"
        if skipped
        else "No row of the recursion had to be left out"
    )
    notes += f" (limit {RECURSION_SECONDS:.0f} s)."
    return f"""\
Softmax policy with random parameters (normal, seed 0). *Value* is `veil.opacity(…, method="exact")`, *value + gradient*
`veil.opacity_gradient(…, method="exact")`, both from the problem to the answer, the checks and the count of the tree
included. *Recursion* is the paper's forward-gradient recursion (value and gradient) in batched NumPy,
`tests/paper_recursion.py`, in slices of {_SLICE} sequences, at which it is fastest; it is handed the list of possible
sequences, free of charge, and would else run over all `O^(T+1)`. {notes}

{table}

Median of {min(rounds)} to {max(rounds)} rounds, contenders in turn, range in brackets; the ratio, recursion over value +
gradient, is taken within each round. Difference: the largest difference of the two gradients in any coordinate, over
the largest coordinate.

{peaks}

Peak memory: the most resident memory (`VmHWM`) of a process that does only this, once; interpreter and libraries are
about {mib_text(before)} of it. The recursion's does not grow with their number beyond a slice; it was
measured on at most {_MEMORY_SEQUENCES:,} sequences.

{figure(rows, settings)}
"""


def cells(row: Row) -> list[str]:
    ratio = row.ratio
    return [
        row.name,
        str(row.horizon),
        f"{row.num_sequences:,}",
        row.times["value"].text(seconds_text),
        row.times["gradient"].text(seconds_text),
        row.times["paper"].text(seconds_text) if ratio else f"left out (forecast {seconds_text(row.forecast)})",
        ratio.text(ratio_text) if ratio else "–",
        "–" if row.difference is None else f"{row.difference:.1e}",
    ]


def peak(row: Row, key: str) -> str:
    return mib_text(row.memory[key].peak_bytes) if key in row.memory else "–"


def figure(rows: list[Row], settings: Settings) -> str:
    """Times and ratios on the paper's last-state problem, against the horizon."""
    rows = [row for row in rows if row.name == "paper-last-state"]
    picture = Figure(figsize=(8.2, 3.4), layout="constrained")
    left, right = picture.subplots(1, 2)
    lines = [
        ("paper", "paper's recursion", common.VERMILION, "s"),
        ("gradient", "veil, value + gradient", common.BLUE, "o"),
        ("value", "veil, value", common.GREEN, "^"),
    ]
    for key, label, colour, marker in lines:
        shown = [(row.horizon, row.times[key]) for row in rows if key in row.times]
        horizons, samples = [t for t, _ in shown], [sample for _, sample in shown]
        left.plot(horizons, [s.median for s in samples], color=colour, marker=marker, label=label)
        low, high = [min(s.values) for s in samples], [max(s.values) for s in samples]
        left.fill_between(horizons, low, high, color=colour, alpha=0.2, linewidth=0)
    left.set(yscale="log", xlabel="horizon T", ylabel="seconds", title="Time (median; band: range over rounds)")
    left.set_ylim(top=left.get_ylim()[1] * 8)
    left.legend(frameon=False, fontsize=8, loc="upper left")
    shown = [(row.horizon, row.ratio) for row in rows if row.ratio is not None]
    horizons, medians = [t for t, _ in shown], [ratio.median for _, ratio in shown]
    errors = np.array([[m - min(r.values), max(r.values) - m] for (_, r), m in zip(shown, medians, strict=True)]).T
    bars = right.bar(horizons, medians, yerr=errors, color=common.BLUE, ecolor=common.GREY, capsize=3, width=0.7)
    texts = [f"{ratio:.0f}" for ratio in medians]
    right.bar_label(bars, texts, padding=2, fontsize=9)
    right.margins(y=0.12)
    right.set(xlabel="horizon T", ylabel="recursion / veil", title="How many times faster the gradient is")
    for axes in (left, right):
        axes.set_xticks(list(HORIZONS))
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)
    return common.save_figure(settings, picture, "exact", "time and ratio against the horizon, paper-last-state")
