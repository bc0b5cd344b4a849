"""The map of the code is true: every path that it names exists, and its picture shows the rooms that there are."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_imports import ROOMS

ROOT = Path(__file__).parents[2]
PAGES = ("docs/architecture.md", "docs/extend.md", "CONTRIBUTING.md")
TOP = "src|tests|docs|reproduction|benchmarks|examples"
# A path begins with a folder of the repository or with a room of the package.
PATH = re.compile(rf"`((?:{TOP})(?:/[\w./-]+)?|(?:{'|'.join(ROOMS)})/[\w./-]+)`")


def place(path: str) -> Path:
    return ROOT / path if re.match(TOP, path) else ROOT / "src" / "veil" / path


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "site" / "rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_path_that_is_named_exists():
    named = [(page, path) for page in PAGES for path in sorted(set(PATH.findall((ROOT / page).read_text("utf-8"))))]
    assert {page for page, _ in named} == set(PAGES)
    assert not [(page, path) for page, path in named if not place(path).exists()]


def test_the_map_names_every_room():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert [room for room in re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) if room in ROOMS] == list(ROOMS)


def test_the_picture_is_the_one_that_the_script_draws(rooms: ModuleType):
    assert rooms.OUT.read_text("utf-8") == rooms.draw()


def test_the_picture_shows_the_rooms_in_their_order_and_modules_that_exist(rooms: ModuleType):
    assert [name for name, _, _ in rooms.ROOMS] == list(ROOMS)
    for name, _, modules in rooms.ROOMS:
        if name == "cli":
            continue
        for module in re.sub(r" \([\w.]+\)", "", modules).split(", "):
            there = ROOT / "src" / "veil" / name / module
            assert there.is_dir() or there.with_suffix(".py").exists(), there
