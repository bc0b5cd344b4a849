"""A policy with the names that a robot needs, as one document: `veil.policy.runtime.Player` plays it without the problem."""

import numpy as np
from jaxtyping import Int

from ..common.errors import InputError, TooLargeError
from ..common.numbering import ragged
from ..problem.problem import Problem
from .exported_history import history_document
from .history import HistoryPolicy
from .memories import Memory
from .player import possible_models
from .policy import Policy, check_call
from .recall import Recall, recall
from .tabular import TablePolicy
from .tabulated import COLUMNS, MOST_STEPS, Document, packed_table, tabulated

FORM = "veil-player-2"
_OF_TABLES = COLUMNS[:5]  # what a memory of a table may depend on
_ADDED = (
    "states", "actions", "readings", "sees_state", "sees_actions", "first_reading", "horizon", "rows", "frame", "knowledge",
    "memory",
)  # fmt: skip


def player_document(problem: Problem, policy: Policy, *, model: int | None = None) -> Document:
    """All that a player needs, as JSON holds it.

    `table` has the probabilities, of shape (times, rows, choices). Where `rows` is null, the rows are the states; else each is
    `[known, memory, state]`, or `[known, memory, reading]` if not `sees_state`. `memory` says how the memory starts and goes
    on, as a table from the values of `by`; `knowledge`, what the agent follows of the run beside its state.

    **Arguments:** `model`: as for `Policy.player`.

    **Raises:** `InputError` if the policy does not fit the problem or has no table; `TooLargeError`.
    """
    check_call(problem, policy)
    found = policy.on(problem)
    if isinstance(found, HistoryPolicy):
        found.player(problem, model=model)  # which refuses what no agent can execute
        first = possible_models(problem, model)[0]
        return _common(problem, problem.horizon) | history_document(problem, found, first)
    if not isinstance(found, TablePolicy):
        words = f"{found.describe()} has no exported player: play it with policy.player(problem)"
        raise InputError("policy", [words])
    found.check(problem)
    first = possible_models(problem, model)[0]
    return _names(problem, found, first) | {"table": packed_table(found.table)}


def player_names(problem: Problem, policy: TablePolicy) -> Document | None:
    """The document without the table; None where the agent knows which model runs, so that each model has its own.

    What the file of a policy says anyway is left out: where the rows are the states of no map, there is nothing to add.
    """
    if len(problem.models) > 1 and problem.agent.knows_model:
        return None
    names = _names(problem, policy, possible_models(problem, None)[0])
    return None if names["rows"] is None and names["frame"] is None else {key: names[key] for key in _ADDED}


def _names(problem: Problem, policy: TablePolicy, model: int) -> Document:
    rows = recall(problem, policy.memory) if isinstance(policy.memory, Memory) else None
    span = problem.horizon if policy.timed else None
    if isinstance(policy.memory, Memory):
        span = policy.memory.span(problem)
    knowledge = _knowledge(problem, model)
    observer = problem.agent.sees or problem.observer
    sees_state = problem.agent.sees_state
    reads = not sees_state or (rows is not None and rows.register.reads_events)
    return _common(problem, span) | {
        "readings": list(observer.observations.all()) if reads else None,
        "rows": None if rows is None and knowledge is None and sees_state else _rows(problem, rows),
        "knowledge": knowledge,
        "memory": None if rows is None else _memory(problem, rows),
    }


def _common(problem: Problem, span: int | None) -> Document:
    """What the documents of all policies have."""
    observer = problem.agent.sees or problem.observer
    return {
        "format": FORM,
        "problem": problem.name,
        "states": list(problem.model.states.all()),
        "actions": list(problem.model.actions.all()),
        "sees_state": problem.agent.sees_state,
        "sees_actions": observer.sees_actions,
        "first_reading": bool(observer.sees_first),
        "horizon": span,
        "frame": _frame(problem),
    }


def _frame(problem: Problem) -> Document | None:
    """Where the cells lie in metres, None where the states are no cells or that is not known."""
    layout = problem.layout
    if layout is None or layout.frame is None:
        return None
    names = [f"r{row}c{column}" for row, column in layout.cells]
    if names != list(problem.model.states.all()):
        return None
    frame = layout.frame
    return {"cell_size": frame.cell_size, "origin": list(frame.origin), "yaw": frame.yaw, "rows": layout.rows}


def _knowledge(problem: Problem, model: int) -> Document | None:
    """The register that the agent follows, None where it tells it nothing."""
    known = problem.channels[0].known[model]
    if not known.any():
        return None
    table = problem.secret_table
    return {"start": table.memory_start.tolist(), "step": table.memory_step.tolist(), "known": known.tolist()}


def _rows(problem: Problem, rows: Recall | None) -> list[list[int]]:
    """What each row is for: `[known, memory, state]`, or the number of the newest reading in place of the state."""
    if rows is None:
        cells, memory = np.arange(problem.num_cells), np.zeros(problem.num_cells, dtype=int)
    else:
        cells, memory = np.divmod(rows.rows[0], rows.register.size)
    known, place = np.divmod(cells, problem.num_states if problem.reading is None else problem.reading.size)
    return np.stack([known, memory, place], axis=1).tolist()


def _memory(problem: Problem, rows: Recall) -> Document:
    register = rows.register
    start = tabulated(*_starts(problem, rows), ("entered", "reading"))
    if register.nodes > 1:
        return {"nodes": register.nodes, "start": start, "step": {"by": [], "table": {}}}
    return {"nodes": 1, "start": start, "step": tabulated(*_steps(problem, rows), _OF_TABLES)}


def _starts(problem: Problem, rows: Recall) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Each first state with each first event, and the memory after them."""
    states = np.flatnonzero(np.max([one.initial for one in problem.models], axis=0) > 0)
    observer = problem.agent.sees or problem.observer
    if rows.register.reads_events and observer.sees_first:
        state, event = (
            part.ravel() for part in np.meshgrid(states, np.arange(observer.num_observations), indexing="ij")
        )
    else:
        state, event = states, np.full(len(states), -1)
    return {"entered": state, "reading": event}, rows.register.start(state, event)


def _steps(problem: Problem, rows: Recall) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Each possible step from what is remembered in a state, with each event, and the memory after it."""
    register, observer = rows.register, problem.agent.sees or problem.observer
    if not problem.agent.sees_state:
        return _steps_of_readings(problem, rows)
    codes = np.unique(_pairs(problem, rows))
    memory, state = np.divmod(codes, problem.num_states)
    seen = np.arange(observer.num_observations) if register.reads_events else np.array([-1])
    by_action = register.reads_events and observer.sees_actions
    parts = []
    for action in range(problem.num_actions if by_action else 1):
        chosen = [action] if by_action else range(problem.num_actions)
        graph = sum(abs(one.matrices[a]) for one in problem.models for a in chosen)
        counts = np.diff(graph.indptr)[state]  # pyright: ignore[reportAttributeAccessIssue]
        if sum(len(part[0]) for part in parts) + counts.sum() * len(seen) > MOST_STEPS:
            raise TooLargeError(f"the memory has more than {MOST_STEPS:,} steps, too many for an exported player")
        pair = np.repeat(np.arange(len(state)), counts)
        entered = graph.indices[ragged(graph.indptr[state], counts)]  # pyright: ignore[reportAttributeAccessIssue]
        pair, entered = np.repeat(pair, len(seen)), np.repeat(entered.astype(np.int64), len(seen))
        reading = np.tile(seen, len(pair) // len(seen))
        parts.append((memory[pair], state[pair], np.full(len(pair), action), entered, reading))
    columns: dict[str, np.ndarray] = {
        name: np.concatenate([part[i] for part in parts]) for i, name in enumerate(_OF_TABLES)
    }
    event = columns["reading"] + (columns["action"] * observer.num_observations if by_action else 0)
    return columns, register.step(columns["memory"], columns["state"], columns["entered"], event)


def _steps_of_readings(problem: Problem, rows: Recall) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Each reading after each memory of an agent that does not see its state, and the memory after it."""
    register, observer = rows.register, problem.agent.sees or problem.observer
    memory = np.unique(rows.rows[0] % register.size)
    actions = problem.num_actions if observer.sees_actions else 1
    parts = np.meshgrid(memory, np.arange(actions), np.arange(observer.num_observations), indexing="ij")
    if parts[0].size > MOST_STEPS:
        raise TooLargeError(f"the memory has more than {MOST_STEPS:,} steps, too many for an exported player")
    columns = {name: part.ravel() for name, part in zip(("memory", "action", "reading"), parts, strict=True)}
    event = columns["reading"] + columns["action"] * observer.num_observations
    columns |= {name: np.zeros_like(event) for name in ("state", "entered")}
    return columns, register.step(columns["memory"], columns["state"], columns["entered"], event)


def _pairs(problem: Problem, rows: Recall) -> Int[np.ndarray, " n"]:
    """The pairs of a memory and a state of the rows, as one number each."""
    cell, memory = np.divmod(rows.rows[0], rows.register.size)
    return memory * problem.num_states + cell % problem.num_states
