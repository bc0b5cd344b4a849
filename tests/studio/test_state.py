"""The state on disk: what outlives a server, and folders that are no studio's."""

from pathlib import Path

import pytest

import veil
from tests.studio.conftest import Client
from veil.studio.state import Studio


def test_the_scenario_outlives_the_server(client: Client, studio: Studio):
    client("PUT", "/api/scenario", {"text": "edited = 1"})
    again = Studio(studio.folder)
    again.open("gallery:two-rooms")
    assert (again.scenario, again.name) == ("edited = 1", "two-rooms")
    assert again.session() == studio.session()
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


def test_without_a_scenario_a_new_one_is_begun(tmp_path: Path):
    studio = Studio(tmp_path / "studio")
    studio.open(None)
    assert "[grid]" in studio.scenario


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": "veil-studio-1"}', "[" * 9999, '{"format": "veil-studio-1", "base": 3, "source": 4}'],
)
def test_a_damaged_state_is_refused(tmp_path: Path, content: str):
    (tmp_path / "studio.json").write_text(content, encoding="utf-8")
    with pytest.raises(veil.InputError, match="not the state of a studio"):
        Studio(tmp_path)


def test_other_folders_are_refused(tmp_path: Path):
    (tmp_path / "letter.txt").touch()
    with pytest.raises(veil.InputError, match="something else"):
        Studio(tmp_path)
    with pytest.raises(veil.InputError, match="cannot be used"):
        Studio(tmp_path / "letter.txt")


def test_a_folder_has_one_server(studio: Studio):
    with studio.working(), pytest.raises(veil.InputError, match="another veil studio"), Studio(studio.folder).working():
        pass
