"""Other ways to read the same joint table: every quantity, revealing sequences, bits over time, cost of a sensor."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..common.errors import InputError
from ..common.logs import (
    conditional_entropy_bits,
    entropy_bits,
    leakage_bits,
    posteriors,
    surprisal_bits,
)
from ..common.values import Value
from ..engine.chain import Chain, make_chain
from ..engine.each_time import until_each_time
from ..engine.joint import DEFAULT_MEMORY
from ..engine.listed import value_chain, value_names
from ..engine.over_time import posteriors_over_time
from ..engine.sampling import draw_events, told_apart
from ..policy.policy import Policy, check_call
from ..problem.observer import Observer
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .certain import with_disclosure as with_disclosure
from .disclosure import Certainty as Certainty
from .disclosure import Disclosure as Disclosure
from .disclosure import certainty as certainty
from .disclosure import disclosure as disclosure
from .each_time import question_at
from .evaluate import return_gradient as return_gradient
from .exact import EXACT_SECONDS, Budget, walk_all
from .given_secret import ReturnGivenSecret as ReturnGivenSecret
from .given_secret import return_given_secret as return_given_secret
from .ladder import Settings, question_of
from .quantities import Quantities as Quantities
from .quantities import Quantity as Quantity
from .quantities import of_joint
from .quantities import quantities as quantities
from .rows import Rows
from .worst import Event as Event
from .worst import RevealingSequence as RevealingSequence
from .worst import Worst, event_names


class _Collect:
    """Keeps every row of the table, and the sequences."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.events: list[np.ndarray] = []

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> None:
        possible = np.flatnonzero(joint.any(axis=1))
        self.rows.append(joint[possible])
        self.events.append(events(possible))


@dataclass(frozen=True, eq=False, repr=False)
class JointTable(Value):
    """`P(z,y)` for every possible observation sequence y, or for those of a sample, and what can be read from it.

    **Attributes:** `probabilities`, `(Y, Z)`; `events`, `(Y, L)`, the sequences as numbers. If the rows are a sample:
    `known_prior`, `(Z,)`: `P(z)`, which their sum only estimates; `draws`: how many sequences were drawn. `values`: the names
    of the values of the secret; those of the problem by default, and of a whole path each path that is possible.
    """

    problem: Problem
    probabilities: Float[np.ndarray, "Y Z"]
    events: Int[np.ndarray, "Y L"]
    known_prior: Float[np.ndarray, " Z"] | None = None
    draws: int = 0
    values: tuple[str, ...] = ()

    @property
    def secret_values(self) -> tuple[str, ...]:
        """The names of the values, one for each column."""
        return self.values or self.problem.secret_values

    @property
    def num_sequences(self) -> int:
        """How many observation sequences are possible."""
        return len(self.probabilities)

    @property
    def prior(self) -> Float[np.ndarray, " Z"]:
        """`P(z)`."""
        return self.probabilities.sum(axis=0) if self.known_prior is None else self.known_prior

    @cached_property
    def posterior(self) -> Float[np.ndarray, "Y Z"]:
        """`P(z|y)`."""
        return posteriors(self.probabilities)

    @property
    def bits(self) -> float:
        """`H(Z|Y)`."""
        return conditional_entropy_bits(self.probabilities)

    @property
    def prior_bits(self) -> float:
        """`H(Z)`."""
        return float(entropy_bits(self.prior))

    @property
    def guess_probability(self) -> float:
        """The probability that the observer's best guess is right, `Σ_y max_z P(z,y)` (Bayes vulnerability)."""
        return float(self.probabilities.max(axis=1).sum())

    @property
    def prior_guess_probability(self) -> float:
        """The probability that the best guess without any observation is right, `max_z P(z)`."""
        return float(self.prior.max())

    @property
    def min_entropy_leakage_bits(self) -> float:
        """`log2(guess_probability / prior_guess_probability)`."""
        return leakage_bits(self.prior_guess_probability, self.guess_probability)

    @property
    def guessing_entropy(self) -> float:
        """The expected number of guesses until the secret is found, guessing in the best order; 1 is no secret."""
        ordered = -np.sort(-self.probabilities, axis=1)
        return float(np.sum(ordered @ np.arange(1, ordered.shape[1] + 1)))

    def quantities(
        self, *, gain: ArrayLike | None = None, orders: float | Iterable[float] = (0.5, 2.0), top: int = 0
    ) -> Quantities:
        """Every quantity of this table; arguments as for `veil.measures.quantities`, which needs no table."""
        asked = {"gain": gain, "orders": orders, "top": top}
        return of_joint(
            self.problem, self.probabilities, self.events, self.prior, self.draws, self.secret_values, **asked
        )

    def asymmetric_bits(self, value: str | int = -1) -> float:
        """The part of `H(Z|Y)` that comes from runs in which the secret holds: `Σ_y -P(z,y) log2 P(z|y)` for one z.

        **Arguments:** `value`: the value of the secret that means it holds; the last by default (`"secret"`).
        The parts of all values add up to `H(Z|Y)`.
        """
        column = self._value(value)
        return float(self.probabilities[:, column] @ surprisal_bits(self.probabilities)[:, column])

    def probability_surer(self, level: float, value: str | int | None = None) -> float:
        """The probability that the observer ends with a posterior above `level`, for any value or for a given one."""
        if not 0 <= level <= 1:
            raise InputError("probability_surer", [f"level is {level!r}, expected a probability in [0, 1]"])
        certainty = self.posterior.max(axis=1) if value is None else self.posterior[:, self._value(value)]
        return float(self.probabilities[certainty > level].sum())

    @property
    def sequences(self) -> list[tuple[Event, ...]]:
        """Every sequence as the observer writes it down; the row order of `probabilities`."""
        return [event_names(self.problem, row) for row in self.events]

    def revealing(self, top: int = 10, *, by: str = "leaked_bits") -> list[RevealingSequence]:
        """The sequences that tell the observer most.

        **Arguments:** `top`: how many; `by`: `"leaked_bits"` (share of the leakage), `"gain_bits"` (what the sequence
        tells when it occurs), `"posterior"` (the largest posterior probability of a value) or `"probability"`.
        """
        worst, (rows, kept) = Worst(self.prior, top, (by,)), Rows.of_joint(self.probabilities)
        worst.add_rows(rows, lambda chosen: self.events[kept[chosen]])
        return worst.sequences(self.problem, by, values=self.secret_values)

    def _value(self, value: str | int) -> int:
        names = self.secret_values
        if isinstance(value, str):
            if value not in names:
                raise InputError("secret", [f"unknown value {value!r}: known are {', '.join(map(repr, names))}"])
            return names.index(value)
        if not -len(names) <= value < len(names):
            raise InputError("secret", [f"value {value} does not exist: there are {len(names)} values"])
        return value % len(names)


def joint_table(
    problem: Problem,
    policy: Policy,
    *,
    pair: str = OWN,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float = EXACT_SECONDS,
) -> JointTable:
    """The whole table `P(z,y)` with its sequences; for an observer without a clock, its strings.

    The `events` of a string are a sequence that it is written from: its letters as early as they can come, then silence.

    **Arguments:** `pair`: whose secret and observer; `memory_bytes`, `time_limit`: as for `opacity(method="exact")`.

    **Raises:** `TooLargeError`, before the work starts, if the table does not fit.
    """
    chain, budget = make_chain(problem, policy, pair=pair), Budget(memory_bytes, time_limit)
    collected, _, _ = walk_all(value_chain(chain), budget, _Collect, gradient=False, keep_events=True)
    alone = problem.only(pair)
    rows, events = np.concatenate(collected.rows), np.concatenate(collected.events)
    return JointTable(alone, rows, events, values=value_names(alone, chain))


def sampled_table(problem: Problem, chain: Chain, events: Int[np.ndarray, "n T+1"]) -> JointTable:
    """The table of the sequences that were drawn: the posterior of each is exact, its probability the share of the draws.

    **Arguments:** `chain`: of the policy, from `veil.engine.chain.make_chain`; `events`, `(n, T+1)`: the drawn sequences.

    Cost: one forward pass over the sequences.
    """
    events = told_apart(chain, events)
    *_, posterior = posteriors_over_time(chain, events)
    distinct, first, count = np.unique(events, axis=0, return_index=True, return_counts=True)
    share = count[:, None] / len(events)
    return JointTable(problem, share * posterior[first], distinct, chain.prior, len(events))


def bits_over_time(
    problem: Problem,
    policy: Policy,
    method: Literal["exact", "sampled"] = "exact",
    *,
    pair: str = OWN,
    sequences: int = 2000,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float = EXACT_SECONDS,
) -> Float[np.ndarray, " T+1"]:
    """The remaining uncertainty over time: `H(Z | o_0 … o_t)` for t = 0 … T; the last entry is the opacity.

    Of a secret with a value at every time it is `H(Z_t | o_0 … o_t)`. Of others it never rises if the observer has a clock. An
    observer without one knows the string that it has received by time t; which one it was by then, the longer string of a
    later time need not tell.

    **Arguments:** `method`: `"exact"` for all sequences, `"sampled"` for the mean over drawn ones, whose posteriors are exact;
    `pair`: whose secret and observer; `sequences`, `seed`: of the sample; `memory_bytes`, `time_limit`: as for
    `opacity(method="exact")`, for each of the trees.

    Cost: one tree for each t, together less than twice that of the last if the trees grow geometrically; of a sample one
    pass forward along the sequences.

    **Raises:** `TooLargeError` if the sequences are too many for an exact value; `InputError`.
    """
    chain, budget = make_chain(problem, policy, pair=pair), Budget(memory_bytes, time_limit)
    Settings(method, budget, sequences=sequences, seed=seed)  # says what is wrong with them
    if method == "sampled":
        return _sampled_over_time(value_chain(chain), sequences, seed, memory_bytes)
    times = until_each_time(chain if chain.hidden.each is not None else value_chain(chain))
    return np.array([question_at(one).exact(budget).opacity.upper for one in times])


def _sampled_over_time(chain: Chain, sequences: int, seed: int, memory_bytes: int) -> Float[np.ndarray, " T+1"]:
    """The mean entropy of the posteriors of drawn sequences, for each time."""
    numbers = 8 * chain.hidden.num_states * chain.hidden.num_values * 4
    events, step = draw_events(chain, sequences, np.random.default_rng(seed)), max(1, memory_bytes // numbers)
    bits = np.zeros(chain.hidden.horizon + 1)
    for begin in range(0, sequences, step):
        for time, rows in enumerate(posteriors_over_time(chain, events[begin : begin + step])):
            bits[time] += float(entropy_bits(rows).sum())
    return bits / sequences


def observation_costs(
    problem: Problem,
    policy: Policy,
    *,
    pair: str = OWN,
    silent: str | int | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float = EXACT_SECONDS,
    merge_tolerance: float = 0.0,
) -> dict[str, float]:
    """Information leaked through each observation, in bits: the rise of the opacity if the silent one is shown instead.

    **Arguments:**

    - `pair`: whose secret and observer.
    - `silent`: the observation that means "nothing seen"; the observer's own by default.
    - `memory_bytes`, `time_limit`, `merge_tolerance`: as for `opacity(method="exact")`.
    """
    check_call(problem, policy)
    observer = _observer(problem, pair)
    target = observer.silent if silent is None else observer.find(silent)
    others = [o for o in range(observer.num_observations) if o != target]
    muted = {observer.observations[o]: observer.without([o], silent=target) for o in others}
    return _costs(problem, policy, pair, muted, Budget(memory_bytes, time_limit, merge_tolerance))


def sensor_costs(
    problem: Problem,
    policy: Policy,
    *,
    pair: str = OWN,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float = EXACT_SECONDS,
    merge_tolerance: float = 0.0,
) -> dict[str, float]:
    """Information leaked through each sensor, in bits: how much the opacity rises when the sensor is switched off.

    The observer must define its sensors, as those of a `GridWorld` do.

    **Arguments:** `pair`: whose secret and observer; `memory_bytes`, `time_limit`, `merge_tolerance`: as for
    `opacity(method="exact")`.
    """
    check_call(problem, policy)
    observer = _observer(problem, pair)
    if not observer.sensors:
        raise InputError(
            "observer", ["it has no sensors: give them, as in Observer(..., sensors=…), or use observation_costs"]
        )
    muted = {name: observer.without_sensor(name) for name in observer.sensors}
    return _costs(problem, policy, pair, muted, Budget(memory_bytes, time_limit, merge_tolerance))


def _observer(problem: Problem, pair: str) -> Observer:
    return problem.channel(pair).observer


def _costs(problem: Problem, policy: Policy, pair: str, muted: dict[str, Observer], budget: Budget) -> dict[str, float]:
    if policy.acts_on_observer(problem, pair):
        acts = "it acts on the observations that would be switched off, and what it does without them is not defined"
        raise InputError("policy", [f"{acts}: use a policy that acts on states and the time"])

    def bits(changed: Problem) -> float:
        chain = make_chain(changed, policy, pair=pair)
        return question_of(chain).exact(budget).opacity.upper

    def watched_by(observer: Observer) -> Problem:
        if pair == OWN:
            return problem.replace(observer=observer)
        return problem.replace(
            pairs=[replace(one, observer=observer) if one.name == pair else one for one in problem.pairs]
        )

    before = bits(problem)
    return {name: bits(watched_by(observer)) - before for name, observer in muted.items()}
