"""Contenders for the game: plain mirror ascent and Frank-Wolfe with corrective steps, beside veil's accelerated method.

The two plain methods are given the price of return λ that veil's method found, and play `max H + λ (V − δ)` without a
constraint: one response an iteration, no search for the price. Their gap is that of this Lagrangian.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import veil
from veil.common.clock import Clock, Progress
from veil.common.logs import code_lengths_bits
from veil.game.responses import AgentProblem, Outcome
from veil.game.rules import complete, covering_rule
from veil.game.solve import GameResult, solve_game

_SHARP = 1e3  # costs are multiplied by it: a soft response is then a best one but for T log2(A) / 1000 bits
_CHECK_EVERY = 5
_PAIRWISE = 15  # corrective steps after each new policy
_HALVINGS = 30


@dataclass(frozen=True)
class Mark:
    """Where a method stood: iterations, seconds, the gap proven so far."""

    iteration: int
    seconds: float
    gap: float


@dataclass(frozen=True)
class Course:
    """The marks of one run."""

    method: str
    marks: list[Mark]

    def first(self, gap: float) -> Mark | None:
        """The first mark with a gap this small."""
        return next((mark for mark in self.marks if mark.gap <= gap), None)


@dataclass(frozen=True)
class Priced:
    """The game at a fixed price: the Lagrangian of outcomes, and bounds from rules."""

    game: AgentProblem
    price: float
    threshold: float

    def value(self, outcome: Outcome) -> float:
        return self.game.table.entropy(outcome.joint) + self.price * (outcome.expected_return - self.threshold)

    def bound(self, rule: np.ndarray, cover: np.ndarray) -> float:
        costs = code_lengths_bits(complete(rule, cover, self.game))
        return self.game.best_response(costs, self.price)[0] - self.price * self.threshold


def mirror_ascent(priced: Priced) -> Iterator[tuple[float, np.ndarray]]:
    """Step 1: each policy answers softly to the sum of all surprisals so far; the rule is the mean of the posteriors."""
    game = priced.game
    outcome = game.outcome(game.soft_response(np.zeros(game.table.size), priced.price)[1])
    costs, rules = np.zeros_like(outcome.joint), np.zeros_like(outcome.joint)
    for count in range(1, 10**9):
        costs += game.table.surprisals(outcome.joint)
        rules += game.table.posteriors(outcome.joint)
        outcome = game.outcome(game.soft_response(costs, (count + 1) * priced.price)[1])
        yield priced.value(outcome), rules / count


def frank_wolfe(priced: Priced) -> Iterator[tuple[float, np.ndarray]]:
    """A best response to the posterior of the mixture joins it, then weight moves from the worst member to the best."""
    game = priced.game
    members = [game.outcome(game.uniform())]
    weights, mixture, rules = np.ones(1), members[0], np.zeros_like(members[0].joint)
    for count in range(1, 10**9):
        slope = game.table.surprisals(mixture.joint)
        rules += game.table.posteriors(mixture.joint)
        found = game.outcome(game.soft_response(_SHARP * slope, _SHARP * priced.price)[1])
        members.append(found)
        step = _longest(lambda s: mixture.mixed(found, s), priced, 1.0)  # noqa: B023
        weights = np.append((1 - step) * weights, step)
        mixture = mixture.mixed(found, step)
        for _ in range(_PAIRWISE):
            mixture, weights = _pairwise(priced, members, weights, mixture)
        kept = weights > 1e-12
        members, weights = [member for member, keep in zip(members, kept, strict=True) if keep], weights[kept]
        # The posterior of the mixture or the mean of all so far, whichever is used, excludes nothing: the uniform
        # policy is in the first and stays in the mean.
        yield priced.value(mixture), rules / count


def _pairwise(
    priced: Priced, members: list[Outcome], weights: np.ndarray, mixture: Outcome
) -> tuple[Outcome, np.ndarray]:
    slope = priced.game.table.surprisals(mixture.joint)
    scores = np.array([np.vdot(slope, m.joint) + priced.price * m.expected_return for m in members])
    best, worst = int(np.argmax(scores)), int(np.argmin(np.where(weights > 0, scores, np.inf)))
    if best == worst:
        return mixture, weights
    one, other = members[best], members[worst]

    def moved(step: float) -> Outcome:
        joint = np.maximum(mixture.joint + step * (one.joint - other.joint), 0.0)
        return Outcome(joint, mixture.expected_return + step * (one.expected_return - other.expected_return))

    step = _longest(moved, priced, float(weights[worst]))
    weights = weights.copy()
    weights[best] += step
    weights[worst] = 0.0 if step == weights[worst] else weights[worst] - step
    return moved(step), weights


def _longest(moved: Callable[[float], Outcome], priced: Priced, most: float) -> float:
    """The best step on a line along which the Lagrangian is concave, by golden sections."""
    low, high, ratio = 0.0, most, (math.sqrt(5) - 1) / 2
    for _ in range(_HALVINGS):
        if high - low < 1e-4 * most:
            break
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if priced.value(moved(left)) >= priced.value(moved(right)):
            high = right
        else:
            low = left
    middle = (low + high) / 2
    return max((0.0, middle, most), key=lambda step: priced.value(moved(step)))


METHODS = {"mirror ascent, step 1": mirror_ascent, "Frank-Wolfe, corrective": frank_wolfe}


def race(problem: veil.Problem, gaps: tuple[float, ...], seconds: float) -> tuple[list[Course], GameResult]:
    """All methods on one problem until the smallest gap or the time is reached; veil's own first, which gives the price."""
    marks: list[Mark] = []

    def mark(news: Progress) -> None:
        marks.append(Mark(news.iteration, news.seconds, news.upper_bits - news.opacity_bits))

    result = solve_game(problem, gap=min(gaps), clock=Clock(seconds, progress=mark))
    courses = [Course("accelerated (veil)", marks)]
    assert result.threshold is not None
    priced = Priced(AgentProblem(problem, result.pairs), result.multiplier, result.threshold)
    for name, method in METHODS.items():
        courses.append(Course(name, _run(method, priced, min(gaps), seconds)))
    return courses, result


def _run(
    method: Callable[[Priced], Iterator[tuple[float, np.ndarray]]], priced: Priced, gap: float, seconds: float
) -> list[Mark]:
    begin, cover = time.perf_counter(), covering_rule(priced.game)
    marks, lower, upper = [], -math.inf, math.inf
    for iteration, (value, rule) in enumerate(method(priced), 1):
        lower = max(lower, value)
        if iteration % _CHECK_EVERY:
            continue
        upper = min(upper, priced.bound(rule, cover))
        marks.append(Mark(iteration, time.perf_counter() - begin, upper - lower))
        if upper - lower <= gap or marks[-1].seconds > seconds:
            break
    return marks
