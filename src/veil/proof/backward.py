"""The verifier's backward induction: the upper bound over all policies that observers' rules prove, rounded up."""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Float

from ..common.pace import Watch
from .arithmetic import FLOOR, LARGEST, LARGEST_KEY, UNIT, Numbers, gamma, require
from .checked_problem import Bounds, CheckedProblem, Moves
from .claims import ObserverRule, ProvenBound
from .prices import Lagrangian, checked_prices
from .reading import read_floats
from .rules import checked_rules

_AT_ONCE = 2**21  # moves followed at a time, which bounds the memory


def rule_bound(
    problem: CheckedProblem, bound: ProvenBound, bounds: Bounds, values: Float[np.ndarray, "2 N"] | None,
    kept: Mapping[int, float] | None = None, factors: tuple[float, ...] = (), clock: Watch | None = None,
) -> float:  # fmt: skip
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
    rules = checked_rules(problem, bound, kept or {})
    spared = [one.weight * kept[one.channel] for one in rules if kept and one.channel in kept]
    prices = checked_prices(problem, bound.prices, bounds, 900, "rule")
    factors = factors or (0.0,) * len(prices)
    after = earned_after(problem, values, prices[0] + factors[0])
    lagrangian = Lagrangian(problem, prices, factors, after, problem.horizon)
    found, error = most_paid(Walk(problem, rules, clock), lagrangian)
    slacks = [*lagrangian.slacks(bounds), *spared]
    return (found - math.fsum(slacks)) + 1.01 * (error + 8 * UNIT * math.fsum(map(abs, slacks)) + FLOOR)


class Walk:
    """What the agent and the observers of some rules walk over: numbers `(nodes · N + x) · Z + z` of the node of each observer,
    the hidden state and the values of the secrets, negative where an observer has no node. `clock`: checked at every part."""

    def __init__(self, problem: CheckedProblem, rules: tuple[ObserverRule, ...] = (), clock: Watch | None = None):
        self.problem, self.rules, self.clock = problem, rules, clock
        large = max(math.prod(self._sizes(time)) for time in range(problem.steps + 1)) >= LARGEST_KEY
        require(not large, "rule: its observers have too many nodes")

    def _sizes(self, time: int) -> tuple[int, ...]:
        """How many nodes, hidden states and values there are at a time."""
        layers = [one.following[time] if time < len(one.following) else one.costs for one in self.rules]
        return *map(len, layers), self.problem.size, self.problem.values

    def _keys(self, time: int, nodes: list[Numbers], x: Numbers, z: Numbers) -> Numbers:
        found = np.ravel_multi_index((*nodes, x, z), self._sizes(time), mode="clip")
        for node in nodes:
            found[node < 0] = -1
        return found

    def parts(self, time: int, keys: Numbers) -> tuple[list[Numbers], Numbers, Numbers]:
        """The node of each observer, the hidden state, and the values of the secrets."""
        *nodes, x, z = map(np.ascontiguousarray, np.unravel_index(keys, self._sizes(time)))
        return nodes, x, z

    def begin(self) -> Numbers:
        """The key of every start."""
        x, events, _ = self.problem.start
        nodes = [one.first[events[self.problem.place[one.channel]]] for one in self.rules]
        return self._keys(0, nodes, x, self.problem.settled(0, x, 0 * x))

    def ahead(self, time: int, keys: Numbers) -> Numbers:
        """The keys after each move from some keys, in the order of their moves."""
        problem, (nodes, x, z) = self.problem, self.parts(time, keys)
        moves = problem.at(time + 1)
        position, move = moves.of(x)
        seen = [moves.events[problem.place[one.channel]][move] for one in self.rules]
        steps = zip(self.rules, nodes, seen, strict=True)
        after, y = [one.following[time][node[position], event] for one, node, event in steps], moves.target[move]
        return self._keys(time + 1, after, y, problem.settled(time + 1, y, z[position]))

    def blocks(self, time: int, keys: Numbers) -> Iterator[Numbers]:
        """The keys in parts whose moves are followed together; one with more moves than that is a part of its own."""
        moves = np.cumsum(self.problem.at(time + 1).degree[self.parts(time, keys)[1]])
        for part in np.split(keys, np.searchsorted(moves, np.arange(_AT_ONCE, int(moves[-1]), _AT_ONCE))):
            if self.clock:
                self.clock.check()
            if len(part):
                yield part

    def costs(self, time: int, keys: Numbers) -> Float[np.ndarray, " n"]:
        """What the observers pay at a time in some keys."""
        problem, (nodes, x, z), total = self.problem, self.parts(time, keys), np.zeros(len(keys))
        if problem.each is not None:
            weight = problem.each.weights[time]
            return weight * self.rules[0].each[time][nodes[0], problem.each.value[x]] if weight else total
        for one, node in zip(self.rules, nodes, strict=True):
            if time == problem.steps:
                total += one.weight * one.costs[node, problem.value_of(one.channel, z)]
        if time == problem.steps and problem.path is not None:
            total += self.path_costs(time, keys, x)
        return total

    def path_costs(self, time: int, following: Numbers, before: Numbers) -> Float[np.ndarray, " n"]:
        """What the observer of a whole path pays for hidden states at a time, with the keys that follow or their own at last;
        infinite where its rule excludes them."""
        problem, rule, codes = self.problem, self.rules[0], self.problem.codes
        assert codes is not None
        (node,), x, _ = self.parts(min(time + 1, problem.horizon), following)
        count, keys = int(codes.max()) + 1, rule.path_keys[time]
        wanted = (node * count + (codes[x] if time < problem.horizon else 0)) * count + codes[before]
        if not len(keys):
            return np.full(len(wanted), np.inf)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, rule.path_costs[time][place], np.inf)


def most_paid(walk: Walk, lagrangian: Lagrangian, *, pooled: bool = False) -> tuple[float, float]:
    """The most that any policy is paid, with the costs of the rules, and a bound on its rounding error; infinite where a graph
    has no node, or a rule no cost, for something reachable.

    `pooled`: the first action in a state of the model is one for all models; there is no observer then.
    """
    problem, steps, begun = walk.problem, lagrangian.steps + walk.problem.delay, walk.begin()
    layers, mass = [_distinct(begun)], problem.start[2]
    while layers[-1][0] >= 0 and len(layers) <= steps:
        time = len(layers) - 1
        parts = [_distinct(walk.ahead(time, part)) for part in walk.blocks(time, layers[-1])]
        layers.append(_distinct(np.concatenate(parts)))
    if layers[-1][0] < 0:
        return math.inf, 0.0
    value, size = walk.costs(steps, layers[-1]), 0.0
    if not problem.delay:  # with a delay the last step pays what is paid at the end
        paid, size = lagrangian.at(steps)
        value = value + paid[walk.parts(steps, layers[-1])[1], 0]
    sizes = [float(np.abs(value).max()) + size]
    for time in range(steps - 1, -1, -1):
        parts, largest, (paid, size) = list[np.ndarray](), 0.0, lagrangian.at(time)
        moves, together = problem.at(time + 1), pooled and not time
        for part in [layers[0]] if together else walk.blocks(time, layers[time]):
            x, ahead = walk.parts(time, part)[1], walk.ahead(time, part)
            after = value[np.searchsorted(layers[time + 1], ahead)]
            if problem.path is not None:
                after += walk.path_costs(time, ahead, x[moves.of(x)[0]])
            largest = max(largest, float(np.abs(after).max()))
            weight = np.bincount(np.searchsorted(part, begun), mass) if together else None
            parts.append(best_scores(problem, x, moves, after, 1.0, paid, weight))
        costs = walk.costs(time, layers[time])
        sizes.append(largest + size + float(costs.max()))
        value = np.concatenate(parts) + costs
    terms = (mass * value[np.searchsorted(layers[0], begun)]).tolist()
    # Each other quantity is a product and a sum more, its factor in the objective a sum; a cost of the path is a sum, one of a
    # time a product and a sum; an observer more is both in the costs and a product in every probability.
    count, ways = max(1, len(walk.rules)), (problem.path is not None) + 2 * (problem.each is not None)
    more = 2 * (len(problem.paid) - 1) + any(lagrangian.factors) + ways + 3 * (count - 1)
    error = (gamma(problem.terms + 12 + more) + 2.02 * problem.defect) * math.fsum(sizes)
    error += (gamma(7 + count) + 3.03 * problem.defect) * math.fsum(map(abs, terms))
    return math.fsum(terms), error + lagrangian.left_out


def earned_after(
    problem: CheckedProblem, values: Float[np.ndarray, "2 N"] | None, factor: float = 1.0
) -> tuple[Float[np.ndarray, " N"], float]:
    """What each x earns of the return at the end or after the horizon, where the return counts with a factor, and a bound on
    its error, of the sign of the factor: an objective that takes the return away gains most from what is worst for it.

    After the horizon these are claimed values v, and `|v − V*| ≤ max |v − max_a (R + γ P v)| / (1 − γ)`: wrong ones widen the
    bounds, and cannot make them false.
    """
    if not problem.endless:
        return problem.paid[0].terminal, 0.0
    given = read_floats(values, (2, problem.size), "values")
    require(np.abs(given) <= LARGEST, "values: they are not finite")
    sign, moves = 1 if factor >= 0 else -1, problem.at(1)
    value, reward = given[0 if sign > 0 else 1], sign * problem.paid[0].reward
    best = best_scores(problem, np.arange(problem.size), moves, value[moves.target], problem.discount, reward)
    error = (gamma(problem.terms + 8) + 2.02 * problem.defect) * (np.abs(value).max() + np.abs(reward).max())
    return sign * value, sign * float(1.02 * (np.abs(value - best).max() + error) / (1 - problem.discount))


def best_scores(
    problem: CheckedProblem, x: Numbers, moves: Moves, value: Float[np.ndarray, " m"], factor: float,
    reward: Float[np.ndarray, "N A"], weight: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, " n"]:  # fmt: skip
    """`max_a R(x,a) + factor · Σ P b value` for each x; with weights of the x that of the action which is best for all x of one
    state of the model together. `value`: for all moves of x in order."""
    position, move = moves.of(x)
    pair = position * problem.actions + moves.row[move] % problem.actions
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = factor * np.add.reduceat(moves.chance[move] * value, begins)
    position, action = position[begins], pair[begins] % problem.actions
    found = sums + reward[x[position], action]
    if weight is not None:
        state, shape = problem.state[x[position]], (problem.states, problem.actions)
        key, total = state * problem.actions + action, np.full(math.prod(shape), -np.inf)
        total[key] = np.bincount(key, weight[position] * found)[key]
        chosen, values = action == total.reshape(shape).argmax(axis=1)[state], np.zeros(len(x))
        values[position[chosen]] = found[chosen]
        return values
    return np.maximum.reduceat(found, np.flatnonzero(np.diff(position, prepend=-1)))


def _distinct(keys: Numbers) -> Numbers:
    """The different keys in order; they come nearly sorted, so that this is faster than `np.unique`, which hashes."""
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
