"""Checkpoints are read back exactly, or refused with the reason."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from veil.common.errors import CheckpointError
from veil.planning.checkpoint import Checkpoint, read_checkpoint

IDENTITY: dict[str, Any] = {"problem": "abc", "seed": 3, "start": None, "own": {"step": 0.1}}


def some_arrays() -> dict[str, np.ndarray]:
    return {
        "iteration": np.asarray(7.0),
        "score": np.asarray(-np.inf),
        "theta": np.random.default_rng(0).normal(size=(2, 3, 4)),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "none": np.zeros((0, 6)),
        "optimizer.000": np.asarray(5, dtype=np.int32),
    }


def written(path: Path) -> Path:
    Checkpoint(path, IDENTITY, 0.0).write(some_arrays(), 12.5)
    return path


def test_what_is_written_is_read_with_shapes_and_types(tmp_path: Path):
    arrays, seconds = read_checkpoint(written(tmp_path / "run"), IDENTITY)
    assert seconds == 12.5
    for name, array in some_arrays().items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array)


def test_the_same_state_gives_the_same_bytes(tmp_path: Path):
    assert written(tmp_path / "a").read_bytes() == written(tmp_path / "b").read_bytes()


def test_it_is_due_now_and_then(tmp_path: Path):
    assert Checkpoint(tmp_path / "run", IDENTITY, 0.0).is_due
    assert not Checkpoint(tmp_path / "run", IDENTITY, 60.0).is_due


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"problem": "xyz"}, "problem: 'abc' there, 'xyz' here"),
        ({"seed": 4}, "seed: 3 there, 4 here"),
        ({"own": {"step": 0.2}}, "own: {'step': 0.1} there, {'step': 0.2} here"),
    ],
)
def test_another_run_is_refused_with_what_differs(tmp_path: Path, change: dict[str, Any], told: str):
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(written(tmp_path / "run"), IDENTITY | change)
    assert told in str(caught.value)
    assert "start" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        read_checkpoint(tmp_path / "run", IDENTITY)


def test_other_files_are_refused(tmp_path: Path):
    problem = veil.gallery.load("two-rooms")
    veil.MarkovPolicy.uniform(problem).save(tmp_path / "policy")
    with pytest.raises(CheckpointError, match="no checkpoint of a search"):
        read_checkpoint(tmp_path / "policy", IDENTITY)
    (tmp_path / "text").write_text(json.dumps(IDENTITY))
    (tmp_path / "empty").write_bytes(b"")
    for name in ("text", "empty"):
        with pytest.raises(CheckpointError, match="cannot be read"):
            read_checkpoint(tmp_path / name, IDENTITY)
    with pytest.raises(CheckpointError):
        read_checkpoint(tmp_path, IDENTITY)


def test_every_cut_is_noticed(tmp_path: Path):
    path = written(tmp_path / "run")
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read_checkpoint(path, IDENTITY)


def test_every_damaged_byte_is_noticed(tmp_path: Path):
    path = written(tmp_path / "run")
    content = path.read_bytes()
    expected = some_arrays()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            arrays, seconds = read_checkpoint(path, IDENTITY)
        except CheckpointError:
            continue
        assert seconds == 12.5
        assert all(np.array_equal(arrays[name], expected[name]) for name in expected)


def test_where_nothing_can_be_written_is_told_at_once(tmp_path: Path):
    with pytest.raises(CheckpointError, match="there is no directory"):
        Checkpoint(tmp_path / "nowhere" / "run", IDENTITY, 1.0)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        Checkpoint(tmp_path, IDENTITY, 1.0)
    scenario = tmp_path / "scenario.toml"
    scenario.write_text("[model]")
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        Checkpoint(scenario, IDENTITY, 1.0)
    assert scenario.read_text() == "[model]"


def test_a_write_that_fails_is_told_and_leaves_the_old_file(tmp_path: Path, monkeypatch):
    path = written(tmp_path / "run")
    content = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CheckpointError, match="No space left"):
        Checkpoint(path, IDENTITY, 1.0).write({"theta": np.ones(3)}, 20.0)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert [found.name for found in tmp_path.iterdir()] == ["run"]


def test_what_a_killed_process_left_is_removed_once_it_is_old(tmp_path: Path):
    old, new, other = tmp_path / ".run.abcd1234", tmp_path / ".run.efgh5678", tmp_path / ".runner.abcd1234"
    for path in (old, new, other):
        path.write_bytes(b"a part")
    hour = time.time() - 3600
    os.utime(old, (hour, hour))
    os.utime(other, (hour, hour))
    Checkpoint(tmp_path / "run", IDENTITY, 1.0)
    assert sorted(found.name for found in tmp_path.iterdir()) == [".run.efgh5678", ".runner.abcd1234"]
