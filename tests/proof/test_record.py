"""What the bytes of a problem may hold: every number at the ends of its range and one beyond, every array of another form."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import veil
from tests.seeds import noted
from veil.common.errors import CertificateError
from veil.proof.compiled import content_of
from veil.proof.record import Record, read_record


def content() -> bytes:
    """Two models of two states; a second channel with a value at every time, whose observer looks at the end alone."""
    model = veil.Model(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], discount=0.9)
    late = veil.Observer([[0.7, 0.3], [0.4, 0.6]], times="end")
    return content_of(veil.Problem(
        [model, model], veil.Observer([[0.8, 0.2], [0.2, 0.8]]), veil.WhichModel([0.5, 0.5]), 3, 0.1,
        pairs=[veil.Pair("now", late, veil.StateNow({1}))],
    ))  # fmt: skip


PLAIN = content()
FORM, _, TEXT = json.loads(PLAIN[8 : 8 + int.from_bytes(PLAIN[:8], "little")])["__metadata__"]["veil"].partition(" ")


def changed(change: Callable[[Any, dict[str, np.ndarray]], object]) -> Record:
    head, arrays = json.loads(TEXT), load(PLAIN)
    change(head, arrays)
    return read_record(save(arrays, metadata={"veil": f"{FORM} {json.dumps(head)}"}))


def put(path: str, value: object) -> Callable[[Any, Any], None]:
    """A change of a field, or of the first number of an array."""

    def change(head: Any, arrays: dict[str, np.ndarray]) -> None:
        if path in arrays:
            arrays[path] = np.concatenate([np.array([value]), arrays[path].ravel()[1:]]).reshape(arrays[path].shape)
            return
        *way, last = path.split(".")
        for step in way:
            head = head[int(step)] if isinstance(head, list) else head[step]
        head[last] = value

    return change


MOST, INF, NAN = 2**40, np.inf, np.nan
WITHIN: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {  # of each place what is read, and what is refused
    "states": ((), (0, MOST + 1, True, 2.0, None)),
    "actions": ((), (0, MOST + 1)),
    "horizon": ((), (-1, 10**6 + 1)),
    "cells": ((2, MOST), (0, MOST + 1, 1)),
    "agent": ((0, 1), (-1, 2)),
    "endless": ((False, True), (0, None)),
    "blind": ((False, True), (0, "no")),
    "knows_model": ((False, True), (1, None)),
    "problem": (("", "x"), (None, 1)),
    "model": ((0, 3), (-1, 4)),
    "state": ((0, 1), (-1, 2)),
    "cell": ((0, 1), (-1, 2)),
    "starts": ((0,), (-1, 4, 1)),
    "starts.model": ((0.5,), (0.0, -0.5, 0.6, INF, NAN)),
    "starts.state": ((0.5, 0.1), (0.0, -0.5, INF, NAN)),
    "moves.ends": ((0,), (-1, 1)),
    "moves.column": ((0,), (-1, 1, 2, 4)),
    "moves.chance": ((1.0, 5e-324, 7.0), (0.0, -0.5, INF, NAN)),
    "observers.0.observations": ((2, 2**30), (0, 1, 2**30 + 1)),
    "observers.0.tables": ((1,), (0, -1)),
    "observers.0.silent": ((-1, 0, 1), (-2, 2)),
    "observers.1.silent": ((0, 2), (-1, 3)),
    "observers.0.sees_first": ((False,), (0,)),
    "observers.0.sees_actions": ((True,), (1,)),
    "observers.0.untimed": ((), (True, 0)),
    "observers.1.untimed": ((True,), (1,)),
    "observers.0.at": ((0,), (-2, 1, -1)),
    "observers.1.at": ((-1, 0), (-2, 1)),
    "observers.0.tables.0.column": ((0,), (-1, 1, 2)),
    "observers.0.tables.0.chance": ((0.9,), (0.0, INF)),
    "channels.0.name": (("other",), ("now", None)),
    "channels.0.min": ((None, 0.0, 1, 2.0**900), (-5e-324, 2.0**901, True, "1")),
    "channels.0.max": ((None, 0.0), (-1.0, NAN)),
    "channels.0.receives": ((0, 1), (-1, 2)),
    "channels.0.refused": (("", "a reason"), (None,)),
    "channels.0.kind": (("once", "path"), ("twice", "ONCE", None)),
    "channels.0.time": ((0, 3), (-1, 4)),
    "channels.0.values": ((2, MOST), (1, 0, MOST + 1)),
    "channels.0.ahead": ((0, MOST), (-1, MOST + 1)),
    "channels.0.value": ((-1, 1), (-2, 2)),
    "channels.0.situation": ((0, MOST - 1), (-1, MOST)),
    "channels.1.value": ((0, 1), (-1, 2)),
    "channels.1.weights": ((0.0, 7.0), (-5e-324, INF, NAN)),
    "quantities.0.name": ((), ("gain", None)),
    "quantities.0.sign": ((1,), (-1, 0, 2, True)),
    "quantities.0.discount": ((0, 0.5, 1), (-5e-324, 1.1, None, "1")),
    "quantities.0.bound": ((None, -7, 1.5, "0%", "100%", "12.5%", ".5%", "5", "5."),
                           (True, NAN, "", "%", ".", "100.1%", "-1%", "1e1%", "1%%", "1.2.3%", "٣%", [1])),
    "quantities.0.rewards": ((-1e300, 0.0), (INF, NAN)),
    "quantities.0.terminal": ((-1.0,), (-INF, NAN)),
}  # fmt: skip


@pytest.mark.parametrize("place", WITHIN)
def test_the_ends_of_every_range(place: str):
    """What is refused is named: no number is computed with before it is known to be one, so nothing else goes wrong first."""
    read, refused = WITHIN[place]
    for value in read:
        changed(put(place, value))
    for value in refused:
        with noted(repr(value)), pytest.raises(CertificateError, match=r"^problem: (?!it cannot be read|None)"):
            changed(put(place, value))


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "one more": lambda array: np.concatenate([array, array[-1:]]),
    "one less": lambda array: array[:-1],
    "none": lambda array: array[:0],
    "deeper": lambda array: array[None],
    "numbers of another kind": lambda array: array.astype("i8" if array.dtype.kind == "f" else "f8"),
    "truth values": lambda array: array > 0,
}


@pytest.mark.parametrize("name", sorted(load(PLAIN)))
def test_every_array_has_one_form(name: str):
    """None is left out, of another type or of another shape, nor has another length."""
    for form, make in FORMS.items():
        with noted(form), pytest.raises(CertificateError, match=r"^problem: (?!None)"):
            changed(lambda _, arrays: arrays.update({name: np.ascontiguousarray(make(arrays[name]))}))  # noqa: B023
    with pytest.raises(CertificateError, match="cannot be read"):
        changed(lambda _, arrays: arrays.pop(name))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"moves.ends": 2}, "no distributions"),
        ({"endless": True, "quantities.0.discount": 1.0}, "infinite horizon has no discount"),
        ({"observers.1.untimed": True, "observers.1.sees_actions": True}, "without a clock sees actions"),
        ({"observers.0.untimed": True}, "no silent observation"),
        ({"channels.1.time": 3, "channels.1.kind": "path", "channels.0.name": "now"}, "two channels have one name"),
    ],
)
def test_what_does_not_go_together(changes: dict[str, object], words: str):
    def change(head: Any, arrays: Any) -> None:
        for place, value in changes.items():
            put(place, value)(head, arrays)

    with pytest.raises(CertificateError, match=words):
        changed(change)


def without(rows: int) -> Callable[[Any, Any], None]:
    """No moves of the first rows, of which each has two."""

    def change(_: Any, arrays: Any) -> None:
        arrays["moves.ends"] = np.maximum(0, arrays["moves.ends"] - 2 * rows)
        arrays |= {name: arrays[name][2 * rows :] for name in ("moves.column", "moves.chance")}

    return change


def test_each_state_has_an_action_and_some_time_counts():
    assert not changed(without(1)).moves.degree[0]
    with pytest.raises(CertificateError, match="a state has no action"):
        changed(without(2))
    with pytest.raises(CertificateError, match="weights of times"):
        changed(lambda _, arrays: arrays.update({"channels.1.weights": np.zeros(4)}))
