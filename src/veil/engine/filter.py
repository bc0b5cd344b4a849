"""What the observer believes, live: the posterior over the secret, updated one observation at a time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ..common.errors import ImpossibleObservationError, VeilError
from ..common.logs import natural_log, posteriors
from ..policy.player import Observation
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .chain import Chain, make_chain
from .compile import build
from .hidden import event_name, event_number
from .listed import value_chain, value_names
from .step import Extension, Step
from .strings import ratio


class ObserverFilter:
    """An observer that knows the model and the policy and takes in observations one by one.

    Before the secret's time τ the posterior is a forecast, `P(z | o_0 … o_t)` of a value still to come; from τ on it is
    what is known of a value already fixed. Of a secret with a value at every time it is about that of the newest time.

    An observer without a clock does not notice silent observations, and does not know when the others came. What it believes
    after a string is what it believes if the run is over with that string; if the run cannot be over with it, what it believes
    given that the string begins so.

    **Arguments:** `problem`, `policy`; `pair`: the pair whose secret and observer count, by name; the problem's own by default.

    Cost of an update: `O(nnz(P))` before τ, times the number of values of the secret after it; without a clock T times that.
    """

    def __init__(self, problem: Problem, policy: Policy, *, pair: str = OWN):
        chain, self.problem = make_chain(problem, policy, pair=pair), problem.only(pair)
        each = chain.hidden.each is not None and chain.written is None
        self._chain = chain if each else value_chain(chain)
        self._values = value_names(self.problem, chain)
        self.reset()

    def __repr__(self) -> str:
        return f"ObserverFilter({self.problem.name!r}, {self._seen})"

    def __copy__(self) -> "ObserverFilter":
        # What was seen is replaced, never written to: a filter that shares it goes its own way.
        twin = ObserverFilter.__new__(ObserverFilter)
        twin.__dict__.update(self.__dict__)
        return twin

    def __deepcopy__(self, memo: dict[int, object]) -> "ObserverFilter":
        return self.__copy__()

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the values of the secret, in the order of the posterior; of a whole path, each that is possible."""
        return self._values

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """`P(z | what was seen so far)`; the prior while nothing was seen (of an observer with a clock)."""
        return self._seen.posterior

    @property
    def belief(self) -> Float[np.ndarray, " N"]:
        """`P(x_t | what was seen so far)` over hidden states: states of the model, unless secret or policy has memory.

        Without a clock it is about the last state, `x_T`.
        """
        table, hidden = self.problem.secret_table, self._chain.hidden
        with_memory = len(self.problem.models) * len(table.memory_names) > 1 or hidden is not build(self.problem)
        return self._seen.mass if with_memory else self.state_belief

    @property
    def state_belief(self) -> Float[np.ndarray, " S"]:
        """`P(s_t | what was seen so far)` over the states of the model; without a clock about the last state."""
        return np.bincount(self._chain.hidden.state, weights=self._seen.mass, minlength=self.problem.num_states)

    @property
    def time(self) -> int | None:
        """The time of the newest observation; None before the first, and if the observer has no clock."""
        return self._seen.time

    def reset(self) -> None:
        """Forget everything that was seen."""
        if self._chain.written is not None:
            self._seen: _Sequence | _String = _String.nothing(self._chain)
            return
        self._seen = _Sequence(self._chain, None, self._chain.hidden.start[None])
        if not self.problem.observer.sees_first:
            first = self._seen.after(0)
            assert first is not None
            self._seen = first

    def update(self, observation: Observation) -> Float[np.ndarray, " Z"]:
        """Take in the next observation and return the posterior over the secret, `(Z,)`.

        **Arguments:** `observation`: its name or index; a pair (action, observation) if the observer sees actions
        (the first observation, at time 0, comes alone). The silent observation changes nothing if the observer has no clock.

        **Raises:** `ImpossibleObservationError` if the model and the policy give it probability zero after what was
        seen before (the filter keeps its state); `InputError` if there is no such observation; `VeilError` beyond
        the horizon.
        """
        return self.advance(self.event(observation))

    def event(self, observation: Observation) -> int:
        """The number of an observation as the next event, for `advance`; arguments and errors as for `update`."""
        return event_number(self.problem, observation, self._next_time())

    def advance(self, event: int) -> Float[np.ndarray, " Z"]:
        """Like `update`, for an event by its number."""
        time = self._next_time()
        seen = self._seen.after(event)
        if seen is None:
            when = f" at time {time}" if self._chain.written is None else ""
            raise ImpossibleObservationError(
                f"observation {event_name(self.problem, event, time)!r}{when} is impossible under the model and the"
                f" policy after what was seen before; possible are {', '.join(map(repr, self._possible(time)))}"
            )
        self._seen = seen
        return self.posterior

    def _next_time(self) -> int:
        if self._chain.written is not None:
            return 1  # or any other
        time = 0 if self._seen.time is None else self._seen.time + 1
        if time > self.problem.horizon:
            raise VeilError(
                f"the horizon is {self.problem.horizon}: there is no observation at time {time}; reset() first"
            )
        return time

    def _possible(self, time: int) -> list:
        hidden = self._chain.hidden
        events = range(hidden.num_events if time else hidden.root.shape[1])
        return [event_name(self.problem, event, time) for event in events if self._seen.after(event) is not None]


@dataclass(frozen=True, eq=False)
class _Sequence:
    """What an observer with a clock has seen up to a time: scaled messages, from τ on a row for each value of the secret."""

    chain: Chain
    time: int | None
    rows: Float[np.ndarray, "v N"]

    def __str__(self) -> str:
        return "nothing seen" if self.time is None else f"time {self.time}"

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """`P(z | what was seen)`."""
        if self.time is None:
            return self.chain.prior
        if self.time >= self.chain.hidden.split_time:
            return posteriors(self.rows.sum(axis=1))
        return posteriors((self.rows @ self.chain.forecasts[self.time]).sum(axis=0))

    @property
    def mass(self) -> Float[np.ndarray, " N"]:
        """`P(x_t | what was seen)`."""
        return self.rows.sum(axis=0)

    def after(self, event: int) -> "_Sequence | None":
        """The same after one more event; None if it is impossible."""
        chain, time = self.chain, 0 if self.time is None else self.time + 1
        if time == 0:
            rows = chain.hidden.root[None, :, event]
        else:
            found = Step.of(chain, time - 1).forward(self.rows, Extension.by(event, np.arange(len(self.rows))))
            rows = np.asfortranarray(found)  # as the label lays them out: one order of summation at all times
        total = rows.sum()
        if total == 0:
            return None
        rows = rows / total
        return _Sequence(chain, time, chain.hidden.label.T * rows if time == chain.hidden.split_time else rows)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Messages over hidden states, from τ on a row for each value of the secret: `rows · exp(log)`."""

    rows: Float[np.ndarray, "v N"]
    log: float = 0.0

    def scaled(self) -> "_Scaled":
        total = self.rows.sum()
        return (
            _Scaled(self.rows / total, self.log + float(natural_log(total)))
            if total > 0
            else _Scaled(self.rows, -np.inf)
        )

    def __add__(self, other: "_Scaled") -> "_Scaled":
        top = np.maximum(self.log, other.log)
        rows = self.rows * ratio(np.asarray(self.log), top) + other.rows * ratio(np.asarray(other.log), top)
        return _Scaled(rows, float(top)).scaled()


@dataclass(frozen=True, eq=False)
class _String:
    """What an observer without a clock has written.

    `newest[t]`: the probability that the newest letter came at time t, jointly with the state then; `written[t]`: that of the
    string, at time t.
    """

    chain: Chain
    letters: int
    newest: tuple[_Scaled, ...]
    time: None = None

    def __str__(self) -> str:
        return f"a string of {self.letters}" if self.letters else "nothing seen"

    @staticmethod
    def nothing(chain: Chain) -> "_String":
        """Nothing is written."""
        hidden = chain.hidden
        start = _lifted(chain, hidden.start[None], 0)
        later = [
            _Scaled(_lifted(chain, np.zeros((1, hidden.num_states)), time), -np.inf)
            for time in range(1, hidden.horizon + 1)
        ]
        return _String(chain, 0, (_Scaled(start), *later))

    @cached_property
    def written(self) -> tuple[_Scaled, ...]:
        chain, hidden, first = self.chain, self.chain.hidden, self.newest[0]
        silent = self._events(-1)
        if not self.letters:
            first = _Scaled(_lifted(chain, _column(hidden.root, silent[0]), 0)).scaled()
        found = [first]
        for time in range(1, hidden.horizon + 1):
            found.append(self._step(found[-1], time, silent[1]) + self.newest[time])
        return tuple(found)

    def _events(self, letter: int) -> tuple[int, int]:
        """The first and the later event of a letter."""
        written, one = self.chain.hidden.written, np.array([letter])
        assert written is not None
        return int(written.events(0, np.zeros(1, dtype=int), one)[0]), int(
            written.events(1, np.zeros(1, dtype=int), one)[0]
        )

    def _step(self, before: _Scaled, time: int, event: int) -> _Scaled:
        """Messages one step on, at a time, by an event."""
        rows = np.arange(len(before.rows))
        found = Step.of(self.chain, time - 1).forward(before.rows, Extension.by(event, rows))
        return _Scaled(_settled(self.chain, found, time), before.log).scaled()

    def after(self, event: int) -> "_String | None":
        """The same after one more event; None if it is impossible."""
        hidden = self.chain.hidden
        assert hidden.written is not None
        letter = int(hidden.written.letter[event])
        if letter < 0:
            return self
        first, later = self._events(letter)
        opening = np.zeros((1, hidden.num_states)) if self.letters else _column(hidden.root, first)
        newest = [_Scaled(_lifted(self.chain, opening, 0)).scaled()]
        newest += [self._step(self.written[time - 1], time, later) for time in range(1, hidden.horizon + 1)]
        if all(np.isneginf(one.log) for one in newest):
            return None
        return _String(self.chain, self.letters + 1, tuple(newest))

    @cached_property
    def _end(self) -> Float[np.ndarray, "Z N"]:
        """`P(z, x_T)` if the run is over with the string, or, if it cannot be, given that the string begins so; scaled."""
        if self.written[-1].rows.any():
            return self.written[-1].rows
        found = self.newest[0]
        for time in range(1, self.chain.hidden.horizon + 1):
            pushed = _settled(self.chain, self.chain.push(found.rows, time - 1), time)
            found = _Scaled(pushed, found.log).scaled() + self.newest[time]
        return found.rows

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """`P(z | the string)`."""
        return posteriors(self._end.sum(axis=1))

    @property
    def mass(self) -> Float[np.ndarray, " N"]:
        """`P(x_T | the string)`."""
        return self._end.sum(axis=0)


def _column(table: Float[np.ndarray, "N F"], event: int) -> Float[np.ndarray, "1 N"]:
    """A column as a row; zeros if there is none."""
    return table[None, :, event] if event >= 0 else np.zeros((1, len(table)))


def _settled(chain: Chain, rows: Float[np.ndarray, "v N"], time: int) -> Float[np.ndarray, "v N"]:
    """The rows at a time: at the time of the secret one becomes a row for each value."""
    return chain.hidden.label.T * rows if time == chain.hidden.split_time else rows


def _lifted(chain: Chain, rows: Float[np.ndarray, "1 N"], time: int) -> Float[np.ndarray, "v N"]:
    """A row that begins at a time: one for each value from the time of the secret on."""
    return chain.hidden.label.T * rows if time >= chain.hidden.split_time else rows
