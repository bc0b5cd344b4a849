"""Messages along given sequences: against one at a time, against the joint table, and the slopes they carry back."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_and_slope
from tests.engine.messages import forward
from tests.engine.passes import (
    PLENTY,
    any_sequences,
    assert_agree,
    by_prefixes,
    joint_of,
    log_likelihoods,
    posteriors,
    pulled_back,
)
from tests.random_problems import KINDS
from veil.common.logs import surprisal_bits
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.sequences import SequencePass, Trie


def mixing_chain(horizon: int, split: int, *, timed: bool = False, seed: int = 0) -> Chain:
    """Three states, two actions, two observations, nothing impossible, and a secret at any time."""
    rng = np.random.default_rng(seed)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), np.zeros((3, 2)), rng.dirichlet(np.ones(3)))
    problem = veil.Problem(
        model, veil.Observer(rng.dirichlet(np.ones(2), size=3)), veil.StateAt(split, {0}), max(horizon, split)
    )
    if timed:
        policy = veil.TimedPolicy(rng.dirichlet(np.ones(2), size=(problem.horizon, 3)))
    else:
        policy = veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=3))
    return make_chain(problem, policy)


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_sequences_have_the_probabilities_and_posteriors_of_the_joint_table(kind: str, timed: bool):
    for case in small_cases(12, kind, timed=timed):
        chain = chain_of(case)
        events, joint = joint_of(chain)
        for one in (chain, on_sparse_kernel(chain)):
            run = by_prefixes(one, events)
            likelihood = joint.sum(axis=1)
            np.testing.assert_allclose(np.exp(log_likelihoods(run)), likelihood, rtol=1e-12)
            np.testing.assert_allclose(posteriors(run), joint / likelihood[:, None], rtol=0, atol=1e-12)
            assert np.exp(log_likelihoods(run)).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_each_sequence_has_the_likelihood_of_a_filter_of_its_own(kind: str):
    rng, impossible = np.random.default_rng(0), 0
    for case in small_cases(12, kind):
        chain = chain_of(case)
        events = any_sequences(chain, 30, rng)
        found = log_likelihoods(by_prefixes(chain, events))
        expected = np.array([forward(chain, row)[1] for row in events.tolist()])
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        impossible += int(np.isinf(expected).sum())
    assert impossible > 10


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_slope_of_the_entropy_over_all_sequences_is_the_exact_one(kind: str, timed: bool):
    steep = 0
    for case in small_cases(12, kind, timed=timed):
        chain = chain_of(case)
        events, joint = joint_of(chain)
        # An action never taken has a slope from one side only, which the two need not share: weigh it with its chance.
        expected = chain.table * total_and_slope(JointWalk(chain))[1]
        weighted = joint.sum(axis=1)[:, None] * surprisal_bits(joint)
        for one in (chain, on_sparse_kernel(chain)):
            found = chain.table * pulled_back(by_prefixes(one, events), weighted)
            np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
        steep += np.abs(expected).max(initial=0) > 0.01
    assert steep >= 3


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("split", [0, 1, 17, 39, 40])
def test_checkpoints_in_time_change_nothing(split: int, timed: bool):
    chain = mixing_chain(40, split, timed=timed)
    events = any_sequences(chain, 50, np.random.default_rng(1))
    slope = np.random.default_rng(2).normal(size=(50, 2))
    full, tight = by_prefixes(chain, events), by_prefixes(chain, events, memory_bytes=1)
    assert full._forward.every == full._backward.every == 1
    assert tight._forward.every > 1 or split <= 1
    assert tight._backward.every > 1 or split >= 39
    np.testing.assert_array_equal(log_likelihoods(tight), log_likelihoods(full))
    np.testing.assert_array_equal(pulled_back(tight, slope), pulled_back(full, slope))


def test_checkpoints_keep_a_share_of_the_levels():
    chain = mixing_chain(400, 400)
    tight = by_prefixes(chain, any_sequences(chain, 5, np.random.default_rng(0)), memory_bytes=1)
    assert len(tight._forward._kept) == 20
    assert not tight._forward._ways


def test_impossible_sequences_give_nothing_and_no_nan():
    rng, checked = np.random.default_rng(0), 0
    for case in small_cases(60):
        chain = chain_of(case)
        events = any_sequences(chain, 20, rng)
        run = by_prefixes(chain, events)
        gone = np.isneginf(log_likelihoods(run))
        assert not np.isnan(log_likelihoods(run)).any()
        assert (posteriors(run)[gone] == 0).all()
        np.testing.assert_allclose(posteriors(run)[~gone].sum(axis=1), 1, atol=1e-12)
        slope = np.where(gone[:, None], rng.normal(size=(20, posteriors(run).shape[1])), 0.0)
        assert not pulled_back(run, slope).any()
        checked += int(gone.sum())
    assert checked > 100


@pytest.mark.parametrize("horizon", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_no_decision_and_one(kind: str, horizon: int):
    met = 0
    for case in small_cases(80, kind, work=500):
        if case.spec.horizon != horizon:
            continue
        chain = chain_of(case)
        events, joint = joint_of(chain)
        run = by_prefixes(chain, events)
        np.testing.assert_allclose(np.exp(log_likelihoods(run))[:, None] * posteriors(run), joint, atol=1e-15)
        slope = run.pull_back(np.ones_like(run.result.posterior))
        assert slope.shape == chain.table.shape
        assert np.isfinite(slope).all()
        met += 1
    assert met >= 3


def test_sequences_given_twice_are_counted_and_computed_once():
    chain = mixing_chain(6, 3)
    events = any_sequences(chain, 12, np.random.default_rng(0))
    doubled = by_prefixes(chain, np.repeat(events, 5, axis=0))
    distinct = len(np.unique(events, axis=0))
    assert len(doubled.result.count) == distinct
    assert doubled.result.count.sum() == 60
    once = by_prefixes(chain, events)
    np.testing.assert_array_equal(log_likelihoods(doubled)[::5], log_likelihoods(once))
    slope = np.random.default_rng(1).normal(size=(60, 2))
    united = slope.reshape(12, 5, 2).sum(axis=1)
    np.testing.assert_allclose(pulled_back(doubled, slope), pulled_back(once, united), rtol=1e-12)


def test_the_order_of_the_sequences_does_not_matter():
    chain = mixing_chain(8, 5)
    events = any_sequences(chain, 40, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(40)
    first, second = by_prefixes(chain, events), by_prefixes(chain, events[order])
    np.testing.assert_array_equal(log_likelihoods(first)[order], log_likelihoods(second))
    slope = np.random.default_rng(2).normal(size=(40, 2))
    np.testing.assert_allclose(pulled_back(first, slope), pulled_back(second, slope[order]), rtol=1e-12)


def test_the_slope_of_the_likelihood_is_that_of_central_differences():
    """With weight one on every value the slope carried back is that of `Σ log P(y)`."""
    for timed in (False, True):
        chain = mixing_chain(5, 2, timed=timed)
        events = any_sequences(chain, 7, np.random.default_rng(3))
        found = pulled_back(by_prefixes(chain, events), np.ones((7, 2)))
        for place in np.ndindex(chain.table.shape):
            moved = []
            for step in (1e-6, -1e-6):
                table = chain.table.copy()
                table[place] += step
                other = Chain(chain.hidden, table, stationary=chain.stationary)
                moved.append(log_likelihoods(by_prefixes(other, events)).sum())
            assert found[place] == pytest.approx((moved[0] - moved[1]) / 2e-6, abs=1e-6)


def test_without_a_gradient_nothing_is_kept():
    chain = mixing_chain(30, 15)
    events = any_sequences(chain, 10, np.random.default_rng(0))
    plain = SequencePass(chain, events, gradient=False, memory_bytes=PLENTY)
    assert not plain._forward._ways
    assert not plain._forward._kept
    np.testing.assert_array_equal(log_likelihoods(plain), log_likelihoods(by_prefixes(chain, events)))
    with pytest.raises(AssertionError):
        plain.pull_back(np.ones_like(plain.result.posterior))


def test_a_long_sequence_neither_underflows_nor_overflows():
    chain = mixing_chain(3_000, 1_500)
    events = any_sequences(chain, 3, np.random.default_rng(0))
    run = by_prefixes(chain, events, memory_bytes=2**16)
    expected = [forward(chain, row)[1] for row in events.tolist()]
    np.testing.assert_allclose(log_likelihoods(run), expected, rtol=1e-12)
    assert max(expected) < -1_000  # far below the smallest float
    assert np.isfinite(pulled_back(run, np.ones((3, 2)))).all()


def test_a_hidden_chain_split_elsewhere_agrees_on_the_likelihood():
    """Where the two sides meet is no part of what they tell."""
    chain = mixing_chain(10, 10)
    events = any_sequences(chain, 20, np.random.default_rng(0))
    slope = np.ones((20, 2))
    whole = by_prefixes(chain, events)
    expected = pulled_back(whole, slope)
    for split in (0, 4, 9):
        moved = Chain(replace(chain.hidden, split_time=split), chain.table, stationary=True)
        run = by_prefixes(moved, events)
        np.testing.assert_allclose(log_likelihoods(run), log_likelihoods(whole), rtol=1e-12)
        np.testing.assert_allclose(pulled_back(run, slope), expected, rtol=1e-11)


# Tries


def test_a_trie_holds_each_prefix_once_and_leads_back_to_its_sequences():
    sequences = np.array([[0, 1, 1], [0, 1, 0], [2, 1, 1], [0, 1, 1]])
    trie = Trie.of(sequences)
    assert [len(level) for level in trie.event] == [2, 2, 3]
    for row, leaf in zip(sequences, trie.leaf, strict=True):
        node, read = leaf, []
        for parent, event in zip(reversed(trie.parent), reversed(trie.event), strict=True):
            read.append(event[node])
            node = parent[node]
        assert read[::-1] == row.tolist()
        assert node == 0
    assert all((np.diff(event) >= 0).all() for event in trie.event)


def test_a_trie_of_nothing_has_one_leaf():
    trie = Trie.of(np.zeros((4, 0), dtype=int))
    assert trie.event == []
    assert trie.leaf.tolist() == [0, 0, 0, 0]


def test_the_same_pass_agrees_with_itself_over_a_sparse_kernel():
    rng = np.random.default_rng(0)
    for case in small_cases(20):
        chain = chain_of(case)
        events = any_sequences(chain, 30, rng)
        slope = rng.normal(size=(30, chain.hidden.label.shape[1]))
        assert_agree(by_prefixes(on_sparse_kernel(chain), events), by_prefixes(chain, events), slope)


@pytest.mark.parametrize(
    ("count", "length", "base"), [(1, 1, 1), (1, 5, 3), (40, 6, 3), (300, 12, 5), (50, 1, 4), (7, 9, 1)]
)
def test_short_sequences_give_the_trie_that_goes_level_by_level(count: int, length: int, base: int):
    sequences = np.random.default_rng(count + length).integers(base, size=(count, length)).astype(np.int32)
    quick, slow = Trie.of(sequences), Trie._level_by_level(sequences)
    for trie in (quick, slow):
        assert all((np.diff(event) >= 0).all() for event in trie.event)
        for row, leaf in zip(sequences, trie.leaf, strict=True):
            node, spelled = leaf, []
            for level in range(length - 1, -1, -1):
                spelled.append(trie.event[level][node])
                node = trie.parent[level][node]
            assert spelled[::-1] == row.tolist()
    assert [len(event) for event in quick.event] == [len(event) for event in slow.event]


@pytest.mark.parametrize(
    ("base", "length"), [(3, 0), (1, 4), (2, 5), (3, 39), (3, 41), (3, 60), (2, 70), (9, 19), (9, 25)]
)
def test_the_trie_of_sequences_of_any_length(base: int, length: int):
    """Each level has the distinct prefixes, ordered by event, whether sequences fit into numbers or not."""
    rng = np.random.default_rng(length)
    sequences = rng.integers(base, size=(30, length))
    half = length // 2
    sequences[10:20, :half] = sequences[:10, :half]  # that begin alike
    sequences[25] = sequences[3]
    if length:
        sequences[0] = base - 1  # the largest number
    trie = Trie.of(sequences)
    assert len(trie.parent) == len(trie.event) == length
    node = trie.leaf
    for level in range(length - 1, -1, -1):
        np.testing.assert_array_equal(trie.event[level][node], sequences[:, level])
        assert len(trie.event[level]) == len(np.unique(sequences[:, : level + 1], axis=0))
        assert (np.diff(trie.event[level]) >= 0).all()
        node = trie.parent[level][node]
    assert not node.any()
    assert len(node) == 30
