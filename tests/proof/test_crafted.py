"""Files that nobody writes who is honest: extreme sizes, two readings of one text, numbers of every kind. None is accepted for
something false, and none makes a verifier fail in any other way than by refusing."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import veil
from tests.proof.lies import honest
from tests.proof.plain import code, saved, second
from tests.seeds import in_blocks
from veil.common.errors import CertificateError, TooLargeError, VeilError
from veil.proof.certificate import Certificate
from veil.proof.verify_files import verify_files

Head = dict[str, Any]
Arrays = dict[str, np.ndarray]


def first(folder: Path) -> int:
    """The answer of the first verifier to the files alone, as an exit code."""
    try:
        claim = Certificate.load(folder / "certificate.json")
        verify_files(claim, folder / "problem.bin", folder / "policy.safetensors")
    except CertificateError:
        return 5
    except TooLargeError:
        return 2
    return 0


def crafted(folder: Path, change: Callable[[Head, Arrays], None]) -> Path:
    """The folder with another problem, and a certificate that is about that."""
    content = (folder / "problem.bin").read_bytes()
    text = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["veil"]
    form, _, head = text.partition(" ")
    fields, arrays = json.loads(head), load(content)
    change(fields, arrays)
    return write(folder, save(arrays, metadata={"veil": f"{form} {json.dumps(fields)}"}))


def write(folder: Path, content: bytes) -> Path:
    (folder / "problem.bin").write_bytes(content)
    place = folder / "certificate.json"
    claim = json.loads(place.read_text("utf-8"))
    claim["record_hash"] = hashlib.sha256(content).hexdigest()
    place.write_text(json.dumps(claim), "utf-8")
    return folder


def small(folder: Path) -> Path:
    """A result of a small problem: two states, one of them secret, noise."""
    model = veil.Model(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer([[0.8, 0.2], [0.2, 0.8]]), veil.LastState({1}), 3, min_return="40%")
    policy = veil.MarkovPolicy.uniform(problem)
    return saved(folder, problem, policy, veil.certify(problem, policy, 1))


def doubled(head: Head, arrays: Arrays) -> None:
    arrays["starts.state"] = arrays["starts.state"] * 2


def weights(head: Head, arrays: Arrays) -> None:
    arrays["starts.model"] = np.array([1.0, 0.5])


def twice(head: Head, arrays: Arrays) -> None:
    for name in ("starts", "starts.model", "starts.state"):
        arrays[name] = np.repeat(arrays[name], 2)
    arrays["starts.state"] = arrays["starts.state"] / 2


def many_observations(head: Head, arrays: Arrays) -> None:
    head["observers"][0]["observations"] = 2**40
    arrays["observers.0.tables.0.column"] = arrays["observers.0.tables.0.column"] << 39


def backwards(head: Head, arrays: Arrays) -> None:
    arrays["moves.ends"] = arrays["moves.ends"][::-1].copy()


def silent(head: Head, arrays: Arrays) -> None:
    arrays["observers.0.at"] = np.full_like(arrays["observers.0.at"], -1)


def far(head: Head, arrays: Arrays) -> None:
    arrays["observers.0.at"] = arrays["observers.0.at"] + 7


def huge(head: Head, arrays: Arrays) -> None:
    arrays["quantities.0.rewards"] = np.full_like(arrays["quantities.0.rewards"], 1e308)


def missing(head: Head, arrays: Arrays) -> None:
    arrays["quantities.0.rewards"][0, 0] = np.nan


def tiny(head: Head, arrays: Arrays) -> None:
    chance = arrays["moves.chance"]
    chance[0], chance[1] = 5e-324, 1.0


def share(head: Head, arrays: Arrays) -> None:
    head["quantities"][0]["bound"] = "1e3%"


def fraction(head: Head, arrays: Arrays) -> None:
    head["quantities"][0]["bound"] = "1/3%"


def unnamed(head: Head, arrays: Arrays) -> None:
    head["quantities"][0]["name"] = "other"


def long(head: Head, arrays: Arrays) -> None:
    head["horizon"] = 10**400


CHANGES = (
    doubled,
    weights,
    twice,
    many_observations,
    backwards,
    silent,
    far,
    huge,
    missing,
    tiny,
    share,
    fraction,
    unnamed,
    long,
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_problem_that_is_none_is_refused_by_both(change: Callable[[Head, Arrays], None], tmp_path: Path):
    folder = small(tmp_path / "result")
    assert (first(folder), code(folder)) == (0, 0)
    crafted(folder, change)
    assert first(folder) in (2, 5)
    assert code(folder) in (2, 5)


def test_a_key_that_comes_twice(tmp_path: Path):
    """Two readers might take different ones of the two."""
    folder = small(tmp_path / "result")
    content = (folder / "problem.bin").read_bytes()
    size = int.from_bytes(content[:8], "little")
    text = content[8 : 8 + size].replace(b'\\"horizon\\": 3', b'\\"horizon\\": 9, \\"horizon\\": 3').rstrip()
    text += b" " * (-len(text) % 8)
    write(folder, len(text).to_bytes(8, "little") + text + content[8 + size :])
    assert (first(folder), code(folder)) == (5, 5)


def test_observations_by_the_million_do_not_mix_histories(tmp_path: Path):
    """Numbers of events so large that products with numbers of histories would leave 64 bits."""
    folder = small(tmp_path / "result")

    def change(head: Head, arrays: Arrays) -> None:
        head["observers"][0]["observations"] = 2**29
        arrays["observers.0.tables.0.column"] = arrays["observers.0.tables.0.column"] * (2**29 - 1)

    crafted(folder, change)
    place = folder / "certificate.json"
    claim = json.loads(place.read_text("utf-8"))
    claim["channels"][0]["lower"] += 1e-6
    place.write_text(json.dumps(claim), "utf-8")
    assert first(folder) in (2, 5)
    assert code(folder) in (2, 5)


@in_blocks(6, 600)
def test_flipped_bytes(seed: int, tmp_path: Path):
    """Any byte of any file changed: refused or, where it holds, as true as before; never another failure."""
    rng, (problem, policy, claim) = random.Random(seed), honest(seed)
    whole = saved(tmp_path / "result", problem, policy, claim)
    names = sorted(one.name for one in whole.iterdir())
    for _ in range(12):
        place = whole / rng.choice(names)
        content = place.read_bytes()
        changed = bytearray(content)
        for _ in range(rng.choice((1, 1, 4))):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        place.write_bytes(bytes(changed[: rng.choice((len(changed), len(changed), rng.randrange(len(changed))))]))
        answers = first(whole), second.main([str(whole)])[1]
        if bytes(changed) != content and place.name != "certificate.json":
            assert answers in ((5, 5), (5, 2), (2, 5), (2, 2), (5, 0), (2, 0)), (place.name, answers)
        assert answers[0] in (0, 2, 5)
        assert answers[1] in (0, 2, 5)
        place.write_bytes(content)


def test_a_scenario_is_not_replaced(tmp_path: Path):
    """What holds for other arrays does not hold for the scenario."""
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 1)
    other = problem.replace(horizon=problem.horizon - 1)
    with pytest.raises(VeilError):
        veil.verify(claim, other, policy)
