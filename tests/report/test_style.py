"""The look of figures: users' texts stay texts, colours are told apart, files are the same each time."""

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
    new_figure,
    words,
)


@looped("name", HARM)
@pytest.mark.slow
def test_any_name_can_be_drawn(name: str, tmp_path: Path):
    figure = new_figure()
    figure.subplots().set_title(words(name))
    for ending in ("svg", "pdf", "png"):
        plot.save(figure, tmp_path / f"name.{ending}")


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
    for name in [one for one in sys.modules if one.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(veil.InputError, match=r"pip install 'veil\[plot\]'"):
        plot.observer(paper)
