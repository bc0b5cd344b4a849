"""Opacity and return as differentiable functions in JAX, of tables of probabilities or of logits.

JAX is imported when a function is made: it is an extra, `pip install 'veil[jax]'`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects
from ..common.errors import InputError
from ..engine.additive import sums_and_gradients
from ..engine.chain import Chain, make_chain
from ..engine.device import without_accelerator
from ..engine.joint import DEFAULT_MEMORY
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..policy.memories import Memory
from ..policy.memory import MemoryPolicy
from ..policy.tables import divided_rows, softmax_pull_back
from ..policy.tabular import TablePolicy
from ..problem.pairs import OWN
from ..problem.problem import Problem, check_problem
from .evaluate import acting_policy
from .exact import Budget
from .ladder import Method, Settings, measure, seconds_of

if TYPE_CHECKING:
    import jax

Table = Float[np.ndarray, "*T C A"]
Value = Callable[[Chain, int], float]
WithGradient = Callable[[Chain, int], tuple[float, Float[np.ndarray, "T C A"]]]


Loss = Callable[..., "jax.Array"]
"""`loss(table, seed=0)`: a scalar of the table's precision. `seed`, which may be traced, is of drawn sequences."""


def opacity(
    problem: Problem,
    *,
    logits: bool = False,
    method: Method = "auto",
    pair: str = OWN,
    memory: Memory | None = None,
    width: float = 1e-3,
    sequences: int = 2000,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
) -> Loss:
    """The opacity `H(Z|Y)` in bits as a function that `jax.grad`, `jax.jit` and `jax.vmap` take.

    The value and its gradient come from veil's own passes, called back on the host in float64, whatever the precision of the
    table; a forward pass whose gradient is wanted computes both at once. Both are cast to the table's precision at the end.
    Rows of probabilities are divided by their sums, so that the gradient has no part along a row's sum; they may miss 1 by what
    rounding leaves, `A` times the precision of the table's type. Logits are softmax parameters, -inf for an action that is
    never taken.

    **Arguments:**

    - `logits`: whether the table holds logits; probabilities by default.
    - `method`: as for `veil.opacity`. With `"sampled"` the seed of a call decides the sequences: pass another one in each step
      of a stochastic search, `loss(table, step)`. The gradient is then unbiased; that of a bracket is that of its lower bound.
    - `memory`: what the policy remembers; the rows are then those of `MemoryPolicy.uniform(problem, memory).probabilities`.
    - `pair`, `width`, `sequences`, `memory_bytes`, `time_limit`: as for `veil.opacity`.

    **Returns:** `loss(table, seed=0)`, for tables `(S, A)` or `(T, S, A)`.

    Cost: as `veil.opacity_gradient`, and a copy of the table to the host and back.

    **Raises:** `InputError`. An error within a call, such as rows that do not sum to 1, reaches a compiled function as JAX's
    own error with the message in it.
    """
    check_problem(problem)
    problem.channel(pair)

    def settings(seed: int) -> Settings:
        return Settings(method, Budget(memory_bytes, seconds_of(method, time_limit)), width, sequences, None, seed)

    settings(0)  # says at once what is wrong

    def value(chain: Chain, seed: int) -> float:
        return measure(chain, settings(seed)).opacity.bits

    def with_gradient(chain: Chain, seed: int) -> tuple[float, np.ndarray]:
        found, slope = measure(chain, settings(seed), gradient=True)
        assert slope is not None
        return found.bits, slope

    return _differentiable(_Tables(problem, pair, memory, logits), value, with_gradient)


def expected_return(problem: Problem, *, logits: bool = False, memory: Memory | None = None) -> Loss:
    """The expected return as a function that JAX differentiates; exact. For constraints beside `opacity`.

    **Arguments:** `logits`, `memory`: as for `opacity`.
    """
    check_problem(problem)

    def with_gradient(chain: Chain, seed: int) -> tuple[float, np.ndarray]:
        hidden = chain.hidden
        values, slopes = sums_and_gradients(hidden, chain.table[None], hidden.paid[:1], stationary=chain.stationary)
        return float(values[0, 0]), slopes[0, 0]

    def value(chain: Chain, seed: int) -> float:
        return with_gradient(chain, seed)[0]

    return _differentiable(_Tables(problem, OWN, memory, logits), value, with_gradient)


@dataclass(frozen=True)
class _Tables:
    """How the tables of a function are read."""

    problem: Problem
    pair: str
    memory: Memory | None
    logits: bool

    def chain(self, table: np.ndarray) -> tuple[Chain, TablePolicy]:
        """The chain that the policy of a table drives, and the policy."""
        policy = self.policy(table)
        return make_chain(self.problem, policy, pair=self.pair), policy

    def pull_back(self, policy: TablePolicy, slope: Float[np.ndarray, "T C A"]) -> Table:
        """The gradient in what was given, from the one in the policy's table.

        Of probabilities that were divided by their sums, `Σ = 1` up to rounding: `g − Σ_a π(a) g(a)`.
        """
        if self.logits:
            found = softmax_pull_back(policy.table, slope)
        else:
            found = slope - np.sum(policy.table * slope, axis=-1, keepdims=True)
        return found if policy.timed else found[0]

    def policy(self, table: np.ndarray) -> TablePolicy:
        """The policy of a table. Raises `InputError` where it is none."""
        if self.logits:
            return acting_policy(self.problem, table, self.memory)
        defects = Defects("table")
        rows = divided_rows(table, defects)
        defects.raise_if_any()
        assert rows is not None
        if self.memory is not None:
            return MemoryPolicy(self.memory, rows)
        return (TimedPolicy if rows.ndim == 3 else MarkovPolicy)(rows)


def _differentiable(tables: _Tables, value: Value, with_gradient: WithGradient) -> Loss:
    """The function with its gradient, both called back on the host."""
    try:
        import jax
        import jax.numpy as jnp
        from jax.core import Tracer
    except ImportError as error:
        raise InputError("veil.jax", ["it needs JAX: pip install 'veil[jax]'"]) from error

    def host_value(table: np.ndarray, seed: np.ndarray) -> np.ndarray:
        given = np.asarray(table)
        with without_accelerator():
            chain, _ = tables.chain(given)
            return np.asarray(value(chain, int(seed)), dtype=given.dtype)

    def host_both(table: np.ndarray, seed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        given = np.asarray(table)
        with without_accelerator():
            chain, policy = tables.chain(given)
            found, slope = with_gradient(chain, int(seed))
        return np.asarray(found, dtype=given.dtype), tables.pull_back(policy, slope).astype(given.dtype)

    called = partial(jax.pure_callback, vmap_method="sequential")

    @jax.custom_vjp
    def bits(table: jax.Array, seed: jax.Array) -> jax.Array:
        return called(host_value, jax.ShapeDtypeStruct((), table.dtype), table, seed)

    def forward(table: jax.Array, seed: jax.Array) -> tuple[jax.Array, jax.Array]:
        shapes = jax.ShapeDtypeStruct((), table.dtype), jax.ShapeDtypeStruct(table.shape, table.dtype)
        found, slope = called(host_both, shapes, table, seed)
        return found, slope

    def backward(slope: jax.Array, gradient: jax.Array) -> tuple[jax.Array, np.ndarray]:
        return gradient * slope, np.zeros((), dtype=jax.dtypes.float0)  # a seed is a whole number: it has no gradient

    bits.defvjp(forward, backward)

    def loss(table: jax.Array, seed: int | jax.Array = 0) -> jax.Array:
        try:
            given = jnp.asarray(table)
        except (TypeError, ValueError) as error:
            raise InputError("table", [f"found {table!r:.60}, expected floats (S, A) or (T, S, A)"]) from error
        if given.ndim not in (2, 3) or not jnp.issubdtype(given.dtype, jnp.floating):
            found = f"an array of {given.dtype} of shape {given.shape}"
            raise InputError("table", [f"found {found}, expected floats (S, A) or (T, S, A)"])
        if not isinstance(given, Tracer):
            tables.policy(np.asarray(given)).check(tables.problem)  # within a compiled function JAX wraps its errors
        return bits(given, jnp.asarray(seed, dtype=jnp.int32))

    return loss
