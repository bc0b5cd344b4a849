"""The backend of windows: the lower end of the bracket of a fixed window, what a policy hides at least at any horizon."""

import numpy as np

from ..common.clock import Clock
from ..common.logs import log2_of_count
from ..engine.chain import Chain, with_clock
from ..engine.joint import DEFAULT_MEMORY
from ..engine.size import tree_size
from ..engine.window import Cut, Window
from ..measure.bracket import end_gradient
from .backend import Draw, Estimate, Tables
from .policy_class import Space, any_table

MOST_STATES = 2000
"""Hidden states up to which windows are evaluated."""

_SECONDS = 0.3  # forecast of a gradient on the widest window that is taken


class Windowed:
    """The lower end of the bracket of one fixed window, one table after the other."""

    kind, at_once = "bracket", 1

    def __init__(self, space: Space):
        self._space, self.most_bits = space, log2_of_count(space.hidden.num_values)
        self._radius, self.cost_seconds = _widest(with_clock(space.chain(any_table(space))))
        self.reason = f"the lower end of the bracket of {self._radius} steps around the secret's time"

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        bits, gradients = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            chain = with_clock(self._space.chain(table))
            given = {"radius": self._radius, "reveal": True, "memory_bytes": DEFAULT_MEMORY, "clock": clock}
            bits[number], gradients[number] = end_gradient(chain, **given)
        return Estimate.exact(bits, gradients)


def _widest(chain: Chain) -> tuple[int, float]:
    """The widest window whose gradient is forecast to take a fraction of a second, and that forecast."""
    best = (0, 1e-3)
    for radius in range(chain.hidden.horizon + 2):
        cut = Cut(chain, Window.around(chain, radius), reveal=True)
        size = tree_size(cut.chain)
        seconds = size.seconds(cut.chain, gradient=True)
        if not size.exact or seconds > _SECONDS:
            break
        best = (radius, seconds)
    return best
