"""Strings of an observer without a clock: sets of states and memory."""

import numpy as np
import pytest

import veil
from veil.common.errors import TooLargeError
from veil.engine.chain import make_chain
from veil.engine.string_walk import StringWalk
from veil.measure.exact import EntropyObjective


def test_strings_that_do_not_fit_are_refused():
    """The sets of states of the strings count; with little memory the strings are worked on in several parts."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 1)), np.zeros((3, 1)), 0)
    observer = veil.Observer(np.eye(3), silent=0, untimed=True)
    problem = veil.Problem(model, observer, veil.LastState({0}), 6)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    with pytest.raises(
        TooLargeError, match=r"the 1 strings up to time 0 need more than 1\.9e-09 GiB: give memory_bytes=…"
    ):
        StringWalk(chain, memory_bytes=2).run(EntropyObjective())
    needed = next(power for power in range(4, 40) if _fits(StringWalk(chain, memory_bytes=2**power)))
    with pytest.raises(TooLargeError, match=r"strings up to time [1-6]"):
        StringWalk(chain, memory_bytes=2 ** (needed - 1)).run(EntropyObjective())
    parts, whole = EntropyObjective(), EntropyObjective()
    slope = StringWalk(chain, memory_bytes=2**needed).run(parts, gradient=True)
    expected = StringWalk(chain).run(whole, gradient=True)
    assert slope is not None
    assert expected is not None
    assert parts.bits == pytest.approx(whole.bits, abs=1e-12)
    np.testing.assert_allclose(slope, expected, rtol=0, atol=1e-12)


def _fits(walk: StringWalk) -> bool:
    try:
        walk.run(EntropyObjective())
    except TooLargeError:
        return False
    return True
