"""JSON documents: values as JSON holds them, one way to write them, and errors that name the entry."""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import JsonSchemaValue

from ..common.checks import Defects


class Part(BaseModel):
    """A part of a document: nothing is converted, and keys that are not known are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def plain(value: object) -> Any:
    """A value as JSON can hold it: arrays, tuples and sets as lists, NaN as null, infinities as "inf" and "-inf"."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def json_text(document: object) -> str:
    """A document as text with one entry on each line, numbers to the last digit."""
    return json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def published(title: str, schema: JsonSchemaValue) -> JsonSchemaValue:
    """A JSON schema (draft 2020-12) with its title."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return head | {key: value for key, value in schema.items() if key != "title"}


def refuse_document(subject: str, error: ValidationError, before: str = "") -> NoReturn:
    """Raise `InputError` naming every entry of a document that is not as it must be; `before` is where it stands."""
    defects = Defects(subject)
    for one in error.errors(include_url=False):
        place, value = ".".join(map(str, one["loc"])) or "the document", repr(one.get("input"))
        shown = value if len(value) < 60 else value[:60] + "…"
        found = "" if one["type"] in ("missing", "json_invalid") else f", found {shown}"
        defects.add(f"{before}{place}: {one['msg']}{found}")
    defects.raise_if_any()
    raise AssertionError("a validation error has at least one entry")
