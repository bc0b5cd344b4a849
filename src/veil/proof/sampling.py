"""Statistical claims: what a policy hides and earns, over sequences that the verifier draws itself.

`H(Z|Y) = E[h(Y)]`, and `h(y) = H(Z|Y=y)` is computed along a sequence y by a filter, whatever the number of sequences. The
draws are the verifier's, so nothing in a certificate can influence them; `README.md` has the interval that they give.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.pace import Watch
from ..common.plain_logs import log2_or_zero, natural_log
from ..common.verdicts import TooLargeError
from .arithmetic import UNIT, Numbers, by_event, defect_of, gamma, group, require
from .checked_policy import Entries, Taken, read_policy, some
from .checked_problem import CheckedProblem
from .entropy import bits_of
from .forward import MOST_MOVES
from .policy_values import PolicyContent

DOUBT = 1e-6
"""What is left of 1 by the confidence of a certificate, for all of its statistical claims together."""
ROUNDS = 3  # of draws until a claim is borne out, each with four times the sequences of the one before
_MOST_KEPT = 2**24  # entries of all steps that are kept between batches
_MOST_NUMBERS = 2**24  # of the messages of a batch, 128 MiB
_MOST_EVENTS = 2**22  # of runs that are drawn together
_LARGEST_BATCH = 256  # whose messages stay in the cache of a processor


@dataclass(frozen=True)
class Interval:
    """Between which numbers an expectation lies, with a confidence; `mean` of the draws."""

    lower: float
    upper: float
    mean: float

    @property
    def width(self) -> float:
        """From the mean to the farther end."""
        return max(self.upper - self.mean, self.mean - self.lower)


def interval(draws: Float[np.ndarray, " n"], low: float, high: float, doubt: float, error: float = 0.0) -> Interval:
    """An interval for the expectation of independent draws between `low` and `high`, each wrong by at most `error`."""
    count = len(draws)
    require(count > 1, "sequences: two or more are needed")
    mean = math.fsum(draws.tolist()) / count
    variance = math.fsum(((draws - mean) ** 2).tolist()) / (count - 1)
    logarithm = float(natural_log(np.array(4 / doubt)))
    off = math.sqrt(2 * variance * logarithm / count) + 7 * (high - low) * logarithm / (3 * (count - 1))
    off = 1.0001 * (off + error) + 16 * UNIT * max(abs(low), abs(high))
    return Interval(max(low, mean - off), min(high, mean + off), mean)


@dataclass(frozen=True, eq=False)
class _Step:
    """What can happen until a time since the one before: the entries (memory, x, z) `after` it, and for each event of the
    observer the probabilities `(after, before)`; the start leads there from one entry.

    If the agent hears nothing and what is seen depends on the state that is reached alone, there is one table without events,
    and `shown (after, event)` is what is seen of each entry.
    """

    after: Entries
    tables: dict[int, sp.csr_array]
    shown: Float[np.ndarray, "n O"] | None


class Sampler:
    """Draws of `H(Z|Y=y)`, for the observer of the channel that a problem is asked about, and of what runs pay.

    **Attributes:** `error`: what rounding may change of one draw in bits; `most_bits`: the largest.

    **Raises:** `CertificateError` where the policy does not fit.
    """

    def __init__(self, problem: CheckedProblem, policy: PolicyContent):
        self.problem, self.policy = problem, read_policy(problem, *policy)
        self.watched, self.most_bits = problem.place[problem.asked[0]], problem.most_bits
        terms = problem.terms * problem.actions * self.policy.nodes
        # Entries are drawn by running sums over all moves, each of which is rounded in units of the last sum.
        drawn = 2 * problem.terms * problem.size * problem.actions
        self.eta = gamma((problem.horizon + 1) * (4 + terms + drawn)) + 5 * (problem.horizon + 1) * problem.defect
        # A posterior of relative error η has an entropy within 2.1 η and the rounding of its logarithms; draws by rounded
        # probabilities differ from those by true ones with a probability of at most the same.
        self.error = 8 * self.eta * (self.most_bits + 2) + 1e-12
        self._kept, self._size = list[_Step](), 0

    def range(self, number: int) -> tuple[float, float]:
        """The least and the most that a run can pay of a quantity."""
        one = self.problem.paid[number]
        powers = float(np.sum(one.discount ** np.arange(self.problem.horizon)))
        last = one.discount**self.problem.horizon
        low, high = (powers * float(end(one.given[0])) + last * float(end(one.given[1])) for end in (np.min, np.max))
        slack = 1e-12 * (abs(low) + abs(high))
        return low - slack, high + slack

    def draw(self, count: int, random: np.random.Generator, clock: Watch | None = None) -> Float[np.ndarray, " n"]:
        """So many draws of the bits that are left. **Raises:** `OutOfTime`; `TooLargeError` where a step has too many moves."""
        problem = self.problem
        if problem.path is not None and not (problem.tells_state and self.policy.nodes == 1):
            raise TooLargeError("a path that does not tell the hidden state has too many values to be filtered")
        if problem.each is not None and problem.each.ahead:
            raise TooLargeError("values that lie ahead are not filtered")
        found, batch = list[np.ndarray](), self.batch
        while count > 0:
            _, events = self._runs(min(count, max(batch, _MOST_EVENTS // (problem.horizon + 1))), random, clock)
            count -= events.shape[1]
            parts = (events[:, begin : begin + batch] for begin in range(0, events.shape[1], batch))
            found += [self._left(part, clock) for part in parts]
        return np.concatenate(found)

    @property
    def batch(self) -> int:
        """How many sequences are followed at a time."""
        return min(_LARGEST_BATCH, max(1, _MOST_NUMBERS // max(1, self.problem.size)))

    def earn(self, count: int, random: np.random.Generator, clock: Watch | None = None) -> Float[np.ndarray, "K n"]:
        """So many draws of what a run pays of each quantity. **Raises:** `OutOfTime`."""
        require(not self.problem.endless, "sequences: the return is over an infinite horizon")
        return self._runs(count, random, clock)[0]

    def interval(
        self, count: int, doubt: float, random: np.random.Generator, clock: Watch | None, quantity: int | None = None
    ) -> Interval:
        """An interval for the bits, or for what is paid of a quantity, from so many draws."""
        if quantity is not None:
            low, high = self.range(quantity)
            return interval(self.earn(count, random, clock)[quantity], low, high, doubt, 8 * self.eta * (high - low))
        found = interval(self.draw(count, random, clock), 0.0, self.most_bits, doubt, self.error)
        return replace(found, upper=self.most_bits) if self.problem.untimed else found  # one with a clock may know more

    def _runs(
        self, count: int, random: np.random.Generator, clock: Watch | None
    ) -> tuple[Float[np.ndarray, "K n"], Int[np.ndarray, "T n"]]:
        """What some runs pay of each quantity, and what the observer receives at each time."""
        problem, policy = self.problem, self.policy
        starts, events = policy.begin()
        ends = np.append(0.0, np.cumsum(problem.start[2]))
        drawn = _drawn(ends, np.zeros(count, dtype=np.int64), len(starts.x), random)
        entries, seen = some(starts, drawn), [events[self.watched][drawn]]
        sums = np.zeros((len(problem.paid), count))
        for time in range(problem.horizon):
            if clock:
                clock.check()
            moves, choices = problem.at(time + 1), policy.choices(time, *entries)
            defect_of(choices.sum(axis=1), choices.shape[1], "policy")
            choice = _drawn_columns(choices, random)
            row = entries.x * problem.actions + choice // policy.nodes
            begin, end = np.searchsorted(moves.row, [row, row + 1])
            for k, one in enumerate(problem.paid):
                sums[k] += one.discount**time * one.given[0].ravel()[row]
            taken = Taken(np.arange(count), _drawn(moves.running, begin, end, random), choice)
            entries, events = policy.arrive(time + 1, entries, taken, moves)
            seen.append(events[self.watched])
        for k, one in enumerate(problem.paid):
            sums[k] += one.discount**problem.horizon * one.given[1][entries.x]
        return sums, np.stack(seen)

    def _left(self, seen: Int[np.ndarray, "T n"], clock: Watch | None) -> Float[np.ndarray, " n"]:
        """The entropy that is left after each of some sequences."""
        problem, each, found = self.problem, self.problem.each, np.zeros(seen.shape[1])
        message = np.ones((1, seen.shape[1]))
        spent, last = None if problem.path is None else np.zeros_like(message), None
        for time, step in enumerate(self._walk()):
            if clock:
                clock.check()
            message, spent = _filtered(step, seen[time], message, spent)
            if each is not None and each.weights[time]:
                found += each.weights[time] * _entropies(message, each.value[step.after.x])
            last = step.after
        if spent is not None:
            return (message * (spent - log2_or_zero(message))).sum(axis=0)
        assert last is not None
        return found if each is not None else _entropies(message, problem.value_of(problem.asked[0], last.z))

    def _walk(self) -> Iterator[_Step]:
        """The steps from the start on, made anew for each batch unless they are small enough to be kept."""
        before: Entries | None = None
        for time in range(self.problem.horizon + 1):
            if time < len(self._kept):
                step = self._kept[time]
            else:
                step = self._step(time, before)
                self._size += sum(table.nnz for table in step.tables.values())
                if self._size <= _MOST_KEPT:
                    self._kept.append(step)
            before = step.after
            yield step

    def _step(self, time: int, before: Entries | None) -> _Step:
        """What can happen after some entries until a time, or at the start."""
        problem, policy, shown = self.problem, self.policy, None
        if before is None:
            starts, events = policy.begin()
            index, number = group(*starts)
            after, source, chance, width = some(starts, index), 0 * number, problem.start[2], 1
        else:
            shown = None if policy.hears else problem.seen_of_states(time)
            moves, width = problem.at(time) if shown is None else problem.unseen, len(before.x)
            if policy.count(before.x, moves) > MOST_MOVES:
                raise TooLargeError(f"a step of the policy has more than {MOST_MOVES:,} moves at time {time - 1}")
            step = policy.step(time - 1, before, moves)
            defect_of(step.choices.sum(axis=1), step.choices.shape[1], "policy")
            after, events, source, number = step.after, step.events, step.taken.entry, step.number
            chance = step.share * moves.chance[step.taken.move]
            shown = None if shown is None else shown[problem.state[after.x]]
        tables = by_event(events[self.watched], number, source, chance, (len(after.x), width))
        return _Step(after, tables, shown)


def _drawn(
    ends: Float[np.ndarray, " m"], begin: Numbers, end: "int | np.ndarray", random: np.random.Generator
) -> Numbers:
    """For each draw an entry from `begin` to `end`, by its weight; `ends`: running sums of all weights, 0 first."""
    low, high = ends[begin], ends[end]
    found = np.searchsorted(ends[1:], low + random.random(len(begin)) * (high - low), side="right")
    return np.clip(found, begin, end - 1)


def _drawn_columns(rows: Float[np.ndarray, "n k"], random: np.random.Generator) -> Numbers:
    """For each row a column by its weight."""
    ends = np.cumsum(rows, axis=1)
    found = (ends <= random.random(len(ends))[:, None] * ends[:, -1:]).sum(axis=1)
    return np.minimum(found, rows.shape[1] - 1)


def _filtered(
    step: _Step, seen: Numbers, message: np.ndarray, spent: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """The beliefs after an event of each run; if `spent` is given, also the entropy of the paths that lead to each entry, of
    which what is seen there tells nothing."""
    after = np.zeros((len(step.after.x), len(seen)))
    paths = None if spent is None else np.zeros_like(after)
    kinds = np.unique(seen if step.shown is None else 0 * seen).tolist()
    for event in kinds:
        runs = np.flatnonzero(seen == event) if step.shown is None else slice(None)
        table, before = step.tables[event], np.ascontiguousarray(message[:, runs])
        after[:, runs] = reached = table @ before
        if paths is not None and spent is not None:
            logs = table.copy()
            logs.data = table.data * log2_or_zero(table.data)
            weighted = table @ (before * (spent[:, runs] - log2_or_zero(before))) - logs @ before
            inverse = np.divide(1.0, reached, out=np.zeros_like(reached), where=reached > 0)
            paths[:, runs] = weighted * inverse + log2_or_zero(reached)
    if step.shown is not None:
        after *= step.shown[:, seen]
    return after / after.sum(axis=0), paths


def _entropies(message: Float[np.ndarray, "n B"], value: Numbers) -> Float[np.ndarray, " B"]:
    """The entropy of the value under each belief."""
    kinds, number = np.unique(value, return_inverse=True)
    table = sp.csr_array((np.ones(len(value)), (number.ravel(), np.arange(len(value)))), shape=(len(kinds), len(value)))
    return bits_of((table @ message).T)
