"""Proven bounds at a horizon of 100 as they narrow, of whole paths, and what `auto` and `exact` do with false alarms."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import veil
from benchmarks import common
from benchmarks.common import Settings, say, seconds_text
from benchmarks.gpu import random_policy
from benchmarks.planning_problems import open_grid
from veil.engine.chain import make_chain
from veil.measure.bracket import WindowBounds, deepen
from veil.measure.exact import Budget

TITLE = "proven bounds at T = 100, false alarms, and whole paths"
HORIZON = 100
GOALS = ((1e-3, 10.0), (1e-4, 60.0))  # bits apart, and the seconds that each may take
_QUICK_SECONDS = 2.0


@dataclass(frozen=True)
class Step:
    """The bounds, and the seconds at which they were known."""

    seconds: float
    bounds: WindowBounds


@dataclass(frozen=True)
class Course:
    """How the bounds of one policy narrowed with one goal; `ended` is when the walk gave up or reached it."""

    policy: str
    width: float
    limit: float
    steps: list[Step]
    ended: float

    def at(self, seconds: float) -> Step:
        """The last bounds known by then."""
        return [step for step in self.steps if step.seconds <= seconds][-1]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    @property
    def reached(self) -> bool:
        return self.last.bounds.width <= self.width


def watch(policy: str, width: float, limit: float) -> Course:
    problem = veil.gallery.load("paper-last-state").replace(horizon=HORIZON)
    table = veil.MarkovPolicy.uniform(problem) if policy == "uniform" else random_policy(problem)
    begin = time.perf_counter()
    steps = []
    for bounds in deepen(make_chain(problem, table), Budget(time_limit=limit), width=width):
        steps.append(Step(time.perf_counter() - begin, bounds))
    course = Course(policy, width, limit, steps, time.perf_counter() - begin)
    say(f"brackets: {policy}, goal {width:g}: {course.last.bounds.width:.2e} bits at {course.last.seconds:.1f} s,",
        f"radius {course.last.bounds.radius}, ended at {course.ended:.1f} s")  # fmt: skip
    return course


def alarms(policy: str, settings: Settings) -> list[list[str]]:
    """`auto` and `exact` on the grid whose sensors all give false alarms: seconds and result."""
    problem = veil.gallery.load("paper-false-alarms")
    table = veil.MarkovPolicy.uniform(problem) if policy == "uniform" else random_policy(problem)
    rows = []
    methods: tuple[Any, ...] = ("auto",) if settings.quick else ("auto", "exact")
    for method in methods:
        begin = time.perf_counter()
        result = veil.opacity(problem, table, method)
        took = time.perf_counter() - begin
        error = "–" if not result.std_error else f"{result.std_error:.1e}"
        say(f"brackets: {policy}, {method} took {took:.1f} s: {result.method}, {result.reason}")
        cells = [f"{policy}, `{method}`", seconds_text(took), result.method, f"{result.bits:.9f}"]
        rows.append([*cells, f"{result.width:.1e}", error, f"{result.num_sequences:,}", result.reason])
    return rows


def whole_paths(settings: Settings) -> list[list[str]]:
    """A bracket of whole paths under the uniform policy, beside a sample of 2,000 pairs of path and observations."""
    problems = {
        "paper-false-alarms": veil.gallery.load("paper-false-alarms"),
        "paper-last-state": veil.gallery.load("paper-last-state", horizon=60),
        "open grid": open_grid(32, 60),
    }
    rows = []
    for name, problem in problems.items():
        secret = problem.replace(secret=veil.Trajectory(), min_return=None)
        cells = [name, f"{secret.num_states:,}", str(secret.horizon)]
        for method in ("bracket", "sampled"):
            begin = time.perf_counter()
            limit = _QUICK_SECONDS if settings.quick else 60.0
            found = veil.opacity(secret, veil.MarkovPolicy.uniform(secret), method, time_limit=limit)
            took = seconds_text(time.perf_counter() - begin)
            say(f"brackets: path of {name}, {found.value} in {took}")
            cells += [found.value, took]
        rows.append(cells)
    return rows


def run(settings: Settings) -> str:
    goals = tuple((width, _QUICK_SECONDS) for width, _ in GOALS) if settings.quick else GOALS
    policies = ("uniform", "random softmax")
    courses = [watch(policy, *goal) for policy in policies for goal in goals]
    rows = [row for policy in policies for row in alarms(policy, settings)]
    return report(courses, rows, whole_paths(settings), settings)


def report(courses: list[Course], rows: list[list[str]], paths: list[list[str]], settings: Settings) -> str:
    header = ["policy", "goal", "limit", "width at 10 s", "width at the end", "known at", "ended at", "radius", "met"]
    table = [
        [
            course.policy,
            f"{course.width:.0e}",
            seconds_text(course.limit),
            f"{course.at(10.0).bounds.width:.2e}",
            f"{course.last.bounds.width:.2e}",
            seconds_text(course.last.seconds),
            seconds_text(course.ended),
            str(course.last.bounds.radius),
            "yes" if course.reached else "no",
        ]
        for course in courses
    ]
    alarm_header = [
        "paper-false-alarms",
        "time",
        "method",
        "bits",
        "upper − lower",
        "standard error",
        "sequences",
        "reason",
    ]
    return f"""\
The paper's grid (`paper-last-state`) with horizon {HORIZON}, bounds as `opacity.bracket.deepen` yields them, once a row.
*Radius* is the window of the last bounds, in steps. The random policy is a softmax of normal parameters, seed 0.
Nothing is extrapolated: a goal that was not reached within its limit is missed here.

{common.markdown_table(header, table)}

With 1% of false alarms every history is possible: 5^11 = {5**11:,} sequences at the horizon of 10. `opacity` with its
defaults, once a row:

{common.markdown_table(alarm_header, rows)}

The whole path as secret, uniform policy, a limit of 60 s: proven bounds, which end at a width of 1e-3, and 2,000 sampled
pairs of path and observations with their standard error:

{common.markdown_table(["path", "states", "steps", "bits, proven", "time", "bits, sampled", "time"], paths)}

{figure(courses, settings)}
"""


def figure(courses: list[Course], settings: Settings) -> str:
    """Width against seconds, one panel a policy."""
    picture = Figure(figsize=(8.2, 3.2), layout="constrained")
    policies = list(dict.fromkeys(course.policy for course in courses))
    panels = picture.subplots(1, len(policies), sharey=True, sharex=True)
    for axes, policy in zip(panels, policies, strict=True):
        shown = [course for course in courses if course.policy == policy]
        for course, colour, marker in zip(shown, (common.ORANGE, common.BLUE), ("s", "o"), strict=True):
            steps = course.steps[1:]  # the first is the prior, at once
            label = f"goal {course.width:.0e}, limit {course.limit:.0f} s"
            seconds, widths = [step.seconds for step in steps], [step.bounds.width for step in steps]
            axes.loglog(seconds, np.array(widths), color=colour, marker=marker, markersize=4, label=label)
            axes.plot(course.limit, course.width, marker="*", markersize=11, color=colour, markeredgecolor="black")
        axes.plot([], [], "*", color="white", markeredgecolor="black", markersize=10, label="goal")
        axes.set(xlabel="seconds", title=f"{policy} policy")
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_size(10)
    panels[0].set_ylabel("upper − lower, bits")
    panels[0].legend(frameon=False, fontsize=8, loc="lower left")
    return common.save_figure(settings, picture, "brackets", "width of the bracket against time")
