"""The page in a real browser: it complains of nothing, asks for nothing, draws every figure, and the slider moves things."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import veil
from tests.report.browser import CHROMIUM, Page, browser
from tests.report.worlds import large
from veil.report.html import write_report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: `make browser` installs it")

FIGURES = ("policy", "occupancy", "belief", "convergence", "frontier")
BARS = "[...document.querySelectorAll('#belief .bar div')].map((bar) => Number(bar.dataset.p))"
HEAT = "[...document.querySelectorAll('#{} .scene > svg .hot')].map((cell) => cell.style.fillOpacity)"


@pytest.fixture(scope="module")
def window() -> Iterator[Page]:
    with browser() as page:
        yield page


@pytest.fixture(scope="module")
def report(paper: veil.Problem, solved: veil.Solution, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report") / "report.html"
    write_report(place, paper, solved)
    return place


def open_cleanly(window: Page, place: Path, **look: object) -> float:
    """Open, and insist that nothing was complained of and nothing asked for but the file itself."""
    window.complaints.clear()
    window.requests.clear()
    seconds = window.open(place, **look)  # type: ignore[arg-type]
    assert window.complaints == []
    assert {address for address in window.requests if not address.startswith("data:")} == {place.resolve().as_uri()}
    drawn = window.run("[...document.querySelectorAll('[data-drawn=yes]')].map((figure) => figure.dataset.figure)")
    assert sorted(drawn) == sorted(FIGURES)
    return seconds


def slide(window: Page, figure: str, step: int) -> None:
    window.run(
        f"(() => {{ const slider = document.querySelector('#{figure} input[type=range]');"
        f" slider.value = {step}; slider.dispatchEvent(new Event('input')); }})()"
    )


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_every_figure_is_drawn_without_complaint(window: Page, report: Path, width: int, dark: bool):
    open_cleanly(window, report, width=width, dark=dark)
    assert window.run("document.documentElement.scrollWidth") == width  # nothing sticks out sideways
    sizes = window.run(
        "[...document.querySelectorAll('figure svg')].map((svg) => svg.getBoundingClientRect())"
        ".map((box) => [box.width, box.height])"
    )
    assert len(sizes) >= 8
    assert min(min(size) for size in sizes) > 30
    paper, ink = window.run(
        "['backgroundColor', 'color'].map((name) => getComputedStyle(document.body)[name])"
        ".map((colour) => colour.match(/[0-9]+/g).slice(0, 3).map(Number).reduce((a, b) => a + b))"
    )
    assert (paper < ink) == dark


def test_the_slider_moves_the_belief(window: Page, report: Path, paper: veil.Problem, solved: veil.Solution):
    open_cleanly(window, report)
    run = "JSON.parse(document.getElementById('data').textContent).runs[0]"
    seen = window.run(f"{run}.seen")
    watcher = veil.ObserverFilter(paper, solved.policy)
    shown = []
    for step, event in enumerate(seen):
        slide(window, "belief", step)
        expected = watcher.update(event)
        assert window.run(BARS) == pytest.approx(expected, abs=1e-5)
        assert f"time {step} of 10" in window.run("document.querySelector('#belief output').textContent")
        shown.append(tuple(window.run(HEAT.format("belief"))))
    assert len(shown[0]) == paper.num_states
    assert len(set(shown)) > 3
    hottest = max(range(paper.num_states), key=lambda state: float(shown[-1][state]))
    assert hottest == int(watcher.belief.argmax())


def test_the_slider_moves_the_occupancy_and_thumbnails_jump(window: Page, report: Path):
    open_cleanly(window, report)
    before = window.run(HEAT.format("occupancy"))
    slide(window, "occupancy", 10)
    after = window.run(HEAT.format("occupancy"))
    assert before != after
    window.run("document.querySelector('.thumbs button').click()")
    assert window.run(HEAT.format("occupancy")) == before


def test_it_plays_and_pauses(window: Page, report: Path):
    open_cleanly(window, report)
    button = "document.querySelector('#belief .player button')"
    window.run(f"{button}.click()")
    assert window.run(f"{button}.textContent") == "Pause"
    moved = "new Promise((done) => { const wait = () => Number(document.querySelector('#belief input').value) >= 2 ?"
    window.run(f"{moved} done() : setTimeout(wait, 30); wait(); }})")
    window.run(f"{button}.click()")
    assert window.run(f"{button}.textContent") == "Play"


def test_runs_can_be_chosen(window: Page, report: Path):
    open_cleanly(window, report)
    slide(window, "belief", 5)
    window.run("document.querySelectorAll('#belief .choices button')[4].click()")
    pressed = "[...document.querySelectorAll('#belief .choices button')].map((one) => one.getAttribute('aria-pressed'))"
    assert window.run(pressed) == ["false"] * 4 + ["true", "false"]
    assert window.run("document.querySelector('#belief output').textContent") == "time 0 of 10"


def test_names_that_mean_harm_do_none(
    window: Page, hostile_solution: tuple[veil.Problem, veil.Solution], tmp_path: Path
):
    problem, solution = hostile_solution
    write_report(tmp_path / "page.html", problem, solution)
    open_cleanly(window, tmp_path / "page.html")
    assert window.run("window.harmed") is None
    for step in range(problem.horizon + 1):
        slide(window, "belief", step)
    assert window.run("window.harmed") is None
    assert window.complaints == []
    assert "<img src=x" in window.run("document.querySelector('h1').textContent")


def test_a_large_report_opens_at_once(window: Page, tmp_path: Path):
    problem, solution = large(horizon=30)
    write_report(tmp_path / "page.html", problem, solution, runs=4)
    seconds = min(open_cleanly(window, tmp_path / "page.html") for _ in range(3))  # the machine may be busy
    assert seconds < 2
    picture = "document.querySelector('[data-figure=occupancy] > svg image').getAttribute('href')"
    before = window.run(picture)
    slide(window, "occupancy", 20)
    assert window.run(picture) != before
    assert window.complaints == []
