"""Tasks beside the opacity or under it: how they are read, and that every search maximises them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import veil
from tests.planning.small_problems import FEW, limited
from veil.cli.main import app

LIMITED = limited([veil.Return(max="60%", reward="energy")], 3, horizon=2)
QUICK: Any = FEW | {"memory": "timed", "starts": 2, "iterations": 60}


def quantities(problem: veil.Problem, policy: veil.Policy, *formulas: veil.Probability) -> dict[str, float]:
    """The return, the energy and the probabilities of formulas of a policy."""
    asked = problem.replace(constraints=[veil.Return(max=1e9, reward="energy"), *formulas], min_return=-1e9)
    return {one.name: one.value for one in veil.constraint_values(asked, policy)}


def test_sums_are_read_into_terms():
    """Factors with and without a sign, of several forms, spaces anywhere, the same quantity twice, names of rewards."""
    text = " -0.1*energy+ 2 P(F (s1 | s2)) - return − 1e-3·gain +.5e1 energy"
    found = veil.solve(LIMITED, task=text, **QUICK | {"iterations": 0})
    formula = veil.Probability("F (s1 | s2)", min=0)
    values = quantities(LIMITED, found.policy, formula)
    wanted = 4.9 * values["energy"] + 2 * values["P(F (s1 | s2))"] - 1.001 * values["return"]
    assert found.task_value == pytest.approx(wanted, abs=1e-12)
    assert [one.name for one in found.constraints] == ["return", "energy"]  # what the task names is no constraint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "column 1: found the end, expected a sum such as"),
        ("-", "column 2: found the end"),
        ("energy +", "column 9: found the end"),
        ("2*", "column 3: found the end"),
        ("2", "column 2: found the end"),
        ("energy - 3 ", "column 12: found the end"),
        ("energy energy", r"column 8: found 'e', expected \+ or -"),
        ("*energy", r"column 1: found '\*'"),
        ("P(F a", r"column 2: this \( is never closed"),
        ("1e999*energy", "column 1: the factor 1e999 is not a finite number"),
        ("0.1*enrgy", "column 5: there is no reward 'enrgy': did you mean 'energy'"),
        ("energy + P(F s9)", "column 10: .*'s9' is neither in labels nor the name of a state"),
        ("P(F &)", "column 1: .*column"),
        ("2*H(fo)", "column 3: there is no pair 'fo'"),
        ("+".join(["energy"] * 51), "more than 50 terms"),
    ],
)
def test_what_is_no_task_is_refused_with_its_place(text: str, words: str):
    with pytest.raises(veil.InputError, match=words):
        veil.solve(LIMITED, task=text, **QUICK)


def test_as_many_as_fifty_terms_are_read():
    found = veil.solve(LIMITED, task="+".join(["energy"] * 50), **QUICK | {"iterations": 0})
    assert found.task_value == pytest.approx(50 * found.constraints[1].value)


def test_bits_are_terms_by_the_name_of_their_pair():
    problem = LIMITED.replace(pairs=[veil.Pair("foe", veil.Observer(np.eye(4)))])
    found = veil.solve(problem, task="2*H(foe) - H(own) + energy", **QUICK | {"iterations": 5})
    wanted = 2 * found.pairs[0].bits - found.opacity.bits + found.constraints[1].value
    assert found.task_value == pytest.approx(wanted, abs=1e-12)
    with pytest.raises(veil.InputError, match="column 3: there is no pair 'fo': did you mean 'foe'"):
        veil.solve(problem, task="2*H(fo)", **QUICK)


def test_labels_are_those_of_the_secret_and_the_constraints():
    bad, good = {"bad": ["s2"]}, {"good": ["s1"], "bad": [2]}
    problem = limited([veil.Probability("G !bad", min=0, labels=bad)]).replace(secret=veil.Holds("F good", good))
    task = "P(F (bad & X good)) + P(G !bad)"
    found = veil.solve(problem, task=task, **QUICK | {"iterations": 0})
    own = [veil.Probability("G !bad", min=0, labels=bad), veil.Probability("F (bad & X good)", min=0, labels=good)]
    wanted = sum(one.value for one in veil.constraint_values(problem.replace(constraints=own), found.policy)[1:])
    assert found.task_value == pytest.approx(wanted, abs=1e-12)
    other = problem.replace(secret=veil.Holds("F good", good | {"bad": ["s0"]}))
    with pytest.raises(veil.InputError, match=r"column 1: .*different states for 'bad': rename one"):
        veil.solve(other, task=task, **QUICK)
    assert veil.solve(other, task="P(F good)", **QUICK | {"iterations": 0}).task_value >= 0


def test_a_formula_of_a_task_beside_what_the_agent_knows():
    """The rows of the policy stay those of the problem; the task's own formula is not known to the agent."""
    followed = LIMITED.replace(secret=veil.Holds("F s1", agent_knows=True))
    two = veil.Problem([LIMITED.model] * 2, LIMITED.observer, veil.WhichModel(agent_knows=True), 2)
    for problem in (followed, LIMITED.replace(secret=veil.Visited({"one": ["s1"]}, agent_knows=True)), two):
        found = veil.solve(problem, task="P(F s2)", **QUICK)
        wanted = problem.replace(constraints=[veil.Probability("F s2", min=0)], min_return=None)
        assert wanted.num_cells == problem.num_cells
        assert found.task_value == pytest.approx(veil.constraint_values(wanted, found.policy)[-1].value, abs=1e-9)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_quantities_of_a_task_are_over_the_horizon_but_for_the_return(memory: str):
    model = LIMITED.model
    rewards = {"gain": np.arange(8.0).reshape(4, 2), "energy": np.ones((4, 2))}
    discounted = veil.Model(model.transitions, rewards, model.initial, 0.9)
    endless = LIMITED.replace(model=discounted, constraints=(), min_return=None, return_over="infinite")
    found = veil.solve(endless, task="0.1*return", **(QUICK | {"memory": memory}))
    assert found.task_value == pytest.approx(0.1 * veil.expected_return(endless, found.policy), abs=1e-9)
    with pytest.raises(veil.InputError, match="quantities of a task are over the horizon"):
        veil.solve(endless, task="energy", **QUICK)


@pytest.mark.parametrize("paid", [(1.0, 5.0), (5.0, 1.0)])
def test_a_quantity_that_differs_between_models_is_no_constraint_in_any(paid: tuple[float, float]):
    """Fuel of 1 and of 5 in each of two steps, whatever is done: 6 on average."""
    given = LIMITED.model
    models = [
        veil.Model(given.transitions, {"gain": given.rewards, "fuel": np.full((4, 2), one)}, given.initial)
        for one in paid
    ]
    problem = veil.Problem(models, LIMITED.observer, veil.WhichModel([0.5, 0.5]), 2)
    found = veil.solve(problem, task="-fuel", **QUICK | {"iterations": 3})
    assert found.feasible
    assert found.task_value == pytest.approx(-6)


# Searches


@pytest.mark.parametrize("method", ["ascent", "primal-dual"])
def test_the_weight_of_a_task_moves_along_its_frontier(method: str):
    """For each weight the answer is the best of all answers, and more weight spends less energy."""
    options: dict[str, Any] = FEW | {"memory": "timed", "iterations": 150}
    found = {weight: veil.solve(LIMITED, method, task=f"-{weight}*energy", **options) for weight in (0.0, 0.3, 2.0)}
    energy = {weight: one.constraints[1].value for weight, one in found.items()}
    for weight, own in found.items():
        assert own.feasible
        assert own.task_value == pytest.approx(-weight * energy[weight], abs=1e-12)
        best = own.opacity.bits - weight * energy[weight]
        assert all(best >= other.opacity.bits - weight * energy[at] - 2e-3 for at, other in found.items())
    assert energy[0.0] > energy[2.0]
    assert "task" in found[0.3].summary()


def test_the_largest_probability_of_a_formula_for_some_bits():
    """Constraints and bits that are kept cost some of it."""
    free = veil.solve(LIMITED, task="P(F s1)", min_opacity=0, **QUICK)
    kept = veil.solve(LIMITED, task="P(F s1)", min_opacity=0.6, **QUICK)
    assert free.feasible
    assert kept.feasible
    assert kept.opacity.bits >= 0.6 > free.opacity.bits
    assert free.task_value > kept.task_value
    assert all(one.met for one in kept.constraints)  # the threshold on the return holds too
    alone = LIMITED.replace(constraints=(), min_return=None)
    assert free.task_value <= veil.solve(alone, task="P(F s1)", min_opacity=0, **QUICK).task_value + 1e-9


def test_files_and_commands_know_the_task(tmp_path: Path):
    scenario, folder = tmp_path / "problem.toml", tmp_path / "result"
    LIMITED.save(scenario)
    scenario.write_text(scenario.read_text() + '\n[solve]\ntask = "-0.3*energy"\ncertificate = false\n')
    runner = CliRunner()
    flags = ["--memory", "timed", "--set", "solve.starts=1", "--set", "solve.iterations=9", "-o", str(folder), "-q"]
    made = runner.invoke(app, ["solve", str(scenario), *flags])
    assert made.exit_code in (0, 4), made.output
    told = json.loads((folder / "result.json").read_text())["answer"]
    assert told["task"] == "-0.3*energy"
    assert told["task_value"] == pytest.approx(-0.3 * told["constraints"][1]["value"])
    shown = runner.invoke(app, ["solve", str(scenario), *flags, "--set", "solve.task=0.1*enrgy"])
    assert shown.exit_code == 2
    assert "did you mean 'energy'" in shown.output
