"""The registry of formats: found by extension, extended by other packages, and what is not there is told."""

import subprocess
import sys
from pathlib import Path

import pytest

import veil
from tests.cli.commands import veil as command
from tests.plugin.conftest import install, run_in
from tests.random_problems import random_case
from veil.common.errors import InputError
from veil.formats.imported import Imported
from veil.formats.registry import can, find_format, read_model, suffixes


def test_veils_own_formats():
    assert suffixes("read_model") == (
        *(".pomdp", ".npz", ".drn", ".prism", ".nm", ".pm"),
        *(".yaml", ".yml", ".graphml", ".json"),
    )
    assert suffixes("write_model") == (".pomdp", ".npz", ".drn")
    assert suffixes("write_chain") == (".npz", ".drn")
    assert suffixes("read_policy") == (".safetensors", ".json", ".csv")
    assert suffixes("write_policy") == (*suffixes("read_policy"), ".py")
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
    known = ".pomdp, .npz, .drn, .prism, .nm, .pm, .yaml, .yml, .graphml, .json"
    words = rf"unsupported extension '.pomd'; known: {known} \(to read a model\)"
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


def test_two_formats_of_one_extension_are_refused(tmp_path: Path):
    site = tmp_path / "site"
    site.mkdir()
    install(site, {"veil.formats": dict.fromkeys(("one", "other"), "veil_example.edges:EDGES")})
    message = run_in(tmp_path, site, "veil", "convert", "a.edges", "a.npz", code=2)
    assert "belongs to the formats 'one' and 'other'" in message


def test_convert_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert command("convert").code == 2
    for words, told in (
        (["a.doc", "b.npz"], "unsupported extension '.doc'; known: .toml, .pomdp"),
        (["gallery:two-rooms", "b.doc"], "unsupported extension '.doc'; known: .toml, .pomdp, .npz, .drn"),
        (["a.json", "b.doc"], "unsupported extension '.doc'; known: .safetensors, .json, .csv, .py, .npz, .drn"),
        (["a.pomdp", "b.npz", "--set", "fast"], "'fast', expected KEY=VALUE"),
    ):
        done = command("convert", *words)
        assert done.code == 2
        assert told in done.err


def test_what_a_scenario_has_beside_its_model_is_told(tmp_path: Path):
    done = command("convert", "gallery:network-probe", str(tmp_path / "m.npz"), "--json")
    models = len(veil.gallery.load("network-probe").models)
    assert done.json["notes"] == [f"left out: {models - 1} of {models} models, secret and horizon"]
