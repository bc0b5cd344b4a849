"""Every loop of the engine looks at the clock, and ends where the clock says so."""

from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel, total_and_slope, total_of
from tests.problem.test_constraints import ALL, make_problem
from veil.common.clock import Clock, OutOfTime
from veil.engine.batch import BatchTree
from veil.engine.chain import Chain, make_chain
from veil.engine.columns import ColumnPass
from veil.engine.feasibility import best_mixture
from veil.engine.joint import JointWalk
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.engine.size import tree_size
from veil.engine.sparse_walk import SparseWalk
from veil.engine.string_walk import StringWalk
from veil.planning.exact_bits import entropy_of_rows

HORIZON, LITTLE = 6, 64  # a memory that keeps few of the messages


def noisy(*, untimed: bool = False) -> Chain:
    """A chain on which every history is possible; a new one each time, so that nothing is known of it."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2)), 0)
    observer = veil.Observer(rng.dirichlet(np.ones(3), size=4), untimed=untimed, silent=0 if untimed else None)
    problem = veil.Problem(model, observer, veil.StateAt(3, {0}), HORIZON)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


def followed(kind: type[SequencePass] | type[ColumnPass], memory: int, clock: Clock) -> None:
    chain = noisy() if kind is SequencePass else on_sparse_kernel(noisy())
    run = kind(chain, np.zeros((2, HORIZON + 1), dtype=np.int32), gradient=True, memory_bytes=memory, clock=clock)
    run.pull_back(np.ones_like(run.result.posterior))


def batch(clock: Clock) -> None:
    tree = BatchTree(noisy().hidden, np.ones((4, 2), dtype=bool), stationary=True)
    tree.evaluate(np.full((2_000, 1, 4, 2), 0.5), entropy_of_rows, clock)


WORK: dict[str, tuple[Callable[[Clock], object], int]] = {  # the work, and how often it looks at least
    "prefixes": (lambda clock: followed(SequencePass, 2**30, clock), 2 * HORIZON),
    "prefixes, little memory": (lambda clock: followed(SequencePass, LITTLE, clock), 2 * HORIZON + 2),
    "columns": (lambda clock: followed(ColumnPass, 2**30, clock), 2 * HORIZON),
    "columns, little memory": (lambda clock: followed(ColumnPass, LITTLE, clock), 2 * HORIZON + 2),
    "drawing": (lambda clock: draw_events(noisy(), 3, np.random.default_rng(0), clock), HORIZON),
    "counting": (lambda clock: tree_size(noisy(), clock), 2 * HORIZON),
    "joining": (lambda clock: total_and_slope(JointWalk(noisy(), clock=clock)), 2 * HORIZON),
    "sparse rows": (lambda clock: total_of(SparseWalk(noisy(), clock=clock)), 2 * HORIZON),
    "sparse rows, gradient": (lambda clock: total_and_slope(SparseWalk(noisy(), clock=clock)), 3 * HORIZON),
    "strings": (lambda clock: total_of(StringWalk(noisy(untimed=True), clock=clock)), 2 * HORIZON),
    "strings, gradient": (lambda clock: total_and_slope(StringWalk(noisy(untimed=True), clock=clock)), 3 * HORIZON),
    "many policies": (batch, 2),
    "constraints": (lambda clock: best_mixture(make_problem(ALL, horizon=HORIZON), clock=clock), 2 * HORIZON),
}


@pytest.mark.parametrize("name", WORK)
def test_work_looks_at_the_clock_and_ends_at_the_look_that_says_so(name: str):
    work, least = WORK[name]
    looks: list[int] = []

    def clock(allowed: float) -> Clock:
        looks.clear()
        return Clock(stop=lambda: looks.append(1) or len(looks) > allowed)

    work(clock(np.inf))
    total = len(looks)
    assert total >= least
    for allowed in (0, total // 2):
        with pytest.raises(OutOfTime):
            work(clock(allowed))
        assert len(looks) == allowed + 1


def test_a_count_that_ran_out_of_time_is_made_again():
    chain = noisy()
    with pytest.raises(OutOfTime):
        tree_size(chain, Clock(0.0))
    assert tree_size(chain).num_sequences == 3 ** (HORIZON + 1)
