"""A search does not evaluate the same table twice in a row."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from tests.planning.small_problems import random_problem
from veil.common.clock import Clock
from veil.planning.backend import Backend, Draw
from veil.planning.channels import Asked, make_backend
from veil.planning.objective import Channels, make_objective
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.safe_tables import richest_table
from veil.planning.table_methods import make_ascent


class Counted:
    """An evaluation that counts how often it is asked about each batch of tables."""

    def __init__(self, backend: Backend):
        self._backend, self.asked = backend, Counter[bytes]()
        self.kind, self.reason, self.ends = backend.kind, backend.reason, backend.ends
        self.cost_seconds, self.at_once = backend.cost_seconds, backend.at_once

    def __call__(self, tables: np.ndarray, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Any:
        self.asked[tables.tobytes()] += 1
        return self._backend(tables, clock, draw, gradient=gradient)


def test_few_evaluations_are_repeats():
    space = make_space(random_problem(3))
    counted, safe = Counted(make_backend(space, Asked())), richest_table(space)
    objective = replace(make_objective(space, Channels((counted,))), clock=Clock())
    method = make_ascent(objective, safe, SolveOptions(starts=3))
    state = method.begin()
    while not method.is_done(state):
        state = method.advance(state)
    total = counted.asked.total()
    repeats = total - len(counted.asked)
    assert repeats <= 0.03 * total, f"{repeats} of {total} evaluations"
