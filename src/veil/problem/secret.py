"""The secrets: what the observer wants to know, each as a label of the hidden state at one time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int

from ..common.checks import Defects, Names, as_floats, as_tuple, check_distributions, check_shape
from .model import Model

State = str | int


@dataclass(frozen=True, eq=False)
class SecretTable:
    """A secret resolved against a model, the form that the engine reads.

    The hidden state is `(k, m, s)`: which model runs, the private memory, the state of the model. The memory starts as
    `memory_start[s_0]` and becomes `memory_step[m, s']` on entering `s'`. The value of the secret is
    `label[k, m, s]` of the hidden state at `time`; -1 marks hidden states that cannot occur then.
    """

    time: int
    value_names: tuple[str, ...]
    label: Int[np.ndarray, "K M S"]
    memory_start: Int[np.ndarray, " S"]
    memory_step: Int[np.ndarray, "M S"]
    memory_names: tuple[str, ...] = ("",)
    weights: Float[np.ndarray, " K"] | None = None
    agent_knows: bool = False


class Secret(Protocol):
    """What every secret offers: resolving itself against the model(s) and the horizon of a problem."""

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The table of the secret, or None with every defect noted."""
        ...


def _without_memory(time: int, names: Sequence[str], label: np.ndarray) -> SecretTable:
    size = len(label)
    return SecretTable(
        time, tuple(names), label[None, None, :], np.zeros(size, dtype=int), np.zeros((1, size), dtype=int)
    )


def _membership(states: Names, wanted: Iterable[State], where: str, defects: Defects) -> np.ndarray:
    if not isinstance(wanted, tuple):
        defects.add(f"{where}: states are {wanted!r}, expected a set of names or indices")
        return np.zeros(len(states), dtype=int)
    found = [states.find_or_note(key, where, defects) for key in wanted]
    label = np.zeros(len(states), dtype=int)
    label[[index for index in found if index is not None]] = 1
    if not found:
        defects.add(f"{where}: no states are given, expected at least one")
    return label


@dataclass(frozen=True)
class LastState:
    """Is the last state in a set? `Z = 1[s_T ∈ states]` (the paper's last-state opacity)."""

    states: Iterable[State]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", as_tuple(self.states))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time T."""
        label = _membership(models[0].states, self.states, "secret LastState", defects)
        return _without_memory(horizon, ("elsewhere", "secret"), label)


@dataclass(frozen=True)
class StateAt:
    """Is the state at time t in a set? `Z = 1[s_t ∈ states]`."""

    time: int
    states: Iterable[State]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", as_tuple(self.states))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time t."""
        label = _membership(models[0].states, self.states, "secret StateAt", defects)
        is_whole = isinstance(self.time, (int, np.integer)) and not isinstance(self.time, bool)
        # A horizon below zero is a defect of the problem, noted there.
        if not is_whole or self.time < 0 or self.time > horizon >= 0:
            defects.add(
                f"secret StateAt: time is {self.time!r}, expected a whole number from 0 to the horizon {horizon}"
            )
            return None
        return _without_memory(int(self.time), ("elsewhere", "secret"), label)


@dataclass(frozen=True)
class InitialState:
    """Where did it start? `Z = s_0` (the paper's initial-state opacity), or the group that `s_0` belongs to.

    **Arguments:** `groups`: a mapping from a group's name to its states. Groups must not overlap and must cover every
    state in which the model can start. None: each start state is a value of its own.
    """

    groups: Mapping[str, Iterable[State]] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.groups, Mapping):
            object.__setattr__(self, "groups", {name: as_tuple(states) for name, states in self.groups.items()})

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time 0."""
        model = models[0]
        starts = np.flatnonzero(sum(m.initial for m in models))
        label = np.full(model.num_states, -1)
        if self.groups is None:
            label[starts] = np.arange(len(starts))
            return _without_memory(0, [model.states[s] for s in starts], label)
        where = "secret InitialState"
        if not isinstance(self.groups, Mapping):
            defects.add(f"{where}: groups are a {type(self.groups).__name__}, expected a mapping from name to states")
            return None
        names = [str(name) for name in self.groups]
        for number, (name, members) in enumerate(self.groups.items()):
            inside = _membership(model.states, members, f"{where}, group {name!r}", defects).astype(bool)
            for state in np.flatnonzero(inside & (label >= 0)):
                defects.add(
                    f"{where}: state {model.states[state]!r} is in group {names[label[state]]!r} and in {name!r},"
                    " expected one"
                )
            label[inside] = number
        for state in starts[label[starts] < 0]:
            defects.add(f"{where}: start state {model.states[state]!r} is in no group, expected every start in one")
        return _without_memory(0, names, label)


@dataclass(frozen=True)
class Automaton:
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

    transitions: Mapping[tuple[str, str], str]
    initial: str
    accepting: Iterable[str]
    labels: Mapping[State, str]
    default_label: str | None = None
    otherwise: str | None = None
    agent_knows: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "accepting", as_tuple(self.accepting))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The product with the automaton; the label at time T is whether it accepts."""
        where = "secret Automaton"
        before = bool(defects)
        if not self._check_form(where, defects):
            return None
        letters = self._letters(models[0].states, where, defects)
        names = list(dict.fromkeys([self.initial, *(q for q, _ in self.transitions), *self.transitions.values()]))
        if self.otherwise not in (None, "stay", *names):
            names.append(str(self.otherwise))
        number = {name: index for index, name in enumerate(names)}
        accepting = set(self.accepting)
        for name in sorted(accepting - set(names), key=str):
            defects.add(f"{where}: accepting state {name!r} is not a state of the automaton, expected one of {names}")
        alphabet = sorted(set(letters) - {None}, key=str)
        for pair in self.transitions:
            if pair[1] not in alphabet:
                defects.add(f"{where}: transition {pair!r} reads label {pair[1]!r}, but no state of the model has it")
        step = {}
        for name in names:
            for letter in alphabet:
                target = self._target(name, letter)
                if target is None:
                    defects.add(
                        f"{where}: no transition from {name!r} on label {letter!r}: give one, or otherwise='stay'"
                    )
                else:
                    step[name, letter] = number[target]
        if defects and not before:
            return None
        columns = {letter: [step.get((name, letter), 0) for name in names] for letter in alphabet}
        memory_step = np.array([columns.get(letter, [0] * len(names)) for letter in letters], dtype=int).T
        accepts = np.array([int(name in accepting) for name in names])
        return SecretTable(
            time=horizon,
            value_names=("rejects", "accepts"),
            label=np.repeat(accepts[None, :, None], len(letters), axis=2),
            memory_start=memory_step[0],
            memory_step=memory_step,
            memory_names=tuple(names),
            agent_knows=bool(self.agent_knows),
        )

    def _check_form(self, where: str, defects: Defects) -> bool:
        """Note what is not of the right kind at all, before anything is looked up in it."""
        good = True
        for name, value in (("transitions", self.transitions), ("labels", self.labels)):
            if not isinstance(value, Mapping):
                defects.add(f"{where}: {name} are a {type(value).__name__}, expected a mapping")
                good = False
        if not isinstance(self.otherwise, (str, type(None))):
            defects.add(f"{where}: otherwise is {self.otherwise!r}, expected 'stay', the name of a state, or None")
            good = False
        if not isinstance(self.accepting, tuple):
            defects.add(f"{where}: accepting is {self.accepting!r}, expected a set of names of automaton states")
            good = False
        if good:
            for key in self.transitions:
                if not isinstance(key, tuple) or len(key) != 2:
                    defects.add(f"{where}: transition {key!r} is not understood, expected (automaton state, label)")
                    good = False
        return good

    def _target(self, name: str, letter: Any) -> str | None:
        fallback = name if self.otherwise == "stay" else self.otherwise
        return self.transitions.get((name, letter), fallback)

    def _letters(self, states: Names, where: str, defects: Defects) -> list[str | None]:
        letters: list[str | None] = [self.default_label] * len(states)
        for key, letter in self.labels.items():
            index = states.find_or_note(key, f"{where}, labels", defects)
            if index is not None:
                letters[index] = letter
        missing = [states[index] for index, letter in enumerate(letters) if letter is None]
        if missing:
            defects.add(
                f"{where}: states {', '.join(map(repr, missing[:5]))} have no label: name them in labels,"
                " or give default_label"
            )
        return letters


@dataclass(frozen=True)
class WhichModel:
    """Which of several models over the same states is running?

    **Arguments:** `weights`, the prior `(K,)`, uniform by default; `names` of the models; `agent_knows`, whether the
    policy may depend on the model that runs (the table then has a row for each pair of model and state).
    """

    weights: Sequence[float] | None = None
    names: Sequence[str] | None = None
    agent_knows: bool = False

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The product with the index of the model, which never changes; the label at time 0 is that index."""
        where = "secret WhichModel"
        count, size = len(models), models[0].num_states
        if count < 2:
            defects.add(f"{where}: the problem has {count} model, expected at least two: Problem((first, second), …)")
            return None
        names = Names("model", count, self.names, "model ", defects)
        weights = as_floats([1 / count] * count if self.weights is None else self.weights, f"{where}: weights", defects)
        if weights is None or not check_shape(weights, (count,), f"{where}: weights", defects):
            return None
        check_distributions(weights, lambda: f"{where}: weights", lambda k: f"{where}: weight {k}", defects)
        return SecretTable(
            time=0,
            value_names=names.all(),
            label=np.repeat(np.arange(count)[:, None, None], size, axis=2),
            memory_start=np.zeros(size, dtype=int),
            memory_step=np.zeros((1, size), dtype=int),
            weights=weights,
            agent_knows=bool(self.agent_knows),
        )
