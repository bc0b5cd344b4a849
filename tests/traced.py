"""Which lines of a room each test runs, and how long it takes: a pytest plugin for `tests.mutants`."""

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

TracedTest = tuple[float, bool, dict[str, list[int]]]
"""Seconds of the processor, whether it passed, and the lines of each module that it ran."""


class Tracing:
    """Traces the tests that run while it is registered.

    Lines that a fixture of several tests runs count for each of them, and results kept by `functools.cache` are forgotten
    before each test. What a test does in processes of its own is not seen.

    **Attributes:** `tests`: what each test ran; seconds of the processor do not depend on what else the machine does.
    """

    def __init__(self, room: str):
        self.room = room  # the folder, with its last separator
        self.tests: dict[str, TracedTest] = {}
        self._lines: defaultdict[str, set[int]] = defaultdict(set)  # of the test under way
        self._failed: set[str] = set()
        self._shared: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(
            lambda: defaultdict(set)
        )  # of fixtures

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        """Follow the frames of the room's functions, and no others."""
        return self._step if frame.f_code.co_filename.startswith(self.room) else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        self._lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._step

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """Note the lines of a fixture that serves several tests."""
        if fixturedef.scope == "function":
            return (yield)
        outside, self._lines = self._lines, self._shared[fixturedef.argname]
        try:
            return (yield)
        finally:
            self._lines = outside

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Trace a test."""
        self._lines.clear()
        _forget()
        begin = time.process_time()
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            for fixture in set(getattr(item, "fixturenames", ())) & set(self._shared):
                for name, lines in self._shared[fixture].items():
                    self._lines[name] |= lines
            found = {str(Path(name).relative_to(self.room)): sorted(lines) for name, lines in self._lines.items()}
            self.tests[item.nodeid] = (time.process_time() - begin, item.nodeid not in self._failed, found)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails."""
        if report.failed:
            self._failed.add(report.nodeid)


def _forget() -> None:
    """Empty the caches of functions, so that each test runs what it needs."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("tests", "veil"):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)):
                    value.cache_clear()
