"""Counting sequences before any work is done."""

import math
from dataclasses import replace

import numpy as np
import pytest

import veil
from veil.engine import size
from veil.engine.chain import Chain
from veil.engine.joint import JointWalk
from veil.engine.size import TreeSize, naive_bound, tree_size
from veil.engine.tree import Prefixes, Suffixes
from veil.opacity.exact import make_chain

from ..oracle import evaluate
from ..random_problems import KINDS
from .chains import chain_of, on_sparse_kernel, small_cases, total_of


def rows_and_leaves(direction: Prefixes | Suffixes) -> tuple[int, int]:
    """How many messages an enumeration computes, and how many are leaves."""
    block = direction.root()
    rows = len(block)
    for level in range(direction.levels):
        block, _ = direction.expand(block, level)
        rows += len(block)
    return rows, len(block)


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
        split = chain.hidden.split_time
        assert (found.prefix_rows, found.prefix_leaves) == rows_and_leaves(Prefixes(chain, split))
        assert (found.suffix_rows, found.suffix_leaves) == rows_and_leaves(Suffixes(chain, split))
        assert naive_bound(chain) >= found.num_sequences
        assert tree_size(on_sparse_kernel(chain)) == found
        counts.append(found.num_sequences)
    assert max(counts) > 50


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
    plain = size._forward

    def watched(layer, chain, time):
        sets.append(len(layer.sets))
        return plain(layer, chain, time)

    monkeypatch.setattr(size, "_forward", watched)
    found = tree_size(false_alarms(10))
    assert found.exact
    assert found.num_sequences == 5**11 == 48_828_125
    assert found.text() == "48,828,125"
    assert found.prefix_rows == sum(5**n for n in range(1, 12))
    assert len(sets) == 10
    assert max(sets) <= 100


def test_the_paper_grid_has_the_number_that_the_paper_page_says():
    problem = veil.gallery.load("paper-last-state")
    assert tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem))).num_sequences == 2_579


def test_a_tree_beyond_all_counting_is_a_lower_bound():
    found = tree_size(false_alarms(60))
    assert not found.exact
    assert 1e18 < found.num_sequences < 5.0**61
    assert found.text().startswith("more than ")


def test_a_count_by_too_many_sets_is_given_up_as_a_lower_bound(monkeypatch: pytest.MonkeyPatch):
    given_up = 0
    for case in small_cases(40):
        chain = chain_of(case)
        monkeypatch.setattr(size, "_MOST_SETS", 20_000)
        full = tree_size(chain)
        monkeypatch.setattr(size, "_MOST_SETS", 1)
        found = tree_size(chain)
        assert found.num_sequences <= full.num_sequences
        if found.exact:
            assert found == full
        else:
            given_up += 1
    assert given_up > 10


def test_revealing_the_last_state_counts_no_fewer():
    """The walk leaves out what the revealed state's emission would add, so the count is an upper bound then."""
    for case in small_cases(30, "at"):
        chain = chain_of(case)
        told = Chain(replace(chain.hidden, reveals_last=True), chain.table, stationary=chain.stationary)
        walked = JointWalk(told)
        total_of(walked)
        assert tree_size(told).num_sequences >= walked.num_sequences


def test_the_naive_bound_of_a_long_horizon_does_not_overflow():
    assert naive_bound(false_alarms(10)) == 5**11
    assert naive_bound(false_alarms(2_000)) == math.inf


def test_a_forecast_grows_with_everything_that_takes_time():
    small, large = TreeSize(1e3, 1e3, 1, 1e3, 1, True), TreeSize(1e6, 1e6, 1, 1e6, 1, True)
    base = small.seconds(10, 1, gradient=False)
    assert 0 < base < large.seconds(10, 1, gradient=False)
    assert small.seconds(10, 1, gradient=True) == pytest.approx(3 * base)
    assert small.seconds(100, 1, gradient=False) > base
    assert small.seconds(10, 5, gradient=False) > base


@pytest.mark.parametrize(
    ("number", "exact", "text"),
    [
        (1.0, True, "1"),
        (1234567.0, True, "1,234,567"),
        (2.5e17, True, "2.5e+17"),
        (1234567.0, False, "more than 1,234,567"),
    ],
)
def test_the_number_in_words(number: float, exact: bool, text: str):
    assert TreeSize(number, 0, 0, 0, 0, exact).text() == text


def test_zero_steps():
    model = veil.Model(np.ones((2, 1, 2)) / 2, np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=0)
    found = tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem)))
    assert (found.num_sequences, found.prefix_rows, found.suffix_rows) == (2, 2, 1)
