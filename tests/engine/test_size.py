"""Counting sequences before any work is done."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_of
from tests.oracle import evaluate
from tests.random_problems import KINDS
from veil.common.clock import Clock
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.size import naive_bound, tree_size
from veil.engine.supports import CountedSets, Supports


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


def test_a_count_that_the_clock_ends_is_a_lower_bound_where_that_is_asked_for():
    chain, looks, partly = false_alarms(7), 0, []
    whole = tree_size(chain)
    for allowed in range(30):
        looks = 0

        def stop(allowed: int = allowed) -> bool:
            nonlocal looks
            looks += 1
            return looks > allowed

        found = tree_size(false_alarms(7), Clock(stop=stop), partial=True)
        assert 1 <= found.num_sequences <= whole.num_sequences
        assert not found.complete or found == whole
        if not found.complete and not found.exact:
            assert found.text().startswith("more than")
            partly.append(found.num_sequences)
    assert len(set(partly)) > 3


@pytest.mark.parametrize("pattern", ["sparse", "with zeros"])
def test_sets_of_sparse_models_follow_the_pattern_of_positive_entries(pattern: str):
    """Against products of arrays, for more sets than fit a machine word."""
    rng = np.random.default_rng(4)
    problem = veil.Problem(
        veil.Model(np.eye(40)[rng.integers(40, size=(40, 2))], np.zeros(40), 0),
        veil.Observer(np.eye(40)),
        veil.LastState({0}),
        1,
    )
    table = np.array([[[0.5, 0.5]]]) if pattern == "sparse" else np.array([[[1.0, 0.0]]])
    table = np.repeat(table, 40, axis=1)
    chain = on_sparse_kernel(
        Chain(make_chain(problem, veil.MarkovPolicy.uniform(problem)).hidden, table, stationary=True)
    )
    sets = rng.random((150, 40)) < 0.1
    kernel = sum(table[0, 0, a] * problem.model.matrices[a].toarray() for a in range(2))
    (moved,) = Supports(chain).moved(sets, 0)
    assert np.array_equal(moved, sets.astype(float) @ kernel > 0)
    once = CountedSets.once(np.concatenate([sets, sets[::3]])).united()
    assert len(once.sets) == len(np.unique(sets, axis=0))
    assert once.total == 200
