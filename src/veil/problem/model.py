"""The model: a finite Markov decision process, checked when it is built and immutable afterwards."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from ..common.checks import (
    Defects,
    Names,
    as_floats,
    check_distributions,
    check_finite,
    check_shape,
    frozen,
)
from ..common.errors import TooLargeError
from ..common.values import Value
from .given import (
    Entry,
    Tables,
    as_matrices,
    as_number,
    check_rows,
    matrices_from_entries,
    read_entries,
    rewards_from_mapping,
    row_name,
)

ByState = Mapping[str, float] | Mapping[int, float] | Mapping[str | int, float]
OneReward = ArrayLike | ByState | Mapping[tuple[str, str], float] | Mapping[str | tuple[str, str], float]
Rewards = OneReward | Mapping[str, OneReward]
Terminal = ArrayLike | ByState | Mapping[str, ArrayLike | ByState]

FIRST_REWARD = "reward"
"""The name of the rewards of a model that gives them without names."""

_DENSE_LIMIT = 2**28  # numbers in a dense view of the transitions: 2 GiB
_LARGEST_REWARD = 2.0**900  # as in certificates: sums over any horizon stay finite
_SMALLEST_UNIT = 2.0**-800  # prices, in bits for a unit of reward, stay below the largest number in certificates


class Model(Value):
    """A Markov decision process `⟨S, A, P, μ_0, R, γ⟩` (section 2 of the paper), with names.

    Rewards are paid for the decision in `(s_t, a_t)`, t = 0 … T-1; the last state pays only through `terminal_rewards`.

    **Arguments:**

    - `transitions`: `P(s'|s,a)`, as an array `(S, A, S)`, or as a sequence of `A` SciPy sparse matrices `(S, S)`, one per
      action. `Model.from_entries` takes a list of `(state, action, next_state, probability)` instead.
    - `rewards`: `R(s,a)`, `(S, A)`; or `(S,)` if the action does not matter; or a mapping from names to such arrays, of
      which the first is *the* reward and the others are for constraints (`veil.Return(reward="energy", max=20)`).
    - `initial`: `μ_0`, `(S,)`; or one state (name or index); or a mapping from states to probabilities.
    - `discount`: `γ` in [0, 1].
    - `terminal_rewards`: `R_T(s)`, `(S,)`, paid once for the last state, times `γ^T`; or a mapping from the names of rewards
      to such arrays. Zero by default.
    - `state_names`, `action_names`: distinct strings; `s0, s1, …` and `a0, a1, …` by default.
    - `available`: `(S, A)` of bool, which actions can be taken in which state; all by default. A row of an action that
      cannot be taken must be empty.

    Cost: linear in the number of non-zero transitions. Nothing is renormalised.

    **Raises:** `InputError` listing every defect found.
    """

    def __init__(
        self,
        transitions: Tables,
        rewards: ArrayLike | Mapping[str, ArrayLike],
        initial: ArrayLike | ByState,
        discount: float = 1.0,
        terminal_rewards: Terminal | None = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        *,
        available: ArrayLike | None = None,
    ):
        defects = Defects("model")
        matrices = as_matrices(transitions, defects)
        defects.raise_if_any()
        self.matrices: tuple[sp.csr_array, ...] = matrices
        self.num_states = int(np.diff(matrices[0].indptr).size)
        self.num_actions: int = len(matrices)
        self.states = Names("state", self.num_states, state_names, "s", defects.under("states"))
        self.actions = Names("action", self.num_actions, action_names, "a", defects.under("actions"))
        defects.raise_if_any()  # the messages below use the names
        self.available: Bool[np.ndarray, "S A"] = self._check_available(available, defects)
        self._check_transitions(defects)
        self.named_rewards: Mapping[str, Reward] = self._check_named(rewards, terminal_rewards, defects)
        first = next(iter(self.named_rewards.values()))
        self.rewards: Float[np.ndarray, "S A"] = first.paid
        self.terminal_rewards: Float[np.ndarray, " S"] = first.terminal
        self.initial: Float[np.ndarray, " S"] = self._check_initial(initial, defects)
        self.discount: float = _check_discount(discount, defects)
        defects.raise_if_any()
        self._seal()

    @classmethod
    def from_entries(
        cls,
        entries: Iterable[Entry],
        rewards: Rewards,
        initial: ArrayLike | ByState,
        discount: float = 1.0,
        terminal_rewards: Terminal | None = None,
        *,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> "Model":
        """A model from `(state, action, next_state, probability)` entries.

        **Arguments:** as for `Model`, and

        - `entries`: states and actions by name (or by index, if names are given). A pair (state, action) without any
          entry is an action that is not available there. An entry given twice is refused.
        - `rewards`: `(S, A)`, or a mapping with keys `(state, action)` or `state`; what is not named pays 0. Or a mapping
          from names to such rewards.
        - `state_names`, `action_names`: fix the order; by default the order in which the entries name them.

        **Raises:** `InputError`, naming the number of the entry.
        """
        defects = Defects("model entries")
        listed = read_entries(entries, defects)
        defects.raise_if_any()
        if state_names is None:
            state_names = cast(list[str], list(dict.fromkeys(name for s, _, n, _ in listed for name in (s, n))))
        if action_names is None:
            action_names = cast(list[str], list(dict.fromkeys(a for _, a, _, _ in listed)))
        states = Names("state", len(state_names), state_names, "s", defects.under("states"))
        actions = Names("action", len(action_names), action_names, "a", defects.under("actions"))
        if not len(states) or not len(actions):
            defects.add("there are no entries, expected at least one for each state")
        defects.raise_if_any()
        matrices, available = matrices_from_entries(listed, states, actions, defects)
        part = defects.under("rewards")
        given = {
            name: rewards_from_mapping(one, states, actions, part) if isinstance(one, Mapping) else one
            for name, one in by_name(rewards).items()
        }
        defects.raise_if_any()
        return cls(matrices, given, initial, discount, terminal_rewards, state_names, action_names, available=available)

    @cached_property
    def transitions(self) -> Float[np.ndarray, "S A S"]:
        """The transitions as a dense read-only array `(S, A, S)`, made once; refused where it would pass 2 GiB."""
        size = self.num_states**2 * self.num_actions
        if size > _DENSE_LIMIT:
            raise TooLargeError(
                f"the dense transitions of {self.num_states} states and {self.num_actions} actions would take"
                f" {size * 8 / 2**30:.1f} GiB: use model.matrices, one sparse matrix an action"
            )
        return frozen(np.stack([matrix.toarray() for matrix in self.matrices], axis=1))

    @property
    def num_transitions(self) -> int:
        """How many transitions have a positive probability."""
        return sum(matrix.nnz for matrix in self.matrices)

    @property
    def all_rewards(self) -> dict[str, Float[np.ndarray, "S A"]]:
        """Every reward by its name, *the* reward first: what `rewards` takes."""
        return {name: one.paid for name, one in self.named_rewards.items()}

    @property
    def all_terminal_rewards(self) -> dict[str, Float[np.ndarray, " S"]]:
        """The terminal rewards of every reward by its name: what `terminal_rewards` takes."""
        return {name: one.terminal for name, one in self.named_rewards.items()}

    def _arguments(self) -> dict[str, object]:
        return {
            "transitions": self.matrices,
            "rewards": self.all_rewards,
            "initial": self.initial,
            "discount": self.discount,
            "terminal_rewards": self.all_terminal_rewards,
            "state_names": self.states,
            "action_names": self.actions,
            "available": self.available,
        }

    def __repr__(self) -> str:
        return (
            f"Model({self.num_states} states, {self.num_actions} actions, {self.num_transitions} transitions,"
            f" discount={self.discount:g})"
        )

    def _check_available(self, available: ArrayLike | None, defects: Defects) -> np.ndarray:
        if available is None:
            mask = np.ones((self.num_states, self.num_actions), dtype=bool)
        else:
            mask = as_floats(available, "available", defects)
            defects.raise_if_any()
            assert mask is not None
            if not np.isin(mask, (0, 1)).all():
                defects.add("available has entries other than True and False")
            mask = mask.astype(bool)
            if not check_shape(mask, (self.num_states, self.num_actions), "available", defects):
                defects.raise_if_any()
        defects.add_each(
            np.flatnonzero(~mask.any(axis=1)),
            lambda s: f"state {self.states[s]!r} has no available action, expected at least one: add a stay action",
            "transitions",
        )
        mask.flags.writeable = False
        return mask

    def _check_transitions(self, defects: Defects) -> None:
        for action, matrix in enumerate(self.matrices):
            self._check_matrix(action, matrix, defects)

    def _check_matrix(self, action: int, matrix: sp.csr_array, defects: Defects) -> None:
        name, available = self.actions[action], self.available[:, action]
        check_rows(
            matrix,
            lambda s, n: f"transition (state {self.states[s]!r}, action {name!r}, next state {self.states[n]!r})",
            lambda s: row_name(self.states[s], name),
            defects,
            filled=available,
            empty="sums to 0, expected 1: mark the action as not available there, or give its row",
        )
        defects.add_each(
            np.flatnonzero(~available & (np.diff(matrix.indptr) > 0)),
            lambda s: f"{row_name(self.states[s], name)} has entries, expected none: the action is not available there",
        )

    def _check_named(
        self, rewards: ArrayLike | Mapping[str, ArrayLike], terminal: Terminal | None, defects: Defects
    ) -> Mapping[str, "Reward"]:
        """Every reward with what the last state pays of it, the first being *the* reward."""
        given = cast(Mapping[str, ArrayLike], by_name(rewards))
        ends = {} if terminal is None else by_name(terminal, next(iter(given)))
        for name in [*given, *ends]:
            if not isinstance(name, str) or not name.strip():
                defects.add(f"reward name {name!r} is not understood, expected a text", "rewards")
            elif name == "return" and name in list(given)[1:]:
                defects.add("a further reward is called 'return', which means the first one: rename it", "rewards")
            elif name not in given:
                known = ", ".join(map(repr, given))
                defects.add(f"terminal rewards of {name!r}: the rewards are {known}", "terminal_rewards")
        found = {
            name: Reward(
                self._check_rewards(one, defects), self._check_terminal(cast("ByState", ends.get(name)), defects)
            )
            for name, one in given.items()
        }
        for name, one in found.items():
            if 0 < one.largest < _SMALLEST_UNIT:
                wanted = f"expected 0 or at least {_SMALLEST_UNIT:.2g}: use a smaller unit"
                defects.add(f"the largest entry of {name!r} is {one.largest:.3g} in size, {wanted}", "rewards")
        return MappingProxyType(found)

    def _check_rewards(self, rewards: ArrayLike, defects: Defects) -> np.ndarray:
        array = as_floats(rewards, "rewards", defects)
        if array is None:
            return np.zeros((0, 0))
        if array.ndim == 1 and array.shape[0] == self.num_states:
            array = np.repeat(array[:, None], self.num_actions, axis=1)
        if not check_shape(array, (self.num_states, self.num_actions), "rewards", defects):
            return array
        array = np.where(self.available, array, 0.0)
        _check_size(array, lambda s, a: f"reward (state {self.states[s]!r}, action {self.actions[a]!r})", defects)
        return frozen(array)

    def _check_terminal(self, terminal_rewards: ArrayLike | ByState | None, defects: Defects) -> np.ndarray:
        if terminal_rewards is None:
            return frozen(np.zeros(self.num_states))
        if isinstance(terminal_rewards, Mapping):
            part = defects.under("terminal_rewards", where="terminal rewards")
            terminal_rewards = self._vector_from_mapping(terminal_rewards, part)
        array = as_floats(terminal_rewards, "terminal rewards", defects)
        if array is None or not check_shape(array, (self.num_states,), "terminal rewards", defects):
            return np.zeros(0)
        _check_size(array, lambda s: f"terminal reward (state {self.states[s]!r})", defects)
        return frozen(array)

    def _check_initial(self, initial: ArrayLike | ByState, defects: Defects) -> np.ndarray:
        what, before = "initial distribution", len(defects)
        if isinstance(initial, (str, int, np.integer)) and not isinstance(initial, bool):
            initial = cast(ByState, {initial: 1.0})
        if isinstance(initial, Mapping):
            initial = self._vector_from_mapping(initial, defects.under("initial", where=what))
        array = as_floats(initial, what, defects)
        if array is None or len(defects) > before or not check_shape(array, (self.num_states,), what, defects):
            return np.zeros(0)
        check_distributions(
            array, lambda: what, lambda s: f"{what} (state {self.states[s]!r})", defects.under("initial")
        )
        return frozen(array)

    def _vector_from_mapping(self, mapping: ByState, defects: Defects) -> np.ndarray:
        vector = np.zeros(self.num_states)
        for key, value in mapping.items():
            part = defects.under(str(key))
            state = self.states.find_or_note(key, "", part)
            if state is not None:
                vector[state] += as_number(value, f"state {key!r}", part)
        return vector


@dataclass(frozen=True, eq=False)
class Reward:
    """What is paid: `paid[s, a]` for a decision, `terminal[s]` for the last state."""

    paid: Float[np.ndarray, "S A"]
    terminal: Float[np.ndarray, " S"]

    @property
    def largest(self) -> float:
        """The size of its largest entry."""
        return max(float(np.abs(one).max(initial=0.0)) for one in (self.paid, self.terminal))


def by_name(given: Any, first: str = FIRST_REWARD) -> dict[str, Any]:
    """Rewards by name: a mapping to mappings or arrays is one already, anything else is that of `first`."""
    if isinstance(given, Mapping) and any(_is_collection(value) for value in given.values()):
        return dict(given)
    return {first: given}


def _is_collection(value: object) -> bool:
    return isinstance(value, (Mapping, Sequence, np.ndarray)) and not isinstance(value, str)


def _check_size(rewards: np.ndarray, place: Callable[..., str], defects: Defects) -> None:
    """Note every reward that is not finite, or so large that returns could overflow."""
    if not check_finite(rewards, place, defects) or np.abs(rewards).max(initial=0.0) <= _LARGEST_REWARD:
        return
    wanted = f"expected at most {_LARGEST_REWARD:.2g} in size: use a larger unit"
    defects.add_each(
        np.argwhere(np.abs(rewards) > _LARGEST_REWARD),
        lambda index: f"{place(*index)} is {rewards[tuple(index)]:.3g}, {wanted}",
    )


def _check_discount(discount: object, defects: Defects) -> float:
    try:
        value = float(cast(float, discount))
    except (TypeError, ValueError):
        value = float("nan")
    if not 0.0 <= value <= 1.0:
        defects.add(f"discount is {discount!r}, expected a number in [0, 1]")
    return value


def check_same_shape(models: Sequence[Model]) -> None:
    """Raise `InputError` unless all models share states, actions, masks and discount (they may differ in the rest)."""
    defects = Defects("models")
    first = models[0]
    for number, model in enumerate(models[1:], 1):
        at = ("models", number)
        if (model.num_states, model.num_actions) != (first.num_states, first.num_actions):
            defects.add(
                f"model {number} has {model.num_states} states and {model.num_actions} actions, expected"
                f" {first.num_states} and {first.num_actions} as model 0 has",
                *at,
            )
        elif model.states.all() != first.states.all() or model.actions.all() != first.actions.all():
            found = f"model {number} names its states or actions differently from model 0"
            defects.add(f"{found}, expected the same names", *at)
        elif list(model.named_rewards) != list(first.named_rewards):
            names = ", ".join(map(repr, model.named_rewards))
            defects.add(f"model {number} has the rewards {names}, expected the names of model 0", *at)
        elif not np.array_equal(model.available, first.available):
            defects.add(f"model {number} makes other actions available than model 0, expected the same", *at)
        if model.discount != first.discount:
            found = f"model {number} has discount {model.discount:g}"
            defects.add(f"{found}, expected {first.discount:g} as model 0 has", *at)
    defects.raise_if_any()
