"""What another package adds is used as veil's own: from Python, in scenario files, on the command line, in the report."""

import tomllib
from pathlib import Path

import pytest

from tests.plugin.conftest import HERE, Run, parsed
from tests.seeds import looped

SCENARIO = '''
name = "gallery-thief"
horizon = 2

[grid]
drawing = """
  S  .  ?
  .  c  .
"""

[grid.sensors.c]
detection = 0.7

[secret]
kind = "passed"
'''
SAME = """
import veil
from veil_example.passed import Passed

problem = veil.load("thief.toml")
assert type(problem.secret) is Passed
labels, step = {"r0c2": "in"}, {("no", "in"): "yes"}
automaton = problem.replace(secret=veil.Automaton(step, "no", {"yes"}, labels, "out", "stay"))
made = problem.replace(secret=Passed(["r0c2"]))
policy = veil.MarkovPolicy.uniform(problem)
print([veil.opacity(one, policy).bits for one in (problem, made, automaton)])
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "thief.toml"
    path.write_text(SCENARIO)
    return path


ADDITIONS = ("veil.secrets", "veil.memories", "veil.observers", "veil.methods", "veil.formats")


@pytest.mark.parametrize("group", ADDITIONS)
def test_each_addition_touches_the_files_that_the_documents_count(group: str):
    """The module of the addition, and the file with its line; the module uses none of the others."""
    project = (HERE / "pyproject.toml").read_text()
    points = tomllib.loads(project)["project"]["entry-points"]
    assert set(points) == set(ADDITIONS)
    ((name, value),) = points[group].items()
    assert project.count(f'\n{name} = "{value}"\n') == 1
    module, _, _ = value.partition(":")
    touched = {"pyproject.toml"} | {
        str(path.relative_to(HERE)) for path in HERE.glob("veil_example/*.py") if path.stem == module.split(".")[1]
    }
    assert "veil_example" not in (HERE / module.replace(".", "/")).with_suffix(".py").read_text().replace(module, "")
    page = (HERE.parents[1] / "docs" / "extend.md").read_text("utf-8")
    assert f"**Files touched: {len(touched)}**" in page


@pytest.mark.usefixtures("scenario")
def test_the_secret_in_python_and_in_a_scenario_is_the_same(run: Run):
    first, second, third = parsed(run("-c", SAME))
    assert first == second > 0
    assert second == pytest.approx(third, abs=1e-12)


def test_the_secret_is_checked_as_veils_own(run: Run, scenario: Path):
    scenario.write_text(SCENARIO + 'states = "r9c9"\nagent_know = true\n')
    message = run("veil", "inspect", "thief.toml", code=2)
    assert "line 17, [secret] agent_know: is an unknown key: did you mean 'agent_knows'?" in message
    scenario.write_text(SCENARIO.replace("passed", "pased"))
    assert "did you mean 'passed'?" in run("veil", "inspect", "thief.toml", code=2)
    scenario.write_text(SCENARIO + 'states = "r9c9"\n')
    assert "[secret] states: unknown state 'r9c9'" in run("veil", "inspect", "thief.toml", code=2)


@pytest.mark.usefixtures("scenario")
def test_the_secret_on_the_command_line_and_with_the_method_in_the_report(run: Run, tmp_path: Path):
    prior = parsed(run("veil", "inspect", "thief.toml", "--json"))["prior"]
    assert list(prior) == ["never", "visited"]
    run(
        "veil",
        "solve",
        "thief.toml",
        "--method",
        "random",
        "--set",
        "solve.starts=2",
        "--report",
        "--set",
        "solve.certificate=false",
        "-o",
        "out",
    )
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Was a secret state visited at any time?" in report
    assert "random" in report
    run("veil", "convert", "thief.toml", "again.toml")
    text = (tmp_path / "again.toml").read_text("utf-8")
    assert '[secret]\nkind = "passed"\nstates = ["r0c2"]\n' in text
    prints = [parsed(run("veil", "inspect", name, "--json"))["fingerprint"] for name in ("thief.toml", "again.toml")]
    assert prints[0] == prints[1]


def test_the_schema_holds_the_secret(run: Run):
    found = parsed(run("veil", "show", "schema"))
    assert found["properties"]["secret"]["discriminator"]["mapping"]["passed"] == "#/$defs/PassedSecret"
    assert set(found["$defs"]["PassedSecret"]["properties"]) == {"kind", "states", "agent_knows"}


MISFITS = [
    ("[secret]\nkind = 'absent'", "cannot be loaded"),
    ("[secret]\nkind = 'nowhere'", "cannot be loaded"),
    ("[secret]\nkind = 'other'", "expected a subclass of veil.problem.secrets.Secret"),
    ("[solve]\nmemory = { stays = 1 }", "expected a subclass of veil.policy.memories.Memory"),
    ("[solve]\nmemory = { stayed = 1 }", "expected a subclass of veil.policy.memories.Memory"),
    ("[observer]\nduties = 1", "expected a subclass of veil.problem.observers.ObserverFeature"),
]


@looped(("given", "words"), MISFITS)
def test_what_does_not_fit_names_its_package(given: str, words: str, run_misfit: Run, tmp_path: Path):
    plain = SCENARIO.replace('[secret]\nkind = "passed"\n', "")
    (tmp_path / "thief.toml").write_text(plain + given + "\n")
    message = run_misfit("veil", "inspect", "thief.toml", code=2)
    assert "package 'veil-example' 1.0" in message
    assert words in message
    (tmp_path / "thief.toml").write_text(plain)
    run_misfit("veil", "inspect", "thief.toml")  # all else goes on working
