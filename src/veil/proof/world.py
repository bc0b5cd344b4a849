"""A problem read afresh for the verifier, from its own numbers: every start, every move, how well its rows sum to one."""

import numpy as np

from ..common.errors import CertificateError
from ..common.logs import log2_of_count
from ..problem.problem import Problem

UNIT = 2.0**-53
FLOOR = 2.0**-900  # below it products lose digits: a problem is refused, a path of a policy is left out and counted


def gamma(count: float) -> float:
    """`γ_n = n u / (1 − n u)`, the relative error of n roundings, with a hundredth to spare for evaluating it."""
    return 1.01 * count * UNIT / (1 - count * UNIT)


def demand(good: "bool | np.bool_ | np.ndarray", message: str) -> None:
    """Raise `CertificateError` unless everything is true."""
    if not np.all(good):
        raise CertificateError(message)


def defect_of(sums: np.ndarray, length: int, what: str) -> float:
    """ρ: how far the sums of distributions of that length may be from one."""
    found = float(np.abs(sums - 1).max(initial=0)) + gamma(length + 1)
    demand(found < 1e-6, f"{what}: a distribution sums to one only within {found:.3g}")
    return found


def group(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The index of one row of each kind, in order, and for each row the number of its kind."""
    key, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        width = int(column.max(initial=0)) + 1
        if size * width >= 2**62:
            key, column = (np.unique(part, return_inverse=True)[1].ravel() for part in (key, column))
            size, width = int(key.max(initial=0)) + 1, int(column.max(initial=0)) + 1
        key, size = key * width + column, size * width
    order = np.argsort(key, kind="stable")
    fresh = np.diff(key[order], prepend=-1) != 0
    number = np.empty(len(key), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return order[fresh], number


class World:
    """A problem read afresh: each start `(x, event)` and each move `(x, a) -> (x', event)` with its probability.

    x is `(k · M + m) · S + s`: the model that runs, the secret's memory, the state. Moves are in the order of (x, a).
    """

    def __init__(self, problem: Problem):
        table, observer, models = problem.secret_table, problem.observer, problem.models
        memories, states = table.memory_step.shape
        self.problem, self.states, self.actions = problem, states, problem.num_actions
        self.horizon, self.discount, self.values = problem.horizon, problem.discount, len(table.value_names)
        self.size = len(models) * memories * states
        power = self.values & (self.values - 1) == 0  # whose logarithm is exact
        self.most_bits = log2_of_count(self.values) * (1.0 if power else 1 + 4 * UNIT)
        model, memory, state = np.unravel_index(np.arange(self.size), (len(models), memories, states))
        self.model_state = model, state
        self.reward, self.terminal, self.available = (
            np.stack([getattr(one, name) for one in models])[model, state]
            for name in ("rewards", "terminal_rewards", "available")
        )
        self.label = table.label[model if len(table.label) > 1 else 0, memory, state]
        self.events = observer.num_observations * (self.actions if observer.sees_actions else 1)
        shown = observer.emissions if observer.on_actions else observer.emissions[None]
        first = shown[0] if observer.sees_first else np.ones((states, 1))
        weights = np.ones(1) if table.weights is None else table.weights
        sums, starts, parts = [[weights.sum()], shown.sum(axis=-1).ravel()], [], []
        for k, one in enumerate(models):
            sums.append([one.initial.sum()])
            s, event = np.nonzero((weights[k] > 0) & (one.initial[:, None] > 0) & (first > 0))
            starts.append(((k * memories + table.memory_start[s]) * states + s, event))
            starts[-1] += (weights[k] * one.initial[s] * first[s, event],)
            for action, matrix in enumerate(one.matrices):
                source = np.repeat(np.arange(states), np.diff(matrix.indptr))
                sums.append(np.bincount(source, matrix.data, states)[one.available[:, action]])
                emission = shown[min(action, len(shown) - 1)][matrix.indices]
                entry, event = np.nonzero((emission > 0) & (matrix.data > 0)[:, None])
                chance, s, n = matrix.data[entry] * emission[entry, event], source[entry], matrix.indices[entry]
                event = event + action * observer.num_observations * observer.sees_actions
                for m in range(memories):
                    target = (k * memories + table.memory_step[m, n]) * states + n
                    row = ((k * memories + m) * states + s) * self.actions + action
                    parts.append((row, target, event, chance))
        self.start = tuple(np.concatenate(column) for column in zip(*starts, strict=True))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        self.row, self.target, self.event, self.chance = (column[order] for column in columns)
        smallest = min(self.start[2].min(initial=1), self.chance.min(initial=1))
        demand(
            smallest >= FLOOR, f"problem: it has a positive probability of {smallest}, under 2^-900, which is refused"
        )
        self.degree = np.bincount(self.row // self.actions, minlength=self.size)
        self.begin = np.cumsum(self.degree) - self.degree
        self.terms = int(np.bincount(self.row).max())  # of the longest sum over the moves of one (x, a)
        self.defect = defect_of(np.concatenate(sums), max(observer.num_observations, states, len(models)), "problem")

    def moves(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All moves from each x: the position in `x` and the number of the move."""
        count = self.degree[x]
        position = np.repeat(np.arange(len(x)), count)
        return position, np.arange(len(position)) - np.repeat(np.cumsum(count) - count - self.begin[x], count)

    def settled(self, time: int, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The value of the secret in x at a time: 0 while it is open, its label when it is settled, then as it was."""
        if time != self.problem.secret_table.time:
            return z
        demand(self.label[x] >= 0, "problem: the secret has no value in a state that can occur")
        return self.label[x]
