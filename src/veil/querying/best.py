"""The least that an observer can be left with if it chooses what to ask: bounds from both sides, and a plan that attains one.

`W_t(b) = min_a [ cost(a) + Σ_e (unknown_{t+1}(b_{a,e}) + W_{t+1}(b_{a,e})) ]` over unnormalised beliefs. W is concave and
homogeneous of degree one, as a minimum of sums of such functions. Hence to be told more gives a lower bound, and to learn
nothing more an upper bound. Both are tightened where they are furthest apart, in a graph of beliefs.
"""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import math
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..common.checks import Defects, is_number
from ..common.clock import Clock, OutOfTime, ProgressOption
from ..common.errors import TooLargeError
from ..common.rounding import lower_text, upper_text
from ..common.text import aligned
from ..measure.evaluate import opacity
from ..policy.history import Decisions, HistoryPolicy
from ..policy.markov import MarkovPolicy
from ..problem.observer import Observer
from ..problem.problem import Problem, check_problem
from ..problem.together import Together
from ..proof.certificate import Certificate
from ..proof.certify import prove
from .beliefs import BeliefSteps
from .finer import FinerAnswers
from .graph import BeliefGraph
from .rules import Draws, Followed, Rule, follow, greedy_rule, rollout_rule, simulate
from .vectors import BeliefVectors
from .witness import witness

_LEAST_SECONDS = 0.01  # for the floor
_ROUNDING = 1e-10  # bits by which bounds are moved outward
# Shares of the time that is left: for the greedy rule, a first search, the floor, a graph of queries, and rules that look ahead
# along it, or, if they cannot be followed exactly, drawn runs; for lower bounds; of the rest, for the rules of the search.
_GREEDY_SHARE, _FIRST_SHARE, _FLOOR_SHARE, _VECTORS_SHARE, _RULES_SHARE = 0.1, 0.1, 0.05, 0.4, 0.3
_FINER_SHARE, _LAST_SHARE = 0.3, 0.15
_PROOF_SHARE = 0.5  # of the time of a certificate, for beliefs
_NEAR = 2  # steps that the first rule looks ahead
_RUNS, _MOST_CHUNKS = 50, 400  # drawn at a time, and how often


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
    """What an observer that chooses its queries can learn: bounds on the bits that are left, and a plan.

    **Attributes:**

    - `lower`, `upper`: bits (and the price of what is paid), between which the least of all policies lies, with any memory and
      any random choices. `upper` is that of the plan.
    - `how`: where the plan comes from, in words.
    - `floor`: what is left if all queries are answered at each time, a lower bound; None if there was no time, or if the
      actions do more than ask.
    - `greedy`: of asking what leaves least for the next time that counts; None if there was no time to follow it exactly.
    - `blind`: of learning nothing. `nodes`: beliefs that the search looked at; `seconds`.
    - `drawn`: if no rule could be followed exactly, the best one in drawn runs, beside the greedy one.
    - `plan`, `steps`: what `policy` is made of; `search`: the beliefs, of which `certify` makes a proof.
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
    search: BeliefGraph | None = field(default=None, repr=False)

    @property
    def gap(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    def summary(self) -> str:
        """The bounds, the plan and the values to compare with."""
        proven = (
            f"the least that can be left is between {lower_text(self.lower, 6)} and {upper_text(self.upper, 6)} bits"
        )
        facts = [("proven", proven),
                 ("plan", self.how)]  # fmt: skip
        facts += [("greedy", f"{self.greedy:.6f} bits")] if self.greedy is not None else []
        facts += [("all sensors at once", f"{self.floor:.6f} bits")] if self.floor is not None else []
        facts.append(("nothing asked", f"{self.blind:.6f} bits"))
        if self.drawn is not None:
            drawn = f"{self.drawn.estimate:.4f} ± {self.drawn.std_error:.4f} bits, {self.drawn.how}"
            facts.append(("in drawn runs", f"{drawn}; the greedy rule {self.drawn.greedy:.4f}"))
        return aligned(facts)

    @cached_property
    def policy(self) -> HistoryPolicy:
        """The plan whose value is `upper`, as a policy on all answers: measured by `veil.opacity`, it hides no more."""
        assert self.plan is not None
        assert self.steps is not None
        return policy_of(self.steps, self.plan)

    def certify(self, *, time_limit: float = 60.0, most_numbers: int = 2**20) -> Certificate:
        """A certificate of both bounds: the most bits that `policy` leaves, and the fewest that any policy can leave
        that sees what the observer sees. `veil.verify(certificate, problem, plan.policy)` checks it.

        **Arguments:** `time_limit`: seconds, for beliefs and for the policy's own bits; `most_numbers`: of the beliefs that are
        kept. Fewer make a smaller certificate, and a smaller lower bound.

        **Raises:** `InputError` with a price and no budget: a price is the multiplier of a constraint.
        """
        assert self.search is not None
        assert self.steps is not None
        search = self.search
        if search.uses_answers:  # which no certificate has: beliefs alone are looked at again
            search = BeliefGraph(self.steps)
            search.run(max(self.gap, 1e-6), Clock(time_limit).share(_PROOF_SHARE))
        beliefs = witness(search, most_numbers)
        return prove(self.problem, self.policy, time_limit, goal="transparent", beliefs=beliefs, progress=False)[0]


def best_queries(
    problem: Problem,
    *,
    time_limit: float = 60.0,
    gap: float = 1e-6,
    price: float = 0.0,
    seed: int = 0,
    progress: ProgressOption = None,
) -> QueryPlan:
    """Bounds on the least `H(Z|Y)` of an agent that sees only what the observer sees, and a plan.

    For problems that `veil.Querying(…).apply(problem)` makes, and others whose agent sees the observations and the actions. The
    bounds hold for all policies; they are computed in floating point and moved outward by 1e-10 bits. `QueryPlan.certify`
    proves them.

    First come the greedy rule and a short search of beliefs. Then graphs of few nodes are made, which give upper bounds at any
    belief; rules that ask as these do; and the answers to all queries at every later time, which give lower bounds. With both,
    beliefs are searched where the bounds are furthest apart. If a rule has too many answers to be followed exactly, the plan is
    a graph, and the rule is played in drawn runs.

    **Arguments:**

    - `time_limit`: seconds; `gap`: bits between the bounds at which the search ends.
    - `price`: bits that one unit of the return counts: what is minimised is `H(Z|Y) + price · E[return]`, of which the return
      of a querying observer is what its queries cost.
    - `seed`: of drawn runs. `progress`: as for `veil.solve`.

    Cost: for each belief that is looked at, one step for each action and answer.

    **Raises:** `InputError` if the agent sees anything else.
    """
    check_problem(problem)
    defects = Defects("best queries")
    for name, value in (("time_limit", time_limit), ("gap", gap), ("price", price)):
        if not is_number(value) or value < 0:
            defects.add(f"{name} is {value!r}, expected a number, 0 or more")
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    defects.raise_if_any()
    steps = BeliefSteps(problem, float(price))
    with Clock(time_limit, progress=progress) as clock:
        return _searched(steps, gap, int(seed), clock)


def _searched(steps: BeliefSteps, gap: float, seed: int, clock: Clock) -> QueryPlan:
    search = BeliefGraph(steps)
    greedy = _followed(steps, greedy_rule(steps), clock.share(_GREEDY_SHARE))
    search.run(gap, clock.share(_FIRST_SHARE))
    floor, drawn = _floor(steps, clock.share(_FLOOR_SHARE)), None
    plans = [(search.plan(), f"a search of {search.size:,} beliefs")]
    plans += [(greedy, "the greedy rule")] if greedy is not None else []
    if search.gap > gap:
        vectors = BeliefVectors(steps)
        vectors.improve(greedy_rule(steps), seed, gap, clock.share(_VECTORS_SHARE))
        rule = vectors.rule(greedy_rule(steps))
        plans += [(vectors.plan(), "a graph of queries")] if vectors.value < math.inf else []
        finer = FinerAnswers(steps, clock.share(_FINER_SHARE))
        search = BeliefGraph(steps, vectors, finer)
        floor = None if floor is None else max(floor, finer.at_start())
        if greedy is None:
            drawn = _drawn(steps, rule, seed, clock.share(_RULES_SHARE))
            search.run(gap, clock)
        else:
            plans += _improved(steps, rule, clock.share(_RULES_SHARE))
            search.run(gap, clock.share(1 - _LAST_SHARE))
            for side in ("upper", "lower"):
                found = _followed(steps, search.rule(side, rule), clock.share(0.5))
                plans += [(found, f"a search of {search.size:,} beliefs")] if found is not None else []
    plan, how = min(plans, key=lambda one: one[0].value)
    lower, upper = search.total("lower"), plan.value
    if floor is not None and (steps.costs >= 0).all():
        lower = max(lower, floor)
    return QueryPlan(
        problem=steps.problem,
        lower=max(min(lower, upper) - _ROUNDING, -math.inf if steps.price else 0.0),
        upper=upper + _ROUNDING,
        how=how,
        floor=floor,
        greedy=None if greedy is None else greedy.value,
        blind=search.blind,
        nodes=search.size,
        seconds=clock.spent,
        drawn=drawn,
        plan=plan,
        steps=steps,
        search=search,
    )


def _followed(steps: BeliefSteps, rule: Rule, clock: Clock) -> Followed | None:
    try:
        return follow(steps, rule, clock)
    except OutOfTime:
        return None


def _improved(steps: BeliefSteps, rule: Rule, clock: Clock) -> list[tuple[Followed, str]]:
    """What a rule leaves, and those that look ahead along it, as many as there is time for."""
    words = "a rule that asks as a graph of queries would"
    ahead = {
        words: rule,
        f"{words}, {_NEAR} steps ahead": rollout_rule(steps, rule, _NEAR),
        f"{words}, ahead to the end": rollout_rule(steps, rule, steps.horizon),
    }
    plans = list[tuple[Followed, str]]()
    for how, one in ahead.items():
        found = _followed(steps, one, clock)
        if found is None:
            break
        plans.append((found, how))
    return plans


def _drawn(steps: BeliefSteps, rule: Rule, seed: int, clock: Clock) -> Drawn | None:
    """A rule in drawn runs, and the greedy rule in the same."""
    values, others = list[np.ndarray](), list[np.ndarray]()
    with suppress(OutOfTime):
        for number in range(_MOST_CHUNKS):
            draws = Draws.of(steps, _RUNS, [seed, number])
            pair = simulate(steps, greedy_rule(steps), draws, clock), simulate(steps, rule, draws, clock)
            others.append(pair[0])
            values.append(pair[1])
    if not values:
        return None
    value, other = np.concatenate(values), np.concatenate(others)
    error = [float(one.std(ddof=1) / np.sqrt(len(one))) for one in (value, other - value)]
    how = "a rule that asks as a graph of queries would"
    return Drawn(how, float(value.mean()), error[0], float(other.mean()), float((other - value).mean()), error[1])


def _floor(steps: BeliefSteps, clock: Clock) -> float | None:
    """A proven lower bound on what is left if all queries are answered at each time: data processing."""
    problem = steps.problem
    if not steps.is_free or clock.left <= 0 or len(problem.models) > 1:
        return None
    observer = problem.observer
    each = [Observer(table, observer.observations.all()) for table in observer.matrices]
    try:
        informed = problem.replace(observer=Together(*each), agent_sees="state", constraints=())
        # The time may have run out while the problem was made.
        return opacity(
            informed, MarkovPolicy.uniform(informed), "auto", time_limit=max(clock.left, _LEAST_SECONDS)
        ).lower
    except TooLargeError:
        return None


def policy_of(steps: BeliefSteps, plan: Followed) -> HistoryPolicy:
    """A plan as a policy: node 0 of each time takes the plain action, for what the plan does not follow."""
    observer, actions = steps.problem.observer, steps.problem.num_actions
    first = np.zeros(observer.num_observations if observer.sees_first else 1, dtype=np.int64)
    for event, number in plan.nodes.items():
        first[event] = number + 1
    situation, decisions, following = np.sort(steps.situations), [], []
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
