"""The game in plain Python over dictionaries of histories, and as a general convex program: oracles for the solver.

Nothing here uses the public graph or sparse steps. A situation is (history, hidden state, value of the secret or -1).
"""

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

import veil
from veil.engine.compile import build
from veil.engine.feasibility import Target
from veil.engine.hidden import Hidden
from veil.engine.kernel import DenseKernel
from veil.engine.moves import situations
from veil.engine.paid import Paid
from veil.policy.history import HistoryPolicy

Situation = tuple[tuple[int, ...], int, int]
Remember = Callable[[tuple[int, ...]], tuple[int, ...]]


def everything(history: tuple[int, ...]) -> tuple[int, ...]:
    """The observer who remembers the whole history."""
    return history


def last(length: int) -> Remember:
    """The observer who remembers the last events only."""
    return lambda history: history[max(0, len(history) - length) :]


@dataclass
class PlainGame:
    """All situations of each time with their moves: `moves[t][situation][a]` lists (next situation, probability)."""

    hidden: Hidden
    available: np.ndarray
    start: dict[Situation, float]
    moves: list[dict[Situation, list[list[tuple[Situation, float]]]]]
    terminal: np.ndarray

    @staticmethod
    def of(problem: veil.Problem, remember: Remember = everything) -> "PlainGame":
        hidden = build(problem)
        available = problem.model.available[hidden.state]
        kernel = hidden.kernel
        assert isinstance(kernel, DenseKernel)
        emission = {a: c.emission for c in hidden.emitters for a in np.flatnonzero(c.actions).tolist()}
        start: dict[Situation, float] = {}
        for x, event in zip(*np.nonzero(hidden.root), strict=True):
            here = (remember((int(event),)), int(x), _settle(hidden, 0, int(x), -1))
            start[here] = start.get(here, 0.0) + float(hidden.root[x, event])
        moves, layer = [], set(start)
        for time in range(hidden.horizon):
            step = {}
            for history, x, z in sorted(layer):
                rows: list[list[tuple[Situation, float]]] = []
                for a in range(problem.num_actions):
                    found: dict[Situation, float] = {}
                    for y in np.flatnonzero(kernel.array[a, x]) if available[x, a] else ():
                        for event in np.flatnonzero(emission[a][y]):
                            there = (remember((*history, int(event))), int(y), _settle(hidden, time + 1, int(y), z))
                            found[there] = found.get(there, 0.0) + kernel.array[a, x, y] * emission[a][y, event]
                    rows.append(list(found.items()))
                step[history, x, z] = rows
            moves.append(step)
            layer = {there for rows in step.values() for row in rows for there, _ in row}
        return PlainGame(hidden, available, start, moves, hidden.paid[0].terminal)

    def play(self, choose: Callable[[int, Situation], np.ndarray]) -> tuple[float, float]:
        """`H(Z|memory at T)` in bits and the expected return of a policy `choose(time, situation) -> probabilities`."""
        law, gained, gamma = dict(self.start), 0.0, self.hidden.paid[0].discount
        for time, step in enumerate(self.moves):
            after: dict[Situation, float] = {}
            for situation, weight in law.items():
                for a, chance in enumerate(choose(time, situation)):
                    gained += weight * chance * gamma**time * self.hidden.paid[0].reward[situation[1], a]
                    for there, p in step[situation][a]:
                        after[there] = after.get(there, 0.0) + weight * chance * p
            law = after
        gained += gamma**self.hidden.horizon * sum(w * self.terminal[x] for (_, x, _), w in law.items())
        joint: dict[tuple[int, ...], dict[int, float]] = {}
        for (history, _, z), weight in law.items():
            row = joint.setdefault(history, {})
            row[z] = row.get(z, 0.0) + weight
        bits = math.fsum(-w * math.log2(w / sum(row.values())) for row in joint.values() for w in row.values() if w > 0)
        return bits, gained

    def convex_optimum(
        self,
        threshold: float | None,
        further: Sequence[Target] = (),
        task: Sequence[tuple[float, Paid]] = (),
    ) -> float:
        """The game's value by CVXPY with Clarabel: one variable for each flow (time, situation, action).

        Of a whole path of states it is that of `H(X_T|h_T) + Σ_t H(X_t|X_{t+1},h_{t+1})`, of a secret with a value at every
        time that of `Σ_t w_t H(Z_t|h_t)`. `task`: factors of quantities that are added.
        """
        import cvxpy as cp  # pyright: ignore[reportMissingImports]

        gamma, actions = self.hidden.paid[0].discount, len(self.available[0])
        place = [(time, s) for time, step in enumerate(self.moves) for s in step]
        number = {key: index for index, key in enumerate(place)}
        size = len(place) * actions
        balance = sp.lil_array((len(place), size))
        known, gains = np.zeros(len(place)), np.zeros(size + 1)  # the last place is for what is constant
        extra = [*(one.paid for one in further), *(paid for _, paid in task)]
        others = np.zeros((len(extra), size + 1))
        ends: dict[Situation, dict[int, float]] = {}
        joint: dict[tuple[Hashable, int], dict[int, float]] = {}
        path, each = self.hidden.path is not None, self.hidden.each
        for situation, p in self.start.items():
            if self.moves:
                known[number[0, situation]] = p
            else:
                ends[situation] = {size: p}
        for (time, situation), index in number.items():
            for a, row in enumerate(self.moves[time][situation]):
                column = index * actions + a
                balance[index, column] += 1.0
                gains[column] = gamma**time * self.hidden.paid[0].reward[situation[1], a]
                for paid, one in zip(others, extra, strict=True):
                    paid[column] = one.discount**time * one.reward[situation[1], a]
                if each is not None and each.weights[time] and self.available[situation[1], a]:
                    cell = joint.setdefault(((time, situation[0]), int(each.value[situation[1]])), {})
                    cell[column] = float(each.weights[time])
                for there, p in row:
                    if path:
                        joint.setdefault((there[:2], situation[1]), {})[column] = p
                    if (time + 1, there) in number:
                        balance[number[time + 1, there], column] -= p
                    else:
                        ends.setdefault(there, {})[column] = p
        for (history, x, z), parts in ends.items():
            for column, p in parts.items():
                gains[column] += gamma**self.hidden.horizon * self.terminal[x] * p
                for paid, one in zip(others, extra, strict=True):
                    paid[column] += one.discount**self.hidden.horizon * one.terminal[x] * p
                cell = joint.setdefault((history, x if path else z), {})
                cell[column] = cell.get(column, 0.0) + p * (1.0 if each is None else float(each.weights[-1]))
        top, bottom = sp.lil_array((len(joint), size + 1)), sp.lil_array((len(joint), size + 1))
        for row, (history, _) in enumerate(joint):
            for (other, z), parts in joint.items():
                for column, p in parts.items() if other == history else ():
                    bottom[row, column] += p
                    top[row, column] += p if list(joint)[row] == (other, z) else 0.0
        flow = cp.Variable(size + 1, nonneg=True)
        blocked = [
            i * actions + a for (_, s), i in number.items() for a in range(actions) if not self.available[s[1], a]
        ]
        constraints: list[Any] = [flow[size] == 1]
        if place:
            constraints.append(sp.csr_array(balance) @ flow[:size] == known)
        if blocked:
            constraints.append(flow[blocked] == 0)
        if threshold is not None:
            constraints.append(gains @ flow >= threshold)
        constraints += [
            one.sign * (paid @ flow) >= one.sign * one.bound for paid, one in zip(others, further, strict=False)
        ]
        entropy = -cp.sum(cp.rel_entr(sp.csr_array(top) @ flow, sp.csr_array(bottom) @ flow)) / math.log(2)
        total = sum(factor * paid for (factor, _), paid in zip(task, others[len(further) :], strict=True))
        program = cp.Problem(cp.Maximize(entropy + total @ flow if task else entropy), constraints)
        with warnings.catch_warnings():
            # Asked for nine digits it says so where it reaches eight; the comparison is at five.
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
        assert isinstance(program.value, float)
        return program.value


def _settle(hidden: Hidden, time: int, x: int, z: int) -> int:
    return int(np.argmax(hidden.label[x])) if time == hidden.split_time else z


def play_history(problem: veil.Problem, policy: HistoryPolicy) -> tuple[float, float]:
    """Opacity and return of a history policy, against an observer who remembers everything, by plain enumeration."""
    names = situations(problem, build(problem))

    def node(history: tuple[int, ...]) -> Any:
        if len(history) == 1:
            return policy.first[history[0]]
        return policy.following[len(history) - 2][node(history[:-1]), history[-1]]

    def choose(time: int, situation: Situation) -> np.ndarray:
        history, x, z = situation
        rows = policy.decisions[time]
        return rows.probabilities[rows.find(int(node(history)), int(names[x]), z)]

    return PlainGame.of(problem).play(choose)
