"""What Ctrl-C and SIGTERM do for a while: handlers that are put back, and interrupts that wait."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def handling(handlers: "dict[signal.Signals, Callable[..., None] | signal.Handlers]") -> Iterator[None]:
    """Handle these signals by these functions; outside of the main thread, which alone may do that, as before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def interrupts_wait() -> Iterator[None]:
    """Ignore interrupts while files are written."""
    with handling({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: signal.SIG_IGN}):
        yield
