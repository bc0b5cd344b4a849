"""The observation sequences that tell the observer most, kept while rows of the joint table go by."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..common.values import Value
from ..engine.hidden import event_name
from ..engine.written import Written
from ..problem.problem import Problem
from .rows import Rows, best_guess, gained_bits

Event = str | tuple[str, str]
Listing = Callable[[np.ndarray], np.ndarray]

ORDERS = ("leaked_bits", "gain_bits", "posterior", "probability")


@dataclass(frozen=True, eq=False, repr=False)
class RevealingSequence(Value):
    """One observation sequence and what it tells the observer.

    **Attributes:** `observations`: as the observer writes them down; `probability`; `posterior`: value of the secret to
    probability; `gain_bits`: `KL(P(z|y) || P(z))`, what it tells; `leaked_bits`: probability times gain, its share of
    the leakage `I(Z;Y)`.
    """

    observations: tuple[Event, ...]
    probability: float
    posterior: dict[str, float]
    gain_bits: float
    leaked_bits: float

    @property
    def guess(self) -> str:
        """The most probable value after it."""
        return max(self.posterior, key=lambda value: self.posterior[value])


def event_names(problem: Problem, row: Int[np.ndarray, " L"]) -> tuple[Event, ...]:
    """A sequence of events as the observer writes them down."""
    written, skip = Written.by(problem.observer), 0 if problem.observer.sees_first else 1
    if written is not None:
        letters = written.strings(row[None]).letters[0]
        return tuple(problem.observer.observations[int(letter)] for letter in letters if letter >= 0)
    return tuple(event_name(problem, int(event), time) for time, event in enumerate(row))[skip:]


@dataclass(frozen=True, eq=False)
class _Candidate:
    key: float
    mass: float
    gain: float
    position: int
    events: Int[np.ndarray, " L"]
    values: Int[np.ndarray, " k"]
    chances: Float[np.ndarray, " k"]

    def rank(self) -> tuple[float, float, int]:
        """Ties are broken by probability, then by position, so that the list is the same on every run."""
        return -self.key, -self.mass, self.position


@dataclass
class Worst:
    """The `top` sequences by each of some orders.

    **Arguments:** `prior`, `(Z,)`; `orders` out of `ORDERS`: share of the leakage, what the sequence tells when it occurs,
    the largest posterior probability of a value, and the probability.
    """

    prior: Float[np.ndarray, " Z"]
    top: int
    orders: tuple[str, ...] = ORDERS
    _found: dict[str, list[_Candidate]] = field(default_factory=dict, init=False)
    _seen: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        unknown = [f"by is {name!r}, expected one of {sorted(ORDERS)}" for name in self.orders if name not in ORDERS]
        if unknown:
            raise InputError("revealing", unknown)

    def add_rows(self, rows: Rows, events: Listing) -> None:
        """Take in rows; `events(numbers)` lists the sequences of some of them."""
        if not len(rows) or not self.top:
            return
        mass, gain = rows.weight * rows.total, gained_bits(rows, self.prior)
        certainty = best_guess(rows) / rows.total
        keys = {"leaked_bits": gain * mass, "gain_bits": gain, "posterior": certainty, "probability": mass}
        for name in self.orders:
            # Many rows, few places: the smallest key that can still enter comes first.
            chosen = np.arange(len(mass))
            if len(mass) > 4 * self.top:
                least = np.partition(keys[name], len(mass) - self.top)[len(mass) - self.top]
                chosen = np.flatnonzero(keys[name] >= least)
            chosen = chosen[np.lexsort((chosen, -mass[chosen], -keys[name][chosen]))[: self.top]]
            listed = events(chosen)
            entered = [
                _Candidate(
                    float(keys[name][row]), float(mass[row]), float(gain[row]), self._seen + int(row), listed[number],
                    *rows.entries(int(row)),
                )
                for number, row in enumerate(chosen)
            ]  # fmt: skip
            self._found[name] = sorted([*self._found.get(name, []), *entered], key=_Candidate.rank)[: self.top]
        self._seen += len(mass)

    def sequences(
        self, problem: Problem, by: str, scale: float = 1.0, values: tuple[str, ...] | None = None
    ) -> list[RevealingSequence]:
        """The sequences of one order, worst first; probabilities times `scale`; `values`: names other than the problem's."""
        names = problem.secret_values if values is None else values
        return [_revealing(problem, names, one, scale) for one in self._found.get(by, [])]


def _revealing(problem: Problem, values: tuple[str, ...], one: _Candidate, scale: float) -> RevealingSequence:
    chances = np.zeros(len(values))
    chances[one.values] = one.chances
    return RevealingSequence(
        observations=event_names(problem, one.events),
        probability=one.mass * scale,
        posterior=dict(zip(values, chances.tolist(), strict=True)),
        gain_bits=one.gain,
        leaked_bits=one.gain * (one.mass * scale),
    )
