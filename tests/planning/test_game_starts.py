"""Starts from convex games: the games that are played in a time, and the tables that they give."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from veil.common.clock import Clock
from veil.game.solve import solve_game
from veil.planning import game_starts
from veil.planning.channels import make_channels
from veil.planning.objective import Objective, make_objective
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space


def objective_of(problem: veil.Problem) -> Objective:
    space = make_space(problem, "timed")
    return make_objective(space, make_channels(space, SolveOptions(memory="timed"), None))


def test_the_games_of_a_problem_give_a_table_each():
    problem = random_problem(0).replace()
    tables = list(game_starts.game_starts(objective_of(problem), Clock()))
    assert len(tables) == 4  # of one and two observations, and of one at a lower and a higher threshold
    for table in tables:
        np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=1e-9)


def test_no_game_follows_one_that_the_time_cut_short(monkeypatch: pytest.MonkeyPatch):
    """The others take as long, and a game that was hardly begun is a poor start."""
    played = list[object]()

    def cut_short(*arguments: object, **options: object) -> object:
        played.append(options["threshold"])
        return replace(solve_game(*arguments, **options), stopped="time limit")  # type: ignore[arg-type]

    monkeypatch.setattr(game_starts, "solve_game", cut_short)
    objective = objective_of(random_problem(0).replace())
    assert game_starts.play_games(objective, Clock())
    assert len(played) == 1
    assert len(list(game_starts.game_starts(objective, Clock()))) == 1  # it is kept, and no other one is played
    assert len(played) == 1
