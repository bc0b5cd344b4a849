"""The methods of `veil.solve`: what veil's own declare, and one that another package adds, from every door."""

from pathlib import Path
from typing import Any

import pytest

import veil
from tests.cli.commands import veil as command
from tests.common.plugins import install
from veil.common.errors import PluginError
from veil.formats.scenario.load import read_scenario
from veil.planning.methods import METHODS, unsupported

UNIFORM = """
import veil

class Uniform:
    summary = "the uniform policy"
    goals = ("opaque", "transparent")
    objectives = ("entropy",)
    memories = ("markov",)
    options = frozenset({"starts"})

    def solve(self, problem, options):
        policy = veil.MarkovPolicy.uniform(problem)
        hidden, earned = veil.opacity(problem, policy), veil.expected_return(problem, policy)
        return veil.Solution(policy, "uniform policies", hidden, earned, None, True, veil.Status.CONVERGED, "uniform")
"""
SCENARIO = """
horizon = 2
[grid]
drawing = '''
S c ?
'''
[grid.sensors.c]
name = "camera"
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package that adds the method `uniform`."""

    def add(name: str = "uniform", code: str = UNIFORM, value: str = "uniform_method:Uniform") -> None:
        install(tmp_path, monkeypatch, "uniform-method", {"veil.methods": {name: value}}, "uniform_method", code)
        monkeypatch.delitem(METHODS.__dict__, "_points", raising=False)
        monkeypatch.setattr(METHODS, "_loaded", {})

    yield add
    METHODS.__dict__.pop("_points", None)


def test_veil_has_its_own_methods():
    assert METHODS.builtin == ("auto", "ascent", "primal-dual", "game", "queries")
    assert METHODS.get("auto") is METHODS.get("ascent")
    for name in METHODS.builtin:
        assert METHODS.get(name).summary


def test_a_method_of_another_package_is_used_like_any_other(plugin):
    plugin()
    problem = veil.gallery.load("two-rooms", min_return=None)
    found = veil.solve(problem, "uniform", starts=1, goal="transparent", certificate=False)
    assert found.method == "uniform"
    assert found.iterations == 0
    with pytest.raises(veil.InputError) as caught:
        veil.solve(problem, "uniform", objective="guess", memory="timed", per_start=True)
    assert caught.value.defects == (
        "memory: method='uniform' has 'markov', found 'timed'",
        "objective: method='uniform' has 'entropy', found 'guess'",
        "per_start: method='uniform' does not have this option, only 'ascent' and 'primal-dual'",
    )


def test_a_scenario_and_the_command_line_choose_it(plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plugin()
    text = SCENARIO + '[solve]\nmethod = "uniform"\ncertificate = false\n'
    scenario = read_scenario(text)
    assert dict(scenario.settings) == {"method": "uniform", "certificate": False}
    assert veil.solve(scenario.problem, **scenario.settings).method == "uniform"
    monkeypatch.chdir(tmp_path)
    Path("walk.toml").write_text(text)
    assert command("solve", "walk.toml", "--json").json["answer"]["method"] == "uniform"
    done = command("solve", "gallery:two-rooms", "--method", "uniform", "--set", "solve.certificate=false", "--json")
    assert done.json["answer"]["method"] == "uniform"


def test_an_answer_that_misses_a_constraint_which_its_method_does_not_know_is_not_feasible(plugin):
    plugin()
    plain = veil.gallery.load("two-rooms", min_return=None)
    strict = plain.replace(constraints=[veil.Return(max=0.1)])
    watched = plain.replace(pairs=[veil.Pair("other", plain.observer, min=1.5)])
    for problem, words in ((strict, "return ≤ 0.1"), (watched, "H(other) ≥ 1.5")):
        found = veil.solve(problem, "uniform")
        assert (found.feasible, found.status) == (False, veil.Status.INFEASIBLE)
        assert found.detail.startswith("method 'uniform' returned a policy that misses")
        assert words in found.detail
        assert found.certificate_note == "no feasible policy was found"
    assert veil.solve(plain, "uniform").certificate is not None


def test_an_unknown_method_lists_what_there_is(plugin):
    plugin()
    with pytest.raises(
        veil.InputError, match="'auto', 'ascent', 'primal-dual', 'game', 'queries', 'uniform': did you mean 'uniform'"
    ):
        veil.solve(veil.gallery.load("two-rooms"), "unifrom")
    with pytest.raises(veil.InputError, match="method is 3, expected one of 'auto'"):
        veil.solve(veil.gallery.load("two-rooms"), 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        veil.errors.ScenarioError, match=r"\[solve\] method: found 'unifrom', .* did you mean 'uniform'"
    ):
        read_scenario(SCENARIO + '[solve]\nmethod = "unifrom"\n')
    done = command("solve", "gallery:two-rooms", "--method", "unifrom")
    assert done.code == 2
    assert "did you mean 'uniform'?" in done.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"code": "import no_such_module"}, "cannot be loaded: ModuleNotFoundError"),
        ({"code": "class Uniform: pass"}, "it has no summary, goals, objectives, memories, options, solve"),
        ({"code": "Uniform = 3"}, "it is 3, expected a class"),
        ({"name": "game"}, "the method 'game' is defined by veil and package 'uniform-method'"),
    ],
)
def test_a_package_at_fault_is_named(plugin, change: dict[str, str], said: str):
    plugin(**change)
    name = change.get("name", "uniform")
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(PluginError, match=f"'uniform-method' 1.0.*{said}|{said} 1.0"):
        veil.solve(problem, name)
    assert veil.solve(problem, "ascent", starts=1, iterations=1, certificate=False).feasible
    with pytest.raises(veil.errors.ScenarioError, match=r"line 10, \[solve\] method"):
        read_scenario(SCENARIO + f'[solve]\nmethod = "{name}"\n')


def test_what_a_method_does_not_support():
    given: dict[str, Any] = {"goal": "opaque", "memory": veil.StateMemory(1), "starts": 3, "seed": 4, "gap": None}
    assert unsupported("ascent", given) == {}
    assert set(unsupported("game", given)) == {"memory", "starts"}
    assert unsupported("game", {"memory": "history", "gap": 0.1}) == {}
    assert "use method='game'" in unsupported("primal-dual", {"memory": "history"})["memory"]


def test_the_command_line_drops_what_another_method_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    text = SCENARIO + '[solve]\nmemory = "timed"\nstarts = 2\ncertificate = false\nseed = 3\n'
    Path("walk.toml").write_text(text)
    done = command("solve", "walk.toml", "--method", "game", "--json")
    assert done.json["answer"]["method"] == "game"
    assert "method game does not use these options of the scenario: memory, starts" in done.err
    assert "does not use" not in command("solve", "walk.toml", "--method", "game", "--quiet").err
