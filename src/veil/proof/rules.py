"""The observers' rules of an upper bound, checked: weights, graphs, costs, and rules for whole paths."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from .arithmetic import LARGEST, LARGEST_KEY, Numbers, require
from .checked_problem import CheckedProblem
from .claims import ObserverRule, ProvenBound
from .reading import Shape, is_finite, read_floats, read_integers

LARGEST_WEIGHT = 1e6  # of a channel, far above every price that a bound on bits has
_KRAFT_MARGIN = 2.0**-40  # by which `Σ_z 2^−cost` must stay below one: far above the errors of exp2 and of the sum


def checked_rules(problem: CheckedProblem, bound: ProvenBound, kept: Mapping[int, float]) -> tuple[ObserverRule, ...]:
    """The rules of a bound in int64 and float64, with weights that prove it; `kept`: the channels that are not hidden.

    With a delay the agent moves before it sees the events: the graph then begins with one node, and an observer that receives
    nothing at time 0 goes to its first node whatever the state would have shown.
    """
    channels = tuple(one.channel for one in bound.rules)
    require(channels == problem.asked, f"rule: its channels are {channels}, expected {problem.asked}")
    for one in bound.rules:
        words = f"rule: the weight of {one.channel} is {one.weight!r}, expected a number from 0 to {LARGEST_WEIGHT:g}"
        require(is_finite(one.weight) and 0 < one.weight <= LARGEST_WEIGHT, words)
    alone = len(channels) == 1
    require(not alone or bound.rules[0].weight == 1, f"rule: its weight is {bound.rules[0].weight!r}, expected 1")
    total = sum(Fraction(one.weight) for one in bound.rules if one.channel not in kept)
    words = f"rule: the weights of the channels that are hidden sum to {float(total)!r}, expected one or more"
    require(total >= 1, words)
    rules = tuple(_checked_rule(problem, one) for one in bound.rules)
    if problem.delay:
        (one,) = rules
        seen = problem.observers[0].sees_first
        first = one.first[None] if seen else np.repeat(one.first[:, None], problem.num_events[0], axis=1)
        rules = (replace(one, first=np.zeros(1, dtype=np.int64), following=(first, *one.following)),)
    return rules


def _checked_rule(problem: CheckedProblem, rule: ObserverRule) -> ObserverRule:
    """One rule: every edge leads to a node or to none, and the costs are those of probabilities."""
    place, label, of_times = problem.place[rule.channel], problem.labels[problem.digit[rule.channel]], problem.each
    observer, costs = problem.observers[place], _checked_costs(rule.costs, (None, label.size), "rule: costs")
    require(len(rule.following) == problem.horizon, "rule: its graph does not have one table for each step")
    sizes = [*(len(table) for table in rule.following), len(costs)]
    seen = observer.observations if observer.sees_first else 1
    first = read_integers(rule.first, -1, sizes[0], (seen,), "rule: its first nodes")
    following = tuple(
        read_integers(table, -1, size, (None, problem.num_events[place]), f"rule: its graph at time {time}")
        for time, (table, size) in enumerate(zip(rule.following, sizes[1:], strict=True))
    )
    each = tuple(_checked_costs(one, (None, None), "rule: costs") for one in rule.each)
    wanted = [(size, of_times.values) for size in sizes] if of_times is not None else []
    require([one.shape for one in each] == wanted, "rule: its costs at every time are of another size")
    require(of_times is None or not of_times.ahead, "rule: its secret lies ahead, for which no rule is checked")
    if observer.untimed:
        strings = problem.path is None and _holds_strings(problem, place, first, following)
        words = "rule: its observer has no clock, and the rule depends on more than the string"
        require(strings or set(sizes) == {1}, words)
    path = checked_path(problem, rule, sizes)
    return ObserverRule(first, following, costs, rule.memory, rule.channel, float(rule.weight), *path, each)


def _checked_costs(given: object, shape: Shape, what: str, row: Numbers | None = None) -> Float[np.ndarray, "..."]:
    """Costs in float64, if they are those of probabilities in each row; `row`: the rows of a list of costs, in order."""
    costs = read_floats(given, shape, what)
    require((costs >= 0) & ((costs <= LARGEST) | np.isinf(costs)), f"{what}: a cost is negative or above 2^900")
    kraft = np.exp2(-costs)
    if row is None:
        kraft = kraft.sum(axis=1)
    elif len(row):
        kraft = np.add.reduceat(kraft, np.flatnonzero(np.diff(row, prepend=-1)))
    require(kraft <= 1 - _KRAFT_MARGIN, f"{what}: the probabilities 2^-cost of a row sum to more than one")
    return costs


def _holds_strings(
    problem: CheckedProblem, place: int, first: Int[np.ndarray, " F"], following: tuple[Int[np.ndarray, "n E"], ...]
) -> bool:
    """Whether each node stands for one string of the events that are not silent, and in the last layer each for another.

    A rule on the last layer then depends on nothing else, and an observer without a clock can follow it.
    """
    observer, numbers, strings = problem.observers[place], dict[tuple[int, int], int](), {0: 0}  # 0 is the empty string
    for time, table in enumerate((first[None], *following)):
        after = dict[int, int]()
        for node, event in np.argwhere(table >= 0).tolist():
            if node not in strings:
                continue
            longer = strings[node]
            if event != observer.silent and (time or observer.sees_first):
                longer = numbers.setdefault((longer, event), len(numbers) + 1)
            if after.setdefault(int(table[node, event]), longer) != longer:
                return False
        strings = after
    return len(set(strings.values())) == len(strings)


def checked_path(
    problem: CheckedProblem, rule: ObserverRule, sizes: list[int]
) -> tuple[tuple[Numbers, ...], tuple[np.ndarray, ...]]:
    """The rule for a whole path, its triples as numbers in order: in each row the costs are those of probabilities."""
    if problem.codes is None:
        require(len(rule.path_keys) == len(rule.path_costs) == 0, "rule: it is one for paths, and no path is secret")
        return (), ()
    fits = len(rule.path_keys) == len(rule.path_costs) == len(sizes)
    require(fits, "rule: it does not have one part for each state of a path")
    keys, costs, codes = list[Numbers](), list[np.ndarray](), int(problem.codes.max()) + 1
    for time, size in enumerate([*sizes[1:], sizes[-1]]):
        what = f"rule: its part for the state at time {time}"
        require(size * codes * codes < LARGEST_KEY, f"{what} has too many nodes")
        triple = read_integers(rule.path_keys[time], 0, max(size, codes), (None, 3), f"{what}: its keys")
        require(triple < [size, codes, codes], f"{what}: its keys are not triples of numbers")
        keys.append(triple @ [codes * codes, codes, 1])
        require(np.diff(keys[-1]) > 0, f"{what}: its keys are out of order")
        costs.append(_checked_costs(rule.path_costs[time], keys[-1].shape, what, keys[-1] // codes))
    return tuple(keys), tuple(costs)
