"""When the turns of automata begin and end, with games whose bounds, times and measured policies are given."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import veil
from veil.common.clock import Clock, Progress, Stop
from veil.game import path_windows, refine, several, windows
from veil.game.clusters import OpacityBound
from veil.game.refine import BestGames, _Rounds, enclose_game, refine_game
from veil.game.several import _Automata, enclose_constrained_game
from veil.game.solve import solve_game

Given = tuple[float, float, str]  # a game's upper bound, the seconds it takes, and why it stopped


class Now:
    """A time source that stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def game(upper: float, seconds: float = 0.0, stopped: str = "gap reached", lower: float = 0.0) -> Any:
    graph = SimpleNamespace(sizes=(1, 7, 3), kind="")
    return SimpleNamespace(
        upper=upper, lower=lower, seconds=seconds, stopped=stopped, multiplier=2.0, pairs=None, tables=(), graph=graph
    )


class Script:
    """Rounds of a refined game whose parts only say what they were asked for; `log` is that, in order."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        games: Sequence[Any] = (),
        lifted: Sequence[tuple[float, float]] = (),  # bits proven, and on the graph
        measured: Sequence[float] = (),
        *,
        gap: float = 0.01,
        known: tuple[float, float] = (0.0, math.inf),
        limit: float | None = None,
        lifting_takes: float = 0.0,
    ):
        self.now, self.log, self.told = Now(), list[Any](), list[Progress]()
        self.clock = Clock(limit, progress=self.told.append, now=self.now)
        problem = veil.gallery.load("paper-last-state", horizon=3).replace(min_return=None)
        self.rounds = _Rounds(problem, None, gap, 2**20, known, None)
        self._games, self._lifted, self._measured = iter(games), iter(lifted), iter(measured)
        self._lifting_takes = lifting_takes
        monkeypatch.setattr(self.rounds, "play", self._play)
        monkeypatch.setattr(self.rounds, "measure", self._measure)
        self._last: Any = None
        for name, found in {
            "AgentProblem": lambda *_: SimpleNamespace(pairs=SimpleNamespace(hidden=None)),
            "clustered_graph": self._clustered,
            "redirected_graph": lambda *_: self._graph("redirected"),
            "make_pairs": lambda *_, **__: None,
            "make_arrivals": lambda *_: (),
            "lift": self._lift,
            "game_of_policy": self._of_policy,
        }.items():
            monkeypatch.setattr(refine, name, found)

    def _graph(self, kind: str) -> Any:
        return SimpleNamespace(memory=SimpleNamespace(kind=kind), moved=lambda *_: ())

    def _clustered(self, agent: Any, tables: Any, nodes: int, clock: Clock) -> Any:
        return self._graph(f"{nodes} clusters")

    def _play(self, memory: Any, clock: Clock, share: float, near: Any = None) -> Any:
        found = next(self._games)
        self.log.append(memory.kind)
        self.now.seconds += found.seconds
        self.rounds.take(found)
        return found

    def _measure(self, result: Any, clock: Clock) -> None:
        bits = next(self._measured)
        self.log.append("measured")
        if bits > self.rounds.lower.bits:
            self.rounds.lower, self.rounds.best = OpacityBound(bits, 0.0, 1), result

    def _lift(self, agent: Any, tables: Any, threshold: Any, multiplier: Any, iterations: int, turn: Clock) -> Any:
        self.now.seconds += self._lifting_takes
        self._last = next(self._lifted)
        self.log.append("lifted")
        return SimpleNamespace(bits=self._last[0], point=None)

    def _of_policy(self, agent: Any, point: Any, like: Any, threshold: Any) -> Any:
        return game(like.upper, like.seconds, like.stopped, lower=self._last[1])

    def run(self, nodes: int = 4, most_nodes: int = 4) -> str:
        return self.rounds.ended(lambda: self.rounds.run(nodes, most_nodes, self.clock))


# A whole refinement.


def test_no_turn_is_played_where_the_first_game_suffices(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [game(0.5)], measured=[0.25], gap=0.25)
    assert script.run() == "gap reached"
    assert script.log == ["the last event", "measured"]
    assert [(one.opacity_bits, one.upper_bits, one.iteration, one.of) for one in script.told] == [(0.25, 0.5, 7, 4)]


@pytest.mark.parametrize("reason", [Stop.REQUESTED, Stop.INTERRUPTED])
def test_what_ends_a_game_by_the_caller_ends_all(monkeypatch: pytest.MonkeyPatch, reason: Stop):
    script = Script(monkeypatch, [game(0.5, stopped=str(reason))])
    assert script.run() == reason
    assert script.log == ["the last event"]
    script = Script(monkeypatch, [game(0.5), game(0.4, stopped=str(reason))], measured=[0.1])
    assert script.run() == reason
    assert script.log == ["the last event", "measured", "4 clusters"]


def test_the_first_policy_is_measured_unless_a_lower_bound_is_known(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [game(0.5)], gap=0.05, known=(0.25, 0.3))
    assert script.run() == "gap reached"
    assert script.log == ["the last event"]
    assert (script.told[0].opacity_bits, script.told[0].upper_bits) == (0.25, 0.3)  # the better of each


def test_turns_end_with_the_nodes(monkeypatch: pytest.MonkeyPatch):
    """As many as are allowed are played; half as many more would be too many, and the clock is looked at before each."""
    games = [game(0.9), game(0.8), game(0.79)]
    script = Script(monkeypatch, games, [(0.2, 0.3)], [0.1, 0.2, 0.25])
    assert script.run(4, 4) == "nodes"
    assert script.log == ["the last event", "measured", "4 clusters", "redirected", "lifted", "measured"]
    assert script.rounds.lower.bits == 0.2
    assert Script(monkeypatch, games, measured=[0.1]).run(5, 4) == "nodes"
    late = Script(monkeypatch, [game(0.9, seconds=2.0)], measured=[0.1], limit=1.0)
    assert late.run() == "time limit"
    assert late.log == ["the last event", "measured"]


def test_no_policy_is_lifted_where_the_bound_closes_the_gap(monkeypatch: pytest.MonkeyPatch):
    script = Script(monkeypatch, [game(0.9), game(0.3)], measured=[0.1], gap=0.2)
    assert script.run() == "gap reached"
    assert script.log == ["the last event", "measured", "4 clusters"]


# The turn of the observer.


@pytest.mark.parametrize(
    ("uppers", "best", "played"),
    [
        ([0.9, 0.8, 0.75, 0.1], 2, 3),  # falls by 0.1 of 0.8 open bits, then by 0.05 of 0.75: less than a tenth
        ([0.9, 0.8, 0.85, 0.1], 1, 3),  # rises
        ([0.9, 0.7, 0.5, 0.49, 0.1], 3, 4),
        ([0.9, 0.95, 0.1], 0, 2),
    ],
)
def test_events_are_redirected_while_the_bound_falls(
    monkeypatch: pytest.MonkeyPatch, uppers: list[float], best: int, played: int
):
    games = [game(upper) for upper in uppers]
    script = Script(monkeypatch, games)
    found = script.rounds.bound(script._graph("clusters"), game(1.0), 8, script.clock)
    assert found is games[best]
    assert script.log == ["clusters", *["redirected"] * (played - 1)]
    assert [one.upper_bits for one in script.told] == [min(uppers[: n + 1]) for n in range(played)]


def test_the_turn_of_the_observer_ends_at_the_gap_or_with_the_caller(monkeypatch: pytest.MonkeyPatch):
    first, wanted = game(0.9), game(0.5)
    script = Script(monkeypatch, [first, wanted], gap=0.5)
    assert script.rounds.bound(script._graph("a"), game(1.0), 8, script.clock) is wanted
    asked = game(0.8, stopped=str(Stop.REQUESTED))
    script = Script(monkeypatch, [asked, first])
    assert script.rounds.bound(script._graph("a"), game(1.0), 8, script.clock) is asked


@pytest.mark.parametrize(("limit", "played"), [(5.75, 1), (6.25, 2)])
def test_a_round_is_not_begun_that_would_pass_the_turn(monkeypatch: pytest.MonkeyPatch, limit: float, played: int):
    """A turn is half of what is left; after a first game of 2 s the next takes 3 s or more, as 6 s leave in theirs."""
    script = Script(monkeypatch, [game(0.9, 1.25), game(0.5, 1.25), game(0.1, 1.25)], limit=limit)
    script.rounds.bound(script._graph("a"), game(1.0), 8, script.clock)
    assert len(script.log) == played


# The turn of the agent.


@pytest.mark.parametrize(
    ("bits", "nodes", "after"),
    [
        ([0.2, 0.4, 0.5], [4, 5, 7], 9),  # gains 0.2 of 0.6 open bits, then 0.1 of 0.5: less than a quarter
        ([0.2, 0.1], [4, 5], 7),
        ([0.2, 0.4, 0.6, 0.9], [4, 5, 7, 9], 12),
    ],
)
def test_a_policy_is_lifted_on_more_clusters_while_that_gains(
    monkeypatch: pytest.MonkeyPatch, bits: list[float], nodes: list[int], after: int
):
    """Measured where no further lifting follows, and the best that is proven counts."""
    script = Script(monkeypatch, lifted=[(one, one - 0.5) for one in bits], measured=[0.0] * 9)
    script.rounds.take(game(1.0))
    seen = list[int]()
    monkeypatch.setattr(refine, "clustered_graph", lambda a, t, n, c: seen.append(n) or script._graph("x"))
    result, more = script.rounds.lift(game(1.0), 4, 11, script.clock)
    assert seen == nodes
    assert more == after
    assert script.log == ["lifted"] * len(nodes) + ["measured"]
    assert result.lower == bits[len(nodes) - 1] - 0.5
    assert script.rounds.lower.bits == max(bits[: len(nodes)])
    assert script.rounds.lower.lost_bits == pytest.approx(-0.5)


def test_lifting_ends_at_the_gap(monkeypatch: pytest.MonkeyPatch):
    """Where the policy hides enough on its graph it is measured, since only then can measuring close the gap."""
    script = Script(monkeypatch, lifted=[(0.2, 0.55), (0.45, 0.75), (0.9, 0.9)], measured=[0.75], gap=0.25)
    script.rounds.take(game(1.0))
    script.rounds.lift(game(1.0), 4, 99, script.clock)
    assert script.log == ["lifted", "lifted", "measured"]
    assert script.rounds.lower.bits == 0.75


@pytest.mark.parametrize(("limit", "lifted"), [(3.5, 1), (4.5, 2), (7.5, 3)])
def test_lifting_ends_where_the_next_would_pass_the_turn(monkeypatch: pytest.MonkeyPatch, limit: float, lifted: int):
    """A turn is half of what is left, and a round of lifting takes as long as the one before: here 1 s."""
    bits = [(0.3, 0.0), (0.6, 0.0), (0.9, 0.0), (0.99, 0.0)]
    script = Script(monkeypatch, lifted=bits, measured=[0.0] * 4, limit=limit, lifting_takes=1.0)
    script.rounds.take(game(1.0))
    script.rounds.lift(game(1.0), 4, 99, script.clock)
    assert script.log.count("lifted") == lifted


# The best of all games.


def test_bounds_count_at_once_and_policies_when_they_are_measured(monkeypatch: pytest.MonkeyPatch):
    best = BestGames()
    games = [game(0.8), game(0.9), game(0.7)]
    for one in games:
        best.take(one)
    assert best.bounding is games[2]
    assert best.best is games[0]
    bits = iter([0.3, 0.2, 0.4])
    monkeypatch.setattr(refine, "opacity_lower_bound", lambda *_, **__: OpacityBound(next(bits), 0.125, 5))
    for one in games:
        best.measure(one, Clock())
    assert best.best is games[2]
    found = best.found(3.0, "time limit")
    assert (found.lower, found.upper, found.lost_bits, found.seconds) == (0.4, 0.7, 0.125, 3.0)
    assert found.gap == 0.7 - 0.4
    assert found.bounds() == [(games[2], 0.4)]
    assert BestGames().lower == OpacityBound(0.0, 0.0, 0)


# Automata under several constraints.


@pytest.mark.parametrize(
    ("uppers", "memories"),
    [
        ([0.9, 0.5, 0.48, 0.05], ["the last event", "redirected", "redirected", "the last 2 events"]),
        ([0.9, 0.91, 0.92, 0.0625], ["the last event", "redirected", "the last 2 events", "the last 3 events"]),
    ],
)
def test_an_event_more_is_remembered_where_redirecting_closes_little(
    monkeypatch: pytest.MonkeyPatch, uppers: list[float], memories: list[str]
):
    games, log = iter(uppers), list[str]()
    monkeypatch.setattr(several, "make_pairs", lambda hidden, memory, *_, **__: log.append(memory.kind))
    monkeypatch.setattr(several, "solve_game", lambda *_, **__: game(next(games)))
    monkeypatch.setattr(refine, "opacity_lower_bound", lambda *_, **__: OpacityBound(0.03125, 0.0, 1))
    monkeypatch.setattr(_Automata, "redirected", lambda *_: SimpleNamespace(kind="redirected"))
    problem = veil.gallery.load("paper-last-state", horizon=3)
    found = enclose_constrained_game(problem, gap=0.03125, clock=Clock())
    assert log == memories
    assert (found.lower, found.upper, found.stopped) == (0.03125, uppers[-1], "gap reached")


def test_an_enclosure_without_time_gives_the_game_without_memory():
    problem = veil.gallery.load("paper-last-state", horizon=4).replace(min_return="40%")
    found = enclose_constrained_game(problem, clock=Clock(1e-7, now=Now()))  # over before a graph is made
    assert found.refined is not None
    assert found.refined.bounding.graph.kind == "the last 0 events"
    assert found.stopped == "time limit"
    assert 0 <= found.lower <= found.upper <= 1.0 + 1e-12


# The time of games.


@pytest.mark.parametrize("module", [refine, windows, several, path_windows])
def test_no_game_is_given_more_time_than_is_left(monkeypatch: pytest.MonkeyPatch, module: Any):
    """Here each takes a second, and no other work takes any."""
    now, shares, gaps = Now(), list[float](), list[float]()
    clock = Clock(20.0, now=now)

    def solved(problem: veil.Problem, **given: Any) -> Any:
        gaps.append(given["gap"])
        shares.append(given["clock"].left / clock.left)
        now.seconds += 1.0
        quick: dict[str, Any] = given | {"clock": Clock(0.0)}
        return solve_game(problem, **quick)

    monkeypatch.setattr(module, "solve_game", solved)
    problem = veil.gallery.load("paper-last-state", horizon=4).replace(min_return="60%")
    if module is refine:
        refine_game(problem, gap=1e-3, nodes=2, most_nodes=2, clock=clock)
        refine_game(problem, gap=1e-3, known=(0.5, 0.5), clock=clock)
    elif module is windows:
        windows.solve_window_game(problem, gap=1e-3, clock=clock)
    elif module is several:
        enclose_constrained_game(problem, gap=1e-3, clock=clock)
    else:
        path_windows.enclose_path_game(problem.replace(secret=veil.Trajectory()), gap=1e-3, clock=clock)
    assert len(shares) > 1
    assert all(0 < share <= 1 for share in shares)
    assert 0 < min(gaps) <= max(gaps) <= 0.5  # of a game: never none, and no more than helps
    assert min(gaps) < 1e-3 or module is several  # less than what is asked for of all together


def test_windows_get_a_part_of_the_time_of_an_enclosure(monkeypatch: pytest.MonkeyPatch):
    shares = list[float]()
    clock = Clock(20.0, now=Now())

    def solved(*_: Any, **given: Any) -> Any:
        shares.append(given["clock"].left / clock.left)
        return SimpleNamespace(gap=0.0)

    monkeypatch.setattr(refine, "solve_window_game", solved)
    enclose_game(veil.gallery.load("paper-last-state", horizon=4), clock=clock)
    assert 0 < shares[0] < 1
