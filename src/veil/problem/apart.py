"""Pairs of one secret whose observers do not share what they see, as one problem, and what each of them sees in it.

Measures and proofs work on such a problem where an agent acts on what some observers see and the bits of one of them count.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from ..common.errors import InputError
from .observer import Observer
from .pairs import OWN, find_pair
from .problem import Problem
from .together import Together, shared_parts


@dataclass(frozen=True, eq=False)
class View:
    """What one observer receives of each event of all observers together.

    **Attributes:** `first (F)`: its first event at each of theirs; `event (E)`: the same of each later one; `num_first`,
    `num_events`: how many it can receive.
    """

    first: Int[np.ndarray, " F"]
    event: Int[np.ndarray, " E"]
    num_first: int
    num_events: int


@dataclass(frozen=True, eq=False)
class Apart:
    """Some pairs of a problem: `joint` has the observer who receives what all of theirs do, each independently given the state.

    **Attributes:** `names` of the pairs; `joint`, without pairs; `observers` of the pairs, each once; `places`: which of them
    the observer of each pair is.
    """

    names: tuple[str, ...]
    joint: Problem
    observers: tuple[Observer, ...]
    places: tuple[int, ...]

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What the observer of each pair sees."""
        joint, parts = self.joint.observer, np.array(shared_parts(*self.observers))
        events = joint.num_observations * (self.joint.num_actions if joint.sees_actions else 1)
        action, seen = np.divmod(np.arange(events), joint.num_observations)
        found = []
        for number, own in enumerate(self.observers):
            size = own.num_observations
            shown = parts[seen, number] + (size * action if own.sees_actions else 0)
            first = (parts[:, number], size) if joint.sees_first else (np.zeros(1, dtype=np.int64), 1)
            found.append(View(first[0], shown, first[1], size * (self.joint.num_actions if own.sees_actions else 1)))
        return tuple(found[place] for place in self.places)

    def view(self, name: str) -> View:
        """What the observer of one of the pairs sees."""
        return self.views[self.names.index(name)]


def apart(problem: Problem, names: tuple[str, ...], secret_of: str | None = None) -> Apart:
    """The pairs of these names as one problem; of one name alone it is `problem.pair(name)`.

    A pair without an observer of its own has that of the problem, who receives one sequence of observations; every other
    observer receives its own.

    **Arguments:** `secret_of`: the pair whose secret the problem has, the first by default.

    **Raises:** `InputError` where there is no such pair, where several have different secrets or one a belief, where the secret
    of several is a whole path, and where `Together` refuses their observers.
    """
    alone = [problem.pair(name) for name in names]
    joint = alone[0] if secret_of is None else problem.pair(secret_of)
    known = alike(problem, names)
    for name, one in zip(names, alone, strict=True):
        if name not in known and not (name == secret_of and same_rows(one, alone[0])):
            raise InputError(
                f"pair {name!r}", ["a bound over all policies is known for pairs of one secret, without a belief"]
            )
    if len(names) == 1:
        return Apart(names, joint, (joint.observer,), (0,))
    if joint.secret_table.path is not None:
        raise InputError(
            "pairs", ["a bound over all policies is known for a secret with one value, not for a whole path"]
        )
    watching = {_observer_of(problem, name): one.observer for name, one in zip(names, alone, strict=True)}
    observers = [one.replace(sensors=None) for one in watching.values()]  # sensors of one name may belong to several
    places = [list(watching).index(_observer_of(problem, name)) for name in names]
    joint = joint.replace(observer=Together(*observers), agent_sees_observations=False)
    return Apart(names, joint, tuple(observers), tuple(places))


def _observer_of(problem: Problem, name: str) -> str:
    """The pair that an observer belongs to: the problem's own, where a pair has none."""
    return OWN if name == OWN or find_pair(name, problem.pairs).observer is None else name


def alike(problem: Problem, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some pairs that have the secret of the first, and no belief."""
    first = problem.pair(names[0])
    beliefs = {one.name for one in problem.pairs if one.belief is not None}
    return tuple(name for name in names if name not in beliefs and _same_secret(problem.pair(name), first))


def same_rows(one: Problem, other: Problem) -> bool:
    """Whether what a history policy knows of its secret is the same in two problems over one model, with other labels.

    That is the value too from the time on at which it is settled, so that only secrets of time T may differ.
    """
    mine, theirs = one.secret_table, other.secret_table
    late = mine.time == theirs.time == one.horizon and mine.path is None and theirs.path is None
    return _same_secret(one, other) or (late and _same_tables(one, other, "memory_start", "memory_step", "weights"))


def _same_secret(one: Problem, other: Problem) -> bool:
    """Whether two problems over one model have the same secret, whatever it is called."""
    same = one.secret_table.time == other.secret_table.time
    return same and _same_tables(one, other, "label", "memory_start", "memory_step", "path", "weights")


def _same_tables(one: Problem, other: Problem, *names: str) -> bool:
    return all(np.array_equal(getattr(one.secret_table, name), getattr(other.secret_table, name)) for name in names)
