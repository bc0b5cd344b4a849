"""Moves of the hidden chain and the layers that they lead through, against loops over all of them."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case
from veil.engine.compile import build
from veil.engine.moves import situations


@pytest.mark.parametrize("kind", ["automaton", "model", "last", "at"])
def test_the_situation_behind_a_hidden_state(kind: str):
    """Where the agent knows model and memory, its cells are the situations; else both follow from the way to a state."""
    seen = set()
    for seed in range(12):
        problem = small_case(seed, kind, work=300).problem
        secret = problem.secret
        if isinstance(secret, veil.Automaton | veil.WhichModel):
            problem = problem.replace(secret=replace(secret, agent_knows=True))
            hidden = build(problem)
            np.testing.assert_array_equal(situations(problem, hidden), hidden.cell)
            seen |= set(hidden.cell.tolist())
        else:
            hidden = build(problem)
            np.testing.assert_array_equal(situations(problem, hidden), hidden.state)
    assert len(seen) > 4 or kind in ("last", "at")
