"""The best inference attack: an observer guesses the secret of simulated runs, with exact values where they are known."""

from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.checks import Defects, is_number
from ..common.clock import Clock, too_large_if_late
from ..common.errors import ImpossibleObservationError, InputError, TooLargeError
from ..common.logs import code_lengths_bits, row_sums
from ..engine.chain import Chain, make_chain
from ..engine.filter import ObserverFilter
from ..engine.listed import value_chain, value_names
from ..engine.over_time import posteriors_over_time
from ..engine.sampling import Runs, draw_runs
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .attack_result import Attack, CalibrationBin, Estimate, Mistake, Trace, fano_error
from .evaluate import opacity
from .exact import EXACT_SECONDS
from .loss import at_once, or_prior, posteriors
from .measures import JointTable, joint_table
from .result import Opacity
from .worst import event_names

_MOST_EXACT = 500_000  # sequences up to which exact values are added: that takes seconds
_OPACITY_SECONDS = 20.0  # the limit of `opacity(method="auto")`
_LEAST_SECONDS = 0.05
_TIE = 1e-9  # posteriors that differ by less tie: far above their rounding, far below any difference that matters


def attack(
    problem: Problem,
    policy: Policy,
    episodes: int = 10_000,
    *,
    pair: str = OWN,
    observer_believes: Policy | None = None,
    seed: int = 0,
    bins: int = 10,
    traces: int = 5,
    time_limit: float | None = None,
) -> Attack:
    """Run the best attack on the secret against simulated runs of a policy.

    The observer computes its exact posterior `P(z|y)` and guesses the most probable value (maximum a posteriori; values
    that tie are drawn uniformly). No observer who knows the policy guesses right more often. With `observer_believes` its
    posterior comes from another policy than the one that acts; after an observation that is impossible under that policy
    it uses its prior, as a `veil.Belief` with doubt does; without doubt such a run costs it infinitely many bits. An
    observer without a clock uses the string of its observations that are not silent.

    **Arguments:**

    - `policy`: the policy that acts.
    - `episodes`: number of simulated runs, 2 or more.
    - `pair`: the pair of the problem whose secret and observer count, by name; the problem's own by default.
    - `observer_believes`: the policy that the observer assumes; the true one by default.
    - `seed`: random seed.
    - `bins`: of the calibration table.
    - `traces`: number of runs to show in full.
    - `time_limit`: seconds. By default the runs take the time they need, and the opacity up to 20 seconds, as in `opacity`.
      Exact values that do not fit the time are left out.

    Cost: one pass forward along the runs, `O(T · episodes · nnz(P))`, after the secret's time once for each of its
    values; and that of `opacity(method="auto")`. Exact values are added if at most 500,000
    sequences are possible.

    **Returns:** an `Attack`; `print(result.summary())` describes it.

    **Raises:** `InputError` if a policy does not fit the problem or a setting is out of range; `TooLargeError` if the runs
    do not fit the time limit.
    """
    _check(episodes, seed, bins, traces, time_limit)
    clock = Clock(time_limit)
    acting, alone = make_chain(problem, policy, pair=pair), problem.only(pair)
    chain, values = value_chain(acting), value_names(alone, acting)
    believed = policy if observer_believes is None else observer_believes
    observer = _Observer(chain if observer_believes is None else _believed_chain(problem, believed, pair, values))
    # Runs of their own: the sample that the opacity may rest on begins with the seed itself.
    with too_large_if_late(
        f"{episodes:,} runs do not fit the time limit of {clock.time_limit:g} s: give fewer episodes or a larger time_limit"
    ):
        runs = draw_runs(chain, episodes, np.random.default_rng((int(seed), 1)), clock)
        guesses = _Guesses(observer, chain, runs, clock)
    hidden_bits = opacity(problem, policy, pair=pair, seed=seed, time_limit=_part(clock, _OPACITY_SECONDS))
    exact = _enumerated(problem, policy, pair, hidden_bits, clock)
    table = None if exact is None else _Rule(observer, exact, same=observer_believes is None)
    costs, finite = guesses.costs_bits, guesses.finite
    return Attack(
        problem=alone.name,
        secret_values=values,
        episodes=episodes,
        seed=seed,
        accuracy=Estimate.of(guesses.right, None if table is None else table.accuracy),
        blind_accuracy=float(chain.prior @ observer.right_by_prior),
        accuracy_over_time=guesses.over_time,
        finite_cross_entropy_bits=(
            Estimate.of(costs[finite], None if table is None else table.finite_bits) if finite.any() else None
        ),
        infinite_share=Estimate.of(guesses.ruled_out, None if table is None else table.infinite_share),
        impossible_share=Estimate.of(guesses.impossible, None if table is None else table.impossible_share),
        opacity=hidden_bits,
        fano_error=fano_error(hidden_bits.bits, int(np.count_nonzero(chain.prior))),
        calibration=_calibration(guesses.confidence, guesses.right, bins, len(values)),
        traces=_traces(ObserverFilter(problem, believed, pair=pair), chain, runs, guesses.truth, min(traces, episodes)),
        mistake=None if observer_believes is None else _mistake(chain, runs, guesses, hidden_bits, table),
    )


def _part(clock: Clock, seconds: float) -> float:
    """Half of the time that is left, and no more than these seconds."""
    return max(_LEAST_SECONDS, min(seconds, clock.left / 2))


def _check(episodes: int, seed: int, bins: int, traces: int, time_limit: float | None) -> None:
    defects = Defects("attack")
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        defects.add(f"time_limit is {time_limit!r}, expected seconds above 0, or None")
    least = {"episodes": (episodes, 2), "seed": (seed, 0), "bins": (bins, 1), "traces": (traces, 0)}
    for name, (value, smallest) in least.items():
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < smallest:
            defects.add(f"{name} is {value!r}, expected a whole number, {smallest} or more")
    defects.raise_if_any()


def _believed_chain(problem: Problem, believed: Policy, pair: str, values: tuple[str, ...]) -> Chain:
    try:
        chain = make_chain(problem, believed, pair=pair)
    except InputError as error:
        raise InputError(f"observer_believes, {error.subject}", error.defects) from None
    if value_names(problem.only(pair), chain) != values:
        raise InputError("observer_believes", ["other paths are possible under it than under the policy that acts"])
    return value_chain(chain)


class _Observer:
    """The posterior of an observer who assumes a chain, and its guess."""

    def __init__(self, chain: Chain):
        self.chain = chain
        self.prior = chain.prior

    @cached_property
    def right_by_prior(self) -> Float[np.ndarray, " Z"]:
        """For each true value the probability that the guess before anything was seen is right."""
        return guess_chances(self.prior)

    def rule(self, posterior: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, "n Z"]:
        """What it goes by when it guesses: its posterior, or its prior after what it held impossible."""
        return or_prior(posterior, self.prior)


def guess_chances(posterior: Float[np.ndarray, "*n Z"]) -> Float[np.ndarray, "*n Z"]:
    """The probability that each value is guessed: the most probable one, evenly among those that tie."""
    # Values that are equal on paper differ by rounding, and not alike in every way to compute them.
    best = posterior >= posterior.max(axis=-1, keepdims=True) - _TIE
    return best / best.sum(axis=-1, keepdims=True)


class _Guesses:
    """What the observer makes of the runs, chunk by chunk, at every time."""

    def __init__(self, observer: _Observer, chain: Chain, runs: Runs, clock: Clock):
        label, split = chain.hidden.label, chain.hidden.split_time
        self.truth: Int[np.ndarray, " n"] = np.argmax(label[runs.states[:, split]], axis=1)
        last, right, step = [], np.zeros((chain.hidden.horizon + 1, len(runs))), at_once(observer.chain)
        for begin in range(0, len(runs), step):
            part = slice(begin, begin + step)
            posterior = np.empty(0)
            for time, posterior in enumerate(posteriors_over_time(observer.chain, runs.events[part])):
                clock.check()
                chances = guess_chances(observer.rule(posterior))
                right[time, part] = chances[np.arange(len(chances)), self.truth[part]]
            last.append(posterior)
        self.posterior: Float[np.ndarray, "n Z"] = np.concatenate(last)
        self.right: Float[np.ndarray, " n"] = right[-1]
        self.over_time: Float[np.ndarray, " T+1"] = right.mean(axis=1)
        self.over_time.flags.writeable = False
        self.confidence: Float[np.ndarray, " n"] = observer.rule(self.posterior).max(axis=1)
        self.impossible: Bool[np.ndarray, " n"] = row_sums(self.posterior) == 0
        self.costs_bits = _costs_bits(self.posterior, self.truth)
        self.finite: Bool[np.ndarray, " n"] = self.costs_bits < np.inf
        self.ruled_out: Bool[np.ndarray, " n"] = self.costs_bits == np.inf


def _costs_bits(posterior: Float[np.ndarray, "n Z"], truth: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """`-log2 P(z|y)` of the true values; infinite where the observer had ruled them out."""
    return code_lengths_bits(posterior[np.arange(len(truth)), truth])


class _Rule:
    """What the observer's rule earns exactly, summed over all sequences that the acting policy makes possible."""

    def __init__(self, observer: _Observer, table: JointTable, *, same: bool):
        joint = table.probabilities
        posterior = table.posterior if same else posteriors(observer.chain, table.events)
        self.accuracy = float(np.vdot(joint, guess_chances(observer.rule(posterior))))
        happens = joint > 0
        finite = happens & (posterior > 0)
        ruled_out, total = float(joint[happens & ~finite].sum()), float(joint[finite].sum())
        self.infinite_share = ruled_out
        self.impossible_share = float(joint[~posterior.any(axis=1)].sum())
        bits = float(joint[finite] @ code_lengths_bits(posterior[finite]))
        self.finite_bits = bits / total if total > 0 else None
        self.bits = np.inf if ruled_out > 0 else bits


def _enumerated(problem: Problem, policy: Policy, pair: str, found: Opacity, clock: Clock) -> JointTable | None:
    """The joint table where the sequences are few enough, else None."""
    if found.method != "exact" or found.num_sequences > _MOST_EXACT:
        return None
    try:
        return joint_table(problem, policy, pair=pair, time_limit=_part(clock, EXACT_SECONDS))
    except TooLargeError:  # few sequences, yet too long to keep, or no time for them
        return None


def _calibration(
    confidence: Float[np.ndarray, " n"], right: Float[np.ndarray, " n"], bins: int, num_values: int
) -> tuple[CalibrationBin, ...]:
    """The bins that occur, from the least confidence there can be, one over the number of values, to one."""
    least = 1 / num_values if num_values > 1 else 0.0
    edges = np.linspace(least, 1.0, bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="right") - 1, 0, bins - 1)
    return tuple(
        CalibrationBin(
            low=float(edges[number]),
            high=float(edges[number + 1]),
            count=int(np.count_nonzero(place == number)),
            claimed=float(confidence[place == number].mean()),
            achieved=float(right[place == number].mean()),
        )
        for number in np.unique(place)
    )


def _traces(
    observer: ObserverFilter, chain: Chain, runs: Runs, truth: Int[np.ndarray, " n"], count: int
) -> tuple[Trace, ...]:
    # Before the first letter of a string, and where nothing is received at time 0, there is a belief without observations.
    first = 0 if chain.written is None and observer.problem.observer.sees_first else 1
    return tuple(_trace(observer, runs.events[number], int(truth[number]), first) for number in range(count))


def _trace(observer: ObserverFilter, events: Int[np.ndarray, " L"], truth: int, first: int) -> Trace:
    names = event_names(observer.problem, events)
    observer.reset()
    rows, impossible_at = [observer.posterior] if first else [], None
    for time, name in enumerate(names, first):
        try:
            rows.append(observer.update(name))
        except ImpossibleObservationError:
            impossible_at = time
            break
    posterior = np.array(rows).reshape(len(rows), len(observer.values))
    posterior.flags.writeable = False
    return Trace(names, observer.values[truth], posterior, impossible_at)


def _mistake(chain: Chain, runs: Runs, guesses: _Guesses, hidden_bits: Opacity, table: _Rule | None) -> Mistake:
    """The observer against one who knows the policy, on the same runs."""
    knowing = posteriors(chain, runs.events)
    finite = guesses.finite
    # Run by run the difference varies less than either term; its mean is the divergence of the two posteriors.
    extra = guesses.costs_bits[finite] - _costs_bits(knowing, guesses.truth)[finite]
    right = guess_chances(knowing)[np.arange(len(knowing)), guesses.truth]
    return Mistake(
        finite_bits=Estimate.of(extra, None) if finite.any() else None,
        sampled_bits=float(extra.mean()) if finite.all() else np.inf,
        exact_bits=None if table is None else table.bits - hidden_bits.bits,
        knowing_accuracy=Estimate.of(right, None),
    )
