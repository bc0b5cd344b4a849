"""How a search spends its iterations: starts side by side, the better part of them after each round, one to the end.

Everything here is a function of the objective's forecast cost, the number of starts and the options: the clock decides when a
search ends, and never what it does before.
"""

import math
from dataclasses import dataclass

import numpy as np

from .backend import LEAST_SECONDS, PER_ENTRY, STEP_SECONDS
from .device_layout import DEVICE_SECONDS
from .first_order import MEMORY
from .layers import PART, SHARES
from .objective import Objective
from .options import SolveOptions

LONGEST = 5000
"""Iterations of a search on samples if no number is asked for; it ends earlier where its checks find nothing better."""

# Exact searches: iterations of climbing, half of them where an evaluation takes more than a millisecond, and of the last start;
# two thirds for each start that settles. A long climb finds better optima now and then.
_ITERATIONS = 180
_SETTLED = 4  # starts that settle after the climb, and least number of starts: by judgement
# Of all starts of one iteration, so that 240 of them take 17 s at most; the largest number of starts by judgement.
_SECONDS_A_ROUND, _MOST_STARTS = 0.07, 36

# The step to begin with, of exact gradients (with half of it, one basin of the paper's grid is missed); the least share of it.
_RATE, _LEAST_RATE = 0.4, 0.05
SHARE_OF_ROUNDS = 0.4
"""Of the time limit of a search on samples, in rounds of equal length until one start is left; as much is kept for that one."""

# Least and largest number of starts on samples, and steps that each is worth, twice as many as gradients are averaged over:
# what a start hides after fewer says little about where it ends (floors of rooms).
_SAMPLED_STARTS, _STEPS_OF_START = (2, 6), 2 * MEMORY[True][0]
_ROUND = (12, MEMORY[True][1])  # least and largest number of iterations of a round: Adam's mean needs ten steps to fill
# Of a first gradient, unless that is forecast to take longer of one part (`layers`), at least of a quarter of it: 128 sequences
# take little more time than 32, and on yards the answer hides 0.05 bits more with them after 60 processor seconds; more
# sequences gained nothing.
_GRADIENT_SECONDS = 0.1
# Seconds for each transition and quantity of a sum of rewards with its gradient, and for each parameter and bound of a step
# (measured on one core).
_PER_SUM, _PER_PARAMETER = 1.5e-9, 7e-9
MOST_BATCH = SHARES * PART
"""Sequences of a gradient at most: an error of 0.015 bits in what they hide."""


@dataclass(frozen=True)
class Schedule:
    """Rounds as pairs (iterations, starts that stay after them); `last`: iterations of the one that is left; `settle`: on exact
    gradients, those of each that stays before.
    """

    rounds: tuple[tuple[int, int], ...]
    last: int
    settle: int = 0

    def rate(self, steps: int) -> float:
        """The size of a first-order step in logits, after so many steps of the same start, where gradients are noisy.

        It is half of what exact ones begin with, and falls like `1/√k` once squares were averaged.
        """
        return _RATE / 2 / (1 + steps / MEMORY[True][1]) ** 0.5

    def exact_rate(self, steps: int) -> float:
        """The same on exact gradients: it falls to almost nothing over the rounds."""
        length = sum(one for one, _ in self.rounds)
        return _RATE * max(_LEAST_RATE, 1 - steps / max(1, length))

    @property
    def total(self) -> int:
        """Iterations of all."""
        left = self.rounds[-1][1] if self.rounds else 1
        return sum(length for length, _ in self.rounds) + left * self.settle + self.last


def num_exact_starts(objective: Objective) -> int:
    """How many starts suit the cost of an exact evaluation."""
    return int(np.clip(round(_SECONDS_A_ROUND / objective.cost_seconds), _SETTLED, _MOST_STARTS))


def num_sampled_starts(objective: Objective, options: SolveOptions, num_given: int) -> int:
    """How many starts a search on samples has: those asked for, or those that can take some steps each in the time for rounds,
    and `num_given` policies that it begins from; on a device, no more than fit its memory.
    """
    (fewest, most), layout = _SAMPLED_STARTS, objective.space.on_device
    seconds = step_seconds(objective, first_batch(objective))
    fits = min(SHARE_OF_ROUNDS * _limit(options) / (_STEPS_OF_START * seconds), most)
    usual = max(1, int(fits), min(fewest, math.ceil(fewest * fits)))  # one where half of its steps do not fit
    starts = options.starts or usual + num_given
    return starts if layout is None else min(starts, layout.starts)


def exact_schedule(objective: Objective, iterations: int | None, starts: int = 0) -> Schedule:
    """That of a search on exact gradients; of a limit on the iterations each of the three parts has a third.

    Half of the starts stay after each of three parts of the climb, each longer than the one before, until those are left
    that settle: they are polished one after the other, since what a start is worth before says little about its optimum.
    """
    climb, settle, last = _ITERATIONS, 2 * _ITERATIONS // 3, _ITERATIONS
    climb = climb if objective.cost_seconds <= LEAST_SECONDS else climb // 2
    left = max(1, min(_SETTLED, starts))
    if iterations is not None:
        climb, settle = min(iterations, math.ceil(iterations / 3)), iterations // (3 * left)
        last = iterations - climb - left * settle
    stay = [max(left, starts // 2), max(left, starts // 4), left]
    climbs = np.diff(np.multiply((0, 1, 3, 6), climb) // 6).tolist()
    return Schedule(tuple(zip(climbs, stay, strict=True)), last, settle)


def sampled_schedule(objective: Objective, options: SolveOptions, starts: int) -> Schedule:
    """That of a search on samples: half of the starts stay after each round."""
    seconds = step_seconds(objective, first_batch(objective))
    length = LONGEST if options.iterations is None else options.iterations
    halvings = (starts - 1).bit_length()
    rounds, left = [], starts
    for _ in range(halvings):
        fits = SHARE_OF_ROUNDS * _limit(options) / (halvings * left * seconds)
        count = int(np.clip(min(fits, length / (4 * halvings)), 1, _ROUND[1]))
        rounds.append((max(count, min(_ROUND[0], length // (2 * halvings) or 1)), left := (left + 1) // 2))
    return Schedule(tuple(rounds), max(0, length - sum(one for one, _ in rounds)))


def _limit(options: SolveOptions) -> float:
    return math.inf if options.time_limit is None else options.time_limit


def first_batch(objective: Objective) -> int:
    """Sequences of the first gradients of an objective on samples: a power of two that takes about so long."""
    layout = objective.space.on_device
    if layout is None:
        seconds, least, most = PER_ENTRY * _entries(objective), PART // 4, PART
    else:
        seconds, least, most = step_seconds(objective, 1), layout.chunk, max(layout.chunk, MOST_BATCH // 2)
    fits = 2 ** (max(1, int(_GRADIENT_SECONDS / seconds)).bit_length() - 1)
    return int(np.clip(fits, least, most))


def step_seconds(objective: Objective, batch: int) -> float:
    """The forecast of one step of one start: its bits, sums of rewards, and parameters."""
    hidden, quantities = objective.space.hidden, 1 + len(objective.others) + len(objective.terms)
    if objective.space.on_device is not None:
        return DEVICE_SECONDS * hidden.horizon * hidden.num_states * batch
    bits = PER_ENTRY * _entries(objective) * batch
    bits += STEP_SECONDS * hidden.horizon * len(objective.sampled)
    sums = _PER_SUM * hidden.horizon * hidden.kernel.num_entries * hidden.kernel.num_actions * (1 + quantities)
    return bits + sums + _PER_PARAMETER * int(np.prod(objective.space.shape)) * (2 + objective.num_constraints)


def _entries(objective: Objective) -> int:
    """Transitions at all times, of all channels that are sampled."""
    return sum(space.layers.num_entries for space in objective.sampled)
