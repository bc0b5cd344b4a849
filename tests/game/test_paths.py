"""The game of a whole path: agreement with a convex solver, and no policy of any memory above what is proven."""

import numpy as np
import pytest

import veil
from tests.game.cases import grown
from tests.game.plain_game import PlainGame
from tests.measure.test_trajectory import random_problem
from tests.paths import all_runs, hidden_bits
from tests.seeds import in_blocks, looped
from veil.engine.compile import build
from veil.engine.event_entropy import show_path
from veil.game.bounds import Bounds
from veil.game.pairs import LastEvents
from veil.game.solve import solve_game
from veil.policy.history import HistoryPolicy
from veil.proof.checked_problem import CheckedProblem
from veil.proof.compiled import record_of


def case(seed: int, *, states: bool = False) -> tuple[veil.Problem, np.ndarray | None]:
    """A random problem with rewards, in most cases with a threshold; `states`: whose secret is the path of states."""
    problem, group = random_problem(seed)
    while problem.horizon == 0 or (states and group is not None):
        seed += 100_000
        problem, group = random_problem(seed)
    rng, model = np.random.default_rng([seed, 3]), problem.model
    rewards = rng.uniform(size=(problem.num_states, problem.num_actions))
    problem = problem.replace(model=veil.Model(model.transitions, rewards, model.initial))
    share = f"{rng.choice((30, 60, 90))}%"
    return problem.replace(agent_sees="state+observations", min_return=share if rng.random() < 0.7 else None), group


def history_choice(problem: veil.Problem, policy: HistoryPolicy):
    """A history policy as a function of the states and the events so far."""
    observations = problem.observer.num_observations

    def choice(path, seen):
        node = -1
        for time, event in enumerate(seen):
            number = event[0] * observations + event[1] if isinstance(event, tuple) else max(event, 0)
            node = int(policy.following[time - 1][node, number] if time else policy.first[number])
        row = policy.decisions[len(path) - 1].find(node, path[-1], -1)
        assert row is not None
        return policy.decisions[len(path) - 1].probabilities[row]

    return choice


def earned(problem: veil.Problem, choice) -> float:
    """The expected return of a policy with any memory, by going through all runs of every length."""
    total, rewards = 0.0, problem.model.rewards
    for time in range(problem.horizon):
        runs = all_runs(problem.replace(horizon=time, min_return=None), choice)
        total += problem.discount**time * sum(mass * choice(*run) @ rewards[run[0][-1]] for run, mass in runs.items())
    last = all_runs(problem.replace(min_return=None), choice)
    terminal = problem.model.terminal_rewards
    return total + problem.discount**problem.horizon * sum(mass * terminal[run[0][-1]] for run, mass in last.items())


def remembering(problem: veil.Problem, rng: np.random.Generator):
    """A random policy that remembers all its states and all events."""
    known: dict = {}

    def choice(path, seen):
        if (path, seen) not in known:
            known[path, seen] = rng.dirichlet(np.full(problem.num_actions, rng.choice((0.3, 3.0))))
        return known[path, seen]

    return choice


@in_blocks(4, 100)
def test_agreement_with_a_general_convex_solver(seed: int) -> None:
    pytest.importorskip("cvxpy")
    problem, _ = case(seed, states=True)
    result = solve_game(problem, gap=1e-5, iterations=5000)
    assert result.gap <= 1e-5
    optimum = PlainGame.of(problem).convex_optimum(result.threshold)
    assert result.lower - 2e-6 <= optimum <= result.upper + 2e-6


def check(seed: int) -> int:
    """A game and its certificate against brute force over all runs; how many policies were compared."""
    problem, group = case(seed)
    result = solve_game(problem, gap=1e-2, iterations=40)
    policy = result.policy()
    choice = history_choice(problem, policy)
    bits = hidden_bits(all_runs(problem, choice), group)
    if result.is_exact:
        assert bits == pytest.approx(result.lower, abs=1e-9)
    assert bits <= result.lower + 1e-9
    certificate = veil.certify(problem, policy, 600.0, game=Bounds.of(result), progress=False)
    found = veil.verify(certificate, problem, policy)
    assert certificate.lower <= bits <= certificate.upper + 1e-9
    assert certificate.lower == pytest.approx(bits, abs=1e-9)
    assert found.policy.quantities[0].value == pytest.approx(earned(problem, choice), abs=1e-9)
    threshold, compared = certificate.threshold, 0
    for number in range(4):
        other = remembering(problem, np.random.default_rng([seed, number]))
        if threshold is None or earned(problem, other) >= threshold:
            assert hidden_bits(all_runs(problem, other), group) <= certificate.upper + 1e-9
            compared += 1
    return compared


@in_blocks(6, 12)
def test_no_violations(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_violations_in_two_thousand(block: int) -> None:
    assert sum(check(seed) for seed in range(1000 + 100 * block, 1100 + 100 * block)) >= 100


@looped("seed", range(0, 60, 5))
def test_the_game_and_the_verifier_agree_on_what_the_events_tell(seed: int) -> None:
    for number in range(seed, seed + 5):
        problem, _ = random_problem(number)
        assert show_path(build(problem)).is_unifilar == CheckedProblem(record_of(problem)).tells_state


@in_blocks(6, 6)
def test_an_observer_who_forgets_proves_no_less(seed: int) -> None:
    problem, group = case(seed)
    whole, short = (solve_game(problem, memory, gap=1e-3, iterations=300) for memory in (None, LastEvents(1)))
    assert short.upper >= whole.lower - 1e-9
    certificate = veil.certify(problem, whole.policy(), 600.0, game=Bounds.of(short), progress=False)
    veil.verify(certificate, problem, whole.policy())
    assert certificate.upper <= short.upper + 1e-6
    assert hidden_bits(all_runs(problem, history_choice(problem, whole.policy())), group) <= certificate.upper + 1e-9


def test_windows_where_the_tree_does_not_fit() -> None:
    """Longer windows lower the bound, which holds, down to the tree's own."""
    problem = veil.gallery.load("night-round", horizon=3, min_return=0.1)
    whole = solve_game(problem, gap=1e-2)
    found = grown(problem, gap=0.02)
    assert found.lower == 0
    assert whole.lower - 1e-9 <= found.upper <= solve_game(problem, LastEvents(0), gap=1e-2).upper + 0.02
    certificate = veil.certify(problem, found.best.policy(), 600.0, game=found, progress=False)
    veil.verify(certificate, problem, found.best.policy())
    assert certificate.upper == pytest.approx(found.upper, abs=1e-6)


@pytest.mark.parametrize("horizon", range(3, 8))
def test_smart_meter(horizon: int) -> None:
    """The least leakage that is known: half a bit a step."""
    problem = veil.gallery.load("smart-meter", horizon=horizon, min_return=None)
    found = veil.solve(problem, method="game", progress=False)
    assert found.opacity.prior_bits - found.opacity.bits == pytest.approx(horizon / 2, abs=1e-3)
    assert found.certificate is not None
    assert found.certificate.upper == pytest.approx(horizon + 2 - horizon / 2, abs=1e-3)
    assert found.certificate.gap <= 1.1e-3
    veil.verify(found.certificate, problem, found.policy)


def test_a_path_of_one_state() -> None:
    """Horizon 0: the secret is the group of the first state, and there is nothing to decide."""
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), [0.5, 0.25, 0.25])
    observer = veil.Observer(np.ones((3, 1)))
    problem = veil.Problem(
        model, observer, veil.Trajectory({"a": [0], "b": [1, 2]}), 0, agent_sees="state+observations"
    )
    found = veil.solve(problem, method="game", progress=False)
    assert found.opacity.bits == pytest.approx(1.0, abs=1e-12)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)
