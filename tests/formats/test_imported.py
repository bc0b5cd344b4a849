"""What importers return: observers, sensors, rewards and problems by expressions, and the summary."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.errors import InputError
from veil.formats.imported import Imported
from veil.formats.registry import read_model
from veil.formats.sensing import observer_from
from veil.problem.model import Model
from veil.problem.observer import Observer

X = np.array([0, 1, 2, 3])
NO_VARIABLES = "the variables are left out: the format has none"
DOOR = np.array(["open", "shut", "open", "open"])


def line(**changes: Any) -> Imported:
    """Four states in a line, in which one goes east or stays."""
    east = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 1]], dtype=float)
    model = Model(np.stack([east, np.eye(4)], axis=1), np.zeros(4), [1, 0, 0, 0], action_names=["east", "stay"])
    parts: dict[str, Any] = {"valuations": {"x": X, "door": DOOR}, "labels": {"goal": X == 3}} | changes
    return Imported(model, None, "line", "model of four states", **parts)


def test_sets_of_states():
    read = line()
    assert read.states_where("x>=2 & door=open") == (2, 3)
    assert read.states_where('"goal"') == (3,)
    assert read.states_where("index=1 | state=s2") == (1, 2)
    with pytest.raises(InputError, match="true in none of 4 states"):
        read.states_where("x=1 & door=open")
    with pytest.raises(InputError, match=r"unknown variable 'z': known are"):
        read.states_where("z=1")


def test_watchers_of_variables():
    read = line().observing("door", "x", sees_actions=True, sees_initial=False)
    assert read.observer is not None
    assert read.observer.observations.all() == ("door=open, x=0", "door=shut, x=1", "door=open, x=2", "door=open, x=3")
    assert (read.observer.sees_actions, read.observer.sees_initial) == (True, False)
    noisy_one = line().observing("door", noise=0.25)
    assert noisy_one.observer is not None
    assert noisy_one.observer.emissions.tolist() == [[0.75, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.25]]
    given = Observer(np.eye(4))
    assert line().observing(given).observer is given
    with pytest.raises(InputError, match="unknown variable 'colour'"):
        line().observing("colour")


def test_sensors_with_and_without_rates():
    read = line().sensing({"east": ("x>=2", 0.9, 0.1), "door": "door=shut"})
    assert read.observer is not None
    names = read.observer.observations
    assert set(names.all()) == {"0", "east", "door", "east+door"}
    assert read.observer.emissions[2, names.find("east")] == pytest.approx(0.9)
    assert read.observer.emissions[1, names.find("door")] == pytest.approx(0.9)
    assert read.observer.emissions[1, names.find("east+door")] == pytest.approx(0.1)


@looped(
    ("sensors", "words"),
    [
        ({}, "no sensors found"),
        ({"a": ("x>1", 2.0)}, "'a' is ('x>1', 2.0)"),
        ({"a": "x>>1"}, "column 3"),
    ],
)
def test_sensors_that_are_refused(sensors: dict[str, Any], words: str):
    with pytest.raises(InputError) as caught:
        line().sensing(sensors)
    assert words in str(caught.value)


def test_rewards_by_expressions_add_up():
    read = line().paying({"x>=2": 1.0, '"goal"': 0.5}, terminal={"x=3": 7})
    assert read.model.rewards.tolist() == [[0, 0], [0, 0], [1, 1], [1.5, 1.5]]
    assert read.model.terminal_rewards.tolist() == [0, 0, 0, 7]
    assert read.model.actions.all() == ("east", "stay")
    assert "rewards replaced by expressions" in read.notes
    with pytest.raises(InputError, match="pays 'much', expected a number"):
        line().paying({"x=1": "much"})  # pyright: ignore[reportArgumentType]


def test_problems():
    read = line().observing("door", noise=0.1).paying({"x=3": 1})
    problem = read.problem("x=3", 5, min_return="50%", name="walk", agent_sees="state+observations")
    assert problem.name == "walk"
    assert problem.agent_sees == "state+observations"
    assert isinstance(problem.secret, veil.LastState)
    assert read.problem(veil.StateAt(2, [1]), 3).secret_values
    other = Observer(np.eye(4))
    assert read.problem("x=3", 2, observer=other).observer is other
    with pytest.raises(InputError, match=r"has no observer: give observer="):
        line().problem("x=3", 5)
    with pytest.raises(InputError, match=r"emission row \(state 's0'\) sums to 0\.5"):
        line().observing([{"a": 0.5}, "a", "a", "a"]).problem("x=3", 2)


@looped(
    ("observe", "words"),
    [
        (3.5, "expected a function of the state's index, a mapping or a list"),
        (["a", "b"], "has 2 entries, expected one for each of the 4 states"),
        ([True, "a", "a", "a"], "state 0: True found"),
    ],
)
def test_watchers_that_are_refused(observe: Any, words: str):
    with pytest.raises(InputError) as caught:
        observer_from(observe, 4, line().model.states)
    assert words in str(caught.value)


def test_another_initial_state():
    assert line().starting({"s1": 0.25, 3: 0.75}).model.initial.tolist() == [0, 0.25, 0, 0.75]
    assert line().starting("s2").model.initial.tolist() == [0, 0, 1, 0]
    assert line().starting(2).model.initial.tolist() == [0, 0, 1, 0]
    read = line().starting("door=open")
    assert read.model.initial.tolist() == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert read.model.actions.all() == ("east", "stay")
    assert "initial state replaced" in read.summary()
    wrongs: list[tuple[Any, str]] = [
        ({"s9": 1.0}, "s9"),
        ({0: 0.5}, "sums to 0.5"),
        ("x=9", "true in none"),
        ("z", "unknown variable"),
    ]
    for wrong, words in wrongs:
        with pytest.raises(InputError, match=words):
            line().starting(wrong)


@looped(
    ("suffix", "notes"),
    [
        (".npz", ()),
        (".drn", ("the label 'a \"b\"' is left out: the format cannot write it", NO_VARIABLES)),
        (".pomdp", (NO_VARIABLES, "the labels are left out: the format has none")),
    ],
)
def test_what_a_format_leaves_out_is_told(suffix: str, notes: tuple[str, ...], tmp_path: Path):
    read = line(labels={"goal": X == 3, 'a "b"': X == 0})
    assert read.save(tmp_path / f"m{suffix}") == notes
    again = read_model(tmp_path / f"m{suffix}")
    assert np.array_equal(again.model.transitions, read.model.transitions)
    if suffix != ".pomdp":
        assert again.states_where('"goal"') == (3,)
    if suffix == ".npz":
        assert again.states_where("x>=2 & door=open") == (2, 3)
