"""What all tests need: Ctrl-C works in the processes they start, in CI no test is skipped, shapes are checked on demand."""

import os
import signal
import threading
from collections.abc import Generator

import pytest

if os.environ.get("VEIL_CHECK_SHAPES") == "1":  # before anything of ours is imported
    from jaxtyping import install_import_hook

    from tests import shapes as shapes  # found by its name

    install_import_hook("veil", "tests.shapes.check_arrays")


def pytest_configure() -> None:
    """Take SIGINT back where the shell began us with it ignored, as shells do in the background: children inherit that."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With VEIL_REQUIRE_ALL=1 a skipped test fails."""
    report = yield
    _forbid_skipping(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """With VEIL_REQUIRE_ALL=1 a skipped module fails."""
    report = yield
    _forbid_skipping(report)
    return report


def _forbid_skipping(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("VEIL_REQUIRE_ALL") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} (VEIL_REQUIRE_ALL=1: no test may be skipped here)"
