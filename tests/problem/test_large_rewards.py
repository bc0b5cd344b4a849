"""Rewards of any size: a right answer or a clear refusal, without warnings of NumPy."""

import warnings
from typing import Any

import numpy as np
import pytest

import veil


def paying(size: float, horizon: int = 4) -> veil.Problem:
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), size * rng.uniform(-1, 1, size=(3, 2)), [0.5, 0.3, 0.2])
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    return veil.Problem(model, observer, veil.LastState({1}), horizon, min_return="50%")


@pytest.mark.parametrize(
    ("size", "words"),
    [*((size, r"'s1'.*larger unit") for size in (1e300, 1e308)),
     *((size, r"'reward'.*smaller unit") for size in (1e-250, 1e-310, 5e-324))],
)  # fmt: skip
@pytest.mark.parametrize("where", ["rewards", "terminal"])
def test_rewards_of_sizes_that_overflow_are_refused_where_they_are_given(size: float, words: str, where: str):
    """Rewards themselves, or the prices of a small unit, which is only small beside a larger one."""
    paid = {"rewards": np.zeros((2, 1)), "terminal": np.zeros(2)}
    paid[where][1] = -size
    with pytest.raises(veil.InputError, match=words):
        veil.Model(np.full((2, 1, 2), 0.5), paid["rewards"], [1, 0], terminal_rewards=paid["terminal"])
    if size < 1:
        paid[where][0] = 1.0
        veil.Model(np.full((2, 1, 2), 0.5), paid["rewards"], [1, 0], terminal_rewards=paid["terminal"])


@pytest.mark.parametrize("options", [{}, {"method": "game"}, {"method": "primal-dual"}], ids=str)
@pytest.mark.parametrize("share", ["50%", "100%"])
def test_small_rewards_are_proven(options: dict[str, Any], share: str):
    problem = paying(1e-240).replace(min_return=share)
    options = options if "game" in options.values() else {"memory": "timed", "starts": 2, "iterations": 60} | options
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = veil.solve(problem, **options, certificate_time_limit=5)
    assert solution.feasible
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)


def test_large_rewards_give_the_answer_of_small_ones():
    small, large = paying(1.0), paying(1e270)
    policy = veil.MarkovPolicy.uniform(small)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert veil.expected_return(large, policy) == pytest.approx(1e270 * veil.expected_return(small, policy))
        assert veil.max_return(large) == pytest.approx(1e270 * veil.max_return(small))
        found, wanted = (veil.solve(one, starts=2, iterations=60, certificate=False) for one in (large, small))
        assert found.opacity.bits == pytest.approx(wanted.opacity.bits, abs=1e-3)
        assert found.threshold is not None
        assert found.expected_return >= found.threshold


def test_the_dense_transitions_are_made_once():
    model = paying(1.0).model
    assert model.transitions is model.transitions
    assert not model.transitions.flags.writeable
