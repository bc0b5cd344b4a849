"""Registries: veil's own entries, those of other packages, and what happens where a package is at fault."""

from pathlib import Path

import pytest

from veil.common.errors import InputError, PluginError, VeilError
from veil.common.registry import Registry

from .plugins import install

GROUP = "veil.tests"


@pytest.fixture
def registry() -> Registry[type]:
    return Registry("colour", GROUP, {"red": "veil.common.errors:VeilError", "blue": "veil.common.errors:InputError"})


@pytest.fixture
def add(tmp_path: Path, monkeypatch):
    def make(points: dict[str, str], code: str = "class Green: pass", package: str = "some-package") -> None:
        module = package.replace("-", "_")
        named = {name: value.replace("MODULE", module) for name, value in points.items()}
        install(tmp_path, monkeypatch, package, {GROUP: named}, module, code)

    return make


def test_own_entries_come_by_name_in_their_order(registry: Registry[type]):
    assert registry.get("red") is VeilError
    assert registry.get("blue") is InputError
    assert registry.names() == tuple(registry) == ("red", "blue")
    assert len(registry) == 2
    assert "red" in registry
    assert "green" not in registry
    assert ["red"] not in registry


def test_a_package_adds_entries(registry: Registry[type], add):
    add({"green": "MODULE:Green", "amber": "MODULE:Green.Inner"}, "class Green:\n    class Inner: pass")
    assert registry.names() == ("red", "blue", "amber", "green")
    assert registry.get("green").__name__ == "Green"
    assert registry.get("amber").__name__ == "Inner"
    assert registry.get("green") is registry.get("green")


def test_nothing_is_imported_before_it_is_used(registry: Registry[type], add):
    add({"green": "MODULE:Green"}, "raise RuntimeError('imported')")
    assert "green" in registry
    assert registry.names() == ("red", "blue", "green")
    assert registry.get("red") is VeilError


def test_an_unknown_name_lists_what_there_is(registry: Registry[type], add):
    add({"green": "MODULE:Green"})
    with pytest.raises(
        InputError, match=r"it is 'gren', expected one of 'red', 'blue', 'green': did you mean 'green'\?"
    ):
        registry.get("gren")
    assert registry.expected(3) == "one of 'red', 'blue', 'green'"


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        ("MODULE:Green", "raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("MODULE:Green", "import sys; sys.exit(3)", "SystemExit: 3"),
        ("MODULE:Missing", "", "AttributeError"),
        ("no_such_module:Green", "", "ModuleNotFoundError"),
        ("!!", "", "AttributeError"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(registry: Registry[type], add, value: str, code: str, said: str):
    add({"green": value}, code)
    with pytest.raises(
        PluginError, match=rf"the colour 'green' of package 'some-package' 1.0 \(.*\) cannot be loaded: {said}"
    ):
        registry.get("green")
    assert registry.get("red") is VeilError


@pytest.mark.parametrize("name", ["red", "green"])
def test_a_name_that_is_taken_is_an_error(registry: Registry[type], add, name: str):
    add({name: "MODULE:Green"})
    add({name: "MODULE:Green"}, package="other-package")
    assert registry.names().count(name) == 1
    with pytest.raises(PluginError, match=rf"the colour '{name}' is defined by .*'other-package' 1.0.*: uninstall one"):
        registry.get(name)
    assert registry.get("blue") is InputError


def test_an_entry_that_breaks_the_contract_is_refused(add):
    add({"green": "MODULE:Green"})
    checked: Registry[type] = Registry(
        "colour", GROUP, {}, lambda entry: None if hasattr(entry, "hue") else "it has no hue"
    )
    with pytest.raises(PluginError, match=r"'some-package' 1.0 \(some_package:Green\) cannot be used: it has no hue"):
        checked.get("green")
