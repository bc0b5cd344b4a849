"""The file of a certificate, read: JSON with the lists of its items, and safetensors with the arrays of the rules."""

import hashlib
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from ..common.json_text import parse_json
from ..common.ordinary import read_whole, reason
from ..common.verdicts import CertificateError, CertificateFileError
from .arithmetic import require
from .claims import BeliefBound, Beliefs, ObserverRule, ProvenBound, ProvenChannel, ProvenQuantity, Register, Sampled
from .reading import MALFORMED, check_form, each_once, is_finite, whole

FORM = "veil-certificate-8"
_MOST_BYTES = 2**24  # of the JSON file, which holds no arrays
PLAIN = ("goal", "best_known", "policy_class", "bound_class", "problem_hash", "record_hash", "policy_hash", "versions",
          "claim", "seal")  # fmt: skip
_RULE = {"channel": whole(), "weight": is_finite, "memory": str, "steps": [whole()]}
_HEAD = {
    **dict.fromkeys(PLAIN, lambda value: True), "hidden": [whole()], "quantities": [dict], "channels": [dict],
    "bounds": [{"delay": whole(), "upper": is_finite, "prices": [is_finite], "rules": [_RULE]}],
    "register": ({"nodes": whole(), "time": whole(-1)},),
    "beliefs": ({"lower": is_finite, "prices": [is_finite], "times": whole()},),
}  # fmt: skip
REGISTER, BELIEFS = ("start", "step", "codes", "label"), ("ends", "place", "weight", "child")
PARTS = ("path_keys", "path_costs", "each")  # of a rule, with one array for each time


def load_fields(path: str | Path) -> dict[str, Any]:
    """The fields of the certificate in a file: its claim, and the words that tell of it (`Certificate.load`)."""
    path = Path(path)
    head = read_head(path)
    try:
        place = path.parent / Path(head.pop("arrays")).name
        content = read_whole(place)
        words = f"{place} is damaged or belongs to another certificate: its hash is not that in {path}"
        require(hash_of(content) == head.pop("arrays_sha256"), words)
        return _assembled(head, load(content))
    except CertificateError:
        raise
    except OSError as error:
        raise CertificateFileError(f"the arrays of {path} cannot be read: {error}") from None
    except (*MALFORMED, SafetensorError) as error:
        raise CertificateError(f"{path} is not a whole certificate: {type(error).__name__}: {error}") from None


def hash_of(content: bytes) -> str:
    """SHA-256 of the bytes of the arrays."""
    return hashlib.sha256(content).hexdigest()


def read_head(path: Path) -> dict[str, Any]:
    """The fields of a certificate's JSON file."""
    try:
        head = parse_json(read_whole(path, _MOST_BYTES), each_once)
    except FileNotFoundError:
        raise CertificateFileError(f"there is no certificate {path}") from None
    except OSError as error:
        raise CertificateFileError(f"{path} cannot be read: {reason(error)}") from None
    except ValueError as error:
        raise CertificateError(f"{path} cannot be read as a certificate: {error}") from None
    found = cast(dict[str, Any], head) if isinstance(head, dict) else {}
    require(found.pop("form", None) == FORM, f"{path} is not a certificate of the form {FORM!r}")
    return found


def _assembled(head: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    check_form(head, _HEAD, "the certificate")
    register, beliefs = head["register"], head["beliefs"]
    if register is not None:
        register = Register(**{**register, **{name: arrays[f"register.{name}"] for name in REGISTER}})
    if beliefs is not None:
        under = [f"beliefs.{time}." for time in range(beliefs["times"])]
        points = tuple(Beliefs(**{name: arrays[own + name] for name in BELIEFS}) for own in under)
        prices = tuple(map(float, beliefs["prices"]))
        beliefs = BeliefBound(float(beliefs["lower"]), prices, arrays["beliefs.first"], points)
    return {
        **head,
        "hidden": tuple(head["hidden"]),
        "quantities": tuple(ProvenQuantity(**one) for one in head["quantities"]),
        "channels": tuple(_read_channel(**one) for one in head["channels"]),
        "bounds": tuple(_read_bound(one, f"bounds.{n}.", arrays) for n, one in enumerate(head["bounds"])),
        "values": arrays.get("values"),
        "register": register,
        "beliefs": beliefs,
    }


def _read_channel(window: list[int], sampled: dict[str, Any] | None, **rest: Any) -> ProvenChannel:
    found = None if sampled is None else Sampled(**sampled)
    return ProvenChannel(window=cast(tuple[int, int], tuple(window)), sampled=found, **rest)


def _read_bound(head: dict[str, Any], under: str, arrays: dict[str, np.ndarray]) -> ProvenBound:
    rules = tuple(_read_rule(one, f"{under}rules.{n}.", arrays) for n, one in enumerate(head["rules"]))
    return ProvenBound(head["delay"], head["upper"], tuple(map(float, head["prices"])), rules)


def _read_rule(head: dict[str, Any], under: str, arrays: dict[str, np.ndarray]) -> ObserverRule:
    following = tuple(arrays[f"{under}following.{number}"] for number in head["steps"])
    path = [
        tuple(arrays[place] for time in range(len(following) + 1) if (place := f"{under}{name}.{time}") in arrays)
        for name in PARTS
    ]
    whose = head["memory"], head["channel"], float(head["weight"])
    return ObserverRule(arrays[f"{under}first"], following, arrays[f"{under}costs"], *whose, *path)
