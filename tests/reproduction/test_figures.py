"""Every figure is drawn from stored results, whole, and with the same bytes each time."""

from pathlib import Path

import pytest
from reproduction.figures import FIGURES

from tests.reproduction.results import made_up
from tests.seeds import looped
from veil.report.style import save_figure


@pytest.mark.slow
@looped("name", FIGURES)
def test_the_same_results_give_the_same_bytes(name: str, tmp_path: Path):
    for turn in ("one", "two"):
        save_figure(FIGURES[name][0](made_up()), tmp_path / f"{turn}.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.slow
def test_a_quick_run_has_fewer_of_everything(tmp_path: Path):
    results = made_up()
    for name in ("later-last-4", "later-last-6", "later-initial-3"):
        del results[name]
    results["layouts"]["layouts"] = results["layouts"]["layouts"][:1]
    for name, (draw, _) in FIGURES.items():
        save_figure(draw(results), tmp_path / f"{name}.png")
