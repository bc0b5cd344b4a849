"""A pytest plugin: which lines of a room each test runs, and how long it takes, as `tests.mutants` wants to know.

`pytest -p tests.traced tests/proof` with the room's folder in VEIL_TRACED_ROOM writes to the file VEIL_TRACED_FILE, as JSON,
`{test: [seconds, passed, {module: [lines]}]}`. Lines that a fixture of several tests runs count for each of them, and results
kept by `functools.cache` are forgotten before each test. What a test does in processes of its own is not seen.
"""

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

_ROOM, _FILE = (os.environ[f"VEIL_TRACED_{name}"] for name in ("ROOM", "FILE"))
_lines: defaultdict[str, set[int]] = defaultdict(set)  # of the test under way
_tests: dict[str, tuple[float, bool, dict[str, list[int]]]] = {}
_failed: set[str] = set()
_shared: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))  # of fixtures, by name


def _enter(frame: FrameType, event: str, argument: object) -> Any:
    """Follow the frames of the room's functions, and no others."""
    return _step if frame.f_code.co_filename.startswith(_ROOM) else None


def _step(frame: FrameType, event: str, argument: object) -> Any:
    _lines[frame.f_code.co_filename].add(frame.f_lineno)
    return _step


def _forget() -> None:
    """Empty the caches of functions, so that each test runs what it needs."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("tests", "veil"):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """Note the lines of a fixture that serves several tests."""
    global _lines
    if fixturedef.scope == "function":
        return (yield)
    outside, _lines = _lines, _shared[fixturedef.argname]
    try:
        return (yield)
    finally:
        _lines = outside


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _lines.clear()
    _forget()
    begin = time.perf_counter()
    threading.settrace(_enter)
    sys.settrace(_enter)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        for fixture in set(getattr(item, "fixturenames", ())) & set(_shared):
            for name, lines in _shared[fixture].items():
                _lines[name] |= lines
        found = {str(Path(name).relative_to(_ROOM)): sorted(lines) for name, lines in _lines.items()}
        _tests[item.nodeid] = (time.perf_counter() - begin, item.nodeid not in _failed, found)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    Path(_FILE).write_text(json.dumps(_tests), "utf-8")
