"""The game between agent and observers: the largest `H(Z|M_T)`, or the least of several, over all policies that meet every
constraint of a problem.
"""

import math
from dataclasses import replace

from ..common.clock import Clock
from ..common.errors import InfeasibleError
from ..engine.compile import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .ascent import LAST_BOUND_SECONDS, GameResult, made_pairs, solve_priced_game
from .pairs import DEFAULT_MEMORY, ObserverMemory, Pairs
from .public_graph import whole_memory
from .records import Players, players_of
from .responses import AgentProblem, Tables, Task
from .rounds import Proving, Rounds
from .rules import bound_of_policy


@one_blas_thread
def solve_game(
    problem: Problem,
    memory: ObserverMemory | None = None,
    *,
    hide: tuple[str, ...] = (),
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
    memory; no causal policy of any kind does better against an observer with this memory. With `hide` it is the largest least
    of what the observers of these channels lack, under the bits that the problem's other pairs must keep (`players_of`).

    **Arguments:** `memory`: of the observer, by default the whole history, or its string if it has no clock;
    `hide`: names of channels, by default the problem's own, whatever other pairs must keep;
    `threshold`: δ, that of the problem by default;
    `gap`: the search ends where the bounds are this close, after `iterations`, or where the `clock` says so; a keyboard
    interrupt also ends it with the best so far. `pairs`: those of the memory, where they are already made; `prior`:
    a policy on the pairs that excludes no action, near which the best is expected, and which then takes the place of the
    uniform one in the search. `known`: an upper bound from elsewhere, near which the search ends. `task`: factors of
    quantities whose sum is added to the bits; both bounds are then on the whole sum. Once the pairs are made a
    feasible policy and a bound are returned in any case.

    **Returns:** with several channels or constraints beside the threshold, the game whose rules, weights and `prices` prove the
    best bound, the weights of pairs that must keep bits being their prices, with the policy of the best mixture; `lower` is
    -inf where no policy was found that keeps all bits.

    Cost: `solve_priced_game`; with several channels or bounds one for each round, about ten of them for two.

    **Raises:** `InfeasibleError` where no policy has the return asked for, or none keeps the bits; `TooLargeError` where the
    graph does not fit the memory or the time; `InputError` where the observers cannot be put together.
    """
    clock = clock or Clock()
    if hide:
        players = players_of(problem, hide, memory_bytes, clock)
    else:
        memory = memory or whole_memory(build(problem))
        players = Players.single(problem, pairs or made_pairs(problem, memory, memory_bytes, clock))
    return play(players, threshold, gap, iterations, prior=prior, known=known, task=task, clock=clock)


def play(
    players: Players,
    threshold: float | None,
    gap: float,
    iterations: int,
    *,
    prior: Tables | None = None,
    known: float = math.inf,
    task: Task = (),
    clock: Clock,
) -> GameResult:
    """The game of some players; the arguments are those of `solve_game`."""
    problem = players.problem
    threshold = threshold_of(problem) if threshold is None else threshold
    agent = AgentProblem(problem, players.pairs, players.table, task=task)
    if len(players.names) == 1 and not problem.others:
        game = solve_priced_game(
            agent, threshold=threshold, gap=gap, iterations=iterations, prior=prior, known=known, clock=clock
        )
        proving, stopped = Proving(game, game.bound.upper, agent, [1.0]), game.stopped
        lower, tables, outcome = game.lower, game.tables, game.outcome
    else:
        rounds = Rounds(agent, players, threshold, gap, known)
        stopped = rounds.run(iterations, clock)
        if rounds.unreachable:
            bounds = zip(players.kept.tolist(), players.names[players.num_hidden :], strict=True)
            wanted = " and ".join(f"{bits:.6g} in {name!r}" for bits, name in bounds)
            raise InfeasibleError(f"no policy that meets the constraints keeps {wanted} bits: lower the min of a pair")
        assert rounds.proving is not None
        proving, (lower, tables, outcome) = rounds.proving, rounds.answer()
    game, upper, agent, weights = proving
    return GameResult(
        lower=lower,
        upper=upper,
        multiplier=game.bound.multiplier,
        rules=players.rules(game.bound.costs, weights),
        pairs=players.pairs,
        tables=tuple(tables),
        expected_return=outcome.expected_return,
        threshold=threshold,
        executable=players.executable,
        iterations=game.iterations,
        seconds=clock.spent,
        history=game.history,
        stopped=stopped,
        problem=problem,
        prices=agent.prices,
        task_value=outcome.bonus if task else 0.0,
        views=dict(zip(players.names, players.views, strict=False)),
    )


def game_of_policy(agent: AgentProblem, tables: Tables, like: GameResult) -> GameResult:
    """A game that was not searched: a given policy, and the bound that its own posterior proves.

    **Arguments:** `tables`: the policy on the pairs of `agent`; `like`: the game that it comes from, for the rest.
    """
    outcome = agent.outcome(tables)
    bound = bound_of_policy(agent, outcome, like.threshold, like.multiplier, Clock(LAST_BOUND_SECONDS))
    return replace(
        like,
        lower=agent.table.entropy(outcome.joint) + outcome.bonus,
        upper=bound.upper,
        multiplier=bound.multiplier,
        rules=Players.single(agent.problem, agent.pairs).rules(bound.costs, [1.0]),
        pairs=agent.pairs,
        tables=tuple(tables),
        expected_return=outcome.expected_return,
    )
