"""The witness of a lower bound over all queries: beliefs of a search, in the verifier's numbers, as many as are asked for."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..proof.belief_bound import sees_what_observer_sees
from ..proof.checked_problem import CheckedProblem
from ..proof.claims import BeliefBound, Beliefs
from ..proof.compiled import free_quantities, record_of
from .beliefs import BeliefSteps
from .graph import BeliefGraph

_AT_ONCE = 2**14  # beliefs
_LESS = 2e-12  # of each number: equal beliefs of a search are equal to twelve decimals, and the witness is below all of them


def witness(graph: BeliefGraph, most_numbers: int) -> BeliefBound:
    """The beliefs of a search that matter most for its lower bound, at most so many numbers.

    **Raises:** `InputError` where the verifier has no such bound for the problem.
    """
    steps = graph.steps
    record = record_of(steps.problem)
    problem = CheckedProblem(record)
    if not sees_what_observer_sees(record):
        raise InputError("queries", ["there is no certificate of a lower bound for this problem"])
    order = _order(graph, record.channels[0].situation)
    chosen = _chosen(graph, most_numbers)
    numbers = [np.full(size, -1) for size in graph.sizes]
    for time, nodes in enumerate(chosen):
        numbers[time][nodes] = np.arange(len(nodes))
    points = list[Beliefs]()
    for time, nodes in enumerate(chosen):
        belief, child, _ = graph.expanded(time, nodes)
        ahead = np.full((len(nodes), problem.num_events[0]), -1)
        if time + 1 < len(numbers):
            ahead[:, steps.answers.event] = np.where(child >= 0, numbers[time + 1][np.maximum(child, 0)], -1)
        points.append(_rows(_placed(belief, order, steps.values(time), record.size), ahead))
    while points and len(points[-1].ends) == 1:
        points.pop()
    first = np.full(problem.num_first[0], -1)
    for (event, _), root in zip(steps.starts, graph.roots.tolist(), strict=True):
        first[event] = numbers[0][root] if numbers else -1
    return BeliefBound(0.0, _prices(steps), first.astype(np.int32), tuple(points))


def _prices(steps: BeliefSteps) -> tuple[float, ...]:
    """The price of each quantity of the record: that of a search is of the bound that a budget sets on the return."""
    others = steps.problem.others
    budgets = [number for number, one in enumerate(others, 1) if one.quantity == 0 and one.sign < 0]
    if steps.price and not budgets:
        raise InputError(
            "price", ["it is for a budget, such as veil.Return(max=3): without one nothing is proven of prices"]
        )
    size = 1 + len(others) + len(free_quantities(steps.problem))
    return tuple(steps.price if number in budgets[:1] else 0.0 for number in range(size))


def _order(graph: BeliefGraph, situation: Int[np.ndarray, " N"]) -> Int[np.ndarray, " n"]:
    """The verifier's number of each hidden state of a search."""
    places = np.argsort(situation)
    wanted = graph.steps.situations
    found = places[np.minimum(np.searchsorted(situation[places], wanted), len(places) - 1)]
    if (situation[found] != wanted).any() or len(np.unique(situation)) < len(situation):
        raise InputError("queries", ["other channels remember more than the secret: there is no certificate"])
    return found


def _chosen(graph: BeliefGraph, most_numbers: int) -> list[Int[np.ndarray, " k"]]:
    """The expanded beliefs of each time that are worth most: their probability, times what their bound is above that of the
    hidden state alone."""
    steps, worth, costs = graph.steps, list[np.ndarray](), list[np.ndarray]()
    weight = np.zeros(graph.sizes[0] if graph.sizes else 0)
    weight[graph.roots if len(weight) else []] = 1.0
    for time, size in enumerate(graph.sizes):
        following = np.zeros(graph.sizes[time + 1] if time + 1 < len(graph.sizes) else 0)
        worth.append(np.zeros(size))
        costs.append(np.zeros(size, dtype=np.int64))
        reached, lower, exact = np.flatnonzero(weight), graph.lower(time), graph.exact(time)
        for begin in range(0, len(reached), _AT_ONCE):
            nodes = reached[begin : begin + _AT_ONCE]
            belief, child, mass = graph.expanded(time, nodes)
            gained = np.maximum(0.0, lower[nodes] - steps.placed(time, belief))
            is_open, here = (child >= 0).any(axis=1) | exact[nodes], weight[nodes]
            worth[-1][nodes] = np.where(is_open, here * gained, 0.0)
            costs[-1][nodes] = (belief > _LESS).sum(axis=1) + len(steps.answers.event)
            kept = child >= 0
            if len(following):
                np.maximum.at(following, child[kept], (here[:, None] * mass)[kept])
        weight = following
    every, numbers = np.concatenate([*worth, np.zeros(0)]), np.concatenate([*costs, np.zeros(0, dtype=int)])
    order = np.argsort(-every, kind="stable")
    order = order[(np.cumsum(numbers[order]) <= most_numbers) & (every[order] > 0)]
    ends = np.cumsum([0, *graph.sizes])
    return [np.sort(order[(order >= low) & (order < high)]) - low for low, high in pairwise(ends.tolist())]


def _placed(
    belief: Float[np.ndarray, "k n"], order: Int[np.ndarray, " N"], values: int, size: int
) -> Float[np.ndarray, "k m"]:
    """Beliefs in the verifier's order: each hidden state with its values, a little smaller than they are."""
    found = np.zeros((len(belief), size, values))
    found[:, order, :] = belief.reshape(len(belief), values, len(order)).transpose(0, 2, 1)
    return np.maximum(0.0, found - _LESS).reshape(len(belief), size * values)


def _rows(belief: Float[np.ndarray, "k m"], child: Int[np.ndarray, "k E"]) -> Beliefs:
    row, place = np.nonzero(belief)
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(belief)))])
    return Beliefs(ends.astype(np.int32), place.astype(np.int32), belief[row, place], child.astype(np.int32))
