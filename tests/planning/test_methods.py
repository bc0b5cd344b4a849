"""The methods of `veil.solve`: what veil's own declare; one of another package is used in `tests/plugin`."""

from pathlib import Path
from typing import Any

import pytest

import veil
from tests.cli.commands import veil as command
from veil.planning.methods import METHODS, unsupported

SCENARIO = """
horizon = 2
[grid]
drawing = '''
S c ?
'''
[grid.sensors.c]
name = "camera"
"""


def test_veil_has_its_own_methods():
    assert METHODS.builtin == ("auto", "ascent", "primal-dual", "game", "queries")
    assert METHODS.get("auto") is METHODS.get("ascent")
    for name in METHODS.builtin:
        assert METHODS.get(name).summary


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


def test_an_unknown_method_lists_what_there_is():
    known = "'auto', 'ascent', 'primal-dual', 'game', 'queries'"
    with pytest.raises(veil.InputError, match=f"{known}: did you mean 'ascent'"):
        veil.solve(veil.gallery.load("two-rooms"), "asecnt")
    with pytest.raises(veil.InputError, match="method is 3, expected one of 'auto'"):
        veil.solve(veil.gallery.load("two-rooms"), 3)  # pyright: ignore[reportArgumentType]
