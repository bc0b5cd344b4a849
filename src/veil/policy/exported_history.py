"""A history policy as the document of a player: its memory is the node of its graph, and the value of a settled secret."""

from typing import Any

import numpy as np

from ..common.errors import InputError, TooLargeError
from ..common.numbering import ragged
from ..problem.problem import Problem
from .history import HistoryPolicy
from .tabulated import COLUMNS, MOST_STEPS, Document, packed_table, tabulated


def history_document(problem: Problem, policy: HistoryPolicy, model: int) -> Document:
    """What `player_document` gives, of a policy that acts on what the problem's own observer sees.

    A memory is a pair (node, value) of one time; up to the time of the secret the value is left out, since the row tells it.

    **Raises:** `InputError` for a policy that acts on what others see, is told where the agent was, or is of an agent that does
    not see its state; `TooLargeError`.
    """
    if policy.views or policy.told is not None or not problem.agent.sees_state:
        words = (
            "it acts on what observers of pairs see, on where the agent was at one time, or on readings alone:"
            " use policy.player(problem)"
        )
        raise InputError("history policy", [words])
    table, observer, size = problem.secret_table, problem.observer, problem.num_states
    held_count = len(table.memory_names)
    memories = [_memories(policy, time, time > table.time) for time in range(policy.horizon)]
    begins = np.cumsum([0, *map(len, memories)])
    rows, chances = [], []
    for time, decisions in enumerate(policy.decisions):
        which, situation = np.divmod(decisions.situation, held_count * size)
        held, state = np.divmod(situation, size)
        right = which == model
        if time == table.time:
            right &= table.label[model, held, state] == decisions.value
        number = _places(memories[time], decisions.node, decisions.value if time > table.time else None)
        rows.append(np.stack([held, begins[time] + number, state], axis=1)[right])
        chances.append(decisions.probabilities[right])
    start = _start(problem, policy, memories[0]) if memories else ({"reading": np.array([-1])}, np.array([0]))
    return {
        "readings": list(observer.observations.all()),
        "rows": np.concatenate(rows).tolist() if rows else [],
        "knowledge": {
            "start": table.memory_start.tolist(),
            "step": table.memory_step.tolist(),
            "known": list(range(held_count)),
        },
        "memory": {
            "nodes": 1,
            "start": tabulated(*start, ("reading",)),
            "step": tabulated(*_steps(problem, policy, model, memories, begins, rows), COLUMNS),
        },
        "table": packed_table(np.concatenate(chances)[None] if chances else np.zeros((1, 0, problem.num_actions))),
    }


def _memories(policy: HistoryPolicy, time: int, settled: bool) -> np.ndarray:
    """The memories of one decision as sorted codes."""
    decisions = policy.decisions[time]
    return np.unique(_codes(decisions.node, decisions.value if settled else None))


def _codes(node: np.ndarray, value: np.ndarray | None) -> np.ndarray:
    return node.astype(np.int64) * 2**32 + (0 if value is None else value)


def _places(memories: np.ndarray, node: np.ndarray, value: np.ndarray | None) -> np.ndarray:
    """The number of each memory, -1 where there is none."""
    wanted = _codes(node, value)
    place = np.minimum(np.searchsorted(memories, wanted), max(len(memories) - 1, 0))
    return np.where((node >= 0) & (memories[place] == wanted), place, -1)


def _start(problem: Problem, policy: HistoryPolicy, memories: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    reading = np.arange(len(policy.first)) if problem.observer.sees_first else np.array([-1])
    found = _places(memories, policy.first[reading if problem.observer.sees_first else [0]], None)
    return {"reading": reading[found >= 0]}, found[found >= 0]


def _steps(
    problem: Problem, policy: HistoryPolicy, model: int, memories: list[np.ndarray], begins: np.ndarray, rows: list[Any]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Each step from a row by an action to a state with a reading, and the memory after it."""
    table, observer, size = problem.secret_table, problem.observer, problem.observer.num_observations
    parts: list[np.ndarray] = []
    total = 0
    for time in range(1, policy.horizon):
        held, memory, state = rows[time - 1].T
        node, value = np.divmod(memories[time - 1][memory - begins[time - 1]], 2**32)
        if time == table.time + 1:
            value = table.label[model, held, state]
        for action in range(problem.num_actions):
            matrix = problem.models[model].matrices[action]
            counts = np.diff(matrix.indptr)[state]
            total += int(counts.sum()) * size
            if total > MOST_STEPS:
                raise TooLargeError(f"the policy has more than {MOST_STEPS:,} steps, too many for an exported player")
            pair = np.repeat(np.arange(len(state)), counts)
            entered = np.repeat(matrix.indices[ragged(matrix.indptr[state], counts)].astype(np.int64), size)
            pair = np.repeat(pair, size)
            reading = np.tile(np.arange(size), len(pair) // max(size, 1))
            event = reading + (action * size if observer.sees_actions else 0)
            after = policy.following[time - 1][node[pair], event]
            number = _places(memories[time], after, value[pair] if time > table.time else None)
            chosen = number >= 0
            columns = (memory[pair], state[pair], np.full(len(pair), action), entered, reading, held[pair])
            parts.append(np.stack([*columns, begins[time] + number])[:, chosen])
    found = np.concatenate(parts, axis=1) if parts else np.zeros((7, 0), dtype=np.int64)
    return dict(zip(COLUMNS, found[:6], strict=True)), found[6]
