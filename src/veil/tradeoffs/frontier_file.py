"""The file of a frontier: the points found so far, from which a later call continues."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..common.errors import CheckpointError, InputError
from ..common.text import parse_json
from ..measure.result import Opacity
from ..planning.checkpoint import Checkpoint, read_checkpoint
from ..planning.policy_class import Space
from ..planning.solution import Solution
from ..policy.tabular import TablePolicy, table_policy

_TABLE = "table."  # begins the name of the table of a point, which its index ends


@dataclass(frozen=True, eq=False)
class Kept:
    """What is kept of the best search for a point."""

    policy: TablePolicy
    expected_return: float
    opacity: Opacity
    price_bits: float
    value: float

    @staticmethod
    def of(solution: Solution, value: float, price_bits: float) -> "Kept":
        """From the answer of a search, with the bounded quantity and the price of its bound."""
        return Kept(table_policy(solution.policy), solution.expected_return, solution.opacity, price_bits, value)


class CurveFile:
    """Writes the points after each search that was not cut off, and reads them back.

    **Arguments:** `path`; `identity`: what a curve must have in common with the one in the file.

    **Raises:** `CheckpointError` where the file is damaged or that of another curve.
    """

    def __init__(self, path: str | Path, identity: dict[str, object], space: Space):
        self._space, self._identity = space, identity
        self._file, self._path = Checkpoint(path, identity, 0.0), Path(path)

    def read(self) -> tuple[int, dict[int, Kept], float]:
        """The number of searches that were made, the best answer of each point, the seconds spent; none without a file."""
        if not self._path.exists():
            return 0, {}, 0.0
        arrays, seconds, _ = read_checkpoint(self._path, self._identity)
        try:
            notes = parse_json(arrays["notes"].astype(np.uint8).tobytes())
            found = {int(index): self._kept(note, arrays[_TABLE + index]) for index, note in notes["points"].items()}
            return int(notes["searches"]), found, seconds
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise CheckpointError(f"{self._path} does not hold a frontier: {error}") from error

    def _kept(self, note: dict[str, object], table: np.ndarray) -> Kept:
        opacity = Opacity(**note.pop("opacity"))  # pyright: ignore[reportCallIssue]
        return Kept(self._space.policy(table), opacity=opacity, **note)  # pyright: ignore[reportArgumentType]

    def write(self, searches: int, found: dict[int, Kept], seconds: float) -> None:
        """Replace the file."""
        points = {
            str(index): {
                "expected_return": one.expected_return, "price_bits": one.price_bits, "value": one.value,
                "opacity": asdict(one.opacity),
            }
            for index, one in found.items()
        }  # fmt: skip
        notes = json.dumps({"searches": searches, "points": points}).encode()
        arrays = {f"{_TABLE}{index}": self._space.table_of(one.policy) for index, one in found.items()}
        self._file.write({"notes": np.frombuffer(notes, dtype=np.uint8), **arrays}, seconds)
