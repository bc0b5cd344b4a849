"""What a study file asks: the runs it makes, their keys, and what is wrong with it."""

from pathlib import Path

import pytest

import veil
from veil.study.definition import MOST_RUNS
from veil.study.derived import Derived

FILE = """
scenarios = ["gallery:two-rooms", "rooms/*.toml"]
[set]
solve.iterations = 3
[vary]
min_return = ["50%", 0.9]
solve.seed = [0, 1, 2]
[[cases]]
name = "as it is"
[[cases]]
name = "blind"
set = { observer = { sees_initial = false } }
[derived]
share = "bits / prior_bits"
"""


@pytest.fixture
def rooms(tmp_path: Path) -> Path:
    (tmp_path / "rooms").mkdir()
    for name in ("b", "a"):
        (tmp_path / "rooms" / f"{name}.toml").write_text(veil.gallery.scenario_text("two-rooms") + f"\n# {name}\n")
    (tmp_path / "study.toml").write_text(FILE)
    return tmp_path


def test_every_combination_is_a_run_in_order(rooms: Path):
    study = veil.Study.load(rooms / "study.toml")
    assert study.name == "study"
    assert len(study.runs) == 3 * 2 * 2 * 3
    first, last = study.runs[0], study.runs[-1]
    assert first.factors == {"scenario": "gallery:two-rooms", "case": "as it is", "min_return": "50%", "solve.seed": 0}
    assert first.changes == ("solve.iterations=3", 'min_return="50%"', "solve.seed=0")
    assert last.factors == {"scenario": "b", "case": "blind", "min_return": 0.9, "solve.seed": 2}
    assert "observer.sees_initial=false" in last.changes
    assert len({run.key for run in study.runs}) == len(study.runs)


def test_a_key_follows_the_content_of_the_scenario(rooms: Path):
    before = {run.key: run for run in veil.Study.load(rooms / "study.toml").runs}
    (rooms / "rooms" / "a.toml").write_text(veil.gallery.scenario_text("two-rooms") + "\n# changed\n")
    after = [run for run in veil.Study.load(rooms / "study.toml").runs if run.key not in before]
    assert {run.factors["scenario"] for run in after} == {"a"}
    assert len(after) == 12


def test_a_key_follows_the_content_of_a_model_file(tmp_path: Path):
    (tmp_path / "model.npz").write_bytes(b"one")
    (tmp_path / "s.toml").write_text('[file]\npath = "model.npz"\n')
    one = veil.Study(["s.toml"], folder=tmp_path).runs[0].key
    (tmp_path / "model.npz").write_bytes(b"two")
    assert veil.Study(["s.toml"], folder=tmp_path).runs[0].key != one


WRONG = [
    ("scenarios = []", "scenarios"),
    ("", "scenarios: is missing"),
    ('scenarios = ["gallery:two-rooms"]\nvery = 1', "did you mean 'vary'"),
    ('scenarios = ["gallery:two-rooms"]\n[vary]\nhorizon = 3', "expected a list of the values of horizon"),
    ('scenarios = ["gallery:two-rooms"]\n[vary]\nhorizon = []', "expected a list of the values of horizon"),
    ('scenarios = ["gallery:two-rooms"]\n[derived]\nx = "bits["', "is no expression"),
    ('scenarios = ["gallery:two-rooms"]\n[derived]\nx = "bit + 1"', "there is no column 'bit': did you mean 'bits'"),
    ('scenarios = ["gallery:two-rooms"]\nattempts = 0', "1 or more"),
    ('scenarios = ["gallery:two-rooms"]\n[[cases]]\nname = "a"\n[[cases]]\nname = "a"', "two cases have the name"),
    ("scenarios = [", "not TOML"),
]


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path):
    for text, words in WRONG:
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(veil.InputError) as error:
            veil.Study.load(tmp_path / "study.toml")
        assert words in str(error.value), text


def test_runs_that_cannot_be_are_refused(tmp_path: Path):
    with pytest.raises(veil.InputError, match="two runs are the same"):
        _ = veil.Study(["gallery:two-rooms"], vary={"horizon": [1, 1]}).runs
    with pytest.raises(veil.InputError, match=r"no file matches 'none/\*.toml'"):
        _ = veil.Study(["none/*.toml"], folder=tmp_path).runs
    with pytest.raises(veil.InputError, match="unknown problem"):
        _ = veil.Study(["gallery:two-roms"]).runs
    with pytest.raises(veil.InputError, match=f"at most {MOST_RUNS:,}"):
        veil.Study(["gallery:two-rooms"], vary={"a": range(2000), "b": range(2000)})


def test_derived_quantities():
    row = {"bits": 0.5, "prior_bits": 2.0, "none": None, "name": "x"}
    assert Derived("d", "1 - bits / prior_bits").value(row) == 0.75
    assert Derived("d", "max(bits, 3) ** 2 + abs(-bits)").value(row) == 9.5
    for text in ("bits / 0", "none + 1", "name * 2", "sqrt(-1)", "1e300 * 1e300", "10 ** 400"):
        assert Derived("d", text).value(row) is None
    for text in (
        "__import__('os')",
        "bits.real",
        "[1]",
        "bits if 1 else 2",
        "f(1)",
        "'a'",
        "max()",
        "(" * 30,
        "9" * 401,
    ):
        with pytest.raises(veil.InputError):
            Derived("d", text)
