"""A problem over states that carry the time: what depends on the time then depends on the state."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.checks import Defects, Names
from ..common.errors import InputError
from .constraints import Constraint, Knows, LiftedConstraint
from .model import Model
from .observer import NO_CLOCK, Observer
from .secrets.secret import Secret, SecretTable

if TYPE_CHECKING:
    from .problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class LiftedSecret(Secret):
    """A secret of a problem, over the states of an unrolled or masked one: its table with the columns of the states `state`."""

    kind = "at_each_time"
    several_models = True

    original: Secret
    table: SecretTable
    state: Int[np.ndarray, " N"]
    problem: "Problem"

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The same labels and memory, by the state behind."""
        table = self.table
        return replace(
            table,
            label=table.label[:, :, self.state],
            memory_start=table.memory_start[self.state],
            memory_step=table.memory_step[:, self.state],
            path=None if table.path is None else table.path[self.state],
        )

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return self.original.describe(self.problem)

    def to_table(self, states: Names) -> dict[str, object]:
        """A scenario file has no form for it."""
        raise InputError(
            "secret", ["that of an unrolled or masked problem has no form in files: save the problem before"]
        )


def lifted_constraints(
    problem: "Problem", state: Int[np.ndarray, " N"], action: Int[np.ndarray, " A"] | None = None
) -> list[Constraint]:
    """The constraints of a problem beside that on the return, over larger states and actions."""
    agent = problem.agent
    found: list[Constraint] = [LiftedConstraint(one, about, state, action) for one, about in problem.quantities]
    return [*found, Knows(agent.register.at(state), agent.knows_model)] if agent.register.size > 1 else found


def unroll(problem: "Problem") -> tuple["Problem", Int[np.ndarray, " N"]]:
    """The unrolled problem, and the state of the original problem behind each of its states."""
    if problem.observer.untimed:
        raise InputError("observer", [NO_CLOCK])
    if problem.pairs:
        raise InputError(
            "pairs", ["states that carry the time are made for one pair: use problem.only(name).unrolled()"]
        )
    layers = _layers(problem)
    state, time = np.concatenate(layers), np.repeat(np.arange(len(layers)), [len(layer) for layer in layers])
    begin = np.concatenate([[0], np.cumsum([len(layer) for layer in layers])])
    models = [_model(model, layers, begin, state, time) for model in problem.models]
    observer = problem.observer
    tables = [
        sp.csr_array(sp.vstack([observer.matrices_at(t, problem.horizon)[a][layer] for t, layer in enumerate(layers)]))
        for a in range(len(observer.base_matrices))
    ]
    plain = Observer(
        tables if observer.on_actions else tables[0],
        observer.observations,
        observer.sees_actions,
        observer.sees_initial,
        silent=observer.silent,
        sensors=observer.sensors,
    )
    made = problem.replace(
        agent_sees_observations=problem.agent_sees_observations and not problem.agent.apart,
        model=models if len(models) > 1 else models[0],
        observer=plain,
        secret=LiftedSecret(problem.secret, problem.channels[0].alone, state, problem),
        constraints=lifted_constraints(problem, state),
    )
    return made, state


def _layers(problem: "Problem") -> list[Int[np.ndarray, " n"]]:
    """The states that some policy can be in at each time; the last also holds what follows it."""
    graph = sp.csr_array(sum(matrix for model in problem.models for matrix in model.matrices))
    here = np.flatnonzero(sum(model.initial for model in problem.models))
    layers = []
    for _ in range(problem.horizon):
        layers.append(here)
        here = np.unique(graph[here].indices)
    while len(grown := np.union1d(here, graph[here].indices)) > len(here):
        here = grown
    return [*layers, here]


def _model(model: Model, layers: list[np.ndarray], begin: np.ndarray, state: np.ndarray, time: np.ndarray) -> Model:
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
