"""What `gradient` found, as tables and a figure."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import common
from benchmarks.common import Sample, Settings, ratio_text, seconds_text

HORIZON, SEQUENCES = 12, 2_000
CASES = {
    "sampled": "`paper-last-state`, sequences drawn under the policy",
    "alarms": "`paper-false-alarms`, sequences drawn under the policy",
    "unshared": "`paper-false-alarms`, every event drawn uniformly: only the first few steps are shared",
}
LABELS = {
    "veil": "veil",
    "products": "the 3·T products alone (NumPy)",
    "jax": "straight-line JAX, `jax.grad`",
    "dynamax": "dynamax's filter, `vmap`, `jax.grad`",
    "paper": "the paper's recursion (NumPy)",
}
SLICE = 40  # the recursion is fastest in slices of so many sequences
THREADS = (1, 2)


def report(found: dict[tuple[str, int], dict[str, Any]], settings: Settings) -> str:
    parts = []
    for kind, title in CASES.items():
        rows = []
        for name, label in LABELS.items():
            cells = [label]
            for threads in THREADS:
                times = found[kind, threads]["times"]
                known = name in times
                cells.append(times[name].text(seconds_text) if known else "not installed")
                cells.append(times[name].over(times["veil"]).text(ratio_text) if known else "–")
            difference = found[kind, 1]["differences"].get(name)
            rows.append([*cells, "–" if difference is None else f"{difference:.1e}"])
        header = ["", "1 thread", "of veil's time", "2 threads", "of veil's time", "difference"]
        share = f"{found[kind, 1]['share']:.0%} of the messages are left after sharing prefixes"
        parts.append(f"{title}; {share}:\n\n{common.markdown_table(header, rows)}")
    compiled = {key: value for result in found.values() for key, value in result["compiled"].items()}
    costs = ", ".join(f"{LABELS[name]} {seconds_text(value)}" for name, value in compiled.items())
    rounds = len(found["sampled", 1]["times"]["veil"].values)
    versus = "; ".join(
        f"{_of_products(found, kind, 1).text(ratio_text)} ({words})"
        for kind, words in (("sampled", "drawn"), ("alarms", "drawn, false alarms"), ("unshared", "little shared"))
    )
    busy = [value for key, result in found.items() if key[1] == 2 for value in result["busy"].values()]
    tables = "\n\n".join(parts)
    return f"""\
S = 36, A = 5, T = {HORIZON}, {SEQUENCES:,} sequences, random softmax policy (normal, seed 0). Everybody gets the same
sequences and goes from theta to the gradient in theta, in float64. *veil* is what the sampled gradient does with its events;
*recursion* the paper's, in slices of {SLICE} sequences, its best; *JAX* and *dynamax* differentiate the same surrogate with
the same baseline, jitted; their first calls, with compilation, are left out of the times ({costs}). *Products*: {3 * HORIZON}
of ({SEQUENCES:,}, 36) @ (36, 36). A ratio above 1: it takes that many times longer than veil.

{tables}

Median of {rounds} rounds, contenders in turn, range in brackets, ratios within a round; BLAS and XLA have the number of
threads that the column says. Difference: of the gradient from veil's, over the largest coordinate (the recursion has no
baseline: from veil's without it). veil's time over that of the products, one thread: {versus}. The cores were shared with
others: the processes with two threads got {min(busy):.1f} to {max(busy):.1f} processors, and where that is far below 2, BLAS
threads wait for each other and the column says more of the neighbours than of the contenders.

{figure(found, settings)}
"""


def _of_products(found: dict[tuple[str, int], dict[str, Any]], kind: str, threads: int) -> Sample:
    times = found[kind, threads]["times"]
    return times["veil"].over(times["products"])


def figure(found: dict[tuple[str, int], dict[str, Any]], settings: Settings) -> str:
    """The times of all contenders, one panel a set of sequences."""
    picture = Figure(figsize=(8.6, 3.2), layout="constrained")
    panels = picture.subplots(1, len(CASES), sharey=True, sharex=True)
    names = [name for name in LABELS if name in found["sampled", 1]["times"]]
    short = {"veil": "veil", "products": "3·T products", "jax": "JAX", "dynamax": "dynamax", "paper": "recursion"}
    titles = {"sampled": "Drawn sequences", "alarms": "Drawn, false alarms", "unshared": "Little shared"}
    places = np.arange(len(names))[::-1]
    for axes, kind in zip(panels, CASES, strict=True):
        for threads, colour, shift in ((1, common.BLUE, 0.2), (2, common.ORANGE, -0.2)):
            times = [found[kind, threads]["times"][name].median * 1e3 for name in names]
            bars = axes.barh(places + shift, times, 0.38, color=colour, label=f"{threads} thread{'s' * (threads > 1)}")
            axes.bar_label(
                bars, [f"{value:.3g}" if value < 100 else f"{value:,.0f}" for value in times], padding=2, fontsize=7
            )
        axes.set(xscale="log", xlabel="ms", title=titles[kind])
        axes.set_yticks(places, [short[name] for name in names])
        axes.margins(x=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)
    panels[0].legend(frameon=False, fontsize=8, loc="upper right")
    return common.save_figure(settings, picture, "gradient", "time of one gradient, all contenders")
