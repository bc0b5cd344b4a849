"""What a solver answers."""

import dataclasses
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import veil
import veil.planning.solve
from tests.planning.small_problems import random_problem
from tests.unproven import solve
from veil.common.rounding import lower_text
from veil.measure.pairs import PairValue
from veil.planning.solution import History, Solution, Status, is_short

ROWS = [(1, 0.5, 0.1, 0.0, 0.2, 0.01), (2, 0.6, 0.2, 0.3, 0.1, 0.02)]


def test_a_status_is_its_message():
    assert {status.name for status in Status} == {
        "CONVERGED", "ITERATION_LIMIT", "TIME_LIMIT", "NOT_SEARCHED", "INTERRUPTED", "INFEASIBLE",
    }  # fmt: skip
    assert all(isinstance(status.value, str) and len(status.value) > 20 for status in Status)
    assert veil.Status is Status


def test_a_history_is_its_rows():
    history = History.of(ROWS)
    assert len(history) == 2
    assert history.iteration.tolist() == [1, 2]
    assert history.iteration.dtype == np.int64
    assert history.opacity_bits.tolist() == [0.5, 0.6]
    assert history.seconds.tolist() == [0.01, 0.02]
    np.testing.assert_array_equal(history.rows(), np.array(ROWS))
    np.testing.assert_array_equal(History.of(history.rows()).rows(), history.rows())
    assert len(History.of([])) == 0
    assert History.of([]).rows().shape == (0, 6)


def proof(lower: float, upper: float, delayed: SimpleNamespace | None = None) -> SimpleNamespace:
    """What a summary reads of a certificate."""
    return SimpleNamespace(lower=lower, upper=upper, delayed=delayed, hide=("own",), pairs=())


def solution(**changes) -> Solution:
    problem = random_problem(0)
    policy = veil.MarkovPolicy.uniform(problem)
    parts = {
        "policy": policy, "policy_class": "stationary Markov policies", "opacity": veil.opacity(problem, policy, "exact"),
        "expected_return": 0.25, "threshold": 0.2, "feasible": True, "status": Status.CONVERGED, "method": "ascent",
        "iterations": 7, "seconds": 1.23, "price_bits": 0.5,
    }  # fmt: skip
    return Solution(**(parts | changes))


def test_the_summary_is_a_small_table_and_two_sentences():
    lines = solution(certificate_note="not asked for").summary().splitlines()
    names = ["hidden", "leaked", "return", "proven", "price"]
    assert [line.split()[0] for line in lines[:5]] == names
    assert lines[2] == "return  0.25, required: at least 0.2"
    assert lines[3] == "proven  no bounds: not asked for"
    assert lines[4] == "price   0.5 bits for one more unit of return"
    assert lines[5:] == ["Method: ascent over stationary Markov policies, converged after 7 iterations and 1.2 s."]
    assert "return 0.25, CONVERGED" in repr(solution())


def test_the_summary_of_other_answers():
    assert "required" not in solution(threshold=None).summary()
    missed = solution(feasible=False, status=Status.INFEASIBLE, detail="ask for less").summary()
    assert missed.endswith("The constraint is not met: ask for less.")
    assert (
        solution(needs_observations=True).summary().endswith("The agent must see the observations to play this policy.")
    )
    assert "time limit after" in solution(status=Status.TIME_LIMIT).summary()
    bits = solution().opacity.bits
    close = proof(bits - 0.005, 1 / 3)
    told = solution(certificate=close).summary()
    assert f"this policy at least {lower_text(bits - 0.005, 6)} bits, any policy at most 0.333334 bits" in told
    assert "not proven" not in told
    assert "this policy hides at most 0.333334 bits" in solution(certificate=close, goal="transparent").summary()


def test_a_proof_that_did_not_finish_is_told_from_what_was_measured():
    late = proof(0.125, 1.0, delayed=SimpleNamespace(upper=0.75))
    assert "without seeing the current observation at most 0.750000 bits" in solution(certificate=late).summary()
    half = solution(certificate=proof(0.125, 1.0)).summary()
    assert "this policy at least 0.125000 bits, any policy at most 1.000000 bits" in half
    assert "not proven within the limit: raise time_limit or certificate_time_limit" in half
    none = solution(certificate=proof(0.0, 1.0)).summary()
    assert "proven  any policy at most 1.000000 bits\n" in none
    assert "this policy at least" not in none
    assert "not proven within the limit: raise time_limit or certificate_time_limit" in none
    sampled = dataclasses.replace(
        solution().opacity, method="sampled", lower=0.0, std_error=1.0
    )  # an estimate that tells nothing
    assert "not proven" not in solution(opacity=sampled, certificate=proof(0.0, 1.0)).summary()


def test_an_answer_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution().feasible = False  # type: ignore[misc]


def test_a_search_fills_every_part():
    problem = random_problem(7)
    found = solve(problem, starts=4, iterations=60, seed=3, memory="timed")
    assert isinstance(found.policy, veil.TimedPolicy)
    assert found.policy_class == "time-dependent policies"
    assert found.method == "ascent"
    assert found.goal == "opaque"
    assert found.objective == "entropy"
    assert found.seed == 3
    assert found.threshold == problem.min_return
    assert found.opacity.bits == veil.opacity(problem, found.policy, "exact").bits
    assert found.iterations <= 60
    assert (found.history.iteration > 0).sum() == found.iterations
    assert np.all(np.diff(found.history.seconds) >= 0)
    assert found.seconds >= found.history.seconds[-1]
    assert found.settings == {"memory": "timed", "evaluation": "exact", "starts": 4}
    assert "possible sequences" in found.detail
    assert not found.needs_observations
    assert found.certificate is None
    seen = problem.replace(agent_sees_observations=True)
    assert solve(seen, memory=veil.ObservationMemory(1), starts=1, iterations=2).needs_observations


def test_every_iteration_has_one_line_of_history():
    found = solve(random_problem(7), starts=4, iterations=60)
    assert found.history.iteration.tolist() == list(range(1, len(found.history) + 1))


def test_an_answer_without_a_search_has_made_no_iterations_and_has_the_first_seed():
    hidden = veil.Opacity(0.5, 0.5, 0.5, 1.0, "exact", 1)
    plain = Solution(veil.MarkovPolicy(np.ones((1, 1))), "all", hidden, 0.25, None, True, Status.CONVERGED, "own")
    assert (plain.iterations, plain.seed, plain.seconds, len(plain.history)) == (0, 0, 0.0, 0)
    assert (plain.goal, plain.objective, plain.hide, plain.task) == ("opaque", "entropy", "own", "")
    assert repr(plain) == "Solution(0.5000 bits, return 0.25, CONVERGED)"
    assert plain.least_bits == 0.5


@pytest.mark.parametrize(("threshold", "feasible", "price", "shown"), [
    (0.25, True, 0.125, True), (None, True, 0.125, False), (0.25, False, 0.125, False), (0.25, True, float("nan"), False),
])  # fmt: skip
def test_a_price_is_shown_where_there_is_one(threshold, feasible: bool, price: float, shown: bool):
    hidden = veil.Opacity(0.5, 0.5, 0.5, 1.0, "exact", 1)
    found = Solution(
        veil.MarkovPolicy(np.ones((1, 1))),
        "all",
        hidden,
        0.5,
        threshold,
        feasible,
        Status.CONVERGED,
        "own",
        price_bits=price,
    )
    assert ("0.125 bits for one more unit of return" in found.summary()) is shown
    assert ("required: at least 0.25" in found.summary()) is (threshold is not None)
    assert ("The constraint is not met" in found.summary()) is not feasible


def test_the_least_of_several_pairs_is_shown():
    hidden = veil.Opacity(0.5, 0.5, 0.5, 1.0, "exact", 1)
    pairs = tuple(
        PairValue(name, replace(hidden, bits=bits, lower=bits, upper=bits), None, None)
        for name, bits in (("a", 0.25), ("b", 0.75))
    )
    policy = veil.MarkovPolicy(np.ones((1, 1)))
    found = Solution(policy, "all", hidden, 0.5, None, True, Status.CONVERGED, "own", pairs=pairs, hide="own, a")
    assert found.least_bits == 0.25
    assert "0.250000 bits, of the pairs own, a" in found.summary()
    assert replace(found, hide="own, b").least_bits == 0.5
    for lower, short in ((0.2401, False), (0.2399, True)):
        assert is_short(found, lower) is short
    assert not is_short(replace(found, hide="b"), 0.7401)
    little = replace(hidden, bits=0.01, lower=0.01, upper=0.01)
    assert not is_short(replace(found, opacity=little, hide="own"), 0.0)  # a hundredth is not more than a hundredth
