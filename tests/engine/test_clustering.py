"""Clusters of histories: what merging them changes is never more than what is charged for it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import chain_of, small_cases, total_of
from veil.engine.chain import Chain, make_chain
from veil.engine.clustering import Clustering, Stakes
from veil.engine.joint import JointWalk
from veil.engine.tree import Block
from veil.engine.window import Cut, Window

KINDS = ("last", "initial", "at", "automaton")
ROUNDING = 1e-12
GROUPS = veil.InitialState({"low": [0, 1], "high": [2, 3, 4, 5]})


def check_window(chain: Chain, stakes: Stakes, radius: int, threshold: float) -> tuple[float, float]:
    """What merging changed in the window that reveals and what was charged; neither end may be lowered."""
    losses = []
    for reveal in (False, True):
        cut = Cut(chain, Window.around(chain, radius), reveal=reveal)
        meet = stakes.meet(cut)
        outer = "suffixes" if meet > cut.chain.hidden.split_time else "prefixes"
        merged = JointWalk(cut.chain, meet=meet, outer=outer, merger=Clustering(stakes, cut.begin, threshold))
        losses.append((total_of(merged) - total_of(JointWalk(cut.chain)), merged.merge_error_bits))
    (upper, _), (loss, charged) = losses
    assert upper >= -ROUNDING
    assert -ROUNDING <= loss <= charged + ROUNDING
    return loss, charged


def check_cases(kind: str, count: int) -> int:
    """All windows of some problems with coarse clusters; how many windows lost more than rounding."""
    lossy = 0
    for case in small_cases(count, kind, work=1_000):
        chain = chain_of(case)
        stakes = replace(Stakes.of(chain), steps=1)  # merge up to the secret's time
        for radius in range(case.spec.horizon + 2):
            lossy += sum(check_window(chain, stakes, radius, threshold)[0] > 1e-6 for threshold in (0.3, 0.01))
    return lossy


@pytest.mark.parametrize("count", [8, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_merging_costs_at_most_what_is_charged(kind: str, count: int):
    assert check_cases(kind, count) >= 3


def mixing_chain(secret: veil.LastState | veil.InitialState | veil.StateAt) -> Chain:
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.full(6, 2.0), size=(6, 2)), np.zeros((6, 2)), np.full(6, 1 / 6))
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=6))
    problem = veil.Problem(model, observer, secret, 9)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


@pytest.mark.parametrize("secret", [veil.LastState({0, 1}), GROUPS], ids=["last", "initial"])
def test_near_beliefs_cost_the_square_of_their_distance(secret):
    chain = mixing_chain(secret)
    stakes = replace(Stakes.of(chain), steps=1)
    found = [check_window(chain, stakes, 9, threshold) for threshold in (1e-3, 1e-4, 1e-5, 1e-6)]
    charges = [charged for _, charged in found]
    assert charges == sorted(charges, reverse=True)
    assert 0 < charges[-1] < 0.05 * charges[0]
    assert all(loss > 0.01 * charged for loss, charged in found[:-1])  # the charge is of the order of the loss


def test_what_is_at_stake_is_the_width_of_a_window():
    """`Σ_x P(x_t) g_t(x) = I(Z; X_t | O_{t+1} …)`, and a tangent that was carried on bounds that of a longer window."""
    chain = mixing_chain(veil.LastState({0, 1}))
    stakes = Stakes.of(chain)
    widths = []
    for radius in range(9):
        window = Window.around(chain, radius)
        cut = Cut(chain, window, reveal=True).chain
        told = total_of(JointWalk(cut))
        forgotten = JointWalk(
            Chain(replace(cut.hidden, first=sp.csr_array(cut.hidden.start[:, None])), cut.table, stationary=True)
        )
        widths.append(total_of(forgotten) - told)
        assert stakes.before[9 - radius] @ chain.occupancies[9 - radius] == pytest.approx(widths[-1], abs=1e-12)
    carried = chain.pull(stakes.before[4], 3) @ chain.occupancies[3]
    assert carried == pytest.approx(widths[5])
    assert carried > widths[6] > 0


def test_the_charge_by_hand():
    """Two beliefs (1 ± 0.1) around their mean: ε = δ = 0.1 and 0.1 · 0.2 / 0.9 of the bits; another support costs them all."""
    stakes = Stakes({0: np.zeros(2), 1: np.array([0.3, 0.1])}, {}, 0)
    message = np.array([[[0.55, 0.45]], [[0.45, 0.55]]])
    merging = Clustering(stakes, 1, 1.0)
    merged, place = merging.apply(Block(np.array([0.2, 0.2]), message, np.ones(2), None), None, 0)
    assert place is not None
    np.testing.assert_allclose(merged.true, [[[0.2, 0.2]]])
    assert merging.error_bits == pytest.approx(0.1 * 0.2 / 0.9 * 0.08, rel=1e-12)
    far = Clustering(
        stakes, 1, 1.0
    )  # ε = 0.79 and δ = 0.02: more than all bits, which are 0.02 · 0.3 + 0.98 · 0.1 for 0.99
    far.apply(Block(np.array([0.99, 0.01]), np.array([[[0.02, 0.98]], [[0.004, 0.996]]]), np.ones(2), None), None, 0)
    assert far.error_bits == pytest.approx(0.99 * 0.104 + 0.01 * 0.1008)
    block = Block(np.array([0.2, 0.2]), np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.ones(2), None)
    for threshold, charged in ((1.0, 0.4 * 0.1 + 0.2 * 0.5 * 0.2), (0.01, 0.0)):
        merging = Clustering(stakes, 1, threshold)
        merging.apply(block, None, 0)
        assert merging.error_bits == pytest.approx(charged, abs=1e-15)
    lifted = Block(np.array([0.2, 0.2]), np.repeat(message, 2, axis=1) / 2, np.ones(2), None)
    assert Clustering(stakes, 1, 1.0).apply(lifted, None, 0)[1] is None  # the secret is never merged
