"""A problem as the verifier follows it: every start, every move, how well its rows sum to one; all from a `Record`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from ..common.exact import centre_of
from ..common.plain_logs import log2_of_count
from .arithmetic import FLOOR, LARGEST, UNIT, defect_of, entries_of, group, require
from .record import ChannelRecord, ObserverRecord, QuantityRecord, Record

Numbers = Int[np.ndarray, " n"]
Columns = tuple[np.ndarray, ...]
Bounds = tuple[float | None, ...]
"""What the quantities of a problem must reach: the threshold on the return, None if there is none, then the others."""
AGENT = -1
"""Stands for the agent's own observer among the channels whose observations a policy acts on."""
_MOST_EXACT_STEPS = 1000  # up to which powers of the discount are made in fractions
_MOST_SHOWN = 2**22  # numbers of a dense table of what states show
_MOST_TABLES = 8  # of moves that are kept, of problems whose observers depend on time


@dataclass(frozen=True, eq=False)
class Paid:
    """A quantity on the hidden states: `E[Σ_t d^t reward(x_t,a_t) + d^T terminal(x_T)]`.

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
        return entries_of(x, self.begin, self.degree)

    @cached_property
    def ends(self) -> Float[np.ndarray, " m"]:
        """Running sums of `chance`, 0 first."""
        return np.append(0.0, np.cumsum(self.chance))


class CheckedProblem:
    """The starts and moves of a problem as lists, on the hidden states x of its record.

    **Attributes:** `start`: `(x, events, probability)`, with one column of events for each observer; `at(time)`: the `Moves`
    that arrive at a time. `observers`, each sequence of observations once, and `place[channel]`: which of them that of a
    channel is. `terms`: the most moves of one (x, a), or observations of one x. For each x: `available (N, A)`. `labels`: the
    secrets that are asked about, each once, and `digit[channel]`: which is that of a channel. The value z has a digit for each,
    0 before it is settled; `values`: how many z there are. `secret_time`: of the first. `paid`: what is bounded, the return
    first. `endless`: the return is over an infinite horizon. `most_bits`: no less than the secret can hide. `defect` is ρ of
    all distributions. Where the secret is a whole path, `path (N)` is what it shows of x, and `tells_state`: path and events
    tell every x. `each`: the secret that has a value at every time, or None. `untimed`: an observer has no clock. The events
    are those of one who has, who knows at least as much: bounds from below hold for both.

    Example: one model, one action, a memoryless secret; state 0 goes to 0 or 1 with probability 1/2, state 1 stays; the
    observer sees 0 in state 0, and in state 1 it sees 0 or 1 with probabilities 1/4 and 3/4; the start is state 0. Then
    `start = ([0], ([0],), [1])`, and there are five moves at every time:

        row         0     0     0     1     1
        target      0     1     1     1     1         degree = (3, 2)
        events[0]   0     0     1     0     1         begin  = (0, 3)
        chance      1/2   1/8   3/8   1/4   3/4       terms  = 3

    **Arguments:** `asked`: the numbers of the channels whose bits count; `heard`: those whose observations a policy acts on.
    `delay`: 1 for agents that learn each observation one step late. A move then has the event of the state that it leaves,
    the start has none, and after the last state come moves that stay, by action 0: there are `steps`, one more.

    Cost: the transitions, times the observations that a state can emit.

    **Raises:** `CertificateError` where a distribution does not sum to one within 1e-6, a probability is below 2^-900, or the
    channels do not go together.
    """

    def __init__(self, record: Record, asked: tuple[int, ...] = (0,), heard: tuple[int, ...] = (), delay: int = 0):
        self.record, self.asked, self.delay = record, asked, delay
        channels = [record.channels[number] for number in asked]
        self.place, self.observers = _observers(record, asked, heard)
        _check_together(channels, self.observers)
        require(not delay or can_delay(record, asked), "problem: observations of this kind, and a delay")
        self.horizon, self.endless, self.size, self.state = record.horizon, record.endless, record.size, record.state
        self.steps = record.horizon + delay
        self.states, self.actions, self.discount = record.states, record.actions, record.quantities[0].discount
        self.untimed = any(self.observers[self.place[number]].untimed for number in asked)
        self.num_first = [one.observations if one.sees_first and not delay else 1 for one in self.observers]
        self.num_events = [one.observations * (self.actions if one.sees_actions else 1) for one in self.observers]
        self.labels, self.digit = self._make_labels(channels)
        self.values = math.prod(one.size for one in self.labels)
        self.secret_time = self.labels[0].time if channels else record.horizon
        self.path = next((one.value for one in channels if one.kind == "path"), None)
        self.each = next((one for one in channels if one.kind == "each"), None)
        self.most_bits = max(
            (most_bits(record, one) for one in channels), default=0.0
        )  # none hides more than its secret
        self.paid = tuple(self._paid(one) for one in record.quantities)
        self.available = record.moves.degree.reshape(self.size, self.actions) > 0
        self._row = np.repeat(np.arange(self.size * self.actions), record.moves.degree)
        self._check_least()
        self.products = len(self.observers) - 1  # more in what is seen of a state
        self.terms, self.defect = self._most_moves(), self._largest_defect()
        self._kept = dict[tuple[int, ...], Moves]()
        x, events, chance = self.start_columns
        self.start: tuple[Numbers, Columns, np.ndarray] = x, events, _product(chance)

    def _make_labels(self, channels: Sequence[ChannelRecord]) -> tuple[list[Label], dict[int, int]]:
        labels, digit, stride = list[Label](), dict[int, int](), 1
        for number, one in zip(self.asked, channels, strict=True):
            size, of = (one.values, one.value) if one.kind == "once" else (1, 0 * one.value)
            same = [place for place, other in enumerate(labels)
                    if (other.time, other.size) == (one.time, size) and np.array_equal(other.of, of)]  # fmt: skip
            digit[number] = same[0] if same else len(labels)
            if not same:
                labels.append(Label(one.time, of, stride, size))
                stride *= size
        return labels, digit

    def _check_least(self) -> None:
        """Raise `CertificateError` where products of probabilities would lose digits."""
        record = self.record
        least = min(float(one.min(initial=1)) for one in (record.starts[1] * record.starts[2], record.moves.chance))
        least *= math.prod(min(float(table.chance.min()) for table in one.tables) for one in self.observers)
        require(least >= FLOOR, f"problem: a probability can be {least}, expected 2^-900 (about 1e-271) or more")

    def _largest_defect(self) -> float:
        """ρ of all distributions."""
        record, tables = self.record, [table for one in self.observers for table in one.tables]
        sums = [record.moves.sums, *(table.sums for table in tables), *_start_sums(record)]
        longest = max([self.states, int(record.model.max()) + 1, *(one.observations for one in self.observers)])
        return defect_of(np.concatenate(sums), longest, "problem") * max(1, len(self.observers))

    def value_of(self, channel: int, z: Numbers) -> Numbers:
        """The value of one secret in the values of all."""
        one = self.labels[self.digit[channel]]
        return z // one.stride % one.size

    def _paid(self, one: QuantityRecord) -> Paid:
        """A quantity less what is large beside the spread of its rewards; `offset` is what that takes from every value."""
        reward, terminal, offset, discount = one.rewards, one.terminal, Fraction(0), one.discount
        largest = float(max(np.abs(reward).max(), np.abs(terminal).max()))
        if not self.endless and self.horizon <= _MOST_EXACT_STEPS:
            shift, last, factor = centre_of(reward), centre_of(terminal), Fraction(discount)
            if shift or last:
                reward, terminal = reward - shift, terminal - last
                steps = sum(factor**time for time in range(self.horizon))
                offset = Fraction(shift) * steps + Fraction(last) * factor**self.horizon
        spread = largest * (1 / (1 - self.discount) if self.endless else self.horizon + 1)
        words = f"problem: its rewards sum to up to {spread:.3g}, expected 2^900 (about 8e270) or less: scale them"
        require(spread <= LARGEST, words)
        return Paid(reward, terminal, discount, one.sign, largest, offset, (one.rewards, one.terminal))

    @cached_property
    def tells_state(self) -> bool:
        """Whether the secret is a path that, with the events, tells the first x, and every next one where x is known.

        Only what can be reached within the horizon counts.
        """
        path = self.path
        if path is None or len(self.observers) > 1:
            return False
        x, (event, *_), _ = self.start
        told = len(group(event, path[x], x)[0]) == len(group(event, path[x])[0])
        varies = self.observers[0].varies
        reached: np.ndarray = np.zeros((self.horizon + 1, self.size), dtype=bool)
        reached[0, x] = True
        for time in range(1, self.horizon + 1):
            step = self.at(time)
            reached[time, step.target[reached[time - 1, step.row // self.actions]]] = True
        every = np.any(reached, axis=0)
        for time in range(1, self.horizon + 1) if varies else [1] * (self.horizon > 0):
            before, after = (reached[time - 1], reached[time]) if varies else (every, every)
            step = self.at(time)
            source = step.row // self.actions
            moves = np.flatnonzero(before[source] & after[step.target])
            seen = source[moves], step.events[0][moves], path[step.target[moves]]
            told = told and len(group(*seen, step.target[moves])[0]) == len(group(*seen)[0])
        return told

    @cached_property
    def codes(self) -> Numbers | None:
        """What a rule for a whole path tells apart: each situation of its channel where the path and the events tell it, else
        what the path shows."""
        return self.record.channels[self.asked[0]].situation if self.tells_state else self.path

    def at(self, time: int) -> Moves:
        """The moves that arrive at a time."""
        key = tuple(int(one.at[min(time, self.horizon)]) for one in self.observers)
        if time > self.horizon:  # an infinite horizon goes on as before the last time
            key = (*(int(one.at[min(1, self.horizon)]) for one in self.observers), *(-1,) * self.delay)
        if key not in self._kept:
            row, target, events, chance = self.columns(time)
            if len(self._kept) >= _MOST_TABLES:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = self._moves(row, target, events, _product(chance))
        return self._kept[key]

    @cached_property
    def unseen(self) -> Moves:
        """The moves of all times without what is seen: event 0 stands for all events."""
        row, moves = self._row, self.record.moves
        return self._moves(row, moves.column, (0 * row,) * len(self.observers), moves.chance)

    def _moves(self, row: Numbers, target: Numbers, events: Columns, chance: np.ndarray) -> Moves:
        degree = np.bincount(row // self.actions, minlength=self.size)
        return Moves(row, target, events, chance, degree, np.cumsum(degree) - degree)

    def seen_of_states(self, time: int) -> Float[np.ndarray, "S O"] | None:
        """`b(o|s)` of the state that is reached at a time; None where what is seen depends on more, or on several observers."""
        first, *others = self.observers
        number = int(first.at[min(time, self.horizon)])
        table = first.tables[max(number, 0)]
        plain = not (others or first.sees_actions or self.delay) and len(table.degree) == self.states
        if not plain or self.states * first.observations > _MOST_SHOWN:
            return None
        shown = np.zeros((self.states, first.observations))
        if number < 0:
            shown[:, first.silent] = 1.0
        else:
            shown[np.repeat(np.arange(self.states), table.degree), table.column] = table.chance
        return shown

    def columns(self, time: int) -> tuple[Numbers, Numbers, Columns, Columns]:
        """`row`, `target` and `events` of the moves that arrive at a time, and their probabilities as a list of factors."""
        row, target, chance = self._row, self.record.moves.column, self.record.moves.chance
        if self.delay and time > self.horizon:
            row, target, chance = np.arange(self.size) * self.actions, np.arange(self.size), np.ones(self.size)
        place, events, shown = self._seen(time, row // self.actions if self.delay else target, row % self.actions)
        return row[place], target[place], tuple(events), (chance[place], *shown)

    @cached_property
    def start_columns(self) -> tuple[Numbers, Columns, Columns]:
        """`x` and `events` of every possible start, and its probability as factors: of the model, of s, of each observation."""
        x, weight, begun = self.record.starts
        place, events, shown = self._seen(0, x, 0 * x)
        return x[place], tuple(events), (weight[place], begun[place], *shown)

    def _seen(self, time: int, x: Numbers, action: Numbers) -> tuple[Numbers, list[Numbers], list[np.ndarray]]:
        """What the observers receive of some x: the position among these, each one's event, and each probability."""
        place, events, shown = np.arange(len(x)), list[np.ndarray](), list[np.ndarray]()
        for one in self.observers:
            number = int(one.at[time if time <= self.horizon else min(1, self.horizon)])
            silent = time == 0 and (self.delay or not one.sees_first)
            found, event, chance = (
                np.arange(len(place)),
                np.full(len(place), 0 if silent else one.silent),
                np.ones(len(place)),
            )
            if not silent and number >= 0:
                table = one.tables[number]
                by_action = len(table.degree) > self.states
                found, entry = table.of(action[place] * by_action * self.states + self.state[x[place]])
                event, chance = table.column[entry], table.chance[entry]
            place = place[found]
            if time and one.sees_actions:
                event = event + action[place] * one.observations
            events = [*(column[found] for column in events), event.astype(np.int64)]
            shown = [*(column[found] for column in shown), chance]
        return place, events, shown

    def settled(self, time: int, x: Numbers, z: Numbers) -> Numbers:
        """The values of the secrets in x at a time: what was settled before, and what is settled now."""
        for one in self.labels:
            if time == one.time:
                require(one.of[x] >= 0, "problem: the secret has no value in a state that can occur")
                z = z + one.stride * one.of[x]
        return z

    def _most_moves(self) -> int:
        """The most moves of one (x, a)."""
        moves, shown = self.record.moves, np.ones(len(self._row), dtype=np.int64)
        for one in self.observers:
            found = np.ones(len(self._row), dtype=np.int64)
            seen = self.state[self._row // self.actions if self.delay else moves.column]
            for table in one.tables:
                by_action = len(table.degree) > self.states
                found = np.maximum(found, table.degree[self._row % self.actions * by_action * self.states + seen])
            shown *= found
        return int(np.bincount(self._row, shown).max())


def can_delay(record: Record, asked: tuple[int, ...] = (0,)) -> bool:
    """Whether agents that learn observations late are covered: these depend on the state alone, and the secret is settled
    once."""
    observer = record.observers[record.channels[0].receives]
    plain = (
        len(observer.tables) == 1 and len(observer.tables[0].degree) == record.states and bool((observer.at >= 0).all())
    )
    return asked == (0,) and plain and not observer.sees_actions and record.channels[0].kind == "once"


def most_bits(record: Record, channel: ChannelRecord) -> float:
    """An upper bound on what the secret of a channel can hide."""
    count = channel.values
    # log2 of a whole number, and times another one: exact for powers of two, else 4 u are added.
    most = log2_of_count(count) * (1.0 if count & (count - 1) == 0 else 1 + 4 * UNIT)
    if channel.kind == "once":
        return most
    if channel.kind == "path":
        return (record.horizon + 1) * most
    return math.fsum(channel.weights.tolist()) * most * (1 + 4 * UNIT)


def _check_together(asked: Sequence[ChannelRecord], observers: Sequence[ObserverRecord]) -> None:
    """Raise `CertificateError` unless the channels go together."""
    for one in asked:
        require(not one.refused, f"channels: {one.refused}")
    clocks = not any(observers[place].untimed for place in range(len({one.receives for one in asked})))
    require(clocks or len({one.receives for one in asked}) == 1,
            "channels: no bound over all policies is known for several observers, of which one has no clock")  # fmt: skip
    once = all(one.kind == "once" for one in asked)
    require(
        once or len(asked) == 1, "channels: several secrets or observers, and a whole path or a value at every time"
    )
    require(clocks or asked[0].kind != "each", "channels: a value at every time, and an observer without a clock")


def _observers(
    record: Record, asked: tuple[int, ...], heard: tuple[int, ...]
) -> tuple[dict[int, int], list[ObserverRecord]]:
    """Each sequence of observations once, and which of them each channel's observer receives."""
    numbers = {n: record.agent if n == AGENT else record.channels[n].receives for n in (*asked, *heard)}
    sequences = list(dict.fromkeys(numbers.values()))
    return {n: sequences.index(one) for n, one in numbers.items()}, [record.observers[one] for one in sequences]


def _product(factors: Sequence[np.ndarray]) -> Float[np.ndarray, " m"]:
    """The product of some factors, the first two first."""
    found = np.asarray(factors[0], dtype=np.float64)
    for factor in factors[1:]:
        found = found * factor
    return found


def _start_sums(record: Record) -> list[np.ndarray]:
    """The computed sum of the models' probabilities, and of those of the starts in each model."""
    x, weight, begun = record.starts
    number, models = np.unique(record.model[x], return_inverse=True)
    first = np.unique(record.model[x], return_index=True)[1]
    return [np.array([weight[first].sum()]), np.bincount(models.ravel(), begun, len(number))]
