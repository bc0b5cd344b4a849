"""A bound on how often the observer is ever certain: against what is measured, in a search, and in a file."""

import numpy as np
import pytest

import veil
from tests.measure.test_disclosure import all_runs, random_problem
from tests.seeds import in_blocks

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


@in_blocks(20, 1000, size=20)
def test_equals_what_all_runs_say(seed: int):
    problem, policy = random_problem(seed, sharp=True)
    problem = problem.replace(observer=problem.observer.replace(sees_actions=False))
    joint = all_runs(problem, policy.table)
    certain = {
        y[: t + 1]
        for y in joint
        for t in range(len(y))
        if len({z for other, row in joint.items() if other[: t + 1] == y[: t + 1] for z in row}) == 1
    }
    expected = sum(sum(row.values()) for y, row in joint.items() if any(y[: t + 1] in certain for t in range(len(y))))
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
    problem, _ = random_problem(0)
    for change in ({"sees_actions": True}, {"sees_initial": False}):
        with pytest.raises(veil.InputError, match="how often the observer is certain is a quantity"):
            veil.measures.with_disclosure(problem.replace(observer=problem.observer.replace(**change)))
    with pytest.raises(veil.InputError, match="for agents that see their state"):
        veil.measures.with_disclosure(problem.replace(agent_sees="state+observations"))
    assert np.isfinite(veil.measures.disclosure(problem, veil.MarkovPolicy.uniform(problem), 1.0).probability)
