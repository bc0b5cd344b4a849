"""Playing policies without memory: frequencies, seeds, the end of the horizon, and what the agent knows."""

import numpy as np
import pytest

import veil
from tests.formats.policies import policies, watched
from tests.seeds import looped
from veil.common.errors import InputError, VeilError
from veil.formats import gallery


@looped("kind", ["markov", "timed"])
def test_a_player_chooses_as_the_policy_says(kind: str):
    problem = watched()
    policy = policies(problem)[kind]
    counts = np.zeros((3, problem.num_actions))
    for seed in range(2000):
        player = policy.player(problem, seed=seed)
        for time in range(3):
            counts[time, player.act(problem.model.states[1] if time else 1)] += 1
    expected = np.broadcast_to(policy.table, (3, *policy.table.shape[1:]))[:, 1]
    assert counts / 2000 == pytest.approx(expected, abs=0.06)


def test_a_player_ends_with_the_horizon():
    problem = watched()
    player = policies(problem)["timed"].player(problem)
    for _ in range(3):
        player.act(0)
    with pytest.raises(VeilError, match="begin a new run"):
        player.act(0)
    with pytest.raises(InputError, match="nowhere"):
        policies(problem)["markov"].player(problem).act("nowhere")


@looped("name", ["badge-doors", "network-probe"])
def test_agents_that_know_more_than_the_state_earn_what_is_expected(name: str):
    problem = gallery.load(name)
    rng = np.random.default_rng(2)
    table = np.where(problem.available, rng.random((problem.num_cells, problem.num_actions)), 0)
    policy = veil.MarkovPolicy(table / table.sum(axis=1, keepdims=True))
    if len(problem.models) > 1 and problem.secret_table.agent_knows:
        with pytest.raises(InputError, match="the model that runs, which the agent knows"):
            policy.player(problem)
    returns = np.zeros(300)
    for run in range(len(returns)):
        which = int(rng.choice(len(problem.models), p=problem.secret_table.weights))
        model = problem.models[which]
        player = policy.player(problem, seed=run, model=which if len(problem.models) > 1 else None)
        state = int(rng.choice(model.num_states, p=model.initial))
        for time in range(problem.horizon):
            action = player.act(state)
            returns[run] += model.discount**time * model.rewards[state, action]
            state = int(rng.choice(model.num_states, p=model.matrices[action][[state]].toarray()[0]))
        returns[run] += model.discount**problem.horizon * model.terminal_rewards[state]
    error = returns.std() / np.sqrt(len(returns))
    assert returns.mean() == pytest.approx(veil.expected_return(problem, policy), abs=4 * error)
