"""Observers that prove a bound: those that need no search, those of games, and which of them is kept."""

import numpy as np
import pytest

import veil
from tests.proof.cases import random_problem
from veil.common.clock import Clock
from veil.common.logs import conditional_entropy_bits
from veil.engine.hidden import build
from veil.game import ascent
from veil.game.pairs import TailEvents, make_pairs
from veil.game.refine import EnclosedGame, refine_game
from veil.game.solve import solve_game
from veil.game.windows import solve_window_game
from veil.proof import observers
from veil.proof.backward import rule_bound
from veil.proof.checked_problem import CheckedProblem
from veil.proof.observers import _even_odds, _first_event, _witness, best_observer


def observer_of(problem: veil.Problem, clock: Clock, **given):
    values = {"bounds": (None,), "values": None, "gap": 1e-3, "memory_bytes": 2**30, "game": None} | given
    return best_observer(CheckedProblem(problem), clock=clock, **values)


@pytest.mark.parametrize("seed", range(20))
def test_observers_that_need_no_search(seed):
    checked = CheckedProblem(random_problem(seed))
    bound = rule_bound(checked, _even_odds(checked), (None,), None)
    assert bound == pytest.approx(np.log2(checked.values), abs=1e-9)
    if checked.secret_time == 0:
        x, event, mass = checked.start
        joint = np.zeros((event.max() + 1, checked.values))
        np.add.at(joint, (event, checked.label[x]), mass)
        first = rule_bound(checked, _first_event(checked), (None,), None)
        assert first == pytest.approx(conditional_entropy_bits(joint), abs=1e-9)
        assert first <= bound + 1e-9


def test_with_no_time_there_is_a_bound():
    for name, most in (("paper-last-state", 1.0), ("paper-initial-state", 2.0)):
        found = observer_of(veil.gallery.load(name, min_return=None), Clock(0.0))
        assert found.upper == most
        assert found.witness.memory == "nothing"
        assert found.known is None


def test_more_time_proves_more():
    problem = veil.gallery.load("two-rooms")
    found = observer_of(problem, Clock(20.0), bounds=(0.6,))
    assert found.witness.memory == "the whole history"
    assert found.known is not None
    assert 0 <= found.upper - found.known <= 2e-3


def test_a_stop_request_ends_with_the_best_so_far():
    calls = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 200

    found = observer_of(veil.gallery.load("paper-last-state", min_return=None), Clock(60.0, stop=stop), gap=0.0)
    assert found.upper <= 1.0


def test_the_game_without_memory_is_solved_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ascent, "solve_blind_game", lambda *_, **__: pytest.fail("it was solved again"))
    for horizon in (5, 40):  # on the tree, and by finite memory
        problem = veil.gallery.load("paper-last-state").replace(horizon=horizon, min_return=None)
        found = observer_of(problem, Clock(60.0), gap=0.1)
        assert found.known is not None


def test_each_kind_of_game_gives_its_observer():
    problem = veil.gallery.load("paper-last-state", horizon=5).replace(min_return="60%")
    checked = CheckedProblem(problem)
    tree = solve_game(problem, gap=1e-2)
    windows = solve_window_game(problem, gap=0.1, clock=Clock(20.0))
    refined = refine_game(problem, gap=0.1, nodes=4, most_nodes=8, clock=Clock(20.0))
    both = EnclosedGame(windows, refined)
    assert tree.bounds() == [(tree, tree.lower)]
    assert windows.bounds() == [(windows.forgetting, windows.lower)]
    assert refined.bounds() == [(refined.bounding, refined.lower)]
    assert [game.upper for game, _ in both.bounds()] == sorted([windows.upper, refined.upper])
    for game in (tree, windows, refined, both):
        bound, _ = game.bounds()[0]
        proven = rule_bound(checked, _witness(checked, bound), (bound.threshold,), None)
        assert proven == pytest.approx(game.upper, abs=1e-9)
        best = observer_of(problem, Clock(20.0), bounds=(bound.threshold,), game=game)
        assert best.upper <= proven
        assert best.known is not None
        assert best.known == pytest.approx(min(game.lower, best.upper), abs=1e-12)


def test_an_observer_who_stops_looking_stays_where_it_is():
    problem = veil.gallery.load("paper-initial-state", horizon=12).replace(min_return=None)
    windows = solve_window_game(problem, gap=0.5, steps=2, clock=Clock(20.0))
    game = windows.forgetting
    assert len(game.graph.following) < 12
    witness = _witness(CheckedProblem(problem), game)
    assert len(witness.following) == 12
    nodes = np.arange(game.graph.sizes[-1])
    assert (witness.following[-1] == nodes[:, None]).all()


def test_an_observer_who_was_told_the_hidden_state_proves_nothing():
    problem = veil.gallery.load("paper-last-state", horizon=5, min_return=None)
    pairs = make_pairs(build(problem), TailEvents(2), told_at=2)
    game = solve_game(problem, gap=0.5, pairs=pairs)
    with pytest.raises(veil.InputError, match="told the hidden state"):
        _witness(CheckedProblem(problem), game)


def test_an_observer_that_proves_less_is_not_kept():
    problem = veil.gallery.load("two-rooms")
    checked = CheckedProblem(problem)
    search = observers._Search(checked, (0.6,), None, 1e-3, Clock(20.0), 2**30)
    search.offer(_witness(checked, solve_game(problem, threshold=0.6, gap=1e-3)), 0.1)
    best = search.best
    assert best.upper < 1.0
    search.offer(_even_odds(checked), 0.2)
    assert search.best.witness is best.witness
    assert (search.best.upper, search.best.known) == (best.upper, 0.2)
    search.offer(_even_odds(checked), 5.0)
    assert search.best.known == best.upper  # what a solver claims to know is never above what is proven
