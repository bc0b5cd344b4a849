"""Every pair of situation and memory that some policy can reach: the rows of a table with memory, and the steps between."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.errors import InputError, TooLargeError
from ..common.memo import memo
from ..common.numbering import ragged
from ..problem.observer import Observer
from ..problem.problem import Problem
from .memories.memory import LARGEST, Memory, Register, choices

MOST_STATES = 2_000_000
_AT_ONCE = 2**21  # steps that are followed at a time


@dataclass(frozen=True, eq=False)
class Steps:
    """All possible steps of the models: from row `k · S + s` those at `begin[row] … begin[row + 1]`.

    A step leads to `state` and, where the memory reads events, shows `event` (else 0); `chance[step, a]` is
    `P(s'|s,a)`, or `P(s'|s,a) b_a(e|s')`.
    """

    begin: Int[np.ndarray, " KS+1"]
    state: Int[np.ndarray, " n"]
    event: Int[np.ndarray, " n"]
    chance: Float[np.ndarray, "n A"]


@dataclass(frozen=True, eq=False)
class Opening:
    """All possible starts: `chance` of starting in `code` with a first `event` (-1 where the memory reads none)."""

    code: Int[np.ndarray, " n"]
    event: Int[np.ndarray, " n"]
    chance: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Recall:
    """The situations that an agent with a memory can get into, in order of their codes.

    A situation is `(model, secret's memory, state, memory)`, coded as `((k · M + m) · S + s) · size + memory`. A row of
    a policy's table is a pair `(row of the problem, memory)`, coded and ordered likewise. `goes_on` marks situations
    whose steps are kept: all but those first reached when the horizon ends.

    The actions are those of the model; of a controller they are the pairs (action, next node), `a · nodes + node`.
    """

    memory: Memory
    register: Register
    steps: Steps
    opening: Opening
    shape: tuple[int, int, int]
    secret_step: Int[np.ndarray, "M S"]
    known: Int[np.ndarray, "K M"]
    code: Int[np.ndarray, " N"]
    goes_on: Bool[np.ndarray, " N"]
    base_available: Bool[np.ndarray, "c A"]
    base_cell_names: tuple[str, ...]
    base_action_names: tuple[str, ...]

    @cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of each situation: the model, the secret's memory, the state, the agent's memory."""
        return _parts(self.code, self.shape, self.register.size)

    @cached_property
    def rows(self) -> tuple[Int[np.ndarray, " C"], Int[np.ndarray, " N"]]:
        """The codes of the table's rows, and the row of each situation."""
        situation, memory = np.divmod(self.code, self.register.size)
        rest, state = np.divmod(situation, self.shape[2])
        cell = self.known.ravel()[rest] * self.shape[2] + state
        codes, row = np.unique(cell * self.register.size + memory, return_inverse=True)
        return codes, row.ravel()

    @property
    def num_cells(self) -> int:
        """How many rows a table has."""
        return len(self.rows[0])

    @property
    def num_actions(self) -> int:
        """How many entries a row has."""
        return self.base_available.shape[1] * self.register.nodes

    @cached_property
    def available(self) -> Bool[np.ndarray, "C A"]:
        """Which entries of a row may be positive."""
        return np.repeat(self.base_available[self.rows[0] // self.register.size], self.register.nodes, axis=1)

    @cached_property
    def cell_names(self) -> tuple[str, ...]:
        """The name of each row."""
        pairs = zip(*(part.tolist() for part in np.divmod(self.rows[0], self.register.size)), strict=True)
        return tuple(f"{self.base_cell_names[cell]} ({self.register.name(memory)})" for cell, memory in pairs)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """The name of each entry of a row."""
        if self.register.nodes == 1:
            return self.base_action_names
        return tuple(f"{name}, to node {n}" for name in self.base_action_names for n in range(self.register.nodes))

    def find_row(self, cell: int, memory: int) -> int | None:
        """The row of a pair (row of the problem, memory); None where it cannot be reached."""
        codes, wanted = self.rows[0], cell * self.register.size + memory
        place = int(np.searchsorted(codes, wanted))
        return place if place < len(codes) and codes[place] == wanted else None

    def follow(self, code: Int[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All steps from some situations: position of the source, number of the step, code that is reached.

        Where the agent chooses its next memory, the code is that of memory 0; the others follow it.
        """
        return _follow(code, self.steps, self.shape, self.secret_step, self.register)


def recall(problem: Problem, memory: Memory) -> Recall:
    """What an agent with this memory can get into, in this problem.

    Cost: linear in the steps between the situations; found once for each problem and memory.

    **Raises:** `InputError` where the problem does not allow the memory; `TooLargeError` beyond two million situations.
    """
    if not isinstance(memory, Memory):
        raise InputError("memory", [f"it is {memory!r}, expected one of {choices()}"])
    memory = memory.resolve(problem)
    return memo(problem, (recall, memory), lambda: _explore(problem, memory))


def _explore(problem: Problem, memory: Memory) -> Recall:
    register, table = memory.register(problem), problem.secret_table
    shape = (len(problem.models), len(table.memory_names), problem.num_states)
    if register.size * math.prod(shape) > LARGEST:
        raise TooLargeError(
            f"{memory.name} over {math.prod(shape):,} hidden states has more than 2^62 values: remember less"
        )
    steps = _steps(problem, register)
    opening = _opening(problem, register, shape)
    code, goes_on = _reach(opening, steps, shape, table.memory_step, register, memory.span(problem), memory.name)
    return Recall(
        memory=memory,
        register=register,
        steps=steps,
        opening=opening,
        shape=shape,
        secret_step=table.memory_step,
        known=problem.channels[0].known,
        code=code,
        goes_on=goes_on,
        base_available=problem.available,
        base_cell_names=problem.cell_names,
        base_action_names=problem.model.actions.all(),
    )


def _steps(problem: Problem, register: Register) -> Steps:
    size, count = problem.num_states, problem.num_actions
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
    if register.reads_events:
        key, event, chance = _with_events(key, chance, problem.observer, size)
    row, state = np.divmod(key, size)
    begin = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(problem.models) * size))])
    return Steps(begin, state, event, chance)


def _with_events(
    key: np.ndarray, chance: np.ndarray, observer: Observer, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each step once for each event that it can show."""
    emissions = observer.emissions if observer.on_actions else observer.emissions[None]
    actions = np.arange(chance.shape[1])
    keys, events, chances = [], [], []
    for event in range(observer.num_observations * (len(actions) if observer.sees_actions else 1)):
        action, observation = divmod(event, observer.num_observations)
        shown = chance * emissions[:, key % size, observation].T
        if observer.sees_actions:
            shown = shown * (actions == action)
        possible = np.flatnonzero(shown.any(axis=1))
        keys.append(key[possible])
        events.append(np.full(len(possible), event))
        chances.append(shown[possible])
    key, event = np.concatenate(keys), np.concatenate(events)
    order = np.lexsort((event, key))
    return key[order], event[order], np.concatenate(chances)[order]


def _opening(problem: Problem, register: Register, shape: tuple[int, int, int]) -> Opening:
    table, observer = problem.secret_table, problem.observer
    weights = np.ones(1) if table.weights is None else table.weights
    chance = np.stack([weight * model.initial for weight, model in zip(weights, problem.models, strict=True)])
    if register.reads_events and observer.sees_first:
        chance = chance[:, :, None] * observer.emissions
        model, state, event = np.nonzero(chance)
        chance = chance[model, state, event]
    else:
        model, state = np.nonzero(chance)
        event, chance = np.full(len(model), -1), chance[model, state]
    situation = (model * shape[1] + table.memory_start[state]) * shape[2] + state
    return Opening(situation * register.size + register.start(state, event), event, chance)


def _parts(
    code: np.ndarray, shape: tuple[int, int, int], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    situation, memory = np.divmod(code, size)
    rest, state = np.divmod(situation, shape[2])
    model, secret = np.divmod(rest, shape[1])
    return model, secret, state, memory


def _follow(
    code: np.ndarray, steps: Steps, shape: tuple[int, int, int], secret_step: np.ndarray, register: Register
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    model, secret, state, memory = _parts(code, shape, register.size)
    row = model * shape[2] + state
    first, count = steps.begin[row], steps.begin[row + 1] - steps.begin[row]
    source = np.repeat(np.arange(len(code)), count)
    step = ragged(first, count)
    reached = steps.state[step]
    known = model[source] * shape[1] + secret_step[secret[source], reached]
    kept = register.step(memory[source], state[source], reached, steps.event[step])
    return source, step, (known * shape[2] + reached) * register.size + kept


def _reach(
    opening: Opening,
    steps: Steps,
    shape: tuple[int, int, int],
    secret_step: np.ndarray,
    register: Register,
    most_steps: int | None,
    what: str,
) -> tuple[Int[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """The codes that can be reached within so many steps, and which of them before the last of these."""
    reached = edge = _distinct(opening.code)
    degree = max(1, int(np.diff(steps.begin).max())) * register.nodes
    at_once = max(1, _AT_ONCE // degree)
    time = 0
    while len(edge) and time != most_steps:
        fresh: list[np.ndarray] = []
        for begin in range(0, len(edge), at_once):
            target = _follow(edge[begin : begin + at_once], steps, shape, secret_step, register)[2]
            found = _distinct(target[:, None] + np.arange(register.nodes))
            fresh.append(found[~_contains(reached, found)])
            if len(reached) + sum(map(len, fresh)) > MOST_STATES:  # what several pieces found counts once
                fresh = [_distinct(np.concatenate(fresh))]
                _refuse_if_too_many(len(reached) + len(fresh[0]), shape, time + 1, what)
        edge = _distinct(np.concatenate(fresh))
        # Both are in order already: a stable sort merges the two runs.
        reached, time = np.sort(np.concatenate([reached, edge]), kind="stable"), time + 1
    return reached, ~_contains(edge, reached)


def _refuse_if_too_many(number: int, shape: tuple[int, int, int], steps: int, what: str) -> None:
    if number > MOST_STATES:
        raise TooLargeError(
            f"{what} makes more than {MOST_STATES:,} hidden states of the {math.prod(shape):,} without it, within {steps}"
            " steps: remember less, or shorten the horizon"
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
