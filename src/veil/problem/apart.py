"""Pairs whose observers do not share what they see, as one problem, and what each of them sees and asks in it.

Measures and proofs work on such a problem where an agent acts on what some observers see and the bits of one of them count.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int

from ..common.errors import InputError
from ..common.memo import memo
from .constraints import Knows
from .joined import MEMORY, Joined, same_tables
from .observer import Observer
from .pairs import OWN, Pair, find_pair
from .problem import Problem
from .together import Together, shared_parts

AGENT = "the agent"
"""The name of a pair whose observer is that of the agent's own readings."""


@dataclass(frozen=True, eq=False)
class View:
    """What the observer of one pair receives of each event of all observers together, and what its secret is.

    **Attributes:** `first (F)`: its first event at each of theirs; `event (E)`: the same of each later one; `num_first`,
    `num_events`: how many it can receive. `value (Z)`: the value of its secret at each value of the joint one, `num_values`.
    """

    first: Int[np.ndarray, " F"]
    event: Int[np.ndarray, " E"]
    num_first: int
    num_events: int
    value: Int[np.ndarray, " Z"]
    num_values: int


@dataclass(frozen=True, eq=False)
class Apart:
    """Some pairs of a problem: `joint` has the observer who receives what all of theirs do, each independently given the state,
    and their secret; where they have several, all of them as one of time T.

    **Attributes:** `names` of the pairs; `joint`, without pairs; `observers` of the pairs, each once; `places`: which of them
    the observer of each pair is; `values`: for each pair the value of its secret at each value of the joint one;
    `nums_values`: how many each has; `executable`: whether an agent knows all that its secrets remember.
    """

    names: tuple[str, ...]
    joint: Problem
    observers: tuple[Observer, ...]
    places: tuple[int, ...]
    values: tuple[Int[np.ndarray, " Z"], ...]
    nums_values: tuple[int, ...]
    executable: bool

    @cached_property
    def events(self) -> tuple[tuple[Int[np.ndarray, " F"], Int[np.ndarray, " E"], int, int], ...]:
        """For each observer its first event at each of theirs, the same of each later one, and how many it can receive."""
        joint, parts = self.joint.observer, shared_parts(*self.observers)
        events = joint.num_events(self.joint.num_actions)
        action, seen = np.divmod(np.arange(events), joint.num_observations)
        found = list[tuple[np.ndarray, np.ndarray, int, int]]()
        for number, own in enumerate(self.observers):
            size = own.num_observations
            shown = parts[seen, number] + (size * action if own.sees_actions else 0)
            first = (parts[:, number], size)
            if not own.sees_first:
                first = np.zeros(joint.num_observations if joint.sees_first else 1, dtype=np.int64), 1
            found.append((first[0], shown, first[1], size * (self.joint.num_actions if own.sees_actions else 1)))
        return tuple(found)

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the observer of each pair sees, and its secret."""
        asked = zip(self.places, self.values, self.nums_values, strict=True)
        return tuple(View(*self.events[place], value, size) for place, value, size in asked)

    def view(self, name: str) -> View:
        """What the observer of one of the pairs sees, and its secret."""
        return self.views[self.names.index(name)]


def apart_from_agent(problem: Problem, name: str) -> Apart:
    """A pair, and beside it one of the same secret whose observer is that of the agent's own readings."""
    assert isinstance(problem.agent_sees, Observer)
    seen = Pair(AGENT, problem.agent_sees, problem.channel(name).secret)
    larger = memo(problem, (apart_from_agent, name), lambda: problem.replace(pairs=(*problem.pairs, seen)))
    return apart(larger, (AGENT, name))


def apart(problem: Problem, names: tuple[str, ...]) -> Apart:
    """The pairs of these names as one problem; of one name alone it is `problem.only(name)`.

    A pair without an observer of its own has that of the problem, who receives one sequence of observations; every other
    observer receives its own. Of several, all have a clock.

    **Raises:** `InputError` where there is no such pair, where one of several has a belief or a secret that does not go with
    that of the first (`joinable`), where their secret is a whole path, and where `Together` refuses their observers.
    """
    alone = [problem.only(name) for name in names]
    known = _joinable(problem, names, alone)
    for name in names:
        if name not in known:
            raise InputError(
                f"pair {name!r}",
                [
                    "a bound over all policies is known for pairs without a belief, and not for several whole paths or models"
                ],
            )
    joint, values = _with_all_secrets(problem, alone)
    nums_values = tuple(len(one.secret_values) for one in alone)
    executable = all(one.knows_all for one in alone)
    if len(names) == 1:
        return Apart(names, joint, (joint.observer,), (0,), values, nums_values, executable)
    if joint.secret_table.path is not None or joint.secret_table.each is not None:
        raise InputError(
            "pairs", ["a bound over all policies is known for a secret with one value, not for a whole path"]
        )
    watching = {_observer_of(problem, name): one.observer for name, one in zip(names, alone, strict=True)}
    # Sensors of one name may belong to several. What an observer without a clock holds of its events is for the caller.
    observers = [one.replace(sensors=None, untimed=False) for one in watching.values()]
    places = [list(watching).index(_observer_of(problem, name)) for name in names]
    known = Knows(replace(problem.agent, apart=problem.agent.sees is not None))
    others = [one for one in joint.constraints[joint.min_return is not None :] if not isinstance(one, Knows)]
    joint = joint.replace(observer=Together(*observers), constraints=[*others, known])
    return Apart(names, joint, tuple(observers), tuple(places), values, nums_values, executable)


def apart_for(problem: Problem, sees: tuple[str, ...], pair: str) -> Apart:
    """The pairs whose observations a history policy acts on, and one that counts.

    **Raises:** `InputError` also where the rows of such a policy do not say what it does, since the secret of the pair
    remembers more than those of the others.
    """
    found = apart(problem, tuple(dict.fromkeys((*sees, pair))))
    if pair not in sees:
        mine, theirs = (one.joint.secret_table for one in (apart(problem, sees), found))
        # What a history policy knows is also the value from the time on at which it is settled.
        more = () if mine.time == theirs.time == problem.horizon else ("time", "label")
        if not same_tables(mine, theirs, *MEMORY, *more):
            raise InputError(
                f"pair {pair!r}", ["its secret has a larger memory than the secrets that the policy was planned for"]
            )
    return found


def _with_all_secrets(problem: Problem, alone: list[Problem]) -> tuple[Problem, tuple[Int[np.ndarray, " Z"], ...]]:
    """The first of the problems of some pairs, with the secret of all of them, and the value that each has of it."""
    if all(_same_secret(one, alone[0]) for one in alone):
        return alone[0], (np.arange(len(alone[0].secret_values)),) * len(alone)
    secret = Joined(tuple(one.secret for one in alone))
    return alone[0].replace(secret=secret), secret.tables(problem.models, problem.horizon)[1]


def _observer_of(problem: Problem, name: str) -> str:
    """The pair that an observer belongs to: the problem's own, where a pair has none."""
    return OWN if name == OWN or find_pair(name, problem.pairs).observer is None else name


def joinable(problem: Problem, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some pairs that have no belief, and the secret of the first or one that goes with it: of one model, no path."""
    return _joinable(problem, names, [problem.only(name) for name in names])


def _joinable(problem: Problem, names: tuple[str, ...], alone: list[Problem]) -> tuple[str, ...]:
    first, plain = alone[0], len(problem.models) == 1 and _has_one_value(alone[0])
    beliefs = {one.name for one in problem.pairs if one.belief is not None}
    return tuple(
        name
        for name, one in zip(names, alone, strict=True)
        if name not in beliefs and ((plain and _has_one_value(one)) or _same_secret(one, first))
    )


def _has_one_value(problem: Problem) -> bool:
    return problem.secret_table.path is None and problem.secret_table.each is None


def _same_secret(one: Problem, other: Problem) -> bool:
    """Whether two problems over one model have the same secret, whatever it is called."""
    return one is other or same_tables(
        one.secret_table, other.secret_table, "time", "label", *MEMORY, "path", "weights", "each"
    )
