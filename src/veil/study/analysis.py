"""What a study's table says: means over seeds with intervals, the effect of each factor, Pareto fronts."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import t as student

from .table import Row

LEVEL = 0.95


@dataclass(frozen=True)
class Mean:
    """A mean over seeds; `low` and `high` are its 95% interval (Student's t), equal to it for one seed or equal values.

    `deviation`: the standard deviation of the values, that of a sample (`n − 1`); as text `mean ± deviation`.
    """

    value: float
    low: float
    high: float
    count: int
    deviation: float = 0.0

    def __str__(self) -> str:
        exponent = int(f"{self.deviation:.1e}".partition("e")[2]) if self.deviation else -4
        places = min(max(0, 1 - exponent), 6)  # two digits of the deviation
        return f"{self.value:.{places}f} ± {self.deviation:.{places}f}"


@dataclass(frozen=True)
class Effect:
    """What a value of a factor does: the mean difference from the mean over all values, everything else equal."""

    factor: str
    level: Any
    change: Mean
    blocks: int


def is_seed(factor: str) -> bool:
    """Whether a factor only repeats runs."""
    return factor.rpartition(".")[2] == "seed"


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of independent values with its interval."""
    count = len(values)
    centre = math.fsum(values) / count
    if count < 2:
        return Mean(centre, centre, centre, count)
    variance = math.fsum((value - centre) ** 2 for value in values) / (count - 1)
    half = float(student.ppf((1 + LEVEL) / 2, count - 1)) * math.sqrt(variance / count)
    return Mean(centre, centre - half, centre + half, count, math.sqrt(variance))


def usable(rows: Iterable[Row], quantity: str) -> list[Row]:
    """The rows of feasible runs that have the quantity."""
    return [row for row in rows if row.get("feasible") is True and isinstance(row.get(quantity), (int, float))]


def levels(rows: Sequence[Row], factor: str) -> list[Any]:
    """The values of a factor in the order in which they come."""
    found: dict[Hashable, Any] = {}
    for row in rows:
        found.setdefault(_hashable(row[factor]), row[factor])
    return list(found.values())


def means(rows: Sequence[Row], factors: Sequence[str], quantity: str) -> dict[tuple[Hashable, ...], Mean]:
    """For each combination of the factors, the mean of the quantity over its rows."""
    cells = grouped(rows, lambda row: tuple(_hashable(row[name]) for name in factors))
    return {cell: mean_of([float(row[quantity]) for row in found]) for cell, found in cells.items()}


def effects(rows: Sequence[Row], factors: Sequence[str], quantity: str) -> list[Effect]:
    """The effect of every value of every factor that varies, seeds aside.

    Runs are compared in blocks that agree in all other factors, and only where a block has every value of the factor. The
    interval is over the seeds; with one seed there is none.
    """
    found: list[Effect] = []
    seeds = [name for name in factors if is_seed(name)]
    for factor in (name for name in factors if not is_seed(name)):
        wanted = [_hashable(level) for level in levels(rows, factor)]
        if len(wanted) < 2:
            continue
        others = [name for name in factors if name != factor]
        changes: dict[Hashable, dict[Hashable, list[float]]] = defaultdict(lambda: defaultdict(list))
        blocks = 0
        for block in grouped(rows, lambda row, names=others: tuple(_hashable(row[name]) for name in names)).values():
            values = {_hashable(row[factor]): float(row[quantity]) for row in block}
            if len(values) < len(wanted):
                continue
            blocks += 1
            centre = math.fsum(values.values()) / len(values)
            seed = tuple(_hashable(block[0][name]) for name in seeds)
            for level, value in values.items():
                changes[level][seed].append(value - centre)
        for level in levels(rows, factor):
            by_seed = [math.fsum(one) / len(one) for one in changes[_hashable(level)].values()]
            if by_seed:
                found.append(Effect(factor, level, mean_of(by_seed), blocks))
    return found


def front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other exceeds in both coordinates, by the first."""
    best: list[tuple[float, float]] = []
    for point in sorted(set(points), reverse=True):
        if not best or point[1] > best[-1][1]:
            best.append(point)
    return best[::-1]


def number_of(value: Any) -> float | None:
    """A value of a factor as a number, percentages included; None where it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    try:
        return float(str(value).strip().removesuffix("%"))
    except ValueError:
        return None


def grouped(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> dict[Any, list[Row]]:
    """The rows with each value of a key, in order."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
