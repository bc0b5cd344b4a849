"""Counting sequences before any work is done."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_of
from tests.oracle import evaluate
from tests.random_problems import KINDS
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.size import naive_bound, tree_size


@pytest.mark.parametrize("sees_actions", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_what_the_walk_meets(kind: str, sees_actions: bool):
    counts = []
    for case in small_cases(8, kind, work=2_000, sees_actions=sees_actions):
        chain = chain_of(case)
        found = tree_size(chain)
        walked = JointWalk(chain)
        total_of(walked)
        assert found.exact
        assert found.num_sequences == walked.num_sequences
        assert naive_bound(chain) >= found.num_sequences
        assert tree_size(on_sparse_kernel(chain)) == found
        counts.append(found.num_sequences)
    assert max(counts) > 20


def test_the_count_is_that_of_the_oracle_with_a_split_in_the_middle():
    middle = 0
    for case in small_cases(25, "at", work=2_000):
        assert tree_size(chain_of(case)).num_sequences == evaluate(case.spec).num_sequences
        middle += 0 < case.spec.secret.time < case.spec.horizon
    assert middle > 5


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


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_of_a_tree_that_ends_with_the_last_state_revealed(kind: str):
    for case in small_cases(20, kind):
        chain = chain_of(case)
        if chain.hidden.horizon == 0:
            continue
        told = Chain(replace(chain.hidden, reveals_last=True), chain.table, stationary=chain.stationary)
        # Only continuations know that they end: histories that reach the end on their own tell its emissions apart.
        walked = JointWalk(told, meet=chain.hidden.horizon - 1)
        total_of(walked)
        assert tree_size(told).num_sequences == walked.num_sequences
