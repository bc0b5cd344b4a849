"""`Trained`: an agent that was trained by steps alone, what a fresh observer learnt of its secret, and its files."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from ..common.errors import InputError, PolicyFileError
from ..common.files import read_whole, write_whole
from ..common.text import aligned
from ..common.values import Value
from ..formats.documents import json_text
from ..learning.audited import Estimate
from ..measure.result import Opacity
from ..policy.markov import MarkovPolicy, TimedPolicy

if TYPE_CHECKING:
    from .agent import Shape

_FORMAT = "veil-trained-1"
_ARRAYS, _DOCUMENT = "agent.safetensors", "trained.json"
_IN_ARRAYS = ("arrays", "allowed")  # fields that the first file holds
_MOST_BYTES = 2**30


@dataclass(frozen=True, eq=False, repr=False)
class Iteration(Value):
    """One iteration: episodes so far, their mean return, the observer's mean surprise in bits, the multiplier of the return."""

    iteration: int
    episodes: int
    expected_return: float
    surprise_bits: float
    multiplier: float


@dataclass(frozen=True, eq=False, repr=False)
class Trained(Value):
    """An agent that was trained by steps alone.

    **Attributes:**

    - `loss_bits`: the mean of `−log2 q(z|y)` in fresh runs, for an observer that was fitted to other fresh runs after training
      had ended, with its interval. It estimates the loss of this observer. It is no opacity: a better observer loses less.
    - `prior_bits`: the entropy of the secret in these runs, the loss of an observer who sees nothing.
    - `expected_return`: the mean return of all fresh runs, with its interval; `min_return`, what was asked for.
    - `opacity`, `true_return`: the values under the model of the problem; None if no problem was given.
    - `history`: an `Iteration` for each iteration that was recorded.
    - `num_episodes` that the training took; `evaluation_runs`; `confidence` of the intervals; `seed`; `notes`.
    - `shape`, `arrays`: the network, by name; `allowed`: `(S, A)`, the actions that can be taken, or None.
    """

    loss_bits: Estimate
    prior_bits: float
    expected_return: Estimate
    min_return: float | None
    opacity: Opacity | None
    true_return: float | None
    history: tuple[Iteration, ...]
    num_episodes: int
    evaluation_runs: int
    confidence: float
    seed: int
    notes: tuple[str, ...]
    shape: "Shape"
    arrays: Mapping[str, np.ndarray]
    allowed: np.ndarray | None = None

    @property
    def feasible(self) -> bool:
        """Whether the mean return of the fresh runs, or the true one if it is known, is at least `min_return`."""
        found = self.expected_return.value if self.true_return is None else self.true_return
        return self.min_return is None or found >= self.min_return

    def act(self, state: Any, time: int = 0, *, random: np.random.Generator) -> Any:
        """An action in a state that the environment shows, at a time."""
        chances = self._network(np.asarray(state)[None], np.array([time], dtype=np.int32))
        if not self.shape.continuous:
            return int(random.choice(self.shape.actions, p=chances[0]))
        return chances[0] + np.exp(self.arrays["policy/log_spread"]) * random.normal(size=self.shape.actions)

    def policy(self) -> MarkovPolicy | TimedPolicy:
        """The agent as a policy of a problem whose states are those of the environment, in their order.

        **Raises:** `InputError` if states or actions are not numbered.
        """
        if not self.shape.states or self.shape.continuous:
            raise InputError("Trained.policy", ["the environment has continuous states or actions: use act"])
        states = np.tile(np.arange(self.shape.states, dtype=np.int32), self.shape.times)
        times = np.repeat(np.arange(self.shape.times, dtype=np.int32), self.shape.states)
        table = self._network(states, times).reshape(self.shape.times, self.shape.states, -1)
        return MarkovPolicy(table[0]) if self.shape.times == 1 else TimedPolicy(table)

    def _network(self, states: np.ndarray, times: np.ndarray) -> Float[np.ndarray, "n A"]:
        """Probabilities, rows of 64 bits with the sum 1; of continuous actions their middle."""
        from . import agent

        given = states.astype(np.int32 if self.shape.states else np.float32)
        if self.shape.continuous:
            return np.asarray(agent.middle(self._params, given, times), dtype=np.float64)
        logs = np.asarray(agent.log_choices(self._params, given, times, self.allowed), dtype=np.float64)
        chances = np.exp(logs)
        return chances / chances.sum(axis=1, keepdims=True)

    @cached_property
    def _params(self) -> dict[str, Any]:
        return nested(self.arrays)

    def facts(self) -> list[tuple[str, str]]:
        """The answer as names and values for a table."""
        loss, earned = self.loss_bits, self.expected_return
        share = f"{self.confidence:.0%}"
        rows = [
            ("observer's loss", f"{loss.value:.4f} bits ({share}: {loss.low:.4f} to {loss.high:.4f})"),
            ("secret", f"{self.prior_bits:.4f} bits"),
            ("return", f"{earned.value:.4g} ({share}: {earned.low:.4g} to {earned.high:.4g})"),
        ]
        if self.min_return is not None:
            rows.append(("asked for", f"{self.min_return:.6g}" + ("" if self.feasible else ", not reached")))
        if self.opacity is not None:
            rows.append(("hidden, by the model", f"{self.opacity.value} bits"))
            rows.append(("return, by the model", f"{self.true_return:.6g}"))
        return [*rows, ("runs", f"{self.num_episodes:,} for training, {self.evaluation_runs:,} fresh ones")]

    def summary(self) -> str:
        """The facts as text, and what they do not say."""
        lines = [aligned(self.facts()), *self.notes]
        if self.opacity is None:
            lines.append("The loss is that of one observer, fitted to samples: a better observer may lose less.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        loss, earned = self.loss_bits.value, self.expected_return.value
        return f"Trained(loss {loss:.4f} of {self.prior_bits:.4f} bits, return {earned:.6g})"

    def save(self, folder: str | Path) -> None:
        """Write the network (`agent.safetensors`) and everything else (`trained.json`) into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        arrays = dict(self.arrays) | ({} if self.allowed is None else {"allowed": self.allowed})
        write_whole(place / _ARRAYS, save_arrays({name: np.ascontiguousarray(one) for name, one in arrays.items()}))
        write_whole(place / _DOCUMENT, json_text(self.document()).encode())

    def document(self) -> dict[str, Any]:
        """What `trained.json` holds: everything but the arrays."""
        facts = replace(self, arrays={}, allowed=None)
        return {"format": _FORMAT} | {name: one for name, one in asdict(facts).items() if name not in _IN_ARRAYS}

    @staticmethod
    def load(folder: str | Path) -> "Trained":
        """Read what `save` wrote. **Raises:** `PolicyFileError`."""
        from .agent import Shape

        place = Path(folder)
        try:
            document = json.loads(read_whole(place / _DOCUMENT, _MOST_BYTES))
            arrays = load_arrays(read_whole(place / _ARRAYS, _MOST_BYTES))
            if document.get("format") != _FORMAT:
                raise PolicyFileError(f"{place / _DOCUMENT} has the format {document.get('format')!r}, not {_FORMAT!r}")
            facts = {name: one for name, one in document.items() if name != "format"}
            facts |= {name: Estimate(**facts[name]) for name in ("loss_bits", "expected_return")}
            facts["opacity"] = None if facts["opacity"] is None else Opacity(**facts["opacity"])
            facts["history"] = tuple(Iteration(**one) for one in facts["history"])
            facts |= {"notes": tuple(facts["notes"]), "shape": Shape(**facts["shape"])}
            return Trained(**facts, allowed=arrays.pop("allowed", None), arrays=arrays)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
            if isinstance(error, PolicyFileError):
                raise
            raise PolicyFileError(f"{place} does not hold a trained agent: {error}") from None


def flat(params: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of nested parameters, by the names of the way to them."""
    found: dict[str, np.ndarray] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            found |= {f"{name}/{rest}": array for rest, array in flat(value).items()}
        else:
            found[name] = np.asarray(value)
    return found


def nested(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The inverse of `flat`."""
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        *way, last = name.split("/")
        here = found
        for part in way:
            here = here.setdefault(part, {})
        here[last] = array
    return found
