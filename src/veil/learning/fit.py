"""`veil.fit`: a model, an observer's sensor rates or a policy from recorded runs, and the opacity of what was fitted."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ..common.checks import Defects, is_number
from ..common.clock import Clock
from ..common.errors import InputError
from ..common.logs import log2_of_count
from ..engine.chain import make_chain
from ..formats.scenario.load import load
from ..formats.text import shown
from ..measure.evaluate import opacity
from ..measure.result import Opacity
from ..policy.markov import MarkovPolicy
from ..policy.policy import Policy
from ..problem.observer import Observer
from ..problem.problem import Problem
from ..problem.secrets.secret import Secret
from .coverage import interval_of, least_draws
from .fitted import Fitted
from .frame import frame
from .hidden import expected
from .logs import UNKNOWN, Logs, Source, read_logs
from .parts import CHOICE, PARTS, TRANSITION, Parts, counted

_JEFFREYS = 0.5
_SECONDS = 60.0
_MEASURE_SECONDS = 20.0  # of one opacity, as for veil.opacity
_FIRST_SHARE = 0.5  # of the time, for the opacity of the means; the rest is for the draws
_MOST_DRAWS = 10_000
_MOST_PRIOR = 1e6
_LABELS = ("secret", "secrets", "label", "labels")  # columns and keys that name the secret of a run
_HIDDEN = (
    "States are hidden: counts are expected ones, which understate the uncertainty, so that no intervals are given."
)


def fit(
    logs: Source,
    problem: Problem | str | Path | None = None,
    what: str | Collection[str] | None = None,
    *,
    policy: Policy | None = None,
    secret: Secret | None = None,
    prior: float = _JEFFREYS,
    confidence: float = 0.95,
    draws: int = 50,
    seed: int = 0,
    time_limit: float | None = _SECONDS,
) -> Fitted:
    """Estimate a model, an observer's sensor rates or a policy from recorded runs, and measure what is hidden.

    Every row of probabilities has a Dirichlet prior with `prior` pseudo-counts on each entry of its support: what the
    problem allows and what was seen. The estimate is the mean of the posterior, `(count + prior) / total`; intervals are
    those of its Beta marginals. Rows that were never seen stay as they are in the problem. Where no states were recorded,
    emissions and policy are estimated by expectation maximisation, begun at those of the problem and of `policy`, and no
    intervals are given.

    Noise in the estimates looks like information, so that the opacity of a fitted problem is biased, and that of a draw from
    the posterior is biased by as much again. The interval of the opacity is therefore the estimate plus and minus the larger
    distance to an end of the interval of the draws: a conservative rule, chosen by simulation and not proven.

    **Arguments:**

    - `logs`: a `.csv`, `.jsonl` or `.json` file, or runs `{"states": […], "actions": […], "observations": […]}`.
    - `problem`: what the runs belong to, or its scenario file: names, horizon, secret, rewards, and all that is not
      estimated. Without it all names are those of the logs, rewards are 0 and the horizon is the longest run.
    - `what`: `"model"` (transitions and start), `"sensors"` (emissions), `"policy"` (stationary), or several of them; by
      default all that the logs tell, and the policy alone where no states were recorded.
    - `policy`: that of the opacity where none is estimated; uniform by default.
    - `secret`: only without a problem; by default the state in which the run ends.
    - `prior`: above 0; 0.5 is Jeffreys' prior. `confidence` of all intervals.
    - `draws`, `seed`: problems and policies drawn from the posterior and measured, for the interval of the opacity. An
      interval of 95% needs 39 or more; with fewer none is given.
    - `time_limit`: seconds for expectation maximisation and for measuring; fewer draws are made where it ends them.

    **Returns:** a `Fitted`.

    Cost: linear in the logs, and `draws + 1` times that of `veil.opacity`.

    **Raises:** `ModelFileError` naming file and line; `InputError`.
    """
    _check(prior, confidence, draws, seed, time_limit)
    recorded, clock = read_logs(logs), Clock(time_limit)
    _check_labels(recorded, told=problem is not None or secret is not None)
    known = _problem_of(recorded, problem, what, secret)
    if policy is not None:
        make_chain(known, policy)  # says what does not fit
    acting = MarkovPolicy.uniform(known) if policy is None else policy
    numbered = recorded.numbered(
        {"state": known.model.states, "action": known.model.actions, "observation": known.observer.observations}
    )
    words = _words(what, numbered, known)
    names = {table for word in words for table in PARTS[word]}
    hidden = bool((numbered.state == UNKNOWN).all())
    if hidden:
        found = expected(numbered, known, acting, names, prior, clock)
        parts, likelihood, notes = found.parts, found.log_likelihood, [_HIDDEN]
    else:
        parts = counted(numbered, known, acting, names, prior)
        likelihood, notes = parts.log_likelihood(), _notes(parts, given=problem is not None)
    if recorded.unread:
        notes.append(f"Not read: {', '.join(map(shown, recorded.unread))}.")
    wanted = least_draws(confidence)
    means, bits = _measured(parts, draws if draws >= wanted and not hidden else 0, seed, clock)
    if not hidden and len(bits) < wanted:
        allowed = f"the time limit allowed {len(bits)}" if draws >= wanted else f"draws={draws}"
        notes.append(f"No interval of the opacity: {100 * confidence:g}% need {wanted} draws or more, {allowed}.")
    fitted, acting = parts.assembled(parts.mean())
    return Fitted(
        problem=fitted,
        policy=acting,
        what=words,
        intervals=tuple(parts.intervals(None if hidden else confidence)),
        log_likelihood=likelihood,
        opacity=means,
        opacity_interval=interval_of(means, bits, confidence, _most_bits(fitted)) if len(bits) >= wanted else None,
        draws=len(bits),
        confidence=float(confidence),
        num_runs=recorded.num_runs,
        notes=tuple(notes),
    )


def _check(prior: object, confidence: object, draws: object, seed: object, time_limit: object) -> None:
    defects = Defects("fit")
    if not (is_number(prior) and 0 < prior <= _MOST_PRIOR):
        defects.add(f"prior is {prior!r}, expected pseudo-counts above 0, as 0.5, and at most {_MOST_PRIOR:g}")
    if not (is_number(confidence) and 0 < confidence < 1):
        defects.add(f"confidence is {confidence!r}, expected a probability between 0 and 1")
    if not isinstance(draws, int) or isinstance(draws, bool) or not 1 <= draws <= _MOST_DRAWS:
        defects.add(f"draws is {draws!r}, expected a whole number from 1 to {_MOST_DRAWS:,}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        defects.add(f"time_limit is {time_limit!r}, expected seconds, 0 or more, or None")
    defects.raise_if_any()


def _check_labels(logs: Logs, *, told: bool) -> None:
    """Raise `InputError` where runs carry labels that would decide what is measured, and are not used."""
    labels = [name for name in logs.unread if name.strip().lower() in _LABELS]
    if not labels:
        return
    found = f"{shown(labels[0])} labels the runs, and fit does not use labels"
    if (logs.state == UNKNOWN).all():
        raise InputError(logs.source, [f"{found}: record the states that the secret is about, or leave the labels out"])
    if not told:
        raise InputError(logs.source, [f"{found}: say what is secret, by secret=… or a scenario, or leave them out"])


def _most_bits(problem: Problem) -> float:
    """The most that an observer can leave open."""
    if problem.secret_table.path is not None:
        return math.inf
    return log2_of_count(len(problem.secret_values))


def _problem_of(logs: Logs, problem: object, what: object, secret: Secret | None) -> Problem:
    """The problem that gives names and all that is not estimated."""
    if problem is None:
        if what is not None:
            raise InputError("fit", ["what=… needs a problem, which gives the parts that are not estimated"])
        return frame(logs, secret)
    if secret is not None:
        raise InputError("fit", ["the problem has a secret: change it by problem.replace(secret=…)"])
    found = load(problem) if isinstance(problem, str | Path) else problem
    if not isinstance(found, Problem):
        raise InputError("fit", [f"problem is a {type(found).__name__}, expected a veil.Problem or a scenario file"])
    return found


def _words(what: str | Collection[str] | None, logs: Logs, problem: Problem) -> tuple[str, ...]:
    """The parts to estimate, in the order of `PARTS`."""
    if what is None:
        return tuple(_told(logs, problem))
    defects = Defects("fit")
    if not isinstance(what, str | Collection):
        raise InputError("fit", [f"what is {what!r}, expected some of {', '.join(map(repr, PARTS))}"])
    asked = [what] if isinstance(what, str) else list(what)
    for word in asked:
        if not isinstance(word, str) or word not in PARTS:
            defects.add(f"what has {word!r}, expected some of {', '.join(map(repr, PARTS))}")
    if not asked:
        defects.add(f"what is empty, expected some of {', '.join(map(repr, PARTS))}")
    if "model" in asked and len(problem.models) > 1:
        defects.add("the problem has several models, and the runs do not say which of them ran: leave the model out")
    if "sensors" in asked and not _is_plain(problem.observer):
        defects.add("the emissions of the observer depend on time, which is not estimated: leave the sensors out")
    defects.raise_if_any()
    return tuple(word for word in PARTS if word in asked)


def _is_plain(observer: Observer) -> bool:
    """Whether one table has all emissions."""
    return observer.times is None and not observer.emissions_at


def _told(logs: Logs, problem: Problem) -> Sequence[str]:
    """What logs tell by default."""
    if (logs.state == UNKNOWN).all():
        return ["policy"]
    acts = problem.num_actions == 1 or bool((logs.action != UNKNOWN).any())
    sees = bool((logs.observation != UNKNOWN).any())
    tells = {
        "model": acts and len(problem.models) == 1,
        "sensors": sees and _is_plain(problem.observer) and (acts or not problem.observer.on_actions),
        "policy": acts,
    }
    found = [word for word, told in tells.items() if told]
    if not found:
        raise InputError(logs.source, ["neither actions nor observations were recorded: nothing can be estimated"])
    return found


def _notes(parts: Parts, *, given: bool) -> list[str]:
    """What must be known of the estimates."""
    notes = []
    if not given:
        notes.append("No scenario was given: rewards are 0, and the horizon is that of the longest run.")
    model = parts.problem.model
    wanted = {TRANSITION: model.available.T.ravel(), CHOICE: np.ones(model.num_states, dtype=bool)}
    unseen = [
        f"{int(np.sum(rows & ~parts.tables[name].rows)):,} of {int(rows.sum()):,} rows of the {name} probabilities"
        for name, rows in wanted.items()
        if given and name in parts.tables and (rows & ~parts.tables[name].rows).any()
    ]
    if unseen:
        notes.append(f"Never seen, and not estimated: {', '.join(unseen)}.")
    return notes


def _measured(parts: Parts, draws: int, seed: int, clock: Clock) -> tuple[Opacity, list[float]]:
    """The opacity of the means, and the bits of draws from the posterior, as many as there is time for."""
    means = _opacity(*parts.assembled(parts.mean()), seed, _FIRST_SHARE * clock.left)
    generator, bits = np.random.default_rng(seed), []
    while len(bits) < draws and clock.left > 0:
        bits.append(_opacity(*parts.assembled(parts.draw(generator)), seed, clock.left).bits)
    return means, bits


def _opacity(problem: Problem, policy: Policy, seed: int, seconds: float) -> Opacity:
    return opacity(problem, policy, seed=seed, time_limit=min(_MEASURE_SECONDS, max(seconds, 0.1)))
