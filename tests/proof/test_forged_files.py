"""Every field of a certificate's file replaced by what does not belong there, or left out: neither verifier takes it."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import veil
from tests.game.test_records import random_pairs
from tests.planning.test_pairs import two_sensors
from tests.proof.cases import constrained, noisy_problem, random_problem
from tests.proof.test_second_verifier import saved, second
from veil.common.errors import CertificateError

HOLDS = 0
ABSENT = object()
STRANGE = (
    ABSENT, None, True, "1", "", [], {"0": 1}, -1, 10**400, 1e308, 1e-320, float("nan"), float("inf"), 2**63, [[[[]]]],
)  # fmt: skip
WORDS = ("bound_class", "policy_class", "claim", "seal", "versions", "best_known", "form", "memory")
WAYS = ("window", "prune", "merge")  # how the first verifier bounds the policy; the second follows every history


def certified(problem: veil.Problem, hide: str = "own") -> tuple[veil.Problem, veil.Policy, veil.Certificate]:
    policy = veil.MarkovPolicy.uniform(problem)
    return problem, policy, veil.certify(problem, policy, 0.5, hide=hide, progress=False)


def late() -> tuple[veil.Problem, veil.Policy, veil.Certificate]:
    """A certificate with a bound over agents that learn observations late."""
    for seed in range(40):
        found = certified(noisy_problem(seed))
        if found[2].delayed is not None:
            return found
    raise AssertionError


CASES = {
    "threshold": lambda: certified(random_problem(3, work=300, most_pairs=400).replace(min_return="30%")),
    "constraints": lambda: certified(constrained(noisy_problem(4), 2)),
    "pairs": lambda: certified(random_pairs(2), "own, p0"),
    "a pair with a bound": lambda: certified(two_sensors(1, min=0.3)),
    "late": late,
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in a document, those of objects and of the first entry of a list too."""
    if path:
        yield path
    if isinstance(value, dict | list):
        inside = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, part in inside:
            yield from leaves(part, (*path, key))


def with_value(document: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    made = copy.deepcopy(document)
    part = made
    for key in path[:-1]:
        part = part[key]
    if value is ABSENT:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return made


def is_allowed(place: tuple[Any, ...], value: Any, given: Any) -> bool:
    """Whether a value claims the same or less (a smaller lower bound, a larger upper one), or is another way to prove it."""
    if value is ABSENT or isinstance(value, bool) is not isinstance(given, bool):
        return place == ("delayed",)  # a bound more or less
    if value == given and type(value) is type(given):
        return True
    number = isinstance(value, int | float) and value == value
    if place[-1] in ("return_error", "error"):
        return number and 0 <= value < 1e-300  # a value without an error, which may be so
    if place[-1] in ("lower", "upper"):
        return number and (value <= given if place[-1] == "lower" else value >= given)
    pairs_left_out = place[0] == "pairs" and len(place) <= 2
    return pairs_left_out or (number and "witness" in place and bool({*place} & {"price", "prices", "weight"}))


QUICK = ("threshold",)


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in QUICK)]
)
def test_every_field_of_the_file(name: str, tmp_path: Path) -> None:
    """What either accepts is what was written, claims less, or is proven in another way."""
    problem, policy, honest = CASES[name]()
    folder = saved(tmp_path / "it", problem, policy, honest)
    path = folder / "certificate.json"
    document = json.loads(path.read_text("utf-8"))
    assert second.main([str(folder)])[1] == HOLDS
    for place in leaves(document):
        given = document
        for key in place:
            given = given[key]
        for value in [one for one in STRANGE if not is_allowed(place, one, given)]:
            path.write_text(json.dumps(with_value(document, place, value)), "utf-8")
            if not {*place} & {*WORDS, *WAYS}:
                assert second.main([str(folder)])[1] != HOLDS, (place, value)
            if place[-1] != "prune":
                with pytest.raises(CertificateError):
                    veil.verify(veil.Certificate.load(path), problem, policy)


def test_a_key_given_twice(tmp_path: Path) -> None:
    """A reader that takes the first of two values would see another claim."""
    problem, policy, honest = certified(noisy_problem(1))
    folder = saved(tmp_path / "it", problem, policy, honest)
    path = folder / "certificate.json"
    path.write_text('{"lower": 0.9,' + path.read_text("utf-8").lstrip()[1:], "utf-8")
    assert second.main([str(folder)])[1] == 1
    with pytest.raises(CertificateError, match="twice"):
        veil.Certificate.load(path)


def test_files_nested_deeper_than_any_parser_goes(tmp_path: Path) -> None:
    problem, policy, honest = certified(noisy_problem(1))
    folder = saved(tmp_path / "it", problem, policy, honest)
    path = folder / "certificate.json"
    path.write_text('{"lower": ' + "[" * 200_000 + "]" * 200_000 + "}", "utf-8")
    assert second.main([str(folder)])[1] == 1
    with pytest.raises(CertificateError, match="levels"):
        veil.Certificate.load(path)


def test_arrays_and_problems_whose_sizes_are_lies(tmp_path: Path) -> None:
    """A shape of 2^40 rows of nothing, or a list of 2^60 names: refused before anything of that size is made."""
    problem, policy, honest = certified(noisy_problem(1))
    folder = saved(tmp_path / "it", problem, policy, honest)
    content = (folder / "problem.bin").read_bytes()
    for size in (2**40, 2**60):
        at = content.index(b"states") + len("states") + 1
        forged = content[:at] + size.to_bytes(8, "little") + content[at + 8 :]
        (folder / "problem.bin").write_bytes(forged)
        document = json.loads((folder / "certificate.json").read_text("utf-8"))
        changed = document | {"problem_hash": second.hashlib.sha256(forged).hexdigest()}
        (folder / "certificate.json").write_text(json.dumps(changed), "utf-8")
        assert second.main([str(folder)])[1] in (1, 2)
