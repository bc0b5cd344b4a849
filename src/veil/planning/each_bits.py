"""Backends of a secret that has a value at every time: all sequences until each time, windows before it, or samples."""

import math
from collections.abc import Callable

import numpy as np

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_of_count
from ..common.workers import ALONE, Team
from ..engine.chain import with_clock
from ..engine.each_time import AtTime
from ..engine.size import tree_size
from ..engine.window import Cut, Window
from ..measure.bracket import end_gradient
from ..measure.each_time import EachValue
from ..measure.exact import COUNTED_STATES, Budget
from .backend import Backend, Draw, Estimate, Tables
from .options import Evaluation, Objective
from .policy_class import Space, any_table
from .sampled_bits import Sampled

_MOST_SECONDS = 300.0  # forecast of one exact gradient, where it is asked for
_WINDOW_SECONDS = 0.3  # of one gradient of all windows
_COUNT_SECONDS = 2.0


class EachTime:
    """`Σ_t w_t H(Z_t | o_0 … o_t)`, one table after the other.

    **Arguments:** `radius`: None for all sequences until each time, else for the lower ends of brackets of windows of so many
    steps before each time; `seconds`: the forecast of one gradient.
    """

    at_once = 1

    def __init__(self, space: Space, radius: int | None, seconds: float):
        self._space, self._radius, self.cost_seconds = space, radius, seconds
        self.kind, self.reason = "exact", "all possible sequences, until each time"
        if radius is not None:
            self.kind, self.reason = "bracket", f"the lower ends of brackets of {radius} steps before each time"
        assert space.hidden.each is not None
        self.most_bits = float(space.hidden.each.weights.sum()) * log2_of_count(space.hidden.num_values)

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        bits, gradients = np.empty(len(tables)), np.empty(tables.shape)
        one: Callable[[np.ndarray, Clock], tuple[float, np.ndarray]]
        one = self._exact if self._radius is None else self._windows
        for number, table in enumerate(tables):
            clock.check()
            bits[number], gradients[number] = one(table, clock)
        return Estimate.exact(bits, gradients)

    def _exact(self, table: np.ndarray, clock: Clock) -> tuple[float, np.ndarray]:
        found = EachValue(self._space.chain(table)).exact(Budget(time_limit=_MOST_SECONDS), gradient=True)
        assert found.gradient is not None
        return found.opacity.bits, found.gradient

    def _windows(self, table: np.ndarray, clock: Clock) -> tuple[float, np.ndarray]:
        assert self._radius is not None
        bits, result = 0.0, np.zeros(table.shape)
        for one in EachValue(with_clock(self._space.chain(table))).times:
            radius = _radius(one, self._radius)
            budget = Budget(time_limit=max(clock.left, 1e-3))
            found, slope = end_gradient(
                one.with_slopes, radius=radius, reveal=True, memory_bytes=budget.memory_bytes, clock=clock
            )
            bits, result = bits + one.weight * found, result + one.weight * one.in_table(slope)
        return bits, result


def each_time_backend(
    space: Space, objective: Objective, evaluation: Evaluation, seconds: float, draw: Draw, team: Team = ALONE
) -> Backend:
    """The evaluation of a secret with a value at every time: exact if one gradient takes about so many seconds, else samples.

    **Raises:** `InputError` for an objective that is no entropy.
    """
    if objective != "entropy":
        raise InputError("objective", ["a search for bits at every time has objective='entropy': use this one"])
    if evaluation == "bracket":
        return EachTime(space, *_widest(space))
    cost = _forecast(space) if evaluation in ("auto", "exact") else math.inf
    if evaluation == "exact" or (evaluation == "auto" and cost <= seconds):
        return EachTime(space, None, cost)
    return sampled_times(space, draw, "the sequences until each time are too many to enumerate", team)


def sampled_times(space: Space, draw: Draw, why: str, team: Team = ALONE) -> Sampled:
    """The same on drawn sequences: what is left at each time along them."""
    return Sampled(space, draw, why, team=team, question=EachValue)


def _widest(space: Space) -> tuple[int, float]:
    """The widest windows whose gradients are forecast to take a fraction of a second together, and that forecast."""
    best, times = (0, 1e-3), EachValue(with_clock(space.chain(any_table(space)))).times
    for radius in range(space.hidden.horizon + 2):
        seconds, left = 0.0, _WINDOW_SECONDS
        try:
            for one in times:
                cut = Cut(one.chain, Window.around(one.chain, _radius(one, radius)), reveal=True)
                size = tree_size(cut.chain, most_seconds=left)
                left -= size.counting_seconds
                seconds += size.seconds(cut.chain, gradient=True) if size.exact else math.inf
        except TooLargeError:
            break
        if seconds > _WINDOW_SECONDS:
            break
        best = radius, seconds
    return best


def _radius(one: AtTime, radius: int) -> int:
    """That of the window of one time."""
    return radius + one.is_forecast if one.time else radius + 2


def _forecast(space: Space) -> float:
    """The seconds of one gradient on all sequences; infinite where they are too many to count."""
    chain, total = space.chain(any_table(space)), 0.0
    if chain.hidden.num_states > COUNTED_STATES or chain.written is not None:
        return math.inf if chain.written is None else 0.0
    left = _COUNT_SECONDS
    try:
        for one in EachValue(chain).times:
            size = tree_size(one.chain, most_seconds=left)
            left -= size.counting_seconds
            total += size.seconds(one.chain, gradient=True) if size.exact else math.inf
    except TooLargeError:
        return math.inf
    return total
