"""The game between agent and observer: which method closes the gap, bounds beside policies, horizon 60, 15 × 15 cells."""

import time
from dataclasses import dataclass
from itertools import product

import veil
from benchmarks.common import Settings, clock, markdown_table, say, seconds_text
from benchmarks.game_methods import race
from veil.common.clock import Clock
from veil.engine.return_range import threshold as wanted_return
from veil.game.bounds import Bounds
from veil.game.enclose import enclose
from veil.game.solve import solve_game

TITLE = "the game: methods, proven bounds beside policies, horizon 60, 15 × 15 cells"
GAPS = (1e-2, 2e-3, 1e-3)
RACES = (("paper-last-state", "90%"), ("later-last-state", 0.685))
RACE_SECONDS, BOUND_SECONDS, MARKOV_SECONDS, LONG_SECONDS, LARGE_SECONDS = 40.0, 180.0, 60.0, 300.0, 120.0
GAP, LONG_GAP, LONG_HORIZON = 2e-3, 0.02, 60


@dataclass(frozen=True)
class Asked:
    """A problem of the gallery, a return asked for, and what the authors published there."""

    name: str
    min_return: float | str
    published: float | None = None

    def problem(self) -> veil.Problem:
        return veil.gallery.load(self.name).replace(min_return=self.min_return)


BOUNDS = (
    Asked("paper-last-state", 0.3),
    Asked("paper-last-state", "90%"),
    Asked("paper-initial-state", 0.3),
    Asked("paper-initial-state", "90%"),
    Asked("later-last-state", 0.308, 0.5993),
    Asked("later-last-state", 0.4563, 0.4198),
    Asked("later-last-state", 0.685, 0.2811),
    Asked("later-initial-state", 0.6054, 0.6095),
    Asked("later-initial-state", 0.7187, 0.5055),
)
LONG = (
    ("paper-last-state", "90%"),
    ("paper-last-state", "99%"),
    ("later-last-state", "80%"),
    ("later-last-state", "90%"),
    ("later-last-state", "95%"),
    ("later-last-state", "98%"),
)
LARGE = ("90%", "95%", "98%")


def large_grid(share: str) -> veil.Problem:
    """15 × 15 cells, 40 decisions: goals, secret blocks and four sensor ranges placed like those of the paper's grid."""

    def block(row: int, column: int, height: int, width: int) -> list[tuple[int, int]]:
        return [(row + i, column + j) for i, j in product(range(height), range(width))]

    ranges = {"b": block(0, 0, 3, 5), "r": block(0, 12, 5, 3), "y": block(10, 0, 5, 3), "g": block(7, 7, 6, 6)}
    world = veil.GridWorld(
        15,
        15,
        slip=0.1,
        starts=(7, 2),
        goals={(0, 7): 0.1, (8, 14): 0.1},
        secrets=[*block(2, 7, 2, 2), *block(10, 5, 2, 2), *block(13, 10, 2, 2)],
        sensors=[veil.Sensor(name, cells, 0.9) for name, cells in ranges.items()],
    )
    return world.problem(40, min_return=share, name="15 × 15 cells")


def run(settings: Settings) -> str:
    """All three parts as Markdown."""
    return f"""\
### Which method closes the gap

Iterations and time until the proven gap between policy and bound is this small, at most {_limit(settings, RACE_SECONDS)} a
run; bounds are computed every fifth iteration. Veil's accelerated method searches for the price of return as it goes; the
two others are given the price it found, which spares them that search, and no constraint (`benchmarks/game_methods.py`).

{race_text(settings)}

### Proven bounds beside the best policies

The best stationary policy that `veil.solve` finds with its defaults (at most {_limit(settings, MARKOV_SECONDS)}), the best
history policy, and what is proven for all policies with this return; the game stops at a gap of {GAP} bits or after
{_limit(settings, BOUND_SECONDS)}. Opacity in bits; the certificate of the history policy is then verified.

{bounds_text(settings)}

### Horizon {LONG_HORIZON}

The last-state problems with {LONG_HORIZON} decisions, whose observation trees fit no memory: windows around the end and
automata of beliefs, until the gap is {LONG_GAP} bits or after {_limit(settings, LONG_SECONDS)} of processor time of the one
process, which is also the time stated: it does not depend on what else the machine does. Returns are shares of the way from
the smallest to the largest.

{long_text(settings)}

### 15 × 15 cells

225 cells, four sensors, 40 decisions (`large_grid`), until the gap is {LONG_GAP} bits or after
{_limit(settings, LARGE_SECONDS)} of processor time.

{large_text(settings)}
"""


def _limit(settings: Settings, seconds: float) -> str:
    return seconds_text(_seconds(settings, seconds))


def _seconds(settings: Settings, seconds: float) -> float:
    return min(seconds, 8.0) if settings.quick else seconds


def race_text(settings: Settings) -> str:
    header = ["problem and return", "method", *(f"to {gap:g}" for gap in GAPS), "gap in the end", "iterations"]
    rows = []
    for name, wanted in RACES[:1] if settings.quick else RACES:
        problem = veil.gallery.load(name).replace(min_return=wanted)
        courses, result = race(problem, GAPS, _seconds(settings, RACE_SECONDS))
        for course in courses:
            reached = [course.first(gap) for gap in GAPS]
            cells = ["–" if at is None else f"{at.iteration} ({seconds_text(at.seconds)})" for at in reached]
            last = course.marks[-1]
            title = f"{name} at {wanted}, λ = {result.multiplier:.3f}"
            rows.append([title, course.method, *cells, f"{last.gap:.2g}", str(last.iteration)])
            say(f"game race: {name}, {course.method}: gap {last.gap:.2g} after {last.iteration}")
    return markdown_table(header, rows)


def bounds_text(settings: Settings) -> str:
    header = [
        "problem",
        "return",
        "published",
        "Markov",
        "history policy",
        "proven bound",
        "gap",
        "game",
        "verified in",
    ]
    rows = []
    for asked in BOUNDS[:1] if settings.quick else BOUNDS:
        problem = asked.problem()
        markov = veil.solve(problem, time_limit=_seconds(settings, MARKOV_SECONDS), progress=False, certificate=False)
        game = solve_game(problem, gap=GAP, clock=Clock(_seconds(settings, BOUND_SECONDS)))
        policy = game.policy()
        proof = veil.certify(problem, policy, game=Bounds.of(game))
        verifying = clock(lambda: veil.verify(proof, problem, policy))  # noqa: B023
        stationary = f"{markov.opacity.bits:.4f}" if markov.feasible else "none found"
        published = "" if asked.published is None else f"{asked.published:.4f}"
        cells = [asked.name, f"{game.threshold:.4f}", published, stationary, f"{proof.lower:.4f}", f"{proof.upper:.4f}"]
        rows.append([*cells, f"{proof.gap:.4f}", seconds_text(game.seconds), seconds_text(verifying)])
        say("game bounds:", *rows[-1])
    return markdown_table(header, rows)


def long_text(settings: Settings) -> str:
    asked = [(name, share) for name, share in (LONG[:1] if settings.quick else LONG)]
    problems = [veil.gallery.load(name).replace(horizon=LONG_HORIZON, min_return=share) for name, share in asked]
    return _enclosed_text(
        [(*one, problem) for one, problem in zip(asked, problems, strict=True)], settings, LONG_SECONDS
    )


def large_text(settings: Settings) -> str:
    asked = [("15 × 15", share, large_grid(share)) for share in (LARGE[:1] if settings.quick else LARGE)]
    return _enclosed_text(asked, settings, LARGE_SECONDS)


def _enclosed_text(asked: list[tuple[str, str, veil.Problem]], settings: Settings, seconds: float) -> str:
    header = ["problem", "return", "history policy", "proven bound", "gap", "closed", "by", "processor time"]
    rows = []
    for name, share, problem in asked:
        begin = time.process_time()
        found = enclose(problem, gap=LONG_GAP, clock=Clock(_seconds(settings, seconds), now=time.process_time))
        spent = seconds_text(time.process_time() - begin)
        closed = "yes" if found.gap <= LONG_GAP else "no"
        cells = [name, f"{wanted_return(problem):.3f} ({share})", f"{found.lower:.4f}", f"{found.upper:.4f}"]
        rows.append([*cells, f"{found.gap:.4f}", closed, _ways(found), spent])
        say("game, enclosed:", *rows[-1])
    return markdown_table(header, rows)


def _ways(found: Bounds) -> str:
    kinds = [f"{one.graph.kind} (at most {max(one.graph.sizes)} nodes)" for one in found.games]
    return f"policy: {found.best.graph.kind}; bound: {', '.join(kinds)}"
