"""Grid worlds: the laws of moving, the readings of the sensors by hand, drawings, and every refusal."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.seeds import in_blocks, looped
from veil.common.errors import InputError, TooLargeError
from veil.problem.grid.world import GridWorld, Sensor
from veil.problem.secrets.initial_state import InitialState
from veil.problem.secrets.last_state import LastState

NORTH, SOUTH, WEST, EAST, STAY = range(5)


def row(world: GridWorld, cell: tuple[int, int], action: int) -> dict[str, Any]:
    """The next states of one cell and action that have a positive probability."""
    model = world.model()
    chances = model.transitions[model.states.find(world.state(*cell)), action]
    return {model.states[index]: pytest.approx(chances[index], abs=1e-15) for index in np.flatnonzero(chances)}


def shown(world: GridWorld, cell: tuple[int, int]) -> dict[str, float]:
    """The observations of one cell that have a positive probability."""
    observer = world.observer()
    chances = observer.emissions[world.cells.index(cell)]
    return {observer.observations[index]: float(chances[index]) for index in np.flatnonzero(chances)}


# ---------------------------------------------------------------- moving


def test_a_move_slips_to_both_sides():
    world = GridWorld(3, 3, starts=(1, 1), slip=0.15)
    assert row(world, (1, 1), NORTH) == {"r0c1": 0.7, "r1c0": 0.15, "r1c2": 0.15}
    assert row(world, (1, 1), SOUTH) == {"r2c1": 0.7, "r1c0": 0.15, "r1c2": 0.15}
    assert row(world, (1, 1), WEST) == {"r1c0": 0.7, "r0c1": 0.15, "r2c1": 0.15}
    assert row(world, (1, 1), EAST) == {"r1c2": 0.7, "r0c1": 0.15, "r2c1": 0.15}


@in_blocks(5, 5, 5)
def test_moves_against_a_cell_by_cell_reading(seed: int):
    random = np.random.default_rng(seed)
    rows, columns, slip = 4, 5, 0.05 * (seed + 1)
    cells = list(itertools.product(range(rows), range(columns)))
    walls = [cell for cell in cells if random.random() < 0.25]
    free = [cell for cell in cells if cell not in walls]
    absorbing = [cell for cell in free if random.random() < 0.2]
    world = GridWorld(rows, columns, walls=walls, starts=free, absorbing=absorbing, slip=slip)
    expected = np.zeros((len(free), 5, len(free)))
    steps = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    sides = [(2, 3), (2, 3), (0, 1), (0, 1)]
    for source, cell in enumerate(free):
        for action in range(5):
            moves = (
                [(None, 1.0)] if action == STAY else [(action, 1 - 2 * slip), *((side, slip) for side in sides[action])]
            )
            for move, chance in moves:
                down, right = (0, 0) if move is None or cell in absorbing else steps[move]
                target = (cell[0] + down, cell[1] + right)
                expected[source, action, free.index(target if target in free else cell)] += chance
    np.testing.assert_allclose(world.model().transitions, expected, rtol=0, atol=1e-15)


# ---------------------------------------------------------------- starts, rewards, problems


def test_starts_in_three_forms():
    one, two = GridWorld(1, 4, starts=(0, 3)), GridWorld(1, 4, starts=[(0, 0), (0, 3)])
    weighed = GridWorld(1, 4, starts={(0, 0): 0.25, (0, 1): 0.75})
    assert one.model().initial.tolist() == [0, 0, 0, 1]
    assert two.model().initial.tolist() == [0.5, 0, 0, 0.5]
    assert weighed.model().initial.tolist() == [0.25, 0.75, 0, 0]


def test_goals_pay_each_decision_and_the_last_state_on_request():
    world = GridWorld(1, 3, starts=(0, 0), goals={(0, 1): 0.5, (0, 2): -1.0})
    assert world.model().rewards.tolist() == [[0] * 5, [0.5] * 5, [-1.0] * 5]
    assert not world.model().terminal_rewards.any()
    paid = GridWorld(1, 3, starts=(0, 0), goals={(0, 1): 0.5, (0, 2): -1.0}, goals_pay_last=True, discount=0.9)
    assert paid.model().terminal_rewards.tolist() == [0, 0.5, -1.0]
    assert paid.model().discount == 0.9


def test_problem_passes_everything_on():
    world = GridWorld(2, 2, starts=[(0, 0), (0, 1)], secrets=[(1, 0)], sensors=[Sensor("a", [(1, 1)])], discount=0.9)
    problem = world.problem(
        4, min_return=0.0, return_over="infinite", sees_actions=True, sees_initial=False, name="small"
    )
    assert (problem.horizon, problem.min_return, problem.return_over, problem.name) == (4, 0.0, "infinite", "small")
    assert problem.observer.sees_actions
    assert not problem.observer.sees_initial
    assert isinstance(problem.secret, LastState)
    assert problem.secret_table.label.ravel().tolist() == [0, 0, 1, 0]
    assert world.problem(2, secret=InitialState()).secret_values == ("r0c0", "r0c1")


def test_problem_without_a_secret_is_refused():
    with pytest.raises(InputError, match=r"no secret cells: give secrets=\[\(row, column\), …\], or secret=…"):
        GridWorld(1, 2, starts=(0, 0)).problem(3)


# ---------------------------------------------------------------- readings


def test_one_sensor_without_false_alarms():
    world = GridWorld(1, 3, starts=(0, 0), sensors=[Sensor("a", [(0, 1)])])
    assert shown(world, (0, 0)) == {"0": 1.0}
    assert shown(world, (0, 1)) == pytest.approx({"0": 0.1, "a": 0.9})


def test_overlapping_sensors_read_independently():
    world = GridWorld(
        1, 4, starts=(0, 0), sensors=[Sensor("a", [(0, 0), (0, 1)], 0.9), Sensor("b", [(0, 1), (0, 2)], 0.8)]
    )
    assert world.observer().observations.all() == ("0", "a", "b", "a+b")
    assert shown(world, (0, 0)) == pytest.approx({"0": 0.1, "a": 0.9})
    assert shown(world, (0, 1)) == pytest.approx({"0": 0.02, "a": 0.18, "b": 0.08, "a+b": 0.72})
    assert shown(world, (0, 2)) == pytest.approx({"0": 0.2, "b": 0.8})
    assert shown(world, (0, 3)) == {"0": 1.0}


def test_the_alphabet_is_what_can_occur():
    apart = GridWorld(1, 3, starts=(0, 0), sensors=[Sensor("a", [(0, 0)]), Sensor("b", [(0, 2)]), Sensor("c", [])])
    assert apart.observer().observations.all() == ("0", "a", "b")
    sure = GridWorld(1, 2, starts=(0, 0), sensors=[Sensor("a", [(0, 0)], 1.0), Sensor("b", [(0, 0)], 0.5)])
    assert sure.observer().observations.all() == ("0", "a", "a+b")
    assert shown(sure, (0, 0)) == pytest.approx({"a": 0.5, "a+b": 0.5})


def test_false_alarms_read_outside_the_range():
    world = GridWorld(1, 3, starts=(0, 0), sensors=[Sensor("a", [(0, 0)], 0.9, 0.1), Sensor("b", [(0, 1)], 0.8)])
    assert world.observer().observations.all() == ("0", "a", "b", "a+b")
    assert shown(world, (0, 0)) == pytest.approx({"0": 0.1, "a": 0.9})
    assert shown(world, (0, 1)) == pytest.approx({"0": 0.18, "a": 0.02, "b": 0.72, "a+b": 0.08})
    assert shown(world, (0, 2)) == pytest.approx({"0": 0.9, "a": 0.1})


def test_single_readings():
    sensors = [Sensor("a", [(0, 0)], 0.9, 0.01), Sensor("b", [(0, 1)], 0.8, 0.02), Sensor("c", [], 0.9, 0.0)]
    world = GridWorld(1, 3, starts=(0, 0), sensors=sensors, readings="single")
    assert world.observer().observations.all() == ("0", "a", "b")
    assert shown(world, (0, 0)) == pytest.approx({"0": 0.08, "a": 0.9, "b": 0.02})
    assert shown(world, (0, 1)) == pytest.approx({"0": 0.19, "a": 0.01, "b": 0.8})
    assert shown(world, (0, 2)) == pytest.approx({"0": 0.97, "a": 0.01, "b": 0.02})


def test_a_muted_sensor_is_left_out_of_every_reading():
    sensors = [Sensor("a", [(0, 0), (0, 1)], 0.9), Sensor("b", [(0, 1), (0, 2)], 0.8)]
    observer = GridWorld(1, 4, starts=(0, 0), sensors=sensors).observer()
    assert observer.sensors == {"a": {1: 0, 3: 2}, "b": {2: 0, 3: 1}}
    for name, left in (("a", sensors[1]), ("b", sensors[0])):
        alone = GridWorld(1, 4, starts=(0, 0), sensors=[left]).observer()
        muted = observer.without_sensor(name)
        keep = [muted.observations.find(o) for o in alone.observations.all()]
        np.testing.assert_allclose(muted.emissions[:, keep], alone.emissions, rtol=0, atol=1e-15)


def test_muting_where_the_rest_cannot_occur_tells_the_same():
    # "a" never reports without "b" in the only cell that it covers, so "b" alone is not in the alphabet.
    world = GridWorld(1, 2, starts=(0, 0), sensors=[Sensor("a", [(0, 0)], 1.0), Sensor("b", [(0, 0)], 1.0)])
    observer = world.observer()
    assert observer.observations.all() == ("0", "a+b")
    assert observer.without_sensor("a").emissions.tolist() == [[0, 1], [1, 0]]


def test_too_many_combinations_are_refused():
    sensors = [Sensor(f"s{column}", [(0, column)], 0.9, 0.01) for column in range(17)]
    world = GridWorld(1, 20, starts=(0, 0), sensors=sensors)
    with pytest.raises(TooLargeError, match=r"17 of them may report or not .* readings='single'"):
        world.observer()


# ---------------------------------------------------------------- drawings


def same(first: GridWorld, second: GridWorld) -> None:
    """Equal models and observers, number by number."""
    a, b = first.model(), second.model()
    np.testing.assert_array_equal(a.transitions, b.transitions)
    for part in ("rewards", "terminal_rewards", "initial", "discount"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))
    assert (a.states.all(), a.actions.all()) == (b.states.all(), b.actions.all())
    np.testing.assert_array_equal(first.observer().emissions, second.observer().emissions)
    assert first.observer().observations.all() == second.observer().observations.all()
    assert first.observer().sensors == second.observer().sensors
    assert (set(first.secrets), set(first.starts)) == (set(second.secrets), set(second.starts))


def test_a_drawing_with_blanks_equals_its_coordinates():
    drawn = GridWorld.from_ascii(
        """
        S   .  gG  #
        ?X  gy y   S?
        """,
        sensors={"g": {"name": "green", "detection": 0.8}, "y": {"detection": 0.7, "false_alarm": 0.1}},
        goal_reward=0.5,
        goals_pay_last=True,
        slip=0.2,
        stay=False,
        discount=0.9,
    )
    listed = GridWorld(
        2,
        4,
        walls=[(0, 3)],
        starts=[(0, 0), (1, 3)],
        goals={(0, 2): 0.5},
        goals_pay_last=True,
        secrets=[(1, 0), (1, 3)],
        absorbing=[(1, 0)],
        sensors=[Sensor("green", [(0, 2), (1, 1)], 0.8), Sensor("y", [(1, 1), (1, 2)], 0.7, 0.1)],
        slip=0.2,
        stay=False,
        discount=0.9,
    )
    same(drawn, listed)


def test_a_drawing_without_blanks_is_one_character_a_cell():
    drawn = GridWorld.from_ascii("S.#\na?G", sensors={"a": {"detection": 0.9, "false_alarm": 0.0}}, readings="single")
    listed = GridWorld(
        2, 3, walls=[(0, 2)], starts=(0, 0), goals={(1, 2): 1.0}, secrets=[(1, 1)], sensors=[Sensor("a", [(1, 0)])]
    )
    same(drawn, listed)
    assert drawn.readings == "single"


# ---------------------------------------------------------------- refusals


BAD_WORLDS = [
    ({"rows": 0}, "rows is 0, expected a whole number, 1 or more"),
    ({"columns": 2.5}, "columns is 2.5, expected a whole number, 1 or more"),
    ({"walls": [(2, 0)]}, "wall (2, 0) lies off the grid, expected rows 0 to 1 and columns 0 to 2: move it"),
    ({"walls": "wall"}, "wall: found 'wall', expected a list of cells (row, column)"),
    ({"walls": list(itertools.product(range(2), range(3)))}, "every cell is a wall, expected at least one free cell"),
    ({"slip": 0.6}, "slip is 0.6, expected a number from 0 to 0.5"),
    ({"slip": "much"}, "slip is 'much', expected a number from 0 to 0.5"),
    ({"slip": float("nan")}, "slip is nan, expected a number from 0 to 0.5"),
    ({"discount": 1.5}, "discount is 1.5, expected a number from 0 to 1"),
    ({"starts": []}, "there is no start, expected at least one cell: give starts=[(row, column), …], or draw an S"),
    ({"starts": iter([])}, "there is no start, expected at least one cell"),
    ({"starts": 3}, "start: found 3, expected a list of cells (row, column)"),
    ({"starts": [(0, 0), (0, 0)]}, "a start is given twice, expected distinct cells: give a mapping"),
    ({"starts": (0, -1)}, "start (0, -1) lies off the grid, expected rows 0 to 1 and columns 0 to 2"),
    (
        {"starts": (1, 1), "walls": [(1, 1)]},
        "start (1, 1) is a wall, expected a free cell: move it, or take the wall away",
    ),
    ({"starts": {(0, 0): 0.5, (0, 1): 0.4}}, "probabilities of the starts sum to 0.9, expected 1"),
    ({"starts": {(0, 0): 1.5}}, "probability of start (0, 0) is 1.5, expected a number from 0 to 1"),
    ({"goals": [(0, 1)]}, "goals are [(0, 1)], expected a mapping from cells to rewards, such as {(0, 3): 0.1}"),
    ({"goals": {3: 1.0, 4: 1.0}}, "goal 3 is not a cell, expected (row, column), two whole numbers"),
    ({"goals": {(0, 1): float("inf")}}, "reward of goal (0, 1) is inf, expected a finite number"),
    ({"secrets": [(0, 0, 0)]}, "secret (0, 0, 0) is not a cell, expected (row, column), two whole numbers"),
    ({"secrets": [(0.0, 1)]}, "secret (0.0, 1) is not a cell"),
    ({"absorbing": [(9, 9)]}, "absorbing cell (9, 9) lies off the grid"),
    ({"readings": "both"}, "readings are 'both', expected 'independent' or 'single'"),
    ({"sensors": 1}, "sensors are 1, expected a list of Sensor(name, cells, …)"),
    ({"sensors": ["a"]}, "sensor 0 is 'a', expected a veil Sensor(name, cells, …)"),
    ({"sensors": [Sensor("0", [])]}, "sensor '0': its name is a non-empty string without '+', and not '0': rename it"),
    ({"sensors": [Sensor("a+b", [])]}, "sensor 'a+b': its name is a non-empty string without '+'"),
    ({"sensors": [Sensor("a", []), Sensor("a", [])]}, "sensor 'a' is given twice, expected distinct names"),
    ({"sensors": [Sensor("a", [], 1.2)]}, "sensor 'a': detection is 1.2, expected a number from 0 to 1"),
    ({"sensors": [Sensor("a", [], 0.9, -0.1)]}, "sensor 'a': false_alarm is -0.1, expected a number from 0 to 1"),
    ({"sensors": [Sensor("a", [(0, 7)])]}, "sensor 'a': cell (0, 7) lies off the grid"),
    (
        {"sensors": [Sensor("a", [(0, 1)]), Sensor("b", [(0, 1)])], "readings": "single"},
        "cell (0, 1) is in range of sensors 'a' and 'b', expected one with readings='single': separate the ranges",
    ),
    (
        {"sensors": [Sensor("a", [(0, 1)], 0.9), Sensor("b", [], 0.9, 0.2)], "readings": "single"},
        "a state in range of sensor 'a' has a report with probability 1.1 in all, expected at most 1",
    ),
    (
        {"sensors": [Sensor("a", [], 0.9, 0.6), Sensor("b", [], 0.9, 0.6)], "readings": "single"},
        "a state in no range has a report with probability 1.2 in all, expected at most 1",
    ),
]


@looped(("changes", "message"), BAD_WORLDS)
def test_a_bad_world_is_refused(changes: dict, message: str):
    settings: dict[str, Any] = {"rows": 2, "columns": 3, "starts": (0, 0)} | changes
    with pytest.raises(InputError) as caught:
        GridWorld(**settings)
    assert any(message in defect for defect in caught.value.defects), caught.value.defects


def test_all_defects_come_at_once():
    with pytest.raises(InputError) as caught:
        GridWorld(2, 2, starts=(5, 5), slip=2, secrets=[(0, 9)], sensors=[Sensor("a", [(3, 3)], 2.0)], discount=-1)
    assert len(caught.value.defects) == 6


SENSOR = {"a": {"detection": 0.9, "false_alarm": 0.0}}
BAD_DRAWINGS = [
    ("", {}, "the drawing is '', expected a string with one line a row"),
    (None, {}, "the drawing is None, expected a string with one line a row"),
    ("S..\n..", {}, "line 2 has 2 cells, expected 3 as line 1 has: each character is a cell"),
    ("S .\n\n. .", {}, "line 2 has 0 cells, expected 2 as line 1 has: spaces separate cells"),
    (
        "S.\n.q",
        {},
        "line 2, column 2: 'q' has no meaning, expected one of . # S G ? X: describe it in sensors or legend",
    ),
    ("S. .\n. .b", {"sensors": SENSOR}, "line 2, column 2: 'b' has no meaning, expected one of . # S G ? X a:"),
    ("S .\n. #G", {}, "line 2, column 2: '#G' is a wall and also 'goal', expected a wall to stand alone"),
    ("S.", {"sensors": {"G": {}}}, "sensor 'G': the character means 'goal' in every drawing, expected another one"),
    ("S.", {"sensors": {"ab": {}}}, "sensor 'ab': expected one character that is not a blank"),
    (
        "S.",
        {"sensors": {"a": {"range": 2}}},
        "expected a mapping with the keys detection, false_alarm, name, or a Sensor",
    ),
    ("S.", {"sensors": {"a": 0.9}}, "sensor 'a' has the settings 0.9, expected a mapping"),
    ("S.", {"sensors": ["a"]}, "sensors are ['a'], expected a mapping from a character to the settings of a sensor"),
    ("S.", {"legend": ["a"]}, "legend is ['a'], expected a mapping from a character to its meaning"),
    (
        "S.",
        {"legend": {"v": ["vault"]}},
        "legend 'v' means 'vault', expected a word or a sensor among floor, wall",
    ),
    ("S.", {"legend": {"S": ["goal"]}}, "legend 'S': the character means 'start' in every drawing"),
    ("S.", {"legend": {"a": ["goal"]}, "sensors": SENSOR}, "legend 'a' is the character of a sensor too"),
    ("..", {}, "there is no start, expected at least one cell: give starts=[(row, column), …], or draw an S"),
    ("SG", {"goal_reward": "much"}, "reward of goal (0, 1) is 'much', expected a finite number"),
    ("Sa", {"sensors": {"a": {"detection": 2}}}, "sensor 'a': detection is 2, expected a number from 0 to 1"),
]


@looped(("drawing", "options", "message"), BAD_DRAWINGS)
def test_a_bad_drawing_is_refused(drawing: str, options: dict, message: str):
    with pytest.raises(InputError) as caught:
        GridWorld.from_ascii(drawing, **options)
    assert any(message in defect for defect in caught.value.defects), caught.value.defects


@looped("cell", [(0, 1), (3, 0), (-1, 0)])
def test_a_cell_without_a_state_is_refused(cell: tuple[int, int]):
    world = GridWorld(2, 2, walls=[(0, 1)], starts=(0, 0))
    with pytest.raises(InputError, match=r"is a wall|lies off the grid"):
        world.state(*cell)


def test_a_large_grid_stays_sparse():
    world = GridWorld(200, 300, walls=[(100, column) for column in range(299)], starts=(0, 0), goals={(199, 0): 1.0})
    model = world.model()
    assert model.num_states == 200 * 300 - 299
    assert model.states[model.num_states - 1] == "r199c299"
    assert model.num_transitions < 13 * model.num_states + 2_000
