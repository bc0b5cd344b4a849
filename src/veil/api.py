"""`veil.solve`: one door to every method, which joins the search with the proof."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from .policy.memories import Memory
from .policy.tables import Policy
from .problem.errors import InputError
from .problem.problem import Problem
from .solve.primal_dual import PrimalDualSettings
from .solve.search import Options, search
from .solve.solution import Solution
from .solve.watch import Progress

_PRIMAL_DUAL = ("step", "multiplier_step", "gradients", "optimizer")


def solve(
    problem: Problem,
    method: Literal["auto", "ascent", "primal-dual"] = "auto",
    memory: "str | Memory" = "markov",
    goal: Literal["opaque", "transparent"] = "opaque",
    *,
    objective: Literal["entropy", "leakage", "guess"] = "entropy",
    evaluation: Literal["auto", "exact", "bracket", "sampled"] = "auto",
    per_start: bool = False,
    min_opacity: float | None = None,
    seed: int = 0,
    starts: int | None = None,
    start: Policy | None = None,
    sequences: int = 2000,
    time_limit: float | None = None,
    iterations: int | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: float = 10.0,
    resume: str | Path | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
    **primal_dual: Any,
) -> Solution:
    """The policy that leaves the watcher most uncertain while the expected return stays at `problem.min_return` or above.

    **Arguments:**

    - `method`: `"ascent"`, the default: many starts climb side by side on exact gradients (brackets or fixed samples
      where those do not fit), the best is polished to a stationary point and is exactly feasible; `"primal-dual"`: the
      paper's algorithm, with the further settings `step`, `multiplier_step`, `gradients="exact"` or `"sampled"`,
      `optimizer` (optax), see `PrimalDualSettings`.
    - `memory`: what the policy may depend on: `"markov"`, the state; `"timed"`, state and time; `ObservationMemory(k)`,
      `StateMemory(k)`, `ZoneMemory(zones)`, `Controller(nodes)`.
    - `goal`: `"opaque"` hides, `"transparent"` shows, under the same constraint.
    - `objective`: `"entropy"`, `H(Z|Y)`; `"leakage"`, `I(Z;Y)`; `"guess"`, the watcher's chance of guessing right.
    - `evaluation`: how values are found during the search; the answer says which was used.
    - `per_start`: the return must reach the threshold from every start state, not only on average.
    - `min_opacity`: bits to keep hidden; the return is then maximised instead, and `problem.min_return` not used.
    - `seed`, `starts` (how many), `start` (a policy to begin from as well), `sequences` (of a sampled search).
    - `time_limit` in seconds, `iterations`; Ctrl-C ends the search too: the best feasible policy so far is returned.
    - `checkpoint`: a file to which the search is written every `checkpoint_every` seconds; `resume`: such a file, from
      which the same search goes on and ends as if it had never stopped.
    - `progress`: True for a line on standard error, a function to be called with each `Progress`, False for silence; by
      default a line is drawn on a terminal after two seconds.

    **Returns:** a `Solution`; its status says how the search ended and its class which policies were searched.

    **Raises:** `InfeasibleError`, at once, where no policy reaches the threshold; `InputError`; `CheckpointError`;
    `TooLargeError`.
    """
    settings = _primal_dual(method, primal_dual, iterations, sequences)
    return search(
        problem,
        Options(
            method="ascent" if method == "auto" else method,
            memory=memory,
            goal=goal,
            objective=objective,
            evaluation=evaluation,
            per_start=per_start,
            min_opacity=min_opacity,
            seed=seed,
            starts=starts,
            start=start,
            sequences=sequences,
            time_limit=time_limit,
            iterations=iterations,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            progress=progress,
            primal_dual=settings,
        ),
    )


def _primal_dual(method: str, given: dict[str, Any], iterations: int | None, sequences: int) -> PrimalDualSettings:
    """The settings of the paper's algorithm among the arguments; raises `InputError` on names that mean nothing here."""
    unknown = sorted(set(given) - set(_PRIMAL_DUAL))
    if unknown:
        raise InputError("solve", [f"there is no setting {name!r}" for name in unknown])
    if given and method != "primal-dual":
        names = ", ".join(sorted(given))
        raise InputError("solve", [f"{names}: only method='primal-dual' has this, and the method is {method!r}"])
    if iterations is not None:
        given = given | {"iterations": iterations}
    return PrimalDualSettings(**given, sequences=sequences)
