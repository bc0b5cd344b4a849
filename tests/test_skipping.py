"""In CI nothing is skipped: with VEIL_REQUIRE_ALL=1 a test or module that would be skipped fails, with its reason."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"
CASES = {
    "test_call": "def test_it():\n    pytest.skip('no such tool')",
    "test_mark": "@pytest.mark.skipif(True, reason='no such tool')\ndef test_it():\n    pass",
    "test_fixture": "@pytest.fixture\ndef tool():\n    pytest.skip('no such tool')\n\ndef test_it(tool):\n    pass",
    "test_module": "pytest.importorskip('no_such_tool', reason='no such tool')",
    "test_expected": "@pytest.mark.xfail\ndef test_it():\n    raise ValueError",
}
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "--continue-on-collection-errors", "-ra")


@pytest.mark.parametrize("required", [pytest.param("0", marks=pytest.mark.slow), "1"])
def test_a_skip_is_a_failure_where_everything_is_required(tmp_path: Path, required: str):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text("utf-8"), "utf-8")
    for name, text in CASES.items():
        (tmp_path / f"{name}.py").write_text(f"import pytest\n\n{text}\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, "."],
        cwd=tmp_path,
        env={"VEIL_REQUIRE_ALL": required, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    last = done.stdout.splitlines()[-1]
    if required == "0":
        assert done.returncode == 0, done.stdout
        assert "4 skipped, 1 xfailed" in last
    else:
        assert done.returncode == 1, done.stdout
        assert "1 failed, 1 xfailed, 3 errors" in last
        assert done.stdout.count("no such tool (VEIL_REQUIRE_ALL=1") >= 4
