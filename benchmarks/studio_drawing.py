"""Frames per second of the studio's Draw pane: a world of 100 × 100 cells, scrolled, painted and zoomed in a real browser.

`python -m benchmarks.studio_drawing` prints, for each of these and while nothing goes on, the frames per second, the longest
time between two frames, and the processor time of the whole browser for a frame: on a busy machine
only the last tells what the page costs.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from veil.formats.gallery import starter
from veil.formats.scenario.edit import edit
from veil.formats.scenario.text import Source
from veil.studio.cells import painted
from veil.studio.server import StudioServer
from veil.studio.state import Studio

_SIDE = 100
_SECONDS = 3.0
_COUNT = """async (act) => {
  const times = [];
  const scroller = document.querySelector(".scroller");
  const begin = performance.now();
  await new Promise((done) => {
    const frame = (now) => {
      times.push(now);
      const share = (now - begin) / (SECONDS * 1000);
      if (share >= 1) return done();
      const key = times.length % 2 ? "ArrowRight" : " ", down = (0.5 + 0.5 * Math.sin(20 * share)) * scroller.scrollHeight;
      if (act === "scroll") scroller.scrollTo(share * scroller.scrollWidth, down);
      else if (act === "paint") scroller.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const gaps = times.slice(1).map((time, i) => time - times[i]);
  return { frames: 1000 * gaps.length / (times.at(-1) - times[0]), longest: Math.max(...gaps) };
}"""


def world() -> str:
    """A scenario of 100 × 100 cells with walls, two sensors, goals and secret cells."""
    generator = np.random.default_rng(0)
    signs = generator.choice(
        np.array([".", "#", "c", "d", "cd", "G", "?"]), (_SIDE, _SIDE), p=[0.6, 0.2, 0.08, 0.08, 0.02, 0.01, 0.01]
    )
    cells = signs.tolist()
    cells[0][0] = "S"
    text = starter("grid")
    return edit(text, painted(Source("world", text).data, cells))


def measure(page: Page, act: str) -> dict[str, float]:
    """Frames per second while something goes on, and the processor time of a frame in ms."""
    before = browser_seconds()
    found = page.evaluate(_COUNT.replace("SECONDS", str(_SECONDS)), act)
    found["processor ms"] = 1000 * (browser_seconds() - before) / (found["frames"] * _SECONDS)
    return {name: round(value, 1) for name, value in found.items()}


def browser_seconds() -> float:
    """Processor time of all processes under this one."""
    parents, spent = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        number = int(path.parent.name)
        parents[number], spent[number] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own = {os.getpid()}
    while fresh := {number for number, parent in parents.items() if parent in own} - own:
        own |= fresh
    return sum(spent[number] for number in own - {os.getpid()})


def main() -> None:
    """Measure and print."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        studio = Studio(Path(folder) / "studio")
        studio.set_scenario(world(), name="world")
        server = StudioServer(studio)
        server.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.address)
        page.wait_for_selector("#draw-cell:has-text('row 0')")
        found: dict[str, dict[str, float]] = {}
        for zoom in ("cells of 12 pixels", "smallest cells", "larger cells"):
            if zoom != "cells of 12 pixels":
                for _ in range(1 if zoom == "smallest cells" else 4):
                    page.get_by_label("smaller cells" if zoom == "smallest cells" else "larger cells").click()
            for act in ("nothing", "scroll", "paint"):
                found[f"{act}, {zoom}"] = measure(page, act)
        print(json.dumps(found, indent=2))
        browser.close()
        server.close()


if __name__ == "__main__":
    main()
