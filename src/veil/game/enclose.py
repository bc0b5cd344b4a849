"""The one way to enclose a game, of one channel or several: observers with more and more memory."""

from ..common.clock import Clock
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .bounds import Bounds
from .growth import LONG_SECONDS as LONG_SECONDS
from .growth import WHOLE_GAP, Growth
from .pairs import DEFAULT_MEMORY
from .records import solve_records_game
from .responses import Task


@one_blas_thread
def enclose(
    problem: Problem,
    hide: tuple[str, ...] = (OWN,),
    *,
    threshold: float | None = None,
    gap: float | None = None,
    iterations: int = 10_000,
    nodes: int = 128,
    most_nodes: int = 4096,
    memory_bytes: int = DEFAULT_MEMORY,
    task: Task = (),
    pass_seconds: float = 0.0,
    begun: Bounds | None = None,
    clock: Clock | None = None,
) -> Bounds:
    """Enclose the largest `min_j H(Z_j|Y_j) + Σ_k c_k V_k` over all policies that meet the constraints, under the bits that
    pairs must keep.

    One channel is played against an observer without memory, then on the whole memory of its observer if that fits, else on
    memories that grow (`growth.py`); several on the histories of all of their observers together.

    **Arguments:** `hide`: the channels; `threshold`: δ, that of the problem by default; `gap`: the search ends where the bounds
    are this close, by default 0.001 bits, and 0.05 where a memory grows, or where the `clock` says so, after 600 s by default;
    `iterations` of a game on the whole memory; `nodes`: of the first clusters of beliefs, a quarter more in each turn up to
    `most_nodes`; with 1 the observer without memory is the only one. `task`: the factors c_k of quantities, none by default;
    `pass_seconds`: for each move between pairs, time that the caller needs afterwards; `begun`: the bounds of an observer
    without memory, if they are known. A keyboard interrupt ends it with the best bounds so far.

    **Raises:** `InfeasibleError` where no policy meets the constraints; `TooLargeError` where not even an observer without
    memory fits, or where several observers, or one without a clock, have too large a memory; `InputError` where the
    observers of several pairs cannot be put together.
    """
    clock = clock or Clock()
    threshold = threshold_of(problem) if threshold is None else threshold
    if len(hide) > 1 or any(one.min for one in problem.pairs if one.name not in hide):
        limits = {"gap": gap or WHOLE_GAP, "iterations": iterations, "memory_bytes": memory_bytes}
        return Bounds.of(solve_records_game(problem, hide, threshold=threshold, task=task, clock=clock, **limits))
    own = problem if OWN in hide else problem.only(*hide)
    growth = Growth(own, threshold, gap, nodes, most_nodes, memory_bytes, clock, task, iterations, pass_seconds, begun)
    return growth.run()
