"""Policies as JSON, CSV and agents; the chain that a policy makes as files for other programs."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.formats.storm import stormpy, value
from tests.random_problems import random_case
from veil.common.errors import InputError, PolicyFileError, TooLargeError, VeilError
from veil.formats import gallery
from veil.formats.drn.reader import load_drn
from veil.formats.export import Agent, chain_to_arrays, chain_to_drn, policy_document, policy_to_csv, policy_to_json
from veil.game.solve import solve_game


def watched(name: str = "two-rooms", horizon: int = 3) -> veil.Problem:
    problem = gallery.load(name)
    return veil.Problem(problem.models, problem.observer, problem.secret, horizon, agent_sees_observations=True)


def policies(problem: veil.Problem) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shape = (problem.num_cells, problem.num_actions)
    memory = veil.ObservationMemory(1)
    rows = veil.MemoryPolicy.uniform(problem, memory).probabilities.shape
    return {
        "markov": veil.MarkovPolicy(rng.dirichlet(np.ones(shape[1]), size=shape[0])),
        "timed": veil.TimedPolicy(rng.dirichlet(np.ones(shape[1]), size=(problem.horizon, shape[0]))),
        "memory": veil.MemoryPolicy.softmax(rng.normal(size=rows), problem, memory),
    }


@pytest.mark.parametrize("kind", ["markov", "timed", "memory"])
def test_every_number_is_in_both_files(kind: str, tmp_path: Path):
    problem = watched()
    policy = policies(problem)[kind]
    policy_to_json(tmp_path / "p.json", problem, policy)
    document = json.loads((tmp_path / "p.json").read_text("utf-8"))
    assert document == policy_document(problem, policy)
    assert document["format"] == "veil-policy-table-1"
    assert document["horizon"] == 3
    found = np.array(
        [
            [[row["probabilities"].get(action, 0.0) for action in document["actions"]] for row in table["rows"]]
            for table in document["tables"]
        ]
    )
    assert np.array_equal(found, policy.table)
    times = [table["time"] for table in document["tables"]]
    assert times == ([0, 1, 2] if policy_has_clock(policy) else [None])
    policy_to_csv(tmp_path / "p.csv", problem, policy)
    with open(tmp_path / "p.csv", newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    entries = {(r["time"], r["row"], r["action"]): float(r["probability"]) for r in rows}
    for time, table in zip(times, document["tables"], strict=True):
        for row in table["rows"]:
            for action, probability in row["probabilities"].items():
                assert entries.pop(("" if time is None else str(time), row["row"], action)) == probability
    assert not entries


def policy_has_clock(policy: Any) -> bool:
    return bool(getattr(policy, "timed", False))


def test_a_policy_on_the_history_can_be_followed_by_its_document(tmp_path: Path):
    problem = watched(horizon=2)
    policy = solve_game(problem, gap=0.2).policy(problem)
    policy_to_json(tmp_path / "p.json", problem, policy)
    document = json.loads((tmp_path / "p.json").read_text("utf-8"))
    steps = {(step["time"], step["from"], step["event"]): step["to"] for step in document["graph"]}
    rows = [{row["row"]: row["probabilities"] for row in table["rows"]} for table in document["tables"]]
    model, shown = problem.model, problem.observer
    start = model.states[int(np.argmax(model.initial))]
    seen = shown.observations[int(np.argmax(shown.emissions[int(np.argmax(model.initial))]))]
    node = steps[0, None, seen]
    told = rows[0][f"node {node}: {start}"]
    assert sum(told.values()) == pytest.approx(1)
    draws = [policy.start(problem, seed).act(start, seen) for seed in range(400)]
    for action, probability in told.items():
        share = np.mean(np.array(draws) == model.actions.find(action))
        assert share == pytest.approx(probability, abs=0.1)
    assert all(step["time"] < 2 for step in document["graph"])
    policy_to_csv(tmp_path / "p.csv", problem, policy)
    assert len((tmp_path / "p.csv").read_text("utf-8").splitlines()) == 1 + sum(
        len(p) for r in rows for p in r.values()
    )


def test_a_policy_of_another_problem_is_refused(tmp_path: Path):
    problem = watched()
    with pytest.raises(InputError, match="its table"):
        policy_to_json(tmp_path / "p.json", problem, veil.MarkovPolicy(np.ones((9, 1))))
    assert not list(tmp_path.iterdir())
    with pytest.raises(PolicyFileError, match="cannot be written"):
        policy_to_csv(tmp_path / "missing" / "p.csv", problem, policies(problem)["markov"])
    with pytest.raises(InputError, match="decisions"):
        policy_document(watched(horizon=1), solve_game(watched(horizon=2), gap=0.3).policy(watched(horizon=2)))


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
    with pytest.raises(VeilError, match=r"call agent\.reset"):
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
        with pytest.raises(InputError, match="which model runs"):
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


@pytest.mark.parametrize("seed", range(12))
def test_storm_and_veil_agree_on_the_return_of_a_policy(seed: int, tmp_path: Path):
    case = random_case(seed)
    problem, model = case.problem, case.problem.model
    if problem.horizon == 0 or problem.discount < 1:
        models = [
            type(model)(m.matrices, m.rewards, m.initial, 1.0, m.terminal_rewards, available=m.available)
            for m in problem.models
        ]
        problem = veil.Problem(models, problem.observer, problem.secret, problem.horizon)
    chain = chain_to_drn(tmp_path / "c.drn", problem, case.policy)
    built = stormpy().build_model_from_drn(str(tmp_path / "c.drn"))
    steps = problem.horizon + (np.count_nonzero(chain.start) > 1 or chain.start.max() != 1)
    found = value(built, f'R{{"reward"}}=? [C<={steps}]')
    if chain.terminal_rewards.any():
        found += value(built, f'R{{"terminal"}}=? [I={steps}]')
    assert found == pytest.approx(veil.expected_return(problem, case.policy), abs=1e-9)


def test_labels_mark_the_secret(tmp_path: Path):
    problem = gallery.load("office-patrol")
    chain = chain_to_drn(tmp_path / "c.drn", problem, veil.MarkovPolicy.uniform(problem))
    read = load_drn(tmp_path / "c.drn")
    assert {name for name in read.labels if name.startswith("secret_")} <= {"secret_secret", "secret_safe"} | {
        f"secret_{v}" for v in problem.secret_values
    }
    assert read.model.num_states in (chain.num_states, chain.num_states + 1)


def test_arrays_as_hmmlearn_names_them(tmp_path: Path):
    problem = watched()
    chain = chain_to_arrays(tmp_path / "c.npz", problem, policies(problem)["timed"])
    with np.load(tmp_path / "c.npz", allow_pickle=False) as loaded:
        assert set(loaded) == {
            "startprob_", "transmat_", "emissionprob_", "rewards", "terminal_rewards", "states", "symbols",
        }  # fmt: skip
        assert np.array_equal(loaded["transmat_"], chain.transitions.toarray())
        assert np.array_equal(loaded["emissionprob_"], chain.emissions)
        assert loaded["symbols"].tolist() == list(chain.symbols)
        assert loaded["transmat_"].sum(axis=1) == pytest.approx(np.ones(chain.num_states))


def test_a_chain_that_is_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("veil.engine.induced._MOST_DENSE", 1)
    with pytest.raises(TooLargeError):
        chain_to_arrays(tmp_path / "c.npz", watched(), veil.MarkovPolicy.uniform(watched()))
    assert not list(tmp_path.iterdir())
