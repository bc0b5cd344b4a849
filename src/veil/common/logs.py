"""The only home of logarithms of probabilities, with `plain_logs.py`: exact zeros stay exact, nothing is clamped, everything is
in bits."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .plain_logs import log2_of_count as log2_of_count
from .plain_logs import log2_or_zero as log2_or_zero
from .plain_logs import natural_log as natural_log

if TYPE_CHECKING:
    import jax

BITS_PER_NAT = float(1 / np.log(2.0))
_FEW_VALUES = 8


def device_log2_or_zero(values: "jax.Array") -> "jax.Array":
    """`log2_or_zero` in JAX."""
    import jax.numpy as jnp

    return jnp.log2(jnp.where(values > 0, values, 1.0))


def device_log(values: "jax.Array") -> "jax.Array":
    """`natural_log` in JAX."""
    import jax.numpy as jnp

    return jnp.log(values)


def soft_maximum(values: Float[np.ndarray, "*Y A"], temperature: float) -> Float[np.ndarray, "*Y"]:
    """`τ ln Σ_a exp(v_a / τ)` of each row, in the unit of the values; the plain maximum at τ = 0.

    It exceeds the maximum by at most `τ ln A`. The largest entry is taken out first, so nothing overflows; -inf stands
    for an action that cannot be taken and adds exactly nothing; a row of them gives -inf.
    """
    largest = np.max(values, axis=-1)
    if temperature == 0:
        return largest
    shift = np.where(np.isfinite(largest), largest, 0.0)
    with np.errstate(over="ignore"):  # at tiny temperatures a quotient passes the floats: it is -inf, and its exp is 0
        total = np.sum(np.exp((values - shift[..., None]) / temperature), axis=-1)
    return shift + temperature * natural_log(total)


def row_sums(joint: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y"]:
    """`P(y) = Σ_z P(z,y)`, column by column or as a product: NumPy's own sum over a short last axis is ten times slower."""
    values = joint.shape[-1]
    if not 0 < values <= _FEW_VALUES:
        return joint @ np.ones(values)
    total = joint[..., 0].copy()
    for value in range(1, values):
        total += joint[..., value]
    return total


def posteriors(joint: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y Z"]:
    """`P(z|y)` from `P(z,y)`; a row of zeros stays zero."""
    total = row_sums(joint)[..., None]
    return joint / np.where(total > 0, total, 1.0)


def surprisal_bits(joint: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y Z"]:
    """`-log2 P(z|y)`, the derivative `∂H/∂P(z,y)` of the conditional entropy; 0 where `P(z,y) = 0`.

    A zero that the policy class keeps at zero contributes nothing to a gradient in the policy's parameters: each path
    into it has probability zero, so its derivative is never used.
    """
    return -log2_or_zero(posteriors(joint))


def conditional_entropy_bits(joint: Float[np.ndarray, "*Y Z"]) -> float:
    """`H(Z|Y) = -Σ P(z,y) log2 P(z|y)` of a table of non-negative weights (homogeneous: it need not sum to one)."""
    return float(np.vdot(joint, surprisal_bits(joint)))


def entropy_bits(distribution: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y"]:
    """`H = -Σ_z p log2 p` of each row."""
    return 0.0 - np.sum(distribution * log2_or_zero(distribution), axis=-1)  # not -0.0 for a certain value


def divergence_bits(rows: Float[np.ndarray, "*Y Z"], base: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y"]:
    """`KL(row || base) = Σ_z p log2(p / q)` of each row; base must be positive wherever the row is."""
    return np.sum(rows * (log2_or_zero(rows) - log2_or_zero(base)), axis=-1)


def leakage_bits(before: float, after: float) -> float:
    """`log2(after / before)`: how many bits the probability of a right guess has grown by."""
    return float(np.log2(after) - np.log2(before)) if before > 0 else 0.0


def log2_error(value: float, error: float) -> float:
    """The standard error of `log2 x` from that of x, to first order; 0 where x is exact."""
    return float(error / (value * np.log(2.0))) if error > 0 else 0.0


def probability_of_bits(bits: float) -> float:
    """`2^bits`: the probability whose logarithm this is; 0 where that is too small for a float."""
    return float(np.exp2(bits))


def arimoto_bits(order: float, norm: float) -> float:
    """`α/(1−α) · log2 x`: Rényi's entropy of order α, or Arimoto's conditional one, from the (mean) α-norm x."""
    factor = -1.0 if np.isinf(order) else order / (1 - order)
    return float(factor * np.log2(norm)) + 0.0  # not -0.0 for a certain value


def soft_maximum_bits(scores: Float[np.ndarray, "A n"]) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "A n"]]:
    """`log2 Σ_a 2^s(a)` down each column, and the weights `2^s(a) / Σ 2^s` that attain it; -inf gives an exact zero.

    Each column needs a finite score. `scores` is overwritten: it is the largest array of a backward induction.
    """
    top = scores.max(axis=0)
    scores -= top
    weights = np.exp2(scores, out=scores)
    total = weights.sum(axis=0)
    weights /= total
    return top + np.log2(total), weights


def log2_of_actions(available: np.ndarray) -> np.ndarray:
    """`-log2(number of available actions)` where an action is available, -inf elsewhere: a uniform choice in bits."""
    count = available.sum(axis=-1, keepdims=True)
    return np.where(available, -np.log2(count), -np.inf)


def code_lengths_bits(rule: np.ndarray) -> np.ndarray:
    """`-log2 q`, infinite at exact zeros: what an inference rule pays when the secret turns out to be z."""
    lengths = -log2_or_zero(rule)
    return np.where(rule > 0, lengths, np.inf)


def log2_of_tables(probabilities: np.ndarray) -> np.ndarray:
    """`log2 π(a)`, with -inf at exact zeros: a policy as the prior of a soft choice."""
    return np.where(probabilities > 0, log2_or_zero(probabilities), -np.inf)


def mean_log_ratio_bits(weights: np.ndarray, above: np.ndarray, below: np.ndarray) -> float:
    """`Σ w log2(above / below)` of positive numbers: a divergence or an information, term by term."""
    return float(weights @ (np.log2(above) - np.log2(below)))
