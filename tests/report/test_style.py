"""The look of figures: users' texts stay texts, colours are told apart, files are the same each time."""

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import veil
from tests.report.problems import HARM
from tests.seeds import looped
from veil.report import plot
from veil.report.style import (
    BLUE,
    GREEN,
    ORANGE,
    PALETTE,
    VERMILION,
    colours,
    new_figure,
    number_text,
    shortened,
    words,
)


def test_sensors_named_after_colours_are_drawn_in_them():
    assert colours(["b", "r", "y", "g"]) == [BLUE, VERMILION, ORANGE, GREEN]
    assert colours(["b", "blue"]) == list(PALETTE[:2])  # the same colour twice tells nothing apart
    assert colours(["north", "r"]) == list(PALETTE[:2])
    assert len(colours([str(i) for i in range(20)])) == 20


@looped("name", HARM)
def test_any_name_can_be_drawn(name: str, tmp_path: Path):
    figure = new_figure()
    figure.subplots().set_title(words(name))
    for ending in ("svg", "pdf", "png"):
        plot.save(figure, tmp_path / f"name.{ending}")


def test_texts_are_cut_in_the_middle():
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abc", 5) == "abc"
    assert words("a$b$") == r"a\$b\$"
    assert number_text(-0.25) == "−0.25"
    assert [number_text(float(text)) for text in ("inf", "-inf", "nan")] == ["∞", "−∞", "–"]


def settings() -> dict[str, Any]:
    """Everybody's settings, but for the backend, which is resolved by whoever looks at it."""
    return {name: value for name, value in dict.items(matplotlib.rcParams) if name != "backend"}


@looped("ending", ["svg", "pdf", "png"])
def test_the_same_figure_gives_the_same_bytes(ending: str, paper: veil.Problem, tmp_path: Path):
    before = settings()
    for name in ("one", "two"):
        plot.save(plot.observer(paper), tmp_path / f"{name}.{ending}")
    content = (tmp_path / f"one.{ending}").read_bytes()
    assert content == (tmp_path / f"two.{ending}").read_bytes()
    if ending == "svg":
        assert b"<text" in content  # text, not outlines
        assert b"dc:date" not in content
    if ending == "pdf":
        assert b"CreationDate" not in content
    assert settings() == before


def test_an_unknown_ending_and_a_missing_folder(paper: veil.Problem, tmp_path: Path):
    figure = new_figure()
    with pytest.raises(veil.InputError, match=r"expected one of \.pdf, \.png and \.svg"):
        plot.save(figure, tmp_path / "figure.gif")
    with pytest.raises(veil.InputError, match="cannot be written"):
        plot.save(figure, tmp_path / "nowhere" / "figure.svg")


def test_nobody_s_session_is_touched():
    script = (
        "import sys, veil; from veil.report import plot; p = veil.gallery.load('two-rooms');"
        "plot.observer(p); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_matplotlib_the_remedy_is_named(paper: veil.Problem, monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(veil.InputError, match=r"pip install 'veil\[plot\]'"):
        plot.observer(paper)
