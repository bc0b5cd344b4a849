"""A bound that holds for every problem with this secret is called trivial wherever it is told, and no other bound is."""

from typing import Any

import numpy as np
import pytest

import veil
from veil.report.html import make_report

LAST: Any = veil.LastState(groups={"a": [0], "b": [1]})
TRIVIAL = "trivial: log2 of 3 values"
QUIET: Any = {"progress": False}


def three_states(secret: Any, readings: Any = ((0.9, 0.1), (0.5, 0.5), (0.1, 0.9))) -> veil.Problem:
    """Three states on a circle; the observer has two readings and a sensor between them."""
    moves = np.stack([np.eye(3), np.roll(np.eye(3), 1, axis=1)], axis=1)
    model = veil.Model(moves, np.zeros((3, 2)), [0.5, 0.3, 0.2])
    return veil.Problem(model, veil.Observer(np.array(readings), sensors={"camera": {1: 0}}), secret, 3)


@pytest.mark.parametrize("secret", [LAST, veil.InitialState()], ids=["last", "initial"])
def test_a_certificate_and_a_report_say_that_a_bound_is_trivial(secret: Any):
    problem = three_states(secret)
    for seconds, words in ((0.0, TRIVIAL), (5.0, "")):
        solution = veil.solve(problem, starts=1, iterations=2, certificate_time_limit=seconds, **QUIET)
        assert solution.certificate is not None
        veil.verify(solution.certificate, problem, solution.policy)
        page = make_report(problem, solution)
        for text in (solution.summary(), solution.certificate.summary(), solution.certificate.claim, page):
            assert (TRIVIAL in text) == bool(words), (seconds, text)
        assert solution.certificate.trivial == words


def test_comparisons_designs_and_games_say_that_a_bound_is_trivial():
    problem = three_states(LAST)
    game = veil.solve(problem, "game", "history", time_limit=0.0, **QUIET)
    design = veil.design_sensors(problem, 1, time_limit=0.0)
    compared = veil.compare(problem, memories=("markov",), time_limit=0.0)
    assert compared.upper_bits == pytest.approx(np.log2(3))
    assert all(TRIVIAL in text for text in (game.detail, design.summary(), compared.summary()))
    shown = three_states(veil.LastState([0]), [(1, 0), (0, 1), (0, 1)])
    placed = veil.design_sensors(shown, 1, goal="transparent")
    assert "at least 0.000000 bits (trivial" in placed.summary()


def test_the_entropy_of_a_secret_that_no_policy_changes_is_a_trivial_bound():
    problem = three_states(veil.InitialState(), [(0.5, 0.5)] * 3)
    game = veil.solve(problem, "game", "history", **QUIET)
    assert all("trivial: H(Z)" in text for text in (game.summary(), make_report(problem, game)))
    assert game.upper_bits == pytest.approx(game.opacity.prior_bits, abs=1e-9)
    assert "trivial: H(Z)" in game.detail


def test_a_bound_that_was_found_is_not_called_trivial():
    problem = three_states(LAST)
    compared = veil.compare(problem, memories=("markov", "history"), certificate=False)
    texts = (compared.summary(), veil.solve(problem, "game", "history", **QUIET).detail)
    assert not any("trivial" in text for text in texts), texts
