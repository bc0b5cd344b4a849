"""The hidden chain in product with what the agent remembers: for the observer, memory is one more thing that is hidden.

A memory of observations takes the emission into the step, `P((w',x')|(w,x),a) = P(x'|x,a) b_a(e|x')` where w' is w
with e: the newest event of w' then tells what was emitted, whatever the action was, and one emitter serves all actions.
A controller chooses its next node with the action: its actions are the pairs (action, next node).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from ..common.errors import TooLargeError
from ..common.memo import memo
from ..policy.memories import Memory, PolicyMemory
from ..policy.memories.observations import EventRegister
from ..policy.recall import Recall, recall
from ..problem.problem import Problem
from .hidden import Emitter, Hidden, build, emission_tables, one_hot, paid_on, scaled_rows
from .kernel import make_kernel

_MOST_NUMBERS = 2**28  # transition probabilities of the product: 2 GiB
_AT_ONCE = 2**17  # situations whose steps are followed at a time


@dataclass(frozen=True, eq=False)
class Remembering:
    """A hidden chain with the agent's memory in it.

    **Attributes:** `hidden`, whose cells are the pairs (cell of the problem, memory) in order; `recall`: the situations
    behind the hidden states, in the same order, and what is needed to play a policy.
    """

    memory: Memory
    hidden: Hidden
    recall: Recall

    @property
    def available(self) -> Bool[np.ndarray, "C A"]:
        """Which entries of a row of a policy's table may be positive."""
        return self.recall.available

    @property
    def cell_names(self) -> tuple[str, ...]:
        """The name of each row of a policy's table."""
        return self.recall.cell_names


def remember(problem: Problem, memory: Memory) -> Remembering:
    """The product of a problem's hidden chain with a memory, as far as some policy can reach.

    Cost: linear in the number of its transitions; built once for each problem and memory.

    **Raises:** `InputError` where the problem does not allow the memory; `TooLargeError`, before the product is
    allocated, where it passes two million states or 2 GiB of transition probabilities.
    """
    situations = recall(problem, memory)
    return memo(
        problem,
        (remember, situations.memory),
        lambda: Remembering(situations.memory, _product(problem, situations), situations),
    )


def hidden_chain(problem: Problem, memory: PolicyMemory) -> Hidden:
    """The hidden chain that a table drives: the problem's own, or in product with what the agent remembers."""
    return remember(problem, memory).hidden if isinstance(memory, Memory) else build(problem)


def _product(problem: Problem, situations: Recall) -> Hidden:
    table = problem.secret_table
    model, secret, state, _ = situations.parts
    size = len(situations.code)
    place = np.searchsorted(situations.code, situations.opening.code)
    start = np.bincount(place, situations.opening.chance, minlength=size)
    values = table.label[model, secret, state]
    first, emitters = _shown(problem, situations, start)
    return Hidden(
        kernel=make_kernel(_matrices(situations)),
        start=start,
        first=first,
        emitters=emitters,
        paid=tuple(one.repeated(situations.register.nodes) for one in paid_on(problem, model, secret, state)),
        cell=situations.rows[1],
        num_cells=situations.num_cells,
        state=state,
        model_index=model,
        labels=one_hot(values, len(table.value_names)),
        split_time=table.time,
        horizon=problem.horizon,
        path=None if table.path is None else table.path[state],
    )


def _shown(
    problem: Problem, situations: Recall, start: Float[np.ndarray, " N"]
) -> tuple[sp.csr_array, tuple[Emitter, ...]]:
    """What is received at time 0, jointly with the start, and what each later state emits."""
    register, opening = situations.register, situations.opening
    _, _, state, memory = situations.parts
    if not isinstance(register, EventRegister):
        first, emitters = emission_tables(problem.observer, state, problem.num_actions)
        wide = tuple(Emitter(np.repeat(c.actions, register.nodes), c.table) for c in emitters)
        return scaled_rows(start, first), wide
    first = sp.csr_array(start[:, None])
    if problem.observer.sees_first:
        places = (np.searchsorted(situations.code, opening.code), opening.event)
        shape = (len(start), problem.observer.num_observations)
        first = sp.csr_array((opening.chance, places), shape=shape)
    newest = register.newest(memory)
    entered = np.flatnonzero(newest >= 0)  # the others occur at time 0 only and emit nothing later
    places = (entered, newest[entered])
    emission = sp.csr_array((np.ones(len(entered)), places), shape=(len(start), register.num_events))
    return first, (Emitter(np.ones(problem.num_actions, dtype=bool), emission),)


def _matrices(situations: Recall) -> list[sp.csr_array]:
    """The transitions of the product, one matrix an action."""
    code, nodes, size = situations.code, situations.register.nodes, len(situations.code)
    going = np.flatnonzero(situations.goes_on)
    _refuse_if_too_large(situations, going)
    parts = []
    for begin in range(0, len(going), _AT_ONCE):
        here = going[begin : begin + _AT_ONCE]
        source, step, reached = situations.follow(code[here])
        parts.append((here[source], step, reached))
    rows, step, reached = (
        np.concatenate([part[i] for part in parts] or [np.empty(0, dtype=np.int64)]) for i in range(3)
    )
    columns = [np.searchsorted(code, reached + node) for node in range(nodes)]
    matrices = []
    for action in range(situations.steps.chance.shape[1]):
        chance = situations.steps.chance[step, action]
        taken = np.flatnonzero(chance)
        matrices += [
            sp.csr_array((chance[taken], (rows[taken], column[taken])), shape=(size, size)) for column in columns
        ]
    return matrices


def _refuse_if_too_large(situations: Recall, going: np.ndarray) -> None:
    model, _, state, _ = situations.parts
    degree = np.diff(situations.steps.begin)[model[going] * situations.shape[2] + state[going]]
    entries = int(degree.sum()) * situations.register.nodes
    if entries * situations.num_actions > _MOST_NUMBERS:
        raise TooLargeError(
            f"{situations.memory.name} makes {len(situations.code):,} hidden states with {entries:,} transitions of"
            f" {situations.num_actions} actions, more than {_MOST_NUMBERS:,} numbers in all: remember less, or shorten"
            " the horizon"
        )
