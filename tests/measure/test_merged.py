"""Histories merged by their beliefs: how many are kept apart, and that the bounds hold whatever is merged."""

import pytest

import veil
from tests.measure.test_trajectory import random_case
from tests.paths import entropy, hidden_bits, merged
from tests.seeds import in_blocks
from veil.engine.chain import Chain, make_chain
from veil.engine.event_entropy import show_path
from veil.measure.exact import Budget
from veil.measure.merged import Merged, MergedPass


def event_bounds(chain: Chain, most: int, budget: Budget) -> Merged:
    return MergedPass(chain, most, budget).events()


def check_bounds(seed: int, most: int) -> float:
    """The bounds hold what all runs give, for the opacity and for the entropy of the path; their width."""
    problem, group, policy, runs = random_case(seed)
    chain = make_chain(problem, policy)
    seen = event_bounds(chain, most, Budget())
    both = event_bounds(show_path(chain.hidden).chain(chain), most, Budget())
    lower, upper = both.lower - seen.upper, both.upper - seen.lower
    assert lower - 1e-12 <= hidden_bits(runs, group) <= upper + 1e-12
    law = event_bounds(show_path(chain.hidden, alone=True).chain(chain), most, Budget())
    shown = entropy(merged(runs, lambda path, _: path if group is None else tuple(group[list(path)])))
    assert law.lower - 1e-12 <= shown <= law.upper + 1e-12
    return upper - lower


@in_blocks(30, 1_000)
def test_bounds_of_a_path_hold_what_all_runs_give(seed: int):
    """However few histories are kept apart; where all are, the bounds meet, and `opacity` gives them."""
    assert check_bounds(seed, 2) >= -1e-12
    assert check_bounds(seed, 512) < 1e-10
    problem, group, policy, runs = random_case(seed)
    found = veil.opacity(problem, policy, "bracket", width=0.0)
    assert (found.method, found.bits) == ("bracket", found.lower)
    assert found.lower <= hidden_bits(runs, group) <= found.upper < found.lower + 1e-9


def test_few_histories_leave_a_gap():
    assert max(check_bounds(seed, 2) for seed in range(20)) > 1e-4


def test_a_path_that_is_not_enumerated():
    """One false alarm on every sensor: 5^8 sequences, which can still be enumerated, and 5^11, which cannot."""
    problem = veil.gallery.load("paper-false-alarms", horizon=7).replace(secret=veil.Trajectory())
    policy = veil.MarkovPolicy.uniform(problem)
    exact = veil.opacity(problem, policy, "exact").bits
    found = veil.opacity(problem, policy, "bracket", width=0.02)
    assert found.lower < exact < found.upper < found.lower + 0.02
    longer = problem.replace(horizon=10)
    found = veil.opacity(longer, policy, width=0.05)
    assert found.method == "bracket"
    assert found.reason.startswith("bracket: the possible sequences are too many to enumerate within the budget; ")
    assert 16.6 < found.lower < 16.6323 < found.upper < 16.7  # 16.63223 … 16.63267 with 8,192 histories


def test_a_step_that_does_not_fit_the_memory_is_not_taken():
    problem = veil.gallery.load("paper-false-alarms", horizon=30).replace(secret=veil.Trajectory())
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    small = Budget(memory_bytes=2**20)
    with pytest.raises(veil.TooLargeError, match="entries, which do not fit the memory"):
        event_bounds(chain, 512, small)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "bracket", memory_bytes=2**20)
    assert found.lower == 0.0
    assert found.prior_bits < found.upper < found.prior_bits + 1e-9
