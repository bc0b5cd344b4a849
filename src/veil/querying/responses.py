"""Rounds of best responses: a querying observer answers a walker, the walker answers its queries, and so on."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..common.checks import Defects, is_number
from ..common.clock import Clock
from ..common.errors import VeilError
from ..common.values import Value
from ..game.enclose import enclose
from ..planning.solution import Solution
from ..planning.solve import solve
from ..policy.policy import Policy
from ..problem.problem import Problem, check_problem
from .best import QueryPlan, best_queries
from .problem import Querying

Memory = Literal["markov", "timed"]
_GUARD_SHARE, _BOUND_SHARE = 0.4, 0.2  # of the time of a round
_LEAST_SECONDS = 0.2  # of a search, also where no time is left


@dataclass(frozen=True, eq=False, repr=False)
class Round(Value):
    """One round.

    **Attributes:** `walker`, and `plan`: the queries found against it; `plan.lower` is proven: no queries leave less of it.
    `answer`: the best walker found against `plan.policy`, and what it hides; `upper`: a proven bound on what any walker
    hides from `plan.policy`, even one that saw the queries and their answers; infinite if none was found in the time.
    """

    walker: Policy
    plan: QueryPlan
    answer: Solution
    upper: float


@dataclass(frozen=True, eq=False, repr=False)
class Responses(Value):
    """Rounds of best responses. `rounds`, in order. No equilibrium is claimed."""

    rounds: tuple[Round, ...]

    @property
    def safest(self) -> Round:
        """The round whose walker is proven to keep most against all queries."""
        return max(self.rounds, key=lambda one: one.plan.lower)

    @property
    def sharpest(self) -> Round:
        """The round whose queries leave the walker that was found the fewest bits."""
        return min(self.rounds, key=lambda one: one.answer.opacity.bits)

    @property
    def lower(self) -> float:
        """Proven: a walker that was found keeps at least this many bits against every querying observer that knows
        it."""
        return self.safest.plan.lower

    @property
    def upper(self) -> float:
        """Proven: no walker keeps more than this many bits against every querying observer that it knows."""
        return min(one.upper for one in self.rounds)

    def summary(self) -> str:
        """A line for each round."""
        rows = ["round  queries leave          walker hides  at most"]
        for number, one in enumerate(self.rounds, 1):
            upper = f"{one.upper:.4f}" if math.isfinite(one.upper) else "?"
            left = f"{one.plan.lower:.4f} to {one.plan.upper:.4f}"
            rows.append(f"{number:5}  {left:20}  {one.answer.opacity.bits:.4f}        {upper}")
        return "\n".join(rows)


def best_responses(
    problem: Problem,
    querying: Querying,
    *,
    rounds: int = 3,
    memory: Memory = "markov",
    time_limit: float = 60.0,
    seed: int = 0,
) -> Responses:
    """A querying observer and a walker that answer each other in turns, each of which knows the other's policy.

    A round finds queries against the walker of the round before (`veil.best_queries`), and then a walker against these
    queries (`veil.solve`, under the problem's constraints). Costs of queries do not count. Every number is about one fixed
    policy of the other side; the rounds may go in circles, and no equilibrium is claimed. What is proven for both sides
    together are the bounds `Responses.lower` and `Responses.upper`.

    **Arguments:**

    - `problem`: the walker's; `querying`: what can be asked, and the walker to begin with.
    - `rounds` ≥ 1; `time_limit`: seconds for all of them; `seed`.
    - `memory`: of the walker, `"markov"` or `"timed"`.

    Cost: that of the two searches, in each round.

    **Raises:** `InputError`; what the searches raise.
    """
    check_problem(problem)
    defects = Defects("best responses")
    if not isinstance(querying, Querying):
        defects.add(
            f"querying is a {type(querying).__name__}, expected veil.Querying(sensors, walker=policy)", "querying"
        )
    if not isinstance(rounds, (int, np.integer)) or isinstance(rounds, bool) or rounds < 1:
        defects.add(f"rounds is {rounds!r}, expected a whole number, 1 or more", "rounds")
    if memory not in ("markov", "timed"):
        defects.add(f"memory is {memory!r}, expected 'markov' or 'timed'", "memory")
    if not is_number(time_limit) or time_limit <= 0:
        defects.add(f"time_limit is {time_limit!r}, expected a number above 0", "time_limit")
    defects.raise_if_any()
    clock, found, walker = Clock(time_limit), list[Round](), querying.walker
    for number in range(rounds):
        part = clock.share(1 / (rounds - number))
        one = _round(problem, replace(querying, walker=walker, costs=0.0), memory, part, seed)
        found.append(one)
        walker = one.answer.policy
    return Responses(tuple(found))


def _round(problem: Problem, querying: Querying, memory: Memory, clock: Clock, seed: int) -> Round:
    plan = best_queries(querying.apply(problem), time_limit=_GUARD_SHARE * clock.left, seed=seed, progress=False)
    faced = querying.against(problem, plan.policy)
    bound, seconds = _bound(faced, _BOUND_SHARE * clock.left), max(_LEAST_SECONDS, clock.left)
    answer = solve(faced, memory=memory, time_limit=seconds, seed=seed, certificate=False, progress=False)
    return Round(querying.walker, plan, answer, bound)


def _bound(faced: Problem, seconds: float) -> float:
    """What any walker hides at most, even one that sees what is asked and answered."""
    try:
        return enclose(faced.informed, clock=Clock(max(_LEAST_SECONDS, seconds))).upper
    except VeilError:
        return math.inf
