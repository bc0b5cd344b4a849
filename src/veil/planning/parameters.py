"""What an optimiser moves: the logits of the rows of a table that can be used, on the host or on an accelerator."""

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from ..common.logs import natural_log
from .backend import Tables, array_module
from .layers import used_rows
from .policy_class import Space

LOWEST = float(natural_log(np.array(np.finfo(float).eps)))
"""Logits below the largest by this much are zero but for rounding: -36."""
ROUNDED = float(np.finfo(float).eps ** 0.5)
"""Relative size of what rounding may leave of a difference of sums: 1.5e-8."""
MOST_STEPS = 500
"""Of an optimiser that ends by itself, where no number is asked for."""
RARE = 1e-3
"""A probability or weight below which bits hardly depend on it: less than 0.02."""
NOISE = 0.01
"""Of a normal draw, in starts that would be symmetric, and whose equal rows would have equal gradients: by judgement."""

_FEW_ACTIONS = 16  # NumPy's reduction begins anew for each row

# Of the uniform policy in a start at most, and random actions of a run that it brings: four of five runs stay as they are.
_SHARE, _RANDOM_ACTIONS = 0.02, 0.2


def least_share(space: Space) -> float:
    """The share of the uniform policy in a start, so that no action is ruled out."""
    return min(_SHARE, _RANDOM_ACTIONS / max(1, space.hidden.horizon))


def logits(space: Space, table: Float[np.ndarray, "T C A"], share: float | None = None) -> Float[np.ndarray, "T C A"]:
    """Parameters of a table mixed with a share of the uniform one, so that no action is ruled out."""
    share = least_share(space) if share is None else share
    uniform = space.available / space.available.sum(axis=1, keepdims=True)
    return np.where(space.available, natural_log((1 - share) * table + share * uniform), 0.0)


def over_actions(combine: Any, values: Any) -> Any:
    """Sums or maxima over actions `(…, 1)`: of few ones on the host one after the other, a fifth of a reduction's time."""
    if values.shape[-1] > _FEW_ACTIONS or not isinstance(values, np.ndarray):
        return combine.reduce(values, axis=-1, keepdims=True)
    found = values[..., :1].copy()
    for action in range(1, values.shape[-1]):
        combine(found, values[..., action : action + 1], out=found)
    return found


def softmax(theta: Any, opened: Any) -> Any:
    """Rows `(…, A)` from logits; an action that is not open has probability 0."""
    xp = array_module(theta)
    weights = xp.exp(theta - over_actions(xp.maximum, theta))
    weights *= opened
    weights /= over_actions(xp.add, weights)
    return weights


class Parameters(Protocol):
    """A way to write policies of a class as arrays of numbers, `theta` being `(B, R, A)` for B policies.

    **Attributes:** `mixes`: whether a mixture of two tables is a policy of the same kind; `scale`: by how much a number moves
    in a step, where a logit moves by 1.
    """

    mixes: bool = True
    scale: float = 1.0

    def tables(self, theta: Any) -> Tables:
        """The tables of parameters."""
        ...

    def pull_back(self, theta: Any, tables: Tables, gradient: Any) -> Any:
        """Gradients in the parameters, `(B, …, R, A)`, from gradients in the tables, `(B, …, T, C, A)`."""
        ...

    def bounded(self, theta: Any) -> Any:
        """Parameters of the same policies, none so small that it could not grow again."""
        ...

    def of(self, table: Any, share: float | None = None) -> Any:
        """Parameters `(R, A)` near a table; `InputError` where that is not possible."""
        ...

    def restored(self, array: np.ndarray) -> Any:
        """Parameters of a checkpoint, or what is of their kind, where the optimiser works on them."""
        return array


class TableParameters(Parameters):
    """Softmax logits of the rows that some policy can use; the other rows are those of a base table.

    **Arguments:** `space`; `base`: a table `(T, C, A)`.
    """

    def __init__(self, space: Space, base: Float[np.ndarray, "T C A"]):
        self._space, self._base = space, np.ascontiguousarray(base)
        times, cells, self._actions = space.shape
        is_part = space.is_large or space.on_device is not None
        self.rows: Any = used_rows(space.hidden, times) if is_part else np.arange(times * cells)
        self._whole = len(self.rows) == times * cells
        self.open: Any = (
            space.available[self.rows % cells] if len(self.rows) else np.zeros((0, self._actions), dtype=bool)
        )

    def used(self, gradient: Any) -> Any:
        """The rows of arrays `(…, T, C, A)` that are parameters, `(…, R, A)`."""
        flat = gradient.reshape(*gradient.shape[:-3], gradient.shape[-3] * gradient.shape[-2], self._actions)
        return flat if self._whole else flat.take(self.rows, axis=-2, mode="clip")  # a third of the time of indexing

    def tables(self, theta: Float[np.ndarray, "B R A"]) -> Tables:
        """See `Parameters`."""
        rows = softmax(theta, self.open)
        if self._whole:
            return rows.reshape(len(rows), *self._space.shape)
        result = np.tile(self._base, (len(rows), 1, 1, 1))
        result.reshape(len(rows), -1, self._actions)[:, self.rows] = rows
        return result

    def pull_back(self, theta: Float[np.ndarray, "B R A"], tables: Tables, gradient: Any) -> Any:
        """See `Parameters`: `π (g − Σ π g)` in each row."""
        rows, gradient = self.used(tables), self.used(gradient)
        rows = rows.reshape(len(rows), *(1,) * (gradient.ndim - rows.ndim), *rows.shape[1:])
        mean = np.einsum("...a,...a->...", rows, gradient)[..., None]
        result = np.subtract(gradient, mean, out=None if self._whole else gradient)  # what was taken is a copy
        result *= rows
        return result

    def bounded(self, theta: Any) -> Any:
        """See `Parameters`."""
        xp = array_module(theta)
        return xp.maximum(theta - over_actions(xp.maximum, theta), LOWEST)

    def of(self, table: Float[np.ndarray, "T C A"], share: float | None = None) -> Float[np.ndarray, "R A"]:
        """See `Parameters`."""
        return self.used(logits(self._space, table, share))


def table_parameters(space: Space, base: Float[np.ndarray, "T C A"]) -> TableParameters:
    """The parameters of tables where searches of a class work on them."""
    if space.on_device is None:
        return TableParameters(space, base)
    from .device_layers import DeviceParameters  # imports JAX

    return DeviceParameters(space, base)
