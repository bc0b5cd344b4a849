"""One run in a process of its own: it solves or sweeps, reports lines of JSON on standard output, and ends with the server.

`python -m veil.studio.work FOLDER` is started by `studio/runs.py`. Standard input is a pipe that the server holds open: when it
is closed, by a request to stop or because the server is gone, the search ends as after Ctrl-C, with its best result saved.
"""

import _thread
import faulthandler
import json
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import VeilError
from .folders import CHECKPOINT, CURVE, RESULT, SCENARIO, RunDocument, read_run

if TYPE_CHECKING:
    from ..common.clock import Progress
    from ..formats.scenario.load import Scenario

END_SECONDS = 15.0  # after the pipe is closed, a process that has not ended by then is ended
_REPORT_SECONDS = 0.1  # between two reports of one phase
_CHECKPOINT_SECONDS = 5.0  # what a machine that fails may cost


def main(folder: Path) -> int:
    """Perform the run of a folder; the exit status is 0 unless something went wrong that was not reported."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_end_with_the_pipe, daemon=True).start()
    try:
        run = read_run(folder)
        _say(event="begun", resumed=(folder / CHECKPOINT).is_file())
        scenario = run.opened(folder)
        if run.kind == "frontier":
            _sweep(folder, run, scenario)
        else:
            _solve(folder, run, scenario)
    except KeyboardInterrupt:
        pass  # nothing was found yet; a checkpoint may be there
    except VeilError as error:
        _say(event="failed", message=str(error))
    except MemoryError:
        _say(event="failed", message="not enough memory: use a smaller problem or a sampled evaluation")
    return 0


def _solve(folder: Path, run: RunDocument, scenario: "Scenario") -> None:
    from ..formats.results.run import run_scenario
    from ..formats.results.scenario import Origin

    place = folder / SCENARIO
    settings = {**scenario.settings, "progress": _Reporter()}
    origin = Origin(str(place), run.changes, place.read_text("utf-8"))
    kept = {"checkpoint": folder / CHECKPOINT, "checkpoint_every": _CHECKPOINT_SECONDS}
    run_scenario(scenario.problem, settings, folder / RESULT, origin, **kept)


def _sweep(folder: Path, run: RunDocument, scenario: "Scenario") -> None:
    from ..common.settings import settings
    from ..formats.results.curve import write_curve
    from ..tradeoffs.frontier import frontier
    from ..tradeoffs.options import FrontierOptions

    known = settings(FrontierOptions)
    chosen = {name: value for name, value in scenario.settings.items() if name in known}
    chosen |= {"points": run.points, "checkpoint": folder / CHECKPOINT, "progress": _Reporter()}
    curve = frontier(scenario.problem, **chosen)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    place = str(folder / SCENARIO)
    write_curve(folder / CURVE, scenario.problem, curve, run.points, scenario=place, changes=run.changes)


class _Reporter:
    """A function for `progress` that writes a line at most ten times a second, and one for each point of a curve."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._last, self._phase = -math.inf, ""

    def __call__(self, news: "Progress") -> None:
        from ..proof.certify import PROVING
        from ..tradeoffs.frontier import POINT

        now = time.monotonic()
        if news.phase == POINT or news.phase != self._phase or now - self._last >= _REPORT_SECONDS:
            self._last, self._phase = now, news.phase
            found = {"proven_upper": news.upper_bits}
            if news.phase != PROVING:
                found |= {"bits": news.opacity_bits, "expected_return": news.expected_return}
            told = {name: value for name, value in found.items() if math.isfinite(value)}
            _say(
                event="point" if news.phase == POINT else "progress", phase=news.phase, iteration=news.iteration,
                of=news.of, seconds=now - self._begin, **told,
            )  # fmt: skip


def _say(**facts: Any) -> None:
    with suppress(OSError):  # a server that is gone reads nothing, and the result is still to be written
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


def _end_with_the_pipe() -> None:
    """Wait until standard input is closed; then interrupt the search, and end the process where that takes too long."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    with open(os.devnull, "w") as nowhere:
        # By a thread of its own that needs no interpreter, which may be busy in a long computation.
        faulthandler.dump_traceback_later(END_SECONDS, exit=True, file=nowhere)
        _thread.interrupt_main()
        time.sleep(END_SECONDS + 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
