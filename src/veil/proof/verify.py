"""The verifier: recomputes from the problem and the policy alone what a certificate claims, and rounds outward.

It shares no code with the solvers and the engine: one forward pass plays the policy against the observer, one backward
induction plays every policy against the observer's rule. `docs/guarantees.md` derives the error bounds.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock
from ..common.errors import CertificateError, TooLargeError
from ..common.logs import log2_or_zero
from ..policy.policy import Policy
from ..problem.problem import Problem
from .agent import Agent, make_agent
from .certificate import Certificate, Witness
from .claim import check_claim
from .merging import merge_histories
from .world import FLOOR, UNIT, World, defect_of, demand, gamma, group

_AT_ONCE = 2**21  # moves that the backward induction follows at a time
_SECONDS_A_MOVE = 4e-7  # of a forward pass, with its sorting
MOST_MOVES = 2**25  # of one step, at about 80 bytes each
_FOREVER = 20_000  # steps at most of a sum that goes on over an infinite horizon


class Play:
    """A policy played forward: weights on (what was seen, the agent's memory, x, value of the secret).

    `roundings` counts those behind the worst weight, `defect` is ρ, `lost` the weight left out for being under `below`;
    `merge` is how many histories a layer may have, any number where 0, and `charged` what merging them cost in bits.
    """

    def __init__(
        self,
        world: World,
        agent: Agent,
        clock: Clock,
        most_moves: int,
        *,
        apart: bool,
        below: float = FLOOR,
        merge: int = 0,
    ):
        self.world, self.agent, self.apart = world, agent, apart
        self.clock, self.most_moves = clock, most_moves
        self.below, self.merge, self.charged = max(below, FLOOR), merge, 0.0
        x, event, mass = world.start
        self.roundings, self.defect, self.lost, self.in_one_step = 2.0, world.defect, 0.0, 0.0
        self.paid: list[float] = []
        self.weighted = 0.0
        memory, z = agent.remembers(0, x, x, x, event), world.settled(0, x, np.zeros_like(x))
        self._store(event if apart else 0 * x, memory, x, z, mass)

    def _store(self, history: np.ndarray, *columns: np.ndarray) -> None:
        index, number = group(history, *columns[:-1])
        self.in_one_step = max(self.in_one_step, 2 + int(np.bincount(number, minlength=1).max()))
        self.roundings += int(np.bincount(number, minlength=1).max()) - 1
        self.memory, self.x, self.z = (column[index] for column in columns[:-1])
        self.mass = np.bincount(number, columns[-1], len(index))
        self.history = np.cumsum(np.diff(history[index], prepend=-1) != 0) - 1

    def step(self, time: int) -> None:
        """One decision: what it pays is added to `paid`, and its magnitude times the steps behind it to `weighted`."""
        world, nodes = self.world, self.agent.nodes
        choices = self.agent.choices(time, self.memory, self.x, self.z)
        self.defect = max(self.defect, defect_of(choices.sum(axis=1), choices.shape[1], "policy"))
        reward = np.repeat(world.reward[self.x], nodes, axis=1)
        paid = (self.mass[:, None] * choices * world.discount**time * reward).ravel()
        self.paid.append(math.fsum(paid.tolist()))
        self.weighted += (time + 1) * math.fsum(np.abs(paid).tolist())
        moves = nodes * int(world.degree[self.x].sum())
        if moves > self.most_moves:
            raise TooLargeError(
                f"the observation tree has {moves:,} branches at time {time + 1}, over {self.most_moves:,}"
            )
        self.clock.check(ahead=moves * _SECONDS_A_MOVE)
        position, move = (np.repeat(part, nodes) for part in world.moves(self.x))
        node = np.tile(np.arange(nodes), len(move) // nodes)
        share = choices[position, world.row[move] % world.actions * nodes + node]
        mass = self.mass[position] * (share * world.chance[move])
        kept = np.flatnonzero(mass >= self.below)
        self.lost += 1.01 * (np.count_nonzero(share) - len(kept)) * self.below
        position, move, node = position[kept], move[kept], node[kept]
        x, event = world.target[move], world.event[move]
        memory = node
        if nodes == 1:
            memory = self.agent.remembers(time + 1, self.memory[position], self.x[position], x, event)
        history = self.history[position] * world.events + event if self.apart else 0 * x
        self.roundings += 3
        self._store(history, memory, x, world.settled(time + 1, x, self.z[position]), mass[kept])
        if self.apart and self.merge:
            code = group(self.memory, self.x, self.z)[1]
            history, charge = merge_histories(self.history, code, self.mass, self.merge, self.relative_error())
            self.charged += charge
            self._store(history, self.memory, self.x, self.z, self.mass)

    def relative_error(self) -> float:
        """η: how far a weight may be from the true one, relative to it: roundings, and rows that do not sum to one."""
        return gamma(self.roundings + 2) + 3.03 * (self.world.horizon + 1) * self.defect

    def bits(self) -> tuple[float, float]:
        """Proven bounds on `H(Z | what was seen)`."""
        index, number = group(self.history, self.z)
        self.roundings += int(np.bincount(number).max()) - 1
        joint, row = np.bincount(number, self.mass), self.history[index]
        total = np.bincount(row, joint)
        found = math.fsum(-joint * log2_or_zero(joint / total[row]))
        error = 1.5 * (self.world.values + 2) * UNIT * math.fsum(joint) + 12 * UNIT * found
        eta, most = self.relative_error(), self.world.most_bits
        # Whether a path was left out is one more thing not known: H ≤ H(kept) + lost · log2|Z| + h(lost).
        missed = self.lost * (most + 2 - float(log2_or_zero(np.array(self.lost)))) if self.lost < 0.3 else most
        upper = (found + error) * (1 + 1.01 * eta) + missed + 8 * UNIT
        return max(0.0, (found - error) * (1 - eta) - 8 * UNIT - self.charged), float(min(most, upper))


@dataclass(frozen=True)
class PolicyValues:
    """What is proven of a policy: its opacity between `lower` and `upper`, its return within `return_error`."""

    lower: float
    upper: float
    expected_return: float
    return_error: float


def policy_values(
    world: World,
    policy: Policy,
    window: tuple[int, int],
    prune: float,
    values: Float[np.ndarray, "K S"] | None,
    *,
    goal: str = "opaque",
    merge: int = 0,
    clock: Clock = UNLIMITED,
    most_moves: int = MOST_MOVES,
) -> PolicyValues:
    """Play a policy: its return over the whole horizon, its opacity in a window of times around the secret.

    **Arguments:** `window`, (a, b): at time a ≥ 0 the observer is told x and the agent's memory, at b ≤ T again, which
    bounds the opacity from below; with goal "transparent" it forgets instead, which bounds it from above. `prune`: weights
    below are left out of the window. `merge`: how many histories a layer keeps apart, all where 0. `values`, `(K, S)`: what
    a time-dependent policy earns after T, for an infinite return.
    """
    horizon, (left, right), forever = world.horizon, window, world.problem.return_over == "infinite"
    demand(-1 <= left <= world.problem.secret_table.time <= right, f"window: {window} is not around the secret")
    agent, whole = make_agent(world, policy, since=right), left < 0 and right > horizon
    whole = whole and prune <= FLOOR and not forever and not merge
    law = Play(world, agent, clock, most_moves, apart=whole)
    inside = Play(world, agent, clock, most_moves, apart=True, below=prune, merge=merge)
    for time in range(horizon + 1):
        if time == left:
            inside.roundings, inside.defect = law.roundings, law.defect
            inside._store(np.arange(len(law.x)) * (goal == "opaque"), law.memory, law.x, law.z, law.mass)
        if time < horizon:
            law.step(time)
    if not whole:
        for time in range(max(left, 0), min(right, horizon)):
            inside.step(time)
        if right <= horizon and goal == "opaque":  # an agent that acts on the value later still gives it away with x
            inside.history = group(inside.history, inside.memory, inside.x, inside.z * (agent.used_value >= right))[1]
    bits = (law if whole else inside).bits()
    tail, last, law.apart, steps = 0.0, world.terminal, False, horizon
    if forever and agent.stationary:
        tail = float(np.abs(world.reward).max()) / (1 - world.discount)
        while steps < _FOREVER and world.discount**steps > 1e-13:
            law.step(steps)
            steps += 1
        last = np.zeros(world.size)
    elif forever:
        demand(agent.knows_model, "policy: it is time-dependent, and after the horizon an agent who does not know the"
               " model cannot continue optimally")  # fmt: skip
        last, tail = after(world, values)
    ends = (law.mass * world.discount**steps * last[law.x]).tolist()
    weighted = law.weighted + (steps + 1) * math.fsum(map(abs, ends))  # what is paid at t went through t + 1 steps
    most_return = (np.abs(world.reward).max() + np.abs(last).max()) * (steps + 1)
    error = (gamma(law.in_one_step + 12) + 4.04 * law.defect) * weighted
    error = 1.02 * (error + world.discount**steps * tail + law.lost * most_return) + FLOOR
    return PolicyValues(*bits, math.fsum([*law.paid, *ends]), float(error))


def after(world: World, values: Float[np.ndarray, "K S"] | None) -> tuple[np.ndarray, float]:
    """What is earned after T by playing on for the return: claimed values of x, and how far from the best they may be.

    `|v − V*| ≤ max |v − max_a (R + γ P v)| / (1 − γ)`.
    """
    shape = (len(world.problem.models), world.states)
    given = np.zeros(0) if values is None else np.asarray(values, dtype=np.float64)
    demand(given.shape == shape and np.isfinite(given).all(), "values: missing")
    value, discount = given[world.model_state], world.discount
    best, size = _backed_up(world, np.arange(world.size), world.target, value, discount, 1.0), np.abs(value).max()
    error = (gamma(world.terms + 8) + 2.02 * world.defect) * (size + np.abs(world.reward).max())
    return value, float(1.02 * (np.abs(value - best).max() + error) / (1 - discount))


def _backed_up(
    world: World, x: np.ndarray, target: np.ndarray, value: np.ndarray, factor: float, price: float
) -> np.ndarray:
    """`max_a [price · R(x,a) + factor · Σ P b value(target)]` for each x, the targets of all its moves in order."""
    position, move = world.moves(x)
    pair = position * world.actions + world.row[move] % world.actions
    begins = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = factor * np.add.reduceat(world.chance[move] * value[target], begins)
    position, action = position[begins], pair[begins] % world.actions
    scores = sums + price * world.reward[x[position], action]
    return np.maximum.reduceat(scores, np.flatnonzero(np.diff(position, prepend=-1)))


def rule_bound(
    world: World, witness: Witness, threshold: float | None, values: Float[np.ndarray, "K S"] | None
) -> float:
    """`U(q,λ) = max_π E_π[w(M_T,Z) + λ (G − δ)]`, rounded up: no policy with return ≥ δ hides more. See section 6.

    Every (node, x, z) that some policy reaches is met on the way; what the rule has no cost for makes the bound infinite.
    """
    first, following, costs, price = witness.first, witness.following, witness.costs, witness.price
    sizes = [*(len(table) for table in following), len(costs)]
    fits = len(following) == world.horizon and costs.shape[1:] == (world.values,)
    demand(fits, "rule: its shape is not the problem's")
    demand(all(table.shape[1:] == (world.events,) and table.max(initial=-1) < size
               for table, size in zip(following, sizes[1:], strict=True)) and first.max(initial=-1) < sizes[0],
           "rule: an edge of its graph leads nowhere")  # fmt: skip
    kraft = np.exp2(np.minimum(-costs, 1.0)).sum(axis=1, keepdims=True)
    demand(~np.isnan(costs) & (kraft <= 1 - 2.0**-40), "rule: Kraft's sum passes one")
    demand(np.isfinite(price) and price >= 0, f"rule: its price is {price}, expected 0 or more")
    last, tail = after(world, values) if world.problem.return_over == "infinite" else (world.terminal, 0.0)

    def ahead(time: int, keys: np.ndarray) -> np.ndarray:
        """The keys `(node · N + x) · Z + z` after each move from some keys; negative where the graph has no node."""
        (rest, z), (position, move) = np.divmod(keys, world.values), world.moves(keys // world.values % world.size)
        node, x = following[time][(rest // world.size)[position], world.event[move]], world.target[move]
        return (node.astype(np.int64) * world.size + x) * world.values + world.settled(time + 1, x, z[position])

    x, event, mass = world.start
    begun = (first[event].astype(np.int64) * world.size + x) * world.values + world.settled(0, x, 0 * x)
    layers = [_distinct(begun)]
    for time in range(world.horizon):
        if layers[-1][0] < 0:
            return math.inf
        layers.append(_distinct(np.concatenate([_distinct(ahead(time, part)) for part in _blocks(world, layers[-1])])))
    rest, z = np.divmod(layers[-1], world.values)
    node, x = np.divmod(rest, world.size)
    value = np.where(node < 0, np.inf, costs[node, z]) + price * world.discount**world.horizon * (last[x] + tail)
    if not np.isfinite(value).all():
        return math.inf
    sizes = [float(np.abs(value).max()) + price * float(np.abs(last).max() + tail)]
    for time in range(world.horizon - 1, -1, -1):
        now, parts = price * world.discount**time, []
        for part in _blocks(world, layers[time]):
            place = np.searchsorted(layers[time + 1], ahead(time, part))
            parts.append(_backed_up(world, part // world.values % world.size, place, value, 1.0, now))
        sizes.append(float(np.abs(value).max() + now * np.abs(world.reward).max()))
        value = np.concatenate(parts)
    terms = (mass * value[np.searchsorted(layers[0], begun)]).tolist()
    slack = price * threshold if threshold is not None else 0.0
    error = (gamma(world.terms + 12) + 2.02 * world.defect) * math.fsum(sizes)
    error += (gamma(8) + 3.03 * world.defect) * math.fsum(map(abs, terms)) + 8 * UNIT * abs(slack) + FLOOR
    return (math.fsum(terms) - slack) + 1.01 * error


def _distinct(keys: np.ndarray) -> np.ndarray:
    ordered = np.sort(keys)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]


def _blocks(world: World, keys: np.ndarray) -> list[np.ndarray]:
    """The keys in pieces whose moves are followed together."""
    moves = np.cumsum(world.degree[keys // world.values % world.size])
    return np.split(keys, np.searchsorted(moves, np.arange(_AT_ONCE, int(moves[-1]), _AT_ONCE)))


@dataclass(frozen=True)
class Verification:
    """What the verifier has proven itself, with its own error bounds included."""

    policy: PolicyValues
    upper: float


def verify(certificate: Certificate, problem: Problem, policy: Policy) -> Verification:
    """Check a certificate against the problem and the policy: recompute its bounds and its return, rounding outward.

    **Arguments:**

    - `certificate`: from `veil.certify`, `Solution.certificate` or `Certificate.load`; no number in it is trusted.
    - `problem`, `policy`: what it is about; they must have the hashes that the certificate states.

    Cost: one forward pass of the policy over its histories and one backward induction over the observer's graph.

    **Returns:** a `Verification` with the recomputed numbers.

    **Raises:** `CertificateError` saying what failed, the most basic defect first.
    """
    check_claim(certificate, problem, policy)
    try:
        return _verify(certificate, problem, policy)
    except (IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CertificateError(f"witness: it cannot be followed ({error})") from error


def _verify(claim: Certificate, problem: Problem, policy: Policy) -> Verification:
    world = World(problem)
    found = policy_values(world, policy, claim.window, claim.prune, claim.values, goal=claim.goal, merge=claim.merge)
    off = abs(claim.expected_return - found.expected_return) + found.return_error
    demand(off <= claim.return_error, f"return: {claim.expected_return} ± {claim.return_error} is claimed, and"
           f" {found.expected_return} ± {found.return_error} is found")  # fmt: skip
    if claim.goal == "transparent":
        demand(claim.lower == 0, f"lower bound: {claim.lower} is claimed for all policies, and only 0 is proven")
        demand(claim.upper >= found.upper, f"upper bound: {claim.upper} is claimed, and {found.upper} is found")
        return Verification(found, found.upper)
    demand(claim.lower <= found.lower, f"lower bound: {claim.lower} is claimed, and {found.lower} is found")
    assert claim.witness is not None  # as its form was checked
    upper = rule_bound(world, claim.witness, claim.threshold, claim.values)
    demand(upper < math.inf, "upper bound: the rule calls impossible what a policy can reach, and so proves nothing")
    upper = min(upper, world.most_bits)  # which needs no witness
    demand(claim.upper >= upper, f"upper bound: {claim.upper} is claimed, and {upper} is found")
    return Verification(found, upper)
