"""The certificate: what is claimed of a policy and of all others, the witnesses that prove it, and its file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ..common.errors import CertificateError, CertificateFileError
from ..common.files import check_replaceable, read_whole, write_whole
from ..common.rounding import lower_text, upper_text
from ..common.text import parse_json
from ..common.values import Value
from ..problem.pairs import OWN
from ..problem.trivial import trivial_words
from .arithmetic import FLOOR
from .witness import Witness, read_witness, written_witness

FORM = "veil-certificate-5"
_MARKER = b"veil-certificate-"
_APART = (
    "witness",
    "values",
    "constraints",
    "delayed",
    "hide",
    "pairs",
)  # fields that a file holds in forms of their own
DELAYED_CLASS = (
    "policies whose choice does not depend on the current observation, given the states and the earlier observations"
    " (among them all that do not see the observations)"
)
_MOST_BYTES = 2**24  # of the JSON file, which holds no arrays
HISTORY = "a history policy"  # how `HistoryPolicy.describe` begins


@dataclass(frozen=True, eq=False, repr=False)
class DelayedBound(Value):
    """An upper bound over agents that learn each observation late, and the observer that proves it.

    **Attributes:** `delay`, 1: the choice at time t may depend on the states up to t and on the observations up to t − 1, not
    on that of t. Every policy that does not see the observations is among these. `upper`, in bits; `witness`: its rule is
    one for these agents, and proves less over all policies.
    """

    delay: int
    upper: float
    witness: Witness


@dataclass(frozen=True, eq=False, repr=False)
class ProvenConstraint(Value):
    """A constraint beside that on the return, and what is proven of its quantity under the policy.

    **Attributes:** `name`; `relation`, `"≥"` or `"≤"`; `bound`, a number, also where a percentage was asked for; `value` of the
    quantity, within `error`; `met`: it is proven to be within its bound, without a tolerance.
    """

    name: str
    relation: str
    bound: float
    value: float
    error: float
    met: bool

    @property
    def text(self) -> str:
        """The constraint in words, its bound in full: `energy ≤ 20.0`."""
        return f"{self.name} {self.relation} {float(self.bound)!r}"


@dataclass(frozen=True, eq=False, repr=False)
class ProvenPair(Value):
    """A pair beside the problem's own, and what is proven of what the policy hides in it.

    **Attributes:** `name`; `min`, `max`: its bounds in bits, None where there is none; `lower`, `upper`: between which its
    `H(Z|Y)` lies under the policy; `window`, `prune`, `merge`: how they were found, as for a certificate.
    """

    name: str
    min: float | None
    max: float | None
    lower: float
    upper: float
    window: tuple[int, int]
    prune: float
    merge: int

    @property
    def met(self) -> bool:
        """Whether the policy is proven to keep the bounds, without a tolerance."""
        low, high = 0.0 if self.min is None else self.min, float("inf") if self.max is None else self.max
        return low <= self.lower and self.upper <= high

    @property
    def text(self) -> str:
        """The bounds in words, in full; empty where there is none."""
        given = (("≥", self.min), ("≤", self.max))
        return " and ".join(f"H({self.name}) {sign} {float(bound)!r}" for sign, bound in given if bound is not None)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Value):
    """A claim about a policy and about all policies, with what is needed to check it.

    **Attributes:**

    - `goal` "opaque": the policy hides at least `lower` bits, and no policy of `bound_class` with return ≥ `threshold` that
      meets the other constraints hides more than `upper`. "transparent": the policy hides at most `upper` bits, and no
      more than `lower` = 0 is proven for all others.
    - `hide`: the pairs that both bounds are about; of several the least of what is hidden in them. `pairs`: those beside the
      problem's own that are among these or have bounds. `upper` then holds for policies that keep the lower bounds `min`;
      an upper bound `max` is not convex and is left out of it. Where `pairs` is empty, nothing is said of other pairs.
    - `expected_return` of the policy, within `return_error`; `constraints`: those beside `threshold`, with their values;
      `feasible`: the policy is proven to reach the threshold and to meet all of them; there is no tolerance.
    - `delayed`: a smaller upper bound that holds for agents that do not see the current observation, where one was found; None
      for a policy that acts on it.
    - `best_known`: what some policy of `bound_class` is known to hide: told by the solver, not proven here.
    - `policy_class`, `bound_class`: who the policy is and who the others are, and what they must see.
    - `window`, `prune`, `merge`: how the policy's opacity is bounded; `values`: what is earned after the horizon, for an
      infinite return; `witness`: the observer of the upper bound, None for "transparent".
    - `problem_hash`, `policy_hash`, `versions`; `claim`: the claim in words; `seal`: a hash of what no computation checks.
    """

    goal: str
    lower: float
    upper: float
    expected_return: float
    return_error: float
    threshold: float | None
    feasible: bool
    best_known: float | None
    policy_class: str
    bound_class: str
    window: tuple[int, int]
    prune: float
    merge: int
    problem_hash: str
    policy_hash: str
    versions: dict[str, str]
    claim: str
    seal: str
    witness: Witness | None = None
    values: Float[np.ndarray, "K S"] | None = None
    constraints: tuple[ProvenConstraint, ...] = ()
    delayed: DelayedBound | None = None
    hide: tuple[str, ...] = (OWN,)
    pairs: tuple[ProvenPair, ...] = ()

    def __repr__(self) -> str:
        met = "" if self.feasible else ", not feasible"
        return f"Certificate({self.goal}: {lower_text(self.lower)} to {upper_text(self.upper)} bits{met})"

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    @property
    def price(self) -> float:
        """The multiplier λ of return: by how many bits the upper bound falls for one more unit of it, to first order."""
        return 0.0 if self.witness is None else self.witness.multiplier

    @property
    def prices(self) -> tuple[float, ...]:
        """The multiplier of each of `constraints`: the bits by which the upper bound falls for one more unit of its bound."""
        return (0.0,) * len(self.constraints) if self.witness is None else self.witness.prices

    @property
    def bounds(self) -> tuple[float | None, ...]:
        """What must be reached: the threshold on the return, None where there is none, then the bound of each constraint."""
        return (self.threshold, *(one.bound for one in self.constraints))

    @property
    def kept(self) -> dict[str, float]:
        """The bits that must be kept by pairs which are not hidden, by name: with their weights they lower the bound."""
        return {one.name: one.min for one in self.pairs if one.min and one.name not in self.hide}

    @property
    def is_exact(self) -> bool:
        """Whether `lower` comes from all histories over the whole horizon: but for rounding it is what the policy hides."""
        ways = [] if self.witness is None else [one for name, one in self._ways.items() if name in self.hide]
        horizon = 0 if self.witness is None else len(self.witness.following)
        return bool(ways) and all(
            one.window == (-1, horizon + 1) and one.prune <= FLOOR and not one.merge for one in ways
        )

    @property
    def _ways(self) -> "Mapping[str, Certificate | ProvenPair]":
        """For each pair what says how its bounds were found."""
        return {OWN: self} | {one.name: one for one in self.pairs}

    @property
    def proves_policy(self) -> bool:
        """Whether something is proven of what the policy hides: False where `lower` is 0 because the time did not suffice."""
        return self.goal != "opaque" or self.is_exact or float(lower_text(self.lower)) > 0

    @property
    def trivial(self) -> str:
        """Why the upper bound says nothing about this problem, as `trivial: log2 of 3 values`; empty where it does."""
        rules = () if self.witness is None or self.witness.path_keys else self.witness.rules
        counts = [one.costs.shape[1] for one in rules if one.pair in self.hide and np.ndim(one.costs) == 2]
        return trivial_words(self.upper, min(counts)) if counts else ""

    @property
    def class_gap(self) -> float | None:
        """The part of the gap that policies of a larger class are known to gain; None where nothing is known.

        0 for a history policy: there is no larger class. Where `lower` is not exact, the policy may hide a part of it itself.
        """
        if self.best_known is None or not self.proves_policy:
            return None
        return 0.0 if self.policy_class.startswith(HISTORY) else max(0.0, self.best_known - self.lower)

    @property
    def solver_gap(self) -> float | None:
        """The part of the gap that a search may still close: all of it but the part of the class."""
        return None if self.class_gap is None else max(0.0, self.gap - self.class_gap)

    def summary(self) -> str:
        """The claim in a few sentences, lower bounds rounded down and upper bounds up."""
        lines = [self.claim, f"Policy: {self.policy_class}. Upper bound over: {self.bound_class}."]
        if self.delayed is not None:
            lines[-1] += f" Smaller upper bound over: {DELAYED_CLASS}."
        if self.goal == "opaque" and self.feasible:
            lines.insert(1, self._parts_of_the_gap())
        return "\n".join(lines)

    def _parts_of_the_gap(self) -> str:
        if not self.proves_policy:
            return "The parts of the gap are not known, since nothing is proven of what the policy hides."
        if self.class_gap is None or self.solver_gap is None or self.best_known is None:
            return f"Gap: {upper_text(self.gap)} bits; its parts are not known, since no game was solved."
        if self.policy_class.startswith(HISTORY):
            return f"Gap: {upper_text(self.gap)} bits, all of it due to the solver: there is no larger policy class."
        also = "" if self.is_exact else " or to the lower bound, which is not exact"
        late = None if self.delayed is None else upper_text(max(0.0, self.delayed.upper - self.lower))
        blind = (
            "" if late is None else f" Without seeing the current observation a policy can gain at most {late} bits."
        )
        return (
            f"Gap: {upper_text(self.gap)} bits; {upper_text(self.class_gap)} due to the policy class{also} (the solver knows a"
            f" history policy that hides {lower_text(self.best_known)} bits; a better policy of this class may gain a part),"
            f" {upper_text(self.solver_gap)} due to the solver (between that and the upper bound).{blind}"
        )

    def save(self, path: str | Path) -> None:
        """Write `path`, JSON, and beside it the arrays, safetensors, named after their content; the same certificate
        gives the same bytes. The JSON is written last, so a reader that finds it also finds its arrays.

        **Raises:** `CertificateError` where it cannot be written.
        """
        path, content = Path(path), save(self._arrays, metadata={"veil": FORM})
        head = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _APART}
        head["constraints"] = [asdict(one) for one in self.constraints]
        head |= {"hide": self.hide, "pairs": [asdict(one) for one in self.pairs]}
        name, old = f"{path.stem}.{_hash(content)[:12]}.safetensors", _named_arrays(path)
        head |= {"form": FORM, "arrays": name, "arrays_sha256": _hash(content)}
        if self.witness is not None:
            head["witness"] = written_witness(self.witness)[0]
        if self.delayed is not None:
            late, own = self.delayed, written_witness(self.delayed.witness)[0]
            head["delayed"] = {"delay": late.delay, "upper": late.upper, "witness": own}
        text = json.dumps(head, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
        try:
            check_replaceable(path, _MARKER)
            write_whole(path.parent / name, content, marker=_MARKER)
            write_whole(path, (text + "\n").encode(), marker=_MARKER)
            if old is not None and old != name:
                (path.parent / old).unlink(missing_ok=True)
        except OSError as error:
            raise CertificateError(f"cannot write the certificate to {path}: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | Path) -> "Certificate":
        """The certificate in a file that `save` wrote, not yet verified.

        **Raises:** `CertificateError` where a file is damaged, saying which and how; `CertificateFileError`, which derives from
        it, where one is missing or cannot be read.
        """
        path = Path(path)
        head = _read_head(path)
        try:
            place = path.parent / Path(head.pop("arrays")).name
            content = read_whole(place)
            if _hash(content) != head.pop("arrays_sha256"):
                raise CertificateError(
                    f"{place} is damaged or belongs to another certificate: its hash is not that in {path}"
                )
            return _assembled(cls, head, load(content))
        except CertificateError:
            raise
        except OSError as error:
            raise CertificateFileError(f"the arrays of {path} cannot be read: {error}") from None
        except (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError, SafetensorError) as error:
            raise CertificateError(f"{path} is not a whole certificate: {type(error).__name__}: {error}") from None

    @property
    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {} if self.witness is None else written_witness(self.witness)[1]
        if self.delayed is not None:
            arrays |= {f"delayed.{name}": array for name, array in written_witness(self.delayed.witness)[1].items()}
        if self.values is not None:
            arrays["values"] = self.values
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _named_arrays(path: Path) -> str | None:
    """The name of the arrays of the certificate that is there already, if they are such as `save` writes."""
    try:
        name = str(_read_head(path)["arrays"])
        content = read_whole(path.parent / name)
    except (CertificateError, KeyError, OSError, ValueError):
        return None
    is_ours = _MARKER in content and name == f"{path.stem}.{_hash(content)[:12]}.safetensors"
    return name if is_ours else None


def _read_head(path: Path) -> dict[str, Any]:
    """The fields of a certificate's JSON file."""
    try:
        head = parse_json(read_whole(path, _MOST_BYTES), _each_once)
    except FileNotFoundError:
        raise CertificateFileError(f"there is no certificate {path}") from None
    except OSError as error:
        raise CertificateFileError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise CertificateError(f"{path} cannot be read as a certificate: {error}") from None
    fields = cast(dict[str, Any], head) if isinstance(head, dict) else {}
    if fields.pop("form", None) != FORM:
        raise CertificateError(f"{path} is not a certificate of the form {FORM!r}")
    return fields


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of the file, in which no key may come twice: another reader might take the other value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _assembled(cls: type[Certificate], head: dict[str, Any], arrays: dict[str, np.ndarray]) -> Certificate:
    witness, delayed = head.pop("witness", None), head.pop("delayed", None)
    known = {one.name for one in fields(cls)} - set(_APART)
    constraints = tuple(ProvenConstraint(**one) for one in _listed(head, "constraints"))
    hide, pairs = tuple(_listed(head, "hide")), tuple(_read_pair(**one) for one in _listed(head, "pairs"))
    if set(head) != known:
        raise CertificateError(
            f"its fields are wrong: missing {sorted(known - set(head))}, unknown {sorted(set(head) - known)}"
        )
    if witness is not None:
        witness = read_witness(witness, arrays)
    if delayed is not None:
        late = read_witness(delayed["witness"], arrays, "delayed.")
        delayed = DelayedBound(delayed["delay"], delayed["upper"], late)
    left, right = head.pop("window")
    values, window = arrays.get("values"), (int(left), int(right))
    return cls(
        **head, window=window, witness=witness, values=values, constraints=constraints, delayed=delayed, hide=hide,
        pairs=pairs,
    )  # fmt: skip


def _listed(head: dict[str, Any], name: str) -> list[Any]:
    """A field that is a list."""
    found = head.pop(name)
    if not isinstance(found, list):
        raise TypeError(f"{name} is no list")
    return cast(list[Any], found)


def _read_pair(window: list[int], **fields: Any) -> ProvenPair:
    """A pair as a file holds it."""
    left, right = window
    return ProvenPair(window=(int(left), int(right)), **fields)
