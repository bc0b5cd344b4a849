"""Any problem as the text of a scenario: a graph with every number written so that it is read back bit by bit."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...common.checks import SUM_TOLERANCE
from ...common.errors import InputError
from ...problem.model import Model
from ...problem.observer import Observer
from ...problem.problem import Problem
from ...problem.secret import Automaton, InitialState, LastState, StateAt, WhichModel

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 110


def to_toml(problem: Problem, story: str = "") -> str:
    """The text of a scenario that loads as an equal problem (by `veil.problem.fingerprint`).

    **Arguments:** `problem`; `story`, written above it as a comment.

    **Raises:** `InputError` where a secret is none of veil's own, or a name cannot be written in UTF-8.
    """
    parts = [*_comment(story), *_head(problem), "", *_worlds(problem), *_watcher(problem.observer, problem.model), ""]
    text = "\n".join([*parts, *_secret(problem)]) + "\n"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            "scenario", [f"the name {error.object[error.start]!r} cannot be written in UTF-8: rename it"]
        ) from None
    return text


def text_of(value: str) -> str:
    """A string of TOML; JSON writes the same but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_of(name: str) -> str:
    """A key of TOML, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else text_of(name)


def _number(value: Any) -> str:
    return repr(float(value))  # the shortest text that reads back as the same number


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _list(items: Iterable[str]) -> str:
    """A list on one line, or with as many items a line as fit."""
    items = list(items)
    short = f"[{', '.join(items)}]"
    if len(short) <= _WIDTH:
        return short
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) + 2 > _WIDTH:
            lines.append(line)
            line = ""
        line += f"{' ' if line else ''}{item},"
    return "[\n" + "".join(f"  {each}\n" for each in [*lines, line]) + "]"


def _names(names: Iterable[str]) -> str:
    return _list(text_of(name) for name in names)


def _row(row: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{key_of(name)} = {_number(value)}" for name, value in row.items()) + " }"


def _comment(story: str) -> list[str]:
    return [f"# {line}".rstrip() for line in story.splitlines()] + ([""] if story else [])


def _head(problem: Problem) -> list[str]:
    lines = [f"name = {text_of(problem.name)}", f"horizon = {problem.horizon}"]
    if problem.min_return is not None:
        wanted = problem.min_return
        lines.append(f"min_return = {text_of(wanted) if isinstance(wanted, str) else _number(wanted)}")
    if problem.return_over != "horizon":
        lines.append(f"return_over = {text_of(problem.return_over)}")
    if problem.agent_sees_observations:
        lines.append("agent_sees_observations = true")
    return lines


def _worlds(problem: Problem) -> list[str]:
    """One graph; or, of several, what they share as a graph and the rest in `[[models]]`."""
    graphs = [_graph(model) for model in problem.models]
    if len(graphs) == 1:
        return _tables("graph", graphs[0])
    shared = {key: lines for key, lines in graphs[0].items() if all(graph.get(key) == lines for graph in graphs)}
    table = problem.secret_table
    result = _tables("graph", shared)
    for number, graph in enumerate(graphs):
        result += ["[[models]]", f"name = {text_of(table.value_names[number])}"]
        if isinstance(problem.secret, WhichModel) and problem.secret.weights is not None and table.weights is not None:
            result.append(f"weight = {_number(table.weights[number])}")
        result += ["", *_tables("models.graph", {key: lines for key, lines in graph.items() if key not in shared})]
    return result


def _tables(name: str, graph: Mapping[str, list[str]]) -> list[str]:
    """A graph as tables: its plain keys first, then the keys that are tables of their own."""
    plain = [line for key, lines in graph.items() if key not in ("rewards", "terminal_rewards") for line in lines]
    result = [f"[{name}]", *plain, ""]
    for key in ("rewards", "terminal_rewards"):
        if graph.get(key):
            result += [f"[{name}.{key}]", *graph[key], ""]
    return result


def _graph(model: Model) -> dict[str, list[str]]:
    states, actions = model.states.all(), model.actions.all()
    starts = {states[s]: model.initial[s] for s in np.flatnonzero(model.initial).tolist()}
    single = len(starts) == 1 and set(starts.values()) == {1.0}
    entries = []
    for s, state in enumerate(states):
        for a in np.flatnonzero(model.available[s]).tolist():
            matrix = model.matrices[a]
            span = slice(matrix.indptr[s], matrix.indptr[s + 1])
            row = {states[n]: p for n, p in zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True)}
            sure = len(row) == 1 and set(row.values()) == {1.0}
            entries.append(
                f"  [{text_of(state)}, {text_of(actions[a])}, {text_of(next(iter(row))) if sure else _row(row)}],"
            )
    rewards = [line for s in range(len(states)) for line in _reward(model, s, states, actions)]
    terminal = [
        f"{key_of(states[s])} = {_number(model.terminal_rewards[s])}"
        for s in np.flatnonzero(model.terminal_rewards).tolist()
    ]
    return {
        "states": [f"states = {_names(states)}"],
        "actions": [f"actions = {_names(actions)}"],
        "initial": [f"initial = {text_of(next(iter(starts))) if single else _row(starts)}"],
        "discount": [] if model.discount == 1 else [f"discount = {_number(model.discount)}"],
        "transitions": ["transitions = [", *entries, "]"],
        "rewards": rewards,
        "terminal_rewards": terminal,
    }


def _reward(model: Model, s: int, states: Sequence[str], actions: Sequence[str]) -> list[str]:
    taken = np.flatnonzero(model.available[s])
    paid = model.rewards[s, taken]
    if not paid.any():
        return []
    if len(set(paid.tolist())) == 1:
        return [f"{key_of(states[s])} = {_number(paid[0])}"]
    row = {actions[a]: value for a, value in zip(taken.tolist(), paid.tolist(), strict=True) if value}
    return [f"{key_of(states[s])} = {_row(row)}"]


def _watcher(observer: Observer, model: Model) -> list[str]:
    names, states = observer.observations.all(), model.states.all()
    lines = ["[observer]", f"observations = {_names(names)}"]
    rest = observer.silent
    if rest is not None:
        lines += [f"silent = {text_of(names[rest])}", f"rest = {text_of(names[rest])}"]
    lines += ["sees_actions = true"] if observer.sees_actions else []
    lines += [] if observer.sees_initial else ["sees_initial = false"]
    if observer.on_actions:
        for action, rows in zip(model.actions.all(), observer.emissions, strict=True):
            lines += ["", f"[observer.action_emissions.{key_of(action)}]", *_emissions(rows, states, names, rest)]
    else:
        lines += ["", "[observer.emissions]", *_emissions(observer.emissions, states, names, rest)]
    for sensor, muting in observer.sensors.items():
        lines += ["", f"[observer.mutes.{key_of(sensor)}]"]
        lines += [f"{key_of(names[source])} = {text_of(names[target])}" for source, target in muting.items()]
    return lines


def _emissions(rows: np.ndarray, states: Sequence[str], names: Sequence[str], rest: int | None) -> list[str]:
    lines = []
    for state, row in zip(states, rows, strict=True):
        if rest is not None and row[rest] == 1 and np.count_nonzero(row) == 1:
            continue
        shown = {names[o]: row[o] for o in np.flatnonzero(row).tolist()}
        if rest is not None and len(shown) > 1 and _is_rest(row, rest):
            shown.pop(names[rest], None)
        sure = len(shown) == 1 and set(shown.values()) == {1.0}
        lines.append(f"{key_of(state)} = {text_of(next(iter(shown))) if sure else _row(shown)}")
    return lines


def _is_rest(row: np.ndarray, rest: int) -> bool:
    """Whether reading the row without this observation gives back its very number."""
    others = row.copy()
    others[rest] = 0
    return row[rest] > SUM_TOLERANCE and 1 - others.sum() == row[rest]


def _secret(problem: Problem) -> list[str]:
    secret, states = problem.secret, problem.model.states

    def named(keys: Iterable[str | int]) -> str:
        return _names(states[index] for index in sorted({states.find(key) for key in keys}))

    if isinstance(secret, LastState):
        return ["[secret]", 'kind = "last_state"', f"states = {named(secret.states)}"]
    if isinstance(secret, StateAt):
        return ["[secret]", 'kind = "state_at"', f"time = {int(secret.time)}", f"states = {named(secret.states)}"]
    if isinstance(secret, InitialState):
        groups = [f"{key_of(str(name))} = {named(members)}" for name, members in (secret.groups or {}).items()]
        return ["[secret]", 'kind = "initial_state"', *(["", "[secret.groups]", *groups] if groups else [])]
    if isinstance(secret, WhichModel):
        return ["[secret]", 'kind = "which_model"', *(["agent_knows = true"] if secret.agent_knows else [])]
    if isinstance(secret, Automaton):
        return _automaton(secret, named)
    raise InputError("scenario", [f"the secret is a {type(secret).__name__}, expected one of veil's own"])


def _automaton(secret: Automaton, named: Any) -> list[str]:
    members: dict[str, list[str | int]] = {}
    for state, label in secret.labels.items():
        members.setdefault(str(label), []).append(state)
    edges = [f"  {_names(map(str, (*pair, target)))}," for pair, target in secret.transitions.items()]
    optional = [("default_label", secret.default_label), ("otherwise", secret.otherwise)]
    return [
        "[secret]",
        'kind = "automaton"',
        f"initial = {text_of(str(secret.initial))}",
        f"accepting = {_names(map(str, secret.accepting))}",
        *(f"{key} = {text_of(value)}" for key, value in optional if value is not None),
        f"agent_knows = {_truth(secret.agent_knows)}",
        "transitions = [",
        *edges,
        "]",
        "",
        "[secret.labels]",
        *(f"{key_of(label)} = {named(states)}" for label, states in members.items()),
    ]
