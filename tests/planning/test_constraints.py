"""Searches under several constraints: every method keeps all of them, and their prices are reported."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import veil
from tests.engine.test_feasibility import random_problem
from tests.problem.test_constraints import ALL, make_problem
from veil.cli.main import app
from veil.report.curve import read_curve

FEASIBLE = make_problem([veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")], 3)
FEW: dict[str, Any] = {"certificate": False, "starts": 2, "iterations": 30}


@pytest.fixture(scope="module")
def solved() -> veil.Solution:
    return veil.solve(FEASIBLE, memory="timed", **FEW)


@pytest.mark.parametrize("memory", ["markov", "timed"])
@pytest.mark.parametrize("method", ["ascent", "primal-dual"])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_every_search_keeps_all_constraints(method: Any, memory: Any, seed: int):
    limits = [veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")]
    problem = make_problem(limits, seed)
    options: dict[str, Any] = {"iterations": 150} if method == "primal-dual" else {"starts": 3, "iterations": 80}
    found = veil.solve(problem, method, memory, certificate=False, **options)
    assert found.feasible
    assert [one.name for one in found.constraints] == ["return", "energy", "P(G !s2)"]
    assert all(one.met for one in found.constraints)
    exact = veil.constraint_values(problem, found.policy)
    assert [one.value for one in found.constraints] == pytest.approx([one.value for one in exact], abs=1e-12)


@pytest.mark.slow
def test_prices_are_the_slopes_of_the_optimum():
    found = veil.solve(FEASIBLE, memory="timed", certificate=False, starts=6)
    assert found.status is veil.Status.CONVERGED
    assert all(one.price_bits > 0.01 for one in found.constraints)
    for number, one in enumerate(found.constraints):
        step = 1e-3 * abs(one.bound)
        bounds = [other.bound for other in found.constraints]
        bounds[number] += step if one.relation == "≤" else -step
        limits = [veil.Return(max=bounds[1], reward="energy"), veil.Probability("G !s2", bounds[2])]
        looser = FEASIBLE.replace(min_return=bounds[0], constraints=limits)
        more = veil.solve(looser, memory="timed", certificate=False, start=found.policy, starts=1)
        gained = more.opacity.bits - found.opacity.bits
        assert gained / step == pytest.approx(one.price_bits, rel=0.1)


def test_sampled_searches_keep_all_constraints():
    for options in (
        {"evaluation": "sampled", "iterations": 30},
        {"method": "primal-dual", "gradients": "sampled", "iterations": 30},
    ):
        found = veil.solve(FEASIBLE, memory="timed", certificate=False, **options)
        assert found.feasible
        assert all(one.met for one in found.constraints)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_feature_policies_keep_all_constraints(memory: Any):
    loose = make_problem([veil.Return(max="60%", reward="energy"), veil.Probability("G !s2", "30%")], 3)
    options: dict[str, Any] = {"certificate": False, "iterations": 20, "sequences": 200, "starts": 2}
    found = veil.solve(loose, memory=memory, features="one-hot", **options)
    assert found.feasible
    assert [one.met for one in veil.constraint_values(loose, found.policy)] == [True] * 3


def test_most_return_for_some_bits_keeps_them():
    found = veil.solve(FEASIBLE, memory="timed", min_opacity=0.5, **FEW)
    assert found.feasible
    assert found.opacity.bits >= 0.5
    assert all(one.met for one in found.constraints[-2:])


def test_a_formula_that_the_agent_follows_or_does_not():
    for knows in (False, True):
        limit = veil.Probability("F s1 & G !s2", "60%", agent_knows=knows)
        for memory in ("timed", veil.StateMemory(1)):
            found = veil.solve(make_problem([limit], 5), memory=memory, **FEW)
            assert found.feasible
            assert found.constraints[1].met


def test_infeasible_sets_are_refused_before_any_search():
    refused = 0
    for seed in range(6):
        problem = random_problem(seed)
        try:
            assert veil.solve(problem, memory="timed", **FEW).feasible
        except veil.InfeasibleError:
            refused += 1
    assert 0 < refused < 6


def test_a_class_that_cannot_meet_them_says_which_it_misses():
    model = veil.Model.from_entries(
        [("a", "stay", "a", 1.0), ("a", "go", "b", 1.0), ("b", "stay", "b", 1.0), ("b", "go", "a", 1.0)],
        {"gain": {"a": 0.0}, "moves": {("a", "go"): 1.0, ("b", "go"): 1.0}},
        "a",
    )
    limits = [veil.Return(max=2, reward="moves"), veil.Probability("X a & X X b", min=0.9)]
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState(["b"]), 4, constraints=limits)
    assert veil.solve(problem, memory="timed", certificate=False, starts=2, iterations=20).feasible
    found = veil.solve(problem, memory="markov", **FEW)
    assert not found.feasible
    assert "missed:" in found.detail
    assert "memory='timed'" in found.detail


def test_results_hold_every_constraint(solved: veil.Solution, tmp_path):
    solved.save(tmp_path / "result")
    told = json.loads((tmp_path / "result" / "result.json").read_text())["answer"]["constraints"]
    assert [one["name"] for one in told] == ["return", "energy", "P(G !s2)"]
    assert all(one["met"] for one in told)
    assert "energy" in solved.summary()
    assert "required: at most" in solved.summary()
    plain = veil.solve(make_problem(), certificate=False, iterations=20)
    assert [one.text for one in plain.constraints] == [f"return ≥ {plain.threshold:.6g}"]
    assert ALL[0].max == "60%"


def test_a_curve_along_the_return_keeps_the_other_constraints():
    curve = veil.frontier(FEASIBLE, 3, memory="timed", starts=2, iterations=12)
    assert len(curve.points) >= 2
    for point in curve.points:
        values = veil.constraint_values(FEASIBLE.replace(min_return=point.threshold), point.policy)
        assert all(one.met for one in values)


def test_a_curve_along_each_of_the_other_constraints():
    for along, sign in (("energy", -1), ("G !s2", 1)):
        curve = veil.frontier(FEASIBLE, 3, along=along, memory="timed", starts=2, iterations=15)
        assert along in curve.along
        assert len(curve.points) >= 2
        thresholds = np.array([point.threshold for point in curve.points])
        assert np.all(sign * np.diff(thresholds) > 0)
        assert np.all(np.diff(curve.bits) <= 0)
        assert np.all(sign * (curve.values - thresholds) >= 0)
        for point in curve.points:
            for one in veil.constraint_values(FEASIBLE, point.policy):
                assert one.value == point.value if along in one.name else one.met
        assert curve.prices_bits[0] == 0
        assert curve.prices_bits[1] > 0.05


def test_which_constraint_a_curve_is_along():
    both = make_problem([veil.Return("10%", "90%", reward="energy"), veil.Return(max="95%")], 3)
    with pytest.raises(veil.InputError, match="several constraints have: use 'energy ≥' or 'energy ≤'"):
        veil.frontier(both, 3, along="energy")
    with pytest.raises(veil.InputError, match="did you mean 'energy'"):
        veil.frontier(both, 3, along="enrgy")
    curve = veil.frontier(both, 2, along="energy <=", starts=2, iterations=20, thresholds=[1.9, 2.2])
    assert [point.threshold for point in curve.points] == [2.2, 1.9]
    assert (curve.along, curve.relation) == ("energy", "≤")
    assert "energy" in curve.summary()


def test_a_curve_along_a_constraint_in_files_and_figures(solved: veil.Solution, tmp_path):
    scenario, place = str(tmp_path / "problem.toml"), tmp_path / "curve.json"
    FEASIBLE.save(scenario)
    options = ["--along", "energy", "--points", "2", "--starts", "2", "--iterations", "12", "--memory", "timed"]
    runner = CliRunner()
    for ending in (".json", ".csv"):
        made = runner.invoke(app, ["frontier", scenario, *options, "-o", str(place.with_suffix(ending)), "-q"])
        assert made.exit_code == 0, made.output
        options[2:4] = ["--thresholds", "2.3"]
    told = json.loads(place.read_text())
    assert (told["along"], told["relation"]) == ("energy", "≤")
    assert [row["value"] for row in told["points"]] == pytest.approx(
        [row["threshold"] for row in told["points"]], rel=0.2
    )
    heading = "threshold,expected_return,opacity_bits,price_bits,value,upper_bits\n"
    assert place.with_suffix(".csv").read_text().startswith(heading)
    for ending in (".json", ".csv"):
        with pytest.raises(veil.InputError, match="along another constraint"):
            read_curve(FEASIBLE, place.with_suffix(ending))
    curve = veil.frontier(FEASIBLE, along="energy", thresholds=[2.2], memory="timed", starts=2, iterations=12)
    with pytest.raises(veil.InputError, match="along 'energy'"):
        read_curve(FEASIBLE, curve)
    assert veil.plot.frontier(curve, solved).axes[0].get_xlabel() == "energy"
    with pytest.raises(veil.InputError, match="no value of 'energy'"):
        veil.plot.frontier(curve, replace(solved, constraints=()))


def test_commands_and_the_report_show_every_constraint(solved: veil.Solution, tmp_path):
    scenario, folder = str(tmp_path / "problem.toml"), tmp_path / "result"
    FEASIBLE.save(scenario)
    solved.save(folder, scenario=scenario)
    runner = CliRunner()
    for command in (["inspect", scenario], ["measure", scenario, str(folder)]):
        shown = runner.invoke(app, command)
        assert shown.exit_code == 0
        assert "energy" in shown.output
    assert runner.invoke(app, ["report", str(folder), "--scenario", scenario]).exit_code == 0
    assert "required: at most" in (folder / "report.html").read_text(encoding="utf-8")
