"""Automata made of beliefs: the observer keeps a cluster of beliefs, and what the merging may have hidden is accounted for.

Let a policy play on the nodes M of a graph, and let C be any finer memory (C_t tells M_t). Merging histories into C hides
from the observer at most what it loses about the hidden state at each step,

    H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})  ≤  H(Z|Y)  ≤  H(Z|C_T),

since given (C_{t+1}, X_{t+1}) neither the secret nor any later event depends on how that node was reached. So the policy
of the game on any graph has a proven opacity, beside the upper bound that the graph gives for all policies. Refinement
clusters anew the beliefs that the policy leads to, with more nodes, until the two are near enough.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import TooLargeError
from ..common.logs import code_lengths_bits, conditional_entropy_bits, divergence_bits, mean_log_ratio_bits
from ..engine.beliefs import merge_beliefs
from ..engine.hidden import build
from ..engine.kernel import num_rows
from ..engine.moves import num_columns
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .limits import ENDED_FROM_OUTSIDE, INTERRUPTED, TIME, Limits, OutOfTime
from .long import LongGameResult, solve_long_game
from .pairs import DEFAULT_MEMORY, GivenGraph, LastEvents, Pairs, PublicGraph, event_step, make_pairs
from .responses import Game, Tables
from .solve import GamePoint, GameResult, solve_game

_SPREAD = 1e-3  # of a uniform choice, so that every history that some policy makes possible has a belief
_WORTH_A_STRETCH = 0.25  # of the gap: where a longer stretch closes less, automata close more in the time
_ROUNDS = 4  # of moving centres, after they are chosen


@dataclass(frozen=True, eq=False)
class RefinedGameResult:
    """Bounds on the largest opacity over all policies with return ≥ threshold.

    `lower` is a proven bound on the opacity of the policy of `best`: its entropy on the graph less `lost_bits` (0 where the
    search ended before a policy was measured). `upper` is that of `bounding`, the game whose observer does best. Both
    remember a cluster of beliefs.
    """

    lower: float
    upper: float
    lost_bits: float
    best: GameResult
    bounding: GameResult
    seconds: float
    stopped: str

    @property
    def gap(self) -> float:
        """How far the bounds are apart, in bits."""
        return self.upper - self.lower


@one_blas_thread
def refine_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    time_limit: float = 600.0,
    memory_bytes: int = DEFAULT_MEMORY,
    nodes: int = 32,
    most_nodes: int = 4096,
    known: tuple[float, float] = (0.0, np.inf),
    callback: Callable[[GamePoint], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> RefinedGameResult:
    """Enclose the value of the game by automata of beliefs, each made from the policy that is best against the last.

    **Arguments:** as for `solve_game`; `nodes`, how many a layer may have at first, doubled in each round up to
    `most_nodes`; `known`, bounds proven elsewhere, which count for the gap. `callback` is
    called after each round, its `iteration` being the number of nodes. A keyboard interrupt ends it with the best bounds so
    far.

    Cost: a round costs a game on `nodes · N` pairs a layer, and `T · nodes² · E · N` for the clusters.

    **Raises:** `InfeasibleError` where the threshold is beyond reach; `TooLargeError` where not even the first round fits.
    """
    limits = Limits.of(time_limit, should_stop)
    found = _Rounds(problem, threshold, gap, memory_bytes, known)
    try:
        stopped = found.go_on(nodes, most_nodes, limits, callback)
    except OutOfTime as end:
        stopped = str(end)
    except TooLargeError:
        if found.bounding is None:
            raise
        stopped = "memory"
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return found.result(limits.spent, stopped)


class _Rounds:
    """The best of all rounds so far, and the automaton of the next."""

    def __init__(
        self,
        problem: Problem,
        threshold: float | None,
        gap: float,
        memory_bytes: int,
        known: tuple[float, float],
    ):
        self.problem, self.threshold, self.gap, self.memory_bytes = problem, threshold, gap, memory_bytes
        self.known = known
        self.hides = Hides(0.0, 0.0, 0)  # true of every policy
        self.best: GameResult | None = None
        self.bounding: GameResult | None = None

    def go_on(self, nodes: int, most_nodes: int, limits: Limits, callback: Callable[[GamePoint], None] | None) -> str:
        """Rounds with twice as many nodes each; returns why there is no further one."""
        pairs = make_pairs(build(self.problem), LastEvents(1), self.memory_bytes, check=limits.check)
        while True:
            before = limits.spent
            result = self.play(pairs, limits.share(1 / 2))
            if result.stopped not in ENDED_FROM_OUTSIDE:
                self.measure(result, limits)
            assert self.bounding is not None
            if callback is not None:
                price = self.bounding.price
                size = max(pairs.graph.sizes)
                callback(GamePoint(size, limits.spent, self.hides.bits, self.bounding.upper, price))
            if result.stopped in ENDED_FROM_OUTSIDE:
                return result.stopped
            if min(self.bounding.upper, self.known[1]) - max(self.hides.bits, self.known[0]) <= self.gap:
                return "gap reached"
            limits.check()
            if 1.5 * (limits.spent - before) > limits.left:
                return TIME
            if nodes > most_nodes:
                return "nodes"
            graph = clustered_graph(Game(self.problem, pairs), result.tables, nodes, check=limits.check)
            pairs = make_pairs(build(self.problem), GivenGraph(graph), self.memory_bytes, check=limits.check)
            nodes *= 2

    def play(self, pairs: Pairs, limits: Limits) -> GameResult:
        """One game; its bound counts at once, its policy when it is measured."""
        result = solve_game(
            self.problem,
            threshold=self.threshold,
            gap=self.gap / 10,
            time_limit=limits.left,
            pairs=pairs,
            should_stop=limits.should_stop,
        )
        if self.bounding is None or result.upper < self.bounding.upper:
            self.bounding = result
        self.best = result if self.best is None else self.best
        return result

    def measure(self, result: GameResult, limits: Limits) -> None:
        """What the policy of a round is proven to hide."""
        hides = hides_at_least(result.pairs, result.tables, check=limits.check)
        if hides.bits > self.hides.bits:
            self.hides, self.best = hides, result

    def result(self, seconds: float, stopped: str) -> RefinedGameResult:
        """Both bounds; where no round was played, one is for a moment."""
        if self.bounding is None:
            pairs = make_pairs(build(self.problem), LastEvents(1), self.memory_bytes)
            self.play(pairs, Limits.of(0.0))
        assert self.bounding is not None
        assert self.best is not None
        return RefinedGameResult(
            lower=self.hides.bits, upper=self.bounding.upper, lost_bits=self.hides.lost_bits, best=self.best,
            bounding=self.bounding, seconds=seconds, stopped=stopped,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class EnclosedGame:
    """The best of both ways to enclose a game at a long horizon; the bounds are each the better of the two.

    `stretches` is None where the secret is settled neither at time 0 nor at time T, `refined` where it was not needed.
    """

    stretches: LongGameResult | None
    refined: RefinedGameResult | None

    @property
    def lower(self) -> float:
        """The opacity that one of the two policies is proven to have, at least."""
        return max(result.lower for result in (self.stretches, self.refined) if result is not None)

    @property
    def upper(self) -> float:
        """What no policy with the return asked for exceeds."""
        return min(result.upper for result in (self.stretches, self.refined) if result is not None)

    @property
    def gap(self) -> float:
        """How far the bounds are apart, in bits."""
        return self.upper - self.lower

    @property
    def stopped(self) -> str:
        """Why the last search ended."""
        last = self.stretches if self.refined is None else self.refined
        assert last is not None
        return last.stopped


def enclose_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    time_limit: float = 600.0,
    memory_bytes: int = DEFAULT_MEMORY,
    nodes: int = 128,
    callback: Callable[[GamePoint], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> EnclosedGame:
    """Enclose the value of the game at a horizon whose tree does not fit: stretches first, then automata of beliefs.

    Stretches (a fifth of the time at most) are best where the agent mixes soon; automata of beliefs carry what lasts, as
    which goal it chose long ago. **Arguments:** as for `solve_long_game` and `refine_game`.
    """
    limits, stretches = Limits.of(time_limit, should_stop), None
    if problem.secret_table.time in (0, problem.horizon):
        stretches = solve_long_game(
            problem,
            threshold=threshold,
            gap=gap,
            time_limit=time_limit / 5,
            memory_bytes=memory_bytes,
            least=_WORTH_A_STRETCH,
            callback=callback,
            should_stop=should_stop,
        )
        if stretches.gap <= gap or stretches.stopped in ENDED_FROM_OUTSIDE:
            return EnclosedGame(stretches, None)
    refined = refine_game(
        problem,
        threshold=threshold,
        gap=gap,
        time_limit=limits.left,
        memory_bytes=memory_bytes,
        nodes=nodes,
        known=(0.0, np.inf) if stretches is None else (stretches.lower, stretches.upper),
        callback=callback,
        should_stop=should_stop,
    )
    return EnclosedGame(stretches, refined)


@dataclass(frozen=True)
class Hides:
    """A proven lower bound on `H(Z|Y)` of a policy: `bits`, from which `lost_bits` are already taken off."""

    bits: float
    lost_bits: float
    num_beliefs: int


def hides_at_least(
    pairs: Pairs,
    tables: Tables,
    most: int = 4096,
    prune_below: float = 1e-8,
    check: Callable[[], None] = lambda: None,
) -> Hides:
    """What a policy on a graph hides from an observer who remembers everything, by following beliefs and merging the nearest.

    Histories in the same node whose beliefs agree to a tolerance are merged, the smallest tolerance of a ladder at which at
    most `most` of them remain in a layer; each merging is charged what it loses about the hidden state. Histories rarer than
    `prune_below` are left out: what they hide is not counted. `check` is called at each time: what it raises ends it.

    Cost: `T · most · E` beliefs.
    """
    layer = pairs.layers[0]
    messages, lost, largest = first_messages(pairs), 0.0, 0
    for time, table in enumerate(tables):
        check()
        layer = pairs.layers[time + 1]
        row, pair, mass = _children(messages, event_step(pairs, time, table), len(layer))
        _, number = np.unique(row, return_inverse=True)
        arrived = np.bincount(number.ravel(), weights=mass)
        kept = arrived > prune_below
        chosen = kept[number.ravel()]
        number, pair, mass = (np.cumsum(kept) - 1)[number.ravel()[chosen]], pair[chosen], mass[chosen]
        state = layer.x.astype(np.int64) * pairs.hidden.label.shape[1] + np.maximum(layer.z, 0)
        group = np.zeros(len(arrived[kept]), dtype=np.int64)
        group[number] = layer.node[pair]
        cluster = merge_beliefs(group, number, state[pair], mass, most)
        shape = (int(cluster.max()) + 1, len(layer))
        messages = sp.csr_array(sp.coo_array((mass, (cluster[number], pair)), shape=shape))
        messages.sum_duplicates()
        together = np.bincount(cluster, weights=arrived[kept])
        mean = np.asarray(messages[cluster[number], pair]).ravel()
        lost += max(0.0, mean_log_ratio_bits(mass, mass * together[cluster[number]], arrived[kept][number] * mean))
        largest = max(largest, shape[0])
    values = np.zeros((len(layer), pairs.hidden.label.shape[1]))
    values[np.arange(len(layer)), layer.z] = 1.0
    return Hides(max(0.0, conditional_entropy_bits(messages @ values) - lost), lost, largest)


def first_messages(pairs: Pairs) -> sp.csr_array:
    """The beliefs after each first event that is possible: `(first events, pairs of layer 0)`."""
    hidden, layer = pairs.hidden, pairs.layers[0]
    possible = np.flatnonzero(hidden.root.any(axis=0))
    x, event = np.nonzero(hidden.root[:, possible])
    keys = layer.node.astype(np.int64) * hidden.num_states + layer.x
    pair = np.searchsorted(keys, pairs.graph.first[possible[event]].astype(np.int64) * hidden.num_states + x)
    shape = (len(possible), len(layer))
    return sp.csr_array(sp.coo_array((hidden.root[x, possible[event]], (event, pair)), shape=shape))


def _children(messages: sp.csr_array, step: sp.csr_array, num_pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each row by each event: entries (row `row · E + event`, next pair, mass)."""
    product = sp.coo_array(messages @ step)
    event, pair = np.divmod(product.col.astype(np.int64), num_pairs)
    return product.row.astype(np.int64) * (num_columns(step) // num_pairs) + event, pair, product.data


def clustered_graph(game: Game, tables: Tables, nodes: int, check: Callable[[], None] = lambda: None) -> PublicGraph:
    """A graph of at most `nodes` a layer whose nodes are clusters of the beliefs that a policy leads an observer to.

    **Arguments:** `tables`, a policy on the pairs of `game`. A little of a uniform choice is mixed in, so that every history
    that some policy makes possible has a belief and a place. `check` is called at each time: what it raises ends it.
    """
    pairs = game.pairs
    spread = [(1 - _SPREAD) * table + _SPREAD * even for table, even in zip(tables, game.uniform(), strict=True)]
    events, states = pairs.hidden.num_events, pairs.hidden.num_states * pairs.hidden.label.shape[1]
    first, following, sizes = _begin(pairs), [], []
    messages = first_messages(pairs)
    sizes.append(num_rows(messages))
    for time in range(pairs.hidden.horizon):
        check()
        after = pairs.layers[time + 1]
        row, pair, mass = _children(messages, event_step(pairs, time, spread[time]), len(after))
        rows, number = np.unique(row, return_inverse=True)
        number = number.ravel()
        lifted = after.x.astype(np.int64) * pairs.hidden.label.shape[1] + np.maximum(after.z, 0)
        beliefs = np.bincount(number * states + lifted[pair], weights=mass, minlength=len(rows) * states)
        cluster = cluster_beliefs(beliefs.reshape(len(rows), states), nodes)
        table = np.full(num_rows(messages) * events, -1, dtype=np.int32)
        table[rows] = cluster
        following.append(table.reshape(-1, events))
        sizes.append(int(cluster.max()) + 1)
        shape = (sizes[-1], len(after))
        messages = sp.csr_array(sp.coo_array((mass, (cluster[number], pair)), shape=shape))
    return PublicGraph(first, tuple(following), tuple(sizes), False, f"one of {nodes} clusters of beliefs")


def _begin(pairs: Pairs) -> Int[np.ndarray, " F"]:
    """Each first event in a node of its own."""
    possible = pairs.hidden.root.any(axis=0)
    return np.where(possible, np.cumsum(possible) - 1, -1).astype(np.int32)


def cluster_beliefs(weights: Float[np.ndarray, "R N"], most: int) -> Int[np.ndarray, " R"]:
    """Clusters of rows that lose little when they are merged: `Σ mass · KL(belief ‖ mean belief of its cluster)`.

    Centres are chosen greedily where the loss is largest and then moved a few times. Rows are weighted beliefs; equal
    beliefs share a cluster. Cost: `R · most · N`.
    """
    mass = weights.sum(axis=1)
    beliefs = weights / mass[:, None]
    _, index, inverse = np.unique(np.round(beliefs, 12), axis=0, return_index=True, return_inverse=True)
    inverse = inverse.ravel()
    if len(index) <= most:
        return inverse.astype(np.int32)
    mass = np.bincount(inverse, weights=mass)
    beliefs = beliefs[index]
    # A centre that calls a state impossible would be infinitely far from beliefs that do not.
    smooth = 0.999 * beliefs + 0.001 * (mass @ beliefs) / mass.sum()
    chosen = int(np.argmax(mass))
    nearest = np.zeros(len(mass), dtype=np.int32)
    distance = divergence_bits(beliefs, smooth[chosen][None])
    centres = [chosen]
    for number in range(1, most):
        loss = mass * distance
        chosen = int(np.argmax(loss))
        if loss[chosen] <= 0:
            break
        centres.append(chosen)
        other = divergence_bits(beliefs, smooth[chosen][None])
        closer = other < distance
        nearest[closer], distance = number, np.minimum(distance, other)
        nearest[chosen], distance[chosen] = number, 0.0
    for _ in range(_ROUNDS):
        nearest = _reassigned(beliefs, mass, nearest, len(centres))
    _, nearest = np.unique(nearest, return_inverse=True)
    return nearest.ravel().astype(np.int32)[inverse]


def _reassigned(beliefs: np.ndarray, mass: np.ndarray, nearest: np.ndarray, size: int) -> np.ndarray:
    """Each belief to the nearest mean of the clusters as they are."""
    overall = (mass @ beliefs) / mass.sum()
    groups = sp.csr_array(sp.coo_array((mass, (nearest, np.arange(len(mass)))), shape=(size, len(mass))))
    sums = np.asarray(groups @ beliefs)
    totals = sums.sum(axis=1, keepdims=True)
    means = np.where(totals > 0, 0.999 * sums / np.where(totals > 0, totals, 1.0), 0.0) + 0.001 * overall
    return np.argmin(beliefs @ code_lengths_bits(np.maximum(means, 1e-300)).T, axis=1).astype(np.int32)
