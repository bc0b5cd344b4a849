"""Beliefs of an agent that sees only what its observer sees: how an action and an answer change them, and what is unknown.

A belief is an unnormalised row over hidden states, or, from the time at which the secret is settled, over pairs (value, hidden
state). All functions here are homogeneous of degree one: of a belief with mass p they are p times those of the normalised one.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..common.logs import log2_or_zero, surprisal_bits
from ..common.numbering import ragged
from ..engine.chain import Chain
from ..engine.compile import build
from ..engine.each_time import times_of
from ..engine.hidden import Hidden
from ..problem.problem import Problem

_DOUBT = 1e-9  # probability that all values of the secret share where a belief rules some out
_SAME = 12  # decimals to which normalised beliefs are equal


@dataclass(frozen=True, eq=False)
class Answers:
    """Every (action, event) that can occur: `action (K)`, `event (K)` and the chance `shown (K, N)` of it in each state."""

    action: Int[np.ndarray, " K"]
    event: Int[np.ndarray, " K"]
    shown: Float[np.ndarray, "K N"]


class BeliefSteps:
    """The beliefs of a problem, and what their owner lacks.

    **Arguments:** `price`: bits that one unit of the return counts.

    **Raises:** `InputError` unless the agent sees what the observer sees, actions included, and nothing else.
    """

    def __init__(self, problem: Problem, price: float = 0.0):
        _check(problem)
        self.problem, self.price = problem, price
        self.hidden: Hidden = build(problem)
        self.horizon, kernel = self.hidden.horizon, self.hidden.kernel
        stacked = sp.csr_array(kernel.stacked)
        matrices = [sp.csr_array(stacked[action :: kernel.num_actions]) for action in range(kernel.num_actions)]
        self.is_free = all(abs(one - matrices[0]).max() == 0 for one in matrices[1:])
        """Whether the actions change nothing but what is seen, as queries do."""
        self.moves = matrices[:1] if self.is_free else matrices
        self.available = problem.model.available[self.hidden.state]
        self.costs: Float[np.ndarray, "N A"] = price * self.hidden.paid[0].reward
        open_to_all = np.flatnonzero(self.available.all(axis=0))
        if not len(open_to_all):
            raise InputError("problem", ["no action is available in all states, expected one, such as asking nothing"])
        self.plain = int(open_to_all[np.argmin(self.costs[:, open_to_all].sum(axis=0))])
        """The cheapest action that is always available: what an upper bound takes where nothing more is learned."""
        self._is_cheap = not self.costs.any() and bool(self.available.all())  # nothing is paid, and all can be taken
        each, settled = self.hidden.each, self.hidden.split_time
        self.settled = settled if each is None and settled < self.horizon else -1
        self._kept: dict[int, np.ndarray] = {}
        self._weights = np.zeros(self.horizon + 1) if each is None else each.weights
        if each is None:
            self._weights[self.horizon] = 1.0
        elif each.ahead and not self.is_free:
            raise InputError(
                "secret", ["it lies ahead and depends on actions that are not chosen yet: expected ahead=0"]
            )

    @property
    def last(self) -> int:
        """The last time at which something counts."""
        return int(np.flatnonzero(self._weights)[-1])

    @cached_property
    def counted(self) -> list[tuple[int, float]]:
        """The times that count, each with its weight."""
        return [(time, float(self._weights[time])) for time in np.flatnonzero(self._weights).tolist()]

    @cached_property
    def occupied(self) -> list[Float[np.ndarray, " N"]]:
        """The probability of each hidden state at each time, if the plain action is kept."""
        found = [np.asarray(self.hidden.root.sum(axis=1)).ravel()]
        for _ in range(self.horizon):
            found.append(self._plain_moves.T @ found[-1])
        return found

    def label_at(self, time: int) -> Float[np.ndarray, "N Z"]:
        """The chance of each value of the secret of a time, by the hidden state of that time."""
        return self._labels[time]

    @cached_property
    def answers(self) -> Answers:
        """See `Answers`."""
        actions, events, rows = list[int](), list[int](), list[np.ndarray]()
        for action in range(self.hidden.kernel.num_actions):
            emitter = next(one for one in self.hidden.emitters if one.actions[action])
            for event in np.flatnonzero(emitter.emits).tolist():
                actions.append(action)
                events.append(event)
                rows.append(emitter.by_event[event])
        return Answers(np.array(actions), np.array(events), np.array(rows))

    def values(self, time: int) -> int:
        """How many values of the secret a belief of a time tells apart: one before it is settled."""
        return self.hidden.num_values if 0 <= self.settled <= time else 1

    @cached_property
    def starts(self) -> list[tuple[int, Float[np.ndarray, " n"]]]:
        """The first events and the beliefs after them."""
        root = self.hidden.root
        found = [(event, root[:, event]) for event in range(root.shape[1]) if root[:, event].any()]
        return [(event, self._split(0, row)) for event, row in found]

    @property
    def situations(self) -> Int[np.ndarray, " N"]:
        """The number of each hidden state for a history policy: `(k · M + m) · S + s`."""
        memories = len(self.problem.secret_table.memory_names)
        return (self.hidden.model_index * memories + self.hidden.held) * self.problem.num_states + self.hidden.state

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return self.hidden.kernel.num_actions

    @property
    def num_events(self) -> int:
        """How many events a step can have."""
        return self.hidden.num_events

    def widening(self, time: int) -> int:
        """How many times as long beliefs are one time later."""
        return self.values(time + 1) // self.values(time)

    def after(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k K m"]:
        """The beliefs one time later, after each of `answers`."""
        answers, moved = self.answers, self._moved(time, beliefs)
        here = moved[0][:, None] if self.is_free else np.stack([moved[a] for a in answers.action.tolist()], axis=1)
        return self._told_of(time, here * answers.shown[:, None, :])

    def taken(
        self, time: int, beliefs: Float[np.ndarray, "k n"], actions: Int[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, " k"], Int[np.ndarray, " c"], Int[np.ndarray, " c"], Float[np.ndarray, "c m"]]:
        """What an action costs after each belief; and of each answer that can follow: the belief before, event and belief."""
        begins = np.searchsorted(self.answers.action, np.arange(self.num_actions + 1))
        count = (begins[1:] - begins[:-1])[actions]
        place, answer = np.repeat(np.arange(len(beliefs)), count), ragged(begins[actions], count)
        rows = self.after_answers(time, beliefs, place, answer)
        kept = rows.any(axis=1)
        paid = self.paid(time, beliefs)[np.arange(len(beliefs)), actions]
        return paid, place[kept], self.answers.event[answer[kept]], rows[kept]

    def after_answers(
        self, time: int, beliefs: Float[np.ndarray, "k n"], place: Int[np.ndarray, " c"], answer: Int[np.ndarray, " c"]
    ) -> Float[np.ndarray, "c m"]:
        """The beliefs one time later, of pairs of a belief, by its place, and an answer."""
        moved, action = self._moved(time, beliefs), self.answers.action[answer]
        rows = moved[0][place] if self.is_free else np.stack(moved)[action, place]
        rows *= self.answers.shown[answer][:, None]
        return self._told_of(time, rows[:, None])[:, 0]

    def before(
        self,
        time: int,
        actions: Int[np.ndarray, " k"],
        later: Float[np.ndarray, "c m"],
        place: Int[np.ndarray, " c"],
        answer: Int[np.ndarray, " c"],
    ) -> Float[np.ndarray, "k n"]:
        """The adjoint of `after_answers`, with what is paid: the sum over pairs of a linear function one time later.

        Each of the functions counts after an answer to the action of its place; what is found is linear in the belief before.
        """
        rows = later.reshape(len(later), -1, self.hidden.num_states)
        if self.settled == time + 1:
            rows = (rows * self.hidden.label.T).sum(axis=1, keepdims=True)
        total = np.zeros((len(actions), *rows.shape[1:]))
        np.add.at(total, place, rows * self.answers.shown[answer][:, None])
        found = np.empty_like(total)
        for number, matrix in enumerate(self.moves):
            chosen = np.arange(len(actions)) if self.is_free else np.flatnonzero(actions == number)
            flat = total[chosen].reshape(-1, total.shape[2])
            found[chosen] = (matrix @ flat.T).T.reshape(-1, *total.shape[1:])
        return (found + self.costs.T[actions][:, None]).reshape(len(actions), -1)

    def _moved(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> list[Float[np.ndarray, "k V N"]]:
        values, size = self.values(time), self.hidden.num_states
        rows = beliefs.reshape(-1, size)
        # In rows one after the other, so that what is made of them need not be copied.
        return [np.ascontiguousarray(rows @ matrix).reshape(-1, values, size) for matrix in self.moves]

    def _told_of(self, time: int, found: Float[np.ndarray, "k K V N"]) -> Float[np.ndarray, "k K m"]:
        """Beliefs one time later as rows, each value of the secret apart once it is settled."""
        if self.settled == time + 1:
            found = found * self.hidden.label.T
        return found.reshape(*found.shape[:2], found.shape[2] * found.shape[3])

    def _split(self, time: int, row: Float[np.ndarray, " N"]) -> Float[np.ndarray, " n"]:
        return (self.hidden.label.T * row).ravel() if self.settled == time else row

    def paid(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k A"]:
        """What each action costs, in bits; infinite if it is not available."""
        if self._is_cheap:
            return np.zeros((len(beliefs), self.num_actions))
        mass = beliefs.reshape(len(beliefs), self.values(time), -1).sum(axis=1)
        barred = (mass > 0) @ ~self.available
        return np.where(barred, np.inf, mass @ self.costs)

    @cached_property
    def _labels(self) -> list[Float[np.ndarray, "N Z"]]:
        """`P(z_t | x_t)` of each time that counts, without the actions, on which it does not depend."""
        if self.hidden.each is None:
            return [self.hidden.label] * (self.horizon + 1)
        even = np.full((1, self.hidden.num_cells, self.hidden.kernel.num_actions), 1 / self.hidden.kernel.num_actions)
        return [one.chain.hidden.label for one in times_of(Chain(self.hidden, even, stationary=True), every=True)]

    def unknown(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """The bits that count at a time, of each belief."""
        if not self._weights[time]:
            return np.zeros(len(beliefs))
        return self._weights[time] * row_bits(self._joint(time, beliefs))

    def tangent(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k n"]:
        """Linear functions that are `unknown` at their belief, up to 1e-8 bits, and at least `unknown` at all others.

        Each is what is left, on average, of who takes the posterior of its belief for its own.
        """
        if not self._weights[time]:
            return np.zeros_like(beliefs)
        joint = self._joint(time, beliefs)
        posterior = (1 - _DOUBT) * joint / joint.sum(axis=1, keepdims=True) + _DOUBT / joint.shape[1]
        bits = -self._weights[time] * log2_or_zero(posterior)
        return np.repeat(bits, self.hidden.num_states, axis=1) if self.values(time) > 1 else bits @ self._labels[time].T

    def _joint(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k Z"]:
        if self.values(time) > 1:
            return beliefs.reshape(len(beliefs), self.values(time), -1).sum(axis=2)
        return beliefs @ self._labels[time]

    @cached_property
    def forecasts(self) -> list[list[tuple[float, Float[np.ndarray, "n Z"]]]]:
        """For each time t the weight of each later time s that counts, and `P(z_s | x_t)` if the plain action is kept."""
        found: list[list[tuple[float, np.ndarray]]] = [[] for _ in range(self.horizon + 1)]
        move = self._plain_moves
        for later in np.flatnonzero(self._weights).tolist():
            table = self._labels[later]
            if self.settled >= 0:
                table = np.repeat(np.eye(self.hidden.num_values), self.hidden.num_states, axis=0)
            for time in range(later - 1, -1, -1):
                if self.values(time) > 1:
                    found[time].append((self._weights[later], table))
                    continue
                if self.settled == time + 1:
                    table = self.hidden.label
                table = move @ table
                found[time].append((self._weights[later], table))
        return found

    def blind(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """What is still to count if nothing more is learned and the plain action is always taken: an upper bound."""
        total = sum(
            (weight * row_bits(beliefs @ table) for weight, table in self.forecasts[time]), np.zeros(len(beliefs))
        )
        return total + self._blind_costs(time, beliefs)

    def next_secret(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k Z"]:
        """The mass of each value that the secret has at the first time from `time` on that counts, if no more is learned."""
        if self._weights[time] or not self.forecasts[time]:
            return self._joint(time, beliefs)
        return beliefs @ self.forecasts[time][0][1]

    def next_unknown(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """The bits that count at the first time from `time` on that has a weight, if nothing more is learned until then."""
        if self._weights[time] or not self.forecasts[time]:
            return self.unknown(time, beliefs)
        return row_bits(self.next_secret(time, beliefs))

    def left_by(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, "k K"]:
        """`next_unknown` one time later, after each of `answers`; if actions only ask, without making those beliefs."""
        if not self.is_free:
            after = self.after(time, beliefs)
            return self.next_unknown(time + 1, after.reshape(-1, after.shape[2])).reshape(after.shape[:2])
        moved, factor = self._moved(time, beliefs)[0], 1.0
        if self._weights[time + 1] or not self.forecasts[time + 1]:
            factor = self._weights[time + 1]
        if not factor:
            return np.zeros((len(beliefs), len(self.answers.action)))
        count = len(beliefs)
        if moved.shape[1] > 1:
            joint = (moved.reshape(-1, moved.shape[2]) @ self.answers.shown.T).reshape(count, moved.shape[1], -1)
            joint = joint.transpose(0, 2, 1)
        else:
            joint = (moved[:, 0] @ self._shown_with(time)).reshape(count, len(self.answers.action), -1)
        return factor * row_bits(joint.reshape(-1, joint.shape[2])).reshape(count, -1)

    def _shown_with(self, time: int) -> Float[np.ndarray, "N KZ"]:
        """The chance of each answer and value of the next time that counts, by the state one time later."""
        if time not in self._kept:
            label = self._labels[time + 1] if self._weights[time + 1] else None
            if self.settled == time + 1:
                label = self.hidden.label
            elif label is None:
                _, label = self.forecasts[time + 1][0]
            shown = self.answers.shown.T[:, :, None] * label[:, None, :]
            self._kept[time] = shown.reshape(len(shown), -1)
        return self._kept[time]

    def _blind_costs(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        if not self.price:
            return np.zeros(len(beliefs))
        return beliefs @ np.tile(self._free_costs[time], self.values(time))

    @property
    def _plain_moves(self) -> sp.csr_array:
        return self.moves[0 if self.is_free else self.plain]

    @cached_property
    def _free_costs(self) -> list[Float[np.ndarray, " N"]]:
        costs = [np.zeros(self.hidden.num_states)]
        for _ in range(self.horizon):
            costs.append(self.costs[:, self.plain] + self._plain_moves @ costs[-1])
        return costs[::-1]

    @cached_property
    def _told(self) -> list[Float[np.ndarray, " N"]]:
        found, kept = [np.zeros(self.hidden.num_states)], dict[int, np.ndarray]()
        for time in range(self.horizon - 1, -1, -1):
            ahead = np.stack([matrix @ found[-1] for matrix in self.moves], axis=1)
            total = np.where(self.available, self.costs + ahead, np.inf)
            if self.settled < 0 and self._weights[time + 1]:  # else who is told the state knows the value
                label = id(self._labels[time + 1])
                if label not in kept:
                    kept[label] = self._told_bits(time + 1)
                total = total + self._weights[time + 1] * kept[label]
            found.append(total.min(axis=1))
        return found[::-1]

    def told(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """What is still to count if the hidden state is told now and at every later time: a lower bound, linear in beliefs.

        `W(b) ≥ Σ_x b(x) W(e_x)`, since W is concave and homogeneous; and the same again one time later.
        """
        return beliefs @ np.tile(self._told[time], self.values(time))

    def placed(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """`told`, but of a secret that is settled only the state is told: a larger lower bound, not linear.

        Given the hidden state, what follows says nothing of a value that was settled before: `W(b) ≥ Σ_x H(Z | x)`.
        """
        found, values = self.told(time, beliefs), self.values(time)
        if values > 1:
            joint = beliefs.reshape(len(beliefs), values, -1).transpose(0, 2, 1).reshape(-1, values)
            found = found + self._weights[self.last] * row_bits(joint).reshape(len(beliefs), -1).sum(axis=1)
        return found

    def _told_bits(self, time: int) -> Float[np.ndarray, "N A"]:
        """The bits that each action leaves at a time if the state before it is known."""
        found = np.zeros((self.hidden.num_states, self.hidden.kernel.num_actions))
        label = self._labels[time]
        for action, row in zip(self.answers.action.tolist(), self.answers.shown, strict=True):
            found[:, action] += row_bits(self.moves[0 if self.is_free else action] @ (row[:, None] * label))
        return found


def row_bits(joint: Float[np.ndarray, "k Z"]) -> Float[np.ndarray, " k"]:
    """`−Σ_z p_z log2(p_z / Σp)` of each row."""
    return np.einsum("kz,kz->k", joint, surprisal_bits(joint))


def keys_of(beliefs: Float[np.ndarray, "k n"]) -> list[bytes]:
    """What equal normalised beliefs have in common: a digest that no two others share in practice."""
    return [blake2b(row, digest_size=16).digest() for row in np.round(beliefs, _SAME) + 0.0]


def alike(beliefs: Float[np.ndarray, "k n"]) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " k"]]:
    """The first of each kind of equal normalised beliefs, and the kind of each."""
    numbers, first, number = dict[bytes, int](), list[int](), np.empty(len(beliefs), dtype=int)
    for row, key in enumerate(keys_of(beliefs)):
        number[row] = numbers.setdefault(key, len(first))
        if number[row] == len(first):
            first.append(row)
    return np.array(first, dtype=int), number


def _check(problem: Problem) -> None:
    own = problem.agent_sees == "observations" and not problem.agent.apart
    if not own or not problem.observer.sees_actions or problem.agent.register.size > 1 or problem.observer.untimed:
        raise InputError(
            "problem",
            [
                "the search over beliefs is for an agent that sees what the observer sees, actions included, and nothing"
                " else: veil.Querying(…).apply(problem) makes such a problem"
            ],
        )
    if problem.secret_table.path is not None:
        raise InputError("secret", ["it is a whole path, expected one with a value at one time or at every time"])
    if problem.return_over == "infinite":
        raise InputError("return_over", ["it is 'infinite', expected 'horizon'"])
