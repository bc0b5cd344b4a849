"""The points of a frontier, and the file of those found so far, from which a later call continues."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..common.errors import CheckpointError, InputError
from ..common.json_text import parse_json
from ..common.values import Value
from ..measure.result import Opacity
from ..planning.checkpoint import Checkpoint, read_checkpoint
from ..planning.policy_class import Space
from ..policy.tabular import TablePolicy

_TABLE = "table."  # begins the name of the table of a point, which its index ends


@dataclass(frozen=True, eq=False, repr=False)
class FrontierPoint(Value):
    """One point: the best policy found that meets the bound `threshold`.

    `value` is that of the bounded quantity, the return unless the curve is along another. `price_bits` is λ there: the bits
    that one more unit of the bound costs, the slope of the curve to the strict side. It is 0 where a policy that meets a
    stricter bound hides as much, and inf at the strictest bound: no bits buy more. `upper_bits` is the proven upper bound over
    all policies that meet the bound `threshold`, inf where none was proven.
    """

    threshold: float
    expected_return: float
    opacity: Opacity
    price_bits: float
    policy: TablePolicy
    value: float
    upper_bits: float = math.inf


class CurveFile:
    """Writes the points after each search, and reads them back.

    **Arguments:** `path`; `identity`: what a curve must have in common with the one in the file.

    **Raises:** `CheckpointError` where the file is damaged or that of another curve.
    """

    def __init__(self, path: str | Path, identity: dict[str, object], space: Space):
        self._space, self._identity = space, identity
        self._file, self._path = Checkpoint(path, identity, 0.0), Path(path)

    def read(self) -> tuple[int, dict[int, FrontierPoint], float]:
        """How many searches need not be made again, the best answer of each point, the seconds spent; none without a file."""
        if not self._path.exists():
            return 0, {}, 0.0
        arrays, seconds, _ = read_checkpoint(self._path, self._identity)
        try:
            notes = parse_json(arrays["notes"].astype(np.uint8).tobytes())
            found = {int(index): self._kept(note, arrays[_TABLE + index]) for index, note in notes["points"].items()}
            return int(notes["searches"]), found, seconds
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise CheckpointError(f"{self._path} does not hold a frontier: {error}") from error

    def _kept(self, note: dict[str, object], table: np.ndarray) -> FrontierPoint:
        opacity = Opacity(**note.pop("opacity"))  # pyright: ignore[reportCallIssue]
        return FrontierPoint(policy=self._space.policy(table), opacity=opacity, **note)  # pyright: ignore[reportArgumentType]

    def write(self, searches: int, found: dict[int, FrontierPoint], seconds: float) -> None:
        """Replace the file."""
        points = {
            str(index): {
                "threshold": one.threshold, "expected_return": one.expected_return, "price_bits": one.price_bits,
                "value": one.value, "opacity": asdict(one.opacity),
            }
            for index, one in found.items()
        }  # fmt: skip
        notes = json.dumps({"searches": searches, "points": points}).encode()
        arrays = {f"{_TABLE}{index}": self._space.table_of(one.policy) for index, one in found.items()}
        self._file.write({"notes": np.frombuffer(notes, dtype=np.uint8), **arrays}, seconds)
