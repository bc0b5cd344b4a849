"""Policies as named tables: the header and the rows that both text formats hold, to a policy and back."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from ...common.checks import Defects, check_distributions, distinct
from ...common.errors import PolicyFileError
from ...common.suggest import suggestion
from ...policy.exported import FORM as PLAYER
from ...policy.exported import player_names
from ...policy.markov import MarkovPolicy, TimedPolicy
from ...policy.memories import Memory
from ...policy.memory import MemoryPolicy, memory_from_text, memory_to_text
from ...policy.recall import recall
from ...policy.tabular import TablePolicy
from ...policy.tabulated import packed_table
from ...problem.problem import Problem
from ..documents import Part

FORM = "veil-policy-table-2"
MOST_NUMBERS = 2**26  # of all tables together: 512 MiB

Names = list[str]
Count = Annotated[int, Field(ge=0, lt=2**31)]


class RulePart(Part):
    """A table from the values of some columns, separated by blanks, to a memory."""

    by: list[Literal["memory", "state", "action", "entered", "reading", "held"]]
    table: dict[str, Count]


class MemoryPart(Part):
    """How a memory starts and goes on; with several nodes the policy chooses the next memory itself."""

    nodes: Annotated[int, Field(ge=1, lt=2**31)]
    start: RulePart
    step: RulePart


class KnowledgePart(Part):
    """What the agent follows of the run: its value at each first state, after each next state, and what it tells the agent."""

    start: list[Count]
    step: list[list[Count]]
    known: list[Count]


class FramePart(Part):
    """Where the cells of a map lie: see `veil.Frame`; `rows` of the grid."""

    cell_size: Annotated[float, Field(gt=0, le=1e9)]
    origin: Annotated[list[Annotated[float, Field(ge=-1e9, le=1e9)]], Field(min_length=2, max_length=2)]
    yaw: Annotated[float, Field(ge=-1e9, le=1e9)]
    rows: Count


class PlayerPart(Part):
    """What a player needs beside the table, where the rows are not the states: see `veil.policy.exported.player_document`."""

    states: Names
    actions: Annotated[Names, Field(min_length=1)]
    readings: Names | None
    sees_state: bool
    sees_actions: bool
    first_reading: bool
    horizon: Count | None
    rows: list[Annotated[list[Count], Field(min_length=3, max_length=3)]] | None
    frame: FramePart | None = None
    knowledge: KnowledgePart | None
    memory: MemoryPart | None

    def check(self, rows: int, choices: int, path: str | Path) -> None:
        """Raise `InputError` where the parts do not fit each other."""
        defects, size = Defects(str(path)), len(self.states)
        nodes = 1 if self.memory is None else self.memory.nodes
        count = len(self.states) if self.rows is None else len(self.rows)
        if count != rows or len(self.actions) * nodes != choices:
            found = f"{count} rows and {len(self.actions)} actions with {nodes} nodes"
            defects.add(f"player: {found} found, expected those of the table, {rows} rows and {choices} entries")
        known = self.knowledge
        if known is not None:
            lists = [known.start, *known.step]
            right = len(known.known) == len(known.step) and all(len(one) == size for one in lists)
            if not right or max((max(one, default=0) for one in lists), default=0) >= len(known.step):
                defects.add("player.knowledge: its tables do not fit each other or the states")
        defects.raise_if_any()


class Header(Part):
    """What is said of a policy once: its kind, what it remembers, and the names of its rows and actions, in order."""

    format: Literal["veil-policy-table-2"]
    problem: str
    kind: Literal["markov", "timed", "memory"]
    memory: dict[str, object] | None = None
    horizon: Count
    actions: Annotated[Names, Field(min_length=1)]
    rows: Names
    player: PlayerPart | None = None


@dataclass(frozen=True)
class NamedTable:
    """The rows of one time, or of all times where `time` is None."""

    time: int | None
    rows: Sequence[str]
    probabilities: Float[np.ndarray, "C A"]


@dataclass(frozen=True)
class Row:
    """A row as it was read: where it stands in the file, its time, its name, and its probabilities by action."""

    place: str
    time: int | None
    name: str
    probabilities: Mapping[str, float]


def named_tables(problem: Problem, policy: TablePolicy) -> tuple[dict[str, object], list[NamedTable]]:
    """The header of a policy with tables, as JSON holds it, and the tables.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    policy.check(problem)
    memory = policy.memory if isinstance(policy.memory, Memory) else None
    rows, actions = _names(problem, memory)
    header: dict[str, object] = {
        "format": FORM,
        "problem": problem.name,
        "kind": policy.memory if memory is None else "memory",
        **({} if memory is None else {"memory": json.loads(memory_to_text(memory))}),
        "horizon": problem.horizon,
        "actions": actions,
        "rows": rows,
    }
    player = player_names(problem, policy)
    header |= {} if player is None else {"player": player}
    return header, [NamedTable(time if policy.timed else None, rows, here) for time, here in enumerate(policy.table)]


def policy_of_tables(
    header: Header | None,
    rows: Sequence[Row] | Float[np.ndarray, "T C A"],
    problem: Problem | None,
    path: str | Path,
) -> TablePolicy:
    """The policy that a header and rows describe.

    **Arguments:** `header`: None where the file has none: then the problem is needed, and the policy is a Markov policy or,
    where rows have times, a time-dependent one. `rows`: as they were read, or all probabilities at once. `problem`: rows and
    actions are put in its order, by their names; without it in that of the header.

    **Raises:** `PolicyFileError`; `InputError` naming each place in the file that is wrong.
    """
    if header is None and problem is None:
        raise PolicyFileError(
            f"{path} has no header with the names of states and actions in order: give the problem,"
            " load_policy(path, problem)"
        )
    memory = None
    if header is not None and (header.kind == "memory") != (header.memory is not None):
        raise PolicyFileError(f"{path}: memory is {header.memory!r} in a policy of kind {header.kind!r}")
    if header is not None and header.memory is not None:
        memory = memory_from_text(json.dumps(header.memory), path)
    names, actions = (header.rows, header.actions) if problem is None and header else _names(problem, memory)
    horizon = problem.horizon if header is None and problem else header.horizon if header else 0
    by_time = not isinstance(rows, np.ndarray) and any(row.time is not None for row in rows)
    is_timed = header.kind == "timed" if header else by_time
    timed = memory.clock if memory is not None else is_timed
    if isinstance(rows, np.ndarray):
        assert header is not None
        table = _ordered(rows, header, names, actions, horizon if timed else 1, path)
    else:
        tables = filled_tables(rows, range(horizon) if timed else (None,), [names], actions, path)
        table = np.stack(tables) if tables else np.zeros((0, len(names), len(actions)))
    if memory is not None:
        policy: TablePolicy = MemoryPolicy(memory, table if timed else table[0])
    else:
        policy = TimedPolicy(table) if timed else MarkovPolicy(table[0])
    return policy if header is None or problem is not None else _named_policy(policy, header, path)


def _ordered(
    table: Float[np.ndarray, "T C A"], header: Header, names: Names, actions: Names, times: int, path: str | Path
) -> Float[np.ndarray, "T C A"]:
    """A packed table with rows and actions in the order of the problem."""
    defects = Defects(str(path))
    if table.shape != (times, len(header.rows), len(header.actions)):
        wanted = (times, len(header.rows), len(header.actions))
        defects.add(f"tables have the shape {table.shape}, expected {wanted}, times, rows and actions")
    for what, given, known in (("row", header.rows, names), ("action", header.actions, actions)):
        places = dict.fromkeys(given)
        if len(places) < len(given):
            defects.add(f"a {what} is given twice, expected distinct names")
        for name in [name for name in given if name not in set(known)][:20]:
            defects.add(f"unknown {what} {name!r}: {suggestion(name, known)}")
        for name in [name for name in known if name not in places][:20]:
            defects.add(f"{what} {name!r} is missing")
    defects.raise_if_any()
    row, action = ({name: number for number, name in enumerate(given)} for given in (header.rows, header.actions))
    return table[:, [row[name] for name in names]][:, :, [action[name] for name in actions]]


def _named_policy(policy: TablePolicy, header: Header, path: str | Path) -> TablePolicy:
    """The policy with what a player needs: names of rows, which are the states unless the header says more."""
    if header.player is not None:
        header.player.check(len(header.rows), len(header.actions), path)
    elif isinstance(policy, MemoryPolicy):
        return policy
    own = {"states": header.rows, "actions": header.actions, "horizon": header.horizon if policy.timed else None}
    own |= {"sees_state": True, "sees_actions": False, "first_reading": False}
    own |= dict.fromkeys(("readings", "rows", "frame", "knowledge", "memory"))
    names = own if header.player is None else header.player.model_dump()

    def document() -> dict[str, object]:
        return {"format": PLAYER, "problem": header.problem, **names, "table": packed_table(policy.table)}

    return policy.with_names(document)


def filled_tables(
    rows: Sequence[Row],
    times: Sequence[int | None],
    names: Sequence[Sequence[str]],
    actions: Sequence[str],
    path: str | Path,
) -> list[Float[np.ndarray, "C A"]]:
    """The table of each time, every row given once and a distribution.

    **Arguments:** `names`: of the rows of each time, or of all times where there is one list.

    **Raises:** `InputError` naming each row that is missing, unknown, given twice or no distribution; `PolicyFileError`
    where the tables would be too large.
    """
    total = sum(map(len, names)) if len(names) > 1 else len(times) * max(len(names[0]), 1)
    if total * len(actions) > MOST_NUMBERS:
        raise PolicyFileError(f"{path} describes more than {MOST_NUMBERS:,} probabilities, expected fewer")
    each = [names[min(step, len(names) - 1)] for step in range(len(times))]
    defects = Defects(str(path))
    steps = {time: step for step, time in enumerate(times)}
    known = [{name: number for number, name in enumerate(some)} for some in names]
    columns = {action: number for number, action in enumerate(actions)}
    tables = [np.zeros((len(some), len(actions))) for some in each]
    place: list[list[str]] = [[""] * len(some) for some in each]
    for row in rows:
        step = steps.get(row.time)
        if step is None:
            defects.add(f"{row.place}: time {_time(row.time)} found, expected {_expected(times)}")
            continue
        number = known[min(step, len(known) - 1)].get(row.name)
        if number is None:
            defects.add(f"{row.place}: unknown row {row.name!r}: {suggestion(row.name, each[step])}")
            continue
        if place[step][number]:
            defects.add(f"{row.place}: row {row.name!r} is given again, expected once: it is in {place[step][number]}")
        place[step][number] = row.place
        for action, probability in row.probabilities.items():
            if action not in columns:
                defects.add(f"{row.place}: unknown action {action!r}: {suggestion(action, actions)}")
            else:
                tables[step][number, columns[action]] = probability
    for step, (time, some) in enumerate(zip(times, each, strict=True)):
        for number in [number for number, found in enumerate(place[step]) if not found][:21]:
            when = "" if time is None else f" at time {time}"
            defects.add(f"row {some[number]!r}{when} is missing, expected its probabilities")
    defects.raise_if_any()
    for step, table in enumerate(tables):
        check_distributions(
            table,
            lambda row, step=step: f"{place[step][row]}: row {each[step][row]!r}",
            lambda row, entry, step=step: f"{place[step][row]}: action {actions[entry]!r} in row {each[step][row]!r}",
            defects,
        )
    defects.raise_if_any()
    return tables


def _names(problem: Problem | None, memory: Memory | None) -> tuple[Names, Names]:
    """The names of the rows and of the entries of a table, in order."""
    assert problem is not None
    if memory is None:
        return distinct(problem.cell_names), list(problem.model.actions.all())
    rows = recall(problem, memory)
    return distinct(rows.cell_names), distinct(rows.action_names)


def _time(time: int | None) -> str:
    return "(none)" if time is None else str(time)


def _expected(times: Sequence[int | None]) -> str:
    return "none: the policy does not depend on the time" if None in times else f"one from 0 to {len(times) - 1}"
