"""Observers that choose where to look: at each time they ask one sensor, or none, pay for it and see its answer."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.checks import SUM_TOLERANCE, Defects, as_tuple, distinct, is_number
from ..common.errors import InputError
from ..common.suggest import suggestion
from ..common.values import Value
from ..engine.chain import Chain, make_chain, sum_over
from ..policy.policy import Policy
from ..problem.belief import UNIFORM
from ..problem.constraints import Constraint
from ..problem.keys import Key, PolicyFile
from ..problem.model import Model
from ..problem.observer import Observer
from ..problem.problem import Problem
from ..problem.secrets.last_state import LastState
from ..problem.secrets.secret import Secret
from ..problem.secrets.state_at import StateAt
from ..problem.secrets.state_now import StateNow
from ..problem.secrets.trajectory import Trajectory
from .walker import against

COST = "querying"
"""The reward that adds up what queries cost: the return of a problem of queries."""
NONE = "none"
_BEFORE = "before the first query"


@dataclass(frozen=True, eq=False, repr=False)
class Querying(Value):
    """An observer that asks one sensor at each of the times 0 … T, or none, and sees the answer.

    **Arguments:**

    - `sensors`: names of sensors of the problem's observer, all of them by default: the answer is what the observer would
      receive if all other sensors were switched off. Or a mapping from the name of a query to an `Observer`.
    - `costs`: of a query, a number for all or a mapping from name to number, 0 or more; asking none costs nothing.
    - `walker`: the policy of the agent that is observed. The querying observer knows it.

    **Raises:** `InputError` listing every defect.
    """

    keys = (
        Key("walker", PolicyFile, 'The policy of the observed agent: `"uniform"`, or a policy file.', UNIFORM),
        Key("sensors", list[str], "The sensors that can be asked; by default all.", None, most=200),
        Key(
            "costs",
            dict[str, float],
            "Cost of a query: `sensor = number`; the reward `querying` adds them up.",
            {},
            most=200,
        ),
    )

    sensors: "Sequence[str] | Mapping[str, Observer] | None" = None
    costs: float | Mapping[str, float] = 0.0
    walker: Policy = field(kw_only=True)

    def __post_init__(self) -> None:
        defects = Defects("querying")
        if not isinstance(self.walker, Policy):
            defects.add(f"walker is a {type(self.walker).__name__}, expected a policy", "walker")
        if not isinstance(self.sensors, Mapping):
            sensors = as_tuple(self.sensors)
            if sensors is not None and not (
                isinstance(sensors, tuple) and sensors and all(isinstance(one, str) for one in sensors)
            ):
                defects.add(f"sensors are {self.sensors!r}, expected names, or observers by name", "sensors")
            object.__setattr__(self, "sensors", sensors)
        for name, cost in self.costs.items() if isinstance(self.costs, Mapping) else [("queries", self.costs)]:
            if not (is_number(cost) and 0 <= cost < np.inf):
                defects.add(f"the cost of {name} is {cost!r}, expected a number, 0 or more", "costs")
        defects.raise_if_any()

    def apply(self, problem: Problem, constraints: Sequence[Constraint] = ()) -> Problem:
        """The problem of the querying observer: its actions are the queries, and it sees nothing but their answers.

        It has a state for each hidden state of the walker, and one before the first query. Decision t asks about the state
        that the walker is in at time t, for t = 0 … T: there are T + 1 decisions, and the answer comes with the state. The
        return is the sum of the costs. The secret is that of the problem, one time later. `goal="transparent"` of
        `veil.solve` is then the goal of the observer, over policies on the last answers, controllers or the time;
        `veil.best_queries` bounds what any observer can learn.

        **Arguments:** `constraints`: such as `veil.Return(max=3)`, a budget.

        Cost: the transitions of the walker.

        **Raises:** `InputError` if the sensors do not exist, or the observer's emissions depend on actions or on time.
        """
        defects = Defects("querying")
        seen = self._sensors(problem, defects)
        defects.raise_if_any()
        walk = _Walk(make_chain(problem, self.walker))
        costs = np.array([self._cost(name) for name in seen])
        matrix, size = walk.matrix(), walk.size
        initial = np.zeros(size)
        initial[0] = 1.0
        model = Model(
            [matrix] * len(seen),
            {COST: np.tile(costs, (size, 1))},
            initial,
            state_names=walk.names(problem),
            action_names=list(seen),
        )
        return Problem(
            model,
            _observer(seen, walk.state),
            walk.secret(problem),
            problem.horizon + 1,
            constraints=constraints,
            agent_sees="observations",
            name=problem.name,
        )

    def against(self, problem: Problem, queries: Policy) -> Problem:
        """The problem of the agent that is observed, if the observer is known to ask by the policy `queries`.

        Its states are the problem's, each with the newest query and its answer and what the observer remembers; the agent sees
        its state as before and none of the rest, so that a row of its policy is a state of the problem. The observer
        receives each query and its answer.

        **Arguments:** `queries`: acts in `apply(problem)`: a table of any memory, or `veil.best_queries(…).policy`.

        Cost: the transitions of the problem, once for each answer after each memory.

        **Raises:** `InputError` if the policy does not fit; `TooLargeError` beyond 2^27 transitions.
        """
        defects = Defects("querying")
        seen = self._sensors(problem, defects)
        defects.raise_if_any()
        shown = _observer(seen, np.arange(problem.num_states))
        tables = [sp.csr_array(table[1:]) for table in shown.matrices]
        return against(problem, self.apply(problem), shown.replace(emissions=tables), queries)

    def _cost(self, name: str) -> float:
        if name == NONE:
            return 0.0
        return float(self.costs.get(name, 0.0)) if isinstance(self.costs, Mapping) else float(self.costs)

    def _sensors(self, problem: Problem, defects: Defects) -> dict[str, Observer]:
        """What each query shows, by name, `none` last."""
        observer, given = problem.observer, self.sensors
        if isinstance(given, Mapping):
            found = dict(given)
            for name, one in found.items():
                if isinstance(one, Observer):
                    one.check(problem.model.states, problem.model.actions, defects.under("sensors", name, where=name))
                else:
                    defects.add(f"sensor {name!r} is a {type(one).__name__}, expected a veil.Observer", "sensors")
        else:
            names = tuple(observer.sensors) if given is None else given
            if not observer.sensors:
                defects.add("the observer has no sensors to ask: Observer(…, sensors={name: {reading: without it}})")
            for name in names if observer.sensors else ():
                if name not in observer.sensors:
                    defects.add(f"unknown sensor {name!r}: {suggestion(name, observer.sensors)}", "sensors")
            defects.raise_if_any()
            found = {name: _alone(observer, name) for name in names}
        for name in self.costs if isinstance(self.costs, Mapping) else ():
            if name not in found:
                defects.add(f"cost of unknown sensor {name!r}: {suggestion(name, found)}", "costs")
        if NONE in found:
            defects.add(f"a sensor is called {NONE!r}, which means that none is asked: rename it", "sensors")
        for name, one in found.items():
            if isinstance(one, Observer) and (one.on_actions or one.varies or one.emissions_at):
                defects.add(
                    f"what {name!r} shows depends on actions or on time, expected emissions on states", "sensors"
                )
        defects.raise_if_any()
        return found | {NONE: _nothing(found, problem.num_states)}


def _alone(observer: Observer, name: str) -> Observer:
    """The observer with all sensors but one switched off."""
    for other in observer.sensors:
        if other != name:
            observer = observer.without_sensor(other)
    return observer


def _nothing(sensors: Mapping[str, Observer], num_states: int) -> Observer:
    """What is received if none is asked: the silent observation of the sensors, or one called `nothing`."""
    quiet = [one.observations[one.silent] for one in sensors.values() if one.silent is not None]
    return Observer(np.ones((num_states, 1)), [quiet[0] if quiet else "nothing"])


def _observer(seen: Mapping[str, Observer], state: Int[np.ndarray, " N"]) -> Observer:
    """The observer that sees each query and its answer; `state`: of each state of its problem but the first."""
    shown = {name: np.flatnonzero(np.bincount(one.matrices[0].indices, minlength=one.num_observations))
             for name, one in seen.items()}  # fmt: skip
    names = list(dict.fromkeys(one.observations[o] for name, one in seen.items() for o in shown[name].tolist()))
    place = {name: number for number, name in enumerate(names)}
    tables = []
    for one in seen.values():
        part = sp.coo_array(one.matrices[0][state])
        column = np.array([place.get(label, 0) for label in one.observations.all()])[part.col]
        rows, columns = (
            np.concatenate([[0], part.row + 1]),
            np.concatenate([[place[seen[NONE].observations[0]]], column]),
        )
        data = np.concatenate([[1.0], part.data])
        tables.append(sp.csr_array((data, (rows, columns)), shape=(len(state) + 1, len(names))))
    return Observer(tables, names, sees_actions=True)


class _Walk:
    """The hidden states that a walker is in, one state for each; of a walker that depends on time, one for each time."""

    def __init__(self, chain: Chain):
        self.chain = chain if chain.followed is None else Chain(chain.hidden, chain.table, stationary=True)
        hidden = self.chain.hidden
        if self.chain.stationary:
            self.x, self.time = np.arange(hidden.num_states), None
        else:
            occupied = self.chain.occupancies > 0
            self.time, self.x = np.nonzero(occupied)
        self.state, self.size = hidden.state[self.x], len(self.x) + 1

    def matrix(self) -> sp.csr_array:
        """The transitions, from the state before the first query to the start of the walker on."""
        hidden = self.chain.hidden
        if self.time is None:
            inner = sp.coo_array(sum_over(map(sp.csr_array, self.chain.matrices(0))))
            row, column, data = inner.row, inner.col, inner.data
            begin = hidden.start
        else:
            place = np.full((hidden.horizon + 1, hidden.num_states), -1)
            place[self.time, self.x] = np.arange(len(self.x))
            last = place[hidden.horizon][place[hidden.horizon] >= 0]
            rows, columns, parts = [last], [last], list[np.ndarray]([np.ones(len(last))])
            for time in range(hidden.horizon):
                part = sp.coo_array(sum_over(map(sp.csr_array, self.chain.matrices(time))))
                kept = (place[time][part.row] >= 0) & (part.data > 0)
                rows.append(place[time][part.row[kept]])
                columns.append(place[time + 1][part.col[kept]])
                parts.append(part.data[kept])
            row, column, data = map(np.concatenate, (rows, columns, parts))
            begin = np.where(self.time == 0, hidden.start[self.x], 0.0)
        first = np.flatnonzero(begin)
        rows = np.concatenate([np.zeros(len(first), dtype=int), row + 1])
        columns = np.concatenate([first + 1, column + 1])
        found = sp.csr_array((np.concatenate([begin[first], data]), (rows, columns)), shape=(self.size, self.size))
        found.eliminate_zeros()
        # Of states that are first reached at the end, the chain has no steps, or those alone that lead to states it has: what
        # is left out stays, since no run goes on from there in time.
        left = 1 - np.asarray(found.sum(axis=1)).ravel()
        cut = np.flatnonzero(left > SUM_TOLERANCE)
        return sp.csr_array(found + sp.csr_array((left[cut], (cut, cut)), shape=found.shape))

    def names(self, problem: Problem) -> list[str]:
        """The name of each state."""
        hidden, states = self.chain.hidden, problem.model.states
        plain = [states[s] for s in self.state.tolist()]
        if self.time is not None:
            plain = [f"{name}@{t}" for name, t in zip(plain, self.time.tolist(), strict=True)]
        elif len(set(plain)) < len(plain):
            held = problem.channels[0].table.memory_names
            parts = zip(plain, hidden.held[self.x].tolist(), hidden.model_index[self.x].tolist(), strict=True)
            plain = [f"{name}/{held[m] or m}/{k}" for name, m, k in parts]
        return list(distinct([_BEFORE, *plain]))

    def secret(self, problem: Problem) -> Secret:
        """The secret of the problem over these states, one time later."""
        hidden, table = self.chain.hidden, problem.secret_table
        if hidden.path is not None:
            shown = hidden.path[self.x]
            return Trajectory({str(one): self._where(shown == one, first=False) for one in np.unique(shown).tolist()})
        if hidden.each is not None:
            value, weights = hidden.each.value[self.x], [0.0, *hidden.each.weights.tolist()]
            if hidden.each.ahead:
                return StateNow(self._where(value == 1, first=False), ahead=hidden.each.ahead, weights=weights)
            return StateNow(groups=self._groups(value, table.value_names), weights=weights)
        groups = self._groups(hidden.value[self.x], table.value_names)
        return LastState(groups=groups) if table.time == problem.horizon else StateAt(table.time + 1, groups=groups)

    def _groups(self, value: Int[np.ndarray, " N"], names: tuple[str, ...]) -> dict[str, list[int]]:
        """The states of each value that one of them has; the state before the first query is in one of them."""
        if (value < 0).all():
            raise InputError("querying", ["the secret has no value in any state that the walker reaches"])
        known = np.where(value < 0, value.max(), value)  # which the walker is not in when the secret is settled
        numbers = np.unique(known).tolist()
        return {names[z]: self._where(known == z, first=z == numbers[0]) for z in numbers}

    @staticmethod
    def _where(inside: np.ndarray, *, first: bool) -> list[int]:
        return [0] * first + (np.flatnonzero(inside) + 1).tolist()
