"""The mapping from a problem to the plain arrays that the verifier reads (`record.py`).

Hashes tell whether a record is that of a problem: of the bytes that are written here, and of the problem's own content.
"""

import json
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from safetensors.numpy import save

from ..common.errors import TooLargeError
from ..common.memo import memo
from ..common.values import same
from ..problem.channels import Channel
from ..problem.emissions import Matrices
from ..problem.fingerprint import fingerprint
from ..problem.observer import Observer
from ..problem.problem import Problem
from ..problem.registers import TableRegister, product
from .record import FORM, Record, read_record

Numbers = Int[np.ndarray, " n"]


def record_of(problem: Problem) -> Record:
    """The problem as the verifier reads it. **Raises:** `CertificateError` where it refuses it."""
    return memo(problem, (record_of,), lambda: read_record(content_of(problem)))


def content_of(problem: Problem) -> bytes:
    """The bytes of `problem.bin`: the same for equal problems.

    Cost: the transitions, times the memories of all channels together.

    **Raises:** `TooLargeError` if the channels remember too much together.
    """
    states, actions, own = problem.num_states, problem.num_actions, problem.channels[0]
    held, values = _held(problem)
    models, memories = len(problem.models), held.size
    k, m, s = np.unravel_index(np.arange(models * memories * states), (models, memories, states))
    memory = [value[m] for value in values]
    blind = not problem.agent.sees_state
    known = own.known[k, memory[0]]
    arrays = {"model": k, "state": s, "cell": known if blind else known * states + s}
    _moves(problem, held, arrays)
    observers, receives = list[Observer](), list[int]()
    for one in problem.channels:
        receives.append(receives[one.receives] if one.receives < len(receives) else len(observers))
        observers += [one.observer] if receives[-1] == len(observers) else []
    agent, sees = 0, problem.agent.sees
    if problem.agent.apart and sees is not None:
        agent = len(observers)
        observers.append(sees)
    head: dict[str, object] = {
        "problem": fingerprint(problem),
        "states": states,
        "actions": actions,
        "horizon": problem.horizon,
        "endless": problem.return_over == "infinite",
        "cells": (int(own.known.max()) + 1) * (1 if blind else states),
        "agent": agent,
        "blind": blind,
        "knows_model": models == 1 or problem.agent.knows_model,
        "observers": [_observer(problem, one, f"observers.{n}.", arrays) for n, one in enumerate(observers)],
        "channels": [
            _channel(problem, n, receives[n], (k * len(one.table.memory_step) + memory[n]) * states + s, arrays)
            for n, one in enumerate(problem.channels)
        ],
        "quantities": _quantities(problem, k, memory[0], s, arrays),
    }
    text = json.dumps(head, sort_keys=True, ensure_ascii=True, allow_nan=False)
    plain = {name: np.ascontiguousarray(one) for name, one in arrays.items()}
    return save(plain, metadata={"veil": f"{FORM} {text}"})


def _held(problem: Problem) -> tuple[TableRegister, list[Numbers]]:
    """What all channels remember together, and the memory of each at each of its values; equal registers of them count once."""
    distinct, places = list[TableRegister](), list[int]()
    for one in problem.channels:
        register = one.table.register
        places.append(next((n for n, other in enumerate(distinct) if other.equals(register)), len(distinct)))
        distinct += [register] if places[-1] == len(distinct) else []
    try:
        together, values = product(distinct)
    except TooLargeError as error:
        raise TooLargeError(f"the channels remember too much together for a certificate: {error}") from None
    return together, [values[place] for place in places]


def _moves(problem: Problem, held: TableRegister, arrays: dict[str, np.ndarray]) -> None:
    """Add the moves, in the order of (x, a, x'), and the starts."""
    states, actions, memories = problem.num_states, problem.num_actions, held.size
    parts, starts = list[tuple[np.ndarray, ...]](), list[tuple[np.ndarray, ...]]()
    weights = problem.channels[0].table.weights
    for k, model in enumerate(problem.models):
        for action, matrix in enumerate(model.matrices):
            table = sp.coo_array(matrix)
            taken = table.data > 0
            source, target = table.coords[0][taken].astype(np.int64), table.coords[1][taken].astype(np.int64)
            for m in range(memories):
                row = ((k * memories + m) * states + source) * actions + action
                parts.append((row, (k * memories + held.follows[m, target]) * states + target, table.data[taken]))
        weight = 1.0 if weights is None else float(weights[k])
        begun = np.flatnonzero((model.initial > 0) & (weight > 0))
        x = (k * memories + held.begins[begun]) * states + begun
        starts.append((x, np.full(len(x), weight), model.initial[begun]))
    row, column, chance = (np.concatenate(one) for one in zip(*parts, strict=True))
    order = np.lexsort((column, row))
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(arrays["state"]) * actions))])
    arrays |= {"moves.ends": ends, "moves.column": column[order], "moves.chance": chance[order]}
    names = ("starts", "starts.model", "starts.state")
    arrays |= {name: np.concatenate(one) for name, one in zip(names, zip(*starts, strict=True), strict=True)}


def _observer(problem: Problem, observer: Observer, own: str, arrays: dict[str, np.ndarray]) -> dict[str, object]:
    """Add the tables of an observer, each once, and which holds at which time."""
    tables, at = list[Matrices](), np.empty(problem.horizon + 1, dtype=np.int64)
    named, last_named = observer.named_times
    usual = None
    for time in range(problem.horizon + 1):
        last = time == problem.horizon
        plain = time > 0 and time not in named and not (last and last_named)
        if plain and usual is not None:
            at[time] = usual
            continue
        at[time] = _number_of(observer, time, last, tables)
        usual = int(at[time]) if plain else usual
    if not tables:
        tables.append(observer.matrices)
    for n, matrices in enumerate(tables):
        stacked = sp.csr_array(sp.vstack(matrices))
        stacked.sum_duplicates()
        stacked.eliminate_zeros()
        columns = {"ends": stacked.indptr, "column": stacked.indices, "chance": stacked.data}
        arrays |= {f"{own}tables.{n}.{name}": one for name, one in columns.items()}
        for name in ("ends", "column"):
            arrays[f"{own}tables.{n}.{name}"] = columns[name].astype(np.int64)
    arrays[f"{own}at"] = at
    return {
        "observations": observer.num_observations,
        "tables": len(tables),
        "silent": -1 if observer.silent is None else int(observer.silent),
        "sees_actions": bool(observer.sees_actions),
        "sees_first": bool(observer.sees_first),
        "untimed": bool(observer.untimed),
    }


def _number_of(observer: Observer, time: int, last: bool, tables: list[Matrices]) -> int:
    """The number of the tables of a time among those that are known; -1 where nothing is received."""
    times = observer.times
    if times is not None and not (last if times == "end" else time in times):
        return -1
    found = observer.emitted(time, last=last)
    if time == 0 and not observer.sees_first:
        found = observer.matrices
    for number, one in enumerate(tables):
        if one is found:
            return number
    tables.append(found)
    return len(tables) - 1


def _channel(
    problem: Problem, number: int, receives: int, situation: Numbers, arrays: dict[str, np.ndarray]
) -> dict[str, object]:
    """Add the secret of a channel; `situation`: `(k · M + m) · S + s` with what it remembers."""
    one, own = problem.channels[number], f"channels.{number}."
    table, states, memories = one.table, problem.num_states, len(one.table.memory_step)
    place, s = np.divmod(situation, states)
    k, m = np.divmod(place, memories)
    label = np.asarray(table.label)
    value, kind, ahead = label[k * (len(label) > 1), m, s], "once", 0
    if table.path is not None:
        value, kind = np.asarray(table.path)[s], "path"
    if table.each is not None:
        value, kind, ahead = np.asarray(table.each.value)[s], "each", table.each.ahead
        arrays[f"{own}weights"] = table.each.weights
    arrays |= {f"{own}value": value, f"{own}situation": situation}
    count = int(value.max()) + 1 if kind == "path" else len(table.value_names)
    return {
        "name": one.name,
        "min": one.min,
        "max": one.max,
        "receives": receives,
        "refused": _refused(problem, one),
        "kind": kind,
        "time": table.time,
        "values": count,
        "ahead": int(ahead),
    }


def _refused(problem: Problem, one: Channel) -> str:
    """Why nothing can be proven of a channel."""
    if one.belief is not None:
        return "an observer with a belief has a loss, which is no entropy"
    own, weights = problem.channels[0].table.weights, one.table.weights
    if len(problem.models) > 1 and not same(weights, own):
        return "a secret gives the models other probabilities than the problem's own"
    return ""


def _quantities(
    problem: Problem, k: Numbers, memory: Numbers, s: Numbers, arrays: dict[str, np.ndarray]
) -> list[dict[str, object]]:
    """Add what the quantities pay: the return, those of further constraints, and those of a task without a bound."""
    last = np.stack([one.terminal_rewards for one in problem.models])
    rewards = np.stack([one.rewards for one in problem.models])
    named = [("return", 1, problem.min_return, rewards, last[k, s], problem.model.discount)]
    bounds = [(one.quantity, one.name, int(one.sign), one.bound) for one in problem.others]
    bounds += [(number, problem.quantities[number].name, 1, None) for number in free_quantities(problem)]
    for number, name, sign, bound in bounds:
        about, ends = problem.quantities[number], problem.channels[0].terminals[number]
        paid = np.broadcast_to(about.paid, (len(problem.models), problem.num_states, problem.num_actions))
        named.append((name, sign, bound, paid, ends[k, memory, s], about.discount))
    found = list[dict[str, object]]()
    for n, (name, sign, bound, paid, ends, discount) in enumerate(named):
        arrays |= {f"quantities.{n}.rewards": paid[k, s] + 0.0, f"quantities.{n}.terminal": ends + 0.0}
        found.append({"name": name, "sign": sign, "bound": _plain(bound), "discount": float(discount)})
    return found


def free_quantities(problem: Problem) -> list[int]:
    """The numbers of the quantities that a task counts and no constraint bounds."""
    bounded = {0, *(one.quantity for one in problem.others)}
    return [number for number in range(len(problem.quantities)) if number not in bounded]


def _plain(bound: Sequence[float] | float | str | None) -> float | str | None:
    return bound if bound is None or isinstance(bound, str) else float(bound)  # type: ignore[arg-type]
