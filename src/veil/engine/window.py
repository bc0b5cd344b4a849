"""Windows around the secret's time: a short chain whose opacity bounds that of the long one from either side.

For times `a ≤ τ ≤ b` around the split (`a = -1` or `b = T+1` where the window passes an end):

`H(Z | S_a, O_{a+1} … O_b, S_b)  ≤  H(Z|Y)  ≤  H(Z | O_a … O_b)`.

The right-hand side forgets what was seen outside the window: conditioning on less. The left-hand side adds the hidden
states at its ends, which make everything outside the window worthless: conditioning on more. (With emissions on states
alone, `S_b` makes `O_b` worthless too and it is left out.)
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from .chain import Chain, Slopes, sum_over
from .compile import scaled_rows
from .joint import Objective, Walk


@dataclass(frozen=True)
class Window:
    """The times `begin … end` of a chain, -1 and T+1 meaning that the window passes that end of the horizon."""

    begin: int
    end: int

    @staticmethod
    def around(chain: Chain, radius: int) -> "Window":
        """The window of `radius` steps to both sides of the split."""
        hidden = chain.hidden
        begin = max(hidden.split_time - radius, -1)
        end = min(hidden.split_time + radius, hidden.horizon + 1)
        # Nothing lies beyond the horizon: a secret of the last state has no right side, one of the first no left.
        return Window(
            -1 if hidden.split_time == 0 else begin, hidden.horizon + 1 if hidden.split_time == hidden.horizon else end
        )

    def is_whole(self, chain: Chain) -> bool:
        """Whether both bounds are exact."""
        return self.begin < 0 and self.end > chain.hidden.horizon

    def steps(self, chain: Chain) -> int:
        """How many steps the window has."""
        return min(self.end, chain.hidden.horizon) - max(self.begin, 0)


class Cut:
    """The chain of a window, that forgets what lies outside or reveals the states at its ends.

    **Arguments:** `chain`, `window`; `reveal`: False for the upper bound, True for the lower one.
    """

    def __init__(self, chain: Chain, window: Window, *, reveal: bool):
        hidden = chain.hidden
        self.whole, self.reveal = chain, reveal
        self.begin, end = max(window.begin, 0), min(window.end, hidden.horizon)
        # At time 0 the true start serves the upper bound as it is: nothing lies before it.
        self.cut_left = window.begin > 0 or (window.begin == 0 and reveal)
        occupied = chain.occupancies[self.begin]
        first = hidden.first
        if self.cut_left and reveal:
            self.revealed = np.flatnonzero(occupied > 0)
            places = (self.revealed, np.arange(len(self.revealed)))
            first = sp.csr_array((occupied[self.revealed], places), shape=(hidden.num_states, len(self.revealed)))
        elif self.cut_left:
            before = chain.occupancies[self.begin - 1]
            first = sum_over(
                scaled_rows(before @ matrix, emitter.table)
                for matrix, emitter in zip(chain.matrices(self.begin - 1), hidden.emitters, strict=True)
            )
        self.chain = chain.during(
            self.begin,
            end,
            start=occupied,
            first=first,
            split_time=hidden.split_time - self.begin,
            reveals_last=reveal and window.end <= hidden.horizon,
        )
        self.end = end

    def run(self, walk: Walk, objective: Objective) -> Float[np.ndarray, "T C A"]:
        """The objective over the window, and its gradient in the whole policy's table, the way to the window included."""
        inside = walk.run(objective, gradient=True)
        assert inside is not None
        slope = np.zeros(self.whole.table.shape)
        if self.whole.stationary:
            slope += inside
        else:
            slope[self.begin : self.end] += inside
        if self.cut_left:
            assert walk.root_slope is not None
            slope += self._slope_before(walk.root_slope)
        return slope

    def _slope_before(self, root_slope: Float[np.ndarray, "F N"]) -> Float[np.ndarray, "T C A"]:
        """From the gradient in the root of the window to the gradient in the steps that lead there."""
        chain, slopes, time = self.whole, Slopes(self.whole), self.begin
        if self.reveal:
            value = np.zeros(chain.hidden.num_states)
            value[self.revealed] = root_slope[np.arange(len(self.revealed)), self.revealed]
            values = [value] * len(chain.hidden.emitters)
        else:
            possible = np.flatnonzero(self.chain.hidden.root.sum(axis=0) > 0)
            values = [
                np.einsum("ex,xe->x", root_slope, emitter.emission[:, possible]) for emitter in chain.hidden.emitters
            ]
        for time in range(self.begin - 1, -1, -1):
            for number, value in enumerate(values):
                slopes.add(time, number, chain.occupancies[time][None], value[None])
            pulled = sum_over(matrix @ value for matrix, value in zip(chain.matrices(time), values, strict=True))
            values = [pulled] * len(chain.hidden.emitters)
        return slopes.table()
