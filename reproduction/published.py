"""What the authors published: the numbers to stand beside, and what their text states of the grid."""

from dataclasses import dataclass

GRID = 6
CORNERS = ((0, 0), (0, GRID - 1), (GRID - 1, 0), (GRID - 1, GRID - 1))
HORIZON, THRESHOLD, GOAL_REWARD, DETECTION = 10, 0.3, 0.1, 0.9

# "Remains below 0.4" and "when τ ≥ 0.03 … fails to satisfy the constraint on the total return".
BASELINE_BELOW_BITS = 0.4
BASELINE_FAILS_FROM = 0.03


@dataclass(frozen=True)
class PaperResult:
    """One of the paper's two results: the problem of the gallery it belongs to, bits and return as printed."""

    key: str
    problem: str
    words: str
    bits: float
    expected_return: float


PAPER = (
    PaperResult("last", "paper-last-state", "last state", 0.930, 0.328),
    PaperResult("initial", "paper-initial-state", "initial state", 0.329, 0.301),
)


@dataclass(frozen=True)
class LaterRun:
    """A policy that the authors published for their later grid: its exact bits and return, and their wall time."""

    key: str
    problem: str
    words: str
    bits: float
    expected_return: float
    hours: str


LATER = (
    LaterRun("later-last-5", "later-last-state", "last state, run 5", 0.5993, 0.3080, "5.0 h"),
    LaterRun("later-last-4", "later-last-state", "last state, run 4", 0.4198, 0.4563, "about 5 h"),
    LaterRun("later-last-6", "later-last-state", "last state, run 6", 0.2811, 0.6850, "about 5 h"),
    LaterRun("later-initial-2", "later-initial-state", "initial state, run 2", 0.6095, 0.6054, "4.3 to 4.5 h"),
    LaterRun("later-initial-3", "later-initial-state", "initial state, run 3", 0.5055, 0.7187, "8.6 h"),
)
