"""What an observer assumes, rightly or not: the policy that acts, the model, and what its sensors report."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from jaxtyping import Int

from ..common.checks import Defects, is_number
from ..common.errors import InputError
from ..common.values import Value
from .keys import Key, PolicyFile
from .model import Model
from .observer import Observer

if TYPE_CHECKING:
    from .problem import Problem

UNIFORM = "uniform"
"""The assumption that all available actions are equally likely."""


class AssumedPolicy(Protocol):
    """All that is asked of a policy here; the rest is in `veil.Policy`."""

    def check(self, problem: "Problem") -> None:
        """Raise `InputError` where it does not fit the problem."""
        ...

    def digest(self) -> str:
        """A hash of its content."""
        ...

    def over(self, rows: Int[np.ndarray, " C"]) -> "AssumedPolicy | None":
        """The same policy over larger states; None if it is not given by a table over states."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Belief(Value):
    """What an observer assumes; its rule `q(z|y)` is the posterior of the secret under that assumption.

    Against an observer who is wrong, its loss `E[−log2 q(Z|Y)]` counts, the bits by which the truth surprises it. The loss is
    at least `H(Z|Y)`, and equal to it if all assumptions are right. The rule does not depend on the policy that acts, so
    that the loss is linear in how often that policy brings about each pair of secret and observations.

    **Arguments:**

    - `policy`: the policy that it assumes; `"uniform"`, the default, is that of equally likely available actions.
    - `model`: the model that it assumes, with the same states and actions; the problem's by default.
    - `observer`: the sensors that it assumes, with the same observations; those that it has by default.
    - `doubt`: ε from 0 to 1, with which it hedges: its rule is `(1 − ε) q(z|y) + ε / Z`. After observations that it held
      impossible, q is its prior. At 0 the loss is infinite if it rules out what happens.

    **Raises:** `InputError` listing every defect.
    """

    keys = (
        Key(
            "policy",
            PolicyFile,
            'The policy that it assumes: `"uniform"`, or a policy file inside the scenario\'s folder.',
            UNIFORM,
        ),
        Key(
            "observer",
            Observer,
            "The sensors that it assumes, with the same observations; by default those that it has.",
            None,
        ),
        Key("doubt", float, "ε: its rule is (1 − ε) q + ε / number of values of the secret.", 0.0, least=0, most=1),
    )

    policy: AssumedPolicy | Literal["uniform"] = UNIFORM
    model: Model | None = None
    observer: Observer | None = None
    doubt: float = 0.0

    def __post_init__(self) -> None:
        defects = Defects("belief")
        if self.policy != UNIFORM and not (hasattr(self.policy, "check") and hasattr(self.policy, "digest")):
            defects.add(f"policy is {self.policy!r}, expected a policy or 'uniform'", "policy")
        if not isinstance(self.model, Model | None):
            defects.add(f"model is a {type(self.model).__name__}, expected a veil.Model", "model")
        if not isinstance(self.observer, Observer | None):
            defects.add(f"observer is a {type(self.observer).__name__}, expected a veil.Observer", "observer")
        if not (is_number(self.doubt) and 0 <= self.doubt <= 1):
            defects.add(f"doubt is {self.doubt!r}, expected a number from 0 to 1", "doubt")
        else:
            object.__setattr__(self, "doubt", float(self.doubt))
        defects.raise_if_any()

    def problem(self, true: "Problem") -> "Problem":
        """The problem as the observer believes it to be.

        **Raises:** `InputError` if its parts do not fit those of the true problem.
        """
        defects = Defects("belief")
        if true.secret_table.path is not None or true.secret_table.each is not None:
            defects.add(
                "the secret is a whole path, or has a value at every time, expected one with a value at one time"
            )
        if self.model is not None and len(true.models) > 1:
            defects.add("the problem has several models, expected one: leave model out", "model")
        if self.observer is not None:
            _check_observer(self.observer, true.observer, defects)
        if self.model is not None and _names(self.model) != _names(true.model):
            defects.add("its states or actions are not those of the problem, expected the same", "model")
        defects.raise_if_any()
        found = true if self.model is None else true.replace(model=self.model, min_return=None, constraints=())
        found = found if self.observer is None else found.replace(observer=self.observer)
        if found.secret_values != true.secret_values or found.agent != true.agent:
            raise InputError("belief", ["under its model the secret has other values, expected the same"])
        if self.policy != UNIFORM:
            self.policy.check(found)
        return found


def _names(model: Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return model.states.all(), model.actions.all()


def _check_observer(assumed: Observer, true: Observer, defects: Defects) -> None:
    if assumed.observations.all() != true.observations.all():
        defects.add("its observations are not those that it receives, expected the same names", "observer")
    if (assumed.sees_actions, assumed.sees_first) != (true.sees_actions, true.sees_first):
        defects.add("it differs in whether it sees actions or the first observation, expected the same", "observer")
    if assumed.erased != true.erased:
        defects.add("it differs in how it erases silent steps (untimed, silent), expected the same", "observer")
