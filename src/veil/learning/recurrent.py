"""A recurrent network that predicts a secret from a sequence of observations, in JAX with numbers of 32 bits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from ..common.logs import natural_log

Params = dict[str, Any]
Inputs = Int[np.ndarray, "n L"] | Float[np.ndarray, "n L F"]
_FLOAT = jnp.float32
_ROWS = 512  # that are predicted at a time
_GATES = 3


def begin(
    generator: np.random.Generator,
    num_inputs: int,
    longest: int,
    shares: Float[np.ndarray, " Z"],
    hidden: int,
    *,
    symbols: bool,
) -> Params:
    """The parameters of a network that predicts about the shares, whatever it reads.

    **Arguments:** `num_inputs`: symbols, or numbers at each time; `longest`: the most times; `hidden`: units of the gated
    recurrent layer.
    """
    scale = 1.0 if symbols else 1 / np.sqrt(num_inputs)
    found = {
        "read": scale * generator.normal(size=(num_inputs + symbols, hidden)),
        "time": np.zeros((longest, hidden)),
        "in": np.concatenate([orthogonal(generator, hidden, hidden) for _ in range(_GATES)], axis=1),
        "keep": np.concatenate([orthogonal(generator, hidden, hidden) for _ in range(_GATES)], axis=1),
        "bias": np.zeros(_GATES * hidden),
        "out": 0.1 / np.sqrt(hidden) * generator.normal(size=(2 * hidden, len(shares))),
        "prior": natural_log(shares),
    }
    return {name: array.astype(np.float32) for name, array in found.items()}


def orthogonal(generator: np.random.Generator, rows: int, columns: int) -> Float[np.ndarray, "rows columns"]:
    """A random matrix whose shorter side is orthonormal: it neither shrinks nor stretches what passes through."""
    basis, upper = np.linalg.qr(generator.normal(size=(max(rows, columns), min(rows, columns))))
    basis = basis * np.sign(np.diag(upper))
    return basis if rows >= columns else basis.T


def log_chances(params: Params, inputs: jax.Array, lengths: jax.Array) -> Float[jax.Array, "n Z"]:
    """`ln q(z | y)` of each sequence: a gated recurrent layer (Cho et al., 2014), then its last and its mean state.

    **Arguments:** `inputs`: symbols, `(n, L)`, -1 behind the end, or numbers, `(n, L, F)`; `lengths` of the sequences.
    """
    is_symbol = jnp.issubdtype(inputs.dtype, jnp.integer)
    read = params["read"][inputs + 1] if is_symbol else inputs @ params["read"]
    drive = (read + params["time"]) @ params["in"] + params["bias"]
    inside = jnp.arange(inputs.shape[1])[:, None] < lengths

    def step(carry: tuple[jax.Array, jax.Array], now: tuple[jax.Array, jax.Array]):
        state, total = carry
        driven, here = now
        kept = state @ params["keep"]
        reset, update, fresh = jnp.split(driven, _GATES, axis=1)
        reset_kept, update_kept, fresh_kept = jnp.split(kept, _GATES, axis=1)
        gate = jax.nn.sigmoid(update + update_kept)
        new = gate * state + (1 - gate) * jnp.tanh(fresh + jax.nn.sigmoid(reset + reset_kept) * fresh_kept)
        state = jnp.where(here[:, None], new, state)
        return (state, total + jnp.where(here[:, None], state, 0)), None

    zero = jnp.zeros((len(inputs), params["keep"].shape[0]), _FLOAT)
    (last, total), _ = jax.lax.scan(step, (zero, zero), (jnp.swapaxes(drive, 0, 1), inside))
    mean = total / jnp.maximum(lengths, 1)[:, None]
    return jax.nn.log_softmax(jnp.concatenate([last, mean], axis=1) @ params["out"] + params["prior"])


@jax.jit
def _predicted(params: Params, inputs: jax.Array, lengths: jax.Array) -> jax.Array:
    return log_chances(params, inputs, lengths)


def predict(params: Params, inputs: Inputs, lengths: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n Z"]:
    """The probabilities of the values after each sequence, of 64 bits, each row with the sum 1."""
    found = []
    for first in range(0, len(inputs), _ROWS):
        part, ends = inputs[first : first + _ROWS], lengths[first : first + _ROWS]
        short = _ROWS - len(part)  # every part has one shape, which is compiled once
        part = np.concatenate([part, np.repeat(part[:1], short, axis=0)])
        ends = np.concatenate([ends, np.repeat(ends[:1], short)])
        rows = np.asarray(_predicted(params, part, ends.astype(np.int32)), dtype=np.float64)
        found.append(rows[: len(rows) - short])
    chances = np.exp(np.concatenate(found))
    return chances / chances.sum(axis=1, keepdims=True)


class Learner:
    """A network with the state of its optimiser (Adam with weight decay).

    **Arguments:** `params`: where it begins; `rate`: the learning rate, which may be changed.
    """

    def __init__(self, params: Params, rate: float):
        self.params, self.rate, self.state = params, rate, _RULE.init(params)

    def learn(
        self,
        inputs: Inputs,
        lengths: Int[np.ndarray, " n"],
        secret: Int[np.ndarray, " n"],
        batch: int,
        generator: np.random.Generator,
    ) -> None:
        """Go through all sequences once, in a random order, but for those that do not fill the last batch."""
        size, order = min(batch, len(secret)), generator.permutation(len(secret))
        for first in range(0, len(secret) - size + 1, size):
            rows = order[first : first + size]
            given = inputs[rows], lengths[rows].astype(np.int32), secret[rows].astype(np.int32)
            self.params, self.state = _step(self.params, self.state, *given, np.float32(self.rate))


_RULE = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(1e-4))


@jax.jit
def _step(params: Params, state: Any, inputs: Any, lengths: Any, secret: Any, rate: Any) -> tuple[Params, Any]:
    def loss(params: Params) -> jax.Array:
        return -log_chances(params, inputs, lengths)[jnp.arange(len(secret)), secret].mean()

    change, state = _RULE.update(jax.grad(loss)(params), state, params)
    return jax.tree.map(lambda old, new: old - rate * new, params, change), state


def fitted(
    inputs: Inputs,
    lengths: Int[np.ndarray, " n"],
    secret: Int[np.ndarray, " n"],
    num_values: int,
    num_inputs: int,
    seed: int,
    *,
    hidden: int = 32,
    epochs: int = 40,
    patience: int = 3,
    batch: int = 128,
    rate: float = 4e-3,
) -> Params:
    """A network fitted to pairs; a seventh of them decides when to stop and is not fitted on.

    Cost: at most `epochs` passes over the pairs.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(secret))
    kept, used = order[: len(order) // 7], order[len(order) // 7 :]
    shares = np.bincount(secret[used], minlength=num_values) + 0.5
    params = begin(generator, num_inputs, inputs.shape[1], shares / shares.sum(), hidden, symbols=inputs.ndim == 2)
    best, least, waited = params, _code_length(params, inputs[kept], lengths[kept], secret[kept]), 0
    for number in range(3):  # a third of the rate each time that more of it does not help
        learner, waited = Learner(best, rate / 3**number), 0
        for _ in range(epochs):
            learner.learn(inputs[used], lengths[used], secret[used], batch, generator)
            found = _code_length(learner.params, inputs[kept], lengths[kept], secret[kept])
            waited = 0 if found < least else waited + 1
            if found < least:
                best, least = learner.params, found
            if waited >= patience:
                break
    return best


def _code_length(params: Params, inputs: Inputs, lengths: np.ndarray, secret: np.ndarray) -> float:
    chances = predict(params, inputs, lengths)[np.arange(len(secret)), secret]
    return float(-natural_log(np.maximum(chances, 1e-30)).mean())
