"""Tasks beside the opacity or under it: how they are read, and that every search maximises them."""

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import veil
from tests.problem.test_constraints import make_problem
from veil.cli.main import app
from veil.planning.policy_class import make_space
from veil.planning.task import make_task
from veil.planning.terms import hidden_terms, read_terms, terms_of, with_task

LIMITED = make_problem([veil.Return(max="60%", reward="energy")], 3, horizon=2)
QUICK: dict[str, Any] = {"memory": "timed", "certificate": False, "starts": 2, "iterations": 90}


def test_sums_are_read_into_terms():
    read = [(term.factor, term.name) for term in read_terms(" -0.1*energy+ 2 P(F (a | b)) - return − 1e-3·x_1 ")]
    assert read == [(-0.1, "energy"), (2.0, "P(F (a | b))"), (-1.0, "return"), (-0.001, "x_1")]
    assert [(term.factor, term.name) for term in read_terms("energy")] == [(1.0, "energy")]


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
        ("P(F a", "column 2: this ( is never closed".replace("(", r"\(")),
        ("1e999*energy", "column 1: the factor 1e999 is not a finite number"),
        ("0.1*enrgy", "column 5: there is no reward 'enrgy': did you mean 'energy'"),
        ("energy + P(F s9)", "column 10: .*'s9' is neither in labels nor the name of a state"),
        ("P(F (s1)", "never closed"),
        ("P(F &)", "column 1: .*column"),
        ("+".join(["energy"] * 51), "more than 50 terms"),
    ],
)
def test_what_is_no_task_is_refused_with_its_place(text: str, words: str):
    with pytest.raises(veil.InputError, match=words):
        veil.solve(LIMITED, task=text, **QUICK)


def test_a_formula_that_the_agent_would_follow_must_be_a_constraint():
    followed = LIMITED.replace(secret=veil.Holds("F s1", agent_knows=True))
    for problem in (
        followed,
        LIMITED.replace(secret=veil.Visited({"one": ["s1"]}, agent_knows=True)),
    ):  # three states, and two
        with pytest.raises(veil.InputError, match=r"add veil\.Probability"):
            with_task(problem, "P(F s2)")
    given = followed.replace(constraints=[veil.Probability("F s2", min=0, agent_knows=True)])
    assert with_task(given, "P(F s2)") is given
    endless = make_problem(min_return=None).replace(return_over="horizon")
    discounted = veil.Model(endless.model.transitions, {"gain": np.ones((4, 2))}, endless.model.initial, 0.9)
    with pytest.raises(veil.InputError, match="quantities of a task are over the horizon"):
        with_task(endless.replace(model=discounted, return_over="infinite"), "return")


def test_labels_are_those_of_the_secret_and_the_constraints():
    limits = [veil.Probability("G !bad", min=0, labels={"bad": ["s2"]})]
    problem = make_problem(limits).replace(secret=veil.Holds("F good", {"good": ["s1"], "bad": ["s0"]}))
    asked = with_task(problem, "P(F (bad & X good)) + gain + P(G !bad)")
    assert [one.name for one in asked.further] == ["P(G !bad)", "P(F (bad & X good))", "return"]
    assert terms_of(asked, "P(F (bad & X good)) + gain + P(G !bad)") == ((1.0, 1), (1.0, 2), (1.0, 0))


@pytest.mark.parametrize("kept", [None, 0.2])
@pytest.mark.parametrize("task", ["-0.5*energy", "3*P(F s1) + energy - return"])
def test_scores_and_their_slopes(task: str, kept: float | None):
    asked = with_task(LIMITED, task)
    space = make_space(asked, "timed")
    made = make_task(space, terms=terms_of(asked, task), min_opacity=kept)
    tables = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, *space.shape[:2]))
    found = made.evaluate(tables)
    for number, table in enumerate(tables):
        policy = veil.TimedPolicy(table)
        values = {one.name: one.value for one in veil.constraint_values(asked, policy)}
        known = values | {"P(F s1)": values.get("P(F s1)", 0.0)}
        earned = -0.5 * known["energy"] if task[0] == "-" else 3 * known["P(F s1)"] + known["energy"] - known["return"]
        bits = veil.opacity(LIMITED, policy).bits
        expected = earned if kept is not None else bits + earned
        assert found.score[number] * made.score_unit == pytest.approx(expected, abs=1e-12)
        change = np.zeros(space.shape)
        change[0, :, 0], change[0, :, 1] = 1e-6, -1e-6
        ends = made.evaluate(np.stack([table + change, table - change])).score
        assert ends[0] - ends[1] == pytest.approx(2 * float(np.sum(change * found.score_slope[number])), rel=1e-4)


@pytest.mark.parametrize("method", ["ascent", "primal-dual"])
def test_the_weight_of_a_task_moves_along_its_frontier(method: str):
    """For each weight the answer is the best of all answers, and more weight spends less energy."""
    options: dict[str, Any] = QUICK | {"iterations": 150}
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
    free = veil.solve(LIMITED, task="P(F s1)", min_opacity=0, **QUICK)
    kept = veil.solve(LIMITED, task="P(F s1)", min_opacity=0.5, **QUICK)
    assert free.feasible
    assert kept.feasible
    assert kept.opacity.bits >= 0.5 > free.opacity.bits
    assert free.task_value > kept.task_value
    assert all(one.met for one in kept.constraints)  # the threshold on the return holds too
    assert [one.name for one in kept.constraints] == ["return", "energy"]
    extreme = with_task(LIMITED.replace(min_return=None, constraints=[]), "P(F s1)")
    assert free.task_value <= targets_of(extreme) + 1e-12


def targets_of(problem: veil.Problem) -> float:
    from veil.engine.feasibility import further_targets

    return further_targets(problem)[0].range.largest


@pytest.mark.parametrize("settings", [{}, {"min_opacity": 0.1}])
def test_sampled_searches_maximise_a_task(settings: dict[str, Any]):
    options: dict[str, Any] = {"memory": "timed", "certificate": False, "iterations": 40, "evaluation": "sampled"}
    found = veil.solve(LIMITED, task="-3*energy", **options, **settings)
    plain = veil.solve(LIMITED, **options)
    assert found.feasible
    assert found.task_value > -3 * plain.constraints[1].value


def test_methods_and_options_without_a_task_say_so():
    with pytest.raises(veil.InputError, match="task: method='game' does not have this option"):
        veil.solve(LIMITED, "game", "history", task="energy")
    with pytest.raises(veil.InputError, match="task needs gradients='exact'"):
        veil.solve(LIMITED, "primal-dual", "timed", task="energy", gradients="sampled", certificate=False)
    noted = veil.solve(LIMITED, task="0.1*energy", starts=1, iterations=3)
    assert noted.certificate is None
    assert "a sum of bits and a task" in noted.certificate_note


def test_files_commands_and_the_report_know_the_task(tmp_path):
    scenario, folder = tmp_path / "problem.toml", tmp_path / "result"
    LIMITED.save(scenario)
    scenario.write_text(scenario.read_text() + '\n[solve]\ntask = "-0.3*energy"\ncertificate = false\n')
    runner = CliRunner()
    flags = ["--memory", "timed", "--starts", "1", "--iterations", "9", "-o", str(folder), "-q"]
    made = runner.invoke(app, ["solve", str(scenario), *flags, "--report"])
    assert made.exit_code in (0, 4), made.output
    told = json.loads((folder / "result.json").read_text())["answer"]
    assert told["task"] == "-0.3*energy"
    assert told["task_value"] == pytest.approx(-0.3 * told["constraints"][1]["value"])
    assert "-0.3*energy" in (folder / "report.html").read_text(encoding="utf-8")
    shown = runner.invoke(app, ["solve", str(scenario), *flags, "--task", "0.1*enrgy"])
    assert shown.exit_code == 2
    assert "did you mean 'energy'" in shown.output


def test_as_many_as_fifty_terms_are_read_and_columns_are_those_of_the_names():
    assert len(read_terms("+".join(["energy"] * 50))) == 50
    assert [term.column for term in read_terms("  2*energy -H(a b)+ .5e1 x")] == [5, 13, 26]
    assert [term.factor for term in read_terms("  2*energy -H(a b)+ .5e1 x")] == [2.0, -1.0, 5.0]
    assert [(term.formula, term.pair) for term in read_terms("P(F (a)) + H(b) + P + Hx")] == [
        ("F (a)", None), (None, "b"), (None, None), (None, None),
    ]  # fmt: skip


def test_quantities_that_a_task_names_are_added_once_with_a_bound_that_all_policies_meet():
    plain = make_problem([], 3, horizon=2).replace(min_return=None)
    found = with_task(plain, "energy - 2*return + 3*energy + P(F s1)")
    names = [one.name for one in found.further]
    assert names == ["energy", "return", "P(F s1)"]
    assert terms_of(found, "energy - 2*return + 3*energy + P(F s1)") == ((1.0, 0), (-2.0, 1), (3.0, 0), (1.0, 2))
    assert with_task(plain, None) is plain
    assert with_task(found, "energy") is found
    task = make_task(make_space(found, "timed"))
    assert np.all(task.slacks(np.array([np.eye(2)[np.ones((2, task.space.shape[1]), dtype=int)]])) > 0)
    energy = plain.model.named_rewards["energy"]
    largest = 2 * np.abs(energy.paid).max() + np.abs(energy.terminal).max()
    assert task.further[0].bound == pytest.approx(-2 * largest - 1)
    gain = with_task(plain, "gain")
    assert [one.name for one in gain.further] == ["return"]
    limited = make_problem([veil.Return(max="60%", reward="energy")], 3, horizon=2)
    assert [one.name for one in with_task(limited, "energy").further] == ["energy"]
    assert len(with_task(limited.replace(min_return="10%"), "P(F s1)").constraints) == 3


@pytest.mark.parametrize("paid", [(1.0, 5.0), (5.0, 1.0)])
def test_the_bound_of_an_added_quantity_is_met_in_every_model(paid: tuple[float, float]):
    """Rewards of 1 and of 5 in each of two steps: the larger return, 10, counts."""
    given = LIMITED.model
    models = [
        veil.Model(given.transitions, {"gain": given.rewards, "fuel": np.full((4, 2), one)}, given.initial)
        for one in paid
    ]
    problem = veil.Problem(models, LIMITED.observer, veil.WhichModel(), 2)
    assert make_task(make_space(with_task(problem, "fuel"), "timed")).further[0].bound == -2 * 10 - 1


def test_a_formula_beside_a_model_that_the_agent_knows_is_refused_for_what_it_is():
    two = veil.Problem([LIMITED.model] * 2, LIMITED.observer, veil.WhichModel(agent_knows=True), 2)
    with pytest.raises(veil.InputError, match="column 1: agent_knows is True for one and False for another"):
        with_task(two, "P(F s1)")


def test_bits_are_terms_by_the_name_of_their_pair():
    pair = veil.Pair("foe", veil.Observer(np.eye(4)))
    problem = make_problem([], 3, horizon=2).replace(pairs=[pair])
    assert hidden_terms(problem, "2*H(foe) - H(own) + energy") == ((2.0, "foe"), (-1.0, "own"))
    assert hidden_terms(problem, None) == ()
    assert terms_of(with_task(problem, "2*H(foe) + energy"), "2*H(foe) + energy") == ((1.0, 0),)
    with pytest.raises(veil.InputError, match="column 3: there is no pair 'fo': did you mean 'foe'"):
        hidden_terms(problem, "2*H(fo)")
