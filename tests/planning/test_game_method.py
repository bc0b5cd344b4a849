"""The game as a solver: a policy that can be played and evaluated, on the tree and by finite memory, never below ascent."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.record.planned import constrained
from veil.common.clock import Clock
from veil.game.refine import EnclosedGame
from veil.game.solve import GameResult
from veil.planning import game_method
from veil.planning.game_method import GameMethod, lasting, search_game
from veil.planning.options import SolveOptions
from veil.planning.solution import Solution, Status


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state"])
def test_on_the_tree(name):
    problem = veil.gallery.load(name, horizon=6).replace(min_return="80%")
    solution = search_game(problem, gap=5e-3, progress=False)
    assert solution.status is Status.CONVERGED
    assert isinstance(solution.proof, GameResult)
    assert solution.opacity.method == "exact"
    uniform = veil.MarkovPolicy.uniform(problem)
    assert solution.opacity.num_sequences == veil.opacity(problem, uniform, method="exact").num_sequences
    assert solution.upper_bits - solution.opacity.bits <= 5e-3
    assert veil.opacity(problem, solution.policy, method="exact").bits == pytest.approx(solution.opacity.bits, abs=1e-9)
    assert veil.expected_return(problem, solution.policy) == pytest.approx(solution.expected_return, abs=1e-9)
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    assert solution.needs_observations


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state"])
def test_by_finite_memory(name):
    problem = veil.gallery.load(name, horizon=40).replace(min_return="80%")
    solution = search_game(problem, gap=0.05, time_limit=30.0, progress=False)
    assert isinstance(solution.proof, EnclosedGame)
    assert isinstance(solution.policy, veil.HistoryPolicy)
    assert solution.policy.horizon == 40
    assert veil.expected_return(problem, solution.policy) == pytest.approx(solution.expected_return, abs=1e-9)
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    assert solution.opacity.lower <= solution.upper_bits


def test_a_policy_on_the_first_steps_is_made_one_for_all():
    problem = veil.gallery.load("paper-initial-state", horizon=7).replace(min_return=None)
    short = problem.replace(horizon=3)
    first = search_game(short, gap=1e-2, progress=False)
    assert isinstance(first.policy, veil.HistoryPolicy)
    policy = lasting(problem, first.policy)
    assert policy.horizon == 7
    assert lasting(short, first.policy) is first.policy
    # What comes later can only tell the observer more, and the return of the rest is the best from where the first ended.
    assert veil.opacity(problem, policy, method="exact").bits <= first.opacity.bits + 1e-9
    most = veil.max_return(problem)
    assert veil.expected_return(problem, policy) <= most + 1e-9
    run = policy.start(problem, seed=1)
    state, observation = problem.model.initial.nonzero()[0][0], problem.observer.emissions[0].argmax()
    assert run.act(int(state), int(observation)) >= 0


def test_an_iteration_limit_says_so():
    problem = veil.gallery.load("paper-initial-state", horizon=6)
    solution = search_game(problem.replace(min_return="50%"), gap=1e-9, iterations=5, progress=False)
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.iterations == 5


def frozen_lake() -> veil.Problem:
    """The 4×4 FrozenLake: a move goes ahead or to either side, a third each; holes and the goal end the walk."""
    ends, transitions = {5, 7, 11, 12, 15}, np.zeros((16, 4, 16))
    steps = ((0, -1), (1, 0), (0, 1), (-1, 0))
    for state in range(16):
        for action in range(4):
            for turn in (-1, 0, 1):
                (down, right), (row, column) = steps[(action + turn) % 4], divmod(state, 4)
                there = 4 * min(max(row + down, 0), 3) + min(max(column + right, 0), 3)
                transitions[state, action, state if state in ends else there] += 1 / 3
    transitions /= transitions.sum(axis=-1, keepdims=True)
    is_east = np.arange(16) % 4 >= 2
    seen = np.where(is_east[:, None], [0.1, 0.9], [0.9, 0.1])
    terminal = (np.arange(16) == 15).astype(float)
    model = veil.Model(transitions, np.zeros((16, 4)), np.eye(16)[0], terminal_rewards=terminal)
    return veil.Problem(model, veil.Observer(seen), veil.LastState({5, 7, 11, 12}), 7, min_return="60%")


def both(problem: veil.Problem, **limits: Any) -> tuple[veil.Solution, veil.Solution]:
    plain: dict[str, Any] = {"certificate": False, "progress": False} | limits
    own = {name: value for name, value in plain.items() if name != "gap"}
    return veil.solve(problem, "game", "history", **plain), veil.solve(problem, "ascent", "timed", **own)


@pytest.mark.parametrize("limits", [{"iterations": 4, "gap": 1e-9}, {"iterations": 12, "time_limit": 1e5}])
@pytest.mark.parametrize("name", [*range(6), "lake"])
def test_the_game_is_not_below_ascent_at_the_same_limit(name, limits):
    problem = frozen_lake() if name == "lake" else random_problem(name)
    game, ascent = both(problem, **limits)
    assert game.feasible
    assert game.opacity.bits >= ascent.opacity.bits - 1e-6
    assert game.upper_bits >= game.opacity.bits - 1e-9
    assert veil.opacity(problem, game.policy, method="exact").bits == pytest.approx(game.opacity.bits, abs=1e-9)
    assert game.needs_observations == isinstance(game.policy, veil.HistoryPolicy)
    assert ("found by ascent" in game.policy_class) != isinstance(game.policy, veil.HistoryPolicy)
    assert game.method == "game"


def test_under_a_time_limit_the_policy_is_not_evaluated_anew(monkeypatch):
    problem = frozen_lake()
    free = search_game(problem, iterations=6, gap=1e-9, progress=False)

    def evaluated(*arguments):
        raise AssertionError("a policy on the tree was evaluated anew")

    calls, plain = [], veil.expected_return
    monkeypatch.setattr(game_method, "expected_return", lambda *given: calls.append(1) or plain(*given))
    search_game(random_problem(3), iterations=2, gap=1e-9, progress=False)
    assert len(calls) == 1
    monkeypatch.setattr(game_method, "expected_return", evaluated)
    limited = search_game(problem, iterations=6, gap=1e-9, time_limit=100.0, progress=False)
    assert limited.policy == free.policy
    assert limited.feasible
    assert limited.expected_return == pytest.approx(free.expected_return, rel=1e-12)


def test_some_answer_of_a_limited_game_is_that_of_ascent():
    game, ascent = both(random_problem(3), iterations=4, gap=1e-9)
    assert game.opacity.bits == ascent.opacity.bits
    assert game.status is Status.ITERATION_LIMIT
    assert "the best known is one of time-dependent policies, found by ascent" in game.summary()
    assert game.detail.startswith("the game's own policy hides 0.")
    assert veil.certify(random_problem(3), game.policy, 5.0, game=game.proof).upper >= game.opacity.bits


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e12), (1e-12, 1.0)])
@pytest.mark.parametrize("seed", [0, 4])
def test_the_largest_return_of_any_scale_is_met_as_by_ascent(seed, scale, offset):
    problem = random_problem(seed)
    model = problem.model
    moved = veil.Model(
        model.transitions,
        scale * model.rewards + offset,
        model.initial,
        terminal_rewards=scale * model.terminal_rewards,
    )
    problem = problem.replace(model=moved, min_return=None)
    problem = problem.replace(min_return=veil.max_return(problem))
    assert not search_game(problem, iterations=4, progress=False).feasible
    game, ascent = both(problem, iterations=4)
    assert ascent.feasible
    assert game.feasible
    assert game.status is not Status.INFEASIBLE
    assert game.opacity.bits >= ascent.opacity.bits - 1e-6
    assert veil.certify(problem, game.policy, 0.0).feasible


@pytest.mark.parametrize("sees_actions", [False, True])
@pytest.mark.parametrize(("count", "constraints"), [(1, ()), (2, ()), (1, (veil.Probability("F s1", 0.1),))])
def test_after_the_first_steps_a_lasting_policy_earns_the_most_from_where_these_end(sees_actions, count, constraints):
    """Its return is that of the first steps with the largest return of the rest as their terminal rewards.

    A formula of a constraint has a memory of its own, on which the largest return of the rest does not depend.
    """
    moves = np.random.default_rng(1).dirichlet(np.ones(3), size=(2, 3, 2))
    rewards, last = np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 1.0]]), np.array([1.0, 0.0, 2.0])

    def problem(ends: list[np.ndarray], horizon: int) -> veil.Problem:
        """With one model, or with two, of which the agent knows which runs."""
        observer = veil.Observer(np.random.default_rng(5).dirichlet([0.5, 0.5], size=3), sees_actions=sees_actions)
        models = [
            veil.Model(moves[one], rewards * (1 - 2 * one), [0.2, 0.3, 0.5], 0.9, terminal_rewards=ends[one])
            for one in range(count)
        ]
        secret = veil.StateAt(1, {0}) if count == 1 else veil.WhichModel([0.4, 0.6], agent_knows=True)
        model = models[0] if count == 1 else models
        return veil.Problem(model, observer, secret, horizon, constraints=constraints)

    whole, rests = problem([last] * 2, 5), [last, last]
    assert len(whole.secret_table.memory_names) == 1 + len(constraints)
    for _ in range(3):
        rests = [np.max(rewards * (1 - 2 * one) + 0.9 * moves[one] @ rest, axis=1) for one, rest in enumerate(rests)]
    short = problem(rests, 2)
    first = search_game(problem([np.zeros(3)] * 2, 2), gap=1e-2, progress=False).policy
    assert isinstance(first, veil.HistoryPolicy)
    policy = lasting(whole, first)
    assert policy.horizon == 5
    assert veil.expected_return(whole, policy) == pytest.approx(veil.expected_return(short, first), abs=1e-12)
    assert [one.shape for one in policy.following[2:]] == [(1, 4 if sees_actions else 2)] * 3


class Played:
    """What a limited game is asked for and answers, with stand-ins for the game and for the ascent."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, game: dict[str, Any], ascent: "dict[str, Any] | BaseException | None"
    ):
        self.asked, self.limits = list[dict[str, Any]](), list[float]()
        self.base = search_game(random_problem(3), gap=0.5, progress=False)
        self.other = veil.solve(random_problem(3), memory="timed", iterations=0, certificate=False, progress=False)
        self.game, self.ascent = game, ascent
        monkeypatch.setattr(game_method, "search_game", self._search)
        monkeypatch.setattr(game_method, "_by_ascent", self._climb)

    def answer(self, base: Solution, changes: dict[str, Any]) -> Solution:
        bits = changes.get("bits", 0.5)
        hidden = replace(base.opacity, bits=bits, lower=bits, upper=bits)
        return replace(base, opacity=hidden, **{name: value for name, value in changes.items() if name != "bits"})

    def _search(self, problem: veil.Problem, **given: Any) -> Solution:
        self.asked.append(given)
        return self.answer(self.base, self.game)

    def _climb(self, problem: veil.Problem, options: SolveOptions, seconds: float) -> Solution | None:
        self.limits.append(seconds)
        if isinstance(self.ascent, BaseException):
            raise self.ascent
        return None if self.ascent is None else self.answer(self.other, self.ascent)

    def solve(self, **options: Any) -> Solution:
        return GameMethod().solve(random_problem(3), SolveOptions(method="game", memory="history", **options))


def test_a_game_and_the_ascent_beside_it_share_a_time_limit(monkeypatch):
    played = Played(monkeypatch, {"status": Status.CONVERGED}, None)
    found = played.solve(time_limit=4000.0, gap=0.25, iterations=17)
    assert played.asked[0]["time_limit"] == 3000.0
    assert (played.asked[0]["gap"], played.asked[0]["iterations"], played.asked[0]["hide"]) == (0.25, 17, ("own",))
    assert played.limits == [1000.0]
    assert found.status is Status.CONVERGED


def test_a_game_that_reaches_its_gap_without_a_limit_is_the_answer(monkeypatch):
    played = Played(monkeypatch, {"status": Status.CONVERGED}, None)
    assert played.solve().status is Status.CONVERGED
    assert (played.asked[0]["time_limit"], played.limits) == (None, [])
    played = Played(monkeypatch, {"status": Status.ITERATION_LIMIT}, None)
    played.solve()
    assert played.limits == [150.0]  # a quarter of ten minutes
    for limit in (None, 5.0):
        played = Played(monkeypatch, {"status": Status.INTERRUPTED}, None)
        assert played.solve(time_limit=limit).status is Status.INTERRUPTED
        assert played.limits == []
    played = Played(monkeypatch, {"status": Status.TIME_LIMIT}, KeyboardInterrupt())
    assert played.solve().status is Status.INTERRUPTED


@pytest.mark.parametrize(
    ("game", "ascent", "status", "is_game"),
    [
        ({"bits": 0.6}, {"bits": 0.5}, Status.TIME_LIMIT, True),
        ({"bits": 0.5}, {"bits": 0.5}, Status.TIME_LIMIT, True),
        ({"bits": 0.4}, {"bits": 0.5}, Status.TIME_LIMIT, False),
        ({"bits": 0.6}, {"bits": 0.5, "status": Status.INTERRUPTED}, Status.INTERRUPTED, True),
        ({"bits": 0.4}, {"bits": 0.5, "status": Status.INTERRUPTED}, Status.INTERRUPTED, False),
        ({"bits": 0.6, "feasible": False}, {"bits": 0.5, "status": Status.CONVERGED}, Status.CONVERGED, False),
    ],
)
def test_the_better_of_both_answers_is_given(monkeypatch, game, ascent, status, is_game):
    played = Played(monkeypatch, {"status": Status.TIME_LIMIT, "iterations": 9} | game, ascent)
    found = played.solve(time_limit=4000.0)
    assert found.status is status
    assert found.opacity.bits == (game if is_game else ascent)["bits"]
    assert found.policy is (played.base if is_game else played.other).policy
    assert (found.upper_bits, found.proof, found.iterations) == (played.base.upper_bits, played.base.proof, 9)
    assert found.method == "game"
    if not is_game:
        own = "hides 0.400000" if game.get("feasible", True) else "does not meet the constraints"
        assert found.detail.startswith(f"the game's own policy {own}")
        assert found.policy_class.endswith("found by ascent")


def test_an_ascent_beside_a_game_is_one_of_time_dependent_policies_and_may_fail(monkeypatch):
    given: list[SolveOptions] = []

    class Failing:
        def solve(self, problem: veil.Problem, options: SolveOptions) -> Solution:
            given.append(options)
            raise veil.TooLargeError("too large")

    monkeypatch.setattr(game_method.METHODS, "get", lambda name: {"ascent": Failing}[name])
    options = SolveOptions(method="game", memory="history", gap=0.1, seed=3)
    assert game_method._by_ascent(random_problem(3), options, 7.0) is None
    assert given == [replace(options, method="ascent", memory="timed", gap=None, time_limit=7.0)]
    with pytest.raises(veil.TooLargeError, match="too large"):
        game_method._instead(random_problem(3), options, veil.TooLargeError("the tree"))
    assert given[1] == replace(options, method="ascent", memory="timed", gap=None)


def test_an_answer_that_is_not_feasible_is_none_beside_a_game():
    problem = random_problem(3)
    problem = problem.replace(min_return=veil.max_return(problem))
    options = SolveOptions(method="game", memory="history", iterations=0)
    found = game_method._by_ascent(problem, options, 60.0)
    assert found is None or found.feasible
    easy = game_method._by_ascent(problem.replace(min_return=None), options, 60.0)
    assert easy is not None
    assert easy.policy_class == "time-dependent policies"


def test_over_an_infinite_horizon_a_lasting_policy_takes_the_action_that_is_best_forever():
    """Waiting pays 0.2 each time, moving nothing once and 0.5 each time after it: at the last time less, forever more."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, :, 1] = 1
    model = veil.Model(transitions, [[0.2, 0.0], [0.5, 0.5]], [0.5, 0.5], 0.9)
    observer = veil.Observer(np.array([[0.75, 0.25], [0.25, 0.75]]))
    problem = veil.Problem(model, observer, veil.StateAt(0, {0}), 3, return_over="infinite")
    first = search_game(problem.replace(horizon=1, return_over="horizon"), gap=0.1, progress=False).policy
    assert isinstance(first, veil.HistoryPolicy)
    policy = lasting(problem, first)
    assert policy.horizon == 3
    for decisions in policy.decisions[1:]:
        rows = decisions.probabilities[decisions.situation % 2 == 0]
        assert rows.tolist() == [[0.0, 1.0]] * len(rows)
    ends = lasting(problem.replace(horizon=4, return_over="horizon"), first)
    for decisions, best in zip(ends.decisions[1:], ([0.0, 1.0], [0.0, 1.0], [1.0, 0.0]), strict=True):
        rows = decisions.probabilities[decisions.situation % 2 == 0]
        assert rows.tolist() == [best] * len(rows)


@pytest.mark.parametrize(("left", "given"), [(0.5, 2.0), (11.0, 11.0), (50.0, 20.0)])
def test_a_policy_is_measured_in_the_time_that_is_left_between_two_and_twenty_seconds(
    left: float, given: float, monkeypatch: pytest.MonkeyPatch
):
    found: list[float] = []
    monkeypatch.setattr(game_method, "opacity", lambda *_, time_limit: found.append(time_limit))
    policy: Any = None
    game_method._own_opacity(random_problem(3), policy, Clock(left, now=lambda: 0.0))
    assert found == [given]


@pytest.mark.parametrize("upper", [0.0625, 9.0])
def test_a_policy_that_there_is_no_time_to_measure_hides_between_nothing_and_the_least_bound(
    upper: float, monkeypatch: pytest.MonkeyPatch
):
    problem = random_problem(3).replace(min_return=None)
    game = search_game(problem, gap=0.5, progress=False).proof
    assert isinstance(game, GameResult)

    def late(*_: object) -> None:
        raise veil.TooLargeError("no time")

    monkeypatch.setattr(game_method, "_own_opacity", late)
    found = game_method._measured(problem, game, (upper, "whole horizon", game), "words", Clock())
    prior = game_method._prior_bits(problem, game)
    assert 0.0625 < prior < 9.0
    hidden = found.opacity
    assert (hidden.bits, hidden.lower, hidden.upper, hidden.prior_bits) == (0.0, 0.0, min(upper, prior), prior)
    assert (hidden.method, hidden.num_sequences, found.upper_bits) == ("bracket", 0, upper)


class Asked(Exception):
    """Raised by a stand-in for a game, with its name and what it was given."""

    def __init__(self, name: str, given: dict[str, Any]):
        self.name, self.given = name, given


def asked(monkeypatch: pytest.MonkeyPatch, problem: veil.Problem, fits: bool = True, **options: Any) -> Asked:
    """The game that a search plays, and what it is given."""

    def stand_in(name: str, large: bool = False) -> Any:
        def play(*_: object, **given: Any) -> None:
            raise veil.TooLargeError("no tree") if large else Asked(name, given)

        return play

    for name in ("solve_pairs", "enclose_path_game", "enclose_constrained_game", "enclose_game"):
        monkeypatch.setattr(game_method, name, stand_in(name))
    monkeypatch.setattr(game_method, "solve_game", stand_in("solve_game", large=not fits))
    with pytest.raises(Asked) as found:
        search_game(problem, progress=False, **options)
    return found.value


@pytest.mark.parametrize(("gap", "iterations"), [(None, None), (0.25, 7)])
@pytest.mark.parametrize(("hide", "game"), [
    (("own",), "solve_game"), (("own", "other"), "solve_pairs"), (("other",), "solve_game"),
])  # fmt: skip
def test_several_observers_play_one_game_and_a_single_one_its_own(
    monkeypatch: pytest.MonkeyPatch, hide: tuple[str, ...], game: str, gap: float | None, iterations: int | None
):
    problem = random_problem(3)
    sharp = veil.Observer(np.eye(problem.num_states))
    found = asked(
        monkeypatch, problem.replace(pairs=[veil.Pair("other", sharp)]), hide=hide, gap=gap, iterations=iterations
    )
    assert found.name == game
    assert (found.given["gap"], found.given["iterations"]) == (gap or 1e-3, iterations or 10_000)


@pytest.mark.parametrize(("gap", "limit"), [(None, None), (0.25, 30.0)])
@pytest.mark.parametrize("kind", ["enclose_game", "enclose_constrained_game", "enclose_path_game"])
def test_where_the_tree_does_not_fit_a_game_by_finite_memory_is_played_for_ten_minutes_or_the_limit(
    monkeypatch: pytest.MonkeyPatch, kind: str, gap: float | None, limit: float | None
):
    problem = random_problem(3)
    if kind == "enclose_constrained_game":
        problem = constrained()
    if kind == "enclose_path_game":
        problem = problem.replace(secret=veil.Trajectory())
    found = asked(monkeypatch, problem, fits=False, gap=gap, time_limit=limit)
    assert found.name == kind
    assert found.given["gap"] == (gap or 0.05)
    assert found.given["clock"].time_limit == (limit or 600.0)


@pytest.mark.parametrize(("windows", "refined", "chosen"), [
    (0.3, None, 0), (None, 0.3, 1), (0.3, 0.2, 0), (0.2, 0.3, 1), (0.3, 0.3, 0),
])  # fmt: skip
@pytest.mark.parametrize("upper", [0.4, 9.0])
def test_of_two_enclosures_the_policy_for_which_more_is_proven_is_taken(
    monkeypatch: pytest.MonkeyPatch, windows: float | None, refined: float | None, chosen: int, upper: float
):
    problem = random_problem(3).replace(min_return=None)
    games = [search_game(problem, gap=gap, progress=False).proof for gap in (0.5, 0.01)]
    monkeypatch.setattr(game_method, "_solution", lambda *given: given)
    one: Any = None if windows is None else SimpleNamespace(
        lower=windows, upper=upper, problem=problem, revealing=games[0], stopped="a"
    )  # fmt: skip
    two: Any = None if refined is None else SimpleNamespace(lower=refined, upper=upper, best=games[1], stopped="b")
    enclosed = EnclosedGame(one, two)
    found: Any = game_method._from_enclosure(problem, enclosed, Clock())
    _, result, policy, hidden, bound, _, _ = found
    game: Any = games[chosen]
    assert result is game
    assert policy == game.policy(problem)
    prior = game_method._prior_bits(problem, game)
    assert (hidden.bits, hidden.lower, hidden.upper, hidden.prior_bits) == (0.3, 0.3, min(upper, prior), prior)
    assert (hidden.method, hidden.num_sequences) == ("bracket", 0)
    assert bound == (upper, enclosed.stopped, enclosed)


def test_a_lasting_policy_forgets_what_happened_and_events_that_cannot_happen_stay_so():
    """The observer sees the state, and a move goes one way round: of three events one cannot follow."""
    moves = np.zeros((3, 2, 3))
    for state in range(3):
        moves[state, 0, state] = moves[state, 1, (state + 1) % 3] = 1
    model = veil.Model(moves, np.zeros((3, 2)), np.full(3, 1 / 3))
    problem = veil.Problem(model, veil.Observer(np.eye(3)), veil.StateAt(0, {0}), 4)
    first = search_game(problem.replace(horizon=2), gap=0.5, progress=False).policy
    assert isinstance(first, veil.HistoryPolicy)
    policy = lasting(problem, first)
    last = first.following[-1]
    assert (last < 0).any()
    assert (last > 0).any()
    np.testing.assert_array_equal(policy.following[1], np.where(last < 0, -1, 0))
    np.testing.assert_array_equal(policy.following[0], first.following[0])
    for later in policy.following[2:]:
        np.testing.assert_array_equal(later, np.zeros((1, last.shape[1])))


@pytest.mark.parametrize("more", [-0.25, 0.0, 0.25])
def test_a_game_that_was_played_for_more_return_bounds_policies_with_less_by_its_price(more: float):
    problem = random_problem(3)
    game: Any = search_game(problem, gap=0.1, progress=False).proof
    assert isinstance(problem.min_return, float)
    played = replace(game, threshold=problem.min_return + more, multiplier=0.5)
    hidden = veil.Opacity(0.25, 0.25, 0.25, 1.0, "exact", 1)
    policy = game.policy(problem)
    found = game_method._solution(problem, played, policy, hidden, (0.5, "iterations", played), "words", Clock())
    assert found.upper_bits == pytest.approx(0.5 + 0.5 * max(0.0, more))
    both: Any = SimpleNamespace(bounds=lambda: [(played, 0.0), (replace(played, multiplier=0.75), 0.0)])
    found = game_method._solution(problem, played, policy, hidden, (0.5, "iterations", both), "words", Clock())
    assert found.upper_bits == pytest.approx(0.5 + 0.75 * max(0.0, more))
    free = problem.replace(min_return=None)
    found = game_method._solution(free, played, policy, hidden, (0.5, "iterations", played), "words", Clock())
    assert (found.upper_bits, found.threshold) == (0.5, None)
    plain = replace(played, threshold=None)
    found = game_method._solution(problem, plain, policy, hidden, (0.5, "iterations", plain), "words", Clock())
    assert found.upper_bits == 0.5


@pytest.mark.parametrize(("constraints", "is_plan"), [((), True), ((veil.Probability("F s1", 0.01),), False)])
def test_a_policy_that_acts_on_more_than_the_agent_knows_is_called_a_bound(constraints: tuple[Any, ...], is_plan: bool):
    """The agent of a formula does not know how far the formula has come."""
    problem = random_problem(3).replace(min_return=None, constraints=constraints)
    found = search_game(problem, gap=0.1, progress=False)
    assert isinstance(found.policy, veil.HistoryPolicy)
    assert found.policy.executable == is_plan
    assert ("it is a bound, not a plan" in found.detail) != is_plan


def test_a_game_of_one_observer_that_does_not_fit_is_refused_and_not_left_to_ascent(monkeypatch: pytest.MonkeyPatch):
    def search(problem: veil.Problem, **_: Any) -> Solution:
        raise veil.TooLargeError("no automaton fits")

    monkeypatch.setattr(game_method, "search_game", search)
    monkeypatch.setattr(game_method, "_instead", lambda *given: "ascent")
    problem = random_problem(3).replace(pairs=[veil.Pair("other", veil.Observer(np.eye(random_problem(3).num_states)))])
    for hide in ("own", "other"):
        options = SolveOptions(method="game", memory="history", hide=hide)
        with pytest.raises(veil.TooLargeError, match="no automaton fits"):
            GameMethod().solve(problem, options)
    both: Any = GameMethod().solve(problem, SolveOptions(method="game", memory="history", hide="own, other"))
    assert both == "ascent"
