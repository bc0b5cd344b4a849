"""The least that an observer can be left with if it chooses what to ask: bounds from both sides, and a plan that attains one.

`W_t(b) = min_a [ cost(a) + Σ_e (unknown_{t+1}(b_{a,e}) + W_{t+1}(b_{a,e})) ]` over unnormalised beliefs. W is concave and
homogeneous of degree one, as a minimum of sums of such functions. Hence every decomposition `b = c b_i + rest` gives
`W(b) ≥ c W(b_i) + told(rest)`, and to learn nothing more gives an upper bound. Both are tightened where they are furthest
apart, as point-based solvers of partially observable problems do, with convex and concave exchanged.
"""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import math
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

_SAME = 12  # decimals to which normalised beliefs are equal, and share a node
_ROUNDING = 1e-10  # bits by which bounds are moved outward
_MOST_POINTS = 256  # of each time, from which lower bounds of new beliefs are made
_MOST_NUMBERS = 2**27  # of all beliefs together: 1 GiB


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
class QueryPlan:
    """What an observer that chooses its queries is left with at least, and a plan that leaves it with little.

    **Attributes:**

    - `lower`, `upper`: bits (and the price of what is paid), between which the least of all policies lies, with any memory and
      any random choices.
    - `floor`: what is left if all queries are answered at each time, a lower bound; None if there was no time, or if the actions
      do more than ask.
    - `greedy`: of asking what leaves least for the next time that counts; None if there was no time to follow it exactly.
    - `blind`: of learning nothing. `nodes`: beliefs that were looked at; `seconds`.
    """

    problem: Problem
    lower: float
    upper: float
    floor: float | None
    greedy: float | None
    blind: float
    nodes: int
    seconds: float
    _roots: tuple[tuple[int, _Node], ...] = field(repr=False)
    _steps: BeliefSteps = field(repr=False)

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    @cached_property
    def policy(self) -> HistoryPolicy:
        """The plan whose value is `upper`, as a policy on all answers: measured by `veil.opacity`, it hides no more.

        After beliefs that the search did not follow it takes the plain action.
        """
        return _plan_of(self._steps, self._roots)


def best_queries(
    problem: Problem, *, time_limit: float = 60.0, gap: float = 1e-6, price: float = 0.0, time_for_others: float = 0.25
) -> QueryPlan:
    """The least `H(Z|Y)` that an agent can be left with which sees only what the observer sees, between bounds.

    For problems that `veil.Querying(…).apply(problem)` makes, and others whose agent sees the observations and the actions. The
    bounds hold for all policies; they are computed in floating point and moved outward by 1e-10 bits. No certificate is made.

    **Arguments:**

    - `time_limit`: seconds; `gap`: bits between the bounds at which the search ends.
    - `price`: bits that one unit of the return counts: what is minimised is `H(Z|Y) + price · E[return]`, of which the return
      of a querying observer is what its queries cost.
    - `time_for_others`: the share of the time for what is shown beside it: the greedy plan, followed exactly, and the floor.

    Cost: for each belief that is looked at, one step for each action and answer.

    **Raises:** `InputError` if the agent sees anything else; `TooLargeError` if not even the first beliefs fit the time.
    """
    defects = Defects("best queries")
    for name, value in (("time_limit", time_limit), ("gap", gap), ("price", price)):
        if not is_number(value) or value < 0:
            defects.add(f"{name} is {value!r}, expected a number, 0 or more")
    if not is_number(time_for_others) or not 0 <= time_for_others <= 1:
        defects.add(f"time_for_others is {time_for_others!r}, expected a share from 0 to 1")
    defects.raise_if_any()
    steps, clock = BeliefSteps(problem, float(price)), Clock(time_limit)
    search = _Search(steps, clock)
    greedy = greedy_value(steps, clock.share(time_for_others / 2)) if time_for_others else None
    floor = _floor(steps, clock.share(time_for_others / 2)) if time_for_others else None
    search.run(gap)
    lower, upper = (search.total(name) for name in ("lower", "upper"))
    if floor is not None and (steps.costs >= 0).all():
        lower = max(lower, min(floor, upper))
    return QueryPlan(
        problem=problem,
        lower=max(lower - _ROUNDING, -math.inf if price else 0.0),
        upper=upper + _ROUNDING,
        floor=floor,
        greedy=greedy,
        blind=search.blind,
        nodes=len(search.nodes),
        seconds=clock.spent,
        _roots=tuple((event, node) for event, _, node in search.roots),
        _steps=steps,
    )


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

    def run(self, gap: float) -> None:
        """Trials until the bounds are near or the time is over."""
        try:
            while self.total("upper") - self.total("lower") > gap:
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


def greedy_value(steps: BeliefSteps, clock: Clock, most: int = 20_000) -> float | None:
    """What is left if the observer always asks what leaves least for the next time that counts; None if that is too much."""
    layer = {(0, row.tobytes()): row for _, row in steps.starts}
    total = float(steps.unknown(0, np.array(list(layer.values()))).sum())
    for time in range(steps.last):
        after: dict[tuple[int, bytes], np.ndarray] = {}
        for belief in layer.values():
            if clock.left <= 0 or len(after) > most:
                return None
            rows, scores = greedy_scores(steps, time, belief)
            action = int(np.argmin(scores))
            total += float(steps.paid(time, belief)[action])
            kept = rows[(steps.answers.action == action) & (rows.sum(axis=1) > 0)]
            total += float(steps.unknown(time + 1, kept).sum())
            for row in kept:
                key = (time + 1, (np.round(row / row.sum(), _SAME) + 0.0).tobytes())
                after[key] = after[key] + row if key in after else row
        layer = after
    return total


def greedy_scores(
    steps: BeliefSteps, time: int, belief: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "K n"], Float[np.ndarray, " A"]]:
    """The beliefs after each answer, and for each action what is left at the next time that counts, and what it costs."""
    rows = steps.after(time, belief)
    left = steps.unknown(time + 1, rows)
    if not left.any():  # nothing counts at once: the first time that does
        left = steps.next_unknown(time + 1, rows)
    scores = np.zeros(steps.hidden.kernel.num_actions)
    np.add.at(scores, steps.answers.action, left)
    return rows, scores + steps.paid(time, belief)


def _plan_of(steps: BeliefSteps, roots: tuple[tuple[int, _Node], ...]) -> HistoryPolicy:
    """The plan of the best known actions as a graph of nodes; node 0 of each time is for what the search did not follow."""
    hidden, size = steps.hidden, steps.problem.observer
    events = size.num_events(steps.problem.num_actions)
    first = np.full(size.num_observations if size.sees_first else 1, -1)
    layer = list[_Node | None]([None])
    for event, node in roots:
        first[event] = len(layer)
        layer.append(node)
    situation = np.sort(_situations(steps))
    following, decisions = [], []
    for time in range(steps.horizon):
        graph, after = np.zeros((len(layer), events), dtype=np.int64), list[_Node | None]([None])
        numbers: dict[int, int] = {}
        chosen = np.full(len(layer), steps.plain)
        for number, node in enumerate(layer):
            if node is None or node.is_open:
                continue
            chosen[number] = int(np.argmin(node.sums("upper")))
            if node.sums("upper")[chosen[number]] > node.upper + 1e-9:  # to learn nothing more was better
                chosen[number] = steps.plain
                continue
            for event, _, child in node.children[chosen[number]]:
                place = numbers.setdefault(id(child), len(after))
                if place == len(after):
                    after.append(child)
                graph[number, event] = place
        is_open = time < steps.problem.secret_table.time
        values = np.array([-1]) if is_open else np.arange(hidden.num_values)
        keys = np.array([(n, s, z) for n in range(len(layer)) for s in situation.tolist() for z in values.tolist()])
        table = np.eye(steps.problem.num_actions)[chosen[keys[:, 0]]]
        decisions.append(Decisions(keys[:, 0].copy(), keys[:, 1].copy(), keys[:, 2].copy(), table))
        following.append(graph)
        layer = after
    if following:
        following[-1] = np.zeros_like(following[-1])
    return HistoryPolicy(first, following, decisions, executable=True)


def _situations(steps: BeliefSteps) -> np.ndarray:
    """The numbers of the hidden states for a history policy."""
    hidden, memories = steps.hidden, len(steps.problem.secret_table.memory_names)
    return (hidden.model_index * memories + hidden.held) * steps.problem.num_states + hidden.state
