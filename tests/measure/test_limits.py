"""Time limits hold: every loop looks at the clock. A clock that counts its checks stands in for time."""

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

import veil
from veil.common.clock import Clock, OutOfTime
from veil.engine.chain import Chain, make_chain
from veil.engine.size import tree_size
from veil.measure import exact
from veil.measure.bracket import bracket_opacity
from veil.measure.exact import Budget, exact_gradient, exact_opacity
from veil.measure.sampled import sampled_gradient, sampled_opacity


class Ticks:
    """A time source on which each look takes a second, so that `seconds` of it are as many checks."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Budgets count looks at their clock instead of seconds."""
    source = Ticks()
    monkeypatch.setattr(exact, "Clock", lambda seconds: Clock(seconds, now=source))
    return source


def noisy(horizon: int, states: int = 6) -> Chain:
    """A chain on which every history is possible."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(states), size=(states, 2)), np.zeros((states, 2)), 0)
    observer = veil.Observer(rng.dirichlet(np.ones(3), size=states))
    problem = veil.Problem(model, observer, veil.LastState({0}), horizon)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


WORK: dict[str, Callable[[Chain, Budget], object]] = {
    "exact": exact_opacity,
    "exact gradient": exact_gradient,
    "bracket": lambda chain, budget: bracket_opacity(chain, budget, width=0.0),
    "sampled": lambda chain, budget: sampled_opacity(chain, sequences=10**6, clock=budget.clock),
    "sampled gradient": lambda chain, budget: sampled_gradient(
        chain, sequences=10**6, clock=budget.clock, partial=True
    ),
}


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("limit", [3, 30, 300])
def test_work_ends_within_a_few_looks_of_its_limit(name: str, limit: int, ticks: Ticks):
    """Whoever looks after the deadline ends: only handing a result back may look again."""
    budget = Budget(time_limit=float(limit))
    with contextlib.suppress(veil.TooLargeError):
        WORK[name](noisy(40), budget)
    assert limit <= ticks.looks <= limit + 25


@pytest.mark.parametrize("name", WORK)
def test_a_limit_that_has_passed_is_noticed_before_the_work(name: str, ticks: Ticks):
    budget = Budget(time_limit=1e-6)
    ticks.looks = 100
    with contextlib.suppress(veil.TooLargeError):
        WORK[name](noisy(40), budget)
    assert ticks.looks <= 125


def test_counting_sequences_looks_at_the_clock_for_every_event_of_every_step():
    ticks = Ticks()
    chain = noisy(9)
    tree_size(chain, Clock(now=ticks))
    assert ticks.looks >= 2 * 9 * 3
    with pytest.raises(OutOfTime):
        tree_size(noisy(9), Clock(5.0, now=Ticks()))


def test_a_count_that_ran_out_of_time_is_made_again():
    chain = noisy(8)
    with pytest.raises(OutOfTime):
        tree_size(chain, Clock(2.0, now=Ticks()))
    assert tree_size(chain).num_sequences == 3**9


def test_a_sample_that_ran_out_of_time_says_how_far_it_came(ticks: Ticks):
    budget = Budget(time_limit=200.0)
    found = sampled_opacity(noisy(5), sequences=10**6, clock=budget.clock)
    assert 2 <= found.num_sequences < 10**6
    assert f"{found.num_sequences:,} sequences instead of 1,000,000" in found.reason


def test_a_gradient_of_fewer_sequences_is_weighted_by_their_number(ticks: Ticks):
    """On one possible sequence a draw knows all: any number of them gives the gradient of all."""
    model = veil.Model(np.array([[[0.75, 0.25], [0.25, 0.75]]] * 2), np.zeros((2, 2)), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({0}), 4)
    chain = make_chain(problem, veil.MarkovPolicy(np.full((2, 2), [0.75, 0.25])))
    whole, slope = sampled_gradient(chain, sequences=50_000)
    budget = Budget(time_limit=40.0)
    part, found = sampled_gradient(chain, sequences=50_000, clock=budget.clock, partial=True)
    assert part.num_sequences < whole.num_sequences
    assert np.abs(slope).max() > 0.1
    np.testing.assert_allclose(found, slope, rtol=1e-12)


def test_a_gradient_that_must_be_whole_is_not_given_in_part(ticks: Ticks):
    with pytest.raises(OutOfTime):
        sampled_gradient(noisy(5), sequences=10**6, clock=Budget(time_limit=40.0).clock)


def test_the_limit_covers_all_trees_of_one_call(ticks: Ticks):
    """Bits over time walk one tree for each time, within one limit."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(4), size=(4, 1)), np.zeros((4, 1)), 0)
    problem = veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(3), size=4)), veil.LastState({0}), 7)
    with pytest.raises(veil.TooLargeError):
        veil.measures.bits_over_time(problem, veil.MarkovPolicy.uniform(problem), time_limit=60.0)
    assert ticks.looks <= 85
