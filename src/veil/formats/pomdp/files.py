"""Cassandra's `.pomdp` files in and out: the format of pomdp-solve and of most collections of examples."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ...common.errors import ModelFileError
from ...problem.model import Model
from ...problem.observer import Observer
from ..imported import Imported
from ..rows import rescaled, rescaling_note
from ..text import read_text, write_file
from .entries import Entries, Rows
from .reader import Parsed, Reader
from .rewards import average_rewards
from .tokens import Tokens
from .writer import format_pomdp

LIMIT = 2**22  # numbers that transitions, observations and rewards may each expand to
MOST_BYTES = 2**28
RESCALE = 1e-5  # what pomdp-solve accepts: its own examples give six digits
_LISTED = 20
Fault = tuple[int | None, str]  # the line, where there is one, and what is wrong


def from_pomdp(
    path: str | Path, *, sees_actions: bool = False, rescale: float = RESCALE, limit: int = LIMIT
) -> Imported:
    """The model in a `.pomdp` file, which may also be an MDP without observations.

    **Arguments:**

    - `sees_actions`: whether the observer sees the actions too.
    - `rescale`: a row of probabilities that misses 1 by at most this is divided by its sum, and a note says so; 0
      refuses it. (Rows within 1e-9 are used as given, as everywhere.)
    - `limit`: how many numbers transitions, observations and rewards may each expand to, wildcards written out.

    Observations are of (action, next state), and there is none at time 0; they are of the state alone if the file
    does not make them depend on the action. Rewards `R(a, s, s', o)` are averaged to `R(s, a)`; costs are negated.

    Cost: linear in the file and in what wildcards expand to. Nothing is executed.

    **Raises:** `ModelFileError` naming the line.
    """
    return parse_pomdp(read_text(path, MOST_BYTES), path, sees_actions=sees_actions, rescale=rescale, limit=limit)


def parse_pomdp(
    text: str,
    path: str | Path = "text",
    *,
    sees_actions: bool = False,
    rescale: float = RESCALE,
    limit: int = LIMIT,
) -> Imported:
    """As `from_pomdp`, from text; `path` is used in messages."""
    parsed = Reader(Tokens(text, path), limit, rescale).read()
    transitions = [parsed.transitions.resolve(action) for action in range(parsed.actions.size)]
    faults: list[Fault] = []
    transitions = _whole(transitions, parsed, rescale, "transition row", "state", faults)
    emissions = None
    if parsed.emissions is not None:
        emissions = _emissions(parsed, parsed.emissions, path, rescale, limit, faults)
    _raise_faults(path, faults)
    size = parsed.states.size
    matrices = [sp.csr_array((r.value, (r.row, r.column)), shape=(size, size)) for r in transitions]
    rewards = _rewards(parsed, transitions, emissions, limit, path)
    model = Model(
        matrices,
        rewards,
        parsed.start,
        parsed.discount,
        state_names=parsed.states.names,
        action_names=parsed.actions.names,
    )
    observer = None
    if emissions is not None and parsed.observations is not None:
        observer = Observer(emissions, parsed.observations.names, sees_actions, sees_initial=False)
    kind = "MDP in Cassandra's format" if observer is None else "POMDP in Cassandra's format"
    return Imported(model, observer, Path(path).name, kind, tuple(parsed.notes))


def save_pomdp(path: str | Path, imported: Imported) -> tuple[str, ...]:
    """Write a model as a `.pomdp` file, complete or not at all; see `format_pomdp`.

    **Returns:** notes on what the format cannot express and the file leaves out.

    **Raises:** `InputError` where the file would mean another model; `ModelFileError` where it cannot be written.
    """
    text, notes = format_pomdp(imported.model, imported.observer)
    write_file(path, text)
    lost = [name for name, kept in (("variables", imported.valuations), ("labels", imported.labels)) if kept]
    return (*notes, *(f"the {name} are left out: the format has none" for name in lost))


def _whole(
    tables: list[Rows],
    parsed: Parsed,
    rescale: float,
    what: str,
    row_kind: str,
    faults: list[Fault],
) -> list[Rows]:
    """The rows of each action, rescaled to sums of one where they miss it by a little; faults noted where by more."""
    result: list[Rows] = []
    worst, count = 0.0, 0
    for action, rows in enumerate(tables):
        found = rescaled(rows.row, rows.value, parsed.states.size, rescale)
        for row in np.flatnonzero(found.wrong)[: _LISTED + 1].tolist():
            place = f"{what} (action {parsed.actions.text(action)}, {row_kind} {parsed.states.text(row)})"
            lines = rows.line[rows.row == row]
            if len(lines):
                faults.append((int(lines.max()), f"{place} sums to {found.sums[row]:.12g}, expected 1"))
            else:
                faults.append((None, f"{place} is not given, expected probabilities that sum to 1"))
        if len(faults) > _LISTED:
            return tables
        worst, count = max(worst, found.worst), count + found.count
        result.append(Rows(rows.row, rows.column, found.values, rows.line))
    parsed.notes += rescaling_note(what, count, worst)
    return result


def _emissions(
    parsed: Parsed,
    entries: Entries,
    path: str | Path,
    rescale: float,
    limit: int,
    faults: list[Fault],
) -> np.ndarray | None:
    """`(S, O)` where the action does not matter, else `(A, S, O)`; None with the faults noted."""
    num_actions, num_states, num_observations = entries.shape
    tables = [entries.resolve(action) for action in range(num_actions)]
    first = tables[0]
    alike = all(
        np.array_equal(first.row, other.row)
        and np.array_equal(first.column, other.column)
        and np.array_equal(first.value, other.value)
        for other in tables[1:]
    )
    size = num_states * num_observations * (1 if alike else num_actions)
    if size > limit:
        shape = f"{num_states:,} states by {num_observations:,} observations" + ("" if alike else " for each action")
        raise ModelFileError(
            path, f"observations of {shape} are {size:,} numbers, expected at most {limit:,}: raise limit"
        )
    tables = _whole(tables, parsed, rescale, "observation row", "next state", faults)
    if faults:
        return None
    dense = np.zeros((1 if alike else num_actions, num_states, num_observations))
    for table, rows in zip(dense, tables, strict=False):
        table[rows.row, rows.column] = rows.value
    return dense[0] if alike else dense


def _rewards(
    parsed: Parsed, transitions: list[Rows], emissions: np.ndarray | None, limit: int, path: str | Path
) -> np.ndarray:
    rules, lookup = parsed.rewards, parsed.rewards.prepare()
    num_actions, num_states, _, num_observations = rules.shape
    states = np.arange(num_states)
    if rules.is_exactly_of_state_and_action:
        return np.stack([lookup.find(action, states, states, 0) for action in range(num_actions)], axis=1)
    by_observation = rules.names_observations and emissions is not None
    work = sum(len(rows.row) for rows in transitions) * (num_observations if by_observation else 1)
    if work > 8 * limit:
        raise ModelFileError(
            path, f"rewards are averages over {work:,} cases, expected at most {8 * limit:,}: raise limit"
        )
    columns: list[np.ndarray] = []
    for action, rows in enumerate(transitions):
        table = None
        if by_observation and emissions is not None:
            table = emissions if emissions.ndim == 2 else emissions[action]
        columns.append(average_rewards(lookup, action, rows.row, rows.column, rows.value, table, num_states))
    parsed.notes.append("rewards of next states or observations were averaged to rewards of (state, action)")
    return np.stack(columns, axis=1)


def _raise_faults(path: str | Path, faults: list[Fault]) -> None:
    if len(faults) == 1:
        raise ModelFileError(path, faults[0][1], faults[0][0])
    if faults:
        shown = [fault if line is None else f"line {line}: {fault}" for line, fault in faults[:_LISTED]]
        more = ["… and more of the same kind"] if len(faults) > _LISTED else []
        listed = "".join(f"\n  {number}. {text}" for number, text in enumerate([*shown, *more], 1))
        count = f"more than {_LISTED}" if more else str(len(faults))
        raise ModelFileError(path, f"{count} rows are not distributions{listed}", faults[0][0])
