"""The game between agent and observer: the largest `H(Z|M_T)` over all policies that meet every constraint of a problem."""

import math

from ..common.clock import Clock
from ..engine.compile import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .ascent import GameResult, made_pairs, solve_priced_game
from .pairs import DEFAULT_MEMORY, ObserverMemory, Pairs
from .public_graph import whole_memory
from .responses import Tables, Task
from .rounds import OwnBits, Rounds


@one_blas_thread
def solve_game(
    problem: Problem,
    memory: ObserverMemory | None = None,
    *,
    threshold: float | None = None,
    gap: float = 1e-3,
    iterations: int = 10_000,
    memory_bytes: int = DEFAULT_MEMORY,
    pairs: Pairs | None = None,
    prior: Tables | None = None,
    known: float = math.inf,
    task: Task = (),
    clock: Clock | None = None,
) -> GameResult:
    """The largest `H(Z|M_T)` over all policies that meet the constraints, between two proven bounds.

    The policies know the hidden state (the state, the start, the secret's automaton, which model runs) and the observer's
    memory; no causal policy of any kind does better against an observer with this memory.

    **Arguments:** `memory`: of the observer, by default the whole history, or its string if it has no clock;
    `threshold`: δ, that of the problem by default;
    `gap`: the search ends where the bounds are this close, after `iterations`, or where the `clock` says so; a keyboard
    interrupt also ends it with the best so far. `pairs`: those of the memory, where they are already made; `prior`:
    a policy on the pairs that excludes no action, near which the best is expected, and which then takes the place of the
    uniform one in the search. `known`: an upper bound from elsewhere, near which the search ends. `task`: factors of
    quantities whose sum is added to the bits; both bounds are then on the whole sum. Once the pairs are made a
    feasible policy and a bound are returned in any case.

    **Returns:** with constraints beside the threshold, the game whose `prices` prove the best bound, with the policy of the
    best mixture.

    Cost: `solve_priced_game`; with other bounds one for each round, about ten of them for two constraints.

    **Raises:** `InfeasibleError` where no policy has the return asked for; `TooLargeError` where the graph does not fit the
    memory or the time.
    """
    clock = clock or Clock()
    threshold = threshold_of(problem) if threshold is None else threshold
    pairs = made_pairs(problem, memory or whole_memory(build(problem)), memory_bytes, clock) if pairs is None else pairs
    if not problem.others:
        return solve_priced_game(
            problem, pairs, threshold=threshold, gap=gap, iterations=iterations, prior=prior, known=known, task=task,
            clock=clock,
        )  # fmt: skip
    rounds = Rounds(problem, pairs, OwnBits(pairs), threshold, gap, task, known)
    stopped = rounds.run(iterations, clock)
    return rounds.result(stopped, clock.spent)
