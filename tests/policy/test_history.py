"""history policies: played step by step they do what was promised; files give the same policy back."""

import random

import numpy as np
import pytest

import veil
from tests.random_problems import random_spec, to_problem
from veil.game.pairs import FullHistory, LastEvents
from veil.game.solve import solve_game
from veil.policy.history import HistoryPolicy


def solved(seed: int, memory=None):
    rng = random.Random(seed)
    spec = random_spec(rng, work=3000)
    problem = to_problem(spec, rng)
    return problem, solve_game(problem, memory or FullHistory(), gap=0.05, iterations=50)


def draw(rng, weights) -> int:
    return int(rng.choice(len(weights), p=np.asarray(weights) / np.sum(weights)))


def play(problem: veil.Problem, policy: HistoryPolicy, rng, seed: int) -> float:
    """One run in the problem; the return."""
    table, observer = problem.secret_table, problem.observer
    k = draw(rng, table.weights) if table.weights is not None else 0
    model = problem.models[k]
    player = policy.start(problem, seed, model=k if len(problem.models) > 1 else None)
    state, gained, action = draw(rng, model.initial), 0.0, 0
    emissions = observer.emissions
    for time in range(problem.horizon):
        seen = None
        if time or observer.sees_first:
            seen = draw(rng, emissions[action, state] if observer.on_actions else emissions[state])
        action = player.act(model.states[state], None if seen is None else observer.observations[seen])
        assert model.available[state, action]
        gained += model.discount**time * model.rewards[state, action]
        state = draw(rng, model.matrices[action].toarray()[state])
    return gained + model.discount**problem.horizon * model.terminal_rewards[state]


@pytest.mark.parametrize("seed", range(25))
def test_runs_earn_what_the_game_says(seed):
    problem, result = solved(seed, LastEvents(2) if seed % 3 == 0 else None)
    policy = result.policy(problem)
    if not policy.executable:
        with pytest.raises(veil.InputError, match="not executed"):
            policy.start(problem, model=0)
        return
    rng = np.random.default_rng(seed)
    returns = [play(problem, policy, rng, run) for run in range(300)]
    assert np.mean(returns) == pytest.approx(result.expected_return, abs=5 * np.std(returns) / np.sqrt(300) + 1e-9)


def test_files_give_the_same_policy_back_and_the_same_bytes(tmp_path):
    problem, result = solved(3)
    policy = result.policy(problem)
    policy.save(tmp_path / "one")
    policy.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = HistoryPolicy.load(tmp_path / "one")
    assert again.executable == policy.executable
    assert again.horizon == policy.horizon
    for mine, theirs in zip(policy.decisions, again.decisions, strict=True):
        assert np.array_equal(mine.probabilities, theirs.probabilities)
        assert np.array_equal(mine.node, theirs.node)
    veil.MarkovPolicy(np.full((2, 2), 0.5)).save(tmp_path / "markov")
    with pytest.raises(veil.errors.PolicyFileError, match="expected 'history'"):
        HistoryPolicy.load(tmp_path / "markov")


def test_a_run_refuses_what_cannot_happen_and_stays_as_it_was():
    problem = veil.gallery.load("paper-last-state")
    policy = solve_game(problem, gap=0.1).policy(problem)
    with pytest.raises(veil.VeilError, match="no run has begun"):
        policy.act("r3c1", "0")
    policy.start(problem)
    with pytest.raises(veil.InputError, match="is impossible at time 0"):
        policy.act("r0c0", "0")
    with pytest.raises(veil.InputError, match="missing at time 0"):
        policy.act("r3c1")
    assert 0 <= policy.act("r3c1", "0") < 5
