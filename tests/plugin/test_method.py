"""A method of another package: chosen from Python, in scenario files and on the command line; reports show it."""

from pathlib import Path

import pytest

from tests.plugin.conftest import Run, parsed

pytestmark = pytest.mark.usefixtures("scenario")

ROOMS = """
horizon = 1
min_return = 0.5

[graph]
initial = "office"
transitions = [
  ["office", "stay", "office"],
  ["office", "go", "vault"],
  ["vault", "stay", "vault"],
]
terminal_rewards = { vault = 1 }

[observer.sensors.vault]
states = "vault"
detection = 0.75

[secret]
kind = "last_state"
states = "vault"

[solve]
method = "random"
starts = 40
"""
PYTHON = """
import json, veil
from veil.formats.scenario.load import load_scenario

found = load_scenario("rooms.toml")
from_file = veil.solve(found.problem, **found.settings, seed=3, certificate=False)
from_python = veil.solve(found.problem, "random", starts=40, seed=3, certificate=False)
assert from_file.policy.digest() == from_python.policy.digest()
refused = []
for options in ({"memory": "timed"}, {"goal": "transparent"}, {"sequences": 9}, {"step": 1.0}):
    try:
        veil.solve(found.problem, "random", **options)
    except veil.InputError as error:
        refused.append(str(error))
best = veil.solve(found.problem, certificate=False)
print(json.dumps([from_file.method, from_file.opacity.bits, best.opacity.bits, from_file.feasible, refused]))
"""


MISSED = """
import json, veil

plain = veil.gallery.load("two-rooms", min_return=None)
strict = plain.replace(constraints=[veil.Return(max=0.0)])
watched = plain.replace(pairs=[veil.Pair("other", plain.observer, min=1.5)])
found = [veil.solve(one, "random", starts=3) for one in (strict, watched)]
print(json.dumps([[one.feasible, one.status.name, one.detail, one.certificate_note] for one in found]))
"""


def test_from_python_and_in_a_scenario(run: Run):
    method, found, best, feasible, refused = parsed(run("-c", PYTHON))
    assert method == "random"
    assert feasible
    assert best - 0.05 < found <= best + 1e-9
    assert len(refused) == 4
    assert all("'random'" in message for message in refused)


def test_on_the_command_line(run: Run):
    document = parsed(run("veil", "solve", "rooms.toml", "--seed", "3", "-o", "out", "--json"))
    assert document["answer"]["method"] == "random"
    assert document["certificate"]["lower"] <= document["answer"]["opacity"]["bits"]
    run("veil", "verify", "rooms.toml", "out")
    quick = ("--method", "random", "--set", "solve.starts=5", "--set", "solve.certificate=false", "-o", "other")
    assert "Method: random over stationary Markov policies" in run("veil", "solve", "gallery:two-rooms", *quick)
    message = run("veil", "solve", "rooms.toml", "--method", "randm", code=2)
    assert "did you mean 'random'?" in message


def test_an_option_that_it_does_not_have_is_named_with_its_line(run: Run, scenario: Path):
    scenario.write_text(ROOMS + "gradients = 'sampled'\n")
    assert "line 25, [solve] gradients: method='random' does not have this option" in run(
        "veil", "inspect", "rooms.toml", code=2
    )


def test_a_method_that_does_not_fit_names_its_package(run_misfit: Run):
    message = run_misfit("veil", "solve", "rooms.toml", code=2)
    assert "package 'veil-example' 1.0" in message
    assert "see veil.planning.methods.Method" in message
    run_misfit("veil", "inspect", "gallery:two-rooms")  # all else goes on working


def test_an_answer_that_misses_a_constraint_which_it_does_not_know_is_not_feasible(run: Run):
    told = parsed(run("-c", MISSED))
    for (feasible, status, detail, note), words in zip(told, ("return ≤ 0", "H(other) ≥ 1.5"), strict=True):
        assert (feasible, status, note) == (False, "INFEASIBLE", "no feasible policy was found")
        assert detail.startswith("method 'random' returned a policy that misses")
        assert words in detail
