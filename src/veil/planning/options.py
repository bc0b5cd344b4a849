"""The options of the solver, each declared once; signatures, scenario files, flags and documents derive from here.

To add an option, add one field: to `SearchOptions` if a curve (`tradeoffs.options`) has it as well as a single solution, else
to `SolveOptions`. This module imports neither NumPy nor pydantic, so that the command line starts quickly.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from ..common.settings import About

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ..common.clock import ProgressOption
    from ..common.workers import Workers
    from ..policy.memories import Memory
    from ..policy.policy import Policy

Goal = Literal["opaque", "transparent"]
Objective = Literal["entropy", "leakage", "guess"]
Evaluation = Literal["auto", "exact", "bracket", "sampled"]
Device = Literal["auto", "cpu", "jax"]
MemoryName = Literal["markov", "timed", "history"]


class Optimizer(Protocol):
    """A transformation of optax, such as `optax.adam(0.05)`: how its state begins, and how a gradient becomes a step."""

    @property
    def init(self) -> Callable[..., object]: ...  # noqa: D102

    @property
    def update(self) -> Callable[..., tuple[object, object]]: ...  # noqa: D102


def is_memory(value: object) -> bool:
    """Whether a value is what `memory=` takes."""
    from ..policy.memories import Memory

    return isinstance(value, Memory) or (isinstance(value, str) and value in ("markov", "timed", "history"))


def _is_progress(value: object) -> bool:
    return isinstance(value, bool) or callable(value)


def _is_team(value: object) -> bool:
    from ..common.workers import is_team

    return is_team(value)


_SEARCHES = ("ascent", "primal-dual")  # the methods that search one class of policies
# Settings of these methods that the command line does not have.
_search = partial(About, methods=_SEARCHES, flag="")
_ascent, _dual = (partial(About, methods=(one,), flag="") for one in _SEARCHES)
PROGRESS = About(
    "True draws a progress line on standard error, False none; a function is called with each Progress.",
    unset="a line if standard error is a terminal, after two seconds",
    in_file=False,
    flag="",
    in_identity=False,
    accepts=_is_progress,
    expected="True, False or a function",
)

MEMORY = About(
    "What the policy may depend on: the state (markov), state and time (timed), a finite memory, or the whole history"
    " of observations (history; method game only).",
    accepts=is_memory,
    expected="'markov', 'timed', 'history', or a memory such as veil.StateMemory(1)",
)


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What a single solution and every point of a frontier have in common."""

    objective: Annotated[
        Objective,
        About(
            "Quantity to optimise: H(Z|Y) (entropy), I(Z;Y) (leakage), or the probability of the observer's best"
            " guess (guess).",
            flag="",
        ),
    ] = "entropy"
    evaluation: Annotated[
        Evaluation,
        _search(
            "How the search evaluates the objective: over all observation sequences (exact), by the lower bound of a"
            " bracket, or on samples; auto is exact if that is fast enough, else sampled."
        ),
    ] = "auto"
    device: Annotated[
        Device,
        _ascent(
            "Where a search on samples runs: with NumPy (cpu), or on JAX's devices (jax); auto uses JAX if it has an"
            " accelerator."
        ),
    ] = "auto"
    per_start: Annotated[
        bool, _search("Require the threshold on the return from every start state, not only on average.")
    ] = False
    seed: Annotated[int, About("Random seed.", least=0, most=2**63 - 1)] = 0
    starts: Annotated[
        int | None, _search("Number of starting policies.", least=1, most=100_000, unset="4 to 36, by their cost")
    ] = None
    sequences: Annotated[
        int, _search("Number of sequences that a sampled evaluation or gradient draws.", least=2, most=10**8)
    ] = 2000
    time_limit: Annotated[
        float | None, About("Time limit in seconds; the best result so far is returned.", least=0, in_identity=False)
    ] = None
    iterations: Annotated[
        int | None, About("Maximum number of iterations.", least=0, most=10**9, unset="set by the method", flag="")
    ] = None
    workers: Annotated[
        "Workers",
        About(
            "Number of processes that share the work, auto for as many as there are cores once it takes a second, or the"
            " address of a Dask scheduler; the answer does not depend on it.",
            in_file=False,
            in_identity=False,
            accepts=_is_team,
            expected="'auto', a whole number, 1 or more, or the address of a Dask scheduler",
            methods=_SEARCHES,
        ),
    ] = "auto"
    progress: Annotated["ProgressOption", PROGRESS] = None


@dataclass(frozen=True)
class SolveOptions(SearchOptions):
    """The options of `veil.solve`."""

    method: Annotated[
        str, About("Method: auto (ascent), ascent, primal-dual, game, queries, or that of an installed package.")
    ] = "auto"
    memory: Annotated["MemoryName | Memory", MEMORY] = "markov"
    goal: Annotated[
        Goal, About("Conceal the secret (opaque) or reveal it (transparent), under the same constraint.", flag="")
    ] = "opaque"
    _: KW_ONLY
    min_opacity: Annotated[
        float | None,
        _search(
            "Bits that must stay hidden; the task, or without one the return, is then maximised, and min_return is"
            " not used.",
            least=0,
        ),
    ] = None
    task: Annotated[
        str | None,
        About(
            "A sum of rewards, probabilities of formulas and bits of pairs, such as '-0.1*energy + P(F goal) -"
            " 0.5*H(friend)', maximised beside the objective, or with min_opacity instead of it.",
            methods=(*_SEARCHES, "game", "queries"),
            flag="",
        ),
    ] = None
    hide: Annotated[
        str,
        About(
            "Pairs to hide, separated by commas; the smallest opacity among them is maximised. own is the problem's"
            " secret and observer.",
            methods=("ascent", "game"),
            flag="",
        ),
    ] = "own"
    start: Annotated[
        "Policy | None",
        About(
            "Policy to start from, besides the usual starts; it replaces the answers of smaller classes.",
            in_file=False,
            methods=_SEARCHES,
        ),
    ] = None
    features: Annotated[
        "str | ArrayLike | None",
        _ascent(
            "Search a feature policy instead of a table: coordinates (of a grid), variables (of an imported model),"
            " one-hot, or in Python an array with a row per state.",
            unset="a table",
            form=str,
            accepts=lambda value: isinstance(value, str) or hasattr(value, "__array__"),
            expected="'coordinates', 'variables', 'one-hot', or an array S × F",
        ),
    ] = None
    hidden_units: Annotated[
        int, _ascent("Units of the hidden layer of a feature policy; 0 for a linear one.", least=0, most=10_000)
    ] = 48
    gap: Annotated[
        float | None,
        About(
            "The search stops when its proven bounds are this many bits apart.",
            above=0,
            unset="0.001, or 0.05 if the tree of observations is too large; of queries 1e-6",
            methods=("game", "queries"),
            flag="",
        ),
    ] = None
    step: Annotated[
        float | None,
        _dual(
            "Step size of the policy's parameters.",
            above=0,
            finite=True,
            unset="0.3 per row of the policy's table, at most 30; 0.05 with an optimizer",
        ),
    ] = None
    multiplier_step: Annotated[
        float | None,
        _dual(
            "Step size of the multiplier.", above=0, finite=True, unset="0.2 / (largest - smallest attainable return)^2"
        ),
    ] = None
    gradients: Annotated[
        Literal["exact", "sampled"],
        _dual(
            "Gradients from all observation sequences (exact), or from fresh samples in each iteration (sampled), as"
            " in the paper."
        ),
    ] = "exact"
    optimizer: Annotated[
        str | Optimizer | None,
        _dual(
            "Optimizer of optax, by name, such as adam; in Python also an optax transformation.",
            unset="a plain gradient step",
            form=str,
            accepts=lambda value: isinstance(value, str) or hasattr(value, "update"),
            expected="the name of one of optax's optimizers, or an optax transformation",
        ),
    ] = None
    checkpoint: Annotated[
        str | Path | None,
        About(
            "Checkpoint file, saved periodically during the search.",
            form=Path,
            in_file=False,
            in_identity=False,
            methods=_SEARCHES,
        ),
    ] = None
    checkpoint_every: Annotated[
        float, _search("Seconds between two checkpoints.", least=0, in_file=False, in_identity=False)
    ] = 10.0
    resume: Annotated[
        str | Path | None,
        _search(
            "Checkpoint to resume from; the result is that of an uninterrupted run.",
            form=Path,
            in_file=False,
            in_identity=False,
        ),
    ] = None
    certificate: Annotated[
        bool,
        About("Prove an upper bound over all policies, in a quarter of the time limit.", flag="", in_identity=False),
    ] = True
    certificate_time_limit: Annotated[
        float | None,
        About(
            "Time limit of the proof in seconds.",
            least=0,
            flag="--proof-time-limit",
            in_identity=False,
            unset="20; after a game the rest of `time_limit`",
        ),
    ] = None
