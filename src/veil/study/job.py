"""One run of a study, wherever it is executed: solve a scenario with changes, write its result folder."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..common.errors import InfeasibleError, VeilError
from ..engine.threads import one_blas_thread
from ..formats.gallery import GALLERY
from ..formats.results.folder import named_policy
from ..formats.results.run import measure_scenario, run_scenario
from ..formats.results.scenario import Origin
from ..formats.scenario.load import Scenario, read_scenario
from .content import Files, unchanged
from .folder import StudyFolder

_LATE = 75  # exit status of a worker that ended a run over its limit


@dataclass(frozen=True)
class Job:
    """What a worker needs to know.

    **Attributes:** `text` and `files`: the scenario as it was hashed; `limit`: seconds after which the process is ended;
    `policy`: what is measured in place of a search.
    """

    key: str
    scenario: str
    text: str
    files: Files
    changes: tuple[str, ...]
    folder: str
    limit: float | None = None
    policy: str | None = None


@one_blas_thread
def perform(job: Job) -> str:
    """Execute a run; its result folder is there afterwards.

    **Returns:** an empty text, or why there is no result: a defect of the scenario, an infeasible threshold. Anything else
    that goes wrong is raised, since it may go better elsewhere; `KeyboardInterrupt` where the search was interrupted, which
    then has no result.
    """
    folder = StudyFolder(job.folder)
    if not folder.path.is_dir():
        raise FileNotFoundError(f"this worker does not see the folder {folder.path}: it must be shared by all machines")
    if folder.is_done(job.key):
        return ""
    ended = folder.failure(job.key)
    if ended is not None:
        return str(ended["reason"])
    try:
        with _limited(job, folder):
            _solve(job, folder)
    except VeilError as error:
        kind = "infeasible" if isinstance(error, InfeasibleError) else type(error).__name__
        return f"{kind}: {error}"
    return ""


def _solve(job: Job, folder: StudyFolder) -> None:
    with unchanged(job.files):
        scenario = _opened(job)
        policy = None if job.policy is None else named_policy(scenario.problem, job.policy)
    checkpoint, origin = folder.checkpoint(job.key), Origin(job.scenario, job.changes, job.text)
    settings = {**scenario.settings, "progress": False}
    if policy is not None:
        measure_scenario(scenario.problem, policy, settings, folder.result(job.key), origin)
        return
    run_scenario(
        scenario.problem, settings, folder.result(job.key), origin, checkpoint=checkpoint, keep_interrupted=False
    )
    checkpoint.unlink(missing_ok=True)


def _opened(job: Job) -> Scenario:
    """The scenario of the text that was hashed, not of what its file has become."""
    if job.scenario.startswith(GALLERY):
        name = job.scenario.removeprefix(GALLERY)
        return read_scenario(job.text, source=f"gallery problem {name!r}", name=name, changes=job.changes)
    path = Path(job.scenario)
    return read_scenario(job.text, source=job.scenario, name=path.stem[:200], folder=path.parent, changes=job.changes)


@contextmanager
def _limited(job: Job, folder: StudyFolder) -> Iterator[None]:
    """End this process when the run is over its limit, with the reason noted."""
    if job.limit is None:
        yield
        return

    def end() -> None:
        folder.note_failure(job.key, f"it was ended after its limit of {job.limit:g} s", 1)
        os._exit(_LATE)

    timer = threading.Timer(job.limit, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
