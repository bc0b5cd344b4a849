"""A memory of another package: used from Python, in scenario files and on the command line, saved, lifted and verified."""

from pathlib import Path

import pytest

from tests.plugin.conftest import GRAPH, Run, parsed

pytestmark = pytest.mark.usefixtures("scenario")

ROOMS = f"horizon = 3\n{GRAPH}\n[solve]\nmemory = {{ stayed = 2 }}\nstarts = 1\n"
# By hand: all runs of the two rooms, with the count of steps in the present room read off each.
PYTHON = """
import itertools, json, math
import numpy as np, veil
from veil.formats.scenario.load import load_scenario
from veil_example.stayed import Stayed

found = load_scenario("rooms.toml")
problem = found.problem
assert found.settings["memory"] == Stayed(2)
names = veil.MemoryPolicy.row_names(problem, Stayed(2))
theta = np.random.default_rng(1).normal(size=(len(names), 2))
policy = veil.MemoryPolicy.softmax(theta, problem, Stayed(2))
joint = {}
for states in itertools.product((0, 1), repeat=4):
    for seen in itertools.product((0, 1), repeat=4):
        for actions in itertools.product((0, 1), repeat=3):
            chance, count = float(states[0] == 0), 0
            for time, (state, action) in enumerate(zip(states, actions)):
                words = f"here for {count} steps" + (" or more" if count == 2 else "")
                row = names.index(f"{problem.model.states[state]} ({words})") if chance else 0
                chance *= policy.probabilities[row, action] * problem.model.transitions[state, action, states[time + 1]]
                count = min(count + 1, 2) if states[time + 1] == state else 0
            for state, shown in zip(states, seen):
                chance *= problem.observer.emissions[state, shown]
            joint.setdefault(seen, [0.0, 0.0])[states[-1]] += chance
bits = -sum(p * math.log2(p / sum(row)) for row in joint.values() for p in row if p)
policy.save("policy")
again = veil.load_policy("policy")
lifted = veil.MemoryPolicy.lift(problem, Stayed(3), policy)
timed = veil.MemoryPolicy.lift(problem, Stayed(2, clock=True), policy)
print(json.dumps([bits, again == policy, [veil.opacity(problem, one).bits for one in (policy, again, lifted, timed)]]))
"""


def test_from_python_and_in_a_scenario(run: Run):
    bits, same, found = parsed(run("-c", PYTHON))
    assert same
    assert found == pytest.approx([bits] * 4, abs=1e-12)


def test_on_the_command_line_and_in_the_schema(run: Run):
    document = parsed(run("veil", "solve", "rooms.toml", "-o", "out", "--json"))
    assert document["answer"]["settings"]["memory"] == {"kind": "stayed", "most": 2, "clock": False}
    assert document["certificate"]["lower"] <= document["answer"]["opacity"]["bits"]
    run("veil", "verify", "rooms.toml", "out")
    quick = ("--set", "solve.starts=1", "--set", "solve.certificate=false", "-o", "other", "--json")
    document = parsed(run("veil", "solve", "rooms.toml", "--memory", "stayed:1+clock", *quick))
    assert document["answer"]["settings"]["memory"] == {"kind": "stayed", "most": 1, "clock": True}
    assert set(parsed(run("veil", "show", "schema"))["$defs"]["StayedTable"]["properties"]) == {"stayed", "clock"}


def test_what_is_wrong_is_told_as_by_veils_own(run: Run, scenario: Path):
    scenario.write_text(ROOMS.replace("stayed = 2", "stayed = 0"))
    assert "[solve.memory] stayed: found 0, expected 1 or more" in run("veil", "inspect", "rooms.toml", code=2)
    scenario.write_text(ROOMS.replace("stayed = 2", "stayed = 2, states = 1"))
    assert "found stayed and states, expected one of observations" in run("veil", "inspect", "rooms.toml", code=2)
    scenario.write_text(ROOMS.replace("stayed = 2", "stayed = 2, clok = true"))
    assert "did you mean 'clock'?" in run("veil", "inspect", "rooms.toml", code=2)
