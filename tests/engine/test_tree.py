"""The observation tree: its rows, chunks, sparse products, merging and pruning."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_case, small_cases, total_and_slope, total_of
from tests.engine.messages import backward, forward
from tests.engine.passes import joint_of
from tests.random_problems import KINDS, Case
from veil.common.clock import Clock, OutOfTime
from veil.common.logs import divergence_bits, log2_of_count
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.tree import Block, Merging, Prefixes, Pruning, Suffixes, walk
from veil.measure.exact import Budget, EntropyObjective, exact_gradient, exact_opacity


def leaves(direction: Prefixes | Suffixes, rows_at_once: int = 10**9) -> list[Block]:
    found: list[Block] = []
    walk(direction, found.append, rows_at_once=rows_at_once)
    return found


class Rows(EntropyObjective):
    """Counts the pairs of a history and a continuation that are possible."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __call__(self, joint, events):
        self.number += int(np.count_nonzero(joint.any(axis=1)))
        return super().__call__(joint, events)


# Rows


def test_a_row_of_the_forward_tree_is_the_belief_after_its_history():
    met = 0
    for case in small_cases(25):
        chain = chain_of(case)
        for end in {chain.hidden.split_time, chain.hidden.horizon}:
            (block,) = leaves(Prefixes(chain, end, keep_events=True))
            assert block.events is not None
            assert len(np.unique(block.events, axis=0)) == len(block)
            assert block.weight.sum() == pytest.approx(1, abs=1e-12)
            # Past the time of the secret there is a message for each of its values.
            assert block.message.shape[1] == (1 if end <= chain.hidden.split_time else chain.hidden.label.shape[1])
            for weight, message, events in zip(block.weight, block.message, block.events, strict=True):
                beliefs, logarithm = forward(chain, events.tolist())
                assert weight == pytest.approx(np.exp(logarithm), rel=1e-11)
                np.testing.assert_allclose(message.sum(axis=0), beliefs[-1], atol=1e-12)
                met += 1
    assert met > 500


def test_a_row_of_the_backward_tree_is_the_chance_of_its_continuation():
    met = 0
    for case in small_cases(25):
        chain = chain_of(case)
        for begin in {chain.hidden.split_time, 0}:
            (block,) = leaves(Suffixes(chain, begin, keep_events=True))
            assert block.events is not None
            assert len(np.unique(block.events, axis=0)) == len(block)
            reachable = chain.occupancies[begin] > 0
            assert block.message.shape[1] == chain.hidden.label.shape[1]
            for true, events in zip(block.true, block.events, strict=True):
                # `backward` reads the sequence from time 0 on; what stands before `begin` does not matter to it.
                messages, scales = backward(chain, [0] * (begin + 1) + events.tolist())
                expected = messages[begin] * np.exp(scales[begin])
                np.testing.assert_allclose(true.sum(axis=0), np.where(reachable, expected, 0), rtol=1e-11, atol=0)
                met += 1
            np.testing.assert_allclose(block.true.sum(axis=(0, 1))[reachable], 1, rtol=1e-12)
            # Summed over what may be seen, only the forecast of the secret is left.
            label = chain.forecasts[begin] * reachable[:, None]
            np.testing.assert_allclose(block.true.sum(axis=0).T, label, atol=1e-12)
    assert met > 500


def test_continuations_after_the_secret_carry_one_message():
    chain = chain_of(small_case(3, "initial"))
    assert chain.hidden.horizon >= 2
    (block,) = leaves(Suffixes(chain, 1))
    assert block.message.shape[1] == 1
    assert chain.hidden.label.shape[1] > 1


def test_a_history_of_probability_zero_never_branches():
    model = veil.Model(np.array([[[0, 1.0]], [[1.0, 0]]]), np.zeros((2, 1)), 0)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=1_000)
    chain = make_chain(problem, veil.MarkovPolicy(np.ones((2, 1))))
    walked = JointWalk(chain)
    assert total_of(walked) == 0
    assert walked.num_sequences == 1


# Chunks


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_chunks_change_nothing(kind: str, sparse: bool):
    chunked = 0
    for case in small_cases(10, kind):
        whole = JointWalk(chain_of(case))
        bits, slope = total_and_slope(whole)
        chain = on_sparse_kernel(whole.chain) if sparse else whole.chain
        for memory in (1, 5_000, 2**30):
            parts = JointWalk(chain, memory_bytes=memory)
            other_bits, other_slope = total_and_slope(parts)
            assert other_bits == pytest.approx(bits, abs=1e-13)
            np.testing.assert_allclose(other_slope, slope, atol=1e-12)
            assert parts.num_sequences == whole.num_sequences
            assert parts.root_slope is not None
            assert whole.root_slope is not None
            np.testing.assert_allclose(parts.root_slope, whole.root_slope, atol=1e-12)
            chunked += parts._rows_at_once(whole.chain.hidden.horizon) < whole.num_sequences
    assert chunked > 10


@pytest.mark.parametrize("rows_at_once", [1, 2, 5])
def test_chunks_have_the_same_leaves_in_a_bounded_number_of_rows(rows_at_once: int):
    for case in small_cases(10, "last"):
        chain = chain_of(case)
        (whole,) = leaves(Prefixes(chain, case.spec.horizon, keep_events=True))
        parts = leaves(Prefixes(chain, case.spec.horizon, keep_events=True), rows_at_once)
        assert whole.events is not None
        if case.spec.horizon:
            assert max(map(len, parts)) <= rows_at_once * chain.hidden.num_events
        found = np.concatenate([part.events for part in parts if part.events is not None])
        order, expected = np.lexsort(found.T), np.lexsort(whole.events.T)
        np.testing.assert_array_equal(found[order], whole.events[expected])
        np.testing.assert_allclose(
            np.concatenate([part.true for part in parts])[order], whole.true[expected], rtol=1e-12, atol=0
        )


def test_the_same_walk_gives_the_same_bits_to_the_last():
    case = small_case(4, "at", work=50_000)
    first, second = (total_and_slope(JointWalk(chain_of(case), memory_bytes=10_000)) for _ in range(2))
    assert first[0] == second[0]
    np.testing.assert_array_equal(first[1], second[1])


def test_a_deadline_stops_the_walk():
    chain = chain_of(small_case(0, "last"))
    with pytest.raises(OutOfTime, match="time limit"):
        total_of(JointWalk(chain, clock=Clock(-1.0)))
    assert total_of(JointWalk(chain, clock=Clock(1_000.0))) >= 0


# Merging


def split_in_two(problem: veil.Problem) -> veil.Problem:
    """Each observation becomes one of two, by a coin that does not depend on anything: proportional columns."""
    size = problem.observer.num_observations
    channel = np.zeros((size, 2 * size))
    channel[np.arange(size), np.arange(size)] = 0.375
    channel[np.arange(size), size + np.arange(size)] = 0.625
    return problem.replace(observer=problem.observer.garbled(channel))


@pytest.mark.parametrize("kind", KINDS)
def test_proportional_histories_become_one_row_of_the_same_value(kind: str):
    smaller = 0
    for case in small_cases(12, kind, work=300):
        chain = make_chain(split_in_two(case.problem), case.policy)
        plain, merged = Rows(), Rows()
        apart, together = JointWalk(chain), JointWalk(chain, merge_tolerance=1e-9)
        slope, merged_slope = apart.run(plain, gradient=True), together.run(merged, gradient=True)
        assert merged.bits == pytest.approx(plain.bits, abs=1e-12)
        assert together.merge_error_bits <= 1e-9
        assert together.num_sequences == apart.num_sequences  # merged histories are still counted
        assert slope is not None
        assert merged_slope is not None
        np.testing.assert_allclose(merged_slope, slope, atol=1e-9)
        rows = Rows()
        JointWalk(chain_of(case), merge_tolerance=1e-9).run(rows)
        # The coin tells the observer nothing, so the rows that are left are those without it; roots are not merged.
        assert merged.number <= rows.number * (2 if case.spec.horizon == 0 else 1)
        smaller += plain.number >= 4 * merged.number
    assert smaller >= 5


def test_merging_is_off_by_default():
    case = small_case(1, "last", work=300)
    chain = make_chain(split_in_two(case.problem), case.policy)
    rows = Rows()
    walked = JointWalk(chain)
    walked.run(rows)
    assert rows.number == walked.num_sequences
    assert walked.merge_error_bits == 0
    assert exact_opacity(chain, Budget()).method == "exact"


TOLERANCES = (1e-12, 1e-9, 1e-6, 1e-3, 0.01, 0.05, 0.1, 0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bracket_of_merging_holds_the_exact_value(kind: str):
    merged = 0
    for case in small_cases(40, kind, work=2_000):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        widths = []
        for tolerance in TOLERANCES:
            found = exact_opacity(chain, Budget(merge_tolerance=tolerance))
            assert found.lower - 1e-12 <= exact <= found.upper + 1e-12, tolerance
            assert found.bits == found.lower
            assert found.method == "bracket" or found.lower == found.upper
            widths.append(found.upper - found.lower)
            again, _ = exact_gradient(chain, Budget(merge_tolerance=tolerance))
            assert (again.lower, again.upper) == (found.lower, found.upper)
        assert widths[0] < 1e-9
        merged += widths[-1] > 0.01
    assert merged >= 4


def test_the_bracket_of_merging_holds_in_small_chunks():
    for case in small_cases(30, "at"):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        parts = JointWalk(chain, merge_tolerance=0.2, memory_bytes=2_000)
        upper = total_of(parts)
        assert upper - parts.merge_error_bits - 1e-12 <= exact <= upper + 1e-12


def rows_of(weight: list[float], message: list[list[float]]) -> Block:
    """Nodes with one message each."""
    return Block(np.array(weight), np.array(message)[:, None], np.ones(len(weight)), np.arange(len(weight))[:, None])


def test_merging_by_hand():
    block = rows_of([0.2, 0.6, 0.2], [[0.5, 0.5], [0.501, 0.499], [1.0, 0.0]])
    merging = Merging(0.01)
    merged, place = merging.apply(block, None, 0)
    assert place is not None
    assert len(merged) == 2
    assert place[0] == place[1] != place[2]
    np.testing.assert_allclose(merged.true[place[0]], [[0.1 + 0.3006, 0.1 + 0.2994]])
    np.testing.assert_allclose(merged.message.sum(axis=(1, 2)), 1)
    assert merged.count[place].tolist() == [2, 2, 1]
    beliefs = block.message[:2, 0]
    mean = np.tile((0.2 * beliefs[0] + 0.6 * beliefs[1]) / 0.8, (2, 1))
    expected = float(np.array([0.2, 0.6]) @ divergence_bits(beliefs, mean))
    assert merging.error_bits == pytest.approx(expected, rel=1e-6)
    assert 0 < expected < 1e-6
    merging.apply(block, None, 0)
    assert merging.error_bits == pytest.approx(2 * expected, rel=1e-6)  # it adds up over the levels


def test_merging_of_backward_messages_weighs_them_with_the_prior():
    """Messages that differ only where the state cannot be are the same to the observer."""
    block = rows_of([1.0, 1.0], [[1.0, 0.5, 0.0], [1.0, 0.5, 0.0]])
    merged, place = Merging(1e-6).apply(block, np.array([0.5, 0.5, 0.0]), 0)
    assert place is not None
    np.testing.assert_array_equal(place, [0, 0])
    np.testing.assert_array_equal(merged.true, [[[2.0, 1.0, 0.0]]])
    assert merged.message.max() == 1


def test_what_merged_backward_messages_may_cost_is_weighed_with_the_prior():
    """Continuations of probability 0.28 and 0.46 that leave beliefs of 0.357 and 0.217 in the first state."""
    block = rows_of([0.4, 1.0], [[0.5, 0.75], [0.2, 0.9]])
    block = Block(block.weight, block.message / block.message.max(axis=2, keepdims=True), block.count, None)
    prior = np.array([0.2, 0.8])
    merging = Merging(0.9)
    merged, place = merging.apply(block, prior, 0)
    assert place is not None
    np.testing.assert_array_equal(place, [0, 0])
    np.testing.assert_allclose(merged.true, [block.true.sum(axis=0)])
    joint = block.true[:, 0] * prior
    mass = joint.sum(axis=1)
    beliefs, mean = joint / mass[:, None], joint.sum(axis=0) / mass.sum()
    expected = float(mass @ divergence_bits(beliefs, np.tile(mean, (2, 1))))
    assert merging.error_bits == pytest.approx(expected, rel=1e-12)
    assert expected > 1e-3


def test_histories_of_the_same_state_but_another_secret_are_kept_apart():
    """Two messages a node, one for each value: the same belief in the state, the opposite one in the secret."""
    message = np.array([[[0.5, 0.5], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.5]], [[0.0, 0.0], [0.5, 0.5]]])
    block = Block(np.array([0.25, 0.25, 0.5]), message, np.ones(3), None)
    merging = Merging(1e-3)
    merged, place = merging.apply(block, None, 0)
    assert place is not None
    assert place[0] != place[1] == place[2]
    np.testing.assert_allclose(merged.true[place[1]], 0.75 * message[1])
    assert merging.error_bits == 0
    coarse = Merging(0.999)
    coarse.apply(Block(block.weight, message * 0.9 + 0.025, block.count, None), None, 0)
    assert coarse.error_bits > 0.1


def test_nothing_to_merge_leaves_the_block_alone():
    block = rows_of([0.5, 0.5], [[0.5, 0.5], [0.25, 0.75]])
    for merging in (Merging(0.0), Merging(1e-3)):
        assert merging.apply(block, None, 0) == (block, None)
        assert merging.error_bits == 0


# Pruning


@pytest.mark.parametrize("kind", KINDS)
def test_what_pruning_leaves_out_is_bounded(kind: str):
    pruned = 0
    for case in small_cases(40, kind, work=2_000):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        most = log2_of_count(chain.hidden.label.shape[1])
        for below in (1e-6, 1e-3, 0.01, 0.05, 0.2, 0.6, 1.0):
            for side in ("prefixes", "suffixes"):
                walked = JointWalk(chain, prune_below=below, outer=side)
                bits = total_of(walked)
                assert bits <= exact + 1e-12
                assert exact <= bits + walked.lost_mass * most + 1e-12
                pruned += 0 < walked.lost_mass < 0.5
    assert pruned > 20


def test_pruning_by_hand():
    pruning = Pruning(0.1)
    np.testing.assert_array_equal(pruning.keep(np.array([0.5, 0.05, 0.1, 0.01])), [0, 2])
    assert pruning.lost_mass == pytest.approx(0.06)
    off = Pruning()
    assert off.keep(np.array([0.0, 1e-300])) == slice(None)
    assert off.lost_mass == 0


def test_pruning_everything_loses_everything():
    case: Case = small_case(0, "last", work=2_000, timed=False)
    chain: Chain = chain_of(case)
    assert case.spec.horizon >= 1
    walked = JointWalk(chain, prune_below=2.0)
    assert total_of(walked) == 0
    assert walked.num_sequences == 0
    assert walked.lost_mass >= 1 - 1e-12  # each side counts what it leaves out


def test_continuations_are_pruned_by_their_probability():
    for case in small_cases(12, "last"):
        if case.problem.horizon != 1:
            continue
        chain = chain_of(case)
        sequences, joint = joint_of(chain)
        chance = np.bincount(sequences[:, 1], joint.sum(axis=1), minlength=chain.hidden.num_events)
        for below in (0.1, 0.3, 0.6):
            pruning = Pruning(below)
            suffixes = Suffixes(chain, 0, pruning=pruning)
            children, _ = suffixes.expand(suffixes.root(), 0)
            assert len(children) == np.count_nonzero(chance >= below)
            assert pruning.lost_mass == pytest.approx(chance[chance < below].sum(), abs=1e-15)


# Ends and times


def test_an_observer_who_is_told_the_last_state_learns_nothing_from_what_it_emits():
    """One continuation for each last state that can be met; with actions in the events, one for each pair."""
    for seed, fixed in itertools.product(range(6), ({}, {"sees_actions": True})):
        plain = chain_of(small_case(seed, "last", work=300, on_actions=False, **fixed))
        if plain.hidden.horizon < 2:
            continue
        chain = Chain(replace(plain.hidden, reveals_last=True), plain.table, stationary=plain.stationary)
        hidden, time = chain.hidden, plain.hidden.horizon - 1
        (block,) = leaves(Suffixes(chain, time))
        expected = set()
        for matrix, (number, channel) in zip(chain.matrices(time), enumerate(hidden.channels), strict=True):
            flow = chain.occupancies[time][:, None] * np.asarray(matrix)
            for last in np.flatnonzero(flow.sum(axis=0) > 0):
                told = [(last, event) for event in np.flatnonzero(channel.emission[last] > 0)]
                expected |= {(last, None)} if len(hidden.channels) == 1 else set(told)
            assert number < len(hidden.channels)
        assert len(block) == len(expected)
        assert block.true.sum() == pytest.approx(np.count_nonzero(chain.occupancies[time]))


class Times:
    """A merger that merges nothing, and notes when it is asked and with which prior."""

    def __init__(self) -> None:
        self.error_bits = 0.0
        self.asked: list[tuple[int, np.ndarray | None]] = []

    def apply(self, block: Block, prior: np.ndarray | None, time: int) -> tuple[Block, None]:
        self.asked.append((time, prior))
        return block, None


def test_mergers_are_asked_at_the_time_of_their_rows():
    chain = next(chain for chain in map(chain_of, small_cases(40, "at")) if chain.hidden.horizon == 4)
    forward, backward = Times(), Times()
    leaves(Prefixes(chain, 3, forward))
    leaves(Suffixes(chain, 1, backward))
    assert [(time, prior) for time, prior in forward.asked] == [(1, None), (2, None), (3, None)]
    assert [time for time, _ in backward.asked] == [3, 2, 1]
    for time, prior in backward.asked:
        np.testing.assert_array_equal(prior, chain.occupancies[time])


def test_the_gradient_in_the_root_sums_over_the_values_where_the_root_carries_them():
    """A secret of the first state lifts the root, unless the walk ends there; a later one does not."""
    rng = np.random.default_rng(0)
    for kind, lifted in (("initial", True), ("last", False)):
        chains = (chain_of(small_case(seed, kind, work=300)) for seed in range(40))
        chain = next(one for one in chains if one.hidden.horizon > 1 and one.hidden.num_values > 1)
        label = chain.hidden.label
        for end in (0, 2):
            root = Prefixes(chain, end).root()
            values = label.shape[1] if lifted and end else 1
            assert root.message.shape[1] == values
            slope = rng.normal(size=root.message.shape)
            expected = np.einsum("fzx,xz->fx", slope, label) if values > 1 else slope[:, 0]
            np.testing.assert_allclose(Prefixes(chain, end).root_slope(slope), expected)
