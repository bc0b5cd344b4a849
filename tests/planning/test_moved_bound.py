"""A bound that a curve moves: its names, the freest and the strictest of it, and what is measured of a solution."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn
from tests.problem.test_constraints import make_problem
from veil.common.clock import UNLIMITED, Clock
from veil.engine.feasibility import further_targets, return_target, strictest_bound
from veil.measure.constrained import constraint_values
from veil.planning import moved_bound
from veil.planning.moved_bound import MovedBound
from veil.planning.policy_class import make_space
from veil.planning.starts import richest_table
from veil.problem.return_rounding import return_rounding

LIMITED = make_problem([veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")], 3)


@pytest.mark.parametrize(("number", "along"), [(0, "energy"), (1, "G !s2")])
def test_the_freest_bound_lies_beyond_what_any_policy_reaches(number: int, along: str):
    moved = MovedBound.named(LIMITED, along)
    target = further_targets(LIMITED)[number]
    reach = target.range.smallest if target.sign > 0 else target.range.largest
    assert moved.sign == target.sign == (-1 if number == 0 else 1)
    assert further_targets(moved.free)[number].bound == pytest.approx(reach - target.sign * target.unit)
    assert moved.text == ("energy ≤" if number == 0 else "P(G !s2) ≥")
    assert moved.names == ({"energy", "energy ≤"} if number == 0 else {"P(G !s2)", "P(G !s2) ≥", "G !s2"})
    assert moved.at(0.25).further[number].bound == pytest.approx(0.25)
    assert moved.at(0.25).further[1 - number].bound == LIMITED.further[1 - number].bound


def test_what_is_measured_is_the_quantity_and_the_price_of_its_bound():
    space = make_space(LIMITED, "timed")
    policy = space.policy(drawn(space, 1)[0])
    solution = veil.solve(LIMITED, memory="timed", starts=1, iterations=0, certificate=False, progress=False)
    solution = replace(solution, policy=policy, further_prices=(0.25, 0.75), price_bits=0.5, expected_return=1.25)
    for number, along in enumerate(("energy", "G !s2")):
        moved = MovedBound.named(LIMITED, along)
        wanted = constraint_values(LIMITED, policy)[-2:][number].value
        assert moved.measured(solution) == (pytest.approx(wanted), (0.25, 0.75)[number])
        assert np.isnan(moved.measured(replace(solution, further_prices=()))[1])
    assert MovedBound(LIMITED).measured(solution) == (1.25, 0.5)


def test_the_strictest_return_is_the_largest_less_its_rounding():
    plain = make_problem([], 3).replace(min_return=None)
    moved = MovedBound(plain)
    for memory in ("markov", "timed"):
        space = make_space(plain, memory)
        bound, policy = moved.strictest(space, UNLIMITED)
        best = veil.expected_return(plain, space.policy(richest_table(space)))
        assert policy is None
        assert bound == pytest.approx(best - return_rounding(plain), abs=1e-13)
        assert bound < best


def test_the_strictest_return_under_constraints_is_that_of_all_policies_where_the_class_has_all(
    monkeypatch: pytest.MonkeyPatch,
):
    moved = MovedBound(LIMITED.replace(constraints=[veil.Return(max="40%", reward="energy")]))
    free = moved.free
    bound, policy = moved.strictest(make_space(free, "timed"), UNLIMITED)
    assert policy is None
    assert bound == strictest_bound(free, return_target(free, 0.0), further_targets(free))
    assert bound < moved._largest_return(make_space(free, "timed"))
    monkeypatch.setattr(moved_bound, "strictest_bound", lambda *_: 99.0)
    space = make_space(free, "timed")
    assert moved.strictest(space, UNLIMITED)[0] == moved._largest_return(space)


@pytest.mark.parametrize(("value", "sign", "bound", "wanted"), [
    (0.5, 1.0, 0.9, 0.5 - 1e-9), (0.5, 1.0, 0.25, 0.25), (100.0, 1.0, 900.0, 100.0 - 1e-7), (-0.5, -1.0, 0.1, 0.5 + 1e-9),
    (-0.5, -1.0, 0.75, 0.75), (-200.0, -1.0, 1.0, 200.0 + 2e-7),
])  # fmt: skip
def test_the_strictest_bound_of_a_class_leaves_a_margin(monkeypatch: pytest.MonkeyPatch, value, sign, bound, wanted):
    """Of what a search has found a thousand-millionth, and of the bound of all policies nothing."""
    along = "G !s2" if sign > 0 else "energy"
    moved, policy = MovedBound.named(LIMITED, along), veil.MarkovPolicy.uniform(LIMITED)
    monkeypatch.setattr(moved_bound, "strictest_bound", lambda *_: bound)
    monkeypatch.setattr(moved_bound, "_largest", lambda *_: (value, policy))
    found = moved.strictest(make_space(LIMITED, "markov"), UNLIMITED)
    assert found == (pytest.approx(wanted, rel=1e-15), policy)
    monkeypatch.setattr(moved_bound, "_largest", lambda *_: None)
    assert moved.strictest(make_space(LIMITED, "markov"), UNLIMITED) == (bound, None)


def test_without_time_no_policy_is_searched_for():
    energy = LIMITED.replace(constraints=[veil.Return(max="40%", reward="energy")])
    moved = MovedBound.named(energy, "energy")
    assert moved.strictest(make_space(energy, "markov"), Clock(0.0))[1] is None


def test_an_agent_who_does_not_know_the_hidden_state_is_searched_with_a_clock_too(monkeypatch: pytest.MonkeyPatch):
    known = LIMITED.replace(constraints=[veil.Return(max="40%", reward="energy")])
    assert moved_bound._knows_all(known)
    assert not moved_bound._knows_all(LIMITED)  # which state of the formula's automaton it is in
    followed = known.replace(secret=veil.Holds("F s1", agent_knows=True))
    assert moved_bound._knows_all(followed)
    models = veil.Problem([known.model] * 2, known.observer, veil.WhichModel(), 2)
    assert not moved_bound._knows_all(models)
    assert moved_bound._knows_all(models.replace(secret=veil.WhichModel(agent_knows=True)))
