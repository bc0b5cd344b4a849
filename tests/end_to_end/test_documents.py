"""Every Python block of the README and the documents runs as it stands, and so does every example."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Pages that do not lie in `docs`.
OUTSIDE = ["README.md", "src/veil/proof/README.md", "validation/RESULTS.md", "reproduction/reproduction.md"]
DOCUMENTS = [*OUTSIDE, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if "```python" in (ROOT / name).read_text("utf-8")])
def test_python_blocks_run_in_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    for number, block in enumerate(BLOCK.findall((ROOT / name).read_text("utf-8"))):
        exec(compile(block, f"{name}, block {number}", "exec"), space)
    assert space


def test_links_lead_somewhere():
    links = [
        (name, to) for name in DOCUMENTS for to in re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text("utf-8"))
    ]
    assert len(links) > 100
    assert not [(name, to) for name, to in links if not ((ROOT / name).parent / to).exists()]


@pytest.mark.slow
def test_first_steps_hides_more_than_the_paper_reports():
    command = [sys.executable, str(ROOT / "examples" / "first_steps.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    hidden = [float(found) for found in re.findall(r"^  hidden ([\d.]+) of", done.stdout, re.MULTILINE)]
    assert len(hidden) == 2
    assert hidden[0] == pytest.approx(0.322970, abs=1e-6)
    assert hidden[1] > 0.93
    assert "return 0.300" in done.stdout
