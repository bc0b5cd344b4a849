"""What every importer returns: the model, the observer if there is one, the variables of the states, and notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from numpy.typing import ArrayLike

from ..common.checks import Defects, Names, is_number
from ..common.errors import InputError
from ..common.suggest import suggestion
from ..common.values import Value
from ..problem.agent import AgentSees
from ..problem.constraints import Constraint
from ..problem.grid.sensors import Sensor, rates_of, sensor_observer
from ..problem.grid.world import GridWorld
from ..problem.model import ByState, Model, by_name
from ..problem.observer import Observer
from ..problem.observers.noise import Noise
from ..problem.problem import Problem, ReturnOver
from ..problem.secrets.last_state import LastState
from ..problem.secrets.secret import Secret
from .expressions import Expression
from .propositions import is_comparison, with_meanings
from .registry import find_format
from .rollouts import Rollouts
from .sensing import SILENT, Observe, observer_from, observer_from_values

_SHOWN_NOTES = 12


@dataclass(frozen=True, eq=False, repr=False)
class Imported(Value):
    """A model from a file or another library, with what its states mean.

    **Attributes:** `model`; `observer` and `secret`, or None if the source has none; `source`, a path or a name; `kind`,
    what the source is; `notes`, what was dropped, changed or assumed; `valuations`, the value of each variable in each
    state, `(S,)` each; `labels`, named sets of states, `(S,)` of bool each; `grid`, the world if the source is a
    grid; `rollouts`, the runs that the model was estimated from, or None.
    """

    model: Model
    observer: Observer | None = None
    source: str = "model"
    kind: str = "model"
    notes: tuple[str, ...] = ()
    valuations: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    labels: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    secret: Secret | None = None
    grid: GridWorld | None = None
    rollouts: Rollouts | None = None

    @cached_property
    def variables(self) -> Mapping[str, np.ndarray]:
        """The valuations, and `state` (its name) and `index`, unless the model has variables of these names."""
        count = self.model.num_states
        return {"state": np.array(self.model.states.all()), "index": np.arange(count), **self.valuations}

    def mask(self, expression: str) -> Bool[np.ndarray, " S"]:
        """Where an expression over the variables and labels is true; the label `"init"` holds where the model starts.

        `veil.formats.expressions.Expression` describes the language.
        """
        labels = {"init": self.model.initial > 0, **self.labels}
        return Expression(expression).evaluate(self.variables, self.model.num_states, labels)

    def states_where(self, expression: str) -> tuple[int, ...]:
        """The indices of the states in which an expression is true, such as `"x=3 & door=open"`.

        **Raises:** `InputError` if it cannot be read, or is true nowhere.
        """
        found = np.flatnonzero(self.mask(expression)).tolist()
        if not found:
            raise InputError(f"expression {expression!r}", [f"it is true in none of {self.model.num_states} states"])
        return tuple(found)

    def observing(
        self,
        observe: Observe | Observer | str,
        *more: str,
        noise: float = 0.0,
        sees_actions: bool = False,
        sees_initial: bool = True,
        otherwise: str | None = SILENT,
    ) -> "Imported":
        """The same model under another observer.

        **Arguments:** `observe`: an `Observer`; the names of one or more variables that it sees; or a function, mapping
        or list as for `veil.formats.sensing.observer_from`. `noise`: the probability of a wrong reading.
        """
        model = self.model
        if isinstance(observe, Observer):
            observer = observe
        elif isinstance(observe, str):
            columns = {name: self._variable(name) for name in (observe, *more)}
            observer = observer_from_values(columns, sees_actions, sees_initial)
        else:
            observer = observer_from(
                observe, model.num_states, model.states, sees_actions, sees_initial, otherwise=otherwise
            )
        return replace(self, observer=Noise(noise).apply(observer, model, horizon=0))  # which noise does not depend on

    def sensing(
        self,
        sensors: Mapping[str, str | tuple[str, float] | tuple[str, float, float]],
        *,
        sees_actions: bool = False,
        sees_initial: bool = True,
    ) -> "Imported":
        """The same model under sensors, each given by the states that it covers.

        **Arguments:** `sensors`: a mapping from a sensor's name to an expression, or to `(expression, detection)` or
        `(expression, detection, false_alarm)`. By default a sensor makes no errors. Readings are independent; an
        observation is the names of the sensors that report, joined by `+`, or `0`.

        **Raises:** `InputError` naming the sensor.
        """
        defects = Defects("sensors")
        made: list[Sensor] = []
        covered: list[np.ndarray] = []
        for name, given in sensors.items():
            where, *rates = (given,) if isinstance(given, str) else given
            rates += (1.0, 0.0)[len(rates) :]
            if len(rates) != 2 or not all(is_number(rate) and 0 <= rate <= 1 for rate in rates):
                defects.add(f"sensor {name!r} is {given!r}, expected (expression, detection, false_alarm)")
                continue
            covered.append(self.mask(str(where)))
            made.append(Sensor(str(name), (), float(rates[0]), float(rates[1])))
        if not made:
            defects.add("no sensors found, expected at least one, such as {'east': 'x>=3'}")
        defects.raise_if_any()
        observer = sensor_observer(
            made, rates_of(made, np.stack(covered, axis=1)), "independent", sees_actions, sees_initial
        )
        return replace(self, observer=observer)

    def paying(self, rewards: Mapping[str, float], *, terminal: Mapping[str, float] | None = None) -> "Imported":
        """The same model with other rewards: what each expression pays for a decision in the states where it is true.

        **Arguments:** `rewards`, and `terminal` for the last state: mappings from expressions to numbers, which add up.
        """
        paid = changed_model(self.model, rewards=self._amounts(rewards), terminal_rewards=self._amounts(terminal or {}))
        return replace(self, model=paid, notes=(*self.notes, "rewards replaced by expressions"))

    def starting(self, initial: str | int | Mapping[str, float] | Mapping[str | int, float]) -> "Imported":
        """The same model with another distribution of the initial state.

        **Arguments:** `initial`: a mapping from states, by name or index, or from expressions to probabilities that sum to 1;
        or one state or expression. An expression stands for the states where it is true, equally likely:
        `{'"init" & pay=0': 0.75, '"init" & pay=1': 0.25}` weighs the states in which the model starts.

        **Raises:** `InputError` naming the state.
        """
        weights: dict[str | int, float] = {}
        for key, weight in (initial if isinstance(initial, Mapping) else {initial: 1.0}).items():
            chosen: tuple[str | int, ...] = (key,)
            if isinstance(key, str) and key not in self.model.states:
                chosen = self.states_where(key)
            if not is_number(weight):
                raise InputError("initial", [f"{key!r} has the probability {weight!r}, expected a number"])
            for state in chosen:
                weights[state] = weights.get(state, 0.0) + weight / len(chosen)
        return replace(
            self, model=changed_model(self.model, initial=weights), notes=(*self.notes, "initial state replaced")
        )

    def save(self, path: str | Path) -> tuple[str, ...]:
        """Write the model with its observer, variables and labels, in the format of the file's extension.

        **Returns:** notes on what the format cannot express and the file leaves out.

        **Raises:** `InputError` if no format that writes models has the extension, or the file would mean another model;
        `ModelFileError` if it cannot be written.
        """
        write = find_format("write_model", path).write_model
        assert write is not None
        further = list(self.model.named_rewards)[1:]
        left = f"further rewards ({', '.join(further)}): scenario files have them, as [[rewards.NAME]]"
        return write(Path(path), self) + ((left,) if further else ())

    def problem(
        self,
        secret: Secret | str | None = None,
        horizon: int | None = None,
        *,
        observer: Observer | None = None,
        min_return: float | str | None = None,
        return_over: ReturnOver = "horizon",
        constraints: Sequence[Constraint] = (),
        agent_sees: AgentSees = "state",
        name: str | None = None,
    ) -> Problem:
        """The problem of keeping a secret in this model.

        **Arguments:** `secret`: one of veil's secrets; or an expression or a label, for `LastState` of the states where it is
        true, or several labels separated by commas, for in which of them the last state is; by default the one that the source
        declares. `horizon`: the number of decisions. `observer`: in place of the
        model's own. All others are as for `Problem`. Propositions of formulas may be expressions over the variables, such as
        `F (x>3 & door=open)`, without labels.

        **Raises:** `InputError`; also if there is no observer, no secret or no horizon.
        """
        where = f"problem from {self.source}"
        observer = self.observer if observer is None else observer
        if observer is None:
            remedy = "give observer=…, or use .observing(…) or .sensing(…)"
            raise InputError(where, [f"the {self.kind} has no observer: {remedy}"])
        wanted = self._last_state(secret) if isinstance(secret, str) else secret or self.secret
        if wanted is None:
            remedy = (
                "give secret=…, such as veil.InitialState() or an expression for the secret last states, such as 'x=3'"
            )
            raise InputError(where, [f"the {self.kind} declares no secret: {remedy}"])
        if horizon is None:
            raise InputError(where, ["no horizon is given: give horizon=…, the number of decisions"])
        return Problem(
            self.model,
            observer,
            with_meanings(wanted, self._proposition),
            horizon,
            min_return,
            return_over,
            constraints=[with_meanings(one, self._proposition) for one in constraints],
            agent_sees=agent_sees,
            name=name or self.source,
            layout=None if self.grid is None else self.grid.layout,
        )

    def secret_table(self, text: str | None) -> dict[str, object]:
        """The table `[secret]` of a scenario that means what `problem(text)` does; None: the secret cells of a grid."""
        if text is None:
            return {"kind": LastState.kind}
        states = {group: {"where": expression} for group, expression in self._expressions(text).items()}
        key, value = ("states", states[None]) if None in states else ("groups", states)
        return {"kind": LastState.kind, key: value}

    def _last_state(self, text: str) -> LastState:
        found = {group: self.states_where(expression) for group, expression in self._expressions(text).items()}
        return LastState(found[None]) if None in found else LastState(groups={str(k): v for k, v in found.items()})

    def _expressions(self, text: str) -> dict[str | None, str]:
        """The expression of a secret set, under None; or of each group where several labels are given."""
        labels = [part.strip() for part in text.split(",")]
        if not all(label in self.labels for label in labels):
            return {None: text}
        return {None: f'"{labels[0]}"'} if len(labels) == 1 else {label: f'"{label}"' for label in labels}

    def _proposition(self, name: str) -> tuple[int, ...] | None:
        """The states where a comparison or a variable is true; None for another proposition."""
        if name in self.labels and name not in self.model.states:
            return self.states_where(f'"{name}"')
        known = name in self.variables or is_comparison(name)
        return self.states_where(name) if known and name not in self.model.states else None

    def summary(self) -> str:
        """One screen: states, actions, rewards, observations, sparsity, and what was dropped or changed."""
        model = self.model
        cells = model.num_states**2 * model.num_actions
        starts, taken = int(np.count_nonzero(model.initial)), int(model.available.sum())
        rewards = model.rewards[model.available]
        lines = [
            f"{self.source} ({self.kind})",
            f"  states        {model.num_states:,}: {_some(model.states)}; {starts:,} to start in",
            f"  actions       {model.num_actions:,}: {_some(model.actions)}; {taken / model.num_states:.3g} a state",
            f"  transitions   {model.num_transitions:,}, {100 * model.num_transitions / cells:.3g}% of all cells,"
            f" {model.num_transitions / max(taken, 1):.3g} a row",
            f"  rewards       from {rewards.min():g} to {rewards.max():g}, {np.count_nonzero(rewards):,} nonzero;"
            f" discount {model.discount:g}",
            f"  observations  {self._observations()}",
        ]
        if self.valuations:
            named = [f"{name} ({len(np.unique(values)):,} values)" for name, values in self.valuations.items()]
            lines.append("  variables     " + _listed(named))
        if self.labels:
            lines.append(
                "  labels        " + _listed([f"{name} ({int(m.sum()):,})" for name, m in self.labels.items()])
            )
        lines += [f"  note          {note}" for note in self.notes[:_SHOWN_NOTES]]
        if len(self.notes) > _SHOWN_NOTES:
            lines.append(f"  note          … and {len(self.notes) - _SHOWN_NOTES} more in .notes")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Imported({self.source!r}: {self.model!r}, {self.observer!r})"

    def _observations(self) -> str:
        observer = self.observer
        if observer is None:
            return "none: the source has no observer"
        first = "" if observer.sees_first else "; none at time 0"
        of = "of (action, next state)" if observer.on_actions else "of the state"
        share = 100 * sum(matrix.nnz for matrix in observer.matrices) / np.prod(observer.shape, dtype=float)
        seen = ", with the actions" if observer.sees_actions else ""
        return f"{observer.num_observations:,}: {_some(observer.observations)}; {of}, {share:.3g}% nonzero{first}{seen}"

    def _variable(self, name: str) -> np.ndarray:
        if name not in self.variables:
            raise InputError("observer", [f"unknown variable {name!r}: {suggestion(name, self.variables)}"])
        return self.variables[name]

    def _amounts(self, rewards: Mapping[str, float]) -> np.ndarray:
        total = np.zeros(self.model.num_states)
        for expression, amount in rewards.items():
            if not is_number(amount):
                raise InputError("rewards", [f"{expression!r} pays {amount!r}, expected a number"])
            total[list(self.states_where(expression))] += amount
        return total


def changed_model(
    model: Model,
    *,
    rewards: ArrayLike | Mapping[str, ArrayLike] | None = None,
    initial: ArrayLike | ByState | None = None,
    discount: float | None = None,
    terminal_rewards: ArrayLike | Mapping[str, ArrayLike] | None = None,
) -> Model:
    """The model with other rewards, terminal rewards, initial distribution or discount; further rewards stay.

    **Raises:** `InputError` as `Model` does.
    """
    first = next(iter(model.named_rewards))
    paid, ends = model.all_rewards, model.all_terminal_rewards
    return Model(
        model.matrices,
        paid if rewards is None else paid | by_name(rewards, first),
        model.initial if initial is None else initial,
        discount=model.discount if discount is None else discount,
        terminal_rewards=ends if terminal_rewards is None else ends | by_name(terminal_rewards, first),
        state_names=model.states.all() if model.states.given else None,
        action_names=model.actions.all() if model.actions.given else None,
        available=model.available,
    )


def _some(names: Names) -> str:
    return _listed([names[index] for index in range(min(len(names), 6))], len(names) > 6)


def _listed(texts: Sequence[str], more: bool = False) -> str:
    """Some texts in one line, cut where they would not fit a screen."""
    between = "; " if any("," in text for text in texts) else ", "
    line = between.join(texts) + (f"{between}…" if more else "")
    return line if len(line) <= 90 else line[:88] + " …"
