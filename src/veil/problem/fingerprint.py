"""The fingerprint of a problem: a hash of its content, the same on every machine, different for every other problem.

Each field is written as its tag, its kind, its sizes and its bytes, every length before what it measures, so that no two
contents are written alike. Numbers are 64-bit, little-endian; sparse matrices are in canonical form; -0.0 is 0.0.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
import scipy.sparse as sp

from .agent import AgentSees, Sight
from .channels import Channel
from .constraints import Bound
from .emissions import number_of
from .model import Model
from .observer import Observer
from .problem import Problem

_FORM = "veil problem, form 2"  # to be changed with the way anything is written
_AT_ONCE = 2**20  # numbers of a sparse table written at a time


def fingerprint(problem: Problem) -> str:
    """SHA-256 of the content of a problem, in hexadecimal.

    The content is what decides the answer: the models with the names of states and actions, what the observer receives
    and when, with the names of observations, the secret as resolved against the models, the horizon, the return and its
    threshold, all further constraints and pairs, and whether the agent sees the observations. Not part of it: the problem's
    display name, and the observer's notes on which observation is silent and which sensor reports what, which only
    `sensor_costs` and `observation_costs` read. Problems that mean the same array for array agree however they were built.

    Cost: linear in the number of non-zero transitions, emissions and names.
    """
    digest = hashlib.sha256()
    write_content(problem, digest.update)
    return digest.hexdigest()


def write_content(problem: Problem, write: Callable[[bytes], object]) -> None:
    """Write the bytes that the fingerprint is a hash of, a part at a time: all numbers and names of the problem."""
    writer = _Writer(write)
    writer.text("form", _FORM)
    writer.integer("models", len(problem.models))
    for model in problem.models:
        _write_model(writer, model)
    _write_observer(writer, problem.observer)
    _write_secret(writer, problem.channels[0])
    writer.integer("horizon", problem.horizon)
    _write_threshold(writer, problem.min_return)
    writer.text("return over", problem.return_over)
    _write_sight(writer, problem.agent_sees)
    if problem.others or problem.pairs:
        writer.integer("constraints", len(problem.others))
    for one in problem.others:
        _write_bound(writer, problem, one)
    for channel in problem.channels[1:]:
        _write_channel(writer, channel, problem)


class _Writer:
    """Writes tagged fields, each in a form that says where it ends."""

    def __init__(self, write: Callable[[bytes], object]):
        self._write = write

    def nothing(self, tag: str) -> None:
        self._begin(tag, b"-")

    def integer(self, tag: str, value: int) -> None:
        self.integers(tag, np.array(value))

    def integers(self, tag: str, array: np.ndarray) -> None:
        self._array(tag, b"i", np.asarray(array).astype("<i8"))

    def floats(self, tag: str, array: np.ndarray | float) -> None:
        self._array(tag, b"f", (np.asarray(array, dtype=np.float64) + 0.0).astype("<f8"))  # -0.0 + 0.0 is 0.0

    def text(self, tag: str, value: str) -> None:
        self.texts(tag, (value,))

    def texts(self, tag: str, values: Sequence[str]) -> None:
        self._begin(tag, b"s")
        self._number(len(values))
        for value in values:
            self._sized(_encoded(str(value)))  # automata may be given with numbers for names

    def matrix(self, tag: str, matrix: sp.csr_array) -> None:
        canonical = sp.csr_array(matrix, copy=True)
        canonical.sum_duplicates()  # sorts as well
        canonical.eliminate_zeros()
        self.integers(f"{tag}: shape", np.array(canonical.shape))
        self.integers(f"{tag}: row ends", canonical.indptr)
        self.integers(f"{tag}: columns", canonical.indices)
        self.floats(f"{tag}: values", canonical.data)

    def dense(self, tag: str, shape: tuple[int, ...], matrices: Sequence[sp.csr_array]) -> None:
        """The same as `floats` of the matrices as one dense array, which is never made: rows at a time."""
        self._begin(tag, b"f")
        self._number(len(shape))
        for size in shape:
            self._number(size)
        step = max(1, _AT_ONCE // shape[-1])
        for matrix in matrices:
            for begin in range(0, shape[-2], step):
                rows = matrix[begin : begin + step].toarray()
                self._write((rows + 0.0).astype("<f8").tobytes(order="C"))

    def _array(self, tag: str, kind: bytes, array: np.ndarray) -> None:
        self._begin(tag, kind)
        self._number(array.ndim)
        for size in array.shape:
            self._number(size)
        self._write(array.tobytes(order="C"))

    def _begin(self, tag: str, kind: bytes) -> None:
        self._sized(_encoded(tag))
        self._write(kind)

    def _sized(self, content: bytes) -> None:
        self._number(len(content))
        self._write(content)

    def _number(self, number: int) -> None:
        self._write(number.to_bytes(8, "little"))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # names come from anywhere; each has bytes of its own


def _write_model(writer: _Writer, model: Model) -> None:
    writer.texts("states", model.states.all())
    writer.texts("actions", model.actions.all())
    writer.integers("available", model.available)
    for matrix in model.matrices:
        writer.matrix("transitions", matrix)
    writer.floats("rewards", model.rewards)
    writer.floats("terminal rewards", model.terminal_rewards)
    writer.floats("initial", model.initial)
    writer.floats("discount", model.discount)


def _write_observer(writer: _Writer, observer: Observer) -> None:
    writer.texts("observations", observer.observations.all())
    writer.dense("emissions", observer.shape, observer.matrices)
    writer.integer("sees actions", observer.sees_actions)
    writer.integer("sees initial", observer.sees_initial)
    _write_schedule(writer, observer)


def _observer_hash(observer: Observer) -> str:
    digest = hashlib.sha256()
    _write_observer(_Writer(digest.update), observer)
    return digest.hexdigest()


def _write_schedule(writer: _Writer, observer: Observer) -> None:
    """What an observer that depends on time, or has no clock, adds; the silent observation decides its meaning then."""
    if observer.times is not None:
        times = np.array([-1]) if observer.times == "end" else np.array(sorted(observer.times), dtype=np.int64)
        writer.integers("times", times)
    for when, emissions in observer.emissions_at.items():
        writer.integer("emissions at", number_of(when))
        by_action = isinstance(emissions, list)
        shape = observer.shape if by_action else observer.shape[-2:]
        writer.dense("emissions then", shape, emissions if by_action else [emissions])
    if observer.untimed:
        writer.integer("untimed", 1)
    if (observer.times is not None or observer.untimed) and observer.silent is not None:
        writer.integer("silent", observer.silent)


def _write_sight(writer: _Writer, sees: AgentSees) -> None:
    names = get_args(Sight)
    writer.integer("agent sees observations", names.index(sees) if isinstance(sees, str) else len(names))
    if isinstance(sees, Observer):
        _write_observer(writer, sees)


def _write_secret(writer: _Writer, channel: Channel) -> None:
    table = channel.table
    writer.integer("secret: time", table.time)
    writer.texts("secret: values", table.value_names)
    writer.integers("secret: label", table.label)
    writer.integers("secret: memory at the start", table.memory_start)
    writer.integers("secret: memory after a step", table.memory_step)
    writer.texts("secret: memories", table.memory_names)
    if table.weights is None:
        writer.nothing("secret: weights")
    else:
        writer.floats("secret: weights", table.weights)
    writer.integers("secret: agent knows", channel.known)
    if table.path is not None:
        writer.integers("secret: path", table.path)
    if table.each is not None:
        writer.integers("secret: at each time", table.each.value)
        writer.floats("secret: weights of times", table.each.weights)
        writer.integer("secret: ahead", table.each.ahead)


def _write_bound(writer: _Writer, problem: Problem, one: Bound) -> None:
    quantity = problem.quantities[one.quantity]
    writer.text("constraint", one.name)
    writer.integer("constraint: sign", int(one.sign))
    _write_threshold(writer, one.bound, "constraint: bound")
    writer.floats("constraint: rewards", quantity.paid)
    writer.floats("constraint: terminal rewards", problem.channels[0].terminals[one.quantity])
    writer.floats("constraint: discount", quantity.discount)


def _write_channel(writer: _Writer, channel: Channel, problem: Problem) -> None:
    writer.text("pair", channel.name)
    _write_threshold(writer, channel.min, "pair: min")
    _write_threshold(writer, channel.max, "pair: max")
    if channel.receives and _observer_hash(channel.observer) == _observer_hash(problem.observer):
        writer.integer("pair: apart", 1)  # who looks the same, and receives other observations
    _write_observer(writer, channel.observer)
    _write_secret(writer, channel)
    if channel.belief is not None:
        assumed, policy = channel.belief.problem(problem.only(channel.name)), channel.belief.policy
        writer.floats("belief: doubt", channel.belief.doubt)
        writer.text("belief: policy", policy if isinstance(policy, str) else policy.digest())
        for model in assumed.models:
            writer.integers("belief: available", model.available)
            writer.floats("belief: initial", model.initial)
            for matrix in model.matrices:
                writer.matrix("belief: transitions", matrix)
        _write_observer(writer, assumed.observer)


def _write_threshold(writer: _Writer, bound: float | str | None, tag: str = "min return") -> None:
    if bound is None:
        writer.nothing(tag)
    elif isinstance(bound, str):
        writer.text(tag, bound)
    else:
        writer.floats(tag, bound)
