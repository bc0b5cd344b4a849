"""Proven bounds on the opacity at any horizon: windows around the secret's time, deepened until they are narrow."""

import math
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..engine.chain import Chain
from ..engine.joint import JointWalk
from ..engine.size import TreeSize, tree_size
from ..engine.window import Cut, Window
from ..logs import entropy_bits, log2_of_count
from ..problem.errors import TooLargeError
from .exact import Budget, EntropyObjective
from .result import Opacity

# Rounding in the sums of a tree; the ends of a bracket are moved outwards by it.
_ROUNDING_BITS = 1e-12
# A window that is too wide for the budget is walked without its rarest histories.
_CHEAP_SECONDS = 0.1
_PRUNINGS = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10)


@dataclass(frozen=True)
class Bounds:
    """The best bounds so far, and the window that the last step reached."""

    lower: float
    upper: float
    radius: int
    num_sequences: int
    pruned_below: float = 0.0

    @property
    def width(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower


def bracket_opacity(
    chain: Chain,
    budget: Budget,
    *,
    width: float = 1e-3,
    reason: str = "",
    progress: Callable[[Bounds], None] | None = None,
) -> Opacity:
    """Bounds on `H(Z|Y)` that are at most `width` apart, or as near as the budget allows.

    Each window is evaluated twice, forgetting and revealing; bounds only ever improve. Where the tree of a window passes
    what is left of the time, its rarest histories are pruned and their mass is accounted for.

    Cost: for each radius k the trees of k steps, plus T vector products once.
    """
    best = _deepest(chain, budget, width, progress)
    return _result(chain, best, reason)


def bracket_gradient(
    chain: Chain, budget: Budget, *, width: float = 1e-3, reason: str = ""
) -> tuple[Opacity, Float[np.ndarray, "T C A"]]:
    """A bracket of the wanted width and the slope of its lower end, at the window it reached, in the policy's table."""
    best = _deepest(chain, budget, width, None)
    deadline = clock.monotonic() + 3 * budget.time_limit  # a slope takes about three times a value
    _, slope = end_gradient(
        chain,
        radius=best.radius,
        reveal=True,
        memory_bytes=budget.memory_bytes,
        deadline=deadline,
        prune_below=best.pruned_below,
    )
    return _result(chain, best, reason), slope


def _deepest(chain: Chain, budget: Budget, width: float, progress: Callable[[Bounds], None] | None) -> Bounds:
    best: Bounds | None = None
    for best in deepen(chain, budget, width=width):
        if progress is not None:
            progress(best)
    assert best is not None
    return best


def _result(chain: Chain, best: Bounds, reason: str) -> Opacity:
    return Opacity(
        bits=best.lower,
        lower=best.lower,
        upper=best.upper,
        prior_bits=float(entropy_bits(chain.prior)),
        method="bracket",
        num_sequences=best.num_sequences,
        reason=reason or f"windows of {best.radius} steps around the secret's time",
    )


def deepen(chain: Chain, budget: Budget, *, width: float) -> Iterator[Bounds]:
    """Yield better and better `Bounds`, one a window, until they are `width` apart or the budget is used up.

    While windows are cheap every radius is taken; then the geometric fall of the width tells which radius to jump to.
    """
    end = clock.monotonic() + budget.time_limit
    best = Bounds(0.0, float(entropy_bits(chain.prior)) + _ROUNDING_BITS, 0, 0)
    yield best
    radius, widths = 0, [best.width]
    while True:
        begin = clock.monotonic()
        window = Window.around(chain, radius)
        found = _bounds(chain, window, budget, end - begin, width)
        if found is None:
            return
        lower, upper, sequences, below = found
        best = Bounds(max(best.lower, lower), min(best.upper, upper), radius, sequences, below)
        yield best
        if best.width <= width or window.is_whole(chain):
            return
        widths.append(best.width)
        cheap = clock.monotonic() - begin < _CHEAP_SECONDS
        radius = radius + 1 if cheap else _jump(chain, radius, widths, width, end - clock.monotonic())


def _jump(chain: Chain, radius: int, widths: list[float], width: float, seconds: float) -> int:
    """The radius at which the width is reached if it goes on falling as it did, or the largest that fits the time left."""
    ratio = min(0.99, max(1e-3, widths[-1] / widths[-2])) if widths[-2] > 0 else 0.5
    steps = 1
    while widths[-1] * ratio**steps > width and steps < chain.hidden.horizon:
        # The needed time grows with each step: stop at the last one that fits.
        cuts = [Cut(chain, Window.around(chain, radius + steps + 1), reveal=reveal) for reveal in (True, False)]
        if 2 * sum(tree_size(cut.chain).seconds(chain, gradient=False) for cut in cuts) > seconds:
            break
        steps += 1
    return radius + steps


def _bounds(
    chain: Chain, window: Window, budget: Budget, seconds: float, width: float
) -> tuple[float, float, int, float] | None:
    """Both bounds of one window, pruned where it must be; None where it cannot be done in the time left."""
    cuts = [Cut(chain, window, reveal=reveal) for reveal in (True, False)]
    sizes = [tree_size(cut.chain) for cut in cuts]
    needed = sum(size.seconds(chain, gradient=False) for size in sizes)
    prunings = (0.0,) if needed <= seconds and all(size.exact for size in sizes) else _PRUNINGS
    end = clock.monotonic() + seconds
    most = log2_of_count(chain.hidden.label.shape[1])
    best: tuple[float, float, int, float] | None = None
    for below in prunings:
        try:
            lower, _, _ = _value(cuts[0], sizes[0], budget, below, end)
            bits, lost, sequences = _value(cuts[1], sizes[1], budget, below, end)
        except TooLargeError:
            break
        best = (lower - _ROUNDING_BITS, bits + lost * most + _ROUNDING_BITS, sequences, below)
        if best[1] - best[0] <= width or lost * most <= width / 10:
            break
    return best


def _value(cut: Cut, size: TreeSize, budget: Budget, below: float, end: float) -> tuple[float, float, int]:
    walk = JointWalk(cut.chain, 0.0, budget.memory_bytes, end, meet=size.meet, outer=size.outer, prune_below=below)
    objective = EntropyObjective()
    walk.run(objective)
    return objective.bits, walk.lost_mass, int(walk.num_sequences)


def end_gradient(
    chain: Chain,
    *,
    radius: int,
    reveal: bool,
    memory_bytes: int,
    deadline: float = math.inf,
    prune_below: float = 0.0,
) -> tuple[float, Float[np.ndarray, "T C A"]]:
    """One end of the bracket of a given radius, and its slope in the policy's table.

    **Arguments:** `reveal`: True for the lower end, False for the upper one; `prune_below`: see `Pruning`, for the upper
    end without what it must add. The slope has the way from the start to the window in it.
    """
    cut = Cut(chain, Window.around(chain, radius), reveal=reveal)
    size = tree_size(cut.chain)
    walk = JointWalk(cut.chain, 0.0, memory_bytes, deadline, meet=size.meet, outer=size.outer, prune_below=prune_below)
    objective = EntropyObjective()
    slope = cut.run(walk, objective)
    return objective.bits, slope
