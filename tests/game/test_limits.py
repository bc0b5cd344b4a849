"""Games and proofs keep their limits of time and memory, whatever the size of the problem, and answer all the same."""

import time
import tracemalloc

import numpy as np
import pytest

import veil
from tests.game.cases import grown
from veil.common.clock import Clock, OutOfTime, Pace
from veil.engine.compile import build
from veil.game.arrivals import make_arrivals
from veil.game.clusters import cluster_beliefs, clustered_graph, opacity_lower_bound
from veil.game.delayed import delayed_pairs
from veil.game.pairs import LastEvents, TailEvents, make_pairs
from veil.game.redirect import redirected_graph
from veil.game.responses import AgentProblem
from veil.game.solve import solve_game


def yard(side: int, horizon: int, min_return: str | None = "50%", sensors: int = 4) -> veil.Problem:
    """A square yard whose quarters have a sensor each, all of them with false alarms."""
    half = side // 2
    corners = [(0, 0), (0, half), (half, 0), (half, half)][:sensors]
    ranges = [[(row + i, column + j) for i in range(half) for j in range(half)] for row, column in corners]
    watching = [veil.Sensor(f"s{k}", cells, detection=0.9, false_alarm=0.05) for k, cells in enumerate(ranges)]
    secrets = [(half - 3, half), (half + 3, half + 1), (1, 1)]
    world = veil.GridWorld(
        side, side, starts={(half, half): 1.0}, goals={(half, half + 2): 1.0}, secrets=secrets, sensors=watching
    )
    return world.problem(horizon, min_return=min_return)


def test_a_game_that_is_far_too_large_ends_in_time_with_a_feasible_policy():
    """The first window of this yard alone takes ten seconds, and its policy as long again to evaluate."""
    problem = yard(28, 16)
    begin = time.monotonic()
    found = veil.solve(problem, "game", "history", time_limit=0.5, certificate=False, progress=False)
    assert time.monotonic() - begin < 8
    assert found.feasible
    assert found.status is veil.Status.TIME_LIMIT
    assert found.threshold is not None
    assert veil.expected_return(problem, found.policy) >= found.threshold
    assert found.opacity.interval()[0] <= found.upper_bits


def test_a_proof_whose_least_pass_takes_longer_than_its_limit_is_refused_in_time():
    problem = yard(64, 600, None)
    begin = time.monotonic()
    with pytest.raises(veil.TooLargeError, match="time_limit"):
        veil.certify(problem, veil.MarkovPolicy.uniform(problem), 0.2)
    assert time.monotonic() - begin < 6


def test_the_seconds_that_a_proof_may_take_more_are_those_of_all_its_channels_together():
    """Six channels whose histories do not fit: each by itself would take a second more than its share."""
    problem = veil.gallery.load("later-last-state").replace(horizon=60, min_return="90%")
    pairs = [veil.Pair(f"p{number}", secret=veil.LastState([number, number + 1]), min=0.01) for number in range(5)]
    problem = problem.replace(pairs=pairs)
    policy = veil.MarkovPolicy.uniform(problem)
    begin = time.process_time()
    proof = veil.certify(problem, policy, 0.2, progress=False)
    assert time.process_time() - begin < 4
    assert len(proof.channels) == 6
    veil.verify(proof, problem, policy)


def test_a_proof_without_time_is_one_of_a_small_problem():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    assert veil.verify(veil.certify(problem, policy, 0.0), problem, policy)


def test_the_graph_of_a_game_is_made_within_its_budget():
    """Numbers of pairs by a table of all keys took gigabytes where the observer is told the state."""
    hidden = build(yard(16, 12))
    for memory, told in ((TailEvents(10), 10), (TailEvents(10), None), (LastEvents(1), None)):
        budget, peak = 2**20, 0
        while True:
            tracemalloc.start()
            try:
                make_pairs(hidden, memory, budget, told_at=told)
                break
            except veil.TooLargeError:
                budget *= 2
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
        assert peak <= budget, memory.kind


def test_every_long_step_looks_at_the_clock():
    problem = yard(8, 4, sensors=2)
    game = solve_game(problem, LastEvents(1), gap=0.1)
    agent = AgentProblem(problem, game.pairs)
    beliefs = np.random.default_rng(0).random((40, 6))
    late = {
        "pairs": lambda clock: make_pairs(game.pairs.hidden, LastEvents(1), clock=clock),
        "arrivals": lambda clock: make_arrivals(game.pairs, clock),
        "delayed": lambda clock: delayed_pairs(game.pairs, clock),
        "clusters": lambda clock: cluster_beliefs(beliefs, 10, clock),
        "clustered": lambda clock: clustered_graph(agent, game.tables, 4, clock),
        "redirected": lambda clock: redirected_graph(agent, game, clock),
        "measured": lambda clock: opacity_lower_bound(game.pairs, game.tables, clock=clock),
    }
    for name, work in late.items():
        work(Clock())
        with pytest.raises(OutOfTime):
            pytest.fail(f"{name}: {work(Clock(0.0))}")


def test_long_steps_are_refused_before_they_take_memory():
    problem = yard(8, 4, sensors=2)
    game = solve_game(problem, LastEvents(1), gap=0.1)
    agent = AgentProblem(problem, game.pairs)
    for work in (
        lambda: make_arrivals(game.pairs, memory_bytes=1000),
        lambda: delayed_pairs(game.pairs, memory_bytes=1000),
        lambda: clustered_graph(agent, game.tables, 4, memory_bytes=1000),
        lambda: redirected_graph(agent, game, memory_bytes=1000),
        lambda: opacity_lower_bound(game.pairs, game.tables, memory_bytes=1000),
    ):
        with pytest.raises(veil.TooLargeError, match="memory_bytes"):
            work()


@pytest.mark.parametrize(
    ("clock", "stopped"), [(Clock(0.0), "time limit"), (Clock(stop=lambda: True), "stop requested")]
)
def test_an_enclosure_that_is_ended_at_once_still_has_both_bounds(clock: Clock, stopped: str):
    for name in ("paper-last-state", "paper-initial-state"):
        problem = veil.gallery.load(name, horizon=6).replace(min_return="50%")
        found = grown(problem, clock=clock)
        assert found.stopped == stopped
        assert 0 <= found.lower <= found.upper <= np.log2(len(problem.secret_table.value_names)) + 1e-9
        assert found.games[0].expected_return >= 0.5 * veil.max_return(problem) - 1e-9


def test_the_largest_return_is_feasible_however_short_the_time():
    """What floats cannot tell, and the verifier not in time, is no reason to call a policy infeasible."""
    problem = veil.gallery.load("later-last-state").replace(min_return="100%")
    found = veil.solve(problem, "game", "history", time_limit=0.5, certificate=False, progress=False)
    assert found.feasible
    assert found.threshold is not None
    assert found.expected_return >= found.threshold


def test_a_return_that_every_policy_has_can_be_asked_for():
    """500 rewards of 1 sum to a little less than 500 along noisy observations."""
    generator = np.random.default_rng(0)
    model = veil.Model(generator.dirichlet(np.ones(4), (4, 2)), np.ones((4, 2)), np.full(4, 0.25))
    observer = veil.Observer(generator.dirichlet(np.ones(3), 4))
    problem = veil.Problem(model, observer, veil.LastState([0]), 500, min_return=500.0)
    proof = veil.certify(problem, veil.MarkovPolicy.uniform(problem), 1.0)
    assert proof.feasible
    assert proof.lower <= proof.upper


def test_a_step_is_not_begun_that_would_end_after_the_deadline():
    pace = Pace(Clock(60.0), seconds=1e-6)
    with pace.step(10):
        time.sleep(0.05)  # 5 ms for each unit
    with pytest.raises(OutOfTime), pace.step(20_000):
        pytest.fail("it was begun")
