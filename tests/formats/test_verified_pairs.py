"""Results of problems with pairs: read back as they were, shown in the report, and refused where a number was changed."""

import json
from pathlib import Path
from typing import Any

import pytest

import veil
from tests.planning.test_pairs import two_sensors
from veil.formats.results.folder import read_result
from veil.formats.results.verified import verified_certificate
from veil.report.answer import make_answer


@pytest.fixture(scope="module")
def problem() -> veil.Problem:
    made = two_sensors(1, min=0.3)
    return made.replace(pairs=[*made.pairs, veil.Pair("naive", belief=veil.Belief(doubt=0.1))])


@pytest.fixture(scope="module")
def solution(problem: veil.Problem) -> veil.Solution:
    return veil.solve(problem, "ascent", "timed", starts=2, iterations=20, certificate_time_limit=3, progress=False)


def test_a_result_is_read_back_as_it_was(problem: veil.Problem, solution: veil.Solution, tmp_path: Path) -> None:
    """Every pair with its bounds, its bits and the loss of its observer; the certificate is believed."""
    solution.save(tmp_path / "it")
    result = read_result(tmp_path / "it")
    assert verified_certificate(result, problem) is not None
    read = make_answer(problem, result).solution
    assert read.pairs == solution.pairs
    assert (read.hide, read.pairs[2].loss_bits) == ("own", solution.pairs[2].loss_bits)


CHANGES: list[tuple[list[str | int], Any, str]] = [
    ([0, "opacity", "bits"], 0.9, "pairs.0.opacity.bits"),
    ([2, "loss_bits"], 0.1, "pairs.2.loss_bits"),
    ([2, "loss_bits"], None, "pairs.2.loss_bits"),
    ([0, "min"], 0.1, "with their bounds"),
    ([1, "name"], "begin", "with their bounds"),
]


@pytest.mark.parametrize(("place", "value", "words"), CHANGES)
def test_a_number_that_was_changed(
    problem: veil.Problem, solution: veil.Solution, tmp_path: Path, place: list[Any], value: object, words: str
) -> None:
    """The document of a result cannot tell of a pair what the policy does not do."""
    solution.save(tmp_path / "it")
    path = tmp_path / "it" / "result.json"
    document = json.loads(path.read_text("utf-8"))
    part = document["answer"]["pairs"]
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(veil.CertificateError, match=words):
        verified_certificate(read_result(tmp_path / "it"), problem)
