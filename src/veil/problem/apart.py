"""Pairs of one secret whose observers do not share what they see, as one problem, and what each of them sees in it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from ..common.errors import InputError
from .observer import Observer
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

    **Attributes:** `names` of the pairs; `joint`, without pairs; `observers` of the pairs.
    """

    names: tuple[str, ...]
    joint: Problem
    observers: tuple[Observer, ...]

    @cached_property
    def views(self) -> tuple[View, ...]:
        """What each observer sees."""
        joint, parts = self.joint.observer, np.array(shared_parts(*self.observers))
        events = joint.num_observations * (self.joint.num_actions if joint.sees_actions else 1)
        action, seen = np.divmod(np.arange(events), joint.num_observations)
        found = []
        for number, own in enumerate(self.observers):
            size = own.num_observations
            shown = parts[seen, number] + (size * action if own.sees_actions else 0)
            first = (parts[:, number], size) if joint.sees_first else (np.zeros(1, dtype=np.int64), 1)
            found.append(View(first[0], shown, first[1], size * (self.joint.num_actions if own.sees_actions else 1)))
        return tuple(found)


def apart(problem: Problem, names: tuple[str, ...]) -> Apart:
    """The pairs of these names as one problem; of one name alone it is `problem.pair(name)`.

    **Raises:** `InputError` where there is no such pair, where several have different secrets or one a belief, where the secret
    of several is a whole path, and where `Together` refuses their observers.
    """
    alone = [problem.pair(name) for name in names]
    if len(names) == 1:
        return Apart(names, alone[0], (alone[0].observer,))
    for name in names:
        if name not in alike(problem, names):
            raise InputError(
                f"pair {name!r}", ["a bound over all policies is known for pairs of one secret, without a belief"]
            )
    if alone[0].secret_table.path is not None:
        raise InputError(
            "pairs", ["a bound over all policies is known for a secret with one value, not for a whole path"]
        )
    observers = tuple(one.observer.replace(sensors=None) for one in alone)  # sensors of one name may belong to several
    return Apart(names, alone[0].replace(observer=Together(*observers), agent_sees_observations=False), observers)


def alike(problem: Problem, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some pairs that have the secret of the first, and no belief."""
    first = problem.pair(names[0])
    beliefs = {one.name for one in problem.pairs if one.belief is not None}
    return tuple(name for name in names if name not in beliefs and _same_secret(problem.pair(name), first))


def _same_secret(one: Problem, other: Problem) -> bool:
    """Whether two problems over one model have the same secret, whatever it is called."""
    mine, theirs = one.secret_table, other.secret_table
    return mine.time == theirs.time and all(
        np.array_equal(getattr(mine, name), getattr(theirs, name))
        for name in ("label", "memory_start", "memory_step", "path", "weights")
    )
