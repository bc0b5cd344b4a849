"""Result folders: the problem, the policy, the history, the certificate, and one JSON document about them all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from ...common.checks import Defects
from ...common.errors import InputError, TooLargeError
from ...common.files import check_replaceable, file_errors, locked, read_whole, reason, write_whole
from ...planning.solution import History, Solution
from ...policy.markov import MarkovPolicy
from ...policy.policy import Policy
from ...problem.belief import UNIFORM
from ...problem.fingerprint import fingerprint
from ...problem.problem import Problem
from ...proof.certificate import Certificate
from ...proof.compiled import content_of
from ...proof.verify import counted_problem
from ..documents import json_text, refuse_document
from ..policies.files import load_policy
from .document import ResultDocument, decoded, result_document
from .history import COLUMNS, history_csv, read_history
from .scenario import MARKER, SCENARIO, Origin, read_problem_text, write_problem_text

DOCUMENT = "result.json"
POLICY = "policy.safetensors"
HISTORY = "history.csv"
CERTIFICATE = "certificate.json"
PROBLEM = "problem.bin"
_MOST_BYTES = 2**24  # of the document, which holds no tables and no history
_GIVE_IT = "name the scenario before the folder, or give problem="
_MOST_CONTENT = 2**28  # of the problem's own numbers, from which a certificate is verified
_MARKERS = {  # what every such file contains that veil wrote
    DOCUMENT: b"veil-result-",
    POLICY: b"veil-policy-",
    HISTORY: ",".join(COLUMNS).encode(),
    SCENARIO: MARKER,
    PROBLEM: b"veil-record-",
    CERTIFICATE: b"veil-certificate-",
}


@dataclass(frozen=True)
class Result:
    """A result folder whose files match their hashes in the document."""

    folder: Path
    document: ResultDocument

    def policy(self) -> Policy:
        """The policy that was found."""
        return load_policy(self.folder / POLICY)

    def history(self) -> History:
        """How the search went."""
        return read_history(self.folder / HISTORY)

    @property
    def certificate(self) -> Path | None:
        """The certificate's file, where one was made."""
        return self.folder / CERTIFICATE if CERTIFICATE in self.document.files else None

    @property
    def problem(self) -> Problem:
        """The problem that was solved, from the folder alone; raises `InputError` if it is not there, or is another one."""
        if SCENARIO not in self.document.files:
            raise InputError(
                str(self.folder), [f"the folder has no {SCENARIO}, since the problem has no form in files: {_GIVE_IT}"]
            )
        if self.problem_differs:
            words = f"{SCENARIO} is not the problem that {DOCUMENT} names: it was changed, or another version of veil wrote it"
            raise InputError(str(self.folder), [words])
        return self._problem

    @property
    def problem_differs(self) -> bool:
        """Whether the folder has another problem than its document names; raises `InputError` if it cannot be read."""
        return fingerprint(self._problem) != self.document.problem.fingerprint

    @cached_property
    def _problem(self) -> Problem:
        return read_problem_text(self.folder, self.document.problem.name)

    def solution(self, problem: Problem | None = None) -> Solution:
        """What was found, with its problem; nothing is verified.

        **Arguments:** `problem`: that of the folder by default.

        **Raises:** `InputError` if another problem is given.
        """
        known = self.problem if problem is None else problem
        if problem is not None and fingerprint(problem) != self.document.problem.fingerprint:
            words = f"the result is about another problem than {problem.name!r}: the scenario was changed, or is another one"
            raise InputError(str(self.folder), [words])
        return decoded(
            self.document.answer,
            policy=self.policy(),
            history=self.history(),
            certificate=None if self.certificate is None else Certificate.load(self.certificate),
            certificate_note=self.document.certificate_note,
            problem=known,
        )

    @property
    def scenario(self) -> str | None:
        """Where the problem came from, as a command takes it: `gallery:NAME`, or a path from the working folder."""
        found = self.document.problem.scenario
        return found if found is None or found.startswith("gallery:") else os.path.normpath(self.folder / found)


def load_result(folder: str | Path, problem: Problem | None = None) -> Solution:
    """The solution in a result folder, with its problem: `solution.policy`, `solution.problem`, `solution.certificate`, ….

    The folder is complete, so that it can be read on any machine. All files are compared with their hashes; the certificate is
    not verified: `veil.verify(solution.certificate, solution.problem, solution.policy)`.

    **Arguments:** `folder`: that of `veil solve` or `Solution.save`; `problem`: only for a problem that was too large to be
    kept in the folder.

    **Raises:** `InputError` naming the file or the entry that is wrong.
    """
    return read_result(folder).solution(problem)


def named_policy(problem: Problem, text: str) -> Policy:
    """The policy of a file, of a result folder, or the uniform one for `"uniform"`; raises if it cannot be read."""
    if text == UNIFORM:
        return MarkovPolicy.uniform(problem)
    return read_result(text).policy() if os.path.isdir(text) else load_policy(text, problem)


def write_result(
    folder: str | Path,
    problem: Problem,
    solution: Solution,
    origin: Origin | None = None,
) -> ResultDocument:
    """Write a solution as a result folder, complete or not at all.

    A new folder appears in one step. In a folder that exists, the old document is removed first and the new one is written
    last: a reader finds the old result, none, or the new one.

    **Arguments:** `origin`: where the problem came from.

    **Raises:** `InputError` where the folder cannot be written.
    """
    folder = Path(os.path.abspath(folder))
    with file_errors(folder, "the result cannot be written"), staged(folder) as staging:
        document = _write_files(staging, folder, problem, solution, origin or Origin())
        _publish(folder, staging, document)
        return document


def save_solution(folder: str | Path, solution: Solution, scenario: str | None) -> None:
    """`Solution.save`: the result folder of a solution that knows its problem."""
    problem = solution.problem
    if problem is None:
        raise InputError("solution", ["it does not know its problem, which only veil.solve records: use write_result"])
    check_writable(folder)
    write_result(folder, problem, solution, Origin(scenario))


def check_writable(folder: str | Path) -> None:
    """Raise `InputError` where a result cannot be written to a folder, or would replace what veil did not write.

    Called before a long search.
    """
    folder = Path(os.path.abspath(folder))
    with file_errors(folder, "the result cannot be written"):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(None, "it exists and is not a directory")
        place = next(parent for parent in folder.parents if parent.exists())
        with staged(place / folder.name):
            pass
        if folder.exists():
            _check_own(folder, _MARKERS)


def check_rerun(folder: str | Path, question: Mapping[str, object]) -> None:
    """Raise `InputError` where a folder has the result of another question, which would be lost.

    **Arguments:** `question`: the problem's fingerprint, the goal, the objective, the method and the memory that are asked
    for; limits and seeds may differ. A folder without a readable result has nothing to lose.
    """
    try:
        document = read_result(folder, check_files=False).document
    except InputError:
        return
    answer = document.answer
    known = {"problem": document.problem.fingerprint, "memory": answer.settings.get("memory")}
    known |= {name: getattr(answer, name) for name in ("goal", "objective", "method")}
    other = [name for name, value in known.items() if value is not None and question.get(name, value) != value]
    if other:
        words = f"it holds the result of another run, with another {' and '.join(other)}"
        raise InputError(str(folder), [f"{words}: choose a folder with -o, or pass --force to replace it"])


def read_result(path: str | Path, *, check_files: bool = True) -> Result:
    """The result in a folder, or beside a `result.json`.

    **Arguments:** `check_files`: whether to compare the files beside the document with their hashes in it; a verifier does
    not, since it trusts none of them.

    **Raises:** `InputError` naming the entry of the document that is wrong, or the file that is missing or does not match its
    hash.
    """
    path = Path(path)
    document_path = path if path.name == DOCUMENT else path / DOCUMENT
    folder, subject = document_path.parent, str(document_path)
    try:
        document = ResultDocument.model_validate_json(read_whole(document_path, _MOST_BYTES))
    except OSError as error:
        raise InputError(subject, [f"no result can be read: {reason(error)}"]) from None
    except ValidationError as error:
        refuse_document(subject, error)
    if check_files:
        _check_files(folder, document)
    return Result(folder, document)


def _check_files(folder: Path, document: ResultDocument) -> None:
    defects = Defects(str(folder))
    for name in (POLICY, HISTORY):
        if name not in document.files:
            defects.add(f"{DOCUMENT} does not list {name}")
    for name, expected in document.files.items():
        try:
            if hashlib.sha256(read_whole(folder / name)).hexdigest() != expected:
                defects.add(f"{name} does not match its hash in {DOCUMENT}: solve again")
        except OSError as error:
            defects.add(f"{name} is listed in {DOCUMENT} and cannot be read: {reason(error)}")
    defects.raise_if_any()


def _place_of(scenario: str | None, folder: Path) -> str | None:
    """A scenario's path from the folder, so that both can be moved together."""
    if scenario is None or scenario.startswith("gallery:"):
        return scenario
    return Path(os.path.relpath(os.path.abspath(scenario), folder)).as_posix()


def _write_files(staging: Path, folder: Path, problem: Problem, solution: Solution, origin: Origin) -> ResultDocument:
    solution.policy.save(staging / POLICY)
    write_whole(staging / HISTORY, history_csv(solution.history), marker=_MARKERS[HISTORY])
    if solution.certificate is not None:
        solution.certificate.save(staging / CERTIFICATE)
    certificate = solution.certificate
    content = problem_content(problem if certificate is None else counted_problem(certificate, problem))
    if content is not None:
        write_whole(staging / PROBLEM, content, marker=_MARKERS[PROBLEM])
    write_problem_text(staging, problem, origin, [path.name for path in staging.iterdir()])
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(staging.iterdir())}
    document = result_document(problem, solution, _place_of(origin.scenario, folder), origin.changes, files)
    write_whole(staging / DOCUMENT, json_text(document.model_dump(mode="json")).encode(), marker=_MARKERS[DOCUMENT])
    return document


def problem_content(problem: Problem) -> bytes | None:
    """The arrays that verifiers read; None where they are more than 256 MiB."""
    try:
        content = content_of(problem)
    except TooLargeError:
        return None
    return content if len(content) <= _MOST_CONTENT else None


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A new folder beside another one, with the permissions that the umask leaves; removed at the end if it is still there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = folder.parent / f".{folder.name[:200]}.{secrets.token_hex(8)}"
    staging.mkdir()
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _publish(folder: Path, staging: Path, document: ResultDocument) -> None:
    """Rename the finished folder to its place, or, where one is there, replace the files in it; one writer at a time."""
    if not folder.exists():
        try:
            os.rename(staging, folder)
            return
        except OSError:
            if not folder.is_dir():  # another writer may have been faster
                raise
    with locked(folder):
        _check_own(folder, (DOCUMENT, *document.files))
        _replace(folder, staging, document)


def _check_own(folder: Path, names: Iterable[str]) -> None:
    """Raise `OSError` where a file of one of these names was not written by veil."""
    for name in names:
        try:
            check_replaceable(folder / name, _MARKERS.get(name, b"veil-certificate-"))
        except OSError as error:
            raise OSError(error.errno, f"{name}: {reason(error)}") from None


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
        with suppress(OSError):  # what veil did not write stays
            _check_own(folder, (name,))
            (folder / name).unlink(missing_ok=True)
    os.replace(staging / DOCUMENT, folder / DOCUMENT)
