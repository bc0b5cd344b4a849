"""Installs a package with entry points for the length of a test, without pip: a module and its `.dist-info`."""

import sys
from pathlib import Path

import pytest


def install(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    points: dict[str, dict[str, str]],
    module: str,
    code: str,
) -> None:
    """Put a package on `sys.path`.

    **Arguments:** `points`: group to names to `"module:attribute"`; `module`, `code`: the one module of the package.
    """
    site = folder / package
    information = site / f"{package.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in names.items()) for group, names in points.items()]
    (information / "entry_points.txt").write_text("\n".join(lines))
    (site / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, module, raising=False)  # of a test before
