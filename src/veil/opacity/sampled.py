"""Opacity estimated from sampled observation sequences, with its standard error and an unbiased gradient."""

import numpy as np
from jaxtyping import Float, Int

from ..engine.chain import Chain
from ..engine.columns import ColumnPass
from ..engine.sampling import draw_events
from ..engine.sequences import SequencePass
from ..logs import entropy_bits, log2_of_count, log2_or_zero
from ..problem.checks import Defects
from .result import Opacity

_CHUNK = 4096  # sequences at a time; memory stays bounded whatever their number
_MOST = 10_000_000


def check_settings(sequences: int | None, std_error: float | None, seed: int) -> None:
    """Raise `InputError` unless the settings of a sampled estimate make sense."""
    defects = Defects("sampled opacity")
    if sequences is not None and (not isinstance(sequences, (int, np.integer)) or sequences < 2):
        defects.add(f"sequences is {sequences!r}, expected a whole number, 2 or more")
    if std_error is not None and not std_error > 0:
        defects.add(f"std_error is {std_error!r}, expected bits above 0, or None")
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    defects.raise_if_any()


def sequence_pass(
    chain: Chain, events: Int[np.ndarray, "k T+1"], *, gradient: bool, memory_bytes: int
) -> SequencePass | ColumnPass:
    """Posteriors along sequences by the pass that suits the chain: shared prefixes if dense, columns if sparse."""
    kind = ColumnPass if chain.hidden.kernel.is_sparse else SequencePass
    return kind(chain, events, gradient=gradient, memory_bytes=memory_bytes)


def sampled_opacity(
    chain: Chain,
    *,
    sequences: int = 2000,
    std_error: float | None = None,
    seed: int = 0,
    memory_bytes: int = 2**30,
    reason: str = "",
) -> Opacity:
    """The mean of `h(y) = H(Z|Y=y)` over sampled y (the paper's estimator of the value), unbiased.

    **Arguments:** `sequences`: how many to draw; with `std_error`, draws more, in chunks, until the standard error is at
    most that. The estimate's `lower` and `upper` are the trivial bounds 0 and `H(Z)`: a sample proves nothing.

    Cost: `O(T · sequences · nnz(P))`; memory does not grow with the number of sequences.
    """
    generator = np.random.default_rng(seed)
    count, total, squares = 0, 0.0, 0.0
    while True:
        size = _next_chunk(chain, count, sequences, memory_bytes)
        result = sequence_pass(
            chain, draw_events(chain, size, generator), gradient=False, memory_bytes=memory_bytes
        ).result
        bits = entropy_bits(result.posterior)
        count += size
        total += float(result.count @ bits)
        squares += float(result.count @ bits**2)
        error = _standard_error(count, total, squares)
        if count >= sequences and (std_error is None or error <= std_error or count >= _MOST):
            return _result(chain, total / count, error, count, reason)


def sampled_gradient(
    chain: Chain, *, sequences: int = 2000, seed: int = 0, memory_bytes: int = 2**30, reason: str = ""
) -> tuple[Opacity, Float[np.ndarray, "T C A"]]:
    """The sampled opacity and an unbiased estimate of its slope in the policy's table.

    The slope is that of `(1/M) Σ_k [h(y_k) + stop(h(y_k) − b_k) · log P(y_k)]` with `b_k` the mean of `h` over the *other*
    sequences of its chunk: independent of `y_k`, so the estimate stays unbiased, and of lower variance as a rule.
    """
    generator = np.random.default_rng(seed)
    slope = np.zeros(chain.table.shape)
    count, total, squares = 0, 0.0, 0.0
    while count < sequences:
        size = _next_chunk(chain, count, sequences, memory_bytes)
        run = sequence_pass(chain, draw_events(chain, size, generator), gradient=True, memory_bytes=memory_bytes)
        result = run.result
        bits = entropy_bits(result.posterior)
        chunk = float(result.count @ bits)
        baseline = (chunk - bits) / (size - 1) if size > 1 else np.zeros_like(bits)
        # P(y) ∂/∂P(z,y) of h(y) is -log2 P(z|y) − h(y), and of stop(h − b) log P(y) it is h(y) − b: h cancels.
        surprisal = -log2_or_zero(result.posterior)
        weight = result.count / sequences
        slope += run.pull_back(weight[:, None] * np.where(result.posterior > 0, surprisal - baseline[:, None], 0.0))
        count += size
        total += chunk
        squares += float(result.count @ bits**2)
    return _result(chain, total / count, _standard_error(count, total, squares), count, reason), slope


def _next_chunk(chain: Chain, count: int, sequences: int, memory_bytes: int) -> int:
    """Whole chunks, the last one never a single sequence, which would have no others for its baseline."""
    kept = min(chain.hidden.horizon, 2 * chain.hidden.horizon**0.5) + 8  # messages of a sequence, with checkpoints
    most = int(max(2, min(_CHUNK, memory_bytes // (8 * kept * chain.hidden.num_states))))
    left = sequences - count
    if left <= 0:
        return most
    return left if left <= most + 1 else most


def _standard_error(count: int, total: float, squares: float) -> float:
    variance = max(0.0, squares / count - (total / count) ** 2)
    return float(np.sqrt(variance / (count - 1)))


def _result(chain: Chain, bits: float, error: float, count: int, reason: str) -> Opacity:
    prior = float(entropy_bits(chain.prior))
    most = min(prior, log2_of_count(chain.hidden.label.shape[1]))
    return Opacity(
        bits=bits,
        lower=0.0,
        upper=most,
        prior_bits=prior,
        method="sampled",
        num_sequences=count,
        std_error=error,
        reason=reason or f"{count:,} sampled sequences",
    )
