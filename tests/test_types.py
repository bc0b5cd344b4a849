"""Type checkers see the public interface: the options of `veil.solve`, derived from one definition, and the results."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import veil

PROGRAM = """\
import veil

problem = veil.gallery.load("two-rooms")
veil.solve(problem, sed=1)
veil.solve(problem, goal="hide")
veil.frontier(problem, 3, certificate=True)
solution = veil.solve(problem, memory=veil.StateMemory(1), seed=1, time_limit=None)
reveal_type(solution.policy)
reveal_type(solution.certificate)
reveal_type(problem.save("rooms.toml"))
"""


@pytest.mark.slow
def test_pyright_reads_the_options_and_the_results(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "program.py"]
    environment = os.environ | {"PYTHONPATH": str(Path(veil.__file__).parents[1])}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.startswith("{"), done.stderr
    told = json.loads(done.stdout)["generalDiagnostics"]
    wrong = {one["range"]["start"]["line"] + 1: one["message"] for one in told if one["severity"] == "error"}
    assert set(wrong) == {4, 5, 6}
    assert wrong[4] == 'No parameter named "sed"'
    assert 'cannot be assigned to parameter "goal"' in wrong[5]
    assert wrong[6] == 'No parameter named "certificate"'
    types = [one["message"] for one in told if one["severity"] == "information"]
    assert types == [
        'Type of "solution.policy" is "Policy"',
        'Type of "solution.certificate" is "Certificate | None"',
        'Type of "problem.save("rooms.toml")" is "None"',
    ]
