"""A problem as plain arrays: what `problem.bin` holds, read and checked for the verifier.

The verifier knows a problem by these arrays alone, and names in them are for people. `compiled.py` makes them from a problem,
and a hash tells whether they are those of a scenario.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load

from ..common.verdicts import CertificateError
from .arithmetic import Numbers, require
from .reading import MALFORMED, Arrays, Rows, check_form, each_once, formed, forms_of, is_amount, is_finite, whole

FORM = "veil-record-1"
_MOST = 2**40
_MOST_STEPS = 10**6
_MOST_EVENTS = 2**31  # of an observer: times all histories that a pass can hold it is a 64-bit number


def _is_bound(bound: object) -> bool:
    """Whether something is a number or a percentage."""
    share = bound.removesuffix("%") if isinstance(bound, str) else ""
    plain = share.replace(".", "", 1)
    return is_finite(bound) or (plain.isascii() and plain.isdigit() and float(share) <= 100)


@dataclass(frozen=True, eq=False)
class ObserverRecord:
    """What an observer receives of each state of the model, or of each pair (action, state), in the order `a · S + s`.

    **Attributes:** `observations`, O; `tables`; `at (T+1)`: the number of the table of each time, -1 where `silent` is received
    for certain; `sees_actions`; `sees_first`: whether it receives an observation at time 0; `untimed`: it does not notice
    silent steps.
    """

    observations: int = field(metadata=formed(whole(1, _MOST_EVENTS)))
    tables: tuple[Rows, ...] = field(metadata=formed(whole(1)))  # a head tells how many
    at: Numbers
    silent: int = field(metadata=formed(whole(-1)))
    sees_actions: bool = field(metadata=formed(bool))
    sees_first: bool = field(metadata=formed(bool))
    untimed: bool = field(metadata=formed(bool))

    @property
    def varies(self) -> bool:
        """Whether what it receives after a step depends on the time."""
        return len(np.unique(self.at[1:])) > 1

    def table(self, time: int) -> int:
        """The number of its table at a time, or -1; after the horizon it goes on as after the first step."""
        return int(self.at[time if time < len(self.at) else min(1, len(self.at) - 1)])


@dataclass(frozen=True, eq=False)
class ChannelRecord:
    """A secret and the observer who wants it.

    **Attributes:** `name`; `min`, `max`: bounds in bits, or None; `receives`: the number of its observer; `refused`: why
    nothing can be proven of it, or empty; `kind`: `"once"`, `"path"` or `"each"`; `values`: how many the secret has; `value
    (N)`: what it is in each hidden state at `time`, -1 for none; of a path what it shows, with a value at each time (`"each"`)
    that, with the `weights (T+1)` of the times; with `ahead`, whether value 1 comes within so many steps. `situation (N)`:
    `(k · M + m) · S + s` with what the channel remembers.
    """

    name: str = field(metadata=formed(str))
    min: float | None = field(metadata=formed((is_amount,)))
    max: float | None = field(metadata=formed((is_amount,)))
    receives: int = field(metadata=formed(whole()))
    refused: str = field(metadata=formed(str))
    kind: str = field(metadata=formed(lambda kind: kind in ("once", "path", "each")))
    time: int = field(metadata=formed(whole()))
    values: int = field(metadata=formed(whole(1, _MOST)))
    value: Numbers
    weights: Float[np.ndarray, " T"]
    ahead: int = field(metadata=formed(whole(0, _MOST)))
    situation: Numbers


@dataclass(frozen=True, eq=False)
class QuantityRecord:
    """An expected sum that may be bounded: `E[Σ_t d^t rewards + d^T terminal]`, `sign` +1 where it must be `bound` or more, −1
    or less. `bound` may be None, a number, or a percentage of what policies can reach. `rewards (N, A)`, `terminal (N)`."""

    name: str = field(metadata=formed(str))
    sign: int = field(metadata=formed(lambda sign: type(sign) is int and sign in (-1, 1)))
    bound: float | str | None = field(metadata=formed((_is_bound,)))
    rewards: Float[np.ndarray, "N A"]
    terminal: Float[np.ndarray, " N"]
    discount: float = field(metadata=formed(lambda discount: is_amount(discount) and discount <= 1))

    @property
    def relation(self) -> str:
        """`"≥"` or `"≤"`."""
        return "≥" if self.sign > 0 else "≤"


@dataclass(frozen=True, eq=False)
class Record:
    """A problem on the hidden states x = (model that runs, what all channels remember, state of the model), N of them.

    **Attributes:** `moves`: of the rows `x · A + a`, none where a is not available; `starts`: x, and the probability of its
    model and of its state; `model (N)`, `state (N)`; `cell (N)`: what the agent knows, a row of a table without memory, of
    which there are `cells`; `observers`: each sequence of observations once; `channels`, its own first; `quantities`, the
    return first; `agent`: the number of the observer whose observations the agent receives; `blind`: it sees nothing else;
    `knows_model`. `problem` is the fingerprint of the problem, told and not checked here; `digest` is the hash of the record.
    """

    states: int = field(metadata=formed(whole(1, _MOST)))
    actions: int = field(metadata=formed(whole(1, _MOST)))
    horizon: int = field(metadata=formed(whole(0, _MOST_STEPS)))
    endless: bool = field(metadata=formed(bool))
    moves: Rows
    starts: tuple[Numbers, np.ndarray, np.ndarray]
    model: Numbers
    state: Numbers
    cell: Numbers
    cells: int = field(metadata=formed(whole(1, _MOST)))
    agent: int = field(metadata=formed(whole()))
    blind: bool = field(metadata=formed(bool))
    knows_model: bool = field(metadata=formed(bool))
    observers: tuple[ObserverRecord, ...] = field(metadata=formed([forms_of(ObserverRecord)]))
    channels: tuple[ChannelRecord, ...] = field(metadata=formed([forms_of(ChannelRecord)]))
    quantities: tuple[QuantityRecord, ...] = field(metadata=formed([forms_of(QuantityRecord)]))
    problem: str = field(metadata=formed(str))
    digest: str

    @property
    def size(self) -> int:
        """N."""
        return len(self.state)

    def number_of(self, name: str) -> int:
        """The number of the channel with a name, by which files of policies and people call it."""
        names = [one.name for one in self.channels]
        require(name in names, f"problem: it has no channel {name!r}")
        return names.index(name)


def read_record(content: bytes) -> Record:
    """The problem in the bytes of `problem.bin`, with every size, index and sign of a probability checked.

    **Raises:** `CertificateError` saying what is wrong.
    """
    try:
        arrays = load(content)
        text = content[8 : 8 + int.from_bytes(content[:8], "little")]
        form, _, text = json.loads(text, object_pairs_hook=each_once)["__metadata__"]["veil"].partition(" ")
        require(form == FORM, "problem: it has an unknown form")
        head = json.loads(text, object_pairs_hook=each_once)
        check_form(head, forms_of(Record), "problem")
        return _Reader(head, arrays).record(hashlib.sha256(content).hexdigest())
    except CertificateError:
        raise
    except (*MALFORMED, RecursionError, SafetensorError) as error:
        raise CertificateError(f"problem: it cannot be read ({type(error).__name__}: {error})") from None


class _Reader(Arrays):
    """The arrays of a file, and the part of its head that is read."""

    def __init__(self, head: dict[str, Any], arrays: dict[str, np.ndarray]):
        super().__init__(arrays, "problem")
        self.head = head
        self.states, self.actions = head["states"], head["actions"]
        self.horizon, self.size = head["horizon"], len(arrays["state"])

    def record(self, digest: str) -> Record:
        head, size = self.head, self.size
        moves = self.rows("moves", size * self.actions, size)
        require((moves.degree.reshape(size, -1) > 0).any(axis=1), "problem: a state has no action")
        starts = self.integers("starts", 0, size)
        factors = [self.floats(f"starts.{name}", len(starts)) for name in ("model", "state")]
        require(np.array(factors) > 0, "problem: a start has no probability")
        model = self.integers("model", 0, size, size)
        runs = np.zeros(size)
        runs[model[starts]] = factors[0]
        require(runs[model[starts]] == factors[0], "problem: a model has two probabilities")
        require(np.bincount(starts, minlength=1) < 2, "problem: a start comes twice")
        observers = tuple(self.observer(one, f"observers.{n}.") for n, one in enumerate(head["observers"]))
        channels = tuple(self.channel(one, f"channels.{n}.", len(observers)) for n, one in enumerate(head["channels"]))
        require(len({one.name for one in channels}) == len(channels) > 0, "problem: two channels have one name")
        quantities = tuple(self.quantity(one, f"quantities.{n}.") for n, one in enumerate(head["quantities"]))
        require(quantities[0].name == "return" and quantities[0].sign == 1, "problem: it has no return")
        counts = quantities[0].discount < 1 or not head["endless"]
        require(counts, "problem: the return over an infinite horizon has no discount")
        require(head["agent"] < len(observers), "problem: there is no observer of the number of its agent")
        lists = {"observers": observers, "channels": channels, "quantities": quantities}
        state, cell = self.integers("state", 0, self.states), self.integers("cell", 0, head["cells"], size)
        parts = {"moves": moves, "starts": (starts, *factors), "model": model, "state": state, "cell": cell}
        return Record(**{**head, **lists, **parts}, digest=digest)

    def observer(self, head: dict[str, Any], own: str) -> ObserverRecord:
        observations, tables = head["observations"], list[Rows]()
        for n in range(head["tables"]):
            rows = len(self.arrays[f"{own}tables.{n}.ends"]) - 1
            require(rows in (self.states, self.actions * self.states), "problem: emissions are of another size")
            tables.append(self.rows(f"{own}tables.{n}", rows, observations))
            require(tables[-1].degree > 0, "problem: a state shows nothing")
        at, silent = self.integers(f"{own}at", -1, len(tables), self.horizon + 1), head["silent"]
        good = (0 if head["untimed"] or (at < 0).any() else -1) <= silent < observations
        require(good, "problem: an observer has no silent observation")
        require(not (head["untimed"] and head["sees_actions"]), "problem: an observer without a clock sees actions")
        require(observations * self.actions <= _MOST_EVENTS, "problem: an observer has too many events")
        return ObserverRecord(**{**head, "tables": tuple(tables), "at": at})

    def channel(self, head: dict[str, Any], own: str, observers: int) -> ChannelRecord:
        kind, weights = head["kind"], np.zeros(0)
        require(head["receives"] < observers and head["time"] <= self.horizon, "problem: a channel is out of range")
        if kind == "each":
            weights = self.floats(f"{own}weights", self.horizon + 1)
            require((weights >= 0).all() and weights.any(), "problem: weights of times are below zero")
        value = self.integers(f"{own}value", 0 if kind == "each" else -1, head["values"], self.size)
        situation = self.integers(f"{own}situation", 0, _MOST, self.size)
        return ChannelRecord(**head, value=value, weights=weights, situation=situation)

    def quantity(self, head: dict[str, Any], own: str) -> QuantityRecord:
        rewards = self.floats(f"{own}rewards", self.size, self.actions)
        terminal = self.floats(f"{own}terminal", self.size)
        return QuantityRecord(**{**head, "discount": float(head["discount"])}, rewards=rewards, terminal=terminal)
