"""Problems and policies as the plain arrays that the verifier reads: the mapping that hashes check."""

import itertools
import math

import numpy as np
from jaxtyping import Int

from ..common.errors import CertificateError, InputError
from ..common.memo import memo
from ..policy.history import HistoryPolicy
from ..policy.memories import Memory
from ..policy.policy import Policy
from ..policy.recall import Recall, recall
from ..policy.tabular import TablePolicy
from ..problem.agent import Reading
from ..problem.apart import apart
from ..problem.problem import Problem
from ..problem.registers import Register as Held
from ..problem.registers import TableRegister
from .agent import Agent
from .checked_problem import AGENT, CheckedProblem
from .claims import Register
from .compiled import record_of
from .policy_values import PolicyContent
from .words import automaton_words

_MOST_ENTRIES = 2**26  # of a register's table
_AT_ONCE = 2**22  # steps of a register at a time


def described(problem: Problem, policy: Policy) -> PolicyContent:
    """A policy as the verifier reads it, with what it remembers in the problem.

    **Raises:** `CertificateError` where it is of a kind that the verifier cannot read, or needs too large a table.
    """
    policy = policy.on(problem)
    if not isinstance(policy, TablePolicy | HistoryPolicy):
        raise CertificateError(f"policy: it is a {type(policy).__name__}, which the verifier cannot read")
    kind, arrays = policy._content()
    return Agent(kind, arrays), register_of(problem, policy)


def register_of(problem: Problem, policy: Policy) -> Register | None:
    """What a policy remembers, as an automaton; None where it needs none."""
    if isinstance(policy, HistoryPolicy):
        if not policy.views:
            return None
        table = apart(problem, policy.sees).joint.secret_table
        none = np.zeros(0, dtype=np.int64)
        start, step = table.memory_start[:, None], table.memory_step[:, None, :, None]
        return Register(start, step, none, 1, np.asarray(table.label), table.time)
    memory = policy.memory if isinstance(policy.memory, Memory) else None
    if memory is None and problem.agent.sees_state:
        return None
    return memo(problem, (register_of, memory), lambda: _table_register(problem, memory))


def policy_words(problem: Problem, policy: Policy) -> str:
    """The class of a policy, and what its agent must see."""
    if not policy.executable:
        return policy.describe()
    known = "its state" if problem.agent.sees_state else "its readings"
    known += " and the model that runs" if problem.agent.knows_model else ""
    automaton = automaton_words(bool(problem.others))
    known += f" and the state of {automaton}" if problem.agent.register.size > 1 else ""
    return f"{policy.describe()}; its agent sees {known}{policy.more_seen() if problem.agent.sees_state else ''}"


def _table_register(problem: Problem, memory: Memory | None) -> Register:
    """The register of a table with a memory, or of readings, or both: over states and the events of whom the agent hears.

    Pairs (reading, value of the memory) are numbered in order; a value that the agent chooses itself is the node.
    """
    reading, label = problem.reading, np.zeros((0, 0, 0), dtype=np.int64)
    found = None if memory is None else recall(problem, memory)
    register = None if found is None else found.register
    nodes = 1 if register is None else register.nodes
    if problem.agent.apart and problem.agent.sees_state:
        raise CertificateError("policy: its agent receives other observations than the problem's own observer")
    size = 1 if register is None else register.size
    readings = 1 if reading is None else reading.size
    # The numbers of (reading, value) that are reached, those of chosen values apart.
    if found is None:
        kinds = np.arange(readings)
        codes = np.arange(problem.num_cells)
    else:
        cell, value = np.divmod(found.rows[0], size)
        known, read = np.divmod(cell, readings)
        kinds = np.unique(read * size + value) if nodes == 1 else np.arange(readings)
        pair = np.searchsorted(kinds, read * size + value) if nodes == 1 else read * nodes + value
        codes = known * len(kinds) * nodes + pair
    listener = _Listener(problem, reading, register if nodes == 1 else None, kinds)
    start, step = listener.start(), np.zeros((len(kinds), 1, 1, 1), dtype=np.int64)
    if reading is not None or nodes == 1:
        step = listener.step(found if nodes == 1 else None)
    return Register(np.where(start < 0, -1, start * nodes), step, codes, nodes, label, 0)


class _Listener:
    """What an agent holds of events: its newest reading, and the value of a memory, as numbers among `kinds`."""

    def __init__(self, problem: Problem, reading: Reading | None, register: Held | None, kinds: np.ndarray):
        nothing = TableRegister.empty(problem.num_states)
        self.reading, self.register = (nothing if one is None else one for one in (reading, register))
        self.kinds = kinds
        self.own = CheckedProblem(record_of(problem), (0,), () if reading is None else (AGENT,))
        self.place = 0 if reading is None else self.own.place[AGENT]

    def _number(self, read: np.ndarray, value: np.ndarray) -> np.ndarray:
        """The number of a pair, -1 for one that no row is for."""
        wanted = read * self.register.size + value
        spot = np.minimum(np.searchsorted(self.kinds, wanted), len(self.kinds) - 1)
        return np.where(self.kinds[spot] == wanted, spot, -1)

    def start(self) -> Int[np.ndarray, "s f"]:
        own = self.own
        x, events, _ = own.start
        event, seen = events[self.place], own.observers[self.place].sees_first
        state, event = own.state[x], event if seen else np.full_like(event, -1)
        found = self._number(self.reading.start(state, event), self.register.start(state, event))
        columns = state, event + 1 if seen else 0 * event
        return _table(columns, (own.states, own.num_first[self.place] + 1), found, ())

    def step(self, recalled: Recall | None) -> Int[np.ndarray, "n s t e"]:
        """The table of all steps from what can be reached."""
        own, found = self.own, list[np.ndarray]()
        varies = any(one.varies for one in own.observers)
        moves = [own.at(time) for time in (range(1, own.horizon + 1) if varies else [1])]
        columns = [(own.state[one.row // own.actions], own.state[one.target], one.events[self.place]) for one in moves]
        source, target, event = (np.concatenate(one) for one in zip(*columns, strict=True))
        steps = np.unique(np.stack([source, target, event], axis=1), axis=0)
        ends = np.searchsorted(steps[:, 0], np.arange(own.states + 1))
        reached = self._reached(recalled)
        for part in np.array_split(reached, max(1, len(reached) * len(steps) // own.states // _AT_ONCE)):
            count = np.diff(ends)[part[:, 0]]
            place = np.repeat(np.arange(len(part)), count)
            move = np.arange(len(place)) - np.repeat(np.cumsum(count) - count - ends[part[:, 0]], count)
            s, t, e = steps[move].T
            before = part[place, 1]
            value = self.register.step(self.kinds[before] % self.register.size, s, t, e)
            read = self.reading.step(0 * s, s, t, e)
            found.append(np.stack([before, s, t, e, self._number(read, value)]))
        memory, s, t, e, after = np.concatenate(found, axis=1)
        sizes = len(self.kinds), own.states, own.states, own.num_events[self.place]
        return _table((memory, s, t, e), sizes, after, (0,))

    def _reached(self, recalled: Recall | None) -> Int[np.ndarray, "r 2"]:
        """Pairs (state, number) from which steps are made: those of the memory's product; of readings alone every pair."""
        if recalled is None:
            states, kinds = np.arange(self.own.states), np.arange(len(self.kinds))
            return np.stack(np.meshgrid(states, kinds, indexing="ij"), axis=-1).reshape(-1, 2)
        product = recalled.product
        read = [
            part for part, one in zip(product.parts[3:], product.registers, strict=True) if isinstance(one, Reading)
        ]
        number = self._number(read[0] if read else 0 * product.parts[2], product.parts[-1])
        return np.unique(np.stack([product.parts[2], number], axis=1), axis=0)


def _table(
    columns: tuple[np.ndarray, ...], sizes: tuple[int, ...], values: np.ndarray, always: tuple[int, ...]
) -> np.ndarray:
    """The smallest table that holds the values, with axes of length 1 for what they do not depend on; -1 elsewhere."""
    free = [axis for axis in range(len(sizes)) if axis not in always]
    subsets = [kept for count in range(len(free) + 1) for kept in itertools.combinations(free, count)]
    for kept in sorted(subsets, key=lambda axes: math.prod(sizes[axis] for axis in axes)):
        shape = tuple(size if axis in (*always, *kept) else 1 for axis, size in enumerate(sizes))
        if math.prod(shape) > _MOST_ENTRIES:
            break
        index = tuple(column * (size > 1) for column, size in zip(columns, shape, strict=True))
        table = np.full(shape, -1, dtype=np.int64)
        table[index] = values
        if np.array_equal(table[index], values):
            return table
    raise InputError("policy", ["what it remembers needs too large a table for a certificate"])
