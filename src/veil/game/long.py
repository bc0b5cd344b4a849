"""The game at long horizons: two small games around the secret's time, whose values enclose that of the whole game.

For the last state (any secret settled at time T) and a stretch of k steps, s = T − k:

    max H(Z | X_s, O_{s+1:T})  ≤  max H(Z|Y)  ≤  max H(Z | O_{s+1:T})

over policies with return ≥ δ. On the right the observer forgets all before s; on the left it is told X_s, after which what
came before says no more. Either is a game on a public graph of k steps, so it costs what k costs, whatever T is. For a
secret settled at time 0 the stretch is the first k steps: on the right the observer stops looking, on the left it is told
X_k, and the agent plays on for the return alone. Both ends close as k grows where the agent can mix within k steps.
"""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..common.errors import InputError, TooLargeError
from ..common.logs import conditional_entropy_bits
from ..engine.hidden import build
from ..engine.kernel import num_rows
from ..engine.moves import num_columns
from ..engine.return_range import threshold as wanted_return
from ..engine.returns import optimal_values
from ..engine.threads import one_blas_thread
from ..problem.model import Model
from ..problem.problem import Problem
from .limits import ENDED_FROM_OUTSIDE, INTERRUPTED, TIME, Limits, OutOfTime
from .pairs import DEFAULT_MEMORY, FullHistory, Memory, Pairs, TailEvents, event_step, make_pairs
from .responses import Game, Tables
from .solve import GamePoint, GameResult, solve_game

_PRUNE = 1e-9  # histories rarer than this are left out: what they hide is not counted


@dataclass(frozen=True)
class Revealed:
    """A lower bound on `H(Z|Y)` of a policy, and by how many steps the hidden state was told apart from the secret."""

    bits: float
    steps: int
    num_histories: int


def hidden_at_least(
    game: Game, tables: Tables, *, time_limit: float = 60.0, width: float = 1e-3, most_numbers: int = 2**25
) -> Revealed:
    """A proven lower bound on the opacity of a policy on a graph, for a secret settled at time T.

    `H(Z|Y) ≥ H(Z | M_s, X_s, O_{s+1:T})`, from longer and longer stretches. Stops where a longer stretch gains less than
    `width`, at the time limit, or where the messages pass `most_numbers`.
    """
    begin, best = clock.monotonic(), Revealed(0.0, -1, 0)
    hidden = game.pairs.hidden
    assert hidden.split_time == hidden.horizon, "the secret is settled at the last time"
    assert game.pairs.graph.told_at is None
    occupied = _occupancies(game, tables)
    steps = _Steps(game.pairs, tables)
    for length in range(hidden.horizon + 1):
        start = clock.monotonic()
        found = _before(game.pairs, steps, occupied, length, most_numbers)
        if found is None:
            return best
        gained = found.bits - best.bits
        best = found if gained > 0 else best
        taken = clock.monotonic() - start
        if (gained < width and length > 2) or clock.monotonic() - begin + 3 * taken > time_limit:
            return best
    return best


class _Steps:
    """Steps of a policy with events apart, made when they are needed."""

    def __init__(self, pairs: Pairs, tables: Tables):
        self._pairs, self._tables = pairs, tables
        self._made: dict[int, sp.csr_array] = {}

    def __call__(self, time: int) -> sp.csr_array:
        if time not in self._made:
            self._made[time] = event_step(self._pairs, time, self._tables[time])
        return self._made[time]


def _occupancies(game: Game, tables: Tables) -> list[np.ndarray]:
    """`P(pair at t)` for t = 0 … T."""
    _, flows = game.flows(tables)
    last = game.pairs.steps[-1].T @ flows[-1].ravel() if flows else game.pairs.start
    return [*(flow.sum(axis=0) for flow in flows), last]


def _extended(messages: sp.csr_array, step: sp.csr_array, num_pairs: int) -> sp.csr_array:
    """Each history by each event: `(histories, n)` becomes `(longer histories, n')`; rare ones are dropped."""
    product = sp.coo_array(messages @ step)
    event, pair = np.divmod(product.col.astype(np.int64), num_pairs)
    events = num_columns(step) // num_pairs
    history = product.row.astype(np.int64) * events + event
    mass = np.bincount(history, weights=product.data, minlength=1)
    kept = mass > _PRUNE
    number = np.cumsum(kept) - 1
    chosen = kept[history]
    places = (number[history[chosen]], pair[chosen])
    return sp.csr_array(sp.coo_array((product.data[chosen], places), shape=(int(kept.sum()), num_pairs)))


def _before(pairs: Pairs, steps: _Steps, occupied: list[np.ndarray], length: int, most_numbers: int) -> Revealed | None:
    """`H(Z | M_s, X_s, O_{s+1:T})` with `s = T − length`; all observations where that passes the start."""
    horizon = pairs.hidden.horizon
    begin = horizon - length
    size = len(pairs.layers[begin])
    roots = sp.csr_array(sp.diags_array(occupied[begin]))
    if begin == 0:  # the start need not be told: the first event is all that is known of it
        roots = sp.csr_array(sp.coo_array((pairs.start, (pairs.layers[0].node, np.arange(size)))))
    messages = roots
    for time in range(begin, horizon):
        messages = _extended(messages, steps(time), len(pairs.layers[time + 1]))
        if messages.nnz > most_numbers:
            return None
    return Revealed(_entropy(pairs, messages), length, num_rows(messages))


def _entropy(pairs: Pairs, messages: sp.csr_array) -> float:
    last = pairs.layers[-1]
    values = np.zeros((len(last), pairs.hidden.label.shape[1]))
    values[np.arange(len(last)), last.z] = 1.0
    return conditional_entropy_bits(messages @ values)


@dataclass(frozen=True, eq=False)
class LongGameResult:
    """Bounds on the largest opacity over all policies with return ≥ threshold, and the two games that prove them.

    `told` gives the policy and the lower bound (its opacity is at least that), `forgetful` the observer's rule and the upper
    bound. Their stretches are `told_steps` and `forgetful_steps` long. `problem` is what the game `told` was played on: the
    problem itself, or for a secret settled at time 0 its first steps, after which the agent plays for the return alone.
    """

    lower: float
    upper: float
    told: GameResult
    forgetful: GameResult
    told_steps: int
    forgetful_steps: int
    problem: Problem
    seconds: float
    stopped: str

    @property
    def gap(self) -> float:
        """How far the bounds are apart, in bits."""
        return self.upper - self.lower


@dataclass(frozen=True, eq=False)
class _Side:
    """One of the two games of a stretch: what it is played on, what the observer remembers, when it is told."""

    problem: Problem
    memory: Memory
    told_at: int | None

    def solve(self, threshold: float | None, gap: float, limits: Limits, memory_bytes: int) -> GameResult:
        pairs = make_pairs(
            build(self.problem), self.memory, memory_bytes, told_at=self.told_at, check=limits.check_unless_over
        )
        return solve_game(
            self.problem,
            threshold=threshold,
            gap=gap,
            time_limit=limits.left,
            pairs=pairs,
            should_stop=limits.should_stop,
        )


class _Enclosure:
    """The best of both sides so far; stretches are offered until something says stop."""

    def __init__(self, problem: Problem, threshold: float | None, gap: float, memory_bytes: int):
        self.problem, self.threshold, self.gap, self.memory_bytes = problem, threshold, gap, memory_bytes
        self.told: tuple[GameResult, int, Problem] | None = None
        self.forgetful: tuple[GameResult, int] | None = None

    @property
    def complete(self) -> bool:
        """Whether both sides have a bound."""
        return self.told is not None and self.forgetful is not None

    @property
    def open_bits(self) -> float:
        """How far the bounds are apart."""
        assert self.told is not None
        assert self.forgetful is not None
        return self.forgetful[0].upper - self.told[0].lower

    def play(self, length: int, limits: Limits) -> str:
        """Both games of a stretch; returns how the last one ended."""
        result, played = None, None
        for number, side in enumerate(_sides(self.problem, length)):
            if result is None or side is not played:  # over the whole horizon the two are one game
                result = side.solve(self.threshold, self.gap / 10, limits.share(1 / 3), self.memory_bytes)
            played = side
            if number == 0 and (self.told is None or result.lower > self.told[0].lower):
                self.told = result, length, side.problem
            if number == 1 and (self.forgetful is None or result.upper < self.forgetful[0].upper):
                self.forgetful = result, length
            if result.stopped in ENDED_FROM_OUTSIDE:
                break
        assert result is not None
        return result.stopped

    def point(self, length: int, spent: float) -> GamePoint:
        """What to tell of it."""
        assert self.told is not None
        assert self.forgetful is not None
        best = self.forgetful[0]
        return GamePoint(length, spent, self.told[0].lower, best.upper, best.price)

    def result(self, first: int, seconds: float, stopped: str) -> LongGameResult:
        """Both bounds; a side that was never played is played for a moment."""
        if not self.complete:
            self.play(first, Limits.of(0.0))
        assert self.told is not None
        assert self.forgetful is not None
        return LongGameResult(
            lower=self.told[0].lower, upper=self.forgetful[0].upper, told=self.told[0], forgetful=self.forgetful[0],
            told_steps=self.told[1], forgetful_steps=self.forgetful[1], problem=self.told[2], seconds=seconds,
            stopped=stopped,
        )  # fmt: skip


@one_blas_thread
def solve_long_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    time_limit: float = 600.0,
    memory_bytes: int = DEFAULT_MEMORY,
    steps: int = 2,
    least: float = 0.0,
    callback: Callable[[GamePoint], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> LongGameResult:
    """Enclose the value of the game at a horizon whose tree does not fit, by longer and longer stretches.

    **Arguments:** as for `solve_game`; `steps`, the first stretch; `least`, the share of the gap that a stretch must close
    for a longer one to follow. `callback` is called after each stretch. A keyboard
    interrupt ends the enclosure with the best bounds so far.

    **Raises:** `InputError` where the secret is settled neither at time 0 nor at time T; `InfeasibleError` where the threshold
    is beyond reach; `TooLargeError` where not even the first stretch fits.
    """
    limits = Limits.of(time_limit, should_stop)
    threshold = wanted_return(problem) if threshold is None else threshold
    found = _Enclosure(problem, threshold, gap, memory_bytes)
    first = min(steps, problem.horizon)
    try:
        stopped = _lengthen(found, first, least, limits, callback)
    except OutOfTime as end:
        stopped = str(end)
    except TooLargeError:
        if not found.complete:
            raise
        stopped = "memory"
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return found.result(first, limits.spent, stopped)


def _lengthen(
    found: _Enclosure, length: int, least: float, limits: Limits, callback: Callable[[GamePoint], None] | None
) -> str:
    """Longer and longer stretches; returns why there is no further one."""
    wide = np.inf
    while True:
        before = limits.spent
        stopped = found.play(length, limits)
        if found.complete and callback is not None:
            callback(found.point(length, limits.spent))
        if stopped in ENDED_FROM_OUTSIDE:
            return stopped
        if found.open_bits <= found.gap:
            return "gap reached"
        limits.check()
        if length == found.problem.horizon:
            return "whole horizon"
        if found.open_bits > (1 - least) * wide:
            return "too slow"
        wide = found.open_bits
        # The next stretch costs a few times what this one took.
        if 4 * (limits.spent - before) > limits.left:
            return TIME
        length += 1


def _sides(problem: Problem, length: int) -> tuple[_Side, _Side]:
    """The games of a stretch: first the one whose observer is told the hidden state, then the one who forgets."""
    time, horizon = problem.secret_table.time, problem.horizon
    if length == horizon:
        whole = _Side(problem, FullHistory(), None)
        return whole, whole
    if time == horizon:
        return (
            _Side(problem, TailEvents(horizon - length), horizon - length),
            _Side(problem, TailEvents(horizon - length), None),
        )
    if time == 0:
        first = _first_steps(problem, length)
        return _Side(first, FullHistory(), length), _Side(first, FullHistory(), None)
    raise InputError("long game", [f"the secret is settled at time {time}, expected 0 or the horizon {horizon}"])


def _first_steps(problem: Problem, length: int) -> Problem:
    """The problem up to a time, its last state paying what the best continuation earns."""
    models = []
    for model in problem.models:
        if problem.return_over == "infinite":
            value = optimal_values(model)
        else:
            value = model.terminal_rewards
            for _ in range(problem.horizon - length):
                ahead = np.stack([matrix @ value for matrix in model.matrices], axis=1)
                scores = np.where(model.available, model.rewards + model.discount * ahead, -np.inf)
                value = scores.max(axis=1)
        names = model.states.all(), model.actions.all()
        models.append(
            Model(
                model.matrices, model.rewards, model.initial, model.discount, value, *names, available=model.available
            )
        )
    return problem.replace(
        model=models if len(models) > 1 else models[0], horizon=length, return_over="horizon", min_return=None
    )
