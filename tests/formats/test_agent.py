"""Agents that play a policy."""

import numpy as np
import pytest

import veil
from tests.formats.policies import policies, watched
from veil.common.errors import InputError, VeilError
from veil.formats import gallery
from veil.formats.agent import Agent


@pytest.mark.parametrize("kind", ["markov", "timed"])
def test_an_agent_chooses_as_the_policy_says(kind: str):
    problem = watched()
    policy = policies(problem)[kind]
    agent, counts = Agent(problem, policy, seed=5), np.zeros((3, problem.num_actions))
    for _ in range(2000):
        agent.reset()
        for time in range(3):
            counts[time, agent.act(problem.model.states[1] if time else 1)] += 1
    expected = np.broadcast_to(policy.table, (3, *policy.table.shape[1:]))[:, 1]
    assert counts / 2000 == pytest.approx(expected, abs=0.06)


def test_agents_repeat_themselves_for_a_seed_only():
    problem = watched()
    policy = veil.MarkovPolicy.uniform(problem)

    def run(agent: Agent) -> list[int]:
        return [agent.act(0) for _ in range(40)]

    agent = Agent(problem, policy, seed=7)
    first = run(agent)
    assert run(agent) != first
    agent.reset(seed=7)
    assert run(agent) == first


def test_agents_that_remember_and_agents_whose_clock_runs_out():
    problem = watched()
    rules = policies(problem)
    agent = Agent(problem, rules["memory"])
    seen = problem.observer.observations[0]
    assert agent.act(0, seen) in range(problem.num_actions)
    clock = Agent(problem, rules["timed"])
    for _ in range(3):
        clock.act(0)
    with pytest.raises(VeilError, match="begin a new run"):
        clock.act(0)
    clock.reset()
    clock.act(0)
    with pytest.raises(InputError, match="nowhere"):
        Agent(problem, rules["markov"]).act("nowhere")


@pytest.mark.parametrize("name", ["badge-doors", "network-probe"])
def test_agents_that_know_more_than_the_state(name: str):
    problem = gallery.load(name)
    rng = np.random.default_rng(2)
    table = np.where(problem.available, rng.random((problem.num_cells, problem.num_actions)), 0)
    policy = veil.MarkovPolicy(table / table.sum(axis=1, keepdims=True))
    if len(problem.models) > 1 and problem.secret_table.agent_knows:
        with pytest.raises(InputError, match="the model that runs, which the agent knows"):
            Agent(problem, policy)
    returns = np.zeros(300)
    for run in range(len(returns)):
        which = int(rng.choice(len(problem.models), p=problem.secret_table.weights))
        model = problem.models[which]
        agent = Agent(problem, policy, seed=run, model=which if len(problem.models) > 1 else None)
        state = int(rng.choice(model.num_states, p=model.initial))
        for time in range(problem.horizon):
            action = agent.act(state)
            returns[run] += model.discount**time * model.rewards[state, action]
            state = int(rng.choice(model.num_states, p=model.matrices[action][[state]].toarray()[0]))
        returns[run] += model.discount**problem.horizon * model.terminal_rewards[state]
    error = returns.std() / np.sqrt(len(returns))
    assert returns.mean() == pytest.approx(veil.expected_return(problem, policy), abs=4 * error)
