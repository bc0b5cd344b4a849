"""A problem as the verifier follows it: every start, every move, how well its rows sum to one; all from a `Record`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from ..common.exact import centre_of
from ..common.plain_logs import log2_of_count
from .arithmetic import FLOOR, LARGEST, UNIT, Numbers, defect_of, group, require
from .reading import Rows
from .record import ChannelRecord, QuantityRecord, Record

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
    of: Numbers
    stride: int
    size: int


@dataclass(frozen=True, eq=False)
class Moves(Rows):
    """The moves of one time, those of x in row x, in the order of (x, a): `row[i] = x · A + a`, `target[i] = x'`, `chance[i]`,
    and for each observer `events[j][i]`, what it receives."""

    row: Numbers
    events: Columns

    @cached_property
    def running(self) -> Float[np.ndarray, " m"]:
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
        target      0     1     1     1     1         ends  = (0, 3, 5)
        events[0]   0     0     1     0     1         terms = 3
        chance      1/2   1/8   3/8   1/4   3/4

    **Arguments:** `asked`: the numbers of the channels whose bits count; `heard`: those whose observations a policy acts on.
    `delay`: 1 for agents that learn each observation one step late. A move then has the event of the state that it leaves,
    the start has none, and after the last state come moves that stay, by action 0: there are `steps`, one more.

    Cost: the transitions, times the observations that a state can emit.

    **Raises:** `CertificateError` where a distribution does not sum to one within 1e-6, a probability is below 2^-900, or the
    channels do not go together.
    """

    def __init__(self, record: Record, asked: tuple[int, ...] = (0,), heard: tuple[int, ...] = (), delay: int = 0):
        self.record, self.asked, self.delay = record, asked, delay
        received = {n: record.agent if n == AGENT else record.channels[n].receives for n in (*asked, *heard)}
        sequences, channels = list(dict.fromkeys(received.values())), [record.channels[number] for number in asked]
        self.place = {number: sequences.index(one) for number, one in received.items()}
        self.observers = [record.observers[one] for one in sequences]
        self.untimed = any(self.observers[self.place[number]].untimed for number in asked)
        self._check_together(channels)
        require(not delay or can_delay(record, asked), "problem: observations of this kind, and a delay")
        self.horizon, self.endless, self.size, self.state = record.horizon, record.endless, record.size, record.state
        self.steps = record.horizon + delay
        self.states, self.actions, self.discount = record.states, record.actions, record.quantities[0].discount
        self.num_first = [one.observations if one.sees_first and not delay else 1 for one in self.observers]
        self.num_events = [one.observations * (self.actions if one.sees_actions else 1) for one in self.observers]
        self.labels, self.digit = self._make_labels(channels)
        self.values = math.prod(one.size for one in self.labels)
        self.secret_time = self.labels[0].time if channels else record.horizon
        self.path = next((one.value for one in channels if one.kind == "path"), None)
        self.each = next((one for one in channels if one.kind == "each"), None)
        self.most_bits = max([0.0, *(most_bits(record, one) for one in channels)])  # none hides more than its secret
        self.paid = tuple(self._paid(one) for one in record.quantities)
        self.available = record.moves.degree.reshape(self.size, self.actions) > 0
        self._row = np.repeat(np.arange(self.size * self.actions), record.moves.degree)
        self.products = len(self.observers) - 1  # more in what is seen of a state
        self.terms, self.defect = self._measured()
        self._kept = dict[tuple[int, ...], Moves]()
        x, events, chance = self.start_columns
        self.start: tuple[Numbers, Columns, np.ndarray] = x, events, reduce(np.multiply, chance)

    def _check_together(self, channels: Sequence[ChannelRecord]) -> None:
        """Raise `CertificateError` unless the channels go together."""
        for one in channels:
            require(not one.refused, f"channels: {one.refused}")
        apart, special = len({one.receives for one in channels}) > 1, [one for one in channels if one.kind != "once"]
        words = "channels: no bound over all policies is known for several observers, of which one has no clock"
        require(not (self.untimed and apart), words)
        words = "channels: several secrets or observers, and a whole path or a value at every time"
        require(not special or len(channels) == 1, words)
        require(not self.untimed or all(one.kind != "each" for one in special),
                "channels: a value at every time, and an observer without a clock")  # fmt: skip

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

    def _measured(self) -> tuple[int, float]:
        """The most moves of one (x, a), and ρ of the models, of the starts in each, of all moves and of what is seen; raises
        `CertificateError` where products of probabilities would lose digits."""
        record, row, shown = self.record, self._row, np.ones(len(self._row), dtype=np.int64)
        (x, weight, begun), moves = record.starts, record.moves
        least = min(float(one.min(initial=1)) for one in (weight * begun, moves.chance))
        first, models = np.unique(record.model[x], return_index=True, return_inverse=True)[1:]
        sums = [np.array([weight[first].sum()]), np.bincount(models.ravel(), begun), moves.sums]
        for one in self.observers:
            least *= min(float(table.chance.min()) for table in one.tables)
            sums += [table.sums for table in one.tables]
            seen = row // self.actions if self.delay else moves.target
            counts = [table.degree[self._shown(table, seen, row % self.actions)] for table in one.tables]
            shown *= np.max(counts, axis=0)
        require(least >= FLOOR, f"problem: a probability can be {least}, expected 2^-900 (about 1e-271) or more")
        longest = max([self.states, int(record.model.max()) + 1, *(one.observations for one in self.observers)])
        defect = defect_of(np.concatenate(sums), longest, "problem") * max(1, len(self.observers))
        return int(np.bincount(row, shown).max()), defect

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
        told, reached = _tells((event, path[x]), x), [np.isin(np.arange(self.size), x)]
        for time in range(1, self.horizon + 1):
            step, after = self.at(time), np.zeros(self.size, dtype=bool)
            after[step.target[reached[-1][step.row // self.actions]]] = True
            reached.append(after)
        layers = pairwise(reached)
        if not self.observers[0].varies:
            layers = [(np.any(reached, axis=0),) * 2] * (self.horizon > 0)
        for time, (before, after) in enumerate(layers, 1):
            step = self.at(time)
            source = step.row // self.actions
            moves = np.flatnonzero(before[source] & after[step.target])
            target = step.target[moves]
            told = told and _tells((source[moves], step.events[0][moves], path[target]), target)
        return told

    @cached_property
    def codes(self) -> Numbers | None:
        """What a rule for a whole path tells apart: each situation of its channel where the path and the events tell it, else
        what the path shows."""
        return self.record.channels[self.asked[0]].situation if self.tells_state else self.path

    def at(self, time: int) -> Moves:
        """The moves that arrive at a time."""
        key = (*(one.table(time) for one in self.observers), self.delay and time > self.horizon)
        if key not in self._kept:
            row, target, events, chance = self.columns(time)
            if len(self._kept) >= _MOST_TABLES:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = self._moves(row, target, events, reduce(np.multiply, chance))
        return self._kept[key]

    @cached_property
    def unseen(self) -> Moves:
        """The moves of all times without what is seen: event 0 stands for all events."""
        row, moves = self._row, self.record.moves
        return self._moves(row, moves.target, (0 * row,) * len(self.observers), moves.chance)

    def _moves(self, row: Numbers, target: Numbers, events: Columns, chance: np.ndarray) -> Moves:
        degree = np.bincount(row // self.actions, minlength=self.size)
        return Moves(np.append(0, np.cumsum(degree)), target, chance, row, events)

    def seen_of_states(self, time: int) -> Float[np.ndarray, "S O"] | None:
        """`b(o|s)` of the state that is reached at a time; None where what is seen depends on more, or on several observers."""
        first, *others = self.observers
        number, shape = first.table(time), (self.states, first.observations)
        table = first.tables[max(number, 0)]
        plain = not (others or first.sees_actions or self.delay) and len(table.degree) == self.states
        if not plain or math.prod(shape) > _MOST_SHOWN:
            return None
        shown = np.zeros(shape)
        if number < 0:
            shown[:, first.silent] = 1.0
        else:
            shown[np.repeat(np.arange(self.states), table.degree), table.target] = table.chance
        return shown

    def columns(self, time: int) -> tuple[Numbers, Numbers, Columns, Columns]:
        """`row`, `target` and `events` of the moves that arrive at a time, and their probabilities as a list of factors."""
        row, target, chance = self._row, self.record.moves.target, self.record.moves.chance
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
            found, number = np.arange(len(place)), one.table(time)
            none = time == 0 and (self.delay or not one.sees_first)
            if none or number < 0:
                event, chance = np.full(len(place), 0 if none else one.silent), np.ones(len(place))
            else:
                table = one.tables[number]
                found, entry = table.of(self._shown(table, x, action)[place])
                event, chance = table.target[entry], table.chance[entry]
            place = place[found]
            if time and one.sees_actions:
                event = event + action[place] * one.observations
            events = [*(column[found] for column in events), event.astype(np.int64)]
            shown = [*(column[found] for column in shown), chance]
        return place, events, shown

    def _shown(self, table: Rows, x: Numbers, action: Numbers) -> Numbers:
        """The rows of a table of what is seen."""
        return self.state[x] + action * self.states * (len(table.degree) > self.states)

    def settled(self, time: int, x: Numbers, z: Numbers) -> Numbers:
        """The values of the secrets in x at a time: what was settled before, and what is settled now."""
        for one in self.labels:
            if time == one.time:
                require(one.of[x] >= 0, "problem: the secret has no value in a state that can occur")
                z = z + one.stride * one.of[x]
        return z


def _tells(given: Columns, x: Numbers) -> bool:
    """Whether some numbers tell x."""
    return len(group(*given, x)[0]) == len(group(*given)[0])


def can_delay(record: Record, asked: tuple[int, ...] = (0,)) -> bool:
    """Whether agents that learn observations late are covered: these depend on the state alone, and the secret is settled
    once."""
    own = record.channels[0]
    observer = record.observers[own.receives]
    plain = [len(table.degree) for table in observer.tables] == [record.states] and bool((observer.at >= 0).all())
    return asked == (0,) and plain and not observer.sees_actions and own.kind == "once"


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
