"""Brackets: proven bounds at any horizon."""

import math

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases, total_of
from tests.marks import chequered
from tests.random_problems import Case
from tests.seeds import in_blocks
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import JointWalk
from veil.engine.window import Cut, Window
from veil.measure.bracket import deepen, end_gradient
from veil.measure.exact import Budget
from veil.measure.ladder import Settings, measure
from veil.measure.question import SecretValue
from veil.policy.tables import softmax_pull_back

KINDS = ("last", "initial", "at", "automaton")
NO_LIMIT = Budget(time_limit=math.inf)


def end(chain: Chain, radius: int, reveal: bool) -> tuple[float, np.ndarray]:
    return end_gradient(chain, radius=radius, reveal=reveal, memory_bytes=NO_LIMIT.memory_bytes)


def end_value(chain: Chain, radius: int, reveal: bool) -> float:
    """The same without its slope, which is quicker."""
    return total_of(JointWalk(Cut(chain, Window.around(chain, radius), reveal=reveal).chain))


def ends(chain: Chain, radius: int) -> tuple[float, float]:
    return end_value(chain, radius, True), end_value(chain, radius, False)


@pytest.mark.parametrize("width", [1e-1, 1e-2, 1e-6])
def test_the_width_asked_for_is_reached_and_the_work_stops_there(width: float):
    early = 0
    for case in small_cases(15, "last"):
        chain = chain_of(case)
        exact = total_of(JointWalk(chain))
        seen = list(deepen(chain, NO_LIMIT, width=width))
        found = measure(chain, Settings("bracket", NO_LIMIT, width)).opacity
        assert found.method == "bracket"
        assert found.bits == found.lower
        assert found.lower <= exact <= found.upper
        assert found.upper - found.lower <= width
        assert found.prior_bits == pytest.approx(SecretValue(chain).exact(NO_LIMIT).opacity.prior_bits, abs=1e-15)
        assert all(bounds.width > width for bounds in seen[1:-1])
        assert (seen[-1].lower, seen[-1].upper) == (found.lower, found.upper)
        early += len(seen) < case.spec.horizon + 3
    assert early > 1


def test_a_mixing_chain_is_bracketed_at_a_horizon_that_no_tree_reaches():
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.full(3, 5.0), size=(3, 2)), np.zeros((3, 2)), 0)
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    widths = {}
    for horizon in (12, 500):
        problem = veil.Problem(model, observer, veil.LastState({0}), horizon)
        chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
        widths[horizon] = [bounds.width for bounds in deepen(chain, Budget(), width=1e-6)]
        assert widths[horizon][-1] <= 1e-6
    # Late in a long run the start no longer matters: the same windows serve both horizons.
    np.testing.assert_allclose(widths[500][1:], widths[12][1 : len(widths[500])], rtol=0.1, atol=1e-6)
    assert len(widths[500]) < 13


# The cycle that ergodicity alone does not help


def cycle(horizon: int, initial) -> veil.Problem:
    """Four states in a ring; each step stays or advances, with probability 1/2; the observer sees the parity."""
    transitions = np.zeros((4, 1, 4))
    for state in range(4):
        transitions[state, 0, [state, (state + 1) % 4]] = 0.5
    model = veil.Model(transitions, np.zeros((4, 1)), initial)
    return veil.Problem(model, veil.Observer(np.eye(2)[[0, 1, 0, 1]]), veil.LastState({0}), horizon)


def test_a_cycle_seen_through_its_parity_keeps_half_a_bit():
    problem = cycle(12, np.full(4, 0.25))
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    for radius in range(13):
        assert ends(chain, radius) == pytest.approx((0, 0.5), abs=1e-14)
    assert ends(chain, 13) == pytest.approx((0.5, 0.5), abs=1e-14)


def test_a_cycle_from_a_known_start_keeps_half_a_bit_until_the_window_is_whole():
    """Who saw the start can follow it and knows everything, but no window that leaves the start out can tell."""
    problem = cycle(60, 0)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    for radius in (1, 4, 8):
        assert ends(chain, radius) == pytest.approx((0, 0.5), abs=1e-6)
    short = make_chain(cycle(8, 0), veil.MarkovPolicy(np.ones((4, 1))))
    lower, upper = ends(short, 6)
    assert lower == pytest.approx(0, abs=1e-14)
    assert upper > 0.2
    assert ends(short, 9) == pytest.approx((0, 0), abs=1e-14)


# Within a budget


def noisy(seed: int, secret: veil.LastState | veil.InitialState | veil.StateAt) -> veil.Problem:
    """Six states and four observations, nothing impossible: millions of sequences."""
    rng = np.random.default_rng(seed)
    model = veil.Model(rng.dirichlet(np.full(6, 0.3), size=(6, 2)), np.zeros((6, 2)), np.full(6, 1 / 6))
    return veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(4), size=6)), secret, 9)


@pytest.mark.parametrize(
    "secret", [veil.LastState({0}), veil.InitialState({"low": [0, 1, 2], "high": [3, 4, 5]}), veil.StateAt(5, {0})]
)
@in_blocks(1, 3)
def test_whatever_the_time_allows_holds_the_exact_value(secret, seed: int):
    """Few windows, many, and such as merge histories or leave rare ones out: the time decides, the bounds hold."""
    problem = noisy(seed, secret)
    policy = veil.MarkovPolicy.uniform(problem)
    exact = veil.opacity(problem, policy, "exact", time_limit=100).bits
    widths = []
    for limit in (1e-9, 0.02, 0.1, 0.5):
        found = veil.opacity(problem, policy, "bracket", width=0.0, time_limit=limit)
        assert found.lower <= exact <= found.upper, (limit, found.reason)
        widths.append(found.width)
    assert widths[-1] < widths[0]


def test_five_to_the_eleven_sequences_are_bracketed():
    problem = veil.gallery.load("paper-false-alarms")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    found = measure(chain, Settings("bracket", Budget(), 0.05)).opacity
    assert found.upper - found.lower <= 0.05
    assert 0 < found.lower < found.upper < found.prior_bits
    assert "windows of" in found.reason


# Slopes


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize(("kind", "reveal"), chequered(KINDS, [True, False]))
def test_the_slope_of_either_end_is_that_of_central_differences(kind: str, reveal: bool, timed: bool):
    steep, rng = 0, np.random.default_rng(0)
    for case in small_cases(4, kind, work=500, timed=timed):
        theta = rng.normal(size=case.policy.probabilities.shape)
        for radius in range(case.spec.horizon + 2):

            def value(parameters: np.ndarray, case: Case = case, radius: int = radius) -> float:
                chain = make_chain(case.problem, type(case.policy).softmax(parameters, case.problem))
                return end_value(chain, radius, reveal)

            policy = type(case.policy).softmax(theta, case.problem)
            level, directions = value(theta), rng.normal(size=(2, *theta.shape))
            rises = [(value(theta + 1e-5 * d) - value(theta - 1e-5 * d)) / 2e-5 for d in directions]
            for chain in (make_chain(case.problem, policy), on_sparse_kernel(make_chain(case.problem, policy))):
                bits, slope = end(chain, radius, reveal)
                assert bits == pytest.approx(level, abs=1e-13)
                gradient = softmax_pull_back(policy.table, slope).reshape(theta.shape)
                for direction, rise in zip(directions, rises, strict=True):
                    assert np.sum(gradient * direction) == pytest.approx(rise, abs=1e-7)
            steep += np.abs(gradient).max(initial=0) > 1e-4
    assert steep >= 2


@pytest.mark.parametrize("width", [0.0, 0.05])
def test_a_bracket_comes_with_the_slope_of_its_lower_end(width: float):
    for case in small_cases(10):
        chain = chain_of(case)
        *_, last = deepen(chain, NO_LIMIT, width=width)
        plain = measure(chain, Settings("bracket", NO_LIMIT, width)).opacity
        found, slope = measure(chain, Settings("bracket", NO_LIMIT, width), gradient=True)
        assert (found.lower, found.upper, found.method) == (plain.lower, plain.upper, "bracket")
        np.testing.assert_array_equal(slope, end(chain, last.radius, True)[1])
