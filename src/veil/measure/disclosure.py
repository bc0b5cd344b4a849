"""Whether the observer ever becomes sure: the probability that its posterior reaches a level, and "never certain" decided."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from ..common.checks import Defects, is_number
from ..common.clock import OutOfTime, too_large_if_late
from ..common.errors import TooLargeError
from ..common.values import Value
from ..engine.chain import Chain, make_chain
from ..engine.hidden import event_name
from ..engine.joint import DEFAULT_MEMORY
from ..engine.listed import value_chain, value_names
from ..engine.over_time import posteriors_over_time
from ..engine.sampling import draw_events
from ..engine.step import Extension, Step
from ..engine.supports import Supports
from ..engine.written import need_clock
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .exact import EXACT_SECONDS, LATE, Budget
from .ladder import first_that_fits

Method = Literal["auto", "exact", "sampled"]
Of = Literal["truth", "any"]
_SAME = 12  # decimals to which beliefs are equal, so that their histories are followed together
_LEVEL = 1e-12  # a posterior that is this near to the level reaches it
_EXACT_SHARE = 0.5  # of the time, for all histories


@dataclass(frozen=True, eq=False, repr=False)
class Disclosure(Value):
    """The probability that the observer's posterior ever reaches a level.

    **Attributes:** `probability`; `over_time (T+1)`: that it has by each time; `std_error`, 0 if it is exact; `method`;
    `level`, `of`: as they were asked for.
    """

    probability: float
    over_time: Float[np.ndarray, " T+1"]
    std_error: float
    method: str
    level: float
    of: str


def disclosure(
    problem: Problem,
    policy: Policy,
    level: float = 0.9,
    method: Method = "auto",
    *,
    of: Of = "truth",
    pair: str = OWN,
    sequences: int = 2000,
    seed: int = 0,
    time_limit: float = EXACT_SECONDS,
    memory_bytes: int = DEFAULT_MEMORY,
) -> Disclosure:
    """The probability that the posterior ever reaches a level: `P(∃t: P(z | o_0 … o_t) ≥ level)`.

    Before the secret's time the posterior is a forecast. At level 1 the observer is certain: a value is the only one that what
    it has seen leaves possible, which does not depend on rounding.

    **Arguments:**

    - `level`: above 0, up to 1.
    - `of`: `"truth"`: z is the value that the secret has; `"any"`: any value, right or wrong.
    - `method`: `"exact"`: over all histories, those with equal beliefs (to 12 decimals) together; `"sampled"`: over drawn
      sequences, whose posteriors are exact; `"auto"`: the first that fits.
    - `pair`, `sequences`, `seed`, `time_limit`, `memory_bytes`: as for `veil.opacity`.

    Cost: of an exact value, distinct beliefs times `nnz(P)` and, from the secret's time on, times its values.

    **Raises:** `InputError`; also if the observer has no clock or the secret has a value at every time; `TooLargeError`.
    """
    defects = Defects("disclosure")
    if not (is_number(level) and 0 < level <= 1):
        defects.add(f"level is {level!r}, expected a probability above 0")
    if method not in ("auto", "exact", "sampled"):
        defects.add(f"method is {method!r}, expected 'auto', 'exact' or 'sampled'")
    if of not in ("truth", "any"):
        defects.add(f"of is {of!r}, expected 'truth' or 'any'")
    if not isinstance(sequences, (int, np.integer)) or sequences < 2:
        defects.add(f"sequences is {sequences!r}, expected a whole number, 2 or more")
    defects.raise_if_any()
    chain, budget = value_chain(make_chain(problem, policy, pair=pair)), Budget(memory_bytes, time_limit)
    need_clock(chain.written)

    def exact(_: str) -> Disclosure:
        found = _exactly(chain, level, of, budget if method == "exact" else budget.share(_EXACT_SHARE))
        return Disclosure(float(found[-1]), found, 0.0, "exact", level, of)

    def sampled(_: str) -> Disclosure:
        events = draw_events(chain, int(sequences), np.random.default_rng(seed), budget.clock)
        over, error = _sampled(chain, events, level, of)
        return Disclosure(float(over[-1]), over, error, "sampled", level, of)

    return first_that_fits(method, {"exact": exact, "sampled": sampled})


@dataclass(frozen=True, eq=False)
class _Histories:
    """Histories of a time: `messages (k, V, N)` and which values were disclosed before, `known (k, Z)`."""

    messages: Float[np.ndarray, "k V N"]
    known: np.ndarray

    def merged(self) -> "_Histories":
        """Those with equal beliefs together."""
        flat = self.messages.reshape(len(self.messages), -1)
        total = flat.sum(axis=1)
        key = np.column_stack([np.round(flat / total[:, None], _SAME) + 0.0, self.known])
        _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
        messages = np.zeros((len(first), *self.messages.shape[1:]))
        np.add.at(messages, number.ravel(), self.messages)
        return _Histories(messages, self.known[first])


def _exactly(chain: Chain, level: float, of: Of, budget: Budget) -> Float[np.ndarray, " T+1"]:
    """What was disclosed by each time, over all histories."""
    hidden, found = chain.hidden, np.zeros(chain.hidden.horizon + 1)
    messages = hidden.root.T[:, None]
    here = _Histories(messages, np.zeros((len(messages), hidden.num_values), dtype=bool))
    with too_large_if_late(LATE):
        for time in range(hidden.horizon + 1):
            budget.clock.check()
            if time:
                here = _extended(chain, here, time - 1, budget)
            if time == hidden.split_time:
                here = _Histories(here.messages * hidden.label.T, here.known)
            alive = here.messages.any(axis=(1, 2))
            here = _Histories(here.messages[alive], here.known[alive]).merged() if alive.any() else here
            joint = _joint(chain, here, time)
            reached = _reaches(joint, level) & ~here.known
            if of == "any":
                reached = np.repeat(reached.any(axis=1, keepdims=True), joint.shape[1], axis=1)
            found[time] = (found[time - 1] if time else 0.0) + float(joint[reached].sum())
            known = here.known | reached
            # A history of which every possible value was disclosed adds nothing more.
            going = (~known & (joint > 0)).any(axis=1)
            here = _Histories(here.messages[going], known[going])
            if not going.any():
                found[time:] = found[time]
                break
    return np.minimum(found, 1.0)


def _extended(chain: Chain, here: _Histories, time: int, budget: Budget) -> _Histories:
    """The histories after one more event."""
    messages, known, size = list[np.ndarray](), list[np.ndarray](), 0
    step, every = Step.of(chain, time), np.arange(len(here.messages))
    moved = step.moved(here.messages)
    for event in range(chain.hidden.num_events):
        budget.clock.check()
        after = step.emitted(moved, Extension.by(event, every))
        alive = after.any(axis=(1, 2))
        size += after[alive].nbytes
        if size > budget.memory_bytes:
            raise TooLargeError("the histories do not fit the memory: use method='sampled', or a shorter horizon")
        messages.append(after[alive])
        known.append(here.known[alive])
    return _Histories(np.concatenate(messages), np.concatenate(known))


def _joint(chain: Chain, here: _Histories, time: int) -> Float[np.ndarray, "k Z"]:
    if time >= chain.hidden.split_time:
        return here.messages.sum(axis=2)
    return here.messages[:, 0] @ chain.forecasts[time]


def _reaches(joint: Float[np.ndarray, "k Z"], level: float) -> np.ndarray:
    """Which values have a posterior of a level or more; at level 1 those that are the only possible ones."""
    possible = joint > 0
    if level == 1:
        return possible & (possible.sum(axis=1, keepdims=True) == 1)
    return possible & (joint >= (level - _LEVEL) * joint.sum(axis=1, keepdims=True))


def _sampled(chain: Chain, events: np.ndarray, level: float, of: Of) -> tuple[Float[np.ndarray, " T+1"], float]:
    """The mean over sequences of the posterior probability of what was disclosed by each time, and the last's error."""
    reached, final = list[np.ndarray](), np.zeros(0)
    known = np.zeros((len(events), chain.hidden.num_values), dtype=bool)
    for rows in posteriors_over_time(chain, events):
        known = known | _reaches(rows, level)
        if of == "any":
            known = np.repeat(known.any(axis=1, keepdims=True), known.shape[1], axis=1)
        reached.append(known)
        final = rows
    over = np.array([(final * one).sum(axis=1) for one in reached])
    return over.mean(axis=1), float(over[-1].std(ddof=1) / np.sqrt(len(events)))


@dataclass(frozen=True, eq=False, repr=False)
class Certainty(Value):
    """Whether the observer can ever be certain of a value of the secret.

    **Attributes:** `never`: whether it never is, in no run that the policy makes possible; else `value`: one of which it can be
    certain, and `sequence`: a shortest sequence of observations after which it is.
    """

    never: bool
    value: str | None
    sequence: tuple[object, ...]


def certainty(
    problem: Problem, policy: Policy, *, pair: str = OWN, time_limit: float = EXACT_SECONDS, most: int = 1_000_000
) -> Certainty:
    """Whether the observer can ever be certain of a value of the secret, decided on which states are possible.

    No probability is compared with a number: only whether it is zero. It is the yes-or-no opacity of discrete-event systems, of
    every value of the secret (a system is opaque if no sequence leaves one value alone).

    **Arguments:** `policy`: what it never does is impossible; with a policy that may do anything, as
    `veil.MarkovPolicy.uniform(problem)`, the answer is that of the model. `pair`, `time_limit`: as for `veil.opacity`;
    `most`: sets of states after which it gives up.

    Cost: distinct sets of possible states times `nnz(P)`, at most exponential.

    **Raises:** `InputError` as `disclosure`; `TooLargeError`.
    """
    alone, chain = problem.only(pair), make_chain(problem, policy, pair=pair)
    names, chain = value_names(alone, chain), value_chain(chain)
    need_clock(chain.written)
    hidden, supports = chain.hidden, Supports(chain, Budget(time_limit=time_limit).clock)
    forecasts = [rows > 0 for rows in chain.forecasts]
    sets, seen = supports.first(), [(event,) for event in np.flatnonzero(hidden.root.any(axis=0)).tolist()]
    total = 0
    try:
        for time in range(hidden.horizon + 1):
            if time:
                after = supports.ahead(sets, time - 1)
                sets, pairs = after.sets, zip(after.parent.tolist(), after.event.tolist(), strict=True)
                seen = [(*seen[parent], event) for parent, event in pairs]
            if time == hidden.split_time:
                sets = sets[:, None] & (hidden.label.T > 0)
            first = np.unique(np.packbits(sets.reshape(len(sets), -1), axis=1), axis=0, return_index=True)[1]
            sets, seen = sets[first], [seen[number] for number in first.tolist()]
            total += len(sets)
            if total > most:
                raise TooLargeError(f"more than {most:,} sets of possible states: shorten the horizon, or raise most")
            possible = possible_values(forecasts, sets, time)
            for number in np.flatnonzero(possible.sum(axis=1) == 1)[:1].tolist():
                value = names[int(np.flatnonzero(possible[number])[0])]
                return Certainty(False, value, _written(alone, seen[number]))
    except OutOfTime:
        raise TooLargeError(LATE) from None
    return Certainty(True, None, ())


def possible_values(forecasts: list[np.ndarray], sets: np.ndarray, time: int) -> Bool[np.ndarray, "n Z"]:
    """Which values of the secret are possible if the states of each set are; `forecasts`: which are from each of them."""
    return np.asarray(sets.any(axis=2) if sets.ndim == 3 else sets @ forecasts[time])


def _written(problem: Problem, seen: tuple[int, ...]) -> tuple[object, ...]:
    begin = 0 if problem.observer.sees_first else 1
    return tuple(event_name(problem, event, time) for time, event in enumerate(seen) if time >= begin)
