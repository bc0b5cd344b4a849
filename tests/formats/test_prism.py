"""PRISM programs through Storm: states, actions, rewards and observables are those of the program."""

import functools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.cli.commands import NO_PROOF, ONCE
from tests.cli.commands import veil as command
from tests.formats.classics import DATA
from tests.formats.storm import build, stormpy, value
from veil.cli import shared
from veil.common.errors import InputError, MissingExtraError, ModelFileError, TooLargeError
from veil.formats.drn.files import chain_to_drn
from veil.formats.prism.files import from_prism, from_stormpy

OBSERVABLES = re.compile(r"pomdp.*endobservables", re.DOTALL)
GRID, MAZE = DATA / "grid.prism", DATA / "maze.prism"


@functools.cache
def read(program: Path, reward_model: str | None = None) -> veil.Imported:
    """A program of the folder, built once; the test is skipped without stormpy."""
    stormpy()
    return from_prism(program, reward_model=reward_model)


def test_a_program_is_solved_with_its_secret_as_an_expression(tmp_path: Path):
    sensing = read(GRID, "cost").sensing({"east": ("x>=2", 0.9, 0.1), "door": ("door", 0.7)})
    problem = sensing.problem("door & (x=3 | y>1)", 8, min_return="60%")
    solution = veil.solve(problem, starts=1, iterations=4, certificate=False)
    assert solution.feasible
    assert solution.opacity.bits > 0
    chain_to_drn(tmp_path / "chain.drn", problem, solution.policy)
    chain = stormpy().build_model_from_drn(str(tmp_path / "chain.drn"))
    assert value(chain, 'R{"reward"}=? [C<=8]') == pytest.approx(solution.expected_return, abs=1e-9)
    secret = value(chain, 'P=? [F=8 "secret_secret"]')
    assert veil.measures.joint_table(problem, solution.policy).prior[1] == pytest.approx(secret, abs=1e-9)


@pytest.mark.parametrize(("program", "reward"), [(GRID, "cost"), (GRID, "other"), (MAZE, "energy")])
def test_the_best_return_is_that_of_storm(program: Path, reward: str, tmp_path: Path):
    # Storm answers about an MDP: one that sees its own states, as veil's agents do.
    (tmp_path / "seen.prism").write_text(OBSERVABLES.sub("mdp\n", program.read_text()))
    model = build(tmp_path / "seen.prism")
    observed = read(program, reward).observing("state")
    for horizon in (1, 7, 30):
        expected = value(model, f'R{{"{reward}"}}max=? [C<={horizon}]')
        assert veil.max_return(observed.problem(veil.LastState([0]), horizon)) == pytest.approx(expected, abs=1e-9)


def test_states_actions_and_variables():
    grid = read(GRID, "cost")
    model = grid.model
    assert (model.num_states, model.num_actions) == (32, 5)
    assert set(model.actions.all()) == {"east", "west", "north", "open", "unlabelled"}
    east = model.actions.find("east")
    here, there = model.states.find("door=false,x=1,y=2"), model.states.find("door=false,x=2,y=2")
    assert model.transitions[here, east, there] == 0.9
    assert model.transitions[here, east, here] == 0.1
    assert not model.available[model.states.find("door=true,x=3,y=0"), east]
    assert np.array_equal(grid.mask("x=3 & door"), grid.mask('"goal"'))
    assert set(grid.states_where("x=3 & !door & y<=1")) == {model.states.find(f"door=false,x=3,y={y}") for y in (0, 1)}
    paid = model.rewards[model.states.find("door=false,x=3,y=1")]
    assert paid[model.actions.find("open")] == 2.5
    assert paid[model.actions.find("west")] == 2
    assert "rewards left out: other" in grid.notes


def test_observables_become_the_watcher():
    maze = read(MAZE)
    assert maze.observer is not None
    assert maze.observer.sees_first
    shown = maze.observer.emissions.argmax(axis=1)
    along, charging = maze.variables["along"], maze.variables["charging"]
    for one in range(maze.model.num_states):
        same = (along == along[one]) & (charging == charging[one])
        assert np.array_equal(shown == shown[one], same)
    assert maze.observer.observations[shown[0]] == "along=0, charging=false"
    problem = maze.problem('"vault"', 6, min_return="50%")
    solution = veil.solve(problem, starts=2, iterations=10, certificate=False)
    assert solution.feasible
    assert 0 < solution.opacity.bits < 1
    assert "observations  5: " in maze.summary()


def test_constants(tmp_path: Path):
    stormpy()
    path = tmp_path / "open.prism"
    path.write_text(GRID.read_text().replace("const int N = 3", "const int N"))
    for constants in ({"N": 2}, "N=2"):
        assert from_prism(path, constants=constants, reward_model="cost").model.num_states == 18
    with pytest.raises(ModelFileError, match="constants N are not defined"):
        from_prism(path)
    with pytest.raises(ModelFileError, match="Storm cannot build it"):
        from_prism(path, constants={"M": 2, "N": 1})


SCENARIO = """
horizon = 6
min_return = "50%"

[file]
path = "open.prism"
constants = { N = 2 }
reward_model = "cost"

[observer.sensors.east]
states = { where = "x>=1 & !door" }
detection = 0.9

[secret]
kind = "last_state"
states = { where = "door & y=0" }
"""


def test_a_scenario_and_the_commands_take_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stormpy()
    monkeypatch.chdir(tmp_path)
    Path("open.prism").write_text(GRID.read_text().replace("const int N = 3", "const int N"))
    Path("walk.toml").write_text(SCENARIO)
    problem = veil.load("walk.toml")
    assert problem.num_states == 18
    assert problem.observer.num_observations == 2
    done = command("solve", "walk.toml", *ONCE, *NO_PROOF)
    assert done.code in (shared.SOLVED, shared.LIMIT, shared.DOUBTED), done.err
    done = command("inspect", "open.prism")
    assert done.code == 2
    assert "constants N are not defined" in done.err
    done = command("inspect", MAZE)
    assert done.code == 0
    assert "observations  5: " in done.out


PROTOCOLS = Path(__file__).parents[2] / "examples" / "protocols"


@pytest.mark.parametrize(
    ("program", "horizon", "leaked", "states"), [("voting.pm", 4, 4.815108, 4096), ("dining.pm", 6, 0.811278, 380)]
)
def test_programs_in_the_dialect_of_prism_leak_are_measured_as_published(
    program: str, horizon: int, leaked: float, states: int
):
    stormpy()
    done = command("measure", PROTOCOLS / program, "--set", f"horizon={horizon}", "--json")
    assert done.code == 0, done.err
    assert done.json["opacity"]["method"] == "exact"
    assert done.json["opacity"]["leakage_bits"] == pytest.approx(leaked, abs=1e-6)
    assert done.json["problem"]["states"] == states


@pytest.mark.parametrize(
    ("law", "leaked"), [((1 / 2, 1 / 4, 1 / 8, 1 / 8), 1.4056), ((0.997, 0.001, 0.001, 0.001), 0.0322)]
)
def test_the_start_of_a_program_can_be_weighed(law: tuple[float, ...], leaked: float, tmp_path: Path):
    stormpy()
    (tmp_path / "two.pm").write_text(TWO_VOTERS)
    pairs = [(1, 1), (1, 2), (2, 1), (2, 2)]
    weighed = {f'"init" & v={a} & w={b}': chance for (a, b), chance in zip(pairs, law, strict=True)}
    problem = from_prism(tmp_path / "two.pm").starting(weighed).problem(horizon=2)
    assert veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).leakage_bits == pytest.approx(leaked, abs=1e-4)


TWO_VOTERS = """dtmc
global secret v : [1..2];
global secret w : [1..2];
global observable one : [0..2];
global observable two : [0..2];
module first
  a : bool;
  [] !a & v=1 -> (a'=true) & (one'=one+1);
  [] !a & v=2 -> (a'=true) & (two'=two+1);
  [done] a -> true;
endmodule
module second = first [ a=b, v=w ] endmodule
init !a & !b & one=0 & two=0 endinit
"""


MARKED = """dtmc
// secret ghost : [0..1]; a comment declares nothing
global secret h : [0..2];
observable global l : [0..1];
const int secret = 1;
module one
  observable a : bool;
  b : [0..1];
  [] !a -> 0.5 : (a'=true) + 0.5 : (b'=secret);
  [] a -> true;
endmodule
module two = one [ a=c, b=d ] endmodule
module three = one [ a=e, b=f ] endmodule
init l=0 & !a & b=0 & !c & d=0 & !e & f=0 endinit
"""


def test_marks_are_found_and_passed_on_by_renaming(tmp_path: Path):
    stormpy()
    (tmp_path / "m.pm").write_text(MARKED)
    (tmp_path / "m.toml").write_text('horizon = 2\n[file]\npath = "m.pm"\n')
    problem = veil.load(tmp_path / "m.toml")  # with the secret and the observer of its program
    assert isinstance(problem.secret, veil.InitialState)
    assert problem.secret_values == ("h=0", "h=1", "h=2")
    assert veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).leakage_bits == pytest.approx(0, abs=1e-12)
    assert problem.observer.observations[0].startswith("l=0, a=false, c=false, e=false")
    (tmp_path / "other.toml").write_text(
        'horizon = 2\n[file]\npath = "m.pm"\n[secret]\nkind = "last_state"\nstates = { where = "b=1" }\n'
    )
    assert veil.load(tmp_path / "other.toml").secret_values == ("elsewhere", "secret")


def test_what_a_program_lacks_is_named(tmp_path: Path):
    stormpy()
    for text, options, words in (
        (MARKED, (), "such as --set horizon=4"),
        (MARKED.replace("observable ", ""), ("--set", "horizon=2"), "has no observer"),
        (MARKED.replace("secret h", "h"), ("--set", "horizon=2"), "declares no secret"),
    ):
        (tmp_path / "m.pm").write_text(text)
        done = command("measure", tmp_path / "m.pm", *options)
        assert done.code == 2
        assert words in done.err
    done = command("measure", tmp_path / "m.pm", "--set", "horizon=2", "--set", "secret=b=1 & d=0")
    assert done.code == 0, done.err
    done = command("measure", "gallery:two-rooms", "--set", "secret=x=1")
    assert done.code == 2
    assert "--set secret=x=1" in done.err


def test_rewards_of_transitions_are_averaged():
    stormpy()
    from stormpy import datastructures, models  # pyright: ignore[reportMissingImports]

    def matrix(*entries: tuple[int, int, float]) -> Any:
        builder = datastructures.SparseMatrixBuilder(2, 2)
        for entry in entries:
            builder.add_next_value(*entry)
        return builder.build(2, 2)

    labels = models.StateLabeling(2)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    paid = models.SparseRewardModel(optional_transition_reward_matrix=matrix((0, 1, 4.0)))
    chances = matrix((0, 0, 0.25), (0, 1, 0.75), (1, 1, 1.0))
    parts = models.SparseModelComponents(transition_matrix=chances, state_labeling=labels, reward_models={"paid": paid})
    assert from_stormpy(models.SparseDtmc(parts)).model.rewards.ravel().tolist() == [3.0, 0.0]


STEP = "mdp\nmodule m\n  x : [0..3] init 0;\n  [go] true -> (x'=x+1);\nendmodule\n"
DOUBLING = "".join(f"formula f{i + 1} = f{i}+f{i};\n" for i in range(40))
BAD: dict[str, tuple[str, type[Exception], str]] = {
    "not a program": ("hello\n", ModelFileError, "Storm cannot build it"),
    "probabilities of 1.7": (GRID.read_text().replace("0.1 : true", "0.8 : true"), ModelFileError, r"east.*1\.7"),
    "continuous time": ("ctmc\nmodule m\n x : bool init false;\n <> true -> 2 : (x'=!x);\nendmodule\n", InputError, "CTMC"),
    "a range of 4 left upwards": (STEP, ModelFileError, r"\(x \+ 1\).*\(4\).*'x'"),
    "deep parentheses": (STEP.replace("true", "(" * 20_000 + "true" + ")" * 20_000), ModelFileError, "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_programs_that_are_refused(case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    stormpy()
    text, kind, words = BAD[case]
    (tmp_path / "bad.prism").write_text(text)
    with pytest.raises(kind, match=words):
        from_prism(tmp_path / "bad.prism", reward_model="cost")
    assert capfd.readouterr() == ("", "")  # Storm itself says nothing


ENDLESS = {
    "doubling formulas": (DOUBLING.join(["mdp\nformula f0 = x+1;\n", STEP[4:].replace("true", "f40>0")]), "time_limit"),
    "a variable without bounds": (STEP.replace("[0..3]", "int"), "memory_limit"),
}


@pytest.mark.parametrize("case", ENDLESS)
def test_programs_that_never_end_meet_a_limit(case: str, tmp_path: Path):
    stormpy()
    text, limit = ENDLESS[case]
    (tmp_path / "endless.prism").write_text(text)
    limits: Any = {"time_limit": 0.7} if limit == "time_limit" else {"time_limit": 100.0, "memory_limit": 0.2}
    with pytest.raises(TooLargeError, match=f"endless.prism.*{limit}"):
        from_prism(tmp_path / "endless.prism", **limits)
    with pytest.raises(InputError, match=f"{limit} is 0, expected a number above 0"):
        from_prism(tmp_path / "endless.prism", **(limits | {limit: 0}))


def test_wrong_rewards_and_no_choice_of_them():
    stormpy()
    with pytest.raises(InputError, match="choose one, reward_model='cost'"):
        from_prism(GRID)
    with pytest.raises(InputError, match="no rewards 'gold': known are 'cost', 'other'"):
        from_prism(GRID, reward_model="gold")


def test_a_model_that_stormpy_built():
    read, again = from_stormpy(build(GRID), reward_model="cost"), from_prism(GRID, reward_model="cost")
    assert np.array_equal(read.model.transitions, again.model.transitions)
    assert np.array_equal(read.model.rewards, again.model.rewards)


def test_without_stormpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(MissingExtraError, match=r"veil\[prism\]"):
        from_prism(GRID)


def test_an_old_stormpy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    stormpy()
    (tmp_path / "stormpy.py").write_text("__version__ = '1.8'\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=r"1\.8 .*expected 2\.0 or newer"):
        from_prism(GRID)
