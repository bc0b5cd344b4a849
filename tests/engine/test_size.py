"""Counting sequences before any work is done."""

import math
from collections import Counter
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_of
from tests.oracle import evaluate
from tests.random_problems import KINDS
from veil.engine import size
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.size import TreeSize, naive_bound, tree_size
from veil.engine.supports import Children, Supports
from veil.engine.tree import Prefixes, Suffixes


def messages(direction: Prefixes | Suffixes) -> list[int]:
    """How many messages an enumeration computes at each level."""
    block = direction.root()
    sizes = [len(block) * block.message.shape[1]]
    for level in range(direction.levels):
        block, _ = direction.expand(block, level)
        sizes.append(len(block) * block.message.shape[1])
    if isinstance(direction, Prefixes) and direction.chain.hidden.split_time < direction.end:
        # One step is taken with one message each, which then becomes one for each value of the secret.
        sizes[direction.chain.hidden.split_time] //= direction.chain.hidden.label.shape[1]
    return sizes


@pytest.mark.parametrize("sees_actions", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_count_is_what_the_walk_meets(kind: str, sees_actions: bool):
    counts = []
    for case in small_cases(40, kind, sees_actions=sees_actions):
        chain = chain_of(case)
        found = tree_size(chain)
        walked = JointWalk(chain)
        total_of(walked)
        assert found.exact
        assert found.num_sequences == walked.num_sequences
        assert naive_bound(chain) >= found.num_sequences
        assert tree_size(on_sparse_kernel(chain)) == found
        counts.append(found.num_sequences)
    assert max(counts) > 50


@pytest.mark.parametrize("large", [False, True])
def test_the_sides_meet_where_the_fewest_messages_are_needed(large: bool, monkeypatch: pytest.MonkeyPatch):
    """The side that carries the values of the secret is kept; where that is too large, the smaller one."""
    if large:
        monkeypatch.setattr(size, "_LARGE_BYTES", 0)
    walked = Counter()
    for case in small_cases(60):
        chain = chain_of(case)
        found = tree_size(chain)
        sides = [
            (messages(Prefixes(chain, time)), messages(Suffixes(chain, time))) for time in range(case.spec.horizon + 1)
        ]
        costs = [sum(before) + sum(after) for before, after in sides]
        assert found.rows == costs[found.meet] == min(costs)
        before, after = (side[-1] for side in sides[found.meet])
        lifted = after if found.meet <= chain.hidden.split_time else before
        assert found.kept_rows == (min(before, after) if large else lifted)
        assert found.kept_rows == (after if found.outer == "prefixes" else before)
        walked[found.outer] += 1
    assert min(walked.values()) > 5


def test_the_count_is_that_of_the_oracle_with_a_split_in_the_middle():
    middle = 0
    for case in small_cases(60, "at"):
        assert tree_size(chain_of(case)).num_sequences == evaluate(case.spec).num_sequences
        middle += 0 < case.spec.secret.time < case.spec.horizon
    assert middle > 15


def false_alarms(horizon: int) -> Chain:
    problem = veil.gallery.load("paper-false-alarms", horizon=horizon)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


def test_false_alarms_everywhere_make_every_history_possible(monkeypatch: pytest.MonkeyPatch):
    """49 million sequences are counted by way of a few sets of states, which is what makes it quick."""
    sets = []
    plain = Supports.ahead

    def watched(supports: Supports, layer: np.ndarray, time: int) -> Children:
        sets.append(len(layer))
        return plain(supports, layer, time)

    monkeypatch.setattr(Supports, "ahead", watched)
    found = tree_size(false_alarms(10))
    assert found.exact
    assert found.num_sequences == 5**11 == 48_828_125
    assert found.text() == "48,828,125"
    assert 3 <= found.meet <= 7
    assert found.rows < 100_000  # meeting in the middle takes the square root
    assert len(sets) == 10
    assert max(sets) <= 100


def test_the_paper_grid_has_the_number_that_the_paper_page_says():
    problem = veil.gallery.load("paper-last-state")
    assert tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem))).num_sequences == 2_579


def test_a_count_is_kept_for_policies_that_take_the_same_actions_only():
    """Several policies over one hidden chain, stationary and with a clock, asked for in turn, twice."""
    fewer = 0
    for case in small_cases(30):
        hidden, available = chain_of(case).hidden, case.problem.available
        uniform = available / available.sum(axis=1, keepdims=True)
        single = np.eye(case.spec.num_actions)[available.argmax(axis=1)]
        tables = [uniform[None], single[None], 0.5 * (uniform + single)[None]]
        chains = [Chain(hidden, table, stationary=True) for table in tables]
        chains += [Chain(hidden, np.tile(table, (case.spec.horizon, 1, 1)), stationary=False) for table in tables]
        found = [[tree_size(chain).num_sequences for chain in chains] for _ in range(2)]
        expected = []
        for chain in chains:
            walked = JointWalk(chain)
            total_of(walked)
            expected.append(walked.num_sequences)
        assert found == [expected, expected]
        fewer += expected[1] < expected[0]
    assert fewer > 5


def test_a_tree_beyond_all_counting_is_a_lower_bound():
    found = tree_size(false_alarms(60))
    assert not found.exact
    assert 1e18 < found.num_sequences < 5.0**61
    assert found.text().startswith("more than ")


def test_a_count_by_too_many_sets_is_given_up_as_a_lower_bound(monkeypatch: pytest.MonkeyPatch):
    given_up = 0
    for case in small_cases(40):
        sizes = []
        for most in (20_000, 1):
            monkeypatch.setattr(size, "_COUNTED", WeakKeyDictionary())  # counts are kept otherwise
            monkeypatch.setattr(size, "_MOST_SETS", most)
            sizes.append(tree_size(chain_of(case)))
        full, found = sizes
        assert found.num_sequences <= full.num_sequences
        assert found.num_sequences == full.num_sequences or not found.exact
        given_up += not found.exact
    assert given_up > 10


@pytest.mark.parametrize("kind", KINDS)
def test_the_count_of_a_tree_that_ends_with_the_last_state_revealed(kind: str):
    for case in small_cases(20, kind):
        chain = chain_of(case)
        if chain.hidden.horizon == 0:
            continue
        told = Chain(replace(chain.hidden, reveals_last=True), chain.table, stationary=chain.stationary)
        # Only continuations know that they end: histories that reach the end on their own tell its emissions apart.
        walked = JointWalk(told, meet=chain.hidden.horizon - 1)
        total_of(walked)
        assert tree_size(told).num_sequences == walked.num_sequences


def test_the_count_of_no_steps_with_the_last_state_revealed():
    chain = false_alarms(0)
    start, first = np.full(36, 1 / 36), sp.csr_array(np.eye(36) / 36)
    hidden = replace(chain.hidden, reveals_last=True, first=first, start=start)
    told = Chain(hidden, chain.table, stationary=True)
    events = Chain(replace(hidden, first=sp.csr_array(np.full((36, 1), 1 / 36))), chain.table, stationary=True)
    assert tree_size(told).num_sequences == 36
    assert tree_size(events).num_sequences == 36


def test_the_naive_bound_of_a_long_horizon_does_not_overflow():
    assert naive_bound(false_alarms(10)) == 5**11
    assert naive_bound(false_alarms(2_000)) == math.inf


def test_a_forecast_grows_with_everything_that_takes_time():
    chain = false_alarms(10)
    found = tree_size(chain)
    base = found.seconds(chain, gradient=False)
    assert 0 < base < 60
    assert found.seconds(chain, gradient=True) == pytest.approx(3 * base)
    assert replace(found, num_sequences=10 * found.num_sequences).seconds(chain, gradient=False) > base
    assert replace(found, rows=1e3 * found.rows).seconds(chain, gradient=False) > base
    short = false_alarms(9)
    assert tree_size(short).seconds(short, gradient=False) < base


@pytest.mark.parametrize(
    ("number", "exact", "text"),
    [
        (1.0, True, "1"),
        (1234567.0, True, "1,234,567"),
        (999_999_999_999_999.0, True, "999,999,999,999,999"),
        (1e15, True, "1e+15"),
        (2.5e17, True, "2.5e+17"),
        (1234567.0, False, "more than 1,234,567"),
    ],
)
def test_the_number_in_words(number: float, exact: bool, text: str):
    assert TreeSize(number, exact, 0, "prefixes", 0, 0).text() == text


def test_zero_steps():
    model = veil.Model(np.ones((2, 1, 2)) / 2, np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=0)
    found = tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem)))
    assert (found.num_sequences, found.meet, found.exact) == (2, 0, True)


def test_policies_on_one_chain_are_counted_apart_by_the_actions_that_they_take():
    problem = veil.gallery.load("two-rooms", horizon=4)
    uniform = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    staying = make_chain(problem, veil.MarkovPolicy(np.array([[1.0, 0.0], [1.0, 0.0]])))
    moving = make_chain(problem, veil.MarkovPolicy(np.array([[0.0, 1.0], [0.0, 1.0]])))
    assert uniform.hidden is staying.hidden is moving.hidden
    for chain in (uniform, staying, moving, uniform):
        walk = JointWalk(chain)
        total_of(walk)
        assert tree_size(chain).num_sequences == walk.num_sequences
    assert len({tree_size(chain).num_sequences for chain in (uniform, staying, moving)}) > 1
    timed = Chain(uniform.hidden, np.repeat(staying.table, 4, axis=0), stationary=False)
    assert tree_size(timed).num_sequences == tree_size(staying).num_sequences
