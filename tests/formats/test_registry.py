"""The registry of formats: found by extension, extended by other packages, and what is not there is told."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

import veil
from tests.cli.commands import veil as command
from tests.common.plugins import install
from tests.random_problems import random_case
from tests.seeds import looped
from veil.common.errors import InputError, PluginError
from veil.common.registry import Registry
from veil.formats import registry
from veil.formats.imported import Imported
from veil.formats.registry import FORMATS, can, find_format, read_model, suffixes

CODE = """
import numpy as np
import veil
from veil.formats.imported import Imported
from veil.formats.registry import Format

def read(path, *, length="2"):
    size = int(length)
    east = np.eye(size, k=1)
    east[-1, -1] = 1
    model = veil.Model(east[:, None], np.arange(size), [1.0] + [0.0] * (size - 1))
    return Imported(model, veil.Observer(np.eye(size)), path.name, "corridor")

def write(path, imported):
    path.write_text(str(imported.model.num_states))
    return ("all but the length is left out",)

LINE = Format((".line",), "corridors", read_model=read, write_model=write, options={"length": "how many states"})
OTHER = Format((".line", ".pomdp"), "more corridors", read_model=read)
UPPER = Format((".LINE",), "loud corridors", read_model=read)
IDLE = Format((".idle",), "nothing at all")
"""


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Installs a package that adds formats."""

    def make(**points: str) -> None:
        named = {name: f"corridors:{attribute}" for name, attribute in points.items()}
        install(Path(mkdtemp(dir=tmp_path)), monkeypatch, "corridors", {"veil.formats": named}, "corridors", CODE)
        monkeypatch.delitem(sys.modules, "corridors", raising=False)
        fresh = Registry("format", "veil.formats", FORMATS._builtin, registry._wrong)
        monkeypatch.setattr(registry, "FORMATS", fresh)

    return make


def test_veils_own_formats():
    assert suffixes("read_model") == (".pomdp", ".npz", ".drn", ".prism", ".nm", ".pm")
    assert suffixes("write_model") == (".pomdp", ".npz", ".drn")
    assert suffixes("write_chain") == (".npz", ".drn")
    assert suffixes("read_policy") == suffixes("write_policy") == (".safetensors", ".json", ".csv")
    assert suffixes("read_problem") == suffixes("write_problem") == (".toml",)
    assert can("read_model", "TIGER.POMDP")
    assert not can("write_model", "walker.prism")
    assert find_format("read_model", "a.nm").extra == "prism"


def test_asking_for_extensions_is_quick():
    code = "from veil.formats.registry import suffixes; suffixes('read_model'); import sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "veil.formats.pomdp" in loaded
    assert {"numpy", "scipy", "pydantic", "veil.formats.pomdp.files"}.isdisjoint(loaded)


def test_an_extension_that_is_not_known(tmp_path: Path):
    words = r"unsupported extension '.pomd'; known: .pomdp, .npz, .drn, .prism, .nm, .pm \(to read a model\)"
    with pytest.raises(InputError, match=words):
        find_format("read_model", tmp_path / "tiger.pomd")
    with pytest.raises(InputError, match=r"unsupported extension ''"):
        find_format("read_model", "tiger")
    with pytest.raises(
        InputError, match=r"unsupported extension '.prism'; known: .pomdp, .npz, .drn \(to write a model\)"
    ):
        Imported(random_case(1).problem.model).save(tmp_path / "m.prism")


def test_an_option_that_a_format_does_not_have(tmp_path: Path):
    Imported(random_case(1).problem.model).save(tmp_path / "m.npz")
    with pytest.raises(InputError, match=r"option 'constants' is not one of this format \(NumPy arrays\): none"):
        read_model(tmp_path / "m.npz", {"constants": "N=3"})


def test_a_format_of_another_package_is_used_everywhere(add: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    add(line="LINE")
    Path("c.line").write_text("")
    assert read_model("c.line", {"length": "4"}).model.num_states == 4
    Path("c.toml").write_text(
        'horizon = 2\n[file]\npath = "c.line"\n[secret]\nkind = "last_state"\nstates = ["s1"]\n', encoding="utf-8"
    )
    assert veil.load("c.toml").num_states == 2
    done = command("convert", "c.line", "c.npz", "--option", "length=3")
    assert done.code == 0, done.err
    assert veil.from_arrays("c.npz").model.num_states == 3
    assert command("convert", "c.npz", "d.line").out.splitlines()[-2:] == [
        "  note          all but the length is left out",
        "written to d.line",
    ]
    assert Path("d.line").read_text() == "3"
    assert "this is a model file" in command("measure", "c.line", "uniform").err
    assert ".line" in command("convert", "c.unknown", "e.npz").err
    listed = command("convert", "--formats", "--json").json["formats"]
    assert listed[-1]["name"] == "line"
    assert listed[-1]["options"] == "length"


def test_two_formats_of_one_extension_are_refused(add: Callable):
    add(line="LINE", other="OTHER")
    for path in ("a.line", "a.pomdp"):
        with pytest.raises(PluginError, match=r"belongs to the formats '\w+' and 'other'"):
            find_format("read_model", path)
    assert find_format("write_model", "a.line").description == "corridors"
    assert find_format("read_model", "a.npz").description == "NumPy arrays"


@looped(
    ("attribute", "words"),
    [
        ("missing", "cannot be loaded"),
        ("read", "it is a function, expected a veil.formats.registry.Format"),
        ("UPPER", "expected extensions in lower case"),
        ("IDLE", "it can neither read nor write anything"),
    ],
)
def test_a_format_that_is_broken_leaves_the_others_alone(add: Callable, attribute: str, words: str):
    add(line=attribute)
    assert can("read_model", "a.pomdp")
    with pytest.raises(InputError, match=words):
        find_format("read_model", "a.line")


def test_convert_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert command("convert").code == 2
    for words, told in (
        (["a.doc", "b.npz"], "unsupported extension '.doc'; known: .toml, .pomdp"),
        (["gallery:two-rooms", "b.doc"], "unsupported extension '.doc'; known: .toml, .pomdp, .npz, .drn"),
        (["a.json", "b.doc"], "unsupported extension '.doc'; known: .safetensors, .json, .csv, .npz, .drn"),
        (["a.pomdp", "b.npz", "--option", "fast"], "'fast' found, expected NAME=VALUE"),
    ):
        done = command("convert", *words)
        assert done.code == 2
        assert told in done.err


def test_what_a_scenario_has_beside_its_model_is_told(tmp_path: Path):
    done = command("convert", "gallery:network-probe", str(tmp_path / "m.npz"), "--json")
    models = len(veil.gallery.load("network-probe").models)
    assert done.json["notes"] == [f"left out: {models - 1} of {models} models, secret and horizon"]
