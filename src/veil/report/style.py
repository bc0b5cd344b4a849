"""How all figures look: colours that everybody can tell apart, sizes of a printed column, text that stays text."""

import io
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from ..common.errors import InputError
from ..common.files import file_errors, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.2  # inches: one and two columns of a journal
SMALL, NORMAL = 7.0, 8.0  # points

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, YELLOW = "#56B4E9", "#CC79A7", "#F0E442"
# Okabe and Ito's colours, which stay apart for all kinds of colour vision, in the order in which they are handed out.
PALETTE = (BLUE, VERMILION, ORANGE, GREEN, PURPLE, SKY, YELLOW)
MAROON = "#7F2704"
DARK, GREY, LIGHT, WALL = "#222222", "#777777", "#DDDDDD", "#555555"
# Sensors named after a colour, as those of the paper, are drawn in the nearest that everybody can tell apart.
_NAMED = {"b": BLUE, "blue": BLUE, "r": VERMILION, "red": VERMILION, "y": ORANGE, "yellow": ORANGE, "g": GREEN,
          "green": GREEN, "purple": PURPLE, "orange": ORANGE}  # fmt: skip
NAMES = {BLUE: "blue", VERMILION: "vermilion", ORANGE: "orange", GREEN: "green", PURPLE: "purple", SKY: "sky", YELLOW: "yellow",
         MAROON: "maroon", GREY: "muted"}  # fmt: skip
"""The page's variables for these colours, of which it has its own shades on light and dark paper."""
_METADATA = {
    "svg": {"Date": None, "Creator": "veil"},
    "pdf": {"CreationDate": None, "Creator": "veil"},
    "png": {"Software": "veil"},
}
_LONGEST = 28


def colours(names: "list[str]") -> list[str]:
    """A colour for each sensor or value: by its name where all are named after colours, else in order."""
    lowered = [name.lower() for name in names]
    if names and all(name in _NAMED for name in lowered):
        found = [_NAMED[name] for name in lowered]
        if len(set(found)) == len(found):
            return found
    return [PALETTE[number % len(PALETTE)] for number in range(len(names))]


def words(text: object, longest: int = _LONGEST) -> str:
    """A user's text as matplotlib shows it letter by letter: no formulas, no line breaks, not too long."""
    line = "".join(letter if letter.isprintable() else "�" for letter in str(text))
    return shortened(line, longest).replace("$", r"\$")


def shortened(text: str, longest: int = _LONGEST) -> str:
    """A text cut in the middle where it is long, since names often differ at their ends."""
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-(longest - 1 - half) :]}"


def number_text(value: float, digits: int = 4) -> str:
    """A number for people: a few digits, and no more noughts than needed."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "–"
    return f"{value:.{digits}g}".replace("-", "−")


def new_figure(width: float = COLUMN, height: float = 2.6) -> "Figure":
    """An empty figure outside any pyplot session.

    **Raises:** `InputError` where matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "plot", ["matplotlib is not installed, which figures need: pip install 'veil[plot]'"]
        ) from None
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure


def dress(axes: "Axes", *, xlabel: str = "", ylabel: str = "", title: str = "") -> None:
    """Axes in the house's form: two spines, small ticks, a grid that does not shout."""
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set(color=GREY, linewidth=0.6)
    axes.tick_params(labelsize=SMALL, color=GREY, width=0.6, length=2.5)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(xlabel, fontsize=NORMAL)
    axes.set_ylabel(ylabel, fontsize=NORMAL)
    if title:
        axes.set_title(title, fontsize=NORMAL, loc="left")


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as the ending says (pdf, png or svg), complete or not at all; the same figure, the same bytes.

    Text stays text in pdf and svg. **Raises:** `InputError` on another ending, or where it cannot be written.
    """
    from matplotlib import rc_context

    path = Path(path)
    ending = path.suffix[1:].lower()
    if ending not in _METADATA:
        raise InputError(str(path), [f"its ending is {path.suffix!r}, expected one of .pdf, .png and .svg"])
    content = io.BytesIO()
    kept = rc_context({"svg.fonttype": "none", "svg.hashsalt": "veil", "pdf.fonttype": 42, "ps.fonttype": 42})
    with kept, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # a name in a script the font lacks
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure.savefig(content, format=ending, dpi=300, metadata=_METADATA[ending])
    with file_errors(path, "it cannot be written"):
        write_whole(path, content.getvalue(), marker=b"veil")
