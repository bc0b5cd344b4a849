"""What every feature of observers offers: its keys in scenario files, and the observer that it makes of another."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ...common.values import Value
from ..keys import Key
from ..model import Model
from ..observer import Observer

NOTHING = "nothing"


class ObserverFeature(Value, ABC):
    """A way to see: the base of every feature of observers, of veil and of other packages.

    Everything that an observer can be is an `Observer`: emissions, by time if they vary, a silent observation, times, whether
    it has a clock and sees actions. A feature makes such an observer of another one: it adds a sensor (`Together`), garbles
    what is seen, or says when it is received. A kind is one frozen dataclass and one line in a registry:
    `problem/observers/registry.py`, or the entry points `veil.observers` of another package.

    **Class attributes:** `kind`, its name in scenario files; `keys`, which are the arguments of the class. A file gives a
    table `[observer.KIND]` of the keys; if there is one key that has the name of the kind, its value alone: `KIND = value`.
    The first paragraph of the docstring says in the reference what the feature does.
    """

    kind: ClassVar[str]
    keys: ClassVar[tuple[Key, ...]] = ()

    @abstractmethod
    def apply(self, observer: Observer, model: Model, horizon: int) -> Observer:
        """The observer with this feature.

        **Arguments:** `observer`: as everything before the feature makes it; one that sees nothing, `blind(model)`, if there
        is nothing else. `model`: its states and actions; of several models the first. `horizon`: T.

        **Raises:** `InputError` if the feature does not fit them.
        """

    @classmethod
    def given_alone(cls) -> bool:
        """Whether a file gives its value alone instead of a table."""
        return [key.name for key in cls.keys] == [cls.kind]


def blind(model: Model, sees_actions: bool = False, sees_initial: bool = True) -> Observer:
    """The observer that receives the observation `nothing`, which is silent, in every state."""
    return Observer(np.ones((model.num_states, 1)), [NOTHING], sees_actions, sees_initial, silent=NOTHING)
