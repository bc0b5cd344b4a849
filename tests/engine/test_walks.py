"""Every way to walk over all sequences gives the oracle's value and the same gradient."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.engine.chains import on_sparse_kernel, total_and_slope
from tests.oracle import evaluate
from tests.random_problems import random_case
from tests.seeds import in_blocks
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk, Walk
from veil.engine.size import tree_size
from veil.engine.sparse_walk import SparseWalk
from veil.policy.tables import softmax_pull_back


def where_it_is_cheapest(chain: Chain) -> Walk:
    size = tree_size(chain)
    return JointWalk(chain, meet=size.meet, outer=size.outer)


WALKS: dict[str, Callable[[Chain], Walk]] = {
    "dense": JointWalk,
    "dense, sparse transitions": lambda chain: JointWalk(on_sparse_kernel(chain)),
    "dense, in little memory": lambda chain: JointWalk(chain, memory_bytes=1),
    "dense, histories walked": lambda chain: JointWalk(chain, outer="prefixes"),
    "dense, continuations walked": lambda chain: JointWalk(chain, outer="suffixes"),
    "dense, counted": where_it_is_cheapest,
    "sparse rows": SparseWalk,
    "sparse rows, sparse transitions": lambda chain: SparseWalk(on_sparse_kernel(chain)),
    "sparse rows, in little memory": lambda chain: SparseWalk(chain, memory_bytes=1),
}


@in_blocks(20, 400)
def test_every_walk_is_the_oracle(seed: int):
    """Value and number of sequences; the gradient in θ where all walks have one: an action never taken has none."""
    case = random_case(500_000 + seed)
    answer, chain, slopes = evaluate(case.spec), make_chain(case.problem, case.policy), []
    for name, make in WALKS.items():
        walk = make(chain)
        bits, slope = total_and_slope(walk)
        assert bits == pytest.approx(answer.bits, abs=1e-12), name
        assert walk.num_sequences == answer.num_sequences, name
        slopes.append(softmax_pull_back(chain.table, slope))
        np.testing.assert_allclose(slopes[-1], slopes[0], rtol=0, atol=1e-12, err_msg=name)
    counted = tree_size(chain)
    assert (counted.num_sequences, counted.exact) == (answer.num_sequences, True)
    assert tree_size(on_sparse_kernel(chain)) == counted
