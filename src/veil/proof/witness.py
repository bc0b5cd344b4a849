"""The witness of an upper bound: the observers of one or several pairs with their rules, and how a file holds them."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.values import Value
from ..problem.pairs import OWN

_FIELDS = {"price", "prices", "memory", "steps", "pair", "weight", "others"}  # of an observer in the JSON file


@dataclass(frozen=True, eq=False, repr=False)
class Witness(Value):
    """The observer that proves the upper bound: its memory, its rule of inference, and the prices of the constraints.

    `first[e]` is its node after the first event, `following[t][node, e]` that after the next, -1 where it has none;
    `costs[node, z] = −log2 q(z|node)` at time T, `Σ_z 2^−cost ≤ 1`, infinite where it excludes z. `multiplier` is λ, in
    bits per unit of return; `memory` describes in words what it remembers; `prices`: the multiplier of each other
    constraint, in bits per unit of its quantity.

    For a secret that is a whole path the rule is one of states before others, `q_t(x_t|x_{t+1},node)` and `q_T(x_T|node)`:
    `path_keys[t]` lists the triples (node, x_{t+1}, x_t) that it does not exclude, in order, with x_{t+1} = 0 at t = T, and
    `path_costs[t]` the bits of each. Where path and events do not tell the hidden state x, what the path shows takes its place.

    `pair`: whose observer it is; `weight`: of its bits in the bound. Where several pairs are hidden, or others have lower
    bounds, `others` are their observers, each with its own weight and neither multiplier nor prices.
    """

    first: Int[np.ndarray, " F"]
    following: tuple[Int[np.ndarray, "n E"], ...]
    costs: Float[np.ndarray, "n Z"]
    multiplier: float
    memory: str
    prices: tuple[float, ...] = ()
    path_keys: tuple[Int[np.ndarray, "k 3"], ...] = ()
    path_costs: tuple[Float[np.ndarray, " k"], ...] = ()
    pair: str = OWN
    weight: float = 1.0
    others: "tuple[Witness, ...]" = ()

    @property
    def rules(self) -> "tuple[Witness, ...]":
        """All observers, this one first."""
        return (self, *self.others)


def written_witness(witness: Witness) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """An observer as a file holds it: its numbers, and its arrays by name, each table of the graph once."""
    arrays = {"first": witness.first, "costs": witness.costs}
    numbers: dict[bytes, int] = {}
    order: list[int] = []
    for table in witness.following:
        key = hashlib.sha256(repr(table.shape).encode() + np.ascontiguousarray(table).tobytes()).digest()
        number = numbers.setdefault(key, len(numbers))
        arrays[f"following.{number}"] = table
        order.append(number)
    arrays |= {f"path_keys.{time}": keys for time, keys in enumerate(witness.path_keys)}
    arrays |= {f"path_costs.{time}": costs for time, costs in enumerate(witness.path_costs)}
    head = {"price": witness.multiplier, "prices": list(witness.prices), "memory": witness.memory, "steps": order}
    head |= {"pair": witness.pair, "weight": witness.weight, "others": []}
    for number, other in enumerate(witness.others):
        own, tables = written_witness(other)
        head["others"].append(own)
        arrays |= {f"others.{number}.{name}": table for name, table in tables.items()}
    return head, arrays


def read_witness(head: dict[str, Any], arrays: dict[str, np.ndarray], under: str = "", depth: int = 0) -> Witness:
    """The observer that `written_witness` wrote, its arrays named `under` what is given."""
    if depth > 1:
        raise ValueError("the observer of a pair has further observers")
    if set(head) != _FIELDS or not all(isinstance(head[name], list) for name in ("prices", "steps", "others")):
        raise ValueError(f"an observer's rule does not have the fields {sorted(_FIELDS)}")
    if not all(type(number) is int for number in head["steps"]):
        raise ValueError("steps are not whole numbers")
    following = tuple(arrays[f"{under}following.{number}"] for number in head["steps"])
    price, prices, memory = _number(head["price"]), tuple(map(_number, head["prices"])), str(head["memory"])
    path = [
        tuple(arrays[place] for time in range(len(following) + 1) if (place := f"{under}{name}.{time}") in arrays)
        for name in ("path_keys", "path_costs")
    ]
    others = tuple(
        read_witness(own, arrays, f"{under}others.{number}.", depth + 1) for number, own in enumerate(head["others"])
    )
    whose = str(head["pair"]), _number(head["weight"]), others
    graph = arrays[f"{under}first"], following, arrays[f"{under}costs"]
    return Witness(*graph, price, memory, prices, path[0], path[1], *whose)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)
