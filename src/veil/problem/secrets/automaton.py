"""The secret `automaton`: does a finite automaton accept the run?"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from jaxtyping import Bool

from ...common.checks import Defects, Names, as_tuple
from ..keys import Key, States, written
from ..model import Model
from .secret import Secret, SecretTable, State, states_of

if TYPE_CHECKING:
    from ..problem import Problem

_MOST_PAIRS = 2**19  # of a state of the automaton and a state or label of the model, in a file: a table of 4 MiB

_Edge = Annotated[tuple[str, str, str], '["automaton state", "label", "next automaton state"]']


class ReadsLabels(Secret):
    """A secret that a finite automaton computes from the labels of the states of a run."""

    transitions: Mapping[tuple[str, str], str]
    initial: str
    labels: Mapping[State, str]
    default_label: str | None
    otherwise: str | None
    agent_knows: bool
    accepting: Iterable[str]

    def __post_init__(self) -> None:
        if self.accepting != ():
            object.__setattr__(self, "accepting", as_tuple(self.accepting))
        for name in ("transitions", "labels"):
            if isinstance(mapping := getattr(self, name), Mapping):
                object.__setattr__(self, name, dict(mapping))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The product with the automaton; the label at time T is what its state stands for."""
        before = len(defects)
        if not self._check_form(defects):
            return None
        letters = self._letters(models[0].states, defects)
        names = self._names()
        number = {name: index for index, name in enumerate(names)}
        for name in sorted(set(self.accepting) - set(names), key=str):
            known = f"expected one of {names}"
            defects.add(f"accepting state {name!r} is not a state of the automaton, {known}", "accepting")
        alphabet = sorted({letter for letter in letters if letter is not None}, key=str)
        for entry, pair in enumerate(self.transitions):
            if pair[1] not in alphabet:
                unread = f"reads label {pair[1]!r}, but no state of the model has it"
                defects.add(f"transition {pair!r} {unread}", "transitions", entry)
        step = {}
        for name in names:
            for letter in alphabet:
                target = self._target(name, letter)
                if target is None:
                    remedy = "give one, or otherwise='stay'"
                    defects.add(f"no transition from {name!r} on label {letter!r}: {remedy}", "transitions")
                else:
                    step[name, letter] = number[target]
        if len(defects) > before:
            return None
        columns: dict[str | None, list[int]] = {
            letter: [step.get((name, letter), 0) for name in names] for letter in alphabet
        }
        memory_step = np.array([columns.get(letter, [0] * len(names)) for letter in letters], dtype=int).T
        values, label = self.values(names)
        return SecretTable(
            time=horizon,
            value_names=values,
            label=np.repeat(np.array(label)[None, :, None], len(letters), axis=2),
            memory_start=memory_step[0],
            memory_step=memory_step,
            memory_names=tuple(names),
            agent_knows=bool(self.agent_knows),
        )

    @abstractmethod
    def values(self, names: list[str]) -> tuple[tuple[str, ...], list[int]]:
        """The values of the secret, and the one of each state of the automaton, of which the names are given."""

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """The states with each label but the default one."""
        groups: dict[str, list[State]] = {}
        for key, label in self.labels.items():
            if label != self.default_label:
                groups.setdefault(label, []).append(key)
        return states_of(problem, groups)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], model: Model, defects: Defects) -> Self | None:
        """Entries and labels are lists in a file, in which a pair or a state could be given twice."""
        before = len(defects)
        edges: dict[tuple[str, str], str] = {}
        for number, (state, label, following) in enumerate(table["transitions"]):
            if (state, label) in edges:
                defects.add(f"({state!r}, {label!r}) was given before, expected it once", "transitions", number)
            edges[state, label] = following
        labels: dict[State, str] = {}
        for label, states in table["labels"].items():
            for state in states:
                if state in labels:
                    other = f"state {model.states[state]!r} has the label {labels[state]!r} too"
                    defects.add(f"{other}, expected one label for each state", "labels", label)
                labels[state] = label
        made = cls(**{**table, "transitions": edges, "labels": labels})
        count = len(made._names())
        if count * max(model.num_states, len(table["labels"]) + 1) > _MOST_PAIRS:
            size = f"{count:,} states and {len(table['labels']):,} labels over {model.num_states:,} states"
            defects.add(f"found an automaton of {size}, expected a smaller one")
        return made if len(defects) == before else None

    def to_table(self, states: Names) -> dict[str, object]:
        """Labels with the states that have them, and entries as lists."""
        members: dict[str, list[State]] = {}
        for state, label in self.labels.items():
            members.setdefault(str(label), []).append(state)
        lists: dict[str, object] = {
            "initial": str(self.initial),
            "accepting": [str(name) for name in self.accepting],
            "transitions": [[*map(str, pair), str(target)] for pair, target in self.transitions.items()],
            "labels": written(members, dict[str, States], states),
        }
        options = {"default_label": self.default_label, "otherwise": self.otherwise}
        given = lists | {key: str(value) for key, value in options.items() if value is not None}
        given |= {"agent_knows": True} if self.agent_knows else {}
        return {key.name: given[key.name] for key in self.keys if key.name in given}

    def _names(self) -> list[str]:
        """The states of the automaton, in the order in which they are first named."""
        names = list(dict.fromkeys([self.initial, *(q for q, _ in self.transitions), *self.transitions.values()]))
        return names if self.otherwise in (None, "stay", *names) else [*names, str(self.otherwise)]

    def _check_form(self, defects: Defects) -> bool:
        """Note what is not of the right type, before anything is looked up in it."""
        before = len(defects)
        for name, value in (("transitions", self.transitions), ("labels", self.labels)):
            if not isinstance(value, Mapping):
                defects.add(f"{name} are a {type(value).__name__}, expected a mapping", name)
        if not isinstance(self.otherwise, (str, type(None))):
            found = f"otherwise is {self.otherwise!r}"
            defects.add(f"{found}, expected 'stay', the name of a state, or None", "otherwise")
        if not isinstance(self.accepting, tuple):
            found = f"accepting is {self.accepting!r}"
            defects.add(f"{found}, expected a set of names of automaton states", "accepting")
        if len(defects) == before:
            for key in self.transitions:
                if not isinstance(key, tuple) or len(key) != 2:
                    defects.add(f"transition {key!r} is not understood, expected (automaton state, label)")
        return len(defects) == before

    def _target(self, name: str, letter: str) -> str | None:
        fallback = name if self.otherwise == "stay" else self.otherwise
        return self.transitions.get((name, letter), fallback)

    def _letters(self, states: Names, defects: Defects) -> list[str | None]:
        letters: list[str | None] = [self.default_label] * len(states)
        for key, letter in self.labels.items():
            index = states.find_or_note(key, "labels", defects.under("labels"))
            if index is not None:
                letters[index] = letter
        missing = [states[index] for index, letter in enumerate(letters) if letter is None]
        if missing:
            some = ", ".join(map(repr, missing[:5]))
            defects.add(f"states {some} have no label: name them in labels, or give default_label", "labels")
        return letters


@dataclass(frozen=True, eq=False, repr=False)
class Automaton(ReadsLabels):
    """Does a finite automaton accept the run? It reads the labels of `s_0, s_1, …, s_T`.

    **Arguments:**

    - `transitions`: a mapping `(automaton state, label) -> automaton state`.
    - `initial`: the automaton's state before it reads `s_0`.
    - `accepting`: its accepting states.
    - `labels`: a mapping from states of the model to labels; several states may share one.
    - `default_label`: the label of the states that `labels` does not name. None: every state must be named.
    - `otherwise`: where to go when `transitions` has no entry: `"stay"` or the name of an automaton state. None: every
      entry must be given.
    - `agent_knows`: whether the policy may depend on the automaton's state (the table then has a row for each pair).
    """

    kind = "automaton"
    keys = (
        Key("initial", str, "The automaton's state before it reads the first label."),
        Key("accepting", list[str], "Its accepting states."),
        Key("default_label", str, "The label of all other states; without it each must have one.", None),
        Key(
            "otherwise", str, 'Where to go without an entry: `"stay"`, or a state. Without it each must be given.', None
        ),
        Key("agent_knows", bool, "Whether the policy may depend on the automaton's state.", False),
        Key("transitions", list[_Edge], "What it does on each label.", most=20_000),
        Key("labels", dict[str, States], "Which states have which label: `label = states`.", most=1000),
    )

    transitions: Mapping[tuple[str, str], str]
    initial: str
    accepting: Iterable[str]
    labels: Mapping[State, str]
    default_label: str | None = None
    otherwise: str | None = None
    agent_knows: bool = False

    def values(self, names: list[str]) -> tuple[tuple[str, ...], list[int]]:
        """See `ReadsLabels`."""
        return ("rejects", "accepts"), [int(name in set(self.accepting)) for name in names]

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return "Does the automaton accept the run?"
