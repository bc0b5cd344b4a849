"""Policy files: exact, safe to open, complete or not there."""

import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.common.errors import PolicyFileError
from veil.policy.files import read_table, save_table

TABLE = np.random.default_rng(0).dirichlet(np.ones(3), size=4)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@looped("shape", [(1, 1), (4, 3), (5, 4, 3), (0, 4, 3)])
def test_every_bit_comes_back(shape: tuple[int, ...], tmp_path):
    table = np.random.default_rng(1).random(shape)
    table.flat[: table.size // 2] *= 1e-310  # subnormal numbers too
    save_table(tmp_path / "policy", "timed", table)
    kind, again = read_table(tmp_path / "policy")
    assert kind == "timed"
    assert again.dtype == np.float64
    assert again.shape == shape
    assert again.tobytes() == table.tobytes()


def test_the_same_policy_gives_the_same_bytes(tmp_path):
    contents = set()
    for number in range(20):
        path = tmp_path / str(number)
        save_table(path, "markov", TABLE)
        contents.add(path.read_bytes())
        veil.load_policy(path).save(path)
        contents.add(path.read_bytes())
    assert len(contents) == 1


def test_what_veil_did_not_write_is_not_replaced(tmp_path):
    target = written(tmp_path / "notes", b"mine")
    for place in (target, tmp_path, Path("/dev/null")):
        with pytest.raises(PolicyFileError, match="it exists"):
            save_table(place, "markov", TABLE)
    assert target.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["notes"]


def test_the_umask_decides_who_may_read(tmp_path):
    before = os.umask(0o027)
    try:
        save_table(tmp_path / "policy", "markov", TABLE)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "policy").stat().st_mode) == 0o640


# Files that are no policies


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(veil.errors.PolicyFileError, match=r"there is no policy file .*nowhere"):
        veil.load_policy(tmp_path / "nowhere")


def test_a_pickle_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    path = written(tmp_path / "trap", pickle.dumps(Trap()))
    with pytest.raises(veil.errors.PolicyFileError):
        veil.load_policy(path)
    assert not (tmp_path / "sprung").exists()
    pickle.loads(path.read_bytes())
    assert (tmp_path / "sprung").exists()  # the trap does work


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path):
    save_table(tmp_path / "policy", "markov", TABLE)
    content = (tmp_path / "policy").read_bytes()
    for length in range(len(content)):
        with pytest.raises(veil.errors.PolicyFileError):
            veil.load_policy(written(tmp_path / "short", content[:length]))
    with pytest.raises(veil.errors.PolicyFileError):
        veil.load_policy(written(tmp_path / "long", content + b"\x00" * 8))


def test_a_corrupted_file_is_refused_or_still_a_policy(tmp_path):
    """Wherever a byte is wrong: veil's own errors or a table of distributions, never anything else."""
    save_table(tmp_path / "policy", "markov", TABLE)
    content = (tmp_path / "policy").read_bytes()
    refused = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0x41
        try:
            policy = veil.load_policy(written(tmp_path / "damaged", bytes(damaged)))
        except (veil.errors.PolicyFileError, veil.InputError):
            refused += 1
        else:
            assert isinstance(policy, veil.MarkovPolicy | veil.TimedPolicy)
            np.testing.assert_allclose(policy.probabilities.sum(axis=-1), 1, atol=1e-9)
    assert refused > len(content) / 2


# Writes that fail


def test_a_missing_directory_is_refused_and_not_made(tmp_path):
    with pytest.raises(veil.errors.PolicyFileError, match=r"cannot write policy to .*nowhere"):
        save_table(tmp_path / "nowhere" / "policy", "markov", TABLE)
    assert os.listdir(tmp_path) == []


def test_a_directory_in_place_of_the_file_stays_and_nothing_is_left(tmp_path):
    (tmp_path / "policy").mkdir()
    with pytest.raises((OSError, veil.errors.PolicyFileError)):
        save_table(tmp_path / "policy", "markov", TABLE)
    assert os.listdir(tmp_path) == ["policy"]
    assert os.listdir(tmp_path / "policy") == []
