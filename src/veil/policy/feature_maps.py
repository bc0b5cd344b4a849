"""What a feature policy sees of a state: grid coordinates, variables of an imported model, one-hot, or an array."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..problem.problem import Problem

KINDS = ("coordinates", "variables", "one-hot")
"""The features that are derived from a problem by name."""

TIME_WAVES = 6
"""Cosines of the time, as a share of the horizon, that a time-dependent feature policy sees."""

_NEIGHBOURS = [(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)]


def measured(problem: Problem, features: str | np.ndarray) -> tuple[Float[np.ndarray, "S K"], Float[np.ndarray, "S W"]]:
    """The numbers of each state that are scaled and seen through waves, and those that are taken as they are.

    `"coordinates"`: row and column; and which of the eight neighbouring cells are walls or lie outside. `"variables"`: the
    values in state names such as `x=3,door=true`. An array: no scaled numbers, its columns as they are.

    **Raises:** `InputError` where the problem does not have the features.
    """
    count = problem.num_states
    if isinstance(features, np.ndarray):
        if features.shape[0] != count:
            raise InputError("features", [f"they have {len(features)} rows, expected one for each of {count} states"])
        return np.zeros((count, 0)), features
    if features == "coordinates":
        if problem.layout is None:
            raise InputError("features", ["'coordinates' need a grid, and this problem has no layout: use 'variables'"])
        cells = np.array(problem.layout.cells)
        return cells.astype(float), _walls(cells)
    if features == "variables":
        return _variables(problem.model.states.all()), np.zeros((count, 0))
    raise InputError("features", [f"they are {features!r}, expected one of {', '.join(KINDS)}, or an array S × F"])


def _walls(cells: Int[np.ndarray, "S 2"]) -> Float[np.ndarray, "S 8"]:
    known = {tuple(cell) for cell in cells.tolist()}
    return np.array([[float((r + x, c + y) not in known) for x, y in _NEIGHBOURS] for r, c in cells.tolist()])


def _variables(names: tuple[str, ...]) -> Float[np.ndarray, "S K"]:
    """The values of the variables in the names of the states; true and false are 1 and 0."""
    parts = [[part.partition("=") for part in name.split(",")] for name in names]
    keys = [[key for key, _, _ in of_state] for of_state in parts]
    try:
        if any(one != keys[0] for one in keys):
            raise ValueError(keys)
        return np.array([[_value(value) for _, _, value in of_state] for of_state in parts])
    except ValueError:
        wanted = "states with names such as 'x=3,door=true', as imported models have"
        raise InputError("features", [f"'variables' need {wanted}, found {names[0]!r}: use 'one-hot'"]) from None


def _value(text: str) -> float:
    known = {"true": 1.0, "false": 0.0}
    return known[text] if text in known else float(text)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a feature policy in one problem: `state`, `(C, F)`, for each row of a table, `time` for each decision.

    The inputs of the row (t, c) are those of c followed by those of t.
    """

    state: np.ndarray | sp.csr_array
    time: Float[np.ndarray, "T G"]

    @property
    def num_inputs(self) -> int:
        """F + G."""
        return self.num_state_inputs + self.time.shape[1]

    @property
    def num_state_inputs(self) -> int:
        """F."""
        assert self.state.shape is not None
        return int(self.state.shape[1])


def make_inputs(
    problem: Problem,
    features: str | np.ndarray,
    shift: Float[np.ndarray, " K"],
    scale: Float[np.ndarray, " K"],
    waves: Float[np.ndarray, "M K+1"],
    *,
    timed: bool,
) -> Inputs:
    """A constant, the scaled numbers `x`, the others, `sin(ω·x + φ)` for each wave; cosines of the time.

    Rows of the problem that are for a pair (known model, state) also see which model it is.
    """
    time = _time_inputs(problem.horizon) if timed else np.zeros((1, 0))
    if isinstance(features, str) and features == "one-hot":
        return Inputs(sp.csr_array(sp.eye_array(problem.num_cells)), time)
    if not problem.agent.sees_state:
        raise InputError(
            "features", ["the agent does not see its state, and these are features of states: use features='one-hot'"]
        )
    copies = problem.num_cells // problem.num_states
    numbers, others = measured(problem, features)
    if numbers.shape[1] != len(shift):
        raise InputError(
            "features", [f"the problem has {numbers.shape[1]} of them, and the policy is made for {len(shift)}"]
        )
    scaled = (numbers - shift) / scale
    seen = np.sin(scaled @ waves[:, :-1].T + waves[:, -1])
    state = np.hstack([np.ones((len(scaled), 1)), scaled, others, seen])
    if copies > 1:
        which = np.repeat(np.eye(copies), len(state), axis=0)
        state = np.hstack([np.tile(state, (copies, 1)), which])
    return Inputs(state, time)


def _time_inputs(horizon: int) -> Float[np.ndarray, "T G"]:
    """`cos(π k t / T)` for k = 1 … `TIME_WAVES`."""
    share = np.arange(horizon)[:, None] / max(1, horizon)
    return np.cos(np.pi * share * np.arange(1, TIME_WAVES + 1))


class RowNetwork:
    """Logits of some rows of a table from the inputs and the weights, and the gradient back to the weights.

    With one array of weights `(F, A)` the logits are `x W`; with two, `(F, H)` and `(H + 1, A)`, they are
    `tanh(x U) V + v`, where v is the last row of the second.

    **Arguments:** `inputs`; `rows`, numbered `t · C + c`.
    """

    def __init__(self, inputs: Inputs, rows: Int[np.ndarray, " R"]):
        assert inputs.state.shape is not None
        cells = int(inputs.state.shape[0])
        self._inputs, (self._time, self._cell) = inputs, np.divmod(rows, cells)
        count = np.arange(len(rows))
        ones = np.ones(len(rows))
        self._by_cell = sp.csr_array((ones, (self._cell, count)), shape=(cells, len(rows)))
        self._by_time = sp.csr_array((ones, (self._time, count)), shape=(len(inputs.time), len(rows)))

    def _first(self, weights: np.ndarray) -> Float[np.ndarray, "R H"]:
        split = self._inputs.num_state_inputs
        result = (self._inputs.state @ weights[:split])[self._cell]
        if self._inputs.time.shape[1]:
            result += (self._inputs.time @ weights[split:])[self._time]
        return result

    def logits(self, weights: list[np.ndarray]) -> tuple[Float[np.ndarray, "R A"], Float[np.ndarray, "R H"] | None]:
        """The logits, and what `pull_back` needs."""
        first = self._first(weights[0])
        if len(weights) == 1:
            return first, None
        active = np.tanh(first, out=first)
        return active @ weights[1][:-1] + weights[1][-1], active

    def pull_back(
        self, weights: list[np.ndarray], active: Float[np.ndarray, "R H"] | None, gradient: Float[np.ndarray, "R A"]
    ) -> list[np.ndarray]:
        """The gradient with respect to the weights from the one with respect to the logits."""
        if active is None:
            return [self._pull_first(gradient)]
        second = np.vstack([active.T @ gradient, gradient.sum(axis=0)])
        return [self._pull_first((gradient @ weights[1][:-1].T) * (1 - active**2)), second]

    def _pull_first(self, gradient: np.ndarray) -> np.ndarray:
        parts = [self._inputs.state.T @ (self._by_cell @ gradient)]
        if self._inputs.time.shape[1]:
            parts.append(self._inputs.time.T @ (self._by_time @ gradient))
        return np.vstack(parts)
