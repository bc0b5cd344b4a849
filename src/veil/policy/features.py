"""Feature policies: action probabilities from a few numbers that describe a state, by a softmax or a small network."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..common.checks import Defects, as_floats, frozen
from ..common.errors import InputError, PolicyFileError
from ..common.json_text import parse_json
from ..problem.problem import Problem
from .feature_maps import KINDS, Inputs, RowNetwork, make_inputs, measured
from .files import packed, save_table, unpacked
from .markov import MarkovPolicy, TimedPolicy
from .player import TablePlayer
from .policy import Policy
from .tables import MARKOV, TIMED, softmax_table

_SUBJECT = "feature policy"
_NAMES = ("shift", "scale", "waves")
# Wavelengths of the waves, as parts of the whole range of the scaled numbers: from all of it to a few cells of a floor.
_SHORTEST_WAVE = 1 / 24


class FeaturePolicy(Policy):
    """`π(a|s) ∝ exp f_a(features of s)`, where f is linear, or a network with one hidden layer of tanh units.

    It generalises over states, its file is small, and it plays in any problem that has the same features and actions:
    `policy.on(problem)` is its table there. `veil.solve(features=…)` trains one.

    **Arguments:**

    - `features`: `"coordinates"` (row and column of a grid, and which neighbouring cells are walls), `"variables"` (the
      values in state names such as `x=3,door=true`, as imported models have), `"one-hot"`, or an array `(S, F)`.
    - `weights`: one array `(F', A)` for a linear f; two, `(F', H)` and `(H + 1, A)`, for a network.
    - `actions`: the names of the actions, in the order of the last axis.
    - `timed`: whether the time, as a share of the horizon, is among the inputs.
    - `shift`, `scale`, `(K,)`: `x = (number − shift) / scale` for each of the K scaled numbers; `waves`, `(M, K + 1)`: the
      inputs `sin(ω·x + φ)` beside x, with φ in the last column.

    All numbers are rounded to 32 bits, as they are saved.

    **Raises:** `InputError` if the shapes do not belong together.
    """

    def __init__(
        self,
        features: str | ArrayLike,
        weights: Sequence[ArrayLike],
        actions: Sequence[str],
        *,
        timed: bool = False,
        shift: ArrayLike = (),
        scale: ArrayLike = (),
        waves: ArrayLike = ((),),
    ):
        defects = Defects(_SUBJECT)
        self.features: str | Float[np.ndarray, "S F"] = _checked_features(features, defects)
        self.weights = tuple(_numbers(one, f"weights[{n}]", 2, defects) for n, one in enumerate(weights))
        self.actions = tuple(map(str, actions))
        self.shift, self.scale = _numbers(shift, "shift", 1, defects), _numbers(scale, "scale", 1, defects)
        self.waves = _numbers(np.zeros((0, len(self.shift) + 1)) if np.size(waves) == 0 else waves, "waves", 2, defects)
        self._timed = bool(timed)
        defects.raise_if_any()
        self._check_shapes(defects)
        defects.raise_if_any()
        self._seal()

    def _check_shapes(self, defects: Defects) -> None:
        if len(self.weights) not in (1, 2):
            defects.add(f"it has {len(self.weights)} arrays of weights, expected one (linear) or two (a hidden layer)")
            return
        if len(self.weights) == 2 and self.weights[1].shape[0] != self.weights[0].shape[1] + 1:
            hidden = self.weights[0].shape[1]
            defects.add(
                f"weights[1] has {len(self.weights[1])} rows, expected {hidden + 1}: one per unit, and one more"
            )
        if self.weights[-1].shape[1] != len(self.actions):
            defects.add(f"its weights are for {self.weights[-1].shape[1]} actions, and {len(self.actions)} are named")
        if self.shift.shape != self.scale.shape or self.waves.shape[1] != len(self.shift) + 1:
            shapes = f"{self.shift.shape}, {self.scale.shape} and {self.waves.shape}"
            defects.add(f"shift, scale and waves have shapes {shapes}, expected (K,), (K,) and (M, K + 1)")
        if np.any(self.scale == 0):
            defects.add("scale has a zero, expected positive numbers")

    @classmethod
    def initial(
        cls,
        problem: Problem,
        features: str | ArrayLike = "coordinates",
        *,
        timed: bool = False,
        hidden: int = 48,
        waves: int = 160,
        seed: int = 0,
    ) -> "FeaturePolicy":
        """An untrained policy for the features of a problem: nearly uniform.

        **Arguments:** `hidden`: units of the hidden layer, 0 for a linear f; `waves`: their number, with random directions
        and wavelengths between the whole range and a twenty-fourth of it, 0 for none; `seed` of both and of the weights.
        """
        generator, names = np.random.default_rng(seed), problem.model.actions.all()
        given = features if isinstance(features, str) else np.asarray(features, dtype=float)
        shift = scale = np.zeros(0)
        frequencies = np.zeros((0, 1))
        if not (isinstance(given, str) and given == "one-hot"):
            numbers, _ = measured(problem, given)
            if numbers.shape[1]:
                low, high = numbers.min(axis=0), numbers.max(axis=0)
                # One scale for all of them, so that waves of one length see equal distances.
                shift, scale = (low + high) / 2, np.full(len(low), max((high - low).max() / 2, 1.0))
                frequencies = _random_waves(generator, waves, numbers.shape[1])
        inputs = make_inputs(problem, given, shift, scale, frequencies, timed=timed)
        first = (inputs.num_inputs, hidden or len(names))
        weights = [generator.normal(size=first) / math.sqrt(inputs.num_inputs) * (1.0 if hidden else 0.01)]
        if hidden:
            weights.append(np.vstack([0.1 * generator.normal(size=(hidden, len(names))), np.zeros(len(names))]))
        return cls(given, weights, names, timed=timed, shift=shift, scale=scale, waves=frequencies)

    def with_weights(self, weights: Sequence[ArrayLike]) -> "FeaturePolicy":
        """The same features with other weights."""
        return FeaturePolicy(**self._arguments() | {"weights": weights})  # pyright: ignore[reportArgumentType]

    @property
    def memory(self) -> Literal["markov", "timed"]:
        """What the choices depend on besides the state: nothing, or the time."""
        return "timed" if self._timed else "markov"

    @property
    def timed(self) -> bool:
        """Whether the choices depend on the time."""
        return self._timed

    @property
    def needs_observations(self) -> bool:
        """Whether the agent must see what the observer sees: no."""
        return False

    @property
    def num_parameters(self) -> int:
        """How many weights there are."""
        return sum(one.size for one in self.weights)

    def describe(self) -> str:
        """The kind of policy in words."""
        kind = "linear" if len(self.weights) == 1 else f"{self.weights[0].shape[1]} hidden units"
        name = self.features if isinstance(self.features, str) else "given numbers"
        return f"a {'time-dependent ' if self._timed else ''}feature policy on {name} ({kind})"

    def inputs(self, problem: Problem) -> Inputs:
        """The inputs of f in a problem; raises `InputError` if it does not have the features or the actions."""
        if problem.model.actions.all() != self.actions:
            found, wanted = ", ".join(problem.model.actions.all()), ", ".join(self.actions)
            raise InputError("policy", [f"it is made for the actions {wanted}, and the problem has {found}"])
        found = make_inputs(problem, self.features, self.shift, self.scale, self.waves, timed=self._timed)
        if found.num_inputs != len(self.weights[0]):
            raise InputError(
                "policy",
                [f"its weights are for {len(self.weights[0])} inputs, and the problem has {found.num_inputs}"],
            )
        return found

    def on(self, problem: Problem) -> MarkovPolicy | TimedPolicy:
        """The policy as a table for a problem, which may be another than the one it was trained for.

        Cost: `O(T C H A)` if it is time-dependent.

        **Raises:** `InputError` if the problem does not have the features or the actions.
        """
        inputs = self.inputs(problem)
        steps, cells = (problem.horizon if self._timed else 1), problem.num_cells
        logits, _ = RowNetwork(inputs, np.arange(steps * cells)).logits(list(self.weights))
        theta = logits.reshape(steps, cells, len(self.actions))
        if self._timed:
            return TimedPolicy(softmax_table(theta, problem, TIMED))
        return MarkovPolicy(softmax_table(theta[0], problem, MARKOV))

    def check(self, problem: Problem) -> None:
        """Raise `InputError` if the problem does not have the features or the actions."""
        self.inputs(problem)

    def choice_names(self, problem: Problem) -> tuple[str, ...]:
        """The actions."""
        return self.actions

    def _player(self, problem: Problem, *, seed: int, model: int | None) -> TablePlayer:
        """Begin a run; see `Policy.player`."""
        return self.on(problem)._player(problem, seed=seed, model=model)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all; see `Policy.save`."""
        shapes, content = packed([one.astype("<f4") for one in self._arrays()])
        head = {
            "features": self.features if isinstance(self.features, str) else "array",
            "actions": self.actions,
            "timed": self._timed,
            "arrays": shapes,
        }
        save_table(path, "features " + json.dumps(head), content)

    def _arrays(self) -> list[np.ndarray]:
        own = [] if isinstance(self.features, str) else [self.features]
        return [self.shift, self.scale, self.waves, *own, *self.weights]

    def _content(self) -> tuple[str, Sequence[np.ndarray]]:
        name = self.features if isinstance(self.features, str) else "array"
        return json.dumps(["features", name, self.actions, self._timed]), self._arrays()

    def __repr__(self) -> str:
        name = self.features if isinstance(self.features, str) else f"array {self.features.shape}"
        return f"FeaturePolicy({name}, {self.num_parameters} parameters, {len(self.actions)} actions)"


def _checked_features(features: object, defects: Defects) -> str | np.ndarray:
    if isinstance(features, str):
        if features not in KINDS:
            defects.add(f"features are {features!r}, expected one of {', '.join(KINDS)}, or an array S × F")
        return features
    return _numbers(features, "features", 2, defects)


def _numbers(values: object, name: str, axes: int, defects: Defects) -> np.ndarray:
    """Finite numbers, rounded to 32 bits, read-only."""
    array = as_floats(values, name, defects)
    if array is None:
        return np.zeros((0,) * axes)
    rounded = array.astype(np.float32).astype(float)
    if array.ndim != axes or not np.all(np.isfinite(rounded)):
        defects.add(f"{name} has shape {array.shape}, expected {axes} axes of finite numbers of 32 bits")
    return frozen(rounded)


def _random_waves(generator: np.random.Generator, count: int, numbers: int) -> Float[np.ndarray, "M K+1"]:
    """Frequencies of random directions with wavelengths spread evenly on a log scale, and random phases."""
    direction = generator.normal(size=(count, numbers))
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-12)
    length = 2.0 * _SHORTEST_WAVE ** generator.random((count, 1))
    return np.hstack([2 * np.pi * direction / length, 2 * np.pi * generator.random((count, 1))])


def features_from(head: str, table: np.ndarray, path: str | Path) -> FeaturePolicy:
    """The policy that `FeaturePolicy.save` wrote: what its arrays are, and their numbers one after the other.

    **Raises:** `PolicyFileError` where the two do not belong together; `InputError` where they make no policy.
    """
    try:
        described = parse_json(head)
        name, actions, timed = described["features"], described["actions"], described["timed"]
        arrays, own = unpacked(described["arrays"], table), name == "array"
        if len(arrays) < len(_NAMES) + 1 + own or not isinstance(timed, bool):
            raise ValueError(f"{len(arrays)} arrays, timed is {timed!r}")
        if not isinstance(actions, list) or not all(isinstance(one, str) for one in actions):
            raise ValueError(f"actions {actions!r}")
        shift, scale, waves, *rest = arrays
        return FeaturePolicy(
            rest[0] if own else name, rest[own:], actions, timed=timed, shift=shift, scale=scale, waves=waves
        )
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise PolicyFileError(f"{path} holds a feature policy that cannot be read: {error}") from None
