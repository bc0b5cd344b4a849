"""Feature policies: their inputs, their table in a problem and in another one, their gradient, files and uses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.errors import PolicyFileError
from veil.policy.feature_maps import RowNetwork
from veil.policy.files import save_table


def corridor(length: int = 6, horizon: int = 5, **changes: Any) -> veil.Problem:
    parts: dict[str, Any] = {
        "slip": 0.1,
        "starts": (0, 0),
        "goals": {(0, length - 1): 1.0},
        "secrets": [(1, length - 1)],
    }
    parts["sensors"] = [veil.Sensor("g", [(1, 2)])]
    return veil.GridWorld(2, length, **parts | changes).problem(horizon, min_return="20%")


def trained(seed: int = 3, *, timed: bool = False, hidden: int = 4) -> veil.FeaturePolicy:
    """With weights that are far from uniform."""
    found = veil.FeaturePolicy.initial(corridor(), timed=timed, hidden=hidden, waves=5, seed=seed)
    generator = np.random.default_rng(seed)
    return found.with_weights([generator.normal(size=one.shape) for one in found.weights])


@looped("timed", [False, True])
@looped("hidden", [0, 4])
def test_the_table_is_the_softmax_of_what_the_class_says(hidden: int, timed: bool):
    problem, policy = corridor(), trained(timed=timed, hidden=hidden)
    table = policy.on(problem)
    assert isinstance(table, veil.TimedPolicy if timed else veil.MarkovPolicy)
    assert problem.layout is not None
    for state, (row, column) in enumerate(problem.layout.cells):
        for time in range(problem.horizon if timed else 1):
            x = (np.array([row, column]) - policy.shift) / policy.scale
            around = [(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
            walls = [cell not in problem.layout.cells for cell in around]
            seen = [np.sin(wave[:-1] @ x + wave[-1]) for wave in policy.waves]
            clock = [np.cos(np.pi * k * time / problem.horizon) for k in range(1, 7)] if timed else []
            inputs = np.array([1.0, *x, *walls, *seen, *clock])
            first = inputs @ policy.weights[0]
            scores = np.tanh(first) @ policy.weights[1][:-1] + policy.weights[1][-1] if hidden else first
            wanted = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(table.table[time, state], wanted, atol=1e-12)


@looped("timed", [False, True])
@looped("hidden", [0, 4])
@looped("features", ["coordinates", "one-hot"])
def test_the_gradient_is_that_of_finite_differences(features: str, hidden: int, timed: bool):
    problem, generator = corridor(), np.random.default_rng(0)
    policy = veil.FeaturePolicy.initial(problem, features, timed=timed, hidden=hidden, waves=3)
    rows = np.flatnonzero(generator.random((problem.horizon if timed else 1) * problem.num_cells) < 0.5)
    network, weights = RowNetwork(policy.inputs(problem), rows), [one.copy() for one in policy.weights]
    upward = generator.normal(size=(len(rows), problem.num_actions))
    found = network.pull_back(weights, network.logits(weights)[1], upward)
    for number, one in enumerate(weights):
        direction = generator.normal(size=one.shape)
        values = []
        for step in (1e-6, -1e-6):
            moved = [other + step * direction if n == number else other for n, other in enumerate(weights)]
            values.append(float(np.sum(upward * network.logits(moved)[0])))
        assert np.sum(found[number] * direction) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)


def test_it_plays_and_is_measured_on_a_larger_floor():
    policy, larger = trained(), corridor(length=9, horizon=7)
    table = policy.on(larger)
    assert table.probabilities.shape == (larger.num_states, larger.num_actions)
    assert veil.opacity(larger, policy, "exact") == veil.opacity(larger, table, "exact")
    assert veil.expected_return(larger, policy) == veil.expected_return(larger, table)
    run = policy.player(larger, seed=1)
    assert run.act(larger.model.states.all()[0]) in range(larger.num_actions)


def test_a_proof_about_it_is_verified():
    problem, policy = corridor(), trained()
    problem = problem.replace(min_return=veil.expected_return(problem, policy) - 0.01)
    proof = veil.certify(problem, policy, 5)
    veil.verify(proof, problem, policy)
    assert proof.lower <= veil.opacity(problem, policy, "exact").bits <= proof.upper


def test_other_uses_of_a_policy_take_it_too(tmp_path: Path):
    problem, policy = corridor(), trained(timed=True)
    assert veil.attack(problem, policy, 50, seed=1) is not None
    assert policy.memory == "timed"
    assert not policy.needs_observations
    assert policy.more_seen() == " and the time"
    found = veil.solve(problem, memory="timed", start=policy, iterations=2, starts=1, certificate=False)
    assert found.opacity.bits >= veil.opacity(problem, policy, "exact").bits or not found.feasible
    lifted = veil.MemoryPolicy.lift(problem, veil.StateMemory(1), policy)
    assert veil.opacity(problem, lifted, "exact").bits == pytest.approx(veil.opacity(problem, policy, "exact").bits)


@looped("timed", [False, True])
def test_a_file_holds_all_of_it(timed: bool, tmp_path: Path):
    policy, path = trained(timed=timed), tmp_path / "policy.safetensors"
    policy.save(path)
    again = veil.load_policy(path)
    assert again == policy
    assert again.digest() == policy.digest()
    assert again.on(corridor()) == policy.on(corridor())
    assert trained(seed=4).digest() != trained(seed=3).digest()
    again.save(tmp_path / "again.safetensors")
    assert path.read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_an_array_of_features_is_saved_with_the_policy(tmp_path: Path):
    problem = veil.gallery.load("two-rooms")
    numbers = np.random.default_rng(0).normal(size=(problem.num_states, 3))
    policy = veil.FeaturePolicy.initial(problem, numbers, hidden=2)
    policy.save(tmp_path / "policy.safetensors")
    again = veil.load_policy(tmp_path / "policy.safetensors")
    assert again == policy
    with pytest.raises(veil.InputError, match="expected one for each of"):
        policy.on(
            corridor().replace(name="other") if corridor().model.actions.all() == policy.actions else problem_of(5)
        )


def problem_of(states: int) -> veil.Problem:
    names = veil.gallery.load("two-rooms").model.actions.all()
    moves = np.full((states, len(names), states), 1 / states)
    model = veil.Model(moves, np.zeros((states, len(names))), np.full(states, 1 / states), action_names=names)
    return veil.Problem(model, veil.Observer(np.full((states, 2), 0.5)), veil.LastState([0]), 2)


def test_variables_are_read_from_the_names_of_the_states():
    names = [f"x={x},open={'true' if way else 'false'}" for x in range(3) for way in (0, 1)]
    moves = np.full((6, 2, 6), 1 / 6)
    model = veil.Model(moves, np.zeros((6, 2)), np.full(6, 1 / 6), state_names=names)
    problem = veil.Problem(model, veil.Observer(np.full((6, 2), 0.5)), veil.LastState([0]), 2)
    policy = veil.FeaturePolicy.initial(problem, "variables", hidden=2, waves=2)
    np.testing.assert_allclose(policy.shift, [1.0, 0.5])
    assert policy.on(problem).probabilities.shape == (6, 2)
    with pytest.raises(veil.InputError, match=r"'variables' need states with names such as"):
        veil.FeaturePolicy.initial(corridor(), "variables")


def test_where_the_agent_knows_the_model_it_sees_which_one_it_is():
    problem = corridor()
    models = [problem.model, corridor(slip=0.3).model]
    both = veil.Problem(models, problem.observer, veil.WhichModel(agent_knows=True), 3, layout=problem.layout)
    policy = veil.FeaturePolicy.initial(both, hidden=3, waves=2, seed=2)
    table = policy.on(both).probabilities
    assert table.shape == (both.num_cells, both.num_actions)
    assert np.abs(table[: problem.num_states] - table[problem.num_states :]).max() > 0


def test_what_does_not_fit_is_refused_with_the_reason():
    policy = trained()
    with pytest.raises(veil.InputError, match="made for the actions"):
        policy.check(veil.gallery.load("two-rooms"))
    with pytest.raises(veil.InputError, match="need a grid"):
        veil.FeaturePolicy.initial(problem_of(3))
    with pytest.raises(veil.InputError, match="expected one of coordinates"):
        veil.FeaturePolicy("colours", [np.zeros((1, 2))], ["a", "b"])
    with pytest.raises(veil.InputError, match=r"weights\[1\] has 2 rows, expected 4"):
        veil.FeaturePolicy("one-hot", [np.zeros((5, 3)), np.zeros((2, 2))], ["a", "b"])
    with pytest.raises(veil.InputError, match="finite numbers"):
        veil.FeaturePolicy("one-hot", [np.full((5, 2), np.nan)], ["a", "b"])
    with pytest.raises(veil.InputError, match="for 1 actions, and 2 are named"):
        veil.FeaturePolicy("one-hot", [np.zeros((5, 1))], ["a", "b"])


@looped(
    "head",
    ["", "{}", "[]", '{"features": "one-hot", "actions": ["a"], "timed": false, "arrays": [[0], [0], [0, 1], [9, 9]]}',
     '{"features": "one-hot", "actions": [1], "timed": false, "arrays": [[0], [0], [0, 1], [3, 1]]}',
     '{"features": "one-hot", "actions": ["a"], "timed": false, "arrays": [[0], [0], [0, 1], [-3, -1]]}',
     '{"features": "one-hot", "actions": ["a"], "timed": 1, "arrays": [[0], [0], [0, 1], [3, 1]]}',
     '{"features": "one-hot", "actions": ["a"], "timed": false, "arrays": [[3, 1]]}'],
)  # fmt: skip
def test_a_damaged_file_is_refused(head: str, tmp_path: Path):
    path = tmp_path / "policy.safetensors"
    save_table(path, f"features {head}", np.zeros(3, dtype=np.float32))
    with pytest.raises((PolicyFileError, veil.InputError)):
        veil.load_policy(path)
