"""The learned observer: a recurrent posterior q(z|y) that is taught the newest runs, and how much a run surprises it."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import copy
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, is_number
from ..common.errors import InputError
from ..common.logs import log2_or_zero
from ..learning import recurrent
from .coding import Coding

_FLOOR = 1e-4  # of a probability: the surprise of one run is at most 13.3 bits
_WARM_PASSES = 10  # through the first runs


class LearnedObserver:
    """An observer who learns, from runs with known secrets, what its readings tell of the secret.

    **Arguments:**

    - `longest`: the most readings of a run, one more than its steps.
    - `seed`: the same seed and runs give the same observer.
    - `hidden`: units of its recurrent layer; `rate`: of learning; `batch`: runs of a step.
    - `passes`: through the kept runs in each lesson; `kept`: of how many lessons it keeps the runs.
    - `every`: runs that `collect` waits for before it gives a lesson.
    """

    def __init__(
        self,
        longest: int,
        *,
        seed: int = 0,
        hidden: int = 32,
        rate: float = 3e-3,
        batch: int = 128,
        passes: int = 2,
        kept: int = 4,
        every: int = 256,
    ):
        defects, counts = Defects("LearnedObserver"), {"longest": longest, "hidden": hidden, "batch": batch}
        counts |= {"passes": passes, "kept": kept, "every": every}
        for name, count in counts.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                defects.add(f"{name} is {count!r}, expected a whole number, 1 or more")
        if not (is_number(rate) and 0 < rate < math.inf):
            defects.add(f"rate is {rate!r}, expected a number above 0, such as 0.003")
        defects.raise_if_any()
        self.longest, self.seed, self.hidden = longest, seed, hidden
        self.rate, self.batch, self.passes, self.kept = rate, batch, passes, kept
        self.every = every
        self._collected: list[tuple[str, Sequence[object]]] = []
        self.coding: Coding | None = None
        self.learner: recurrent.Learner | None = None
        self.lessons: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.generator = np.random.default_rng(seed)

    def surprise(self, values: Sequence[str], readings: Sequence[Sequence[object]]) -> Float[np.ndarray, " n"]:
        """`−log2 q(z|y)` of each run, in bits; 0 before the first lesson."""
        if self.coding is None or self.learner is None:
            return np.zeros(len(values))
        chances = recurrent.predict(self.learner.params, *self.coding.inputs(readings))
        right = chances[np.arange(len(values)), self.coding.secret(values)]
        return -log2_or_zero(np.maximum(right, _FLOOR))

    def learn(self, values: Sequence[str], readings: Sequence[Sequence[object]]) -> None:
        """One lesson: these runs and those of the lessons before it."""
        if not values:
            raise InputError("LearnedObserver", ["there are no runs to learn from"])
        first = self.coding is None
        if self.coding is None:
            self.start(Coding.of(values, readings, self.longest))
        assert self.coding is not None
        assert self.learner is not None
        self.lessons = [*self.lessons, (*self.coding.inputs(readings), self.coding.secret(values))][-self.kept :]
        inputs, lengths, secret = (np.concatenate(parts) for parts in zip(*self.lessons, strict=True))
        size = max(len(secret), self.kept * len(values))  # the first runs are repeated: every lesson has the same shape
        rows = np.arange(size) % len(secret)
        for _ in range(_WARM_PASSES if first else self.passes):
            self.learner.learn(inputs[rows], lengths[rows], secret[rows], self.batch, self.generator)

    def copied(self) -> "LearnedObserver":
        """A copy without the recorded runs; what the copy learns does not change this observer."""
        found = copy.copy(self)
        found.lessons, found._collected, found.learner = [], [], copy.copy(self.learner)
        found.generator = np.random.default_rng(self.seed)
        return found

    def collect(self, value: str, readings: Sequence[object]) -> None:
        """Remember one run; a lesson follows after `every` of them."""
        self._collected.append((value, list(readings)))
        if len(self._collected) >= self.every:
            values, rows = zip(*self._collected, strict=True)
            self._collected = []
            self.learn(values, rows)

    def start(self, coding: Coding) -> None:
        """Begin as an observer who knows nothing, with this coding of its readings."""
        count = len(coding.values)
        params = recurrent.begin(
            self.generator, coding.num_inputs, self.longest, np.full(count, 1 / count), self.hidden,
            symbols=coding.symbols is not None,
        )  # fmt: skip
        self.coding, self.learner = coding, recurrent.Learner(params, self.rate)
