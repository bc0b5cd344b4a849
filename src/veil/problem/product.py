"""Every hidden state that some policy can reach, with the registers of a problem, and the steps between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.errors import TooLargeError
from ..common.numbering import ragged
from .observer import Observer
from .problem import Problem
from .registers import LARGEST, Numbers, Register, TimeRegister

MOST_STATES = 2_000_000
_AT_ONCE = 2**21  # steps that are followed at a time


@dataclass(frozen=True, eq=False)
class Steps:
    """All possible steps of the models: from row `(t · K + k) · S + s` those at `begin[row] … begin[row + 1]`.

    A step leads to `state` and, if a register reads events, shows `event` (else 0); `chance[step, a]` is `P(s'|s,a)`, or
    `P(s'|s,a) b_a(e|s')`. They are listed for each time if these chances depend on it, else once, with t = 0.
    """

    begin: Int[np.ndarray, " R+1"]
    state: Int[np.ndarray, " n"]
    event: Int[np.ndarray, " n"]
    chance: Float[np.ndarray, "n A"]


@dataclass(frozen=True, eq=False)
class Opening:
    """All possible starts: `chance` of starting in `code` with a first `event` (-1 if no register reads any)."""

    code: Int[np.ndarray, " n"]
    event: Int[np.ndarray, " n"]
    chance: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Product:
    """The hidden states `(k, m, s, r_1, r_2, …)` that some policy can reach, in order of their codes.

    They hold the model, the memory of the channel, the state and the values of further registers, coded as
    `(((k · M + m) · S + s) · size_1 + r_1) · size_2 + r_2 …`. `goes_on` marks those whose steps are kept: all but those first
    reached when the horizon ends.

    If the agent chooses the next value of the last register, it does so with the action: among `nodes`.
    """

    registers: tuple[Register, ...]
    sizes: tuple[int, ...]
    steps: Steps
    opening: Opening
    follows: Int[np.ndarray, "M S"]
    code: Int[np.ndarray, " N"]
    goes_on: Bool[np.ndarray, " N"]

    @property
    def nodes(self) -> int:
        """Among how many values the agent chooses that of the last register."""
        return self.registers[-1].nodes

    @cached_property
    def parts(self) -> tuple[Numbers, ...]:
        """Of each hidden state: the model, the memory of the channel, the state, the value of each register."""
        return split(self.code, self.sizes)

    def follow(self, code: Int[np.ndarray, " n"]) -> tuple[Numbers, Numbers, Numbers]:
        """All steps from some hidden states: position of the source, number of the step, code that is reached.

        If the agent chooses the next value of the last register, the code is that of value 0; the others follow it.
        """
        return _follow(code, self.steps, self.sizes, self.follows, self.registers)

    def degree(self, part: Bool[np.ndarray, " N"] | Numbers) -> int:
        """How many steps leave some of the hidden states."""
        rows = _rows([one[part] for one in self.parts], self.steps, self.sizes, self.registers)
        return int(np.diff(self.steps.begin)[rows].sum())


def explore(problem: Problem, registers: Sequence[Register], most_steps: int | None, what: str) -> Product:
    """The product of a problem's own channel with further registers, as far as some policy can reach.

    Registers that read events read those that the agent sees. **Arguments:** `most_steps`: for how many steps, None for any
    number; `what` makes it large, in words.

    Cost: linear in the steps between the hidden states.

    **Raises:** `TooLargeError` beyond two million hidden states.
    """
    table, registers = problem.secret_table, tuple(registers)
    base = (len(problem.models), len(table.memory_names), problem.num_states)
    sizes = (*base, *(one.size for one in registers))
    if math.prod(sizes) > LARGEST:
        raise TooLargeError(f"{what} over {math.prod(base):,} hidden states has more than 2^62 values: remember less")
    reads = any(one.reads_events for one in registers)
    seen = problem.agent.sees if reads else None
    timed = seen is not None and seen.varies
    steps = _steps(problem, seen, problem.horizon if timed else 0)
    opening = _opening(problem, registers, sizes, seen)
    code, goes_on = _reach(opening, steps, sizes, table.memory_step, registers, most_steps, what)
    return Product(registers, sizes, steps, opening, table.memory_step, code, goes_on)


def split(code: Numbers, sizes: Sequence[int]) -> tuple[Numbers, ...]:
    """The digits of codes, those of the largest weight first."""
    found = []
    for size in reversed(sizes):
        code, digit = np.divmod(code, size)
        found.append(digit)
    return tuple(found[::-1])


def _steps(problem: Problem, seen: Observer | None, last: int) -> Steps:
    """All steps; `seen`: whose observations are read; `last`: the last time from which they are listed."""
    size, count, models = problem.num_states, problem.num_actions, len(problem.models)
    keys, actions, data = [], [], []
    for k, model in enumerate(problem.models):
        for action, matrix in enumerate(model.matrices):
            entries = sp.coo_array(matrix)
            keys.append((k * size + entries.row.astype(np.int64)) * size + entries.col)
            actions.append(np.full(entries.nnz, action))
            data.append(entries.data)
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    chance = np.zeros((len(key), count))
    chance[place.ravel(), np.concatenate(actions)] = np.concatenate(data)
    event = np.zeros(len(key), dtype=np.int64)
    if seen is not None:
        parts = [_with_events(key, chance, seen, min(time + 1, problem.horizon), problem) for time in range(last + 1)]
        shift = models * size * size
        key = np.concatenate([part[0] + time * shift for time, part in enumerate(parts)])
        event, chance = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
    row, state = np.divmod(key, size)
    begin = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=models * size * (last + 1)))])
    return Steps(begin, state, event, chance)


def _with_events(
    key: np.ndarray, chance: np.ndarray, observer: Observer, time: int, problem: Problem
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each step once for each event that it can show on arriving at a time."""
    tables = observer.matrices_at(time, problem.horizon)
    emissions = np.stack([table.toarray() for table in tables])
    actions = np.arange(chance.shape[1])
    keys, events, chances = [], [], []
    for event in range(observer.num_events(len(actions))):
        action, observation = divmod(event, observer.num_observations)
        shown = chance * emissions[:, key % problem.num_states, observation].T
        if observer.sees_actions:
            shown = shown * (actions == action)
        possible = np.flatnonzero(shown.any(axis=1))
        keys.append(key[possible])
        events.append(np.full(len(possible), event))
        chances.append(shown[possible])
    key, event = np.concatenate(keys), np.concatenate(events)
    order = np.lexsort((event, key))
    return key[order], event[order], np.concatenate(chances)[order]


def _opening(
    problem: Problem, registers: tuple[Register, ...], sizes: tuple[int, ...], seen: Observer | None
) -> Opening:
    table = problem.secret_table
    chance = np.stack([weight * model.initial for weight, model in zip(table.prior, problem.models, strict=True)])
    if seen is not None and seen.sees_first:
        chance = chance[:, :, None] * seen.matrices_at(0, problem.horizon)[0].toarray()
        model, state, event = np.nonzero(chance)
        chance = chance[model, state, event]
    else:
        model, state = np.nonzero(chance)
        event, chance = np.full(len(model), -1), chance[model, state]
    code = (model * sizes[1] + table.memory_start[state]) * sizes[2] + state
    for one in registers:
        code = code * one.size + one.start(state, event)
    return Opening(code, event, chance)


def _rows(
    parts: Sequence[np.ndarray], steps: Steps, sizes: tuple[int, ...], registers: tuple[Register, ...]
) -> Numbers:
    """The row of the steps of each hidden state, given by its parts."""
    row = parts[0] * sizes[2] + parts[2]
    if len(steps.begin) - 1 == sizes[0] * sizes[2]:
        return row
    (time,) = (values for one, values in zip(registers, parts[3:], strict=True) if isinstance(one, TimeRegister))
    return time * (sizes[0] * sizes[2]) + row


def _follow(
    code: np.ndarray, steps: Steps, sizes: tuple[int, ...], follows: np.ndarray, registers: tuple[Register, ...]
) -> tuple[Numbers, Numbers, Numbers]:
    parts = split(code, sizes)
    model, memory, state, *values = parts
    row = _rows(parts, steps, sizes, registers)
    first, count = steps.begin[row], steps.begin[row + 1] - steps.begin[row]
    source = np.repeat(np.arange(len(code)), count)
    step = ragged(first, count)
    reached, event, before = steps.state[step], steps.event[step], state[source]
    result = (model[source] * sizes[1] + follows[memory[source], reached]) * sizes[2] + reached
    for one, value in zip(registers, values, strict=True):
        result = result * one.size + one.step(value[source], before, reached, event)
    return source, step, result


def _reach(
    opening: Opening,
    steps: Steps,
    sizes: tuple[int, ...],
    follows: np.ndarray,
    registers: tuple[Register, ...],
    most_steps: int | None,
    what: str,
) -> tuple[Int[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """The codes that can be reached within so many steps, and which of them before the last of these."""
    nodes = registers[-1].nodes
    reached = edge = _distinct(opening.code)
    degree = max(1, int(np.diff(steps.begin).max())) * nodes
    at_once = max(1, _AT_ONCE // degree)
    time = 0
    while len(edge) and time != most_steps:
        fresh: list[np.ndarray] = []
        for begin in range(0, len(edge), at_once):
            here = edge[begin : begin + at_once]
            source, _, target = _follow(here, steps, sizes, follows, registers)
            found = target[:, None] + np.arange(nodes)
            found = _distinct(found if nodes == 1 else found[registers[-1].choices(here % sizes[-1])[source]])
            fresh.append(found[~_contains(reached, found)])
            if len(reached) + sum(map(len, fresh)) > MOST_STATES:  # what several pieces found counts once
                fresh = [_distinct(np.concatenate(fresh))]
                _refuse_if_too_many(len(reached) + len(fresh[0]), sizes, time + 1, what)
        edge = _distinct(np.concatenate(fresh))
        # Both are in order already: a stable sort merges the two runs.
        reached, time = np.sort(np.concatenate([reached, edge]), kind="stable"), time + 1
    return reached, ~_contains(edge, reached)


def _refuse_if_too_many(number: int, sizes: tuple[int, ...], steps: int, what: str) -> None:
    if number > MOST_STATES:
        raise TooLargeError(
            f"{what} makes more than {MOST_STATES:,} hidden states of the {math.prod(sizes[:3]):,} without it, within"
            f" {steps} steps: remember less, or shorten the horizon"
        )


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """The numbers once each, in order; NumPy's own way by hashing is ten times slower here."""
    ordered = np.sort(numbers, axis=None)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _contains(ordered: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which of the wanted numbers are among the ordered ones."""
    if not len(ordered):
        return np.zeros(len(wanted), dtype=bool)
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return ordered[place] == wanted
