"""Proven bounds on the opacity at any horizon: windows around the secret's time, deepened until they are narrow."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import TooLargeError
from ..common.logs import entropy_bits
from ..common.workers import ALONE
from ..engine.chain import Chain
from ..engine.clustering import Clustering, Stakes
from ..engine.joint import JointWalk, Walk
from ..engine.size import TreeSize, tree_size
from ..engine.sparse_walk import SparseWalk
from ..engine.window import Cut, Window
from .exact import COUNTED_STATES, LATE, Budget, EntropyObjective

# Rounding in the sums of a tree; the ends of a bracket are moved outwards by it.
_ROUNDING_BITS = 1e-12
# Forecast of a window from which its two ends are worth two workers: the first share waits for the workers to start.
_SPREAD_SECONDS = 2.0
# What took less time than this says little about what takes more.
_TELLING_SECONDS = 0.02
# Even a bracket that will not close is deepened for this share of the time: its bounds are proven.
_TRIAL_SHARE = 0.05
# Of the time, for a gradient before that of a window this many steps narrower is taken, which costs a small fraction.
_SLOPE_SHARE, _NARROWER = 0.7, 3
_ENOUGH_SECONDS = 1e9  # more than any time limit
# Merging in windows that take more than this share of the time to enumerate: the bits of a cluster, as a share of the width;
# the share of the width that merging may cost; by how many steps windows then grow, and by what a step more multiplies the
# time (measured on the paper's grid).
_ENUMERATED_SHARE = 0.02
_CLUSTER_SHARE, _CHARGED_SHARE, _STRIDE, _STEP_GROWTH = 3e-5, 0.6, 4, 1.12
_FINEST = 0.05  # of the bits of a cluster, at a time
# Of the width that is wanted, what a window alone is to leave; the rest is for merging.
_WINDOW_SHARE = 0.35


@dataclass(frozen=True)
class WindowBounds:
    """The best bounds so far, and the window that the last step reached.

    `merged`: the bits that each cluster of merged histories might cost; `walked`: the widest window whose histories were kept
    apart.
    """

    lower: float
    upper: float
    radius: int
    num_sequences: int
    merged: float = 0.0
    walked: int = 0

    @property
    def width(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    def improved(
        self, lower: float, upper: float, radius: int, num_sequences: int, merged: float = 0.0
    ) -> "WindowBounds":
        """With the better of either bound; the rest is that of the newest window."""
        walked = self.walked if merged else radius
        ends = max(self.lower, lower), min(self.upper, upper)
        return WindowBounds(*ends, radius, num_sequences, merged, walked)

    @property
    def text(self) -> str:
        """Where the bounds come from, in words."""
        merged = ", with similar histories merged" if self.merged else ""
        return f"windows of {self.radius} steps around the secret's time{merged}"

    def lower_gradient(self, chain: Chain, budget: Budget) -> tuple[Float[np.ndarray, "T C A"], str]:
        """The gradient of the lower bound in the policy's table, at the window that was walked, and what there is to say of it.

        If it takes longer than forecast, it is that of a narrower window. **Raises:** `TooLargeError`.
        """
        narrower = max(0, self.walked - _NARROWER)
        for radius, part in ((self.walked, _SLOPE_SHARE), (narrower, 1.0)):
            limits = {"memory_bytes": budget.memory_bytes, "clock": budget.clock.share(part)}
            try:
                _, slope = end_gradient(chain, radius=radius, reveal=True, **limits)
            except OutOfTime:
                continue
            return slope, f"; the gradient is that of {radius} steps" if radius < self.radius else ""
        raise TooLargeError(LATE)


def deepen(chain: Chain, budget: Budget, *, width: float, worth_seconds: float | None = None) -> Iterator[WindowBounds]:
    """Yield better and better `WindowBounds`, one a radius, until they are `width` apart or the budget is used up.

    Each window is evaluated twice, forgetting and revealing; bounds only ever improve. Cost: for each radius k the trees of
    k steps, plus T vector products once.

    A window costs a fixed factor more than the one before, so that taking every radius costs little more than the last
    alone, and what one took tells what the next will take. Where that is a good part of the time, histories and continuations
    that nearly agree are merged from then on, if the states are not too many. With `worth_seconds` it ends as soon as the last
    windows say that the bounds will not get that near within the time, or only by a window that takes longer than this.
    """
    outlook, clock = _Outlook(width, chain.hidden.horizon + 1), budget.clock
    best = WindowBounds(0.0, float(entropy_bits(chain.prior)) + _ROUNDING_BITS, 0, 0)
    yield best
    pace = 0.0  # seconds taken over seconds forecast
    for radius in range(chain.hidden.horizon + 2):
        try:
            pair = _Pair.around(chain, radius, clock)
            forecast = outlook.next_seconds if pair.seconds is None else pair.seconds
            wanted = worth_seconds is None or outlook.seconds(radius) <= clock.left
            if wanted and forecast > max(_ENUMERATED_SHARE * clock.time_limit, _TELLING_SECONDS):
                for bounds in _merged(chain, budget, best, radius, width):
                    yield bounds
                    best = bounds
                if best.merged:
                    return
            if forecast * max(pace, 0.5) > clock.left:
                return
            begin = clock.spent
            lower, upper, _, sequences = pair.evaluate(budget, spread=forecast * max(pace, 0.5) > _SPREAD_SECONDS)
            taken = clock.spent - begin
        except OutOfTime:
            return
        if pair.seconds is not None:
            pace = taken / pair.seconds if pair.seconds > _TELLING_SECONDS else pace
            taken = pair.seconds * max(pace, 0.5)
        best = best.improved(lower, upper, radius, sequences)
        yield best
        if best.width <= width or pair.window.is_whole(chain):
            return
        outlook.add(best.width, taken)
        worth = math.inf if worth_seconds is None else min(clock.left, worth_seconds)
        if outlook.seconds(radius) > worth and clock.spent > _TRIAL_SHARE * clock.time_limit:
            return


def _merged(chain: Chain, budget: Budget, best: WindowBounds, radius: int, width: float) -> Iterator[WindowBounds]:
    """Bounds from longer and longer windows whose histories and continuations are merged where they nearly agree.

    Merging never lowers H, and raises it by at most what is charged (`docs/maths.md`): the forgetting window still bounds
    from above, the revealing one less its charge from below. What a cluster may cost follows the width; the charge falls
    with its root, while the time grows with the inverse of that.
    """
    if chain.hidden.num_states > COUNTED_STATES:
        return
    clock, share, course, taken = budget.clock, _CLUSTER_SHARE, _Course(width), 0.0
    try:
        stakes = Stakes.of(chain, clock)
        while True:
            begin, threshold = clock.spent, share * max(best.width, width)
            pair = _Pair.around(chain, radius, clock)
            clusters, spread = _Clusters(stakes, threshold), taken > _SPREAD_SECONDS
            lower, upper, charged, sequences = pair.evaluate(budget, clusters=clusters, spread=spread)
            taken = clock.spent - begin
            if upper < best.upper or lower > best.lower:
                best = best.improved(lower, upper, radius, sequences, merged=threshold)
                yield best
            finer = 1.0
            if charged > _CHARGED_SHARE * best.width:
                finer = max(_FINEST, (0.8 * _CHARGED_SHARE * best.width / charged) ** 2)
            steps = 0 if pair.window.is_whole(chain) else course.steps(radius, upper - lower - charged)
            forecast = taken * _STEP_GROWTH**steps / math.sqrt(finer)
            if best.width <= width or (steps == 0 and finer == 1) or forecast > clock.left:
                return
            share, radius = share * finer, min(radius + steps, chain.hidden.horizon + 1)
    except (OutOfTime, TooLargeError):
        return


class _Course:
    """By how many steps windows are to grow to reach a width, at the pace of the last two."""

    def __init__(self, width: float):
        self._wanted = _WINDOW_SHARE * width
        self._last: tuple[int, float] | None = None

    def steps(self, radius: int, width: float) -> int:
        """The steps from a window that leaves a width by itself: half the way, and none where it is narrow enough."""
        last, self._last = self._last, (radius, width)
        if width <= self._wanted and self._wanted > 0:
            return 0
        if last is None or self._wanted == 0 or radius == last[0] or width >= last[1]:
            return _STRIDE
        pace = (width / last[1]) ** (1 / (radius - last[0]))
        missing = next((n for n in range(4 * _STRIDE) if width * pace**n <= self._wanted), 4 * _STRIDE)
        return math.ceil(missing / 2)


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

    @property
    def next_seconds(self) -> float:
        """What the next window will take, at the pace of the last two; 0 while little is known."""
        if len(self._costs) < 2:
            return 0.0
        return self._costs[-1] * max(1.0, self._costs[-1] / max(self._costs[-2], _TELLING_SECONDS))

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
    """The two cuts of one window, with their sizes: revealing for the lower bound, forgetting for the upper one.

    A chain of many states is not counted; what it takes is then known from the windows before.
    """

    window: Window
    cuts: tuple[Cut, Cut]
    sizes: tuple[TreeSize | None, TreeSize | None]

    @staticmethod
    def around(chain: Chain, radius: int, clock: Clock) -> "_Pair":
        window = Window.around(chain, radius)
        cuts = Cut(chain, window, reveal=True), Cut(chain, window, reveal=False)
        return _Pair(window, cuts, (_size(cuts[0], clock), _size(cuts[1], clock)))

    @property
    def seconds(self) -> float | None:
        """A forecast; infinite where the sequences are too many to count, None where they were not counted."""
        total = 0.0
        for cut, size in zip(self.cuts, self.sizes, strict=True):
            if size is None:
                return None
            total += size.seconds(cut.chain, gradient=False) if size.exact else math.inf
        return total

    def evaluate(
        self, budget: Budget, *, clusters: "_Clusters | None" = None, spread: bool = False
    ) -> tuple[float, float, float, int]:
        """Lower and upper bound, the bits that merging may have cost, and the sequences met.

        `clusters`: how histories and continuations are merged; `spread`: whether the two ends are worth two workers.
        """
        asked = [
            _End(cut, size, budget.memory_bytes, clusters) for cut, size in zip(self.cuts, self.sizes, strict=True)
        ]
        team = budget.team if spread else ALONE
        lower, upper = team.shares(_walked, None, asked, budget.clock)
        charged = lower.merge_error_bits
        return lower.bits - charged - _ROUNDING_BITS, upper.bits + _ROUNDING_BITS, charged, upper.num_sequences


class _Clusters(NamedTuple):
    """What is at stake in a chain's histories and continuations, and the bits by which a cluster of them may raise H."""

    stakes: Stakes
    threshold: float


class _End(NamedTuple):
    """What is walked for one end of a bracket."""

    cut: Cut
    size: TreeSize | None
    memory_bytes: int
    clusters: _Clusters | None


class _Walked(NamedTuple):
    """What the walk of an end found."""

    bits: float
    merge_error_bits: float
    num_sequences: int


def _walked(_: None, end: _End, clock: Clock) -> _Walked:
    objective = EntropyObjective()
    walk = _clustered(end, *end.clusters, clock) if end.clusters else _walk(*end[:3], clock)
    walk.run(objective)
    return _Walked(objective.bits, walk.merge_error_bits, int(walk.num_sequences))


def _clustered(end: _End, stakes: Stakes, threshold: float, clock: Clock) -> Walk:
    meet = stakes.meet(end.cut)
    return JointWalk(
        end.cut.chain,
        memory_bytes=end.memory_bytes,
        clock=clock,
        meet=meet,
        outer="suffixes" if meet > end.cut.chain.hidden.split_time else "prefixes",
        merger=Clustering(stakes, end.cut.begin, threshold),
    )


def _size(cut: Cut, clock: Clock) -> TreeSize | None:
    """The size of a window's tree; None for a chain of many states, which is walked without being counted."""
    return None if cut.chain.hidden.num_states > COUNTED_STATES else tree_size(cut.chain, clock)


def _walk(cut: Cut, size: TreeSize | None, memory_bytes: int, clock: Clock) -> Walk:
    if size is None:
        return SparseWalk(cut.chain, memory_bytes, clock)
    return JointWalk(cut.chain, memory_bytes=memory_bytes, clock=clock, meet=size.meet, outer=size.outer)


def end_gradient(
    chain: Chain,
    *,
    radius: int,
    reveal: bool,
    memory_bytes: int,
    clock: Clock = UNLIMITED,
) -> tuple[float, Float[np.ndarray, "T C A"]]:
    """One end of the bracket of a given radius, and its gradient in the policy's table.

    **Arguments:** `reveal`: True for the lower end, False for the upper one. The gradient has the way from the start to the
    window in it.
    """
    cut = Cut(chain, Window.around(chain, radius), reveal=reveal)
    objective = EntropyObjective()
    slope = cut.run(_walk(cut, _size(cut, clock), memory_bytes, clock), objective)
    return objective.bits, slope
