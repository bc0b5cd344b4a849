"""A policy as plain arrays, as its hash counts it, for the verifier."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..common.content import content_hash


@dataclass(frozen=True, eq=False)
class Agent:
    """A policy by its content: the kind with all that is not an array, and the arrays.

    `kind` is `"markov"`, `"timed"`, one of these with `", memory …"`, or `"history, executable …, told at …"`.
    """

    kind: str
    arrays: Sequence[np.ndarray]

    @property
    def digest(self) -> str:
        """The hash of the policy."""
        return content_hash(self.kind, self.arrays)

    @property
    def word(self) -> str:
        """Its kind without what it remembers: `"markov"`, `"timed"`, or `"history"`, which acts on a graph of histories."""
        return self.kind.split(",")[0]

    @property
    def remembers(self) -> bool:
        """Whether it is a table over what is remembered too."""
        return ", memory " in self.kind

    @property
    def sees(self) -> tuple[str, ...]:
        """The names of the channels whose observations a history policy acts on, where it names any."""
        _, given, names = self.kind.partition(", sees ")
        return tuple(json.loads(names)) if given else ()

    @property
    def told_at(self) -> int | None:
        """The time at which a history policy is told the situation."""
        found = self.kind.partition("told at ")[2].partition(", sees ")[0]
        return None if found == "None" else int(found)
