"""The logarithms of probabilities that the verifier needs too: exact zeros stay exact, nothing is clamped."""

import numpy as np


def log2_or_zero(values: np.ndarray) -> np.ndarray:
    """`log2(v)` where v > 0, and 0 where v = 0 (the convention `0 · log 0 = 0`)."""
    return np.log2(np.where(values > 0, values, 1.0))  # masked loops (`where=`) would not be vectorised


def natural_log(values: np.ndarray) -> np.ndarray:
    """`ln(v)`, with -inf at exact zeros: the logits of a table of probabilities."""
    return np.log(values, out=np.full_like(values, -np.inf), where=values > 0)


def log2_of_count(values: int) -> float:
    """`log2 n`: the most that a secret of n values can hide."""
    return float(np.log2(values))
