"""The page in a real browser: tabs, keyboard, widths, light and dark, reloads."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import veil
from tests.studio.processes import until
from veil.studio.server import StudioServer
from veil.studio.state import Studio

OpenStudio = Callable[..., Page]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The link of a studio in a process of its own."""
    command = [sys.executable, "-m", "veil", "studio", "gallery:two-rooms", "--no-browser", "--folder", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


PANES = ("draw", "plan", "look", "play", "study")


@pytest.mark.parametrize(("width", "dark"), [pytest.param(1280, False, marks=pytest.mark.slow), (390, True)])
def test_it_opens_with_every_pane(open_studio: OpenStudio, width: int, dark: bool):
    page = open_studio(width=width, dark=dark)
    for pane in PANES:
        page.locator(f"#tab-{pane}").click()
        assert [one for one in PANES if page.locator(f"#pane-{one}").is_visible()] in ([pane], [])
        assert page.evaluate("document.documentElement.scrollWidth") == width  # nothing sticks out sideways
    expect(page.locator("#name")).to_have_text("two-rooms")
    assert "token" not in page.url


@pytest.mark.slow
def test_tabs_by_keyboard_survive_a_reload(open_studio: OpenStudio):
    page = open_studio()
    page.keyboard.press("Tab")
    expect(page.locator("#tab-draw")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-plan")).to_be_focused()
    expect(page.locator("#tab-plan")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#tab-study")).to_be_focused()
    page.reload()
    expect(page.locator("#tab-study")).to_have_attribute("aria-selected", "true")


def test_a_scenario_that_changes_elsewhere_appears(open_studio: OpenStudio, studio: Studio):
    page = open_studio()
    studio.set_scenario("x = 1", name="another")
    expect(page.locator("#name")).to_have_text("another")


def test_eight_tabs_of_one_browser_all_work(chromium: Browser, server: StudioServer, studio: Studio):
    """A browser has six connections for a server: an open stream in each tab would use them up."""
    context = chromium.new_context()
    try:
        pages = [context.new_page() for _ in range(8)]
        for number, page in enumerate(pages):
            page.goto(server.address if number == 0 else f"http://127.0.0.1:{server.port}/")
            page.wait_for_selector("body[data-ready=yes]")
        studio.set_scenario("x = 1", name="told to all")
        for page in pages:
            expect(page.locator("#name")).to_have_text("told to all")
        with pages[7].expect_response("**/api/scenario"):
            pages[7].locator("#pane-draw textarea").fill("x = 2")
        expect(pages[3].locator("#pane-draw textarea")).to_have_value("x = 2")
        pages[0].close()  # the tab that read the events for all of them
        studio.set_scenario("x = 3", name="told again")
        for page in pages[1:]:
            expect(page.locator("#name")).to_have_text("told again", timeout=30_000)
    finally:
        context.close()


@pytest.mark.parametrize(
    ("button", "kept"), [("#keep-mine", "mine = 1"), pytest.param("#take-theirs", "theirs = 1", marks=pytest.mark.slow)]
)
def test_two_tabs_that_edit_at_once_are_asked(open_studio: OpenStudio, studio: Studio, button: str, kept: str):
    one = open_studio(refused=True)
    other = open_studio(refused=True)
    one.route("**/api/scenario", lambda route: one.wait_for_timeout(400) or route.continue_())
    one.locator("#pane-draw textarea").fill("mine = 1")
    with other.expect_response("**/api/scenario"):
        other.locator("#pane-draw textarea").fill("theirs = 1")
    expect(one.locator("#conflict")).to_be_visible()
    assert one.locator("#pane-draw textarea").input_value() == "mine = 1"
    one.locator(button).click()
    expect(one.locator("#conflict")).to_be_hidden()
    expect(other.locator("#pane-draw textarea")).to_have_value(kept)
    expect(one.locator("#pane-draw textarea")).to_have_value(kept)
    assert studio.scenario == kept


@pytest.mark.slow
def test_an_open_page_goes_on_after_a_restart_and_a_new_link(chromium: Browser, tmp_path: Path):
    """What was typed while there was no server is kept."""
    context, folder = chromium.new_context(), tmp_path / "studio"
    try:
        page = context.new_page()
        with serving(folder) as address:
            page.goto(address)
            page.wait_for_selector("body[data-ready=yes]")
        expect(page.locator("#notice")).to_contain_text("does not answer")
        page.locator("#pane-draw textarea").fill("typed = 1")
        with serving(folder) as address:
            expect(page.locator("#notice")).to_contain_text("was restarted")
            assert Studio(folder).scenario == veil.gallery.scenario_text("two-rooms")
            context.new_page().goto(address)
            expect(page.locator("#notice")).to_be_empty()
            until(lambda: Studio(folder).scenario == "typed = 1", "the text to be saved")
    finally:
        context.close()


def test_a_page_without_a_link_is_not_let_in(chromium: Browser, server: StudioServer):
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.port}/")
        expect(page.locator("#notice")).to_contain_text("no access")
        assert page.locator("#pane-draw textarea").input_value() == ""
    finally:
        context.close()
