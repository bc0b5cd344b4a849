"""Plans as graphs with few nodes: each node has a vector, whose product with a belief is an upper bound on what is to count.

`W_t(b) ≤ G·b`: a node asks one query, goes on to a node for each answer, and infers by the posterior of the belief that it was
made for. Nodes are made backward in time at beliefs of drawn runs, as in point-based value iteration, and the few are kept that
leave least at all of these beliefs. A bound of this kind holds at every belief, so that equal ones need not come again.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime
from .beliefs import BeliefSteps, alike
from .rules import Draws, Followed, Layer, Rows, Rule, in_batches, reached, simulate

_MOST_NUMBERS = 2**23  # of the beliefs of a batch
_POLICY_NUMBERS = 2**27  # of the rows and the steps of the plan as a policy
_FIRST_POINTS, _MOST_POINTS = 200, 3000  # runs drawn for a sweep
_MOST_NODES = 3000
_EXPLORE = 0.15  # the share of random queries in drawn runs
_SAME_SWEEPS = 3  # sweeps without a gain, after which no more are made
_LEAST_GAIN = 1e-6


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of a time: `vector (n, m)`, the `query` of each, and the node after each answer, `following (n, K)`."""

    vector: Float[np.ndarray, "n m"]
    query: Int[np.ndarray, " n"]
    following: Int[np.ndarray, "n K"]

    def only(self, kept: Int[np.ndarray, " k"]) -> "_Nodes":
        return _Nodes(self.vector[kept], self.query[kept], self.following[kept])


class BeliefVectors:
    """The best graph of nodes that was found; none at first."""

    def __init__(self, steps: BeliefSteps):
        self.steps, self.value = steps, np.inf
        self._begins = np.searchsorted(steps.answers.action, np.arange(steps.num_actions))
        self._barred = np.where(steps.available.all(axis=0), 0.0, np.inf)  # what a node asks must always be available
        self._layers: tuple[_Nodes, ...] = ()
        self._beliefs = np.array([row for _, row in steps.starts])
        sizes = [steps.values(time) for time in range(steps.last)]
        rows = steps.hidden.num_states * max(sizes, default=1) * (steps.num_actions + 3)
        moved = sum(matrix.nnz for matrix in steps.moves[:1]) * len(steps.answers.action) / steps.num_actions
        self.most = int(np.clip(_POLICY_NUMBERS / max(1, steps.horizon) / max(rows, 2 * moved), 1, _MOST_NODES))
        """How many nodes a time may have, so that the plan can be measured as a policy."""

    def improve(self, base: Rule, seed: int, gap: float, clock: Clock) -> None:
        """Sweep over the beliefs of more and more drawn runs, until time is over or nothing is gained.

        **Arguments:** `base`: the rule that the first runs are drawn by; then it is that of the vectors.
        """
        runs, idle = _FIRST_POINTS, 0
        try:
            for number in range(1000):
                points = self._points(self.rule(base), runs, [seed, number], clock)
                layers = self._swept(points, clock)
                value = self._value(layers)
                idle = 0 if value < self.value - max(gap, _LEAST_GAIN) else idle + 1
                if value < self.value:
                    self._layers, self.value = layers, value
                if runs == _MOST_POINTS and idle >= _SAME_SWEEPS:
                    return
                runs = min(2 * runs, _MOST_POINTS)
                clock.report(reached("queries", 0.0, self.value, clock))
        except OutOfTime:
            return

    def rule(self, base: Rule) -> Rule:
        """Ask what leaves least by the vectors one time later; another rule as long as there are none."""
        if not self._layers:
            return base

        def rule(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
            return self._scores(time, self._left(self._layers, time, beliefs)[0], beliefs).argmin(axis=1)

        return in_batches(self.steps, rule)

    def bound(self, time: int, beliefs: Rows) -> Float[np.ndarray, " k"]:
        """An upper bound on what is still to count after each belief."""
        if not self._layers:
            return np.full(len(beliefs), np.inf)
        return (beliefs @ self._layers[time].vector.T).min(axis=1)

    def plan(self) -> Followed:
        """The graph from the start on: what it leaves is `value` at most."""
        steps, layers = self.steps, list[Layer]()
        node = (self._beliefs @ self._layers[0].vector.T).argmin(axis=1)
        for time, nodes in enumerate(self._layers):
            following = np.full((len(nodes.query), steps.num_events), -1)
            if time + 1 < len(self._layers):
                row, answer = np.nonzero(steps.answers.action == nodes.query[:, None])
                following[row, steps.answers.event[answer]] = nodes.following[row, answer]
            layers.append(Layer(nodes.query, following))
        first = {event: int(one) for (event, _), one in zip(steps.starts, node, strict=True)}
        return Followed(self.value, first, tuple(layers))

    def _value(self, layers: tuple[_Nodes, ...]) -> float:
        known = float(self.steps.unknown(0, self._beliefs).sum())
        return known + float((self._beliefs @ layers[0].vector.T).min(axis=1).sum())

    def _points(
        self, rule: Rule, runs: int, seed: list[int], clock: Clock
    ) -> list[tuple[Rows, Float[np.ndarray, " k"]]]:
        """Different beliefs of each time in runs drawn by a rule that sometimes asks anything, and how many runs have each."""
        found, generator = list[tuple[np.ndarray, np.ndarray]](), np.random.default_rng(seed)

        def roaming(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
            first, number = alike(beliefs)
            found.append((beliefs[first], np.bincount(number).astype(float)))
            asked, open_to_all = rule(time, beliefs[first], clock)[number], np.flatnonzero(self._barred == 0)
            other = open_to_all[generator.integers(0, len(open_to_all), size=len(beliefs))]
            return np.where(generator.random(len(beliefs)) < _EXPLORE, other, asked)

        simulate(self.steps, roaming, Draws.of(self.steps, runs, seed), clock, apart=True)
        return found

    def _swept(self, points: list[tuple[Rows, Float[np.ndarray, " k"]]], clock: Clock) -> tuple[_Nodes, ...]:
        """Nodes made at beliefs of each time, from the last one back."""
        layers: tuple[_Nodes, ...] = ()
        for time in range(self.steps.last - 1, -1, -1):
            beliefs, count = points[time]
            width = len(self.steps.answers.action) * beliefs.shape[1] * self.steps.widening(time)
            size, parts = max(1, _MOST_NUMBERS // width), list[_Nodes]()
            for begin in range(0, len(beliefs), size):
                clock.check()
                parts.append(self._made(layers, time, beliefs[begin : begin + size]))
            made = _Nodes(
                *(np.concatenate([getattr(one, name) for one in parts]) for name in _Nodes.__dataclass_fields__)
            )
            if len(beliefs) > self.most:
                made = made.only(_fewest(count[:, None] * (beliefs @ made.vector.T), self.most, clock))
            layers = (made, *layers)
        return layers

    def _left(
        self, later: tuple[_Nodes, ...], time: int, beliefs: Rows
    ) -> tuple[Float[np.ndarray, "k K"], Int[np.ndarray, "k K"] | None]:
        """What is left after each answer, by nodes of which the last are those of the last time; and the best node."""
        steps = self.steps
        if time == steps.last - 1:
            return steps.left_by(time, beliefs), None
        nodes = later[time + 1 - steps.last]
        after = steps.after(time, beliefs)
        rows = after.reshape(-1, after.shape[2])
        products = rows @ nodes.vector.T
        left = products.min(axis=1) + steps.unknown(time + 1, rows)
        return left.reshape(after.shape[:2]), products.argmin(axis=1).reshape(after.shape[:2])

    def _scores(self, time: int, left: Float[np.ndarray, "k K"], beliefs: Rows) -> Float[np.ndarray, "k A"]:
        return self.steps.paid(time, beliefs) + np.add.reduceat(left, self._begins, axis=1) + self._barred

    def _made(self, later: tuple[_Nodes, ...], time: int, beliefs: Rows) -> _Nodes:
        """A node for each belief, with the vectors of what its query leads to."""
        steps, answers = self.steps, self.steps.answers
        left, best = self._left(later, time, beliefs)
        query = self._scores(time, left, beliefs).argmin(axis=1)
        place, answer = np.nonzero(answers.action == query[:, None])
        after = steps.after_answers(time, beliefs, place, answer)
        never = ~after.any(axis=1)  # from this belief: as if all states were as likely
        after[never] = np.tile(answers.shown[answer[never]], steps.values(time + 1))
        vectors = steps.tangent(time + 1, after)
        following = np.zeros((len(beliefs), len(answers.action)), dtype=int)
        if best is not None:
            nodes = later[time + 1 - steps.last]
            following[place, answer] = best[place, answer]
            following[place[never], answer[never]] = (after[never] @ nodes.vector.T).argmin(axis=1)
            vectors += nodes.vector[following[place, answer]]
        return _Nodes(steps.before(time, query, vectors, place, answer), query, following)


def _fewest(left: Float[np.ndarray, "k n"], most: int, clock: Clock) -> Int[np.ndarray, " m"]:
    """A few columns, taken one by one, such that the sum of the least entries of each row is small."""
    kept, least = list[int](), np.full(len(left), np.inf)
    while len(kept) < most:
        clock.check()
        sums = np.minimum(left, least[:, None]).sum(axis=0)
        column = int(sums.argmin())
        if kept and sums[column] >= least.sum():
            break
        kept.append(column)
        least = np.minimum(least, left[:, column])
    return np.array(kept)
