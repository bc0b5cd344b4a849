"""The problem: models, channels (a secret and its observer), bounds on quantities, and a horizon."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Literal, TypedDict, Unpack, cast

import numpy as np
from jaxtyping import Int

from ..common.checks import Defects, is_text
from ..common.errors import InputError
from ..common.memo import memo
from ..common.suggest import suggestion
from ..common.values import Value
from ..common.writers import writer
from .agent import Agent, AgentSees, Reading, open_to_readings, read_sight
from .channels import Channel, Given, agent_of, resolve
from .constraints import (
    Bound,
    Constraint,
    Knows,
    Limit,
    Quantity,
    Rebound,
    checked_bound,
    in_order,
    is_threshold,
    read_constraints,
    read_quantities,
    sides,
)
from .layout import Layout
from .model import Model, check_same_shape
from .observer import Observer
from .pairs import OWN, Pair, find_pair, read_pairs
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
    agent_sees: AgentSees
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
    - `agent_sees`: `"state"`; `"state+observations"`: what the observer receives as well; `"observations"`: only what the
      observer receives; or a `veil.Observer`: only separate readings, which are independent of what the observer
      receives, given the states. An agent that does not see its state acts on its newest reading, and on earlier ones
      if its policy has
      a memory: a row of a policy's table is a reading in the place of a state.
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
        agent_sees: AgentSees = "state",
        name: str = "problem",
        layout: Layout | None = None,
    ):
        self.name = name
        defects = Defects(f"problem {name!r}" if name != "problem" else name)
        if not is_text(name):
            defects.add(f"name is {name!r}, expected a text", "name")
        self.models: tuple[Model, ...] = _check_models(model, defects)
        self.observer = observer
        self.secret = secret
        self.horizon = _check_horizon(horizon, defects)
        wanted, given = checked_bound(min_return, "min_return", defects), read_constraints(constraints, defects)
        self.constraints: tuple[Constraint, ...] = in_order(wanted, given, next(iter(self.models[0].named_rewards)))
        self.pairs: tuple[Pair, ...] = read_pairs(pairs, defects)
        self.return_over: ReturnOver = return_over
        self.agent_sees: AgentSees
        self.agent_sees, self._seen, self._sees_state = read_sight(agent_sees, observer, defects)
        self.layout = layout
        if isinstance(layout, Layout):
            layout.check(self.num_states, defects)
        elif layout is not None:
            defects.add(f"layout is a {type(layout).__name__}, expected a Layout, as a GridWorld has")
        channels = self._check_parts(defects)
        defects.raise_if_any()
        self.quantities: tuple[Quantity, ...]
        self.about: tuple[tuple[str, int], ...]
        self.bounds: tuple[Bound, ...]
        self.agent: Agent
        self.reading: Reading | None
        self.channels: tuple[Channel, ...]
        self._resolve(channels, defects)
        self._seal()

    def _resolve(self, given: list[Given], defects: Defects) -> None:
        """Channels, quantities and what the agent knows, over the memories that they follow."""
        self.quantities, self.about = read_quantities(self.constraints, self.models, self.horizon, defects)
        defects.raise_if_any()
        found = sides(self.constraints)
        self.bounds = tuple(Bound(*self.about[number], sign, bound) for number, sign, bound in found)
        tables = [one.alone for one in given]
        own = isinstance(self.agent_sees, Observer)
        self.agent = agent_of(
            tables, self.constraints, self.quantities, len(self.models), self._seen, defects,
            sees_state=self._sees_state, apart=own,
        )  # fmt: skip
        self.reading = self.agent.reading(self.num_actions)
        self._open = (
            self.model.available if self.reading is None else open_to_readings(self.reading, self.models, defects)
        )
        self.channels = resolve(given, self.quantities, self.agent, self.models, defects)
        defects.raise_if_any()
        for number, one in enumerate(self.channels[1:]):
            if one.belief is not None:
                try:
                    one.belief.problem(self.only(one.name))
                except InputError as error:
                    part = defects.under("pairs", number, where=f"pair {one.name!r}")
                    part.take(error, "belief", where="belief")
        defects.raise_if_any()

    @property
    def secret_table(self) -> SecretTable:
        """The secret resolved against the models, with all that its channel remembers."""
        return self.channels[0].table

    @property
    def min_return(self) -> Limit:
        """The threshold on the return: the bound on it from below, which is the first of all bounds; None if there is none."""
        return self.constraints[0].min if is_threshold(self.constraints) else None

    @property
    def others(self) -> tuple[Bound, ...]:
        """The bounds besides the threshold on the return."""
        return self.bounds[is_threshold(self.constraints) :]

    @property
    def model(self) -> Model:
        """The model; the first of them if there are several."""
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
        """How many cells the agent can distinguish: the rows of a policy's table.

        The states, or the readings of an agent that does not see its state; if a secret or a formula says that the agent
        knows more, every pair (what it knows, state or reading), pair `(m, s)` in row `m · S + s`.
        """
        return self._known * len(self._open)

    def row_of(
        self,
        model: Int[np.ndarray, " n"],
        held: Int[np.ndarray, " n"],
        state: Int[np.ndarray, " n"],
        reading: Int[np.ndarray, " n"] | None = None,
    ) -> Int[np.ndarray, " n"]:
        """The row of a policy's table in hidden states: the model, what the problem's own channel remembers, the state.

        **Arguments:** `reading`: the number of the agent's newest reading, if it does not see its state; without it, the row
        of an agent that sees it.
        """
        size, last = (self.num_states, state) if reading is None else (len(self._open), reading)
        return self.channels[0].known[model, held] * size + last

    @property
    def cell_names(self) -> tuple[str, ...]:
        """The name of each row of a policy's table."""
        known = self.agent.register.names
        if self.agent.knows_model:
            known = tuple("/".join(filter(None, (model, name))) for model in self._model_names for name in known)
        actions, states = self.model.actions.all(), self.model.states.all()
        shown = states if self.reading is None else self.reading.names(actions)
        return tuple("/".join(filter(None, (name, one))) for name in known for one in shown)

    @property
    def available(self) -> np.ndarray:
        """Which actions can be taken, `(C, A)`: one row for each row of a policy's table."""
        return np.tile(self._open, (self._known, 1))

    @property
    def knows_all(self) -> bool:
        """Whether the agent knows all that is hidden: its state, the model that runs and every memory."""
        known = self.channels[0].known
        return self.agent.sees_state and len(np.unique(known)) == known.size

    @property
    def informed(self) -> "Problem":
        """The same problem with an agent that sees its state; itself if the agent does."""
        if self.agent.sees_state:
            return self
        return memo(self, (Problem, "informed"), self._informed)

    def _informed(self) -> "Problem":
        seeing = replace(self.agent, sees=None, apart=False, sees_state=True)
        further = self.constraints[is_threshold(self.constraints) :]
        kept = [Knows(seeing) if isinstance(one, Knows) else one for one in further]
        return self.replace(agent_sees="state", constraints=kept)

    @property
    def secret_values(self) -> tuple[str, ...]:
        """The names of the values that the secret can take."""
        return self.secret_table.value_names

    def save(self, path: str | Path) -> None:
        """Write the problem to a file, by its extension: `.toml` for a scenario, which `veil.load` reads to the same numbers.

        A grid is written as the graph of its cells. Packages can add formats (`veil.formats.registry`).

        **Raises:** `InputError` if no format with the extension writes problems, or a name cannot be written;
        `ModelFileError` if the file cannot be written.
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

    def channel(self, name: str) -> Channel:
        """The channel of a name, `"own"` for that of `secret` and `observer`; raises `InputError` if there is none."""
        if name != OWN:
            find_pair(name, self.pairs)
        return next(one for one in self.channels if one.name == name)

    def only(self, name: str) -> "Problem":
        """The same problem with one of its channels alone: the same models, constraints and rows of a policy's table.

        If the agent sees what the observer receives, that is the problem's own observer, whichever channel it is.

        **Raises:** `InputError` if there is no pair of this name; `"own"` is that of `secret` and `observer`.
        """
        channel = self.channel(name)
        if len(self.channels) == 1:
            return self
        return memo(self, (Problem.only, name), lambda: self._only(channel))

    def _only(self, channel: Channel) -> "Problem":
        found, own = self._unsealed(), channel is self.channels[0]
        found.name = self.name if own else f"{self.name}, {channel.name}"
        found.secret, found.observer = channel.secret, channel.observer
        found.channels, found.pairs = (replace(channel, name=OWN, min=None, max=None, belief=None, receives=0),), ()
        apart = self.agent.apart or (self.agent.sees is not None and channel.receives > 0)
        if apart or any(one.alone.agent_knows for one in self.channels):
            # The rows of a policy's table, and what the agent sees, stay those of all channels together.
            found.agent = replace(self.agent, apart=apart)
            found.constraints = (*self.constraints, Knows(found.agent))
        found._seal()
        return found

    def _unsealed(self) -> "Problem":
        """A copy whose parts can be changed, before it is sealed: what was checked is not checked again."""
        found = object.__new__(Problem)
        kept = {key: value for key, value in self.__dict__.items() if key not in ("_kept", "_hash", "_sealed")}
        found.__dict__.update(kept)
        return found

    def without_formulas(self) -> "Problem":
        """The same problem without the formulas of constraints that neither its own secret nor the agent follows.

        What its observer knows of its secret is the same, and so are the rows of a policy's table. Of the quantities those of
        rewards alone are left, and of the channels only the problem's own. Itself if there is nothing to leave out.
        """
        if all(one.register is None for one in self.quantities):
            return self
        return memo(self, Problem.without_formulas, self._without_formulas)

    def _without_formulas(self) -> "Problem":
        own, defects, first = self.channels[0], Defects("problem"), int(is_threshold(self.constraints))
        given = [Given(None, own.secret, own.observer, own.alone)]
        plain = tuple(one for one in self.quantities if one.register is None)
        channels = resolve(given, plain, self.agent, self.models, defects)
        if len(channels[0].table.memory_names) >= len(own.table.memory_names):
            return self
        found = self._unsealed()
        found.channels, found.pairs, found.quantities = channels, (), plain
        known = next((one for one in self.constraints if isinstance(one, Knows)), None)
        known = known or Knows(self.agent)
        found.constraints, found.bounds = (*self.constraints[:first], known), self.bounds[:first]
        found.about = (*self.about[:first], ("", -1))
        found._seal()
        return found

    def with_bound(self, number: int, bound: float | None) -> "Problem":
        """The same problem with another number in place of one of its `bounds`; None: without the bound.

        The quantity stays, so that the hidden states, and with them the rows of a policy's table, are the same.
        """
        place, sign, _ = sides(self.constraints)[number]
        first = int(is_threshold(self.constraints))
        if place < first:
            return self.replace(min_return=bound)
        moved = Rebound(self.constraints[place], sign, bound)
        return self.replace(constraints=(*self.constraints[first:place], moved, *self.constraints[place + 1 :]))

    def with_clock(self) -> "Problem":
        """The same problem with an observer who has a clock: itself if the observer has one."""
        observer = self.observer.with_clock()
        if observer is self.observer:
            return self
        return memo(self, Problem.with_clock, lambda: self.replace(observer=observer))

    def unrolled(self) -> "Problem":
        """The same problem over states that carry the time, so that no emission depends on it.

        A state is `s@t`, for the times at which some policy can be in s; after the horizon the time stays. What the
        observer receives, the secret and all returns are the same; a stationary policy of the unrolled problem is a
        time-dependent one of this problem. Everything in veil works on it, certificates included.

        Cost: the transitions out of the states that can be reached at each time.

        **Raises:** `InputError` if the observer of a pair assumes a policy with a memory.
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
            "constraints": self.constraints[is_threshold(self.constraints) :],
            "pairs": self.pairs,
            "agent_sees": self.agent_sees,
            "name": self.name,
            "layout": self.layout,
        }

    def __repr__(self) -> str:
        wanted = "".join(f", {one.text}" for one in self.bounds)
        wanted += "".join(f", pair {one.name!r}" for one in self.pairs)
        return (
            f"Problem({self.name!r}: {self.model!r}, {self.observer!r}, {type(self.secret).__name__},"
            f" horizon {self.horizon}{wanted})"
        )

    @property
    def _known(self) -> int:
        return self.agent.register.size * (len(self.models) if self.agent.knows_model else 1)

    @property
    def _model_names(self) -> tuple[str, ...]:
        names = self.channels[0].alone.value_names
        return names if len(names) == len(self.models) else tuple(f"model {k}" for k in range(len(self.models)))

    def _check_parts(self, defects: Defects) -> list[Given]:
        """Every channel with the table of its secret; every defect is noted."""
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
            others = self.constraints[is_threshold(self.constraints) :]
            if any(not isinstance(one, Knows) for one in others):
                only = "return_over='infinite' takes min_return alone"
                defects.add(f"{only}: other constraints are over the horizon", "constraints")
        self._check_observer(self.observer, defects)
        if isinstance(self.agent_sees, Observer):
            self._check_observer(self.agent_sees, defects.under("agent", where="agent_sees"))
        table = self._check_secret(self.secret, defects)
        given = [] if table is None else [Given(None, self.secret, self.observer, table)]
        for number, pair in enumerate(self.pairs):
            part = defects.under("pairs", number, where=f"pair {pair.name!r}")
            if pair.observer is not None:
                self._check_observer(pair.observer, part)
            own = table if pair.secret is None else self._check_secret(pair.secret, part, table)
            if own is not None:
                given.append(Given(pair, pair.secret or self.secret, pair.observer or self.observer, own))
        return given

    def _check_observer(self, observer: Observer, defects: Defects) -> None:
        if isinstance(observer, Observer):
            observer.check(self.model.states, self.model.actions, defects.under("observer"))
            observer.check_times(self.horizon, defects.under("observer"))
        else:
            defects.add(f"observer is a {type(observer).__name__}, expected a veil.Observer", "observer")

    def _check_secret(self, secret: Secret, defects: Defects, own: SecretTable | None = None) -> SecretTable | None:
        """The table of a secret; `own`: that of the problem's own one, which says how likely each of several models is."""
        if not isinstance(secret, Secret):
            found = f"secret is a {type(secret).__name__}"
            defects.add(f"{found}, expected one of veil's secrets, as LastState({{…}})", "secret")
            return None
        if len(self.models) > 1 and not secret.several_models and own is None:
            found = f"{len(self.models)} models are given"
            defects.add(f"{found}, which only a secret such as WhichModel can use", "secret")
        table = secret.resolve(
            self.models, self.horizon, defects.under("secret", where=f"secret {type(secret).__name__}")
        )
        for value in () if table is None else table.value_names:
            if not is_text(value):
                defects.add(f"a value of the secret is called {value!r}, expected a text", "secret")
        if table is None or own is None:
            return table
        if table.weights is None:
            return replace(table, weights=own.weights)
        if own.weights is None or not np.array_equal(table.weights, own.weights):
            defects.add(
                "its secret gives the models other weights than the problem's own secret, expected the same: one model runs"
            )
        return table


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
