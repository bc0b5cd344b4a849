"""History policies as named tables: the graph of what was seen, and the choices at each of its nodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Int
from pydantic import Field

from ...common.checks import distinct
from ...common.errors import InputError, PolicyFileError
from ...engine.followed import follow
from ...engine.hidden import event_name
from ...policy.history import Decisions, HistoryPolicy
from ...problem.apart import Apart, apart
from ...problem.problem import Problem
from ..documents import Part
from .tables import FORM, MOST_NUMBERS, Count, NamedTable, Names, Row, filled_tables

Event = str | list[str] | None  # an observation, a pair (action, observation), or None where the start is not seen


class Step(Part):
    """An edge of the graph: the node after an event, at time 0 from no node."""

    time: Count
    source: Annotated[Count | None, Field(alias="from")]
    event: Event
    to: Count


class Change(Part):
    """A change of node after the event, by the situation that the agent is in then."""

    source: Annotated[Count, Field(alias="from")]
    state: str
    situation: Count
    to: Count


class Told(Part):
    """The time at which the node comes to remember the situation: from `shape[0]` nodes, in `shape[1]` situations."""

    time: Count
    shape: Annotated[list[Count], Field(min_length=2, max_length=2)]
    changes: list[Change]


class SeenPart(Part):
    """What the observer of a pair receives at each first event of the policy, and at each later one, by number."""

    first: list[Count]
    events: list[Count]


class HistoryRow(Part):
    """What a row of the tables is for."""

    row: str
    node: Count
    situation: Count
    value: Annotated[int, Field(ge=-1, lt=2**31)]


class HistoryHeader(Part):
    """What is said of a history policy once; the tables have one row for each of `rows[time]`."""

    format: Literal["veil-policy-table-2"]
    problem: str
    kind: Literal["history"]
    executable: bool
    horizon: Count
    actions: Annotated[Names, Field(min_length=1)]
    first_events: list[Event]
    events: list[Event]
    nodes: list[Count]
    graph: list[Step]
    told: Told | None = None
    sees: dict[str, SeenPart] = Field({})
    rows: list[list[HistoryRow]]


def named_history(problem: Problem, policy: HistoryPolicy) -> tuple[dict[str, object], list[NamedTable]]:
    """The header of a history policy, as JSON holds it, and the tables.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    follow(problem, policy)  # refuses a policy that does not fit
    together = apart(problem, policy.sees) if policy.views else None
    first_events, events = _named_events(problem, policy, together)
    problem = problem if together is None else together.joint
    sees = {name: {"first": first.tolist(), "events": later.tolist()} for name, (first, later) in policy.views.items()}
    names = [distinct([_row_name(problem, *place) for place in _places(rows)]) for rows in policy.decisions]
    header: dict[str, object] = {
        "format": FORM,
        "problem": problem.name,
        "kind": "history",
        "executable": policy.executable,
        "horizon": policy.horizon,
        "actions": list(problem.model.actions.all()),
        "first_events": first_events,
        "events": events,
        "nodes": [len(table) for table in policy.following],
        "graph": _graph(policy, first_events, events),
        **_told(problem, policy),
        **({"sees": sees} if sees else {}),
        "rows": [
            [
                {"row": name, "node": node, "situation": situation, "value": value}
                for name, (node, situation, value) in zip(some, _places(rows), strict=True)
            ]
            for some, rows in zip(names, policy.decisions, strict=True)
        ],
    }
    tables = zip(names, policy.decisions, strict=True)
    return header, [NamedTable(time, some, rows.probabilities) for time, (some, rows) in enumerate(tables)]


def history_of_tables(
    header: HistoryHeader, rows: Sequence[Row], problem: Problem | None, path: str | Path
) -> HistoryPolicy:
    """The history policy that a header and rows describe.

    **Raises:** `PolicyFileError`, `InputError` naming the place in the file.
    """
    if problem is not None and list(problem.model.actions.all()) != header.actions:
        known = ", ".join(map(repr, problem.model.actions.all()))
        raise InputError(str(path), [f"its actions are {header.actions}, expected those of the problem: {known}"])
    if not len(header.nodes) == len(header.rows) == header.horizon:
        raise PolicyFileError(f"{path}: nodes and rows are not lists of {header.horizon} entries, as horizon says")
    shapes = [(size, len(header.events)) for size in header.nodes]
    shapes += [] if header.told is None else [(header.told.shape[0], header.told.shape[1])]
    if sum(size * width for size, width in shapes) > MOST_NUMBERS:
        raise PolicyFileError(f"{path} describes a graph of more than {MOST_NUMBERS:,} entries, expected fewer")
    first = np.full(len(header.first_events), -1, dtype=np.int32)
    following = [np.full(shape, -1, dtype=np.int32) for shape in shapes[: header.horizon]]
    for number, step in enumerate(header.graph):
        _put_step(step, first, following, header, f"{path}: graph[{number}]")
    names = [[row.row for row in some] for some in header.rows]
    tables = filled_tables(rows, range(header.horizon), names, header.actions, path) if names else []
    decisions = [
        Decisions(
            np.array([row.node for row in some], dtype=np.int32),
            np.array([row.situation for row in some], dtype=np.int64),
            np.array([row.value for row in some], dtype=np.int32),
            table,
        )
        for some, table in zip(header.rows, tables, strict=True)
    ]
    told_at, told = (None, None) if header.told is None else (header.told.time, _told_array(header.told, path))
    views = {name: (np.array(one.first), np.array(one.events)) for name, one in header.sees.items()}
    more = {"executable": header.executable, "told_at": told_at, "told": told, "views": views}
    try:
        return HistoryPolicy(first, following, decisions, **more)
    except InputError as error:
        raise InputError(f"{path}: {error.subject}", error.defects) from None


def _put_step(step: Step, first: np.ndarray, following: list[np.ndarray], header: HistoryHeader, place: str) -> None:
    """Enter one edge of the graph."""
    events = header.events if step.time else header.first_events
    if step.event not in events:
        raise PolicyFileError(f"{place}: event {step.event!r} is not in the list of events")
    if step.time > header.horizon or (step.source is None) != (step.time == 0):
        raise PolicyFileError(f"{place}: time {step.time} from node {step.source} is not a step of the graph")
    table = following[step.time - 1] if step.time else first[None]
    if (step.source or 0) >= len(table):
        raise PolicyFileError(f"{place}: node {step.source} found, expected one below {len(table)} at time {step.time}")
    table[step.source or 0, events.index(step.event)] = step.to


def _told_array(told: Told, path: str | Path) -> Int[np.ndarray, "m C"]:
    nodes = np.full(told.shape, -1, dtype=np.int32)
    for number, change in enumerate(told.changes):
        if change.source >= told.shape[0] or change.situation >= told.shape[1]:
            raise PolicyFileError(f"{path}: told.changes[{number}] is outside the shape {told.shape}")
        nodes[change.source, change.situation] = change.to
    return nodes


def _places(rows: Decisions) -> list[tuple[int, int, int]]:
    return list(zip(rows.node.tolist(), rows.situation.tolist(), rows.value.tolist(), strict=True))


def _event(problem: Problem, event: int, time: int) -> Event:
    if time == 0 and not problem.observer.sees_first:
        return None
    seen = event_name(problem, event, time)
    return list(seen) if isinstance(seen, tuple) else seen


def _named_events(problem: Problem, policy: HistoryPolicy, together: Apart | None) -> tuple[list[Event], list[Event]]:
    """The names of the policy's first and later events; those of several observers are as `Together` names them."""
    later = policy.following[0].shape[1] if policy.horizon else 0
    if together is None:
        return [_event(problem, event, 0) for event in range(len(policy.first))], [
            _event(problem, event, 1) for event in range(later)
        ]
    found: tuple[list[Event], list[Event]] = [], []
    for time, (names, size, heard) in enumerate(
        zip(found, (len(policy.first), later), policy.heard(together), strict=True)
    ):
        names += [f"impossible event {number}" for number in range(size)]
        for event, number in enumerate(heard.tolist()):
            if number >= 0:
                names[number] = _event(together.joint, event, time)
    return found


def _graph(policy: HistoryPolicy, first: list[Event], events: list[Event]) -> list[dict[str, object]]:
    """The steps `{"time": t, "from": node, "event": event, "to": node}`; those of time T come after the last decision."""
    steps: list[dict[str, object]] = []
    tables: list[Int[np.ndarray, "n E"]] = [policy.first[None], *policy.following]
    for time, table in enumerate(tables):
        for node, event in np.argwhere(table >= 0).tolist():
            source, to = node if time else None, int(table[node, event])
            steps.append({"time": time, "from": source, "event": (events if time else first)[event], "to": to})
    return steps


def _told(problem: Problem, policy: HistoryPolicy) -> dict[str, object]:
    """Where the policy remembers in which situation the agent was at one time: the changes of node at that time."""
    if policy.told is None:
        return {}
    changes = [
        {
            "from": node,
            "state": _situation_name(problem, situation),
            "situation": situation,
            "to": int(policy.told[node, situation]),
        }
        for node, situation in np.argwhere(policy.told >= 0).tolist()
    ]
    return {"told": {"time": policy.told_at, "shape": list(policy.told.shape), "changes": changes}}


def _row_name(problem: Problem, node: int, situation: int, value: int) -> str:
    known = f", secret {problem.secret_values[value]}" if value >= 0 else ""
    return f"node {node}: {_situation_name(problem, situation)}{known}"


def _situation_name(problem: Problem, situation: int) -> str:
    table = problem.secret_table
    rest, state = divmod(situation, problem.num_states)
    model, memory = divmod(rest, len(table.memory_names))
    parts = [problem.model.states[state]]
    parts += [f"memory {table.memory_names[memory]}"] if len(table.memory_names) > 1 else []
    parts += [f"model {model}"] if len(problem.models) > 1 else []
    return ", ".join(parts)
