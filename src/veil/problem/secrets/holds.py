"""The secret `formula`: does a formula hold of the run, or which of several do?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from jaxtyping import Bool

from ...common.checks import Defects, Names, as_tuple
from ...common.errors import InputError, TooLargeError
from ...common.suggest import suggestion
from ..formulas.automaton import FormulaAutomaton, Letter
from ..formulas.formula import Formula
from ..keys import Key, States
from ..model import Model
from ..registers import TableRegister, product
from .secret import Secret, SecretTable, State, membership, states_of

if TYPE_CHECKING:
    from ..problem import Problem

_MOST_PAIRS = 2**24  # of a state of the automata together and a state of the model: a table of 128 MiB


@dataclass(frozen=True, eq=False, repr=False)
class Holds(Secret):
    """Does a formula hold of the run, or which of several do?

    **Arguments:**

    - `formulas`: a formula, as text or `Formula`, or several of them. The values of the secret are then the combinations
      that can occur.
    - `labels`: a mapping from propositions to the states where they are true. A proposition that is not named there is true
      in the state of that name.
    - `agent_knows`: whether the policy may depend on the automaton's state (the table then has a row for each pair).
    """

    kind = "formula"
    keys = (
        Key("formulas", list[str], "The formulas, at least one.", most=20),
        Key(
            "labels",
            dict[str, States],
            "Where a proposition is true: `name = states`. Names of states, signs of the drawing, variables and comparisons"
            " such as `x>3` need no entry.",
            {},
            most=1000,
        ),
        Key("agent_knows", bool, "Whether the policy may depend on the automaton's state.", False),
    )

    formulas: str | Formula | Iterable[str | Formula]
    labels: Mapping[str, Iterable[State]] = field(default_factory=dict[str, Iterable[State]])
    agent_knows: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        given = (self.formulas,) if isinstance(self.formulas, str | Formula) else as_tuple(self.formulas)
        if isinstance(given, tuple):
            given = tuple(one.text if isinstance(one, Formula) else one for one in given)
        object.__setattr__(self, "formulas", given)
        object.__setattr__(self, "labels", {} if self.labels is None else self.labels)
        super().__post_init__()

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The product with the formulas' automata; the label at time T is which of them accept."""
        before = len(defects)
        formulas = self._read(defects)
        letters = self._letters(models[0].states, formulas, defects)
        if len(defects) > before:
            return None
        alphabet = list(dict.fromkeys(letters))
        places = {letter: place for place, letter in enumerate(alphabet)}
        number = np.array([places[letter] for letter in letters])
        try:
            automata = [formula.automaton(alphabet) for formula in formulas]
            parts = [_register(one) for one in automata]
            register, states = product(parts, _MOST_PAIRS // len(letters))
        except TooLargeError as error:
            defects.add(f"the formulas together: {error}: use fewer or simpler formulas", "formulas")
            return None
        accepted = np.stack([one.accepting[state] for one, state in zip(automata, states, strict=True)], axis=1)
        entered = np.union1d(register.begins, register.follows)  # the others stand for a run without a state
        label = np.full(register.size, -1)
        kinds, label[entered] = np.unique(accepted[entered], axis=0, return_inverse=True)
        register = register.at(number)
        return SecretTable(
            time=horizon,
            value_names=tuple(_words([one.text for one in formulas], kind) for kind in kinds),
            label=np.repeat(label[None, :, None], len(letters), axis=2),
            memory_start=register.begins,
            memory_step=register.follows,
            memory_names=register.names,
            agent_knows=bool(self.agent_knows),
        )

    def describe(self, problem: "Problem") -> str:
        """The question."""
        texts = self._texts
        return f"Does {texts[0]} hold?" if len(texts) == 1 else f"Which of {len(texts)} formulas hold?"

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """The states where each proposition is true."""
        names = dict.fromkeys(name for text in self._texts for name in Formula(text).propositions)
        return states_of(problem, {name: self.labels.get(name, (name,)) for name in names})

    @property
    def _texts(self) -> tuple[str, ...]:
        return tuple(map(str, self.formulas)) if isinstance(self.formulas, tuple) else ()

    def _read(self, defects: Defects) -> list[Formula]:
        if not isinstance(self.formulas, tuple) or not self.formulas:
            defects.add(f"formulas are {self.formulas!r}, expected one or several texts", "formulas")
            return []
        found = []
        for place, text in enumerate(self.formulas):
            try:
                found.append(Formula(cast(str, text)))
            except InputError as error:
                defects.take(error, "formulas", place)
        return found

    def _letters(self, states: Names, formulas: list[Formula], defects: Defects) -> list[Letter]:
        """The propositions that are true in each state."""
        true: list[set[str]] = [set() for _ in range(len(states))]
        if not isinstance(self.labels, Mapping):
            defects.add(
                f"labels are a {type(self.labels).__name__}, expected a mapping from propositions to states", "labels"
            )
            return []
        for name in dict.fromkeys(name for formula in formulas for name in formula.propositions):
            if name in self.labels:
                inside = membership(states, self.labels[name], defects.under("labels", name))
            elif name in states:
                inside = membership(states, (name,), defects)
            else:
                near = suggestion(name, [*self.labels, *(states.all() if len(states) <= 1000 else ())])
                defects.add(f"proposition {name!r} is neither in labels nor the name of a state: {near}", "formulas")
                continue
            for state in np.flatnonzero(inside).tolist():
                true[state].add(name)
        return [frozenset(names) for names in true]


def _register(automaton: FormulaAutomaton) -> TableRegister:
    """The state of an automaton, over its letters."""
    return TableRegister(automaton.step[0], automaton.step, tuple(f"q{state}" for state in range(len(automaton.step))))


def _words(texts: list[str], accepted: Bool[np.ndarray, " F"]) -> str:
    if len(texts) == 1:
        return "holds" if accepted[0] else "does not hold"
    return "; ".join(text if holds else f"not {text}" for text, holds in zip(texts, accepted.tolist(), strict=True))
