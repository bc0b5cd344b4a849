"""The verifier's part for secrets that are whole paths: rules for a state before the next."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from .arithmetic import LARGEST, require
from .reading import read_floats, read_integers

if TYPE_CHECKING:
    from .checked_problem import CheckedProblem
    from .claims import ObserverRule

Numbers = Int[np.ndarray, " n"]
KRAFT_MARGIN = 2.0**-40  # by which `Σ_z 2^−cost` must stay below one: far above the errors of exp2 and of the sum
_LARGEST_KEY = 2**62  # of the numbers that stand for triples


def checked_path(
    problem: "CheckedProblem", rule: "ObserverRule", sizes: list[int]
) -> tuple[tuple[Numbers, ...], tuple[np.ndarray, ...]]:
    """The rule for a whole path in int64 and float64: in each row the costs are those of probabilities."""
    if problem.codes is None:
        require(len(rule.path_keys) == len(rule.path_costs) == 0, "rule: it is one for paths, and no path is secret")
        return (), ()
    fits = len(rule.path_keys) == len(rule.path_costs) == len(sizes)
    require(fits, "rule: it does not have one part for each state of a path")
    keys, costs, codes = [], [], int(problem.codes.max()) + 1
    for time, size in enumerate([*sizes[1:], sizes[-1]]):
        what = f"rule: its part for the state at time {time}"
        require(size * codes * codes < _LARGEST_KEY, f"{what} has too many nodes")
        triple = read_integers(rule.path_keys[time], 0, max(size, codes), 2, what)
        require(
            triple.shape[1] == 3 and (triple < [size, codes, codes]).all(),
            f"{what}: its keys are not triples of numbers",
        )
        key = triple @ [codes * codes, codes, 1]
        cost = read_floats(rule.path_costs[time], 1, what)
        require(
            len(key) == len(cost) and np.diff(key) > 0, f"{what}: its keys are out of order, or not one for each cost"
        )
        require((cost >= 0) & ((cost <= LARGEST) | np.isinf(cost)), f"{what}: a cost is negative or above 2^900")
        begins = np.flatnonzero(np.diff(key // codes, prepend=-1))
        kraft = np.add.reduceat(np.exp2(-cost), begins) if len(key) else np.zeros(0)
        require(kraft <= 1 - KRAFT_MARGIN, f"{what}: the probabilities 2^-cost of a row sum to more than one")
        keys.append(key)
        costs.append(cost)
    return tuple(keys), tuple(costs)


def path_costs(
    problem: "CheckedProblem", rule: "ObserverRule", time: int, reached: Numbers, before: Numbers
) -> Float[np.ndarray, " n"]:
    """What a rule for a path pays for `before` at a time, where `reached` follows; infinite where it excludes that."""
    codes = problem.codes
    assert codes is not None
    count, (node, x) = int(codes.max()) + 1, np.divmod(reached // problem.values, problem.size)
    shown = codes[x] if time < problem.horizon else 0
    wanted, keys = (node * count + shown) * count + codes[before], rule.path_keys[time]
    if not len(keys):
        return np.full(len(wanted), np.inf)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, rule.path_costs[time][place], np.inf)
