"""The pane Look: a policy of a run, or the uniform one, with the figures of the report; and what Play needs to know of it."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.errors import InputError, TooLargeError
from ..formats.results.document import encoded
from ..formats.results.folder import DOCUMENT, read_result
from ..formats.scenario.load import read_scenario
from ..measure.measures import joint_table
from ..policy.markov import MarkovPolicy
from ..problem.problem import Problem
from ..report.answer import Answer, Claim, audit, make_answer, verdict
from ..report.behaviour import Behaviour, behave
from ..report.observing import sample_runs
from ..report.page_data import figure_data
from ..report.scene import Scene, make_scene
from ..report.smoothing import smooth_runs
from .routes import Request, text_of

if TYPE_CHECKING:
    from .state import Studio

UNIFORM = "uniform"
_SECONDS = 5.0  # for measuring the uniform policy, and for the table of all sequences: a person waits
_MEMORY = 2**28
_RUNS = 6  # sampled runs to choose from, as in the report


@dataclass(frozen=True, eq=False)
class Subject:
    """A policy to look at or to play with: its problem, and what is known of it."""

    problem: Problem
    answer: Answer

    @cached_property
    def behaviour(self) -> Behaviour:
        """The policy over states and time."""
        return behave(self.problem, self.answer.solution.policy)

    @cached_property
    def scene(self) -> Scene:
        """The picture of the problem."""
        return make_scene(self.problem, self.behaviour.visits)

    @cached_property
    def claim(self) -> Claim | None:
        """What is proven of how much the policy hides; None where nothing is, or where revealing was the goal."""
        return self.answer.claim if self.answer.solution.goal == "opaque" else None

    @cached_property
    def best_guess(self) -> float | None:
        """The probability that the best guess after all observations is right; None where they are too many."""
        try:
            table = joint_table(self.problem, self.answer.solution.policy, memory_bytes=_MEMORY, time_limit=_SECONDS)
        except TooLargeError:
            return None
        return float(table.guess_probability)

    def facts(self) -> dict[str, Any]:
        """The numbers about the policy, in bits."""
        found = self.answer.solution
        return {
            "problem": self.problem.name,
            "question": self.problem.secret.describe(self.problem),
            "policy": found.policy_class,
            "opacity": encoded(found.opacity),
            "expected_return": found.expected_return,
            "threshold": found.threshold,
            "lower": None if self.claim is None else self.claim.lower,
            "upper": None if self.claim is None else self.claim.upper,
            "verdict": verdict(self.answer),
        }


def look(request: Request, studio: "Studio") -> dict[str, Any]:
    """The figures of one policy: `id`, a run or `uniform`."""
    return look_document(subject_of(studio, text_of(request, "id")))


def look_document(subject: Subject) -> dict[str, Any]:
    """`facts`, and `data`, which the script of the report draws."""
    path = subject.problem.secret_table.path is not None
    sample = smooth_runs(subject.behaviour, _RUNS)[0] if path else sample_runs(subject.behaviour, _RUNS)
    return {"facts": subject.facts(), "data": figure_data(subject.scene, subject.behaviour, sample.runs)}


def subject_of(studio: "Studio", run: str) -> Subject:
    """The policy of a run, or the uniform policy of the scenario on the page.

    **Raises:** `Refused` where there is no such run; `InputError` where it has no result, or the scenario has defects.
    """
    if run == UNIFORM:
        return subject_of_text(studio.scenario, studio.name, studio.base)
    folder = studio.runs.get(run).result
    try:
        stamp = (folder / DOCUMENT).stat().st_mtime_ns
    except OSError:
        raise InputError(
            f"run {run}", ["there is no result of it: it is still searching, failed, or was deleted"]
        ) from None
    return _subject_of_result(folder, stamp)


@lru_cache(maxsize=8)
def subject_of_text(text: str, name: str, base: Path | None) -> Subject:
    """The uniform policy of a scenario's text."""
    problem = read_scenario(text, source=name, name=name, folder=base).problem
    return Subject(problem, audit(problem, MarkovPolicy.uniform(problem), time_limit=_SECONDS))


@lru_cache(maxsize=8)
def _subject_of_result(folder: Path, stamp: int) -> Subject:
    result = read_result(folder)
    return Subject(result.problem, make_answer(result.problem, result))
