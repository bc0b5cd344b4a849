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


def put(**changed: Callable[[np.ndarray], np.ndarray]) -> Callable[[Head, Arrays], None]:
    """A change of arrays by name, with `_` for a point."""
    names = {name.replace("_", "."): change for name, change in changed.items()}
    return lambda head, arrays: arrays.update({name: change(arrays[name]) for name, change in names.items()})


def first_are(*numbers: float) -> Callable[[np.ndarray], np.ndarray]:
    """The array with other first numbers."""
    return lambda array: np.concatenate([numbers, array.ravel()[len(numbers) :]]).reshape(array.shape)


def many_observations(head: Head, arrays: Arrays) -> None:
    head["observers"][0]["observations"] = 2**40
    arrays["observers.0.tables.0.column"] = arrays["observers.0.tables.0.column"] << 39


def quantity(**fields: Any) -> Callable[[Head, Arrays], None]:
    return lambda head, arrays: head["quantities"][0].update(fields)


CHANGES: dict[str, Callable[[Head, Arrays], None]] = {
    "doubled starts": put(starts_state=lambda one: 2 * one),
    "two weights of a model": put(starts_model=lambda one: np.array([1.0, 0.5])),
    "starts twice": put(starts=lambda one: np.repeat(one, 2), starts_model=lambda one: np.repeat(one, 2),
                        starts_state=lambda one: np.repeat(one, 2) / 2),
    "many observations": many_observations,
    "ends backwards": put(moves_ends=lambda one: one[::-1].copy()),
    "silent for ever": put(observers_0_at=lambda one: np.full_like(one, -1)),
    "tables that do not exist": put(observers_0_at=lambda one: one + 7),
    "huge rewards": put(quantities_0_rewards=lambda one: np.full_like(one, 1e308)),
    "a reward that is none": put(quantities_0_rewards=first_are(np.nan)),
    "a tiny probability": put(moves_chance=first_are(5e-324, 1.0)),
    "a share above all": quantity(bound="1e3%"),
    "a share that is a fraction": quantity(bound="1/3%"),
    "no return": quantity(name="other"),
    "a long horizon": lambda head, arrays: head.update(horizon=10**400),
    "endless without a discount": lambda head, arrays: head.update(endless=True),
    "a flag that is text": lambda head, arrays: head.update(endless="no"),
    "a field too many": lambda head, arrays: head.update(more=1),
    "an agent that hears nobody": lambda head, arrays: head.update(agent=9),
    "a secret after the end": lambda head, arrays: head["channels"][0].update(time=99),
    "a discount above one": quantity(discount=1.5),
    "no sign": quantity(sign=0),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
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
