"""`make reproduce`: all experiments in order, each kept as it is ready, then the tables and figures of them all."""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from veil import MarkovPolicy, gallery, opacity_gradient
from veil.common.clock import Clock
from veil.common.errors import InputError
from veil.common.files import write_whole
from veil.common.workers import Team
from veil.engine.threads import one_blas_thread
from veil.report.style import new_figure, save_figure

from . import baseline, convergence, later_grid, planned, readings, sensitivity
from .figures import FIGURES
from .layouts import RECONSTRUCTION, PaperGrid
from .page import PREFIX, page
from .published import LATER, PAPER
from .store import Settings, Store, Times

Results = dict[str, Any]
Work = Callable[[Settings, Results, Times], Any]

# Seconds that one gradient of the last-state problem took where the pieces below were timed, on one core of two.
_REFERENCE_SECONDS = 0.0028
_TRIALS = 20


@dataclass(frozen=True)
class Piece:
    """One part of a run: its name, what it does in words, the work, the seconds it took where it was timed, and the parts
    whose results it needs.
    """

    name: str
    words: str
    work: Work
    seconds: float
    quick_seconds: float
    needs: tuple[str, ...] = ()

    def estimate(self, settings: Settings) -> float:
        """Seconds on the machine where the pieces were timed."""
        return self.quick_seconds if settings.quick else self.seconds


def pieces(settings: Settings) -> list[Piece]:
    """All parts of a run, in order: a part needs only results of those before it."""
    found = [
        Piece(f"planned-{paper.key}", f"{paper.words}: the best stationary policy and its proof",
              lambda s, _, times, paper=paper: planned.plan(paper, s, times), *seconds)
        for paper, seconds in zip(PAPER, ((13.0, 1.0), (40.0, 5.0)), strict=True)
    ]  # fmt: skip
    found += [
        Piece(f"convergence-{paper.key}", f"{paper.words}: the primal-dual method, sampled gradients",
              lambda s, _, times, paper=paper: convergence.converge(paper, s, times), *seconds)
        for paper, seconds in zip(PAPER, ((13.0, 10.0), (29.0, 4.0)), strict=True)
    ]  # fmt: skip
    found.append(Piece("baseline", "the entropy-regularised baseline at ten temperatures",
                       lambda s, _, times: baseline.compare(s, times), 10.0, 10.0))  # fmt: skip
    found.append(Piece("readings", "the initial-state number in three readings", _read, 20.0, 3.0,
                       needs=("planned-initial", "convergence-initial")))  # fmt: skip
    runs = LATER[::3] if settings.quick else LATER
    found += [
        Piece(run.key, f"the later grid, {run.words}",
              lambda s, _, times, run=run: later_grid.beside(run, s, times), 30.0, 7.0)
        for run in runs
    ]  # fmt: skip
    found.append(
        Piece("layouts", "other layouts that the text allows", lambda s, _, times: sensitivity.draw(s, times), 7.0, 1.0)
    )
    count = sensitivity.QUICK_LAYOUTS if settings.quick else sensitivity.NUM_LAYOUTS
    found += [
        Piece(f"layout-{number:02d}", "the comparison on the reconstruction" if number == 0 else
              f"the comparison on layout {number}", lambda s, done, times, number=number: _compare(number, s, done, times),
              11.0, 3.0, needs=("layouts",) if number else ())
        for number in range(count + 1)
    ]  # fmt: skip
    return found


def _read(settings: Settings, done: Results, times: Times) -> Any:
    return readings.read(done["planned-initial"], done["convergence-initial"], settings, times)


def _compare(number: int, settings: Settings, done: Results, times: Times) -> Any:
    """The comparison on a layout; number 0 is the reconstruction itself."""
    layout = PaperGrid.from_document(done["layouts"]["layouts"][number - 1]) if number else RECONSTRUCTION
    return sensitivity.repeat(layout, settings, times)


@one_blas_thread
def run(folder: Path, settings: Settings, tell: Callable[[str], None], workers: int | str = 1) -> tuple[Store, Results]:
    """Run every piece that is not in the folder yet.

    **Arguments:** `tell`: called with lines about the progress; `workers`: as for `veil.opacity`. Workers of a cluster see the
    package `reproduction`.

    **Returns:** the store, and the results of all pieces by name; they do not depend on interruptions.

    **Raises:** `InputError` where matplotlib, which draws the figures in the end, is not installed.
    """
    new_figure()  # raises before any work where matplotlib is missing
    store, listed = Store(folder, settings), pieces(settings)
    store.prepare()
    done = {piece.name: result for piece in listed if (result := store.read(piece.name)) is not None}
    left = [piece for piece in listed if piece.name not in done]
    begin, pace = clock.monotonic(), _pace() if left else 1.0
    tell(_forecast(len(done), left, settings, pace))
    number, waiting = 0, left
    with Team(workers) as team:
        while waiting:  # in turn, all parts whose results are there that they need
            ready = [piece for piece in waiting if all(name in done for name in piece.needs)]
            waiting = [piece for piece in waiting if piece not in ready]
            asked = [(piece.name, {name: done[name] for name in piece.needs}) for piece in ready]
            for piece, (result, times) in zip(ready, team.shares(_worked, settings, asked), strict=True):
                done[piece.name] = store.write(piece.name, result, times)
                number += 1
                spent, so_far = clock.monotonic() - begin, sum(one.estimate(settings) for one in left[:number])
                ahead = sum(one.estimate(settings) for one in left[number:]) * spent / so_far
                tell(f"{len(done)}/{len(listed)} {piece.words}: {times.seconds['all']:.0f} s; {_about(ahead)} left")
    return store, done


@one_blas_thread
def _worked(settings: Settings, asked: tuple[str, Results], _: Clock) -> tuple[Any, Times]:
    """The result of a part and how long it took, from the results that it needs."""
    name, needed = asked
    piece = next(one for one in pieces(settings) if one.name == name)
    times, processor = Times(), clock.process_time()
    with times.of("all"):
        result = piece.work(settings, needed, times)
    times.seconds["processor"] = clock.process_time() - processor
    return result, times


def plan_lines(folder: Path, settings: Settings) -> list[str]:
    """What a run would do: the pieces, which of them are done, and how long the others take."""
    store = Store(folder, settings)
    lines, left = [], []
    for piece in pieces(settings):
        there = store.read(piece.name) is not None
        left += [] if there else [piece]
        lines.append(f"{piece.name:<20} {'done' if there else _about(piece.estimate(settings)):<14} {piece.words}")
    return [*lines, _forecast(len(lines) - len(left), left, settings, _pace() if left else 1.0)]


def write_pages(folder: Path, store: Store, results: Results) -> list[Path]:
    """The page and the figures, each whole; returns their paths. The same results, the same bytes.

    **Raises:** `InputError` where one cannot be written.
    """
    paths = [folder / f"{PREFIX}.md"]
    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        write_whole(paths[0], page(results, store.settings).encode())
    except OSError as error:
        raise InputError(str(folder), [f"it cannot be written: {error.strerror or error}"]) from None
    for name, (draw, _) in FIGURES.items():
        paths.append(folder / "figures" / f"{PREFIX}-{name}.png")
        save_figure(draw(results), paths[-1])
    return paths


def _pace() -> float:
    """How many times slower than the machine of the estimates a core of this one is, by a short trial."""
    problem = gallery.load("paper-last-state")
    theta = MarkovPolicy.uniform(problem).probabilities
    opacity_gradient(problem, theta)
    seconds = []
    for _ in range(_TRIALS):
        begin = clock.perf_counter()
        opacity_gradient(problem, theta)
        seconds.append(clock.perf_counter() - begin)
    return min(seconds) / _REFERENCE_SECONDS  # others on the machine slow some of them down, none is too quick


def _forecast(num_done: int, left: list[Piece], settings: Settings, pace: float) -> str:
    kind = "a quick run" if settings.quick else "the full run"
    if not left:
        return f"{kind}: all {num_done} parts are done; only the tables and figures are written"
    seconds = pace * sum(piece.estimate(settings) for piece in left)
    done = f" ({num_done} of {num_done + len(left)} are done)" if num_done else ""
    parts = f"{len(left)} part{'s' if len(left) > 1 else ''} to run{done}"
    return f"{kind}: {parts}, {_about(seconds)} on a free core; after an interruption the same command resumes it"


def _about(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < 100 else f"about {seconds / 60:.0f} min"
