"""Observers who share what they see: one observer, whose observation is the tuple of theirs."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.checks import Defects, distinct
from ..common.errors import TooLargeError
from ..common.numbering import ragged
from .given import shape_of
from .observer import Observer

_MOST_PAIRS = 2**20  # of observations of two observers
_BETWEEN = " & "


def Together(*observers: Observer) -> Observer:
    """Observers who share what they see (collusion): in each state they emit independently, and all know all of it.

    An observation is the tuple of theirs, `one & other`, with a number behind it if two tuples read alike. Of all tuples
    those are kept that some state emits, or that remain of them when sensors are muted. It has the sensors of all, and the
    silent observation where each has one. Sharing never raises `H(Z|Y)` for any policy, hence neither for the best one.

    **Arguments:** `observers`, one or more, for the same states and actions. Where one of them sees actions, all know them.

    Cost: the pairs of emissions of each state.

    **Raises:** `InputError` where one depends on time or has no clock, where only some receive an observation at time 0,
    where they are for different states or actions, or where two have a sensor of the same name; `TooLargeError`.
    """
    defects = Defects("together")
    if not observers:
        defects.add("no observers are given, expected one or more")
    for number, one in enumerate(observers):
        if not isinstance(one, Observer):  # pyright: ignore[reportUnnecessaryIsInstance]
            defects.add(f"argument {number} is a {type(one).__name__}, expected a veil.Observer")
        elif one.varies or one.untimed:
            defects.add(
                f"observer {number} depends on time or has no clock, expected one that is the same at all times"
            )
    defects.raise_if_any()
    return _shared(observers)[0]


def shared_parts(*observers: Observer) -> Int[np.ndarray, "O J"]:
    """For each observation of `Together(*observers)` the number of each observer's own observation in it."""
    return _shared(observers)[1]


def _shared(observers: Sequence[Observer]) -> tuple[Observer, Int[np.ndarray, "O J"]]:
    """The observer of all, and what each of its observations is made of: by number, since names may be read in two ways."""
    found, parts = observers[0], np.arange(observers[0].num_observations)[:, None]
    for other in observers[1:]:
        found, first, second = _pair(found, other)
        parts = np.column_stack([parts[first], second])
    return found, parts


def _pair(one: Observer, two: Observer) -> tuple[Observer, Int[np.ndarray, " O"], Int[np.ndarray, " O"]]:
    """Two observers as one, and the number of the observation of each in each observation of both."""
    _check(one, two)
    on_actions, columns = one.on_actions or two.on_actions, two.num_observations
    if one.num_observations * columns > _MOST_PAIRS:
        raise TooLargeError(
            f"together: {one.num_observations:,} times {columns:,} observations are more than {_MOST_PAIRS:,} pairs"
        )
    count = max(len(one.base_matrices), len(two.base_matrices))
    tables = [
        _product(one.base_matrices[number % len(one.base_matrices)], two.base_matrices[number % len(two.base_matrices)])
        for number in range(count)
    ]
    sensors = {
        name: {
            first * columns + rest: other * columns + rest for first, other in muting.items() for rest in range(columns)
        }
        for name, muting in one.sensors.items()
    }
    every = range(one.num_observations)
    sensors |= {
        name: {rest * columns + first: rest * columns + other for first, other in muting.items() for rest in every}
        for name, muting in two.sensors.items()
    }
    silent = None if one.silent is None or two.silent is None else one.silent * columns + two.silent
    kept = _kept(tables, sensors, silent)
    place = {int(pair): number for number, pair in enumerate(kept)}
    emissions = [sp.csr_array(table[:, kept]) for table in tables]
    first, second = np.divmod(kept, columns)
    shown = zip(first.tolist(), second.tolist(), strict=True)
    observer = Observer(
        emissions if on_actions else emissions[0],
        distinct([f"{one.observations[a]}{_BETWEEN}{two.observations[b]}" for a, b in shown]),
        one.sees_actions or two.sees_actions,
        one.sees_initial and two.sees_initial,
        silent=None if silent is None else place[silent],
        sensors={
            name: {place[pair]: place[other] for pair, other in muting.items() if pair in place}
            for name, muting in sensors.items()
        },
    )
    return observer, first, second


def _product(first: sp.csr_array, second: sp.csr_array) -> sp.csr_array:
    """`P(o|s) P(o'|s)`, with column `o · O' + o'`: the product of the rows of each state."""
    (rows, size), columns = shape_of(first), shape_of(second)[1]
    degree = np.diff(second.indptr)
    left = np.repeat(np.arange(rows), np.diff(first.indptr))  # the state of each entry of the first
    times = degree[left]
    entry = ragged(second.indptr[left], times)
    column = np.repeat(first.indices.astype(np.int64), times) * columns + second.indices[entry]
    data = np.repeat(first.data, times) * second.data[entry]
    return sp.csr_array((data, (np.repeat(left, times), column)), shape=(rows, size * columns))


def _kept(tables: list[sp.csr_array], sensors: dict[str, dict[int, int]], silent: int | None) -> np.ndarray:
    """The pairs that some state emits, and those that are left of them when sensors are muted."""
    used = set(np.unique(np.concatenate([table.indices for table in tables])).tolist())
    used |= set() if silent is None else {silent}
    edge = used
    while edge:
        edge = {muting[pair] for muting in sensors.values() for pair in edge if pair in muting} - used
        used = used | edge
    return np.array(sorted(used), dtype=np.int64)


def _check(one: Observer, two: Observer) -> None:
    defects = Defects("together")
    if one.shape[-2] != two.shape[-2]:
        defects.add(f"they are for {one.shape[-2]} and {two.shape[-2]} states, expected the same")
    if one.on_actions and two.on_actions and one.shape[0] != two.shape[0]:
        defects.add(f"they are for {one.shape[0]} and {two.shape[0]} actions, expected the same")
    if one.sees_first != two.sees_first:
        defects.add("only one of them receives an observation at time 0: give sees_initial=False to the other")
    both = sorted(set(one.sensors) & set(two.sensors))
    if both:
        defects.add(f"both have a sensor {both[0]!r}: rename one")
    defects.raise_if_any()
