"""The hidden chain of a problem: its models, the registers that follow them, and what the observer receives of both.

A memory of observations takes the emission into the step, `P((w',x')|(w,x),a) = P(x'|x,a) b_a(e|x')` with w' the memory after
e: the newest event is then a register, which tells what was emitted, whatever the action was, and one emitter serves all
actions. A controller chooses its next node with the action: its actions are the pairs (action, next node).
"""

from functools import cmp_to_key

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import TooLargeError
from ..common.memo import memo
from ..common.numbering import ragged
from ..policy.memories import Memory, PolicyMemory
from ..policy.recall import base_rows, recall, sensing
from ..problem.agent import Reading
from ..problem.observer import Observer
from ..problem.problem import Problem
from ..problem.product import Product, explore
from ..problem.registers import NewestEvent, Register, TableRegister, TimeRegister
from .hidden import Emitter, Hidden, keep_observed
from .kernel import ALWAYS_DENSE_STATES, make_kernel, num_columns, num_rows
from .paid import Afterwards, Paid
from .written import Written

_MOST_NUMBERS = 2**28  # transition probabilities of a product: 2 GiB
_AT_ONCE = 2**17  # hidden states whose steps are followed at a time


def build(problem: Problem, memory: PolicyMemory | None = None) -> Hidden:
    """The hidden chain of a problem's own channel that a policy with this memory drives; None: one that sees its state.

    Cost: linear in the number of its transitions; problems are immutable, so it is built once for each, and each memory.

    **Raises:** `InputError` if the problem does not allow the memory; `TooLargeError`, before the product is allocated, if it
    passes two million states or 2 GiB of transition probabilities.
    """
    if isinstance(memory, Memory):
        rows = recall(problem, memory)
        return memo(problem, (build, rows.memory), lambda: _of_product(problem, rows.product, *rows.rows))
    if memory is not None and problem.reading is not None:
        return memo(problem, (build, "readings"), lambda: _of_readings(problem))
    return memo(problem, build, lambda: _built(problem))


def _built(problem: Problem) -> Hidden:
    varies, smaller = problem.observer.varies, problem.without_formulas()
    hidden = _explored(problem, [TimeRegister(problem.horizon)])[0] if varies else _of_model(problem)
    if smaller is not problem and build(smaller).num_states < hidden.num_states:
        keep_observed(hidden, build(smaller))
    return hidden


def build_following(problem: Problem, register: TableRegister) -> tuple[Hidden, Int[np.ndarray, " N"]]:
    """The hidden chain in product with one more register, and the value of that register in each hidden state."""
    if register.size == 1:
        found = build(problem)
        return found, np.zeros(found.num_states, dtype=int)
    timed: list[Register] = [TimeRegister(problem.horizon)] if problem.observer.varies else []
    return _explored(problem, [*timed, register])


def _of_model(problem: Problem) -> Hidden:
    """The chain without further registers: the product of models, memories and states, mostly as it is."""
    _, num_memories, num_states = problem.secret_table.label.shape
    matrices, start = _all_states(problem)
    kept = _carried(problem, matrices, start)
    if len(kept) < len(start):
        matrices, start = [sp.csr_array(matrix[kept][:, kept]) for matrix in matrices], start[kept]
    model, rest = np.divmod(kept, num_memories * num_states)
    held, state = np.divmod(rest, num_states)
    first, emitters = emission_tables(problem, state)
    cell, rows = problem.row_of(model, held, state), problem.informed.num_cells
    parts = model, held, state
    return _hidden(problem, parts, matrices, start, scaled_rows(start, first), emitters, cell, rows)


def _of_readings(problem: Problem) -> Hidden:
    """The chain of an agent that acts on its newest reading, which is a register."""
    product = explore(problem, sensing(problem), _span(problem), "the agent's reading")
    return _of_product(problem, product, np.arange(problem.num_cells), base_rows(problem, product))


def _span(problem: Problem) -> int | None:
    return None if problem.return_over == "infinite" else problem.horizon


def _explored(problem: Problem, registers: list[Register]) -> tuple[Hidden, Int[np.ndarray, " N"]]:
    """The chain with further registers that no policy acts on, and the value of the last of them."""
    product = explore(problem, registers, _span(problem), "the time" if len(registers) == 1 else "a further secret")
    model, held, state, *_, value = product.parts
    cell = problem.row_of(model, held, state)
    return _of_product(problem, product, np.arange(problem.informed.num_cells), cell), value


def _of_product(problem: Problem, product: Product, rows: Int[np.ndarray, " C"], cell: Int[np.ndarray, " N"]) -> Hidden:
    """The chain with further registers; `rows` of the policy's table, and the row of each hidden state."""
    model, held, state, *values = product.parts
    found = dict(zip(map(type, product.registers), values, strict=True))
    size, opening = len(product.code), product.opening
    begun = np.searchsorted(product.code, opening.code)
    start = np.bincount(begun, opening.chance, minlength=size)
    newest = found.get(NewestEvent)
    if newest is None:
        first, emitters = emission_tables(problem, state, found.get(TimeRegister))
        first = scaled_rows(start, first)
        emitters = tuple(Emitter(np.repeat(one.actions, product.nodes), one.table) for one in emitters)
    else:
        first = sp.csr_array(start[:, None])
        if problem.observer.sees_first:
            shape = (size, problem.observer.num_observations)
            first = sp.csr_array((opening.chance, (begun, opening.event)), shape=shape)
        entered = np.flatnonzero(newest)  # the others occur at time 0 only
        events = problem.observer.num_events(problem.num_actions)
        table = sp.csr_array((np.ones(len(entered)), (entered, newest[entered] - 1)), shape=(size, events))
        emitters = (Emitter(np.ones(problem.num_actions * product.nodes, dtype=bool), table),)
    matrices = _matrices(product)
    parts, sees_state = (model, held, state), Reading not in found
    return _hidden(
        problem, parts, matrices, start, first, emitters, cell, len(rows), product.nodes, sees_state=sees_state
    )


def _hidden(
    problem: Problem,
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    matrices: list[sp.csr_array],
    start: Float[np.ndarray, " N"],
    first: sp.csr_array,
    emitters: tuple[Emitter, ...],
    cell: Int[np.ndarray, " N"],
    num_cells: int,
    nodes: int = 1,
    *,
    sees_state: bool = True,
) -> Hidden:
    """The chain over hidden states of which the model, the memory and the state are given."""
    model, held, state = parts
    table = problem.secret_table
    return Hidden(
        kernel=make_kernel(matrices),
        start=start,
        first=first,
        emitters=emitters,
        paid=tuple(
            one if nodes == 1 else one.repeated(nodes)
            for one in _paid(problem, model, held, state, sees_state=sees_state)
        ),
        cell=cell,
        num_cells=num_cells,
        state=state,
        model_index=model,
        held=held,
        labels=one_hot(table.label[model, held, state], len(table.value_names)),
        split_time=table.time,
        horizon=problem.horizon,
        path=None if table.path is None else table.path[state],
        each=None if table.each is None else table.each.at(state),
        written=Written.by(problem.observer),
    )


def _paid(
    problem: Problem,
    model: Int[np.ndarray, " N"],
    held: Int[np.ndarray, " N"],
    state: Int[np.ndarray, " N"],
    *,
    sees_state: bool,
) -> tuple[Paid, ...]:
    """The quantities on hidden states, given by their parts."""
    models, after = problem.models, None
    if problem.return_over == "infinite":
        after = Afterwards(models, model, state, sees_state and (len(models) == 1 or problem.agent.knows_model))
    terminals = problem.channels[0].terminals
    return tuple(
        Paid(one.paid[model, state], last[model, held, state], one.discount, None if number else after)
        for number, (one, last) in enumerate(zip(problem.quantities, terminals, strict=True))
    )


def _matrices(product: Product) -> list[sp.csr_array]:
    """The transitions of a product, one matrix for each action."""
    code, nodes, size = product.code, product.nodes, len(product.code)
    going = np.flatnonzero(product.goes_on)
    entries, actions = product.degree(going) * nodes, product.steps.chance.shape[1] * nodes
    if entries * actions > _MOST_NUMBERS:
        raise TooLargeError(
            f"{len(code):,} hidden states with {entries:,} transitions of {actions} actions have more than"
            f" {_MOST_NUMBERS:,} numbers in all: remember less, or shorten the horizon"
        )
    parts = []
    for begin in range(0, len(going), _AT_ONCE):
        here = going[begin : begin + _AT_ONCE]
        source, step, reached = product.follow(code[here])
        parts.append((here[source], step, reached))
    rows, step, reached = (
        np.concatenate([part[i] for part in parts] or [np.empty(0, dtype=np.int64)]) for i in range(3)
    )
    columns = [np.searchsorted(code, reached + node) for node in range(nodes)]
    chosen = product.registers[-1].choices(product.parts[-1][rows])
    matrices = []
    for action in range(product.steps.chance.shape[1]):
        chance = product.steps.chance[step, action]
        for node, column in enumerate(columns):
            taken = np.flatnonzero((chance > 0) & chosen[:, node])
            matrices.append(sp.csr_array((chance[taken], (rows[taken], column[taken])), shape=(size, size)))
    return matrices


def _all_states(problem: Problem) -> tuple[list[sp.csr_array], np.ndarray]:
    """Transitions, one matrix for each action, and start over all triples (model, memory, state), model-major."""
    table, models = problem.secret_table, problem.models
    num_models, num_memories, size = len(models), len(table.memory_names), problem.num_states
    if num_models == num_memories == 1:
        return list(models[0].matrices), models[0].initial
    total = num_models * num_memories * size
    start = np.zeros(total)
    matrices = []
    for k, model in enumerate(models):
        start[(k * num_memories + table.memory_start) * size + np.arange(size)] += table.prior[k] * model.initial
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


def _carried(problem: Problem, matrices: list[sp.csr_array], start: np.ndarray) -> np.ndarray:
    """The hidden states of the chain, in order: those that some policy can reach within the horizon.

    An infinite horizon of returns reaches further than that of the observer. Of a small product those are kept that can
    be reached at any time, and of a small model all: fewer would not be faster, and sums over them round otherwise.
    """
    small = len(start) <= ALWAYS_DENSE_STATES
    if small and len(problem.secret_table.memory_names) == 1:
        return np.arange(len(start))
    limited = not small and problem.return_over == "horizon"
    return reachable_states(matrices, start, problem.horizon if limited else None)


def reachable_states(
    matrices: list[sp.csr_array], start: np.ndarray, steps: int | None = None
) -> Int[np.ndarray, " n"]:
    """The states that some policy can reach within so many steps (None: any number), in order."""
    reached = start > 0
    edge, made = np.flatnonzero(reached), 0
    rows = [(one.indptr[:-1], np.diff(one.indptr), one.indices) for one in matrices]
    while len(edge) and made != steps and not reached.all():
        before = reached.copy()
        for begin, degree, column in rows:
            reached[column[ragged(begin[edge], degree[edge])]] = True
        edge, made = np.flatnonzero(reached & ~before), made + 1
    return np.flatnonzero(reached)


def emission_tables(
    problem: Problem, state: Int[np.ndarray, " N"], time: Int[np.ndarray, " N"] | None = None
) -> tuple[sp.csr_array, tuple[Emitter, ...]]:
    """The first emission and the emitters, over hidden states that show as the model's states `state` at times `time`."""
    observer, num_actions = problem.observer, problem.num_actions
    tables = _emissions(observer, state, time, problem.horizon)
    begin = observer.first_matrix(problem.horizon)
    first = sp.csr_array(np.ones((len(state), 1))) if begin is None else sp.csr_array(begin[state])
    every = np.ones(num_actions, dtype=bool)
    if observer.sees_actions:
        return first, tuple(
            Emitter(
                np.arange(num_actions) == action, _seen_with(action, tables[min(action, len(tables) - 1)], num_actions)
            )
            for action in range(num_actions)
        )
    if len(tables) == 1:
        return first, (Emitter(every, tables[0]),)
    alike: dict[bytes, list[int]] = {}
    for action, table in enumerate(tables):
        content = b"".join(part.tobytes() for part in (table.indptr, table.indices, table.data))
        alike.setdefault(content, []).append(action)
    groups = sorted(alike.values(), key=lambda actions: cmp_to_key(_compare)(tables[actions[0]]))
    return first, tuple(Emitter(np.isin(np.arange(num_actions), actions), tables[actions[0]]) for actions in groups)


def _emissions(
    observer: Observer, state: Int[np.ndarray, " N"], time: Int[np.ndarray, " N"] | None, horizon: int
) -> list[sp.csr_array]:
    """What each hidden state emits, one table or one for each action."""
    if time is None:
        whole = np.array_equal(state, np.arange(observer.shape[-2]))
        return [one if whole else sp.csr_array(one[state]) for one in observer.matrices]
    order = np.argsort(time, kind="stable")
    back = np.argsort(order)
    parts = [(when, state[order[time[order] == when]]) for when in np.unique(time).tolist()]
    shown = {when: observer.matrices_at(when, horizon) if when else observer.matrices for when, _ in parts}
    tables = [[one[members] for one in shown[when]] for when, members in parts]  # at time 0 there is `first` instead
    return [sp.csr_array(sp.csr_array(sp.vstack(column))[back]) for column in zip(*tables, strict=True)]


def _compare(one: sp.csr_array, two: sp.csr_array) -> int:
    """The order of two non-negative tables, row by row: the sign of the first entry in which they differ."""
    difference = sp.csr_array(one - two)
    difference.eliminate_zeros()
    difference.sort_indices()
    return int(np.sign(difference.data[0])) if difference.nnz else 0


def _seen_with(action: int, table: sp.csr_array, num_actions: int) -> sp.csr_array:
    """Emission of the pairs (action, observation), pair `(a, o)` being event `a · O + o`."""
    observations = num_columns(table)
    shape = (num_rows(table), num_actions * observations)
    return sp.csr_array((table.data, table.indices + action * observations, table.indptr), shape=shape)


def one_hot(value: Int[np.ndarray, " N"], num_values: int) -> sp.csr_array:
    """A row with a one at each state's value; an empty row for -1."""
    known = value >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])
    return sp.csr_array((np.ones(indptr[-1]), value[known], indptr), shape=(len(value), num_values))


def scaled_rows(factor: Float[np.ndarray, " N"], table: sp.csr_array) -> sp.csr_array:
    """Each row of a table times its factor, without stored zeros."""
    data = table.data * np.repeat(factor, np.diff(table.indptr))
    result = sp.csr_array((data, table.indices, table.indptr), shape=table.shape, copy=True)
    result.eliminate_zeros()
    return result
