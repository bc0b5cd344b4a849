"""The contenders of `gradient` that differentiate automatically: a batched filter in JAX, and dynamax's."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

# (chain (S, S), initial (S,), emissions (O, S), events (T+1, n)) -> last filtered distribution (n, S), log P(y) (n,)
Filter = Callable[[Any, Any, Any, Any], tuple[Any, Any]]


def scan_filter(chain: Any, initial: Any, emissions: Any, events: Any) -> tuple[Any, Any]:
    """A scaled filter over all sequences at once, one matrix product a step."""
    import jax
    import jax.numpy as jnp

    def scaled(rows: Any) -> tuple[Any, Any]:
        total = rows.sum(axis=1)
        return rows / total[:, None], jnp.log(total)

    def step(carry: Any, event: Any) -> tuple[Any, None]:
        rows, logs = carry
        rows, more = scaled((rows @ chain) * emissions[event])
        return (rows, logs + more), None

    first = scaled(initial * emissions[events[0]])
    (rows, logs), _ = jax.lax.scan(step, first, events[1:])
    return rows, logs


def dynamax_filter(chain: Any, initial: Any, emissions: Any, events: Any) -> tuple[Any, Any]:
    """dynamax's `hmm_filter`, vmapped over the sequences."""
    import jax
    import jax.numpy as jnp

    hmm_filter = importlib.import_module("dynamax.hidden_markov_model").hmm_filter
    log_likelihoods = jnp.log(emissions)[events.T]  # (n, T+1, S)
    found = jax.vmap(lambda logs: hmm_filter(initial, chain, logs))(log_likelihoods)
    return found.filtered_probs[:, -1], found.marginal_loglik


def surrogate_gradient(
    make: Filter,
    transitions: np.ndarray,
    emissions: np.ndarray,
    initial: np.ndarray,
    inside: np.ndarray,
    theta: np.ndarray,
    events: np.ndarray,
) -> Callable[[], np.ndarray]:
    """The gradient in theta of `(1/M) Σ_k [h(y_k) + stop(h(y_k) − b_k) · log P(y_k)]`, as a call without arguments.

    **Arguments:** `transitions`, `(S, A, S)`; `emissions`, `(S, O)`; `inside`, `(S,)`, the secret states; `events`,
    `(M, T+1)`. Arrays are on the device before the clock starts; the first call compiles.
    """
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    label = np.stack([~inside, inside], axis=1).astype(float)

    def surrogate(theta: Any, transitions: Any, emissions: Any, initial: Any, label: Any, events: Any) -> Any:
        chain = jnp.einsum("ian,ia->in", transitions, jax.nn.softmax(theta, axis=1))
        last, logs = make(chain, initial, emissions, events)
        posterior = last @ label
        # Both branches are finite, so that no NaN leaks into the gradient.
        safe = jnp.where(posterior > 0, posterior, 1.0)
        bits = -(posterior * jnp.log2(safe)).sum(axis=1)
        others = (bits.sum() - bits) / (len(bits) - 1)
        return jnp.mean(bits + jax.lax.stop_gradient(bits - others) * logs)

    arrays = transitions, np.ascontiguousarray(emissions.T), initial, label, np.ascontiguousarray(events.T)
    placed = [jax.device_put(array) for array in (theta, *arrays)]
    compiled = jax.jit(jax.grad(surrogate))
    return lambda: np.asarray(compiled(*placed))
