"""The observer's side of the game: inference rules as costs, and the bound on every policy that each of them proves."""

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Bool, Float

from ..common.logs import code_lengths_bits, posteriors
from .pairs import Pairs
from .responses import Game

# Rules are mixed with a spread-out one where they would call something reachable impossible.
_LEAST_SPREAD = 1e-9


def rule_costs(rule: Float[np.ndarray, "n Z"], reachable: Bool[np.ndarray, "n Z"]) -> Float[np.ndarray, "n Z"]:
    """`w = −log2 q(z|m)`: infinite where the rule excludes what can be reached, 0 where nothing is ever paid."""
    return np.where(reachable, code_lengths_bits(rule), 0.0)


def spread(rule: Float[np.ndarray, "n Z"], base: Float[np.ndarray, "n Z"], weight: float) -> Float[np.ndarray, "n Z"]:
    """A rule mixed with a spread-out one; nodes that the rule knows nothing of take the base alone."""
    known = rule.sum(axis=1, keepdims=True) > 0
    return np.where(known, (1 - weight) * rule + weight * base, base)


def covering_rule(game: Game) -> Float[np.ndarray, "n Z"]:
    """A rule that excludes nothing reachable: the posterior of the uniform policy, with even odds as a last resort."""
    reachable = game.pairs.reachable
    even = reachable / np.maximum(1, reachable.sum(axis=1, keepdims=True))
    return spread(posteriors(game.outcome(game.uniform()).joint), even, 1e-3)


def upper_bound(
    game: Game,
    costs: Float[np.ndarray, "n Z"],
    threshold: float | None,
    price: float = 0.0,
    tries: int = 6,
    late: Callable[[], bool] = lambda: False,
) -> tuple[float, float]:
    """`min_λ U(q,λ)`, `U(q,λ) = max_π E_π[w(Z,M_T) + λ (G − δ)]`: no policy with return ≥ δ hides more, and the λ of it.

    U is convex and piecewise linear in λ; the return of the best response is its slope, so that two lines meet where the
    minimum must lie above. Each value on the way is a bound of its own.

    **Arguments:** `costs`, `w = −log2 q`, with `Σ_z 2^−w ≤ 1`; `price`, where to begin; `tries`, backward inductions at most;
    `late()` ends them after the first.
    """
    if threshold is None:
        return game.best_response(costs, 0.0)[0], 0.0
    best, best_price = np.inf, 0.0
    left: tuple[float, float, float] | None = None  # the largest price at which more return would pay
    right: tuple[float, float, float] | None = None
    for _ in range(tries):
        value, gained = game.best_response(costs, price)
        if not np.isfinite(value):
            return np.inf, price
        slope = gained - threshold
        bound = value - price * threshold
        if bound < best:
            best, best_price = bound, price
        if slope < 0 and (left is None or price > left[0]):
            left = price, bound, slope
        elif slope >= 0 and (right is None or price < right[0]):
            right = price, bound, slope
        if slope == 0 or (slope > 0 and price == 0) or late():
            break
        following = _next_price(price, left, right)
        if left is not None and right is not None and abs(following - price) <= 1e-9 * (1 + price):
            break
        price = following
    return best, best_price


def _next_price(
    price: float, left: tuple[float, float, float] | None, right: tuple[float, float, float] | None
) -> float:
    if right is None:
        return 1.05 * price + 0.01 if price < 1 else 1.2 * price
    if left is None:
        return 0.95 * price if price > 1e-3 else 0.0
    (low, under, fall), (high, over, rise) = left, right
    return min(max((under - over + high * rise - low * fall) / (rise - fall), low), high)


def simple_rules(game: Game) -> Iterator[Float[np.ndarray, "n Z"]]:
    """Rules that need no search: even odds; and for a secret settled at time 0 what the first event alone tells."""
    pairs = game.pairs
    size, values = pairs.reachable.shape
    yield np.full((size, values), 1.0 / values)
    if pairs.hidden.split_time == 0:
        prior = (pairs.hidden.start @ pairs.hidden.label)[None]
        yield np.repeat(prior, size, axis=0)
        if pairs.graph.is_tree:
            yield _first_event_rule(pairs)


def _first_event_rule(pairs: Pairs) -> Float[np.ndarray, "n Z"]:
    """`P(z | first event)` at every history that begins with it."""
    hidden, graph = pairs.hidden, pairs.graph
    known = posteriors(hidden.root.T @ hidden.label)
    origin = np.zeros(graph.sizes[0], dtype=np.int64)
    possible = graph.first >= 0
    origin[graph.first[possible]] = np.flatnonzero(possible)
    for table, size in zip(graph.following, graph.sizes[1:], strict=True):
        node, event = np.nonzero(table >= 0)
        after = np.zeros(size, dtype=np.int64)
        after[table[node, event]] = origin[node]
        origin = after
    return known[origin]


def complete(rule: Float[np.ndarray, "n Z"], base: Float[np.ndarray, "n Z"], game: Game) -> Float[np.ndarray, "n Z"]:
    """The rule itself where it excludes nothing reachable, mixed with a covering one as little as possible otherwise."""
    if (rule[game.pairs.reachable] > 0).all():
        return rule
    return spread(rule, base, _LEAST_SPREAD)
