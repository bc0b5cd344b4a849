"""What a picture shows: ranges from rates, roles from the model, the states that matter, where actions lead."""

import numpy as np
import pytest

import veil
from veil.report import scene as scenes
from veil.report.scene import MOST_NODES, make_scene, sensor_ranges


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


def test_of_many_states_the_most_important_are_shown():
    size = 90
    step = np.zeros((size, 1, size))
    step[np.arange(size), 0, (np.arange(size) + 1) % size] = 1
    observer = veil.Observer(np.ones((size, 1)))
    problem = veil.Problem(veil.Model(step, np.zeros(size), 0), observer, veil.LastState({3}), 2)
    near = make_scene(problem)
    assert near.shown.tolist() == list(range(MOST_NODES))
    weight = np.zeros(size)
    weight[50:] = 1
    assert make_scene(problem, weight).shown.tolist() == [0, *range(50, 50 + MOST_NODES - 1)]


def test_an_action_without_one_direction_has_no_arrow():
    layout = veil.GridWorld(2, 2, starts=(0, 0)).layout
    step = np.zeros((4, 2, 4))
    step[np.arange(4), 0, [1, 0, 3, 0]] = 1
    step[np.arange(4), 1, [1, 3, 0, 2]] = 1
    model = veil.Model(step, np.zeros(4), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((4, 1))), veil.LastState({3}), 2, layout=layout)
    assert make_scene(problem).directions[0] == (1, 0)
    assert make_scene(problem).directions[1] is None


def test_a_grid_too_large_to_draw_is_a_graph(paper: veil.Problem, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scenes, "MOST_CELLS", 30)
    assert not make_scene(paper).is_grid
