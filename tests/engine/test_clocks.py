"""Every loop of the engine looks at the clock: a clock that counts its looks stands in for time."""

from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel, total_and_slope, total_of
from tests.problem.test_constraints import ALL, make_problem
from veil.common.clock import Clock
from veil.engine import batch
from veil.engine import joint as joining
from veil.engine.batch import BatchTree
from veil.engine.chain import Chain, make_chain
from veil.engine.columns import ColumnPass
from veil.engine.feasibility import best_mixture
from veil.engine.joint import JointWalk
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.engine.sparse_walk import SparseWalk
from veil.engine.supports import Supports
from veil.engine.untimed import UntimedWalk
from veil.measure.exact import EntropyObjective
from veil.planning.values import row_measure

HORIZON, EVENTS, LITTLE = 9, 3, 64  # a memory that keeps every third message


class Looks(Clock):
    """A clock that counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def check(self, ahead: float = 0.0) -> None:
        self.number += 1


@pytest.fixture
def looks() -> Looks:
    return Looks()


def noisy(secret: veil.LastState | veil.InitialState, *, untimed: bool = False, horizon: int = HORIZON) -> Chain:
    """A chain on which every history is possible."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2)), 0)
    observer = veil.Observer(rng.dirichlet(np.ones(EVENTS), size=4), untimed=untimed, silent=0 if untimed else None)
    problem = veil.Problem(model, observer, secret, horizon)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem), untimed=untimed)


SECRETS = {"last": veil.LastState({0}), "initial": veil.InitialState({"a": [0, 1], "b": [2, 3]})}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", [SequencePass, ColumnPass])
def test_a_pass_along_sequences_looks_at_each_step(
    kind: type[SequencePass] | type[ColumnPass], secret: str, looks: Looks
):
    """Forward, backward, and where messages were not kept (two in three) when they are computed again."""
    chain = noisy(SECRETS[secret])
    chain = chain if kind is SequencePass else on_sparse_kernel(chain)
    events = np.zeros((2, HORIZON + 1), dtype=np.int32)
    run = kind(chain, events, gradient=True, memory_bytes=2**30, clock=looks)
    assert looks.number == HORIZON
    run.pull_back(np.ones_like(run.result.posterior))
    assert looks.number == 2 * HORIZON
    looks.number = 0
    run = kind(chain, events, gradient=True, memory_bytes=LITTLE, clock=looks)
    assert looks.number == HORIZON
    run.pull_back(np.ones_like(run.result.posterior))
    assert looks.number >= 2 * HORIZON + HORIZON * 2 // 3


def test_drawing_looks_at_each_step(looks: Looks):
    draw_events(noisy(SECRETS["last"]), 3, np.random.default_rng(0), looks)
    assert looks.number == HORIZON


def test_sets_of_states_are_found_with_a_look_at_each_product_and_event(looks: Looks):
    supports = Supports(noisy(SECRETS["last"]), looks)
    assert np.all(supports.reached[1:])
    assert looks.number == 2 * HORIZON  # each step and its product
    looks.number = 0
    supports.ahead(supports.first(), 0)
    assert looks.number == 1 + EVENTS  # one product for all events
    looks.number = 0
    supports.back(supports.last(), HORIZON - 1)
    assert looks.number == 2 * EVENTS  # a product for each event


@pytest.mark.parametrize("at_once", [1, 2**20])
def test_joining_looks_before_each_part(at_once: int, looks: Looks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(joining, "_AT_ONCE", at_once)
    horizon, calls, values = 4, 0, EntropyObjective()

    def counted(joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        nonlocal calls
        calls += 1
        return values(joint, events)

    JointWalk(noisy(SECRETS["last"], horizon=horizon), clock=looks, meet=3).run(counted)
    assert looks.number == (2 * 3 + 1) + (2 * 1 + 1) + calls  # each block of either side on the way down and up
    assert (calls > 1) == (at_once == 1)


def test_rows_with_sparse_support_look_before_each_product(looks: Looks):
    chain = noisy(SECRETS["last"], horizon=4)
    total_of(SparseWalk(chain, clock=looks))
    assert looks.number == (2 * 4 + 1) + 4
    looks.number = 0
    total_and_slope(SparseWalk(chain, clock=looks))
    assert looks.number == (2 * 4 + 1) + 2 * 4


def test_strings_without_a_clock_look_for_each_length_and_silent_step(looks: Looks):
    """Strings have 0 … T + 1 symbols; after one of `n > 0`, up to `T + 1 - n` silent steps follow, and one finds no more."""
    chain, horizon = noisy(SECRETS["last"], untimed=True, horizon=4), 4
    total_of(UntimedWalk(chain, clock=looks))
    forward = (horizon + 1) + sum(range(1, horizon + 2)) + (horizon + 2)
    assert looks.number == forward
    looks.number = 0
    total_and_slope(UntimedWalk(chain, clock=looks))
    assert looks.number == forward + (EVENTS - 1) * (horizon + 1) + (horizon + 2) * (horizon + 1)


def test_many_policies_look_before_each_part(looks: Looks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch, "_AT_ONCE", 1)
    chain = noisy(SECRETS["last"], horizon=2)
    tree = BatchTree(chain.hidden, np.ones((4, 2), dtype=bool), stationary=True)
    tree.evaluate(np.full((5, 1, 4, 2), 0.5), row_measure("entropy"), looks)
    assert looks.number == 5


def test_constraints_look_for_each_corner_and_each_of_its_steps(looks: Looks):
    problem = make_problem(ALL, horizon=HORIZON)
    best_mixture(problem, clock=looks)
    assert looks.number >= 2 * (HORIZON + 1)
    assert looks.number % (HORIZON + 1) == 0
