"""The file of a certificate, written: `certificate_file.py` reads it."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from ..common.errors import CertificateError, CertificateFileError
from ..common.files import check_replaceable, read_whole, reason, write_whole
from .certificate_file import BELIEFS, FORM, PARTS, PLAIN, REGISTER, hash_of, read_head
from .claims import ProvenBound
from .statement import Statement

MARKER = b"veil-certificate-"


def save_statement(certificate: Statement, path: str | Path) -> None:
    """`Certificate.save`."""
    path, arrays = Path(path), dict[str, np.ndarray]()
    head: dict[str, Any] = {name: getattr(certificate, name) for name in PLAIN}
    head |= {"hidden": list(certificate.hidden), "register": None, "beliefs": None}
    head |= {name: [asdict(one) for one in getattr(certificate, name)] for name in ("quantities", "channels")}
    head["bounds"] = [_write_bound(one, f"bounds.{n}.", arrays) for n, one in enumerate(certificate.bounds)]
    if (held := certificate.register) is not None:
        head["register"] = {"nodes": held.nodes, "time": held.time}
        arrays |= {f"register.{name}": getattr(held, name) for name in REGISTER}
    if (found := certificate.beliefs) is not None:
        head["beliefs"] = {"lower": found.lower, "prices": list(found.prices), "times": len(found.points)}
        arrays["beliefs.first"] = found.first
        for time, one in enumerate(found.points):
            arrays |= {f"beliefs.{time}.{name}": getattr(one, name) for name in BELIEFS}
    if certificate.values is not None:
        arrays["values"] = certificate.values
    content = save({name: np.ascontiguousarray(one) for name, one in arrays.items()}, metadata={"veil": FORM})
    name, old = f"{path.stem}.{hash_of(content)[:12]}.safetensors", _named_arrays(path)
    head |= {"form": FORM, "arrays": name, "arrays_sha256": hash_of(content)}
    text = json.dumps(head, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        check_replaceable(path, MARKER)
        write_whole(path.parent / name, content, marker=MARKER)
        write_whole(path, (text + "\n").encode(), marker=MARKER)
        if old is not None and old != name:
            (path.parent / old).unlink(missing_ok=True)
    except OSError as error:
        raise CertificateFileError(f"cannot write the certificate to {path}: {reason(error)}") from error


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
        arrays |= {f"{own}{name}.{time}": part for name in PARTS for time, part in enumerate(getattr(one, name))}
        rules.append({"channel": one.channel, "weight": one.weight, "memory": one.memory, "steps": steps})
    return {"delay": bound.delay, "upper": bound.upper, "prices": list(bound.prices), "rules": rules}


def _named_arrays(path: Path) -> str | None:
    """The name of the arrays of the certificate that is there already, if they are such as `save` writes."""
    try:
        name = str(read_head(path)["arrays"])
        content = read_whole(path.parent / name)
    except (CertificateError, KeyError, OSError, ValueError):
        return None
    is_ours = MARKER in content and name == f"{path.stem}.{hash_of(content)[:12]}.safetensors"
    return name if is_ours else None
