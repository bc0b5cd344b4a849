"""The backend of windows: the lower end of the bracket of a fixed window, what a policy hides at least at any horizon."""

import math

import numpy as np

from ..common.clock import Clock
from ..common.errors import TooLargeError
from ..engine.chain import Chain, with_clock
from ..engine.each_time import AtTime, times_of
from ..engine.joint import DEFAULT_MEMORY
from ..engine.size import tree_size
from ..engine.window import Cut, Window
from ..measure.bracket import end_gradient
from .exact_bits import OneByOne, most_hidden
from .policy_class import Space, any_table

_SECONDS = 0.3  # forecast of a gradient on the widest windows that are taken, and of the work to count their sequences


def windowed(space: Space) -> OneByOne:
    """The lower ends of the brackets of one fixed window around each time that counts."""
    radius, seconds = _widest(with_clock(space.chain(any_table(space))))

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        total, gradient = 0.0, np.zeros(chain.table.shape)
        for one in times_of(with_clock(chain)):
            given = {"radius": _radius(one, radius), "reveal": True, "memory_bytes": DEFAULT_MEMORY, "clock": clock}
            found, slope = end_gradient(one.with_slopes, **given)
            total, gradient = total + one.weight * found, gradient + one.weight * one.in_table(slope)
        return total, gradient

    where = "around the secret's time" if space.hidden.each is None else "before each time"
    words = f"the lower end of the bracket of {radius} steps {where}"
    return OneByOne(space, bits, words, seconds, most_hidden(space), kind="bracket")


def _widest(chain: Chain) -> tuple[int, float]:
    """The widest windows whose gradients are forecast to take a fraction of a second together, and that forecast."""
    best, times = (0, 1e-3), times_of(chain)
    for radius in range(chain.hidden.horizon + 2):
        seconds, left = 0.0, _SECONDS
        try:
            for one in times:
                cut = Cut(one.chain, Window.around(one.chain, _radius(one, radius)), reveal=True)
                size = tree_size(cut.chain, most_seconds=left)
                left -= size.counting_seconds
                seconds += size.seconds(cut.chain, gradient=True) if size.exact else math.inf
        except TooLargeError:
            break
        if seconds > _SECONDS:
            break
        best = radius, seconds
    return best


def _radius(one: AtTime, radius: int) -> int:
    """That of the window of one time: of a value at every time the run ends there, or with the choice of a forecast."""
    if one.whole.hidden.each is None:
        return radius
    return radius + one.is_forecast if one.time else radius + 2
