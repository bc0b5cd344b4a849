"""A policy as its arrays say, for the verifier: what it remembers, and what it chooses."""

from abc import ABC, abstractmethod
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from .agent import Agent
from .arithmetic import Numbers, group, require
from .checked_problem import AGENT, CheckedProblem, Moves
from .claims import Register
from .reading import read_integers
from .record import Record

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


class Step(NamedTuple):
    """One decision: the choices, the moves that follow with the probabilities of the choices, where each leads to in `after`,
    and what the observers receive."""

    choices: Float[np.ndarray, "n A"]
    taken: Taken
    share: Float[np.ndarray, " m"]
    number: Numbers
    after: Entries
    events: Events


Table = TypeVar("Table", Entries, Taken)


def some(table: Table, place: "Numbers | slice") -> Table:
    """Some rows of a table."""
    return type(table)(*(column[place] for column in table))


class CheckedPolicy(ABC):
    """A policy in a problem: its memory at first and after a step, and its choices.

    `nodes` is how many next nodes it chooses among together with the action, which are then a part of its memory; `stationary`:
    whether it acts alike at all times, and so goes on after the horizon; `knows_model`: whether it can go on optimally in every
    model; `used_value`: the last time, from `since` on, at which the value of the secret told choices apart; `hears`: whether
    what it remembers depends on what observers receive.
    """

    nodes = 1
    hears = False
    stationary = False
    knows_model = True
    used_value = -1

    def __init__(self, problem: CheckedProblem, since: float):
        self.problem, self.since = problem, since

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
        if time >= self.since:
            index, number = group(memory, x)
            self.used_value = self.used_value if (chosen == chosen[index[number]]).all() else time
        return chosen

    def begin(self) -> tuple[Entries, Events]:
        """The entry of each start, and what the observers receive."""
        x, events, _ = self.problem.start
        return Entries(self.remembers(0, x, x, x, events), x, self.problem.settled(0, x, 0 * x)), events

    def count(self, x: Numbers, moves: Moves) -> int:
        """How many moves can follow decisions in each x, with every next node."""
        return self.nodes * int(moves.degree[x].sum())

    def taken(self, choices: Float[np.ndarray, "n A"], x: Numbers, moves: Moves) -> tuple[Taken, np.ndarray]:
        """The moves that follow choices in each x, and the probability of each choice, which is positive."""
        entry, move = (np.repeat(part, self.nodes) for part in moves.of(x))
        node = np.tile(np.arange(self.nodes), len(move) // self.nodes)
        every = Taken(entry, move, moves.row[move] % self.problem.actions * self.nodes + node)
        share = choices[every.entry, every.choice]
        kept = slice(None) if share.all() else np.flatnonzero(share)
        return some(every, kept), share[kept]

    def arrive(self, time: int, before: Entries, taken: Taken, moves: Moves) -> tuple[Entries, Events]:
        """The entry that each move leads to at a time, and what the observers receive."""
        left, y = some(before, taken.entry), moves.target[taken.move]
        events = tuple(column[taken.move] for column in moves.events)
        memory = self.remembers(time, left.memory, left.x, y, events) + taken.choice % self.nodes
        return Entries(memory, y, self.problem.settled(time, y, left.z)), events

    def step(self, time: int, before: Entries, moves: Moves) -> Step:
        """The decision at a time in some entries, and the entries after it, each once."""
        choices = self.choices(time, *before)
        taken, share = self.taken(choices, before.x, moves)
        arrived, events = self.arrive(time + 1, before, taken, moves)
        index, number = group(*arrived)
        return Step(choices, taken, share, number, some(arrived, index), events)


def _automaton(register: Register | None, what: str = "what it remembers") -> Register:
    """What a policy remembers, where it is told."""
    require(register is not None, f"policy: {what} is not told")
    assert register is not None
    require(np.ndim(register.start) == 2 and np.ndim(register.step) == 4, "policy: what it remembers is no automaton")
    return register


def channels_heard(record: Record, agent: Agent, register: Register | None) -> tuple[int, ...]:
    """The numbers of the channels whose observations a policy acts on; `AGENT` for readings of its own."""
    if agent.word == "history":
        return tuple(record.number_of(name) for name in agent.sees) or (0,)
    if register is None or not (agent.remembers or record.blind):
        return ()
    hears = _automaton(register).start.shape[1] > 1 or register.step.shape[3] > 1
    return ((AGENT if record.blind else 0),) if hears or record.blind else ()


def read_policy(
    problem: CheckedProblem, agent: Agent, register: Register | None, *, since: float = np.inf
) -> CheckedPolicy:
    """The agent of a policy; `since`: from which time on `used_value` is wanted.

    **Raises:** `CertificateError` where the policy is of no known kind or its sizes are not those of the problem.
    """
    if agent.word == "history":
        return _CheckedHistory(problem, agent, register, since)
    known = agent.word in ("markov", "timed") and len(agent.arrays) == 1
    require(known, "policy: it is of an unknown kind")
    return _CheckedTable(problem, agent, register, since)


class _CheckedTable(CheckedPolicy):
    """A table over what the agent knows, or over pairs (what it knows, memory) in the policy's own numbering.

    The memory is `m · nodes + node`: m of an automaton on states and events, and the node that it chose.
    """

    def __init__(self, problem: CheckedProblem, agent: Agent, register: Register | None, since: float):
        super().__init__(problem, since)
        self.table, self.stationary, record = agent.arrays[0], agent.word == "markov", problem.record
        self.knows_model, self.codes = record.knows_model, np.arange(record.cells)
        self.start, self.automaton = np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1, 1, 1), dtype=np.int64)
        self.place = problem.place.get(AGENT if record.blind else 0)
        if agent.remembers or record.blind:
            self._read(_automaton(register))
        shape = (1 if self.stationary else problem.horizon, len(self.codes), problem.actions * self.nodes)
        require(self.table.shape == shape, f"policy: its table has shape {self.table.shape}, expected {shape}")

    def _read(self, register: Register) -> None:
        problem, size, self.nodes = self.problem, len(register.step), register.nodes
        require(type(self.nodes) is int and 1 <= self.nodes <= 2**20, "policy: its nodes are too many")
        require(problem.record.cells * size * self.nodes < 2**62, "policy: it remembers too much")
        self.codes = read_integers(register.codes, 0, 2**62, (None,), "policy: its rows")
        what, shape = "policy: what it remembers", (size, None, None, None)
        self.start = read_integers(register.start, -1, size * self.nodes, (None, None), f"{what} at first")
        self.automaton = read_integers(register.step, -1, size, shape, f"{what} then")
        first, event = 1, 1
        if self.place is not None:
            first, event = problem.num_first[self.place], problem.num_events[self.place]
        states = (1,) if problem.record.blind else (1, problem.states)  # one that does not see its state
        (begun, seen), (_, one, two, heard) = self.start.shape, self.automaton.shape
        fits = begun in states and seen in (1, first + 1) and one in states and two in states and heard in (1, event)
        self.hears = heard > 1 or seen > 1
        require(fits, "policy: what it remembers is of another size")

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        place, state = self.place, self.problem.state
        event = 0 * y if place is None else events[place]
        if time:
            found = _entry(self.automaton, before // self.nodes, state[x], state[y], event)
            found = np.where(found < 0, -1, found * self.nodes)
        else:
            seen = place is None or self.problem.observers[place].sees_first
            found = _entry(self.start, state[y], event + 1 if seen else 0 * event)
        require(found >= 0, f"policy: it does not say what it remembers at time {time}")
        return found

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        wanted = self.problem.record.cell[x] * len(self.automaton) * self.nodes + memory
        return self.table[0 if self.stationary else time], _found(self.codes, wanted, time)


class _CheckedHistory(CheckedPolicy):
    """Decisions on a graph of histories, in situations and with a value that is known from a time on.

    Its memory is a node; where it acts on what several observers see, or the bits of another channel count, also the value, and
    what its situations remember: m in x is situation `situation[x] + m · S`, and `value[place[x] + m · S]` is what is settled.
    """

    hears = True

    def __init__(self, problem: CheckedProblem, agent: Agent, register: Register | None, since: float):
        super().__init__(problem, since)
        given, horizon, sees, own = list(agent.arrays), problem.horizon, agent.sees, problem.record.channels[0]
        require(len(given) >= 1 + 5 * horizon, "policy: its decisions are not one for each step")
        self.first, self.following, rest = given[0], given[1 : 1 + horizon], given[1 + horizon :]
        self.decisions = [tuple(rest[4 * time : 4 * time + 4]) for time in range(horizon)]
        rest, self.told_at = rest[4 * horizon :], agent.told_at
        self.told = rest[0] if self.told_at is not None and rest else None
        views = rest[self.told_at is not None :]
        require(len(views) == 2 * len(sees), "policy: what it sees is not told of each observer")
        self.places = [problem.place[problem.record.number_of(name)] for name in sees] or [problem.place[0]]
        later = np.any([table.max(axis=0, initial=-1) >= 0 for table in self.following], axis=0) if horizon else []
        possible = np.asarray(self.first) >= 0, np.asarray(later, dtype=bool)
        self.views = [_numbers_of(list(views[i::2]), possible[i]) for i in (0, 1)] if sees else None
        # In the problem's own channel the hidden state and its value say all of it.
        self.apart = bool(sees) or problem.asked[0] != 0 or len(problem.labels) > 1
        self.step_of, self.begun = np.zeros((1, problem.states), dtype=np.int64), np.zeros(problem.states, np.int64)
        self.situation, self.time = own.situation, own.time
        self.value, self.place = own.value if own.kind == "once" else 0 * own.value, np.arange(problem.size)
        size = int(own.situation.max()) + 1
        if sees:
            size = self._read(_automaton(register, "what its situations remember"))
        self.num_values, self.size = int(self.value.max(initial=0)) + 1, size
        self.shape = (_MOST_NODES, *((len(self.step_of), self.num_values + 1) if self.apart else (1, 1)))
        self._check_sizes()

    def _read(self, register: Register) -> int:
        """What its situations remember beside the hidden state; how many there are."""
        memories, states, what = len(register.step), self.problem.states, "policy: what its situations remember"
        self.step_of = read_integers(register.step[:, 0, :, 0], 0, memories, (memories, states), what)
        self.begun = read_integers(register.start[:, 0], 0, memories, (states,), what)
        label = read_integers(register.label, -1, 2**31, (None, memories, states), "policy: the values that it acts on")
        model, state = self.problem.record.model, self.problem.state
        models, self.time = int(model.max()) + 1, register.time
        require(len(label) in (1, models), f"{what} is of another size")
        self.situation, self.place = (model * count * memories * states + state for count in (1, len(label) > 1))
        self.value = label.ravel()
        return models * memories * states

    def _check_sizes(self) -> None:
        fits = self.size * (self.num_values + 1) * len(self.step_of) < 2**62 // _MOST_NODES
        require(fits, "policy: it has too many situations and values")
        for time, (node, situation, value, _) in enumerate(self.decisions):
            low, high = (-1, 0) if time < self.time else (0, self.num_values)
            inside = (situation >= 0) & (situation < self.size) & (low <= value) & (value < high)
            inside &= (node >= 0) & (node < _MOST_NODES)
            require(inside, f"policy: a row at time {time} is for a situation or value that does not exist")
        edges = [self.first, *self.following, *([] if self.told is None else [self.told])]
        inside = all(one.size == 0 or -1 <= one.min() <= one.max() < _MOST_NODES for one in edges)
        require(inside, "policy: a node is out of range")

    def _event(self, time: int, events: Events) -> Numbers:
        if self.views is None:
            return events[self.places[0]]
        seen = np.stack([events[place] for place in self.places], axis=1)
        known = self.views[time > 0]
        kinds, number = np.unique(seen, axis=0, return_inverse=True)
        return np.array([known.get(tuple(kind), -1) for kind in kinds.tolist()], dtype=np.int64)[number.ravel()]

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        event, state = self._event(time, events), self.problem.state[y]
        require(event >= 0, f"policy: it does not know an event that it reaches at time {time}")
        before, m, value = np.unravel_index(before, self.shape) if time else (0 * y, 0 * y, 0 * y)
        node = (self.following[time - 1][before, event] if time else self.first[event]).astype(np.int64)
        m = self.step_of[m, state] if time else self.begun[state]
        if self.told is not None and time == self.told_at:
            told = self.told[node, self.situation[y] + m * self.problem.states]
            node = np.where(node >= 0, told, -1).astype(np.int64)
        require(node >= 0, f"policy: it has no node for something that it reaches at time {time}")
        value = self.value[self.place[y] + m * self.problem.states] + 1 if time == self.time else value
        return np.ravel_multi_index((node, m, value * self.apart), self.shape)

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        node, situation, value, chances = self.decisions[time]
        here, m, settled = np.unravel_index(memory, self.shape)
        known, shape = self.situation[x] + m * self.problem.states, (_MOST_NODES, self.size, self.num_values + 1)
        settled = settled if self.apart else z + (time >= self.time)
        codes = np.ravel_multi_index((node, situation, value + 1), shape)
        return chances, _found(codes, np.ravel_multi_index((here, known, settled), shape), time)


def _entry(table: np.ndarray, *index: Numbers) -> Numbers:
    """Entries of a table in which an axis of length 1 stands for what does not matter."""
    return table[tuple(part * (size > 1) for part, size in zip(index, table.shape, strict=True))]


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
