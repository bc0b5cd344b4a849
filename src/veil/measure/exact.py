"""Exact opacity and its gradient: every possible observation sequence, once."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, is_number
from ..common.clock import Clock, OutOfTime, too_large_if_late
from ..common.errors import TooLargeError
from ..common.logs import entropy_bits, log2_or_zero, surprisal_bits
from ..common.workers import Team
from ..engine.backends.sparse_rows import SparseBlock
from ..engine.chain import Chain
from ..engine.joint import DEFAULT_MEMORY, JointWalk, Objective, Walk
from ..engine.size import TreeSize, naive_bound, tree_size
from ..engine.sparse_walk import SparseWalk
from ..engine.string_walk import StringWalk
from .result import Opacity

Fed = TypeVar("Fed", bound=Objective)

EXACT_SECONDS = 300.0
# Trees this small are walked without counting them first.
_SMALL = 20_000
_REMEDIES = (
    "Instead: method='bracket' (proven bounds), method='sampled' (an estimate with its error), method='auto' (chooses),"
    " merge_tolerance=1e-9 (merges histories that leave the observer with the same belief), a shorter horizon, or"
)
LATE = f"the observation tree outgrew its time limit. {_REMEDIES} time_limit=… to allow more"
# Chains of more states are walked with sparse rows at once: a set of states takes a row of bits in a count.
COUNTED_STATES = 2_000
# Below this forecast, dense messages are taken as they are: trying anything else would not be felt.
_DENSE_SECONDS = 0.5
_TRIAL_SECONDS = 1.0
# With more events than this, the count and dense messages spend their time between the products, event by event, and no
# forecast holds: five dining cryptographers (738 states, 240 events) took 8 s, where rows with sparse support take 0.03 s.
_MANY_EVENTS, _WIDE_SECONDS = 100, 0.1
# A trial is bounded by its products; on a busy machine they may take this many times their time.
_TRIAL_OVERRUN = 10
# Of rows with sparse support, on one ordinary core: 40 to 200 ns were measured.
_PRODUCT_SECONDS = 1e-7
# Seconds of a gradient on rows with sparse support, for each decision and for each multiplication (measured).
_STEP_SECONDS, _PRODUCT_GRADIENT_SECONDS = 6e-4, 1.3e-7
_WORDS = {
    SparseWalk: "rows with sparse support",
    StringWalk: "all possible strings of an observer without a clock",
}
# A forecast from the first part of the work, whose parts differ, ends it where it passes the limit by this factor.
_HOPELESS = 10


@dataclass(frozen=True)
class Budget:
    """What an exact evaluation may take.

    **Arguments:** `memory_bytes`: for the messages of the tree (default 2 GiB); `time_limit`: seconds, for all that is done
    with this budget, whose `clock` starts when it is made; `merge_tolerance`: 0 keeps every history apart; above,
    histories whose beliefs agree to it are merged, and the result becomes a bracket whose width bounds the effect; `team`:
    who shares what can be shared.
    """

    memory_bytes: int = DEFAULT_MEMORY
    time_limit: float = EXACT_SECONDS
    merge_tolerance: float = 0.0
    team: Team = field(default_factory=Team, repr=False, compare=False)
    clock: Clock = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        defects = Defects("budget")
        for name in ("memory_bytes", "time_limit", "merge_tolerance"):
            value = getattr(self, name)
            if not is_number(value):
                defects.add(f"{name} is {value!r}, expected a number")
        defects.raise_if_any()
        if not 2**20 <= self.memory_bytes < math.inf:
            defects.add(f"memory_bytes is {self.memory_bytes!r}, expected at least 2**20, and finite")
        if not self.time_limit > 0:
            defects.add(f"time_limit is {self.time_limit!r}, expected seconds above 0; math.inf for no limit")
        if not 0 <= self.merge_tolerance < 1:
            defects.add(f"merge_tolerance is {self.merge_tolerance!r}, expected a number in [0, 1)")
        defects.raise_if_any()
        object.__setattr__(self, "clock", Clock(self.time_limit))

    def share(self, part: float) -> "Budget":
        """This budget with a part of the time that is left."""
        result, clock = copy.copy(self), self.clock.share(part)
        object.__setattr__(result, "clock", clock)
        object.__setattr__(result, "time_limit", clock.time_limit)
        return result


class EntropyObjective:
    """Adds up `H(Z|Y) = Σ -P(z,y) log2 P(z|y)`; its gradient is `-log2 P(z|y)`."""

    def __init__(self) -> None:
        self.bits = 0.0

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `Objective`."""
        slope = surprisal_bits(joint)
        self.bits += float(np.vdot(joint, slope))
        return slope

    def add_rows(self, block: SparseBlock) -> np.ndarray:
        """See `SparseObjective`: a row's messages are the posterior, its weight the probability of the sequence."""
        slope = -log2_or_zero(block.message)
        if len(block):
            self.bits += float(block.weight @ np.add.reduceat(block.message * slope, block.indptr[:-1]))
        return slope


def walk_all(
    chain: Chain, budget: Budget, make_objective: Callable[[], Fed], *, gradient: bool, keep_events: bool = False
) -> tuple[Fed, Walk, Float[np.ndarray, "T C A"] | None]:
    """All possible sequences through an objective, by the backend that is forecast to be the cheapest.

    A chain of few states is counted first. Dense messages serve where they take a fraction of a second; else rows with
    sparse support are tried for a twentieth of what dense messages would take, a second at most. A chain of many states,
    or of a history policy, is not counted: rows with sparse support cost about as much as the count.

    Cost: rows of the tree times `nnz(P)` (dense messages), or the sum over histories of the transitions out of what they
    leave possible (rows with sparse support). Raises `TooLargeError`: for a counted chain before most of the work, for
    another one as soon as the time of what is done says that the rest takes many times the limit.
    """
    with too_large_if_late(LATE):
        if chain.written is not None:
            objective, strings = make_objective(), StringWalk(chain, budget.memory_bytes, budget.clock)
            return objective, strings, strings.run(objective, gradient=gradient)
        if chain.followed is not None or chain.hidden.num_states > COUNTED_STATES:
            objective = make_objective()
            sparse = SparseWalk(
                chain, budget.memory_bytes, budget.clock, keep_events, forecast=lambda s: _refuse_hopeless(s, budget)
            )
            return objective, sparse, sparse.run(objective, gradient=gradient)
        if budget.merge_tolerance == 0 and not is_small(chain):
            if chain.hidden.num_events > _MANY_EVENTS:
                found = try_sparse(
                    chain, budget, make_objective, _WIDE_SECONDS, gradient=gradient, keep_events=keep_events
                )
                if found is not None:
                    return found
            seconds = min(tree_size(chain, budget.clock).seconds(chain, gradient=gradient), budget.time_limit)
            if seconds > _DENSE_SECONDS:
                trial = min(0.05 * seconds, _TRIAL_SECONDS)
                found = try_sparse(chain, budget, make_objective, trial, gradient=gradient, keep_events=keep_events)
                if found is not None:
                    return found
        dense = prepare(chain, budget, gradient=gradient, keep_events=keep_events)
        objective = make_objective()
        return objective, dense, dense.run(objective, gradient=gradient)


def is_small(chain: Chain) -> bool:
    """Whether a chain of few states has so few sequences that they need not be counted first."""
    return chain.hidden.num_states <= COUNTED_STATES and naive_bound(chain) <= _SMALL


def try_sparse(
    chain: Chain,
    budget: Budget,
    make_objective: Callable[[], Fed],
    seconds: float,
    *,
    gradient: bool,
    keep_events: bool = False,
) -> tuple[Fed, SparseWalk, Float[np.ndarray, "T C A"] | None] | None:
    """Rows with sparse support for about so many seconds of work; None where they take more.

    A budget with a time limit also ends the trial where it takes many times as long, as on a busy machine.
    """
    objective = make_objective()
    most = seconds / _PRODUCT_SECONDS
    clock = budget.clock.within(_TRIAL_OVERRUN * seconds)
    walk = SparseWalk(chain, budget.memory_bytes, clock, keep_events, most_products=most)
    try:
        return objective, walk, walk.run(objective, gradient=gradient)
    except (TooLargeError, OutOfTime):
        return None


def sparse_seconds(walk: SparseWalk) -> float:
    """The forecast of a walk like one that was made, by its work alone: the same on every machine."""
    return _STEP_SECONDS * walk.chain.hidden.horizon + _PRODUCT_GRADIENT_SECONDS * walk.products


def prepare(chain: Chain, budget: Budget, *, gradient: bool, keep_events: bool = False) -> JointWalk:
    """A walk over the chain's tree, after the check that it fits the budget."""
    meet, outer = None, "prefixes"
    if not is_small(chain):
        size = tree_size(chain, budget.clock)
        refuse_if_too_large(chain, size, budget, gradient=gradient, keep_events=keep_events)
        meet, outer = size.meet, size.outer
    return JointWalk(chain, budget.merge_tolerance, budget.memory_bytes, budget.clock, keep_events, meet, outer)


def refuse_if_too_large(
    chain: Chain, size: TreeSize, budget: Budget, *, gradient: bool = False, keep_events: bool = False
) -> None:
    """Raise `TooLargeError` where the forecast of time or memory passes the budget."""
    hidden = chain.hidden
    seconds = size.seconds(chain, gradient=gradient)
    kept = 8.0 * hidden.num_states * size.kept_rows * 3
    if keep_events:
        kept += size.num_sequences * (8 * hidden.num_values + 4 * (hidden.horizon + 1)) * 2
    # Merging usually makes the tree far smaller than the count of sequences; the deadline guards that case instead.
    merging = budget.merge_tolerance > 0
    late = seconds > budget.time_limit and not merging
    if not late and (kept <= budget.memory_bytes or merging):
        return
    need = f"about {_duration(seconds)}" if late else f"about {_bytes(kept)}"
    limit = f"{budget.time_limit:g} s" if late else _bytes(budget.memory_bytes)
    raise TooLargeError(
        f"the exact value needs {size.text()} observation sequences over {hidden.num_states} hidden states and"
        f" {hidden.horizon} steps, {need}; the budget is {limit}. {_REMEDIES}"
        f" {'time_limit' if late else 'memory_bytes'}=… to allow more"
    )


def _refuse_hopeless(seconds: float, budget: Budget) -> None:
    """Raise `TooLargeError` where a forecast from the first part of the work passes the time limit many times over."""
    if seconds > _HOPELESS * budget.time_limit:
        raise TooLargeError(
            f"the exact value would take about {_duration(seconds)}, by the time of its first part; the budget is"
            f" {budget.time_limit:g} s. {_REMEDIES} time_limit=… to allow more"
        )


def _bytes(number: float) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**29 else f"{number / 2**20:.1f} MiB"


def _duration(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:.1f} h" if seconds < 1e6 else f"{seconds / 31_557_600:.2g} years"


def _number(walk: Walk, chain: Chain) -> int:
    """How many sequences are possible; merged histories may have been counted with continuations of one another."""
    exact = walk.merge_error_bits == 0 and np.isfinite(walk.num_sequences)
    return int(walk.num_sequences if exact else tree_size(chain).num_sequences)


def exact_result(chain: Chain, walk: Walk, objective: EntropyObjective, reason: str) -> Opacity:
    """What a walk over all sequences has found."""
    prior = float(entropy_bits(chain.prior))
    lower = max(0.0, objective.bits - walk.merge_error_bits)
    return Opacity(
        bits=lower,
        lower=lower,
        upper=objective.bits,
        prior_bits=prior,
        method="exact" if walk.merge_error_bits == 0 else "bracket",
        num_sequences=_number(walk, chain),
        reason=reason or _WORDS.get(type(walk), "dense messages"),
    )
