"""A feature of observers of another package: used from Python, in scenario files, by pairs and on the command line."""

from pathlib import Path

import pytest

from tests.plugin.conftest import GRAPH, Run, parsed

pytestmark = pytest.mark.usefixtures("scenario")

ROOMS = f"""horizon = 4
{GRAPH}
[observer.duty]
period = 3

[[pairs]]
name = "other"
observer = {{ noise = 0.1, duty = {{ period = 2 }}, sensors.vault = {{ states = "vault", detection = 0.5 }} }}
"""
PYTHON = """
import json, veil
from veil_example.duty import Duty

problem = veil.load("rooms.toml")
sensor = problem.observer.replace(times=None)
made = problem.replace(observer=Duty(3).apply(sensor, problem.model, problem.horizon))
by_hand = problem.replace(observer=sensor.replace(times=[0, 3]))
policy = veil.MarkovPolicy.uniform(problem)
times = [sorted(problem.observer.times), sorted(problem.channel("other").observer.times)]
bits = [veil.opacity(one, policy, "exact").bits for one in (problem, made, by_hand)]
print(json.dumps([times, bits, veil.opacity(problem.replace(observer=sensor), policy, "exact").bits]))
"""


def test_from_python_and_in_a_scenario(run: Run):
    times, bits, always = parsed(run("-c", PYTHON))
    assert times == [[0, 3], [0, 2, 4]]
    assert bits[0] == bits[1] == bits[2] > always


def test_on_the_command_line_and_in_the_schema(run: Run, tmp_path: Path):
    run("veil", "convert", "rooms.toml", "again.toml")
    prints = [parsed(run("veil", "inspect", name, "--json"))["fingerprint"] for name in ("rooms.toml", "again.toml")]
    assert prints[0] == prints[1]
    assert "times = [0, 3]" in (tmp_path / "again.toml").read_text("utf-8")
    run(
        "veil",
        "solve",
        "rooms.toml",
        "--set",
        "solve.starts=1",
        "--set",
        "solve.certificate=false",
        "--set",
        "observer.duty.on=2",
        "-o",
        "out",
    )
    found = parsed(run("veil", "show", "schema"))["$defs"]
    assert found["ObserverTable"]["properties"]["duty"]["$ref"] == "#/$defs/DutyFeature"
    assert set(found["DutyFeature"]["properties"]) == {"period", "on"}


def test_alone_it_works_on_an_observer_that_sees_nothing(run: Run, scenario: Path):
    sensor = '[observer.sensors.vault]\nstates = "vault"\ndetection = 0.75\n'
    scenario.write_text(ROOMS.replace(sensor, "").partition("[[pairs]]")[0])
    assert parsed(run("veil", "inspect", "rooms.toml", "--json"))["observations"] == 1


def test_what_is_wrong_is_told_as_by_veils_own(run: Run, scenario: Path):
    for given, words in (
        ("period = 0", "line 19, [observer.duty] period: found 0, expected 1 or more"),
        ("on = 1", "[observer.duty] period: is missing, expected: steps of a period"),
        ("period = 2\non = 3", "on is 3, expected at most the period, 2"),
        ("period = 2\nof = 3", "[observer.duty] of: is an unknown key"),
    ):
        scenario.write_text(ROOMS.replace("period = 3", given))
        assert words in run("veil", "inspect", "rooms.toml", code=2)
    scenario.write_text(ROOMS.replace("[observer.duty]", "[observer.dutty]"))
    assert "[observer.dutty]: is an unknown key: did you mean 'duty'?" in run("veil", "inspect", "rooms.toml", code=2)
    scenario.write_text(ROOMS.replace("[observer.duty]\nperiod = 3", "[observer]\nduty = 3"))
    assert "[observer] duty: found 3, expected a table" in run("veil", "inspect", "rooms.toml", code=2)
