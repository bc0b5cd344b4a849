"""Results of secrets with a value at every time: the folder is believed, and a number that was changed is not."""

import json
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.cli.commands import veil as command
from veil.common.errors import CertificateError
from veil.formats.results.folder import read_result
from veil.formats.results.verified import verified_certificate


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
