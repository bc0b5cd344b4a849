"""The file of a certificate: JSON with the lists of its items, and safetensors with the arrays of the rules."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ..common.errors import CertificateError, CertificateFileError
from ..common.files import check_replaceable, read_whole, reason, write_whole
from ..common.json_text import parse_json
from .claims import BeliefBound, Beliefs, ObserverRule, ProvenBound, ProvenChannel, ProvenQuantity, Register, Sampled
from .reading import check_form, each_once, is_finite, whole
from .statement import Statement

FORM = "veil-certificate-8"
MARKER = b"veil-certificate-"
_MOST_BYTES = 2**24  # of the JSON file, which holds no arrays
_PLAIN = ("goal", "best_known", "policy_class", "bound_class", "problem_hash", "record_hash", "policy_hash", "versions",
          "claim", "seal")  # fmt: skip
_RULE = {"channel": whole(), "weight": is_finite, "memory": str, "steps": [whole()]}
_HEAD = {
    **dict.fromkeys(_PLAIN, lambda value: True), "hidden": [whole()], "quantities": [dict], "channels": [dict],
    "bounds": [{"delay": whole(), "upper": is_finite, "prices": [is_finite], "rules": [_RULE]}],
    "register": ({"nodes": whole(), "time": whole(-1)},),
    "beliefs": ({"lower": is_finite, "prices": [is_finite], "times": whole()},),
}  # fmt: skip
_REGISTER, _BELIEFS = ("start", "step", "codes", "label"), ("ends", "place", "weight", "child")
_PARTS = ("path_keys", "path_costs", "each")  # of a rule, with one array for each time


def save_statement(certificate: Statement, path: str | Path) -> None:
    """`Certificate.save`."""
    path, arrays = Path(path), dict[str, np.ndarray]()
    head: dict[str, Any] = {name: getattr(certificate, name) for name in _PLAIN}
    head |= {"hidden": list(certificate.hidden), "register": None, "beliefs": None}
    head |= {name: [asdict(one) for one in getattr(certificate, name)] for name in ("quantities", "channels")}
    head["bounds"] = [_write_bound(one, f"bounds.{n}.", arrays) for n, one in enumerate(certificate.bounds)]
    if (held := certificate.register) is not None:
        head["register"] = {"nodes": held.nodes, "time": held.time}
        arrays |= {f"register.{name}": getattr(held, name) for name in _REGISTER}
    if (found := certificate.beliefs) is not None:
        head["beliefs"] = {"lower": found.lower, "prices": list(found.prices), "times": len(found.points)}
        arrays["beliefs.first"] = found.first
        for time, one in enumerate(found.points):
            arrays |= {f"beliefs.{time}.{name}": getattr(one, name) for name in _BELIEFS}
    if certificate.values is not None:
        arrays["values"] = certificate.values
    content = save({name: np.ascontiguousarray(one) for name, one in arrays.items()}, metadata={"veil": FORM})
    name, old = f"{path.stem}.{_hash(content)[:12]}.safetensors", _named_arrays(path)
    head |= {"form": FORM, "arrays": name, "arrays_sha256": _hash(content)}
    text = json.dumps(head, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        check_replaceable(path, MARKER)
        write_whole(path.parent / name, content, marker=MARKER)
        write_whole(path, (text + "\n").encode(), marker=MARKER)
        if old is not None and old != name:
            (path.parent / old).unlink(missing_ok=True)
    except OSError as error:
        raise CertificateFileError(f"cannot write the certificate to {path}: {reason(error)}") from error


def load_statement(path: str | Path) -> Statement:
    """`Certificate.load`."""
    path = Path(path)
    head = _read_head(path)
    try:
        place = path.parent / Path(head.pop("arrays")).name
        content = read_whole(place)
        if _hash(content) != head.pop("arrays_sha256"):
            raise CertificateError(
                f"{place} is damaged or belongs to another certificate: its hash is not that in {path}"
            )
        return _assembled(head, load(content))
    except CertificateError:
        raise
    except OSError as error:
        raise CertificateFileError(f"the arrays of {path} cannot be read: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError, SafetensorError) as error:
        raise CertificateError(f"{path} is not a whole certificate: {type(error).__name__}: {error}") from None


def _write_bound(bound: ProvenBound, under: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """A bound as a file holds it; its arrays are added, each table of a graph once."""
    rules = []
    for number, one in enumerate(bound.rules):
        own, known, steps = f"{under}rules.{number}.", dict[bytes, int](), []
        arrays |= {f"{own}first": one.first, f"{own}costs": one.costs}
        for table in one.following:
            key = hashlib.sha256(repr(table.shape).encode() + np.ascontiguousarray(table).tobytes()).digest()
            steps.append(known.setdefault(key, len(known)))
            arrays[f"{own}following.{steps[-1]}"] = table
        arrays |= {f"{own}{name}.{time}": part for name in _PARTS for time, part in enumerate(getattr(one, name))}
        rules.append({"channel": one.channel, "weight": one.weight, "memory": one.memory, "steps": steps})
    return {"delay": bound.delay, "upper": bound.upper, "prices": list(bound.prices), "rules": rules}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _named_arrays(path: Path) -> str | None:
    """The name of the arrays of the certificate that is there already, if they are such as `save` writes."""
    try:
        name = str(_read_head(path)["arrays"])
        content = read_whole(path.parent / name)
    except (CertificateError, KeyError, OSError, ValueError):
        return None
    is_ours = MARKER in content and name == f"{path.stem}.{_hash(content)[:12]}.safetensors"
    return name if is_ours else None


def _read_head(path: Path) -> dict[str, Any]:
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
    if found.pop("form", None) != FORM:
        raise CertificateError(f"{path} is not a certificate of the form {FORM!r}")
    return found


def _assembled(head: dict[str, Any], arrays: dict[str, np.ndarray]) -> Statement:
    check_form(head, _HEAD, "the certificate")
    register, beliefs = head["register"], head["beliefs"]
    if register is not None:
        register |= {name: arrays[f"register.{name}"] for name in _REGISTER}
    if beliefs is not None:
        under = [f"beliefs.{time}." for time in range(beliefs["times"])]
        points = tuple(Beliefs(**{name: arrays[own + name] for name in _BELIEFS}) for own in under)
        prices = tuple(map(float, beliefs["prices"]))
        beliefs = BeliefBound(float(beliefs["lower"]), prices, arrays["beliefs.first"], points)
    return Statement(
        **{name: head[name] for name in _PLAIN},
        hidden=tuple(head["hidden"]),
        quantities=tuple(ProvenQuantity(**one) for one in head["quantities"]),
        channels=tuple(_read_channel(**one) for one in head["channels"]),
        bounds=tuple(_read_bound(one, f"bounds.{n}.", arrays) for n, one in enumerate(head["bounds"])),
        values=arrays.get("values"),
        register=None if register is None else Register(**register),
        beliefs=beliefs,
    )


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
        for name in _PARTS
    ]
    whose = head["memory"], head["channel"], float(head["weight"])
    return ObserverRule(arrays[f"{under}first"], following, arrays[f"{under}costs"], *whose, *path)
