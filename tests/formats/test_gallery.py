"""The gallery: the frozen layouts cell by cell, thresholds, options, and known values."""

import itertools

import numpy as np
import pytest

from tests.seeds import looped
from veil import expected_return, max_return
from veil.common.errors import InputError
from veil.formats import gallery
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.measure.constrained import constraint_values
from veil.planning.solve import solve
from veil.policy.markov import MarkovPolicy
from veil.problem.fingerprint import fingerprint

NAMES = gallery.names()


@looped("name", NAMES)
def test_every_problem_is_that_of_its_text_and_survives_being_written(name: str):
    problem = gallery.load(name)
    assert problem.name == name
    assert gallery.load(name, min_return=None).min_return is None
    read = read_scenario(gallery.scenario_text(name), name="another")
    assert (fingerprint(read.problem), read.problem.name) == (fingerprint(problem), name)
    assert read.description.strip().startswith(gallery.describe(name))
    assert fingerprint(read_scenario(to_toml(problem)).problem) == fingerprint(problem)


@looped("name", NAMES)
def test_every_threshold_is_attainable_and_asks_something(name: str):
    problem = gallery.load(name)
    if problem.others:  # a budget instead of a threshold
        policy = MarkovPolicy(np.eye(problem.num_actions)[np.full(problem.num_cells, problem.num_actions - 1)])
        assert not constraint_values(problem, policy)[0].met
        return
    if not problem.agent.sees_state:  # an observer that asks: its goal stands in [solve]
        assert gallery.load_scenario(name).settings["goal"] == "transparent"
        return
    assert isinstance(problem.min_return, float)
    assert expected_return(problem, MarkovPolicy.uniform(problem)) < problem.min_return < max_return(problem)


@looped(("name", "product"), [("language-graph", 28), ("language-grid", 144)])
def test_products_have_the_size_of_the_authors_language_examples(name: str, product: int):
    problem = gallery.load(name)
    memories = len(problem.secret_table.memory_names)
    assert memories == 4
    assert problem.num_states * memories == product
    assert problem.secret_table.agent_knows


def test_a_plan_for_the_language_example_has_its_proof():
    """The authors' own code takes 200 s for an iteration on a problem of this size."""
    found = solve(gallery.load("language-graph"), memory="timed", starts=2, iterations=60, certificate_time_limit=5)
    assert found.feasible
    assert found.opacity.bits > 1.05
    assert found.certificate is not None
    assert found.certificate.upper < 1.15


def test_an_unknown_name_suggests_near_ones():
    with pytest.raises(InputError, match=r"unknown problem 'paper-last': did you mean 'paper-last-state'"):
        gallery.load("paper-last")
    with pytest.raises(InputError, match=r"unknown problem 'zzz': known are 'two-rooms', 'paper-last-state'"):
        gallery.describe("zzz")
    with pytest.raises(InputError, match=r"'office-patrol': unknown option 'horizont': did you mean 'horizon'"):
        gallery.load("office-patrol", horizont=3)


def test_options_stand_in_place_of_the_keys_of_the_file():
    problem = gallery.load("office-patrol", horizon=np.int64(3), detection=0.5, false_alarm=0.25, sees_actions=True)
    assert problem.horizon == 3
    assert problem.observer.sees_actions
    both = problem.observer.emissions[problem.model.states.find("r2c2")]
    np.testing.assert_allclose(both, [0.25] * 4)
    assert problem.observer.emissions[-1, -1] == 0.0625
    assert not gallery.load("courier-depots", sees_initial=False).observer.sees_initial
    assert not gallery.load("badge-doors", agent_knows=False).secret_table.agent_knows
    assert gallery.load("office-patrol").horizon == 7  # the file is not changed
    with pytest.raises(InputError, match=r"gallery problem 'office-patrol': .*horizon: found -1"):
        gallery.load("office-patrol", horizon=-1)


# ---------------------------------------------------------------- by hand


def test_two_rooms_has_the_number_of_its_file():
    problem = gallery.load("two-rooms")
    joint: dict[tuple[int, ...], np.ndarray] = {}
    model, emissions = problem.model, problem.observer.emissions
    for first, action, second in itertools.product(range(2), repeat=3):
        chance = model.initial[first] * 0.5 * model.transitions[first, action, second]
        for seen in itertools.product(range(2), repeat=2):
            value = problem.secret_table.label[0, 0, second]
            weight = chance * emissions[first, seen[0]] * emissions[second, seen[1]]
            joint.setdefault(seen, np.zeros(2))[value] += weight
    bits = -sum(p * np.log2(p / row.sum()) for row in joint.values() for p in row if p > 0)
    assert bits == pytest.approx(5 / 8 * np.log2(5) - 1, abs=1e-15)
    assert bits == pytest.approx(0.451205, abs=5e-7)
    share = 3 / 7
    assert -7 / 16 * (share * np.log2(share) + (1 - share) * np.log2(1 - share)) == pytest.approx(0.431037, abs=5e-7)


# ---------------------------------------------------------------- the paper's grid, transcribed by coordinates


PAPER = {
    "b": {(0, 0), (0, 1)},
    "r": {(0, 5), (1, 5)},
    "y": {(4, 0), (5, 0)},
    "g": {(3, 3), (3, 4), (4, 3), (4, 4)},
}
PAPER_NAMES = ("paper-last-state", "paper-initial-state", "paper-false-alarms")


@looped("name", PAPER_NAMES)
def test_the_papers_model_cell_by_cell(name: str):
    problem = gallery.load(name)
    model = problem.model
    assert (problem.horizon, problem.min_return, problem.discount) == (10, 0.3, 1.0)
    assert model.states.all() == tuple(f"r{row}c{column}" for row in range(6) for column in range(6))
    assert model.actions.all() == ("north", "south", "west", "east", "stay")
    assert not model.terminal_rewards.any()
    starts = {(0, 0): 0.25, (0, 5): 0.25, (5, 0): 0.25, (5, 5): 0.25} if "initial" in name else {(3, 1): 1.0}
    steps = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    transitions = model.transitions
    for state, (row, column) in enumerate(itertools.product(range(6), repeat=2)):
        assert model.rewards[state].tolist() == [0.1 if (row, column) in {(0, 3), (3, 5)} else 0.0] * 5
        assert model.initial[state] == starts.get((row, column), 0.0)
        for action in range(5):
            expected = np.zeros(36)
            moves = [(action, 0.8)] + [(side, 0.1) for side in ((2, 3) if action < 2 else (0, 1))]
            for move, chance in moves if action < 4 else []:
                down, right = row + steps[move][0], column + steps[move][1]
                inside = 0 <= down < 6 and 0 <= right < 6
                expected[6 * down + right if inside else state] += chance
            if action == 4:
                expected[state] = 1
            np.testing.assert_allclose(transitions[state, action], expected, rtol=0, atol=1e-15)


@looped("name", PAPER_NAMES)
def test_the_papers_observer_cell_by_cell(name: str):
    problem = gallery.load(name)
    observer = problem.observer
    alarm = 0.01 if name == "paper-false-alarms" else 0.0
    assert observer.observations.all() == ("0", *PAPER)
    assert observer.sees_first
    assert not observer.sees_actions
    for state, cell in enumerate(itertools.product(range(6), repeat=2)):
        rates = [0.9 if cell in cells else alarm for cells in PAPER.values()]
        np.testing.assert_allclose(observer.emissions[state], [1 - sum(rates), *rates], rtol=0, atol=1e-15)


def test_the_papers_secrets():
    for name in ("paper-last-state", "paper-false-alarms"):
        table = gallery.load(name).secret_table
        assert table.time == 10
        assert set(np.flatnonzero(table.label[0, 0] == 1)) == {6 * 1 + 3, 6 * 4 + 2, 6 * 5 + 4}
    problem = gallery.load("paper-initial-state")
    assert problem.secret_table.time == 0
    assert problem.secret_values == ("r0c0", "r0c5", "r5c0", "r5c5")


def test_the_papers_largest_returns():
    assert max_return(gallery.load("paper-last-state")) == pytest.approx(0.451, abs=5e-4)
    assert max_return(gallery.load("paper-initial-state")) == pytest.approx(0.555, abs=5e-4)


# The sensor of each cell, or 0; and its kind: # obstacle, T trap, t target, g goal.
LATER_SENSORS = ["000AA0", "DDDAA0", "DDD000", "00EBBC", "000BBC", "000BBC"]
LATER_CELLS = [".T....", "...t.g", "...T.#", ".#tTgt", ".T....", ".....T"]


@looped("name", ["later-last-state", "later-initial-state"])
def test_the_later_grid_cell_by_cell(name: str):
    problem = gallery.load(name)
    model, observer = problem.model, problem.observer
    assert (problem.horizon, problem.discount) == (11, 1.0)
    assert problem.min_return == (0.308 if name == "later-last-state" else 0.6054)
    assert model.actions.all() == ("north", "south", "west", "east")
    assert observer.observations.all() == ("0", "A", "B", "C", "D", "E")
    assert observer.sees_first
    starts = [0, 6, 12, 18, 24, 30] if name == "later-last-state" else [0, 18, 30]
    free = [cell for cell in range(36) if cell not in (17, 19)]
    kinds, sensors = "".join(LATER_CELLS), "".join(LATER_SENSORS)
    assert model.states.all() == tuple(f"r{cell // 6}c{cell % 6}" for cell in free)
    transitions = model.transitions
    for state, cell in enumerate(free):
        assert model.initial[state] == (1 / len(starts) if cell in starts else 0)
        assert model.terminal_rewards[state] == (1.0 if kinds[cell] == "g" else 0.0)
        assert set(model.rewards[state]) == {model.terminal_rewards[state]}
        shown = "0ABCDE".index(sensors[cell])
        expected = np.eye(6)[0] if shown == 0 else 0.85 * np.eye(6)[shown] + 0.15 * np.eye(6)[0]
        np.testing.assert_allclose(observer.emissions[state], expected, rtol=0, atol=1e-15)
        ahead = [cell - 6 if cell >= 6 else cell, cell + 6 if cell < 30 else cell]
        ahead += [cell - 1 if cell % 6 else cell, cell + 1 if cell % 6 < 5 else cell]
        ahead = [cell if target in (17, 19) or kinds[cell] in "Tt" else target for target in ahead]
        for action in range(4):
            expected = np.zeros(34)
            expected[free.index(ahead[action])] += 0.8
            for side in (2, 3) if action < 2 else (0, 1):
                expected[free.index(ahead[side])] += 0.1
            np.testing.assert_allclose(transitions[state, action], expected, rtol=0, atol=1e-15)


def test_the_later_secrets():
    problem = gallery.load("later-last-state")
    label = problem.secret_table.label[0, 0]
    assert problem.secret_table.time == 11
    assert {problem.model.states[s] for s in np.flatnonzero(label == 1)} == {"r1c3", "r3c2", "r3c5"}
    assert gallery.load("later-initial-state").secret_values == ("r0c0", "r3c0", "r5c0")


def test_the_badge_automaton_accepts_leaving_by_the_back_only():
    problem = gallery.load("badge-doors")
    table, find = problem.secret_table, problem.model.states.find
    runs = {
        ("lobby", "hall", "lab", "yard", "lobby"): "accepts",
        ("lobby", "hall", "lab", "lab", "yard", "lab", "hall"): "accepts",
        ("lobby", "hall", "lab", "hall", "lobby", "yard"): "rejects",
        ("lobby", "yard", "lab", "hall"): "rejects",
    }
    for run, value in runs.items():
        memory = table.memory_start[find(run[0])]
        for room in run[1:]:
            memory = table.memory_step[memory, find(room)]
        assert table.value_names[table.label[0, memory, find(run[-1])]] == value
