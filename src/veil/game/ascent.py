"""The game at given prices: the largest `H(Z|M_T)` over all policies, found and proven, on any public graph.

In the flows `P(pair, action)` the problem is concave: maximise `H(Z|M_T)` subject to flow equations and `V ≥ δ`. The method is
the ascent of `averaging.py`, with `∇H = −log2 q(·; y)` where q is the observer's posterior under y. The mean of the posteriors,
weighted by a_k, is the observer's rule; backward induction turns it into an upper bound over all policies, and the two bounds
converge.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime, Progress, Stop, too_large_if_late
from ..common.logs import code_lengths_bits
from ..engine.compile import build
from ..engine.event_entropy import show_path
from ..engine.moves import situations
from ..engine.threads import one_blas_thread
from ..policy.history import Decisions, HistoryPolicy
from ..problem.apart import View
from ..problem.problem import Problem
from .averaging import WARM_STEP, Averaging, most_surplus
from .multiplier import MultiplierSearch
from .pairs import ObserverMemory, Pairs, PublicGraph, make_pairs
from .public_graph import WrittenString
from .responses import AgentProblem, Outcome, Tables
from .rule_tables import Entries, Part
from .rules import Bound, complete, covering_rule, upper_bound

# Set by hand: they decide how fast the bounds converge, which are valid for any values.
_TOLERATED = 0.05  # share of the gap by which a step may fail the test of acceptance
_RETURN_SHARE = 0.02  # share of the gap that a surplus of return may cost
_BOUND_EVERY = 5  # iterations between two upper bounds, each of which costs about as much as an iteration
# Multipliers tried where the largest return is asked for, over the largest reward: the bound falls with λ, until one bit is
# worth less than any return given up, and rises with the rounding error of λ times the return.
_MULTIPLIERS_AT_LARGEST = (10.0, 1e3, 1e5, 1e7, 1e9)
LAST_BOUND_SECONDS = 1.0  # that the bound at the end of a game may take after the deadline
# That the pairs of a game may take in any case: those of a small tree are worth more than the limit.
_LEAST_SECONDS = 0.2


@dataclass(frozen=True, eq=False)
class ChannelRule:
    """The rule of the observer of one channel: its weight, its memory as in `PublicGraph`, and the costs of each part."""

    name: str
    weight: float
    first: Int[np.ndarray, " F"]
    following: tuple[Int[np.ndarray, "n E"], ...]
    parts: tuple[tuple[Part, Entries], ...]

    def size(self, time: int) -> int:
        """How many nodes the memory has at a time."""
        tables = (self.first, *self.following)
        return int(tables[time].max()) + 1

    def costs(self, part: int = -1) -> Float[np.ndarray, "n Z"]:
        """The costs of a part, by default of the last values, for each node; infinite where nothing can be reached."""
        about, costs = self.parts[part]
        return about.dense(costs, self.size(about.time))


@dataclass(frozen=True, eq=False)
class GameResult:
    """Bounds on the value of a game, with the policy and the observers that prove them.

    `lower` is `H(Z|M_T)` of the policy `tables` on the graph; on the observation tree (`graph.is_tree`) that is its exact
    opacity, on an automaton its opacity may be less. `upper` bounds the opacity of every policy with return ≥ threshold
    and any memory; where the observer is told the hidden state (`graph.told_at`) it bounds what can be hidden from that
    observer only, and `lower` what the policy hides from any. `tables[t]` is `(A, pairs of layer t)`. `rules` are those
    of the observers, `−log2 q(z|m)`; `multiplier` is λ in bits per unit of return. `executable` is False where the policy acts
    on more than the agent knows (an automaton or a model index with `agent_knows=False`): `lower` then holds for agents who
    know it, `upper` for all. `seconds` counts from the start of the clock.
    `prices` are the multipliers of the bounds beside the threshold with which the bound holds for policies that meet them.
    `problem`: whose game it is. With a task, both bounds are on the sum of bits and task, of which the policy has
    `task_value`. `views`, of a game of several channels: what their observers see of the events that the policy acts on.
    """

    lower: float
    upper: float
    multiplier: float
    rules: tuple[ChannelRule, ...]
    pairs: Pairs
    tables: tuple[Float[np.ndarray, "A n"], ...]
    expected_return: float
    threshold: float | None
    executable: bool
    iterations: int
    seconds: float
    history: tuple[Progress, ...]
    stopped: str
    problem: Problem
    prices: tuple[float, ...] = ()
    task_value: float = 0.0
    views: Mapping[str, View] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    @property
    def all_prices(self) -> tuple[float, ...]:
        """The multiplier of the return, then the prices of the other bounds."""
        return self.multiplier, *self.prices

    @property
    def graph(self) -> PublicGraph:
        """The observer's memory."""
        return self.pairs.graph

    @property
    def is_whole(self) -> bool:
        """Whether the observer remembers all that it can."""
        return self.graph.is_tree or self.graph.kind == WrittenString.kind

    @property
    def is_exact(self) -> bool:
        """Whether what was maximised is the opacity, not a bound on it as for a path that does not tell the state."""
        return self.pairs.hidden.path is None or show_path(self.pairs.hidden).is_unifilar

    def policy(self) -> HistoryPolicy:
        """The maximiser as a policy that an agent who sees the events can execute step by step."""
        problem = self.problem
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
            views={name: (view.first, view.event) for name, view in self.views.items()},
        )


def made_pairs(problem: Problem, memory: ObserverMemory, memory_bytes: int, clock: Clock) -> Pairs:
    """The pairs of a memory. A stop request has no result to return before they are made: until then only the deadline counts.

    **Raises:** `TooLargeError` where they do not fit the memory or the time.
    """
    with too_large_if_late(
        "the time limit was reached before the game's graph was built: use an observer of bounded memory, a longer"
        " time_limit, or method='ascent'"
    ):
        return make_pairs(build(problem), memory, memory_bytes, clock=Clock(max(_LEAST_SECONDS, clock.left)))


@one_blas_thread
def solve_priced_game(
    agent: AgentProblem,
    *,
    threshold: float | None,
    gap: float,
    iterations: int = 10_000,
    prior: Tables | None = None,
    known: float = math.inf,
    clock: Clock,
) -> "Priced":
    """The largest `H(Z|M_T) + Σ_k c_k V_k + Σ_k λ_k sign_k (V_k − δ_k)` over all policies with return ≥ threshold, between two
    proven bounds.

    **Arguments:** `agent`: with the prices λ_k, without which the other bounds are left out, and the task; the others as for
    `solve_game`. A feasible policy and a bound are returned in any case: two passes forward and three backward are always made.

    Cost: an iteration takes two to six soft backward inductions, each about 10 ns for each (pair, action).

    **Raises:** `InfeasibleError` where no policy has the return asked for.
    """
    ascent = _Ascent(agent, threshold, clock, prior, known)
    try:
        stopped = ascent.run(gap, iterations)
    except KeyboardInterrupt:
        stopped = Stop.INTERRUPTED
    tables, outcome = ascent.multipliers.evaluated(ascent.course.point)
    lower = ascent.course.value(outcome)
    return Priced(ascent.best, lower, tuple(tables), outcome, ascent.iteration, tuple(ascent.history), str(stopped))


class Priced(NamedTuple):
    """A game at given prices: its best bound; the policy, evaluated anew, and its `lower` value; how it ended."""

    bound: Bound
    lower: float
    tables: Tables
    outcome: Outcome
    iterations: int
    history: tuple[Progress, ...]
    stopped: str


class _Ascent:
    """The state of the search: that of the ascent, the mean of the posteriors, the best rule so far."""

    def __init__(self, agent: AgentProblem, threshold: float | None, clock: Clock, prior: Tables | None, known: float):
        self.agent, self.threshold, self.clock, self.known = agent, threshold, clock, known
        self.multipliers, self.warm = MultiplierSearch(agent, threshold, prior), prior is not None
        self.rules = np.zeros(agent.table.size)  # Σ a_i q(·; y_i)
        self.best = Bound(np.inf, 0.0, np.full(agent.table.size, np.inf))
        self._offer(agent.table.even_odds(), 0.0, trials=1)
        self._cover = covering_rule(agent)
        surplus, nothing = most_surplus(agent, self.multipliers), np.zeros(agent.table.size)
        first = self.multipliers.respond(nothing, 0.0, surplus, lambda: clock.reason, scale=0.0)
        step = WARM_STEP if self.warm else 1.0
        self.course = Averaging(agent, self.multipliers, first.point, cumulative=first.multiplier, step=step)
        self.iteration = 0
        self.history: list[Progress] = []

    @property
    def lower(self) -> float:
        """`H(Z|M_T)` of the current policy, and its bonus."""
        return self.course.value(self.course.point.outcome)

    @property
    def gap(self) -> float:
        """The smallest upper bound that is known, minus the lower one."""
        return max(min(self.best.upper, self.known) - self.lower, 0.0)

    def run(self, gap: float, iterations: int) -> str:
        """Iterate until the gap is reached or a limit is; returns which."""
        self._record(iterations)
        stopped = "gap reached"
        while self.gap > gap:
            try:
                if self.iteration >= iterations:
                    stopped = "iterations"
                    break
                self.advance(gap)
                if self.iteration % _BOUND_EVERY == 0 or self.iteration >= iterations:
                    self.bound()
                    self._record(iterations)
            except OutOfTime as end:
                stopped = end.reason
                break
        if self.history[-1].iteration < self.iteration:
            self.bound()
            self._record(iterations)
        return stopped

    def advance(self, wanted: float) -> None:
        """One accepted step; `OutOfTime` in the middle of it leaves everything as it was."""
        open_gap = min(max(self.gap, wanted / 4), 1.0)
        rate = self.course.rate if self.warm and self.course.rate is not None else self.best.multiplier
        taken, seen = self.course.advance(rate, _TOLERATED * open_gap, _RETURN_SHARE * open_gap, self.clock.check)
        self.rules += taken * self.agent.table.posteriors(seen.joint)
        self.iteration += 1

    def bound(self) -> None:
        """Turn the mean of the posteriors into an upper bound, and keep the best."""
        if total := self.course.total:
            self._offer(complete(self.rules / total, self._cover, self.agent), self.course.cumulative / total)

    def _offer(self, rule: np.ndarray, multiplier: float, trials: int = 6) -> None:
        clock = Clock(self.clock.left + LAST_BOUND_SECONDS)
        costs = code_lengths_bits(rule)
        starts = [(multiplier, trials)]
        if self.multipliers.at_largest and trials > 1:
            starts = [(large / self.agent.largest_reward, 1) for large in _MULTIPLIERS_AT_LARGEST]
        for start, most in starts:
            found = upper_bound(self.agent, costs, self.threshold, start, most, clock)
            if self.multipliers.at_largest:
                found = found._replace(upper=found.upper + found.multiplier * self.agent.return_error())
            if found.upper < self.best.upper:  # replaced as one, so that no interrupt can mix two
                self.best = found

    def _record(self, iterations: int) -> None:
        bits, best, seconds = self.lower, self.best, self.clock.spent
        news = Progress("game", self.iteration, iterations, bits, math.nan, best.multiplier, seconds, best.upper)
        self.history.append(news)
        self.clock.report(news)
