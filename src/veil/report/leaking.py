"""When and through which sensor the secret leaks, and what follows from it, in sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import entropy_bits
from ..engine.over_time import posteriors_over_time
from ..measure.disclosure import Disclosure, disclosure
from ..measure.measures import RevealingSequence, bits_over_time, observation_costs, sensor_costs
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .behaviour import Behaviour
from .observing import SampledRuns, event_text, seconds_for
from .style import shortened

_MEMORY = 2**28  # of each tree of sequences
_MOST_SOURCES = 12  # sensors that are switched off one after the other, a value each
SURE = 0.9
"""The posterior of the truth from which the observer counts as sure."""
_TELLING = 0.0005  # bits: what a sensor leaks less than that rounds to nothing
_MOST_ADVICE = 3  # sensors that are named


@dataclass(frozen=True, eq=False)
class Leaking:
    """Where the information goes.

    **Attributes:** `over_time`, `(T+1,)`, the remaining uncertainty `H(Z | o_0 … o_t)`, of an observer without a clock that of
    the string up to each time; `errors`, its standard errors, zeros where it is exact; `drawn`, the number of runs it was
    estimated from, 0 where it is exact; `sources`: by sensor, or by observation, the bits by which the opacity rises without
    it, largest first; `source`: `"sensor"` or `"observation"`; `sure`: how often the observer believes the truth with
    probability `SURE` or more at some time, and how often it is ever certain; None if that is not known.
    """

    over_time: Float[np.ndarray, " T+1"]
    errors: Float[np.ndarray, " T+1"]
    drawn: int
    sources: dict[str, float]
    source: str
    sure: tuple[Disclosure, Disclosure] | None = None


def find_sure(
    problem: Problem, policy: Policy, seconds: float, pair: str = OWN
) -> tuple[Disclosure, Disclosure] | None:
    """See `Leaking.sure`."""
    try:
        given = {"pair": pair, "time_limit": seconds / 2, "memory_bytes": _MEMORY}
        return disclosure(problem, policy, SURE, **given), disclosure(problem, policy, 1.0, of="any", **given)
    except (InputError, TooLargeError):  # no clock, or a value at every time; no time
        return None


def find_leaking(behaviour: Behaviour, sample: SampledRuns, clock: Clock | None = None) -> Leaking:
    """The leakage of a policy over time and by sensor; exact where that takes seconds, else over time from sampled runs."""
    observer = behaviour.problem.observer
    source = "sensor" if observer.sensors else "observation"
    try:
        seconds = seconds_for(clock)
        bits = bits_over_time(behaviour.problem, behaviour.policy, memory_bytes=_MEMORY, time_limit=seconds)
    except TooLargeError:
        each = np.array([entropy_bits(rows) for rows in posteriors_over_time(behaviour.chain, sample.events)])
        errors = each.std(axis=1, ddof=1) / np.sqrt(each.shape[1])
        return Leaking(each.mean(axis=1), errors, each.shape[1], {}, source)
    sure = find_sure(behaviour.problem, behaviour.policy, seconds_for(clock))
    return Leaking(bits, np.zeros(len(bits)), 0, _sources(behaviour, clock), source, sure)


def _sources(behaviour: Behaviour, clock: Clock | None) -> dict[str, float]:
    problem, observer = behaviour.problem, behaviour.problem.observer
    count = len(observer.sensors) or observer.num_observations
    if behaviour.policy.acts_on_observer(problem):  # what it does without them is not defined
        return {}
    if count > _MOST_SOURCES or (not observer.sensors and observer.silent is None):
        return {}
    try:
        measured = sensor_costs if observer.sensors else observation_costs
        costs = measured(problem, behaviour.policy, memory_bytes=_MEMORY, time_limit=seconds_for(clock))
    except TooLargeError:
        return {}
    return dict(sorted(costs.items(), key=lambda one: -one[1]))


def recommendations(leaking: Leaking, sequences: Sequence[RevealingSequence], *, exact: bool) -> list[str]:
    """What to change or to watch, one sentence each.

    **Arguments:** `sequences`: those that reveal most; `exact`: whether their probabilities are exact, or shares of a sample.
    """
    telling = [(name, bits) for name, bits in leaking.sources.items() if bits >= _TELLING]
    found = [
        f"Muting {leaking.source} {shortened(name, 40)} would raise the observer's uncertainty by {bits:.3f} bits."
        for name, bits in telling[:_MOST_ADVICE]
    ]
    quiet = [shortened(name, 40) for name, bits in leaking.sources.items() if bits < _TELLING]
    if quiet and telling:
        found.append(f"Muting {' or '.join(quiet[:_MOST_ADVICE])} alone would change almost nothing.")
    if leaking.sure is not None:
        found.append(_surely(*leaking.sure))
    drops = -np.diff(leaking.over_time)
    if len(drops) and drops.max() >= _TELLING:
        time = int(drops.argmax()) + 1
        about = "about " if leaking.drawn else ""
        found.append(f"The observer learns most at time {time}: {about}{drops[time - 1]:.3f} bits in one step.")
    if sequences:
        worst = max(sequences, key=lambda one: one.posterior[one.guess])
        seen = shortened(" ".join(map(event_text, worst.observations)), 60)
        how = f"with probability {worst.probability:.2g}" if exact else "in the sample"
        sure = f"believes “{shortened(worst.guess, 40)}” with probability {worst.posterior[worst.guess]:.1%}"
        found.append(f"An observer who sees “{seen}”, {how}, {sure}.")
    return found


def _surely(often: Disclosure, certain: Disclosure) -> str:
    """How often the observer becomes sure, in a sentence."""
    share = f"{'about ' * (often.method == 'sampled')}{often.probability:.1%} of the runs"
    ever = f"is certain at some time in {certain.probability:.1%}" if certain.probability else "is never certain"
    return f"In {share} the observer believes the truth with probability {SURE:g} or more at some time; it {ever}."
