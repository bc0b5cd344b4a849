"""The tables of the reproduction, as rows of text, from the stored results alone."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from .layouts import PaperGrid
from .published import LATER, PAPER, THRESHOLD

Results = dict[str, Any]
Rows = list[list[str]]

_NONE = "–"


def bits(value: float) -> str:
    """An exact number of bits."""
    return f"{value:.4f}"


def estimate(value: float, error: float) -> str:
    """A sampled estimate with its standard error."""
    return f"{value:.4f} ± {error:.4f}"


def enclosure(lower: float, upper: float) -> str:
    """What a certificate proves, rounded outwards; differences below a millionth are not shown."""
    return f"[{at_least(lower)}, {at_most(upper)}]"


def at_least(value: float) -> str:
    """A proven lower bound, rounded down."""
    return f"{math.floor(value * 1e4 + 0.01) / 1e4:.4f}"


def at_most(value: float) -> str:
    """A proven upper bound, rounded up."""
    return f"{math.ceil(value * 1e4 - 0.01) / 1e4:.4f}"


PAPER_HEADINGS = [
    "result", "paper", "ours, exact", "ours, sampled", "certificate", "return: paper", "exact", "sampled",
]  # fmt: skip


def paper_rows(results: Results) -> Rows:
    """The paper's two results beside ours: its own algorithm, the default search, and that at the paper's return."""
    rows = []
    for paper in PAPER:
        found, climbed = results[f"planned-{paper.key}"], results[f"convergence-{paper.key}"]
        lines = [("primal-dual, sampled gradients", climbed["answer"]), ("best stationary", found["at_threshold"])]
        if "at_paper_return" in found:
            lines.append((f"best stationary, return ≥ {paper.expected_return:.3f}", found["at_paper_return"]))
        for words, numbers in lines:
            told = [f"{paper.bits:.3f}", f"{paper.expected_return:.3f}"]
            rows.append([f"{paper.words}, {words}", told[0], *_secrecy(numbers), told[1], *_returned(numbers)])
    return rows


def _secrecy(numbers: dict[str, float]) -> list[str]:
    return [
        bits(numbers["bits"]),
        estimate(numbers["sampled_bits"], numbers["sampled_bits_error"]),
        enclosure(numbers["lower"], numbers["upper"]),
    ]


def _returned(numbers: dict[str, float]) -> list[str]:
    return [bits(numbers["return"]), estimate(numbers["sampled_return"], numbers["sampled_return_error"])]


BASELINE_HEADINGS = ["τ", "last state, bits", "return", "initial state, bits", "return"]


def baseline_rows(results: Results) -> Rows:
    """The baseline at each temperature: both opacities and both values."""
    rows = []
    for pair in zip(*(results["baseline"][paper.key] for paper in PAPER), strict=True):
        row = [f"{pair[0]['temperature']:.2f}"]
        for numbers in pair:
            row += [bits(numbers["bits"]), _met(numbers["return"])]
        rows.append(row)
    return rows


def _met(value: float) -> str:
    """A return, marked where it misses the threshold."""
    return f"{value:.4f}" if value >= THRESHOLD else f"{value:.4f} (misses)"


LATER_HEADINGS = [
    "published policy", "return", "published", "their time", "ours, stationary", "sampled", "certificate", "time-dependent",
    "history", "proven upper bound",
]  # fmt: skip


def later_rows(results: Results) -> Rows:
    """Published policies of the later grid beside ours at their return; those that a quick run leaves out are left out."""
    rows = []
    for run in LATER:
        found = results.get(run.key)
        if found is not None:
            larger = [bits(found["timed"]["bits"]), bits(found["history_bits"]), at_most(found["upper"])]
            ours = [*_secrecy(found["markov"]), *larger]
            rows.append([run.words, f"{run.expected_return:.4f}", bits(run.bits), run.hours, *ours])
    return rows


READING_HEADINGS = ["policy", "1: $o_0$ seen", "2: $o_0$ not seen", "3: formulas as printed", "return"]


def reading_rows(results: Results) -> Rows:
    """Each policy under the three readings of the initial-state number."""
    names = ("seen", "unseen", "literal", "return")
    return [[three["words"], *(bits(three[name]) for name in names)] for three in results["readings"]["policies"]]


CONTEST_HEADINGS = [
    "layout", "opacity", "ours at return ≥ 0.3", "baseline: most", "among those that meet 0.3",
    "least lead at equal or better return", "beats every τ", "above every τ with one policy",
]  # fmt: skip


def contests(results: Results) -> list[tuple[str, dict[str, Any]]]:
    """The reconstruction and the other layouts, in order, by name."""
    names = sorted(name for name in results if name.startswith("layout-"))
    return [("reconstruction" if name == "layout-00" else name[-2:].lstrip("0"), results[name]) for name in names]


def contest_rows(results: Results) -> Rows:
    """For each layout and opacity, ours against the baseline."""
    rows = []
    for title, found in contests(results):
        for paper in PAPER:
            one = found[paper.key]
            every = [point["bits"] for point in one["baseline"]]
            meeting = [point["bits"] for point in one["baseline"] if point["return"] >= THRESHOLD]
            lead = None if None in one["beaten"] else min(one["beaten"])
            rows.append(
                [
                    title,
                    paper.words,
                    bits(one["ours"][0]["bits"]),
                    bits(max(every)),
                    bits(max(meeting)) if meeting else _NONE,
                    _NONE if lead is None else f"{lead:+.4f}",
                    _yes(one["holds"]),
                    _yes(one["tops"]),
                ]
            )
    return rows


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


SPREAD_HEADINGS = ["over the other layouts", "least", "median", "most", "reconstruction", "paper"]


def spread_rows(results: Results) -> Rows:
    """How much the numbers move between layouts."""
    listed = contests(results)
    rows = []
    for paper in PAPER:
        for words, number, told in (
            ("ours at return ≥ 0.3", lambda one: one["ours"][0]["bits"], f"{paper.bits:.3f}"),
            ("baseline, most over τ", lambda one: max(point["bits"] for point in one["baseline"]), _NONE),
            ("largest return", lambda one: one["most"], _NONE),
        ):
            own, *others = [number(found[paper.key]) for _, found in listed]
            spread = [min(others), statistics.median(others), max(others), own]
            rows.append([f"{paper.words}: {words}", *map(bits, spread), told])
    return rows


def conclusions(results: Results) -> dict[str, int]:
    """On how many of the layouts, the reconstruction included, each of the paper's two conclusions holds."""
    found = [one for _, one in contests(results)]
    counts = {
        f"{paper.key}_{name}": sum(one[paper.key][name] for one in found)
        for paper in PAPER
        for name in ("holds", "tops")
    }
    return counts | {"layouts": len(found)}


def drawings(results: Results) -> list[tuple[str, PaperGrid]]:
    """The other layouts, by name."""
    listed = results["layouts"]["layouts"]
    return [(str(number), PaperGrid.from_document(document)) for number, document in enumerate(listed, 1)]


def markdown(headings: Sequence[str], rows: Rows, *, right: bool = True) -> str:
    """A table in Markdown, the first column to the left and the others, unless they are words, to the right."""
    lines = [list(headings), [":--", *["--:" if right else ":--"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
