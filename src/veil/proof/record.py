"""A problem as plain arrays: what `problem.bin` holds, read and checked for the verifier.

`veil.problem.fingerprint.write_content` writes these bytes, and the fingerprint of a problem is their hash. The verifier knows
a problem by them alone. Names in it are for people: channels and quantities are known by their numbers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from .arithmetic import require

FORM = "veil problem, form 2"
SILENT_FOREVER = -1  # in `times`: nothing is received before the last time
_MOST_STEPS = 10**6
_SINGLE: tuple[int, ...] = ()  # the shape of one number


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """A model: `available (S, A)`, `matrices[a] (S, S)`, `rewards (S, A)`, `terminal (S)`, `initial (S)`, `discount`."""

    available: Bool[np.ndarray, "S A"]
    matrices: tuple[sp.csr_array, ...]
    rewards: Float[np.ndarray, "S A"]
    terminal: Float[np.ndarray, " S"]
    initial: Float[np.ndarray, " S"]
    discount: float


@dataclass(frozen=True, eq=False)
class ObserverRecord:
    """What an observer receives.

    **Attributes:** `observations`, O; `on_actions`: what it receives depends on the action; `tables`: one `(S, O)`, or one
    for each action; `at`: those of single times, by the number of
    the time: t is t, the last one -1, and time t if it is the last `-2 - t`; `times` at which it receives any, None for all,
    `(-1,)` for the last alone; `silent`: the observation that it receives at other times; `sees_actions`; `sees_first`: whether
    it receives one at time 0; `untimed`: it does not notice silent steps.
    """

    observations: int
    on_actions: bool
    tables: tuple[sp.csr_array, ...]
    at: dict[int, tuple[sp.csr_array, ...]]
    times: tuple[int, ...] | None
    silent: int
    sees_actions: bool
    sees_first: bool
    untimed: bool

    @property
    def varies(self) -> bool:
        """Whether what it receives after a step depends on the time."""
        return self.times is not None or any(when not in (0, -2) for when in self.at)

    @property
    def all_tables(self) -> tuple[sp.csr_array, ...]:
        """The tables of all times."""
        return (*self.tables, *(table for tables in self.at.values() for table in tables))

    def emitted(self, time: int, horizon: int) -> tuple[sp.csr_array, ...] | None:
        """The tables of a time, None where the silent observation is received for certain."""
        last = time == horizon
        if self.times is not None and not (last if self.times == (SILENT_FOREVER,) else time in self.times):
            return None
        begins = time == 0 and self.on_actions  # no action leads to time 0
        for when in (-2 - time, -1, time) if last else (time,):
            if when in self.at and not (begins and when == -1):
                return self.at[when]
        return self.tables


@dataclass(frozen=True, eq=False)
class ChannelRecord:
    """A secret and the observer who wants it.

    **Attributes:** `name`; `min`, `max`: bounds in bits, or None; `receives`: the number of the channel whose sequence of
    observations its observer receives; `time` at which the secret is settled, `values`: how many it has, `label (K or 1, M,
    S)`,
    -1 for none; `start (S)`, `step (M, S)` of its memory; `weights (K)` of the models; `known (K, M)`: what the agent knows of
    model and memory; `path (S)`: what a secret that is a whole path shows of each state; `believes`: its observer has a belief.
    """

    name: str
    min: float | None
    max: float | None
    observer: ObserverRecord
    receives: int
    time: int
    values: int
    label: Int[np.ndarray, "L M S"]
    start: Int[np.ndarray, " S"]
    step: Int[np.ndarray, "M S"]
    weights: Float[np.ndarray, " K"]
    known: Int[np.ndarray, "K M"]
    path: Int[np.ndarray, " S"] | None
    believes: bool


@dataclass(frozen=True, eq=False)
class QuantityRecord:
    """An expected sum that is bounded: `E[Σ_t d^t rewards + d^T terminal]`, `sign` +1 where it must be `bound` or more, −1
    or less.

    `bound` may be None, a number, or a percentage of what policies can reach. `rewards (K, S, A)`, `terminal (K, M, S)`.
    """

    name: str
    sign: int
    bound: float | str | None
    rewards: Float[np.ndarray, "K S A"]
    terminal: Float[np.ndarray, "K M S"]
    discount: float

    @property
    def relation(self) -> str:
        """`"≥"` or `"≤"`."""
        return "≥" if self.sign > 0 else "≤"


@dataclass(frozen=True, eq=False)
class Record:
    """A problem: models, channels (its own first), quantities (the return first), horizon; `digest` is its fingerprint."""

    models: tuple[ModelRecord, ...]
    channels: tuple[ChannelRecord, ...]
    quantities: tuple[QuantityRecord, ...]
    horizon: int
    endless: bool
    digest: str

    @property
    def states(self) -> int:
        """S."""
        return len(self.models[0].initial)

    @property
    def actions(self) -> int:
        """A."""
        return len(self.models[0].matrices)

    @property
    def knows_model(self) -> bool:
        """Whether the agent can tell which model runs."""
        known = [set(row.tolist()) for row in self.channels[0].known]
        return not any(one & other for number, one in enumerate(known) for other in known[:number])

    def number_of(self, name: str) -> int:
        """The number of the channel with a name, by which files of policies and people call it."""
        names = [one.name for one in self.channels]
        require(name in names, f"problem: it has no channel {name!r}")
        return names.index(name)


def read_record(content: bytes) -> Record:
    """The problem in the bytes of `problem.bin`, with every size, index and sign of a probability checked.

    **Raises:** `CertificateError` saying what is wrong.
    """
    fields = _Fields(content)
    require(fields.texts("form") == [FORM], "problem: it has an unknown form")
    models = tuple(_read_model(fields) for _ in range(fields.count("models")))
    sizes = {(one.rewards.shape, one.discount) for one in models}
    require(len(sizes) == 1 and bool(models), "problem: its models are not of one size and discount")
    (states, actions), num_models = models[0].rewards.shape, len(models)
    shape = num_models, states, actions
    begin = fields.place
    observer = _read_observer(fields, states, actions)
    own_bytes = content[begin : fields.place]
    channels = [_read_secret(fields, "own", None, None, observer, 0, shape)]
    horizon = fields.count("horizon", most=_MOST_STEPS)
    threshold = fields.bound("min return")
    over, sees = fields.texts("return over"), fields.integer("agent sees observations")
    require(sees < 2, "problem: its agent does not see its state, and nothing can be proven of such agents yet")
    require(over in (["horizon"], ["infinite"]), "problem: its return is over an unknown time")
    memories = len(channels[0].step)
    last = np.stack([np.broadcast_to(one.terminal, (memories, states)) for one in models])
    rewards = np.stack([one.rewards for one in models])
    quantities = [QuantityRecord("return", 1, threshold, rewards, last, models[0].discount)]
    for _ in range(fields.count("constraints") if fields.follows("constraints") else 0):
        quantities.append(_read_quantity(fields, (num_models, memories, states, actions)))
    while not fields.ended:
        channels.append(_read_channel(fields, content, own_bytes, len(channels), shape))
    names = [one.name for one in channels]
    require(len(set(names)) == len(names), "problem: two channels have one name")
    for one in channels:
        require(0 <= one.time <= horizon, f"problem: the secret of {one.name} is settled at time {one.time}")
    digest = hashlib.sha256(content).hexdigest()
    return Record(models, tuple(channels), tuple(quantities), horizon, over == ["infinite"], digest)


class _Fields:
    """The tagged fields of `problem.bin`, in the order in which they were written."""

    def __init__(self, content: bytes):
        self.content, self.place = content, 0

    @property
    def ended(self) -> bool:
        return self.place >= len(self.content)

    def follows(self, tag: str) -> bool:
        """Whether the next field has a tag."""
        name = tag.encode()
        return self.content[self.place : self.place + 8 + len(name)] == len(name).to_bytes(8, "little") + name

    def texts(self, tag: str) -> list[str]:
        require(self._begin(tag) == b"s", f"problem: {tag} is no text")
        return [self._sized().decode("utf-8", "surrogatepass") for _ in range(self._size())]

    def integer(self, tag: str) -> int:
        return int(self.integers(tag, _SINGLE).item())

    def count(self, tag: str, most: int = 2**40) -> int:
        found = self.integer(tag)
        require(0 <= found <= most, f"problem: {tag} is {found}, expected 0 … {most}")
        return found

    def integers(self, tag: str, shape: Sequence[int | None] | None = None) -> np.ndarray:
        return self._array(tag, b"i", shape).astype(np.int64)

    def floats(self, tag: str, shape: Sequence[int | None] | None = None) -> np.ndarray:
        found = self._array(tag, b"f", shape).astype(np.float64)
        require(np.isfinite(found), f"problem: {tag} has a number that is not finite")
        return found

    def bound(self, tag: str) -> float | str | None:
        """A bound that may be missing, or a percentage."""
        kind = self._peek(tag)
        if kind == b"-":
            self._begin(tag)
            return None
        if kind != b"s":
            return float(self.floats(tag, _SINGLE).item())
        text = self.texts(tag)
        share = text[0].removesuffix("%") if len(text) == 1 else ""
        require(share.replace(".", "", 1).isascii() and _is_share(share), f"problem: {tag} is {text!r}")
        return text[0]

    def bound_is_missing(self, tag: str) -> bool:
        """Whether a field says that there is nothing; it is then passed over."""
        missing = self._peek(tag) == b"-"
        if missing:
            self._begin(tag)
        return missing

    def skip_until(self, tag: str) -> None:
        """Pass over fields until one with a tag, or the end."""
        while not self.ended and not self.follows(tag):
            self._sized()
            kind = self.content[self.place : self.place + 1]
            self.place += 1
            if kind == b"s":
                for _ in range(self._size()):
                    self._sized()
            elif kind != b"-":
                count = 8
                for size in [self._size() for _ in range(self._size())]:
                    count *= size
                self.place += count
            require(kind in (b"s", b"-", b"i", b"f") and self.place <= len(self.content), "problem: it ends early")

    def bits(self, tag: str) -> float | None:
        """A bound in bits that may be missing."""
        found = self.bound(tag)
        require(
            found is None or (isinstance(found, float) and found >= 0), f"problem: {tag} is {found!r}, expected bits"
        )
        return found if isinstance(found, float) else None

    def matrix(self, tag: str, states: int) -> sp.csr_array:
        """A square table of probabilities."""
        shape = tuple(self.integers(f"{tag}: shape", (2,)).tolist())
        require(shape == (states, states), f"problem: {tag} has the shape {shape}")
        ends, columns = self.integers(f"{tag}: row ends", (states + 1,)), self.integers(f"{tag}: columns", (None,))
        values = self.floats(f"{tag}: values", columns.shape)
        whole = ends[0] == 0 and ends[-1] == len(columns) and (np.diff(ends) >= 0).all() and (values > 0).all()
        inside = ((columns >= 0) & (columns < states)).all()
        require(whole and inside, f"problem: {tag} are no table of probabilities")
        rows = np.repeat(np.arange(states), np.diff(ends))
        require(np.diff(rows * states + columns) > 0, f"problem: {tag} have an entry twice")
        return sp.csr_array((values, columns, ends), shape=shape)

    def tables(self, tag: str, states: int, actions: int, observations: int) -> tuple[tuple[sp.csr_array, ...], bool]:
        """Emissions on states, or on actions and next states; and which of both."""
        found = self.floats(tag)
        shapes = (states, observations), (actions, states, observations)
        require(found.shape in shapes and (found >= 0).all(), f"problem: {tag} are no table of probabilities")
        return tuple(sp.csr_array(table) for table in found.reshape(-1, states, observations)), found.ndim == 3

    def _array(self, tag: str, kind: bytes, shape: Sequence[int | None] | None) -> np.ndarray:
        require(self._begin(tag) == kind, f"problem: {tag} has numbers of another kind")
        found = tuple(self._size() for _ in range(self._size()))
        fits = shape is None or (
            len(shape) == len(found) and all(want in (None, size) for want, size in zip(shape, found, strict=True))
        )
        require(fits, f"problem: {tag} has the shape {found}, expected {shape}")
        count = 1
        for size in found:
            count *= size
        require(count <= (len(self.content) - self.place) // 8, f"problem: it ends within {tag}")
        end = self.place + 8 * count
        array = np.frombuffer(self.content[self.place : end], dtype="<i8" if kind == b"i" else "<f8").reshape(found)
        self.place = end
        return array

    def _begin(self, tag: str) -> bytes:
        kind = self._peek(tag)
        self.place += 8 + len(tag.encode()) + 1
        return kind

    def _peek(self, tag: str) -> bytes:
        place, size = self.place, int.from_bytes(self.content[self.place : self.place + 8], "little")
        found = self.content[place + 8 : place + 8 + min(size, 200)].decode("utf-8", "replace")
        require(found == tag, f"problem: {found!r} is found where {tag!r} is expected")
        return self.content[place + 8 + size : place + 9 + size]

    def _size(self) -> int:
        found = int.from_bytes(self.content[self.place : self.place + 8], "little")
        self.place += 8
        require(found <= len(self.content), "problem: it ends early")
        return found

    def _sized(self) -> bytes:
        size = self._size()
        self.place += size
        require(self.place <= len(self.content), "problem: it ends early")
        return self.content[self.place - size : self.place]


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 100
    except ValueError:
        return False


def _read_model(fields: _Fields) -> ModelRecord:
    states, actions = len(fields.texts("states")), len(fields.texts("actions"))
    available = fields.integers("available", (states, actions)) != 0
    matrices = tuple(fields.matrix("transitions", states) for _ in range(actions))
    for action, matrix in enumerate(matrices):
        moves = np.diff(matrix.indptr) > 0
        require(
            moves == available[:, action],
            "problem: an action that is not available leads somewhere, or one leads nowhere",
        )
    require(available.any(axis=1) & (actions > 0), "problem: a state has no action")
    rewards = fields.floats("rewards", (states, actions))
    terminal = fields.floats("terminal rewards", (states,))
    initial, discount = fields.floats("initial", (states,)), float(fields.floats("discount", ()))
    require((initial >= 0).all() and 0 <= discount <= 1, "problem: its start or its discount is no probability")
    return ModelRecord(available, matrices, rewards, terminal, initial, discount)


def _read_observer(fields: _Fields, states: int, actions: int) -> ObserverRecord:
    observations = len(fields.texts("observations"))
    tables, on_actions = fields.tables("emissions", states, actions, observations)
    sees_actions, sees_initial = (fields.integer(tag) for tag in ("sees actions", "sees initial"))
    require({sees_actions, sees_initial} <= {0, 1}, "problem: what an observer sees is no truth value")
    times, at, untimed, silent = None, dict[int, tuple[sp.csr_array, ...]](), False, -1
    if fields.follows("times"):
        times = tuple(fields.integers("times", (None,)).tolist())
    while fields.follows("emissions at"):
        when = fields.integer("emissions at")
        at[when] = fields.tables("emissions then", states, actions, observations)[0]
    if fields.follows("untimed"):
        untimed = fields.integer("untimed") == 1
    if fields.follows("silent"):
        silent = fields.count("silent", observations - 1)
    require(silent >= 0 or not (untimed or times is not None), "problem: an observer has no silent observation")
    require(not (untimed and sees_actions), "problem: an observer without a clock sees actions")
    first = bool(sees_initial) and (not on_actions or bool({0, -2} & set(at)))
    return ObserverRecord(observations, on_actions, tables, at, times, silent, bool(sees_actions), first, untimed)


def _read_secret(
    fields: _Fields,
    name: str,
    least: float | None,
    most: float | None,
    observer: ObserverRecord,
    receives: int,
    shape: tuple[int, int, int],
) -> ChannelRecord:
    models, states, _ = shape
    time, values = fields.count("secret: time"), len(fields.texts("secret: values"))
    label = fields.integers("secret: label", (None, None, states))
    start = fields.integers("secret: memory at the start", (states,))
    step = fields.integers("secret: memory after a step", (label.shape[1], states))
    fields.texts("secret: memories")
    memories, weights = len(step), np.ones(1)
    if fields.bound_is_missing("secret: weights"):
        require(models == 1, "problem: several models run, and their probabilities are missing")
    else:
        weights = fields.floats("secret: weights", (models,))
    known = fields.integers("secret: agent knows", (models, memories))
    path = fields.integers("secret: path", (states,)) if fields.follows("secret: path") else None
    words = f"problem: the secret of {name} has a value at every time, of which nothing can be proven yet"
    require(not fields.follows("secret: at each time"), words)
    good = values > 0 and len(label) in (1, models) and (label >= -1).all() and (label < values).all()
    good &= ((start >= 0) & (start < memories)).all() and ((step >= 0) & (step < memories)).all()
    good &= (weights >= 0).all() and (known >= 0).all() and (path is None or bool((path >= 0).all()))
    require(good, f"problem: the secret of {name} has a number that is out of range")
    return ChannelRecord(
        name, least, most, observer, receives, time, values, label, start, step, weights, known, path, False
    )  # fmt: skip


def _read_quantity(fields: _Fields, shape: tuple[int, int, int, int]) -> QuantityRecord:
    models, memories, states, actions = shape
    (name,), sign = fields.texts("constraint"), fields.integer("constraint: sign")
    require(sign in (-1, 1), "problem: a constraint has no sign")
    bound = fields.bound("constraint: bound")
    require(bound is not None, "problem: a constraint has no bound")
    rewards = fields.floats("constraint: rewards", (models, states, actions))
    terminal = fields.floats("constraint: terminal rewards", (models, memories, states))
    discount = float(fields.floats("constraint: discount", ()))
    require(0 <= discount <= 1, "problem: a discount is outside 0 … 1")
    return QuantityRecord(name, sign, bound, rewards, terminal, discount)


def _read_channel(
    fields: _Fields, content: bytes, own: bytes, number: int, shape: tuple[int, int, int]
) -> ChannelRecord:
    (name,), least, most = fields.texts("pair"), fields.bits("pair: min"), fields.bits("pair: max")
    other = fields.follows("pair: apart")
    if other:
        fields.integer("pair: apart")
    begin = fields.place
    observer = _read_observer(fields, *shape[1:])
    receives = 0 if content[begin : fields.place] == own and not other else number
    found = _read_secret(fields, name, least, most, observer, receives, shape)
    if not fields.follows("belief: doubt"):
        return found
    fields.skip_until("pair")  # its loss is no entropy, and nothing is proven of it
    return ChannelRecord(**{**found.__dict__, "believes": True})
