"""A bound on how often the observer ever becomes certain: a quantity of a problem that follows what is possible for it."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Iterator, Sequence

import numpy as np

from ..common.errors import InputError
from ..engine.chain import make_chain
from ..engine.event_product import Key, with_events
from ..engine.listed import value_chain
from ..engine.supports import Supports
from ..policy.markov import MarkovPolicy
from ..problem.constraints import Constraint
from ..problem.problem import Problem, check_problem
from .disclosure import possible_values

CERTAIN = "disclosure"
"""The reward that is paid at the end of a run in which the observer was certain at some time."""

_LEAST_LEFT = 1e-12


def with_disclosure(problem: Problem, constraints: Sequence[Constraint] = ()) -> Problem:
    """The problem with a further quantity, `disclosure`: the probability that the observer is ever certain of the secret.

    It is certain when what it has seen leaves one value possible, in the model, whatever the policy: a probability is not
    compared with a number, so that the quantity is linear in what the policy does, and a search can keep a bound on it,
    such as `veil.Return(reward="disclosure", max=0.1)`. A posterior that a policy makes large, but not 1, depends on the
    policy itself: `veil.measures.disclosure` measures it. A policy that never takes some action can make the observer certain
    more often than this quantity says.

    The states are the problem's, each with the newest observation and the set of states that is possible for the observer;
    the agent sees its state as before.

    **Arguments:** `constraints`: further ones, on this quantity.

    Cost: the transitions, once for each observation after each set of possible states, of which there can be exponentially
    many.

    **Raises:** `InputError` if what is observed depends on actions or on time, or the discount leaves nothing at time T;
    `TooLargeError`.
    """
    check_problem(problem)
    observer = problem.observer
    if observer.on_actions or observer.varies or observer.sees_actions or observer.untimed or not observer.sees_first:
        words = "how often the observer is certain is a quantity of observers that receive a reading of each state"
        raise InputError("observer", [f"{words}, with a clock and without actions: measure it instead"])
    if problem.agent_sees == "state+observations":
        words = "agent_sees is 'state+observations', and this quantity is for agents that see their state or readings"
        raise InputError("problem", [words])
    left = problem.discount**problem.horizon  # of what is paid at the end: a probability is not discounted
    if left < _LEAST_LEFT:
        words = "how often the observer is certain is a quantity that is paid at the end"
        raise InputError("problem", [f"{words}, of which the discount leaves {left:.1g}: measure it instead"])
    return with_events(
        problem,
        _Sets(problem),
        observer,
        lambda table: observer.replace(emissions=table),
        {CERTAIN: lambda key: key[1] / left},
        constraints,
    )


class _Sets:
    """Keys: the number of a set of hidden states that is possible, and whether the observer was certain."""

    timed = True

    def __init__(self, problem: Problem):
        self._chain = value_chain(make_chain(problem, MarkovPolicy.uniform(problem)))
        self._forecasts = [rows > 0 for rows in self._chain.forecasts]
        self._supports = Supports(self._chain)
        self._sets, self._numbers = list[np.ndarray](), dict[bytes, int]()
        self._after: dict[tuple[int, int], dict[int, np.ndarray]] = {}

    def begin(self) -> Key:
        """See `Follower`."""
        return -1, 0

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """See `Follower`: there is nothing to ask."""
        yield 1.0, 0, 0

    def step(self, time: int, key: Key, event: int, node: int) -> Key | None:
        """See `Follower`."""
        number, known = key
        if (time, number) not in self._after:
            self._after[time, number] = self._following(time, number)
        inside = self._after[time, number].get(event)
        if inside is None:
            return None
        certain = possible_values(self._forecasts, inside[None], time).sum() == 1
        place = self._numbers.setdefault(np.packbits(inside).tobytes() + bytes([inside.ndim]), len(self._sets))
        if place == len(self._sets):
            self._sets.append(inside)
        return place, int(known or certain)

    def _following(self, time: int, number: int) -> dict[int, np.ndarray]:
        """The set after each event that can come."""
        hidden = self._chain.hidden
        if time == 0:
            event, sets = np.flatnonzero(hidden.root.any(axis=0)), self._supports.first()
        else:
            after = self._supports.ahead(self._sets[number][None], time - 1)
            event, sets = after.event, after.sets
        if time == hidden.split_time:
            sets = sets[:, None] & (hidden.label.T > 0)
        return {one: inside for one, inside in zip(event.tolist(), sets, strict=True) if inside.any()}
