"""What predicts a secret from observations: candidates whose held-out code lengths bound what is hidden.

A predictor is fitted on some runs and gives the probability of each value of the secret for all runs. The numbers of symbols
and of sequences of symbols come from the observations of all runs, never from secrets: given the observations, the secrets of
the runs that were left out stay independent of what was fitted.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from ..common.logs import natural_log
from ..engine.kernel import num_columns
from .samples import PAD, Samples

Chances = Float[np.ndarray, "n Z"]
_ORDERS = (0, 1, 2)  # symbols that a chain conditions on
_TIMED_ORDERS = (0, 1)
_SHARED_WEIGHTS = (1.0, 10.0)  # runs by which the rows of one value are drawn to those of all values
_WORD_WEIGHTS = (0.5, 2.0, 10.0)
_MOST_FEATURES, _LEAST_RUNS = 2000, 5  # of each kind of n-gram; runs that have it
_STRENGTHS = (0.02, 0.5)  # of logistic regression: scikit-learn's C
_MOST_ROWS = 40_000  # that scikit-learn and networks are fitted on
_FEW_VALUES = 8  # for boosting, which grows a tree for each value
_MOST_READ, _LEAST_SEQUENCES = 2**20, 500  # symbols that a network is fitted on, and the least runs
_SHOWN_TIMES, _SHOWN_SYMBOLS = 12, 24  # positions from either end, and symbols, that trees see


class Predictor(Protocol):
    """A family of predictors."""

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """The probabilities of the values for all runs, by each member of the family fitted on the runs `train`."""
        ...


def _shares(samples: Samples, train: np.ndarray) -> Float[np.ndarray, " Z"]:
    """Of the values among some runs, with a half added to each."""
    count = np.bincount(samples.secret[train], minlength=len(samples.values)) + 0.5
    return count / count.sum()


def _normalised(scores: np.ndarray) -> Chances:
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Prior:
    """Predicts the share of each value, whatever was observed."""

    samples: Samples

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """See `Predictor`."""
        yield np.tile(_shares(self.samples, train), (len(self.samples), 1))


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each value occurred with the same whole sequence, drawn to the shares of all runs."""

    samples: Samples

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """See `Predictor`."""
        word, values = self.samples.word, len(self.samples.values)
        code = word[train] * values + self.samples.secret[train]
        seen = np.bincount(code, minlength=(word.max() + 1) * values).reshape(-1, values)[word]
        for weight in _WORD_WEIGHTS:
            drawn = seen + weight * _shares(self.samples, train)
            yield drawn / drawn.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Chains:
    """Markov chains of the symbols for each value of the secret, drawn to the chain of all values.

    With `n_z` the counts of the runs with value z and `n` those of all, the score of z is `Σ_t ln q_z(t)`,
    `q_z = (n_z(context, symbol) · n(context) / n(context, symbol) + c) / (n_z(context) + c)`: how much more likely z makes the
    symbol than the runs of all values do.
    """

    samples: Samples

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """See `Predictor`."""
        base = natural_log(_shares(self.samples, train))
        for context, pair in self._codes:
            by_context, by_pair = self._tally(context, train), self._tally(pair, train)
            all_context, all_pair = by_context.sum(axis=1)[context], by_pair.sum(axis=1)[pair]
            known = (all_pair > 0) & (self.samples.tokens != PAD)
            rate = all_context / np.where(known, all_pair, 1)
            for weight in _SHARED_WEIGHTS:
                scores = np.tile(base, (len(self.samples), 1))
                for z in range(len(base)):
                    here, there = by_pair[:, z][pair], by_context[:, z][context]
                    ratio = np.where(known, (here * rate + weight) / (there + weight), 1.0)
                    scores[:, z] += natural_log(ratio).sum(axis=1)
                yield _normalised(scores)

    @cached_property
    def _codes(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The numbers of each moment's context and of its context with its symbol, for each kind of chain."""
        found, tokens = [], self.samples.tokens
        times = np.broadcast_to(np.arange(self.samples.longest), tokens.shape)
        for timed, orders in ((False, _ORDERS), (True, _TIMED_ORDERS)):
            for order in orders:
                if order >= self.samples.longest or (timed and self.samples.longest == 1):
                    continue
                before = np.zeros_like(tokens)
                if order:
                    before[:, 1:] = self.samples.grams(order)[:, :-1] + 1
                context = (before * self.samples.longest + times) if timed else before
                context = np.unique(context, return_inverse=True)[1].reshape(tokens.shape)
                pair = np.unique(context * (len(self.samples.symbols) + 1) + tokens + 1, return_inverse=True)[1]
                found.append((context, pair.reshape(tokens.shape)))
        return found

    def _tally(self, code: np.ndarray, train: np.ndarray) -> Float[np.ndarray, "g Z"]:
        values = len(self.samples.values)
        inside = self.samples.tokens[train] != PAD
        both = code[train] * values + self.samples.secret[train][:, None]
        return np.bincount(both[inside], minlength=(code.max() + 1) * values).reshape(-1, values).astype(float)


def _spread(samples: Samples, found: Any, inputs: Any, train: np.ndarray) -> Chances:
    """The probabilities of a classifier of scikit-learn; a value that it never saw gets the share of the prior."""
    chances = np.tile(_shares(samples, train), (len(samples), 1))
    unseen = 1 - chances[:, found.classes_].sum(axis=1, keepdims=True)
    chances[:, found.classes_] = found.predict_proba(inputs) * (1 - unseen)
    return chances


@dataclass(frozen=True, eq=False)
class Logistic:
    """Logistic regression on how often each n-gram of up to three symbols occurs, and on which symbols stand where."""

    samples: Samples

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """See `Predictor`."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression

        rows = train[:_MOST_ROWS]
        if len(np.unique(self.samples.secret[rows])) < 2 or num_columns(self._inputs) == 0:
            return
        for strength in _STRENGTHS:
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore", ConvergenceWarning)  # a rule that is not the best is still a rule
                model = LogisticRegression(C=strength, max_iter=100)
                model.fit(self._inputs[rows], self.samples.secret[rows])
            yield _spread(self.samples, model, self._inputs, train)

    @cached_property
    def _inputs(self) -> sp.csr_array:
        samples = self.samples
        times = np.broadcast_to(np.arange(samples.longest), samples.tokens.shape)
        codes = [samples.grams(order) for order in (1, 2, 3) if order <= samples.longest]
        if samples.longest > 1:
            timed = [np.where(code == PAD, PAD, code * samples.longest + times) for code in codes[:2]]
            codes += timed
        return sp.csr_array(sp.hstack([_frequencies(code) for code in codes]))


def _frequencies(code: Int[np.ndarray, "n L"]) -> sp.csr_array:
    """The square root of how often each run has each code, of the codes that most runs have."""
    inside = code != PAD
    run = np.broadcast_to(np.arange(len(code))[:, None], code.shape)[inside]
    found = sp.csr_array(sp.coo_array((np.ones(len(run)), (run, code[inside])), shape=(len(code), code.max() + 1)))
    found.sum_duplicates()
    runs = np.bincount(found.indices, minlength=found.shape[1])  # pyright: ignore[reportOptionalSubscript]
    most = np.argsort(-runs, kind="stable")[:_MOST_FEATURES]
    kept = np.sort(most[runs[most] >= _LEAST_RUNS])
    chosen = sp.csr_array(found[:, kept])
    return sp.csr_array((np.sqrt(chosen.data), chosen.indices, chosen.indptr), shape=chosen.shape)


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees on the first and last symbols and on how often each occurs; a forest if the secret has many values."""

    samples: Samples

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """See `Predictor`."""
        from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

        rows = train[:_MOST_ROWS]
        counts = np.bincount(self.samples.secret[rows])
        if (counts > 0).sum() < 2:
            return
        if len(self.samples.values) <= _FEW_VALUES:
            model = HistGradientBoostingClassifier(
                max_iter=100, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=20, early_stopping=False,  # pyright: ignore[reportArgumentType]: the types are wrong
                random_state=seed,
            )  # fmt: skip
        else:
            model = RandomForestClassifier(60, min_samples_leaf=10, max_features=0.5, random_state=seed)  # pyright: ignore[reportArgumentType]
        with threadpool_limits(1):  # threads that wait for each other on a busy machine take a hundred times as long
            model.fit(self._inputs[rows], self.samples.secret[rows])
            chances = _spread(self.samples, model, self._inputs, train)
        yield chances

    @cached_property
    def _inputs(self) -> Float[np.ndarray, "n k"]:
        """Where symbols have no order, their number is their place by frequency, so that trees can split off the frequent."""
        samples, tokens = self.samples, self.samples.tokens
        inside = tokens != PAD
        often = np.bincount(tokens[inside], minlength=len(samples.symbols))
        rank = np.argsort(np.argsort(-often, kind="stable"), kind="stable")
        number = np.where(inside, tokens if samples.ordered else rank[tokens], PAD).astype(float)
        first = number[:, :_SHOWN_TIMES]
        last = number[:, max(_SHOWN_TIMES, samples.longest - _SHOWN_TIMES) :]
        common = np.argsort(-often, kind="stable")[:_SHOWN_SYMBOLS] if samples.longest > 1 else []
        columns = [first, last, *((tokens == symbol).sum(axis=1, keepdims=True) for symbol in common)]
        if samples.ordered and samples.longest > 1:
            columns.append(np.where(inside, number, 0).sum(axis=1, keepdims=True))
        return np.hstack(columns).astype(float)


@dataclass(frozen=True, eq=False)
class Recurrent:
    """A gated recurrent network, which can remember the whole sequence; only where there are sequences, and many of them."""

    samples: Samples

    def candidates(self, train: Int[np.ndarray, " m"], seed: int) -> Iterator[Chances]:
        """See `Predictor`."""
        samples = self.samples
        rows = train[: min(_MOST_ROWS, _MOST_READ // samples.longest)]
        if samples.longest == 1 or len(rows) < _LEAST_SEQUENCES:
            return
        from .recurrent import fitted, predict

        lengths = (samples.tokens != PAD).sum(axis=1)
        given = self._inputs[rows], lengths[rows], samples.secret[rows]
        params = fitted(*given, len(samples.values), len(samples.symbols), seed)
        yield predict(params, self._inputs, lengths)

    @cached_property
    def _inputs(self) -> Int[np.ndarray, "n L"]:
        return self.samples.tokens.astype(np.int32)


PREDICTORS = {"counts": Counts, "chains": Chains, "logistic": Logistic, "trees": Trees, "recurrent": Recurrent}
"""The families by name."""
EXTRAS = {"logistic": ("sklearn", "audit"), "trees": ("sklearn", "audit"), "recurrent": ("optax", "optax")}
"""The module that a family needs, and the extra that brings it."""
