"""The page of the reproduction: tables, figures and what they say, every sentence from the stored results."""

import textwrap
from typing import Any

from . import table
from .figures import FIGURES
from .layouts import RECONSTRUCTION, reading_overlap
from .published import BASELINE_BELOW_BITS, BASELINE_FAILS_FROM, DETECTION, LATER, PAPER, THRESHOLD, PaperResult
from .store import Settings

Results = dict[str, Any]
PREFIX = "reproduction"


def page(results: Results, settings: Settings) -> str:
    """`reproduction.md`, with the figures beside it in `figures/`."""
    parts = (_head(settings), _numbers(results), _convergence(results), _baseline(results), _conclusions(results),
             _layout(results), _readings(results), _later(results))  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _picture(name: str) -> str:
    return f"![{FIGURES[name][1]}](figures/{PREFIX}-{name}.png)"


def _prose(text: str, indent: str = "") -> str:
    """A paragraph with lines of the house's width; blanks and line breaks in the text mean nothing."""
    return textwrap.fill(" ".join(text.split()), 120, subsequent_indent=indent, break_on_hyphens=False,
                         break_long_words=False)  # fmt: skip


def _point(text: str) -> str:
    """An entry of a list."""
    return _prose(f"- {text}", "  ")


def _table(headings: list[str], rows: table.Rows, without: str) -> str:
    """A table without the columns whose heading contains a word."""
    kept = [number for number, heading in enumerate(headings) if without not in heading]
    return table.markdown([headings[number] for number in kept], [[row[number] for number in kept] for row in rows])


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _sections(*parts: str) -> str:
    return "\n\n".join(parts)


def _head(settings: Settings) -> str:
    asked = f'make reproduce ARGS="{"--quick " if settings.quick else ""}--seed {settings.seed}"'
    short = "This was a quick run: fewer starts, iterations and layouts than the full one." if settings.quick else ""
    return _sections(
        "# The paper reproduced",
        _prose(
            f"""Every experiment of *Information-Theoretic Opacity-Enforcement in Markov Decision Processes* (IJCAI 2024), from
            the scenario to the figures. `{asked}` writes this page, the same each time with this seed on the same
            machine. {short}"""
        ),
        _prose(
            """Opacity is in bits, exact over every observation sequence. A *certificate* [a, b] is verified: this policy
            hides at least a bits, and every policy with that return hides at most b. With `--json` the command prints all
            tables, with estimates from 20,000 runs beside the exact values."""
        ),
    )


def _numbers(results: Results) -> str:
    points = [_beside(paper, results) for paper in PAPER]
    points.append("The layout of the paper's grid is not known (see below), so the digits cannot agree exactly.")
    return _sections(
        "## The paper's numbers beside ours",
        _table(table.PAPER_HEADINGS, table.paper_rows(results), without="sampled"),
        "\n".join(map(_point, points)),
    )


def _beside(paper: PaperResult, results: Results) -> str:
    """How the paper's number compares with ours, and with what is proven on the reconstruction."""
    found = results[f"planned-{paper.key}"]
    best, climbed = found["at_threshold"], results[f"convergence-{paper.key}"]["answer"]
    text = f"""*{_capital(paper.words)}*: the paper reports {paper.bits:.3f}. On the reconstruction its algorithm reaches
        {climbed["bits"]:.3f} and the default search {best["bits"]:.3f} at return ≥ {THRESHOLD:g}."""
    same = found.get("at_paper_return")
    upper = (same or best)["upper"]
    if same is not None:
        text += f" At the paper's own return, {paper.expected_return:.3f}, ours is {same['bits']:.3f}."
        if same["bits"] < paper.bits <= upper:
            text += f""" That is less than the paper's: no stationary policy was found that hides as much on the
                reconstruction; the proven upper bound over all policies is {table.at_most(upper)}."""
    if paper.bits > upper:
        text += f""" No policy hides {paper.bits:.3f} bits there (proven: at most {table.at_most(upper)}), so the
            paper's grid differs from the reconstruction, or its number, an estimate without a stated error, is
            slightly too high."""
    return text


def _convergence(results: Results) -> str:
    settings = results["convergence-last"]["settings"]
    ends = [
        f"{paper.words} {last['bits']:.3f} bits at return {last['return']:.3f}"
        for paper in PAPER
        if (last := results[f"convergence-{paper.key}"]["last"])
    ]
    return _sections(
        "## Convergence of the primal-dual method",
        _picture("convergence"),
        _prose(
            f"""The paper's algorithm: softmax policy, plain steps, gradients from {settings["sequences"]:,} sampled runs per
            iteration, η = {settings["step"]:g} (the paper gives no step sizes). Lines are exact values of the iterates, dots
            estimates from 1,000 new runs. The last iterates: {"; ".join(ends)}. The iterates oscillate around the threshold;
            the table above has the best one that meets it."""
        ),
    )


def _baseline(results: Results) -> str:
    last = results["baseline"]["last"]
    most = max(point["bits"] for point in last)
    missing = [point["temperature"] for point in last if point["return"] < THRESHOLD]
    initial = [point["bits"] for point in results["baseline"]["initial"]]
    below = "below" if most < BASELINE_BELOW_BITS else "not below"
    since = f"missed from τ = {min(missing):.2f} on" if missing else "never missed"
    return _sections(
        "## Comparison with entropy-regularised policies",
        _picture("baseline"),
        _prose(
            f"""Soft value iteration with discount 0.9, τ in reward per nat. Last state: at most {most:.3f} bits, {below} the
            paper's {BASELINE_BELOW_BITS:g}; the threshold {THRESHOLD:g} is {since} (paper: {BASELINE_FAILS_FROM:g}). Initial
            state: between {min(initial):.3f} and {max(initial):.3f} bits."""
        ),
    )


def _conclusions(results: Results) -> str:
    counts = table.conclusions(results)
    total = counts["layouts"]
    points = [
        f"""*{_capital(paper.words)}*: this holds on **{counts[f"{paper.key}_holds"]} of {total}**
        layouts{_least_lead(results, paper)}; one policy at return ≥ {THRESHOLD:g} hides more than the baseline at
        every τ on {counts[f"{paper.key}_tops"]} of {total}."""
        for paper in PAPER
    ]
    return _sections(
        "## The paper's two conclusions",
        _prose(
            f"""The paper concludes that its method beats every baseline, for last-state and for initial-state opacity. Checked
            strictly, on the reconstruction and on {total - 1} other layouts: for each τ there must be a stationary policy of
            ours that hides more **and** earns at least as much."""
        ),
        "\n".join(map(_point, points)),
    )


def _least_lead(results: Results, paper: PaperResult) -> str:
    """By how many bits ours wins at least, over all layouts and τ; nothing if it does not."""
    beaten = [lead for _, found in table.contests(results) for lead in found[paper.key]["beaten"]]
    return "" if None in beaten else f", by at least {min(beaten):.4f} bits"


def _layout(results: Results) -> str:
    overlap = reading_overlap(RECONSTRUCTION.initial_state())
    return _sections(
        "## The layout is a reconstruction",
        _prose(
            """The paper's text does not have its picture of the grid, so this layout is a reconstruction:
            `gallery:paper-last-state` and `gallery:paper-initial-state`."""
        ),
        _picture("grid"),
        _prose(
            """Flags are goals, the disc is the start of the last-state problem, dots are the four corners. The layout satisfies
            every statement of the text; the discount (1 for the return), the size of each range and all positions are
            chosen."""
        ),
        table.markdown(["the text", "the reconstruction"], _constraints(overlap), right=False),
        "### How much depends on it",
        _picture("layouts"),
        _prose(
            f"""Of {results["layouts"]["drawn"]:,} random layouts the first {len(results["layouts"]["layouts"])} that meet all
            of the above are used. In each, three corners lie in separate ranges and one is uncovered: with all four covered
            no policy could hide more than $H(S_0\\mid O_0) = 0.2$ bits, and the paper reports {PAPER[1].bits}. Searches are
            shorter than for the first table."""
        ),
        _prose(_sensitivity(results)),
        _picture("layout-grids"),
    )


def _constraints(overlap: float) -> list[list[str]]:
    return [
        ["6×6 cells, corners (0,0), (0,5), (5,0), (5,5)", "the same; the text names no walls, and there are none"],
        [
            "four moves and staying; 0.1 to each side; a move into the boundary stays in place",
            "the same; staying does not slip",
        ],
        [f"four sensors with distinct ranges, detection {DETECTION:g}, else nothing", "four disjoint ranges"],
        ["secret states (question marks) and goals (flags), in the plural", "three secrets, two goals"],
        [
            f"reward 0.1 in a goal, which may be visited again; T = 10, δ = {THRESHOLD:g}",
            "paid for each of ten decisions",
        ],
        ["a fixed start for the last state; the corners, equally likely, for the initial state", "(3, 1); the corners"],
        [
            "initial states give different readings with high probability",
            f"two corners give the same reading with probability {overlap:.2f} at most",
        ],
        ["the baseline stays below 0.4 bits and misses δ from τ = 0.03 on", "it does: see the baseline above"],
    ]


def _sensitivity(results: Results) -> str:
    """What the spread says, as far as the results bear it out."""
    counts = table.conclusions(results)
    firm = all(counts[f"{paper.key}_holds"] == counts["layouts"] for paper in PAPER)
    spans = [
        f"{paper.words} {min(own):.2f} to {max(own):.2f}"
        for paper in PAPER
        if (own := [found[paper.key]["ours"][0]["bits"] for _, found in table.contests(results)[1:]])
    ]
    text = f"""So the numbers depend on the layout (ours, {"; ".join(spans)} bits; 0.3722 is an upper bound for the
        initial state if three corners are covered and $o_0$ is seen)"""
    return text + (", and the conclusions do not." if firm else "; the conclusions hold on most of them.")


def _readings(results: Results) -> str:
    found = results["readings"]
    unseen, literal = found["unseen"], found["literal"]
    verdict = "negative, which an entropy cannot be" if literal["literal"] < 0 else "not an entropy either"
    readings = (
        """1. **$o_0$ is seen**: $H(S_0\\mid O_0,\\dots,O_T)$, the paper's definition, used everywhere else on this page.""",
        f"""2. **$o_0$ is not seen**: $H(S_0\\mid O_1,\\dots,O_T)$, which the paper's formulas give if their posterior is
        normalised. The best stationary policy found hides {table.bits(unseen["bits"])} bits (sampled
        {table.estimate(unseen["sampled_bits"], unseen["sampled_bits_error"])}, certificate
        {table.enclosure(unseen["lower"], unseen["upper"])}) at return {unseen["return"]:.4f}.""",
        f"""3. **The formulas as printed**: $\\mu_0(s_0)\\, \\beta_0(s_0) / P(y)$, with β without $o_0$ and $P(y)$ with it.
        This is not a distribution. Maximising it with the paper's algorithm and exact
        gradients ends at {table.bits(literal["literal"])} (sampled
        {table.estimate(literal["sampled"], literal["sampled_error"])}) at return {literal["return"]:.4f}: {verdict}.""",
    )
    near = min(("seen", "unseen", "literal"), key=lambda name: abs(_largest(results, name) - PAPER[1].bits))
    words = {"seen": "first", "unseen": "second", "literal": "third"}[near]
    return _sections(
        "## The initial-state number in three readings",
        _prose(
            """The paper defines β with the observation of its time but computes it without, so its $P(y\\mid s_0)$ omits $o_0$.
            Three readings:"""
        ),
        "\n".join(_prose(text, "   ") for text in readings),
        table.markdown(table.READING_HEADINGS, table.reading_rows(results)),
        f"The {words} reading is the one whose best value lies nearest to the paper's {PAPER[1].bits:.3f}.",
    )


def _largest(results: Results, reading: str) -> float:
    """The largest value of a reading over the policies of its table."""
    return max(three[reading] for three in results["readings"]["policies"])


def _later(results: Results) -> str:
    runs = [run for run in LATER if run.key in results]
    better = sum(results[run.key]["markov"]["bits"] > run.bits for run in runs)
    return _sections(
        "## The authors' later grid",
        _prose(
            """This grid is known exactly. The published policies are stationary; ours are searched at the same return, each in
            seconds to a minute."""
        ),
        _picture("later"),
        _table(table.LATER_HEADINGS, table.later_rows(results), without="sampled"),
        _prose(
            f"""On {better} of {len(runs)} our best stationary policy hides more than the published one at the same
            return or a higher one. *History*: the best history policy, whose agent must see what the observer
            sees. The gradient behind the published initial-state policies has a defect (a buffer is not cleared between two
            passes)."""
        ),
    )
