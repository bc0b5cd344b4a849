"""Scenario files that load: what each key comes to, against problems built by hand."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.formats.scenarios import AUTOMATON, GRAPH, GRID, MODELS
from tests.random_problems import random_case
from tests.seeds import looped
from veil.common.errors import ScenarioError
from veil.formats.gallery import scenario_text
from veil.formats.imported import Imported
from veil.formats.scenario.load import Scenario, load, load_scenario, read_scenario
from veil.formats.scenario.toml import to_toml
from veil.policy.memories import Controller, Mixture, ObservationMemory, StateMemory, ZoneMemory
from veil.problem.fingerprint import fingerprint
from veil.problem.grid.world import GridWorld, Sensor
from veil.problem.model import Model
from veil.problem.observer import Observer
from veil.problem.problem import Problem
from veil.problem.secrets.automaton import Automaton
from veil.problem.secrets.initial_state import InitialState
from veil.problem.secrets.last_state import LastState
from veil.problem.secrets.state_at import StateAt
from veil.problem.secrets.which_model import WhichModel

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.toml"))


def same(text: str, problem: Problem) -> bool:
    return fingerprint(read_scenario(text).problem) == fingerprint(problem)


def graph_model(discount: float = 0.95) -> Model:
    return Model.from_entries(
        [
            ("harbour", "go", "bridge", 0.9),
            ("harbour", "go", "harbour", 0.1),
            ("mill", "go", "bridge", 0.9),
            ("mill", "go", "mill", 0.1),
            ("bridge", "go", "market", 1.0),
            ("market", "wait", "market", 1.0),
        ],
        {"market": 0.5, ("mill", "go"): 0.1},
        {"harbour": 0.5, "mill": 0.5},
        discount,
        {"market": 0.1},
        state_names=["harbour", "bridge", "mill", "market"],
    )


def graph_observer(**options: Any) -> Observer:
    nothing, car, parcel = [1, 0, 0], [1 - 0.8, 0.8, 0], [0, 0, 1]
    return Observer([nothing, car, nothing, parcel], ["nothing", "car", "parcel"], **options)


def test_a_grid_is_the_one_drawn():
    world = GridWorld(
        3,
        4,
        walls=[(1, 1)],
        starts=[(2, 0)],
        goals={(0, 3): 0.2},
        secrets=[(0, 0)],
        sensors=[Sensor("north", [(0, 2), (1, 2)], 0.9, 0.02), Sensor("d", [(2, 2)], 0.8)],
    )
    assert same(GRID, world.problem(4, min_return="50%"))


def test_a_grid_given_by_cells_is_the_one_drawn():
    cells = """
rows = 3
columns = 4
walls = [[1, 1]]
starts = [{ cell = [2, 0] }]
goals = [{ cell = [0, 3], reward = 0.2 }]
secrets = [[0, 0]]
"""
    text = re.sub(r'drawing = """.*?"""', cells, GRID, flags=re.DOTALL)
    text = re.sub(r"\[grid.legend\]\n.*\n", "", text)
    text = text.replace("[grid.sensors.c]", "[grid.sensors.c]\ncells = [[0, 2], [1, 2]]")
    text = text.replace("[grid.sensors.d]", "[grid.sensors.d]\ncells = [[2, 2]]")
    assert same(text, read_scenario(GRID).problem)


def test_rewards_and_weights_of_the_legend():
    text = GRID.replace("?  .  c  G", "?  A  $  G").replace('"$" =', 'A = { is = "start", weight = 3 }\n"$" =')
    problem = read_scenario(text).problem
    model = problem.model
    assert model.initial[model.states.find("r0c1")] == 0.75
    assert model.initial[model.states.find("r2c0")] == 0.25
    assert model.rewards[model.states.find("r0c2"), 0] == 0.5
    assert model.rewards[model.states.find("r0c3"), 0] == 0.2
    # The sign stands for a goal in range of sensor c.
    seen = problem.observer.emissions[model.states.find("r0c2")]
    np.testing.assert_allclose(seen[problem.observer.find("north")], 0.9)


def test_a_graph_is_the_one_listed():
    secret = InitialState({"port": ["harbour"], "inland": ["mill"]})
    problem = Problem(graph_model(), graph_observer(), secret, 3, 0.5)
    assert same(GRAPH, problem)
    assert read_scenario(GRAPH).problem.name == "parcel"


def test_switches_of_a_problem():
    text = "agent.sees = 'state+observations'\n" + GRAPH.replace(
        "sees_actions = false", "sees_actions = true\nsees_initial = false"
    )
    secret = InitialState({"port": ["harbour"], "inland": ["mill"]})
    watcher = graph_observer(sees_actions=True, sees_initial=False)
    assert same(text, Problem(graph_model(), watcher, secret, 3, 0.5, agent_sees="state+observations"))


@looped(
    ("given", "secret"),
    [
        ('kind = "last_state"\nstates = "mill"', LastState(["mill"])),
        ('kind = "last_state"\nstates = [0, "mill"]', LastState([0, 2])),
        ('kind = "last_state"\nstates = { where = "index>1 & state!=market" }', LastState(["mill"])),
        ('kind = "state_at"\ntime = 2\nstates = ["market"]', StateAt(2, ["market"])),
        ('kind = "initial_state"', InitialState()),
        (
            AUTOMATON.split("[secret]\n")[1],
            Automaton({("no", "bridge"): "yes"}, "no", ["yes"], {"bridge": "bridge"}, "road", "stay"),
        ),
    ],
)
def test_every_secret_of_one_model(given: str, secret: object):
    text = GRAPH.split("[secret]\n")[0] + "[secret]\n" + given
    assert same(text, Problem(graph_model(), graph_observer(), secret, 3, 0.5))  # pyright: ignore[reportArgumentType]


def test_several_models():
    def model(stuck: float) -> Model:
        entries = [("a", "go", "a", stuck), ("a", "go", "b", 1 - stuck), ("b", "go", "b", 1.0)]
        return Model.from_entries(entries, {}, "a")

    watcher = Observer([[1, 0], [1 - 0.7, 0.7]], ["0", "eye"])
    problem = Problem([model(0.5), model(0.1)], watcher, WhichModel([0.25, 0.75], ["plain", "quick"]), 2)
    assert same(MODELS, problem)


def test_several_grids_share_their_sensors():
    text = GRID.replace('"last_state"', '"which_model"') + "\n[[models]]\n[[models]]\ngrid = { slip = 0.3 }\n"
    problem = read_scenario(text).problem
    assert len(problem.models) == 2
    assert problem.secret_values == ("model 0", "model 1")
    with pytest.raises(ScenarioError, match=r"entry 2: its observer differs"):
        read_scenario(text.replace("{ slip = 0.3 }", "{ sensors = { c = {}, d = {} } }"))


def test_emissions_on_actions():
    text = GRAPH.replace(
        '[observer.emissions]\nbridge = { car = 0.8 }\nmarket = "parcel"',
        '[observer.action_emissions.go]\nbridge = { car = 0.8 }\n[observer.action_emissions.wait]\nmarket = "parcel"',
    )
    problem = read_scenario(text).problem
    assert problem.observer.on_actions
    assert problem.observer.emissions.shape == (2, 4, 3)
    np.testing.assert_allclose(problem.observer.emissions[0, 1], [0.2, 0.8, 0])
    assert problem.observer.emissions[1, 3].tolist() == [0, 0, 1]
    assert problem.observer.emissions[0, 0].tolist() == [1, 0, 0]


def test_what_is_silent_and_what_is_muted():
    text = GRAPH.replace("sees_actions = false", 'silent = "nothing"\n[observer.mutes.camera]\ncar = "nothing"')
    observer = read_scenario(text).problem.observer
    assert observer.silent == observer.find("nothing")
    assert observer.without_sensor("camera").emissions[1].tolist() == [1, 0, 0]


def test_a_watcher_of_variables_and_noise():
    text = "horizon = 1\n[grid]\ndrawing = '''\nS.\n#?\n..\n'''\n[observer]\nvariables = ['row']\nnoise = 0.2\n"
    observer = read_scenario(text).problem.observer
    assert observer.observations.all() == ("row=0", "row=1", "row=2")
    np.testing.assert_allclose(observer.emissions[2], [0.1, 0.8, 0.1])


@looped(
    ("given", "expected"),
    [
        ('"markov"', "markov"),
        ('"timed"', "timed"),
        ("{ observations = 2 }", ObservationMemory(2)),
        ("{ states = 1, clock = false }", StateMemory(1, False)),
        ('{ zones = ["r0c0", { drawn = "G" }] }', ZoneMemory([[0], [3]])),
        ("{ controller = 3 }", Controller(3)),
        ("{ mixture = 3, clock = true }", Mixture(3, clock=True)),
        ('"observations:2-clock"', ObservationMemory(2, False)),
    ],
)
def test_memories(given: str, expected: object):
    text = "agent.sees = 'state+observations'\n" + GRID.replace('memory = "timed"', f"memory = {given}")
    assert read_scenario(text).settings["memory"] == expected


def test_queries_may_be_uniform():
    text, asking = scenario_text("camera-guard"), '[querying]\nwalker = "uniform"\n'
    plain = read_scenario(text.replace(asking, "").replace('goal = "transparent"\n', "")).problem
    querying = veil.Querying(walker=veil.MarkovPolicy.uniform(plain))
    expected = querying.against(plain, veil.MarkovPolicy.uniform(querying.apply(plain)))
    assert same(text.replace(asking, f'{asking}queries = "uniform"\n'), expected)


def test_settings_are_those_given():
    assert dict(read_scenario(GRID).settings) == {"method": "ascent", "memory": "timed", "seed": 3}
    assert dict(read_scenario(GRAPH).settings) == {}
    text = GRAPH + '[solve]\nmethod = "primal-dual"\nstep = 0.5\ntime_limit = 3\ngoal = "transparent"\n'
    expected = {"method": "primal-dual", "step": 0.5, "time_limit": 3.0, "goal": "transparent"}
    assert dict(read_scenario(text).settings) == expected


def test_a_file_gives_problem_and_name(tmp_path: Path):
    path = tmp_path / "night.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GRID.replace("\n", "\r\n").encode())  # as some editors write it
    assert same(GRID, load(path))
    assert load(str(path)).name == "night"
    scenario = load_scenario(path)
    assert isinstance(scenario, Scenario)
    assert scenario.source == str(path)
    assert "night.toml" in repr(scenario)


def test_a_model_file_beside_the_scenario(tmp_path: Path):
    model, watcher = graph_model(), graph_observer()
    (tmp_path / "models").mkdir()
    Imported(model, watcher, valuations={"x": np.arange(4)}).save(tmp_path / "models" / "town.npz")
    path = tmp_path / "town.toml"
    head = 'horizon = 3\n[file]\npath = "models/town.npz"\n'
    path.write_text(head + '[secret]\nkind = "last_state"\nstates = { where = "x>=2" }\n')
    expected = Problem(model, watcher, LastState([2, 3]), 3)
    assert fingerprint(load(path)) == fingerprint(expected)
    changes = 'discount = 0.5\ninitial = "mill"\n'
    changes += 'rewards = [{ states = { where = "x=1" }, reward = 2 }, { last = true, reward = 0 }]\n'
    path.write_text(head + changes + '[observer.sensors.eye]\nstates = [1]\n[secret]\nkind = "initial_state"\n')
    problem = load(path)
    assert problem.discount == 0.5
    assert problem.model.rewards[:, 0].tolist() == [0, 2, 0, 0]
    assert problem.model.initial.tolist() == [0, 0, 1, 0]
    assert not problem.model.terminal_rewards.any()
    assert problem.observer.observations.all() == ("0", "eye")


def test_a_model_file_elsewhere_where_that_is_allowed(tmp_path: Path):
    Imported(graph_model(), graph_observer()).save(tmp_path / "town.npz")
    (tmp_path / "home").mkdir()
    path = tmp_path / "home" / "town.toml"
    path.write_text('horizon = 3\n[file]\npath = "../town.npz"\n[secret]\nkind = "initial_state"\n')
    with pytest.raises(ScenarioError, match="leaves the folder"):
        load(path)
    assert load(path, allow_outside=True).num_states == 4


@looped("path", EXAMPLES)
def test_examples_are_solved(path: Path):
    scenario = load_scenario(path)
    assert scenario.description
    assert scenario.problem.name == path.stem
    quick = dict(scenario.settings) | {"starts": 1, "iterations": 3, "certificate": False}
    solution = veil.solve(scenario.problem, **quick)
    assert solution.feasible
    assert solution.opacity.bits > 0


@looped("seed", range(40))
def test_random_problems_survive_being_written(seed: int):
    problem = random_case(seed).problem
    assert same(to_toml(problem), problem)
