"""Rows with sparse support against the oracle, against dense messages, and on protocols of many states."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from validation.protocols import dining, voting, voting_leakage

import veil
from tests.engine.chains import (
    central_differences,
    chain_of,
    small_case,
    small_cases,
    total_and_slope,
    total_of,
    with_table,
)
from tests.engine.test_joint import Table, at_every_time
from veil.engine.backends.sparse_rows import SparseBlock, proportional_rows
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.sparse_walk import SparseWalk
from veil.engine.window import Cut, Window
from veil.measure.exact import EntropyObjective
from veil.policy.tables import softmax_pull_back


def told_the_end(chain: Chain) -> Chain:
    """The same chain where the observer is told the last state."""
    return Chain(replace(chain.hidden, reveals_last=True), chain.table, stationary=chain.stationary)


def test_slopes_are_central_differences():
    for case in small_cases(10, work=300):
        chain = chain_of(case)
        bits, slope = total_and_slope(SparseWalk(chain))
        assert np.sum(slope * chain.table) >= -1e-12 or bits == 0
        taken = chain.table > 0.01
        expected = central_differences(lambda table, c=chain: total_of(SparseWalk(with_table(c, table))), chain.table)
        np.testing.assert_allclose(slope[taken], expected[taken], atol=1e-5)


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
def test_a_secret_of_every_time(timed: bool):
    for case in small_cases(10, "last", timed=timed, work=2_000):
        for chain in at_every_time(case):
            plain, sparse = JointWalk(chain), SparseWalk(chain)
            bits, slope = total_and_slope(plain)
            found, other = total_and_slope(sparse)
            taken, root = chain.table > 0, chain.hidden.root.T
            begun = root[root.any(axis=1)] > 0
            assert found == pytest.approx(bits, abs=1e-13)
            assert sparse.num_sequences == plain.num_sequences
            np.testing.assert_allclose(other[taken], slope[taken], atol=1e-11)
            assert sparse.root_slope is not None
            assert plain.root_slope is not None
            np.testing.assert_allclose(sparse.root_slope[begun], plain.root_slope[begun], atol=1e-11)


def test_the_table_of_all_sequences_is_the_same():
    for case in small_cases(20):
        dense, sparse = Table(), Table()
        chain = chain_of(case)
        JointWalk(chain, keep_events=True).run(dense)
        SparseWalk(chain, keep_events=True).run(sparse)
        for mine, theirs in zip(sparse.sorted(), dense.sorted(), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-15)


def test_an_observer_who_is_told_the_last_state():
    for case in small_cases(30, "last"):
        told = told_the_end(chain_of(case))
        meet = max(0, told.hidden.horizon - 1)
        plain, sparse = JointWalk(told, meet=meet), SparseWalk(told)
        assert total_of(sparse) == pytest.approx(total_of(plain), abs=1e-13)
        assert sparse.num_sequences == plain.num_sequences


def test_no_step_for_an_observer_who_is_told_the_state():
    """The only observation and the state: the table, its sequences, and the gradient in the start, as dense messages have."""
    for seed, kind in itertools.product(range(8), ("last", "initial", "at")):
        plain = chain_of(small_case(seed, kind, work=300))
        hidden = replace(plain.hidden, horizon=0, split_time=0)
        for given in (hidden, replace(hidden, reveals_last=True)):
            chain = Chain(given, plain.table[:0], stationary=False)
            tables = Table(), Table()
            SparseWalk(chain, keep_events=True).run(tables[0])
            JointWalk(chain, keep_events=True).run(tables[1])
            for mine, theirs in zip(tables[0].sorted(), tables[1].sorted(), strict=True):
                np.testing.assert_allclose(mine, theirs, atol=1e-15)
            walks = SparseWalk(chain), JointWalk(chain)
            for walk in walks:
                total_and_slope(walk)
            met = hidden.root.T[hidden.root.any(axis=0)] > 0
            one, two = walks[0].root_slope, walks[1].root_slope
            assert one is not None
            assert two is not None
            np.testing.assert_allclose(one[met], two[met], rtol=1e-9, atol=1e-12)


def test_windows_with_their_slopes():
    for case in small_cases(8, "at", work=1_000):
        chain = chain_of(case)
        for radius in range(case.spec.horizon + 1):
            for reveal in (True, False):
                cut = Cut(chain, Window.around(chain, radius), reveal=reveal)
                dense, sparse = EntropyObjective(), EntropyObjective()
                slope, other = cut.run(JointWalk(cut.chain), dense), cut.run(SparseWalk(cut.chain), sparse)
                assert sparse.bits == pytest.approx(dense.bits, abs=1e-12)
                np.testing.assert_allclose(
                    softmax_pull_back(chain.table, other), softmax_pull_back(chain.table, slope), atol=1e-10
                )


def test_pruning_is_accounted_for():
    pruned_any = 0
    for case in small_cases(30):
        chain = chain_of(case)
        exact = total_of(SparseWalk(chain))
        walk = SparseWalk(chain, prune_below=0.02)
        lower, _ = total_and_slope(walk)
        pruned_any += walk.lost_mass > 0
        assert lower - 1e-12 <= exact <= lower + walk.lost_mass * math.log2(chain.hidden.num_values) + 1e-12
    assert pruned_any > 5


# Merging


def test_proportional_rows_are_found_and_others_are_not():
    rows = np.array([[0.5, 0.5, 0], [0.25, 0.75, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0.5, 0.5 + 1e-9, 0]])
    table = sp.csr_array(rows)
    block = SparseBlock(np.ones(5), table.data, table.indices, table.indptr, np.ones(5), None)
    group = proportional_rows(block)
    assert group[0] == group[2]
    assert len(set(group.tolist())) == 4


def test_merging_changes_nothing_but_the_work():
    problem = voting(3, 4)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    merged, apart = SparseWalk(chain), SparseWalk(chain, keep_events=True)
    bits, slope = total_and_slope(merged)
    plain, other = total_and_slope(apart)
    assert bits == pytest.approx(plain, abs=1e-12)
    np.testing.assert_allclose(slope, other, atol=1e-12)
    assert merged.num_sequences == apart.num_sequences == 3**4
    assert merged.products < 0.7 * apart.products


# Protocols


@pytest.mark.parametrize(("candidates", "voters"), [(2, 2), (3, 3), (4, 4), (5, 4), (4, 5)])
def test_voting_leaks_what_is_published(candidates: int, voters: int):
    problem = voting(candidates, voters)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem))
    assert found.method == "exact"
    assert found.leakage_bits == pytest.approx(voting_leakage(candidates, voters), abs=1e-9)
    assert found.num_sequences == candidates**voters


@pytest.mark.parametrize(("size", "states", "leaked"), [(3, 380, 0.811), (4, 2_165, 0.721), (5, 11_850, 0.65)])
def test_the_dining_cryptographers_leak_what_is_published(size: int, states: int, leaked: float):
    problem = dining(size)
    assert problem.num_states == states
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact")
    assert found.leakage_bits == pytest.approx(leaked, abs=1e-3)


def test_unfair_coins_tell_who_pays_and_without_a_master_fair_ones_tell_nothing():
    for problem, leaked in ((dining(4, fair=False), math.log2(5)), (dining(4, master=False), 0.0)):
        found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact")
        assert found.leakage_bits == pytest.approx(leaked, abs=1e-9)
