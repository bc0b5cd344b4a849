"""Malformed scenarios: each is refused with a message that names the place, and with nothing but `ScenarioError`."""

# ruff: noqa: E501  (one case a line reads as a table)

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each
from tests.formats.scenarios import AUTOMATON, GRAPH, GRID, MODELS
from tests.seeds import looped
from veil.common.errors import ScenarioError
from veil.formats.imported import Imported
from veil.formats.scenario.load import load, load_scenario, read_scenario
from veil.problem.model import Model
from veil.problem.observer import Observer


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) >= 1, old
    return text.replace(old, new, 1)


# Name, text, pieces that the message must hold.
CASES = [
    # The file as TOML.
    ("not TOML", "horizon 4\n" + GRID, ["not TOML", "line 1"]),
    ("key given twice", "horizon = 3\n" + GRID, ["not TOML", "line 2"]),
    ("empty", "", ["horizon", "is missing"]),
    ("deep nests", "x = " + "[" * 5000, ["nested 5,000 levels deep", "at most 12"]),
    ("key of many parts", ".".join("a" * 50) + " = 1", ["50 parts", "at most 12"]),
    ("too many entries", "x = [" + "0," * 300_000 + "]", ["300,", "at most 260,000"]),
    ("number beyond 64 bits", changed(GRID, "horizon = 4", "horizon = 0x" + "f" * 5000), ["line 1, horizon", "20000 bits"]),
    ("not a number", changed(GRID, "slip = 0.1", "slip = nan"), ["line 11, [grid] slip", "nan", "finite"]),
    # Keys.
    ("unknown key", "horizn = 4\n", ["line 1, horizn", "did you mean 'horizon'?", "horizon: is missing"]),
    ("unknown table", GRID + "\n[solver]\nseed = 1\n", ["line 33, [solver]", "did you mean 'solve'?"]),
    # Forms.
    ("horizon as text", changed(GRID, "horizon = 4", 'horizon = "4"'), ["line 1, horizon", "found '4'", "whole number"]),
    ("horizon below zero", changed(GRID, "horizon = 4", "horizon = -1"), ["line 1, horizon", "-1", "0 or more"]),
    ("endless horizon", changed(GRID, "horizon = 4", "horizon = 100001"), ["line 1, horizon", "at most 100,000"]),
    ("threshold without a sign", changed(GRID, '"50%"', '"50"'), ["line 2, min_return", "'50'"]),
    ("threshold beyond all", changed(GRID, '"50%"', '"150%"'), ["line 2, min_return", "0% to 100%"]),
    ("truth as a number", changed(GRID, "stay = true", "stay = 1"), ["line 12, [grid] stay", "true or false"]),
    ("grid as a number", "horizon = 1\ngrid = 3\n", ["line 2, grid", "found 3", "a table"]),
    ("rate above one", changed(GRID, "detection = 0.9", "detection = 1.9"), ["line 19, [grid.sensors.c] detection", "1.9"]),
    ("kind of secret", changed(GRID, '"last_state"', '"last_stat"'), ["[secret]", "'last_stat'", "did you mean 'last_state'?"]),
    ("secret without a kind", changed(GRID, 'kind = "last_state"', ""), ["[secret] kind", "is missing", "'last_state'"]),
    ("method", changed(GRID, '"ascent"', '"ascend"'), ["line 29, [solve] method", "'ascend'", "did you mean 'ascent'?"]),
    # Grids.
    ("unknown sign", changed(GRID, "G\n", "Q\n"), ["line 5, [grid] drawing", "line 1, column 4", "'Q'"]),
    ("no start", changed(GRID, "  S  .", "  .  ."), ["[grid]", "no start"]),
    ("a wall that is a goal", changed(GRID, "  .  #  c", "  .  #G  c"), ["[grid] drawing", "line 2, column 2", "wall"]),
    ("no drawing and no size", re.sub(r'drawing = """.*?"""', "rows = 3", GRID, flags=re.DOTALL), ["[grid] drawing: is missing"]),
    ("drawing and size", changed(GRID, "slip = 0.1", "rows = 3"), ["line 11, [grid] rows", "leave it out"]),
    ("large drawing", f"horizon = 1\n[grid]\ndrawing = '''\n{('.' * 1000 + chr(10)) * 51}'''", ["line 3, [grid] drawing", "51,000"]),
    ("cell off the grid", changed(GRID, "stay = true", "walls = [[9, 9]]"), ["line 12, [grid] walls", "(9, 9)", "off the grid"]),
    ("reward without a goal", changed(GRID, '["goal", "c"]', '"floor"'), ['line 15, [grid.legend."$"]', "reward", "goal"]),
    ("sign of a sensor taken", changed(GRID, "sensors.d", "sensors.S"), ["[grid] drawing", "'S'", "start"]),
    ("overlap with single readings", changed(GRID, "slip = 0.1", 'readings = "single"').replace(" d ", " cd "), ["line 11, [grid] readings", "'north'", "'d'"]),
    ("no secret cell", changed(GRID, "?", "."), ["[secret] states", "is missing", "no cell of the grid is secret"]),
    ("sign drawn nowhere", GRID.replace('"last_state"', '"last_state"\nstates = { drawn = "Q" }'), ["[secret.states]", "'Q'", "nowhere"]),
    ("variable of an expression", GRID.replace('"last_state"', '"last_state"\nstates = { where = "rwo = 1" }'), ["[secret.states]", "did you mean 'row'?"]),
    ("expression that never holds", GRID.replace('"last_state"', '"last_state"\nstates = { where = "row > 9" }'), ["[secret.states]", "no state"]),
    # Graphs.
    ("row above one", changed(GRAPH, "bridge = 0.9", "bridge = 0.95"), ["line 9, [graph] transitions entry 1", "1.05", "expected 1"]),
    ("entry given twice", changed(GRAPH, '  ["bridge", "go"', '  ["mill", "go", "bridge", 0.9],\n  ["bridge", "go"'), ["line 12, [graph] transitions entry 4", "given before"]),
    ("entry of two", changed(GRAPH, '["bridge", "go", "market"]', '["bridge", "go"]'), ["line 12, [graph] transitions entry 4", "next state"]),
    ("state without an action", changed(GRAPH, '  ["market", "wait", "market"],\n', ""), ["[graph] transitions", "'market'", "no available action"]),
    ("state that is not listed", changed(GRAPH, "discount", 'states = ["harbour", "mill", "brige", "market"]\ndiscount'), ["transitions entry 1", "'bridge'", "did you mean 'brige'?"]),
    ("no transitions", re.sub(r"transitions = \[.*?\n\]", "", GRAPH, flags=re.DOTALL), ["[graph] transitions", "is missing"]),
    ("initial state", changed(GRAPH, "mill = 0.5 }", "mil = 0.5 }"), ["line 6, [graph.initial] mil", "did you mean 'mill'?"]),
    ("rewarded action", changed(GRAPH, "{ go = 0.1 }", "{ walk = 0.1 }"), ["[graph.rewards.mill] walk", "unknown action"]),
    ("too many actions", "horizon = 1\n[graph]\ninitial = 'a'\ntransitions = [" + "".join(f"['a', 'x{i}', 'a']," for i in range(300)) + "]", ["[graph]", "300 actions", "256"]),
    ("infinite return undiscounted", "return_over = 'infinite'\n" + GRAPH.replace("0.95", "1"), ["line 1, return_over", "discount below 1"]),
    # Observers.
    ("nothing is seen", re.sub(r"\[observer\].*?\[secret\]", "[secret]", GRAPH, flags=re.DOTALL), ["observer", "emissions"]),
    ("emission above one", changed(GRAPH, "car = 0.8", "car = 0.8, parcel = 0.7"), ["[observer.emissions.bridge]", "1.5", "expected 1"]),
    ("emission without the rest", changed(GRAPH, 'rest = "nothing"\n', ""), ["[observer.emissions.bridge]", "0.8", "rest", "has no row for state 'harbour'"]),
    ("rest that is not listed", changed(GRAPH, "sees_actions = false", 'observations = ["car", "parcel"]'), ["[observer] rest", "unknown observation 'nothing'"]),
    ("two ways to see", GRAPH + "\n[observer.sensors.eye]\nstates = 'mill'\n", ["[observer.emissions]", "sensors and emissions", "one way"]),
    ("emissions over a grid's sensors", GRID + "\n[observer.emissions]\nr0c0 = 'x'\n", ["[observer.emissions]", "the grid's sensors"]),
    ("no range", changed(MODELS, 'states = "b"\n', ""), ["[observer.sensors.eye] states", "is missing"]),
    ("rest without emissions", changed(MODELS, "[observer.sensors.eye]", "[observer]\nrest = 'x'\n[observer.sensors.eye]"), ["[observer] rest", "only emissions"]),
    # Secrets.
    ("time after the horizon", GRAPH.replace('"initial_state"', '"state_at"\ntime = 9\nstates = ["mill"]').split("\n[secret.groups]")[0], ["[secret] time", "time is 9", "horizon 3"]),
    ("groups that miss a start", changed(GRAPH, 'inland = ["mill"]', 'inland = ["market"]'), ["[secret.groups]", "'mill'", "no group"]),
    ("groups that overlap", changed(GRAPH, '["mill"]', '["mill", "harbour"]'), ["[secret.groups] inland", "'harbour'", "'port'"]),
    ("label of no state", changed(AUTOMATON, '"bridge", "yes"', '"brige", "yes"'), ["[secret] transitions entry 1", "'brige'"]),
    ("accepting state", changed(AUTOMATON, 'accepting = ["yes"]', 'accepting = ["maybe"]'), ["[secret] accepting", "'maybe'"]),
    ("two labels", changed(AUTOMATON, 'bridge = "bridge"', 'bridge = "bridge"\nb = "bridge"'), ["[secret.labels] b", "'bridge'", "one label"]),
    # Several models.
    ("models without the secret", changed(MODELS, "which_model", "initial_state"), ["[[models]]", "which_model"]),
    ("secret without models", MODELS.split("[[models]]")[0] + "[observer.sensors.e]\nstates = 'b'\n[secret]\nkind = 'which_model'", ["[secret] kind", "two [[models]]"]),
    ("some weights", changed(MODELS, "weight = 1\n", ""), ["[[models]] entry 1, weight", "for each model or for none"]),
    ("row of the second model", changed(MODELS, "b = 0.9", "b = 0.8"), ["[[models]] entry 2, graph, transitions entry 1", "0.9"]),
    ("states that differ", changed(MODELS, "[models.graph]\n", "[models.graph]\nstates = ['b', 'a']\n"), ["line 14, [[models]] entry 2", "names its states"]),
    ("two models", GRID + "\n[graph]\ninitial = 'a'\n", ["[graph]", "beside [grid]"]),
    ("no model", "horizon = 3\n", ["no model", "[grid], [graph] or [file]"]),
    # Settings.
    ("step without its method", GRID + "step = 0.5\n", ["line 32, [solve] step", "primal-dual"]),
    ("memory of two kinds", changed(GRID, '"timed"', "{ states = 1, controller = 2 }"), ["[solve.memory]", "states and controller"]),
    ("memory of what is not seen", changed(GRID, '"timed"', "{ observations = 1 }"), ["[solve.memory]", "does not see"]),
    ("time limit", changed(GRID, "seed = 3", "time_limit = '1 h'"), ["line 31, [solve] time_limit", "'1 h'", "a number"]),
    # Model files.
    ("file without a folder", "horizon = 1\n[file]\npath = 'a.npz'\n", ["line 3, [file] path", "no folder"]),
]  # fmt: skip


def test_is_refused_with_its_place():
    def check(case: tuple[str, list[str]]) -> None:
        text, pieces = case
        with pytest.raises(ScenarioError) as caught:
            read_scenario(text, source="bad.toml")
        message = str(caught.value)
        assert message.startswith("bad.toml: ")
        assert not [piece for piece in pieces if piece not in message], message
        assert len(message) < 50_000

    cases = {name: (text, pieces) for name, text, pieces in CASES}
    assert len(cases) == len(CASES)
    each(cases, check)


def refused(text: str) -> ScenarioError:
    with pytest.raises(ScenarioError) as caught:
        read_scenario(text)
    return caught.value


def test_defects_of_all_parts_come_together_in_the_order_of_their_lines():
    text = changed(GRAPH, "horizon = 3", "horizon = -3")  # form
    text = changed(text, "bridge = { car", "brdge = { car")  # observer
    text = changed(text, '["mill"]', '["mil"]') + "[solve]\nmemory = { zones = ['harbor'] }\n"  # secret, settings
    defects = refused(text).defects
    assert [defect.split(":")[0] for defect in defects] == [
        "line 2, horizon",
        "line 28, [observer.emissions.brdge]",
        "line 36, [secret.groups] inland",
        "line 38, [solve.memory] zones entry 1",
    ]


def test_a_defect_of_one_table_brings_no_others():
    assert len(refused(changed(GRID, "slip = 0.1", "slip = 9")).defects) == 1
    assert len(refused(changed(GRAPH, "rest = ", "rests = ")).defects) == 1
    assert len(refused(changed(MODELS, "weight = 1", "weight = -1")).defects) == 1
    assert len(refused(changed(GRAPH, '["bridge", "go", "market"]', '["bridge", "go"]')).defects) == 1
    late = 'kind = "state_at"\ntime = 3\nstates = ["mill"]\n'
    assert (
        len(refused(changed(GRAPH.split("[secret]")[0], "horizon = 3", "horizon = 'x'") + "[secret]\n" + late).defects)
        == 1
    )


def test_many_defects_are_counted():
    rows = "".join(f"['s{i}', 'a', 't{i}', 0.5],\n" for i in range(2000))
    with pytest.raises(ScenarioError) as caught:
        read_scenario(f"horizon = 1\n[graph]\nstates = ['s']\ninitial = 's'\ntransitions = [\n{rows}]\n")
    assert len(caught.value.defects) == 21
    assert "more" in caught.value.defects[-1]


def test_bytes_that_are_no_scenario(tmp_path: Path):
    path = tmp_path / "bad.toml"
    for content, pieces in (
        (b"horizon = 1\nname = '\xff'\n", ["line 2", "0xff", "UTF-8"]),
        (b"#" * (2**20 + 1), ["more than 1,048,576 bytes", "[file]"]),
        (b"\x00\x00", ["not TOML"]),
    ):
        path.write_bytes(content)
        with pytest.raises(ScenarioError) as caught:
            load(path)
        assert not [piece for piece in [str(path), *pieces] if piece not in str(caught.value)], caught.value


def test_paths_that_are_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("missing.toml", "..", "a\0b", "x" * 5000, "pipe.toml"):
        with pytest.raises(
            ScenarioError, match=r"does not exist|not an ordinary file|a folder|not the name of a file|cannot be read"
        ):
            load_scenario(str(tmp_path / name))


def test_model_files_that_are_refused(tmp_path: Path):
    home = tmp_path / "home"
    (home / "inside").mkdir(parents=True)
    (tmp_path / "secret.pomdp").write_text("discount: 0.9\n")
    (home / "link.pomdp").symlink_to(tmp_path / "secret.pomdp")
    (home / "model.xyz").write_text("")
    (home / "broken.pomdp").write_text("states: nonsense nonsense\n")
    os.mkfifo(home / "pipe.pomdp")
    scenario = home / "scenario.toml"
    cases = {
        "../secret.pomdp": ["leaves the folder"],
        "link.pomdp": ["leaves the folder"],
        "missing.pomdp": ["cannot be read", "No such file"],
        "model.xyz": ["'.xyz'", ".pomdp"],
        "inside": ["not a file"],
        "pipe.pomdp": ["not a file"],
        "broken.pomdp": ["broken.pomdp"],
    }

    def check(case: tuple[str, list[str]]) -> None:
        path, pieces = case
        scenario.write_text(f'horizon = 1\n[file]\npath = "{path}"\n[secret]\nkind = "last_state"\nstates = [0]\n')
        with pytest.raises(ScenarioError) as caught:
            load(scenario)
        assert not [piece for piece in ["line 3, [file] path", *pieces] if piece not in str(caught.value)], caught.value

    each({path: (path, pieces) for path, pieces in cases.items()}, check)


# Several models, whose sum has limits of its own, and which must agree on what the observer sees.


def several(
    kind: str, tables: list[str], common: str = "", observer: str = "[observer.sensors.e]\nstates = [0]\n"
) -> str:
    models = "".join(f"[[models]]\n[models.{kind}]\n{table}\n" for table in tables)
    return f"horizon = 1\n{common}\n{models}\n{observer}\n[secret]\nkind = 'which_model'\n"


def graph_of(actions: int, successors: int = 1, states: int = 1) -> str:
    row = ", ".join(f"s{n} = 1" for n in range(successors))
    named = max(states, successors)
    steps = ",\n".join(f"['s{s}', 'a{a}', {{ {row} }}]" for s in range(named) for a in range(actions))
    return f"initial = 's0'\ntransitions = [{steps}]"


def test_bulk_of_several_models():
    for text, words in (
        (several("graph", [graph_of(200)] * 3), "[[models]]: found 600 actions in all, expected at most 512"),
        (several("graph", ["discount = 1"] * 60, f"[graph]\n{graph_of(1, 45)}"), "[[models]]: found 121,500 transitions in all, expected at most 120,000"),
        ("horizon = 1\n[graph]\n" + graph_of(1, 350), "[graph] transitions: found 122,500 transitions in all"),
        (several("grid", ["rows = 200\ncolumns = 200"] * 3), "[[models]]: found about 120,000 cells in all, expected at most"),
    ):  # fmt: skip
        assert words in str(refused(text))


@looped(
    ("first", "second", "same"),
    [
        ([[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.2, 0.8]], True),
        ([[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.3, 0.7]], False),
        (None, [[0.9, 0.1], [0.2, 0.8]], False),
    ],
)
def test_model_files_must_bring_one_observer(tmp_path: Path, first: Any, second: Any, same: bool):
    model = Model.from_entries([("a", "go", "b", 1.0), ("b", "go", "b", 1.0)], {}, "a")
    for name, emissions in (("one", first), ("two", second)):
        Imported(model, None if emissions is None else Observer(emissions)).save(tmp_path / f"{name}.npz")
    path = tmp_path / "both.toml"
    path.write_text(several("file", ["path = 'one.npz'", "path = 'two.npz'"], observer=""))
    if same:
        assert load(path).observer.emissions.tolist() == first
    else:
        with pytest.raises(ScenarioError, match=r"\[\[models\]\] entry 2.*its observer differs from that of entry 1"):
            load(path)
    path.write_text(
        several("file", ["path = 'one.npz'", "path = 'two.npz'"], observer="[observer]\nvariables = ['state']")
    )
    assert load(path).observer.num_observations == 2  # one that the scenario gives stands for all
