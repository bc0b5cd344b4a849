"""The fingerprint of a problem: a hash of its content, the same on every machine, different for every other problem."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from .channels import Channel
from .constraints import Bound
from .emissions import number_of
from .model import Model
from .observer import Observer
from .problem import Problem

_FORM = "veil problem, form 3"  # to be changed with what the content is made of


def fingerprint(problem: Problem) -> str:
    """SHA-256 of the content of a problem, in hexadecimal.

    The content is what decides the answer: the models with the names of states and actions, what the observer receives
    and when, with the names of observations, the secret as resolved against the models, the horizon, the return and its
    threshold, all further constraints and pairs, and whether the agent sees the observations. Not part of it: the problem's
    display name, and the observer's notes on which observation is silent and which sensor reports what, which only
    `sensor_costs` and `observation_costs` read. Problems that mean the same array for array agree however they were built.

    Cost: linear in the number of non-zero transitions, emissions and names.
    """
    sees = problem.agent_sees
    content = {
        "models": [_model(one) for one in problem.models],
        "observer": _observer(problem.observer),
        "secret": _secret(problem.channels[0]),
        "horizon": problem.horizon,
        "min return": problem.min_return,
        "return over": problem.return_over,
        "agent sees": sees if isinstance(sees, str) else _observer(sees),
        "constraints": [_bound(problem, one) for one in problem.others],
        "pairs": [_channel(one, problem) for one in problem.channels[1:]],
    }
    return _digest(_FORM, content)


def _model(model: Model) -> dict[str, object]:
    return {
        "states": model.states.all(),
        "actions": model.actions.all(),
        "available": model.available,
        "transitions": model.matrices,
        "rewards": [model.rewards, model.terminal_rewards],
        "initial": model.initial,
        "discount": model.discount,
    }


def _observer(observer: Observer) -> dict[str, object]:
    """What an observer receives; the silent observation decides that if it depends on time, or there is no clock."""
    times = observer.times
    return {
        "observations": observer.observations.all(),
        "shape": observer.shape,
        "emissions": observer.matrices,
        "sees": [observer.sees_actions, observer.sees_initial],
        "times": times if times is None or isinstance(times, str) else sorted(times),
        "emissions at": [(number_of(when), given) for when, given in observer.emissions_at.items()],
        "silent": observer.silent if times is not None or observer.untimed else None,
        "untimed": observer.untimed,
    }


def _secret(channel: Channel) -> dict[str, object]:
    table, each = channel.table, channel.table.each
    return {
        "time": table.time,
        "values": table.value_names,
        "label": table.label,
        "memory": [table.memory_start, table.memory_step, list(map(str, table.memory_names))],
        "weights": table.weights,
        "agent knows": channel.known,
        "path": table.path,
        "each time": None if each is None else [each.value, each.weights, each.ahead],
    }


def _bound(problem: Problem, one: Bound) -> list[object]:
    quantity = problem.quantities[one.quantity]
    paid = quantity.paid, problem.channels[0].terminals[one.quantity], quantity.discount
    return [one.name, int(one.sign), one.bound, *paid]


def _channel(channel: Channel, problem: Problem) -> dict[str, object]:
    seen, belief = _observer(channel.observer), channel.belief
    alike = channel.receives > 0 and _digest(seen) == _digest(_observer(problem.observer))
    content: dict[str, object] = {
        "name": channel.name,
        "bounds": [channel.min, channel.max],
        "observer": seen,
        "receives its own": alike,  # who looks the same, and receives other observations
        "secret": _secret(channel),
    }
    if belief is not None:
        assumed, policy = belief.problem(problem.only(channel.name)), belief.policy
        content["belief"] = {
            "doubt": belief.doubt,
            "policy": policy if isinstance(policy, str) else policy.digest(),
            "models": [[one.available, one.initial, one.matrices] for one in assumed.models],
            "observer": _observer(assumed.observer),
        }
    return content


def _digest(*content: object) -> str:
    """SHA-256 of a content, in hexadecimal.

    Every part is written with its kind and its sizes before it, so that no two contents are written alike. Numbers are 64-bit
    and little-endian; -0.0 is 0.0; sparse tables are in canonical form; the order of a mapping counts.
    """
    digest = hashlib.sha256()
    for part in _parts(content):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: object) -> Iterator[bytes]:
    """The bytes of a content, a part at a time."""
    if value is None:
        yield b"-"
    elif isinstance(value, str):  # names come from anywhere; each has bytes of its own
        text = value.encode("utf-8", "surrogatepass")
        yield b"s" + _size(len(text)) + text
    elif isinstance(value, Mapping):
        yield b"m" + _size(len(value))
        for item in value.items():
            yield from _parts(item)
    elif sp.issparse(value):
        table = sp.csr_array(value, copy=True)
        table.sum_duplicates()  # sorts as well
        table.eliminate_zeros()
        yield b"t"
        yield from _parts([np.array(table.shape), table.indptr, table.indices, table.data])
    elif isinstance(value, Sequence):
        yield b"l" + _size(len(value))
        for item in value:
            yield from _parts(item)
    else:
        array = np.asarray(value)
        floats = array.dtype.kind == "f"
        numbers = (array + 0.0).astype("<f8") if floats else array.astype("<i8")
        yield (b"f" if floats else b"i") + b"".join(map(_size, (numbers.ndim, *numbers.shape)))
        yield numbers.tobytes()


def _size(number: int) -> bytes:
    return number.to_bytes(8, "little")
