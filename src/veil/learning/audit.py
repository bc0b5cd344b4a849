"""`veil.audit`: a lower bound on what observations leak about a secret, from samples alone."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

import importlib.util
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import t as student

from ..common.checks import Defects, is_number
from ..common.errors import InputError
from ..common.logs import entropy_bits, log2_of_count, log2_or_zero, natural_log
from .audited import Audit, CurvePoint, Estimate, Telling, mean_estimate
from .labels import read_labels
from .logs import Columns, read_logs
from .plug_in import Information, information
from .predictors import EXTRAS, PREDICTORS, Predictor, Prior
from .samples import PAD, Samples, samples_of, samples_of_logs

_FOLDS = 5
_WEIGHING = 0.15  # of the runs of a fold's training, to weigh the predictors
_LEAST_RUNS, _LEAST_OF_VALUE = 20, 2
_MOST_CHANCES = 2**26  # runs times values of the secret
_PARTS = (8, 4, 2)  # the learning curve: the first eighth, quarter, half of the runs
_POWERS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.25)  # by which a prediction is drawn to the prior, or away from it
_REPEATED = 0.99  # the share of repeated pairs from which the table of counts is used
_MOST_TELLING, _SYMBOLS_LOOKED_AT, _TIMES_LOOKED_AT = 10, 200, 200
_MOST_COUNTED = 8  # occurrences of an observation that are told apart
_CLEAR = 3.0  # standard errors above zero, for what is said to tell something


def audit(
    secrets: Sequence[object] | Iterable[object],
    sequences: Iterable[Iterable[object]],
    confidence: float = 0.95,
    *,
    predictors: str | Collection[str] | None = None,
    bins: int = 16,
    seed: int = 0,
    curve: bool = True,
) -> Audit:
    """A lower bound on the leakage `I(Z;Y)` from independent pairs of a secret and a sequence of observations.

    For every rule `q` that was fitted on other runs, `E[log2 q(Z|Y) / P(Z)] ≤ I(Z;Y)`: what a predictor is shown to know has
    leaked. The runs are divided into five parts. Each is predicted by rules fitted on the other four: the table of counts of
    whole sequences, Markov chains for each value, logistic regression on n-grams, trees, and a recurrent network. Runs kept
    apart in the four decide how much each rule counts. The rule is mixed with a small share of the uniform one, so that no
    single run can cost more than a few bits. The interval is Student's, of the mean over all runs, which must be independent.

    **Arguments:**

    - `secrets`: the value of the secret in each run, `(n,)`: names or numbers.
    - `sequences`: what was observed in each run, lists of any lengths: names, numbers, or None if nothing was received.
    - `confidence` of every interval, two-sided.
    - `predictors`: some of `"counts"`, `"chains"`, `"logistic"`, `"trees"`, `"recurrent"`; all by default. Logistic regression
      and trees need `pip install 'veil[audit]'`, the network `veil[optax]`; the result names those that are left out.
    - `bins`: classes into which numbers that are not whole are put, by equal shares.
    - `seed`: of the division into parts. `curve`: also audit an eighth, a quarter and a half of the runs.

    **Returns:** an `Audit`; `leakage.low` is the bound. There is no upper bound without a model.

    Cost: grows with runs times their length; 20,000 runs of 10 observations take about a minute with all predictors.

    **Raises:** `InputError`.
    """
    _check(confidence, bins, seed)
    return _audit(samples_of(secrets, sequences, bins), confidence, predictors, seed, curve=curve)


def audit_logs(
    logs: str | Path,
    labels: str | Path | Mapping[str, str] | None = None,
    confidence: float = 0.95,
    *,
    columns: Columns | None = None,
    predictors: str | Collection[str] | None = None,
    bins: int = 16,
    seed: int = 0,
    curve: bool = True,
) -> Audit:
    """`audit` of a file of runs, as `veil fit` reads it, and of their labels: from another file, or a column of the logs.

    **Arguments:** `logs`: a `.csv`, `.jsonl` or `.json` file; `labels`: a CSV file with the columns `run` and `label`, or the
    label of each run by its name; `columns`: the names of columns that differ, such as `{"run": "episode"}`;
    `confidence`, `predictors`, `bins`, `seed`, `curve`: as for `audit`.

    **Raises:** `ModelFileError` naming the file and the line; `InputError`.
    """
    _check(confidence, bins, seed)
    known = dict(columns or {})
    given = read_labels(labels, known) if isinstance(labels, str | Path) else labels
    in_logs = known if given is None else {name: column for name, column in known.items() if name != "label"}
    recorded = read_logs(logs, in_logs)
    return _audit(samples_of_logs(recorded, given, bins), confidence, predictors, seed, curve=curve)


def _check(confidence: object, bins: object, seed: object) -> None:
    defects = Defects("audit")
    if not (is_number(confidence) and 0 < confidence < 1):
        defects.add(f"confidence is {confidence!r}, expected a probability between 0 and 1")
    if not isinstance(bins, int) or isinstance(bins, bool) or not 2 <= bins <= 1000:
        defects.add(f"bins is {bins!r}, expected a whole number from 2 to 1,000")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
    defects.raise_if_any()


def _chosen(predictors: object, notes: list[str]) -> list[str]:
    """The families to use, in the order of the registry."""
    missing = {name: extra for name, (module, extra) in EXTRAS.items() if importlib.util.find_spec(module) is None}
    if predictors is None:
        if missing:
            extras = ",".join(dict.fromkeys(missing.values()))
            notes.append(f"Without {', '.join(missing)}, which need pip install 'veil[{extras}]': more may be found.")
        return [name for name in PREDICTORS if name not in missing]
    asked = [predictors] if isinstance(predictors, str) else predictors
    names = list(asked) if isinstance(asked, Collection) else []
    wrong = [name for name in names if name not in PREDICTORS]
    if wrong or not names:
        found = repr(wrong[0] if wrong else predictors)
        raise InputError("audit", [f"predictors has {found}, expected some of {', '.join(map(repr, PREDICTORS))}"])
    lacking = [name for name in names if name in missing]
    if lacking:
        remedy = f"pip install 'veil[{missing[lacking[0]]}]', or leave it out"
        raise InputError("audit", [f"{lacking[0]} needs {EXTRAS[lacking[0]][0]}, which is not installed: {remedy}"])
    return [name for name in PREDICTORS if name in names]


def _audit(samples: Samples, confidence: float, predictors: object, seed: int, *, curve: bool) -> Audit:
    notes: list[str] = []
    names = _chosen(predictors, notes)
    _check_size(samples, notes)
    order = np.random.default_rng(seed).permutation(len(samples))
    found = _cross_fitted(samples, order, names, seed)
    shares = _shares(samples, order)
    prior_bits, most = float(entropy_bits(shares)), log2_of_count(len(samples.values))
    table = information(samples.secret, samples.word)
    parts = [order[: len(order) // part] for part in _PARTS] if curve else []
    points = [
        CurvePoint(
            len(part), mean_estimate(_cross_fitted(samples, part, names, seed).bits, confidence).within(0.0, most)
        )
        for part in parts
        if _is_enough(samples, part)
    ]
    leakage = mean_estimate(found.bits, confidence).within(0.0, most)
    if points:
        points.append(CurvePoint(len(samples), leakage))
    return Audit(
        leakage=leakage,
        prior_bits=prior_bits,
        guess_rate=_rate(found.right, confidence),
        prior_guess_rate=float(shares.max()),
        plug_in=table.interval(confidence, most) if table.repeated >= _REPEATED else None,
        repeated=table.repeated,
        weights=tuple(found.weights.items()),
        telling=tuple(_telling(samples)),
        curve=tuple(points),
        confidence=float(confidence),
        num_runs=len(samples),
        num_values=len(samples.values),
        num_observations=len(samples.symbols),
        notes=tuple(notes),
    )


def _is_enough(samples: Samples, rows: np.ndarray) -> bool:
    counts = np.bincount(samples.secret[rows], minlength=len(samples.values))
    return len(rows) >= _LEAST_RUNS and bool((counts >= _LEAST_OF_VALUE).all())


def _check_size(samples: Samples, notes: list[str]) -> None:
    """Raise `InputError` where the runs are too few to say anything; note values that are rare."""
    if len(samples) < _LEAST_RUNS:
        raise InputError("audit", [f"there are {len(samples)} runs, expected {_LEAST_RUNS} or more"])
    if len(samples.values) == 1:
        only = samples.values[0]
        raise InputError("audit", [f"the secret is {only!r} in every run: there is nothing to leak"])
    if len(samples.values) * _FOLDS > len(samples) or len(samples.values) * len(samples) > _MOST_CHANCES:
        found = f"the secret has {len(samples.values):,} values in {len(samples):,} runs"
        raise InputError("audit", [f"{found}, too few runs of each, or too many values: put values into groups"])
    counts = np.bincount(samples.secret)
    rare = [value for value, count in zip(samples.values, counts, strict=True) if count < _FOLDS]
    if rare:
        shown = ", ".join(map(repr, rare[:5])) + (", …" if len(rare) > 5 else "")
        notes.append(f"Values of the secret in fewer than {_FOLDS} runs, of which little can be learnt: {shown}.")


def _shares(samples: Samples, rows: np.ndarray) -> Float[np.ndarray, " Z"]:
    return np.bincount(samples.secret[rows], minlength=len(samples.values)) / len(rows)


class _Found(NamedTuple):
    """Of runs that were predicted by rules fitted on others: `log2 q(z|y) / P(z)`, whether the guess was right; the weights."""

    bits: Float[np.ndarray, " m"]
    right: Float[np.ndarray, " m"]
    weights: dict[str, float]


def _cross_fitted(samples: Samples, rows: Int[np.ndarray, " m"], names: Sequence[str], seed: int) -> _Found:
    """Predictions of some runs, each by rules that were fitted on the other parts."""
    families: dict[str, Predictor] = {"prior": Prior(samples)}
    families |= {name: PREDICTORS[name](samples) for name in names}
    generator = np.random.default_rng(seed)
    part = np.empty(len(rows), dtype=int)
    part[np.argsort(samples.secret[rows], kind="stable")] = np.arange(len(rows)) % _FOLDS  # of each value a like share
    bits, right, weights = np.empty(len(rows)), np.empty(len(rows)), dict.fromkeys(families, 0.0)
    code = -log2_or_zero(_shares(samples, rows))
    for fold in range(_FOLDS):
        held, rest = rows[part == fold], generator.permutation(rows[part != fold])
        weighed = max(1, math.ceil(_WEIGHING * len(rest)))
        rule, shares = _mixture(samples, families, rest[weighed:], rest[:weighed], held, seed)
        value = samples.secret[held]
        bits[part == fold] = code[value] + log2_or_zero(rule[np.arange(len(held)), value])
        right[part == fold] = rule.argmax(axis=1) == value
        for name, share in shares.items():
            weights[name] += share / _FOLDS
    return _Found(bits, right, weights)


def _mixture(
    samples: Samples,
    families: Mapping[str, Predictor],
    fitted: np.ndarray,
    weighed: np.ndarray,
    held: np.ndarray,
    seed: int,
) -> tuple[Float[np.ndarray, "h Z"], dict[str, float]]:
    """The predictions of the runs `held`: the candidates, mixed by how likely each makes the runs `weighed` (Bayes' rule)."""
    prior = next(families["prior"].candidates(fitted, seed))[0]
    value, rules, log_likelihoods, names = samples.secret[weighed], [], [], []
    for name, family in families.items():
        for chances in family.candidates(fitted, seed):
            power = _best_power(chances[weighed], prior, value) if name != "prior" else 1.0
            rules.append(_tempered(chances[held], prior, power))
            right = _tempered(chances[weighed], prior, power)[np.arange(len(value)), value]
            log_likelihoods.append(natural_log(right).sum())
            names.append(name)
    weights = np.exp(np.array(log_likelihoods) - max(log_likelihoods))
    weights /= weights.sum()
    mixed = np.tensordot(weights, np.array(rules), axes=1)
    mixed /= mixed.sum(axis=1, keepdims=True)
    doubt = 1 / (len(fitted) + 2)
    shares = dict.fromkeys(families, 0.0)
    for name, weight in zip(names, weights, strict=True):
        shares[name] += float(weight)
    return (1 - doubt) * mixed + doubt / mixed.shape[1], shares


def _tempered(chances: np.ndarray, prior: np.ndarray, power: float) -> np.ndarray:
    """`prior · (chances / prior)^power`, normalised: a prediction that is less, or more, sure of itself."""
    if power == 1:
        return chances
    found = prior * (chances / prior) ** power
    return found / found.sum(axis=1, keepdims=True)


def _best_power(chances: np.ndarray, prior: np.ndarray, value: np.ndarray) -> float:
    rows = np.arange(len(value))
    found = [log2_or_zero(_tempered(chances, prior, power)[rows, value] + 1e-300).mean() for power in _POWERS]
    return _POWERS[int(np.argmax(found))]


def _rate(right: np.ndarray, confidence: float) -> Estimate:
    """A share with Wilson's interval."""
    size, share = len(right), float(right.mean())
    z = float(student.ppf((1 + confidence) / 2, size - 1))
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    reach = z / (1 + z * z / size) * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    return Estimate(share, max(0.0, middle - reach), min(1.0, middle + reach))


def _telling(samples: Samples) -> Iterator[Telling]:
    """The observations and times that clearly tell something alone, most first."""
    found = [(Telling(what, name, one.bits), one) for what, name, one in _alone(samples)]
    clear = [telling for telling, one in found if one.bits > _CLEAR * one.std_error]
    return iter(sorted(clear, key=lambda one: -one.bits)[:_MOST_TELLING])


def _alone(samples: Samples) -> Iterator[tuple[str, str, Information]]:
    tokens, secret = samples.tokens, samples.secret
    often = np.bincount(tokens[tokens != PAD], minlength=len(samples.symbols))
    for symbol in np.argsort(-often, kind="stable")[:_SYMBOLS_LOOKED_AT]:
        count = np.minimum((tokens == symbol).sum(axis=1), _MOST_COUNTED)
        yield "observation", samples.symbols[symbol], information(secret, count)
    for time in range(min(samples.longest, _TIMES_LOOKED_AT) if samples.longest > 1 else 0):
        yield "time", str(time), information(secret, tokens[:, time] + 1)
