"""How a solver evaluates a secret that has a value at every time: on all sequences, or by windows around each time."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime
from ..common.errors import InputError
from ..engine.chain import with_clock
from ..engine.size import tree_size
from ..measure.bracket import end_gradient
from ..measure.each_time import EachValue
from ..measure.exact import COUNTED_STATES, Budget
from .options import Evaluation, Objective
from .policy_class import Space, any_table

_MOST_SECONDS = 300.0  # forecast of one exact gradient, where it is asked for
_WINDOW_SECONDS = 0.3  # of one gradient of all windows
_COUNT_SECONDS = 2.0

Slopes = Float[np.ndarray, "B T C A"]


class EachSecrecy:
    """`Σ_t w_t H(Z_t | o_0 … o_t)` of tables and its slope, each time on all sequences until then."""

    kind, at_once = "exact", 1

    def __init__(self, space: Space, seconds: float):
        self._space, self.cost_seconds = space, seconds
        self.reason = "all possible sequences, until each time"

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[Float[np.ndarray, " B"], Slopes]:
        """See `Secrecy`."""
        return _evaluated(self._one, tables, clock)

    def _one(self, table: np.ndarray, clock: Clock) -> tuple[float, np.ndarray]:
        found = EachValue(self._space.chain(table)).exact(Budget(time_limit=_MOST_SECONDS), gradient=True)
        assert found.gradient is not None
        return found.opacity.bits, found.gradient


class EachWindow:
    """The lower ends of brackets of one fixed window before each time: what is hidden at least."""

    kind, at_once = "bracket", 1

    def __init__(self, space: Space, radius: int, seconds: float):
        self._space, self.radius, self.cost_seconds = space, radius, seconds
        self.reason = f"the lower ends of brackets of {radius} steps before each time"

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[Float[np.ndarray, " B"], Slopes]:
        """See `Secrecy`."""
        return _evaluated(self._one, tables, clock)

    def _one(self, table: np.ndarray, clock: Clock) -> tuple[float, np.ndarray]:
        chain = with_clock(self._space.chain(table))
        bits, result = 0.0, np.zeros(table.shape)
        for one in EachValue(chain).times:
            radius = self.radius + one.is_forecast if one.time else self.radius + 2
            budget = Budget(time_limit=max(clock.left, 1e-3))
            found, slope = end_gradient(
                one.with_slopes, radius=radius, reveal=True, memory_bytes=budget.memory_bytes, clock=clock
            )
            bits, result = bits + one.weight * found, result + one.weight * one.in_table(slope)
        return bits, result


def make_each_secrecy(
    space: Space, objective: Objective, evaluation: Evaluation, seconds: float
) -> EachSecrecy | EachWindow:
    """The evaluation of a secret with a value at every time: exact if one gradient takes about so many seconds, else windows.

    **Raises:** `InputError` for samples and for an objective that is no entropy.
    """
    if objective != "entropy" or evaluation == "sampled":
        raise InputError(
            "evaluation" if objective == "entropy" else "objective",
            [
                "a search for bits at every time has objective='entropy' and evaluation='exact' or 'bracket': use one of these"
            ],
        )
    cost = _forecast(space)
    if evaluation == "exact" or (evaluation == "auto" and cost <= seconds):
        return EachSecrecy(space, cost)
    chain, best = with_clock(space.chain(any_table(space))), (0, 1e-3)
    for radius in range(chain.hidden.horizon + 2):
        tried = EachWindow(space, radius, 0.0)
        clock = Clock(_WINDOW_SECONDS)
        try:
            tried(chain.table[None], clock)
        except OutOfTime:
            break
        best = radius, clock.spent
        if clock.spent > _WINDOW_SECONDS / 4:
            break
    return EachWindow(space, *best)


def _forecast(space: Space) -> float:
    """The seconds of one gradient on all sequences; infinite where they are too many to count."""
    chain, total = space.chain(any_table(space)), 0.0
    if chain.hidden.num_states > COUNTED_STATES or chain.written is not None:
        return math.inf if chain.written is None else 0.0
    clock = Clock(_COUNT_SECONDS)
    try:
        for one in EachValue(chain).times:
            size = tree_size(one.chain, clock)
            total += size.seconds(one.chain, gradient=True) if size.exact else math.inf
    except OutOfTime:
        return math.inf
    return total


def _evaluated(
    one: Callable[[np.ndarray, Clock], tuple[float, np.ndarray]], tables: Slopes, clock: Clock
) -> tuple[Float[np.ndarray, " B"], Slopes]:
    values, slopes = np.empty(len(tables)), np.empty(tables.shape)
    for number, table in enumerate(tables):
        clock.check()
        values[number], slopes[number] = one(table, clock)
    return values, slopes
