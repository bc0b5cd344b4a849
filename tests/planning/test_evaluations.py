"""A search does not evaluate the same table twice in a row."""

from collections import Counter
from typing import Any

import numpy as np

from tests.planning.small_problems import random_problem
from veil.common.clock import Clock
from veil.planning.ascent import Ascent
from veil.planning.policy_class import make_space
from veil.planning.starts import make_starts, richest_table
from veil.planning.task import make_task
from veil.planning.values import Secrecy, make_secrecy


class Counted:
    """An evaluation that counts how often it is asked about each batch of tables."""

    def __init__(self, secrecy: Secrecy):
        self._secrecy, self.asked = secrecy, Counter[bytes]()
        self.kind, self.reason = secrecy.kind, secrecy.reason
        self.cost_seconds, self.at_once = secrecy.cost_seconds, secrecy.at_once

    def __call__(self, tables: np.ndarray, clock: Clock) -> Any:
        self.asked[tables.tobytes()] += 1
        return self._secrecy(tables, clock)


def test_few_evaluations_are_repeats():
    space = make_space(random_problem(3))
    counted, safe = Counted(make_secrecy(space)), richest_table(space)
    method = Ascent(make_task(space, secrecy=counted), make_starts(space, safe, 3, 0), safe[None])
    state = method.begin()
    while not method.is_done(state):
        state = method.advance(state)
    total = counted.asked.total()
    repeats = total - len(counted.asked)
    assert repeats <= 0.03 * total, f"{repeats} of {total} evaluations"
