"""The verifier's backward induction: the upper bound over all policies that an observer's rule proves, rounded up."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..problem.apart import View
from .arithmetic import FLOOR, LARGEST, UNIT, gamma, require
from .checked_problem import Bounds, CheckedProblem
from .joined_rules import LARGEST_WEIGHT, joined_rule
from .path_rules import KRAFT_MARGIN, checked_path, path_costs
from .prices import Lagrangian
from .reading import is_finite, read_floats, read_integers
from .witness import Witness

_AT_ONCE = 2**21  # moves followed at a time, which bounds the memory

Keys = Int[np.ndarray, " n"]
"""Numbers `(node · N + x) · Z + z` for (node of the observer, hidden state, value of the secret); negative without a node."""


def rule_bound(
    problem: CheckedProblem,
    witness: Witness,
    bounds: Bounds,
    values: Float[np.ndarray, "K S"] | None,
    kept: Mapping[str, float] | None = None,
    clock: Clock = UNLIMITED,
) -> float:
    """`U(q,λ) = max_π E_π[w(M_T,Z) + Σ_k λ_k s_k (G_k − δ_k)]`, rounded up: an upper bound on the opacity of all policies that
    meet every constraint `s_k E[G_k] ≥ s_k δ_k`, where `s_k` is +1 or −1.

    Every (node, x, z) that some policy reaches is listed layer by layer; then `W_T = w + Σ_k λ_k s_k d_k^T v_k(x)` and
    `W_t(m,x,z) = max_a [Σ_k λ_k s_k d_k^t R_k(x,a) + Σ P(x'|x,a) b(e|a,x') W_{t+1}(m',x',z')]` go back over them. The bound is
    infinite where the graph has no node, or the rule no cost, for something reachable. For a whole path each move also pays
    `−log2 q_t(x|x',m')`, and the end `−log2 q_T(x|m)`: `H(X_0 … X_T|Y) ≤ E[−log2 q_T − Σ_t log2 q_t]` for every policy.

    With `problem.delay` the maximum is over agents that learn each observation one step late: m is then the node before the
    observation of x, and `W_T(m,x,z) = Σ_o b(o|x) w(m',z) + …`.

    Where the witness has observers of several pairs, `Σ_j w_j cost_j(m_j,z_j)` takes the place of w, over the tuples of their
    nodes: `problem` is then that of these pairs (`checked_pairs`). The weights of pairs that are hidden sum to one or more, so
    that the sum is at least the least of them; that of a pair which must keep `h_j` bits has any weight, and `w_j h_j` is
    subtracted.

    **Arguments:** `bounds`, δ_k, that of the return first; `values`, `(K, S)`: what is earned after T, for an infinite return;
    `kept`: h_j of the pairs that are not hidden and must keep some bits, by name; all others of the witness are hidden.
    `clock`: checked about every second.

    Example: the problem of `CheckedProblem` with T = 1, its secret the last state, and an observer who remembers nothing
    and holds both values for equally likely: `first = [0]`, `following = ([[0, 0]],)`, `costs = [[1, 1]]`, λ = 0. Layer 0
    has the key of (0, 0, 0), layer 1 those of (0, 0, z) and (0, 1, z); all values are 1, and so is the bound.

    Cost: twice the moves between reachable triples.

    **Raises:** `CertificateError` where the witness is not a rule; `OutOfTime`.
    """
    spared = _spared(problem, witness, kept or {})
    count, witness = len(witness.rules), joined_rule(problem, _checked_rule(problem, witness, bounds))
    witness, last = _walked(problem, witness)
    after = continuation_values(problem, values) if problem.endless else (problem.paid[0].terminal, 0.0)
    horizon, lagrangian = problem.horizon, Lagrangian(problem, witness, after)
    x, event, mass = problem.start
    begun = _key(problem, witness.first[event], x, problem.settled(0, x, 0 * x))
    layers = [_distinct(begun)]
    for time in range(horizon):
        if layers[-1][0] < 0:
            return math.inf
        parts = list[Keys]()
        for part in _blocks(problem, layers[-1]):
            clock.check()
            parts.append(_distinct(_ahead(problem, witness, time, part)))
        layers.append(_distinct(np.concatenate(parts)))
    rest, z = np.divmod(layers[-1], problem.values)
    node, x = np.divmod(rest, problem.size)
    costs = _last_costs(problem, witness, last, node, x, z)
    if problem.path is not None:
        costs += path_costs(problem, witness, horizon, layers[-1], x)
    value = lagrangian.at_the_end(costs, x)
    if not np.isfinite(value).all():
        return math.inf
    sizes = [float(np.abs(value).max()) + lagrangian.last_size, *([float(costs.max())] if problem.delay else [])]
    for time in range(horizon - 1, -1, -1):
        parts, largest, (paid, size) = [], 0.0, lagrangian.at(time)
        for part in _blocks(problem, layers[time]):
            clock.check()
            x, ahead = _hidden_state(problem, part), _ahead(problem, witness, time, part)
            after = value[np.searchsorted(layers[time + 1], ahead)]
            if problem.path is not None:
                after += path_costs(problem, witness, time, ahead, x[problem.moves(x)[0]])
            largest = max(largest, float(np.abs(after).max()))
            parts.append(best_scores(problem, x, after, 1.0, paid))
        sizes.append(largest + size)
        value = np.concatenate(parts)
        if not np.isfinite(value).all():
            return math.inf
    terms = (mass * value[np.searchsorted(layers[0], begun)]).tolist()
    slacks = [*lagrangian.slacks(bounds), *spared]
    # Each other quantity is a product and a sum more, and a cost of the path is a sum; an observer more is both in the costs
    # and a product in every probability.
    more = 2 * (len(problem.paid) - 1) + (problem.path is not None) + 3 * (count - 1)
    error = (gamma(problem.terms + 12 + more) + 2.02 * problem.defect) * math.fsum(sizes)
    error += (gamma(7 + count) + 3.03 * problem.defect) * math.fsum(map(abs, terms))
    error += 8 * UNIT * math.fsum(map(abs, slacks)) + FLOOR + lagrangian.left_out
    return (math.fsum(terms) - math.fsum(slacks)) + 1.01 * error


def continuation_values(
    problem: CheckedProblem, values: Float[np.ndarray, "K S"] | None
) -> tuple[Float[np.ndarray, " N"], float]:
    """What is earned after T by continuing for the return: the claimed values v of x, and a bound on their error.

    `|v − V*| ≤ max |v − max_a (R + γ P v)| / (1 − γ)`: wrong values widen the bounds, and cannot make them false.
    """
    shape = (len(problem.problem.models), problem.problem.num_states)
    given = np.zeros((0, 0)) if values is None else read_floats(values, 2, "values")
    good = given.shape == shape and (np.abs(given) <= LARGEST).all()
    require(good, f"values: expected finite numbers of shape {shape}")
    state = problem.given_x(np.arange(problem.size)) % problem.problem.num_states
    value, discount = given[problem.model_state[0], state], problem.discount
    reward = problem.paid[0].reward
    best = best_scores(problem, np.arange(problem.size), value[problem.target], discount, reward)
    error = (gamma(problem.terms + 8) + 2.02 * problem.defect) * (np.abs(value).max() + np.abs(reward).max())
    return value, float(1.02 * (np.abs(value - best).max() + error) / (1 - discount))


def _spared(problem: CheckedProblem, witness: Witness, kept: Mapping[str, float]) -> list[float]:
    """`w_j h_j` of the pairs that must keep bits, after the weights of all observers are found to be right."""
    names = tuple(one.pair for one in witness.rules)
    require(names == problem.names, f"rule: its pairs are {names}, expected {problem.names}")
    for one in witness.rules:
        right = is_finite(one.weight) and 0 < one.weight <= LARGEST_WEIGHT
        require(
            right, f"rule: the weight of {one.pair} is {one.weight!r}, expected a number from 0 to {LARGEST_WEIGHT:g}"
        )
    require(len(names) > 1 or witness.weight == 1, f"rule: its weight is {witness.weight!r}, expected 1")
    total = sum(Fraction(one.weight) for one in witness.rules if one.pair not in kept)
    require(total >= 1, f"rule: the weights of the pairs that are hidden sum to {float(total)!r}, expected one or more")
    return [one.weight * kept[one.pair] for one in witness.rules if one.pair in kept]


def _checked_rule(problem: CheckedProblem, witness: Witness, bounds: Bounds) -> Witness:
    """The rules in int64 and float64: every edge leads to a node or to none, and the costs are those of probabilities."""
    threshold = bounds[0]
    require(threshold is not None or witness.multiplier == 0, "rule: there is a multiplier, and no threshold for it")
    prices = (witness.multiplier, *witness.prices)
    require(len(prices) == len(bounds) == len(problem.paid), "rule: its prices are not one for each constraint")
    for price, one in zip(prices, problem.paid, strict=True):
        right = is_finite(price) and 0 <= price * max(1.0, one.largest) <= LARGEST
        require(right, f"rule: its multiplier is {price!r}, expected a number from 0 to 2^900 over the largest reward")
    views = problem.views or [None]
    own, *others = (_checked_graph(problem, one, view) for one, view in zip(witness.rules, views, strict=True))
    for one in witness.others:
        require(one.multiplier == 0 and not one.prices and not one.others, f"rule: that of {one.pair} has prices")
    multiplier, *rest = map(float, prices)
    return replace(own, multiplier=multiplier, prices=tuple(rest), others=tuple(others))


def _checked_graph(problem: CheckedProblem, witness: Witness, view: View | None) -> Witness:
    """One observer, who receives the events of the problem, or its own view of them."""
    costs = read_floats(witness.costs, 2, "rule: costs")
    require(len(witness.following) == problem.horizon, "rule: its graph does not have one table for each step")
    sizes = [*(len(table) for table in witness.following), len(costs)]
    first = read_integers(witness.first, -1, sizes[0], 1, "rule: its first nodes")
    following = tuple(
        read_integers(table, -1, size, 2, f"rule: its graph at time {time}")
        for time, (table, size) in enumerate(zip(witness.following, sizes[1:], strict=True))
    )
    events = (problem.first_events, problem.events) if view is None else (view.num_first, view.num_events)
    fits = len(first) == events[0] and costs.shape[1] == (problem.values if view is None else view.num_values)
    fits &= all(table.shape[1] == events[1] for table in following)
    require(fits, "rule: its shape is not the problem's")
    require((costs >= 0) & ((costs <= LARGEST) | np.isinf(costs)), "rule: a cost is negative or above 2^900")
    kraft = np.exp2(-costs).sum(axis=1)
    require(kraft <= 1 - KRAFT_MARGIN, "rule: the probabilities 2^-cost of a node sum to more than one")
    if problem.untimed:
        blind, strings = sizes == [1] * len(sizes), problem.path is None and _holds_strings(problem, first, following)
        require(blind or strings, "rule: its observer has no clock, and the rule depends on more than the string")
    path = checked_path(problem, witness, sizes)
    return Witness(
        first, following, costs, 0.0, witness.memory, (), *path, pair=witness.pair, weight=float(witness.weight)
    )


def _holds_strings(
    problem: CheckedProblem, first: Int[np.ndarray, " F"], following: tuple[Int[np.ndarray, "n E"], ...]
) -> bool:
    """Whether each node stands for one string of the events that are not silent, and in the last layer each for another.

    A rule on the last layer then depends on nothing else, and an observer without a clock can follow it.
    """
    observer, numbers, known = problem.problem.observer, dict[int, int](), 1  # 0 is the empty string
    strings = np.zeros(1, dtype=np.int64)
    for number, table in enumerate((first[None], *following)):
        node, event = np.nonzero((table >= 0) & (strings >= 0)[:, None])
        target, longer = table[node, event], strings[node].copy()
        loud = (
            np.flatnonzero(event != observer.silent) if number or observer.sees_first else np.empty(0, dtype=np.int64)
        )
        keys, place = np.unique(longer[loud] * problem.events + event[loud], return_inverse=True)
        for key in keys.tolist():
            if key not in numbers:
                numbers[key], known = known, known + 1
        longer[loud] = np.array([numbers[key] for key in keys.tolist()], dtype=np.int64)[place.ravel()]
        strings = np.full(int(table.max(initial=-1)) + 1 if number == len(following) else len(following[number]), -1)
        strings[target] = longer
        if np.any(strings[target] != longer):
            return False
    reached = strings[strings >= 0]
    return len(np.unique(reached)) == len(reached)


def _walked(problem: CheckedProblem, witness: Witness) -> tuple[Witness, Int[np.ndarray, "n E"] | None]:
    """The observer's graph as the agent walks through it: with a delay from one node before all events, and the last step.

    An observer that receives nothing at time 0 goes to its first node whatever the state then would have shown.
    """
    if not problem.delay:
        return witness, None
    seen = problem.problem.observer.sees_first
    first = witness.first[None] if seen else np.repeat(witness.first[:, None], problem.events, axis=1)
    *following, last = first, *witness.following
    return replace(witness, first=np.zeros(1, dtype=np.int64), following=tuple(following)), last


def _last_costs(
    problem: CheckedProblem, witness: Witness, last: Int[np.ndarray, "n E"] | None, node: Keys, x: Keys, z: Keys
) -> Float[np.ndarray, " n"]:
    """What the observer pays at time T; with a delay the mean over the observation of x, which leads to the last node."""
    if last is None:
        return np.where(node < 0, np.inf, witness.costs[node, z])
    position, event, chance = problem.shown(x)
    there = np.where(node[position] < 0, -1, last[node[position], event])
    paid = np.where(there < 0, np.inf, witness.costs[there, z[position]])
    return np.bincount(position, chance * paid, len(x))


def _key(problem: CheckedProblem, node: np.ndarray, x: np.ndarray, z: np.ndarray) -> Keys:
    return (node.astype(np.int64) * problem.size + x) * problem.values + z


def _hidden_state(problem: CheckedProblem, keys: Keys) -> Keys:
    return keys // problem.values % problem.size


def _ahead(problem: CheckedProblem, witness: Witness, time: int, keys: Keys) -> Keys:
    """The keys after each move from some keys, in the order of their moves."""
    (rest, z), (position, move) = np.divmod(keys, problem.values), problem.moves(_hidden_state(problem, keys))
    node = witness.following[time][(rest // problem.size)[position], problem.event[move]]
    x = problem.target[move]
    return _key(problem, node, x, problem.settled(time + 1, x, z[position]))


def scores(
    problem: CheckedProblem,
    x: Keys,
    value: Float[np.ndarray, " m"],
    factor: float,
    reward: Float[np.ndarray, "N A"],
) -> tuple[Keys, Keys, Float[np.ndarray, " k"]]:
    """`R(x,a) + factor · Σ P b value` for each x and each of its actions, with the position of x and the action.

    `value`: for all moves of x in order.
    """
    position, move = problem.moves(x)
    pair = position * problem.actions + problem.row[move] % problem.actions
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = factor * np.add.reduceat(problem.chance[move] * value, begins)
    position, action = position[begins], pair[begins] % problem.actions
    return position, action, sums + reward[x[position], action]


def best_scores(
    problem: CheckedProblem,
    x: Keys,
    value: Float[np.ndarray, " m"],
    factor: float,
    reward: Float[np.ndarray, "N A"],
) -> Float[np.ndarray, " n"]:
    """The largest of `scores` for each x."""
    position, _, found = scores(problem, x, value, factor, reward)
    return np.maximum.reduceat(found, np.flatnonzero(np.diff(position, prepend=-1)))


def _distinct(keys: Keys) -> Keys:
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]


def _blocks(problem: CheckedProblem, keys: Keys) -> list[Keys]:
    """The keys in pieces whose moves are followed together; one with more moves than that is a piece of its own."""
    moves = np.cumsum(problem.degree[_hidden_state(problem, keys)])
    pieces = np.split(keys, np.searchsorted(moves, np.arange(_AT_ONCE, int(moves[-1]), _AT_ONCE)))
    return [piece for piece in pieces if len(piece)]
