"""A policy as its arrays say, for the verifier: what it remembers, and what it chooses."""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from .agent import Agent
from .arithmetic import group, require
from .checked_problem import AGENT, CheckedProblem, Moves
from .claims import Register
from .reading import read_integers
from .record import Record

Numbers = Int[np.ndarray, " n"]
Events = tuple[Numbers, ...]
_MOST_NODES = 2**31  # of the graph of a history policy


class Entries(NamedTuple):
    """Situations of runs: what the agent remembers, the hidden state, and the values of the secrets, 0 before their times."""

    memory: Numbers
    x: Numbers
    z: Numbers


class Taken(NamedTuple):
    """Moves that follow decisions: the entry that each leaves, the move, and the choice, `action · nodes + next node`."""

    entry: Numbers
    move: Numbers
    choice: Numbers


Table = TypeVar("Table", Entries, Taken)


def some(table: Table, place: Numbers) -> Table:
    """Some rows of a table."""
    return type(table)(*(column[place] for column in table))


class CheckedPolicy(ABC):
    """A policy in a problem: its memory at first and after a step, and its choices.

    `nodes` is how many next nodes it chooses among together with the action, which are then a part of its memory; `stationary`:
    whether it acts alike at all times, and so goes on after the horizon; `knows_model`: whether it can go on optimally in every
    model; `used_value`: the last time at which the value of the secret told choices apart; `hears`: whether what it remembers
    depends on what observers receive.
    """

    nodes = 1
    hears = False
    stationary = False
    knows_model = True
    used_value = -1

    def __init__(self, problem: CheckedProblem):
        self.problem = problem

    @abstractmethod
    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        """The memory on reaching y at a time, after `before` in x, but for a chosen node; at time 0 neither is read."""

    @abstractmethod
    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        """The table of a decision, and the row of it in each situation."""

    def choices(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> Float[np.ndarray, "n A"]:
        """The probabilities of the actions, or of the pairs (action, next node), in each situation."""
        table, place = self.row(time, memory, x, z)
        chosen = np.asarray(table, dtype=np.float64)[place]
        require(np.isfinite(chosen) & (chosen >= 0), f"policy: a probability at time {time} is negative or not finite")
        taken = np.repeat(self.problem.available[x], self.nodes, axis=1) | (chosen == 0)
        require(taken, f"policy: it takes an action at time {time} that is not available")
        return chosen

    def begin(self) -> tuple[Entries, Events]:
        """The entry of each start, and what the observers receive."""
        x, events, _ = self.problem.start
        return Entries(self.remembers(0, x, x, x, events), x, self.problem.settled(0, x, 0 * x)), events

    def every(self, x: Numbers, moves: Moves) -> Taken:
        """All moves from each x, with every next node."""
        entry, move = (np.repeat(part, self.nodes) for part in moves.of(x))
        node = np.tile(np.arange(self.nodes), len(move) // self.nodes)
        return Taken(entry, move, moves.row[move] % self.problem.actions * self.nodes + node)

    def arrive(self, time: int, before: Entries, taken: Taken, moves: Moves) -> tuple[Entries, Events]:
        """The entry that each move leads to at a time, and what the observers receive."""
        left, y = some(before, taken.entry), moves.target[taken.move]
        events = tuple(column[taken.move] for column in moves.events)
        memory = self.remembers(time, left.memory, left.x, y, events) + taken.choice % self.nodes
        return Entries(memory, y, self.problem.settled(time, y, left.z)), events


def channels_heard(record: Record, agent: Agent, register: Register | None) -> tuple[int, ...]:
    """The numbers of the channels whose observations a policy acts on; `AGENT` for readings of its own."""
    if agent.is_history:
        return tuple(record.number_of(name) for name in agent.sees) or (0,)
    if register is None or not (agent.remembers or record.blind):
        return ()
    require(np.ndim(register.start) == 2 and np.ndim(register.step) == 4, "policy: what it remembers is no automaton")
    hears = register.start.shape[1] > 1 or register.step.shape[3] > 1
    return ((AGENT if record.blind else 0),) if hears or record.blind else ()


def read_policy(
    problem: CheckedProblem, agent: Agent, register: Register | None, *, since: float = np.inf
) -> CheckedPolicy:
    """The agent of a policy; `since`: from which time on `used_value` is wanted.

    **Raises:** `CertificateError` where the policy is of no known kind or its sizes are not those of the problem.
    """
    if agent.is_history:
        return _CheckedHistory(problem, agent, register, since)
    kind = agent.kind.split(",")[0]
    require(kind in ("markov", "timed") and len(agent.arrays) == 1, "policy: it is of an unknown kind")
    return _CheckedTable(problem, agent, register)


class _CheckedTable(CheckedPolicy):
    """A table over what the agent knows, or over pairs (what it knows, memory) in the policy's own numbering.

    The memory is `m · nodes + node`: m of an automaton on states and events, and the node that it chose.
    """

    def __init__(self, problem: CheckedProblem, agent: Agent, register: Register | None):
        super().__init__(problem)
        self.table, self.stationary, record = agent.arrays[0], not agent.timed, problem.record
        self.knows_model, self.held, rows = record.knows_model, None, record.cells
        if agent.remembers or record.blind:
            require(register is not None, "policy: what it remembers is not told")
            assert register is not None
            self.held, self.nodes = register, register.nodes
            self._read(register)
            rows = len(self.codes)
        shape = (1 if self.stationary else problem.horizon, rows, problem.actions * self.nodes)
        require(self.table.shape == shape, f"policy: its table has shape {self.table.shape}, expected {shape}")

    def _read(self, register: Register) -> None:
        problem, size = self.problem, len(register.step)
        require(type(self.nodes) is int and 1 <= self.nodes <= 2**20, "policy: its nodes are too many")
        require(problem.record.cells * size * self.nodes < 2**62, "policy: it remembers too much")
        self.codes = read_integers(register.codes, 0, 2**62, 1, "policy: its rows")
        require(np.diff(self.codes) > 0, "policy: its rows are out of order")
        self.start = read_integers(register.start, -1, size * self.nodes, 2, "policy: what it remembers at first")
        self.step = read_integers(register.step, -1, size, 4, "policy: what it remembers then")
        self.place = problem.place.get(AGENT if problem.record.blind else 0)
        first, event, self.seen = 1, 1, True
        if self.place is not None:
            first, event = problem.num_first[self.place], problem.num_events[self.place]
            self.seen = problem.observers[self.place].sees_first
        states = (1,) if problem.record.blind else (1, problem.states)  # one that does not see its state
        _, one, two, heard = self.step.shape
        fits = self.start.shape[0] in states and self.start.shape[1] in (1, first + 1)
        fits &= one in states and two in states and heard in (1, event)
        self.hears = heard > 1 or self.start.shape[1] > 1
        require(fits, "policy: what it remembers is of another size")

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        if self.held is None:
            return np.zeros_like(y)
        event, state = 0 * y if self.place is None else events[self.place], self.problem.state
        if time:
            index = (before // self.nodes, state[x], state[y], event)
            sizes = zip(index, self.step.shape, strict=True)
            found = self.step[tuple(part * (size > 1) for part, size in sizes)]
            found = np.where(found < 0, -1, found * self.nodes)
        else:
            event = event + 1 if self.seen else 0 * event
            found = self.start[state[y] * (len(self.start) > 1), event * (self.start.shape[1] > 1)]
        require(found >= 0, f"policy: it does not say what it remembers at time {time}")
        return found

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        table, wanted = self.table[0 if self.stationary else time], self.problem.record.cell[x]
        if self.held is None:
            return table, wanted
        return table, _found(self.codes, wanted * len(self.step) * self.nodes + memory, time)


class _CheckedHistory(CheckedPolicy):
    """Decisions on a graph of histories, in situations and with a value that is known from a time on.

    Its memory is a node; where it acts on what several observers see, or the bits of another channel count, also the value.
    """

    def __init__(self, problem: CheckedProblem, agent: Agent, register: Register | None, since: float):
        super().__init__(problem)
        self.hears, self.since, sees = True, since, agent.sees
        given, horizon = list(agent.arrays), problem.horizon
        require(len(given) >= 1 + 5 * horizon, "policy: its decisions are not one for each step")
        self.first, self.following = given[0], given[1 : 1 + horizon]
        rows = given[1 + horizon : 1 + 5 * horizon]
        self.decisions = [tuple(rows[4 * time : 4 * time + 4]) for time in range(horizon)]
        rest, self.told_at = given[1 + 5 * horizon :], agent.told_at
        self.told = rest[0] if self.told_at is not None and rest else None
        views = rest[self.told_at is not None :]
        require(len(views) == 2 * len(sees), "policy: what it sees is not told of each observer")
        numbers = tuple(problem.record.number_of(name) for name in sees) or (0,)
        self.places = [problem.place[number] for number in numbers]
        later = np.any([table.max(axis=0, initial=-1) >= 0 for table in self.following], axis=0) if horizon else []
        possible = np.asarray(self.first) >= 0, np.asarray(later, dtype=bool)
        self.views = [_numbers_of(list(views[i::2]), possible[i]) for i in (0, 1)] if sees else None
        own = problem.record.channels[0]
        self.time, self.step, self.begun = (
            own.time,
            np.zeros((1, problem.states), dtype=np.int64),
            np.zeros(problem.states),
        )
        self.value = own.value if own.kind == "once" else 0 * own.value
        self.num_values, size = int(self.value.max(initial=0)) + 1, int(own.situation.max()) + 1
        if sees:
            require(register is not None, "policy: what its situations remember is not told")
            assert register is not None
            size = self._read(register)
        # In the problem's own channel the hidden state and its value say all of it.
        self.apart = bool(sees) or problem.asked[0] != 0 or len(problem.labels) > 1
        self.size, self.memories = size, len(self.step)
        self._check_sizes()

    def _read(self, register: Register) -> int:
        """What its situations remember beside the hidden state; how many there are."""
        require(
            np.ndim(register.step) == 4 and np.ndim(register.start) == 2, "policy: what it remembers is no automaton"
        )
        memories, states, what = len(register.step), self.problem.states, "policy: what its situations remember"
        self.step = read_integers(register.step[:, 0, :, 0], 0, memories, 2, what)
        self.begun = read_integers(register.start[:, 0], 0, memories, 1, what)
        self.label = read_integers(register.label, -1, 2**31, 3, "policy: the values that it acts on")
        models, self.time = int(self.problem.record.model.max()) + 1, register.time
        self.num_values = int(self.label.max(initial=0)) + 1
        fits = self.step.shape == (memories, states) == self.label.shape[1:] and self.begun.shape == (states,)
        require(fits and len(self.label) in (1, models), f"{what} is of another size")
        return models * memories * states

    def _check_sizes(self) -> None:
        fits = self.size * (self.num_values + 1) * self.memories < 2**62 // _MOST_NODES
        require(fits, "policy: it has too many situations and values")
        for time, (node, situation, value, _) in enumerate(self.decisions):
            low, high = (-1, 0) if time < self.time else (0, self.num_values)
            inside = (situation >= 0) & (situation < self.size) & (low <= value) & (value < high)
            inside &= (node >= 0) & (node < _MOST_NODES)
            require(inside, f"policy: a row at time {time} is for a situation or value that does not exist")
        edges = [self.first, *self.following, *([] if self.told is None else [self.told])]
        inside = all(one.size == 0 or -1 <= one.min() <= one.max() < _MOST_NODES for one in edges)
        require(inside, "policy: a node is out of range")

    def _situation(self, m: Numbers, x: Numbers) -> Numbers:
        """The numbers of its situations."""
        if self.views is None:
            return self.problem.record.channels[0].situation[x]
        return (self.problem.record.model[x] * self.memories + m) * self.problem.states + self.problem.state[x]

    def _value(self, m: Numbers, x: Numbers) -> Numbers:
        """The value that is settled in x."""
        if self.views is None:
            return self.value[x]
        return self.label[self.problem.record.model[x] * (len(self.label) > 1), m, self.problem.state[x]]

    def _event(self, time: int, events: Events) -> Numbers:
        if self.views is None:
            return events[self.places[0]]
        seen = np.stack([events[place] for place in self.places], axis=1)
        known = self.views[time > 0]
        kinds, number = np.unique(seen, axis=0, return_inverse=True)
        return np.array([known.get(tuple(kind), -1) for kind in kinds.tolist()], dtype=np.int64)[number.ravel()]

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        event = self._event(time, events)
        require(event >= 0, f"policy: it does not know an event that it reaches at time {time}")
        before, m, value = self._parts(before) if time else (0 * y, 0 * y, 0 * y)
        node = (self.following[time - 1][before, event] if time else self.first[event]).astype(np.int64)
        state = self.problem.state[y]
        m = self.step[m, state] if time else self.begun[state].astype(np.int64)
        if self.told is not None and time == self.told_at:
            node = np.where(node >= 0, self.told[node, self._situation(m, y)], -1).astype(np.int64)
        require(node >= 0, f"policy: it has no node for something that it reaches at time {time}")
        value = self._value(m, y) + 1 if time == self.time else value
        return (node * self.memories + m) * (self.num_values + 1) + value if self.apart else node

    def _parts(self, memory: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The node, what is remembered beside the hidden state, and the value, 0 before it is settled."""
        if not self.apart:
            return memory, 0 * memory, 0 * memory
        rest, value = np.divmod(memory, self.num_values + 1)
        return *np.divmod(rest, self.memories), value

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        node, situation, value, chances = self.decisions[time]
        here, m, settled = self._parts(memory)
        settled = settled if self.apart else z + (time >= self.time)
        codes, wanted = (
            (parts[0].astype(np.int64) * self.size + parts[1]) * (self.num_values + 1) + parts[2]
            for parts in ((node, situation, value + 1), (here, self._situation(m, x), settled))
        )
        return chances, _found(codes, wanted, time)

    def choices(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> Float[np.ndarray, "n A"]:
        chosen = super().choices(time, memory, x, z)
        if time >= self.since:
            index, number = group(memory, x)
            self.used_value = self.used_value if (chosen == chosen[index[number]]).all() else time
        return chosen


def _numbers_of(views: list[np.ndarray], possible: np.ndarray) -> dict[tuple[int, ...], int]:
    """The number of each tuple of what the observers receive, of those that lead to a node."""
    found = dict[tuple[int, ...], int]()
    for number, seen in enumerate(zip(*(one.tolist() for one in views), strict=True)):
        if number < len(possible) and possible[number]:
            require(seen not in found, "policy: what it sees of several observers does not tell its events apart")
            found[seen] = number
    return found


def _found(codes: Numbers, wanted: Numbers, time: int) -> Numbers:
    """The place of each wanted code among codes that must increase strictly, so that no two rows stand for one."""
    require(np.diff(codes) > 0, f"policy: the rows at time {time} are out of order, or two are for the same situation")
    place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    found = len(codes) > 0 and codes[place] == wanted
    require(found, f"policy: it has no row for a situation that it reaches at time {time}")
    return place
