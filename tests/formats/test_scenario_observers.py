"""Observers that depend on time or have no clock, in scenario files: read, written, and refused with the line."""

from importlib.resources import files

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.errors import ScenarioError
from veil.formats.scenario.load import read_scenario
from veil.formats.scenario.toml import to_toml
from veil.problem.fingerprint import fingerprint

TEXT = """
horizon = 3

[graph]
states = ["a", "b"]
initial = { a = 0.5, b = 0.5 }
transitions = [["a", "go", { a = 0.5, b = 0.5 }], ["b", "go", "b"]]

[observer]
rest = "nothing"
silent = "nothing"
%s

[observer.emissions]
a = "red"
%s

[secret]
kind = "initial_state"
"""
LATER = """
[observer.emissions_at.2]
b = { blue = 0.5, red = 0.5 }
"""


def read(keys: str = "", tables: str = "") -> veil.Problem:
    return read_scenario(TEXT % (keys, tables)).problem


def test_the_keys_are_those_of_the_observer():
    plain = read().observer
    assert not plain.varies
    assert read('times = "end"').observer.times == "end"
    assert read("times = [1, 3]").observer.times == {1, 3}
    assert read("untimed = true").observer.untimed
    later = read("", LATER).observer
    assert later.observations.all() == ("nothing", "red", "blue")
    np.testing.assert_allclose(later.matrices_at(2, 3)[0].toarray(), [[1, 0, 0], [0, 0.5, 0.5]])
    np.testing.assert_allclose(later.matrices_at(1, 3)[0].toarray(), [[0, 1, 0], [1, 0, 0]])


@looped("keys", ["", 'times = "end"', "times = [1, 3]", "untimed = true", "times = [0]\nuntimed = true"])
@looped("tables", ["", LATER])
def test_what_is_written_is_what_is_read(keys: str, tables: str):
    problem = read(keys, tables)
    assert fingerprint(read_scenario(to_toml(problem)).problem) == fingerprint(problem)


def test_sensors_of_a_grid_can_be_untimed(tmp_path):
    text = (
        (files("veil.formats.gallery") / "paper-last-state.toml")
        .read_text("utf-8")
        .replace("[secret]", "[observer]\nuntimed = true\n\n[secret]")
    )
    problem = read_scenario(text).problem
    assert problem.observer.untimed
    timed = veil.gallery.load("paper-last-state")
    policy = veil.MarkovPolicy.uniform(timed)
    short, long = problem.replace(horizon=4), timed.replace(horizon=4)
    assert veil.opacity(short, policy).bits > veil.opacity(long, policy).bits


@looped(
    ("keys", "tables", "words"),
    [
        ('times = "start"', "", "line 12, [observer] times: "),
        ("times = [4]", "", "the time 4, expected times from 0 to the horizon 3"),
        ("", '[observer.emissions_at.soon]\na = "red"', "expected a time"),
        ("", '[observer.emissions_at.1]\nc = "red"', "unknown state 'c'"),
        ("", '[observer.emissions_at.9]\na = "red"', "the time 9"),
        ("sees_actions = true\nuntimed = true", "", "every step is seen by its action"),
    ],
)
def test_what_is_wrong_is_named(keys: str, tables: str, words: str):
    with pytest.raises(ScenarioError) as caught:
        read(keys, tables)
    assert words in str(caught.value)


def test_groups_in_files():
    grid = (files("veil.formats.gallery") / "paper-last-state.toml").read_text("utf-8")
    text = grid[: grid.index("[secret]")]
    secret = '[secret]\nkind = "last_state"\n[secret.groups]\nnorth = ["r0c0", "r0c1"]\nsouth = ["r5c5"]\n'
    problem = read_scenario(text + secret).problem
    assert problem.secret_values == ("north", "south", "elsewhere")
    assert fingerprint(read_scenario(to_toml(problem)).problem) == fingerprint(problem)


def test_features_come_after_emissions_and_before_times():
    """Noise garbles what is emitted at each time; at times at which nothing is received there is no noise."""
    noisy = read_scenario(TEXT % ("noise = 0.2\ntimes = [0, 2]", LATER)).problem.observer
    plain = read_scenario(TEXT % ("", LATER)).problem.observer
    wrong = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    for time in (0, 2):
        expected = plain.matrices_at(time, 3)[0].toarray() @ wrong
        np.testing.assert_allclose(noisy.matrices_at(time, 3)[0].toarray(), expected, atol=1e-15)
    for time in (1, 3):
        assert (noisy.matrices_at(time, 3)[0].toarray()[:, noisy.find("nothing")] == 1).all()


def test_a_key_that_is_neither_a_key_nor_a_feature_is_refused():
    with pytest.raises(ScenarioError, match=r"line 11, \[observer\] nois: is an unknown key: did you mean 'noise'\?"):
        read_scenario(TEXT.replace('rest = "nothing"', 'rest = "nothing"\nnois = 0.1') % ("", ""))
    with pytest.raises(ScenarioError, match=r"\[observer\] noise: found 2.0, expected at most 1"):
        read_scenario(TEXT % ("noise = 2.0", ""))
