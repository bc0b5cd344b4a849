"""Rewards that the `R` statements of a `.pomdp` file write, averaged over next states and observations."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

Choice = int | None
_AT_ONCE = 2**20


class Rewards:
    """Rewards `R(a, s, s', o)`: rules with wildcards, of which the last that fits an entry holds.

    **Arguments:** `shape`, `(A, S, S, O)`; `sign`, -1 where the file gives costs.

    Rules are kept by which of the four places they name; what a wildcard covers is never written out.
    """

    def __init__(self, shape: tuple[int, int, int, int], sign: float):
        self.shape = shape
        self._sign = sign
        self._count = 0
        # For each pattern of named places: (keys, number of the rule, value), in order.
        self._rules: dict[tuple[bool, ...], list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
        self._ones: dict[tuple[bool, ...], dict[int, tuple[int, float]]] = {}

    def put(self, choices: Sequence[Choice], value: float) -> None:
        """One rule: an index or None (all) for the action, the state, the next state and, if any, the observation."""
        choices = (*choices, *(None,) * (4 - len(choices)))
        pattern = tuple(choice is not None for choice in choices)
        self._count += 1
        self._ones.setdefault(pattern, {})[self._key(choices)] = (self._count, self._sign * value + 0.0)

    def put_block(self, choices: Sequence[Choice], values: Float[np.ndarray, "..."]) -> None:
        """A rule for each of `values`, whose axes are the places after those in `choices`."""
        last = len(choices) + values.ndim
        pattern = tuple(choice is not None for choice in choices) + (True,) * values.ndim + (False,) * (4 - last)
        grids = np.indices(values.shape, sparse=True)
        key: np.ndarray | int = 0
        for place, size in enumerate(self.shape):
            if pattern[place]:
                here = choices[place] if place < len(choices) else grids[place - len(choices)]
                key = key * size + here  # pyright: ignore[reportOperatorIssue]
        self._count += 1
        keys = np.broadcast_to(np.asarray(key, dtype=np.int64), values.shape).ravel()
        numbers = np.full(keys.shape, self._count)
        self._rules.setdefault(pattern, []).append((keys, numbers, self._sign * values.ravel() + 0.0))

    @property
    def names_observations(self) -> bool:
        """Whether a rule depends on the observation."""
        return any(pattern[3] for pattern in (*self._rules, *self._ones))

    @property
    def is_exactly_of_state_and_action(self) -> bool:
        """Whether no rule names a next state or an observation, so that there is nothing to average."""
        return not any(pattern[2] or pattern[3] for pattern in (*self._rules, *self._ones))

    def prepare(self) -> "Lookup":
        """The rules in a form that answers for many entries at once."""
        patterns = {}
        for pattern in {*self._rules, *self._ones}:
            parts = list(self._rules.get(pattern, []))
            ones = self._ones.get(pattern)
            if ones:
                pairs = list(ones.values())
                parts.append(
                    (
                        np.fromiter(ones, dtype=np.int64, count=len(ones)),
                        np.array([number for number, _ in pairs]),
                        np.array([value for _, value in pairs]),
                    )
                )
            keys, numbers, values = (np.concatenate([part[i] for part in parts]) for i in range(3))
            order = np.lexsort((numbers, keys))
            keys = keys[order]
            last = np.append(keys[1:] != keys[:-1], True)
            patterns[pattern] = (keys[last], numbers[order][last], values[order][last])
        return Lookup(self.shape, patterns)

    def _key(self, choices: Sequence[Choice]) -> int:
        key = 0
        for choice, size in zip(choices, self.shape, strict=True):
            if choice is not None:
                key = key * size + choice
        return key


class Lookup:
    """Answers `R(a, s, s', o)` for many entries at once; built by `Rewards.prepare`."""

    def __init__(
        self, shape: tuple[int, ...], patterns: dict[tuple[bool, ...], tuple[np.ndarray, np.ndarray, np.ndarray]]
    ):
        self._shape = shape
        self._patterns = patterns

    def find(self, *places: Int[np.ndarray, " n"] | int) -> Float[np.ndarray, " n"]:
        """The reward of each entry: that of the last rule that fits, or 0. Cost: n log n for each pattern of wildcards."""
        size = np.broadcast(*places).size
        best = np.zeros(size, dtype=np.int64)
        result = np.zeros(size)
        for pattern, (keys, numbers, values) in self._patterns.items():
            key: np.ndarray = np.zeros(size, dtype=np.int64)
            for place, length, named in zip(places, self._shape, pattern, strict=True):
                if named:
                    key = key * length + place
            at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            better = (keys[at] == key) & (numbers[at] > best)
            best = np.where(better, numbers[at], best)
            result = np.where(better, values[at], result)
        return result


def average_rewards(
    lookup: Lookup,
    action: int,
    row: Int[np.ndarray, " n"],
    column: Int[np.ndarray, " n"],
    chance: Float[np.ndarray, " n"],
    emissions: Float[np.ndarray, "S O"] | None,
    num_states: int,
) -> Float[np.ndarray, " S"]:
    """`R(s, a) = Σ_{s'} P(s'|s,a) Σ_o O(o|a,s') R(a,s,s',o)` for one action.

    **Arguments:** the transitions of the action, entry by entry in order of rows; `emissions`, where rewards depend on
    observations. A state whose rewards are all equal gets exactly that number, however its probabilities are rounded.

    Cost: the number of (transition, observation) pairs that can occur, times the patterns of wildcards.
    """
    total, low, high = np.zeros(num_states), np.full(num_states, np.inf), np.full(num_states, -np.inf)
    width = 1 if emissions is None else emissions.shape[1]
    step = max(1, _AT_ONCE // width)
    for begin in range(0, len(row), step):
        part = slice(begin, begin + step)
        rows, columns, chances = row[part], column[part], chance[part]
        observations: np.ndarray | int = 0
        if emissions is not None:
            entry, observations = np.nonzero(emissions[columns])
            chances = chances[entry] * emissions[columns[entry], observations]
            rows, columns = rows[entry], columns[entry]
        found = lookup.find(action, rows, columns, observations)
        total += np.bincount(rows, weights=chances * found, minlength=num_states)
        np.minimum.at(low, rows, found)
        np.maximum.at(high, rows, found)
    return np.where(low == high, np.where(np.isfinite(low), low, 0.0), total)
