"""Every problem as the text of a scenario: a graph with every number written so that it is read back bit for bit."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, TypeGuard, cast

import numpy as np

from ...common.checks import SUM_TOLERANCE
from ...common.errors import InputError
from ...policy.policy import Policy
from ...problem.belief import Belief
from ...problem.keys import PolicyFile, table_of
from ...problem.model import Model
from ...problem.observer import Observer
from ...problem.pairs import Pair
from ...problem.problem import Problem
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import Secret
from ..arrays.files import save_arrays
from ..imported import Imported
from ..text import write_file
from .observer import time_key
from .parts import rewards_table

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 110


class Row(dict[str, object]):
    """A table that is written on one line, `{ key = value, … }`."""


def to_toml(
    problem: Problem, story: str = "", policies: Mapping[str, str] | None = None, arrays: str | None = None
) -> str:
    """The text of a scenario that loads as an equal problem (by `veil.problem.fingerprint`).

    **Arguments:** `problem`; `story`, written above it as a comment; `policies`: the files of the policies that the observers
    of pairs assume, by the name of the pair; `arrays`: the file of model and observer, if they are not part of the text.

    **Raises:** `InputError` if the secret is of a kind that is not registered, a name cannot be written in UTF-8, or the file
    of a policy is not known.
    """
    comment = [f"# {line}".rstrip() for line in story.splitlines()] + ([""] if story else [])
    tables = _head(problem) | ({"file": {"path": arrays}} if arrays else _models(problem)) | _layout(problem)
    tables["observer"] = _schedule(problem.observer) if arrays else _observer(problem.observer, problem.model)
    sees = problem.agent_sees
    own = {"sees": sees} if isinstance(sees, str) else _observer(sees, problem.model)
    tables |= {} if sees == "state" else {"agent": own}
    listed = problem.constraints[0 if problem.min_return is None else 1 :]
    more = {"rewards": rewards_table(problem), "constraints": [one.to_table(problem.model.states) for one in listed]}
    more |= {"pairs": [_pair(one, problem, (policies or {}).get(one.name)) for one in problem.pairs]}
    tables |= {"secret": _secret(problem)} | {key: value for key, value in more.items() if value}
    text = "\n".join([*comment, *table_lines(tables)]) + "\n"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        name = error.object[error.start]
        raise InputError("scenario", [f"the name {name!r} cannot be written in UTF-8: rename it"]) from None
    return text


def write_scenario(path: Path, problem: Problem, *, arrays: str | None = None) -> None:
    """Write a problem as a scenario file, complete or not at all; raises `ModelFileError` where it cannot be written.

    Policies that observers assume are written beside it, `NAME-assumed-1.safetensors` for the first pair; model and observer
    as `arrays`, a name, if one is given.
    """
    assumed = {
        one.name: (f"{path.stem}-assumed-{number}.safetensors", one.belief.policy)
        for number, one in enumerate(problem.pairs, 1)
        if one.belief is not None and isinstance(one.belief.policy, Policy)
    }
    text = to_toml(problem, policies={name: file for name, (file, _) in assumed.items()}, arrays=arrays)
    if arrays is not None:
        always = problem.observer.replace(times=None, untimed=False, sensors=None, silent=None)
        save_arrays(path.with_name(arrays), Imported(problem.model, always, problem.name, "model"))
    for file, policy in assumed.values():
        policy.save(path.with_name(file))
    write_file(path, text)


def text_of(value: str) -> str:
    """A string of TOML; JSON writes the same but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key_of(name: str) -> str:
    """A key of TOML, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else text_of(name)


def table_lines(table: Mapping[str, object], header: str = "") -> list[str]:
    """The lines of a table: its plain keys first, then the tables and lists of tables in it."""
    inner = {key: value for key, value in table.items() if type(value) is dict or _is_list_of_tables(value)}
    plain = {key: value for key, value in table.items() if key not in inner}
    lines = ["", f"[{header}]"] if header and (plain or not inner) else []
    lines += [f"{key_of(key)} = {value_of(value)}" for key, value in plain.items()]
    for key, value in inner.items():
        name = f"{header}.{key_of(key)}" if header else key_of(key)
        if isinstance(value, dict):
            lines += table_lines(value, name)
        else:
            for entry in value:
                heading, *rest = table_lines(entry, name)[1:]
                lines += ["", f"[{heading}]", *rest]
    return lines


def _is_list_of_tables(value: object) -> TypeGuard[list[dict[str, object]]]:
    return isinstance(value, list) and bool(value) and all(type(item) is dict for item in value)


def value_of(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_of(key)} = {value_of(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Iterable):
        return _list(list(value))
    # The shortest text that reads back as the same number.
    return str(int(value)) if isinstance(value, Integral) else repr(float(cast(float, value)))


def _list(values: Sequence[object]) -> str:
    """A list of lists with one of them on each line; any other on one line, or with as many items a line as fit."""
    items = [value_of(value) for value in values]
    short = f"[{', '.join(items)}]"
    rows = bool(values) and isinstance(values[0], (list, tuple))
    if len(short) <= _WIDTH and not rows:
        return short
    lines, line = [], ""
    for item in items:
        if line and (rows or len(line) + len(item) + 2 > _WIDTH):
            lines.append(line)
            line = ""
        line += f"{' ' if line else ''}{item},"
    return "[\n" + "".join(f"  {each}\n" for each in [*lines, line]) + "]"


def _head(problem: Problem) -> dict[str, object]:
    head: dict[str, object] = {"name": problem.name, "horizon": problem.horizon}
    if problem.min_return is not None:
        head["min_return"] = problem.min_return
    if problem.return_over != "horizon":
        head["return_over"] = problem.return_over
    return head


def _models(problem: Problem) -> dict[str, object]:
    """One graph; or, of several, what they share as a graph and the rest in `[[models]]`."""
    graphs = [_graph(model) for model in problem.models]
    if len(graphs) == 1:
        return {"graph": graphs[0]}
    shared = {key: value for key, value in graphs[0].items() if all(graph.get(key) == value for graph in graphs)}
    names, weights = problem.secret_table.value_names, problem.secret_table.weights
    is_uniform = weights is None or all(weight == 1 / len(graphs) for weight in weights.tolist())
    models = []
    for number, graph in enumerate(graphs):
        weight = {} if is_uniform or weights is None else {"weight": weights[number]}
        own = {key: value for key, value in graph.items() if key not in shared}
        models.append({"name": names[number]} | weight | {"graph": own})
    return {"graph": shared, "models": models}


def _graph(model: Model) -> dict[str, object]:
    states, actions = model.states.all(), model.actions.all()
    transitions = []
    for s, state in enumerate(states):
        for a in np.flatnonzero(model.available[s]).tolist():
            matrix = model.matrices[a]
            span = slice(matrix.indptr[s], matrix.indptr[s + 1])
            row = zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True)
            transitions.append([state, actions[a], _sure_or_row({states[n]: p for n, p in row})])
    rewards = {state: paid for s, state in enumerate(states) if (paid := _reward(model, s, actions)) is not None}
    terminal = {states[s]: model.terminal_rewards[s] for s in np.flatnonzero(model.terminal_rewards).tolist()}
    graph: dict[str, object] = {
        "states": list(states),
        "actions": list(actions),
        "initial": _sure_or_row({states[s]: model.initial[s] for s in np.flatnonzero(model.initial).tolist()}),
        "discount": model.discount,
        "transitions": transitions,
        "rewards": rewards,
        "terminal_rewards": terminal,
    }
    return {key: value for key, value in graph.items() if value != {} and not (key == "discount" and value == 1)}


def _sure_or_row(row: Mapping[str, float]) -> str | Row:
    """The one name that has all the probability, or the table of probabilities."""
    return next(iter(row)) if list(row.values()) == [1.0] else Row(row)


def _reward(model: Model, s: int, actions: Sequence[str]) -> float | Row | None:
    taken = np.flatnonzero(model.available[s])
    paid = model.rewards[s, taken]
    if not paid.any():
        return None
    if len(set(paid.tolist())) == 1:
        return float(paid[0])
    return Row({actions[a]: value for a, value in zip(taken.tolist(), paid.tolist(), strict=True) if value})


def _layout(problem: Problem) -> dict[str, object]:
    found = problem.layout
    if found is None:
        return {}
    table: dict[str, object] = {"rows": found.rows, "columns": found.columns, "cells": list(map(list, found.cells))}
    return {"layout": table if found.frame is None else table | vars(found.frame)}


def _schedule(observer: Observer) -> dict[str, object]:
    """What an observer receives of what is emitted: actions, the first observation, the times."""
    table: dict[str, object] = {"sees_actions": True} if observer.sees_actions else {}
    table |= {} if observer.sees_initial else {"sees_initial": False}
    if observer.times is not None:
        table["times"] = observer.times if observer.times == "end" else sorted(observer.times)
    table |= {"untimed": True} if observer.untimed else {}
    scheduled = observer.times is not None or observer.untimed
    return table | (
        {"silent": observer.observations.all()[observer.silent]} if scheduled and observer.silent is not None else {}
    )


def _observer(observer: Observer, model: Model) -> dict[str, object]:
    names, states = observer.observations.all(), model.states.all()
    table: dict[str, object] = {"observations": list(names)}
    rest = observer.silent
    table |= {} if rest is None else {"silent": names[rest], "rest": names[rest]}
    table |= _schedule(observer)
    rows = [matrix.toarray() for matrix in observer.matrices]
    if observer.on_actions:
        by_action = zip(model.actions.all(), rows, strict=True)
        table["action_emissions"] = {action: _emissions(table, states, names, rest) for action, table in by_action}
    else:
        table["emissions"] = _emissions(rows[0], states, names, rest)
    if at := observer.emissions_at:
        if any(isinstance(given, list) for given in at.values()):
            raise InputError(
                "scenario", ["emissions_at on (action, next state) has no form in files: use problem.unrolled()"]
            )
        then = {time_key(when): given.toarray() for when, given in at.items() if not isinstance(given, list)}
        table["emissions_at"] = {time: _emissions(rows, states, names, rest) for time, rows in then.items()}
    mutes = {s: {names[one]: names[other] for one, other in muting.items()} for s, muting in observer.sensors.items()}
    return table | ({"mutes": mutes} if mutes else {})


def _pair(pair: Pair, problem: Problem, policy: str | None) -> dict[str, object]:
    model = problem.model

    def belief(given: Belief) -> dict[str, object]:
        assumed = {} if given.model is None else {"graph": _graph(given.model)}
        return table_of(given, Belief.keys, model.states, writers) | assumed

    def assumed_policy(given: object) -> str:
        assumed = given if policy is None else policy
        if not isinstance(assumed, str):
            words = "the policy that an observer assumes has no form in this text: name its file there"
            raise InputError("scenario", [words])
        return assumed

    writers: dict[object, Callable[[Any], object]] = {
        Observer: lambda given: _observer(given, model),
        Secret: lambda _: _secret(problem.only(pair.name)),
        PolicyFile: assumed_policy,
        Belief: belief,
    }
    return table_of(pair, Pair.keys, model.states, writers)


def _emissions(rows: np.ndarray, states: Sequence[str], names: Sequence[str], rest: int | None) -> dict[str, object]:
    table = {}
    for state, row in zip(states, rows, strict=True):
        if rest is not None and row[rest] == 1 and np.count_nonzero(row) == 1:
            continue
        shown = {names[o]: row[o] for o in np.flatnonzero(row).tolist()}
        if rest is not None and len(shown) > 1 and _is_rest(row, rest):
            shown.pop(names[rest], None)
        table[state] = _sure_or_row(shown)
    return table


def _is_rest(row: np.ndarray, rest: int) -> bool:
    """Whether reading the row without this observation gives back the same number."""
    others = row.copy()
    others[rest] = 0
    return row[rest] > SUM_TOLERANCE and 1 - others.sum() == row[rest]


def _secret(problem: Problem) -> dict[str, object]:
    secret = problem.secret
    table = secret.to_table(problem.model.states)
    if secret.kind not in SECRETS or SECRETS.get(secret.kind) is not type(secret):
        found = f"the secret is a {type(secret).__name__}, which is not among the registered kinds"
        raise InputError("scenario", [f"{found} {', '.join(SECRETS)}: add it to the entry points veil.secrets"])
    return {"kind": secret.kind} | table
