"""The observation tree: its rows, chunks, sparse products, merging and pruning."""

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, small_cases, total_of
from tests.random_problems import KINDS
from veil.engine.chain import make_chain
from veil.engine.joint import JointWalk
from veil.measure.exact import EntropyObjective


class Rows(EntropyObjective):
    """Counts the pairs of a history and a continuation that are possible."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __call__(self, joint, events):
        self.number += int(np.count_nonzero(joint.any(axis=1)))
        return super().__call__(joint, events)


# Rows


def test_a_history_of_probability_zero_never_branches():
    model = veil.Model(np.array([[[0, 1.0]], [[1.0, 0]]]), np.zeros((2, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=1_000)
    chain = make_chain(problem, veil.MarkovPolicy(np.ones((2, 1))))
    walked = JointWalk(chain)
    assert total_of(walked) == 0
    assert walked.num_sequences == 1


# Merging


def split_in_two(problem: veil.Problem) -> veil.Problem:
    """Each observation becomes one of two, by a coin that does not depend on anything: proportional columns."""
    size = problem.observer.num_observations
    emitter = np.zeros((size, 2 * size))
    emitter[np.arange(size), np.arange(size)] = 0.375
    emitter[np.arange(size), size + np.arange(size)] = 0.625
    return problem.replace(observer=problem.observer.garbled(emitter))


@pytest.mark.parametrize("kind", KINDS)
def test_proportional_histories_become_one_row_of_the_same_value(kind: str):
    smaller = 0
    for case in small_cases(12, kind, work=300):
        chain = make_chain(split_in_two(case.problem), case.policy)
        plain, merged = Rows(), Rows()
        apart, together = JointWalk(chain), JointWalk(chain, merge_tolerance=1e-9)
        slope, merged_slope = apart.run(plain, gradient=True), together.run(merged, gradient=True)
        assert merged.bits == pytest.approx(plain.bits, abs=1e-12)
        assert together.merge_error_bits <= 1e-9
        assert together.num_sequences == apart.num_sequences  # merged histories are still counted
        assert slope is not None
        assert merged_slope is not None
        np.testing.assert_allclose(merged_slope, slope, atol=1e-9)
        rows = Rows()
        JointWalk(chain_of(case), merge_tolerance=1e-9).run(rows)
        # The coin tells the observer nothing, so the rows that are left are those without it; roots are not merged.
        assert merged.number <= rows.number * (2 if case.spec.horizon == 0 else 1)
        smaller += plain.number >= 4 * merged.number
    assert smaller >= 5
