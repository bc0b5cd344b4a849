"""Sizes of blocks, limits of memory and thresholds of speed change no result, from the smallest to the largest values."""

import types
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.engine.chains import chain_of, on_sparse_kernel, small_case, total_and_slope
from tests.engine.passes import any_sequences, log_likelihoods, posteriors, pulled_back
from veil.common import numbering
from veil.common.logs import surprisal_bits
from veil.engine import batch, buffers, chain, columns, hidden, joint, size, sparse_walk, supports
from veil.engine.backends import column_steps, sparse_rows
from veil.engine.batch import BatchTree
from veil.engine.chain import Chain
from veil.engine.columns import ColumnPass
from veil.engine.joint import JointWalk
from veil.engine.sequences import SequencePass
from veil.engine.size import tree_size
from veil.engine.sparse_walk import SparseWalk
from veil.engine.window import Cut, Window
from veil.measure.exact import EntropyObjective
from veil.planning.bits import entropy_of_rows

SETTINGS: tuple[tuple[types.ModuleType, str, tuple[float, ...]], ...] = (
    (batch, "_AT_ONCE", (1, 40)),
    (buffers, "_MOST_KEPT", (0,)),
    (chain, "_SMALL_LABEL", (0,)),
    (chain, "_MOST_NUMBERS", (2**26, 0)),
    (columns, "_LANE_NUMBERS", (0, 2**40)),
    (columns, "_THREAD_NUMBERS", (1, 2**40)),
    (columns, "_BLOCK", (1, 100, 2**40)),
    (columns, "_FEW_EVENTS", (0, 16)),
    (columns, "_MANY_NUMBERS", (2**12, 0)),
    (columns, "_MOST_SUMS", (1, 8)),
    (columns, "_MOST_SLOPES", (2**26, 1)),
    (hidden, "_SMALL_TABLE", (0, 2**22)),
    (joint, "_AT_ONCE", (1, 50)),
    (size, "_LARGE_BYTES", (0,)),
    (sparse_walk, "_AT_ONCE", (1, 20)),
    (sparse_walk, "_BYTES_A_PRODUCT", (32, 2**26)),  # small slices of many rows, and rows one by one
    (supports, "_AT_ONCE", (1, 40)),
    (supports, "_NUMBERS", (1, 30)),
    (column_steps, "_MOST_ENTRIES", (0, 0, 2**24)),
    (column_steps, "_MOST_KEPT", (2**25, 0)),
    (column_steps, "_OUTER_NUMBERS", (1, 100)),
    (column_steps, "_PADDED", (0.0, 100.0)),
    (sparse_rows, "_AT_ONCE", (1, 4, 9, 30)),
    (sparse_rows, "_MOST_FAILURES", (0, 1)),
    (numbering, "_TABLE_NUMBERS", (0,)),
)


class _Rows:
    """The entropy for dense rows alone, so that sparse ones are spread first."""

    def __init__(self) -> None:
        self.bits = 0.0

    def __call__(self, joint: np.ndarray, events: object) -> np.ndarray:
        slope = surprisal_bits(joint)
        self.bits += float(np.vdot(joint, slope))
        return slope


def of_chain(given: Chain) -> list[np.ndarray]:
    """All that the engine computes of a chain in blocks; the chain is new, so that nothing is known of it."""
    fresh = Chain(replace(given.hidden), given.table, stationary=given.stationary)
    sparse = on_sparse_kernel(fresh)
    counted = tree_size(fresh)
    events = any_sequences(fresh, 70, np.random.default_rng(1))
    weights = np.random.default_rng(2).normal(size=(70, fresh.hidden.num_values))
    meeting = {"meet": counted.meet, "outer": counted.outer}
    found = [fresh.prior, *fresh.forecasts, np.array([counted.num_sequences, counted.rows])]
    walks = (
        JointWalk(fresh, **meeting), JointWalk(fresh, memory_bytes=1), SparseWalk(sparse), SparseWalk(fresh, memory_bytes=1)
    )  # fmt: skip
    found += [np.asarray(part) for walk in walks for part in total_and_slope(walk)]
    rows = _Rows()
    slope = SparseWalk(sparse).run(rows, gradient=True)
    assert slope is not None
    listed: list[np.ndarray] = []
    SparseWalk(sparse, keep_events=True).run(
        lambda joint, events: listed.append(events(np.flatnonzero(joint.any(axis=1))))
    )
    found += [np.array(rows.bits), slope, np.unique(np.concatenate(listed), axis=0)]
    for run in (
        ColumnPass(sparse, events, gradient=True, memory_bytes=2**30),
        ColumnPass(sparse, events, gradient=True, memory_bytes=2**10),
        SequencePass(fresh, events, gradient=True, memory_bytes=2**30),
        SequencePass(fresh, events, gradient=True, memory_bytes=1),
    ):
        found += [log_likelihoods(run), posteriors(run), pulled_back(run, weights)]
    cut = Cut(sparse, Window.around(sparse, 1), reveal=True)
    found.append(cut.run(SparseWalk(cut.chain), EntropyObjective()))
    available = np.ones(given.table.shape[1:], dtype=bool)
    tables = np.stack([given.table, given.table[::-1], given.table[:, ::-1]])
    tree = BatchTree(fresh.hidden, available, stationary=given.stationary)
    return [*found, *tree.evaluate(tables, entropy_of_rows), np.unique(tree.events(), axis=0)]


@cache
def chains() -> tuple[Chain, ...]:
    """One with each time of the secret, several emitters, and tables for each time."""
    asked = [
        ("last", {"timed": False}),
        ("at", {"sees_actions": True, "timed": True}),
        ("initial", {"on_actions": True}),
    ]
    found = []
    for kind, fixed in asked:
        cases = (small_case(seed, kind, work=3_000, **fixed) for seed in range(200))
        usual = (case for case in cases if case.problem.horizon == 3 and case.problem.available.all())
        found.append(chain_of(next(case for case in usual if case.problem.num_states > 3)))
    return tuple(found)


@cache
def expected(number: int) -> list[np.ndarray]:
    return of_chain(chains()[number])


@pytest.mark.parametrize("turn", range(4))
def test_sizes_change_no_result(turn: int, monkeypatch: pytest.MonkeyPatch):
    """All settings at once, each with the next of its values."""
    known = [expected(number) for number in range(len(chains()))]
    for module, name, values in SETTINGS:
        monkeypatch.setattr(module, name, values[turn % len(values)])
    for one, wanted in zip(chains(), known, strict=True):
        for found, value in zip(of_chain(one), wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-11, atol=1e-12)
