"""The options of `veil.frontier` and `veil.compare`, each declared once: see `planning.options`.

This module imports neither NumPy nor pydantic, so that the command line starts quickly.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

from ..common.settings import About
from ..planning.options import MEMORY, PROGRESS, MemoryName, SearchOptions, is_memory

if TYPE_CHECKING:
    from ..common.clock import ProgressOption
    from ..policy.memories import Memory


def _are_thresholds(value: object) -> bool:
    from numbers import Real

    if isinstance(value, str) or not (isinstance(value, Sequence) or getattr(value, "ndim", 0) == 1):
        return False
    listed = list(cast("Sequence[object]", value))
    return bool(listed) and all(isinstance(one, Real) and math.isfinite(one) for one in listed)


def _are_memories(value: object) -> bool:
    if not isinstance(value, tuple):
        return False
    listed = cast("tuple[object, ...]", value)
    return bool(listed) and all(is_memory(one) for one in listed)


@dataclass(frozen=True)
class FrontierOptions(SearchOptions):
    """The options of `veil.frontier`; `starts` and `iterations` are those of its first search."""

    points: Annotated[int, About("Number of points of the curve.", least=2, most=10_000, in_file=False)] = 20
    _: KW_ONLY
    along: Annotated[
        str,
        About(
            "The constraint whose bound is moved: return, the name of a reward, or the formula of a probability; if it has"
            " both bounds, with the relation, such as 'energy <='.",
            in_file=False,
        ),
    ] = "return"
    thresholds: Annotated[
        "Sequence[float] | None",
        About(
            "Bounds of the constraint, one for each point of the curve.",
            unset="evenly spaced from the bound that costs nothing to the strictest",
            in_file=False,
            flag="",
            accepts=_are_thresholds,
            expected="a sequence of finite numbers",
        ),
    ] = None
    memory: Annotated["MemoryName | Memory", MEMORY] = "markov"
    proof_seconds: Annotated[
        float,
        About(
            "Time limit in seconds of the proof of an upper bound over all policies at each point; 0 for no proofs.",
            least=0,
            flag="--proof-time-limit",
            in_file=False,
            in_identity=False,
        ),
    ] = 0.0
    checkpoint: Annotated[
        str | Path | None,
        About(
            "File that keeps the points after each search.",
            form=Path,
            in_file=False,
            in_identity=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """The options of `veil.compare`."""

    memories: Annotated[
        "tuple[MemoryName | Memory, ...] | None",
        About(
            "Policy classes to compare, smaller ones first.",
            unset="stationary, time-dependent, one previous state, history",
            in_file=False,
            flag="",
            accepts=_are_memories,
            expected="a tuple of memories, in the forms of memory=",
        ),
    ] = None
    seed: Annotated[int, About("Random seed.", least=0, most=2**63 - 1)] = 0
    time_limit: Annotated[
        float | None, About("Time limit in seconds for the whole table, shared equally.", least=0, in_identity=False)
    ] = None
    certificate: Annotated[
        bool,
        About("Prove an upper bound over all policies.", flag="", in_identity=False),
    ] = True
    progress: Annotated["ProgressOption", PROGRESS] = None
