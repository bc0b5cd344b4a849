"""The joint table: histories meet continuations at the split, from whichever side it is walked."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import small_cases, total_and_slope, total_of
from tests.random_problems import Case
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.tree import Merging


def at_every_time(case: Case) -> list[Chain]:
    """The same problem with the secret "was the state in this set at time t", for every t."""
    return [
        make_chain(case.problem.replace(secret=veil.StateAt(time, {0, case.spec.num_states // 2})), case.policy)
        for time in range(case.spec.horizon + 1)
    ]


SIDES = ("prefixes", "suffixes")


def everywhere(chain: Chain, **options) -> list[JointWalk]:
    """Walks from either side that meet at each time."""
    times = range(chain.hidden.horizon + 1)
    return [JointWalk(chain, meet=time, outer=side, **options) for time in times for side in SIDES]


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
def test_it_does_not_matter_where_the_sides_meet_and_which_is_walked(timed: bool):
    """For a secret at every time, before, at and after the meeting."""
    open_secrets = 0
    for case in small_cases(4, "last", timed=timed, work=1_000):
        for chain in at_every_time(case):
            plain = JointWalk(chain)
            bits, slope = total_and_slope(plain)
            open_secrets += bits > 0.01
            # What has probability zero has no slope that means anything.
            taken, root = chain.table > 0, chain.hidden.root.T
            begun = root[root.any(axis=1)] > 0
            for walked in everywhere(chain):
                other_bits, other_slope = total_and_slope(walked)
                assert other_bits == pytest.approx(bits, abs=1e-13)
                np.testing.assert_allclose(other_slope[taken], slope[taken], atol=1e-12)
                assert walked.num_sequences == plain.num_sequences
                assert walked.root_slope is not None
                assert plain.root_slope is not None
                np.testing.assert_allclose(walked.root_slope[begun], plain.root_slope[begun], atol=1e-12)
    assert open_secrets > 1


@pytest.mark.parametrize("outer", SIDES)
def test_merged_histories_are_counted_one_by_one(outer: str):
    """One state and three events: all histories of a length are proportional, and become one row that stands for all."""
    model = veil.Model(np.ones((1, 1, 1)), np.zeros((1, 1)), 0)
    problem = veil.Problem(model, veil.Observer([[0.2, 0.3, 0.5]]), veil.LastState({0}), 3)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    choices: tuple[dict[str, Any], ...] = ({}, {"merge_tolerance": 1e-6}, {"merger": Merging(1e-6)})
    for options in choices:
        rows = 0

        def count(joint: np.ndarray, events: object) -> None:
            nonlocal rows
            rows += len(joint)

        walk = JointWalk(chain, outer=outer, meet=2, **options)
        walk.run(count)
        assert walk.num_sequences == 3**4
        assert (rows < 3**4) == bool(options)


def test_a_history_of_probability_zero_never_branches():
    model = veil.Model(np.array([[[0, 1.0]], [[1.0, 0]]]), np.zeros((2, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=1_000)
    chain = make_chain(problem, veil.MarkovPolicy(np.ones((2, 1))))
    walked = JointWalk(chain)
    assert total_of(walked) == 0
    assert walked.num_sequences == 1
