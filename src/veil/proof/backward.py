"""The verifier's backward induction: the upper bound over all policies that observers' rules prove, rounded up."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.pace import Watch
from .arithmetic import FLOOR, LARGEST, UNIT, gamma, require
from .checked_problem import Bounds, CheckedProblem, Moves
from .claims import ObserverRule, ProvenBound
from .path_rules import KRAFT_MARGIN, checked_path, path_costs
from .prices import Lagrangian, checked_prices
from .reading import is_finite, read_floats, read_integers

LARGEST_WEIGHT = 1e6  # of a channel, far above every price that a bound on bits has
_AT_ONCE = 2**21  # moves followed at a time, which bounds the memory
_LARGEST_KEY = 2**62  # of the numbers that stand for tuples of nodes, hidden states and values

Keys = Int[np.ndarray, " n"]
"""Numbers `(nodes · N + x) · Z + z`: nodes of the observers, hidden state, values of the secrets; negative without a node."""


class Walk(NamedTuple):
    """The rules of a bound, checked, in the order of `channels`; `sizes[t]`: how many nodes each has at time t.

    With a delay the agent moves before it sees the events: the graph begins with one node.
    """

    rules: tuple[ObserverRule, ...]
    sizes: list[tuple[int, ...]]


def rule_bound(
    problem: CheckedProblem,
    bound: ProvenBound,
    bounds: Bounds,
    values: Float[np.ndarray, "2 N"] | None,
    kept: Mapping[int, float] | None = None,
    factors: tuple[float, ...] = (),
    clock: Watch | None = None,
) -> float:
    """`U(q,λ) = max_π E_π[Σ_j w_j cost_j(M_j,Z_j) + Σ_k λ_k s_k (G_k − δ_k)] − Σ_j w_j h_j`, rounded up: an upper bound on the
    least opacity of the hidden channels over all policies that meet every constraint `s_k E[G_k] ≥ s_k δ_k`, where `s_k` is
    +1 or −1, and keep `h_j` bits in the channels that are not hidden.

    Every (nodes, x, z) that some policy reaches is listed layer by layer; then
    `W_T = Σ_j w_j cost_j + Σ_k λ_k s_k d_k^T v_k(x)` and
    `W_t(m,x,z) = max_a [Σ_k (λ_k s_k + c_k) d_k^t R_k(x,a) + Σ P(x'|x,a) b(e|a,x') W_{t+1}(m',x',z')]` go back over them. The
    bound is infinite where a graph has no node, or a rule no cost, for something reachable. For a whole path each move also
    pays `−log2 q_t(x|x',m')`, and the end `−log2 q_T(x|m)`: `H(X_0 … X_T|Y) ≤ E[−log2 q_T − Σ_t log2 q_t]` for every policy.

    With `problem.delay` the maximum is over agents that learn each observation one step late: m is then the node before the
    observation of x, and after the last decision comes one more step, on which nothing is chosen. The weights of hidden
    channels sum to one or more, so that the sum is at least the least of them; that of a channel which must keep bits has any
    weight.

    **Arguments:** `problem`: of the channels of the rules, in their order; `bounds`, δ_k, that of the return first; `values`,
    `(2, N)`: what is earned after T, for an infinite return, and for its negative; `kept`: h_j of the channels that are not
    hidden and must keep some bits, by number; all others of the bound are hidden. `factors`: as in `Lagrangian`; `clock`:
    checked about every second.

    Example: the problem of `CheckedProblem` with T = 1, its secret the last state, and an observer who remembers nothing
    and holds both values for equally likely: `first = [0]`, `following = ([[0, 0]],)`, `costs = [[1, 1]]`, λ = 0. Layer 0
    has the key of (0, 0, 0), layer 1 those of (0, 0, z) and (0, 1, z); all values are 1, and so is the bound.

    Cost: twice the moves between reachable triples.

    **Raises:** `CertificateError` where the rules are none; `OutOfTime`.
    """
    spared = _spared(problem, bound, kept or {})
    prices = checked_prices(problem, bound.prices, bounds, 900, "rule")
    walk = _walked(problem, bound)
    factors = factors or (0.0,) * len(prices)
    after = earned_after(problem, values, prices[0] + factors[0])
    lagrangian = Lagrangian(problem, prices, factors, after, problem.horizon)
    found, error = most_paid(problem, walk, lagrangian, clock)
    slacks = [*lagrangian.slacks(bounds), *spared]
    return (found - math.fsum(slacks)) + 1.01 * (error + 8 * UNIT * math.fsum(map(abs, slacks)) + FLOOR)


def most_paid(
    problem: CheckedProblem, walk: Walk, lagrangian: Lagrangian, clock: Watch | None = None, *, pooled: bool = False
) -> tuple[float, float]:
    """The most that any policy is paid, with the costs of the rules, and a bound on its rounding error; infinite where a graph
    has no node, or a rule no cost, for something reachable.

    `pooled`: the first action in a state of the model is one for all models; there is no observer then.
    """
    steps = lagrangian.steps + problem.delay
    x, events, mass = problem.start
    nodes = [one.first[event] for one, event in zip(walk.rules, _of_rules(problem, events), strict=True)]
    begun = _key(problem, _joined(nodes, walk.sizes[0], x), x, problem.settled(0, x, 0 * x))
    layers = [_distinct(begun)]
    for time in range(steps):
        if layers[-1][0] < 0:
            return math.inf, 0.0
        parts = list[Keys]()
        for part in _blocks(problem, layers[-1], time):
            if clock:
                clock.check()
            parts.append(_distinct(_ahead(problem, walk, time, part)))
        layers.append(_distinct(np.concatenate(parts)))
    if layers[-1][0] < 0:
        return math.inf, 0.0
    place, value, size = np.searchsorted(layers[0], begun), _costs(problem, walk, steps, layers[-1]), 0.0
    if not problem.delay:  # with a delay the last step pays what is paid at the end
        paid, size = lagrangian.at(steps)
        value = value + paid[_hidden_state(problem, layers[-1]), 0]
    sizes = [float(np.abs(value).max()) + size]
    for time in range(steps - 1, -1, -1):
        if not np.isfinite(value).all():
            break
        parts, largest, (paid, size) = list[np.ndarray](), 0.0, lagrangian.at(time)
        moves, together = problem.at(time + 1), pooled and not time
        for part in [layers[0]] if together else _blocks(problem, layers[time], time):
            if clock:
                clock.check()
            x, ahead = _hidden_state(problem, part), _ahead(problem, walk, time, part)
            after = value[np.searchsorted(layers[time + 1], ahead)]
            if problem.path is not None:
                after += path_costs(problem, walk.rules[0], time, ahead, x[moves.of(x)[0]])
            largest = max(largest, float(np.abs(after).max()))
            weight = np.bincount(place, mass) if together else None
            parts.append(best_scores(problem, x, moves, after, 1.0, paid, weight))
        costs = _costs(problem, walk, time, layers[time])
        sizes.append(largest + size + float(costs.max()))
        value = np.concatenate(parts) + costs
    if not np.isfinite(value).all():
        return math.inf, 0.0
    terms = (mass * value[place]).tolist()
    # Each other quantity is a product and a sum more, its factor in the objective a sum; a cost of the path is a sum, one of a
    # time a product and a sum; an observer more is both in the costs and a product in every probability.
    count, ways = max(1, len(walk.rules)), (problem.path is not None) + 2 * (problem.each is not None)
    more = 2 * (len(problem.paid) - 1) + any(lagrangian.factors) + ways + 3 * (count - 1)
    error = (gamma(problem.terms + 12 + more) + 2.02 * problem.defect) * math.fsum(sizes)
    error += (gamma(7 + count) + 3.03 * problem.defect) * math.fsum(map(abs, terms))
    return math.fsum(terms), error + lagrangian.left_out


def earned_after(
    problem: CheckedProblem, values: Float[np.ndarray, "2 N"] | None, factor: float
) -> tuple[Float[np.ndarray, " N"], float]:
    """What each x earns of the return at the end or after the horizon, where the return counts with a factor, and its error:
    an objective that takes the return away gains most from what is worst for it."""
    if not problem.endless:
        return problem.paid[0].terminal, 0.0
    sign = 1 if factor >= 0 else -1
    value, tail = continuation_values(problem, values, sign)
    return sign * value, sign * tail


def continuation_values(
    problem: CheckedProblem, values: Float[np.ndarray, "2 N"] | None, sign: int = 1
) -> tuple[Float[np.ndarray, " N"], float]:
    """What is earned after T by continuing for the return, or against it: the claimed values v, and a bound on their error.

    `|v − V*| ≤ max |v − max_a (R + γ P v)| / (1 − γ)`: wrong values widen the bounds, and cannot make them false.
    """
    given, shape = np.zeros((0, 0)) if values is None else read_floats(values, 2, "values"), (2, problem.size)
    require(
        given.shape == shape and (np.abs(given) <= LARGEST).all(), f"values: expected finite numbers of shape {shape}"
    )
    value, discount = given[0 if sign > 0 else 1], problem.discount
    reward, moves = sign * problem.paid[0].reward, problem.at(1)
    best = best_scores(problem, np.arange(problem.size), moves, value[moves.target], discount, reward)
    error = (gamma(problem.terms + 8) + 2.02 * problem.defect) * (np.abs(value).max() + np.abs(reward).max())
    return value, float(1.02 * (np.abs(value - best).max() + error) / (1 - discount))


def _of_rules(problem: CheckedProblem, events: tuple[Keys, ...]) -> list[Keys]:
    """What the observer of each rule receives, of what each observer of the problem does."""
    return [events[problem.place[number]] for number in problem.asked]


def _spared(problem: CheckedProblem, bound: ProvenBound, kept: Mapping[int, float]) -> list[float]:
    """`w_j h_j` of the channels that must keep bits, after the weights of all observers are found to be right."""
    channels = tuple(one.channel for one in bound.rules)
    require(channels == problem.asked, f"rule: its channels are {channels}, expected {problem.asked}")
    for one in bound.rules:
        right = is_finite(one.weight) and 0 < one.weight <= LARGEST_WEIGHT
        require(
            right,
            f"rule: the weight of {one.channel} is {one.weight!r}, expected a number from 0 to {LARGEST_WEIGHT:g}",
        )
    require(
        len(channels) > 1 or bound.rules[0].weight == 1, f"rule: its weight is {bound.rules[0].weight!r}, expected 1"
    )
    total = sum(Fraction(one.weight) for one in bound.rules if one.channel not in kept)
    require(
        total >= 1, f"rule: the weights of the channels that are hidden sum to {float(total)!r}, expected one or more"
    )
    return [float(one.weight) * kept[one.channel] for one in bound.rules if one.channel in kept]


def _checked_graph(problem: CheckedProblem, rule: ObserverRule) -> ObserverRule:
    """One observer in int64 and float64: every edge leads to a node or to none, and the costs are those of probabilities."""
    costs, place = _checked_costs(rule.costs), problem.place[rule.channel]
    require(len(rule.following) == problem.horizon, "rule: its graph does not have one table for each step")
    sizes = [*(len(table) for table in rule.following), len(costs)]
    first = read_integers(rule.first, -1, sizes[0], 1, "rule: its first nodes")
    following = tuple(
        read_integers(table, -1, size, 2, f"rule: its graph at time {time}")
        for time, (table, size) in enumerate(zip(rule.following, sizes[1:], strict=True))
    )
    observer, label = problem.observers[place], problem.labels[problem.digit[rule.channel]]
    fits = len(first) == (observer.observations if observer.sees_first else 1) and costs.shape[1] == label.size
    fits &= all(table.shape[1] == problem.num_events[place] for table in following)
    require(fits, "rule: its shape is not the problem's")
    each = tuple(map(_checked_costs, rule.each))
    wanted = [(size, problem.each.values) for size in sizes] if problem.each is not None else []
    require([one.shape for one in each] == wanted, "rule: its costs at every time are of another size")
    ahead = problem.each is not None and problem.each.ahead > 0
    require(not ahead, "rule: its secret lies ahead, for which no rule is checked")
    if observer.untimed:
        blind, strings = (
            sizes == [1] * len(sizes),
            problem.path is None and _holds_strings(problem, place, first, following),
        )
        require(blind or strings, "rule: its observer has no clock, and the rule depends on more than the string")
    path = checked_path(problem, rule, sizes)
    return ObserverRule(first, following, costs, rule.memory, rule.channel, float(rule.weight), *path, each)


def _checked_costs(given: object) -> Float[np.ndarray, "n Z"]:
    """Costs in float64, if they are those of probabilities."""
    costs = read_floats(given, 2, "rule: costs")
    require((costs >= 0) & ((costs <= LARGEST) | np.isinf(costs)), "rule: a cost is negative or above 2^900")
    kraft = np.exp2(-costs).sum(axis=1)
    require(kraft <= 1 - KRAFT_MARGIN, "rule: the probabilities 2^-cost of a node sum to more than one")
    return costs


def _holds_strings(
    problem: CheckedProblem, place: int, first: Int[np.ndarray, " F"], following: tuple[Int[np.ndarray, "n E"], ...]
) -> bool:
    """Whether each node stands for one string of the events that are not silent, and in the last layer each for another.

    A rule on the last layer then depends on nothing else, and an observer without a clock can follow it.
    """
    observer, numbers, known = problem.observers[place], dict[int, int](), 1  # 0 is the empty string
    strings = np.zeros(1, dtype=np.int64)
    for number, table in enumerate((first[None], *following)):
        node, event = np.nonzero((table >= 0) & (strings >= 0)[:, None])
        target, longer = table[node, event], strings[node].copy()
        loud = (
            np.flatnonzero(event != observer.silent) if number or observer.sees_first else np.empty(0, dtype=np.int64)
        )
        keys, where = np.unique(longer[loud] * problem.num_events[place] + event[loud], return_inverse=True)
        for key in keys.tolist():
            if key not in numbers:
                numbers[key], known = known, known + 1
        longer[loud] = np.array([numbers[key] for key in keys.tolist()], dtype=np.int64)[where.ravel()]
        strings = np.full(int(table.max(initial=-1)) + 1 if number == len(following) else len(following[number]), -1)
        strings[target] = longer
        if np.any(strings[target] != longer):
            return False
    reached = strings[strings >= 0]
    return len(np.unique(reached)) == len(reached)


def _walked(problem: CheckedProblem, bound: ProvenBound) -> Walk:
    """The observers' graphs as the agent walks through them: with a delay from one node before all events.

    An observer that receives nothing at time 0 goes to its first node whatever the state then would have shown.
    """
    rules = tuple(_checked_graph(problem, one) for one in bound.rules)
    if problem.delay:
        (one,) = rules
        seen = problem.observers[0].sees_first
        first = one.first[None] if seen else np.repeat(one.first[:, None], problem.num_events[0], axis=1)
        rules = (replace(one, first=np.zeros(1, dtype=np.int64), following=(first, *one.following)),)
    sizes = [tuple(len(one.following[time]) for one in rules) for time in range(problem.steps)]
    sizes.append(tuple(len(one.costs) for one in rules))
    require(
        max(map(math.prod, sizes)) * problem.size * problem.values < _LARGEST_KEY,
        "rule: its observers have too many nodes",
    )
    return Walk(rules, sizes)


def _joined(nodes: list[Keys], sizes: tuple[int, ...], like: Keys) -> Keys:
    """One number for a node of each observer; -1 where one of them is missing."""
    number = 0 * like
    for node, size in zip(nodes, sizes, strict=True):
        number = np.where((number < 0) | (node < 0), -1, number * size + node)
    return number


def _apart(number: Keys, sizes: tuple[int, ...]) -> list[Keys]:
    """The node of each observer."""
    nodes = list[Keys]()
    for size in sizes[::-1]:
        number, node = np.divmod(number, size)
        nodes.append(node)
    return nodes[::-1]


def _costs(problem: CheckedProblem, walk: Walk, time: int, keys: Keys) -> Float[np.ndarray, " n"]:
    """What the observers pay at a time in some keys."""
    rest, z = np.divmod(keys, problem.values)
    number, x = np.divmod(rest, problem.size)
    if problem.each is not None:
        (rule,) = walk.rules
        weight = problem.each.weights[time]
        return weight * rule.each[time][number, problem.each.value[x]] if weight else np.zeros(len(keys))
    if time < problem.steps:
        return np.zeros(len(keys))
    total = np.zeros(len(keys))
    for one, node in zip(walk.rules, _apart(number, walk.sizes[-1]), strict=True):
        total += one.weight * one.costs[node, problem.value_of(one.channel, z)]
    if problem.path is not None:
        total += path_costs(problem, walk.rules[0], time, keys, x)
    return total


def _key(problem: CheckedProblem, node: np.ndarray, x: np.ndarray, z: np.ndarray) -> Keys:
    return (node.astype(np.int64) * problem.size + x) * problem.values + z


def _hidden_state(problem: CheckedProblem, keys: Keys) -> Keys:
    return keys // problem.values % problem.size


def _ahead(problem: CheckedProblem, walk: Walk, time: int, keys: Keys) -> Keys:
    """The keys after each move from some keys, in the order of their moves."""
    moves = problem.at(time + 1)
    (rest, z), (position, move) = np.divmod(keys, problem.values), moves.of(_hidden_state(problem, keys))
    nodes = _apart((rest // problem.size)[position], walk.sizes[time])
    seen = _of_rules(problem, tuple(column[move] for column in moves.events))
    after = [one.following[time][node, event] for one, node, event in zip(walk.rules, nodes, seen, strict=True)]
    x = moves.target[move]
    return _key(problem, _joined(after, walk.sizes[time + 1], x), x, problem.settled(time + 1, x, z[position]))


def best_scores(
    problem: CheckedProblem,
    x: Keys,
    moves: Moves,
    value: Float[np.ndarray, " m"],
    factor: float,
    reward: Float[np.ndarray, "N A"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, " n"]:
    """`max_a R(x,a) + factor · Σ P b value` for each x; with weights of the x that of the action which is best for all x of one
    state of the model together. `value`: for all moves of x in order."""
    position, move = moves.of(x)
    pair = position * problem.actions + moves.row[move] % problem.actions
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = factor * np.add.reduceat(moves.chance[move] * value, begins)
    position, action = position[begins], pair[begins] % problem.actions
    found = sums + reward[x[position], action]
    if weight is not None:
        state = problem.state[x[position]]
        total = np.full((problem.states, problem.actions), -np.inf)
        total[state, action] = 0.0
        np.add.at(total, (state, action), weight[position] * found)
        chosen, values = action == total.argmax(axis=1)[state], np.zeros(len(x))
        values[position[chosen]] = found[chosen]
        return values
    return np.maximum.reduceat(found, np.flatnonzero(np.diff(position, prepend=-1)))


def _distinct(keys: Keys) -> Keys:
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]


def _blocks(problem: CheckedProblem, keys: Keys, time: int) -> list[Keys]:
    """The keys in pieces whose moves are followed together; one with more moves than that is a piece of its own."""
    moves = np.cumsum(problem.at(time + 1).degree[_hidden_state(problem, keys)])
    pieces = np.split(keys, np.searchsorted(moves, np.arange(_AT_ONCE, int(moves[-1]), _AT_ONCE)))
    return [piece for piece in pieces if len(piece)]
