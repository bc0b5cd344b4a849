"""Observers that prove a bound: those that need no search, those of games, and which of them is kept."""

from types import SimpleNamespace

import numpy as np
import pytest

import veil
from tests.problem.test_constraints import make_problem
from tests.proof.cases import noisy_problem, random_problem, with_path
from tests.proof.test_checked import example
from veil.common.clock import Clock
from veil.common.errors import TooLargeError
from veil.common.logs import conditional_entropy_bits
from veil.engine.hidden import build
from veil.game import ascent
from veil.game.pairs import FullHistory, TailEvents, make_pairs
from veil.game.refine import EnclosedGame, refine_game
from veil.game.solve import solve_game
from veil.game.windows import solve_window_game
from veil.proof import observers
from veil.proof.backward import rule_bound
from veil.proof.checked_problem import CheckedProblem
from veil.proof.observers import _even_odds, _first_event, _witness, best_observer
from veil.proof.witness import Witness


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


def test_what_cannot_be_seen_at_first_has_no_node():
    """The start shows one observation of two; an observer who does not see it has one event, which is possible."""
    problem = example().replace(secret=veil.InitialState({"zero": [0], "one": [1]}))
    witness = _first_event(CheckedProblem(problem))
    assert (witness.first.tolist(), witness.costs.shape, witness.memory) == ([0, -1], (1, 2), "nothing")
    assert rule_bound(CheckedProblem(problem), witness, (None,), None) == pytest.approx(0, abs=1e-9)
    late = problem.replace(observer=veil.Observer([[1.0, 0.0], [0.25, 0.75]], sees_initial=False))
    assert _first_event(CheckedProblem(late)).first.tolist() == [0]
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], [0.5, 0.5])
    both = _first_event(CheckedProblem(problem.replace(model=model)))
    assert (both.first.tolist(), both.memory) == ([0, 1], "the first event")
    np.testing.assert_allclose(2.0**-both.costs, [[0.8, 0.2], [0.0, 1.0]], atol=1e-11)


@pytest.mark.parametrize(
    ("rows", "horizon", "secret", "expected"),
    [
        ([[1.0, 0.0], [0.25, 0.75]], 1, veil.LastState({1}), True),
        ([[0.25, 0.75], [0.0, 1.0]], 2, veil.LastState({1}), True),
        ([[1.0, 0.0], [0.0, 1.0]], 1, veil.LastState({1}), False),
        ([[1.0, 0.0], [0.25, 0.75]], 1, veil.Trajectory(), False),
    ],
)
def test_where_it_matters_to_see_the_current_observation(rows, horizon, secret, expected):
    """Some state shows more than one; of paths there is no such bound."""
    problem = example().replace(observer=veil.Observer(rows), horizon=horizon, secret=secret)
    assert observers._matters(CheckedProblem(problem)) == expected


def test_a_bound_over_late_agents_is_stated_where_it_was_asked_for_and_is_smaller(monkeypatch: pytest.MonkeyPatch):
    """By 0.0001 bits or more; the observer of all policies is offered first, then those of the games."""
    problem = noisy_problem(3).replace(min_return=None)
    assert observer_of(problem, Clock(20.0)).delayed is None
    game = solve_game(problem, gap=1e-3)
    offered = list[tuple[int, float]]()

    def offer(search: observers._Search, witness: Witness, hidden: float | None = None) -> None:
        late = search.problem.delay
        offered.append((late, search.best.upper))
        search.best = observers.ObserverBound(witness, bits[late], None)

    monkeypatch.setattr(observers._Search, "offer", offer)
    for bits, stated in (({0: 0.5, 1: 0.4}, True), ({0: 0.5, 1: 0.49995}, False), ({0: 0.5, 1: 0.5}, False),
                         ({0: 0.5, 1: 0.50005}, False), ({0: 0.5, 1: 0.6}, False)):  # fmt: skip
        found = observer_of(problem, Clock(1e4), game=game, delay=1)
        assert (found.upper, found.delayed is not None) == (0.5, stated)
        if found.delayed is not None:
            assert found.delayed.upper == bits[1]
    assert offered[-2:] == [(1, 1.0), (1, bits[1])]
    bits = {0: 0.5, 1: 0.4}
    offered.clear()
    assert observer_of(problem, Clock(1e4), game=game).delayed is None
    assert [late for late, _ in offered] == [0, 0]  # of the game without memory, and of that on the whole history


def test_what_games_know_is_kept_with_the_best_observer():
    """The most of what is known, of observers that prove less too; nothing where no game was solved."""
    problem = veil.gallery.load("two-rooms")
    checked = CheckedProblem(problem)
    search = observers._Search(checked, (0.6,), None, 1e-3, Clock(20.0), 2**30)
    search.offer(_even_odds(checked))
    assert search.best.known is None
    for hidden, known in ((0.1, 0.1), (0.3, 0.3), (0.2, 0.3), (None, 0.3)):
        search.offer(_even_odds(checked), hidden)
        assert search.best.known == known


@pytest.mark.parametrize("seed", [0, 1])
def test_even_odds_of_paths(seed: int):
    """Each state that can precede another has the same probability, and so has each last one."""
    problem = with_path(noisy_problem(seed), seed)
    checked = CheckedProblem(problem)
    witness = _even_odds(checked)
    assert len(witness.path_keys) == problem.horizon + 1
    assert checked.codes is not None
    count = int(checked.codes.max()) + 1
    before = {(0, int(checked.codes[y]), int(checked.codes[x]))
              for x, y in zip(checked.row // checked.actions, checked.target, strict=True)}  # fmt: skip
    for keys, costs in zip(witness.path_keys[:-1], witness.path_costs[:-1], strict=True):
        triples = list(map(tuple, keys.tolist()))
        assert triples == sorted(before)
        rows = [sum(one[1] == triple[1] for one in before) for triple in triples]
        np.testing.assert_allclose(costs, np.log2(rows) + observers.MARGIN, rtol=0, atol=1e-15)
    assert witness.path_keys[-1].tolist() == [[0, 0, code] for code in range(count)]
    np.testing.assert_allclose(witness.path_costs[-1], np.log2(count) + observers.MARGIN, rtol=0, atol=1e-15)
    assert rule_bound(checked, witness, (None,), None) < np.inf


class Games:
    """Stands in for the games of a search: which were played, and whether there is one on the whole history."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, whole: object, error: Exception | None = None):
        self.played, self.whole = list[tuple[str, float]](), whole
        monkeypatch.setattr(observers._Search, "_game", lambda search, memory, clock, gap: self.whole)
        for name in ("enclose_path_game", "enclose_constrained_game", "enclose_game"):

            def enclose(problem: object, *, clock: Clock, name: str = name, **given: object) -> str:
                self.played.append((name, round(clock.left, 6)))
                assert given.get("threshold", 0.5) == 0.5
                if error is not None:
                    raise error
                return name

            monkeypatch.setattr(observers, name, enclose)

    def solve(self, problem: veil.Problem, seconds: float = 100.0) -> object:
        search = observers._Search(
            CheckedProblem(problem), (0.5, 2.0), None, 1e-3, Clock(seconds, now=lambda: 0.0), 2**30
        )
        return search.solve()


def test_where_the_whole_history_does_not_fit_a_bounded_memory_is_tried(monkeypatch: pytest.MonkeyPatch):
    """Of the kind that the problem needs, in 0.65 of the time; not where there is no time, or where it does not fit either."""
    path = example().replace(secret=veil.Trajectory())
    limited = make_problem([veil.Return(max="100%", reward="energy")], 3, 2)
    for problem, name in (
        (example(), "enclose_game"),
        (path, "enclose_path_game"),
        (limited, "enclose_constrained_game"),
    ):
        games = Games(monkeypatch, None)
        assert games.solve(problem) == name
        assert games.played == [(name, 65.0)]
        assert games.solve(problem, 0.0) is None
        assert len(games.played) == 1
    whole = Games(monkeypatch, "whole")
    assert whole.solve(example()) == "whole"
    assert whole.solve(example(), 0.0) == "whole"
    assert whole.played == []
    assert Games(monkeypatch, None, TooLargeError("large")).solve(example()) is None


def test_a_game_is_played_where_there_is_time_for_it(monkeypatch: pytest.MonkeyPatch):
    """And for the induction after it, by forecasts for each of its moves; with the threshold on the return."""
    problem = veil.gallery.load("two-rooms", horizon=2).replace(min_return=None)
    pairs = make_pairs(build(problem), FullHistory())
    moves = sum(step.nnz for step in pairs.steps)
    seen = list[tuple[float | None, float]]()

    def solve(problem: object, *, threshold: float | None, clock: Clock, **given: object) -> str:
        seen.append((threshold, clock.left))
        return "game"

    monkeypatch.setattr(observers, "solve_game", solve)
    for share, played in ((0.9, False), (1.1, True)):
        clock = Clock(share * 3.5e-7 * moves, now=lambda: 0.0)
        search = observers._Search(CheckedProblem(problem), (0.5, 2.0), None, 1e-3, clock, 2**30)
        assert (search._solved(problem, pairs, clock, 1e-3, None, 5) == "game") == played
    [(threshold, left)] = seen
    assert threshold == 0.5
    assert left == pytest.approx((1.1 * 3.5e-7 - 2.5e-7) * moves)


@pytest.mark.parametrize(
    ("stopped", "goes_on"), [("stop requested", False), ("interrupted", False), ("gap reached", True)]
)
def test_a_game_that_the_caller_ended_ends_the_search(monkeypatch: pytest.MonkeyPatch, stopped: str, goes_on: bool):
    """What it proves counts."""
    went_on = list[int]()
    monkeypatch.setattr(observers, "_witness", lambda problem, game: _even_odds(problem))
    monkeypatch.setattr(observers._Search, "_game", lambda *_: SimpleNamespace(stopped=stopped))
    monkeypatch.setattr(observers._Search, "solve", lambda search: went_on.append(1))
    assert observer_of(example(), Clock(20.0)).upper == 1.0
    assert bool(went_on) == goes_on


def test_the_rule_of_a_path_is_about_states_that_are_reached():
    """Beside an automaton the first of four states is left out of the game, in which states have other numbers then."""
    moves = np.zeros((4, 2, 4))
    moves[0, :, 0] = 1
    moves[1:, 0, 1:], moves[1:, 1, 1:] = [0.5, 0.25, 0.25], [0.125, 0.375, 0.5]
    model = veil.Model(moves, np.zeros((4, 2)), 1)
    observer = veil.Observer([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    limits = [veil.Probability("F three", max=1.0, labels={"three": [3]})]
    problem = veil.Problem(model, observer, veil.Trajectory(), 2, constraints=limits)
    found = observer_of(problem, Clock(20.0), bounds=(None, 1.0))
    assert found.witness.memory == "the whole history"
    assert found.known is not None
    assert found.upper <= found.known + 2e-3
