"""`veil new`, `veil inspect`, `veil show`, `veil convert`."""

import json
from pathlib import Path

import pytest

import veil as package
from tests.cli.commands import NO_PROOF, ONCE, veil
from tests.formats.test_scenario_observers import TEXT
from tests.seeds import looped
from veil.cli import shared
from veil.formats.scenario.load import load


@looped("kind", ["grid", "graph"])
def test_a_starter_can_be_solved(kind: str):
    assert veil("new", kind, "--from", kind).code == 0
    assert veil("inspect", f"{kind}.toml").code == 0
    done = veil("solve", f"{kind}.toml", *ONCE, *NO_PROOF)
    assert done.code in (0, 4), done.err


def test_nothing_is_replaced_unasked(home: Path):
    (home / "mine.toml").write_text("precious")
    assert veil("new", "mine").code == shared.BAD_INPUT
    assert (home / "mine.toml").read_text() == "precious"
    assert veil("new", "mine", "--force").code == 0


def test_the_doctor_finds_this_machine_healthy():
    assert veil("show", "installation").code == 0


def test_the_gallery_is_listed():
    listed = veil("show", "gallery", "--json").json["problems"]
    assert [one["name"] for one in listed] == list(package.gallery.names())


def test_the_schemas_are_published():
    for kind in ("scenario", "result", "frontier", "policy", "fit", "audit"):
        published = Path(__file__).parents[2] / "docs" / "schemas" / f"{kind}.json"
        remedy = f"veil show schema {kind} > docs/schemas/{kind}.json"
        assert json.loads(published.read_text("utf-8")) == veil("show", "schema", kind).json, remedy


def test_a_schema_is_shown_for_each_name_in_the_help():
    told = " ".join(veil("show", "--help").out.split())
    kinds = told.split("Of schema: ")[1].split(";")[0].split(", ")
    assert set(kinds) == {path.stem for path in (Path(__file__).parents[2] / "docs" / "schemas").glob("*.json")}


@pytest.mark.parametrize("command", ["measure", "simulate", "report"])
def test_a_model_file_with_an_observer_needs_a_secret_and_a_horizon(command: str):
    assert veil("convert", "rooms.toml", "model.npz").code == 0
    settings = ("--set", "horizon=2", "--set", "secret=index=1")
    assert veil(command, "model.npz", "uniform", *settings).code == 0
    assert "horizon" in veil(command, "model.npz", "uniform", "--set", "secret=index=1").err


def test_inspect_tells_what_there_is():
    found = veil("inspect", "rooms.toml", "--json").json
    assert (found["states"], found["actions"], found["transitions"], found["horizon"]) == (2, 2, 5, 2)
    assert found["max_return"] == pytest.approx(package.max_return(load("rooms.toml")))
    assert found["sequences"] == 8
    assert found["attainable"]
    assert found["methods"]["exact"].startswith("fits")


def test_inspect_says_what_is_out_of_reach(home: Path):
    text = (home / "rooms.toml").read_text("utf-8").replace("min_return = 0.5", "min_return = 7.0")
    (home / "rooms.toml").write_text(text, encoding="utf-8")
    assert "no policy reaches" in veil("inspect", "rooms.toml").out


def test_a_model_goes_around():
    assert veil("convert", "rooms.toml", "rooms.npz").code == 0
    assert veil("convert", "rooms.npz", "rooms.pomdp").code == 0
    done = veil("convert", "rooms.pomdp", "again.toml", "--set", "secret=state=vault", "--set", "horizon=2", "--json")
    assert done.code == 0, done.err
    again, first = load("again.toml"), load("rooms.toml")
    assert (again.model.transitions == first.model.transitions).all()
    assert again.secret_values == first.secret_values
    assert veil("convert", "rooms.pomdp", "third.toml").code == shared.BAD_INPUT


def test_measure_agrees_with_the_library():
    problem = load("rooms.toml")
    policy = package.MarkovPolicy.uniform(problem)
    found = veil("measure", "rooms.toml", "uniform", "--details", "--json").json
    assert found["opacity"]["bits"] == package.opacity(problem, policy).bits
    assert found["expected_return"] == package.expected_return(problem, policy)
    table = package.measures.joint_table(problem, policy)
    assert found["details"]["quantities"]["guess_probability"]["posterior"] == pytest.approx(table.guess_probability)
    assert found["details"]["bits_over_time"] == package.measures.bits_over_time(problem, policy).tolist()
    assert set(found["details"]["costs_bits"]) == {"camera"}
    camera = found["details"]["costs_bits"]["camera"]
    muting = f"Muting sensor camera would raise the observer's uncertainty by {camera:.3f} bits."
    assert found["details"]["recommendations"][0] == muting
    assert muting in veil("measure", "rooms.toml", "uniform", "--details").out


def test_measure_takes_a_gain_matrix_and_orders(tmp_path: Path):
    gain = tmp_path / "gain.csv"
    gain.write_text("1, 0\n0, 2\n")
    done = veil(
        "measure",
        "rooms.toml",
        "--details",
        "--set",
        f"measure.gain={gain}",
        "--set",
        "measure.orders=3",
        "--set",
        "measure.by=posterior",
        "--json",
    )
    assert done.code == 0, done.err
    problem = load("rooms.toml")
    policy = package.MarkovPolicy.uniform(problem)
    found = package.measures.quantities(problem, policy, gain=[[1, 0], [0, 2]], orders=3.0, top=5)
    printed = done.json["details"]["quantities"]
    assert found.gain is not None
    assert printed["gain"]["posterior"] == found.gain.posterior
    assert list(printed["renyi_bits"]) == ["3"]
    assert [one["probability"] for one in printed["worst"]["posterior"]] == [
        one.probability for one in found.worst["posterior"]
    ]
    gain.write_text("1, x\n")
    assert "expected rows of numbers" in veil("measure", "rooms.toml", "--details", "--set", f"measure.gain={gain}").err
    assert veil("measure", "rooms.toml", "--details", "--set", "measure.gain=absent.csv").code == shared.BAD_INPUT


def test_commands_on_an_observer_without_a_clock(tmp_path: Path):
    path = tmp_path / "strings.toml"
    path.write_text(TEXT % ("untimed = true", ""))
    done = veil("measure", str(path), "--details")
    assert done.code == 0, done.err
    assert "red red" in done.out
    assert "the same observer with a clock" in veil("inspect", str(path)).out
    attacked = veil("measure", str(path), "--attack", "--set", "attack.episodes=50", "--json")
    assert attacked.code == 0, attacked.err
    solved = veil("solve", str(path), *ONCE, "--set", "solve.iterations=5", *NO_PROOF, "-o", str(tmp_path / "result"))
    assert solved.code == 0, solved.err
    assert veil("report", str(tmp_path / "result"), "--time-limit", "2").code == 0


@looped("ending", ["json", "csv", "drn", "npz"])
def test_a_policy_becomes_text_or_the_chain_it_makes(result: Path, ending: str):
    target = result.parent / f"out.{ending}"
    done = veil("convert", str(result), str(target))
    assert done.code == 0, done.err
    assert target.stat().st_size > 0
    again = veil("convert", str(result / "policy.safetensors"), str(target), "--force", "--json")
    assert again.code == 2
    assert "give --scenario" in again.json["error"]["message"]
    content = target.read_bytes()
    assert (
        veil("convert", str(result / "policy.safetensors"), str(target), "--force", "--scenario", "rooms.toml").code
        == 0
    )
    assert target.read_bytes() == content
    if ending in ("json", "csv"):
        measured = veil("measure", "rooms.toml", str(target), "--json").json
        assert measured["opacity"] == veil("measure", "rooms.toml", str(result), "--json").json["opacity"]
        back = result.parent / "back.safetensors"
        assert veil("convert", str(target), str(back), "--force").code == 0
        assert back.read_bytes() == (result / "policy.safetensors").read_bytes()
    assert veil("convert", str(result), "policy.doc").code == 2


def test_a_formula_as_an_automaton(home: Path):
    done = veil("show", "formula", "F a", "-o", "a.svg")
    assert done.code == 0
    assert "2, from q0; accepting: q1" in done.out
    assert (home / "a.svg").read_text().startswith("<svg")
    assert veil("show", "formula", "F b", "-o", "a.svg").code == 0  # its own drawing is replaced, other files are not
    assert veil("show", "formula", "F a", "-o", "rooms.toml").code == shared.BAD_INPUT
    assert {"from": "q0", "if": "a", "to": "q1"} in veil("show", "formula", "F a", "--json").json["arrows"]
    assert "column 7" in veil("show", "formula", "F (a &").err


def test_measure_takes_the_pair_to_measure(tmp_path: Path):
    """Headline and details are those of the pair: the problem's own secret, another observer."""
    path = tmp_path / "pairs.toml"
    foe = '[[pairs]]\nname = "foe"\nobserver.sensors.ear = { states = ["hall"], detection = 0.6 }\n'
    path.write_text(Path("rooms.toml").read_text() + foe)
    problem = package.load(path)
    policy = package.MarkovPolicy.uniform(problem)
    found = veil("measure", str(path), "--pair", "foe", "--details", "--json").json
    assert found["pair"] == "foe"
    assert found["opacity"]["bits"] == package.opacity(problem, policy, pair="foe").bits
    quantities = package.measures.quantities(problem, policy, pair="foe", top=5)
    assert found["details"]["quantities"]["guess_probability"]["posterior"] == quantities.guess_probability.posterior
    assert found["details"]["bits_over_time"] == package.measures.bits_over_time(problem, policy, pair="foe").tolist()
    assert "pair" in veil("measure", str(path), "--pair", "foe").out
    attacked = veil("measure", str(path), "--attack", "--pair", "foe", "--set", "attack.episodes=50", "--json").json[
        "attack"
    ]
    assert attacked["opacity"]["bits"] == found["opacity"]["bits"]
    run = veil("simulate", str(path), "uniform", "--pair", "foe", "--json").json["runs"][0]
    assert set(run["observations"]) <= set(problem.only("foe").observer.observations)
    page = veil("report", str(path), "uniform", "--pair", "foe", "-o", str(tmp_path / "page.html"), "--time-limit", "5")
    assert page.code == 0, page.err
    observer = package.ObserverFilter(problem, policy, pair="foe")
    observer.update(run["observations"][0])
    done = veil(
        "simulate",
        str(path),
        "uniform",
        "--observed",
        "-",
        "--pair",
        "foe",
        "--json",
        stdin=run["observations"][0] + "\n",
    )
    assert json.loads(done.out)["posterior"] == dict(zip(observer.values, observer.posterior.tolist(), strict=True))
    wrong = veil("measure", str(path), "--pair", "fo")
    assert wrong.code == shared.BAD_INPUT
    assert "there is no pair 'fo'" in wrong.err
