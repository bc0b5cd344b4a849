"""The only home of logarithms of probabilities: exact zeros stay exact, nothing is clamped, everything is in bits."""

import numpy as np
from jaxtyping import Float


def log2_or_zero(values: np.ndarray) -> np.ndarray:
    """`log2(v)` where v > 0, and 0 where v = 0 (the convention `0 · log 0 = 0`)."""
    return np.log2(np.where(values > 0, values, 1.0))  # masked loops (`where=`) would not be vectorised


def natural_log(values: np.ndarray) -> np.ndarray:
    """`ln(v)`, with -inf at exact zeros: the logits of a table of probabilities."""
    return np.log(values, out=np.full_like(values, -np.inf), where=values > 0)


def row_sums(joint: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y"]:
    """`P(y) = Σ_z P(z,y)`; a product, since NumPy's own sum over a short last axis is ten times slower."""
    return joint @ np.ones(joint.shape[-1])


def posteriors(joint: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y Z"]:
    """`P(z|y)` from `P(z,y)`; a row of zeros stays zero."""
    total = row_sums(joint)[..., None]
    return joint / np.where(total > 0, total, 1.0)


def surprisal_bits(joint: Float[np.ndarray, "*Y Z"]) -> Float[np.ndarray, "*Y Z"]:
    """`-log2 P(z|y)`, the slope `∂H/∂P(z,y)` of the conditional entropy; 0 where `P(z,y) = 0`.

    A zero that the policy class keeps at zero contributes nothing to a gradient in the policy's parameters: each path
    into it has probability zero, whatever its slope.
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


def log2_of_count(values: int) -> float:
    """`log2 n`: the most that a secret of n values can hide."""
    return float(np.log2(values))
