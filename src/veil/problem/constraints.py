"""Constraints: bounds on expected sums of rewards and on probabilities of formulas, all linear in the occupancies.

A problem has a list of quantities, the return first, and a list of bounds on them, `sign · V ≥ sign · δ` with
`V = E[Σ_t d^t r(x_t,a_t) + d^T r_T(x_T)]`. A formula's automaton is a register of the hidden state, whose last value pays 1
if it accepts.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.checks import Defects, Names, as_tuple, is_number
from ..common.suggest import suggestion
from ..common.values import Value
from .agent import Agent
from .formulas.formula import Formula
from .keys import Key, States, table_of
from .keys import Limit as LimitKey
from .model import Model
from .registers import TableRegister
from .secrets.holds import Holds
from .secrets.secret import State

Limit = float | str | None
"""A number, or a percentage such as `"80%"` of the way from the smallest to the largest value that policies can reach."""

_PERCENTAGE = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*%\s*")


@dataclass(frozen=True, eq=False)
class Quantity:
    """An expected sum of rewards: rewards with a discount of their own, and perhaps a register that decides the last one.

    The last state pays `terminal`, and 1 more if it has a `register` whose value is `accepted`. `known`: whether the agent
    knows that value.
    """

    name: str
    paid: Float[np.ndarray, "K S A"]
    terminal: Float[np.ndarray, "K S"]
    discount: float
    register: TableRegister | None = None
    accepted: Bool[np.ndarray, " Q"] | None = None
    known: bool = False

    def last(self, value: Int[np.ndarray, " M"] | None, num_memories: int) -> Float[np.ndarray, "K M S"]:
        """What the last state pays for each value of a larger register, of which `value` is the part of its own."""
        shape = (len(self.terminal), num_memories, self.terminal.shape[1])
        if value is None or self.accepted is None:
            return np.broadcast_to(self.terminal[:, None], shape)
        return np.broadcast_to(self.terminal[:, None] + self.accepted[value].astype(float)[None, :, None], shape)

    def equals(self, other: "Quantity") -> bool:
        """Whether both are the same sum on every run; names are for people."""
        alike = self.discount == other.discount and np.array_equal(self.paid, other.paid)
        if not alike or not np.array_equal(self.terminal, other.terminal):
            return False
        if self.register is None or other.register is None:
            return self.register is other.register
        alike = np.array_equal(np.asarray(self.accepted), np.asarray(other.accepted))
        return alike and self.register.equals(other.register)


@dataclass(frozen=True)
class Bound:
    """One bound on a quantity V of a problem: `sign · V ≥ sign · bound`.

    **Attributes:** `name`, for people; `quantity`: its number in `problem.quantities`; `sign`, +1 if it must be at least the
    bound, −1 at most; `bound`, a number or a percentage.
    """

    name: str
    quantity: int
    sign: float
    bound: float | str

    @property
    def text(self) -> str:
        """The bound in words: `energy ≤ 20`."""
        return f"{self.name} {self.relation} {self.bound if isinstance(self.bound, str) else f'{self.bound:.6g}'}"

    @property
    def relation(self) -> str:
        """`≥` or `≤`."""
        return "≥" if self.sign > 0 else "≤"


_MIN = Key("min", LimitKey, "Least value: a number, or a percentage of the range of values.", None)
_MAX = Key("max", LimitKey, "Largest value, likewise.", None)


class Constraint(Value, ABC):
    """A quantity that must stay between two bounds, one of which may be left out.

    **Class attributes:** `keys` of its `[[constraints]]` table in scenario files.
    """

    keys: ClassVar[tuple[Key, ...]] = ()
    min: Limit
    max: Limit

    @abstractmethod
    def quantity(self, models: Sequence[Model], horizon: int, defects: Defects) -> Quantity | None:
        """The quantity on a problem's models, or None with every defect noted."""

    def to_table(self, states: Names) -> dict[str, object]:
        """Its `[[constraints]]` table in a scenario file; states by name."""
        return table_of(self, self.keys, states)

    def _check_bounds(self, defects: Defects, least: float = -np.inf, most: float = np.inf) -> None:
        for name in ("min", "max"):
            value = checked_bound(getattr(self, name), name, defects)
            object.__setattr__(self, name, value)
            if isinstance(value, float) and not least <= value <= most:
                defects.add(f"{name} is {value:g}, expected a number from {least:g} to {most:g}", name)
        if self.min is None and self.max is None:
            defects.add("neither min nor max is given, expected at least one of them", "min")
        if isinstance(self.min, float) and isinstance(self.max, float) and self.min > self.max:
            defects.add(f"min is {self.min:g} and max is {self.max:g}, expected min ≤ max", "min")


@dataclass(frozen=True, eq=False, repr=False)
class Return(Constraint):
    """The expected return must be at least `min` and at most `max`: `E[Σ_{t<T} γ^t R(s_t,a_t) + γ^T R_T(s_T)]`.

    **Arguments:**

    - `min`, `max`: numbers, or percentages such as `"80%"`, of the way from the smallest to the largest return that policies
      can reach; at least one of them.
    - `reward`: the name of one of the model's rewards; the first by default.
    """

    keys = (
        Key("reward", str, "Which reward: a name in `[[rewards.NAME]]`; the model's by default.", None),
        _MIN,
        _MAX,
    )

    min: Limit = None
    max: Limit = None
    reward: str | None = None

    def __post_init__(self) -> None:
        defects = Defects("constraint Return")
        self._check_bounds(defects)
        defects.raise_if_any()

    def quantity(self, models: Sequence[Model], horizon: int, defects: Defects) -> Quantity | None:
        """The rewards of that name, with the models' discount."""
        names = list(models[0].named_rewards)
        name = names[0] if self.reward is None else self.reward
        if name not in names:
            defects.add(f"there is no reward {name!r}: {suggestion(str(name), names)}", "reward")
            return None
        found = [model.named_rewards[name] for model in models]
        return Quantity(
            "return" if name == names[0] else name,
            _stacked([one.paid for one in found]),
            _stacked([one.terminal for one in found]),
            models[0].discount,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Probability(Constraint):
    """The probability that a formula holds of the run `s_0, …, s_T` must be at least `min` and at most `max`.

    **Arguments:**

    - `formula`: text or `Formula`, in linear temporal logic on finite runs.
    - `min`, `max`: probabilities, or percentages such as `"80%"`, of the way from the smallest to the largest probability that
      policies can reach; at least one of them.
    - `labels`: a mapping from propositions to the states where they are true. A proposition that is not named there is true
      in the state of that name.
    - `agent_knows`: whether the policy may depend on the automaton's state (its table then has a row for each pair).
    """

    keys = (
        Key("formula", str, "The formula whose probability is bounded.", None, most=10_000),
        Key("labels", dict[str, States], "Where a proposition of the formula is true: `name = states`.", {}, most=1000),
        Key("agent_knows", bool, "Whether the policy may depend on the formula's automaton.", False),
        _MIN,
        _MAX,
    )

    formula: str | Formula
    min: Limit = None
    max: Limit = None
    labels: Mapping[str, Iterable[State]] | None = None
    agent_knows: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        defects = Defects("constraint Probability")
        self._check_bounds(defects, 0.0, 1.0)
        if isinstance(self.formula, Formula):
            object.__setattr__(self, "formula", self.formula.text)
        elif not isinstance(self.formula, str):
            defects.add(f"formula is {self.formula!r}, expected a text or a veil.Formula", "formula")
        if isinstance(self.labels, Mapping):
            object.__setattr__(self, "labels", {name: as_tuple(states) for name, states in self.labels.items()})
        object.__setattr__(self, "agent_knows", bool(self.agent_knows))
        defects.raise_if_any()

    def quantity(self, models: Sequence[Model], horizon: int, defects: Defects) -> Quantity | None:
        """The automaton of the formula, whose accepting states pay 1 at the end, without a discount."""
        table = Holds(self.formula, self.labels or {}, agent_knows=self.agent_knows).resolve(models, horizon, defects)
        if table is None:
            return None
        holds = np.array([name == "holds" for name in table.value_names])
        label = table.label[0, :, 0]
        shape = len(models), models[0].num_states
        return Quantity(
            f"P({self.formula})",
            np.broadcast_to(0.0, (*shape, models[0].num_actions)),
            np.broadcast_to(0.0, shape),
            1.0,
            table.register,
            (label >= 0) & holds[label],
            self.agent_knows,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Knows(Constraint):
    """No bound: it says what the agent knows, instead of the secrets and formulas of the problem.

    What the agent sees is that of `agent` only if that is not what the problem's own observer receives (`agent.apart`).
    """

    agent: Agent

    @property
    def min(self) -> Limit:  # type: ignore[override]
        """There is none."""
        return None

    @property
    def max(self) -> Limit:  # type: ignore[override]
        """There is none."""
        return None

    def quantity(self, models: Sequence[Model], horizon: int, defects: Defects) -> Quantity | None:
        """There is none."""
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Rebound(Constraint):
    """A constraint with another bound on one side, `sign · quantity ≥ sign · bound`: a number of any size, or None for none."""

    original: Constraint
    sign: float
    bound: float | None

    @property
    def min(self) -> Limit:  # type: ignore[override]
        """The bound from below."""
        return self.bound if self.sign > 0 else self.original.min

    @property
    def max(self) -> Limit:  # type: ignore[override]
        """The bound from above."""
        return self.bound if self.sign < 0 else self.original.max

    def quantity(self, models: Sequence[Model], horizon: int, defects: Defects) -> Quantity | None:
        """That of the original."""
        return self.original.quantity(models, horizon, defects)

    def to_table(self, states: Names) -> dict[str, object]:
        """See `Constraint`."""
        own = {key: value for key, value in self.original.to_table(states).items() if key not in ("min", "max")}
        return own | table_of(self, (_MIN, _MAX), states)


def checked_bound(value: object, name: str, defects: Defects) -> Limit:
    """A finite number as it is, a percentage as `"80%"` whatever way it was written; else None with the defect noted."""
    if value is None:
        return None
    percentage = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    if percentage is not None:
        share = float(percentage[1])
        if 0 <= share <= 100:
            return np.format_float_positional(abs(share), trim="-") + "%"  # abs: no "-0%"
        defects.add(
            f"{name} is {value!r}, expected a percentage from 0% to 100%, of the way from the"
            " smallest to the largest attainable return",
            name,
        )
    elif not is_number(value) or not np.isfinite(value):
        expected = "a finite number or None, or a percentage such as '80%'"
        defects.add(f"{name} is {value!r}, expected {expected}", name)
    else:
        return float(value)
    return None


def read_constraints(given: object, defects: Defects) -> tuple[Constraint, ...]:
    """The constraints of an argument; what is none is noted."""
    made = as_tuple(given)
    listed = made if isinstance(made, tuple) else (made,)
    for number, one in enumerate(listed):
        if not isinstance(one, Constraint):
            expected = "expected one such as veil.Return(max=20, reward='energy')"
            defects.add(f"constraint {number} is a {type(one).__name__}, {expected}", "constraints", number)
    return tuple(one for one in listed if isinstance(one, Constraint))


def in_order(min_return: Limit, given: tuple[Constraint, ...], first: str) -> tuple[Constraint, ...]:
    """All constraints; the first is that on the return from below, if `min_return` or a constraint asks for one.

    **Arguments:** `first`: the name of the reward whose sum is the return.
    """
    given = tuple(Return(one.min, one.max) if isinstance(one, Return) and one.reward == first else one for one in given)
    if min_return is not None:
        return Return(min=min_return), *given
    for number, one in enumerate(given):
        if isinstance(one, Return) and one.reward is None and one.min is not None:
            rest = () if one.max is None else (Return(max=one.max),)
            return Return(min=one.min), *given[:number], *rest, *given[number + 1 :]
    return given


def sides(constraints: Sequence[Constraint]) -> list[tuple[int, float, float | str]]:
    """The bounds of constraints in order: the number of the constraint, the sign and the bound; from below first."""
    return [
        (number, sign, bound)
        for number, one in enumerate(constraints)
        for sign, bound in ((1.0, one.min), (-1.0, one.max))
        if bound is not None
    ]


def read_quantities(
    constraints: Sequence[Constraint], models: Sequence[Model], horizon: int, defects: Defects
) -> tuple[tuple[Quantity, ...], tuple[tuple[str, int], ...]]:
    """The different quantities, the return first; and for each constraint the name and the number of its own, −1 for none.

    Every defect is noted.
    """
    earned = Return(min=0.0).quantity(models, horizon, defects)
    assert earned is not None
    quantities, about = [earned], list[tuple[str, int]]()
    shift = int(is_threshold(constraints))  # defects name the places of the argument
    for number, one in enumerate(constraints):
        part = defects.under("constraints", number - shift, where=f"constraint {type(one).__name__}")
        found = one.quantity(models, horizon, part)
        if found is None:
            about.append(("", -1))
            continue
        place = next((at for at, other in enumerate(quantities) if other.equals(found)), len(quantities))
        if place == len(quantities):
            quantities.append(found)
        about.append((found.name, place))
    return tuple(quantities), tuple(about)


def is_threshold(constraints: Sequence[Constraint]) -> bool:
    """Whether the first of constraints that `in_order` made is the bound on the return from below."""
    first = next(iter(constraints), None)
    return isinstance(first, Return) and first.reward is None and first.min is not None and first.max is None


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of several models as one; of one model, its own array."""
    return parts[0][None] if len(parts) == 1 else np.stack(parts)
