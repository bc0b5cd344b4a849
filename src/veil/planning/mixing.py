"""Mixtures of tables: row by row until one is feasible, and with a private coin, with the best weights.

The joint law of secret and observations is linear in the weights of a private coin, `P_w(z,y) = Σ_i w_i P_i(z,y)`, the
entropy is concave in it, and expected sums of rewards are linear: the best weights under all linear bounds are the optimum of
a small concave program. The laws are those of all sequences, or on drawn ones likelihood ratios to the even mixture. A class
with a coin has the mixture itself; any other has the table that takes each action as often as the mixture does, which earns the
same where the agent tells the hidden states and the times apart.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, minimize

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.logs import natural_log
from ..engine.feasibility import safest_weights
from ..engine.return_range import normalised
from ..engine.sequences import Posteriors
from ..policy.lift import mixed_table
from ..policy.memories import Mixture
from ..policy.recall import recall
from ..policy.tables import uniform_table
from .bits import LANE, MOST_NUMBERS, entropy_of_rows
from .iteration import SearchState
from .objective import Objective
from .options import SolveOptions
from .parameters import RARE
from .policy_class import Space, Table
from .values import GAP_BITS, different

_MOST_CHECKED = 4  # tables with which an answer is compared, itself among them: the time for it is short; by judgement


def mixed_until(
    slack: Callable[[Any], float], table: Any, feasible: Any, clock: Clock = UNLIMITED, *, check: bool = False
) -> Any:
    """`(1 − p) table + p feasible` with about the least p at which the slack is 0 or more, by Brent's method.

    It is the table itself where that is feasible, and `feasible` where its slack is negative too or the time ends.

    **Arguments:** `slack`: the worst slack of a table; `check`: whether the end of the time raises `OutOfTime`.
    """
    known = {0.0: slack(table)}
    if known[0.0] >= 0:
        return table
    known[1.0], best = slack(feasible), (1.0, feasible)
    if known[1.0] < 0:
        return feasible

    def at(share: float) -> float:
        nonlocal best
        if share not in known:
            clock.check()
            mixed = (1 - share) * table + share * feasible
            known[share] = slack(mixed)
            if known[share] >= 0 and share < best[0]:
                best = share, mixed
        return known[share]

    with contextlib.nullcontext() if check else contextlib.suppress(OutOfTime):
        brentq(at, 0.0, 1.0, rtol=GAP_BITS)  # pyright: ignore[reportArgumentType]
    return best[1]


def mended(objective: Objective, table: Any, feasible: Any) -> Any:
    """The table with about the least share of a feasible one that makes it feasible, in the time that is kept for that."""

    def worst(one: Any) -> float:
        return float(objective.slacks(one[None]).min(initial=np.inf))

    # Inside by what rounding may take, so that a larger class, which sums in another order, can begin from the answer.
    margin = max(0.0, min(objective.rounding / objective.unit, worst(feasible)))
    return mixed_until(lambda one: worst(one) - margin, table, feasible, Clock(objective.closing_seconds))


def contenders(objective: Objective, state: SearchState, last: Table, safe: Table) -> Float[np.ndarray, "B T C A"]:
    """Tables that may be the answer of a search on exact values: the best that was feasible, and the last one, mended with it
    and with the safe one.

    Iterates may tend to the optimum from outside, and then none of them is feasible. The best that was may lie on the bounds
    itself, so that no small share of it makes another table feasible; the safe one lies inside of them if any does.
    """
    if not np.isfinite(state.best_score) or not last.size:
        return state.best[None]
    return np.stack([state.best, *(mended(objective, last, one) for one in (state.best, safe))])


@dataclass(frozen=True, eq=False)
class Weighed:
    """The best weights of some tables, `(n,)`; what their mixture hides, and what each hides alone, -inf if not feasible."""

    weights: Float[np.ndarray, " n"]
    bits: float
    alone: Float[np.ndarray, " n"]


def can_mix(objective: Objective, options: SolveOptions) -> bool:
    """Whether what is maximised is concave in the joint law of one channel, and all bounds are linear in it."""
    hidden, channels = objective.space.hidden, objective.channels
    plain = not (channels.wanted or channels.terms or objective.terms) and objective.min_opacity is None
    is_value = hidden.path is None and hidden.each is None
    on_host = objective.space.on_device is None
    return plain and is_value and on_host and options.objective == "entropy" and objective.weight > 0


def weighed(objective: Objective, tables: Float[np.ndarray, "n T C A"], seed: int, clock: Clock) -> Weighed | None:
    """The best weights of tables under the linear bounds of an objective; None where no weights meet them.

    Cost: on samples 64 sequences of each table, each followed under all of them: with five tables, errors of about 0.03 bits.

    **Raises:** `OutOfTime`.
    """
    joint, slack = _laws(objective, tables, seed, clock), objective.sums(tables, gradient=False).slack
    weights = _best_weights(joint, slack)
    if weights is None:
        return None
    alone, bits = entropy_of_rows(joint)[0], entropy_of_rows(np.einsum("n,nyz->yz", weights, joint)[None])[0]
    return Weighed(weights, float(bits[0]), np.where(np.all(slack >= 0, axis=1), alone, -np.inf))


def best_mixture(objective: Objective, options: SolveOptions, tables: Sequence[Table], clock: Clock) -> Table | None:
    """The best mixture of tables as a table of the class; None where one of them is best, or none meet the bounds together.

    With a coin the parts are the tables among which the given ones choose, and as many stay as the coin can choose.

    **Raises:** `OutOfTime`.
    """
    if not can_mix(objective, options):
        return None
    space, coin = objective.space, coin_of(objective.space)
    pool = different(part for table in tables for part in parts_of(space, table))
    most = len(pool) if coin is None else coin.tables
    while len(pool) > 1:
        found = weighed(objective, np.stack([_mixture(space, [part]) for part in pool]), options.seed, clock)
        if found is None:
            return None
        kept = np.flatnonzero(found.weights > RARE)
        if len(kept) < 2:
            return None
        if len(kept) <= most:
            return _mixture(space, [pool[one] for one in kept], found.weights[kept] / found.weights[kept].sum())
        pool = [pool[one] for one in kept if one != kept[np.argmin(found.weights[kept])]]
    return None


def mixture_gain(
    objective: Objective, options: SolveOptions, table: np.ndarray, others: Sequence[np.ndarray], clock: Clock
) -> float:
    """Bits that a private coin between an answer and a few other tables hides more than the answer; 0 where none does.

    It is not known, NaN, if the time does not suffice or what is maximised is not concave.
    """
    if not can_mix(objective, options):
        return np.nan
    space = objective.space
    parts = (_mixture(space, [part]) for one in others for part in parts_of(space, one))
    pool = different([table, *parts])[:_MOST_CHECKED]
    if len(pool) < 2:
        return 0.0
    try:
        found = weighed(objective, np.stack(pool), options.seed, clock)
    except OutOfTime:
        return np.nan
    return 0.0 if found is None or np.isinf(found.alone[0]) else max(0.0, found.bits - float(found.alone[0]))


def apart(space: Space, tables: Sequence[Table], safe: Table) -> list[Table]:
    """Starts of a class with a coin whose tables differ: equal ones would have equal gradients, and stay equal.

    Each start chooses among its own tables and those of the others, its own first, all as likely.
    """
    coin = coin_of(space)
    assert coin is not None
    pool, found = different([part for table in (*tables, safe) for part in parts_of(space, table)]), list[np.ndarray]()
    for table in tables:
        own = parts_of(space, table)
        found.append(_mixture(space, different([*own, *pool])[: coin.tables]) if len(own) < 2 else table)
    return found


def coin_of(space: Space) -> Mixture | None:
    """The coin of a class; None where it has none."""
    return space.memory if isinstance(space.memory, Mixture) else None


def _mixture(
    space: Space, parts: Sequence[Float[np.ndarray, "t c a"]], weights: Float[np.ndarray, " n"] | None = None
) -> Table:
    """The table of a mixture of tables, by default an even one: with a coin, that which chooses among them; a coin for more of
    them never chooses the others. Without, the one that takes each action as often.
    """
    coin, count = coin_of(space), len(parts)
    weights = np.full(count, 1 / count) if weights is None else weights
    if coin is None:
        return parts[0] if count == 1 else occupancy_table(space, parts, weights)
    more = coin.tables - count
    return mixed_table(space.problem, coin, [*parts, *[parts[-1]] * more], [*weights.tolist(), *[0.0] * more])


def parts_of(space: Space, table: Table) -> list[Float[np.ndarray, "t c a"]]:
    """The different tables among which the coin of a policy chooses; the table itself where there is no coin."""
    if coin_of(space) is None:
        return [table]
    rows = recall(space.problem, space.memory)  # pyright: ignore[reportArgumentType]
    nodes, problem = rows.register.nodes, space.problem
    cell, held = np.divmod(rows.rows[0], rows.register.size)
    chances = table.reshape(*table.shape[:2], -1, nodes)
    even = uniform_table(problem)
    found = list[np.ndarray]()
    for number in range(1, nodes):
        flow = np.zeros((len(table), problem.num_cells, problem.num_actions))
        begin, after, chosen = held == 0, held == number, chances[..., number]
        if not chosen[:, begin].any():  # never chosen
            continue
        flow[:, cell[begin]] = chosen[:, begin]
        flow[:, cell[after]] = chances[:, after].sum(axis=-1)  # also at the start, where both are the same table
        found.append(np.stack([normalised(one, even) for one in flow]))
    return different(found)


def occupancy_table(space: Space, tables: Sequence[Table], weights: Float[np.ndarray, " n"]) -> Table:
    """The table that takes each action in each row as often as the mixture of some tables."""
    shares = weights / weights.sum()
    flows = np.einsum("n,ntca->tca", shares, np.stack([space.visits(table)[..., None] * table for table in tables]))
    mean = np.einsum("n,ntca->tca", shares, np.stack(tables))
    return np.stack([normalised(flow, rows) for flow, rows in zip(flows, mean, strict=True)])


def _laws(
    objective: Objective, tables: Float[np.ndarray, "n T C A"], seed: int, clock: Clock
) -> Float[np.ndarray, "n Y Z"]:
    """`P_i(z,y)` of each table, on all sequences, or on drawn ones divided by how often each is drawn."""
    backend, space = objective.backend, objective.space
    tree = backend.tree
    if tree is not None and len(tables) * tree.num_sequences * space.hidden.num_values < MOST_NUMBERS:
        parts = list[np.ndarray]()

        def note(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            parts.append(joint.copy())
            return np.zeros(len(joint)), np.zeros(joint.shape)

        for table in tables:
            tree.evaluate(table[None], note, clock)
        return np.concatenate(parts)
    generator = np.random.default_rng([seed, 2])
    events = np.concatenate([space.layers.draw(table, LANE, generator) for table in tables])

    def law(found: Posteriors, _: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.column_stack([found.log_likelihood, found.posterior]), found.posterior

    measured = space.layers.measured  # pyright: ignore[reportAttributeAccessIssue]
    found = np.stack([measured(table, events, law, clock) for table in tables])
    likelihood = found[..., 0]
    top = likelihood.max(axis=0)
    drawn = top + natural_log(np.exp(likelihood - top).mean(axis=0))
    return np.exp(likelihood - drawn)[..., None] * found[..., 1:] / len(events)


def _best_weights(joint: Float[np.ndarray, "n Y Z"], slack: Float[np.ndarray, "n K"]) -> np.ndarray | None:
    """`max H(Σ w_i P_i)` over weights with `Σ w_i s_i ≥ 0`; None where there are none."""
    count, num_bounds = slack.shape
    safe = safest_weights(slack)[0] if num_bounds else np.full(count, 1 / count)
    if np.any(safe @ slack < 0):
        return None

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        bits, gradient = entropy_of_rows(np.einsum("n,nyz->yz", np.maximum(weights, 0), joint)[None])
        return -float(bits[0]), -np.einsum("nyz,yz->n", joint, gradient[0])

    def inside(weights: np.ndarray) -> np.ndarray:
        return mixed_until(lambda one: float((one @ slack).min(initial=np.inf)), weights, safe)

    bounds = [
        {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda _: np.ones(count)},
        {"type": "ineq", "fun": lambda w: w @ slack, "jac": lambda _: slack.T},
    ]
    begin = inside(np.full(count, 1 / count))
    found = minimize(loss, begin, jac=True, method="SLSQP", bounds=[(0, 1)] * count, constraints=bounds)
    weights = np.maximum(found.x, 0)
    weights = inside(weights / weights.sum())
    return weights if loss(weights)[0] <= loss(begin)[0] else begin
