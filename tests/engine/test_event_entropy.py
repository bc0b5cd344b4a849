"""The chain whose observer is shown the path, and Shannon's formula, against all runs one by one."""

from collections.abc import Iterator

import numpy as np
import pytest

import veil
from tests.engine.chains import with_table
from tests.measure.test_trajectory import random_problem
from veil.engine.chain import Chain, make_chain
from veil.engine.event_entropy import Shown, show_path
from veil.engine.joint import JointWalk


def path_problems(count: int) -> Iterator[tuple[veil.Problem, np.ndarray]]:
    """Problems whose secret is a path, and what the path shows of each state."""
    for seed in range(count):
        problem, group = random_problem(seed)
        if problem.num_states * problem.num_actions * problem.observer.num_observations <= 18 or problem.horizon < 3:
            yield problem, np.arange(problem.num_states) if group is None else group


def uniform_chain(problem: veil.Problem) -> Chain:
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


def test_states_that_are_never_met_do_not_count():
    """From state 0 one event tells the next state for two steps; the third step, which is not taken, does not."""
    moves = np.zeros((5, 1, 5))
    moves[0, 0, 1] = moves[1, 0, 2] = moves[2, 0, 2] = 1.0
    moves[3, 0, [3, 4]] = moves[4, 0, [3, 4]] = 0.5
    moves[2, 0] = [0, 0, 0, 0.5, 0.5]
    model = veil.Model(moves, np.zeros((5, 1)), 0)
    for horizon, expected in ((2, True), (3, False)):
        groups = {"low": [0, 1, 2], "high": [3, 4]}
        problem = veil.Problem(model, veil.Observer(np.ones((5, 1))), veil.Trajectory(groups), horizon)
        assert show_path(uniform_chain(problem).hidden).is_unifilar == expected


def unifilar_chains(count: int) -> Iterator[tuple[Shown, Chain]]:
    for number, (problem, _) in enumerate(path_problems(count)):
        chain = uniform_chain(problem)
        shown = show_path(chain.hidden, alone=number % 3 == 0)
        if shown.entropy is not None:
            yield shown, shown.chain(chain)


@pytest.mark.parametrize("stationary", [True, False])
def test_the_sum_over_times_is_the_entropy_of_all_sequences(stationary: bool):
    """Bits and their gradient for three policies at once; the gradient up to a constant in each row."""
    for number, (shown, chain) in enumerate(unifilar_chains(40)):
        hidden, rng = shown.hidden, np.random.default_rng(number)
        steps = 1 if stationary else hidden.horizon
        tables = rng.dirichlet(np.ones(chain.table.shape[2]), size=(3, steps, hidden.num_cells))
        assert shown.entropy is not None
        bits, slopes = shown.entropy.evaluate(tables, stationary=stationary)
        alone, nothing = shown.entropy.evaluate(tables, stationary=stationary, gradient=False)
        np.testing.assert_array_equal(alone, bits)
        assert not nothing.any()
        assert nothing.shape == tables.shape
        for one, table in enumerate(tables):
            given = Chain(hidden, table, stationary=stationary)
            expected, slope = _enumerated(given)
            assert bits[one] == pytest.approx(expected, abs=1e-12)
            np.testing.assert_allclose(_centred(slopes[one]), _centred(slope), rtol=1e-9, atol=1e-10)


def _enumerated(chain: Chain) -> tuple[float, np.ndarray]:
    """The entropy of the events and its gradient in the table, by all sequences."""
    bits = 0.0

    def objective(joint: np.ndarray, events: object) -> np.ndarray:
        nonlocal bits
        chance = joint.sum(axis=1)
        surprisal = -np.log2(np.where(chance > 0, chance, 1.0))
        bits += float(chance @ surprisal)
        return np.repeat(surprisal[:, None], joint.shape[1], axis=1)

    slope = JointWalk(with_table(chain, chain.table)).run(objective, gradient=True)
    assert slope is not None
    return bits, slope


def _centred(slope: np.ndarray) -> np.ndarray:
    return slope - slope.mean(axis=-1, keepdims=True)
