"""`benchmarks/RESULTS.md`: one section a module, replaced when the module runs again and kept otherwise."""

import os
import re
import tempfile
from pathlib import Path

from benchmarks import MODULES

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
_PREFACE = """# Benchmark results

Written by `make bench`; a section is replaced when its module runs again. Contenders take turns in one run, because the
machines are shared and noisy: read the ratios first, then the seconds. Times are medians, with the range over
the rounds in brackets.
"""
_HEADING = re.compile(r"^## (\w+): ", re.MULTILINE)


def write_section(name: str, title: str, machine: str, text: str) -> None:
    """Put one module's section in its place; the file is complete at all times."""
    head = f"## {name}: {title}\n\n`python -m benchmarks {name}` on {machine}.\n\n"
    sections = _sections(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    sections[name] = head + text.strip() + "\n"
    order = sorted(sections, key=lambda key: (MODULES.index(key) if key in MODULES else len(MODULES), key))
    _write_atomically(RESULTS, "\n".join([_PREFACE, *(sections[key] for key in order)]))


def _sections(text: str) -> dict[str, str]:
    starts = [(match.group(1), match.start()) for match in _HEADING.finditer(text)]
    ends = [start for _, start in starts[1:]] + [len(text)]
    return {name: text[start:end].strip() + "\n" for (name, start), end in zip(starts, ends, strict=True)}


def _write_atomically(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
