"""Every window of thousands of random problems: the exact value is never outside, and no more work makes it wider."""

import itertools
import math

import pytest

from tests.engine.chains import total_of
from tests.random_problems import random_case
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.window import Cut, Window
from veil.measure.bracket import deepen
from veil.measure.exact import Budget
from veil.measure.ladder import Settings, measure

ROUNDING = 1e-12
NO_LIMIT = Budget(time_limit=math.inf)


def window_bounds(chain: Chain, radius: int) -> tuple[float, float]:
    """Both bounds of one window, nothing pruned and nothing carried over from another."""
    window = Window.around(chain, radius)
    lower, upper = (total_of(JointWalk(Cut(chain, window, reveal=reveal).chain)) for reveal in (True, False))
    return lower, upper


def check(seed: int) -> int:
    """All windows of the problem of a seed; how many of them are wider than rounding."""
    case = random_case(seed)
    chain = make_chain(case.problem, case.policy)
    exact = total_of(JointWalk(chain))
    wide, before = 0, (0.0, math.inf)
    for radius in range(case.spec.horizon + 2):
        lower, upper = window_bounds(chain, radius)
        assert lower - ROUNDING <= exact <= upper + ROUNDING, (seed, radius)
        assert lower >= before[0] - ROUNDING, (seed, radius)
        assert upper <= before[1] + ROUNDING, (seed, radius)
        wide += upper - lower > 1e-6
        before = lower, upper
    assert before[1] - before[0] <= ROUNDING, seed  # the last window is whole

    steps = list(deepen(chain, NO_LIMIT, width=0.0))
    for bounds in steps:
        assert bounds.lower <= exact <= bounds.upper, (seed, bounds)  # rounded outwards: no tolerance
    for earlier, later in itertools.pairwise(steps):
        assert earlier.lower <= later.lower, (seed, later)
        assert later.upper <= earlier.upper, (seed, later)
    found = [measure(chain, Settings("bracket", NO_LIMIT, width)).opacity for width in (0.3, 0.03, 0.0)]
    for coarse, fine in itertools.pairwise(found):
        assert coarse.lower <= fine.lower, seed
        assert fine.upper <= coarse.upper, seed
    return wide


def test_twenty_problems():
    assert sum(check(seed) for seed in range(20)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_five_thousand_problems(part: int):
    assert sum(check(seed) for seed in range(500 * part, 500 * part + 500)) > 100
