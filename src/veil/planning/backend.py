"""What a channel hides under tables of a class, as a search asks for it: one contract for trees, walks, windows and samples."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..common.workers import ALONE, Team

if TYPE_CHECKING:
    from ..engine.batch import BatchTree
    from ..engine.string_walk import StringBatch
    from .policy_class import Space

Tables = Float[np.ndarray, "B T C A"]
Ends = tuple[float, float]
UNBOUNDED = (-np.inf, np.inf)

ALL_AT_ONCE = sys.maxsize
"""Tables of one share where all are evaluated side by side."""

PER_ENTRY = 3e-9
"""Seconds for each transition of each sequence and step of a pass (measured on one core)."""

STEP_SECONDS = 3e-4
"""Seconds for each decision of a pass of any size (measured on one core)."""

LEAST_SECONDS = 1e-3
"""Of any evaluation."""

_SPREAD_SECONDS = 0.1  # of an evaluation, from which it is worth the few milliseconds that its messages to workers take


class Draw(NamedTuple):
    """Which random sequences an evaluation uses: how many, and the seed. The same draw makes tables comparable."""

    sequences: int
    seed: int


@dataclass(frozen=True, eq=False)
class Estimate:
    """Values of B tables, their gradients in the tables, and the standard errors of the values, 0 where they are exact."""

    values: Float[np.ndarray, " B"]
    gradient: Any
    errors: Float[np.ndarray, " B"]

    @staticmethod
    def exact(values: Float[np.ndarray, " B"], gradient: Any) -> "Estimate":
        """Without an error."""
        return Estimate(values, gradient, np.zeros(len(values)))


Evaluate = Callable[[Tables, Clock, Draw | None, bool], Estimate]


@dataclass(frozen=True, eq=False)
class Backend:
    """A way to evaluate the bits of tables and their gradients; larger is more opaque.

    **Attributes:** `evaluate`: the estimate of each table, while a clock allows, on a draw if it is of samples, and with
    gradients if they are wanted; `reason`: what is evaluated, for results; `cost_seconds`: the forecast for one table; `ends`:
    no table has less or more; `at_once`: tables of one share, whose values do not depend on the others; `kind`: `"exact"`,
    `"bracket"` or `"sampled"`; `tree`: of whose sequences for all tables side by side; `drawn`: the classes of policies under
    which sequences are drawn.
    """

    evaluate: Evaluate
    reason: str
    cost_seconds: float
    ends: Ends = UNBOUNDED
    at_once: int = 1
    kind: str = "exact"
    tree: "BatchTree | StringBatch | None" = None
    drawn: "tuple[Space, ...]" = ()

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """The estimate of each table; `clock` is checked every second or so, `draw` is for samples alone."""
        clock.check()
        return self.evaluate(tables, clock, draw, gradient)


Terms = Sequence[tuple[float, Backend]]


def summed(terms: Terms, reason: str = "", ends: Ends = UNBOUNDED) -> Backend:
    """A signed sum of backends, such as `H(R|Y) = H(R,Y) − H(Y)`; the empty sum is 0 for every table."""
    drawn = tuple(space for _, one in terms for space in one.drawn)
    return Backend(
        partial(_summed, terms),
        reason,
        max(LEAST_SECONDS, sum(one.cost_seconds for _, one in terms)),
        ends,
        min((one.at_once for _, one in terms), default=ALL_AT_ONCE),
        "sampled" if drawn else "exact",
        drawn=drawn,
    )


def _summed(terms: Terms, tables: Tables, clock: Clock, draw: Draw | None, gradient: bool) -> Estimate:
    bits, errors = np.zeros(len(tables)), np.zeros(len(tables))
    total: Any = np.zeros(tables.shape) if gradient and not terms else None
    for sign, backend in terms:
        found = backend(tables, clock, draw, gradient=gradient)
        bits, errors = bits + sign * found.values, np.hypot(errors, found.errors)
        if gradient:
            total = sign * found.gradient if total is None else total + sign * found.gradient
    return Estimate(bits, total, errors)


def array_module(array: Any) -> Any:
    """NumPy, or JAX for arrays that lie on its devices."""
    return np if isinstance(array, np.ndarray) else array.__array_namespace__()


def evaluated(
    backend: Backend,
    tables: Tables,
    clock: Clock,
    team: Team = ALONE,
    draw: Draw | None = None,
    *,
    gradient: bool = True,
) -> Estimate:
    """`backend(tables, clock, draw)`, shared by a team where that is worth it; the same numbers to the last bit."""
    step = backend.at_once
    if team.alone or len(tables) <= step or backend.cost_seconds * len(tables) < _SPREAD_SECONDS:
        return backend(tables, clock, draw, gradient=gradient)
    parts = ((tables[begin : begin + step], draw, gradient) for begin in range(0, len(tables), step))
    return reduce(_joined, team.shares(_part, backend, parts, clock))


def _part(backend: Backend, asked: tuple[Tables, Draw | None, bool], clock: Clock) -> Estimate:
    tables, draw, gradient = asked
    return backend(tables, clock, draw, gradient=gradient)


def _joined(one: Estimate, other: Estimate) -> Estimate:
    gradient = None if one.gradient is None else np.concatenate([one.gradient, other.gradient])
    return Estimate(np.concatenate([one.values, other.values]), gradient, np.concatenate([one.errors, other.errors]))
