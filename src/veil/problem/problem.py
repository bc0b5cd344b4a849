"""The problem: a model, an observer, a secret, a horizon and a threshold on the return."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Literal, TypedDict, Unpack, cast

import numpy as np

from ..common.checks import Defects
from ..common.errors import InputError
from ..common.memo import memo
from ..common.suggest import suggestion
from ..common.values import Value
from ..common.writers import writer
from .constraints import (
    Constraint,
    LinearConstraint,
    Return,
    checked_bound,
    read_constraints,
    resolve,
    split_first,
    with_bound,
)
from .layout import Layout
from .model import Model, check_same_shape
from .observer import Observer
from .pairs import OWN, Pair, find_pair, problems_of, read_pairs
from .secrets.secret import Secret, SecretTable

ReturnOver = Literal["horizon", "infinite"]


class Parts(TypedDict, total=False):
    """The arguments of `Problem`, which `Problem.replace` takes too."""

    model: Model | Sequence[Model]
    observer: Observer
    secret: Secret
    horizon: int
    min_return: float | str | None
    return_over: ReturnOver
    constraints: Sequence[Constraint]
    pairs: Sequence[Pair]
    agent_sees_observations: bool
    name: str
    layout: Layout | None


class Problem(Value):
    """Keep `secret` from `observer` over `horizon` decisions while the expected return stays at `min_return` or above.

    Horizon T means T decisions: states `s_0 … s_T`, actions `a_0 … a_{T-1}`, observations `o_0 … o_T`.

    **Arguments:**

    - `model`: a `Model`; or a sequence of models over the same states, for the secret `WhichModel`.
    - `observer`, `secret`: what the observer sees, and what it wants to know.
    - `horizon`: T ≥ 0.
    - `min_return`: the threshold δ on the expected return; or a percentage such as `"80%"`, of the way from
      the smallest to the largest attainable return; None for no threshold.
    - `return_over`: `"horizon"`: `E[Σ_{t<T} γ^t R(s_t,a_t) + γ^T R_T(s_T)]`; `"infinite"`: the discounted sum over all
      times, as the paper defines the value, with discount below 1 and no terminal rewards.
    - `constraints`: further bounds, such as `veil.Return(reward="energy", max=20)` and `veil.Probability("G !lava", min=0.95)`.
      The attribute lists all of them, `min_return` first.
    - `pairs`: further secrets and observers over the same model, a `veil.Pair` each, with bounds on what is hidden of them.
    - `agent_sees_observations`: whether the agent also receives the observations.
    - `name`: shown in results.
    - `layout`: where the states lie in a picture, for a grid; no number depends on it.

    **Raises:** `InputError` listing every defect of every part at once.
    """

    def __init__(
        self,
        model: Model | Sequence[Model],
        observer: Observer,
        secret: Secret,
        horizon: int,
        min_return: float | str | None = None,
        return_over: ReturnOver = "horizon",
        *,
        constraints: Sequence[Constraint] = (),
        pairs: Sequence[Pair] = (),
        agent_sees_observations: bool = False,
        name: str = "problem",
        layout: Layout | None = None,
    ):
        self.name = name
        defects = Defects(f"problem {name!r}" if name != "problem" else name)
        self.models: tuple[Model, ...] = _check_models(model, defects)
        self.observer = observer
        self.secret = secret
        self.horizon = _check_horizon(horizon, defects)
        first = checked_bound(min_return, "min_return", defects)
        self._given = split_first(
            first, read_constraints(constraints, defects), next(iter(self.models[0].named_rewards))
        )
        self.min_return: float | str | None = self._given[0]
        self.pairs: tuple[Pair, ...] = read_pairs(pairs, defects)
        self.return_over: ReturnOver = return_over
        self.agent_sees_observations = bool(agent_sees_observations)
        self.layout = layout
        if isinstance(layout, Layout):
            layout.check(self.num_states, defects)
        elif layout is not None:
            defects.add(f"layout is a {type(layout).__name__}, expected a Layout, as a GridWorld has")
        table = self._check_parts(defects)
        if table is None:
            defects.raise_if_any()
        assert table is not None
        self.secret_table: SecretTable
        self.further: tuple[LinearConstraint, ...]
        self.secret_table, self.further = resolve(self._given[1], table, self.models, self.horizon, defects)
        defects.raise_if_any()
        self._alone = problems_of(self, dict(self._parts()), defects)
        defects.raise_if_any()
        self._seal()

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """All constraints; the threshold on the return is the first of them where there is one."""
        first = () if self.min_return is None else (Return(min=self.min_return),)
        return first + self._given[1]

    @property
    def model(self) -> Model:
        """The model; the first of them where there are several."""
        return self.models[0]

    @property
    def num_states(self) -> int:
        """Number of states."""
        return self.model.num_states

    @property
    def num_actions(self) -> int:
        """Number of actions."""
        return self.model.num_actions

    @property
    def discount(self) -> float:
        """The discount γ of the model."""
        return self.model.discount

    @property
    def num_cells(self) -> int:
        """How many situations the agent can distinguish: the rows of a policy's table.

        The states; or, where the secret says that the agent knows more, every pair (what it knows, state), pair
        `(m, s)` in row `m · S + s`.
        """
        return self._known * self.num_states

    @property
    def cell_names(self) -> tuple[str, ...]:
        """The name of each row of a policy's table."""
        table, states = self.secret_table, self.model.states.all()
        if not table.agent_knows:
            return states
        known = table.value_names if len(self.models) > 1 else table.memory_names
        if len(self.models) > 1 < len(table.memory_names):
            known = tuple(f"{value}/{memory}" for value in known for memory in table.memory_names)
        return tuple(f"{memory}/{state}" for memory in known for state in states)

    @property
    def available(self) -> np.ndarray:
        """Which actions can be taken, `(C, A)`: one row for each row of a policy's table."""
        return np.tile(self.model.available, (self._known, 1))

    @property
    def secret_values(self) -> tuple[str, ...]:
        """The names of the values that the secret can take."""
        return self.secret_table.value_names

    def save(self, path: str | Path) -> None:
        """Write the problem to a file, by its extension: `.toml` for a scenario, which `veil.load` reads to the same numbers.

        A grid is written as the graph of its cells. Packages can add formats (`veil.formats.registry`).

        **Raises:** `InputError` where no format with the extension writes problems, or a name cannot be written;
        `ModelFileError` where the file cannot be written.
        """
        writer("problem")(path, self)

    def replace(self, **changes: Unpack[Parts]) -> "Problem":
        """The same problem with some parts changed, checked anew; another model loses the layout unless one is given."""
        parts = self._parts()
        unknown = [f"unknown part {name!r}: {suggestion(name, parts)}" for name in changes if name not in parts]
        if unknown:
            raise InputError("replace", unknown)
        if "model" in changes:
            parts["layout"] = None
        parts.update(changes)
        return Problem(**parts)

    def pair(self, name: str) -> "Problem":
        """The problem of one pair alone, with the same model and constraints: what `veil.opacity` measures of that pair.

        **Raises:** `InputError` where there is no pair of this name; `"own"` is that of `secret` and `observer`.
        """
        if name != OWN:
            return self._alone[find_pair(name, self.pairs).name]
        return memo(self, Problem.pair, lambda: self.replace(pairs=())) if self.pairs else self

    def with_bound(self, number: int, bound: float) -> "Problem":
        """The same problem with another bound of one of its `further` constraints, also one that every policy meets."""
        return self.replace(constraints=with_bound(self._given[1], number, bound))

    def with_clock(self) -> "Problem":
        """The same problem with an observer who has a clock: itself unless the observer is `untimed`."""
        if not self.observer.untimed:
            return self
        return memo(self, Problem.with_clock, lambda: self.replace(observer=self.observer.with_clock()))

    def unrolled(self) -> "Problem":
        """The same problem over states that carry the time, so that no emission depends on it.

        A state is `s@t`, for the times at which some policy can be in s; after the horizon the time stays. What the
        observer receives, the secret and all returns are the same; a stationary policy of the unrolled problem is a
        time-dependent one of this problem. Everything in veil works on it, certificates included.

        Cost: the transitions out of the states that can be reached at each time.

        **Raises:** `InputError` where the observer has no clock.
        """
        from .unrolled import unroll

        return unroll(self)[0]

    def _arguments(self) -> dict[str, object]:
        return dict(self._parts())

    def _parts(self) -> Parts:
        return {
            "model": self.models if len(self.models) > 1 else self.model,
            "observer": self.observer,
            "secret": self.secret,
            "horizon": self.horizon,
            "min_return": self.min_return,
            "return_over": self.return_over,
            "constraints": self._given[1],
            "pairs": self.pairs,
            "agent_sees_observations": self.agent_sees_observations,
            "name": self.name,
            "layout": self.layout,
        }

    def __repr__(self) -> str:
        wanted = f"{self.min_return:g}" if isinstance(self.min_return, float) else self.min_return
        threshold = "" if wanted is None else f", return ≥ {wanted}"
        threshold += "".join(f", {one.text}" for one in self.further)
        threshold += "".join(f", pair {one.name!r}" for one in self.pairs)
        return (
            f"Problem({self.name!r}: {self.model!r}, {self.observer!r}, {type(self.secret).__name__},"
            f" horizon {self.horizon}{threshold})"
        )

    @property
    def _known(self) -> int:
        table = self.secret_table
        return len(self.models) * len(table.memory_names) if table.agent_knows else 1

    def _check_parts(self, defects: Defects) -> SecretTable | None:
        model = self.model
        if self.return_over not in ("horizon", "infinite"):
            defects.add(f"return_over is {self.return_over!r}, expected 'horizon' or 'infinite'", "return_over")
        if self.return_over == "infinite":
            if model.discount >= 1:
                needed = "return_over='infinite' needs a discount below 1"
                defects.add(f"{needed}, found {model.discount:g}", "return_over")
            if any(m.terminal_rewards.any() for m in self.models):
                none = "return_over='infinite' has no last state to pay for"
                defects.add(f"{none}: leave terminal_rewards out", "return_over")
            if self._given[1]:
                only = "return_over='infinite' takes min_return alone"
                defects.add(f"{only}: other constraints are over the horizon", "constraints")
        if isinstance(self.observer, Observer):
            self.observer.check(model.states, model.actions, defects.under("observer"))
            self.observer.check_times(self.horizon, defects.under("observer"))
        else:
            defects.add(f"observer is a {type(self.observer).__name__}, expected a veil.Observer", "observer")
        if not isinstance(self.secret, Secret):
            found = f"secret is a {type(self.secret).__name__}"
            defects.add(f"{found}, expected one of veil's secrets, as LastState({{…}})", "secret")
            return None
        if len(self.models) > 1 and not self.secret.several_models:
            found = f"{len(self.models)} models are given"
            defects.add(f"{found}, which only a secret such as WhichModel can use", "secret")
        part = defects.under("secret", where=f"secret {type(self.secret).__name__}")
        return self.secret.resolve(self.models, self.horizon, part)


def check_problem(problem: object) -> None:
    """Raise `InputError` unless an argument is a problem; names the remedy."""
    if not isinstance(problem, Problem):
        found = f"it is a {type(problem).__name__}, expected a veil.Problem"
        remedy = f": read the file with veil.load({str(problem)!r})" if isinstance(problem, str | Path) else ""
        raise InputError("problem", [found + remedy])


def _check_models(model: object, defects: Defects) -> tuple[Model, ...]:
    found = type(model).__name__
    given = list(cast(Sequence[object], model)) if isinstance(model, Sequence) else [model]
    models = tuple(one for one in given if isinstance(one, Model))
    if not models or len(models) < len(given):
        defects.add(f"model is a {found}, expected a veil.Model or a sequence of them")
        defects.raise_if_any()
    check_same_shape(models)
    return models


def _check_horizon(horizon: object, defects: Defects) -> int:
    if not isinstance(horizon, Integral) or isinstance(horizon, bool) or int(horizon) < 0:
        defects.add(f"horizon is {horizon!r}, expected a whole number of decisions, 0 or more", "horizon")
        return -1
    return int(horizon)
