"""What all tests need: Ctrl-C must work in the processes that they start."""

import signal
import threading


def pytest_configure() -> None:
    """Take SIGINT back where the shell began us with it ignored, as shells do in the background: children inherit that."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
