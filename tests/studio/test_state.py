"""The state on disk: what outlives a server, full disks, and folders that are no studio's or lead elsewhere."""

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import veil
from tests.studio.conftest import Client
from tests.studio.processes import ENDLESS
from veil.studio.state import Studio


def test_the_scenario_outlives_the_server(client: Client, studio: Studio):
    client("PUT", "/api/scenario", {"text": "edited = 1"})
    again = Studio(studio.folder)
    again.open("gallery:two-rooms")
    assert (again.scenario, again.name) == ("edited = 1", "two-rooms")
    again.open(None)
    assert again.scenario == "edited = 1"


def test_a_file_that_changed_is_read_again(tmp_path: Path):
    file = tmp_path / "patrol.toml"
    file.write_text("a = 1", encoding="utf-8")
    studio = Studio(tmp_path / "studio")
    studio.open(str(file))
    studio.set_scenario("a = 2")
    studio.open(str(file))
    assert studio.scenario == "a = 2"
    file.write_text("a = 3", encoding="utf-8")
    studio.open(str(file))
    assert (studio.scenario, studio.name, studio.base) == ("a = 3", "patrol", tmp_path)


def test_the_page_is_called_as_the_text_calls_the_problem(client: Client):
    assert client("PUT", "/api/scenario", {"text": 'name = "night-watch"\n'})["name"] == "night-watch"
    assert client("GET", "/api/state")["name"] == "night-watch"
    for text in ("horizon = 3", "name = 3", 'name = ""', "name = ", "a = " + "[" * 5000):  # the file's name
        assert client("PUT", "/api/scenario", {"text": text})["name"] == "two-rooms"


def test_without_a_scenario_a_new_one_is_begun(tmp_path: Path):
    studio = Studio(tmp_path / "studio")
    studio.open(None)
    assert "[grid]" in studio.scenario


def test_a_damaged_state_is_refused(tmp_path: Path):
    begun = '{"format": "veil-studio-1"'
    for content in ("", "[]", "{}", begun + "}", "[" * 9999, begun + ', "base": 3, "source": 4}'):
        (tmp_path / "studio.json").write_text(content, encoding="utf-8")
        with pytest.raises(veil.InputError, match="not the state of a studio"):
            Studio(tmp_path)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_on_a_full_disk_the_page_has_what_the_disk_has(client: Client, studio: Studio):
    before = client("GET", "/api/state")
    with full_disk():
        status, _, content = client.raw("PUT", "/api/scenario", b'{"text": "lost = 1"}')
        assert status == 507
        assert "cannot be written" in json.loads(content)["error"]
        client("POST", "/api/runs", {"settings": ENDLESS}, 507)
    assert client("GET", "/api/state") == before
    assert Studio(studio.folder).scenario == before["scenario"]
    client("PUT", "/api/scenario", {"text": "kept = 1", "edition": before["edition"]})
    assert Studio(studio.folder).scenario == "kept = 1"


def test_a_text_that_was_edited_elsewhere_is_not_replaced(client: Client, studio: Studio):
    before = client("GET", "/api/state")
    client("PUT", "/api/scenario", {"text": "first = 1", "edition": before["edition"]})
    answer = client("PUT", "/api/scenario", {"text": "second = 1", "edition": before["edition"]}, 409)
    assert (answer["scenario"], studio.scenario) == ("first = 1", "first = 1")
    client("PUT", "/api/scenario", {"text": "third = 1", "edition": before["edition"], "over": "zeroth = 1"}, 409)
    client("PUT", "/api/scenario", {"text": "more = 1", "edition": before["edition"], "over": "first = 1"})  # its own
    answer = client("PUT", "/api/scenario", {"text": "second = 1", "edition": before["edition"]}, 409)
    client("PUT", "/api/scenario", {"text": "second = 1", "edition": answer["edition"]})
    again = Studio(studio.folder)
    assert (again.scenario, again.edition) == ("second = 1", studio.edition)


def test_a_folder_from_elsewhere_that_leads_elsewhere_is_refused(studio: Studio, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("errors.txt", "runs/1/errors.txt", "runs/1/events.jsonl", ".gitignore", "session", "runs/2"):
        place = studio.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        for link in (place.symlink_to, place.hardlink_to):
            link(precious)
            with pytest.raises(veil.InputError, match=f"{name}.*link"):
                Studio(studio.folder)
            place.unlink()
    Studio(studio.folder)
    assert precious.read_text() == "mine"


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path):
    studio = Studio(tmp_path / "studio")
    assert os.stat(studio.folder).st_mode & 0o077 == 0
    studio.open("gallery:two-rooms")
    studio.folder.chmod(0o777)
    with pytest.raises(veil.InputError, match="every user can write to it"):
        Studio(studio.folder)


def test_other_folders_are_refused(tmp_path: Path):
    (tmp_path / "letter.txt").touch()
    with pytest.raises(veil.InputError, match="not a studio's folder"):
        Studio(tmp_path)
    with pytest.raises(veil.InputError, match="cannot be used"):
        Studio(tmp_path / "letter.txt")


def test_a_folder_has_one_server(studio: Studio):
    with studio.working(), pytest.raises(veil.InputError, match="another veil studio"), Studio(studio.folder).working():
        pass
