"""The page in a real browser: tabs, keyboard, widths, light and dark, reloads."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from veil.studio.state import Studio

OpenStudio = Callable[..., Page]
PANES = ("draw", "plan", "look", "play", "study")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_it_opens_with_every_pane(open_studio: OpenStudio, width: int, dark: bool):
    page = open_studio(width=width, dark=dark)
    for pane in PANES:
        page.locator(f"#tab-{pane}").click()
        assert [one for one in PANES if page.locator(f"#pane-{one}").is_visible()] in ([pane], [])
        assert page.evaluate("document.documentElement.scrollWidth") == width  # nothing sticks out sideways
    expect(page.locator("#name")).to_have_text("two-rooms")
    assert "token" not in page.url


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
