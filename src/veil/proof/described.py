"""Problems and policies as the plain arrays that the verifier reads: the mapping that hashes check."""

import io
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
from ..problem.apart import apart
from ..problem.fingerprint import write_content
from ..problem.problem import Problem
from ..problem.registers import Register as Held
from .agent import Agent
from .checked_problem import CheckedProblem
from .claim import automaton_words
from .claims import Register
from .policy_values import PolicyContent
from .record import Record, read_record

_MOST_ENTRIES = 2**26  # of a register's table
_AT_ONCE = 2**22  # steps of a register at a time


def content_of(problem: Problem) -> bytes:
    """The bytes that the problem's fingerprint is a hash of."""
    content = io.BytesIO()
    write_content(problem, content.write)
    return content.getvalue()


def record_of(problem: Problem) -> Record:
    """The problem as the verifier reads it. **Raises:** `CertificateError` where it refuses it."""
    return memo(problem, (record_of,), lambda: read_record(content_of(problem)))


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
    if isinstance(policy, HistoryPolicy) and policy.views:
        table = apart(problem, policy.sees).joint.secret_table
        none = np.zeros(0, dtype=np.int64)
        start, step = table.memory_start[:, None], table.memory_step[:, None, :, None]
        return Register(start, step, none, 1, np.asarray(table.label), table.time)
    if isinstance(policy.memory, Memory):
        found = recall(problem, policy.memory)
        return memo(problem, (register_of, policy.memory), lambda: _of_recall(problem, found))
    return None


def policy_words(problem: Problem, policy: Policy) -> str:
    """The class of a policy, and what its agent must see."""
    if not policy.executable:
        return policy.describe()
    known = "its state"
    known += " and the model that runs" if problem.agent.knows_model else ""
    automaton = automaton_words(bool(problem.others))
    known += f" and the state of {automaton}" if problem.agent.register.size > 1 else ""
    return f"{policy.describe()}; its agent sees {known}{policy.more_seen()}"


def _of_recall(problem: Problem, found: Recall) -> Register:
    """The register of a memory, its values numbered in order, over states and the events of the problem's own observer."""
    register = found.register
    if problem.agent.apart:
        raise CertificateError("policy: its agent receives other observations than the problem's own observer")
    memories = found.product.parts[-1]
    numbers = np.arange(register.nodes) if register.nodes > 1 else np.unique(memories)
    cell, memory = np.divmod(found.rows[0], register.size)
    codes = cell * len(numbers) + np.searchsorted(numbers, memory)
    own, label = CheckedProblem(record_of(problem)), np.zeros((0, 0, 0), dtype=np.int64)
    start = _start(own, register, numbers)
    step = np.zeros((len(numbers), 1, 1, 1), dtype=np.int64)
    if register.nodes == 1:
        held = np.stack([found.product.parts[2], np.searchsorted(numbers, memories)], axis=1)
        step = _step(own, register, numbers, np.unique(held, axis=0))
    return Register(start, step, codes, register.nodes, label, 0)


def _start(own: CheckedProblem, register: Held, numbers: Int[np.ndarray, " n"]) -> Int[np.ndarray, "s f"]:
    x, (event, *_), _ = own.start
    seen = own.observers[0].sees_first
    memory = register.start(own.state[x], event if seen else np.full_like(event, -1))
    columns = own.state[x], event + 1 if seen else 0 * event
    return _table(columns, (own.states, own.num_first[0] + 1), np.searchsorted(numbers, memory), ())


def _step(
    own: CheckedProblem, register: Held, numbers: Int[np.ndarray, " n"], reached: Int[np.ndarray, "r 2"]
) -> Int[np.ndarray, "n s t e"]:
    """The table of all steps from what can be reached."""
    found = list[np.ndarray]()
    moves = [own.at(time) for time in (range(1, own.horizon + 1) if own.observers[0].varies else [1])]
    source = np.concatenate([own.state[one.row // own.actions] for one in moves])
    target = np.concatenate([own.state[one.target] for one in moves])
    event = np.concatenate([one.events[0] for one in moves])
    kinds = np.unique(np.stack([source, target, event], axis=1), axis=0)
    ends = np.searchsorted(kinds[:, 0], np.arange(own.states + 1))
    for part in np.array_split(reached, max(1, len(reached) * len(kinds) // own.states // _AT_ONCE)):
        count = np.diff(ends)[part[:, 0]]
        place = np.repeat(np.arange(len(part)), count)
        move = np.arange(len(place)) - np.repeat(np.cumsum(count) - count - ends[part[:, 0]], count)
        s, t, e = kinds[move].T
        after = register.step(numbers[part[place, 1]], s, t, e)
        spot = np.minimum(np.searchsorted(numbers, after), len(numbers) - 1)
        found.append(np.stack([part[place, 1], s, t, e, np.where(numbers[spot] == after, spot, -1)]))
    memory, s, t, e, after = np.concatenate(found, axis=1)
    return _table((memory, s, t, e), (len(numbers), own.states, own.states, own.num_events[0]), after, (0,))


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
