"""What a picture shows: ranges from rates, roles from the model, the states that matter, where actions lead."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from veil.report.scene import make_scene, sensor_ranges


def names(problem: veil.Problem, mask: np.ndarray) -> set[str]:
    return {problem.model.states[int(state)] for state in np.flatnonzero(mask)}


def test_the_paper_s_grid(paper: veil.Problem):
    scene = make_scene(paper)
    assert scene.is_grid
    assert scene.size == (6.0, 6.0)
    assert scene.walls == []
    assert names(paper, scene.starts) == {"r3c1"}
    assert names(paper, scene.goals) == {"r0c3", "r3c5"}
    assert names(paper, scene.secrets) == {"r1c3", "r4c2", "r5c4"}
    found = {one.name: {paper.model.states[int(s)] for s in one.states} for one in scene.ranges}
    assert found["b"] == {"r0c0", "r0c1"}
    assert found["g"] == {"r3c3", "r3c4", "r4c3", "r4c4"}
    assert [one.rate for one in scene.ranges] == pytest.approx([0.9] * 4)
    assert scene.directions == [(0, -1), (0, 1), (-1, 0), (1, 0), (0, 0)]
    assert scene.places[paper.model.states.find("r3c1")].tolist() == [1.5, 3.5]


def test_ranges_follow_the_observer(paper: veil.Problem):
    muted = paper.replace(observer=paper.observer.without_sensor("b"))
    assert len(sensor_ranges(muted)[0].states) == muted.num_states  # it reports nowhere, so it tells no states apart
    assert make_scene(muted).is_grid
    alarms = veil.gallery.load("paper-false-alarms")
    assert [len(one.states) for one in sensor_ranges(alarms)] == [2, 2, 2, 4]
    assert all(one.elsewhere > 0 for one in sensor_ranges(alarms))


def test_walls_are_what_no_state_holds():
    problem = veil.gallery.load("convoy-checkpoint")
    assert make_scene(problem).walls == [(0, 2), (2, 2), (4, 2)]


def test_what_the_secret_speaks_of(courier: veil.Problem):
    assert names(courier, courier.secret.marked_states(courier)) == {"quay", "station", "mill", "farm"}
    doors = veil.gallery.load("badge-doors")
    assert names(doors, doors.secret.marked_states(doors)) == {"lab", "yard"}
    probe = veil.gallery.load("network-probe")
    assert not probe.secret.marked_states(probe).any()


def test_a_graph_has_its_edges(courier: veil.Problem):
    scene = make_scene(courier)
    assert not scene.is_grid
    assert scene.directions == [None] * courier.num_actions
    found = {frozenset((scene.names[i], scene.names[j])) for i, j in scene.edges.tolist() if i != j}
    assert frozenset(("station", "bridge")) in found
    assert frozenset(("station", "farm")) not in found


def test_an_action_without_one_direction_has_no_arrow():
    layout = veil.GridWorld(2, 2, starts=(0, 0)).layout
    step = np.zeros((4, 2, 4))
    step[np.arange(4), 0, [1, 0, 3, 0]] = 1
    step[np.arange(4), 1, [1, 3, 0, 2]] = 1
    model = veil.Model(step, np.zeros(4), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((4, 1))), veil.LastState({3}), 2, layout=layout)
    assert make_scene(problem).directions[0] == (1, 0)
    assert make_scene(problem).directions[1] is None


def test_gymnasium_s_grids_are_grids():
    lake = veil.from_gymnasium("FrozenLake-v1", observe="row").problem("cell=H", 3)
    scene = make_scene(lake)
    assert scene.size == (4.0, 4.0)
    assert names(lake, scene.goals) == {"r3c3"}
    assert names(lake, scene.traps) == {"r1c1", "r1c3", "r2c3", "r3c0"}
    assert scene.directions == [(-1, 0), (0, 1), (1, 0), (0, -1)]  # left, down, right, up, though it slips sideways
    cliff = veil.from_gymnasium("CliffWalking-v1", observe="col").problem("row=0", 3)
    scene = make_scene(cliff)
    assert scene.size == (12.0, 4.0)
    assert names(cliff, scene.goals) == {"r3c11"}
    assert not scene.traps.any()
    assert [scene.names[int(spot)] for spot in scene.closed] == [f"r3c{column}" for column in range(1, 11)]


def test_states_that_share_a_cell():
    taxi = veil.from_gymnasium("Taxi-v4", observe="row").problem("passenger=taxi", 2)
    scene = make_scene(taxi)
    assert scene.size == (5.0, 5.0)
    assert scene.names[:6] == ["r0c0", "r0c1", "r0c2", "r0c3", "r0c4", "r1c0"]
    assert names(taxi, scene.goals) == {"r0c0 R to R", "r0c4 G to G", "r4c0 Y to Y", "r4c3 B to B"}
    assert scene.total(np.ones(500)).tolist() == [20.0] * 25
    weight = np.zeros(500)
    weight[[taxi.model.states.find("r2c2 R to G"), taxi.model.states.find("r2c2 taxi to B")]] = [1.0, 3.0]
    table = np.arange(500.0)[:, None] * np.ones(6)
    chosen = np.flatnonzero(weight)
    assert scene.mean(table, weight)[12, 0] == pytest.approx((weight[chosen] * chosen).sum() / 4)
    here = [state for state in range(500) if taxi.model.states[state].startswith("r0c0 ")]
    assert scene.mean(table, weight)[0, 0] == pytest.approx(np.mean(here))


def named(*names: str) -> veil.Problem:
    model = veil.Model([sp.eye_array(len(names), format="csr")], np.zeros(len(names)), 0, state_names=names)
    return veil.Problem(model, veil.Observer(np.ones((len(names), 1))), veil.LastState([0]), 1)


def test_grids_by_the_names_of_states():
    upwards = make_scene(named("x=0, y=0", "x=1, y=0", "x=0, y=1", "x=1, y=1"))
    assert upwards.places.tolist() == [[0.5, 1.5], [1.5, 1.5], [0.5, 0.5], [1.5, 0.5]]  # y points up
    assert make_scene(named("row=5,col=7", "row=5,col=8", "row=6,col=7", "row=6,col=8")).size == (2.0, 2.0)
    assert not make_scene(named("r0c0", "r0c1", "r1c0", "hall")).is_grid
    assert not make_scene(named("r0c0", "r99c99", "r7c3", "r8c1")).is_grid  # far too empty


def test_a_large_grid_is_cropped_to_where_the_policy_goes():
    problem = named(*(f"r{row}c{column}" for row in range(201) for column in range(200)))
    visits = np.zeros(problem.num_states)
    visits[[3 * 200 + 1, 4 * 200 + 2]] = 1.0
    scene = make_scene(problem, visits)
    assert scene.size == (4.0, 4.0)
    assert scene.names == [f"r{row}c{column}" for row in range(2, 6) for column in range(4)]
    assert "where the policy goes" in scene.part
    assert scene.total(visits).sum() == 2.0
