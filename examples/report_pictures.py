"""The pictures of docs/report.md and the first tutorial: reports in a browser, and two figures as veil.plot draws them."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import veil
from veil.report import plot
from veil.report.html import write_report

OUT = Path(__file__).parents[1] / "docs" / "figures"
WIDTH, HEIGHT = 1280, 1250
PATROL = Path(veil.__file__).parent / "formats" / "gallery" / "starters" / "grid.toml"  # what `veil new` writes


def photograph(page: Path, picture: Path, height: int = HEIGHT) -> None:
    """The top of the page in headless Chromium, which `make browser` installs."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print(f"no Chromium, {picture.name} is left as it is: make browser")
        return
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"]
    command = [chromium, *flags, f"--window-size={WIDTH},{height}", f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True)
    print("wrote", picture)


def main() -> None:
    """Solve, draw and take the picture."""
    problem = veil.gallery.load("paper-last-state")
    solution = veil.solve(problem)
    OUT.mkdir(parents=True, exist_ok=True)
    for name, figure in (
        ("policy", plot.policy(problem, solution.policy)),
        ("belief", plot.belief(problem, solution.policy)),
    ):
        figure.savefig(OUT / f"plot-{name}.png", dpi=130, metadata={"Software": None})
        print("wrote", OUT / f"plot-{name}.png")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        write_report(page, problem, solution)
        photograph(page, OUT / "report.png")
        patrol = veil.load(PATROL).replace(name="patrol")
        write_report(page, patrol, veil.solve(patrol, memory="timed"))
        photograph(page, OUT / "report-patrol.png", 880)


if __name__ == "__main__":
    main()
