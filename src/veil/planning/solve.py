"""`veil.solve`: one door to every method, which joins the search with the proof."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..common.checks import Defects, is_number
from ..common.clock import Clock, ProgressOption
from ..common.errors import InputError, VeilError
from ..policy.memories import Memory
from ..policy.tables import Policy
from ..problem.problem import Problem
from ..proof.certify import certify
from .game_method import search_game
from .primal_dual import PrimalDualSettings
from .search import Options, search
from .solution import Solution, Status

_METHODS = ("auto", "ascent", "primal-dual", "game")
_PRIMAL_DUAL = ("step", "multiplier_step", "gradients", "optimizer")
# What the game has no use for: it knows all policies, and it is about the entropy.
_NOT_IN_A_GAME = (
    "goal",
    "objective",
    "evaluation",
    "per_start",
    "min_opacity",
    "starts",
    "start",
    "checkpoint",
    "resume",
)
# Of a time limit, what is kept for the proof.
_SHARE_OF_PROOF = 0.25


def solve(
    problem: Problem,
    method: Literal["auto", "ascent", "primal-dual", "game"] = "auto",
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
    gap: float | None = None,
    certificate: bool = True,
    certificate_time_limit: float = 20.0,
    progress: ProgressOption = None,
    **primal_dual: Any,
) -> Solution:
    """The policy that leaves the observer most uncertain while the expected return stays at `problem.min_return` or above.

    **Arguments:**

    - `method`: `"ascent"`, the default: many starts climb side by side on exact gradients (brackets or fixed samples
      where those do not fit), the best is polished to a stationary point and is exactly feasible; `"primal-dual"`: the
      paper's algorithm, with the further settings `step`, `multiplier_step`, `gradients="exact"` or `"sampled"`,
      `optimizer` (optax), see `PrimalDualSettings`; `"game"`: the best over all policies with any memory, between proven
      bounds `gap` bits apart.
    - `memory`: what the policy may depend on: `"markov"`, the state; `"timed"`, state and time; `ObservationMemory(k)`,
      `StateMemory(k)`, `ZoneMemory(zones)`, `Controller(nodes)`.
    - `goal`: `"opaque"` hides, `"transparent"` shows, under the same constraint.
    - `objective`: `"entropy"`, `H(Z|Y)`; `"leakage"`, `I(Z;Y)`; `"guess"`, the observer's chance of guessing right.
    - `evaluation`: how values are found during the search; the answer says which was used.
    - `per_start`: the return must reach the threshold from every start state, not only on average.
    - `min_opacity`: bits to keep hidden; the return is then maximised instead, and `problem.min_return` not used.
    - `seed`, `starts` (how many), `start` (a policy to begin from as well), `sequences` (of a sampled search).
    - `time_limit` in seconds, `iterations`; Ctrl-C ends the search too: the best feasible policy so far is returned.
    - `checkpoint`: a file to which the search is written every `checkpoint_every` seconds; `resume`: such a file, from
      which the same search goes on and ends as if it had never stopped.
    - `certificate`: prove how far from the best that any policy could do the answer can be, in about
      `certificate_time_limit` seconds, and in a quarter of `time_limit` where that is given; `solution.certificate` holds
      the proof, or `certificate_note` why there is none.
    - `progress`: True for a line on standard error, a function to be called with each `Progress`, False for silence; by
      default a line is drawn on a terminal after two seconds.

    **Returns:** a `Solution`; its status says how the search ended and its class which policies were searched.

    **Raises:** `InfeasibleError`, at once, where no policy reaches the threshold; `InputError`; `CheckpointError`;
    `TooLargeError`.
    """
    _check_own(method, gap, certificate_time_limit)
    settings = _primal_dual(method, primal_dual, iterations, sequences)
    options = Options(
        method="ascent" if method in ("auto", "game") else method,
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
    )
    clock = Clock(time_limit)
    if certificate and time_limit is not None:
        options = replace(options, time_limit=time_limit * (1 - _SHARE_OF_PROOF))
    if method == "game":
        _check_game(options)
        solution = search_game(
            problem, gap=gap, time_limit=options.time_limit, iterations=iterations, progress=progress
        )
    else:
        solution = search(problem, options)
    if not certificate:
        return replace(solution, certificate_note="it was not asked for")
    return _with_proof(problem, solution, options, min(certificate_time_limit, clock.left))


def _with_proof(problem: Problem, solution: Solution, options: Options, seconds: float) -> Solution:
    """The answer with its certificate, or with the reason why it has none."""
    note = _why_no_proof(solution, options)
    if note:
        return replace(solution, certificate_note=note)
    try:
        proof = certify(
            problem, solution.policy, seconds, goal="opaque" if options.goal == "opaque" else "transparent",
            game=solution.proof, progress=options.progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        return replace(solution, status=Status.INTERRUPTED, certificate_note="the proof was interrupted")
    except VeilError as error:
        return replace(solution, certificate_note=str(error))
    return replace(solution, certificate=proof, proof=None)


def _why_no_proof(solution: Solution, options: Options) -> str:
    if solution.status is Status.INTERRUPTED:
        return "the search was interrupted"
    if solution.status is Status.INFEASIBLE:
        return "no feasible policy was found"
    if options.objective != "entropy":
        return f"certificates are about the entropy H(Z|Y), and the objective was {options.objective!r}"
    if options.min_opacity is not None:
        return "certificates are about the most bits for a return, not about the most return for some bits"
    return ""


def _check_own(method: Any, gap: Any, certificate_time_limit: Any) -> None:
    """Raise `InputError` on what is decided here and not by a method, before any work."""
    defects = Defects("solve")
    if method not in _METHODS:
        defects.add(f"method is {method!r}, expected one of {', '.join(map(repr, _METHODS))}")
    elif gap is not None and method != "game":
        defects.add(f"gap: only method='game' has this, and the method is {method!r}")
    if gap is not None and not (is_number(gap) and gap > 0):
        defects.add(f"gap is {gap!r}, expected bits above 0")
    if not (is_number(certificate_time_limit) and certificate_time_limit >= 0):
        defects.add(f"certificate_time_limit is {certificate_time_limit!r}, expected seconds, 0 or more")
    defects.raise_if_any()


def _check_game(options: Options) -> None:
    """Raise `InputError` on settings that the game would have to ignore."""
    plain = Options()
    given = [name for name in _NOT_IN_A_GAME if getattr(options, name) != getattr(plain, name)]
    if options.memory not in ("markov", "history"):
        given.append("memory")
    if given:
        raise InputError("solve", [f"{name}: method='game' is the entropy over all policies and does not have this"
                                   for name in given])  # fmt: skip


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
