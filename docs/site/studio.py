"""Takes the pictures of `docs/studio.md`: `python docs/site/studio.py` drives the studio in Chromium and writes five files.

The numbers in them depend on the machine's speed in nothing but the seconds that are shown.
"""

import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.browser import CHROMIUM

from veil.studio.server import StudioServer
from veil.studio.state import Studio

OUT = Path(__file__).parents[1] / "figures"
SCENARIO = "gallery:office-patrol"
RUNS = (
    {"starts": 4, "iterations": 120},
    {"kind": "frontier", "points": 7, "starts": 4, "iterations": 60},
    {"memory": "timed", "starts": 2, "iterations": 60, "certificate_time_limit": 8},
)


def take(page: Page, pane: str, *, name: str = "", height: int = 900) -> None:
    """Show a pane and save its picture, under its name or another one."""
    place = OUT / f"studio-{name or pane}.png"
    page.locator(f"#tab-{pane}").click()
    page.wait_for_timeout(2500)
    page.screenshot(path=place, clip={"x": 0, "y": 0, "width": 1280, "height": height})
    print("wrote", place)


def main() -> None:
    """Plan a few runs, and take a picture of each pane."""
    studio = Studio(Path(tempfile.mkdtemp()) / "studio")
    studio.open(SCENARIO)
    for settings in RUNS:
        studio.runs.start(studio.scenario, studio.name, studio.base, settings)
    while any(run["state"] == "running" for run in studio.runs.summaries()):
        time.sleep(0.2)
    server = StudioServer(studio)
    server.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.address)
        page.wait_for_selector("body[data-ready=yes]")
        take(page, "draw", height=760)
        take(page, "plan", height=720)
        page.locator("#tab-look").click()
        page.locator(".side").first.locator("[data-figure=belief][data-drawn=yes]").wait_for()
        page.locator(".side").last.locator("[data-figure=belief][data-drawn=yes]").wait_for()
        page.locator(".side [data-figure=occupancy] input").first.fill("4")
        page.evaluate("scrollTo(0, 0)")
        take(page, "look", height=860)
        page.locator("#tab-play").click()
        page.locator("[data-role=observer]").click()
        page.locator("text=To the end").click()
        take(page, "play", height=760)
        page.locator("[data-role=agent]").click()
        for key in ("ArrowLeft", "ArrowLeft", "ArrowUp"):
            page.locator(".walk").press(key)
            page.wait_for_timeout(800)
        take(page, "play", name="agent", height=760)
        browser.close()
    server.close()
    studio.runs.close()


if __name__ == "__main__":
    main()
