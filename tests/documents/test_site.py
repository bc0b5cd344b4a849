"""The documentation site: built without a warning, complete, and showing itself without a network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import veil

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"^::: veil\.(\w+)$", re.MULTILINE)


class Loads(HTMLParser):
    """The addresses from which a page loads something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.found.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "", "NO_MKDOCS_2_WARNING": "1", "HOME": str(folder)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
    return folder


def test_no_page_loads_anything_from_a_network(site: Path):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        parser = Loads()
        parser.feed(page.read_text("utf-8"))
        assert not [address for address in parser.found if "//" in address], page.name


def test_every_formula_is_drawn(site: Path):
    assert "<math" in (site / "maths.html").read_text("utf-8")
    assert not [page.name for page in site.rglob("*.html") if 'class="arithmatex"' in page.read_text("utf-8")]


def test_every_page_is_in_the_menu():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
    assert not [page for page in pages if not re.search(rf"^ +- {re.escape(page)}$", menu, re.MULTILINE)]


def test_every_page_has_a_picture_or_an_example():
    pages = {str(path): path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md")}
    assert not [
        name for name, text in pages.items() if not re.search(r"^!\[|^```(python|py|console)$", text, re.MULTILINE)
    ]


def test_every_picture_is_shown_on_a_page():
    pages = "".join(path.read_text("utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    pictures = {path.name for path in (ROOT / "docs" / "figures").iterdir()} - {"favicon.svg"}
    assert not [name for name in sorted(pictures) if f"figures/{name})" not in pages]


def test_the_reference_holds_every_public_name_once(site: Path):
    pages = sorted((ROOT / "docs" / "api").glob("*.md"))
    named = [name for page in pages for name in NAMED.findall(page.read_text("utf-8"))]
    assert sorted(named) == sorted(veil.__all__)
    text = "".join(page.read_text("utf-8") for page in (site / "api").glob("*.html"))
    assert not [name for name in named if f'id="veil.{name}"' not in text]
