"""Draws `docs/figures/rooms.svg`: the rooms of the package in the order of imports, and the two walks through them.

Run `python docs/site/rooms.py` after a change here; a test compares the file with what this script draws.
"""

from pathlib import Path
from xml.sax.saxutils import escape

OUT = Path(__file__).parents[1] / "figures" / "rooms.svg"

# Name, the question the room answers, its main modules; a room imports from itself and from those above it.
ROOMS = (
    ("common", "shared by all rooms", "errors, checks, logs, clock, registry, files"),
    ("problem", "what is asked", "model, observer, secrets, problem, grid"),
    ("policy", "who acts", "markov, memory, history, load"),
    ("engine", "what the observer knows", "compile, chain, tree, joint, sequences, additive"),
    ("measure", "how much is hidden", "evaluate (veil.opacity), exact, bracket, sampled"),
    ("game", "the best of all policies", "enclose, solve, windows, responses, rules"),
    ("proof", "how good is it, provably", "certify (veil.certify), verify (veil.verify)"),
    ("planning", "how to hide more", "solve (veil.solve), search, ascent, primal_dual"),
    ("tradeoffs", "what hiding costs", "frontier, compare, design, soft"),
    ("querying", "where an observer looks", "problem (veil.Querying), best, responses"),
    ("formats", "files in and out", "scenario, gallery, results, pomdp, drn, prism"),
    ("learning", "what was recorded", "fit (veil.fit), logs, tables, hidden"),
    ("training", "an agent without a model", "train (veil.train), search, agent, observer, judge"),
    ("report", "what people look at", "html, plot (veil.plot), scene"),
    ("study", "many runs, many machines", "definition (veil.Study), drive, executors, table"),
    ("studio", "the same, live", "server, routes, state, runs, work, events"),
    ("cli", "the command veil", "one module for each group of commands"),
)
# The rooms of a walk in the order in which they are entered, with the label of each step.
SOLVE = (
    ("cli", "veil solve x.toml"),
    ("formats", "read the file"),
    ("problem", "Problem, checked"),
    ("planning", "search"),
    ("engine", "values and gradients"),
    ("measure", "opacity of the answer"),
    ("game", "upper bound"),
    ("proof", "certificate"),
    ("formats", "result folder"),
    ("report", "report.html"),
)
OPACITY = (
    ("measure", "settings"),
    ("engine", "chain, size, messages"),
    ("measure", "Opacity"),
)

ROW, TOP, LEFT, WIDTH = 46, 64, 20, 610
SOLVE_X, OPACITY_X, RIGHT = 654, 945, 1170
BLUE, GREEN, INK, GREY = "#0072B2", "#00785a", "#1b1f24", "#57606a"


def centre(room: str) -> float:
    """The height of the middle of a room."""
    return TOP + ROW * [name for name, _, _ in ROOMS].index(room) + ROW / 2 - 3


def text(x: float, y: float, words: str, size: float = 13, colour: str = INK, weight: str = "normal") -> str:
    """One line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{colour}" font-weight="{weight}">{escape(words)}</text>'
    )


def walk(x: float, stride: float, steps: tuple[tuple[str, str], ...], colour: str) -> list[str]:
    """A numbered point for each step at the height of its room, each a little to the right of the one before."""
    points = [(x + stride * number, centre(room)) for number, (room, _) in enumerate(steps)]
    path = " ".join(f"{px:g},{py:g}" for px, py in points)
    drawn = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6" opacity="0.5"/>']
    for number, ((px, py), (_, label)) in enumerate(zip(points, steps, strict=True), 1):
        drawn.append(f'<circle cx="{px:g}" cy="{py:g}" r="8.5" fill="{colour}"/>')
        digits = text(px, py + 3.8, str(number), 10.5, "#fff", "bold")
        drawn.append(digits.replace("<text ", '<text text-anchor="middle" '))
        drawn.append(text(px + 13, py + 4, label, 12, colour))
    return drawn


def draw() -> str:
    """The whole picture as SVG."""
    height = TOP + ROW * len(ROOMS) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT} {height}" width="{RIGHT}" height="{height}"'
        ' font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img"'
        ' aria-label="The rooms of veil in the order of imports, with two walks through them">',
        f'<rect width="{RIGHT}" height="{height}" rx="8" fill="#ffffff"/>',
        text(LEFT, 30, "src/veil: a room imports from itself and from the rooms above it", 15, INK, "bold"),
        text(SOLVE_X - 8, 30, "A scenario to its report", 14, BLUE, "bold"),
        text(OPACITY_X - 8, 30, "veil.opacity", 14, GREEN, "bold"),
    ]
    for number, (name, question, modules) in enumerate(ROOMS):
        y = TOP + ROW * number - 3
        shade = "#f6f8fa" if number % 2 else "#eef2f7"
        parts.append(
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{ROW - 6}" rx="5" fill="{shade}" stroke="#d0d7de"/>'
        )
        parts.append(text(LEFT + 14, y + 25, name, 15, INK, "bold"))
        parts.append(text(LEFT + 104, y + 25, question, 13, GREY))
        parts.append(text(LEFT + 292, y + 25, modules, 12, INK))
        parts.append(
            f'<line x1="{LEFT + WIDTH}" x2="{RIGHT - 20}" y1="{y + ROW - 3}" y2="{y + ROW - 3}" stroke="#eaeef2"/>'
        )
    parts += walk(SOLVE_X, 18, SOLVE, BLUE)
    parts += walk(OPACITY_X, 50, OPACITY, GREEN)
    parts.append(
        text(
            LEFT,
            height - 12,
            "Outside the package: tests (mirrors the rooms), benchmarks, reproduction, examples, docs.",
            12,
            GREY,
        )
    )
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    OUT.write_text(draw(), encoding="utf-8")
    print("wrote", OUT)
