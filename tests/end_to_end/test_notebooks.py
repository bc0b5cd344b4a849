"""The notebooks run from the first cell to the last, in a kernel of their own, and say what they promise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
EXECUTE = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""
SAID = {"plan-and-prove": "proven upper bound", "red-team": "the wrong assumption costs"}


def test_there_are_two():
    assert {path.stem for path in NOTEBOOKS} == set(SAID)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path):
    out = tmp_path / "executed.ipynb"
    command = [sys.executable, "-c", EXECUTE, str(path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = [cell for cell in json.loads(out.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    texts = ["".join(output.get("text", "")) for cell in cells for output in cell["outputs"]]
    assert any(SAID[path.stem] in text for text in texts)
    assert all(cell["execution_count"] for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
