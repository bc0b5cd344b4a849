"""The verifier's lower bound over all policies of an agent that sees what its observer sees: beliefs, from the last step back.

`W_t(b) = min_a [ paid(a) + Σ_e (h_{t+1}(b_{a,e}) + W_{t+1}(b_{a,e})) ]` over unnormalised beliefs b of (x, z), where h is the
entropy that counts at a time, is concave, homogeneous of degree one, and, as nothing that is counted is negative, monotone.
Hence `W(b) ≥ c W(p) + W(b − c p)` for every belief p of the witness with `c p ≤ b`, and `W(b) ≥ Σ_x (m_x told_t(x) + H(z | x))`
for what is left: to be told x now and at all later times leaves less, and what follows says nothing more of a settled z.
"""

import math
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.pace import Watch
from .arithmetic import FLOOR, UNIT, by_event, gamma, require
from .checked_problem import Bounds, CheckedProblem
from .claims import BeliefBound, Beliefs
from .entropy import bits_of
from .prices import Lagrangian, checked_prices
from .reading import Rows, read_integers
from .record import Record

_AT_ONCE = 2**22  # numbers of beliefs that are made together
_BELOW = 4 * UNIT  # of each number, by which products are rounded down


def sees_what_observer_sees(record: Record) -> bool:
    """Whether the agent receives what the own channel's observer receives, its actions included, and knows nothing else."""
    own = record.channels[0]
    observer = record.observers[own.receives]
    alike = record.blind and record.agent == own.receives and record.cells == 1
    return alike and observer.sees_actions and not observer.untimed and own.kind != "path" and not record.endless


def belief_bound(problem: CheckedProblem, bound: BeliefBound, bounds: Bounds, clock: Watch | None = None) -> float:
    """A lower bound, rounded down, on the bits of the own channel over all policies of an agent that sees what its observer
    sees and meets the constraints: `min_π E[bits − Σ_k λ_k s_k (G_k − δ_k)]` for the prices λ of the bound.

    Cost: for each belief of the witness the moves, with all that they show.

    **Raises:** `CertificateError` where there is no such bound, or the witness is none; `OutOfTime`.
    """
    require(sees_what_observer_sees(problem.record), "beliefs: the agent does not see just what its observer sees")
    require(problem.asked == (0,) and len(problem.observers) == 1, "beliefs: several observers, and one belief")
    return _Backward(problem, bound, bounds, clock).total()


class _Backward:
    """The values of all beliefs of a witness."""

    def __init__(self, problem: CheckedProblem, bound: BeliefBound, bounds: Bounds, clock: Watch | None):
        self.problem, self.clock, self.bound = problem, clock, bound
        self.horizon, self.size, self.each = problem.horizon, problem.size, problem.each
        prices = checked_prices(problem, bound.prices, bounds, 100, "beliefs")
        factors = tuple(-price * one.sign for price, one in zip(prices, problem.paid, strict=True))
        ends = problem.paid[0].terminal, 0.0
        self.pays = Lagrangian(problem, (0.0,) * len(factors), factors, ends, problem.horizon)
        limits = zip(factors, bounds, strict=True)
        self.slacks = [factor * (limit or 0.0) for factor, limit in limits] + self.pays.slacks(bounds)
        self.settled = problem.labels[0].time if self.each is None else self.horizon + 1
        self.forecasts = _forecasts(problem) if self.each is not None else []
        self.shift, self.sizes, self.told = 0.0, self.pays.last_size, np.zeros(self.size)
        self.points = [self._read(time, one) for time, one in enumerate(bound.points)]
        self._moves: dict[tuple[int, int], tuple[object, dict[int, sp.csr_array]]] = {}

    def total(self) -> float:
        """The bound: the values of the first beliefs, less what rounding may have added."""
        problem, horizon = self.problem, self.horizon
        self.told, values = self._shifted(self.pays.at(horizon)[0])[:, 0], np.zeros(0)
        for time in range(horizon - 1, -1, -1):
            values = self._before(time, values)
        x, (event, *_), mass = problem.start
        kinds, number = np.unique(event, return_inverse=True)
        beliefs = np.zeros((len(kinds), self.size * self._values(0)))
        np.add.at(beliefs, (number, self._place(0, x, problem.settled(0, x, 0 * x))), mass)
        most = len(self.points[0][1]) if self.points else 0
        first = read_integers(self.bound.first, -1, most, (problem.num_first[0],), "beliefs: the first")
        found = self._counted(0, beliefs) + self._worth(0, beliefs, first[kinds], values)
        return self._rounded(math.fsum(found.tolist()))

    def _rounded(self, found: float) -> float:
        """What is proven: every number is a sum of products that are not negative, and entropies have small errors."""
        problem, horizon = self.problem, self.horizon
        label = problem.labels[0].size if self.each is None else self.each.values
        most = problem.size * problem.values + sum(problem.num_events) + problem.actions + label
        relative = (horizon + 2) * (gamma(2 * most + 64) + 8.08 * problem.defect)
        weights = 1.0 if self.each is None else float(self.each.weights.sum())
        absolute = 4 * (horizon + 2) * (label + 4) * UNIT * (weights + 1) + self.pays.left_out + FLOOR
        absolute += 16 * UNIT * (math.fsum(map(abs, self.slacks)) + (horizon + 2) * self.sizes)
        return (found * (1 - relative) - self.shift - math.fsum(self.slacks)) - 1.01 * absolute

    def _shifted(self, paid: np.ndarray) -> np.ndarray:
        """What is paid, with so much more that nothing in it is negative, which the bound gives back."""
        more = max(0.0, -float(paid.min(initial=0.0)))
        self.shift += more
        return paid + more

    def _values(self, time: int) -> int:
        return self.problem.values if self.settled <= time else 1

    def _place(self, time: int, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return x * self._values(time) + z * (self._values(time) > 1)

    def _read(self, time: int, given: Beliefs) -> tuple[sp.csr_array, Int[np.ndarray, "k E"]]:
        """The beliefs of a time as rows, and the number of that which each event leads to."""
        what, later = f"beliefs: those of time {time}", self.bound.points[time + 1 : time + 2]
        require(time < self.horizon, f"{what} are too many times")
        most, wide = sum(len(one.child) for one in later), self.problem.num_events[0]
        child = read_integers(given.child, -1, most, (None, wide), what)
        shape = len(child), self.size * self._values(time)
        rows = Rows.read((given.ends, given.place, given.weight), *shape, what)
        require((rows.chance > FLOOR) & (rows.chance <= 1), f"{what} have numbers that are no probabilities")
        return sp.csr_array((rows.chance, rows.target, rows.ends), shape=shape), child

    def _tables(self, time: int) -> dict[int, sp.csr_array]:
        """For each event what the moves of a time do to a belief."""
        problem, moves = self.problem, self.problem.at(time)
        before, after = key = self._values(time - 1), self._values(time)
        if key in self._moves and self._moves[key][0] is moves:
            return self._moves[key][1]
        columns = moves.row // problem.actions, moves.target, moves.events[0], moves.chance
        x, y, event, chance = (np.repeat(one, before) for one in columns)
        z = np.tile(np.arange(before), len(moves.row))
        there, shape = self._place(time, y, problem.settled(time, y, z)), (self.size * before, self.size * after)
        found = by_event(event, x * before + z, there, chance, shape)
        self._moves[key] = moves, found
        return found

    def _before(self, time: int, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " k"]:
        """The values of the beliefs of a time, from those of the next; and what is left if x is told.

        A belief has the least of all actions that are available in each of its states. Told is x at this time and at all later
        ones: of each action that is what it pays, and the entropy of the next time, unless z was settled before.
        """
        problem, (paid, size), found = self.problem, self.pays.at(time), list[np.ndarray]()
        self.sizes += size
        paid = self._shifted(paid)
        paid[~problem.available] = np.inf
        points, child = self.points[time] if time < len(self.points) else (sp.csr_array((0, 1)), np.zeros((0, 0)))
        for rows in self._pieces(time + 1, len(child)):
            part, total = points[rows], points[rows] @ np.repeat(paid, self._values(time), axis=0)
            for action, event, beliefs in self._after(time + 1, part):
                total[:, action] += self._counted(time + 1, beliefs)
                total[:, action] += self._worth(time + 1, beliefs, child[rows, event], values)
            found.append(total.min(axis=1))
            require(np.isfinite(found[-1]), "beliefs: no action is available in all states of one")
        moves = problem.at(time + 1)
        told = paid + np.bincount(moves.row, moves.chance * self.told[moves.target], paid.size).reshape(paid.shape)
        if self._values(time) == 1 and self._counts(time + 1):
            every = sp.csr_array(sp.eye_array(self.size))
            for rows in self._pieces(time + 1, self.size):
                for action, _, beliefs in self._after(time + 1, every[rows]):
                    told[rows, action] += self._counted(time + 1, beliefs)
        self.told = told.min(axis=1)
        return np.concatenate([*found, np.zeros(0)])

    def _pieces(self, time: int, count: int) -> Iterator[slice]:
        """Rows whose beliefs of a time are made together."""
        step = max(1, _AT_ONCE // (self.size * self._values(time)))
        return (slice(begin, begin + step) for begin in range(0, count, step))

    def _after(self, time: int, points: sp.csr_array) -> Iterator[tuple[int, int, Float[np.ndarray, "k n"]]]:
        """The actions with which events of a time come, the events, and what they make of some beliefs."""
        for event, table in self._tables(time).items():
            if self.clock:
                self.clock.check()
            yield event // self.problem.observers[0].observations, event, sp.csr_array(points @ table).toarray()

    def _worth(
        self, time: int, beliefs: Float[np.ndarray, "k n"], child: np.ndarray, values: np.ndarray
    ) -> Float[np.ndarray, " k"]:
        """What still counts after some beliefs, at least: by one belief of the witness and what is left, or by x alone."""
        plain = self._left(time, beliefs)
        rows = np.flatnonzero(child >= 0)
        if not len(rows):
            return plain
        chosen = self.points[time][0][child[rows]]
        place, row = chosen.indices, np.repeat(np.arange(len(rows)), np.diff(chosen.indptr))
        here = beliefs[rows]
        ratio = np.full(len(rows), np.inf)
        np.minimum.at(ratio, row, here[row, place] / chosen.data)
        ratio = np.where(np.isfinite(ratio), ratio, 0.0) * (1 - _BELOW)
        rest = here * (1 - _BELOW)
        rest[row, place] = np.maximum(0.0, rest[row, place] - ratio[row] * chosen.data * (1 + _BELOW))
        plain[rows] = np.maximum(plain[rows], ratio * values[child[rows]] + self._left(time, rest))
        return plain

    def _left(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """`Σ_x (m_x told(x) + H(z | x))`."""
        values = self._values(time)
        if values == 1:
            return beliefs @ self.told
        joint = beliefs.reshape(len(beliefs), -1, values)
        return joint.sum(axis=2) @ self.told + (bits_of(joint).sum(axis=1) if time < self.horizon else 0.0)

    def _counts(self, time: int) -> bool:
        return time == self.horizon if self.each is None else bool(self.each.weights[time])

    def _counted(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """The entropy that counts at a time, of each belief."""
        if not self._counts(time):
            return np.zeros(len(beliefs))
        if self.each is not None:
            return float(self.each.weights[time]) * bits_of(beliefs @ self.forecasts[time])
        return bits_of(beliefs.reshape(len(beliefs), -1, self._values(time)).sum(axis=1))


def _forecasts(problem: CheckedProblem) -> list[np.ndarray]:
    """`P(z_t | x_t)` of a secret with a value at every time; of one that lies ahead the moves must not depend on the action."""
    each, horizon, size = problem.each, problem.horizon, problem.size
    assert each is not None
    now = np.zeros((size, each.values))
    now[np.arange(size), each.value] = 1.0
    if not each.ahead:
        return [now] * (horizon + 1)
    moves, actions = problem.record.moves, problem.actions
    every = sp.csr_array((moves.chance, moves.target, moves.ends), shape=(size * actions, size))
    tables = [every[action::actions] for action in range(actions)]
    alike = problem.available.all() and all(abs(one - tables[0]).max() == 0 for one in tables[1:])
    require(alike, "beliefs: the secret lies ahead, and depends on actions that are not chosen yet")
    no, yes = 1.0 - (each.value == 1), np.where(each.value == 1, 1.0, 0.0)
    ends = [np.stack([no, yes], axis=1)]
    for _ in range(min(each.ahead, horizon)):
        later = tables[0] @ ends[-1]
        ends.append(np.stack([no * later[:, 0], yes + no * later[:, 1]], axis=1))
    return [ends[min(each.ahead, horizon - time)] for time in range(horizon + 1)]
