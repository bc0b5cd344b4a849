"""Results: a folder with the policy, the history, the proof, and one JSON document with a versioned form about them all."""

import csv
import hashlib
import io
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from ...common.checks import Defects
from ...common.errors import InputError
from ...common.files import write_whole
from ...planning.solution import Solution
from ...problem.fingerprint import fingerprint
from ...problem.problem import Problem
from ..documents import Part, json_text, plain, refuse_document
from ..policies.files import load_policy

FORMAT = "veil-result-1"
DOCUMENT = "result.json"
POLICY = "policy.safetensors"
HISTORY = "history.csv"
CERTIFICATE = "certificate.json"
_MOST_BYTES = 2**28  # of a document that is read: a history of a million iterations takes about a third of it
_COLUMNS = ("iteration", "opacity_bits", "expected_return", "multiplier", "step", "seconds")

Number = Annotated[float, Field(allow_inf_nan=False)] | Literal["inf", "-inf"] | None
FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ProblemPart(Part):
    """Which problem was solved."""

    name: str = Field(description="Its name.")
    fingerprint: str = Field(description="A hash of everything the numbers depend on.")
    scenario: str | None = Field(description="The scenario: `gallery:NAME`, or its path from the result's folder.")
    states: int = Field(description="How many states the model has.")
    actions: int = Field(description="How many actions.")
    observations: int = Field(description="How many observations.")
    horizon: int = Field(description="How many decisions.")
    secret: str = Field(description="The kind of secret.")
    secret_values: list[str] = Field(description="The values that it can take.")


class OpacityPart(Part):
    """How many bits stay hidden."""

    bits: Number = Field(description="H(Z|Y); the lower end of a bracket; the estimate of a sample.")
    lower: Number = Field(description="Proven lower bound.")
    upper: Number = Field(description="Proven upper bound.")
    prior_bits: Number = Field(description="H(Z), before anything is seen.")
    leakage_bits: Number = Field(description="I(Z;Y), what the observer learns.")
    method: Literal["exact", "bracket", "sampled"] = Field(description="How it was found.")
    num_sequences: int = Field(description="Observation sequences that are possible, or that were drawn.")
    std_error: Number = Field(description="Of a sampled estimate, else 0.")
    reason: str = Field(description="Why this method.")


class AnswerPart(Part):
    """What the search found."""

    status: str = Field(description="CONVERGED, ITERATION_LIMIT, TIME_LIMIT, INTERRUPTED or INFEASIBLE.")
    message: str = Field(description="The status in words.")
    feasible: bool = Field(description="Whether the constraint is met.")
    opacity: OpacityPart = Field(description="How many bits stay hidden.")
    expected_return: Number = Field(description="Exact.")
    threshold: Number = Field(description="The return that was asked for; null where none was.")
    policy_class: str = Field(description="Which policies were searched.")
    needs_observations: bool = Field(description="Whether the agent must see what the observer sees.")
    method: str = Field(description="The method.")
    goal: str = Field(description="opaque or transparent.")
    objective: str = Field(description="entropy, leakage or guess.")
    detail: str = Field(description="What else there is to say.")
    price_bits: Number = Field(description="The bits that one more unit of return would cost.")
    stationarity_bits: Number = Field(description="What the best first-order change of the policy promises.")
    iterations: int = Field(description="How many were made.")
    seconds: Number = Field(description="How long the search took.")
    seed: int = Field(description="Of all random choices.")
    settings: dict[str, Any] = Field(description="Further settings.")


class HistoryPart(Part):
    """One entry for each iteration, of the policy that led then."""

    iteration: list[int] = Field(description="Its number.")
    opacity_bits: list[Number] = Field(description="As evaluated then.")
    expected_return: list[Number] = Field(description="The return.")
    multiplier: list[Number] = Field(description="The price λ of the constraint.")
    step: list[Number] = Field(description="The step size.")
    seconds: list[Number] = Field(description="Since the search began.")


class CertificatePart(Part):
    """What is proven; the proof itself is in the certificate's own files."""

    lower: Number = Field(description="The policy hides at least this many bits (goal opaque).")
    upper: Number = Field(description="No policy of its class of rivals hides more.")
    gap: Number = Field(description="The difference.")
    summary: str = Field(description="The claim in words.")


class ResultDocument(Part):
    """The result of `veil solve`: the document `result.json`."""

    format: Literal["veil-result-1"] = Field(description="The form of this document.")
    veil: str = Field(description="The version that wrote it.")
    problem: ProblemPart = Field(description="Which problem was solved.")
    answer: AnswerPart = Field(description="What was found.")
    certificate: CertificatePart | None = Field(description="What is proven; null where no proof was made.")
    certificate_note: str = Field(description="Why there is no certificate, where there is none.")
    history: HistoryPart = Field(description="How the search went.")
    files: dict[FileName, Hash] = Field(description="The files beside this one, with their SHA-256.")


def result_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of `result.json`."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": FORMAT}
    return head | {key: value for key, value in ResultDocument.model_json_schema().items() if key != "title"}


@dataclass(frozen=True)
class Result:
    """A result folder that was read and found whole: every file is the one that the document speaks of."""

    folder: Path
    document: ResultDocument

    def policy(self) -> Any:
        """The policy that was found."""
        return load_policy(self.folder / POLICY)

    @property
    def certificate(self) -> Path | None:
        """The certificate's file, where one was made."""
        return self.folder / CERTIFICATE if CERTIFICATE in self.document.files else None

    @property
    def scenario(self) -> str | None:
        """The scenario as a command takes it: `gallery:NAME`, or a path from the working folder."""
        found = self.document.problem.scenario
        return found if found is None or found.startswith("gallery:") else os.path.normpath(self.folder / found)


def opacity_document(opacity: Any) -> dict[str, Any]:
    """An `Opacity` as a JSON document."""
    return plain({name: getattr(opacity, name) for name in OpacityPart.model_fields})


def answer_document(solution: Solution) -> dict[str, Any]:
    """A `Solution` as a JSON document, without its history and its policy."""
    fields = [name for name in AnswerPart.model_fields if name not in ("status", "message", "opacity")]
    own = {"status": solution.status.name, "message": solution.status.value}
    return own | {"opacity": opacity_document(solution.opacity)} | plain({n: getattr(solution, n) for n in fields})


def problem_document(problem: Problem, scenario: str | None = None) -> dict[str, Any]:
    """What names a problem, as a JSON document."""
    return {
        "name": problem.name,
        "fingerprint": fingerprint(problem),
        "scenario": scenario,
        "states": problem.num_states,
        "actions": problem.num_actions,
        "observations": problem.observer.num_observations,
        "horizon": problem.horizon,
        "secret": type(problem.secret).__name__,
        "secret_values": list(problem.secret_values),
    }


def certificate_document(certificate: Any) -> dict[str, Any]:
    """The claim of a `Certificate` as a JSON document."""
    return plain({name: getattr(certificate, name) for name in ("lower", "upper", "gap")}) | {
        "summary": certificate.summary()
    }


def write_result(
    folder: str | Path,
    problem: Problem,
    solution: Solution,
    *,
    scenario: str | None = None,
    certificate: Any = None,
    note: str = "",
) -> ResultDocument:
    """Write a solution as a result folder, complete or not at all.

    A new folder appears in one step. In a folder that exists, the old document goes first and the new one comes last, and
    a folder without its document is no result: whoever reads finds the old result, none, or the new one.

    **Arguments:** `scenario`: where the problem came from, a path or `gallery:NAME`; `certificate`: of the policy;
    `note`: why there is none.

    **Raises:** `InputError` where the folder cannot be written.
    """
    folder = Path(os.path.abspath(folder))
    staging = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        document = _write_files(staging, problem, solution, _place_of(scenario, folder), certificate, note)
        os.chmod(staging, 0o755)  # mkdtemp makes a folder that nobody else can enter
        if folder.exists():
            _replace(folder, staging, document)
        else:
            os.rename(staging, folder)
    except OSError as error:
        raise InputError(str(folder), [f"the result cannot be written there: {error.strerror or error}"]) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
    return document


def check_writable(folder: str | Path) -> None:
    """Raise `InputError` where a result cannot be written to a folder; better before a long search than after it."""
    folder = Path(os.path.abspath(folder))
    try:
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(None, "it is there and is no folder")
        place = next(parent for parent in folder.parents if parent.exists())
        os.rmdir(tempfile.mkdtemp(dir=place, prefix=f".{folder.name}."))
    except OSError as error:
        raise InputError(str(folder), [f"the result cannot be written there: {error.strerror or error}"]) from None


def read_result(path: str | Path, *, check_files: bool = True) -> Result:
    """The result in a folder, or beside a `result.json`.

    **Arguments:** `check_files`: whether the files beside the document must be those it speaks of; a verifier, which
    trusts none of them, does not ask.

    **Raises:** `InputError` where there is none, or it is not whole: naming the entry, or the file that is missing or is
    not the one that the document speaks of.
    """
    path = Path(path)
    document_path = path if path.name == DOCUMENT else path / DOCUMENT
    folder, subject = document_path.parent, str(document_path)
    try:
        if document_path.stat().st_size > _MOST_BYTES:
            raise InputError(subject, [f"it is larger than {_MOST_BYTES:,} bytes, which no result is"])
        document = ResultDocument.model_validate_json(document_path.read_bytes())
    except OSError as error:
        raise InputError(subject, [f"there is no result that can be read: {error.strerror or error}"]) from None
    except ValidationError as error:
        refuse_document(subject, error)
    if check_files:
        _check_files(folder, document)
    return Result(folder, document)


def _check_files(folder: Path, document: ResultDocument) -> None:
    defects = Defects(str(folder))
    if POLICY not in document.files:
        defects.add(f"{DOCUMENT} names no {POLICY}, expected one in its files")
    for name, expected in document.files.items():
        try:
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
                defects.add(f"{name} is not the file that {DOCUMENT} speaks of: its SHA-256 differs; solve again")
        except OSError as error:
            defects.add(f"{name} cannot be read, expected the file that {DOCUMENT} speaks of: {error.strerror}")
    defects.raise_if_any()


def _place_of(scenario: str | None, folder: Path) -> str | None:
    """A scenario's path from the folder, so that both can be moved together."""
    if scenario is None or scenario.startswith("gallery:"):
        return scenario
    return Path(os.path.relpath(os.path.abspath(scenario), folder)).as_posix()


def _write_files(
    folder: Path, problem: Problem, solution: Solution, scenario: str | None, certificate: Any, note: str
) -> ResultDocument:
    solution.policy.save(folder / POLICY)  # pyright: ignore[reportAttributeAccessIssue]: the protocol has no files
    write_whole(folder / HISTORY, history_csv(solution))
    if certificate is not None:
        certificate.save(folder / CERTIFICATE)
    rows = solution.history
    document = ResultDocument.model_validate(
        {
            "format": FORMAT,
            "veil": version("veil"),
            "problem": problem_document(problem, scenario),
            "answer": answer_document(solution),
            "certificate": None if certificate is None else certificate_document(certificate),
            "certificate_note": note,
            "history": {name: plain(getattr(rows, name)) for name in _COLUMNS},
            "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())},
        }
    )
    write_whole(folder / DOCUMENT, json_text(document.model_dump(mode="json")).encode())
    return document


def history_csv(solution: Solution) -> bytes:
    """The history as CSV: one line an iteration, numbers to the last digit."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(_COLUMNS)
    lines.writerows(zip(*(getattr(solution.history, name).tolist() for name in _COLUMNS), strict=True))
    return text.getvalue().encode()


def _replace(folder: Path, staging: Path, document: ResultDocument) -> None:
    """Put the new files in the place of the old ones; what else is in the folder stays."""
    try:
        old = set(read_result(folder).document.files)
    except InputError:
        old = set()
    (folder / DOCUMENT).unlink(missing_ok=True)
    for name in document.files:
        os.replace(staging / name, folder / name)
    for name in old - set(document.files):
        (folder / name).unlink(missing_ok=True)
    os.replace(staging / DOCUMENT, folder / DOCUMENT)
