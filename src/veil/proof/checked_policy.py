"""A policy as its arrays say, for the verifier: what it remembers, and what it chooses."""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float, Int

from .agent import Agent
from .arithmetic import group, require
from .checked_problem import CheckedProblem
from .claims import Register
from .reading import read_integers
from .record import Record

Numbers = Int[np.ndarray, " n"]
Events = tuple[Numbers, ...]


class CheckedPolicy(ABC):
    """A policy in a problem: its memory at first and after a step, and its choices.

    `nodes` is how many next memories it chooses among together with the action; `stationary`: whether it acts alike at
    all times, and so goes on after the horizon; `knows_model`: whether it can go on optimally in every model;
    `used_value`: the last time at which the value of the secret told choices apart.
    """

    nodes = 1
    stationary = False
    knows_model = True
    used_value = -1

    def __init__(self, problem: CheckedProblem):
        self.problem = problem

    @abstractmethod
    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        """The memory on reaching y at a time, after `before` in x; at time 0 neither is read."""

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


def channels_heard(record: Record, agent: Agent, register: Register | None) -> tuple[int, ...]:
    """The numbers of the channels whose observations a policy acts on."""
    if agent.is_history:
        return tuple(record.number_of(name) for name in agent.sees) or (0,)
    return (0,) if register is not None and agent.remembers and _hears(register) else ()


def _hears(register: Register) -> bool:
    shapes = np.ndim(register.start) == 2 and np.ndim(register.step) == 4
    require(shapes, "policy: what it remembers is no automaton")
    return register.start.shape[1] > 1 or register.step.shape[3] > 1


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
    """A table over states, or over pairs (state, memory) in the policy's own numbering."""

    def __init__(self, problem: CheckedProblem, agent: Agent, register: Register | None):
        super().__init__(problem)
        self.table, self.stationary = agent.arrays[0], not agent.timed
        record = problem.record
        self.knows_model = len(record.models) == 1 or record.knows_model
        known = record.channels[0].known
        self.cell = known[problem.plain // problem.states, problem.memory_of(0)] * problem.states + problem.state
        rows = int(known.max() + 1) * problem.states
        self.held, self.codes = None, None
        if agent.remembers:
            require(register is not None, "policy: what it remembers is not told")
            assert register is not None
            self.held, self.nodes, self.codes = _Automaton(problem, register), register.nodes, register.codes
            self.codes = read_integers(register.codes, 0, 2**62, 1, "policy: its rows")
            require(np.diff(self.codes) > 0, "policy: its rows are out of order")
            whole = type(self.nodes) is int and 1 <= self.nodes <= max(1, len(register.step))
            require(whole and (self.nodes == 1 or self.nodes == len(register.step)), "policy: its nodes are too many")
            rows = len(self.codes)
        shape = (1 if self.stationary else problem.horizon, rows, problem.actions * self.nodes)
        require(self.table.shape == shape, f"policy: its table has shape {self.table.shape}, expected {shape}")

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        if self.held is None:
            return np.zeros_like(y)
        return self.held.after(time, before, x, y, events)

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        table, wanted = self.table[0 if self.stationary else time], self.cell[x]
        if self.held is None or self.codes is None:
            return table, wanted
        return table, _found(self.codes, wanted * self.held.size + memory, time)


class _Automaton:
    """The automaton of a register, over the states and the observations of the problem's own channel."""

    def __init__(self, problem: CheckedProblem, register: Register):
        self.state, self.size = problem.state, len(register.step)
        self.start = read_integers(register.start, -1, self.size, 2, "policy: what it remembers at first")
        self.step = read_integers(register.step, -1, self.size, 4, "policy: what it remembers then")
        self.place = problem.place.get(0)
        _hears(register)
        first, event, first_seen = 1, 1, True
        if self.place is not None:
            first, event = problem.num_first[self.place], problem.num_events[self.place]
            first_seen = problem.observers[self.place].sees_first
        self.seen = first_seen
        fits = self.start.shape[0] in (1, problem.states) and self.start.shape[1] in (1, first + 1)
        _, one, two, heard = self.step.shape
        fits &= one in (1, problem.states) and two in (1, problem.states) and heard in (1, event)
        require(fits, "policy: what it remembers is of another size")

    def after(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        """The memory on reaching y."""
        event = 0 * y if self.place is None else events[self.place]
        if time:
            index = (before, self.state[x], self.state[y], event)
            found = self.step[tuple(part * (size > 1) for part, size in zip(index, self.step.shape, strict=True))]
        else:
            event = event + 1 if self.seen else 0 * event
            found = self.start[self.state[y] * (len(self.start) > 1), event * (self.start.shape[1] > 1)]
        require(found >= 0, f"policy: it does not say what it remembers at time {time}")
        return found


class _CheckedHistory(CheckedPolicy):
    """Decisions on a graph of histories.

    Its memory is a node; where it acts on what several observers see, or the bits of another channel count, also what its
    situations remember of the states, and the value that it acts on.
    """

    def __init__(self, problem: CheckedProblem, agent: Agent, register: Register | None, since: float):
        super().__init__(problem)
        self.since, sees = since, agent.sees
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
        step, label, self.time = own.step, own.label, own.time
        self.begun = own.start
        if sees:
            require(register is not None, "policy: what its situations remember is not told")
            assert register is not None
            step, label = register.step[:, 0, :, 0], register.label
            self.begun, self.time = register.start[:, 0], register.time
        self.step, self.label = step, label
        self.memories, self.num_values = len(step), int(label.max(initial=0)) + 1
        # In the problem's own channel the hidden state and its value say all of it.
        self.apart = bool(sees) or problem.asked[0] != 0 or len(problem.labels) > 1
        self.model = problem.plain // problem.states
        self.codes = self.model * self.memories
        self.size = len(problem.record.models) * self.memories * problem.states
        self._check_sizes()

    def _check_sizes(self) -> None:
        problem = self.problem
        step = read_integers(self.step, 0, self.memories, 2, "policy: what its situations remember")
        begun = read_integers(self.begun, 0, self.memories, 1, "policy: what its situations remember")
        label = read_integers(self.label, -1, 2**31, 3, "policy: the values that it acts on")
        fits = step.shape[1] == len(begun) == problem.states and label.shape[1:] == step.shape
        require(
            fits and len(label) in (1, len(problem.record.models)),
            "policy: what its situations remember is of another size",
        )
        for time, (node, situation, value, _) in enumerate(self.decisions):
            low, high = (-1, 0) if time < self.time else (0, self.num_values)
            inside = (situation >= 0) & (situation < self.size) & (low <= value) & (value < high) & (node >= 0)
            require(inside, f"policy: a row at time {time} is for a situation or value that does not exist")
        edges = [self.first, *self.following, *([] if self.told is None else [self.told])]
        require(
            all(one.size == 0 or -1 <= one.min() <= one.max() < 2**31 for one in edges),
            "policy: a node is out of range",
        )

    def _situation(self, memory: Numbers, x: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The node, the situation and the value -1 … of what is remembered apart from x."""
        rest, value = np.divmod(memory, self.num_values + 1)
        node, m = np.divmod(rest, self.memories)
        return node, (self.codes[x] + m) * self.problem.states + self.problem.state[x], value - 1

    def _event(self, time: int, events: Events) -> Numbers:
        if self.views is None:
            return events[self.places[0]]
        seen = np.stack([events[place] for place in self.places], axis=1)
        known = self.views[time > 0]
        kinds, number = np.unique(seen, axis=0, return_inverse=True)
        return np.array([known.get(tuple(kind), -1) for kind in kinds.tolist()], dtype=np.int64)[number.ravel()]

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, events: Events) -> Numbers:
        event, problem = self._event(time, events), self.problem
        require(event >= 0, f"policy: it does not know an event that it reaches at time {time}")
        before_node = before // (self.memories * (self.num_values + 1)) if self.apart else before
        node = self.following[time - 1][before_node, event] if time else self.first[event]
        node = node.astype(np.int64)
        state = problem.state[y]
        if self.apart:
            m = self.step[before // (self.num_values + 1) % self.memories, state] if time else self.begun[state]
            value = before % (self.num_values + 1) if time else 0 * node
            if time == self.time:
                value = self.label[self.model[y] * (len(self.label) > 1), m, state] + 1
        else:
            m, value = problem.memory_of(0)[y], 0 * node
        if self.told is not None and time == self.told_at:
            situation = (self.codes[y] + m) * problem.states + state
            node = np.where(node >= 0, self.told[node, situation], -1).astype(np.int64)
        require(node >= 0, f"policy: it has no node for something that it reaches at time {time}")
        return (node * self.memories + m) * (self.num_values + 1) + value if self.apart else node

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        node, situation, value, chances = self.decisions[time]
        if self.apart:
            memory, here, settled = self._situation(memory, x)
        else:
            here = (self.codes[x] + self.problem.memory_of(0)[x]) * self.problem.states + self.problem.state[x]
            settled = z - (time < self.time)
        codes, wanted = (
            (parts[0].astype(np.int64) * self.size + parts[1]) * (self.num_values + 1) + parts[2] + 1
            for parts in ((node, situation, value), (memory, here, settled))
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
    require(
        len(codes) > 0 and codes[place] == wanted,
        f"policy: it has no row for a situation that it reaches at time {time}",
    )
    return place
