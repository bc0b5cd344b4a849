"""The pane Study in a browser: a study's table as the library has it, and rows that appear as runs end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import veil
from tests.studio.conftest import Client

OpenStudio = Callable[..., Page]


@pytest.fixture
def done(tmp_path: Path) -> veil.StudyResult:
    made = veil.Study(
        ["gallery:two-rooms"],
        vary={"min_return": ["50%", "90%"]},
        set={"solve.iterations": 2, "solve.starts": 2, "solve.certificate": False},
    )
    return made.run(tmp_path / "layouts", workers=1)


def shown_bits(page: Page) -> list[float]:
    column = [name.strip() for name in page.locator("#pane-study th").all_inner_texts()].index("bits") + 1
    cells = page.locator(f"#pane-study td:nth-child({column})")
    return [float(cell.get_attribute("data-value") or "nan") for cell in cells.all()]


@pytest.mark.slow
def test_rows_appear_as_runs_end(open_studio: OpenStudio, done: veil.StudyResult):
    known = [row["bits"] for row in done.rows()]
    last = done.folder / "runs" / list(done.runs)[1]
    hidden = last.with_name(".hidden")
    os.rename(last, hidden)  # as if it were still at work
    page = open_studio(pane="study", width=390)
    page.get_by_label("Folder of a study").fill(str(done.folder))
    page.keyboard.press("Enter")
    told = page.locator("#pane-study [role=status]")
    expect(told).to_have_text("1 run done, 1 to do.")
    assert shown_bits(page) == known[:1]
    os.rename(hidden, last)
    expect(told).to_have_text("2 runs done.")
    assert shown_bits(page) == known
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.reload()
    expect(told).to_have_text("2 runs done.")


def test_other_folders_are_refused(client: Client, tmp_path: Path):
    assert "no study" in client("GET", f"/api/study?folder={tmp_path}", None, 400)["error"]
    for query in ("", "?folder=", "?folder=%00", "?folder=/dev/null", "?folder=" + "x" * 5000):
        assert client("GET", f"/api/study{query}", None, 400)["error"]
