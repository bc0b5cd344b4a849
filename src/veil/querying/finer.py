"""A lower bound on what any queries leave: that of an observer who receives the answers to all queries at every later time.

Its answers from a time on are a channel from the hidden state of that time. Of the many outcomes few are kept: an outcome is
a sum of others, each with a weight, and a rest, of which the hidden state is told. To be told which of them it is only adds
knowledge, and `W` is concave and homogeneous, so that the bound remains one.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime
from .beliefs import BeliefSteps, row_bits

_MOST_WORK = 2**33  # multiplications in all
_MOST_OUTCOMES = 192
_PASSES = 3  # how often a part of each outcome is written as others
_EVALUATED = 2**22  # numbers at a time

Outcomes = Float[np.ndarray, "J N V"]


@dataclass(frozen=True, eq=False)
class _Channel:
    """What is answered until one time that counts: for each time before it some `outcomes`, and a `rest` of each state.

    The rest is the chance that the state is told, or, before the secret is settled, the bits that are left if it is.
    """

    weight: float
    outcomes: list[Outcomes]
    rest: list[Float[np.ndarray, " N"]]


class FinerAnswers:
    """The bound at every time, if actions only ask and cost nothing less than 0; else it is 0.

    Before the secret is settled an outcome has a chance for each hidden state and later value; then `V = 1`.
    """

    def __init__(self, steps: BeliefSteps, clock: Clock):
        self.steps = steps
        self._channels = list[_Channel]()
        if not steps.is_free or (steps.costs < 0).any():
            return
        width = steps.hidden.num_states * max(steps.hidden.num_values, 1) * sum(time for time, _ in steps.counted)
        self._most = int(np.clip(np.sqrt(_MOST_WORK / (8 * steps.num_actions * max(1, width))), 4, _MOST_OUTCOMES))
        with suppress(OutOfTime):
            for last, weight in steps.counted:
                self._channels.append(_Channel(weight, *self._gone_back(last, clock)))

    def bound(self, time: int, beliefs: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " k"]:
        """A lower bound on what is still to count after each belief."""
        total, values = np.zeros(len(beliefs)), self.steps.values(time)
        for one in self._channels:
            if time >= len(one.outcomes) - 1:
                continue
            outcomes, rest = one.outcomes[time], one.rest[time]
            size = max(1, _EVALUATED // max(1, len(outcomes) * max(values, outcomes.shape[2])))
            for begin in range(0, len(beliefs), size):
                part = slice(begin, begin + size)
                total[part] += one.weight * self._bits(beliefs[part], outcomes, rest, values)
        return total

    def at_start(self) -> float:
        """The same from the start on, with what counts then: what is left if all queries are answered at all times."""
        beliefs = np.array([row for _, row in self.steps.starts])
        return float((self.steps.unknown(0, beliefs) + self.bound(0, beliefs)).sum())

    def _bits(
        self, beliefs: Float[np.ndarray, "k n"], outcomes: Outcomes, rest: np.ndarray, values: int
    ) -> Float[np.ndarray, " k"]:
        count, (number, size, shown) = len(beliefs), outcomes.shape
        rows = beliefs.reshape(count, values, size)
        if values > 1:
            joint = (rows.reshape(-1, size) @ outcomes[:, :, 0].T).reshape(count, values, number).transpose(0, 2, 1)
            told = row_bits((rows * rest).transpose(0, 2, 1).reshape(-1, values)).reshape(count, -1).sum(axis=1)
        else:
            table = outcomes.transpose(1, 0, 2).reshape(size, -1)
            joint, told = (rows[:, 0] @ table).reshape(count, number, shown), rows[:, 0] @ rest
        found = row_bits(np.ascontiguousarray(joint).reshape(-1, joint.shape[2])).reshape(count, number).sum(axis=1)
        return found + told

    def _gone_back(self, last: int, clock: Clock) -> tuple[list[Outcomes], list[np.ndarray]]:
        """From a time that counts, when nothing more is answered, to the first."""
        steps, reached = self.steps, self.steps.occupied
        rest = np.zeros(steps.hidden.num_states)
        label = steps.label_at(last)[None] if steps.settled < 0 else np.ones((1, len(rest), 1))
        outcomes, rests = [label], [rest]
        for time in range(last - 1, -1, -1):
            found, rest = self._earlier(time, outcomes[-1], rest, reached[time], reached[time + 1], clock)
            outcomes.append(found)
            rests.append(rest)
        return outcomes[::-1], rests[::-1]

    def _earlier(
        self, time: int, outcomes: Outcomes, rest: np.ndarray, here: np.ndarray, there: np.ndarray, clock: Clock
    ) -> tuple[Outcomes, np.ndarray]:
        """The outcomes from one time before, with all answers that come with the state of the time after."""
        steps, move = self.steps, self.steps.moves[0]
        is_settled = 0 <= steps.settled <= time + 1
        for action in range(steps.num_actions):
            shown = steps.answers.shown[steps.answers.action == action]
            if len(shown) == 1:
                continue
            more = (shown[:, None, :, None] * outcomes).reshape(-1, *outcomes.shape[1:])
            outcomes, added = self._fewer(more, there, settled=is_settled, clock=clock)
            rest = rest + added
        if steps.settled == time + 1:
            label = steps.hidden.label
            told = row_bits(rest[:, None] * label)
            outcomes, rest, is_settled = outcomes * label, told, False
        flat = outcomes.transpose(1, 0, 2).reshape(len(move.indptr) - 1, -1)
        earlier = np.asarray(move @ flat).reshape(-1, len(outcomes), outcomes.shape[2]).transpose(1, 0, 2)
        if not is_settled:
            found, added = self._fewer(earlier, here, settled=False, clock=clock)
            return found, move @ rest + added
        # That the state one time later is told is an outcome like the others.
        kept = np.flatnonzero(rest)
        told = (move[:, kept].toarray() * rest[kept]).T[:, :, None]
        return self._fewer(np.concatenate([earlier, told]), here, settled=True, clock=clock)

    def _fewer(
        self, outcomes: Outcomes, mass: np.ndarray, *, settled: bool, clock: Clock
    ) -> tuple[Outcomes, np.ndarray]:
        """A few outcomes, of which all are sums but for a rest; and what is added to the rest of each state."""
        size, values = outcomes.shape[1:]
        flat = np.where(mass[:, None] > 0, outcomes, 0.0).reshape(len(outcomes), -1)
        weight = np.repeat(mass, values)
        share = flat @ weight
        flat, share = flat[share > 0], share[share > 0]
        if len(flat) <= self._most:
            return flat.reshape(-1, size, values), np.zeros(size)
        kept = _spread(flat / share[:, None], share, weight, self._most, clock)
        chosen, total, left = flat[kept], np.zeros(len(kept)), flat
        for _ in range(_PASSES):
            clock.check()
            fits = _fits(left, chosen)
            best = (fits * share[kept]).argmax(axis=1)
            taken = fits[np.arange(len(left)), best]
            np.add.at(total, best, taken)
            left = np.maximum(left - taken[:, None] * chosen[best], 0.0)
            left = left[left @ weight > 0]
            if not len(left):
                break
        rest = left.reshape(-1, size, values)
        told = rest.sum(axis=(0, 2)) if settled else row_bits(rest.reshape(-1, values)).reshape(-1, size).sum(axis=0)
        return (total[:, None] * chosen).reshape(-1, size, values), told


def _fits(outcomes: Float[np.ndarray, "J n"], chosen: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "J m"]:
    """How often each of the chosen is contained in each outcome."""
    found = np.empty((len(outcomes), len(chosen)))
    for number, one in enumerate(chosen):
        inside = one > 0
        found[:, number] = (outcomes[:, inside] / one[inside]).min(axis=1)
    return found * (1 - 1e-12)  # so that what is left is not below 0


def _spread(
    rows: Float[np.ndarray, "J n"], share: Float[np.ndarray, " J"], weight: np.ndarray, most: int, clock: Clock
) -> np.ndarray:
    """A few rows that many others contain much of: the one of largest share first, then what is contained least."""
    kept, covered = list[int](), np.zeros(len(rows))
    while len(kept) < most:
        clock.check()
        number = int((share * (1 - covered)).argmax())
        if covered[number] >= 1 - 1e-9:
            break
        kept.append(number)
        covered = np.maximum(covered, _fits(rows, rows[[number]])[:, 0])
        covered[number] = 1.0
    return np.array(kept)
