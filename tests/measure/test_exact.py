"""Exact values: what is refused before the work starts, budgets, and the smallest problems."""

import math
import re

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, small_cases
from tests.random_problems import KINDS
from veil.engine.chain import make_chain
from veil.engine.joint import JointWalk
from veil.engine.size import TreeSize
from veil.measure import exact
from veil.measure.exact import Budget, EntropyObjective, exact_gradient, exact_opacity, prepare


def false_alarms(horizon: int = 10, secret=None) -> tuple[veil.Problem, veil.MarkovPolicy]:
    problem = veil.gallery.load("paper-false-alarms", horizon=horizon)
    if secret is not None:
        problem = problem.replace(secret=secret)
    return problem, veil.MarkovPolicy.uniform(problem)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any walk over a tree is a failure."""

    def forbidden(*_, **__):
        raise AssertionError("the work has started")

    monkeypatch.setattr(JointWalk, "run", forbidden)


# Refusals


@pytest.mark.usefixtures("no_work")
def test_too_large_a_tree_is_refused_before_the_work_starts():
    problem, policy = false_alarms()
    with pytest.raises(veil.TooLargeError) as caught:
        veil.opacity(problem, policy, method="exact", time_limit=1.0)
    message = str(caught.value)
    assert "48,828,125 observation sequences" in message
    assert "36 hidden states and 10 steps" in message
    assert "the budget is 1 s" in message
    for remedy in ("method='bracket'", "method='sampled'", "method='auto'", "merge_tolerance=", "a shorter horizon",
                   "time_limit="):  # fmt: skip
        assert remedy in message
    with pytest.raises(veil.TooLargeError, match="48,828,125"):
        veil.opacity_gradient(problem, np.zeros((36, 5)), method="exact", time_limit=1.0)


def test_the_remedies_that_the_message_names_are_accepted():
    problem, policy = false_alarms(horizon=6)
    with pytest.raises(veil.TooLargeError) as caught:
        veil.opacity(problem, policy, method="exact", time_limit=1e-4)
    named = re.findall(r"method='(\w+)'", str(caught.value))
    assert sorted(named) == ["auto", "bracket", "sampled"]
    for method in named:
        found = veil.opacity(problem, policy, method=method)
        assert found.method in ("exact", "bracket", "sampled")
    tolerance = float(re.findall(r"merge_tolerance=([\d.e-]+)", str(caught.value))[0])
    assert veil.opacity(problem, policy, method="exact", merge_tolerance=tolerance, time_limit=100).bits > 0


@pytest.mark.usefixtures("no_work")
def test_the_time_of_a_long_wait_is_said_in_words():
    for horizon, words in ((10, r"about \d+ s"), (14, r"about \d+\.\d h"), (24, r"about \S+ years")):
        problem, policy = false_alarms(horizon)
        with pytest.raises(veil.TooLargeError, match=words):
            exact_opacity(make_chain(problem, policy), Budget(time_limit=1.0))


@pytest.mark.usefixtures("no_work")
def test_a_count_that_is_only_a_bound_is_said_to_be_one():
    problem, policy = false_alarms(horizon=60)
    with pytest.raises(veil.TooLargeError, match=r"needs more than .* observation sequences"):
        veil.opacity(problem, policy, method="exact")


@pytest.mark.usefixtures("no_work")
def test_too_much_memory_is_refused_with_the_memory_as_remedy():
    """A secret in the middle: the enumerated side of the split has to be kept."""
    problem, policy = false_alarms(12, veil.StateAt(6, {0, 1}))
    with pytest.raises(veil.TooLargeError, match=r"[GM]iB where the budget is .* memory_bytes="):
        veil.opacity(problem, policy, method="exact", memory_bytes=2**20, time_limit=math.inf)


def test_little_memory_is_said_in_numbers_that_mean_something():
    problem, policy = false_alarms(12, veil.StateAt(6, {0, 1}))
    with pytest.raises(veil.TooLargeError) as caught:
        veil.opacity(problem, policy, method="exact", memory_bytes=2**20, time_limit=math.inf)
    assert "0.0 GiB" not in str(caught.value)


@pytest.mark.usefixtures("no_work")
def test_a_table_with_its_sequences_needs_more_memory_than_a_sum():
    problem, policy = false_alarms()
    chain = make_chain(problem, policy)
    prepare(chain, Budget(time_limit=1e4), gradient=False)
    with pytest.raises(veil.TooLargeError, match="GiB"):
        prepare(chain, Budget(time_limit=1e4), gradient=False, keep_events=True)


@pytest.mark.usefixtures("no_work")
def test_a_gradient_needs_more_time_than_a_value():
    problem, policy = false_alarms()
    chain = make_chain(problem, policy)
    size = exact.tree_size(chain)
    seconds = size.seconds(chain, gradient=False)
    prepare(chain, Budget(time_limit=seconds * 1.01), gradient=False)
    with pytest.raises(veil.TooLargeError):
        prepare(chain, Budget(time_limit=seconds * 0.99), gradient=False)
    with pytest.raises(veil.TooLargeError):
        prepare(chain, Budget(time_limit=seconds * 1.01), gradient=True)


def test_small_trees_are_not_even_counted(monkeypatch: pytest.MonkeyPatch):
    def forbidden(*_):
        raise AssertionError("counted")

    monkeypatch.setattr(exact, "tree_size", forbidden)
    problem = veil.gallery.load("two-rooms")
    assert veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact").num_sequences == 2
    large, policy = false_alarms()
    with pytest.raises(AssertionError, match="counted"):
        veil.opacity(large, policy, method="exact")


def test_a_forecast_that_was_wrong_is_stopped(monkeypatch: pytest.MonkeyPatch):
    """The tree is forecast to take no time at all; three times the limit later it is given up."""
    monkeypatch.setattr(exact.TreeSize, "seconds", lambda *_, **__: 0.0)
    problem, policy = false_alarms()
    with pytest.raises(veil.TooLargeError, match="outgrew its time limit"):
        veil.opacity(problem, policy, method="exact", time_limit=0.01)


# Budgets


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"memory_bytes": 2**20 - 1}, "memory_bytes is 1048575, expected at least"),
        ({"memory_bytes": -1}, "memory_bytes is -1"),
        ({"memory_bytes": math.nan}, "memory_bytes is nan"),
        ({"memory_bytes": "2 GiB"}, "memory_bytes is '2 GiB'"),
        ({"time_limit": 0}, "time_limit is 0, expected seconds above 0"),
        ({"time_limit": -3.0}, "time_limit is -3.0"),
        ({"time_limit": math.nan}, "time_limit is nan"),
        ({"time_limit": "1 h"}, "time_limit is '1 h'"),
        ({"merge_tolerance": -1e-9}, "merge_tolerance is -1e-09, expected a number in"),
        ({"merge_tolerance": 1.0}, "merge_tolerance is 1.0"),
        ({"merge_tolerance": math.nan}, "merge_tolerance is nan"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(options: dict, expected: str):
    with pytest.raises(veil.InputError, match=re.escape(expected)):
        Budget(**options)
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=re.escape(expected)):
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", **options)


def test_every_defect_of_a_budget_is_named_at_once():
    with pytest.raises(veil.InputError) as caught:
        Budget(memory_bytes=1, time_limit=-1.0, merge_tolerance=2.0)
    assert len(caught.value.defects) == 3


def test_a_budget_without_limits_is_good():
    assert Budget(time_limit=math.inf).time_limit == math.inf
    problem = veil.gallery.load("two-rooms")
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", time_limit=math.inf)
    assert found.bits == pytest.approx(5 / 8 * math.log2(5) - 1, abs=1e-15)


# Values


def test_an_exact_value_says_that_it_is_one():
    for case in small_cases(20):
        found = exact_opacity(chain_of(case), Budget(), reason="because")
        assert found.method == "exact"
        assert found.lower == found.bits == found.upper
        assert found.std_error == 0
        assert found.reason == "because"
        assert 0 <= found.bits <= found.prior_bits + 1e-12


def test_the_gradient_comes_with_the_same_value():
    for case in small_cases(20):
        chain = chain_of(case)
        found, slope = exact_gradient(chain, Budget())
        assert found.bits == pytest.approx(exact_opacity(chain, Budget()).bits, abs=1e-14)
        assert slope.shape == chain.table.shape


def test_a_counted_tree_gives_what_an_uncounted_one_gives(monkeypatch: pytest.MonkeyPatch):
    chains = [chain_of(case) for kind in KINDS for case in small_cases(8, kind)]
    plain = [exact_gradient(chain, Budget()) for chain in chains]
    monkeypatch.setattr(exact, "_SMALL", -1)
    for chain, (value, slope) in zip(chains, plain, strict=True):
        counted, counted_slope = exact_gradient(chain, Budget())
        assert counted.bits == pytest.approx(value.bits, abs=1e-13)
        assert counted.num_sequences == value.num_sequences
        np.testing.assert_allclose(counted_slope, slope, atol=1e-13)


def test_the_objective_adds_up_over_blocks():
    joint = np.array([[0.5, 0.125], [0.0, 0.375]])
    whole, parts = EntropyObjective(), EntropyObjective()
    slope = whole(joint, lambda rows: rows)
    for row in joint:
        parts(row[None], lambda rows: rows)
    assert parts.bits == pytest.approx(whole.bits, abs=1e-15)
    np.testing.assert_allclose(slope, [[math.log2(1.25), math.log2(5)], [0, 0]], atol=1e-15)


# No decisions at all


@pytest.mark.parametrize("sees_initial", [True, False])
@pytest.mark.parametrize(
    ("secret", "prior"),
    [(veil.LastState({0}), 1.0), (veil.StateAt(0, {1, 2}), 1.0), (veil.InitialState(), 1.5)],
)
def test_no_decisions(secret, prior: float, sees_initial: bool):
    """Starts 1/2, 1/4, 1/4; state 1 shows itself, states 0 and 2 look alike: 3/4 · h(1/3) bits are left."""
    model = veil.Model(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), [0.5, 0.25, 0.25])
    observer = veil.Observer([[1, 0], [0, 1], [1, 0]], sees_initial=sees_initial)
    problem = veil.Problem(model, observer, secret, horizon=0)
    expected = 0.75 * math.log2(3) - 0.5 if sees_initial else prior
    for policy in (veil.MarkovPolicy.uniform(problem), veil.TimedPolicy(np.zeros((0, 3, 2)))):
        found = veil.opacity(problem, policy, method="exact")
        assert found.bits == pytest.approx(expected, abs=1e-15)
        assert found.prior_bits == pytest.approx(prior, abs=1e-15)
        assert found.num_sequences == (2 if sees_initial else 1)
        assert veil.expected_return(problem, policy) == 0
    for theta in (np.zeros((3, 2)), np.zeros((0, 3, 2))):
        value, gradient = veil.opacity_gradient(problem, theta)
        assert value.bits == pytest.approx(expected, abs=1e-15)
        assert gradient.shape == theta.shape
        assert not gradient.any()


# A long horizon


def forgetful(horizon: int) -> veil.Problem:
    """Everything is forgotten at each step and seen at each step: one belief a time, 3^(T+1) sequences."""
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), np.full(3, 1 / 3))
    return veil.Problem(model, veil.Observer(np.eye(3)), veil.LastState({0}), horizon)


def test_merging_reaches_a_horizon_of_hundreds():
    problem = forgetful(500)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", merge_tolerance=1e-9)
    assert found.bits == 0
    assert found.num_sequences == pytest.approx(3**501, rel=1e-9)


def test_merging_reaches_a_horizon_of_thousands():
    problem = forgetful(2_000)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", merge_tolerance=1e-9)
    assert found.bits == 0
    assert found.prior_bits == pytest.approx(0.9182958340544896, abs=1e-12)


# Words and limits of a refusal


def test_sizes_and_times_in_words():
    assert exact._bytes(2**29) == "0.5 GiB"
    assert exact._bytes(2**29 - 2**20) == "511.0 MiB"
    assert exact._bytes(3 * 2**29) == "1.5 GiB"
    assert exact._duration(599.4) == "599 s"
    assert exact._duration(600) == "0.2 h"
    assert exact._duration(5400) == "1.5 h"
    assert exact._duration(1e6) == "0.032 years"
    assert exact._duration(31_557_600 * 120) == "1.2e+02 years"


def test_a_tree_that_just_fits_is_not_refused():
    chain = chain_of(next(iter(small_cases(1, "last", work=1_000))))
    hidden = chain.hidden
    size = TreeSize(1000.0, True, 0, "prefixes", rows=10.0, kept_rows=2.0**20)
    kept = 3 * 8 * hidden.num_states * 2**20
    events = 2 * 1000 * (8 * hidden.num_values + 4 * (hidden.horizon + 1))
    seconds = size.seconds(chain, gradient=False)
    exact.refuse_if_too_large(chain, size, Budget(kept, seconds))
    exact.refuse_if_too_large(chain, size, Budget(kept + events, seconds), keep_events=True)
    exact.refuse_if_too_large(chain, size, Budget(2**20, seconds / 2, merge_tolerance=1e-9))
    exact.refuse_if_too_large(chain, size, Budget(kept, 3 * seconds), gradient=True)
    with pytest.raises(veil.TooLargeError, match="memory_bytes=… to allow more"):
        exact.refuse_if_too_large(chain, size, Budget(kept - 1, seconds))
    with pytest.raises(veil.TooLargeError, match="memory_bytes=… to allow more"):
        exact.refuse_if_too_large(chain, size, Budget(kept + events - 1, seconds), keep_events=True)
    with pytest.raises(veil.TooLargeError, match="time_limit=… to allow more"):
        exact.refuse_if_too_large(chain, size, Budget(kept, seconds * 0.999))
    with pytest.raises(veil.TooLargeError, match="1,000 observation sequences over"):
        exact.refuse_if_too_large(chain, size, Budget(kept, 2.99 * seconds), gradient=True)


def test_a_budget_takes_its_limits_themselves():
    assert Budget(2**20, merge_tolerance=0.0).memory_bytes == 2**20
    assert Budget().time_limit == 300
    assert Budget().memory_bytes == 2**31
    half = Budget(time_limit=1e9).share(0.5)
    assert half.time_limit == pytest.approx(5e8, rel=1e-3)
    assert half.clock.time_limit == half.time_limit
