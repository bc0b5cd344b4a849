"""Policies without their problem: exported players act as players in the problem, in a file that needs no library."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.runs import MEMORIES, remembering_cases
from tests.formats.policies import policies, watched
from veil.common.errors import InputError, PolicyFileError, VeilError
from veil.formats import gallery
from veil.formats.imported import changed_model
from veil.formats.policies.text import policy_to_json
from veil.game.solve import solve_game
from veil.policy.history import Decisions
from veil.policy.policy import Policy


def decided(problem: veil.Problem, memory: Any, seed: int) -> Policy:
    """A policy that draws nothing: each row takes one available choice."""
    random = np.random.default_rng(seed)
    if memory in ("markov", "timed"):
        shape = (problem.num_cells, problem.num_actions)
        weights = random.random((problem.horizon, *shape) if memory == "timed" else shape) * problem.available
    else:
        usual = veil.MemoryPolicy.uniform(problem, memory).probabilities
        weights = random.random(usual.shape) * (usual > 0)
    table = np.where(weights == weights.max(axis=-1, keepdims=True), 1.0, 0.0)
    if memory in ("markov", "timed"):
        return veil.TimedPolicy(table) if memory == "timed" else veil.MarkovPolicy(table)
    return veil.MemoryPolicy(memory, table)


def loaded(path: Path, problem: veil.Problem, policy: Policy, model: int | None = None) -> Any:
    """The class in an exported file."""
    veil.export_player(policy, problem, path, model=model)
    ast.parse(path.read_text("utf-8"), feature_version=(3, 8))
    space: dict[str, Any] = {"__name__": "robot"}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), space)
    return space["Player"]


def check_runs(problem: veil.Problem, policy: Policy, players: list[Any], model: int | None, seed: int) -> None:
    """Along random runs all players take the same actions as the policy does in its problem."""
    random = np.random.default_rng(seed)
    observer, k = problem.agent.sees or problem.observer, 0 if model is None else model
    needs_state = problem.agent.sees_state or problem.agent.register.size > 1
    for run in range(3):
        reference = policy.player(problem, model=model)
        for player in players:
            player.reset()
        state = int(random.choice(problem.num_states, p=problem.models[k].initial))
        action = 0
        for time in range(problem.horizon):
            tables = observer.matrices_at(time, problem.horizon)
            shown = None
            if time or observer.sees_first:
                row = tables[action if len(tables) > 1 else 0].toarray()[state]
                shown = observer.observations[int(random.choice(len(row), p=row / row.sum()))]
            name = problem.model.states[state] if needs_state else None
            heard = policy.needs_observations or not problem.agent.sees_state
            action = reference.act(state if needs_state else None, shown if heard else None)
            for player in players:
                assert player.step(name, shown) == problem.model.actions[action], f"run {run}, time {time}"
            row = problem.models[k].matrices[action].toarray()[state]
            state = int(random.choice(len(row), p=row / row.sum()))


@pytest.mark.parametrize("kind", ["last", "automaton", "model"])
def test_an_exported_player_acts_as_the_policy_does_in_its_problem(kind: str, tmp_path: Path):
    for fixed in ({"sees_actions": False}, {"sees_actions": True}):
        for seed, case in enumerate(remembering_cases(2, kind, **fixed)):
            problem = case.problem
            told = problem.agent.knows_model and len(problem.models) > 1
            model = int(np.flatnonzero(problem.secret_table.prior)[-1]) if told else None
            for name, memory in [("markov", "markov"), ("timed", "timed"), *MEMORIES.items()]:
                policy = decided(problem, memory, seed)
                players = [loaded(tmp_path / "robot.py", problem, policy, model)()]
                if model is None:
                    policy_to_json(tmp_path / "p.json", problem, policy)
                    players.append(veil.load_policy(tmp_path / "p.json").player())
                try:
                    check_runs(problem, policy, players, model, seed)
                except AssertionError as error:
                    raise AssertionError(f"{name}, {fixed}, seed {seed}: {error}") from error


SENSORS = [{"sees_initial": first, "sees_actions": acts} for first in (True, False) for acts in (True, False)]


@pytest.mark.parametrize("own", [None, *SENSORS])
def test_a_player_that_does_not_see_its_state_is_told_readings_alone(own: dict[str, Any] | None, tmp_path: Path):
    for kind in ("last", "automaton"):
        for seed, case in enumerate(remembering_cases(2, kind)):
            size, random = case.problem.num_states, np.random.default_rng(seed)
            sensors = (
                None if own is None else veil.Observer(random.dirichlet(np.ones(2), size), ["dark", "light"], **own)
            )
            problem = case.problem.replace(agent_sees="observations" if sensors is None else sensors)
            for memory in ("markov", "timed", veil.ObservationMemory(2), veil.Controller(2)):
                policy = decided(problem, memory, seed)
                policy_to_json(tmp_path / "p.json", problem, policy)
                players = [
                    loaded(tmp_path / "robot.py", problem, policy)(),
                    veil.load_policy(tmp_path / "p.json").player(),
                ]
                check_runs(problem, policy, players, None, seed)
            players[0].reset()
            with pytest.raises(ValueError, match=r"the policy does not see it: step\(reading=…\)|unknown state"):
                players[0].step("elsewhere", players[0].readings[0])


def of_histories(problem: veil.Problem, seed: int) -> veil.HistoryPolicy:
    """The best policy of the game, with rows that draw nothing."""
    found = solve_game(problem, gap=0.2).policy()
    random = np.random.default_rng(seed)
    rows = []
    for one in found.decisions:
        weights = random.random(one.probabilities.shape) * problem.available[one.situation % problem.num_states]
        chances = np.where(weights == weights.max(axis=1, keepdims=True), 1.0, 0.0)
        rows.append(Decisions(one.node, one.situation, one.value, chances))
    return veil.HistoryPolicy(found.first, found.following, rows, executable=found.executable)


def test_a_history_policy_is_exported_too(tmp_path: Path):
    exported = 0
    for kind in ("last", "automaton", "model"):
        for seed, case in enumerate(remembering_cases(4, kind)):
            problem = case.problem.replace(agent_sees="state+observations")
            told = problem.agent.knows_model and len(problem.models) > 1
            model = int(np.flatnonzero(problem.secret_table.prior)[-1]) if told else None
            policy = of_histories(problem, seed)
            if not policy.executable or (len(problem.models) > 1 and not told):
                with pytest.raises(InputError, match="it can be evaluated, not executed"):
                    veil.export_player(policy, problem, tmp_path / "robot.py", model=model)
                continue
            exported += 1
            check_runs(problem, policy, [loaded(tmp_path / "robot.py", problem, policy, model)()], model, seed)
    assert exported > 4


@pytest.mark.parametrize("secret", [veil.InitialState(), veil.StateAt(1, [0]), veil.StateAt(2, [0])])
def test_a_history_policy_keeps_the_value_of_a_settled_secret(secret: Any, tmp_path: Path):
    problem = watched(horizon=4)
    model = changed_model(problem.model, initial=np.full(problem.num_states, 1 / problem.num_states))
    problem = problem.replace(model=model, secret=secret)
    for seed in range(3):
        policy = of_histories(problem, seed)
        assert max(int(rows.value.max()) for rows in policy.decisions) == 1
        check_runs(problem, policy, [loaded(tmp_path / "robot.py", problem, policy)()], None, seed)


@pytest.mark.parametrize("name", ["badge-doors", "delivery-order", "two-rooms"])
def test_an_exported_player_follows_what_the_agent_knows(name: str, tmp_path: Path):
    problem = gallery.load(name)
    for memory in ("markov", "timed", veil.StateMemory(1)):
        policy = decided(problem, memory, 3)
        check_runs(problem, policy, [loaded(tmp_path / "robot.py", problem, policy)()], None, 1)


def test_an_exported_file_runs_without_libraries_and_draws_as_the_policy_says(tmp_path: Path):
    problem = watched()
    policy = policies(problem)["memory"]
    veil.export_player(policy, problem, tmp_path / "robot.py")
    script = """
import sys; sys.path.insert(0, ".")
from robot import Player
import json
player = Player(seed=7)
readings, states = player.readings, player.states
first = player.step(states[0], readings[0])
chances = Player().probabilities(states[0], readings[0])
counts = dict.fromkeys(player.actions, 0)
for _ in range(4000):
    player.reset()
    counts[player.step(states[0], readings[0])] += 1
again = Player(seed=7)
assert again.step(states[0], readings[0]) == first
assert not [name for name in sys.modules if name.partition(".")[0] in ("numpy", "veil", "scipy")]
print(json.dumps([chances, counts]))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    chances, counts = json.loads(done.stdout)
    for action, chance in chances.items():
        assert counts[action] / 4000 == pytest.approx(chance, abs=0.04)


def test_wrong_steps_are_refused_and_leave_the_run_as_it_was(tmp_path: Path):
    problem = watched()
    policy = decided(problem, veil.ObservationMemory(1), 0)
    player = loaded(tmp_path / "robot.py", problem, policy)()
    states, readings = problem.model.states, problem.observer.observations
    with pytest.raises(ValueError, match="unknown state 'nowhere'"):
        player.step("nowhere", readings[0])
    with pytest.raises(ValueError, match="the reading is None at time 0"):
        player.step(states[0])
    assert player.time == 0
    later = next(one for one in range(problem.num_states) if not problem.model.initial[one] > 0)
    remembering = loaded(tmp_path / "later.py", problem, decided(problem, veil.StateMemory(1), 0))()
    with pytest.raises(ValueError, match="is impossible at time 0"):
        remembering.step(states[later])
    with pytest.raises(InputError, match="the agent does not know which model runs"):
        veil.export_player(policy, problem, tmp_path / "other.py", model=0)
    with pytest.raises(InputError, match="the policy comes before the problem"):
        veil.export_player(problem, policy, tmp_path / "other.py")  # pyright: ignore[reportArgumentType]


def test_a_policy_without_names_says_where_they_come_from():
    problem = watched()
    with pytest.raises(InputError, match="give the problem, or read the policy from a JSON file"):
        policies(problem)["markov"].player()


def test_names_of_every_kind_survive_in_the_file(tmp_path: Path):
    names = ["it's", 'a "b"', "back\\", "line\nbreak", "é\u2028", "'''", "x" * 500]
    model = veil.Model(
        np.roll(np.eye(7), 1, axis=1)[:, None],
        np.zeros((7, 1)),
        np.eye(7)[0],
        state_names=names,
        action_names=["it's \\ on"],
    )
    problem = veil.Problem(model, veil.Observer(np.ones((7, 1))), veil.LastState([0]), 7)
    player = loaded(tmp_path / "robot.py", problem, veil.MarkovPolicy(np.ones((7, 1))))()
    assert [player.step(name) for name in names] == ["it's \\ on"] * 7


def test_a_large_table_is_packed_and_comes_back_bit_for_bit(tmp_path: Path):
    problem = gallery.load("night-round").replace(horizon=60)
    random = np.random.default_rng(0)
    shape = (60, problem.num_cells, problem.num_actions)
    copies = -(-60_000 // int(np.prod(shape)))
    problem = problem.replace(horizon=60 * copies)
    weights = random.random((60 * copies, *shape[1:])) * problem.available
    policy = veil.TimedPolicy(weights / weights.sum(axis=-1, keepdims=True))
    path = tmp_path / "p.json"
    policy_to_json(path, problem, policy)
    document = json.loads(path.read_text("utf-8"))
    assert set(document["tables"]) == {"shape", "packed"}
    assert veil.load_policy(path, problem) == policy
    assert veil.load_policy(path) == policy
    document["rows"].reverse()
    path.write_text(json.dumps(document))
    assert np.array_equal(np.asarray(veil.load_policy(path, problem)), policy.probabilities[:, ::-1])
    for change, words in (
        ({"shape": [1, 1, 1], "packed": document["tables"]["packed"]}, "has more than 8 bytes"),
        ({"shape": [2**30, 2**30, 9], "packed": ""}, "expected at most"),
        ({"shape": document["tables"]["shape"], "packed": "AAAA"}, "cannot be unpacked"),
    ):
        path.write_text(json.dumps(document | {"tables": change}))
        with pytest.raises((PolicyFileError, InputError), match=words):
            veil.load_policy(path)


def test_a_damaged_player_part_is_refused(tmp_path: Path):
    problem = watched()
    path = tmp_path / "p.json"
    policy_to_json(path, problem, policies(problem)["memory"])
    document = json.loads(path.read_text("utf-8"))
    for change in ({"rows": [[0, 0, 0]]}, {"memory": {"nodes": 0}}, {"knowledge": {"start": [5]}}, {"states": 3}):
        path.write_text(json.dumps(document | {"player": document["player"] | change}))
        with pytest.raises(VeilError):
            veil.load_policy(path)


@pytest.mark.parametrize("yaw", [0.0, 1.0])
def test_a_player_of_a_map_converts_metres(yaw: float, tmp_path: Path):
    frame = veil.Frame(0.5, (-2.0, 3.0), yaw)
    world = veil.GridWorld(3, 4, walls=[(1, 1)], starts=(0, 0), secrets=[(2, 3)], frame=frame)
    problem = world.problem(3)
    policy = veil.MarkovPolicy.uniform(problem)
    policy_to_json(tmp_path / "p.json", problem, policy)
    for player in (loaded(tmp_path / "robot.py", problem, policy)(), veil.load_policy(tmp_path / "p.json").player()):
        for cell in world.cells:
            x, y = world.centre(cell)
            assert player.state_at(x + 0.2, y - 0.1) == world.state_at(x + 0.2, y - 0.1)
            assert player.centre(world.state(*cell)) == pytest.approx((x, y))
        with pytest.raises(ValueError, match="lies in no free cell"):
            player.state_at(*world.centre((1, 1)))
    plain = world.problem(3).replace(layout=None)
    with pytest.raises(ValueError, match="no map with metres"):
        loaded(tmp_path / "plain.py", plain, policy)().state_at(0, 0)
