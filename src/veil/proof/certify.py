"""`certify`: makes a certificate for any policy; the verifier's own functions compute and round its numbers."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Literal

import numpy as np

from ..common.checks import Defects, is_number
from ..common.clock import Clock, Progress, ProgressOption
from ..common.errors import InputError, TooLargeError
from ..engine.feasibility import check_constraints
from ..game.bounds import Bounds as GameBounds
from ..game.pairs import DEFAULT_MEMORY
from ..game.responses import Task
from ..policy.policy import Policy, check_call
from ..problem.pairs import OWN, hidden_names
from ..problem.problem import Problem
from ..problem.terms import hidden_terms, terms_of, with_task
from .belief_bound import belief_bound
from .certificate import Certificate
from .checked_problem import CheckedProblem
from .claims import BeliefBound, ProvenQuantity
from .compiled import free_quantities, record_of
from .described import described, policy_words
from .feasibility import after_horizon, bounds_of
from .form import claimed_channels
from .observers import Asked, best_observers
from .policy_claims import SLACK, PolicyClaims
from .record import Record
from .words import bound_words, claim_words, seal_of

_SECONDS = 60.0  # of the whole search by default


def certify(
    problem: Problem,
    policy: Policy,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    hide: str = OWN,
    task: str | None = None,
    game: GameBounds | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    progress: ProgressOption = None,
) -> Certificate:
    """Prove how much a policy hides, and that no policy hides much more under the same constraints.

    The lower bound is the policy's own opacity, exact if the observation tree fits and from a window around the secret
    otherwise. The upper bound is proven by an observer: its rule comes from the game, on the whole history if that fits
    and on a bounded memory otherwise, and holds for all policies. For a policy that does not see the observations a second
    observer proves a smaller bound over agents that do not see the current observation (`certificate.delayed`), if that
    is smaller and the observations depend on the state alone. With goal "transparent" a minimum is wanted, for which
    the game has no bound: the certificate then holds the policy's own value and says so. With pairs (`hide`, or lower bounds
    on pairs of the problem) both bounds are about the least of what is hidden in the pairs, under all of their lower bounds.

    **Arguments:**

    - `policy`: a Markov, time-dependent, memory or history policy.
    - `time_limit`: seconds, 60 by default. At most a third is used for the policy's own opacity, the rest for the search
      for rules. One pass over the horizon, for the return, must fit (or be drawn; one second more is allowed for it).
    - `goal`: `"opaque"` or `"transparent"`, as for `veil.solve`.
    - `hide`: the pairs of which the smallest opacity is proven, separated by commas, as for `veil.solve`.
    - `task`: a sum of rewards and probabilities that counts beside the bits, as for `veil.solve`: both bounds are then on what
      is hidden and that sum together. There is no bound for bits in a task.
    - `gap`: the search for a rule ends when its bounds are this many bits apart.
    - `game`: a game of this problem that was already solved (`Solution.proof`), whose observer is then used.
    - `memory_bytes`: for the game.
    - `progress`: as for `veil.solve`.

    **Returns:** a `Certificate`, which `veil.verify(certificate, problem, policy)` accepts. If there is no time for a
    game, the bound is `log2 |Z|` or what the first event tells of the start. A keyboard interrupt ends the search with the
    best proof so far; it is passed on if nothing is proven of the policy yet.

    **Raises:** `InputError` if the policy does not fit; `InfeasibleError` if no policy meets the constraints;
    `CertificateError` if the verifier refuses the problem or the policy; `TooLargeError` if not even the policy's return
    can be proven in the time.
    """
    return prove(
        problem, policy, time_limit, gap, goal=goal, hide=hide, task=task, game=game, memory_bytes=memory_bytes,
        progress=progress,
    )[0]  # fmt: skip


def prove(
    problem: Problem,
    policy: Policy,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    hide: str = OWN,
    task: str | None = None,
    game: GameBounds | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    progress: ProgressOption = None,
    beliefs: BeliefBound | None = None,
) -> tuple[Certificate, bool]:
    """`certify`, and whether an interrupt ended it before its time, so that the bounds may be weaker than they could be.

    **Arguments:** `beliefs`: with goal "transparent" the witness of a lower bound over all policies, whose number is found
    here.
    """
    _check(policy, problem, goal, time_limit, gap, memory_bytes)
    clock = Clock(_SECONDS if time_limit is None else float(time_limit))
    problem, terms = _counted(problem, task, goal)
    names = [one.name for one in problem.channels]
    hidden = tuple(names.index(name) for name in hidden_names(problem.pairs, hide))
    record, content = record_of(problem), described(problem, policy)
    numbers = _claimed(problem, policy, record, hidden, goal)
    if len(problem.models) == 1 or problem.agent.knows_model:
        check_constraints(problem)  # the bound is also about agents who know the model, who may earn more
    values, bounds = after_horizon(problem), bounds_of(problem)
    proving = PolicyClaims(record, policy, content, values, bounds, goal, gap, clock)
    channels, quantities = proving.all(numbers)
    finished, quantities = proving.finished, _with_factors(problem, quantities, terms)
    claim = Certificate(
        goal=goal,
        hidden=hidden,
        quantities=quantities,
        channels=channels,
        bounds=(),
        best_known=None,
        policy_class=policy_words(problem, policy),
        bound_class=bound_words(record, goal),
        problem_hash=record.problem,
        record_hash=record.digest,
        policy_hash=content[0].digest,
        versions={"veil": version("veil"), "numpy": np.__version__},
        claim="",
        seal="",
        values=values,
        register=content[1],
    )
    if goal == "opaque":
        with Clock(progress=progress) as line:
            left = clock.left if finished else 0.0
            reports = Clock(left, progress=_proof_reports(line, left))
            factors = tuple(one.factor for one in quantities)
            asked = Asked(bounds, values, gap, memory_bytes, terms, factors, hidden, claim.kept)
            # Bounds for agents who are told more hold for those who see less.
            best = best_observers(problem.informed, asked, reports, game, delay=0 if proving.heard else 1)
        finished = finished and not best.interrupted
        several = len(best.bounds[0].rules) > 1
        most = np.inf if several or terms else CheckedProblem(record, hidden[:1]).most_bits
        uppers = tuple(
            replace(one, upper=min(most, one.upper + SLACK * max(1.0, abs(one.upper)))) for one in best.bounds
        )
        known = best.known
        if known is not None and claim.feasible and all(one.met for one in channels):
            known = max(known, claim.lower)
        words = bound_words(record, goal, several=several)
        claim = replace(claim, bounds=uppers, best_known=known, bound_class=words)
    elif beliefs is not None:
        found = belief_bound(CheckedProblem(record), beliefs, bounds)
        claim = replace(claim, beliefs=replace(beliefs, lower=min(claim.upper, found - SLACK)))
        claim = replace(claim, bound_class=bound_words(record, goal, beliefs=True))
    return replace(claim, claim=claim_words(claim), seal=seal_of(claim)), not finished


def _counted(problem: Problem, task: str | None, goal: str) -> tuple[Problem, Task]:
    """The problem with the quantities of a task, and the factors of these.

    **Raises:** `InputError` where there is no bound for such a task.
    """
    if not task:
        return problem, ()
    if goal != "opaque":
        raise InputError("task", ["with goal='transparent' there is no bound for a sum of bits and a task"])
    for factor, name in hidden_terms(problem, task):
        raise InputError("task", [f"{factor:g}*H({name}): certificates have no bound for bits in a task"])
    problem = with_task(problem, task)
    return problem, tuple(terms_of(problem, task))


def _with_factors(problem: Problem, quantities: tuple[ProvenQuantity, ...], task: Task) -> tuple[ProvenQuantity, ...]:
    """The quantities with the factors by which a task counts them: each where it comes first.

    **Raises:** `TooLargeError` where one of them is not proven.
    """
    numbers = [0, *(one.quantity for one in problem.others), *free_quantities(problem)]
    found = list(quantities)
    for factor, number in task:
        place = numbers.index(number)
        if found[place].sequences:
            raise TooLargeError("the task could not be proven in the time: allow a longer time_limit")
        found[place] = replace(found[place], factor=found[place].factor + factor)
    return tuple(found)


def _claimed(problem: Problem, policy: Policy, record: Record, hidden: tuple[int, ...], goal: str) -> tuple[int, ...]:
    """The channels that the certificate tells of; the own one alone where nothing can be said of another.

    **Raises:** `InputError` where nothing can be proven of a channel that is hidden.
    """
    found, defects = claimed_channels(record, hidden), Defects("hide")
    if goal != "opaque":
        found = None
    if hidden != (0,) and goal != "opaque":
        defects.add("with goal='transparent' a certificate is about the problem's own pair")
    elif hidden != (0,) and found is None:
        defects.add("the loss of an observer with a belief is no entropy: certificates are about pairs without one")
    try:
        for number in found or ():
            policy.acting_in(problem, problem.channels[number].name)
    except InputError as error:
        if hidden != (0,):
            defects.take(error)
        found = None
    defects.raise_if_any()
    return found or (0,)


PROVING = "proving"
"""The phase of a report that is about the upper bound over all policies, and not about the policy that was found."""


def _proof_reports(line: Clock, time_limit: float) -> Callable[[Progress], None]:
    """Reports of a game as those of a proof: the share that is done is that of the time."""
    seconds = max(1, round(min(time_limit, 1e9)))

    def report(news: Progress) -> None:
        spent = line.spent
        line.report(replace(news, phase=PROVING, iteration=min(seconds, int(spent)), of=seconds, seconds=spent))

    return report


def _check(
    policy: Policy, problem: Problem, goal: str, time_limit: float | None, gap: float, memory_bytes: float
) -> None:
    check_call(problem, policy)
    defects = Defects("certify")
    if goal not in ("opaque", "transparent"):
        defects.add(f"goal is {goal!r}, expected 'opaque' or 'transparent'")
    limits = {"time_limit": (0 if time_limit is None else time_limit, "seconds"), "gap": (gap, "bits")}
    for name, (value, words) in {**limits, "memory_bytes": (memory_bytes, "a number")}.items():
        if not (is_number(value) and value >= 0):
            defects.add(f"{name} is {value!r}, expected {words}, 0 or more")
    defects.raise_if_any()
    policy.check(problem)
