"""`veil.design_sensors`: which sensors to mute, or to place, so that the best of all policies hides most, or least."""

import contextlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from ..common.checks import Defects, as_tuple, is_number
from ..common.clock import Clock
from ..common.errors import InfeasibleError
from ..common.rounding import lower_text, upper_text
from ..common.suggest import suggestion
from ..common.text import in_parentheses
from ..common.values import Value
from ..engine.feasibility import check_constraints
from ..measure.pairs import pair_values
from ..planning.game_method import search_game
from ..planning.solution import Solution
from ..problem.observer import Observer
from ..problem.problem import Problem, check_problem
from ..problem.trivial import trivial_bound

DesignGoal = Literal["opaque", "transparent"]
_MOST_SETS = 64  # designs up to which all are evaluated
_DIGITS = 9  # after the point, to which bounds of two designs are compared: beyond, they differ by rounding
_NEGATIVE_BITS = -1e-6  # an upper bound on bits below this one proves that no policy meets the constraints
_PAIR_SECONDS = 5.0  # at least, to measure what a policy hides in pairs that have bounds
_MOST_EXAMINED = 2**16  # sets of sensors looked through for those that cannot be extended within the budget


@dataclass(frozen=True, eq=False, repr=False)
class TriedDesign(Value):
    """One design: the sensors that are muted, and the bounds of what the best policy then hides, in bits."""

    muted: tuple[str, ...]
    lower_bits: float
    upper_bits: float


@dataclass(frozen=True, eq=False, repr=False)
class SensorDesign(Value):
    """The design that was found.

    **Attributes:** `muted` and `kept` sensors; `cost` of what was chosen; `goal`; `lower_bits`, `upper_bits`: bounds of what
    the best of all policies hides under it; `bound_bits`: the proven bound over all designs within the budget, an upper one
    for `"opaque"` and a lower one for `"transparent"`; `exhaustive`: whether all designs were evaluated; `decided`: whether
    the bounds prove that no other design is better by more than the games' gaps; `solution`: the best policy under the
    design; `tried`: every design that was evaluated and leaves a policy.
    """

    muted: tuple[str, ...]
    kept: tuple[str, ...]
    cost: float
    goal: DesignGoal
    lower_bits: float
    upper_bits: float
    bound_bits: float
    exhaustive: bool
    decided: bool
    solution: Solution
    tried: tuple[TriedDesign, ...]

    def summary(self) -> str:
        """What is muted, what the best policy then hides, and what is proven of all designs."""
        opaque, problem = self.goal == "opaque", self.solution.problem
        bound = upper_text(self.bound_bits, 6) if opaque else lower_text(self.bound_bits, 6)
        words = "at most" if opaque else "at least"
        trivial = [
            "" if problem is None else trivial_bound(problem, bits) for bits in (self.upper_bits, self.bound_bits)
        ]
        if not opaque:
            trivial[1] = "trivial: bits are never below 0" if self.bound_bits <= 0 else ""
        hidden, proven = map(in_parentheses, trivial)
        how = "all designs evaluated" if self.exhaustive else "found by a greedy search"
        other = "more" if opaque else "less"
        doubt = f"undecided: the best policy may hide {other} under another design; raise time_limit to decide"
        if not self.solution.feasible:
            doubt = (
                "undecided: no policy is known that meets the constraints under this design; raise time_limit to decide"
            )
        return "\n".join(
            [
                *([] if self.decided else [doubt]),
                f"muted   {', '.join(self.muted) or 'none'}",
                f"kept    {', '.join(self.kept) or 'none'}",
                f"cost    {self.cost:g}",
                f"hidden  {lower_text(self.lower_bits, 6)} … {upper_text(self.upper_bits, 6)} bits{hidden} by the best policy",
                f"proven  {words} {bound} bits{proven} under every design within the budget ({how})",
            ]
        )


def design_sensors(
    problem: Problem,
    budget: float,
    *,
    costs: Mapping[str, float] | None = None,
    goal: DesignGoal = "opaque",
    sensors: Iterable[str] | None = None,
    gap: float = 1e-3,
    time_limit: float | None = None,
) -> SensorDesign:
    """Which sensors to mute so that the best policy hides most, or which to place so that it hides least.

    For every fixed policy muting a sensor never lowers `H(Z|Y)`, so neither does it for the best of all policies: only designs
    that the budget does not allow to extend are compared, each between the bounds of the game. If there are more than
    64 of them, sensors are chosen one after the other, each time the best next one, and the bound over all designs is that
    of muting (or placing) all sensors. Designs under which no policy meets the constraints are left out. If the bounds do
    not tell which design is best, for example after a short `time_limit`, `decided` is False and the summary says so.

    **Arguments:**

    - `budget`: the most that the chosen sensors may cost together. `costs` of the sensors, 1 each by default.
    - `goal`: `"opaque"`: the chosen sensors are muted, the others stay; `"transparent"`: the chosen ones are placed, the others
      are muted.
    - `sensors`: those among which to choose, by name in `observer.sensors`; all by default. All other sensors stay.
    - `gap`: of each game, in bits; `time_limit`: seconds for all of them, divided evenly.

    Cost: one game for each design that is compared.

    **Raises:** `InputError`, also if the order in which two sensors are muted matters; `InfeasibleError` if no policy meets
    the constraints under any design; `TooLargeError` if a game is.
    """
    chosen = _checked(problem, budget, costs, goal, sensors, gap)
    check_constraints(problem)
    names, price = tuple(chosen), chosen
    search = _DesignSearch(problem, names, goal, gap, Clock(time_limit))
    candidates = _maximal(names, price, budget)
    if candidates is not None and len(candidates) <= _MOST_SETS:
        return search.best(candidates, price)
    return search.greedy(price, budget)


class _DesignSearch:
    """Designs evaluated by games. A choice is a set of sensors: those muted, or those placed."""

    def __init__(self, problem: Problem, names: tuple[str, ...], goal: DesignGoal, gap: float, clock: Clock):
        self.problem, self.names, self.gap, self.clock = problem, names, gap, clock
        self.goal: DesignGoal = goal
        self._found: dict[tuple[str, ...], Solution | None] = {}  # by what is muted; None where no policy is feasible

    def best(self, candidates: list[tuple[str, ...]], price: Mapping[str, float]) -> SensorDesign:
        """The best of all candidates; with sensors to place, of smaller sets where a candidate leaves no policy."""
        waiting, possible = list(candidates), list[tuple[str, ...]]()
        tried, exhaustive = set(waiting), True
        while waiting:
            choice = waiting.pop(0)
            self.value(choice, 1 + len(waiting))
            if not self._is_impossible(choice):
                possible.append(choice)
            elif self.goal == "transparent":
                smaller = [tuple(one for one in choice if one != name) for name in choice]
                new = [one for one in smaller if one not in tried]
                exhaustive = exhaustive and len(tried) + len(new) <= _MOST_SETS
                waiting += new if exhaustive else []
                tried |= set(new if exhaustive else [])
        if not possible:
            raise _no_policy()
        sign = 1 if self.goal == "opaque" else -1
        chosen = max(possible, key=self._merit)
        bound = sign * max(sign * self._outer(one) for one in possible)
        others = [sign * self._outer(one) for one in possible if one != chosen]
        return self._design(chosen, price, bound, max(others, default=-math.inf), exhaustive=exhaustive)

    def greedy(self, price: Mapping[str, float], budget: float) -> SensorDesign:
        """The best next sensor again and again, while the budget allows one."""
        chosen: tuple[str, ...] = ()
        left = (len(self.names) * (len(self.names) + 1)) // 2 + 1
        self.value(self.names, left)
        bound = self._outer(self.names)
        while True:
            spent = sum(price[name] for name in chosen)
            options = [
                self._ordered({*chosen, name})
                for name in self.names
                if name not in chosen and spent + price[name] <= budget
            ]
            for one in options:
                left -= 1
                self.value(one, max(1, left))
            options = [one for one in options if self.goal == "opaque" or not self._is_impossible(one)]
            if not options:
                break
            chosen = max(options, key=self._merit)
        self.value(chosen, 1)
        if self._is_impossible(chosen):
            raise _no_policy()
        return self._design(chosen, price, bound, bound if self.goal == "opaque" else -bound, exhaustive=False)

    def value(self, choice: tuple[str, ...], left: int) -> None:
        """Play the game of a choice, with its share of the time where so many are left."""
        muted = self._muted(choice)
        if muted in self._found:
            return
        observer: Observer = self.problem.observer
        for name in muted:
            observer = observer.without_sensor(name)
        problem = self.problem.replace(observer=observer)
        limit = None if self.clock.left == float("inf") else self.clock.left / left
        self._found[muted] = None
        with contextlib.suppress(InfeasibleError):
            found = search_game(problem, gap=self.gap, clock=Clock(limit))
            if found.upper_bits >= _NEGATIVE_BITS:
                self._found[muted] = self._with_pairs(problem, replace(found, problem=problem), limit)

    def _with_pairs(self, problem: Problem, found: Solution, limit: float | None) -> Solution:
        """The answer of a game; not feasible where it misses a bound on a pair."""
        if any(one.bounds for one in problem.pairs):
            seconds = None if limit is None else max(limit, _PAIR_SECONDS)
            pairs = pair_values(problem, found.policy, time_limit=seconds)
            return replace(found, pairs=pairs, feasible=found.feasible and all(one.met for one in pairs))
        return found

    def _is_impossible(self, choice: tuple[str, ...]) -> bool:
        """Whether it is proven that no policy meets the constraints."""
        return self._found[self._muted(choice)] is None

    def _outer(self, choice: tuple[str, ...]) -> float:
        """The bound over all policies in favour of the goal: the upper one to hide, the lower one to reveal."""
        lower, upper = self._bounds(choice)
        return upper if self.goal == "opaque" else lower

    def _merit(self, choice: tuple[str, ...]) -> tuple[float, float]:
        """What is maximised: what the best policy hides at least, or minus what it hides at most; then the other bound."""
        lower, upper = (round(one, _DIGITS) for one in self._bounds(choice))
        return (lower, upper) if self.goal == "opaque" else (-upper, -lower)

    def _bounds(self, choice: tuple[str, ...]) -> tuple[float, float]:
        found = self._found[self._muted(choice)]
        return (0.0, -math.inf) if found is None else self._bounds_of(found)

    @staticmethod
    def _bounds_of(found: Solution) -> tuple[float, float]:
        """Of what the best policy hides; without a policy that is known to be feasible, 0 at least."""
        return found.opacity.lower if found.feasible else 0.0, found.upper_bits

    def _muted(self, choice: tuple[str, ...]) -> tuple[str, ...]:
        return choice if self.goal == "opaque" else self._ordered(set(self.names) - set(choice))

    def _ordered(self, names: set[str]) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in names)

    def _design(
        self, chosen: tuple[str, ...], price: Mapping[str, float], bound: float, rival: float, *, exhaustive: bool
    ) -> SensorDesign:
        """The answer; `rival`: what another design may reach, times −1 where less is better."""
        lower, upper = self._bounds(chosen)
        muted = self._muted(chosen)
        solution = self._found[muted]
        assert solution is not None
        reached = lower if self.goal == "opaque" else -upper
        return SensorDesign(
            muted=muted,
            kept=tuple(name for name in self.problem.observer.sensors if name not in muted),
            cost=sum(price[name] for name in chosen),
            goal=self.goal,
            lower_bits=lower,
            upper_bits=upper,
            bound_bits=bound,
            exhaustive=exhaustive,
            decided=solution.feasible and rival <= reached + 2 * self.gap,
            solution=solution,
            tried=tuple(TriedDesign(one, *self._bounds_of(two)) for one, two in self._found.items() if two is not None),
        )


def _no_policy() -> InfeasibleError:
    words = "no policy meets the constraints under any design within the budget"
    return InfeasibleError(f"design_sensors: {words}: relax a bound of a pair, or change the budget")


def _maximal(names: tuple[str, ...], price: Mapping[str, float], budget: float) -> list[tuple[str, ...]] | None:
    """The sets within the budget to which no sensor can be added; None where there are too many sets to look through."""
    if 2 ** len(names) > _MOST_EXAMINED:
        return None
    found = []
    for size in range(len(names), -1, -1):
        for one in itertools.combinations(names, size):
            cost = sum(price[name] for name in one)
            rest = [price[name] for name in names if name not in one]
            if cost <= budget and not any(cost + more <= budget for more in rest):
                found.append(one)
    return found


def _out_of_order(observer: Observer, names: Sequence[str]) -> list[str]:
    """The pairs of sensors for which it matters which of them is muted first, in words."""
    shown = {name: np.arange(observer.num_observations) for name in names}
    for name, column in shown.items():
        for reading, instead in observer.sensors[name].items():
            column[reading] = instead
    return [
        f"muting {one!r} and then {other!r} differs from the other order, expected the same: a reading without a sensor has to"
        " keep the reports of all others"
        for one, other in itertools.combinations(names, 2)
        if np.any(shown[one][shown[other]] != shown[other][shown[one]])
    ]


def _checked(
    problem: Problem, budget: object, costs: object, goal: object, sensors: object, gap: object
) -> dict[str, float]:
    """The sensors to choose from, each with its cost. Raises `InputError` with every defect."""
    check_problem(problem)
    defects = Defects("design_sensors")
    known = tuple(problem.observer.sensors)
    names = known if sensors is None else as_tuple(sensors)
    if not known:
        defects.add("the observer has no sensors: Observer(…, sensors={name: {reading: without it}})")
    if not isinstance(names, tuple) or not names or len(set(names)) < len(names):
        defects.add(f"sensors are {sensors!r}, expected different names of sensors")
        names = ()
    for name in names:
        if name not in known:
            defects.add(f"unknown sensor {name!r}: {suggestion(str(name), known)}")
    defects.add_each(_out_of_order(problem.observer, [name for name in names if name in known]), str)
    if not (is_number(budget) and budget >= 0):  # pyright: ignore[reportOperatorIssue]
        defects.add(f"budget is {budget!r}, expected a number, 0 or more")
    if not (is_number(gap) and gap > 0):  # pyright: ignore[reportOperatorIssue]
        defects.add(f"gap is {gap!r}, expected bits above 0")
    if goal not in get_args(DesignGoal):
        defects.add(f"goal is {goal!r}, expected 'opaque' or 'transparent'")
    price = dict.fromkeys(map(str, names), 1.0)
    if costs is not None and not isinstance(costs, Mapping):
        defects.add(f"costs are {costs!r}, expected a mapping from sensor to number")
    for name, cost in costs.items() if isinstance(costs, Mapping) else ():
        if name not in price:
            defects.add(f"cost of unknown sensor {name!r}: {suggestion(str(name), price)}")
        elif not (is_number(cost) and cost >= 0):
            defects.add(f"the cost of {name!r} is {cost!r}, expected a number, 0 or more")
        else:
            price[name] = float(cost)
    defects.raise_if_any()
    return price
