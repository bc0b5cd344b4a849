"""The least that an observer can be left with if it chooses what to ask: bounds from both sides, and a plan that attains one.

`W_t(b) = min_a [ cost(a) + Σ_e (unknown_{t+1}(b_{a,e}) + W_{t+1}(b_{a,e})) ]` over unnormalised beliefs. W is concave and
homogeneous of degree one, as a minimum of sums of such functions. Hence every decomposition `b = c b_i + rest` gives
`W(b) ≥ c W(b_i) + told(rest)`, and to learn nothing more gives an upper bound. Both are tightened where they are furthest
apart, as point-based solvers of partially observable problems do, with convex and concave exchanged.
"""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import math
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, is_number
from ..common.clock import Clock, OutOfTime
from ..common.errors import TooLargeError
from ..measure.evaluate import opacity
from ..policy.history import Decisions, HistoryPolicy
from ..policy.markov import MarkovPolicy
from ..problem.observer import Observer
from ..problem.problem import Problem
from ..problem.together import Together
from .belief_steps import BeliefSteps
from .query_rules import Draws, Followed, Layer, Rule, follow, greedy_rule, rollout_rule, simulate

_SAME = 12  # decimals to which normalised beliefs are equal, and share a node
_ROUNDING = 1e-10  # bits by which bounds are moved outward
_MOST_POINTS = 256  # of each time, from which lower bounds of new beliefs are made
_MOST_NUMBERS = 2**27  # of all beliefs together: 1 GiB
# Shares of the time that is left: for the greedy rule, a first search, the floor, and rules that look ahead.
_GREEDY_SHARE, _FIRST_SHARE, _FLOOR_SHARE, _RULES_SHARE = 0.15, 0.1, 0.1, 0.6
_DRAWN_SHARE = (
    0.85  # instead of the last, where no rule can be followed exactly: bounds are then far apart whatever is done
)
_NEAR = 2  # steps that the first rule looks ahead
_AHEAD = (1, 2, 3)  # steps that rules look ahead in drawn runs
_RUNS, _MOST_CHUNKS = 200, 100  # drawn at a time, and how often


@dataclass(eq=False)
class _Node:
    """A normalised belief of a time, with bounds on what is still to count, and what each action leads to."""

    time: int
    belief: Float[np.ndarray, " n"]
    lower: float
    upper: float
    paid: Float[np.ndarray, " A"] | None = None
    children: list[list[tuple[int, float, "_Node"]]] = field(default_factory=list)
    gained: Float[np.ndarray, " A"] | None = None

    @property
    def is_open(self) -> bool:
        """Whether its actions were not followed yet."""
        return self.paid is None

    def sums(self, name: str) -> Float[np.ndarray, " A"]:
        """For each action what counts after it, by a bound of its children."""
        assert self.paid is not None
        assert self.gained is not None
        ahead = [sum(mass * getattr(child, name) for _, mass, child in each) for each in self.children]
        return self.paid + self.gained + np.array(ahead)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A rule in drawn runs, which it was not chosen by, and the greedy one in the same.

    **Attributes:** `how`: the rule; `estimate`, `std_error`; `greedy`; `gained`: by how much less it leaves than the greedy
    rule, run by run, with `gained_std_error`.
    """

    how: str
    estimate: float
    std_error: float
    greedy: float
    gained: float
    gained_std_error: float


@dataclass(frozen=True, eq=False)
class QueryPlan:
    """What an observer that chooses its queries is left with at least, and a plan that leaves it with little.

    **Attributes:**

    - `lower`, `upper`: bits (and the price of what is paid), between which the least of all policies lies, with any memory and
      any random choices. `upper` is that of the plan.
    - `how`: where the plan comes from, in words.
    - `floor`: what is left if all queries are answered at each time, a lower bound; None if there was no time, or if the
      actions do more than ask.
    - `greedy`: of asking what leaves least for the next time that counts; None if there was no time to follow it exactly.
    - `blind`: of learning nothing. `nodes`: beliefs that the search looked at; `seconds`.
    - `drawn`: where no rule could be followed exactly, the best one in drawn runs, beside the greedy one.
    - `plan`, `steps`: what `policy` is made of.
    """

    problem: Problem
    lower: float
    upper: float
    how: str
    floor: float | None
    greedy: float | None
    blind: float
    nodes: int
    seconds: float
    drawn: Drawn | None = None
    plan: Followed | None = field(default=None, repr=False)
    steps: BeliefSteps | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    @cached_property
    def policy(self) -> HistoryPolicy:
        """The plan whose value is `upper`, as a policy on all answers: measured by `veil.opacity`, it hides no more."""
        assert self.plan is not None
        assert self.steps is not None
        return _policy_of(self.steps, self.plan)


def best_queries(
    problem: Problem, *, time_limit: float = 60.0, gap: float = 1e-6, price: float = 0.0, seed: int = 0
) -> QueryPlan:
    """The least `H(Z|Y)` that an agent can be left with which sees only what the observer sees, between bounds.

    For problems that `veil.Querying(…).apply(problem)` makes, and others whose agent sees the observations and the actions. The
    bounds hold for all policies; they are computed in floating point and moved outward by 1e-10 bits. No certificate is made.

    First the greedy rule is followed over all answers, then rules that look ahead along it (to the end: never worse); then
    beliefs are searched where the bounds are furthest apart. A rule that cannot be followed exactly is played in drawn runs.

    **Arguments:**

    - `time_limit`: seconds; `gap`: bits between the bounds at which the search ends.
    - `price`: bits that one unit of the return counts: what is minimised is `H(Z|Y) + price · E[return]`, of which the return
      of a querying observer is what its queries cost.
    - `seed`: of drawn runs.

    Cost: for each belief that is looked at, one step for each action and answer.

    **Raises:** `InputError` if the agent sees anything else.
    """
    defects = Defects("best queries")
    for name, value in (("time_limit", time_limit), ("gap", gap), ("price", price)):
        if not is_number(value) or value < 0:
            defects.add(f"{name} is {value!r}, expected a number, 0 or more")
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    defects.raise_if_any()
    steps, clock = BeliefSteps(problem, float(price)), Clock(time_limit)
    search = _Search(steps, clock)
    greedy = _followed(steps, greedy_rule(steps), clock.share(_GREEDY_SHARE))
    search.run(gap, clock.share(_FIRST_SHARE))
    best, how, drawn = greedy, "the greedy rule", None
    floor = _floor(steps, clock.share(_FLOOR_SHARE))
    if search.gap > gap:
        if greedy is None:
            drawn = _drawn(steps, seed, clock.share(_DRAWN_SHARE))
        else:
            best, how = _improved(steps, greedy, clock.share(_RULES_SHARE))
        search.run(gap, clock)
    lower, upper = search.total("lower"), search.total("upper")
    if best is None or upper <= best.value:
        best, how = _plan_of(steps, search), f"a search of {len(search.nodes):,} beliefs"
    upper = min(upper, best.value)
    if floor is not None and (steps.costs >= 0).all():
        lower = max(lower, min(floor, upper))
    return QueryPlan(
        problem=problem,
        lower=max(lower - _ROUNDING, -math.inf if price else 0.0),
        upper=upper + _ROUNDING,
        how=how,
        floor=floor,
        greedy=None if greedy is None else greedy.value,
        blind=search.blind,
        nodes=len(search.nodes),
        seconds=clock.spent,
        drawn=drawn,
        plan=best,
        steps=steps,
    )


def _followed(steps: BeliefSteps, rule: Rule, clock: Clock) -> Followed | None:
    try:
        return follow(steps, rule, clock)
    except OutOfTime:
        return None


def _improved(steps: BeliefSteps, best: Followed, clock: Clock) -> tuple[Followed, str]:
    """The best of the rules that look ahead, each along the one before, as many as there is time for."""
    how, greedy = "the greedy rule", greedy_rule(steps)
    near = rollout_rule(steps, greedy, _NEAR)
    ahead = {
        f"a rule that looks {_NEAR} steps ahead along the greedy one": near,
        "a rule that looks ahead to the end along the greedy one": rollout_rule(steps, greedy, steps.horizon),
        f"a rule that looks ahead to the end along one that looks {_NEAR} steps ahead": rollout_rule(
            steps, near, steps.horizon
        ),
    }
    for words, rule in ahead.items():
        found = _followed(steps, rule, clock)
        if found is None:
            break
        if found.value < best.value:
            best, how = found, words
    return best, how


def _drawn(steps: BeliefSteps, seed: int, clock: Clock) -> Drawn | None:
    """The rules in drawn runs, the same runs for all: the greedy one first, then those that look further and further ahead.

    The best of them by the first runs is measured in others, beside the greedy rule.
    """
    greedy, found = greedy_rule(steps), dict[str, Float[np.ndarray, " n"]]()
    rules = {"the greedy rule": greedy}
    rules |= {f"a rule that looks {n} steps ahead along the greedy one": rollout_rule(steps, greedy, n) for n in _AHEAD}
    draws, part = Draws.of(steps, _RUNS, seed), clock.share(0.5)
    with suppress(OutOfTime):
        for words, rule in rules.items():
            found[words] = simulate(steps, rule, draws, part)
    if not found:
        return None
    best = min(found, key=lambda words: float(found[words].mean()))
    values, others = list[np.ndarray](), list[np.ndarray]()
    with suppress(OutOfTime):
        for number in range(1, _MOST_CHUNKS):
            draws = Draws.of(steps, _RUNS, [seed, number])
            pair = simulate(steps, greedy, draws, clock), simulate(steps, rules[best], draws, clock)
            others.append(pair[0])
            values.append(pair[1])
    if not values:
        return None
    value, other = np.concatenate(values), np.concatenate(others)
    error = [float(one.std(ddof=1) / np.sqrt(len(one))) for one in (value, other - value)]
    return Drawn(best, float(value.mean()), error[0], float(other.mean()), float((other - value).mean()), error[1])


class _Search:
    """Trials from the start into the beliefs whose bounds are furthest apart, each followed by an update of its way."""

    def __init__(self, steps: BeliefSteps, clock: Clock):
        self.steps, self.clock = steps, clock
        self.nodes: dict[tuple[int, bytes], _Node] = {}
        self._points: list[list[_Node]] = [[] for _ in range(steps.horizon + 1)]
        beliefs = np.array([row for _, row in steps.starts])
        mass = beliefs.sum(axis=1)
        self.first = float(steps.unknown(0, beliefs).sum())
        self.blind = self.first + float(steps.blind(0, beliefs).sum())
        made = self._made(0, beliefs / mass[:, None])
        self.roots = [(event, p, node) for (event, _), p, node in zip(steps.starts, mass.tolist(), made, strict=True)]

    def total(self, name: str) -> float:
        """A bound on what counts from the start on."""
        return self.first + sum(mass * getattr(node, name) for _, mass, node in self.roots)

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.total("upper") - self.total("lower")

    def run(self, gap: float, clock: Clock) -> None:
        """Trials until the bounds are near or the time is over."""
        self.clock = clock
        try:
            while self.gap > gap:
                self.clock.check()
                _, _, root = max(self.roots, key=lambda one: one[1] * (one[2].upper - one[2].lower))
                self._trial(root, gap)
        except (OutOfTime, TooLargeError):
            return

    def _trial(self, root: _Node, gap: float) -> None:
        way, node, weight = list[_Node](), root, 1.0
        while node.time < self.steps.last and weight * (node.upper - node.lower) > gap / 2:
            if node.is_open:
                self._follow(node)
            way.append(node)
            best = int(np.argmin(node.sums("lower")))
            children = node.children[best]
            _, mass, child = max(children, key=lambda one: one[1] * (one[2].upper - one[2].lower))
            node, weight = child, weight * mass
        for node in reversed(way):
            self._update(node)

    def _update(self, node: _Node) -> None:
        lower, upper = float(node.sums("lower").min()), float(node.sums("upper").min())
        if (
            lower > node.lower + 1e-9
            and len(self._points[node.time]) < _MOST_POINTS
            and node not in self._points[node.time]
        ):
            self._points[node.time].append(node)
        node.lower, node.upper = max(node.lower, lower), min(node.upper, upper)

    def _follow(self, node: _Node) -> None:
        """Make what each action and answer lead to."""
        steps, time = self.steps, node.time
        self.clock.check()
        after = steps.after(time, node.belief)
        mass = after.sum(axis=1)
        kept = np.flatnonzero(mass > 0)
        beliefs = after[kept] / mass[kept, None]
        gained, actions = np.zeros(steps.hidden.kernel.num_actions), steps.answers.action[kept]
        np.add.at(gained, actions, steps.unknown(time + 1, after[kept]))
        children: list[list[tuple[int, float, _Node]]] = [[] for _ in gained]
        events, masses = steps.answers.event[kept].tolist(), mass[kept].tolist()
        for action, event, p, child in zip(
            actions.tolist(), events, masses, self._made(time + 1, beliefs), strict=True
        ):
            children[action].append((event, p, child))
        node.children, node.gained, node.paid = children, gained, steps.paid(time, node.belief)

    def _made(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> list[_Node]:
        """The nodes of normalised beliefs, made where they are new."""
        keys = [(time, row.tobytes()) for row in np.round(beliefs, _SAME) + 0.0]
        fresh = [number for number, key in enumerate(keys) if key not in self.nodes]
        if fresh:
            if len(self.nodes) * beliefs.shape[1] > _MOST_NUMBERS:
                raise TooLargeError("the beliefs do not fit the memory: shorten the horizon, or lower time_limit")
            rows = beliefs[fresh]
            if time < self.steps.last:
                upper, lower = self.steps.blind(time, rows), self.steps.told(time, rows)
                lower = self._from_points(time, rows, lower)
            else:
                upper = lower = np.zeros(len(rows))
            for number, row, low, high in zip(fresh, rows, lower.tolist(), upper.tolist(), strict=True):
                self.nodes.setdefault(keys[number], _Node(time, row, min(low, high), high))
        return [self.nodes[key] for key in keys]

    def _from_points(
        self, time: int, rows: Float[np.ndarray, "k n"], lower: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, " k"]:
        """`W(b) ≥ c W(b_i) + told(b − c b_i)` with the largest c for which nothing is negative."""
        base = lower.copy()
        for point in self._points[time]:
            inside = point.belief > 0
            share = (rows[:, inside] / point.belief[inside]).min(axis=1)
            told = float(self.steps.told(time, point.belief[None])[0])
            lower = np.maximum(lower, base + share * (1 - 1e-12) * (point.lower - told))
        return lower


def _floor(steps: BeliefSteps, clock: Clock) -> float | None:
    """A proven lower bound on what is left if all queries are answered at each time: data processing."""
    problem = steps.problem
    if not steps.is_free or clock.left <= 0 or len(problem.models) > 1:
        return None
    observer = problem.observer
    each = [Observer(table, observer.observations.all()) for table in observer.matrices]
    try:
        informed = problem.replace(observer=Together(*each), agent_sees="state", constraints=())
        return opacity(informed, MarkovPolicy.uniform(informed), "auto", time_limit=clock.left).lower
    except TooLargeError:
        return None


def _plan_of(steps: BeliefSteps, search: _Search) -> Followed:
    """The plan of the best known actions; beliefs that were not followed learn nothing more."""
    layer: list[_Node | None] = [node for _, _, node in search.roots]
    nodes = {event: number for number, (event, _, _) in enumerate(search.roots)}
    layers = []
    for _ in range(steps.last):
        chosen, after = np.full(len(layer), steps.plain), list[_Node | None]()
        following, numbers = np.full((len(layer), steps.num_events), -1), dict[int, int]()
        for number, node in enumerate(layer):
            if node is None or node.is_open:
                continue
            sums = node.sums("upper")
            if sums.min() > node.upper + 1e-9:  # to learn nothing more is better
                continue
            chosen[number] = int(np.argmin(sums))
            for event, _, child in node.children[chosen[number]]:
                place = numbers.setdefault(id(child), len(after))
                if place == len(after):
                    after.append(child)
                following[number, event] = place
        layers.append(Layer(chosen, following))
        layer = after
    return Followed(search.total("upper"), nodes, tuple(layers))


def _policy_of(steps: BeliefSteps, plan: Followed) -> HistoryPolicy:
    """A plan as a policy: node 0 of each time takes the plain action, for what the plan does not follow."""
    observer, actions = steps.problem.observer, steps.problem.num_actions
    first = np.zeros(observer.num_observations if observer.sees_first else 1, dtype=np.int64)
    for event, number in plan.nodes.items():
        first[event] = number + 1
    situation, decisions, following = np.sort(_situations(steps)), [], []
    for time in range(steps.horizon):
        layer = plan.layers[time] if time < len(plan.layers) else None
        chosen, graph = np.array([steps.plain]), np.zeros((1, steps.num_events), dtype=np.int64)
        if layer is not None:
            chosen = np.concatenate([chosen, layer.action])
            graph = np.concatenate([graph, layer.following + 1])
        elif time and following:
            nodes = int(following[-1].max()) + 1
            chosen, graph = np.full(nodes, steps.plain), np.zeros((nodes, steps.num_events), dtype=np.int64)
        is_open = time < steps.problem.secret_table.time
        values = np.array([-1]) if is_open else np.arange(steps.hidden.num_values)
        key = np.stack(np.meshgrid(np.arange(len(chosen)), situation, values, indexing="ij"), axis=-1).reshape(-1, 3)
        table = np.eye(actions)[chosen[key[:, 0]]]
        decisions.append(Decisions(key[:, 0].copy(), key[:, 1].copy(), key[:, 2].copy(), table))
        following.append(graph)
    if following:
        following[-1] = np.zeros_like(following[-1])
    return HistoryPolicy(first, following, decisions)


def _situations(steps: BeliefSteps) -> np.ndarray:
    """The numbers of the hidden states for a history policy."""
    hidden, memories = steps.hidden, len(steps.problem.secret_table.memory_names)
    return (hidden.model_index * memories + hidden.held) * steps.problem.num_states + hidden.state
