"""`veil.solve` joins the search with the proof: what comes with an answer, and why sometimes nothing does."""

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, two_sensors
from veil.report.html import make_report

QUICK: Any = {"starts": 2, "iterations": 20, "progress": False}


@pytest.fixture(scope="module")
def problem() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return="50%")


def test_an_answer_comes_with_a_proof_that_verifies(problem: veil.Problem):
    solution = veil.solve(problem, starts=4, progress=False)
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)
    assert solution.certificate.lower <= solution.opacity.bits <= solution.certificate.upper
    assert solution.certificate_note == ""
    assert "proven  this policy at least 0." in solution.summary()


def test_transparent_answers_say_what_is_proven(problem: veil.Problem):
    solution = veil.solve(problem, goal="transparent", **QUICK)
    assert solution.certificate is not None
    assert (solution.certificate.goal, solution.certificate.lower) == ("transparent", 0)
    veil.verify(solution.certificate, problem, solution.policy)
    assert "this policy hides at most" in solution.summary()


def test_why_there_is_no_proof(problem: veil.Problem):
    def stop(news: Any) -> None:
        raise KeyboardInterrupt

    given: list[tuple[dict[str, Any], str]] = [
        ({"certificate": False}, "it was not asked for"),
        ({"objective": "guess"}, "and the objective was 'guess'"),
        ({"min_opacity": 0.1}, "not about the most return for some bits"),
        ({"task": "0.1*return - H(own)"}, "no bound for bits in a task"),
        ({"progress": stop}, "the search was interrupted"),
    ]
    for options, words in given:
        settings: dict[str, Any] = QUICK | options
        solution = veil.solve(problem, **settings)
        assert solution.certificate is None
        assert words in solution.certificate_note
        assert f"no bounds: {solution.certificate_note}" in solution.summary()


def test_an_interrupt_of_the_proof_keeps_the_answer_and_what_is_proven(problem: veil.Problem):
    seen: list[str] = []

    def stop(news: Any) -> None:
        seen.append(news.phase)
        if news.phase == "proving":
            raise KeyboardInterrupt

    solution = veil.solve(problem, "primal-dual", iterations=20, progress=stop)
    assert seen.count("proving") == 1
    assert (solution.feasible, solution.iterations) == (True, 20)
    assert solution.certificate is not None
    assert "interrupted" in solution.certificate_note
    assert all(solution.certificate_note in text for text in (solution.summary(), make_report(problem, solution)))
    assert solution.certificate.lower <= solution.opacity.bits <= solution.certificate.upper
    veil.verify(solution.certificate, problem, solution.policy)


def test_a_proof_that_did_not_finish_is_told_from_what_was_measured(problem: veil.Problem):
    solution = veil.solve(problem, certificate_time_limit=1.0, **QUICK)
    assert solution.certificate is not None
    assert "not proven" not in solution.summary()
    for lower, own in ((0.125, True), (0.0, False)):
        (one,) = solution.certificate.channels
        proof = replace(solution.certificate, channels=(replace(one, lower=lower, window=(0, 99)),))
        short = replace(solution, certificate=proof).summary()
        assert "not proven within the limit: raise time_limit or certificate_time_limit" in short
        assert ("this policy at least 0.125000 bits, any policy at most" in short) is own


def test_search_and_proof_together_keep_the_limit():
    problem = veil.gallery.load("later-initial-state")
    begin = time.process_time()
    solution = veil.solve(problem, time_limit=1.5, progress=False)
    assert time.process_time() - begin < 1.5 + 12  # far more than is allowed; far less than without a limit
    assert solution.feasible
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)


def test_what_is_refused_before_any_work(problem: veil.Problem):
    refused: list[tuple[dict[str, Any], str]] = [
        ({"gap": 0.1}, "gap: method='auto' does not have this option, only 'game'"),
        ({"method": "game", "gap": -1}, "gap is -1, expected a number above 0"),
        ({"method": "magic"}, "method is 'magic', expected one of 'auto', 'ascent', 'primal-dual', 'game'"),
        ({"certificate_time_limit": -1}, "certificate_time_limit is -1, expected a number, 0 or more"),
        ({"memory": "history"}, "memory: method='auto' has 'markov' and .*, found 'history': use method='game'"),
        ({"certificate_time_limit": "long"}, "certificate_time_limit is 'long'"),
        ({"method": "game", "goal": "transparent"}, "goal: method='game'"),
        ({"method": "game", "objective": "leakage"}, "objective: method='game'"),
        ({"method": "game", "per_start": True}, "per_start: method='game'"),
        ({"method": "game", "min_opacity": 0.5}, "min_opacity: method='game'"),
        ({"method": "game", "memory": "timed"}, "memory: method='game'"),
        ({"method": "game", "start": veil.MarkovPolicy(np.ones((1, 1)))}, "start: method='game'"),
    ]
    for options, message in refused:
        with pytest.raises(veil.InputError, match=message):
            veil.solve(problem, **options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max": 0.9}, "ignores the upper bounds of these pairs, which are not convex: other"),
        ({"min": 0.2, "belief": veil.Belief(doubt=0.1)}, "ignores the bounds on pairs"),
    ],
)
def test_a_certificate_says_which_bounds_it_leaves_out(changes: dict[str, Any], words: str):
    """A friend's bound and a loss are not part of the proven upper bound, and the summary says so."""
    problem = two_sensors(2)
    problem = problem.replace(pairs=[replace(problem.pairs[0], **changes)])
    solution = veil.solve(problem, "ascent", "timed", certificate_time_limit=2, **QUICK)
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)
    assert words in solution.summary()


# What `solve` adds to the answer of any method


def two_rewards(**bounds: Any) -> veil.Problem:
    """A gain, and fuel of which every decision takes one; a pair that sees the state."""
    rng = np.random.default_rng(1)
    model = veil.Model(
        rng.dirichlet(np.ones(3), size=(3, 2)),
        {"gain": rng.normal(size=(3, 2)), "fuel": np.ones((3, 2))},
        [0.2, 0.3, 0.5],
    )
    pair = veil.Pair("other", veil.Observer(np.eye(3)), **bounds)
    limits = [veil.Return(max=5.0, reward="fuel")]
    observer = veil.Observer(np.ones((3, 1)))
    return veil.Problem(model, observer, veil.LastState({0}), 2, "20%", constraints=limits, pairs=[pair])


def test_constraints_pairs_and_a_task_have_their_values():
    problem = two_rewards()
    found = veil.solve(problem, task="2*gain - 3*fuel + 0.5*H(other) - H(own)", starts=1, iterations=5, **FEW)
    assert [one.name for one in found.constraints] == ["return", "fuel"]
    assert found.constraints[1].value == pytest.approx(2.0)
    gain = veil.expected_return(problem, found.policy)
    other, own = (veil.opacity(problem, found.policy, pair=one).bits for one in ("other", "own"))
    assert found.task_value == pytest.approx(2 * gain - 6 + 0.5 * other - own)
    assert [one.name for one in found.pairs] == ["other"]
    assert found.pairs[0].bits == pytest.approx(other)
    assert math.isnan(found.pairs[0].price_bits)  # it has no bound
