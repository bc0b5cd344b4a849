"""`veil.solve` joins the search with the proof: what comes with an answer, why sometimes nothing does, and the game."""

import time as clock
from typing import Any

import numpy as np
import pytest

import veil

QUICK: dict[str, Any] = {"starts": 2, "iterations": 20}


@pytest.fixture(scope="module")
def problem() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return="50%")


def test_an_answer_comes_with_a_proof_that_verifies(problem: veil.Problem):
    solution = veil.solve(problem, starts=4)
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)
    assert solution.certificate.lower <= solution.opacity.bits <= solution.certificate.upper
    assert solution.certificate_note == ""
    assert solution.proof is None
    assert "proven  this policy at least 0." in solution.summary()


def test_the_game_is_the_best_of_all_and_proves_it(problem: veil.Problem):
    game = veil.solve(problem, "game", gap=1e-4)
    assert game.method == "game"
    assert game.status is veil.Status.CONVERGED
    assert game.upper_bits - game.opacity.bits <= 1e-4
    assert game.expected_return >= (game.threshold or 0.0)
    assert game.certificate is not None
    veil.verify(game.certificate, problem, game.policy)
    assert game.certificate.gap <= 1.01e-4
    for memory in ("markov", "timed"):
        assert veil.solve(problem, memory=memory, starts=4, certificate=False).opacity.bits <= game.upper_bits


def test_the_policy_of_the_game_hides_and_earns_what_is_said(problem: veil.Problem):
    game = veil.solve(problem, "game", certificate=False)
    assert veil.opacity(problem, game.policy).bits == pytest.approx(game.opacity.bits, abs=1e-9)
    assert veil.expected_return(problem, game.policy) == pytest.approx(game.expected_return, abs=1e-12)


def test_why_there_is_no_proof(problem: veil.Problem, monkeypatch: pytest.MonkeyPatch):
    def note(**options: Any) -> str:
        solution = veil.solve(problem, **QUICK, **options)
        assert solution.certificate is None
        return solution.certificate_note

    assert note(certificate=False) == "it was not asked for"
    assert "and the objective was 'guess'" in note(objective="guess")
    assert "not about the most return for some bits" in note(min_opacity=0.1)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("veil.planning.solve.certify", interrupted)
    solution = veil.solve(problem, **QUICK)
    assert solution.status is veil.Status.INTERRUPTED
    assert solution.certificate_note == "the proof was interrupted"
    assert solution.feasible


def test_transparent_answers_say_what_is_proven(problem: veil.Problem):
    solution = veil.solve(problem, goal="transparent", **QUICK)
    assert solution.certificate is not None
    assert solution.certificate.goal == "transparent"
    assert solution.certificate.lower == 0
    veil.verify(solution.certificate, problem, solution.policy)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"goal": "transparent"}, "goal"),
        ({"objective": "leakage"}, "objective"),
        ({"per_start": True}, "per_start"),
        ({"min_opacity": 0.5}, "min_opacity"),
        ({"memory": "timed"}, "memory"),
        ({"start": veil.MarkovPolicy(np.ones((1, 1)))}, "start"),
    ],
)
def test_the_game_refuses_what_it_would_have_to_ignore(problem: veil.Problem, options: dict[str, Any], name: str):
    with pytest.raises(veil.InputError, match=f"{name}: method='game'"):
        veil.solve(problem, "game", **options)


def test_what_is_refused_before_any_work(problem: veil.Problem):
    refused: list[tuple[dict[str, Any], str]] = [
        ({"gap": 0.1}, "gap: method='auto' does not have this option, only 'game'"),
        ({"method": "game", "gap": -1}, "gap is -1, expected a number above 0"),
        ({"method": "magic"}, "method is 'magic', expected one of 'auto', 'ascent', 'primal-dual', 'game'"),
        ({"certificate_time_limit": -1}, "certificate_time_limit is -1, expected a number, 0 or more"),
        ({"memory": "history"}, "memory: method='auto' has 'markov' and .*, found 'history': use method='game'"),
        ({"certificate_time_limit": "long"}, "certificate_time_limit is 'long'"),
    ]
    for options, message in refused:
        with pytest.raises(veil.InputError, match=message):
            veil.solve(problem, **options)


def test_search_and_proof_together_keep_the_limit():
    problem = veil.gallery.load("later-initial-state")
    begin = clock.monotonic()
    solution = veil.solve(problem, time_limit=4)
    assert (
        clock.monotonic() - begin < 4 + 20
    )  # far more than is allowed, for busy machines; far less than without a limit
    assert solution.feasible
    assert solution.certificate is not None
    veil.verify(solution.certificate, problem, solution.policy)


@pytest.mark.parametrize(
    ("method", "limits", "seconds"),
    [
        ("ascent", {}, 20.0),
        ("ascent", {"time_limit": 1e4}, 20.0),
        ("game", {"iterations": 1}, 20.0),
        ("game", {"iterations": 1, "time_limit": 1e4}, 5e3),
        ("game", {"iterations": 1, "time_limit": 1e4, "certificate_time_limit": 3.0}, 3.0),
    ],
)
def test_the_proof_of_a_game_has_all_that_is_left(monkeypatch, problem: veil.Problem, method, limits, seconds):
    given = []
    monkeypatch.setattr(veil.planning.solve, "certify", lambda problem, policy, limit, **_: given.append(limit) or None)
    veil.solve(problem, method, iterations=limits.pop("iterations", 3), progress=False, **limits)
    assert given[0] == seconds if seconds <= 20 else given[0] > seconds
