"""A bound on how often the observer is ever certain: against what is measured, in a search, and in a file."""

import numpy as np
import pytest

import veil
from tests.combinations.cases import random_case
from tests.seeds import looped

SCENARIO = """
horizon = 2
[graph]
states = ["hall", "vault", "shed"]
actions = ["left", "right"]
initial = "hall"
transitions = [["hall", "left", { vault = 0.5, hall = 0.5 }], ["hall", "right", "shed"],
  ["vault", "left", "vault"], ["vault", "right", "hall"], ["shed", "left", "hall"], ["shed", "right", "shed"]]
[observer]
emissions = { hall = "dark", vault = { dark = 0.5, light = 0.5 }, shed = "dark" }
[secret]
kind = "visited"
zones = { vault = ["vault"] }
[[constraints]]
reward = "disclosure"
max = 0.05
"""


@looped("secret", ["last", "state at", "initial", "visited", "automaton", "two formulas"])
def test_equals_what_is_measured(secret: str):
    for seed in range(6):
        problem = random_case({"secret": secret}, seed).problem
        policy = veil.MarkovPolicy.uniform(problem)
        expected = veil.measures.disclosure(problem, policy, 1.0, "exact", of="any").probability
        followed = veil.measures.with_disclosure(problem, [veil.Return(reward="disclosure", max=0.5)])
        assert veil.constraint_values(followed, policy)[0].value == pytest.approx(expected, abs=1e-12)
        assert followed.cell_names == problem.cell_names
        assert veil.opacity(followed, policy).bits == pytest.approx(veil.opacity(problem, policy).bits, abs=1e-12)


def test_a_search_keeps_the_bound(tmp_path):
    path = tmp_path / "vault.toml"
    path.write_text(SCENARIO)
    problem = veil.load(path)
    assert problem.cell_names == ("hall", "vault", "shed")
    found = veil.solve(problem, memory="timed", time_limit=3, certificate=False, progress=False)
    assert found.feasible
    assert found.constraints[0].value <= 0.05 + 1e-9
    free = veil.solve(problem.replace(constraints=()), memory="timed", time_limit=3, certificate=False, progress=False)
    assert 0 < found.opacity.bits < free.opacity.bits
    plain = path.with_name("plain.toml")
    plain.write_text(SCENARIO.split("[[constraints]]")[0])
    measured = veil.measures.disclosure(veil.load(plain), found.policy, 1.0, "exact", of="any")
    assert measured.probability == pytest.approx(found.constraints[0].value, abs=1e-9)


def test_what_is_no_quantity_is_refused():
    problem = veil.gallery.load("two-rooms", min_return=None)
    for change in ({"sees_actions": True}, {"sees_initial": False}):
        with pytest.raises(veil.InputError, match="how often the observer is certain is a quantity"):
            veil.measures.with_disclosure(problem.replace(observer=problem.observer.replace(**change)))
    with pytest.raises(veil.InputError, match="for agents that see their state"):
        veil.measures.with_disclosure(problem.replace(agent_sees="state+observations"))
    assert np.isfinite(veil.measures.disclosure(problem, veil.MarkovPolicy.uniform(problem), 1.0).probability)
