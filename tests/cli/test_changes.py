"""`--set`: one way to change a scenario and the options of a command, and results that keep it."""

from pathlib import Path

import pytest

from tests.cli.commands import QUICK, veil
from tests.seeds import looped
from veil.common.errors import InputError
from veil.formats.results.folder import read_result
from veil.formats.scenario.changes import read_change
from veil.formats.scenario.load import load_scenario


def test_values_are_toml_or_text():
    assert read_change("horizon=20") == (("horizon",), 20)
    assert read_change("min_return=80%") == (("min_return",), "80%")
    assert read_change("observer.sees_actions=true") == (("observer", "sees_actions"), True)
    assert read_change('grid.sensors."a.b".states=["x", "y"]') == (("grid", "sensors", "a.b", "states"), ["x", "y"])
    assert read_change("min_return=") == (("min_return",), None)
    assert read_change("name=a = b\nc = d") == (("name",), "a = b\nc = d")


@looped("text", ["horizon", "=3", "a..b=1", ".a=1", 'a"b=1', "x=" + "[" * 65, "x=" + "1" * 5000])
def test_texts_of_another_form_are_refused(text: str):
    with pytest.raises(InputError, match="--set"):
        read_change(text)


def test_a_scenario_is_changed(home: Path):
    found = load_scenario(
        "rooms.toml",
        changes=[
            "horizon=4", "min_return=", "solve.memory=timed", "observer.sensors.camera.detection=0.5",
            "graph.transitions.1.3=vault",
        ],
    )  # fmt: skip
    assert found.problem.horizon == 4
    assert found.problem.min_return is None
    assert found.settings["memory"] == "timed"
    assert found.problem.name == "rooms"


@looped(
    ("change", "words"),
    [
        ("horizon=often", "--set horizon=often: found 'often', expected a whole number"),
        ("horizn=3", "--set horizn=3"),
        ("observer.sensors.camera.detection=2", "--set observer.sensors.camera.detection=2: "),
        ("horizon.steps=3", "horizon is a plain value, expected a table"),
        ("graph.transitions.9.1=hall", "expected the number of an entry, from 1 to 4"),
        ("secret.time=", "removes a key that is not there"),
    ],
)
def test_a_defect_names_the_change(change: str, words: str):
    done = veil("inspect", "rooms.toml", "--set", change)
    assert done.code == 2
    assert words in done.err


def test_every_command_that_reads_a_scenario_takes_changes():
    of_a_policy = ("measure", "simulate")
    for command in ("inspect", "solve", "frontier", "compare", "convert", *of_a_policy):
        rest = ["uniform"] if command in of_a_policy else ["other.toml"] if command == "convert" else []
        done = veil(command, "rooms.toml", *rest, "--set", "horizon=-1")
        assert done.code == 2, command
        assert "--set horizon=-1" in done.err


def test_options_of_a_command_are_keywords_of_the_functions_that_it_calls(home: Path):
    options = ("--set", "horizon=1", "--set", "measure.sequences=40", "--set", "measure.orders=[0.5, 3]", "--json")
    found = veil("measure", "rooms.toml", "--details", "--method", "sampled", *options).json
    assert found["problem"]["horizon"] == 1
    assert found["problem"]["changes"] == ["horizon=1"]  # the others are not about the problem
    assert found["opacity"]["num_sequences"] == 40
    assert list(found["details"]["quantities"]["renyi_bits"]) == ["0.5", "3"]


@looped(
    ("change", "words"),
    [
        ("measure.widt=1", "there is no option 'widt': did you mean 'width'?"),
        ("measure.width=thin", "measure.width=thin: expected a number"),
        ("measure.sequences=2.5", "measure.sequences=2.5: expected a whole number"),
        ("measure.pair=foe", "there is no pair 'foe'"),
        ("measure.problem=1", "there is no option 'problem'"),
        ("attack.believes=gone.json", "gone.json"),
    ],
)
def test_a_wrong_option_is_named(change: str, words: str):
    done = veil("measure", "rooms.toml", "--attack", "--set", change)
    assert done.code == 2
    assert words in done.err


def test_a_result_folder_is_a_scenario_everywhere(result: Path):
    (result.parent / "rooms.toml").unlink()
    own = veil("measure", result, "--json").json
    assert own == veil("measure", result, result, "--json").json
    assert own["opacity"]["bits"] == read_result(result).document.answer.opacity.bits
    assert own["policy"] == "a stationary Markov policy"
    for command in (
        ["inspect"],
        ["simulate", "uniform"],
        ["frontier", "--points", "2", *QUICK],
        ["compare", "--time-limit", "1"],
    ):
        done = veil(command[0], result, *command[1:], "--json")
        assert done.code == 0, done.err


def test_a_result_keeps_the_changes_it_was_solved_with(home: Path):
    options = ("--set", "horizon=3", "--set", "min_return=0.4", "--proof-time-limit", "2", "--json")
    solved = veil("solve", "rooms.toml", *QUICK, *options)
    assert solved.code in (0, 4), solved.err
    assert solved.json["problem"]["changes"] == [*QUICK[1::2], "horizon=3", "min_return=0.4"]
    checked = veil("verify", "rooms-result", "--json").json
    assert checked["holds"]
    assert checked["changes"] == [*QUICK[1::2], "horizon=3", "min_return=0.4"]
    assert "horizon=3, min_return=0.4" in veil("verify", "rooms-result").out
    assert veil("report", "rooms-result").code == 0
    assert veil("convert", "rooms-result", "policy.csv").code == 0
    assert veil("verify", "rooms.toml", "rooms-result").code == 5  # without the changes it is another problem
