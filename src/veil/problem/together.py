"""Observers who share what they see: one observer, whose observation is the tuple of theirs."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.checks import Defects, distinct
from ..common.errors import TooLargeError
from ..common.numbering import ragged
from .emissions import When, always, moments, same_matrices, time_of, with_column
from .given import shape_of
from .observer import Observer, unobserved_name

_MOST_PAIRS = 2**20  # of observations of two observers
_BETWEEN = " & "


def Together(*observers: Observer) -> Observer:
    """Observers who share what they see (collusion): in each state they emit independently, and all know all of it.

    An observation is the tuple of theirs, `one & other`, with a number behind it if two tuples read alike. Of all tuples
    those are kept that some state emits, or that remain of them when sensors are muted. It has the sensors of all, and the
    silent observation if each has one. Sharing never raises `H(Z|Y)` for any policy, hence neither for the best one.

    They share as they see. If one of them sees actions, all know them. If one has a clock, all have it; if none has, only
    steps at which all are silent are erased. An observer who receives nothing at a time adds its silent observation then,
    or, at time 0, a further one called `unobserved` if it has none.

    **Arguments:** `observers`, one or more, for the same states and actions.

    Cost: the pairs of emissions of each state, for each time with other emissions.

    **Raises:** `InputError` if they are for different states or actions, or if two have a sensor of the same name;
    `TooLargeError`.
    """
    defects = Defects("together")
    if not observers:
        defects.add("no observers are given, expected one or more")
    for number, one in enumerate(observers):
        if not isinstance(one, Observer):  # pyright: ignore[reportUnnecessaryIsInstance]
            defects.add(f"argument {number} is a {type(one).__name__}, expected a veil.Observer")
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
    sizes, times = (one.num_observations, two.num_observations), one.times if one.times == two.times else None
    one, two = (part.written_out() if times is None else part.replace(times=None) for part in (one, two))
    if one.sees_first != two.sees_first:
        one, two = (part if part.sees_first else _noting_the_start(part) for part in (one, two))
    columns = two.num_observations
    if one.num_observations * columns > _MOST_PAIRS:
        raise TooLargeError(
            f"together: {one.num_observations:,} times {columns:,} observations are more than {_MOST_PAIRS:,} pairs"
        )
    tables = _tables(one, two)
    sensors = _sensors(one, two)
    silent = None if one.silent is None or two.silent is None else one.silent * columns + two.silent
    kept = _kept([table for given in tables.values() for table in given], sensors, silent)
    place = {int(pair): number for number, pair in enumerate(kept)}
    first, second = np.divmod(kept, columns)
    shown = zip(first.tolist(), second.tolist(), strict=True)
    on_actions = one.on_actions or two.on_actions
    emissions = dict[When | None, list[sp.csr_array] | sp.csr_array]()
    for when, given in tables.items():
        shown_then = [sp.csr_array(table[:, kept]) for table in given]
        emissions[when] = shown_then if on_actions and (when is None or time_of(when) != 0) else shown_then[0]
    observer = Observer(
        emissions.pop(None),
        distinct([f"{one.observations[a]}{_BETWEEN}{two.observations[b]}" for a, b in shown]),
        one.sees_actions or two.sees_actions,
        one.sees_initial or two.sees_initial,
        silent=None if silent is None else place[silent],
        sensors={
            name: {place[pair]: place[other] for pair, other in muting.items() if pair in place}
            for name, muting in sensors.items()
        },
        times=times,
        emissions_at=emissions,
        untimed=one.untimed and two.untimed,
    )
    # One who receives nothing at time 0 has no number for that; no later observation of both has it.
    return observer, np.minimum(first, sizes[0] - 1), np.minimum(second, sizes[1] - 1)


def _noting_the_start(observer: Observer) -> Observer:
    """The observer who receives at time 0 that there is nothing: its silent observation, or a further one."""
    silent, names = observer.silent, observer.observations.all()
    if silent is None:
        silent, names = observer.num_observations, (*names, unobserved_name(names))
        observer = observer.mapped(with_column, observation_names=names)
    nothing = always(silent, *observer.shape[-2:])
    at = {when: given for when, given in observer.emissions_at.items() if time_of(when) != 0}
    at |= {0: nothing} | ({(0, "end"): nothing} if "end" in at else {})
    return observer.replace(emissions_at=at, sees_initial=True)


def _tables(one: Observer, two: Observer) -> dict[When | None, list[sp.csr_array]]:
    """What both emit, by when: one table for each action if emissions depend on it; None stands for all other times."""
    named, ends = (one.named_times[0] | two.named_times[0]) - {0}, one.named_times[1] or two.named_times[1]
    if one.sees_first and two.sees_first:
        named |= {0}
    found: dict[When | None, list[sp.csr_array]] = {}
    for when, time, last in moments(named, ends):
        parts = one.emitted(time, last=last), two.emitted(time, last=last)
        count = max(map(len, parts))
        found[when] = [_product(parts[0][n % len(parts[0])], parts[1][n % len(parts[1])]) for n in range(count)]
    usual, needed = tuple(found[None]), (None, 0) if one.on_actions or two.on_actions else (None,)
    for when in () if ends else set(found) - set(needed):
        if same_matrices(tuple(found[when]), usual):
            del found[when]
    return found


def _sensors(one: Observer, two: Observer) -> dict[str, dict[int, int]]:
    """What each sensor's reports turn into, by the numbers of pairs."""
    columns, every = two.num_observations, range(one.num_observations)
    sensors = {
        name: {
            first * columns + rest: other * columns + rest for first, other in muting.items() for rest in range(columns)
        }
        for name, muting in one.sensors.items()
    }
    return sensors | {
        name: {rest * columns + first: rest * columns + other for first, other in muting.items() for rest in every}
        for name, muting in two.sensors.items()
    }


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
    both = sorted(set(one.sensors) & set(two.sensors))
    if both:
        defects.add(f"both have a sensor {both[0]!r}: rename one")
    defects.raise_if_any()
