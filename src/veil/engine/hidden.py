"""One hidden chain for every problem: the model, times what else is hidden, with what the observer receives of it."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..problem.observer import Observer
from ..problem.problem import Problem
from .kernel import Kernel, make_kernel


@dataclass(frozen=True, eq=False)
class Channel:
    """Actions that emit alike: `emission[x', e]` is the probability of event e after one of them has led to x'.

    One channel serves all actions unless the observer sees them or emissions depend on them. This is the paper's
    augmentation of the states by `S × A`, folded into the step instead of into the state.
    """

    actions: Bool[np.ndarray, " A"]
    emission: Float[np.ndarray, "N E"]


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden chain that the observer filters, before a policy is chosen.

    A hidden state x is `(model index, private memory, state)`, restricted to what can be reached. `root[x, e]` is
    `P(x_0 = x, first event = e)`, one column where nothing is received at time 0. `cell[x]` is what
    the agent can tell of x, a row of the policy's table. The secret is a split: `label[x, z]` of the hidden state at
    `split_time`. `reveals_last`: the observer is told `x_T` in the end, as in the lower end of a bracket.
    """

    kernel: Kernel
    start: Float[np.ndarray, " N"]
    root: Float[np.ndarray, "N F"]
    channels: tuple[Channel, ...]
    reward: Float[np.ndarray, "N A"]
    terminal: Float[np.ndarray, " N"]
    cell: Int[np.ndarray, " N"]
    num_cells: int
    state: Int[np.ndarray, " N"]
    model_index: Int[np.ndarray, " N"]
    label: Float[np.ndarray, "N Z"]
    split_time: int
    horizon: int
    discount: float
    reveals_last: bool = False

    @property
    def num_states(self) -> int:
        """N, the number of hidden states."""
        return len(self.start)

    @property
    def num_events(self) -> int:
        """How many events a step can have."""
        return self.channels[0].emission.shape[1]


_BUILT: WeakKeyDictionary[Problem, Hidden] = WeakKeyDictionary()


def build(problem: Problem) -> Hidden:
    """The hidden chain of a problem: product of the models, the secret's private memory and the states.

    Cost: linear in the number of transitions of the product; problems are immutable, so it is built once for each.
    """
    if problem not in _BUILT:
        _BUILT[problem] = _build(problem)
    return _BUILT[problem]


def _build(problem: Problem) -> Hidden:
    table, models = problem.secret_table, problem.models
    num_models, num_memories, num_states = table.label.shape
    matrices, start = _product(problem)
    kept = _reachable(matrices, start) if num_memories > 1 else np.arange(len(start))
    if len(kept) < len(start):
        matrices, start = [matrix[kept][:, kept] for matrix in matrices], start[kept]
    model_index, rest = np.divmod(kept, num_memories * num_states)
    memory, state = np.divmod(rest, num_states)
    first, channels = _emissions(problem.observer, state, problem.num_actions)
    values = table.label[model_index, memory, state] if num_models > 1 else table.label[0, memory, state]
    label = np.zeros((len(kept), len(table.value_names)))
    label[np.flatnonzero(values >= 0), values[values >= 0]] = 1.0
    return Hidden(
        kernel=make_kernel(matrices),
        start=start,
        root=start[:, None] * first,
        channels=channels,
        reward=np.stack([model.rewards for model in models])[model_index, state],
        terminal=np.stack([model.terminal_rewards for model in models])[model_index, state],
        cell=kept if table.agent_knows else state,
        num_cells=problem.num_cells,
        state=state,
        model_index=model_index,
        label=label,
        split_time=table.time,
        horizon=problem.horizon,
        discount=problem.discount,
    )


def _product(problem: Problem) -> tuple[list[sp.csr_array], np.ndarray]:
    """Transitions, one matrix an action, and start over all triples (model, memory, state), model-major."""
    table, models = problem.secret_table, problem.models
    num_models, num_memories, size = len(models), len(table.memory_names), problem.num_states
    weights = np.ones(1) if table.weights is None else table.weights
    if num_models == num_memories == 1:
        return list(models[0].matrices), models[0].initial
    total = num_models * num_memories * size
    start = np.zeros(total)
    matrices = []
    for k, model in enumerate(models):
        start[(k * num_memories + table.memory_start) * size + np.arange(size)] += weights[k] * model.initial
    for action in range(problem.num_actions):
        rows, columns, data = [], [], []
        for k, model in enumerate(models):
            entries = model.matrices[action].tocoo()
            for m in range(num_memories):
                rows.append((k * num_memories + m) * size + entries.row)
                columns.append((k * num_memories + table.memory_step[m, entries.col]) * size + entries.col)
                data.append(entries.data)
        places = (np.concatenate(rows), np.concatenate(columns))
        matrices.append(sp.csr_array((np.concatenate(data), places), shape=(total, total)))
    return matrices, start


def _reachable(matrices: list[sp.csr_array], start: np.ndarray) -> np.ndarray:
    """The hidden states that some policy can reach, in order."""
    graph = sp.csr_array(sum(matrices))
    reached = start > 0
    edge = reached
    while edge.any():
        following = np.zeros(len(start), dtype=bool)
        following[graph[np.flatnonzero(edge)].indices] = True
        edge = following & ~reached
        reached = reached | edge
    return np.flatnonzero(reached)


def _emissions(observer: Observer, state: np.ndarray, num_actions: int) -> tuple[np.ndarray, tuple[Channel, ...]]:
    """The first emission and the channels, over hidden states that show as the model's states `state`."""
    table = observer.emissions[:, state] if observer.on_actions else observer.emissions[None, state]
    first = table[0] if observer.sees_first else np.ones((len(state), 1))
    every = np.ones(num_actions, dtype=bool)
    if observer.sees_actions:
        return first, tuple(
            Channel(
                np.arange(num_actions) == action, _seen_with(action, table[min(action, len(table) - 1)], num_actions)
            )
            for action in range(num_actions)
        )
    if len(table) == 1:
        return first, (Channel(every, table[0]),)
    distinct, group = np.unique(table.reshape(len(table), -1), axis=0, return_inverse=True)
    return first, tuple(
        Channel(group.ravel() == number, emission.reshape(table.shape[1:])) for number, emission in enumerate(distinct)
    )


def _seen_with(action: int, emission: np.ndarray, num_actions: int) -> np.ndarray:
    """Emission of the pairs (action, observation), pair `(a, o)` being event `a · O + o`."""
    states, observations = emission.shape
    table = np.zeros((states, num_actions * observations))
    table[:, action * observations : (action + 1) * observations] = emission
    return table


def event_name(problem: Problem, event: int, time: int) -> str | tuple[str, str]:
    """How the observer would write an event down: an observation, or a pair (action, observation)."""
    observer = problem.observer
    if time == 0 or not observer.sees_actions:
        return observer.observations[event]
    action, observation = divmod(event, observer.num_observations)
    return problem.model.actions[action], observer.observations[observation]
