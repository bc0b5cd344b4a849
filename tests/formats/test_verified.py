"""Results of pairs and of secrets at every time: believed as they were written, refused where a number was changed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.cli.commands import veil as command
from tests.planning.test_pairs import two_sensors
from veil.common.errors import CertificateError
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


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("sees", ["state", "readings"])
def test_a_result_is_believed(ahead: int, sees: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(ahead)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((3, 2)), [1, 0, 0])
    eyes = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    own = "state" if sees == "state" else veil.Observer([[1, 0], [0, 1], [0, 1]])
    problem = veil.Problem(model, eyes, veil.StateNow([2], ahead=ahead), 3, agent_sees=own)
    solution = veil.solve(problem, starts=1, iterations=3, certificate_time_limit=1, progress=False)
    folder = tmp_path / "result"
    solution.save(folder)
    assert verified_certificate(read_result(folder), problem) is not None
    assert command("verify", str(folder)).code == 0
    details = command("measure", str(folder), str(folder), "--details", "--json").json["details"]
    each = np.dot(details["bits_over_time"], details["weights"])
    assert each == pytest.approx(solution.opacity.bits, abs=1e-12)
    path = folder / "result.json"
    told = json.loads(path.read_text("utf-8"))
    told["answer"]["opacity"]["prior_bits"] += 1e-3
    path.write_text(json.dumps(told), "utf-8")
    with pytest.raises(CertificateError, match="prior_bits"):
        verified_certificate(read_result(folder), problem)
