"""Columns over a sparse model: the same answers as the pass by prefixes, in lanes, threads and little memory."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_and_slope
from tests.engine.messages import forward
from tests.engine.passes import (
    PLENTY,
    any_sequences,
    assert_agree,
    by_columns,
    by_prefixes,
    joint_of,
    log_likelihoods,
    posteriors,
    pulled_back,
)
from tests.engine.test_sequences import mixing_chain
from tests.random_problems import KINDS
from veil.common.clock import Clock, OutOfTime
from veil.common.logs import surprisal_bits
from veil.engine import columns, kernel
from veil.engine.backends import column_steps
from veil.engine.chain import make_chain
from veil.engine.columns import ColumnPass
from veil.engine.hidden import build
from veil.engine.joint import JointWalk
from veil.engine.kernel import SparseKernel
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.measure.sampled import sequence_pass


@pytest.fixture
def always_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every problem that is built from now on has a sparse kernel."""
    monkeypatch.setattr(kernel, "ALWAYS_DENSE_STATES", 0)
    monkeypatch.setattr(kernel, "_DENSE_FILL", 2.0)


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_agree_with_prefixes(kind: str, timed: bool):
    rng = np.random.default_rng(0)
    for case in small_cases(12, kind, timed=timed):
        chain = chain_of(case)
        events = any_sequences(chain, 40, rng)
        slope = rng.normal(size=(40, chain.hidden.label.shape[1]))
        assert_agree(by_columns(chain, events), by_prefixes(chain, events), slope)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_agree_with_the_joint_table_and_the_exact_slope(kind: str):
    for case in small_cases(12, kind):
        chain = chain_of(case)
        events, joint = joint_of(chain)
        run = by_columns(chain, events)
        likelihood = joint.sum(axis=1)
        np.testing.assert_allclose(np.exp(log_likelihoods(run)), likelihood, rtol=1e-12)
        np.testing.assert_allclose(posteriors(run), joint / likelihood[:, None], rtol=0, atol=1e-12)
        # An action never taken has a slope from one side only, which the two need not share: weigh it with its chance.
        found = chain.table * pulled_back(run, likelihood[:, None] * surprisal_bits(joint))
        expected = chain.table * total_and_slope(JointWalk(chain))[1]
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("always_sparse")
def test_a_problem_that_is_built_sparse_is_served_by_columns():
    rng = np.random.default_rng(0)
    for case in small_cases(30):
        chain = make_chain(case.problem.replace(), case.policy)
        assert chain.hidden.kernel.is_sparse
        events = any_sequences(chain, 20, rng)
        run = sequence_pass(chain, events, gradient=True, memory_bytes=PLENTY)
        assert isinstance(run, ColumnPass)
        expected = [forward(chain, row)[1] for row in events.tolist()]
        np.testing.assert_allclose(log_likelihoods(run), expected, rtol=1e-12, atol=1e-12)
        slope = rng.normal(size=run.result.posterior.shape)
        assert_agree(run, by_prefixes(chain, events), slope)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize("cores", [1, 2, 5])
def test_lanes_and_threads_change_nothing(count: int, cores: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columns, "cores", lambda: cores)
    monkeypatch.setattr(columns, "_LANE_NUMBERS", 0)
    chain = mixing_chain(12, 5)
    events = any_sequences(chain, count, np.random.default_rng(count))
    slope = np.random.default_rng(1).normal(size=(count, 2))
    run = by_columns(chain, events)
    assert run._workers == min(cores, -(-count // 64))
    monkeypatch.setattr(columns, "cores", lambda: 3)
    other = by_columns(chain, events)
    np.testing.assert_array_equal(pulled_back(other, slope), pulled_back(run, slope))
    assert_agree(by_columns(chain, events), by_prefixes(chain, events), slope)


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("split", [0, 1, 17, 39, 40])
def test_checkpoints_in_time_change_nothing(split: int, timed: bool):
    chain = mixing_chain(40, split, timed=timed)
    events = any_sequences(chain, 50, np.random.default_rng(1))
    slope = np.random.default_rng(2).normal(size=(50, 2))
    full, tight = by_columns(chain, events), by_columns(chain, events, memory_bytes=1)
    assert max(tight._lanes[0]._forward.every, tight._lanes[0]._backward.every) > 1
    assert full._lanes[0]._forward.every == full._lanes[0]._backward.every == 1
    np.testing.assert_array_equal(log_likelihoods(tight), log_likelihoods(full))
    np.testing.assert_array_equal(pulled_back(tight, slope), pulled_back(full, slope))


def test_checkpoints_keep_a_share_of_the_messages():
    chain = mixing_chain(400, 400)
    tight = by_columns(chain, any_sequences(chain, 5, np.random.default_rng(0)), memory_bytes=1)
    assert len(tight._lanes[0]._forward._messages) == 20


def test_impossible_sequences_give_nothing_and_no_nan():
    rng, checked = np.random.default_rng(0), 0
    for case in small_cases(60):
        chain = chain_of(case)
        run = by_columns(chain, any_sequences(chain, 20, rng))
        gone = np.isneginf(log_likelihoods(run))
        assert not np.isnan(log_likelihoods(run)).any()
        assert (posteriors(run)[gone] == 0).all()
        slope = np.where(gone[:, None], rng.normal(size=(20, posteriors(run).shape[1])), 0.0)
        assert not pulled_back(run, slope).any()
        checked += int(gone.sum())
    assert checked > 100


@pytest.mark.parametrize("horizon", [0, 1])
def test_no_decision_and_one(horizon: int):
    met = 0
    for case in small_cases(150, work=500):
        if case.spec.horizon != horizon:
            continue
        chain = chain_of(case)
        events, joint = joint_of(chain)
        run = by_columns(chain, events)
        np.testing.assert_allclose(np.exp(log_likelihoods(run))[:, None] * posteriors(run), joint, atol=1e-15)
        assert run.pull_back(np.ones_like(joint)).shape == chain.table.shape
        met += 1
    assert met >= 10


def test_without_a_gradient_nothing_is_kept():
    chain = on_sparse_kernel(mixing_chain(30, 15))
    events = any_sequences(chain, 70, np.random.default_rng(0))
    plain = ColumnPass(chain, events, gradient=False, memory_bytes=PLENTY)
    assert not any(lane._forward._messages or lane._backward._messages for lane in plain._lanes)
    np.testing.assert_array_equal(log_likelihoods(plain), log_likelihoods(by_columns(mixing_chain(30, 15), events)))


def test_a_long_timed_policy_rebuilds_its_matrices_rather_than_hoard_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(column_steps, "_MOST_KEPT", 64 * 9)
    chain = on_sparse_kernel(mixing_chain(200, 120, timed=True))
    events = any_sequences(chain, 10, np.random.default_rng(0))
    slope = np.random.default_rng(1).normal(size=(10, 2))
    run = ColumnPass(chain, events, gradient=True, memory_bytes=PLENTY)
    assert_agree(run, by_prefixes(mixing_chain(200, 120, timed=True), events), slope)
    assert not run._steps._made


@pytest.mark.parametrize("padded", [0.0, 1e9], ids=["rows as long as they are", "equally long rows"])
def test_rows_of_any_length_give_the_same_numbers(padded: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(column_steps, "_PADDED", padded)
    rng = np.random.default_rng(0)
    for case in small_cases(12, work=500):
        chain = chain_of(case)
        events = any_sequences(chain, 20, rng)
        run = by_columns(chain, events)
        assert all(bool(pattern.degree) == (padded > 0) for pattern in column_steps.patterns(run._steps.hidden))
        assert_agree(run, by_prefixes(chain, events), rng.normal(size=(20, chain.hidden.label.shape[1])))


@pytest.mark.parametrize("cores", [1, 2])
def test_a_check_that_raises_ends_the_work(cores: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columns, "cores", lambda: cores)
    chain = on_sparse_kernel(mixing_chain(12, 5))
    events = any_sequences(chain, 64 * 20, np.random.default_rng(0))
    calls = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 3

    with pytest.raises(OutOfTime):
        ColumnPass(chain, events, gradient=False, memory_bytes=PLENTY, clock=Clock(stop=stop))
    # Lanes that were begun beside the one that noticed end at their first step; all 20 together have 100 steps.
    assert len(calls) <= 3 + 20


@pytest.mark.parametrize("split", [0, 3, 6], ids=["first", "middle", "last"])
@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
def test_columns_over_the_states_of_each_time_agree_with_all_states(split: int, timed: bool):
    """From two cells of a long corridor few states can be reached at each time, on both sides of the split."""
    size, horizon = 200, 6
    here = np.arange(size)
    forward = sp.csr_array((np.ones(size), (here, np.minimum(here + 1, size - 1))), shape=(size, size))
    back = sp.csr_array((np.ones(size), (here, np.maximum(here - 1, 0))), shape=(size, size))
    mixed = [sp.csr_array(0.75 * forward + 0.25 * back), sp.csr_array(0.125 * forward + 0.875 * back)]
    start = np.zeros(size)
    start[[40, 120]] = 0.25, 0.75
    emissions = np.random.default_rng(0).dirichlet(np.ones(3), size=size)
    secret = veil.StateAt(split, set(range(0, size, 3)))
    problem = veil.Problem(
        veil.Model(mixed, np.zeros((size, 2)), start, discount=0.9), veil.Observer(emissions), secret, horizon,
        return_over="infinite",
    )  # fmt: skip
    policy = veil.TimedPolicy.uniform(problem) if timed else veil.MarkovPolicy.uniform(problem)
    chain = make_chain(problem, policy)
    assert chain.hidden.num_states == size
    assert max(len(pattern.there) for pattern in column_steps.patterns(chain.hidden)) < 20
    events = draw_events(chain, 100, np.random.default_rng(1))
    columns_run = ColumnPass(chain, events, gradient=True, memory_bytes=PLENTY)
    plain = SequencePass(chain, events, gradient=True, memory_bytes=PLENTY)
    index = plain.result.index
    np.testing.assert_allclose(columns_run.result.posterior, plain.result.posterior[index], atol=1e-12)
    np.testing.assert_allclose(columns_run.result.log_likelihood, plain.result.log_likelihood[index], atol=1e-10)
    slope = np.random.default_rng(2).normal(size=columns_run.result.posterior.shape)
    gathered = np.zeros(plain.result.posterior.shape)
    np.add.at(gathered, index, slope)
    np.testing.assert_allclose(columns_run.pull_back(slope), plain.pull_back(gathered), atol=1e-10)


@pytest.mark.parametrize("numbers", [1, 100, 2**16])
@pytest.mark.parametrize("padded", [0.0, 100.0])
def test_sums_over_the_transitions_of_many_states(padded: float, numbers: int, monkeypatch: pytest.MonkeyPatch):
    """`mix`, `outer` and `contract` of 37 states in several blocks, rows equally long or not, against dense sums."""
    monkeypatch.setattr(column_steps, "_PADDED", padded)
    monkeypatch.setattr(column_steps, "_OUTER_NUMBERS", numbers)
    rng = np.random.default_rng(0)
    dense = rng.random((2, 37, 37)) * (rng.random((37, 37)) < 0.1)
    dense[:, np.arange(37), (np.arange(37) + 1) % 37] += 0.1
    kernel = SparseKernel([sp.csr_array(matrix) for matrix in dense])
    here, there = np.arange(3, 36), np.arange(37)
    pattern = column_steps._pattern(kernel, here, there)
    assert (pattern.degree > 0) == (padded > 0)
    weights, left, right = rng.random((33, 2)), rng.random((33, 3)), rng.random((37, 3))
    mixed = np.einsum("na,anm->nm", weights, dense[:, here])
    matrix = column_steps.Matrix(pattern.indptr, pattern.column, pattern.mix(weights))
    np.testing.assert_allclose(matrix @ right, mixed @ right)
    np.testing.assert_allclose(matrix @ right[:, 0], mixed @ right[:, 0])
    np.testing.assert_allclose(matrix.product(right, np.empty((4, 3)), slice(7, 11)), (mixed @ right)[7:11])
    order, rows, ends = pattern.turned
    turned = column_steps.Matrix(ends, rows, matrix.data[order])
    np.testing.assert_allclose(turned @ left, mixed.T @ left)
    outer = pattern.outer(left, right)
    np.testing.assert_allclose(outer, np.einsum("ek,ek->e", left[pattern.row], right[pattern.column]))
    expected = np.einsum("anm,nm->na", dense[:, here], left @ right.T)
    np.testing.assert_allclose(pattern.contract(outer), expected)


def test_states_that_can_be_met_at_each_time():
    """A walk of two states to and fro, a third that is left at once, and a fourth that is never met."""
    moves = np.zeros((4, 1, 4))
    moves[0, 0, 1] = moves[1, 0, 0] = moves[2, 0, 0] = moves[3, 0, 3] = 1.0
    for start, sets in (([1, 0, 0, 0], [[0], [1], [0], [1], [0]]), ([0, 0, 1, 0], [[2], [0], [1], [0], [1]]),
                        ([0.5, 0.5, 0, 0], [[0, 1]] * 5), ([0, 0, 0, 1], [[3]] * 5)):  # fmt: skip
        model = veil.Model(moves, np.zeros((4, 1)), start)
        problem = veil.Problem(model, veil.Observer(np.ones((4, 1))), veil.LastState({0}), 4)
        hidden = build(problem)
        found = column_steps.reachable_sets(hidden)
        assert [one.tolist() for one in found] == sets
        assert [column_steps.reached(hidden, time).tolist() for time in range(5)] == sets
        for one, two in itertools.product(range(5), repeat=2):  # equal sets are one array
            assert (found[one] is found[two]) == (sets[one] == sets[two])
