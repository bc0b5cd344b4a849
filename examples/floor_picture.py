"""The animated picture of an office floor: `python examples/floor_picture.py veil-demo` after `veil demo`.

It photographs the observer's belief in the report of the demo, one step after the other, in headless Chromium.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).parents[1] / "docs" / "figures" / "night-shift.gif"
WIDTH, STEP_MS, END_MS = 860, 350, 3000
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def frames(report: Path) -> list[Image.Image]:
    """The figure of the belief at each time of the first sampled run."""
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        page.goto(report.absolute().as_uri())
        figure = page.locator("[data-figure=belief]").first
        slider = figure.locator("input[type=range]")
        slider.wait_for()
        last = int(slider.get_attribute("max") or 0)
        page.add_style_tag(content="[data-figure=belief] :is(button, .player, .player *) { display: none !important }")
        for time in range(last + 1):
            slider.evaluate(
                "(slider, time) => { slider.value = time; slider.dispatchEvent(new Event('input')); }", time
            )
            picture = Image.open(io.BytesIO(figure.screenshot()))
            found.append(picture.convert("RGB").resize((WIDTH, round(picture.height * WIDTH / picture.width))))
        browser.close()
    return found


def main() -> None:
    """Take the frames and write the picture."""
    report = Path(sys.argv[1] if len(sys.argv) > 1 else "veil-demo") / "night-shift" / "report.html"
    taken = frames(report)
    whole = Image.new("RGB", (WIDTH, taken[0].height * len(taken)))
    for number, frame in enumerate(taken):
        whole.paste(frame, (0, number * frame.height))
    palette = whole.quantize(192, method=Image.Quantize.MAXCOVERAGE)  # one for all frames
    shown = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in taken]
    durations = [STEP_MS] * (len(shown) - 1) + [END_MS]
    shown[0].save(OUT, save_all=True, append_images=shown[1:], duration=durations, loop=0, optimize=True)
    print("wrote", OUT, f"{OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
