"""Histories merged by their beliefs: how many are kept apart, and that the bounds hold whatever is merged."""

import importlib

import numpy as np
import pytest

import veil
from tests.measure.test_trajectory import random_case
from tests.paths import entropy, hidden_bits, merged
from veil.common.clock import Clock, OutOfTime, Stop
from veil.engine.beliefs import merge_beliefs
from veil.engine.chain import make_chain
from veil.engine.event_entropy import show_path
from veil.engine.kernel import num_columns
from veil.measure.event_bounds import event_bounds
from veil.measure.exact import Budget
from veil.measure.merged import Merged, keep_apart
from veil.measure.trajectory import path_bits

module = importlib.import_module("veil.measure.merged")


@pytest.mark.parametrize(
    ("width", "same", "late", "kept"),
    [
        (0.0, 99, False, [2, 4, 8]),  # as many as may be kept apart
        (0.125, 99, False, [2, 4]),  # narrow enough
        (0.0, 4, False, [2, 4]),  # those that were merged are the same
        (0.0, 99, True, [2]),  # twice as many would take too long
    ],
)
def test_histories_are_kept_apart_until_it_is_enough(
    width: float, same: int, late: bool, kept: list[int], monkeypatch: pytest.MonkeyPatch
):
    """Bounds of 1/most around a half: the better of either end is kept, and the most rows that were met."""
    monkeypatch.setattr(module, "_FIRST_MOST", 2)
    monkeypatch.setattr(module, "_LARGEST_MOST", 8)
    seconds = iter(range(0, 10**6, 1000 if late else 1))
    budget = Budget(time_limit=2500.0)
    object.__setattr__(budget, "clock", Clock(2500.0, now=lambda: next(seconds)))
    asked = []

    def bounds(most: int) -> Merged:
        asked.append(most)
        return Merged(0.5 - 0.25 / most, 0.5 + (0.25 if most < same else -0.25) / most, most)

    found = keep_apart(bounds, Merged(0.0, 1.0, 0), budget, width)
    assert asked == kept
    last = kept[-1]
    assert found == Merged(0.5 - 0.25 / last, 0.5 + (0.25 if last < same else -0.25) / last, last)
    assert found.text.endswith(f"at most {last} kept apart")


@pytest.mark.parametrize(("limit", "kept"), [(40.5, [2]), (41.0, [2, 4]), (100.0, [2, 4, 8])])
def test_twice_as_many_must_fit_three_times_the_time(limit: float, kept: list[int], monkeypatch: pytest.MonkeyPatch):
    """The clock stands at 5 at first, and each turn takes 9 seconds: after the first, at 14, there must be 27 left."""
    monkeypatch.setattr(module, "_FIRST_MOST", 2)
    monkeypatch.setattr(module, "_LARGEST_MOST", 8)
    now, asked, budget = [0.0], [], Budget(time_limit=limit)
    object.__setattr__(budget, "clock", Clock(limit, now=lambda: now[0]))
    now[0] = 5.0

    def bounds(most: int) -> Merged:
        asked.append(most)
        now[0] += 9.0
        return Merged(0.0, 1.0, most)

    keep_apart(bounds, Merged(0.0, 1.0, 0), budget, 0.0)
    assert asked == kept


@pytest.mark.parametrize("error", [OutOfTime(Stop.TIME_LIMIT), veil.TooLargeError("a step does not fit")])
def test_what_was_known_stays_where_nothing_ends(error: Exception):
    def bounds(most: int) -> Merged:
        raise error

    known = Merged(0.25, 1.5, 3)
    assert keep_apart(bounds, known, Budget(), 0.0) == known
    assert known.width == 1.25


def check_bounds(seed: int, most: int) -> float:
    """The bounds hold what all runs give, for the opacity and for the entropy of the path; their width."""
    problem, group, policy, runs = random_case(seed)
    found = veil.opacity(problem, policy, "bracket", width=0.0)
    assert found.method == "bracket"
    assert found.lower <= hidden_bits(runs, group) <= found.upper
    assert found.bits == found.lower
    chain = make_chain(problem, policy, paths=True)
    alone = show_path(chain.hidden, alone=True).chain(chain)
    law = event_bounds(alone, most, Budget())
    shown = entropy(merged(runs, lambda path, _: path if group is None else tuple(group[list(path)])))
    assert law.lower - 1e-12 <= shown <= law.upper + 1e-12
    return found.width


@pytest.mark.parametrize("block", range(5))
def test_bounds_of_a_path_hold_what_all_runs_give(block: int, monkeypatch: pytest.MonkeyPatch):
    """However few histories are kept apart; where all are, the bounds meet."""
    for seed in range(20 * block, 20 * block + 20):
        assert check_bounds(seed, 512) < 1e-10
    monkeypatch.setattr(module, "_FIRST_MOST", 2)
    monkeypatch.setattr(module, "_LARGEST_MOST", 2)
    widths = [check_bounds(seed, 2) for seed in range(20 * block, 20 * block + 20)]
    assert max(widths) > 1e-4


@pytest.mark.slow
def test_bounds_of_many_paths(monkeypatch: pytest.MonkeyPatch):
    """The same for 1,000 problems."""
    monkeypatch.setattr(module, "_FIRST_MOST", 1)
    monkeypatch.setattr(module, "_LARGEST_MOST", 4)
    for seed in range(1000, 2000):
        check_bounds(seed, 3)


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


def test_bounds_that_do_not_close_stand_beside_a_sample(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_FIRST_MOST", 8)
    monkeypatch.setattr(module, "_LARGEST_MOST", 8)
    problem = veil.gallery.load("paper-false-alarms").replace(secret=veil.Trajectory())
    policy = veil.MarkovPolicy.uniform(problem)
    found = veil.opacity(problem, policy, sequences=2000)
    assert found.method == "sampled"
    assert found.lower < 16.6323 < found.upper < found.prior_bits
    assert f"kept as lower and upper, are {found.width:.2g} bits apart" in found.reason
    near = veil.opacity(problem, policy, sequences=2)  # whose error is larger than the bounds are wide
    assert (near.method, near.lower, near.upper) == ("bracket", found.lower, found.upper)


def test_a_step_that_does_not_fit_the_memory_is_not_taken():
    problem = veil.gallery.load("paper-false-alarms", horizon=30).replace(secret=veil.Trajectory())
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem), paths=True)
    small = Budget(memory_bytes=2**20)
    with pytest.raises(veil.TooLargeError, match="entries, which do not fit the memory"):
        event_bounds(chain, 512, small)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "bracket", memory_bytes=2**20)
    assert found.lower == 0.0
    assert found.prior_bits < found.upper < found.prior_bits + 1e-9


def test_nothing_is_merged_before_there_is_need():
    """After the last event nothing is merged, so that two events are exact; and the rows that were met are counted."""
    problem = veil.gallery.load("paper-last-state", horizon=1).replace(secret=veil.Trajectory())
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem), paths=True)
    assert event_bounds(chain, 1, Budget()).width == 0.0
    longer = make_chain(problem.replace(horizon=6), veil.MarkovPolicy.uniform(problem), paths=True)
    few, all_ = (event_bounds(longer, most, Budget()) for most in (2, 10**6))
    first = num_columns(longer.hidden.first)
    assert first <= few.rows < all_.rows
    assert few.lower < all_.lower <= all_.upper < few.upper
    assert all_.width < 1e-12


@pytest.mark.parametrize("ahead", [False, True])
def test_an_expired_clock_leaves_what_is_known(ahead: bool, monkeypatch: pytest.MonkeyPatch):
    """Where the time is over, and where the next step is forecast to take longer than what is left."""
    problem = veil.gallery.load("paper-last-state").replace(secret=veil.Trajectory())
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem), paths=True)
    now, budget = [0.0], Budget(time_limit=1.0)
    object.__setattr__(budget, "clock", Clock(1.0, now=lambda: now[0]))
    if ahead:
        monkeypatch.setattr("veil.measure.event_bounds._ENTRY_SECONDS", 1.0)
    else:
        now[0] = 2.0
    with pytest.raises(OutOfTime):
        event_bounds(chain, 512, budget)


def test_the_law_of_a_path_that_is_not_enumerated_is_bounded(monkeypatch: pytest.MonkeyPatch):
    """Groups of rooms: the path alone does not tell the state."""
    problem = veil.gallery.load("paper-last-state", horizon=6)
    halves = {"west": list(range(18)), "east": list(range(18, 36))}
    problem = problem.replace(secret=veil.Trajectory(halves))
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem), paths=True)
    exact = path_bits(chain, Budget())

    def too_large(*_: object, **__: object) -> None:
        raise veil.TooLargeError("too large")

    monkeypatch.setattr("veil.measure.trajectory.shown_entropy", too_large)
    assert exact - 1e-9 <= path_bits(chain, Budget()) <= exact + 1e-3
    monkeypatch.setattr("veil.measure.trajectory.event_bounds", too_large)
    assert path_bits(chain, Budget()) == 7.0


def test_what_is_merged_first():
    """The tolerance follows the mass: rare histories that differ are merged before common ones that differ less."""
    beliefs = np.array([[0.50, 0.50], [0.52, 0.48], [0.2, 0.8], [0.4, 0.6]])
    mass = np.array([0.5, 0.45, 0.00001, 0.000012])
    row, state = np.divmod(np.arange(8), 2)
    cluster = merge_beliefs(np.zeros(4, dtype=np.int64), row, state, (mass[:, None] * beliefs).ravel(), 3)
    assert cluster[2] == cluster[3]
    assert len(np.unique(cluster)) == 3
    apart = merge_beliefs(np.arange(4), row, state, (mass[:, None] * beliefs).ravel(), 1)
    assert len(np.unique(apart)) == 4  # other groups are never merged
