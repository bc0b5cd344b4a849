"""The verifier's part for several pairs: their observers as one, whose node is the tuple of theirs."""

from dataclasses import replace
from math import prod

import numpy as np
from jaxtyping import Int

from .arithmetic import require
from .checked_problem import CheckedProblem
from .witness import Witness

LARGEST_WEIGHT = 1e6  # of a pair, far above every price that a bound on bits has
_MOST_EDGES = 2**26  # of a step, at 16 bytes for each observer
_LARGEST_KEY = 2**62  # of the numbers that stand for tuples of nodes

Tuples = Int[np.ndarray, "n J"]
"""Nodes of an observer of all events: of each the nodes of the J observers."""


def joined_rule(problem: CheckedProblem, witness: Witness) -> Witness:
    """One observer who receives all events, follows all graphs, and pays `Σ_j w_j cost_j(node_j, z_j)` at time T.

    Where there is one observer, whose weight is then 1, it is that one. Cost: the tuples of nodes that events lead to, times
    the events.
    """
    rules = witness.rules
    if problem.views is None or len(rules) == 1:
        return witness
    require(problem.path is None, "rule: several pairs, and the secret is a whole path")
    firsts = np.stack([one.first[view.first] for one, view in zip(rules, problem.views, strict=True)], axis=1)
    first, nodes = _numbered(firsts, [len(one.following[0] if one.following else one.costs) for one in rules])
    following = []
    for time in range(problem.horizon):
        require(len(nodes) * problem.events <= _MOST_EDGES, "rule: its observers have too many nodes together")
        after = np.stack(
            [
                one.following[time][nodes[:, place]][:, view.event]
                for place, (one, view) in enumerate(zip(rules, problem.views, strict=True))
            ],
            axis=-1,
        )
        ends = [len(one.following[time + 1] if time + 1 < problem.horizon else one.costs) for one in rules]
        number, nodes = _numbered(after.reshape(-1, len(rules)), ends)
        following.append(number.reshape(after.shape[:2]))
    last = zip(rules, problem.views, nodes.T, strict=True)
    costs = np.sum([one.weight * one.costs[node][:, view.value] for one, view, node in last], axis=0)
    return replace(witness, first=first, following=tuple(following), costs=costs, others=())


def _numbered(tuples: Tuples, sizes: list[int]) -> tuple[Int[np.ndarray, " n"], Tuples]:
    """A number for each tuple, -1 where one of its nodes is missing, and the tuple that each number stands for."""
    require(prod(sizes) < _LARGEST_KEY, "rule: its observers have too many nodes together")
    whole = (tuples >= 0).all(axis=1)
    kept, number = np.unique(np.ravel_multi_index(tuple(tuples[whole].T), tuple(sizes)), return_inverse=True)
    found = np.full(len(tuples), -1)
    found[whole] = number.ravel()
    return found, np.stack(np.unravel_index(kept, tuple(sizes)), axis=1)
