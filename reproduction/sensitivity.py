"""The comparison repeated on another layout of the grid, and whether the paper's two conclusions hold there."""

import itertools
from typing import Any

from veil.engine.return_range import max_return
from veil.measure.evaluate import expected_return, opacity
from veil.problem.problem import Problem
from veil.tradeoffs.soft import PAPER_TEMPERATURES, soft_policy

from .layouts import SOFT_DISCOUNT, PaperGrid, admissible_layouts
from .measured import search
from .published import THRESHOLD
from .store import Settings, Times

NUM_LAYOUTS, QUICK_LAYOUTS = 12, 3
_SEARCH = {"last": {"starts": 8, "iterations": 200}, "initial": {"starts": 4, "iterations": 120}}
_QUICK_SEARCH = {"last": {"starts": 4, "iterations": 120}, "initial": {"starts": 2, "iterations": 60}}


def draw(settings: Settings, times: Times) -> dict[str, Any]:
    """The layouts of a run: their documents, and how many were drawn until there were enough."""
    wanted = QUICK_LAYOUTS if settings.quick else NUM_LAYOUTS
    with times.of("drawing and screening"):
        found = list(itertools.islice(admissible_layouts(settings.seed), wanted))
    return {"layouts": [layout.document() for _, layout in found], "drawn": found[-1][0]}


def repeat(layout: PaperGrid, settings: Settings, times: Times) -> dict[str, Any]:
    """Ours against the baseline on one layout, for both opacities; see `contest`."""
    found: dict[str, Any] = {}
    limits = _QUICK_SEARCH if settings.quick else _SEARCH
    for key, problem in (("last", layout.last_state()), ("initial", layout.initial_state())):
        with times.of(key):
            found[key] = contest(problem, limits[key], settings.seed)
    return found


def contest(problem: Problem, limits: dict[str, Any], seed: int) -> dict[str, Any]:
    """Whether ours hides more than the baseline at every temperature, at an equal or better return.

    Ours is the best stationary policy found at the paper's threshold, and further ones at the returns of those baseline
    policies that earn more than it: from the largest return down, until every temperature is beaten. A policy of ours
    beats a temperature where it hides more bits and earns at least as much.

    **Returns:** `baseline`: temperature, bits and return of each; `ours`: bits and return of each policy of ours, that of
    the threshold first; `beaten`: for each temperature by how many bits the best of ours that earns as much is ahead
    (negative: behind); `holds`: whether every one is positive; `tops`: whether the one policy of the threshold hides more
    than the baseline at every temperature, regardless of its return; `most`: the largest return of any policy.
    """
    baseline = [_soft(problem, tau) for tau in PAPER_TEMPERATURES]
    ours = [_ours(problem, THRESHOLD, limits, seed)]
    for point in sorted(baseline, key=lambda point: -point["return"]):
        if not _is_beaten(point, ours):
            ours.append(_ours(problem, point["return"], limits, seed))
    beaten = [_lead(point, ours) for point in baseline]
    holds = all(_is_beaten(point, ours) for point in baseline)
    tops = all(ours[0]["bits"] > point["bits"] for point in baseline)
    verdict = {"beaten": beaten, "holds": holds, "tops": tops}
    return {"baseline": baseline, "ours": ours, "most": max_return(problem)} | verdict


def _soft(problem: Problem, temperature: float) -> dict[str, float]:
    policy = soft_policy(problem, temperature, discount=SOFT_DISCOUNT)
    bits = opacity(problem, policy, "exact").bits
    return {"temperature": temperature, "bits": bits, "return": expected_return(problem, policy)}


def _ours(problem: Problem, min_return: float, limits: dict[str, Any], seed: int) -> dict[str, float]:
    found = search(problem.replace(min_return=min_return), seed, **limits)
    return {"bits": found.opacity.bits, "return": found.expected_return, "threshold": min_return}


def _is_beaten(point: dict[str, float], ours: list[dict[str, float]]) -> bool:
    lead = _lead(point, ours)
    return lead is not None and lead > 0


def _lead(point: dict[str, float], ours: list[dict[str, float]]) -> float | None:
    """By how many bits the best of ours that earns at least as much is ahead; None where none earns as much."""
    leads = [one["bits"] - point["bits"] for one in ours if one["return"] >= point["return"]]
    return max(leads, default=None)
