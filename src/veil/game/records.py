"""The game against several observers who do not share what they see: the largest least of what they lack.

The agent acts on the hidden state and the histories of all observers: the tree of the observer who shares all of them. What
observer j holds at the end, its record, is a function of that history. For weights `w_j ≥ 0` the sum `Σ_j w_j H(Z|Y_j)` is a
game on this tree, whose rule has a row for each record of each observer. With `Σ w_j = 1` its upper bound is one on
`max_π min_j H(Z|Y_j)`, and with further weights μ_k, less `Σ μ_k h_k`, one under bounds `H(Z|Y_k) ≥ h_k`. Each game gives a
policy; a small linear program mixes the policies so that the least is largest, which is more for the mixture since H is
concave, and its multipliers are the next weights.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from scipy.optimize import linprog

from ..common.clock import Clock, Stop, too_large_if_late
from ..common.errors import InputError
from ..common.logs import conditional_entropy_bits
from ..engine.hidden import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.observer import Observer
from ..problem.pairs import OWN, find_pair
from ..problem.problem import Problem
from ..problem.together import Together, shared_parts
from .pairs import DEFAULT_MEMORY, FullHistory, Pairs, make_pairs
from .responses import AgentProblem
from .rule_tables import ValueTable
from .solve import GameResult, solve_game

_ROUNDS = 60  # games at most
_SHARE_OF_GAP = 0.25  # of the gap asked for, at which each of these games ends
_OWN_SHARE = 0.3  # of the gap so far, at which the next game ends: early weights are not worth more
_LARGEST_PRICE = 50.0  # of a bound, in bits for a bit: a bound that costs more counts as one that no policy meets
_LEAST_WEIGHT = 1e-9  # below which an observer is left out of a game


@dataclass(frozen=True, eq=False)
class RecordsResult:
    """Bounds on the largest least of several pairs: `lower` of a policy that acts on all histories, `upper` of all policies.

    `weights`: of each pair in the game that proves the upper bound, those of bounded pairs being their prices; `games`: how
    many were solved. `lower` is -inf where no policy was found that meets the bounds.
    """

    lower: float
    upper: float
    weights: dict[str, float]
    games: int


class RecordTable(ValueTable):
    """A rule over the values of the secret with a row for each record of each observer, of which each has a weight."""

    by_node = False

    def __init__(self, pairs: Pairs, gathered: sp.csr_array):
        super().__init__(pairs)
        self._nodes, self._gathered = pairs.reachable.shape, gathered
        self.reachable = (gathered @ pairs.reachable.astype(float)) > 0

    def joint(self, last: Float[np.ndarray, " n"], arrived: object) -> Float[np.ndarray, "r Z"]:
        """`w_j P(Y_j = y, Z = z)` from the masses of the last pairs."""
        size, values = self._nodes
        found = np.bincount(self._pairs.leaf, weights=last, minlength=size * values)
        return self._gathered @ found.reshape(size, values)

    def at_the_end(self, costs: Float[np.ndarray, "r Z"]) -> Float[np.ndarray, " n"]:
        """The weighted sum of the costs of all records, read at each pair of the last layer."""
        return (self._gathered.T @ costs).ravel()[self._pairs.leaf]


@one_blas_thread
def solve_records_game(
    problem: Problem,
    names: tuple[str, ...],
    *,
    gap: float = 1e-3,
    memory_bytes: int = DEFAULT_MEMORY,
    clock: Clock | None = None,
) -> RecordsResult:
    """`max_π min_j H(Z|Y_j)` over the pairs of these names, under the lower bounds of all pairs, between two bounds.

    Constraints beside the threshold on the return, and upper bounds of pairs, are left out: the upper bound holds all the same.

    **Arguments:** `names`; `gap`: the search ends where the bounds are this close, or where the `clock` says so.

    Cost: a game on the tree of the histories of all observers together for each round, about ten for two pairs.

    **Raises:** `InputError` where the pairs have different secrets, or beliefs; `TooLargeError`.
    """
    clock = clock or Clock()
    bounds = {one.name: one.min for one in problem.pairs if one.min and one.name not in names}
    listed = (*names, *bounds)
    observers = _observers(problem, listed)
    joint = problem.replace(pairs=(), constraints=(), observer=Together(*observers))
    with too_large_if_late("the time limit was reached before the game's graph was built: allow more time"):
        pairs = make_pairs(build(joint), FullHistory(), memory_bytes, clock=Clock(clock.left).or_unlimited())
    records = records_of(pairs, joint.observer, observers)
    rounds = _Rounds(joint, pairs, records, len(names), np.array(list(bounds.values())))
    while rounds.games < _ROUNDS and rounds.open_bits > gap:
        rounds.play(gap, clock)
        if clock.reason is not None:
            break
    return RecordsResult(
        rounds.lower, rounds.upper, dict(zip(listed, rounds.proving.tolist(), strict=True)), rounds.games
    )


def _observers(problem: Problem, names: tuple[str, ...]) -> list[Observer]:
    """The observers of the pairs; raises `InputError` where they do not have one secret."""
    found = []
    for name in names:
        pair = None if name == OWN else find_pair(name, problem.pairs)
        if pair is not None and (pair.belief is not None or pair.secret not in (None, problem.secret)):
            raise InputError(
                f"pair {name!r}", ["a bound over all policies is known for pairs of one secret, without a belief"]
            )
        found.append(problem.observer if pair is None or pair.observer is None else pair.observer)
    if problem.secret_table.path is not None:
        raise InputError(
            "pairs", ["a bound over all policies is known for a secret with one value, not for a whole path"]
        )
    return [one.replace(sensors=None) for one in found]  # sensors of one name may belong to several


def records_of(pairs: Pairs, joint: Observer, observers: list[Observer]) -> list[sp.csr_array]:
    """For each observer `(records, nodes)`: which histories of all observers, nodes of the last layer, leave it each record."""
    parts = np.array(shared_parts(*observers))
    action, seen = np.divmod(np.arange(pairs.hidden.num_events), joint.num_observations)
    found = []
    for number, own in enumerate(observers):
        shown = parts[seen, number] + (own.num_observations * action if own.sees_actions else 0)
        record = _records(pairs, shown)
        nodes = np.arange(len(record))
        found.append(sp.csr_array((np.ones(len(record)), (record, nodes)), shape=(record.max() + 1, len(record))))
    return found


def _records(pairs: Pairs, shown: Int[np.ndarray, " E"]) -> Int[np.ndarray, " n"]:
    """The record of one observer at each node of the last layer; `shown`: what it sees of each event."""
    graph = pairs.graph
    event = np.flatnonzero(graph.first >= 0)
    record = np.zeros(graph.sizes[0], dtype=np.int64)
    record[graph.first[event]] = np.unique(shown[event], return_inverse=True)[1].ravel()
    for table, size in zip(graph.following, graph.sizes[1:], strict=True):
        node, event = np.nonzero(table >= 0)
        after = np.zeros(size, dtype=np.int64)
        key = record[node] * (int(shown.max()) + 1) + shown[event]
        after[table[node, event]] = np.unique(key, return_inverse=True)[1].ravel()
        record = after
    return record


class _Rounds:
    """The policies so far with what each leaves every observer, the best bounds, and the weights of the next game."""

    def __init__(
        self,
        problem: Problem,
        pairs: Pairs,
        records: list[sp.csr_array],
        num_least: int,
        bounds: Float[np.ndarray, " K"],
    ):
        self.problem, self.pairs, self.records, self.num_least, self.bounds = problem, pairs, records, num_least, bounds
        self.agent = AgentProblem(problem, pairs)
        self.weights = np.concatenate([np.full(num_least, 1 / num_least), np.ones(len(bounds))])
        self.lower, self.upper, self.proving = -np.inf, np.inf, self.weights
        self.joints: list[Float[np.ndarray, "n Z"]] = []  # of the policies: of the history of all, and the secret
        self.bits: list[Float[np.ndarray, " J"]] = []
        self.games = 0
        self._last: GameResult | None = None

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        return self.upper - self.lower

    def play(self, gap: float, clock: Clock) -> None:
        """One game, and the best mixture of all policies so far."""
        used = np.flatnonzero(self.weights > _LEAST_WEIGHT)
        weights = np.where(self.weights > _LEAST_WEIGHT, self.weights, 0.0)
        weights[: self.num_least] /= weights[: self.num_least].sum()
        gathered = sp.csr_array(sp.vstack([weights[number] * self.records[number] for number in used]))
        found = solve_game(
            self.problem,
            pairs=self.pairs,
            threshold=threshold_of(self.problem),
            table=RecordTable(self.pairs, gathered),
            gap=max(_SHARE_OF_GAP * gap, min(_OWN_SHARE * self.open_bits, 0.01)),
            blind=None if self._last is None else self._last.blind,
            clock=clock.share(1.0).silent(),
        )
        if found.stopped == Stop.INTERRUPTED:
            raise KeyboardInterrupt
        self._last, self.games = found, self.games + 1
        upper = found.upper - float(weights[self.num_least :] @ self.bounds)
        if upper < self.upper:
            self.upper, self.proving = upper, weights
        self._add(self.agent.outcome(found.tables).joint)
        shares, self.weights = self._mixed()
        self._add(np.einsum("i,inz->nz", shares, np.stack(self.joints)))
        least, kept = np.split(self.bits[-1], [self.num_least])
        if np.all(kept >= self.bounds):
            self.lower = max(self.lower, float(least.min()))

    def _add(self, joint: Float[np.ndarray, "n Z"]) -> None:
        self.joints.append(joint)
        self.bits.append(np.array([conditional_entropy_bits(one @ joint) for one in self.records]))

    def _mixed(self) -> tuple[Float[np.ndarray, " i"], Float[np.ndarray, " J"]]:
        """The shares of the policies whose least is largest under the bounds, and the multipliers of all pairs."""
        bits, count, bounded = np.stack(self.bits), self.num_least, len(self.bounds)
        policies = len(bits)
        # Variables: shares, the least, and how far each bound is missed.
        rows = np.hstack([-bits.T, np.zeros((count + bounded, 1 + bounded))])
        rows[:count, policies] = 1.0
        rows[count:, policies + 1 :] = -np.eye(bounded)
        found = linprog(
            np.concatenate([np.zeros(policies), [-1.0], np.full(bounded, _LARGEST_PRICE)]),
            A_ub=rows,
            b_ub=np.concatenate([np.zeros(count), -self.bounds]),
            A_eq=np.concatenate([np.ones(policies), np.zeros(1 + bounded)])[None],
            b_eq=[1.0],
            bounds=[(0, None)] * policies + [(None, None)] + [(0, None)] * bounded,
            method="highs",
        )
        shares = np.maximum(found.x[:policies], 0.0)
        return shares / shares.sum(), np.maximum(-found.ineqlin.marginals, 0.0)
