"""The joint table: histories meet continuations at the split, from whichever side it is walked."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from veil.engine.chain import Chain
from veil.engine.joint import JointWalk
from veil.engine.tree import Prefixes, Suffixes
from veil.opacity.exact import EntropyObjective, make_chain

from ..oracle import evaluate
from ..random_problems import KINDS, Case
from .chains import chain_of, on_sparse_kernel, small_case, small_cases, total_and_slope, total_of


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

    def __call__(self, joint, count, events) -> None:
        assert (count == 1).all()
        self.rows.append(joint)
        self.events.append(events())

    def sorted(self) -> tuple[np.ndarray, np.ndarray]:
        rows, events = np.concatenate(self.rows), np.concatenate(self.events)
        order = np.lexsort(events.T)
        return rows[order], events[order]


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
def test_both_sides_agree_for_every_time_of_the_split(timed: bool):
    open_secrets = 0
    for case in small_cases(25, "last", timed=timed):
        for chain in at_every_time(case):
            walks = [JointWalk(chain, outer=side) for side in ("prefixes", "suffixes")]
            (bits, slope), (other_bits, other_slope) = map(total_and_slope, walks)
            assert bits == pytest.approx(other_bits, abs=1e-13)
            np.testing.assert_allclose(slope, other_slope, atol=1e-12)
            assert walks[0].num_sequences == walks[1].num_sequences
            assert walks[0].root_slope is not None
            assert walks[1].root_slope is not None
            np.testing.assert_allclose(walks[0].root_slope, walks[1].root_slope, atol=1e-12)
            open_secrets += bits > 0.01
    assert open_secrets > 20


def test_the_tables_of_both_sides_are_those_of_the_oracle():
    for case in small_cases(30, "at", sees_actions=False, on_actions=False):
        answer = evaluate(case.spec)
        tables = []
        for side in ("prefixes", "suffixes", None):
            collected = Table()
            JointWalk(chain_of(case), outer=side, keep_events=True).run(collected)
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


def test_the_side_with_fewer_steps_is_the_one_kept_in_memory(monkeypatch: pytest.MonkeyPatch):
    kept = []
    plain = JointWalk._collect

    def watched(walked: JointWalk, direction):
        kept.append(type(direction))
        return plain(walked, direction)

    monkeypatch.setattr(JointWalk, "_collect", watched)
    case = small_case(3, "last", work=50_000)
    assert case.spec.horizon >= 2
    for chain in at_every_time(case):
        total_of(JointWalk(chain))
    split = len(kept) // 2
    assert kept == [Prefixes] * split + [Suffixes] * (len(kept) - split)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_obeys_eulers_identity(kind: str, sparse: bool):
    """H is homogeneous of degree one in the table of each step: `Σ π_t · ∂H/∂π_t = H`, T times over if stationary."""
    for case in small_cases(25, kind):
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
            hidden = replace(chain.hidden, root=changed)
            return total_of(JointWalk(Chain(hidden, chain.table, stationary=chain.stationary)))

        for x, column in np.argwhere(root[:, possible] > 0.01):
            change = np.zeros_like(root)
            change[x, possible[column]] = step
            expected = (value(root + change) - value(root - change)) / (2 * step)
            assert slope[x, column] == pytest.approx(expected, abs=1e-6)


def test_an_objective_without_slopes_is_only_fed():
    case = small_case(5, "at")
    collected = Table()
    walked = JointWalk(chain_of(case), keep_events=True)
    assert walked.run(collected) is None
    assert sum(map(len, collected.rows)) == walked.num_sequences
    assert all((rows.sum(axis=1) > 0).all() for rows in collected.rows)


def test_a_walk_can_be_run_again():
    walked = JointWalk(chain_of(small_case(5, "at")))
    first, second = EntropyObjective(), EntropyObjective()
    walked.run(first)
    number = walked.num_sequences
    walked.run(second)
    assert first.bits == second.bits
    assert walked.num_sequences == number
