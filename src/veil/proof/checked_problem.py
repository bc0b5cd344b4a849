"""A problem as the verifier reads it, from its own arrays: every start, every move, how well its rows sum to one."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import CertificateError, InputError
from ..common.logs import log2_of_count
from ..policy.policy import Policy
from ..problem.apart import Apart, apart
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.return_rounding import centre_of
from ..problem.unrolled import unroll
from .arithmetic import FLOOR, LARGEST, UNIT, defect_of, require
from .path_rules import tells_state

Numbers = Int[np.ndarray, " n"]
Columns = tuple[np.ndarray, ...]
Bounds = tuple[float | None, ...]
"""What the quantities of a problem must reach: the threshold on the return, None where there is none, then the others."""
_MOST_EXACT_STEPS = 1000  # up to which powers of the discount are made in fractions
_DENSE_NUMBERS = 2**24  # of emissions that are summed as a dense table


@dataclass(frozen=True, eq=False)
class Paid:
    """A quantity that is bounded, on the hidden states: `E[Σ_t d^t reward(x_t,a_t) + d^T terminal(x_T)]`.

    **Attributes:** `reward (N, A)` and `terminal (N)`, centred where they are large beside their spread: all values are then
    larger by `offset`, exactly; `given`: both as they were; `discount`, d; `largest`, of the given numbers; `sign`: +1 where
    the quantity must be its bound or more, −1 where it must be its bound or less.
    """

    reward: Float[np.ndarray, "N A"]
    terminal: Float[np.ndarray, " N"]
    discount: float
    sign: int
    largest: float
    offset: Fraction
    given: tuple[np.ndarray, np.ndarray]


class CheckedProblem:
    """The starts and moves of a problem as lists.

    The hidden state is `x = (k · M + m) · S + s`: the model that runs, the state of the secret's automaton, the state.

    **Attributes:** `start`: three columns `(x, event, probability)`. The moves, in the order of (x, a): `row[i] = x · A + a`,
    `target[i] = x'`, `event[i]`, `chance[i] = P(x'|x,a) b(event|a,x')`; those of x are `begin[x] … begin[x] + degree[x] − 1`.
    `terms`: the most moves of one (x, a), or observations of one x. For each x: `available (N, A)`, and `label (N)`, the value
    that the secret takes if it is settled there, at `secret_time`. `paid`: what is bounded, the return first, then the
    quantities of `problem.others`. `endless`: the return is over an infinite horizon. `most_bits ≥ log2 |Z|`.
    `defect` is ρ of all distributions. Where the secret is a whole path, `path (N)` is what it shows of x, and `tells_state`:
    path and events tell every x. If what the observer receives depends on time, the states carry it: all of this is of
    `unrolled`, and `given_x` says which x of the given `problem` is behind each. `untimed`: the observer that counts has no
    clock. The events are those of one who has, who knows at least as much: bounds from below hold for both.

    Example: one model, one action, a memoryless secret; state 0 goes to 0 or 1 with probability 1/2, state 1 stays; the
    observer sees 0 in state 0, and in state 1 it sees 0 or 1 with probabilities 1/4 and 3/4; the start is state 0. Then
    `start = ([0], [0], [1])`, and there are five moves:

        row      0     0     0     1     1
        target   0     1     1     1     1         degree = (3, 2)
        event    0     0     1     0     1         begin  = (0, 3)
        chance   1/2   1/8   3/8   1/4   3/4       terms  = 3

    **Arguments:** `delay`: 1 for agents that learn each observation one step late. A move then has the event of the state that
    it leaves, `chance[i] = P(x'|x,a) b(event|x)`, the start has none, and that of the last state comes after all moves
    (`shown`); the observations must depend on the state alone. `pairs`: those whose observers are in the problem, where it is
    not the own pair of a problem (`checked_pairs`); the events are then those of all of them together. `watched`: the one of
    them whose observer counts, where a policy acts on what several see (`checked_for`).

    Cost: `nnz(P)` times the observations that a state can emit, times the states of the automaton.

    **Raises:** `CertificateError` where a distribution does not sum to one within 1e-6, or a probability is below 2^-900.
    """

    def __init__(
        self,
        problem: Problem,
        delay: int = 0,
        pairs: Apart | None = None,
        watched: str | None = None,
        *,
        untimed: bool = False,
    ):
        self.untimed = untimed or problem.observer.untimed
        self.names, self.views = ((OWN,), None) if pairs is None else (pairs.names, pairs.views)
        self.pairs, self.watched = pairs, None if pairs is None or watched is None else pairs.view(watched)
        self.products = 0 if pairs is None else len(pairs.observers) - 1  # more in what is seen of a state
        self.problem, (problem, self._given_x) = problem, _with_time(problem)
        self.unrolled = problem
        table, observer, models = problem.secret_table, problem.observer, problem.models
        require(table.each is None, "problem: its secret has a value at every time, of which nothing can be proven yet")
        require(not delay or can_delay(problem), "problem: a path, or observations that depend on actions, and a delay")
        memories, states = table.memory_step.shape
        self.delay, self.states, self.actions = delay, states, problem.num_actions
        self.horizon, self.discount, self.endless = problem.horizon, problem.discount, problem.return_over == "infinite"
        self.secret_time, self.values, self.size = table.time, len(table.value_names), len(models) * memories * states
        self.events = observer.num_observations * (self.actions if observer.sees_actions else 1)
        self.first_events = observer.num_observations if observer.sees_first else 1
        self.path = None if table.path is None else np.tile(table.path, len(models) * memories)
        counted = [self.watched] if self.watched else self.views or ()  # none hides more than the bits of its secret
        self.most_bits = _log2_rounded_up(max((one.num_values for one in counted), default=self.values))
        if self.path is not None:
            self.most_bits = (self.horizon + 1) * _log2_rounded_up(int(self.path.max()) + 1)
        model, memory, state = np.unravel_index(np.arange(self.size), (len(models), memories, states))
        self.model_state = model, state
        wanted = [(0, 1), *((one.quantity, int(one.sign)) for one in problem.others)]  # the return, bounded or not
        last = problem.channels[0].terminals
        self.paid = tuple(
            self._paid(
                problem.quantities[number].paid[model, state],
                last[number][model, memory, state],
                problem.quantities[number].discount,
                sign,
            )
            for number, sign in wanted
        )
        self.available = np.stack([one.available for one in models])[model, state]
        self.label = table.label[model, memory, state]
        *self.start, first, second, third = starts(problem, delay)
        self.start = *self.start, first * second * third
        self.row, self.target, self.event, moved, shown = moves(problem, delay)
        self.chance = moved * shown
        smallest = min(self.start[2].min(initial=1), self.chance.min(initial=1))
        require(
            smallest >= FLOOR, f"problem: a positive probability is {smallest}, expected 2^-900 (about 1e-271) or more"
        )
        self.degree = np.bincount(self.row // self.actions, minlength=self.size)
        self.begin = np.cumsum(self.degree) - self.degree
        self.terms = max(int(np.bincount(self.row).max()), observer.num_observations if delay else 0)
        longest = max(observer.num_observations, states, len(models))
        self.defect = defect_of(_sums(problem), longest, "problem")

    def _paid(self, reward: np.ndarray, terminal: np.ndarray, discount: float, sign: int) -> Paid:
        """A quantity less what is large beside the spread of its rewards; `offset` is what that takes from every value."""
        given, offset = (reward, terminal), Fraction(0)
        largest = float(max(np.abs(reward).max(), np.abs(terminal).max()))
        if not self.endless and self.horizon <= _MOST_EXACT_STEPS:
            shift, last, factor = centre_of(reward), centre_of(terminal), Fraction(discount)
            if shift or last:
                reward, terminal = reward - shift, terminal - last
                steps = sum(factor**time for time in range(self.horizon))
                offset = Fraction(shift) * steps + Fraction(last) * factor**self.horizon
        spread = largest * (1 / (1 - self.discount) if self.endless else self.horizon + 1)
        require(
            spread <= LARGEST,
            f"problem: its rewards sum to up to {spread:.3g}, expected 2^900 (about 8e270) or less: scale them",
        )
        return Paid(reward, terminal, discount, sign, largest, offset, given)

    @cached_property
    def tells_state(self) -> bool:
        """Whether the secret is a path that, with the events, tells every x."""
        return tells_state(self)

    @cached_property
    def codes(self) -> Numbers | None:
        """What a rule for a whole path tells apart: each x where the path and the events tell it, else what the path shows."""
        return np.arange(self.size) if self.tells_state else self.path

    def moves(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """All moves from each x: the position in `x`, and the number of the move.

        In the example, x = (1, 0) gives the positions (0, 0, 1, 1, 1) and the moves (3, 4, 0, 1, 2).
        """
        count = self.degree[x]
        position = np.repeat(np.arange(len(x)), count)
        return position, np.arange(len(position)) - np.repeat(np.cumsum(count) - count - self.begin[x], count)

    def given_x(self, x: Numbers) -> Numbers:
        """The number of each x in the given problem, whose states may not carry the time."""
        return x if self._given_x is None else self._given_x[x]

    def shown(self, x: Numbers) -> Columns:
        """What each x emits, with a delay: the position in `x`, the observation, and `b(o|x)`."""
        return _emitted(self.unrolled.observer.matrices[0], x % self.states)

    def settled(self, time: int, x: Numbers, z: Numbers) -> Numbers:
        """The value of the secret in x at a time: 0 before it is settled, its label when it is, then `z` as it was."""
        if time != self.secret_time:
            return z
        require(self.label[x] >= 0, "problem: the secret has no value in a state that can occur")
        return self.label[x]


def checked_pairs(problem: Problem, names: tuple[str, ...], own: CheckedProblem | None = None) -> CheckedProblem:
    """The problem of some pairs, whose observers do not share what they see.

    **Arguments:** `own`: that of the problem's own pair, where the caller has it already.

    **Raises:** `CertificateError` where no bound is known for them together, or a probability of what they see is below 2^-900.
    """
    if names == (OWN,):
        return own or CheckedProblem(problem)
    try:
        clocks = len(names) == 1 or not any(problem.channel(name).observer.untimed for name in names)
        require(clocks, "pairs: no bound over all policies is known for several, of which one has no clock")
        return _checked(apart(problem, names))
    except InputError as error:
        raise CertificateError(f"pairs: {error}") from error


def checked_for(problem: Problem, policy: Policy, pair: str = OWN, own: CheckedProblem | None = None) -> CheckedProblem:
    """The problem in which what a policy hides in a pair is found: its events are what the policy acts on or the observer sees.

    **Arguments** and **Raises:** as `checked_pairs`; `CertificateError` also where the policy acts on other observations.
    """
    try:
        together = policy.acting_in(problem, pair)
        if together is None:
            return checked_pairs(problem, (pair,), own)
        return _checked(together, pair, untimed=problem.channel(pair).observer.untimed)
    except InputError as error:
        raise CertificateError(f"pairs: {error}") from error


def _checked(found: Apart, watched: str | None = None, *, untimed: bool = False) -> CheckedProblem:
    least = 1.0  # a product of probabilities that is rounded to zero would be missed
    for one in found.observers:
        least *= min(float(table.data[table.data > 0].min(initial=1.0)) for table in one.all_matrices)
    require(least >= FLOOR, f"problem: what the observers see together can have the probability {least}")
    return CheckedProblem(found.joint, 0, found, watched, untimed=untimed)


def can_delay(problem: Problem) -> bool:
    """Whether agents that learn observations late are covered: these depend on the state alone, and no path is secret."""
    observer = problem.observer
    alone = len(observer.matrices) == 1 and not observer.sees_actions and not observer.emissions_at
    return alone and problem.secret_table.path is None


def _with_time(problem: Problem) -> tuple[Problem, Numbers | None]:
    """The problem whose states carry the time if emissions depend on it, and the x of the given problem behind each of its own.

    Both have the same runs, so that what is proven of one holds for the other. The observer has a clock.
    """
    if not problem.observer.varies:
        return problem.with_clock(), None
    found, state = unroll(problem.only(OWN).with_clock())
    given, larger = problem.secret_table, found.secret_table
    memory = np.zeros(len(larger.memory_step), dtype=np.int64)  # both remember the same, perhaps in another order
    known = np.zeros(len(memory), dtype=bool)
    memory[larger.memory_start], known[larger.memory_start] = given.memory_start[state], True
    edge = np.flatnonzero(known)
    while len(edge):
        after, behind = larger.memory_step[edge], given.memory_step[memory[edge]][:, state]
        new = ~known[after]
        memory[after[new]], known[after[new]] = behind[new], True
        edge = np.unique(after[new])
    k, m, s = np.unravel_index(
        np.arange(len(problem.models) * len(memory) * len(state)), (len(problem.models), len(memory), len(state))
    )
    return found, (k * len(given.memory_step) + memory[m]) * problem.num_states + state[s]


def _log2_rounded_up(count: int) -> float:
    """An upper bound on log2 of a whole number, and times another one: exact for powers of two, else 4 u are added."""
    return log2_of_count(count) * (1.0 if count & (count - 1) == 0 else 1 + 4 * UNIT)


def _emitted(table: sp.csr_array, states: Numbers) -> Columns:
    """What each of some states emits: its position among them, the observation, and `b(o|s)`."""
    count = np.diff(table.indptr)[states]
    position = np.repeat(np.arange(len(states)), count)
    entry = np.arange(len(position)) - np.repeat(np.cumsum(count) - count - table.indptr[states], count)
    return position, table.indices[entry], table.data[entry]


def _weights(problem: Problem) -> Float[np.ndarray, " K"]:
    """The probability that each model runs."""
    weights = problem.secret_table.weights
    return np.ones(1) if weights is None else weights


def starts(problem: Problem, delay: int = 0) -> Columns:
    """`(x, event, P(k), P(s|k), b(event|s))` of every possible start; event 0 where nothing is received then."""
    table, states = problem.secret_table, problem.num_states
    seen = problem.observer.sees_first and not delay
    begun_with = problem.observer.first_matrix(problem.horizon) if seen else None
    first = sp.csr_array(np.ones((states, 1))) if begun_with is None else begun_with
    parts = []
    for k, (weight, model) in enumerate(zip(_weights(problem), problem.models, strict=True)):
        begun = np.flatnonzero((weight > 0) & (model.initial > 0))
        position, event, chance = _emitted(first, begun)
        s = begun[position]
        x = (k * len(table.memory_step) + table.memory_start[s]) * states + s
        parts.append((x, event, np.full(len(s), weight), model.initial[s], chance))
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def moves(problem: Problem, delay: int = 0) -> Columns:
    """`(row, target, event, P(x'|x,a), b(event|a,x'))` of every move, in the order of rows `x · A + a`.

    With a delay the event is that of x.
    """
    table, observer = problem.secret_table, problem.observer
    (memories, states), actions = table.memory_step.shape, problem.num_actions
    parts = []
    for k, model in enumerate(problem.models):
        for action, matrix in enumerate(model.matrices):
            source = np.repeat(np.arange(states), np.diff(matrix.indptr))
            shown = observer.matrices[min(action, len(observer.matrices) - 1)]
            entry, event, chance = _emitted(shown, source if delay else matrix.indices)
            moved, s, after = matrix.data[entry], source[entry], matrix.indices[entry]
            event = event + action * observer.num_observations * observer.sees_actions
            for m in range(memories):
                target = (k * memories + table.memory_step[m, after]) * states + after
                row = ((k * memories + m) * states + s) * actions + action
                parts.append((row, target, event, moved, chance))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return tuple(column[order] for column in columns)


def _sums(problem: Problem) -> Float[np.ndarray, " n"]:
    """The computed sum of every distribution: over models, starts, observations, and next states of available actions."""
    sums = [np.array([_weights(problem).sum()]), *(_row_sums(table) for table in problem.observer.all_matrices)]
    for model in problem.models:
        sums.append(np.array([model.initial.sum()]))
        for action, matrix in enumerate(model.matrices):
            source = np.repeat(np.arange(problem.num_states), np.diff(matrix.indptr))
            sums.append(np.bincount(source, matrix.data, problem.num_states)[model.available[:, action]])
    return np.concatenate(sums)


def _row_sums(table: sp.csr_array) -> Float[np.ndarray, " n"]:
    """The computed sum of each row; all orders of summation are within the error that `defect_of` allows for."""
    degree = np.diff(table.indptr)
    if len(degree) * int(table.indices.max(initial=0) + 1) <= _DENSE_NUMBERS:
        return table.toarray().sum(axis=1)
    return np.bincount(np.repeat(np.arange(len(degree)), degree), table.data, len(degree))
