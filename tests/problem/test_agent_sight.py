"""What the agent sees: the rows of its policies, its errors, its files and its player."""

from itertools import product

import numpy as np
import pytest

import veil
from veil.policy.recall import recall
from veil.problem.fingerprint import fingerprint


def random_problem(seed: int = 0, states: int = 3, horizon: int = 3, **changes) -> veil.Problem:
    rng = np.random.default_rng(seed)
    model = veil.Model(
        rng.dirichlet(np.ones(states), size=(states, 2)),
        rng.normal(size=(states, 2)),
        rng.dirichlet(np.ones(states)),
        action_names=["go", "stay"],
    )
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=states))
    return veil.Problem(model, observer, veil.LastState([0]), horizon, **changes)


def sensors(seed: int = 0, states: int = 3, **changes) -> veil.Observer:
    return veil.Observer(np.random.default_rng(seed).dirichlet(np.ones(2), size=states), ["dark", "light"], **changes)


def test_the_rows_of_a_policy_are_readings():
    assert random_problem(agent_sees="observations").cell_names == ("o0", "o1")
    assert random_problem(agent_sees=sensors()).cell_names == ("dark", "light")
    assert random_problem(agent_sees=sensors(sees_initial=False)).cell_names == ("dark", "light", "nothing yet")
    pairs = random_problem(agent_sees=sensors(sees_actions=True)).cell_names
    assert pairs == ("(go, dark)", "(go, light)", "(stay, dark)", "(stay, light)", "dark", "light")
    known = random_problem(agent_sees=sensors())
    visited = known.replace(secret=veil.Visited({"here": [0], "there": [1]}, agent_knows=True))
    assert visited.num_cells == 4 * 2
    assert not known.knows_all
    assert random_problem().knows_all


def test_an_action_is_available_where_all_states_of_a_reading_have_it():
    move = np.zeros((3, 2, 3))
    move[:, :, 0] = 1
    available = [[True, True], [True, False], [False, True]]
    move[~np.array(available)] = 0
    model = veil.Model(move, [1, 0, 0], available=available, initial=0)
    seen = veil.Observer([[1, 0], [1, 0], [0, 1]])
    problem = veil.Problem(model, veil.Observer(np.ones((3, 1))), veil.LastState([0]), 2, agent_sees=seen)
    assert problem.available.tolist() == [[True, False], [False, True]]
    assert recall(problem, veil.ObservationMemory(1)).num_cells < 4
    with pytest.raises(veil.InputError, match="not available there"):
        veil.opacity(problem, veil.MarkovPolicy([[0, 1], [0, 1]]))
    with pytest.raises(veil.InputError, match="no action in common"):
        problem.replace(agent_sees=veil.Observer(np.ones((3, 1))))


@pytest.mark.parametrize(
    ("sees", "words"),
    [
        (True, "agent_sees is True, expected one of 'state'"),
        ("observation", "expected one of 'state', 'state\\+observations', 'observations'"),
        (veil.Observer(np.ones((2, 1))), r"emissions has shape \(2, 1\), expected \(3, O\)"),
        (veil.Observer(np.ones((3, 1)), silent=0, untimed=True), "expected one with a clock"),
    ],
)
def test_what_is_no_sight_is_refused(sees: object, words: str):
    with pytest.raises(veil.InputError, match=words):
        random_problem(agent_sees=sees)


def test_what_depends_on_states_is_refused_with_the_reason():
    problem = random_problem(agent_sees=sensors())
    for memory in (veil.StateMemory(1), veil.ZoneMemory([[0]])):
        with pytest.raises(veil.InputError, match=r"does not see its state.*ObservationMemory"):
            veil.MemoryPolicy.uniform(problem, memory)
    with pytest.raises(veil.InputError, match="does not see its state"):
        veil.soft.soft_policy(problem, 1.0, horizon="finite")
    with pytest.raises(veil.InputError, match="shape"):
        veil.opacity(problem, veil.MarkovPolicy(np.full((3, 2), 0.5)))


def test_sight_is_part_of_the_problem_and_survives_a_file(tmp_path):
    seen = [random_problem(agent_sees=one) for one in ("state", "state+observations", "observations", sensors())]
    assert len({fingerprint(one) for one in seen}) == len(set(seen)) == 4
    for number, one in enumerate([*seen, random_problem(agent_sees=sensors(sees_actions=True, times=[1, 2]))]):
        path = tmp_path / f"{number}.toml"
        one.save(path)
        loaded = veil.load(path)
        assert fingerprint(loaded) == fingerprint(one)
        assert loaded.cell_names == one.cell_names


def test_sensors_of_the_agent_in_a_file(tmp_path):
    text = """
horizon = 2
[graph]
states = ["hall", "wall"]
actions = ["go"]
initial = "hall"
transitions = [["hall", "go", { hall = 0.5, wall = 0.5 }], ["wall", "go", "wall"]]
[observer]
emissions = { hall = "quiet", wall = "quiet" }
[secret]
kind = "last_state"
states = ["wall"]
[agent.sensors.bumper]
states = ["wall"]
detection = 0.75
"""
    path = tmp_path / "bumper.toml"
    path.write_text(text)
    problem = veil.load(path)
    assert isinstance(problem.agent_sees, veil.Observer)
    assert "bumper" in problem.cell_names
    path.write_text(text.replace("[agent.sensors.bumper]", '[agent]\nsees = "state"\n[agent.sensors.bumper]'))
    with pytest.raises(veil.VeilError, match="found beside the agent's sensors"):
        veil.load(path)


def test_a_player_takes_readings_and_refuses_what_cannot_be():
    move = np.zeros((3, 2, 3))
    move[0, 0, 1] = move[0, 1, 2] = move[1, :, 1] = move[2, :, 2] = 1
    model = veil.Model(move, [1, 0, 0], action_names=["left", "right"], initial=0)
    seen = veil.Observer([[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]], ["start", "red", "grey"])
    problem = veil.Problem(model, veil.Observer(np.ones((3, 1))), veil.LastState([1]), 3, agent_sees=seen)
    policy = veil.MarkovPolicy([[0, 1], [1, 0], [1, 0]])
    run = policy.player(problem)
    with pytest.raises(veil.InputError, match="does not see its state"):
        run.act("start")
    with pytest.raises(veil.InputError, match="impossible at time 0"):
        run.act(observation="red")
    assert run.act(observation="start") == 1
    with pytest.raises(veil.InputError, match="impossible at time 1, after 'right'"):
        run.act(observation="red")  # only the state on the left can show it
    assert run.act(observation="grey") == 0
    remembering = veil.MemoryPolicy.uniform(problem, veil.ObservationMemory(2)).player(problem)
    assert remembering.act(observation="start") in (0, 1)
    with pytest.raises(veil.InputError, match="it is missing"):
        remembering.act()


def test_an_agent_that_can_tell_more_does_at_least_as_well_at_its_optimum():
    channel = np.array([[0.9, 0.1], [0.3, 0.7]])
    for seed in range(4):
        fine = sensors(seed)
        seen = [random_problem(seed, horizon=2, agent_sees=one) for one in ("state", fine, fine.garbled(channel))]
        best = [max(veil.expected_return(one, policy) for policy in _deterministic(one)) for one in seen]
        assert best[0] == pytest.approx(veil.max_return(seen[0]), abs=1e-12)
        assert best[0] >= best[1] - 1e-12
        assert best[1] >= best[2] - 1e-12
        assert veil.max_return(seen[2]) >= best[0] - 1e-12  # what is proven of agents that see less
        # Whoever reads more can act like one that reads less.
        policy = np.random.default_rng(seed).dirichlet(np.ones(2), size=(2, 2))
        one, two = (
            veil.opacity(problem, veil.TimedPolicy(table)).bits
            for problem, table in ((seen[1], channel @ policy), (seen[2], policy))
        )
        assert one == pytest.approx(two, abs=1e-12)


def _deterministic(problem: veil.Problem) -> list[veil.TimedPolicy]:
    rows = problem.horizon * problem.num_cells
    tables = (np.eye(2)[np.array(actions).reshape(problem.horizon, -1)] for actions in product(range(2), repeat=rows))
    return [veil.TimedPolicy(table) for table in tables]


def test_sensors_that_show_the_state_are_an_agent_that_sees_it():
    eyes = veil.Observer(np.eye(3))
    for seed in range(3):
        plain, reading = random_problem(seed), random_problem(seed, agent_sees=eyes)
        policy = veil.TimedPolicy(np.random.default_rng(seed).dirichlet(np.ones(2), size=(3, 3)))
        assert veil.opacity(plain, policy).bits == pytest.approx(veil.opacity(reading, policy).bits, abs=1e-12)
        theta = np.random.default_rng(seed).normal(size=(3, 3, 2))
        one, two = (veil.opacity_gradient(problem, theta)[1] for problem in (plain, reading))
        np.testing.assert_allclose(one, two, atol=1e-12)
