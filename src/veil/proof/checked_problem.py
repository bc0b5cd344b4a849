"""A problem as the verifier follows it: every start, every move, how well its rows sum to one; all from a `Record`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.exact import centre_of
from ..common.logs import log2_of_count
from .arithmetic import FLOOR, LARGEST, UNIT, defect_of, require
from .path_rules import tells_state
from .record import ChannelRecord, ObserverRecord, Record

Numbers = Int[np.ndarray, " n"]
Columns = tuple[np.ndarray, ...]
Bounds = tuple[float | None, ...]
"""What the quantities of a problem must reach: the threshold on the return, None where there is none, then the others."""
_MOST_EXACT_STEPS = 1000  # up to which powers of the discount are made in fractions
_DENSE_NUMBERS = 2**24  # of emissions that are summed as a dense table
_MOST_PLACES = 2**24  # of memories of several secrets together, times states
_MOST_TABLES = 8  # of moves that are kept, of problems whose observers depend on time


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


@dataclass(frozen=True, eq=False)
class Label:
    """The value that a secret takes if it is settled in x at a time: `of (N)`, -1 for none; one digit of the value z.

    `stride` of the digit in z, `size`: how many values there are.
    """

    time: int
    of: Int[np.ndarray, " N"]
    stride: int
    size: int


@dataclass(frozen=True, eq=False)
class Moves:
    """The moves of one time, in the order of (x, a): `row[i] = x · A + a`, `target[i] = x'`, `chance[i]`, and for each observer
    `events[j][i]`, what it receives. Those of x are `begin[x] … begin[x] + degree[x] − 1`."""

    row: Numbers
    target: Numbers
    events: Columns
    chance: Float[np.ndarray, " m"]
    degree: Numbers = field(repr=False)
    begin: Numbers = field(repr=False)

    def of(self, x: Numbers) -> tuple[Numbers, Numbers]:
        """All moves from each x: the position in `x`, and the number of the move."""
        count = self.degree[x]
        position = np.repeat(np.arange(len(x)), count)
        return position, np.arange(len(position)) - np.repeat(np.cumsum(count) - count - self.begin[x], count)


class CheckedProblem:
    """The starts and moves of a problem as lists.

    The hidden state is `x = (k · M + m) · S + s`: the model that runs, what the secrets remember, the state. The memory m is
    that of the problem's own channel, and of each channel asked about beside it: `memory_of(channel, x)`.

    **Attributes:** `start`: `(x, events, probability)`, with one column of events for each observer; `at(time)`: the `Moves`
    that
    arrive at a time. `observers`, each sequence of observations once, and `place[channel]`: which of them that of a channel
    is. `terms`: the most moves of one (x, a), or observations of one x. For each x: `available (N, A)`. `labels`: the secrets
    that are asked about, each once, and `digit[channel]`: which is that of a channel. The value z has a digit for each, 0
    before
    it is settled; `values`: how many z there are. `secret_time`: of the first. `paid`: what is bounded, the return first.
    `endless`: the return is over an infinite horizon. `most_bits ≥ log2 |Z|`. `defect` is ρ of all distributions. Where the
    secret is a whole path, `path (N)` is what it shows of x, and `tells_state`: path and events tell every x. `untimed`: an
    observer has no clock. The events are those of one who has, who knows at least as much: bounds from below hold for both.

    Example: one model, one action, a memoryless secret; state 0 goes to 0 or 1 with probability 1/2, state 1 stays; the
    observer sees 0 in state 0, and in state 1 it sees 0 or 1 with probabilities 1/4 and 3/4; the start is state 0. Then
    `start = ([0], ([0],), [1])`, and there are five moves at every time:

        row         0     0     0     1     1
        target      0     1     1     1     1         degree = (3, 2)
        events[0]   0     0     1     0     1         begin  = (0, 3)
        chance      1/2   1/8   3/8   1/4   3/4       terms  = 3

    **Arguments:** `asked`: the numbers of the channels whose bits count; `heard`: those whose observations a policy acts on.
    `delay`: 1 for agents that learn each observation one step late. A move then has the event of the state that it leaves,
    the start has none, and that of the last state comes after all moves (`shown`).

    Cost: `nnz(P)` times the observations that a state can emit, times the memories.

    **Raises:** `CertificateError` where a distribution does not sum to one within 1e-6, a probability is below 2^-900, or the
    channels do not go together.
    """

    def __init__(self, record: Record, asked: tuple[int, ...] = (0,), heard: tuple[int, ...] = (), delay: int = 0):
        self.record, self.asked, self.delay = record, asked, delay
        own, channels = record.channels[0], [record.channels[number] for number in asked]
        _check_together(own, channels, [record.channels[number] for number in heard], len(record.models))
        require(not delay or can_delay(record, asked), "problem: observations of this kind, and a delay")
        self.horizon, self.endless = record.horizon, record.endless
        self.states, self.actions, self.discount = record.states, record.actions, record.models[0].discount
        self.place, self.observers = _observers(record, (*asked, *heard))
        self.untimed = any(one.observer.untimed for one in channels)
        self.num_first = [one.observations if one.sees_first and not delay else 1 for one in self.observers]
        self.num_events = [one.observations * (self.actions if one.sees_actions else 1) for one in self.observers]
        self._automata, codes, self._step, self._begun = _memories([own, *channels], self.states)
        models, memories = len(record.models), len(codes)
        self.size = models * memories * self.states
        self._model, self._memory, self.state = np.unravel_index(np.arange(self.size), (models, memories, self.states))
        self._codes = codes
        self.plain = self._model * self.states + self.state  # x without the memory
        self.labels, self.digit = self._make_labels(channels)
        self.values, self.secret_time = math.prod(one.size for one in self.labels), channels[0].time
        path = channels[0].path
        self.path = None if path is None else path[self.state]
        self.most_bits = max(
            _log2_rounded_up(one.values) for one in channels
        )  # none hides more than those of its secret
        if self.path is not None:
            self.most_bits = (self.horizon + 1) * _log2_rounded_up(int(self.path.max()) + 1)
        held = self.memory_of(0)
        self.paid = tuple(
            self._paid(one.rewards[self._model, self.state], one.terminal[self._model, held, self.state],
                       one.discount, one.sign) for one in record.quantities
        )  # fmt: skip
        self.available = np.stack([one.available for one in record.models])[self._model, self.state]
        tables = [table for one in self.observers for table in one.all_tables]
        models_tables = [table for one in record.models for table in one.matrices]
        begun = min(float(one.initial[one.initial > 0].min(initial=1)) for one in record.models)
        least = min(begun, _least(models_tables)) * math.prod(_least(one.all_tables) for one in self.observers)
        require(least >= FLOOR, f"problem: a probability can be {least}, expected 2^-900 (about 1e-271) or more")
        self.products = len(self.observers) - 1  # more in what is seen of a state
        self.terms = _most_moves(record, self.observers, late=bool(delay))
        longest = max([self.states, models, *(one.observations for one in self.observers)])
        self.defect = defect_of(_sums(record, tables), longest, "problem") * len(self.observers)
        self._kept = dict[tuple[int, ...], Moves]()
        x, events, chance = self.start_columns
        self.start: tuple[Numbers, Columns, np.ndarray] = x, events, _product(chance)

    def memory_of(self, channel: int) -> Numbers:
        """What a channel remembers in each x: its own, or one that is asked about."""
        place = self._automata[0 if channel == 0 else 1 + self.asked.index(channel)]
        return self._codes[self._memory, place]

    def _make_labels(self, channels: Sequence[ChannelRecord]) -> tuple[list[Label], dict[int, int]]:
        labels, digit, stride = list[Label](), dict[int, int](), 1
        for number, one in zip(self.asked, channels, strict=True):
            of = one.label[self._model * (len(one.label) > 1), self.memory_of(number), self.state]
            same = [place for place, other in enumerate(labels)
                    if (other.time, other.size) == (one.time, one.values) and np.array_equal(other.of, of)]  # fmt: skip
            digit[number] = same[0] if same else len(labels)
            if not same:
                labels.append(Label(one.time, of, stride, one.values))
                stride *= one.values
        return labels, digit

    def value_of(self, channel: int, z: Numbers) -> Numbers:
        """The value of one secret in the values of all."""
        one = self.labels[self.digit[channel]]
        return z // one.stride % one.size

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
        if not self.tells_state:
            return self.path
        number = self.asked[0]  # what other channels remember does not matter
        memories = len(self.record.channels[number].step)
        return (self._model * memories + self.memory_of(number)) * self.states + self.state

    @property
    def num_moves(self) -> int:
        """How many moves there are at most times."""
        return len(self.at(min(1, self.horizon)).chance)

    def at(self, time: int) -> Moves:
        """The moves that arrive at a time."""
        shown = [one.emitted(time, self.horizon) for one in self.observers]
        key = tuple(map(id, shown))
        if key not in self._kept:
            row, target, events, chance = self.columns(time)
            degree = np.bincount(row // self.actions, minlength=self.size)
            if len(self._kept) >= _MOST_TABLES:
                del self._kept[next(iter(self._kept))]
            begin = np.cumsum(degree) - degree
            self._kept[key] = Moves(row, target, events, _product(chance), degree, begin)
        return self._kept[key]

    def columns(self, time: int) -> tuple[Numbers, Numbers, Columns, Columns]:
        """`row`, `target` and `events` of the moves that arrive at a time, and their probabilities as a list of factors."""
        memories, parts = len(self._codes), []
        for k, model in enumerate(self.record.models):
            for action, matrix in enumerate(model.matrices):
                source = np.repeat(np.arange(self.states), np.diff(matrix.indptr))
                place, events, shown = self._seen(time, source if self.delay else matrix.indices, action)
                moved, s, after = matrix.data[place], source[place], matrix.indices[place].astype(np.int64)
                for m in range(memories):
                    target = (k * memories + self._step[m, after]) * self.states + after
                    row = ((k * memories + m) * self.states + s) * self.actions + action
                    parts.append((row, target, *events, moved, *shown))
        found = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(found[0], kind="stable")
        row, target, *rest = (column[order] for column in found)
        count = len(self.observers)
        return row, target, tuple(rest[:count]), tuple(rest[count:])

    @cached_property
    def start_columns(self) -> tuple[Numbers, Columns, Columns]:
        """`x` and `events` of every possible start, and its probability as factors: of the model, of s, of each observation."""
        memories, parts = len(self._codes), []
        weights = self.record.channels[self.asked[0]].weights
        for k, (weight, model) in enumerate(zip(weights, self.record.models, strict=True)):
            begun = np.flatnonzero((weight > 0) & (model.initial > 0))
            place, events, shown = self._seen(0, begun, 0)
            s = begun[place]
            x = (k * memories + self._begun[s]) * self.states + s
            parts.append((x, *events, np.full(len(s), weight), model.initial[s], *shown))
        x, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
        count = len(self.observers)
        return x, tuple(rest[:count]), tuple(rest[count:])

    def _seen(self, time: int, states: Numbers, action: int) -> tuple[Numbers, list[Numbers], list[np.ndarray]]:
        """What the observers receive of some states: the position among these, each one's event, and each probability."""
        place, events, shown = np.arange(len(states)), list[np.ndarray](), list[np.ndarray]()
        for one in self.observers:
            tables = one.emitted(time, self.horizon)
            if time == 0 and (self.delay or not one.sees_first):
                found, event, chance = np.arange(len(place)), np.zeros(len(place), dtype=np.int64), np.ones(len(place))
            elif tables is None:
                found, event, chance = np.arange(len(place)), np.full(len(place), one.silent), np.ones(len(place))
            else:
                found, event, chance = _emitted(tables[min(action, len(tables) - 1)], states[place])
            if time and one.sees_actions:
                event = event + action * one.observations
            place = place[found]
            events = [*(column[found] for column in events), event.astype(np.int64)]
            shown = [*(column[found] for column in shown), chance]
        return place, events, shown

    def shown(self, x: Numbers) -> tuple[Numbers, Numbers, np.ndarray]:
        """What each x emits, with a delay: the position in `x`, the observation, and `b(o|x)`."""
        return _emitted(self.observers[0].tables[0], self.state[x])

    def settled(self, time: int, x: Numbers, z: Numbers) -> Numbers:
        """The values of the secrets in x at a time: what was settled before, and what is settled now."""
        for one in self.labels:
            if time == one.time:
                require(one.of[x] >= 0, "problem: the secret has no value in a state that can occur")
                z = z + one.stride * one.of[x]
        return z


def can_delay(record: Record, asked: tuple[int, ...] = (0,)) -> bool:
    """Whether agents that learn observations late are covered: these depend on the state alone, and no path is secret."""
    own, alone = record.channels[0], asked == (0,)
    plain = not own.observer.on_actions and not own.observer.sees_actions and not own.observer.varies
    return alone and plain and not own.observer.at and own.path is None


def _check_together(
    own: ChannelRecord, asked: Sequence[ChannelRecord], heard: Sequence[ChannelRecord], models: int
) -> None:
    """Raise `CertificateError` unless the channels go together."""
    require(
        not any(one.believes for one in asked), "channels: an observer with a belief has a loss, which is no entropy"
    )
    if len({one.receives for one in asked}) > 1:
        clocks = not any(one.observer.untimed for one in asked)
        require(
            clocks, "channels: no bound over all policies is known for several observers, of which one has no clock"
        )
    different = any(one is not asked[0] and one.path is not own.path for one in asked)
    several = len(asked) > 1 or any(one.receives != asked[0].receives for one in heard)
    require(not (several and (different or any(one.path is not None for one in asked))),
            "channels: several secrets or observers, and a whole path")  # fmt: skip
    alike = all(np.array_equal(one.weights, own.weights) for one in asked)
    require(models == 1 or alike, "channels: a secret gives the models other probabilities than the problem's own")


def _observers(record: Record, numbers: tuple[int, ...]) -> tuple[dict[int, int], list[ObserverRecord]]:
    """Each sequence of observations once, and which of them each channel's observer receives."""
    sequences = list(dict.fromkeys(record.channels[number].receives for number in numbers))
    place = {number: sequences.index(record.channels[number].receives) for number in numbers}
    return place, [record.channels[one].observer for one in sequences]


def _memories(
    channels: Sequence[ChannelRecord], states: int
) -> tuple[list[int], Int[np.ndarray, "M J"], Int[np.ndarray, "M S"], Int[np.ndarray, " S"]]:
    """The memories of some channels as one: which column of the tuples each channel has, the tuples that can be reached, the
    number of the tuple after a step, and of the first one in each state. Of equal memories there is one."""
    distinct, places = list[ChannelRecord](), list[int]()
    for one in channels:
        same = [n for n, other in enumerate(distinct)
                if np.array_equal(one.start, other.start) and np.array_equal(one.step, other.step)]  # fmt: skip
        places.append(same[0] if same else len(distinct))
        distinct += [] if same else [one]
    if len(distinct) == 1:
        return places, np.arange(len(channels[0].step))[:, None], channels[0].step, channels[0].start
    sizes = tuple(len(one.step) for one in distinct)
    require(math.prod(sizes) < 2**62, "channels: their secrets remember too much together")
    begun = np.ravel_multi_index([one.start for one in distinct], sizes)
    known = edge = np.unique(begun)
    while len(edge):
        after = _after(edge, distinct, sizes)
        edge = np.setdiff1d(after, known)
        known = np.union1d(known, edge)
        require(len(known) * states <= _MOST_PLACES, "channels: their secrets remember too much together")
    step = np.searchsorted(known, _after(known, distinct, sizes))
    return places, np.stack(np.unravel_index(known, sizes), axis=1), step, np.searchsorted(known, begun)


def _after(codes: Numbers, channels: Sequence[ChannelRecord], sizes: tuple[int, ...]) -> Int[np.ndarray, "n S"]:
    values = np.unravel_index(codes, sizes)
    return np.ravel_multi_index([one.step[value] for one, value in zip(channels, values, strict=True)], sizes)


def _log2_rounded_up(count: int) -> float:
    """An upper bound on log2 of a whole number, and times another one: exact for powers of two, else 4 u are added."""
    return log2_of_count(count) * (1.0 if count & (count - 1) == 0 else 1 + 4 * UNIT)


def _emitted(table: sp.csr_array, states: Numbers) -> tuple[Numbers, Numbers, np.ndarray]:
    """What each of some states emits: its position among them, the observation, and `b(o|s)`."""
    count = np.diff(table.indptr)[states]
    position = np.repeat(np.arange(len(states)), count)
    entry = np.arange(len(position)) - np.repeat(np.cumsum(count) - count - table.indptr[states], count)
    return position, table.indices[entry], table.data[entry]


def _product(factors: Sequence[np.ndarray]) -> Float[np.ndarray, " m"]:
    """The product of some factors, the first two first."""
    found = np.asarray(factors[0], dtype=np.float64)
    for factor in factors[1:]:
        found = found * factor
    return found


def _least(tables: Sequence[sp.csr_array]) -> float:
    """The smallest positive probability."""
    return min(float(table.data.min(initial=1.0)) for table in tables)


def _most_moves(record: Record, observers: Sequence[ObserverRecord], *, late: bool) -> int:
    """The most moves of one (x, a), or, late, observations."""
    most = max(one.observations for one in observers) if late else 1
    for model in record.models:
        for action, matrix in enumerate(model.matrices):
            shown = np.ones(record.states, dtype=np.int64)
            for one in observers:
                sets = [one.tables, *one.at.values()]
                shown *= np.max([np.diff(part[min(action, len(part) - 1)].indptr) for part in sets], axis=0)
            entries = np.diff(matrix.indptr)
            source = np.repeat(np.arange(record.states), entries)
            counts = entries * shown if late else np.bincount(source, shown[matrix.indices], record.states)
            most = max(most, int(counts.max()))
    return most


def _sums(record: Record, shown: Sequence[sp.csr_array]) -> Float[np.ndarray, " n"]:
    """The computed sum of every distribution: over models, starts, observations, and next states of available actions."""
    sums = [np.array([one.weights.sum()]) for one in record.channels]
    sums += [_row_sums(table) for table in shown]
    for model in record.models:
        sums.append(np.array([model.initial.sum()]))
        for action, matrix in enumerate(model.matrices):
            source = np.repeat(np.arange(record.states), np.diff(matrix.indptr))
            sums.append(np.bincount(source, matrix.data, record.states)[model.available[:, action]])
    return np.concatenate(sums)


def _row_sums(table: sp.csr_array) -> Float[np.ndarray, " n"]:
    """The computed sum of each row; all orders of summation are within the error that `defect_of` allows for."""
    degree = np.diff(table.indptr)
    if len(degree) * int(table.indices.max(initial=0) + 1) <= _DENSE_NUMBERS:
        return table.toarray().sum(axis=1)
    return np.bincount(np.repeat(np.arange(len(degree)), degree), table.data, len(degree))
