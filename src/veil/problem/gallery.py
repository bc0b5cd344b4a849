"""The gallery: named problems ready to load, from two rooms to the grids of the paper and its authors' later one."""

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..common.errors import InputError
from .gallery_scenes import badge_doors, convoy_checkpoint, courier_depots, network_probe, office_patrol
from .grid.world import GridWorld, Sensor
from .model import Model
from .observer import Observer
from .problem import Problem
from .secrets.initial_state import InitialState
from .secrets.last_state import LastState


def names() -> tuple[str, ...]:
    """The names of all problems in the gallery."""
    return tuple(_ENTRIES)


def describe(name: str) -> str:
    """One line on a problem of the gallery; the whole story is in the docstring of its function."""
    return (_entry(name).__doc__ or "").splitlines()[0]


def load(name: str, **options: Any) -> Problem:
    """A problem of the gallery.

    **Arguments:** `name`, one of `names()`; `options`, what its function takes by keyword, as `horizon=8` or
    `min_return=None`.

    **Raises:** `InputError` for an unknown name or option, with those that are near.
    """
    build = _entry(name)
    known = list(inspect.signature(build).parameters)
    unknown = [f"unknown option {option!r}: {_near(option, known)}" for option in options if option not in known]
    if unknown:
        raise InputError(f"gallery problem {name!r}", unknown)
    return build(**options)


def two_rooms(*, min_return: float | str | None = 0.75, detection: float = 0.75) -> Problem:
    """Two rooms, one step, one sensor that misses a quarter: small enough to work out by hand.

    The story: someone in the office either stays or goes into the vault (`go` also leads back). Ending in the vault
    pays 1. Who watches: a sensor in the vault, which beeps with probability 3/4 when somebody is there, and never
    otherwise. What is secret: `LastState`: is it the vault in the end.

    By hand, for the probability p of `go` in the office. The first observation is silence, always. Then

        P(vault, beep) = 3p/4      P(vault, silence) = p/4      P(office, silence) = 1 - p

    A beep settles it. After silence, of probability 1 - 3p/4, the vault has probability (p/4) / (1 - 3p/4), so

        H(Z|Y) = (1 - 3p/4) · h((p/4) / (1 - 3p/4)),     h(x) = -x log2 x - (1-x) log2(1-x),     return = p.

    Uniform policy, p = 1/2: silence has probability 5/8 and then the vault 1/5, so H(Z|Y) = 5/8 · h(1/5) =
    5/8 · log2 5 - 1 = 0.451205 bits, at return 1/2. H is largest, 0.4650, at p = 0.603; the threshold 0.75
    on the return asks for p ≥ 3/4, of which p = 3/4 is best: 7/16 · h(3/7) = 0.431037 bits.
    """
    model = Model.from_entries(
        [
            ("office", "stay", "office", 1.0),
            ("office", "go", "vault", 1.0),
            ("vault", "stay", "vault", 1.0),
            ("vault", "go", "office", 1.0),
        ],
        {},
        "office",
        terminal_rewards={"vault": 1.0},
    )
    observer = Observer(
        [[1, 0], [1 - detection, detection]], ["0", "beep"], silent="0", sensors={"vault": {"beep": "0"}}
    )
    return Problem(model, observer, LastState(["vault"]), 1, min_return, name="two-rooms")


_PAPER_SENSORS = "bryg"  # the paper's letters for the blue, red, yellow and green ranges
_PAPER_DRAWING = """
    b  b  .  G  .  r
    .  .  .  ?  .  r
    .  .  .  .  .  .
    .  S  .  g  g  G
    y  .  ?  g  g  .
    y  .  .  .  ?  .
"""


def _paper_sensors(detection: float, false_alarm: float = 0.0) -> Mapping[str, Mapping[str, Any]]:
    return {sign: {"detection": detection, "false_alarm": false_alarm} for sign in _PAPER_SENSORS}


def paper_last_state(
    *, horizon: int = 10, min_return: float | str | None = 0.3, detection: float = 0.9, sees_initial: bool = True
) -> Problem:
    """The paper's 6×6 grid (our frozen reconstruction): is the robot on a secret cell at the end.

    The story: a robot starts at (3, 1), collects 0.1 for each decision taken in a goal, and must reach 0.3 on average.
    Who watches: four sensors with detection 0.9 and no false alarms. What is secret: `LastState`: is `s_10` in one of
    three cells. The picture of the grid is not in the paper's text; this layout meets all that the text states.
    """
    world = GridWorld.from_ascii(_PAPER_DRAWING, sensors=_paper_sensors(detection), goal_reward=0.1)
    return world.problem(horizon, min_return=min_return, sees_initial=sees_initial, name="paper-last-state")


def paper_initial_state(
    *, horizon: int = 10, min_return: float | str | None = 0.3, detection: float = 0.9, sees_initial: bool = True
) -> Problem:
    """The paper's 6×6 grid (our frozen reconstruction): in which of the four corners did the robot start.

    The story, the sensors and the goals are those of `paper-last-state`; the robot starts in each corner with
    probability 1/4. What is secret: `InitialState`: the corner. Three corners are covered by sensors of their own, so
    much is lost with the first observation; `sees_initial=False` leaves it out.
    """
    drawing = """
        bS b  .  G  .  rS
        .  .  .  ?  .  r
        .  .  .  .  .  .
        .  .  .  g  g  G
        y  .  ?  g  g  .
        yS .  .  .  ?  S
    """
    world = GridWorld.from_ascii(drawing, sensors=_paper_sensors(detection), goal_reward=0.1)
    return world.problem(
        horizon, secret=InitialState(), min_return=min_return, sees_initial=sees_initial, name="paper-initial-state"
    )


def paper_false_alarms(
    *, horizon: int = 10, min_return: float | str | None = 0.3, detection: float = 0.9, false_alarm: float = 0.01
) -> Problem:
    """The paper's last-state problem with 1% false alarms of every sensor: five symbols, every history possible.

    As `paper-last-state`, but where a sensor does not cover the robot it reports all the same with probability 0.01, at
    most one sensor a step. All 5^11 = 48,828,125 histories can occur, which is more than exact enumeration should
    walk through: a problem for brackets and sampling.
    """
    sensors = _paper_sensors(detection, false_alarm)
    world = GridWorld.from_ascii(_PAPER_DRAWING, sensors=sensors, goal_reward=0.1, readings="single")
    return world.problem(horizon, min_return=min_return, name="paper-false-alarms")


def _numbered(*cells: int) -> list[tuple[int, int]]:
    return [divmod(cell, 6) for cell in cells]


def _later_world(starts: Sequence[int], detection: float) -> GridWorld:
    ranges = {
        "A": _numbered(3, 4, 9, 10),
        "B": _numbered(21, 22, 27, 28, 33, 34),
        "C": _numbered(23, 29, 35),
        "D": _numbered(6, 7, 8, 12, 13, 14),
        "E": _numbered(20),
    }
    return GridWorld(
        6,
        6,
        walls=_numbered(17, 19),
        stay=False,
        starts=_numbered(*starts),
        goals=dict.fromkeys(_numbered(11, 22), 1.0),
        goals_pay_last=True,
        secrets=_numbered(9, 20, 23),
        absorbing=_numbered(1, 15, 21, 25, 35, 9, 20, 23),
        sensors=[Sensor(name, cells, detection) for name, cells in ranges.items()],
    )


def later_last_state(
    *, horizon: int = 11, min_return: float | str | None = 0.308, detection: float = 0.85, sees_initial: bool = True
) -> Problem:
    """The authors' later 6×6 grid, known exactly: does the robot end in one of the three targets.

    The story: a robot starts on the west side, on a grid with two obstacles, five traps and three targets that keep who
    enters them; 1 for each of the 12 states `s_0 … s_11` spent in one of two goals. Who watches: five sensors with
    detection 0.85. What is secret: `LastState`: is `s_11` a target. Cells are numbered 6·row + column there. The
    published policy with this return leaves 0.5993 bits.
    """
    world = _later_world((0, 6, 12, 18, 24, 30), detection)
    return world.problem(horizon, min_return=min_return, sees_initial=sees_initial, name="later-last-state")


def later_initial_state(
    *, horizon: int = 11, min_return: float | str | None = 0.6054, detection: float = 0.85, sees_initial: bool = True
) -> Problem:
    """The authors' later 6×6 grid, known exactly: from which of three cells did the robot start.

    The grid of `later-last-state`, with starts in cells 0, 18 and 30, equally likely. What is secret: `InitialState`:
    which of them. The published policy with this return leaves 0.6095 bits.
    """
    world = _later_world((0, 18, 30), detection)
    return world.problem(
        horizon, secret=InitialState(), min_return=min_return, sees_initial=sees_initial, name="later-initial-state"
    )


_ENTRIES: dict[str, Callable[..., Problem]] = {
    "two-rooms": two_rooms,
    "paper-last-state": paper_last_state,
    "paper-initial-state": paper_initial_state,
    "paper-false-alarms": paper_false_alarms,
    "later-last-state": later_last_state,
    "later-initial-state": later_initial_state,
    "office-patrol": office_patrol,
    "courier-depots": courier_depots,
    "network-probe": network_probe,
    "badge-doors": badge_doors,
    "convoy-checkpoint": convoy_checkpoint,
}


def _entry(name: str) -> Callable[..., Problem]:
    if name not in _ENTRIES:
        raise InputError("gallery", [f"unknown problem {name!r}: {_near(name, list(_ENTRIES))}"])
    return _ENTRIES[name]


def _near(name: object, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(map(repr, known))}"
