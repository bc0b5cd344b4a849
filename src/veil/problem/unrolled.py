"""A problem over states that carry the time: what depends on the time then depends on the state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from .emissions import Matrices
from .lifted import Lift, lifted
from .model import Model
from .observer import Observer

if TYPE_CHECKING:
    from .problem import Problem

Layers = list[Int[np.ndarray, " n"]]


def unroll(problem: "Problem") -> tuple["Problem", Int[np.ndarray, " N"]]:
    """The unrolled problem, and the state of the original problem behind each of its states."""
    assumed = [one.belief.model for one in problem.pairs if one.belief is not None and one.belief.model is not None]
    layers = _layers([*problem.models, *assumed], problem.horizon)
    state, time = np.concatenate(layers), np.repeat(np.arange(len(layers)), [len(layer) for layer in layers])
    begin = np.concatenate([[0], np.cumsum([len(layer) for layer in layers])])

    def observer(one: Observer) -> Observer:
        return _observer(one, layers, state)

    lift = Lift(
        state,
        np.arange(problem.num_actions),
        lambda model: _model(model, layers, begin, state, time),
        own=observer,
        other=observer,
    )
    return lifted(problem, lift), state


def _observer(observer: Observer, layers: Layers, state: Int[np.ndarray, " N"]) -> Observer:
    """The observer whose emissions depend on the state, and through it on the time."""
    horizon = len(layers) - 1

    def stacked(time: int, layer: Int[np.ndarray, " n"]) -> Matrices:
        tables = observer.matrices_at(time, horizon) if time or not observer.on_actions else observer.matrices
        return tuple(sp.csr_array(table[layer]) for table in tables)

    parts = [stacked(time, layer) for time, layer in enumerate(layers)]
    tables = [sp.csr_array(sp.vstack(tables)) for tables in zip(*parts, strict=True)]
    first = observer.first_matrix(horizon) if observer.on_actions else None
    return observer.replace(
        emissions=tables if observer.on_actions else tables[0],
        emissions_at=None if first is None else {0: sp.csr_array(first[state])},
        times=None,
    )


def _layers(models: Sequence[Model], horizon: int) -> Layers:
    """The states that some policy can be in at each time; the last also holds what follows it."""
    graph = sp.csr_array(sum(matrix for model in models for matrix in model.matrices))
    here = np.flatnonzero(sum(model.initial for model in models))
    layers = []
    for _ in range(horizon):
        layers.append(here)
        here = np.unique(graph[here].indices)
    while len(grown := np.union1d(here, graph[here].indices)) > len(here):
        here = grown
    return [*layers, here]


def _model(model: Model, layers: Layers, begin: np.ndarray, state: np.ndarray, time: np.ndarray) -> Model:
    size, last = len(state), len(layers) - 1
    matrices = []
    for matrix in model.matrices:
        rows = sp.coo_array(matrix[state])
        following = np.minimum(time[rows.row] + 1, last)
        column = np.empty(len(rows.row), dtype=np.int64)
        for number, layer in enumerate(layers):
            mine = following == number
            column[mine] = begin[number] + np.searchsorted(layer, rows.col[mine])
        matrices.append(sp.csr_array((rows.data, (rows.row, column)), shape=(size, size)))
    initial = np.zeros(size)
    initial[: len(layers[0])] = model.initial[layers[0]]
    return Model(
        matrices,
        {name: paid[state] for name, paid in model.all_rewards.items()},
        initial,
        model.discount,
        terminal_rewards={name: paid[state] for name, paid in model.all_terminal_rewards.items()},
        state_names=[f"{model.states[s]}@{t}" for s, t in zip(state.tolist(), time.tolist(), strict=True)],
        action_names=model.actions.all() if model.actions.given else None,
        available=model.available[state],
    )
