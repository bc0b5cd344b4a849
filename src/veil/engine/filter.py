"""What the observer believes, live: the posterior over the secret, updated one observation at a time."""

import numpy as np
from jaxtyping import Float

from ..common.errors import ImpossibleObservationError, VeilError
from ..common.logs import posteriors
from ..policy.player import Observation
from ..policy.policy import Policy
from ..problem.problem import Problem
from .chain import make_chain
from .compile import build
from .hidden import event_name, event_number
from .step import Extension, Step


class ObserverFilter:
    """An observer that knows the model and the policy and takes in observations one by one.

    Before the secret's time τ the posterior is a forecast, `P(z | o_0 … o_t)` of a value still to come; from τ on it is
    what is known of a value already fixed.

    **Arguments:** `problem`, `policy`.

    Cost of an update: `O(nnz(P))` before τ, times the number of values of the secret after it.
    """

    def __init__(self, problem: Problem, policy: Policy):
        self.problem = problem
        self._chain = make_chain(problem, policy)
        self.reset()

    def __repr__(self) -> str:
        when = "nothing seen" if self._time is None else f"time {self._time}"
        return f"ObserverFilter({self.problem.name!r}, {when})"

    def __copy__(self) -> "ObserverFilter":
        # Messages are replaced, never written to: a filter that shares them goes its own way.
        twin = ObserverFilter.__new__(ObserverFilter)
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, object]) -> "ObserverFilter":
        return self.__copy__()

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the values of the secret, in the order of the posterior."""
        return self.problem.secret_values

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """`P(z | what was seen so far)`; the prior while nothing was seen."""
        if self._time is None:
            return self._chain.prior
        return posteriors(self._joint(self._rows, self._time).sum(axis=0))

    @property
    def belief(self) -> Float[np.ndarray, " N"]:
        """`P(x_t | what was seen so far)` over hidden states: states of the model, unless secret or policy has memory."""
        table, hidden = self.problem.secret_table, self._chain.hidden
        with_memory = len(self.problem.models) * len(table.memory_names) > 1 or hidden is not build(self.problem)
        return self._mass if with_memory else self.state_belief

    @property
    def state_belief(self) -> Float[np.ndarray, " S"]:
        """`P(s_t | what was seen so far)` over the states of the model."""
        return np.bincount(self._chain.hidden.state, weights=self._mass, minlength=self.problem.num_states)

    @property
    def _mass(self) -> Float[np.ndarray, " N"]:
        return self._chain.hidden.start if self._time is None else self._rows.sum(axis=0)

    @property
    def time(self) -> int | None:
        """The time of the newest observation; None before the first."""
        return self._time

    def reset(self) -> None:
        """Forget everything that was seen."""
        self._time: int | None = None
        self._rows: np.ndarray = self._chain.hidden.start[None]
        if not self.problem.observer.sees_first:
            self._enter(0, self._after(0, 0))

    def update(self, observation: Observation) -> Float[np.ndarray, " Z"]:
        """Take in the next observation and return the posterior over the secret, `(Z,)`.

        **Arguments:** `observation`: its name or index; a pair (action, observation) where the observer sees actions
        (the first observation, at time 0, comes alone).

        **Raises:** `ImpossibleObservationError` where the model and the policy give it probability zero after what was
        seen before (the filter keeps its state); `InputError` where there is no such observation; `VeilError` beyond
        the horizon.
        """
        return self.advance(self.event(observation))

    def event(self, observation: Observation) -> int:
        """The number of an observation as the next event, for `advance`; arguments and errors as for `update`."""
        return event_number(self.problem, observation, self._next_time())

    def advance(self, event: int) -> Float[np.ndarray, " Z"]:
        """As `update`, for an event by its number."""
        time = self._next_time()
        rows = self._after(event, time)
        if rows.sum() == 0:
            raise ImpossibleObservationError(
                f"observation {event_name(self.problem, event, time)!r} at time {time} is impossible under the model and the"
                f" policy after what was seen before; possible are {', '.join(map(repr, self._possible(time)))}"
            )
        self._enter(time, rows)
        return self.posterior

    def _next_time(self) -> int:
        time = 0 if self._time is None else self._time + 1
        if time > self.problem.horizon:
            raise VeilError(
                f"the horizon is {self.problem.horizon}: there is no observation at time {time}; reset() first"
            )
        return time

    def _enter(self, time: int, rows: np.ndarray) -> None:
        rows = rows / rows.sum()
        if time == self._chain.hidden.split_time:
            rows = self._chain.hidden.label.T * rows  # from here on one row for each value of the secret
        self._time, self._rows = time, rows

    def _joint(self, rows: np.ndarray, time: int) -> np.ndarray:
        """`P(z)` up to scale, in rows that are to be summed."""
        split = self._chain.hidden.split_time
        return np.diag(rows.sum(axis=1)) if time >= split else rows @ self._chain.forecasts[time]

    def _after(self, event: int, time: int) -> Float[np.ndarray, "v N"]:
        """The messages after one more event, not scaled."""
        if time == 0:
            return self._chain.hidden.root[None, :, event]
        rows = np.arange(len(self._rows))
        found = Step.of(self._chain, time - 1).forward(self._rows, Extension.by(event, rows))
        return np.asfortranarray(found)  # as the label lays them out: one order of summation at all times

    def _possible(self, time: int) -> list:
        hidden = self._chain.hidden
        events = range(hidden.num_events if time else hidden.root.shape[1])
        return [event_name(self.problem, event, time) for event in events if self._after(event, time).any()]
