"""Planning: which way to climb, time to nearly the best, what time-dependence and memory add, and cold starts."""

import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import veil
from benchmarks import common
from benchmarks.climbers import CLIMBERS, climb
from benchmarks.common import ROOT, Settings, say, seconds_text
from benchmarks.ladder import ITERATIONS, STARTS, Ladder, climb_ladder, ladder_text, ladders, tell
from veil.planning.solve import solve

TITLE = "planning: climbers, time to nearly the best, the ladder of memory, cold starts"
SHARE = 0.99  # of the best known


@dataclass(frozen=True)
class Race:
    """One problem for the climbers: its threshold, two numbers of evaluations, how many seeds."""

    name: str
    min_return: float
    marks: tuple[int, int]
    seeds: int

    @property
    def title(self) -> str:
        return f"{self.name} at {self.min_return:g}"


# The larger mark is about what veil's own method takes with its own number of starts.
RACES = (
    Race("paper-last-state", 0.3, (2000, 7000), 5),
    Race("paper-initial-state", 0.3, (1000, 3500), 3),
    Race("later-last-state", 0.685, (500, 1800), 3),
)
QUICK_RACES = (Race("paper-last-state", 0.3, (300, 900), 1),)


@dataclass(frozen=True)
class Method:
    """A method of `veil.solve`, the seconds it may take, and how it is asked for."""

    words: str
    seconds: float
    settings: dict[str, Any]


METHODS = (
    Method("ascent", 30.0, {"method": "ascent"}),
    Method("primal-dual, exact", 8.0, {"method": "primal-dual", "gradients": "exact"}),
    Method("primal-dual, sampled", 5.0, {"method": "primal-dual", "gradients": "sampled", "sequences": 500}),
)
SEEDS = 3
SLOW = "paper-false-alarms"  # no exact values here: one seed, and no method whose history would be estimates
QUICK_NAMES = ("two-rooms", "paper-last-state", "badge-doors")

# Cold starts: problem, threshold, the opacity to pass and whose it is, rounds.
COLD = (
    ("paper-last-state", 0.3, 0.930, "paper, on its own grid", 3),
    ("later-last-state", 0.308, 0.5993, "published, 5.0 h", 1),
    ("later-last-state", 0.685, 0.2811, "published, about 5 h", 1),
)


@dataclass(frozen=True)
class Course:
    """How good the best feasible policy of one run was, as it went on: evaluations (or iterations), seconds, bits."""

    rows: list[tuple[int, float, float]]
    seconds: float

    @property
    def best(self) -> float:
        return max((bits for _, _, bits in self.rows), default=-math.inf)

    def bits_at(self, spent: int) -> float:
        return max((bits for count, _, bits in self.rows if count <= spent), default=-math.inf)

    def first(self, wanted: float) -> float:
        """Seconds until this many bits; infinite where they were never reached."""
        return next((seconds for _, seconds, bits in self.rows if bits >= wanted), math.inf)


def race_once(race: Race, climber: str, seed: int) -> Course:
    problem = veil.gallery.load(race.name).replace(min_return=race.min_return)
    begin = time.perf_counter()
    record = climb(problem, climber, seed, race.marks[-1])
    return Course(record.rows, time.perf_counter() - begin)


def solve_once(name: str, method: Method, seed: int, seconds: float) -> Course:
    """One run of `veil.solve`; a row for each better feasible policy of its history, and one for its answer."""
    problem = veil.gallery.load(name)
    found = solve(problem, seed=seed, time_limit=seconds, progress=False, certificate=False, **method.settings)
    history, rows, best = found.history, [], -math.inf
    for count, bits, returned, at in zip(
        history.iteration, history.opacity_bits, history.expected_return, history.seconds, strict=True
    ):
        if bits > best and (found.threshold is None or returned >= found.threshold):
            best = float(bits)
            rows.append((int(count), float(at), best))
    answer = found.opacity.bits if name != SLOW else -math.inf  # there, another measure than the history's
    if found.feasible and answer > best:
        rows.append((found.iterations, found.seconds, answer))
    return Course(rows, found.seconds)


def run_cold(name: str, min_return: float, mark: float, time_limit: float) -> dict[str, Any]:
    """One cold start; see `benchmarks.cold`."""
    launched = time.time()
    numbers = [repr(value) for value in (min_return, mark, time_limit, launched)]
    command = [sys.executable, "-m", "benchmarks.cold", name, *numbers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the cold start of {name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


Job = tuple[Callable[..., Any], tuple[Any, ...]]


def side_by_side(jobs: dict[Any, Job]) -> dict[Any, Any]:
    """Run jobs in two processes (one where there is one core); a job uses one thread. In the order given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found: dict[Any, Any] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(2, cores), mp_context=context) as pool:
        futures = {pool.submit(work, *arguments): key for key, (work, arguments) in jobs.items()}
        for number, future in enumerate(as_completed(futures), 1):
            key = futures[future]
            found[key] = future.result()
            if isinstance(found[key], Course):
                where = key[0].title if isinstance(key[0], Race) else key[0]
                say(f"planning {number}/{len(jobs)}: {where}, {key[1]}, seed {key[2]}:",
                    f"{found[key].best:.4f} bits, {found[key].seconds:.1f} s")  # fmt: skip
            else:
                tell(key, found[key])
    return found


def plan(settings: Settings) -> dict[Any, Job]:
    """All jobs but the cold starts, the longest first, by key."""
    jobs: dict[Any, Job] = {ladder: (climb_ladder, (ladder, settings.quick)) for ladder in ladders(settings)}
    for name in names(settings):
        for method in METHODS:
            for seed in seeds(name, method, settings):
                limit = 4.0 if settings.quick else method.seconds
                jobs[name, method.words, seed] = (solve_once, (name, method, seed, limit))
    for race in reversed(races(settings)):
        for seed in range(race.seeds):
            for climber in CLIMBERS:  # in turn, so that the noise of the machine is shared
                jobs[race, climber, seed] = (race_once, (race, climber, seed))
    return jobs


def races(settings: Settings) -> tuple[Race, ...]:
    return QUICK_RACES if settings.quick else RACES


def names(settings: Settings) -> tuple[str, ...]:
    return QUICK_NAMES if settings.quick else veil.gallery.names()


def seeds(name: str, method: Method, settings: Settings) -> range:
    if name == SLOW:
        return range(0 if "sampled" in method.words else 1)
    return range(1 if settings.quick else SEEDS)


def run(settings: Settings) -> str:
    begin = time.perf_counter()
    found = side_by_side(plan(settings))
    middle = time.perf_counter()
    cold = cold_text(settings)
    say(f"planning: {middle - begin:.0f} s, and {time.perf_counter() - middle:.0f} s for the cold starts")
    return f"""\
Every number is from one run of this module, two processes at a time with one thread each (the cold starts alone, one
after the other). Bits and returns are exact values of feasible policies unless said otherwise. *Best known* is the best
of all runs in the same table.

### Which climber

Stationary policies; the same task, the same starts (those of `veil.solve` for the seed) and the same evaluations
(value and slope of one table) for all. veil and mirror ascent take the starts side by side; L-BFGS, interior point and
SLSQP take them one after the other until the evaluations are spent or the starts are, or (*in rounds*) all for a little and
the best quarter further. A table that misses the
threshold by little is mixed with the richest table and counted, for every contender. Contenders: `benchmarks/climbers.py`.

{climber_text(found, settings)}

{figure(found, settings)}

### Time to 99% of the best known opacity

`veil.solve` with its defaults ({METHODS[-1].settings["sequences"]} sequences a sampled gradient), at the threshold of the
gallery, at most {", ".join(f"{method.seconds:g} s ({method.words})" for method in METHODS)} a run.

{method_text(found, settings)}

### The ladder

Each class but the first is begun from the policy found for the class named (and from {STARTS - 1} start of its own), for at
most {ITERATIONS} iterations; seconds are of that search alone, and a note says where a limit ended it. *Over stationary*:
bits more than the stationary policy found. The last two rows are the game between agent and observer: its best policy,
and what is proven for all policies with this return.

{chr(10).join(ladder_text(key, rungs) + chr(10) for key, rungs in found.items() if isinstance(key, Ladder))}
### Cold start

{cold}
"""


def middle_of(values: Iterable[float], show: Callable[[float], str], never: str = "–") -> str:
    """The median over the seeds, and how many of them count where not all do."""
    listed = list(values)
    median = statistics.median_low(listed) if listed else math.inf
    reached = sum(math.isfinite(value) for value in listed)
    if not math.isfinite(median):
        return f"{never} ({reached} of {len(listed)})" if listed else never
    return show(median) + ("" if reached == len(listed) else f" ({reached} of {len(listed)})")


def climber_text(found: dict[Any, Any], settings: Settings) -> str:
    texts = []
    for race in races(settings):
        best = max(course.best for key, course in found.items() if key_of(key) == race)
        header = [
            "",
            *(f"bits after {mark:,}" for mark in race.marks),
            "worst – best seed",
            f"time to {SHARE:.0%}",
            "time of a run",
        ]
        rows = []
        for climber in CLIMBERS:
            courses = [found[race, climber, seed] for seed in range(race.seeds)]
            ends = [course.best for course in courses]
            rows.append(
                [
                    climber,
                    *(middle_of((course.bits_at(mark) for course in courses), "{:.4f}".format) for mark in race.marks),
                    f"{min(ends):.4f} – {max(ends):.4f}",
                    middle_of((course.first(SHARE * best) for course in courses), seconds_text, "not reached"),
                    seconds_text(statistics.median(course.seconds for course in courses)),
                ]
            )
        words = f"**{race.title}**: best known {best:.4f}, medians over {race.seeds} seed{'s' * (race.seeds > 1)}."
        texts.append(f"{words}\n\n{common.markdown_table(header, rows)}")
    return "\n\n".join(texts)


def key_of(key: Any) -> Any:
    """The problem or race that a job was for."""
    return key[0] if isinstance(key, tuple) else None


def method_text(found: dict[Any, Any], settings: Settings) -> str:
    header = ["problem", "return", "best known"]
    for method in METHODS:
        header += [method.words, "bits in the end"]
    rows = []
    for name in names(settings):
        best = max(course.best for key, course in found.items() if key_of(key) == name)
        cells = [name, f"{veil.gallery.load(name).min_return:g}", f"{best:.4f}"]
        for method in METHODS:
            courses = [found[name, method.words, seed] for seed in seeds(name, method, settings)]
            cells.append(middle_of((course.first(SHARE * best) for course in courses), seconds_text, "not reached"))
            cells.append(middle_of((course.best for course in courses), "{:.4f}".format))
        rows.append(cells)
    count = 1 if settings.quick else SEEDS
    note = (
        f"Medians over {count} seed{'s' * (count > 1)}; in brackets how many reached it where not all did. On `{SLOW}` values"
        " are the lower ends of brackets, one seed; the sampled method, whose history is of estimates there, is left out."
    )
    return f"{common.markdown_table(header, rows)}\n\n{note}"


def cold_text(settings: Settings) -> str:
    header = ["problem", "return", "import", "opacity to pass", "passed at", "answer at", "bits", "return kept"]
    rows = []
    for name, min_return, mark, whose, rounds in COLD[:1] if settings.quick else COLD:
        limit, times = (5.0, 1) if settings.quick else (0.0, rounds)
        runs = [run_cold(name, min_return, mark, limit) for _ in range(times)]
        say(f"planning, cold: {name} at {min_return:g}: {runs[0]}")
        passed = middle_of(
            (math.inf if one["passed"] is None else one["passed"] for one in runs), seconds_text, "never"
        )
        imported, solved = (statistics.median(one[key] for one in runs) for key in ("imported", "solved"))
        cells = [name, f"{min_return:g}", seconds_text(imported), f"{mark:.4f} ({whose})", passed, seconds_text(solved)]
        rows.append([*cells, f"{runs[0]['bits']:.4f}", f"{runs[0]['expected_return']:.6f}"])
    return f"""\
A fresh process runs `import veil` and `veil.solve(problem, certificate=False)` with its defaults; all times are from
launching the process (`python -m benchmarks.cold`), medians over {COLD[0][-1]} rounds for the first row, one round for
the others.

{common.markdown_table(header, rows)}"""


def figure(found: dict[Any, Any], settings: Settings) -> str:
    """What is missing to the best known against the evaluations, the median over the seeds, one panel a race."""
    shown = races(settings)
    picture = Figure(figsize=(9.6, 3.3), layout="constrained")
    panels = np.atleast_1d(picture.subplots(1, len(shown)))
    colours = (common.BLUE, common.ORANGE, common.GREEN, common.VERMILION, common.GREY, "black", "#CC79A7")
    for axes, race in zip(panels, shown, strict=True):
        best = max(course.best for key, course in found.items() if key_of(key) == race)
        counts = np.unique(np.geomspace(20, race.marks[-1], 60).astype(int))
        for climber, colour in zip(CLIMBERS, colours, strict=True):
            courses = [found[race, climber, seed] for seed in range(race.seeds)]
            missing = [statistics.median(best - course.bits_at(int(count)) for course in courses) for count in counts]
            axes.loglog(counts, np.maximum(missing, 1e-5), color=colour, label=climber, linewidth=1.5)
        axes.axhline((1 - SHARE) * best, color="black", linewidth=0.6, linestyle=":")
        axes.set(xlabel="evaluations", title=race.title, ylim=(1e-5, 1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)
    panels[0].set_ylabel("bits below the best known")
    panels[0].legend(frameon=False, fontsize=7, loc="lower left")
    return common.save_figure(settings, picture, "planning", "bits below the best known against evaluations")
