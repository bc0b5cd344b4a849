"""Searches under several constraints: every method keeps all of them, their prices are reported, and files show them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import veil
from tests.planning.small_problems import FEW, limited
from veil.cli.main import app
from veil.report.curve import read_curve

LIMITS = [veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")]
FEASIBLE = limited(LIMITS, 3)
SHORT: Any = FEW | {"starts": 2, "iterations": 30}


@pytest.fixture(scope="module")
def solved() -> veil.Solution:
    return veil.solve(FEASIBLE, memory="timed", **SHORT)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "ascent", "starts": 2, "iterations": 60},
        {"method": "primal-dual", "iterations": 60},
        {"method": "primal-dual", "gradients": "sampled", "sequences": 400, "iterations": 20},
        {"evaluation": "sampled", "iterations": 12},
        {"features": "one-hot", "iterations": 10, "sequences": 200, "starts": 1},
        {"iterations": 0},
    ],
)
@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_every_search_keeps_all_constraints(settings: dict[str, Any], memory: Any):
    loose = "features" in settings  # whose policies are trained inside of the constraints
    problem = limited([veil.Return(max="60%", reward="energy"), LIMITS[1]], 3) if loose else FEASIBLE
    found = veil.solve(problem, memory=memory, **FEW | settings)
    assert found.feasible
    assert [one.name for one in found.constraints] == ["return", "energy", "P(G !s2)"]
    assert all(one.met for one in found.constraints)
    exact = veil.constraint_values(problem, found.policy)
    assert [one.value for one in found.constraints] == pytest.approx([one.value for one in exact], abs=1e-12)
    assert all(one.met for one in exact)


def test_iterates_that_come_from_outside_the_bounds_are_mended():
    """The best feasible one on the way lies on a bound, so that no small share of it makes the last one feasible."""
    found = veil.solve(FEASIBLE, memory="timed", starts=6, **FEW)
    assert found.feasible
    assert found.opacity.bits == pytest.approx(found.basins[0], abs=1e-3)


@pytest.mark.slow
def test_prices_are_the_slopes_of_the_optimum():
    found = veil.solve(
        FEASIBLE, memory="timed", starts=12, **FEW
    )  # with six it ends 1e-5 below: a tenth of what is gained
    assert found.status is veil.Status.CONVERGED
    assert all(one.price_bits > 0.01 for one in found.constraints)
    for number, one in enumerate(found.constraints):
        step = 1e-3 * abs(one.bound)
        bounds = [other.bound for other in found.constraints]
        bounds[number] += step if one.relation == "≤" else -step
        limits = [veil.Return(max=bounds[1], reward="energy"), veil.Probability("G !s2", bounds[2])]
        looser = FEASIBLE.replace(min_return=bounds[0], constraints=limits)
        more = veil.solve(looser, memory="timed", start=found.policy, starts=1, **FEW)
        gained = more.opacity.bits - found.opacity.bits
        assert gained / step == pytest.approx(one.price_bits, rel=0.1)


def test_a_tighter_bound_hides_no_more(solved: veil.Solution):
    free = veil.solve(FEASIBLE.replace(constraints=()), memory="timed", **SHORT)
    assert solved.opacity.bits <= free.opacity.bits + 1e-3


def test_most_return_for_some_bits_keeps_them():
    found = veil.solve(FEASIBLE, memory="timed", min_opacity=0.5, **SHORT)
    assert found.feasible
    assert found.opacity.bits >= 0.5
    assert all(one.met for one in found.constraints[-2:])


def test_a_formula_that_the_agent_follows_or_does_not():
    for knows in (False, True):
        problem = limited([veil.Probability("F s1 & G !s2", "60%", agent_knows=knows)], 5)
        for memory in ("timed", veil.StateMemory(1)):
            found = veil.solve(problem, memory=memory, **SHORT | {"iterations": 10})
            assert found.feasible
            assert found.constraints[1].met


def test_infeasible_sets_are_refused_before_any_search():
    """Thresholds far apart: about half of these sets cannot be met."""
    refused = 0
    for seed in range(4):
        shares = np.random.default_rng([seed, 7]).integers(20, 80, size=3)
        limits = [veil.Return(max=f"{shares[0]}%", reward="energy"), veil.Probability("G !s2", f"{shares[1]}%")]
        problem = limited(limits, seed, min_return=f"{shares[2]}%")
        try:
            assert veil.solve(problem, memory="timed", **SHORT | {"iterations": 5}).feasible
        except veil.InfeasibleError:
            refused += 1
    assert 0 < refused < 4


def test_a_class_that_cannot_meet_them_says_which_it_misses():
    model = veil.Model.from_entries(
        [("a", "stay", "a", 1.0), ("a", "go", "b", 1.0), ("b", "stay", "b", 1.0), ("b", "go", "a", 1.0)],
        {"gain": {"a": 0.0}, "moves": {("a", "go"): 1.0, ("b", "go"): 1.0}},
        "a",
    )
    limits = [veil.Return(max=2, reward="moves"), veil.Probability("X a & X X b", min=0.9)]
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState(["b"]), 4, constraints=limits)
    assert veil.solve(problem, memory="timed", **SHORT).feasible
    found = veil.solve(problem, memory="markov", **SHORT)
    assert not found.feasible
    assert "missed:" in found.detail
    assert "memory='timed'" in found.detail


# Files, commands, the report


def test_results_hold_every_constraint(solved: veil.Solution, tmp_path: Path):
    solved.save(tmp_path / "result")
    told = json.loads((tmp_path / "result" / "result.json").read_text())["answer"]["constraints"]
    assert [one["name"] for one in told] == ["return", "energy", "P(G !s2)"]
    assert all(one["met"] for one in told)
    assert "energy" in solved.summary()
    assert "required: at most" in solved.summary()


@pytest.mark.slow
def test_a_curve_along_a_constraint_in_files(tmp_path: Path):
    scenario, place = str(tmp_path / "problem.toml"), tmp_path / "curve.json"
    FEASIBLE.save(scenario)
    options = [
        "--along",
        "energy",
        "--set",
        "frontier.thresholds=[2.3]",
        "--set",
        "solve.starts=1",
        "--set",
        "solve.iterations=2",
        "--memory",
        "timed",
    ]
    runner = CliRunner()
    for ending in (".json", ".csv"):
        made = runner.invoke(app, ["frontier", scenario, *options, "-o", str(place.with_suffix(ending)), "-q"])
        assert made.exit_code == 0, made.output
    told = json.loads(place.read_text())
    assert (told["along"], told["relation"]) == ("energy", "≤")
    assert all(row["value"] <= row["threshold"] for row in told["points"])
    heading = "threshold,expected_return,opacity_bits,price_bits,value,upper_bits\n"
    assert place.with_suffix(".csv").read_text().startswith(heading)
    for ending in (".json", ".csv"):
        with pytest.raises(veil.InputError, match="along another constraint"):
            read_curve(FEASIBLE, place.with_suffix(ending))


@pytest.mark.slow
def test_a_curve_along_a_constraint_in_a_figure(solved: veil.Solution):
    few: dict[str, Any] = {"starts": 1, "iterations": 5, "progress": False}
    curve = veil.frontier(FEASIBLE, along="energy", thresholds=[2.2], memory="timed", **few)
    with pytest.raises(veil.InputError, match="along 'energy'"):
        read_curve(FEASIBLE, curve)
    assert veil.plot.frontier(curve, solved).axes[0].get_xlabel() == "energy"
    with pytest.raises(veil.InputError, match="no value of 'energy'"):
        veil.plot.frontier(curve, replace(solved, constraints=()))


def test_commands_show_every_constraint(solved: veil.Solution, tmp_path: Path):
    scenario, folder = str(tmp_path / "problem.toml"), tmp_path / "result"
    FEASIBLE.save(scenario)
    solved.save(folder, scenario=scenario)
    runner = CliRunner()
    for command in (["inspect", scenario], ["measure", scenario, str(folder)]):
        shown = runner.invoke(app, command)
        assert shown.exit_code == 0
        assert "energy" in shown.output


@pytest.mark.slow
def test_the_report_shows_every_constraint_and_the_task(tmp_path: Path):
    scenario, folder = str(tmp_path / "problem.toml"), tmp_path / "result"
    FEASIBLE.save(scenario)
    found = veil.solve(FEASIBLE, memory="timed", task="-0.3*energy", starts=1, iterations=3, **FEW)
    found.save(folder, scenario=scenario)
    assert CliRunner().invoke(app, ["report", scenario, str(folder)]).exit_code == 0
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "required: at most" in report
    assert "-0.3*energy" in report
