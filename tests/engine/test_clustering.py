"""Clusters of histories: what merging them changes is never more than what is charged for it."""

from dataclasses import replace

import pytest

from tests.engine.chains import chain_of, small_cases, total_of
from veil.engine.chain import Chain
from veil.engine.clustering import Clustering, Stakes
from veil.engine.joint import JointWalk
from veil.engine.window import Cut, Window

KINDS = ("last", "initial", "at", "automaton")
ROUNDING = 1e-12


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
