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
from .coverage import LEAST_DRAWS, corrected
from .fitted import Fitted
from .frame import frame
from .hidden import expected
from .labels import agreement, models_of
from .logs import UNKNOWN, Columns, Logs, Source, read_logs
from .parts import CHOICE, PARTS, TRANSITION, Parts, counted

_JEFFREYS = 0.5
_SECONDS = 60.0
_MEASURE_SECONDS = 20.0  # of one opacity, as for veil.opacity
_FIRST_SHARE = 0.5  # of the time, for the opacity of the means; the rest is for the draws
_MOST_DRAWS = 10_000
_MOST_PRIOR = 1e6
_LABELS_APART = (
    "The labels are not used, since no states were recorded: veil audit measures what observations tell of labels."
)
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
    columns: Columns | None = None,
    draws: int = 100,
    seed: int = 0,
    time_limit: float | None = _SECONDS,
) -> Fitted:
    """Estimate a model, an observer's sensor rates or a policy from recorded runs, and measure what is hidden.

    Every row of probabilities has a Dirichlet prior with `prior` pseudo-counts on each entry of its support: what the
    problem allows and what was seen. The estimate is the mean of the posterior, `(count + prior) / total`; intervals are
    those of its Beta marginals. Rows that were never seen stay as they are in the problem. If no states were recorded,
    emissions and policy are estimated by expectation maximisation, begun at those of the problem and of `policy`, and no
    intervals are given.

    Noise in the estimates looks like information, so that the opacity of a fitted problem is biased. The bias is estimated by a
    parametric bootstrap of the whole procedure: runs are drawn from what was fitted, as many as there are of each row, and are
    fitted and measured in turn. `Fitted.corrected_bits` is the opacity minus that bias, and `opacity_interval` that of the true
    bits; how often it held them in simulations is in `docs/fit.md`.

    **Arguments:**

    - `logs`: a `.csv`, `.jsonl` or `.json` file, or runs `{"states": […], "actions": […], "observations": […]}`, with
      `"rewards"` and a `"label"` if they were recorded.
    - `problem`: what the runs belong to, or its scenario file: names, horizon, secret, rewards, and all that is not
      estimated. Without it all names are those of the logs and the horizon is the longest run. Labels of the runs are the
      secret then, with a model for each label.
    - `what`: `"model"` (transitions and start), `"sensors"` (emissions), `"policy"` (stationary), `"rewards"` (means), or
      several of them; by default all that the logs tell, and the policy alone if no states were recorded. Several
      models are estimated from runs whose labels name them.
    - `policy`: that of the opacity if none is estimated; uniform by default.
    - `secret`: only without a problem; by default the label of the run, or the state in which it ends if there are none.
    - `prior`: above 0; 0.5 is Jeffreys' prior. `confidence` of all intervals.
    - `columns`: the names of columns or keys that differ, such as `{"run": "episode", "observation": "reading"}`.
    - `draws`, `seed`: of the bootstrap; each is measured twice, runs drawn from it once more. Fewer than 20 give no interval.
    - `time_limit`: seconds for expectation maximisation and for measuring; fewer draws are made if it ends them.

    **Returns:** a `Fitted`.

    Cost: linear in the logs, and `2 · draws + 1` times that of `veil.opacity`.

    **Raises:** `ModelFileError` naming file and line; `InputError`.
    """
    _check(prior, confidence, draws, seed, time_limit)
    recorded, clock = read_logs(logs, columns), Clock(time_limit)
    known = _problem_of(recorded, problem, what, secret)
    if policy is not None:
        make_chain(known, policy)  # says what does not fit
    acting = MarkovPolicy.uniform(known) if policy is None else policy
    numbered = recorded.numbered(
        {"state": known.model.states, "action": known.model.actions, "observation": known.observer.observations}
    )
    runs = models_of(recorded, known)
    words = _words(what, numbered, known, runs)
    names = {table for word in words for table in PARTS[word]}
    hidden = bool((numbered.state == UNKNOWN).all())
    if hidden:
        found = expected(numbered, known, acting, names, prior, clock)
        parts, likelihood, notes = found.parts, found.log_likelihood, [_HIDDEN]
    else:
        parts = counted(numbered, known, acting, names, prior, runs)
        likelihood, notes = parts.log_likelihood(), _notes(parts, recorded, given=problem is not None)
    if recorded.is_labelled and (runs is None or hidden):
        notes.append(_LABELS_APART if hidden else agreement(numbered, known))
    if recorded.unread:
        notes.append(f"Not read: {', '.join(map(shown, recorded.unread))}.")
    means, first, second = _measured(parts, 0 if hidden or draws < LEAST_DRAWS else draws, seed, clock)
    fitted, acting = parts.assembled(parts.mean())
    better = None if hidden else corrected(means, first, second, confidence, _most_bits(fitted))
    if better is None and not hidden:
        allowed = f"the time limit allowed {len(first)}" if draws >= LEAST_DRAWS else f"draws={draws}"
        notes.append(f"No interval of the opacity: it needs {LEAST_DRAWS} draws or more, {allowed}.")
    return Fitted(
        problem=fitted,
        policy=acting,
        what=words,
        intervals=tuple(parts.intervals(None if hidden else confidence)),
        log_likelihood=likelihood,
        opacity=means,
        corrected_bits=None if better is None else better.bits,
        opacity_interval=None if better is None else (better.low, better.high),
        draws=len(first),
        confidence=float(confidence),
        num_runs=recorded.num_runs,
        notes=tuple(notes),
    )


def _check(prior: object, confidence: object, draws: object, seed: object, time_limit: object) -> None:
    defects = Defects("fit")
    if not (is_number(prior) and 0 < prior <= _MOST_PRIOR):
        defects.add(f"prior is {prior!r}, expected pseudo-counts above 0, such as 0.5, and at most {_MOST_PRIOR:g}")
    if not (is_number(confidence) and 0 < confidence < 1):
        defects.add(f"confidence is {confidence!r}, expected a probability between 0 and 1")
    if not isinstance(draws, int) or isinstance(draws, bool) or not 1 <= draws <= _MOST_DRAWS:
        defects.add(f"draws is {draws!r}, expected a whole number from 1 to {_MOST_DRAWS:,}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        defects.add(f"time_limit is {time_limit!r}, expected seconds, 0 or more, or None")
    defects.raise_if_any()


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


def _words(
    what: str | Collection[str] | None, logs: Logs, problem: Problem, runs: np.ndarray | None
) -> tuple[str, ...]:
    """The parts to estimate, in the order of `PARTS`; `runs`: which of several models each run is from."""
    several = len(problem.models) > 1 and runs is None
    if what is None:
        return tuple(_told(logs, problem, several=several))
    defects = Defects("fit")
    if not isinstance(what, str | Collection):
        raise InputError("fit", [f"what is {what!r}, expected some of {', '.join(map(repr, PARTS))}"])
    asked = [what] if isinstance(what, str) else list(what)
    for word in asked:
        if not isinstance(word, str) or word not in PARTS:
            defects.add(f"what has {word!r}, expected some of {', '.join(map(repr, PARTS))}")
    if not asked:
        defects.add(f"what is empty, expected some of {', '.join(map(repr, PARTS))}")
    if "model" in asked and several:
        found = "the problem has several models, and the runs do not say which of them ran"
        defects.add(f"{found}: leave the model out, or label the runs with the names of the models")
    if "sensors" in asked and not _is_plain(problem.observer):
        defects.add("the emissions of the observer depend on time, which is not estimated: leave the sensors out")
    defects.raise_if_any()
    return tuple(word for word in PARTS if word in asked)


def _is_plain(observer: Observer) -> bool:
    """Whether one table has all emissions."""
    return observer.times is None and not observer.emissions_at


def _told(logs: Logs, problem: Problem, *, several: bool) -> Sequence[str]:
    """What logs tell by default; `several`: whether one of several models ran, and it is not known which."""
    if (logs.state == UNKNOWN).all():
        return ["policy"]
    acts = problem.num_actions == 1 or bool((logs.action != UNKNOWN).any())
    sees = bool((logs.observation != UNKNOWN).any())
    tells = {
        "model": acts and not several,
        "sensors": sees and _is_plain(problem.observer) and (acts or not problem.observer.on_actions),
        "policy": acts,
        "rewards": acts and bool((~np.isnan(logs.reward)).any()),
    }
    found = [word for word, told in tells.items() if told]
    if not found:
        raise InputError(logs.source, ["neither actions nor observations were recorded: nothing can be estimated"])
    return found


def _notes(parts: Parts, logs: Logs, *, given: bool) -> list[str]:
    """What must be known of the estimates."""
    notes = []
    paid = "" if parts.rewards is not None else "rewards are 0, and "
    if not given:
        notes.append(f"No scenario was given: {paid}the horizon is that of the longest run.")
    if parts.rewards is not None:
        seen, unseen = int(parts.rewards.counts.sum() + parts.rewards.ends.sum()), np.sum(parts.rewards.counts == 0)
        rest = f"; {int(unseen):,} pairs of state and action have none" if unseen else ""
        notes.append(f"Rewards are the means of {seen:,} that were recorded{rest}.")
    elif not np.isnan(logs.reward).all():
        notes.append("The recorded rewards are not used: estimate them by what='rewards'.")
    model = parts.problem.model
    wanted = {TRANSITION: model.available.T.ravel(), CHOICE: np.ones(model.num_states, dtype=bool)}
    unseen_rows = []
    for name, table in parts.tables.items():
        rows = wanted.get(table.part)
        if not given or rows is None or len(table.rows) != len(rows) or not (rows & ~table.rows).any():
            continue
        unseen_rows.append(
            f"{int(np.sum(rows & ~table.rows)):,} of {int(rows.sum()):,} rows of the {name} probabilities"
        )
    if unseen_rows:
        notes.append(f"Never seen, and not estimated: {', '.join(unseen_rows)}.")
    return notes


def _measured(parts: Parts, draws: int, seed: int, clock: Clock) -> tuple[Opacity, list[float], list[float]]:
    """The opacity of the means; that of estimates from runs drawn from them; and that of estimates from runs drawn from those.

    As many as there is time for.
    """
    means = _opacity(*parts.assembled(parts.mean()), seed, _FIRST_SHARE * clock.left)
    generator, first, second = np.random.default_rng(seed), [], []
    while len(second) < draws and clock.left > 0:
        once = parts.resampled(generator)
        twice = once.resampled(generator)
        for one, bits in ((once, first), (twice, second)):
            bits.append(_opacity(*one.assembled(one.mean()), seed, clock.left).bits)
    return means, first, second


def _opacity(problem: Problem, policy: Policy, seed: int, seconds: float) -> Opacity:
    return opacity(problem, policy, seed=seed, time_limit=min(_MEASURE_SECONDS, max(seconds, 0.1)))
