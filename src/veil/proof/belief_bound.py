"""The verifier's lower bound over all policies of an agent that sees what its observer sees: beliefs, from the last step back.

`W_t(b) = min_a [ paid(a) + Σ_e (h_{t+1}(b_{a,e}) + W_{t+1}(b_{a,e})) ]` over unnormalised beliefs b of (x, z), where h is the
entropy that counts at a time, is concave, homogeneous of degree one, and, as nothing that is counted is negative, monotone.
Hence `W(b) ≥ c W(p) + W(b − c p)` for every belief p of the witness with `c p ≤ b`, and `W(b) ≥ Σ_x (m_x told_t(x) + H(z | x))`
for what is left: to be told x now and at all later times leaves less, and what follows says nothing more of a settled z.
"""

import math

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.pace import Watch
from ..common.plain_logs import log2_or_zero
from .arithmetic import FLOOR, UNIT, gamma, require
from .checked_problem import Bounds, CheckedProblem
from .claims import BeliefBound, Beliefs
from .prices import Lagrangian, checked_prices
from .reading import read_floats, read_integers
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
        self.horizon, self.size = problem.horizon, problem.size
        prices = checked_prices(problem, bound.prices, bounds, 100, "beliefs")
        factors = tuple(-price * one.sign for price, one in zip(prices, problem.paid, strict=True))
        self.pays = Lagrangian(
            problem, (0.0,) * len(factors), factors, (problem.paid[0].terminal, 0.0), problem.horizon
        )
        limits = zip(prices, problem.paid, bounds, strict=True)
        self.slacks = [-price * one.sign * (limit or 0.0) for price, one, limit in limits] + self.pays.slacks(bounds)
        self.settled = problem.labels[0].time if problem.each is None else self.horizon + 1
        self.forecasts = _forecasts(problem) if problem.each is not None else []
        self.shift, self.sizes, self.told = 0.0, self.pays.last_size, [np.zeros(self.size)]
        self.points = [self._read(time, one) for time, one in enumerate(bound.points)]
        self._moves: dict[tuple[int, int], tuple[object, dict[int, sp.csr_array]]] = {}

    def total(self) -> float:
        """The bound: the values of the first beliefs, less what rounding may have added."""
        problem, horizon = self.problem, self.horizon
        last = self.pays.at(horizon)[0][:, 0]
        self.shift += self._shifted(last)
        self.told[0] = last
        values = np.zeros(0)
        for time in range(horizon - 1, -1, -1):
            values = self._before(time, values)
        x, (event, *_), mass = problem.start
        kinds, number = np.unique(event, return_inverse=True)
        beliefs = np.zeros((len(kinds), self.size * self._values(0)))
        np.add.at(beliefs, (number, self._place(0, x, problem.settled(0, x, 0 * x))), mass)
        first = read_integers(self.bound.first, -1, self._count(0), 1, "beliefs: the first")
        require(len(first) == problem.num_first[0], "beliefs: the first are not one for each event")
        found = self._counted(0, beliefs) + self._worth(0, beliefs, first[kinds], values)
        return self._rounded(math.fsum(found.tolist()))

    def _rounded(self, found: float) -> float:
        """What is proven: every number is a sum of products that are not negative, and entropies have small errors."""
        problem, horizon = self.problem, self.horizon
        label = problem.labels[0].size if problem.each is None else problem.each.values
        most = problem.size * problem.values + sum(problem.num_events) + problem.actions + label
        relative = (horizon + 2) * (gamma(2 * most + 64) + 8.08 * problem.defect)
        weights = 1.0 if problem.each is None else float(problem.each.weights.sum())
        absolute = 4 * (horizon + 2) * (label + 4) * UNIT * (weights + 1) + self.pays.left_out + FLOOR
        absolute += 16 * UNIT * (math.fsum(map(abs, self.slacks)) + (horizon + 2) * self.sizes)
        return (found * (1 - relative) - self.shift - math.fsum(self.slacks)) - 1.01 * absolute

    def _shifted(self, paid: np.ndarray) -> float:
        """What is added to a table so that nothing in it is negative, which `paid` gets."""
        more = max(0.0, -float(paid.min(initial=0.0)))
        paid += more
        return more

    def _values(self, time: int) -> int:
        return self.problem.values if self.settled <= time else 1

    def _place(self, time: int, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return x * self._values(time) + (z if self._values(time) > 1 else 0 * z)

    def _count(self, time: int) -> int:
        return len(self.points[time][0].indptr) - 1 if time < len(self.points) else 0

    def _read(self, time: int, given: Beliefs) -> tuple[sp.csr_array, Int[np.ndarray, "k E"]]:
        """The beliefs of a time as rows, and the number of that which each event leads to."""
        what = f"beliefs: those of time {time}"
        require(time < self.horizon, f"{what} are too many times")
        width = self.size * self._values(time)
        place = read_integers(given.place, 0, width, 1, what)
        ends = read_integers(given.ends, 0, len(place) + 1, 1, what)
        weight = read_floats(given.weight, 1, what)
        whole = len(ends) > 0 and ends[0] == 0 and ends[-1] == len(place) == len(weight) and (np.diff(ends) >= 0).all()
        require(whole and (weight > FLOOR).all() and (weight <= 1).all(), f"{what} are no beliefs")
        row = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        require(len(np.unique(row * width + place)) == len(place), f"{what} have an entry twice")
        ahead = len(self.bound.points[time + 1].ends) - 1 if time + 1 < len(self.bound.points) else 0
        child = read_integers(given.child, -1, max(ahead, 0), 2, what)
        require(child.shape == (len(ends) - 1, self.problem.num_events[0]), f"{what} lead to others than events do")
        return sp.csr_array((weight, place, ends), shape=(len(ends) - 1, width)), child

    def _tables(self, time: int) -> dict[int, sp.csr_array]:
        """For each event what the moves of a time do to a belief."""
        problem, moves = self.problem, self.problem.at(time)
        before, after = self._values(time - 1), self._values(time)
        key = (before, after)
        if key in self._moves and self._moves[key][0] is moves:
            return self._moves[key][1]
        found, source = dict[int, sp.csr_array](), moves.row // problem.actions
        for event in np.unique(moves.events[0]).tolist():
            part = np.flatnonzero(moves.events[0] == event)
            x, y = np.repeat(source[part], before), np.repeat(moves.target[part], before)
            z = np.tile(np.arange(before), len(part))
            there = self._place(time, y, problem.settled(time, y, z))
            chance, shape = np.repeat(moves.chance[part], before), (self.size * before, self.size * after)
            found[event] = sp.csr_array((chance, (x * before + z, there)), shape=shape)
        self._moves[key] = moves, found
        return found

    def _before(self, time: int, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " k"]:
        """The values of the beliefs of a time, from those of the next; and what is left if x is told."""
        problem, (paid, size) = self.problem, self.pays.at(time)
        self.sizes += size
        self.shift += self._shifted(paid)
        paid[~problem.available] = np.inf
        points, child = self.points[time] if time < len(self.points) else (None, None)
        found = np.zeros(self._count(time))
        step = max(1, _AT_ONCE // (self.size * self._values(time + 1)))
        for begin in range(0, len(found), step):
            assert points is not None
            assert child is not None
            part = points[begin : begin + step]
            found[begin : begin + step] = self._least(time, part, child[begin : begin + step], values, paid)
        self._tell(time, paid)
        return found

    def _least(
        self, time: int, points: sp.csr_array, child: np.ndarray, values: np.ndarray, paid: np.ndarray
    ) -> Float[np.ndarray, " k"]:
        """The least of all actions that are available in every state of a belief."""
        before, observations = self._values(time), self.problem.observers[0].observations
        barred = points @ np.repeat(1.0 * np.isinf(paid), before, axis=0) > 0
        total = points @ np.repeat(np.where(np.isinf(paid), 0.0, paid), before, axis=0)
        for event, table in self._tables(time + 1).items():
            if self.clock:
                self.clock.check()
            beliefs = sp.csr_array(points @ table).toarray()
            total[:, event // observations] += self._counted(time + 1, beliefs)
            total[:, event // observations] += self._worth(time + 1, beliefs, child[:, event], values)
        least = np.where(barred, np.inf, total).min(axis=1)
        require(np.isfinite(least), "beliefs: no action is available in all states of one")
        return least

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
            return beliefs @ self.told[self.horizon - time]
        joint = beliefs.reshape(len(beliefs), -1, values)
        mass = joint.sum(axis=2)
        return mass @ self.told[self.horizon - time] + (_bits(joint).sum(axis=1) if time < self.horizon else 0.0)

    def _tell(self, time: int, paid: np.ndarray) -> None:
        """Add what is left at a time if x is told then and later: of each action what it pays, and the entropy of the next
        time, unless z was settled before."""
        problem, moves = self.problem, self.problem.at(time + 1)
        after = paid.copy()
        ahead = np.bincount(moves.row, moves.chance * self.told[-1][moves.target], paid.size)
        after += ahead.reshape(paid.shape)
        if self._values(time) == 1:
            observations = problem.observers[0].observations
            points = sp.eye_array(self.size, format="csr")
            for event, table in self._tables(time + 1).items() if self._counts(time + 1) else ():
                after[:, event // observations] += self._counted_rows(time + 1, sp.csr_array(points @ table))
        self.told.append(after.min(axis=1))

    def _counts(self, time: int) -> bool:
        each = self.problem.each
        return time == self.horizon if each is None else bool(each.weights[time])

    def _counted_rows(self, time: int, rows: sp.csr_array) -> Float[np.ndarray, " k"]:
        """`_counted` of rows with few entries, in pieces."""
        step = max(1, _AT_ONCE // (self.size * self._values(time)))
        parts = [self._counted(time, rows[one : one + step].toarray()) for one in range(0, self.size, step)]
        return np.concatenate(parts)

    def _counted(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """The entropy that counts at a time, of each belief."""
        if not self._counts(time):
            return np.zeros(len(beliefs))
        each, values = self.problem.each, self._values(time)
        if each is not None:
            return float(each.weights[time]) * _bits(beliefs @ self.forecasts[time])
        return _bits(beliefs.reshape(len(beliefs), -1, values).sum(axis=1))


def _bits(joint: Float[np.ndarray, "... z"]) -> Float[np.ndarray, "..."]:
    """`Σ_z p_z log2(Σp / p_z)` of each row."""
    total = joint.sum(axis=-1, keepdims=True)
    share = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    return np.maximum(0.0, -(joint * log2_or_zero(share)).sum(axis=-1))


def _forecasts(problem: CheckedProblem) -> list[np.ndarray]:
    """`P(z_t | x_t)` of a secret with a value at every time; of one that lies ahead the moves must not depend on the action."""
    each, horizon, size = problem.each, problem.horizon, problem.size
    assert each is not None
    now = np.zeros((size, each.values))
    now[np.arange(size), each.value] = 1.0
    if not each.ahead:
        return [now] * (horizon + 1)
    moves = problem.record.moves
    row = np.repeat(np.arange(size * problem.actions), moves.degree)
    tables = [sp.csr_array((moves.chance[row % problem.actions == a], (row[row % problem.actions == a] // problem.actions,
              moves.target[row % problem.actions == a])), shape=(size, size)) for a in range(problem.actions)]  # fmt: skip
    alike = problem.available.all() and all(abs(one - tables[0]).max() == 0 for one in tables[1:])
    require(alike, "beliefs: the secret lies ahead, and depends on actions that are not chosen yet")
    no, yes = 1.0 - (each.value == 1), np.where(each.value == 1, 1.0, 0.0)
    ends = [np.stack([no, yes], axis=1)]
    for _ in range(min(each.ahead, horizon)):
        later = tables[0] @ ends[-1]
        ends.append(np.stack([no * later[:, 0], yes + no * later[:, 1]], axis=1))
    return [ends[min(each.ahead, horizon - time)] for time in range(horizon + 1)]
