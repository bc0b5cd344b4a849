"""The joint table: histories meet continuations at the split, from whichever side it is walked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_and_slope, total_of
from tests.oracle import evaluate
from tests.random_problems import KINDS, Case
from veil.common.logs import log2_of_count
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.tree import Merging


def at_every_time(case: Case) -> list[Chain]:
    """The same problem with the secret "was the state in this set at time t", for every t."""
    return [
        make_chain(case.problem.replace(secret=veil.StateAt(time, {0, case.spec.num_states // 2})), case.policy)
        for time in range(case.spec.horizon + 1)
    ]


class Table:
    """Keeps the rows and their sequences."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.events: list[np.ndarray] = []

    def __call__(self, joint, events) -> None:
        possible = np.flatnonzero(joint.any(axis=1))
        self.rows.append(joint[possible])
        self.events.append(events(possible))

    def sorted(self) -> tuple[np.ndarray, np.ndarray]:
        rows, events = np.concatenate(self.rows), np.concatenate(self.events)
        order = np.lexsort(events.T)
        return rows[order], events[order]


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


@pytest.mark.parametrize("kind", KINDS)
def test_it_does_not_matter_where_the_sides_of_any_problem_meet(kind: str):
    for case in small_cases(6, kind, work=2_000):
        answer = evaluate(case.spec)
        for walked in everywhere(chain_of(case), memory_bytes=5_000):
            assert total_of(walked) == pytest.approx(answer.bits, abs=1e-12)
            assert walked.num_sequences == answer.num_sequences


@pytest.mark.parametrize("kind", KINDS)
def test_merging_and_pruning_are_bounded_wherever_the_sides_meet(kind: str):
    for case in small_cases(6, kind, work=1_000):
        chain = chain_of(case)
        exact, most = total_of(JointWalk(chain)), log2_of_count(chain.hidden.label.shape[1])
        for merged in everywhere(chain, merge_tolerance=0.2):
            upper = total_of(merged)
            assert upper - merged.merge_error_bits - 1e-12 <= exact <= upper + 1e-12
        for pruned in everywhere(chain, prune_below=0.05):
            lower = total_of(pruned)
            assert lower - 1e-12 <= exact <= lower + pruned.lost_mass * most + 1e-12


def test_the_table_is_that_of_the_oracle_wherever_the_sides_meet():
    for case in small_cases(12, "at", sees_actions=False, on_actions=False):
        answer = evaluate(case.spec)
        tables = []
        for walked in everywhere(chain_of(case), keep_events=True):
            collected = Table()
            walked.run(collected)
            tables.append(collected.sorted())
        for rows, events in tables:
            np.testing.assert_array_equal(events, tables[0][1])
            np.testing.assert_allclose(rows, tables[0][0], rtol=1e-12, atol=0)
        skip = 0 if case.spec.sees_first else 1
        found = {tuple(y[skip:]): row for row, y in zip(tables[0][0], tables[0][1].tolist(), strict=True)}
        assert found.keys() == answer.weights.keys()
        for y, row in found.items():
            expected = [answer.weights[y].get(z, 0) / answer.denominator for z in range(2)]
            np.testing.assert_allclose(row, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_obeys_eulers_identity(kind: str, sparse: bool):
    """H is homogeneous of degree one in the table of each step: `Σ π_t · ∂H/∂π_t = H`, T times over if stationary."""
    for case in small_cases(10, kind):
        chain = on_sparse_kernel(chain_of(case)) if sparse else chain_of(case)
        bits, slope = total_and_slope(JointWalk(chain))
        parts = np.sum(chain.table * slope, axis=(1, 2))
        steps = np.ones(len(parts)) if case.spec.timed else np.full(1, case.spec.horizon)
        np.testing.assert_allclose(parts, steps * bits, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_in_the_root_is_that_of_central_differences(kind: str):
    step = 1e-6
    for case in small_cases(10, kind, work=300):
        chain = chain_of(case)
        walked = JointWalk(chain)
        bits, _ = total_and_slope(walked)
        root = chain.hidden.root
        possible = np.flatnonzero(root.sum(axis=0) > 0)
        assert walked.root_slope is not None
        slope = walked.root_slope.T  # (N, F) as the root, over the events that are possible
        assert np.sum(slope * root[:, possible]) == pytest.approx(bits, abs=1e-12)  # homogeneous in the root too

        def value(changed: np.ndarray, chain: Chain = chain) -> float:
            hidden = replace(chain.hidden, first=sp.csr_array(changed))
            return total_of(JointWalk(Chain(hidden, chain.table, stationary=chain.stationary)))

        for x, column in np.argwhere(root[:, possible] > 0.01):
            change = np.zeros_like(root)
            change[x, possible[column]] = step
            expected = (value(root + change) - value(root - change)) / (2 * step)
            assert slope[x, column] == pytest.approx(expected, abs=1e-6)


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
