"""Proven bounds on the opacity at any horizon: windows around the secret's time, deepened until they are narrow."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock, OutOfTime, too_large_if_late
from ..common.logs import entropy_bits, log2_of_count
from ..engine.chain import Chain
from ..engine.joint import JointWalk
from ..engine.size import TreeSize, tree_size
from ..engine.window import Cut, Window
from .exact import LATE, Budget, EntropyObjective
from .result import Opacity

# Rounding in the sums of a tree; the ends of a bracket are moved outwards by it.
_ROUNDING_BITS = 1e-12
# What took less time than this says little about what takes more.
_TELLING_SECONDS = 0.02
# Even a bracket that will not close is deepened for this share of the time: its bounds are proven.
_TRIAL_SHARE = 0.05
_ENOUGH_SECONDS = 1e9  # more than any time limit
# A window that is too wide for the budget is walked without its rarest histories.
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

    def improved(self, lower: float, upper: float, radius: int, num_sequences: int, pruned_below: float) -> "Bounds":
        """With the better of either bound; the rest is that of the newest window."""
        return Bounds(max(self.lower, lower), min(self.upper, upper), radius, num_sequences, pruned_below)


def bracket_opacity(
    chain: Chain,
    budget: Budget,
    *,
    width: float = 1e-3,
    reason: str = "",
    progress: Callable[[Bounds], None] | None = None,
    give_up: bool = False,
) -> Opacity:
    """Bounds on `H(Z|Y)` that are at most `width` apart, or as near as the budget allows.

    Each window is evaluated twice, forgetting and revealing; bounds only ever improve. Where the tree of a window passes
    what is left of the time, its rarest histories are pruned and their mass is accounted for. With `give_up` it ends as
    soon as the last windows say that the bounds will not get that near within the time.

    Cost: for each radius k the trees of k steps, plus T vector products once.
    """
    best = _deepest(chain, budget, width, progress, give_up=give_up)
    return _result(chain, best, reason)


def bracket_gradient(
    chain: Chain, budget: Budget, *, width: float = 1e-3, reason: str = ""
) -> tuple[Opacity, Float[np.ndarray, "T C A"]]:
    """A bracket of the wanted width and the slope of its lower end, at the window it reached, in the policy's table."""
    best = _deepest(chain, budget, width, None)
    with too_large_if_late(LATE):
        _, slope = end_gradient(
            chain,
            radius=best.radius,
            reveal=True,
            memory_bytes=budget.memory_bytes,
            clock=Clock(3 * budget.time_limit),  # a slope takes about three times a value
            prune_below=best.pruned_below,
        )
    return _result(chain, best, reason), slope


def _deepest(
    chain: Chain,
    budget: Budget,
    width: float,
    progress: Callable[[Bounds], None] | None,
    *,
    give_up: bool = False,
) -> Bounds:
    best: Bounds | None = None
    for best in deepen(chain, budget, width=width, give_up=give_up):
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


def deepen(chain: Chain, budget: Budget, *, width: float, give_up: bool = False) -> Iterator[Bounds]:
    """Yield better and better `Bounds`, one a radius, until they are `width` apart or the budget is used up.

    A window costs a fixed factor more than the one before, so that taking every radius costs little more than the last
    alone, and what one took tells what the next will take. The first that no longer fits is tried without its rarest
    histories. `give_up`: see `bracket_opacity`.
    """
    outlook = _Outlook(width, chain.hidden.horizon + 1)
    clock = Clock(budget.time_limit)
    best = Bounds(0.0, float(entropy_bits(chain.prior)) + _ROUNDING_BITS, 0, 0)
    yield best
    pace = 0.0  # seconds taken over seconds forecast
    for radius in range(chain.hidden.horizon + 2):
        pair = _Pair.around(chain, radius)
        begin = clock.spent
        if pair.exact and pair.seconds * max(pace, 0.5) <= clock.left:
            try:
                lower, upper, lost, sequences = pair.evaluate(budget, 0.0, clock)
            except OutOfTime:
                return
            pace = (clock.spent - begin) / pair.seconds if pair.seconds > _TELLING_SECONDS else pace
            best = best.improved(lower, upper, radius, sequences, 0.0)
            yield best
            if best.width <= width or pair.window.is_whole(chain):
                return
            outlook.add(best.width, pair.seconds * max(pace, 0.5))
            if give_up and clock.spent > _TRIAL_SHARE * budget.time_limit and outlook.seconds(radius) > clock.left:
                return
            continue
        for below in _PRUNINGS:
            try:
                lower, upper, lost, sequences = pair.evaluate(budget, below, clock)
            except OutOfTime:
                return
            if upper < best.upper or lower > best.lower:
                best = best.improved(lower, upper, radius, sequences, below)
                yield best
            if best.width <= width or lost <= width / 10 or lost > 0.1:
                return  # reached, or as good as unpruned, or hopeless
        return


class _Outlook:
    """What it would still take to reach a width, at the pace at which the last windows narrowed and grew dearer."""

    def __init__(self, width: float, last_radius: int):
        self._width, self._last = width, last_radius
        self._widths: list[float] = []
        self._costs: list[float] = []

    def add(self, width: float, seconds: float) -> None:
        """One window more: the width it reached, and its cost."""
        self._widths.append(width)
        self._costs.append(seconds)

    def seconds(self, radius: int) -> float:
        """The cost of the window that reaches the width, at most that of the whole horizon; 0 while little is known."""
        if len(self._widths) < 3:
            return 0.0
        narrowing = math.sqrt(self._widths[-1] / self._widths[-3])
        growth = max(1.0, math.sqrt(self._costs[-1] / self._costs[-3]))
        width, cost = self._widths[-1], self._costs[-1]
        for _ in range(radius, self._last):
            if width <= self._width or cost > _ENOUGH_SECONDS:
                break
            width, cost = width * narrowing, cost * growth
        return cost


@dataclass(frozen=True)
class _Pair:
    """The two cuts of one window, with their sizes: revealing for the lower bound, forgetting for the upper one."""

    window: Window
    cuts: tuple[Cut, Cut]
    sizes: tuple[TreeSize, TreeSize]

    @staticmethod
    def around(chain: Chain, radius: int) -> "_Pair":
        window = Window.around(chain, radius)
        cuts = Cut(chain, window, reveal=True), Cut(chain, window, reveal=False)
        return _Pair(window, cuts, (tree_size(cuts[0].chain), tree_size(cuts[1].chain)))

    @property
    def exact(self) -> bool:
        return all(size.exact for size in self.sizes)

    @property
    def seconds(self) -> float:
        return sum(size.seconds(cut.chain, gradient=False) for cut, size in zip(self.cuts, self.sizes, strict=True))

    def evaluate(self, budget: Budget, below: float, clock: Clock) -> tuple[float, float, float, int]:
        """Lower and upper bound, the bits that pruning may have hidden, and the sequences met."""
        most = log2_of_count(self.cuts[0].chain.hidden.label.shape[1])
        lower, upper = EntropyObjective(), EntropyObjective()
        _walk(self.cuts[0], budget.memory_bytes, clock, below).run(lower)
        walk = _walk(self.cuts[1], budget.memory_bytes, clock, below)
        walk.run(upper)
        lost = walk.lost_mass * most
        return lower.bits - _ROUNDING_BITS, upper.bits + lost + _ROUNDING_BITS, lost, int(walk.num_sequences)


def _walk(cut: Cut, memory_bytes: int, clock: Clock, prune_below: float) -> JointWalk:
    size = tree_size(cut.chain)
    return JointWalk(cut.chain, 0.0, memory_bytes, clock, meet=size.meet, outer=size.outer, prune_below=prune_below)


def end_gradient(
    chain: Chain,
    *,
    radius: int,
    reveal: bool,
    memory_bytes: int,
    clock: Clock = UNLIMITED,
    prune_below: float = 0.0,
) -> tuple[float, Float[np.ndarray, "T C A"]]:
    """One end of the bracket of a given radius, and its slope in the policy's table.

    **Arguments:** `reveal`: True for the lower end, False for the upper one; `prune_below`: see `Pruning`, for the upper
    end without what it must add. The slope has the way from the start to the window in it.
    """
    cut = Cut(chain, Window.around(chain, radius), reveal=reveal)
    objective = EntropyObjective()
    slope = cut.run(_walk(cut, memory_bytes, clock, prune_below), objective)
    return objective.bits, slope
