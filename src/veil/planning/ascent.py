"""The default method: many starts side by side, the better ones for longer, the best to the end, made feasible exactly.

All starts take first-order steps (`first_order`), which keep the bounds. After each round the better part of them goes on, by
what they are worth on the same draws. What comes after, and all that differs between exact values and samples, is in
`exact_ascent` and `sampled_ascent`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int

from ..engine.threads import in_threads
from .backend import Draw
from .first_order import MEMORY, Moments, first_order_step
from .iteration import Iteration, SearchState
from .objective import Objective
from .options import SolveOptions
from .parameters import Parameters
from .schedule import Schedule
from .values import Values, distinct

CLIMB, SETTLE, LAST, DONE = range(4)
INSIDE = 0.01  # slack that steps keep where a policy cannot be made feasible by mixing: by judgement
# Of the newest parameters in their average: a mean of the last half of the steps over which Adam averages squares.
_LEAST_WEIGHT = 2 / MEMORY[True][1]


class Group(NamedTuple):
    """Starts that are evaluated together: parameters `(b, R, A)`, what first-order steps remember, and the average of the
    parameters, which has no numbers where none is made.
    """

    theta: Any
    mean: Any
    square: Any
    multiplier: Float[np.ndarray, "b K"]
    average: Any

    def part(self, chosen: Any) -> "Group":
        """Some of the starts."""
        return Group(*(one[chosen] for one in self))


@dataclass(frozen=True, eq=False, kw_only=True)
class AscentState(SearchState):
    """Everything a search needs to go on: numbers and arrays only, so that it can be written down and taken up again.

    `theta`, `mean`, `square`, `multiplier` and `average` have one array for each of the `groups`. `round` and `inside`: the
    round and the iterations within it; `begun`: the iteration at which the present averages, and the lengths of steps, began;
    `since`: the one at which the moments did; `leader`: the start, or the group, that leads.
    """

    phase: int
    round: int
    inside: int
    begun: int
    since: int
    leader: int
    theta: Sequence[Any]
    mean: Sequence[Any]
    square: Sequence[Any]
    multiplier: Sequence[Float[np.ndarray, "b K"]]
    average: Sequence[Any]

    @property
    def groups(self) -> list[Group]:
        """The starts that are searched now."""
        return list(map(Group, self.theta, self.mean, self.square, self.multiplier, self.average))

    @property
    def multipliers(self) -> Float[np.ndarray, "n K"]:
        """Those of all starts."""
        return np.concatenate(list(self.multiplier))


State = TypeVar("State", bound=AscentState)


def fields_of(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """The fields of a state whose starts are in these groups."""
    return {name: [getattr(one, name) for one in groups] for name in Group._fields}


class Ascent(Iteration[State]):
    """The method as a sequence of states.

    **Arguments:** `objective`; `parameters`; `starts`: tables to begin from; `known`: tables that may be the answer as long as
    nothing better is found, first a feasible one that candidates are mixed with; `schedule`; `options`, of which it uses
    `seed` and `iterations`.

    **Attributes:** `decays`: those of Adam; `closing`: seconds that are kept for the last candidate; `compared`: on which
    sequences starts are compared.
    """

    decays: ClassVar[tuple[float, float]]
    closing: float = 0.0
    compared: Draw | None = None

    def __init__(
        self,
        objective: Objective,
        parameters: Parameters,
        starts: Sequence[Float[np.ndarray, "T C A"]],
        known: Sequence[Float[np.ndarray, "T C A"]],
        schedule: Schedule,
        options: SolveOptions,
    ):
        self.objective, self.parameters, self.schedule, self.options = objective, parameters, schedule, options
        self.starts, self.known, self.safe = starts, known, known[0]

    # Beginning.

    def begun(self, theta: Sequence[Any], best: Any, score: float) -> dict[str, Any]:
        """The fields of the first state of some groups; `best`: what is known before the search, and what that is worth."""
        groups = [self.fresh(one) for one in theta]
        numbers = dict.fromkeys(("round", "iteration", "inside", "begun", "since", "leader"), 0)
        known = {"best": best, "best_score": score, "best_multiplier": groups[0].multiplier[0]}
        phase = CLIMB if theta[0].size else DONE
        return {"phase": phase, "ends": np.zeros((0, 2)), **numbers, **known, **fields_of(groups)}

    def fresh(self, theta: Any) -> Group:
        """Parameters without a past."""
        moments = Moments.none(theta, self.objective.is_noisy, len(self.objective.channels.least))
        return Group(theta, moments.mean, moments.square, moments.multiplier, theta[:, :0])

    # One iteration.

    def advance(self, state: State) -> State:
        """See `Iteration`: one step of all starts."""
        self.objective.clock.check(ahead=self.closing)
        rate = self.rate(state)
        found = list(in_threads(lambda number: self._moved(state, number, rate), range(len(state.theta))))
        groups, tables, values = map(list, zip(*found, strict=True))
        after = replace(state, iteration=state.iteration + 1, inside=state.inside + 1, **fields_of(groups))
        after = self.noted(after, tables[0], Values.joined([one.bare for one in values]), after.multipliers, rate)
        if state.phase == CLIMB and (after.inside >= self._length(after.round) or self.is_late):
            return self._next_round(after)
        return after

    @abstractmethod
    def rate(self, state: State) -> float:
        """The size of a step."""

    def draw(self, state: State, number: int) -> Draw | None:
        """The sequences of the gradient of a group."""
        return None

    def _moved(self, state: State, number: int, rate: float) -> tuple[Group, Any, Values]:
        """One group after a step, with the tables and values where it was taken."""
        objective, group, count = self.objective, state.groups[number], state.iteration - state.begun
        theta, average = group.theta, group.average
        tables = self.parameters.tables(theta)
        values = objective.evaluate(tables, self.draw(state, number))
        step, moments = first_order_step(
            Moments(group.mean, group.square, group.multiplier, state.iteration - state.since),
            self.parameters.pull_back(theta, tables, values.score_gradient),
            values.slack if self.parameters.mixes else values.slack - INSIDE,
            self.parameters.pull_back(theta, tables, values.slack_gradient),
            objective.is_noisy,
            rate=rate,
            decays=self.decays,
            num_least=values.num_least,
        )
        theta = self.parameters.bounded(theta + step)
        if average.size:
            average = average + max(_LEAST_WEIGHT, 2 / (count + 2)) * (theta - average)
        return Group(theta, moments.mean, moments.square, moments.multiplier, average), tables, values

    def noted(
        self, state: State, tables: Any, values: Values, multipliers: Float[np.ndarray, "n K"], rate: float
    ) -> State:
        """With one more line of history, that of the policy that leads."""
        state, leader = self.led(state, tables, values, multipliers)
        bits, returns = float(values.bits[leader]), float(values.returns[leader])
        price, total = self.objective.price(multipliers[leader]), self.schedule.total
        return state.told(self.objective.clock, self.phase(state), total, bits, returns, price, rate)

    @abstractmethod
    def led(
        self, state: State, tables: Any, values: Values, multipliers: Float[np.ndarray, "n K"]
    ) -> tuple[State, int]:
        """The state that follows from values of all starts, and the number of the one that leads."""

    @abstractmethod
    def phase(self, state: State) -> str:
        """What progress says."""

    # Rounds.

    @property
    def is_late(self) -> bool:
        """Whether rounds end at once."""
        return False

    def _length(self, number: int) -> int:
        return self.schedule.rounds[number][0] if number < len(self.schedule.rounds) else 0

    def _next_round(self, state: State) -> State:
        """The better part of the starts; the rest is set aside."""
        rounds = self.schedule.rounds
        state = replace(state, inside=0) if state.round < len(rounds) else state
        while state.round < len(rounds):
            state = replace(self.kept(state, rounds[state.round][1]), round=state.round + 1)
            if self._length(state.round):
                return state
        return self.finish(state)

    def kept(self, state: State, count: int) -> State:
        """The best distinct starts, by what they are worth once feasible, on the same draws."""
        objective, multipliers = self.objective, state.multipliers
        if len(multipliers) <= count:
            return state
        tables = [self.parameters.tables(theta) for theta in state.theta]
        values = Values.joined([objective.evaluate(one, self.compared, gradient=False).bare for one in tables])
        price = np.tile(multipliers.max(axis=0, initial=0.0), (len(multipliers), 1))
        worths = values.worth(price)
        order = distinct(objective.space, (table for group in tables for table in group), worths)
        kept, others = order[:count], order[count:]
        left = others if count > 1 else order  # the last comparison is also of the one that stays
        ends = np.column_stack([worths, values.returns / objective.unit])[left]
        return self.part(replace(state, ends=np.vstack([state.ends, ends]), leader=0), kept, others)

    @abstractmethod
    def part(self, state: State, kept: Int[np.ndarray, " k"], others: Int[np.ndarray, " m"]) -> State:
        """Some of the starts."""

    @abstractmethod
    def finish(self, state: State) -> State:
        """The state after all rounds."""

    # The end.

    def near_most(self, state: State, within: float) -> bool:
        """Whether the best answer so far is within so many bits of what can be hidden at most."""
        return state.best_score > self.objective.most_score - within

    def met(self, state: State) -> list[Any]:
        """See `Iteration`."""
        return list(self.known)

    def describe(self) -> dict[str, object]:
        """See `Iteration`: how many starts there were."""
        return {"starts": len(self.starts) - (self.options.start is not None)}
