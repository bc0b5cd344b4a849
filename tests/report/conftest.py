"""Solutions to show, found once: on the paper's grid, on a graph, and on a problem with hostile names; and a browser."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page

import veil
from tests.browser import launched, window
from tests.report.problems import hostile, large
from veil.planning.solution import Solution
from veil.report.html import write_report


@pytest.fixture(scope="session")
def paper() -> veil.Problem:
    return veil.gallery.load("paper-last-state")


@pytest.fixture(scope="session")
def solved(paper: veil.Problem) -> Solution:
    return veil.solve(paper, starts=2, iterations=25, certificate=False)


@pytest.fixture(scope="session")
def courier() -> veil.Problem:
    return veil.gallery.load("courier-depots")


@pytest.fixture(scope="session")
def timed(courier: veil.Problem) -> veil.TimedPolicy:
    theta = np.random.default_rng(3).normal(size=(courier.horizon, courier.num_cells, courier.num_actions))
    return veil.TimedPolicy.softmax(theta, courier)


@pytest.fixture(scope="session")
def hostile_solution() -> tuple[veil.Problem, Solution]:
    problem = hostile()
    return problem, veil.solve(problem, starts=2, iterations=8, certificate=False)


@pytest.fixture(scope="session")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on a grid of more than ten thousand states."""
    problem, solution = large(horizon=30)
    assert problem.num_states > 10_000
    place = tmp_path_factory.mktemp("large") / "page.html"
    write_report(place, problem, solution, runs=4)
    return place


@pytest.fixture(scope="module")  # not for the session: while Playwright runs, no other test can start an event loop
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a file in a window of its own.

    Until the test ends, an error or warning in the console, or a request for anything but the file, fails the test.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_file(path: Path, *, width: int = 1280, dark: bool = False) -> Page:
        context = window(chromium, width, dark=dark)
        contexts.append(context)
        page, address = context.new_page(), path.resolve().as_uri()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if asked.url in (address, "data:,") else complaints.append(asked.url))
        page.goto(address)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert complaints == []
