"""One first-order step: Adam's for the objective, corrected so that linearised bounds hold.

With a momentum m of the objective's gradient, Jacobian J of the slacks s, and Adam's diagonal metric D, the step is

    d = argmax  m·d − ½ dᵀ D⁻¹ d   subject to  J d ≥ −s  where s ≥ 0,  and  J d ≥ −κ s  where s < 0,

that is `d = D (m + Jᵀ μ)` with multipliers μ ≥ 0 from a small quadratic program, one number for each bound. So a policy inside
of its bounds may move up to them, one outside of them comes back by the share κ of what it misses in each step, and μ is the
price of each bound: no penalty has to be guessed. Slacks of the least of several channels have weights that sum to one instead.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls

from .backend import array_module
from .parameters import ROUNDED, over_actions

MEMORY = {False: (2, 10), True: (10, 100)}
"""Steps over which Adam averages gradients and their squares, of exact values and of samples: exact gradients need little
momentum, with more they end in poorer optima (measured on small problems; on floors of rooms neither matters much)."""
DECAYS = {noisy: (1 - 1 / mean, 1 - 1 / square) for noisy, (mean, square) in MEMORY.items()}
RETURNED = 1 / MEMORY[True][0]
"""κ: the share of a missed bound that a step makes good: all of it in about as many steps as gradients are averaged over (0.03
to 0.5 were equally good on floors of rooms)."""
_LONGEST = 3.0  # times the rate, that a logit moves at most in one step: Adam alone moves it by about the rate
_SMOOTHED = 0.05  # share of a new multiplier in the mean that is kept: about the last 20 steps
_EQUAL = 1e4  # weight of the equation of weights that sum to one, in a least-squares problem of numbers about 1


@dataclass(frozen=True, eq=False)
class Moments:
    """What Adam remembers of B policies, and the mean multipliers.

    **Attributes:** `mean`: of the gradients of the score and of each noisy slack, `(B, 1 + n, R, A)`; `square`: mean square of
    the objective's gradient, `(B, R, A)`; `multiplier`, `(B, K)`; `count`: steps so far.
    """

    mean: Any
    square: Any
    multiplier: Float[np.ndarray, "B K"]
    count: int

    @staticmethod
    def none(theta: Any, noisy: Bool[np.ndarray, " K"], num_least: int) -> "Moments":
        """Before the first step from parameters `(B, R, A)`."""
        first = np.zeros((len(theta), len(noisy)))
        first[:, :num_least] = 1 / max(1, num_least)
        zeros = 0 * theta[:, None]
        mean = zeros if not noisy.any() else np.repeat(zeros, 1 + int(noisy.sum()), axis=1)
        return Moments(mean, 0 * theta, first, 0)


def first_order_step(
    moments: Moments,
    gradient: Any,
    slack: Float[np.ndarray, "B K"],
    jacobian: Any,
    noisy: Bool[np.ndarray, " K"],
    *,
    rate: float,
    decays: tuple[float, float],
    num_least: int = 0,
    returned: float = RETURNED,
) -> tuple[Any, Moments]:
    """The step of parameters `(B, R, A)`, and the moments after it.

    **Arguments:** `gradient` of the score, `(B, R, A)`; `slack`, `(B, K)`; `jacobian`: gradients of the slacks, `(B, K, R, A)`;
    `noisy`: which slacks are estimates, whose gradients are averaged over steps; `rate` and `decays`: Adam's; `returned`:
    the share of a missed bound that the step makes good.

    Cost: linear in the parameters times `K²`; a quadratic program of K numbers for each policy.
    """
    (first, second), count = decays, moments.count + 1
    before = np.clip(moments.multiplier, 0.0, None)
    weighted, seen = gradient, gradient[:, None]
    if noisy.any():
        seen = _joined(seen, jacobian[:, noisy])
        weighted = gradient + _combined(before[:, noisy], seen[:, 1:])
    mean = first * moments.mean + (1 - first) * seen
    square = second * moments.square + (1 - second) * weighted * weighted
    metric = _metric(square / (1 - second**count), rate)
    objective, bounds = mean[:, 0] / (1 - first**count), jacobian
    if noisy.any():
        bounds = _joined(mean[:, 1:] / (1 - first**count), jacobian[:, ~noisy])  # noisy slacks come first
    found = _multipliers(metric, objective, bounds, np.clip(slack, None, 1 / ROUNDED), num_least, returned)
    step = metric * (objective + _combined(found, bounds)) if found.shape[1] else metric * objective
    step = step * _shortened(step, _LONGEST * rate)
    share = 1.0 if not moments.count else _SMOOTHED
    return step, Moments(mean, square, moments.multiplier + share * (found - moments.multiplier), count)


def _shortened(step: Any, longest: float) -> Any:
    """The factors that leave no logit a longer step."""
    size = over_actions(array_module(step).maximum, abs(step))
    return longest / (longest + (size - longest).clip(0.0))


def _metric(square: Any, rate: float) -> Any:
    """Adam's metric; where a gradient is nothing beside the others it is bounded, and all are equal where all are 0."""
    largest = square.reshape(len(square), -1).max(axis=1)[:, None, None]
    floor = 1e-12 * largest + 1e-200 * (largest == 0)
    return rate / (square + floor) ** 0.5


def _multipliers(
    metric: Any,
    objective: Any,
    bounds: Any,
    slack: Float[np.ndarray, "B K"],
    num_least: int,
    returned: float,
) -> Float[np.ndarray, "B K"]:
    """The multipliers of the step: `argmin ½ μᵀ (J D Jᵀ) μ − qᵀ μ` with `q = wanted − J D m`, over possible ones."""
    count = slack.shape[1]
    if not count:
        return slack
    flat = bounds.reshape(len(slack), count, -1)
    scaled = metric.reshape(len(slack), 1, -1) * flat
    forms = np.asarray(scaled @ flat.swapaxes(1, 2), dtype=float)
    gained = np.asarray((scaled @ objective.reshape(len(slack), -1, 1))[..., 0], dtype=float)
    wanted = np.where((slack > 0) | (np.arange(count) < num_least), -slack, -returned * slack)
    if count == 1 and not num_least:
        form = forms[:, 0]
        return np.where(form > 0, np.maximum(0.0, wanted - gained) / np.where(form > 0, form, 1.0), 0.0)
    pairs = zip(forms, wanted - gained, strict=True)
    return np.stack([_program(form, linear, num_least) for form, linear in pairs])


def _program(
    form: Float[np.ndarray, "K K"], linear: Float[np.ndarray, " K"], num_least: int
) -> Float[np.ndarray, " K"]:
    """`argmin ½ μᵀ Q μ − qᵀ μ` over μ ≥ 0, the first `num_least` of which sum to one, as non-negative least squares."""
    sizes = np.sqrt(np.diag(form))
    size = sizes.max()
    if not np.isfinite(form).all() or size == 0:
        return np.where(np.arange(len(form)) < num_least, 1 / max(1, num_least), 0.0)
    # Units in which the program is of numbers about 1; weights keep one unit, since they are added up.
    units = np.maximum(sizes, 1e-9 * size)
    units[:num_least] = units[:num_least].max(initial=0.0) or 1.0
    form, linear = form / units[:, None] / units, linear / units
    try:
        root = cholesky(form + 1e-10 * np.eye(len(form)), lower=True)
    except LinAlgError:
        root = np.diag(np.sqrt(np.diag(form) + 1e-10))
    rows, target = root.T, solve_triangular(root, linear, lower=True)
    if num_least:
        equation = np.where(np.arange(len(form)) < num_least, 1.0, 0.0)
        weight = _EQUAL * max(1.0, float(np.abs(target).max()) / max(1.0, units[0]))
        rows = np.vstack([rows, weight * equation])
        target = np.append(target, weight * units[0])
    try:
        found = nnls(rows, target)[0] / units
    except RuntimeError:  # it did not converge
        found = np.maximum(0.0, linear) / units
    if num_least:
        total = found[:num_least].sum()
        found[:num_least] = found[:num_least] / total if total > 0 else 1 / num_least
    return found


def _combined(weights: Float[np.ndarray, "B K"], arrays: Any) -> Any:
    """`Σ_k weights_k arrays_k` for each policy."""
    total = 0.0
    for number in range(weights.shape[1]):
        total = total + weights[:, number, None, None].astype(arrays.dtype) * arrays[:, number]
    return total


def _joined(one: Any, other: Any) -> Any:
    """Two arrays along the second axis, on the host or on a device."""
    return array_module(one).concat([one, other], axis=1) if other.shape[1] else one
