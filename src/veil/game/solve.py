"""The game between agent and observer: the most that any policy can hide, found and proven, on any public graph.

In the flows `P(pair, action)` the problem is concave: maximise `H(Z|M_T)` subject to flow equations and `V ≥ δ`. The
method is an accelerated mirror ascent in its form of dual averaging. With weights `a_k`, `A_k = Σ a_i`:

    y_k = (1 − a_k/A_k) x_{k−1} + (a_k/A_k) z_{k−1},     C_k = C_{k−1} − a_k log2 q(·; y_k),
    z_k = argmax over feasible z of  E_z[C_k] − KL(z ‖ uniform),     x_k = (1 − a_k/A_k) x_{k−1} + (a_k/A_k) z_k

where q(·; y) is the observer's posterior under y, KL that of trajectories, and z_k comes from one soft backward induction
for each trial of the price λ of return. A step is accepted while `A_k H(x_k)` is not below the soft value, which proves
`max H − H(x_k) ≤ T log2(A) / A_k` up to the accumulated slack. The mean of the posteriors, weighted by a_k, is the observer's
rule; backward induction turns it into an upper bound on all policies, and the two bounds close on each other.
"""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.errors import InfeasibleError, TooLargeError
from ..common.logs import conditional_entropy_bits, log2_of_tables, posteriors, surprisal_bits
from ..engine.hidden import build
from ..engine.moves import situations
from ..engine.return_range import threshold as wanted_return
from ..engine.threads import one_blas_thread
from ..policy.history import Decisions, HistoryPolicy
from ..problem.problem import Problem
from .limits import INTERRUPTED, Limits, OutOfTime
from .pairs import DEFAULT_MEMORY, FullHistory, LastEvents, Memory, Pairs, PublicGraph, make_pairs
from .responses import Game, Outcome
from .rules import complete, covering_rule, rule_costs, simple_rules, upper_bound

_GROWTH = 1.3  # of the step, after each that is accepted
_LET_PASS = 0.05  # share of the gap by which a step may miss the condition
_LEAST_STEP = 2e-3  # of all steps so far; a smaller one is taken unasked
_RETURN_SHARE = 0.02  # share of the gap that a surplus of return may cost
_CHECK_EVERY = 5
_PRICE_TRIES = 60
_ROUNDING = 1e-9
_BLIND_SHARE = 0.2  # of the time, for the game of an observer who remembers nothing
_LAST_BOUND_SECONDS = 1.0  # what the bound that ends a game may take after the time is up


@dataclass(frozen=True)
class GamePoint:
    """Where the search stood: bounds in bits, λ in bits a unit of return."""

    iteration: int
    seconds: float
    lower: float
    upper: float
    price: float


@dataclass(frozen=True, eq=False)
class GameResult:
    """What the game gives.

    `lower` is `H(Z|M_T)` of the policy `tables` on the graph; on the observation tree (`graph.is_tree`) that is its exact
    opacity, on an automaton its opacity may be less. `upper` bounds the opacity of every policy with return ≥ threshold,
    with any memory; where the observer is told the hidden state (`graph.told_at`) it bounds what can be hidden from
    such an observer only, and `lower` what the policy hides from any. `tables[t]` is `(A, pairs of layer t)`. `costs` is the
    observer's rule, `−log2 q(z|m)`, infinite where q is 0; `price` is λ. `executable` is False where the policy acts on more
    than the agent knows (an automaton or a model index with `agent_knows=False`): `lower` then holds for agents who know
    it, `upper` for all.
    """

    lower: float
    upper: float
    price: float
    costs: Float[np.ndarray, "n Z"]
    pairs: Pairs
    tables: tuple[Float[np.ndarray, "A n"], ...]
    expected_return: float
    threshold: float | None
    executable: bool
    iterations: int
    seconds: float
    history: tuple[GamePoint, ...]
    stopped: str

    @property
    def gap(self) -> float:
        """How far the bounds are apart, in bits."""
        return self.upper - self.lower

    @property
    def graph(self) -> PublicGraph:
        """What the observer remembers."""
        return self.pairs.graph

    def policy(self, problem: Problem) -> HistoryPolicy:
        """The maximiser as a policy that an agent who sees the events can execute step by step."""
        situation = situations(problem, self.pairs.hidden)
        decisions = [
            Decisions(layer.node, situation[layer.x], layer.z, np.ascontiguousarray(table.T))
            for layer, table in zip(self.pairs.layers, self.tables, strict=False)
        ]
        told = None
        if self.graph.told is not None:
            table = problem.secret_table
            size = len(problem.models) * len(table.memory_names) * problem.num_states
            told = np.full((len(self.graph.told), size), -1, dtype=np.int32)
            told[:, situation] = self.graph.told
        return HistoryPolicy(
            self.graph.first,
            self.graph.following,
            decisions,
            executable=self.executable,
            told_at=self.graph.told_at,
            told=told,
        )


@one_blas_thread
def solve_game(
    problem: Problem,
    memory: Memory | None = None,
    *,
    threshold: float | None = None,
    gap: float = 1e-3,
    time_limit: float = np.inf,
    iterations: int = 10_000,
    memory_bytes: int = DEFAULT_MEMORY,
    pairs: Pairs | None = None,
    callback: Callable[[GamePoint], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> GameResult:
    """The largest `H(Z|M_T)` over all policies with return ≥ threshold, between two proven bounds.

    The policies know the hidden state (the state, the start, the secret's automaton, which model runs) and the observer's
    memory; no causal policy of any kind does better against an observer of this memory.

    **Arguments:** `memory`: what the observer remembers, everything by default; `threshold`: δ, that of the problem by
    default; `gap`: the search stops where the bounds are this near, or at `time_limit` seconds, `iterations`, or where
    `should_stop()` says so; a keyboard interrupt also ends it with the best so far. `pairs`: those of the memory, where
    they are already made. Under every limit, once the pairs are made a feasible policy and a bound are returned: two
    passes forward and three backward are always made.

    Cost: an iteration takes two to six soft backward inductions, each about 10 ns a (pair, action).

    **Raises:** `InfeasibleError` where no policy has the return asked for; `TooLargeError` where the graph does not fit the
    memory or the time.
    """
    limits = Limits.of(time_limit, should_stop)
    threshold = wanted_return(problem) if threshold is None else threshold
    if pairs is None:
        try:
            pairs = make_pairs(
                build(problem),
                memory or FullHistory(),
                memory_bytes,
                check=replace(limits, should_stop=None).check_unless_over,
            )
        except OutOfTime as end:
            raise TooLargeError(
                f"the pairs of the game were not all made in time ({end}): an observer of bounded memory, or a"
                " longer time_limit"
            ) from None
    ascent = _Ascent(Game(problem, pairs), threshold, limits)
    try:
        ascent.bound_simply(gap)
        stopped = ascent.run(gap, iterations, callback)
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return ascent.result(stopped)


@dataclass(eq=False)
class _Point:
    """A policy in the search: its outcome and its flows."""

    outcome: Outcome
    flows: list[np.ndarray]

    def mixed(self, other: "_Point", weight: float) -> "_Point":
        flows = [mine + weight * (theirs - mine) for mine, theirs in zip(self.flows, other.flows, strict=True)]
        return _Point(self.outcome.mixed(other.outcome, weight), flows)


class _Prices:
    """Finds the price λ at which the soft response has just enough return; the return grows with λ."""

    def __init__(self, game: Game, threshold: float | None):
        self.game, self.threshold = game, threshold
        most, tables = game.max_return_response()
        self._prior = None
        if threshold is not None and threshold > most - _ROUNDING * (1 + abs(most)):
            if threshold > most + _ROUNDING * (1 + abs(most)):
                raise InfeasibleError(
                    f"the return asked for is {threshold:.9g}, and the largest that any policy has is {most:.9g}:"
                    " lower min_return"
                )
            # Only policies that are best for the return are left: choose among their actions, and nothing binds.
            self._prior = [log2_of_tables(table) for table in tables]
        self.binds = threshold is not None and self._prior is None
        self.most = _Point(*game.flows(tables))
        self._slope: float | None = None

    def respond(
        self, costs: np.ndarray, price: float, surplus: float, reason: Callable[[], str | None]
    ) -> tuple[float, float, _Point]:
        """The price, the soft value less what the price adds to it, and the response, feasible, at most `surplus` above δ.

        Where there is a `reason()` to stop, the best of the tries so far is returned, feasible in any case.
        """
        if not self.binds:
            return 0.0, *self._try(costs, 0.0)
        assert self.threshold is not None
        low: tuple[float, float] | None = None
        high: tuple[float, float] | None = None
        found: tuple[float, float, _Point] | None = None
        below: tuple[float, float, _Point] | None = None
        for attempt in range(_PRICE_TRIES):
            value, point = self._try(costs, price)
            gained = point.outcome.expected_return
            if gained >= self.threshold:
                found = price, value, point
                if gained <= self.threshold + surplus or price == 0:
                    return found
                high = self._learn(high, (price, gained), low)
            else:
                below = price, value, point
                low = self._learn(low, (price, gained), high)
            if reason() is not None:
                break
            price = self._next(low, high, surplus, attempt)
        if found is not None:
            return found
        assert below is not None
        return self._lifted(below)

    def _try(self, costs: np.ndarray, price: float) -> tuple[float, _Point]:
        response = self.game.soft_response(costs, price, self._prior)
        outcome, flows = self.game.flows(response.tables)
        return response.value - price * outcome.expected_return, _Point(outcome, flows)

    def _learn(
        self, before: tuple[float, float] | None, now: tuple[float, float], other: tuple[float, float] | None
    ) -> tuple[float, float]:
        for past in (before, other):
            if past is not None and past[0] != now[0]:
                slope = (now[1] - past[1]) / (now[0] - past[0])
                self._slope = slope if slope > 0 else self._slope
        return now

    def _next(
        self, low: tuple[float, float] | None, high: tuple[float, float] | None, surplus: float, attempt: int
    ) -> float:
        assert self.threshold is not None
        target = self.threshold + surplus / 2
        hurry = 1.0 if attempt < 2 else 1.5
        if low is not None and high is not None:
            edge = 0.02 if attempt < 4 else 0.2  # a bend of the curve makes plain interpolation creep
            share = (target - low[1]) / max(high[1] - low[1], 1e-300)
            return low[0] + min(max(share, edge), 1 - edge) * (high[0] - low[0])
        if low is not None:
            step = hurry * (target - low[1]) / self._slope if self._slope else max(1.0, low[0])
            return low[0] + min(step, 4 * low[0] + 4)
        assert high is not None
        step = hurry * (high[1] - target) / self._slope if self._slope else high[0] / 2
        return max(0.0, high[0] - step)

    def _lifted(self, below: tuple[float, float, _Point]) -> tuple[float, float, _Point]:
        """A response with too little return, mixed with the policy of the largest return until it has enough."""
        assert self.threshold is not None
        price, value, point = below
        most, gained = self.most.outcome.expected_return, point.outcome.expected_return
        return price, value, point.mixed(self.most, min(1.0, (self.threshold - gained) / max(most - gained, 1e-300)))


@dataclass(frozen=True, eq=False)
class _Bound:
    """A rule of the observer with its price and what they prove; one object, so that no interrupt can part them."""

    upper: float
    price: float
    costs: np.ndarray


class _Ascent:
    """The state of the search: the weights, the accumulated costs, both policies, the best rule so far."""

    def __init__(self, game: Game, threshold: float | None, limits: Limits):
        self.game, self.threshold, self.limits = game, threshold, limits
        self.prices = _Prices(game, threshold)
        reachable = game.pairs.reachable
        self.total, self.step, self.missed = 0.0, 1.0, 0.0
        self.accumulated = np.zeros(reachable.shape)
        self.rules = np.zeros(reachable.shape)
        self.best = _Bound(np.inf, 0.0, np.full(reachable.shape, np.inf))
        self._offer(next(simple_rules(game)), 0.0, tries=1)
        self._cover = covering_rule(game)
        scale = abs(self.prices.most.outcome.expected_return) + 1e-9
        self._most_surplus = 0.01 * scale
        self.cumulative, _, self.point = self.prices.respond(
            self.accumulated, 0.0, self._most_surplus, lambda: limits.reason
        )
        self.lead = self.point
        self.iteration = 0
        self.history: list[GamePoint] = []

    @property
    def lower(self) -> float:
        """What the current policy hides from an observer of this memory."""
        return conditional_entropy_bits(self.point.outcome.joint)

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return max(self.best.upper - self.lower, 0.0)

    def run(self, gap: float, iterations: int, callback: Callable[[GamePoint], None] | None) -> str:
        """Iterate until something says stop; returns what did."""
        self._record(callback)
        stopped = "gap reached"
        while self.gap > gap:
            try:
                if self.iteration >= iterations:
                    stopped = "iterations"
                    break
                self.advance(gap)
                if self.iteration % _CHECK_EVERY == 0 or self.iteration >= iterations:
                    self.bound()
                    self._record(callback)
                self.limits.check()
            except OutOfTime as end:
                stopped = str(end)
                break
        if self.history[-1].iteration < self.iteration:
            self.bound()
            self._record(callback)
        return stopped

    def advance(self, wanted: float) -> None:
        """One accepted step."""
        open_gap = min(max(self.gap, wanted / 4), 1.0)
        while True:
            self.limits.check()
            total = self.total + self.step
            weight = self.step / total
            seen = self.point.outcome.mixed(self.lead.outcome, weight).joint
            costs = self.accumulated + self.step * surprisal_bits(seen)
            price = self.cumulative + self.step * self.best.price
            surplus = min(_RETURN_SHARE * open_gap * total / max(price, 1e-9), self._most_surplus)
            price, value, lead = self.prices.respond(costs, price, surplus, self._must_go_on)
            hidden = conditional_entropy_bits(self.point.outcome.mixed(lead.outcome, weight).joint)
            allowed = self.missed + self.step * _LET_PASS * open_gap
            if total * hidden >= value - allowed or self.step < _LEAST_STEP * self.total:
                break
            self.step /= 2
        self.rules += self.step * posteriors(seen)
        self.point = self.point.mixed(lead, weight)
        self.lead, self.accumulated, self.total, self.cumulative = lead, costs, total, price
        self.missed = allowed
        self.step *= _GROWTH
        self.iteration += 1

    def _must_go_on(self) -> None:
        """A step that is given up leaves everything as it was."""
        self.limits.check()

    def bound(self) -> None:
        """Turn the mean of the posteriors into an upper bound, and keep the best."""
        if self.total:
            self._offer(complete(self.rules / self.total, self._cover, self.game), self.cumulative / self.total)

    def bound_simply(self, gap: float) -> None:
        """Bounds that need no search on this graph: even odds, the first event, an observer who remembers nothing."""
        for rule in simple_rules(self.game):
            if self.limits.reason is not None:
                return
            self._offer(rule, 0.0)
        if self.game.pairs.graph.sizes[-1] > 1 and self.game.pairs.hidden.split_time > 0:
            try:
                blind = solve_game(
                    self.game.problem,
                    LastEvents(0),
                    threshold=self.threshold,
                    gap=max(gap, 1e-4),
                    iterations=100,
                    time_limit=_BLIND_SHARE * self.limits.left,
                    should_stop=self.limits.should_stop,
                )
            except TooLargeError:
                return
            self._offer(np.repeat(np.exp2(-blind.costs), len(self.best.costs), axis=0), blind.price)
            if blind.stopped == INTERRUPTED:
                raise KeyboardInterrupt

    def _offer(self, rule: np.ndarray, price: float, tries: int = 6) -> None:
        begin, patience = clock.monotonic(), self.limits.left + _LAST_BOUND_SECONDS
        costs = rule_costs(rule, self.game.pairs.reachable)
        bound, price = upper_bound(
            self.game, costs, self.threshold, price, tries, lambda: clock.monotonic() - begin > patience
        )
        if bound < self.best.upper:
            self.best = _Bound(bound, price, costs)

    def _record(self, callback: Callable[[GamePoint], None] | None) -> None:
        best = self.best
        self.history.append(GamePoint(self.iteration, self.limits.spent, self.lower, best.upper, best.price))
        if callback is not None:
            callback(self.history[-1])

    def result(self, stopped: str) -> GameResult:
        """The policy as tables, evaluated anew, with both bounds."""
        tables = self._tables(self.point)
        outcome = self.game.outcome(tables)
        most = self.prices.most.outcome.expected_return
        if self.prices.binds and self.threshold is not None and outcome.expected_return < self.threshold < most:
            # Rounding alone: a breath of the policy of the largest return.
            weight = min(1.0, 2 * (self.threshold - outcome.expected_return) / (most - outcome.expected_return))
            tables = self._tables(self.point.mixed(self.prices.most, weight))
            outcome = self.game.outcome(tables)
        table = self.game.problem.secret_table
        more = len(self.game.problem.models) * len(table.memory_names) > 1
        return GameResult(
            lower=conditional_entropy_bits(outcome.joint),
            upper=self.best.upper,
            price=self.best.price,
            costs=self.best.costs,
            pairs=self.game.pairs,
            tables=tuple(tables),
            expected_return=outcome.expected_return,
            threshold=self.threshold,
            executable=bool(table.agent_knows or not more),
            iterations=self.iteration,
            seconds=self.limits.spent,
            history=tuple(self.history),
            stopped=stopped,
        )

    def _tables(self, point: _Point) -> list[np.ndarray]:
        """Action probabilities from flows; even odds where the policy never comes."""
        tables = []
        for flow, even in zip(point.flows, self.game.uniform(), strict=True):
            here = flow.sum(axis=0)
            tables.append(np.where(here > 0, flow / np.where(here > 0, here, 1.0), even))
        return tables
