"""Every pane and every role, narrow and wide, light and dark, by the rules of axe-core."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.accessibility import violations
from tests.studio.test_guarding import CORRIDOR
from tests.studio.test_panes import add_run
from veil.studio.state import Studio

OpenStudio = Callable[..., Page]


@pytest.fixture
def studio(studio: Studio) -> Studio:
    studio.open("gallery:office-patrol")
    return studio


@pytest.mark.parametrize(
    ("width", "dark"),
    [(1280, False), (390, True), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1280, True), (390, False)))],
)
def test_every_pane_keeps_the_rules(open_studio: OpenStudio, studio: Studio, width: int, dark: bool):
    add_run(studio)
    page = open_studio(width=width, dark=dark)
    page.locator("text=Open…").click()
    page.locator("[data-sign=w]").click()
    assert violations(page) == []
    page.locator("#tab-plan").click()
    page.locator("#pane-plan summary").click()
    expect(page.locator("[data-run='1'] [data-number=bits]")).to_contain_text("bits")
    assert violations(page) == []
    page.locator("#tab-look").click()
    for side in page.locator(".side").all():
        expect(side.locator("[data-figure=belief][data-drawn=yes]")).to_be_visible()
    assert violations(page) == []
    page.locator("#tab-study").click()
    assert violations(page) == []
    page.locator("#tab-play").click()
    page.locator("[data-role=observer]").click()
    page.get_by_role("button", name="Guess").click()
    expect(page.locator(".outcome")).to_be_visible()
    assert violations(page) == []
    page.locator("[data-role=agent]").click()
    expect(page.locator(".walk")).to_be_focused()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.slow
def test_the_guard_and_a_broken_scenario_keep_the_rules(open_studio: OpenStudio, studio: Studio):
    studio.set_scenario(CORRIDOR, name="corridor")
    page = open_studio(pane="play")
    page.locator("[data-role=guard]").click()
    expect(page.locator("#pane-play .now")).to_contain_text("Question 1")
    assert violations(page) == []
    page.locator("#tab-draw").click()
    page.locator("text=+ Disc").click()
    page.locator("#pane-draw textarea").fill(CORRIDOR.replace("a? a S", "a? a q"))
    expect(page.locator(".defects li").first).to_be_visible()
    assert violations(page) == []
