"""The document `result.json` of a result: what each entry is, and the one codec between it and a solution.

Each part is declared once, with the class whose attributes its entries are: `encoded` and `decoded` follow from that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from importlib.metadata import version
from operator import or_
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import Field, create_model
from pydantic.json_schema import JsonSchemaValue

from ...measure.constrained import ConstraintValue
from ...measure.pairs import PairValue
from ...measure.result import Opacity
from ...planning.plan import ClassPlan, Plan
from ...planning.solution import Solution
from ...problem.fingerprint import fingerprint
from ...problem.problem import Problem
from ...proof.certificate import Certificate
from ..documents import Part, plain, published

FORMAT = "veil-result-3"

Number = Annotated[float, Field(allow_inf_nan=False)] | Literal["inf", "-inf"] | None
FileName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ProblemPart(Part):
    """Which problem was solved."""

    name: str = Field(description="Its name.")
    fingerprint: str = Field(description="A hash of everything the numbers depend on.")
    scenario: str | None = Field(
        description="Where the problem came from: `gallery:NAME`, or a path from the result's folder. The problem itself is"
        " in `scenario.toml`."
    )
    changes: list[str] = Field([], description="Values that --set changed in it, such as `horizon=20`.")
    states: int = Field(description="Number of states.")
    actions: int = Field(description="Number of actions.")
    observations: int = Field(description="Number of observations.")
    horizon: int = Field(description="Number of decisions.")
    secret: str = Field(description="The kind of secret.")
    secret_values: list[str] = Field(description="The values that it can take.")


class OpacityPart(Part):
    """The remaining uncertainty of the observer about the secret."""

    of: ClassVar[type] = Opacity

    bits: Number = Field(description="H(Z|Y); the lower end of a bracket; the estimate of a sample.")
    lower: Number = Field(description="Proven lower bound.")
    upper: Number = Field(description="Proven upper bound.")
    prior_bits: Number = Field(description="H(Z), before anything is observed.")
    leakage_bits: Number = Field(description="I(Z;Y), what the observer learns.")
    method: Literal["exact", "bracket", "sampled"] = Field(description="Method of computation.")
    num_sequences: int = Field(description="Number of observation sequences, possible or sampled.")
    std_error: Number = Field(description="Standard error of a sampled estimate, else 0.")
    reason: str = Field(description="Why this method.")


class ConstraintPart(Part):
    """A constraint, with the value of its quantity under the policy."""

    of: ClassVar[type] = ConstraintValue

    name: str = Field(description="The quantity: `return`, the name of a reward, or `P(formula)`.")
    relation: str = Field(description="`≥` or `≤`.")
    bound: Number = Field(description="The bound.")
    value: Number = Field(description="The value under the policy, exact.")
    met: bool = Field(description="Whether the value is within its bound.")
    price_bits: Number = Field(description="The bits that one more unit of the bound would cost.")


class PairPart(Part):
    """A pair (secret, observer) beside the problem's own, with what the policy hides in it."""

    of: ClassVar[type] = PairValue

    name: str = Field(description="The name of the pair.")
    opacity: OpacityPart = Field(description="The remaining uncertainty of its observer about its secret.")
    min: Number = Field(description="Bits that must stay hidden; null if there is no such bound.")
    max: Number = Field(description="The most bits that may stay hidden; null if there is no such bound.")
    met: bool = Field(description="Whether the bits are within the bounds.")
    price_bits: Number = Field(description="The bits that one more bit of the bound would cost.")
    loss_bits: Number = Field(None, description="The loss of an observer that may be wrong; null if it is right.")
    loss_std_error: Number = Field(0.0, description="Standard error of a sampled loss, else 0.")


class ClassPart(Part):
    """What is planned for one class of policies."""

    of: ClassVar[type] = ClassPlan

    policy_class: str = Field(description="The class in words.")
    memory: str = Field(description="The class as options name it.")
    evaluation: Literal["exact", "bracket", "sampled"] = Field(description="How policies are evaluated.")
    why: str = Field(description="Why this evaluation was chosen.")
    starts: int = Field(description="Number of starting policies.")
    rounds: list[list[int]] = Field(description="Iterations of each round, and the number of starts kept after it.")
    last: int = Field(description="Most iterations of the last start.")
    batch: int = Field(description="Sequences of the first gradients; 0 if gradients are exact.")
    optimiser: str = Field(description="The optimiser of the last start.")
    device: str = Field(description="The device of the search.")


class PlanPart(Part):
    """The plan of a search: a function of the problem and the options alone."""

    of: ClassVar[type] = Plan

    method: str = Field(description="The method.")
    time_limit: Number = Field(description="The time limit of the search in seconds; null for no limit.")
    classes: list[ClassPart] = Field(description="The classes that are searched one after the other.")


class AnswerPart(Part):
    """What the search found."""

    of: ClassVar[type] = Solution

    status: str = Field(
        description="CONVERGED, ITERATION_LIMIT, TIME_LIMIT, NOT_SEARCHED, INTERRUPTED, GIVEN or INFEASIBLE."
    )
    message: str = Field(description="The status in words.")
    feasible: bool = Field(description="Whether the constraint is met.")
    opacity: OpacityPart = Field(description="The remaining uncertainty of the observer about the secret.")
    expected_return: Number = Field(description="Exact.")
    threshold: Number = Field(description="The threshold on the return; null if there is none.")
    policy_class: str = Field(description="The policy class that was searched.")
    needs_observations: bool = Field(description="Whether the agent must see what the observer sees.")
    method: str = Field(description="The method.")
    goal: str = Field(description="opaque or transparent.")
    objective: str = Field(description="entropy, leakage or guess.")
    task: str = Field("", description="The sum that was maximised beside the objective or under min_opacity, if any.")
    task_value: Number = Field(None, description="The value of that sum, exact but for bits in it that are sampled.")
    detail: str = Field(description="Further remarks on the search.")
    doubts: list[str] = Field([], description="Why the answer may be far from the best, and what would help.")
    price_bits: Number = Field(description="The bits that one more unit of return would cost.")
    constraints: list[ConstraintPart] = Field([], description="Every constraint; that on the return is the first.")
    pairs: list[PairPart] = Field([], description="The pairs besides the problem's own.")
    hide: str = Field("own", description="The pairs whose least hidden bits were maximised.")
    stationarity_bits: Number = Field(description="Gain of the best first-order change; near 0 at a local optimum.")
    iterations: int = Field(description="Number of iterations.")
    seconds: Number = Field(description="Duration of the search.")
    seed: int = Field(description="Random seed.")
    settings: dict[str, object] = Field(description="Further settings.")
    basins: list[Number] = Field(description="Bits of the different policies at which starts ended.")
    mixture_gain_bits: Number = Field(
        description="About how many more bits a private coin between the answer and other policies hides."
    )
    repeatable: bool = Field(
        description="Whether the same plan and seed give this answer on any machine: no limit of time decided anything."
    )
    plan: PlanPart | None = Field(description="The plan that the search followed; null without a search.")


class CertificatePart(Part):
    """What is proven; the proof itself is in the certificate's own files."""

    lower: Number = Field(description="Proven lower bound of the policy (goal opaque).")
    upper: Number = Field(description="Proven upper bound over all policies.")
    gap: Number = Field(description="The difference.")
    delayed_upper: Number = Field(
        None, description="Proven upper bound over agents that do not see the current observation, if it is smaller."
    )
    likely_lower: Number = Field(
        None,
        description="Lower bound with confidence 1 − 1e-6, over the verifier's own draws; null if none is claimed.",
    )
    summary: str = Field(description="The claim in words.")


class ResultDocument(Part):
    """The result of `veil solve`: the document `result.json`."""

    format: Literal["veil-result-3"] = Field(description="The form of this document.")
    veil: str = Field(description="The version that wrote it.")
    problem: ProblemPart = Field(description="Which problem was solved.")
    answer: AnswerPart = Field(description="What was found.")
    certificate: CertificatePart | None = Field(description="What is proven; null if no proof was made.")
    certificate_note: str = Field(description="Why there is no certificate, or why its bounds may be weak.")
    files: dict[FileName, Hash] = Field(description="The files beside this one, with their SHA-256.")


def result_schema() -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of `result.json`."""
    return published(FORMAT, ResultDocument.model_json_schema())


_DECLARED = (OpacityPart, ConstraintPart, PairPart, ClassPart, PlanPart, AnswerPart)
_PARTS: dict[type, type[Part]] = {part.of: part for part in _DECLARED}


def encoded(value: Any, *without: str) -> dict[str, Any]:
    """A value as a JSON document: the attributes that its part names, or all of a class that has no part but those left out.

    Of a solution: without history, policy and proof.
    """
    part = _PARTS.get(type(value))
    names = (field.name for field in fields(value)) if part is None else part.model_fields
    return {name: _encoded(getattr(value, name)) for name in names if name not in without}


def _encoded(value: Any) -> object:
    if is_dataclass(value):
        return encoded(value)
    if isinstance(value, tuple):
        return [_encoded(one) for one in value]
    return plain(value.name if isinstance(value, Enum) else value)


def schema_of(kind: type, form: str, *without: str) -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of the document of a class, `{"format": form} | encoded(value, *without)`."""
    return published(form, _part_of(kind, {"format": (Literal[form], ...)}, *without).model_json_schema())


def _part_of(kind: type, more: Mapping[str, Any], *without: str) -> type[Part]:
    keys: dict[str, Any] = {one.name: (_form(one.type), ...) for one in fields(kind) if one.name not in without}
    return create_model(kind.__name__, __base__=Part, __doc__=kind.__doc__, **more, **keys)


def _form(hint: Any) -> Any:
    """How a document gives values of a type."""
    if hint is float:
        return Number
    if isinstance(hint, type) and is_dataclass(hint):
        return _PARTS.get(hint) or _part_of(hint, {})
    origin, inner = get_origin(hint), tuple(map(_form, get_args(hint)))
    if origin is tuple:
        return list[inner[0]] if Ellipsis in inner else tuple[inner]
    return reduce(or_, inner) if origin is UnionType else hint


def decoded(part: Part, **more: object) -> Any:
    """The value whose entries are in a part; `more`: attributes that the part does not have.

    Entries that follow from others, such as the leakage, are not read.
    """
    kind: type = type(part).of  # pyright: ignore[reportAttributeAccessIssue]
    hints = _attributes(kind)
    return kind(
        **{name: _decoded(hints[name], getattr(part, name)) for name in type(part).model_fields if name in hints},
        **more,
    )


def _decoded(hint: Any, entry: Any) -> Any:
    if isinstance(entry, Part):
        return decoded(entry)
    if isinstance(entry, list):
        return tuple(_decoded(None, one) for one in entry)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint[entry]
    if hint is float and entry is None:
        return float("nan")
    return float(entry) if entry in ("inf", "-inf") and float in (hint, *get_args(hint)) else entry


@cache
def _attributes(kind: type) -> Mapping[str, Any]:
    return {field.name: field.type for field in fields(kind)}


def problem_document(problem: Problem, scenario: str | None = None, changes: Sequence[str] = ()) -> dict[str, object]:
    """What names a problem, as a JSON document; `changes`: the values that --set gave in place of the scenario's."""
    return {
        "name": problem.name,
        "fingerprint": fingerprint(problem),
        "scenario": scenario,
        "changes": list(changes),
        "states": problem.num_states,
        "actions": problem.num_actions,
        "observations": problem.observer.num_observations,
        "horizon": problem.horizon,
        "secret": type(problem.secret).__name__,
        "secret_values": list(problem.secret_values),
    }


def certificate_document(certificate: Certificate) -> dict[str, object]:
    """The claim of a `Certificate` as a JSON document."""
    late = None if certificate.delayed is None else certificate.delayed.upper
    own = plain({name: getattr(certificate, name) for name in ("lower", "upper", "gap")})
    likely = certificate.likely_lower if certificate.likely_lower > certificate.lower else None
    return own | {"delayed_upper": late, "likely_lower": likely, "summary": certificate.summary()}


def result_document(
    problem: Problem, solution: Solution, scenario: str | None, changes: Sequence[str], files: dict[str, str]
) -> ResultDocument:
    """The document of a solution; `changes` as for `problem_document`; `files` beside it, with their SHA-256."""
    return ResultDocument.model_validate(
        {
            "format": FORMAT,
            "veil": version("veil"),
            "problem": problem_document(problem, scenario, changes),
            "answer": encoded(solution),
            "certificate": None if solution.certificate is None else certificate_document(solution.certificate),
            "certificate_note": solution.certificate_note,
            "files": files,
        }
    )
