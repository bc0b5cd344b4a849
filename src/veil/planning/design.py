"""`veil.design_sensors`: which sensors to mute, or to place, so that the best of all policies hides most, or least."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ..common.checks import Defects, as_tuple, is_number
from ..common.clock import Clock
from ..common.rounding import lower_text, upper_text
from ..common.suggest import suggestion
from ..common.values import Value
from ..problem.observer import Observer
from ..problem.problem import Problem
from .game_method import search_game
from .solution import Solution

DesignGoal = Literal["opaque", "transparent"]
_MOST_SETS = 64  # designs up to which all are evaluated
_DIGITS = 9  # after the point, to which bounds of two designs are compared: beyond, they differ by rounding
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
    for `"opaque"` and a lower one for `"transparent"`; `exhaustive`: whether all designs were evaluated; `solution`: the
    best policy under the design; `tried`: every design that was evaluated.
    """

    muted: tuple[str, ...]
    kept: tuple[str, ...]
    cost: float
    goal: DesignGoal
    lower_bits: float
    upper_bits: float
    bound_bits: float
    exhaustive: bool
    solution: Solution
    tried: tuple[TriedDesign, ...]

    def summary(self) -> str:
        """What is muted, what the best policy then hides, and what is proven of all designs."""
        opaque = self.goal == "opaque"
        bound = upper_text(self.bound_bits, 6) if opaque else lower_text(self.bound_bits, 6)
        words = "at most" if opaque else "at least"
        how = "all designs evaluated" if self.exhaustive else "found by a greedy search"
        return "\n".join(
            [
                f"muted   {', '.join(self.muted) or 'none'}",
                f"kept    {', '.join(self.kept) or 'none'}",
                f"cost    {self.cost:g}",
                f"hidden  {lower_text(self.lower_bits, 6)} … {upper_text(self.upper_bits, 6)} bits by the best policy",
                f"proven  {words} {bound} bits under every design within the budget ({how})",
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
    that the budget does not allow to extend are compared, each between the bounds of the game. Where there are more than
    64 of them, sensors are chosen one after the other, each time the best next one, and the bound over all designs is that
    of muting (or placing) all sensors.

    **Arguments:**

    - `budget`: the most that the chosen sensors may cost together. `costs` of the sensors, 1 each by default.
    - `goal`: `"opaque"`: the chosen sensors are muted, the others stay; `"transparent"`: the chosen ones are placed, the others
      are muted.
    - `sensors`: those among which to choose, by name in `observer.sensors`; all by default. All other sensors stay.
    - `gap`: of each game, in bits; `time_limit`: seconds for all of them, divided evenly.

    Cost: one game for each design that is compared.

    **Raises:** `InputError`; `InfeasibleError` where no policy meets the constraints; `TooLargeError` where a game is.
    """
    chosen = _checked(problem, budget, costs, goal, sensors, gap)
    names, price = tuple(chosen), chosen
    search = _Search(problem, names, goal, gap, Clock(time_limit))
    candidates = _maximal(names, price, budget)
    if candidates is not None and len(candidates) <= _MOST_SETS:
        return search.best(candidates, price)
    return search.greedy(price, budget)


class _Search:
    """Designs evaluated by games. A choice is a set of sensors: those muted, or those placed."""

    def __init__(self, problem: Problem, names: tuple[str, ...], goal: DesignGoal, gap: float, clock: Clock):
        self.problem, self.names, self.gap, self.clock = problem, names, gap, clock
        self.goal: DesignGoal = goal
        self._found: dict[tuple[str, ...], Solution] = {}

    def best(self, candidates: list[tuple[str, ...]], price: Mapping[str, float]) -> SensorDesign:
        """The best of all candidates."""
        for number, one in enumerate(candidates):
            self.value(one, len(candidates) - number)
        tried = [self._bounds(one) for one in candidates]
        sign = 1 if self.goal == "opaque" else -1
        chosen = max(candidates, key=self._merit)
        bound = sign * max(sign * (upper if sign > 0 else lower) for lower, upper in tried)
        return self._design(chosen, price, bound, exhaustive=True)

    def greedy(self, price: Mapping[str, float], budget: float) -> SensorDesign:
        """The best next sensor again and again, while the budget allows one."""
        chosen: tuple[str, ...] = ()
        left = (len(self.names) * (len(self.names) + 1)) // 2 + 1
        everything = self.value(self.names, left)
        bound = everything.upper_bits if self.goal == "opaque" else everything.opacity.lower
        while True:
            spent = sum(price[name] for name in chosen)
            options = [
                self._ordered({*chosen, name})
                for name in self.names
                if name not in chosen and spent + price[name] <= budget
            ]
            if not options:
                break
            for one in options:
                left -= 1
                self.value(one, max(1, left))
            chosen = max(options, key=self._merit)
        self.value(chosen, 1)
        return self._design(chosen, price, bound, exhaustive=False)

    def value(self, choice: tuple[str, ...], left: int) -> Solution:
        """The game of a choice, with its share of the time where so many are left."""
        muted = self._muted(choice)
        if muted not in self._found:
            observer: Observer = self.problem.observer
            for name in muted:
                observer = observer.without_sensor(name)
            limit = None if self.clock.left == float("inf") else self.clock.left / left
            self._found[muted] = search_game(self.problem.replace(observer=observer), gap=self.gap, time_limit=limit)
        return self._found[muted]

    def _merit(self, choice: tuple[str, ...]) -> tuple[float, float]:
        """What is maximised: what the best policy hides at least, or minus what it hides at most; then the other bound."""
        lower, upper = (round(one, _DIGITS) for one in self._bounds(choice))
        return (lower, upper) if self.goal == "opaque" else (-upper, -lower)

    def _bounds(self, choice: tuple[str, ...]) -> tuple[float, float]:
        found = self._found[self._muted(choice)]
        return found.opacity.lower, found.upper_bits

    def _muted(self, choice: tuple[str, ...]) -> tuple[str, ...]:
        return choice if self.goal == "opaque" else self._ordered(set(self.names) - set(choice))

    def _ordered(self, names: set[str]) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in names)

    def _design(
        self, chosen: tuple[str, ...], price: Mapping[str, float], bound: float, *, exhaustive: bool
    ) -> SensorDesign:
        lower, upper = self._bounds(chosen)
        muted = self._muted(chosen)
        return SensorDesign(
            muted=muted,
            kept=tuple(name for name in self.problem.observer.sensors if name not in muted),
            cost=sum(price[name] for name in chosen),
            goal=self.goal,
            lower_bits=lower,
            upper_bits=upper,
            bound_bits=bound,
            exhaustive=exhaustive,
            solution=self._found[muted],
            tried=tuple(TriedDesign(one, two.opacity.lower, two.upper_bits) for one, two in self._found.items()),
        )


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


def _checked(
    problem: Problem, budget: object, costs: object, goal: object, sensors: object, gap: object
) -> dict[str, float]:
    """The sensors to choose from, each with its cost. Raises `InputError` with every defect."""
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
