"""The unit and the origin of rewards do not matter: the same search, the same answer."""

from typing import Any

import numpy as np
import pytest

import veil

HORIZON = 3


def problem_with(scale: float = 1.0, offset: float = 0.0, seed: int = 3) -> veil.Problem:
    """A small problem with all rewards multiplied by `scale`, then raised by `offset`."""
    rng = np.random.default_rng(seed)
    transitions, rewards = rng.dirichlet(np.full(5, 0.5), size=(5, 2)), rng.uniform(size=(5, 2))
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=5))
    model = veil.Model(transitions, scale * rewards + offset, np.eye(5)[0])
    return veil.Problem(model, observer, veil.LastState([4]), HORIZON, min_return="60%")


def solved(problem: veil.Problem, **options: Any) -> veil.Solution:
    return veil.solve(problem, certificate=False, progress=False, starts=6, **options)


@pytest.mark.parametrize("options", [{}, {"min_opacity": 0.7}, {"method": "primal-dual"}], ids=str)
def test_a_scale_that_does_not_round_gives_the_same_policy_in_the_same_iterations(options: dict[str, Any]):
    plain, scaled = (solved(problem_with(one, seed=5), **options, iterations=120) for one in (1.0, 2.0**20))
    assert scaled.iterations == plain.iterations
    assert scaled.policy == plain.policy
    assert scaled.expected_return == 2.0**20 * plain.expected_return


@pytest.mark.parametrize(("scale", "offset"), [(1.0, -1e7), pytest.param(1e-6, 0.0, marks=pytest.mark.slow)])
def test_another_scale_or_origin_gives_the_same_answer_but_for_rounding(scale: float, offset: float):
    plain, moved = (solved(one, min_opacity=0.7) for one in (problem_with(), problem_with(scale, offset)))
    assert moved.iterations <= 1.5 * plain.iterations
    assert moved.opacity.bits == pytest.approx(plain.opacity.bits, abs=1e-5)
    assert (moved.expected_return - HORIZON * offset) / scale == pytest.approx(plain.expected_return, abs=1e-5)
    assert moved.feasible
