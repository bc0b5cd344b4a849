"""A file format of another package: read and written from Python, in scenario files and by the commands."""

from pathlib import Path

import pytest

from tests.plugin.conftest import Run, parsed

DOORS = """
hall go vault 0.5 0
hall go hall 0.5 0
hall wait hall 1 0
vault go hall 1 1     # the reward is for the decision
vault wait vault 1 1
"""
SCENARIO = """
horizon = 3

[file]
path = "doors.edges"

[observer.sensors.lamp]
states = { where = "state=vault" }
detection = 0.8

[secret]
kind = "last_state"
states = ["vault"]
"""
PYTHON = """
import veil
from veil.formats.registry import read_model

doors = read_model("doors.edges").sensing({"lamp": ("state=vault", 0.8)})
problem = doors.problem("state=vault", horizon=3)
notes = doors.save("again.edges")
again = read_model("again.edges")
assert (again.model.transitions == doors.model.transitions).all()
assert (again.model.rewards == doors.model.rewards).all()
assert notes == ("the observer is left out: the format has none",)
loaded = veil.load("doors.toml")
policy = veil.MarkovPolicy.uniform(problem)
print([veil.opacity(one, policy).bits for one in (problem, loaded)])
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "doors.edges").write_text(DOORS)
    (tmp_path / "doors.toml").write_text(SCENARIO)


def test_from_python_and_in_a_scenario(run: Run):
    first, second = parsed(run("-c", PYTHON))
    assert first == second > 0


def test_the_commands_read_and_write_it(run: Run, tmp_path: Path):
    assert parsed(run("veil", "inspect", "doors.edges", "--json"))["kind"] == "list of transitions"
    run("veil", "convert", "doors.edges", "doors.npz")
    assert "the observer is left out" in run("veil", "convert", "gallery:two-rooms", "rooms.edges")
    (tmp_path / "commas.edges").write_text("a,go,b,1,0\nb,go,a,1,0\n")
    run("veil", "convert", "commas.edges", "again.edges", "--set", "file.separator=,")
    assert (tmp_path / "again.edges").read_text() == "a go b 1.0 0.0\nb go a 1.0 0.0\n"
    listed = run("veil", "show", "formats")
    assert ".edges" in listed
    assert "lists of transitions" in listed


def test_its_options_in_a_scenario(run: Run, tmp_path: Path):
    (tmp_path / "commas.edges").write_text("hall,go,vault,1,0\nvault,go,hall,1,0\n")
    text = SCENARIO.replace('path = "doors.edges"', 'path = "commas.edges"\noptions = { separator = "," }')
    (tmp_path / "commas.toml").write_text(text)
    assert parsed(run("veil", "inspect", "commas.toml", "--json"))["states"] == 2
    (tmp_path / "commas.toml").write_text(text.replace("separator", "seperator"))
    message = run("veil", "inspect", "commas.toml", code=2)
    assert "line 6, [file.options] seperator: found seperator, which is not an option" in message
    assert "did you mean 'separator'?" in message


def test_what_is_wrong_is_told_as_by_veils_own(run: Run, tmp_path: Path):
    (tmp_path / "doors.edges").write_text("hall go vault\n")
    assert "doors.edges, line 1: 'hall go vault' found, expected state" in run("veil", "inspect", "doors.edges", code=2)
    (tmp_path / "doors.toml").write_text(SCENARIO.replace('"doors.edges"', '"doors.edges"\nconstants = { N = 3 }'))
    assert "constants, which is not an option of lists of transitions" in run("veil", "inspect", "doors.toml", code=2)
    (tmp_path / "doors.toml").write_text(SCENARIO.replace("doors.edges", "doors.edge"))
    (tmp_path / "doors.edge").write_text(DOORS)
    message = run("veil", "inspect", "doors.toml", code=2)
    assert "unsupported extension '.edge'; known: .pomdp, .npz, .drn, .prism, .nm, .pm, .yaml, .yml" in message
    assert ".edges (to read a model)" in message


def test_a_format_that_does_not_fit_names_its_package(run_misfit: Run):
    message = run_misfit("veil", "convert", "doors.edges", "doors.npz", code=2)
    assert "package 'veil-example' 1.0" in message
    assert "expected a veil.formats.registry.Format" in message
    run_misfit("veil", "convert", "gallery:two-rooms", "rooms.npz")  # all else goes on working
