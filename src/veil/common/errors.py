"""Errors: every fault a user can cause, under one base class."""

from collections.abc import Iterable
from typing import NamedTuple

from .verdicts import CertificateError as CertificateError
from .verdicts import CertificateFileError as CertificateFileError
from .verdicts import PolicyFileError as PolicyFileError
from .verdicts import TooLargeError as TooLargeError
from .verdicts import VeilError as VeilError

Place = tuple[str | int, ...]

REST = "… and "
"""How a defect begins that says how many more there are than those listed."""


class Defect(NamedTuple):
    """One thing that is wrong: the `message`, names and indices that lead to the value (`at`), the place in words (`where`)."""

    message: str
    at: Place = ()
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class InputError(VeilError, ValueError):
    """An argument or a file that is wrong; lists every defect found, not only the first.

    **Attributes:** `defects`, one sentence each: what, where, found against expected, the remedy; `found`, the same with the
    place of each.
    """

    def __init__(self, subject: str, defects: Iterable[str | Defect]):
        self.subject = subject
        self.found = tuple(defect if isinstance(defect, Defect) else Defect(defect) for defect in defects)
        self.defects = tuple(map(str, self.found))
        if len(self.defects) == 1:
            text = f"{subject}: {self.defects[0]}"
        else:
            listed = [defect for defect in self.defects if not defect.startswith(REST)]
            rest = [defect for defect in self.defects if defect.startswith(REST)]
            lines = [f"{number}. {defect}" for number, defect in enumerate(listed, 1)]
            count = f"more than {len(listed)}" if rest else f"{len(listed)}"
            text = "\n  ".join([f"{subject}: {count} defects", *lines, *rest])
        super().__init__(text)


class ScenarioError(InputError):
    """A scenario file that cannot be read as one; the subject is the file, and each defect names its line and key."""


class ImpossibleObservationError(VeilError, ValueError):
    """An observation that has probability zero under the model and the policy, given what was seen before."""


class InfeasibleError(VeilError):
    """A threshold on the return that no policy reaches; says the largest return there is and what to do instead."""


class CheckpointError(VeilError):
    """A checkpoint that cannot be written, read, or that belongs to another run."""


class ModelFileError(VeilError, ValueError):
    """A model file that cannot be read as one; names the file, the line if there is one, and what was expected.

    **Attributes:** `path`; `message`, without the place; `line`, counted from 1, or None.
    """

    def __init__(self, path: object, message: str, line: int | None = None):
        self.path, self.message, self.line = str(path), message, line
        place = self.path if line is None else f"{self.path}, line {line}"
        super().__init__(f"{place}: {message}")


class MissingExtraError(VeilError, ImportError):
    """A package that veil needs only for this is not installed; says how to install it."""


class PluginError(VeilError):
    """A package that adds to veil through an entry point cannot be loaded, or adds a name that is taken; names the package."""
