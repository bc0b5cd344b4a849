"""Every quantity of leakage from one pass over the joint table: guessing, gains, Rényi entropies, capacity, worst cases."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..common.checks import Defects, as_floats, as_tuple, check_finite, check_shape, is_number
from ..common.errors import InputError, TooLargeError
from ..common.logs import arimoto_bits, leakage_bits, log2_error
from ..common.values import Value
from ..engine.backends.sparse_rows import SparseBlock
from ..engine.chain import Chain, make_chain
from ..engine.joint import DEFAULT_MEMORY
from ..engine.listed import value_chain, value_names
from ..engine.sampling import draw_events, told_apart
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .exact import Budget, walk_all
from .ladder import Settings, first_that_fits, seconds_of
from .loss import posteriors
from .rows import RowFunction, Rows, best_gain, best_guess, entropy, guesses, likeliest, norm
from .sampled import chunk_sizes
from .worst import Listing, RevealingSequence, Worst

Method = Literal["auto", "exact", "sampled"]
_METHODS = ("auto", "exact", "sampled")
# `(Σ p^α)^{1/α}` of a table of 2^51 values still fits a float at this order.
_LEAST_ORDER = 0.05
_WORST = ("leaked_bits", "gain_bits", "posterior")


@dataclass(frozen=True, eq=False, repr=False)
class Quantity(Value):
    """A quantity before and after the observations; `std_error` of `posterior`, 0 where it is exact."""

    prior: float
    posterior: float
    std_error: float = 0.0

    @property
    def difference(self) -> float:
        """`posterior − prior`."""
        return self.posterior - self.prior


@dataclass(frozen=True, eq=False, repr=False)
class Quantities(Value):
    """What the observations tell of the secret, by every usual measure; all from one pass over `P(z,y)`.

    **Attributes:**

    - `method`: `"exact"` or `"sampled"`; `num_sequences`: possible ones, or draws; `reason`: why this method.
    - `entropy_bits`: `H(Z)` and `H(Z|Y)`.
    - `guess_probability`: the probability of the best guess, `max_z P(z)` and `Σ_y max_z P(z,y)` (Bayes vulnerability).
    - `guessing_entropy`: the expected number of guesses in the best order.
    - `gain`: the expected gain of the best action, `max_w Σ_z g(w,z) P(z)` and `Σ_y max_w Σ_z g(w,z) P(z,y)`
      (g-vulnerability); None without a gain matrix.
    - `renyi_bits`: for each order α Rényi's `H_α(Z)` and Arimoto's `H_α(Z|Y)`.
    - `channel_sum`: 1 and `Σ_y max_z P(y|z)`, whose logarithm is the maximal leakage.
    - `worst`: the sequences that tell most, worst first, by `"leaked_bits"` (probability times bits), `"gain_bits"` (bits)
      and `"posterior"` (largest posterior probability of a value); empty where sequences were not kept apart.
    """

    method: str
    num_sequences: int
    reason: str
    entropy_bits: Quantity
    guess_probability: Quantity
    guessing_entropy: Quantity
    gain: Quantity | None
    renyi_bits: Mapping[float, Quantity]
    channel_sum: Quantity
    worst: Mapping[str, tuple[RevealingSequence, ...]]

    @property
    def leakage_bits(self) -> float:
        """`I(Z;Y) = H(Z) − H(Z|Y)`."""
        return -self.entropy_bits.difference

    @property
    def min_entropy_leakage_bits(self) -> float:
        """`log2` of the growth of the guess probability."""
        return leakage_bits(self.guess_probability.prior, self.guess_probability.posterior)

    @property
    def gain_leakage_bits(self) -> float | None:
        """`log2` of the growth of the gain; None without a gain matrix, or unless both gains are positive."""
        if self.gain is None or min(self.gain.prior, self.gain.posterior) <= 0:
            return None
        return leakage_bits(self.gain.prior, self.gain.posterior)

    @property
    def maximal_leakage_bits(self) -> float:
        """`log2 Σ_y max_z P(y|z)`: the min-entropy leakage under the prior for which it is largest (min-capacity)."""
        return leakage_bits(1.0, self.channel_sum.posterior)

    def renyi_leakage_bits(self, order: float) -> float:
        """`H_α(Z) − H_α(Z|Y)` (Arimoto's mutual information) of an order that was asked for."""
        if order not in self.renyi_bits:
            known = ", ".join(f"{one:g}" for one in self.renyi_bits)
            raise InputError("order", [f"{order!r} was not asked for: known are {known}; give orders=({order!r}, …)"])
        return -self.renyi_bits[order].difference

    def facts(self) -> Iterator[tuple[str, Quantity, float | None, float]]:
        """For a table: name, quantity, leakage in bits where it has that unit, and the standard error of that leakage."""
        plain, guess, channel = self.entropy_bits, self.guess_probability, self.channel_sum
        yield "Shannon entropy, bits", plain, self.leakage_bits, plain.std_error
        yield "correct guess", guess, self.min_entropy_leakage_bits, log2_error(guess.posterior, guess.std_error)
        yield "guesses needed", self.guessing_entropy, None, 0.0
        if self.gain is not None:
            error = log2_error(self.gain.posterior, self.gain.std_error) if self.gain_leakage_bits is not None else 0.0
            yield "gain", self.gain, self.gain_leakage_bits, error
        for order, found in self.renyi_bits.items():
            yield f"Rényi entropy of order {order:g}, bits", found, -found.difference, found.std_error
        error = log2_error(channel.posterior, channel.std_error)
        yield "Σ max P(y|z), maximal leakage", channel, self.maximal_leakage_bits, error

    def document(self) -> dict[str, Any]:
        """The numbers as plain values, for JSON."""

        def plain(one: Quantity) -> dict[str, float]:
            return {"prior": one.prior, "posterior": one.posterior, "std_error": one.std_error}

        return {
            "method": self.method,
            "num_sequences": self.num_sequences,
            "reason": self.reason,
            "leakage_bits": self.leakage_bits,
            "min_entropy_leakage_bits": self.min_entropy_leakage_bits,
            "maximal_leakage_bits": self.maximal_leakage_bits,
            "gain_leakage_bits": self.gain_leakage_bits,
            "entropy_bits": plain(self.entropy_bits),
            "guess_probability": plain(self.guess_probability),
            "guessing_entropy": plain(self.guessing_entropy),
            "gain": None if self.gain is None else plain(self.gain),
            "renyi_bits": {f"{order:g}": plain(one) for order, one in self.renyi_bits.items()},
            "channel_sum": plain(self.channel_sum),
            "worst": {by: [vars(one) for one in sequences] for by, sequences in self.worst.items()},
        }


def quantities(
    problem: Problem,
    policy: Policy,
    method: Method = "auto",
    *,
    pair: str = OWN,
    gain: ArrayLike | None = None,
    orders: float | Iterable[float] = (0.5, 2.0),
    top: int = 10,
    sequences: int = 2000,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
) -> Quantities:
    """How much the observations tell of the secret, by every usual measure at once.

    **Arguments:**

    - `method`: `"exact"` goes over every possible sequence; `"sampled"` averages over drawn ones, whose posteriors are exact;
      `"auto"` samples where the exact pass does not fit.
    - `pair`: whose secret and observer count, as for `opacity`.
    - `gain`: `g(w,z)`, `(W, Z)`, what action w of the observer is worth where the secret is z.
    - `orders` of the Rényi entropies, 0.05 or more; 1 is Shannon's, `math.inf` min-entropy.
    - `top`: how many of the worst sequences to keep, by each order.
    - `sequences`, `seed`: of a sample. Means over drawn sequences are unbiased; logarithms of them are biased by less than
      their standard error.
    - `memory_bytes`, `time_limit`: as for `opacity`; 300 seconds for exact, 20 for auto.

    Cost: one pass over all possible sequences, as `opacity(method="exact")`. Without `top`, histories with proportional
    messages are merged, which every quantity allows.

    **Raises:** `TooLargeError` where an exact pass does not fit; `InputError`.
    """
    chain = make_chain(problem, policy, pair=pair)
    problem = problem.only(pair)
    asked = _Asked.check(value_names(problem, chain), method, gain, orders, top)
    chain = value_chain(chain)
    budget = Budget(memory_bytes, seconds_of(method, time_limit))
    Settings(method, budget, sequences=sequences, seed=seed)
    return first_that_fits(
        method,
        {
            "exact": lambda _: _exact(problem, chain, asked, budget, share=0.25 if method == "auto" else 0.5),
            "sampled": lambda why: _sampled(problem, chain, asked, sequences, seed, budget, why),
        },
    )


def of_joint(
    problem: Problem,
    joint: Float[np.ndarray, "Y Z"],
    listed: Int[np.ndarray, "Y L"],
    prior: Float[np.ndarray, " Z"],
    draws: int,
    values: tuple[str, ...] | None = None,
    **asked: Any,
) -> Quantities:
    """The quantities of a table of all sequences (`draws` = 0), or of `draws` drawn ones; `asked` as in `quantities`.

    `values`: the names of the columns, those of the problem by default.
    """
    sums = _Sums(prior, _Asked.check(problem.secret_values if values is None else values, "exact", **asked))
    if not draws:
        sums(joint, listed.__getitem__)
        return sums.result(problem, "exact", len(joint), "all possible sequences")
    rows, kept = Rows.of_joint(joint)
    value, weight = rows.posterior, rows.total * draws
    sums.add(replace(rows, value=value, weight=weight), lambda chosen: listed[kept[chosen]])
    return sums.result(problem, "sampled", draws, f"{draws:,} drawn sequences")


@dataclass(frozen=True, eq=False)
class _Asked:
    """What was asked for, checked; `values`: the names of those of the secret."""

    values: tuple[str, ...]
    gain: np.ndarray | None
    orders: tuple[float, ...]
    top: int

    @staticmethod
    def check(
        values: tuple[str, ...], method: str, gain: Any = None, orders: Any = (0.5, 2.0), top: int = 10
    ) -> "_Asked":
        defects = Defects("quantities")
        if method not in _METHODS:
            defects.add(f"method is {method!r}, expected one of {', '.join(map(repr, _METHODS))}")
        table = None
        if gain is not None:
            table = as_floats(gain, "gain", defects)
            if table is not None and check_shape(table, ("W", len(values)), "gain", defects):
                check_finite(table, lambda w, z: f"gain ({w}, {z})", defects)
                if not len(table):
                    defects.add("gain has no rows, expected one for each action of the observer")
        listed = (orders,) if is_number(orders) else as_tuple(orders)
        if not isinstance(listed, tuple) or not all(is_number(one) and one >= _LEAST_ORDER for one in listed):
            defects.add(
                f"orders are {orders!r}, expected numbers of {_LEAST_ORDER:g} or more; math.inf for min-entropy"
            )
            listed = ()
        if not isinstance(top, (int, np.integer)) or isinstance(top, bool) or top < 0:
            defects.add(f"top is {top!r}, expected a whole number, 0 or more")
        defects.raise_if_any()
        return _Asked(values, table, tuple(dict.fromkeys(float(one) for one in listed)), int(top))


class _Sums:
    """Adds up every function of rows as sequences go by; an `Objective` and a `SparseObjective`."""

    def __init__(self, prior: Float[np.ndarray, " Z"], asked: _Asked, *, keep: bool = True):
        self.asked = asked
        self.functions: dict[str, RowFunction] = {
            "entropy": entropy,
            "guess": best_guess,
            "guesses": guesses,
            "channel": likeliest(prior),
        }
        if asked.gain is not None:
            self.functions["gain"] = best_gain(asked.gain)
        self.functions |= {f"order {order!r}": norm(order) for order in asked.orders if order != 1}
        self.total = dict.fromkeys(self.functions, 0.0)
        self.squares = dict.fromkeys(self.functions, 0.0)
        self.draws = 0.0
        self.worst = Worst(prior, asked.top if keep else 0, _WORST)
        only = np.flatnonzero(prior > 0)
        self.before = Rows(np.ones(1), prior[only], only, np.array([0, len(only)]))

    def add(self, rows: Rows, events: Listing) -> None:
        """Take in rows with their weights."""
        if not len(rows):
            return
        for name, function in self.functions.items():
            found = function(rows)
            self.total[name] += float(rows.weight @ found)
            self.squares[name] += float(rows.weight @ found**2)
        self.draws += float(rows.weight.sum())
        self.worst.add_rows(rows, events)

    def __call__(self, joint: np.ndarray, events: Listing) -> None:
        """See `Objective`."""
        rows, kept = Rows.of_joint(joint)
        self.add(rows, lambda chosen: events(kept[chosen]))

    def add_rows(self, block: SparseBlock) -> None:
        """See `SparseObjective`; no gradients are asked for."""
        self.add(Rows(block.weight, block.message, block.column, block.indptr), lambda chosen: _events(block, chosen))

    def result(self, problem: Problem, method: str, num_sequences: int, reason: str) -> Quantities:
        """The means of what was added up; of a sample, `weight` counts draws."""
        sampled, before = method == "sampled", self.before
        count = self.draws if sampled else 1.0

        def mean(name: str) -> tuple[float, float]:
            value = self.total[name] / count
            spread = max(0.0, self.squares[name] / count - value**2) if sampled else 0.0
            return value, float(np.sqrt(spread / max(count - 1, 1.0)))

        def quantity(name: str) -> Quantity:
            return Quantity(float(self.functions[name](before)[0]), *mean(name))

        def renyi(order: float) -> Quantity:
            if order == 1:
                return quantity("entropy")
            found = quantity(f"order {order!r}")
            # With x the mean norm, H_α = α/(1−α) · log2 x, and its error is that of log2 x, scaled alike.
            error = abs(arimoto_bits(order, 2.0)) * log2_error(found.posterior, found.std_error)
            return Quantity(arimoto_bits(order, found.prior), arimoto_bits(order, found.posterior), error)

        return Quantities(
            method=method,
            num_sequences=num_sequences,
            reason=reason,
            entropy_bits=quantity("entropy"),
            guess_probability=quantity("guess"),
            guessing_entropy=quantity("guesses"),
            gain=quantity("gain") if self.asked.gain is not None else None,
            renyi_bits={order: renyi(order) for order in self.asked.orders},
            channel_sum=Quantity(1.0, *mean("channel")),
            worst={by: tuple(self.worst.sequences(problem, by, 1 / count, self.asked.values)) for by in _WORST},
        )


def _events(block: SparseBlock, chosen: np.ndarray) -> np.ndarray:
    assert block.events is not None
    return block.events[chosen]


def _exact(problem: Problem, chain: Chain, asked: _Asked, budget: Budget, *, share: float) -> Quantities:
    """All sequences apart where worst ones are wanted; merged where they do not fit, each within a share of the time."""
    part = Budget(budget.memory_bytes, budget.time_limit * share)

    def walked(keep: bool) -> tuple[_Sums, float]:
        sums, walk, _ = walk_all(
            chain, part, lambda: _Sums(chain.prior, asked, keep=keep), gradient=False, keep_events=keep
        )
        return sums, walk.num_sequences

    reason = "all possible sequences were enumerated"
    if asked.top:
        try:
            sums, number = walked(True)
            return sums.result(problem, "exact", int(number), reason)
        except TooLargeError:
            reason += ", merged if they tell the same, so that the worst ones are not listed"
    sums, number = walked(False)
    return sums.result(problem, "exact", int(min(number, 1e18)), reason)


def _sampled(
    problem: Problem, chain: Chain, asked: _Asked, sequences: int, seed: int, budget: Budget, reason: str
) -> Quantities:
    """Means over drawn sequences."""
    generator = np.random.default_rng(seed)
    sizes = chunk_sizes(chain, sequences, budget.memory_bytes)
    drawn = np.concatenate([draw_events(chain, size, generator) for size in sizes])
    distinct, count = np.unique(told_apart(chain, drawn), axis=0, return_counts=True)
    rows, _ = Rows.of_joint(posteriors(chain, distinct))
    sums = _Sums(chain.prior, asked)
    sums.add(replace(rows, weight=count.astype(float)), distinct.__getitem__)
    return sums.result(problem, "sampled", sequences, reason or f"{sequences:,} drawn sequences")
