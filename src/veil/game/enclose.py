"""The one way to enclose a game: the whole memory of the observer where it fits, else one that grows; of several pairs, too."""

import math

from ..common.clock import Clock
from ..common.errors import TooLargeError
from ..engine.compile import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .ascent import GameResult, made_pairs
from .bounds import Bounds
from .growth import Growth
from .pairs import DEFAULT_MEMORY
from .public_graph import whole_memory
from .records import solve_records_game
from .responses import Task
from .solve import solve_game

_GAP, _WIDE_GAP = 1e-3, 0.05  # bits, by default: of the whole memory, and of one that grows
LONG_SECONDS = 600.0  # of a memory that grows, where no limit is given: more of it always gains a little
_GROWING_SHARE = 0.65  # of the time, for a memory that grows, where passes over its graph follow
_GAME_SECONDS = 1e-7  # of the shortest game, for each move: measured on one core


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
    blind: GameResult | None = None,
    task: Task = (),
    pass_seconds: float = 0.0,
    clock: Clock | None = None,
) -> Bounds:
    """Enclose the largest `min_j H(Z_j|Y_j) + Σ_k c_k V_k` over all policies that meet the constraints, under the bits that
    pairs must keep.

    One channel is played on the whole memory of its observer if that fits, else on memories that grow (`growth.py`); several
    on the histories of all of their observers together.

    **Arguments:** `hide`: the channels; `threshold`: δ, that of the problem by default; `gap`: the search ends where the bounds
    are this close, by default 0.001 bits, and 0.05 where a memory grows, or where the `clock` says so, after 600 s by default;
    `iterations` of a game on the whole memory; `nodes`: of the first clusters of beliefs, half as many more in each turn up to
    `most_nodes`; `blind`: the game of an observer without memory, where it was already solved; `task`: the factors c_k of
    quantities, none by default; `pass_seconds`: for each move between pairs, time that the caller needs afterwards. A keyboard
    interrupt ends it with the best bounds so far.

    **Raises:** `InfeasibleError` where no policy meets the constraints; `TooLargeError` where not even an observer without
    memory fits, or where several observers, or one without a clock, have too large a memory; `InputError` where the
    observers of several pairs cannot be put together.
    """
    clock = clock or Clock()
    threshold = threshold_of(problem) if threshold is None else threshold
    if len(hide) > 1 or any(one.min for one in problem.pairs if one.name not in hide):
        return Bounds.of(
            solve_records_game(
                problem, hide, threshold=threshold, gap=gap or _GAP, iterations=iterations, memory_bytes=memory_bytes,
                task=task, clock=clock,
            )
        )  # fmt: skip
    problem = problem if OWN in hide else problem.only(*hide)
    hidden = build(problem)
    try:
        pairs = made_pairs(problem, whole_memory(hidden), memory_bytes, clock)
        moves = sum(step.nnz for step in pairs.steps)
        limited = clock.share(more=-pass_seconds * moves) if pass_seconds else clock
        if pass_seconds and limited.left < _GAME_SECONDS * moves:
            raise TooLargeError("there is no time for the game on the whole history")
        return Bounds.of(
            solve_game(
                problem, threshold=threshold, gap=gap or _GAP, iterations=iterations, pairs=pairs, blind=blind,
                task=task, clock=limited,
            )
        )  # fmt: skip
    except TooLargeError:
        if hidden.written is not None:  # automata of events need a clock
            raise
    limited = clock.share(_GROWING_SHARE) if pass_seconds else clock
    if math.isinf(clock.time_limit):
        limited = clock.within(LONG_SECONDS)
    return Growth(problem, threshold, gap or _WIDE_GAP, nodes, most_nodes, memory_bytes, blind, limited, task).run()
