"""An answer says when it may be poor and what would help; a search never ends below the policy that it was given."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.planning.small_problems import Interrupting, random_problem
from veil.common.clock import Clock
from veil.planning.channels import Asked, make_backend
from veil.planning.mixing import mixture_gain
from veil.planning.options import SolveOptions
from veil.planning.plan import planned
from veil.planning.policy_class import make_space

QUIET: Any = {"certificate": False, "progress": False}


@pytest.mark.parametrize("evaluation", ["auto", "sampled"])
def test_a_search_of_a_few_iterations_says_so(evaluation: Any):
    solution = veil.solve(random_problem(1), evaluation=evaluation, certificate=False, progress=Interrupting(3))
    assert any("iterations" in one and "raise time_limit" in one for one in solution.doubts)
    assert all(one in solution.summary() for one in solution.doubts)


def test_a_search_that_has_hardly_begun_has_no_prices_and_tells_how_far_it_was():
    problem = random_problem(1)
    solution = veil.solve(problem, certificate=False, progress=Interrupting(3))
    assert problem.min_return is not None
    assert np.isnan([solution.price_bits, *(one.price_bits for one in solution.constraints)]).all()
    assert "price" not in solution.summary()
    rows = solution.history.rows()
    rows[-1, 1] = solution.opacity.bits + 0.5  # of a policy that could not be returned
    ahead = replace(solution, history=type(solution.history).of(rows))
    assert any(f"about {rows[-1, 1]:.2g} bits" in one for one in ahead.doubts)
    assert "about" not in "".join(solution.doubts)


def test_a_search_that_did_not_come_to_the_class_asked_for_says_so():
    solution = veil.solve(random_problem(1), memory="timed", certificate=False, progress=Interrupting(2))
    assert any("stationary Markov policies" in one for one in solution.doubts)


def test_what_is_proven_good_is_not_doubted():
    """A secret that no policy can reach: nothing can be hidden, which is proven."""
    model = veil.Model(np.eye(3)[:, None].repeat(2, axis=1), np.zeros((3, 2)), [1, 0, 0])
    problem = veil.Problem(model, veil.Observer(np.ones((3, 1))), veil.LastState({2}), 3)
    plain = veil.solve(problem, **QUIET)
    assert "Nothing to hide" in plain.doubts[0]
    assert veil.solve(problem, progress=False).doubts == ()
    assert all(row.doubts == () for row in veil.compare(problem, memories=("markov", "timed")).rows)


def test_a_game_that_has_hardly_begun_says_so():
    problem = random_problem(1).replace(horizon=60)
    solution = veil.solve(problem, "game", time_limit=0.05, **QUIET)
    assert solution.iterations == 0
    assert any("raise time_limit" in one for one in solution.doubts)


def test_a_search_that_converged_has_no_doubts():
    solution = veil.solve(random_problem(1), starts=2, **QUIET)
    assert solution.status.name == "CONVERGED"
    assert solution.doubts == ()


def certain(scale: float) -> veil.Problem:
    """A problem whose secret is the value 1 with a probability of at most `scale`."""
    moves = np.array([[1 - scale, scale], [1 - scale, scale]])
    model = veil.Model(np.stack([moves, np.eye(2)], axis=1), np.zeros((2, 2)), [1, 0])
    return veil.Problem(model, veil.Observer(np.full((2, 2), 0.5)), veil.LastState([1]), 3)


@pytest.mark.parametrize("evaluation", ["exact", "sampled"])
def test_a_secret_that_is_certain_is_nothing_to_hide(evaluation: Any):
    for scale in (0.0, 1e-17, 1e-5):
        solution = veil.solve(certain(scale), evaluation=evaluation, iterations=5, starts=2, **QUIET)
        assert any("Nothing to hide" in one for one in solution.doubts), scale
        assert "-0.000000" not in solution.summary(), scale


def test_values_that_round_to_zero_have_no_sign():
    for bits in (-0.0, -1e-16, -4e-7):
        for method in ("exact", "sampled"):
            assert "-0" not in str(veil.Opacity(bits, 0.0, 0.0, bits, method, 1))


@pytest.mark.parametrize("options", [{}, {"evaluation": "sampled"}, {"method": "primal-dual"}], ids=str)
def test_a_search_does_not_end_below_the_policy_it_starts_from(options: dict[str, Any]):
    problem = random_problem(1)
    best = veil.solve(problem, memory="timed", starts=2, iterations=60, **QUIET)
    again = veil.solve(problem, memory="timed", start=best.policy, iterations=1, **QUIET, **options)
    assert again.feasible
    assert again.opacity.bits >= best.opacity.bits - 1e-5  # closer answers count as equal


def test_the_course_of_a_search_over_many_states_does_not_depend_on_how_fast_the_machine_is():
    states = 400
    around = sp.csr_array((np.ones(states), (np.arange(states), (np.arange(states) + 1) % states)))
    jump = sp.csr_array((np.ones(states), (np.arange(states), (7 * np.arange(states)) % states)))
    observer = veil.Observer(np.eye(2)[(np.arange(states) % 5 == 0).astype(int)])
    model = veil.Model([around, jump], np.zeros((states, 2)), np.full(states, 1 / states))
    space = make_space(veil.Problem(model, observer, veil.LastState(range(0, states, 2)), 6))
    first, second = make_backend(space, Asked()), make_backend(space, Asked())
    assert first.kind == "exact"
    assert first.cost_seconds == second.cost_seconds


def two_vaults() -> veil.Problem:
    """Two corridors that a run chooses between at its start; one of them ends in the secret, and they look alike."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = 1
    moves[1, :, 1] = moves[2, :, 2] = 1
    model = veil.Model(moves, np.zeros((3, 2)), [1, 0, 0])
    return veil.Problem(model, veil.Observer(np.full((3, 2), 0.5)), veil.LastState([1]), 4)


def test_an_answer_below_a_simple_mixture_says_so():
    """Both ends are certain by themselves, and a coin between them hides the whole bit."""
    problem = two_vaults()
    one, other = (veil.MarkovPolicy(np.eye(2)[[action] * 3]) for action in range(2))
    clock, options = Clock(), SolveOptions(method="ascent")
    objective = planned(problem, options)[1][0]
    gain = mixture_gain(objective, options, one.table, [other.table], clock)
    assert gain == pytest.approx(1.0, abs=1e-6)
    assert mixture_gain(objective, options, one.table, [one.table], clock) == 0.0
    found = replace(veil.solve(problem, **QUIET), mixture_gain_bits=gain)
    assert any("veil.Mixture(2)" in one for one in found.doubts)
    assert veil.solve(problem, **QUIET).mixture_gain_bits < 1e-6  # the search found the bit itself


def test_the_places_where_starts_ended_are_told():
    for seed in range(4):
        solution = veil.solve(random_problem(seed), evaluation="sampled", iterations=40, **QUIET)
        assert solution.basins == tuple(sorted(solution.basins, reverse=True))
        told = f"reached {len(solution.basins)} different policies" in solution.summary()
        assert told == (len(solution.basins) > 1 and solution.basins[0] - solution.basins[-1] >= 0.02)
    assert len(veil.solve(random_problem(0), starts=1, **QUIET).basins) <= 1
