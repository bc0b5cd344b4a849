"""Rows with sparse support against the oracle, against dense messages, and on protocols of many states."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from validation.protocols import voting

import veil
from tests.engine.chains import (
    chain_of,
    small_cases,
    total_and_slope,
    total_of,
)
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


def test_an_observer_who_is_told_the_last_state():
    for case in small_cases(30, "last"):
        told = told_the_end(chain_of(case))
        meet = max(0, told.hidden.horizon - 1)
        plain, sparse = JointWalk(told, meet=meet), SparseWalk(told)
        assert total_of(sparse) == pytest.approx(total_of(plain), abs=1e-13)
        assert sparse.num_sequences == plain.num_sequences


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
