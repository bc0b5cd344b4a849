"""The game: bounds that close, agreement with a general convex solver, and no policy above the bound."""

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, labels, small
from tests.game.plain_game import PlainGame, everything, last
from tests.game.test_limits import yard
from tests.random_problems import to_policy
from tests.seeds import in_blocks, looped
from veil.common.clock import Clock, Progress
from veil.common.errors import InfeasibleError
from veil.game.ascent import GameResult
from veil.game.pairs import FullHistory, LastEvents
from veil.game.solve import solve_game


def chooser(result: GameResult, remember):
    """The result's policy as a function of (time, situation)."""
    nodes = labels(result.pairs, remember)
    numbers = [
        {(int(m), int(x), int(z)): p for p, (m, x, z) in enumerate(zip(layer.node, layer.x, layer.z, strict=True))}
        for layer in result.pairs.layers
    ]
    return lambda time, situation: result.tables[time][
        :, numbers[time][nodes[time][situation[0]], situation[1], situation[2]]
    ]


@in_blocks(20, 60)
def test_the_bounds_hold_and_the_policy_does_what_is_said(seed):
    _, problem, threshold = small(seed)
    memory, remember = (FullHistory(), everything) if seed % 3 else (LastEvents(seed % 2 + 1), last(seed % 2 + 1))
    result = solve_game(problem, memory, threshold=threshold, gap=1e-3, iterations=400)
    assert 0 <= result.lower <= result.upper + 1e-9
    assert result.upper <= np.log2(len(problem.secret_values)) + 1e-12
    plain = PlainGame.of(problem, remember)
    bits, gained = plain.play(chooser(result, remember))
    assert bits == pytest.approx(result.lower, abs=1e-10)
    assert gained == pytest.approx(result.expected_return, abs=1e-10)
    assert result.lower == pytest.approx(result.history[-1].opacity_bits, abs=1e-6)  # also where rounding was repaired
    if threshold is not None:
        largest = agent_of(problem, memory).max_return_response()[0]
        assert result.expected_return >= min(threshold, largest - 1e-12)  # repaired after rounding: no tolerance


@in_blocks(20, 60)
def test_no_policy_of_any_class_exceeds_the_upper_bound(seed):
    spec, problem, _ = small(seed)
    policy = to_policy(spec, problem)
    gained = veil.expected_return(problem, policy)
    result = solve_game(problem, threshold=gained, gap=1e-2, iterations=100)
    assert veil.opacity(problem, policy, method="exact").bits <= result.upper + 1e-9
    plain, rng = PlainGame.of(problem), np.random.default_rng(seed)
    drawn: dict = {}

    def choose(time, situation):
        if (time, situation) not in drawn:
            weights = plain.available[situation[1]] * rng.dirichlet(np.full(problem.num_actions, 0.3))
            weights = weights + 1e-12 * plain.available[situation[1]]
            drawn[time, situation] = weights / weights.sum()
        return drawn[time, situation]

    bits, gained = plain.play(choose)
    assert bits <= solve_game(problem, threshold=gained, gap=1e-2, iterations=100).upper + 1e-9


@in_blocks(10, 210, size=10)
def test_agreement_with_a_general_convex_solver(seed):
    pytest.importorskip("cvxpy")
    _, problem, threshold = small(1000 + seed, work=300, most_pairs=600)
    plain = PlainGame.of(problem)
    optimum = plain.convex_optimum(threshold)
    result = solve_game(problem, threshold=threshold, gap=1e-5, iterations=5000)
    assert result.gap <= 1e-5
    assert result.lower - 2e-6 <= optimum <= result.upper + 2e-6


def test_a_return_beyond_reach_is_refused():
    problem = veil.gallery.load("paper-last-state")
    with pytest.raises(InfeasibleError, match=r"largest of any policy is 0\.45"):
        solve_game(problem, threshold=0.5)


@pytest.mark.parametrize("name", ["two-rooms", "paper-last-state", "paper-initial-state", "later-last-state"])
def test_the_largest_return_itself_can_be_asked_for(name: str):
    """Only policies that attain it are left, and the bound needs a large multiplier."""
    problem = veil.gallery.load(name)
    problem = problem.replace(horizon=min(problem.horizon, 6))
    largest = agent_of(problem).max_return_response()[0]
    result = solve_game(problem, threshold=largest, gap=2e-3, iterations=200)
    assert result.expected_return == pytest.approx(largest, abs=1e-12)
    assert result.lower <= result.upper + 1e-9
    assert result.gap <= 2e-3


def test_many_iterations_do_not_overflow():
    """At the largest return every step is accepted, and a gap of exactly 0 is not reached."""
    problem = veil.gallery.load("two-rooms", horizon=3)
    result = solve_game(problem, threshold=veil.max_return(problem), gap=0.0, iterations=3500)
    assert result.iterations == 3500
    assert result.gap <= 1e-9


def test_the_papers_problems():
    result = solve_game(veil.gallery.load("paper-last-state"), gap=2e-3)
    assert result.gap <= 2e-3
    assert result.expected_return >= 0.3
    assert result.lower > 0.996
    assert result.graph.is_tree
    assert result.graph.sizes[-1] == 2579
    assert [point.iteration for point in result.history] == sorted(point.iteration for point in result.history)


def test_the_same_game_gives_the_same_result():
    problem = veil.gallery.load("paper-initial-state", horizon=5).replace(min_return="60%")
    first, again = (solve_game(problem, gap=0.0, iterations=7) for _ in range(2))
    assert first.stopped == "iterations"
    assert first.iterations == 7
    assert (first.lower, first.upper, first.multiplier) == (again.lower, again.upper, again.multiplier)


# The clock.


class Ticks:
    """A time source that advances by one second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_stop_request_and_an_interrupt_end_with_the_best_so_far():
    problem = veil.gallery.load("paper-initial-state", horizon=5).replace(min_return="60%")
    stopped = solve_game(problem, gap=0.0, clock=Clock(stop=lambda: True))
    assert stopped.stopped == "stop requested"
    assert stopped.iterations == 0

    def interrupt(news: Progress) -> None:
        if news.iteration:
            raise KeyboardInterrupt

    free = solve_game(problem.replace(min_return=None), gap=0.0, clock=Clock(stop=lambda: True))
    assert (free.stopped, free.iterations) == ("stop requested", 0)  # no trial of a multiplier looks at the clock
    interrupted = solve_game(problem, gap=0.0, clock=Clock(progress=interrupt))
    assert interrupted.stopped == "interrupted"
    assert interrupted.iterations > 0
    for result in (stopped, interrupted):
        assert 0 <= result.lower <= result.upper
        assert result.threshold is not None
        assert result.expected_return >= result.threshold


@looped("limit", (0.0, 5.0, 50.0))
def test_a_deadline_ends_the_game_wherever_it_falls(limit: float):
    problem = veil.gallery.load("paper-initial-state", horizon=5).replace(min_return="60%")
    pairs = agent_of(problem).pairs
    result = solve_game(problem, gap=0.0, pairs=pairs, clock=Clock(limit, now=Ticks()))
    assert result.stopped == "time limit"
    assert 0 <= result.lower <= result.upper
    assert result.threshold is not None
    assert result.expected_return >= result.threshold


def test_a_graph_that_takes_too_long_is_too_large():
    problem = veil.gallery.load("paper-last-state")
    with pytest.raises(veil.TooLargeError, match="before the game's graph was built"):
        solve_game(yard(20, 12), memory=LastEvents(2), clock=Clock(0.0))
    # A small graph is made without any time, and the least work done that gives both bounds.
    assert solve_game(problem.replace(horizon=3, min_return=None), clock=Clock(0.0)).stopped == "time limit"


def test_progress_is_the_history():
    told: list[Progress] = []
    problem = veil.gallery.load("paper-last-state", horizon=6).replace(min_return="80%")
    result = solve_game(problem, gap=1e-2, clock=Clock(progress=told.append))
    assert tuple(told) == result.history
    assert told[-1].opacity_bits == pytest.approx(result.lower, abs=1e-9)
    assert told[-1].upper_bits == result.upper


def test_the_game_without_memory_is_the_largest_prior_entropy_and_ends_others_early():
    problem = veil.gallery.load("paper-last-state", horizon=6).replace(min_return="80%")
    blind = solve_game(problem, LastEvents(0), gap=1e-3)
    assert blind.graph.sizes[-1] == 1
    assert blind.lower == pytest.approx(PlainGame.of(problem, last(0)).play(chooser(blind, last(0)))[0], abs=1e-10)
    plain = solve_game(problem, gap=1e-2)
    known = solve_game(problem, gap=1e-2, known=blind.upper)
    assert plain.lower <= blind.upper + 1e-9
    assert known.iterations <= plain.iterations
    assert min(known.upper, blind.upper) - known.lower <= 1e-2


@pytest.mark.parametrize(("states", "knows", "executable"), [(2, True, True), (2, False, False), (1, False, True)])
def test_a_policy_can_be_executed_where_the_agent_knows_what_it_acts_on(states: int, knows: bool, executable: bool):
    """An automaton of one state tells nothing that the agent would have to know."""
    moves = {("even", "marked"): "odd", ("odd", "marked"): "even"} if states > 1 else {("even", "marked"): "even"}
    secret = veil.Automaton(
        moves, initial="even", accepting={"even"}, labels={1: "marked"}, default_label="plain", otherwise="stay",
        agent_knows=knows,
    )  # fmt: skip
    model = veil.Model(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), secret, 2, agent_sees="state+observations")
    result = solve_game(problem, gap=0.1)
    assert result.executable is executable
    assert result.policy().executable is executable
