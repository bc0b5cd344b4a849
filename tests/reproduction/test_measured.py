"""Measures of a policy agree with each other, and an interrupted search is never taken for a result."""

from dataclasses import replace
from typing import Any

import pytest
from reproduction.measured import measure, play_game, search

import veil
from reproduction import measured
from veil.common.clock import Stop


def test_the_numbers_agree():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy([[0.25, 0.75], [0.5, 0.5]])
    found = measure(problem, policy, play_game(problem, 1e-3), seed=0)
    assert found["bits"] == pytest.approx(0.431037, abs=1e-6)
    assert found["return"] == pytest.approx(0.75)
    assert found["lower"] <= found["bits"] <= found["upper"] + 1e-12
    assert abs(found["sampled_bits"] - found["bits"]) < 4 * found["sampled_bits_error"]
    assert abs(found["sampled_return"] - 0.75) < 4 * found["sampled_return_error"]
    assert found["feasible"]


def test_a_game_is_played_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measured, "_PLAYED", {})
    problem = veil.gallery.load("two-rooms")
    game = play_game(problem, 1e-2)
    assert play_game(veil.gallery.load("two-rooms"), 1e-2) is game
    assert play_game(problem.replace(min_return=0.6), 1e-2) is not game
    for share in (0.1, 0.2, 0.3, 0.4, 0.5):
        play_game(problem.replace(min_return=share), 1e-2)
    assert len(measured._PLAYED) == 4


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch):
    problem = veil.gallery.load("two-rooms")
    solution, game = search(problem, 0, starts=2, iterations=3), play_game(problem, 1e-2)

    def interrupted_search(*_: Any, **__: Any) -> veil.Solution:
        return replace(solution, status=veil.Status.INTERRUPTED)

    monkeypatch.setattr(measured, "solve", interrupted_search)
    with pytest.raises(KeyboardInterrupt):
        search(problem, 0)
    monkeypatch.setattr(measured, "_PLAYED", {})
    monkeypatch.setattr(measured, "solve_game", lambda *_, **__: replace(game, stopped=Stop.INTERRUPTED))
    with pytest.raises(KeyboardInterrupt):
        play_game(problem, 1e-2)
    assert not measured._PLAYED
