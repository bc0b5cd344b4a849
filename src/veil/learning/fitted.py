"""`Fitted`: what was estimated from logs, how sure that is, what it hides, and its files."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from ..common.errors import InputError
from ..common.files import file_errors, write_whole
from ..common.text import aligned
from ..common.values import Value
from ..formats.documents import json_text
from ..formats.registry import write_problem
from ..formats.results.document import encoded, schema_of
from ..formats.results.folder import staged
from ..measure.result import Opacity
from ..policy.policy import Policy
from ..problem.problem import Problem
from .tables import Interval

SCENARIO, POLICY, DOCUMENT = "scenario.toml", "policy.safetensors", "fit.json"
_FORMAT = "veil-fit-1"
_IN_FILES = ("problem", "policy")  # beside the document


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Value):
    """What recorded runs say about a model, an observer and a policy.

    **Attributes:**

    - `problem`, `policy`: with the posterior means; what was not estimated is that of the scenario.
    - `what`: the parts that were estimated, of `"model"`, `"sensors"`, `"policy"`.
    - `intervals`: every estimated probability with its credible interval, which is NaN if states are hidden.
    - `log_likelihood`: natural logarithm of the probability of what the estimated parts explain, at the means.
    - `opacity`: of `policy` in `problem`, which is biased: noise in estimates looks like information. `corrected_bits`: with
      the bias corrected by a bootstrap of `draws`; `opacity_interval`: the interval of the true bits, which holds both.
      None if states are hidden or draws were too few.
    - `confidence`: of all intervals; `num_runs`; `notes`: notes on the estimates, a sentence each.
    """

    problem: Problem
    policy: Policy
    what: tuple[str, ...]
    intervals: tuple[Interval, ...]
    log_likelihood: float
    opacity: Opacity
    corrected_bits: float | None
    opacity_interval: tuple[float, float] | None
    draws: int
    confidence: float
    num_runs: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        found = f"{', '.join(self.what)} of {self.problem.name!r} from {self.num_runs:,} runs"
        within = "" if self.opacity_interval is None else " in {:.6g} … {:.6g}".format(*self.opacity_interval)
        bits = self.opacity.bits if self.corrected_bits is None else self.corrected_bits
        return f"Fitted({found}: {bits:.6g} bits{within})"

    def summary(self) -> str:
        """A small table, and notes on the estimates."""
        return "\n".join([aligned(self._facts()), *self.notes])

    def document(self) -> dict[str, Any]:
        """Everything but the problem and the policy, in the form of JSON."""
        return {"format": _FORMAT} | encoded(self, *_IN_FILES)

    def save(self, folder: str | Path) -> None:
        """Write `scenario.toml`, `policy.safetensors` and `fit.json`, each complete or not at all; the document last.

        `veil measure`, `veil solve` and `veil report` read the first two. A folder that holds another fit is replaced.

        **Raises:** `InputError` if the folder cannot be written or holds other files.
        """
        folder = Path(os.path.abspath(folder))
        check_folder(folder)
        with file_errors(folder, "the fit cannot be written"), staged(folder) as staging:
            write_problem(staging / SCENARIO, self.problem)
            self.policy.save(staging / POLICY)
            folder.mkdir(exist_ok=True)
            for name in (SCENARIO, POLICY):
                write_whole(folder / name, (staging / name).read_bytes())
            write_whole(folder / DOCUMENT, json_text(self.document()).encode())

    def _facts(self) -> Iterator[tuple[str, str]]:
        widest = max((one.high - one.low for one in self.intervals), default=0.0)
        wide = "" if math.isnan(widest) else f", intervals at most {widest:.3g} wide"
        yield "runs", f"{self.num_runs:,}"
        yield "estimated", ", ".join(self.what)
        yield "probabilities", f"{len(self.intervals):,}{wide}"
        yield "log-likelihood", f"{self.log_likelihood:.6g}"
        prior = self.opacity.prior_bits
        if self.corrected_bits is not None and self.opacity_interval is not None:
            low, high = self.opacity_interval
            yield "hidden", f"{self.corrected_bits:.6f} of {prior:.6f} bits, with the bias of the estimates corrected"
            yield "interval", f"{low:.6f} … {high:.6f} bits ({100 * self.confidence:g}%, {self.draws} draws)"
        yield "fitted problem", f"hides {self.opacity.bits:.6f} of {prior:.6f} bits ({self.opacity.method})"


def check_folder(folder: str | Path) -> None:
    """Raise `InputError` where a folder is none, or holds files that no fit has written."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(str(folder), ["it exists and is not a folder: choose another name"])
    other = sorted({one.name for one in folder.iterdir()} - {SCENARIO, POLICY, DOCUMENT}) if folder.is_dir() else []
    if other:
        raise InputError(str(folder), [f"it holds {other[0]!r}, which no fit writes: choose another folder"])
    if folder.is_dir() and (folder / SCENARIO).exists() and not (folder / DOCUMENT).exists():
        raise InputError(str(folder), [f"it holds a {SCENARIO} without a {DOCUMENT}: choose another folder"])


def fit_schema() -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of `fit.json`."""
    return schema_of(Fitted, _FORMAT, *_IN_FILES)
