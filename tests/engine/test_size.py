"""Counting sequences before any work is done."""

import numpy as np

import veil
from tests.engine.chains import chain_of, small_cases, total_of
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.size import tree_size


def false_alarms(horizon: int) -> Chain:
    problem = veil.gallery.load("paper-false-alarms", horizon=horizon)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


def test_the_paper_grid_has_the_number_that_the_paper_page_says():
    problem = veil.gallery.load("paper-last-state")
    assert tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem))).num_sequences == 2_579


def test_a_count_is_kept_for_policies_that_take_the_same_actions_only():
    """Several policies over one hidden chain, stationary and with a clock, asked for in turn, twice."""
    fewer = 0
    for case in small_cases(30):
        hidden, available = chain_of(case).hidden, case.problem.available
        uniform = available / available.sum(axis=1, keepdims=True)
        single = np.eye(case.spec.num_actions)[available.argmax(axis=1)]
        tables = [uniform[None], single[None], 0.5 * (uniform + single)[None]]
        chains = [Chain(hidden, table, stationary=True) for table in tables]
        chains += [Chain(hidden, np.tile(table, (case.spec.horizon, 1, 1)), stationary=False) for table in tables]
        found = [[tree_size(chain).num_sequences for chain in chains] for _ in range(2)]
        expected = []
        for chain in chains:
            walked = JointWalk(chain)
            total_of(walked)
            expected.append(walked.num_sequences)
        assert found == [expected, expected]
        fewer += expected[1] < expected[0]
    assert fewer > 5


def test_a_tree_beyond_all_counting_is_a_lower_bound():
    found = tree_size(false_alarms(60))
    assert not found.exact
    assert 1e18 < found.num_sequences < 5.0**61
    assert found.text().startswith("more than ")
