"""How a search evaluates the channels of a problem: exactly where that is forecast to be fast enough, else on samples.

Every choice has a reason in words, which the plan of a search tells.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from ..common.errors import InputError, TooLargeError
from ..common.workers import ALONE, Team
from ..engine.backends.column_steps import reachable_sets
from ..engine.batch import BatchTree
from ..engine.chain import Chain
from ..engine.each_time import times_of
from ..engine.event_entropy import Shown, show_path
from ..engine.size import TreeSize, tree_size
from ..engine.string_walk import StringBatch
from ..measure.exact import COUNTED_STATES, EXACT_SECONDS, Budget, sparse_seconds, try_sparse
from ..measure.loss import Rule
from ..measure.trajectory import SequenceEntropy
from ..problem.belief import Belief
from ..problem.pairs import OWN, Pair, hidden_names
from ..problem.terms import hidden_terms
from .backend import PER_ENTRY, Backend, Draw, Sum, samples_of
from .exact_bits import (
    MOST_NUMBERS,
    Measure,
    OverTimes,
    Rows,
    Tree,
    each_time,
    entropy_of_rows,
    entropy_of_sequences,
    guess_of_rows,
    hidden_ends,
    loss_measure,
    prior,
    walked,
    windowed,
)
from .objective import SUMMED_BITS, Channels, Wanted
from .options import Evaluation, SolveOptions
from .options import Objective as Goal
from .policy_class import Space, all_strings, any_table, make_space
from .sampled_bits import LossMeasure, Sampled, likelihood_measure

# An exact search makes about this many gradients. `auto` enumerates all sequences where they are forecast to take at most
# `EXACT_SECONDS` together, or the time limit where that is shorter; else it samples.
_EXACT_GRADIENTS = 1000
# Over more states, counting the sequences can take longer than an attempt to enumerate them (a minute at 1,000 states): that
# is tried first, and the count, as that of paths, is given up after so many seconds of work, or this share of a time limit.
MANY_STATES, COUNT_SECONDS, _COUNT_SHARE = 300, 2.0, 0.03
ALWAYS_EXACT_SECONDS = 0.02  # of one gradient: as fast as a sampled one
_ONLY_SECONDS = 30.0  # of one where there is no other way: of a whole path, a best guess, or the loss of a belief

_TOGETHER = "the sequences of one of the pairs are too many to enumerate"

_DRAW = Draw(SolveOptions.sequences, SolveOptions.seed)
_BY_WORK = Budget(time_limit=math.inf)  # what is tried is limited by counted work, the same on every machine


@dataclass(frozen=True)
class Asked:
    """What decides how a channel is evaluated."""

    objective: Goal = "entropy"
    evaluation: Evaluation = "auto"
    draw: Draw = _DRAW
    time_limit: float | None = None
    team: Team = ALONE
    why: str = "asked for"  # where samples are

    @property
    def limit(self) -> float:
        """The time limit, infinite where there is none."""
        return math.inf if self.time_limit is None else self.time_limit

    def most_seconds(self, space: Space) -> float:
        """The forecast seconds of one exact gradient up to which it is taken."""
        if self.evaluation == "auto" and self.objective != "guess":  # for which there is no other way
            return max(ALWAYS_EXACT_SECONDS, min(EXACT_SECONDS, self.limit) / _EXACT_GRADIENTS)
        return _ONLY_SECONDS if self.evaluation == "auto" or space.hidden.path is not None else EXACT_SECONDS

    def count_seconds(self, space: Space) -> float:
        """The work, in forecast seconds, in which sequences are counted where samples can serve instead."""
        quick = space.hidden.num_states <= MANY_STATES and space.hidden.path is None
        if quick or (space.hidden.path is not None and self.evaluation == "exact"):
            return math.inf
        return min(COUNT_SECONDS, _COUNT_SHARE * self.limit)


def make_channels(space: Space, options: SolveOptions, time_limit: float | None, team: Team = ALONE) -> Channels:
    """The channels of a problem that count, and how each is evaluated. Where one of them is sampled all are.

    **Raises:** `InputError` where an option names no pair or does not go with others, or an evaluation cannot serve;
    `TooLargeError` where exact values were asked for and would take minutes a gradient.
    """
    problem = space.problem
    if options.min_opacity is not None and (options.goal != "opaque" or options.objective != "entropy"):
        raise InputError(
            "min_opacity", ["it constrains the entropy from below: use goal='opaque' and objective='entropy'"]
        )
    draw = Draw(options.sequences, options.seed)
    asked = Asked(options.objective, options.evaluation, draw, time_limit, team)
    columns = {OWN: 0} | {one.name: 1 + number for number, one in enumerate(problem.pairs)}
    hidden = hidden_names(problem.pairs, options.hide)
    least = () if hidden == (OWN,) else tuple(Wanted(columns[name], 1.0, 0.0) for name in hidden)
    bounds = tuple(
        Wanted(columns[pair.name], sign, bits + sign * SUMMED_BITS)
        for pair in problem.pairs
        for sign, bits in pair.bounds
        if sign < 0 or bits > 0
    )
    terms = tuple((factor, columns[name]) for factor, name in hidden_terms(problem, options.task))
    used = {one.column for one in (*least, *bounds)} | {column for _, column in terms}
    if least or bounds or terms:
        _check(bool(least), options)
    own, pairs = make_backend(space, asked), [pair if columns[pair.name] in used else None for pair in problem.pairs]
    found = None if samples_of(own) else _backends(space, pairs, asked)
    if found is None or any(one is not None and samples_of(one) for one in found):
        asked = replace(asked, evaluation="sampled", why=_TOGETHER)
        own = own if samples_of(own) else make_backend(space, asked)
        found = _backends(space, pairs, asked)
    assert found is not None
    return Channels((own, *found), bounds, terms, least)


def _check(is_least: bool, options: SolveOptions) -> None:
    if options.objective != "entropy" or (is_least and options.goal != "opaque"):
        raise InputError(
            "pairs", ["pairs are about the entropy H(Z|Y): use objective='entropy', and with hide goal='opaque'"]
        )
    if is_least and options.min_opacity is not None:
        raise InputError(
            "hide", ["min_opacity keeps the bits of the problem's own pair, and hide maximises others: use one"]
        )
    if options.evaluation == "bracket":
        raise InputError("evaluation", ["'bracket' is not available with pairs: use 'exact' or 'sampled'"])


def _backends(space: Space, pairs: Sequence[Pair | None], asked: Asked) -> list[Backend | None] | None:
    """How each of some pairs is evaluated; None where one of them has too many sequences for exact values.

    **Raises:** `TooLargeError` where it has, and exact values were asked for.
    """
    found = list[Backend | None]()
    for pair in pairs:
        try:
            found.append(None if pair is None else pair_backend(space, pair, asked))
        except TooLargeError as error:
            if asked.evaluation == "auto":
                return None
            assert pair is not None
            raise TooLargeError(f"pair {pair.name!r}: {error}") from error
    return found


def pair_backend(space: Space, pair: Pair, asked: Asked) -> Backend:
    """How one pair of a problem is evaluated, by the policies of a class."""
    alone = make_space(space.problem.only(pair.name), space.memory)
    if pair.belief is None:
        return make_backend(alone, asked)
    if asked.evaluation == "sampled":
        return Sampled(alone, asked.draw, asked.why, LossMeasure(Rule(alone.problem, pair.belief)), asked.team)
    return exact_loss(alone, pair.belief)


def make_backend(space: Space, asked: Asked) -> Backend:
    """The evaluation of the problem's own channel that fits the class of policies.

    **Raises:** see `make_channels`.
    """
    _check_objective(space, asked)
    if asked.objective == "leakage":  # −I(Z;Y) = H(Z|Y) − H(Z)
        left = make_backend(space, replace(asked, objective="entropy"))
        before, (least, most) = _before(space, asked), left.ends
        return Sum([(1.0, left), (-1.0, before)], left.reason, (least - most, 0.0))
    if asked.evaluation == "sampled":
        return make_sampled(space, asked, asked.why)
    if asked.evaluation == "bracket":
        return windowed(space, EXACT_SECONDS / _EXACT_GRADIENTS)
    found, most = _exact(space, asked), asked.most_seconds(space)
    seconds = math.inf if found is None else found.cost_seconds
    if found is not None and seconds <= most:
        return found
    cost = "they are too many to enumerate"
    if math.isfinite(seconds):
        cost = f"an exact gradient is forecast to take {seconds:.2g} s"
    if asked.evaluation == "exact":
        raise TooLargeError(
            f"{cost}, and exact gradients of up to {most:g} s are taken: shorten the horizon, use evaluation='sampled', or"
            " evaluation='bracket' for a secret that is no whole path"
        )
    try:
        return make_sampled(space, asked, f"{cost}, and exact ascent is used up to {most:.2g} s")
    except TooLargeError:  # a path that cannot be sampled either
        return make_backend(space, replace(asked, evaluation="exact"))


def _check_objective(space: Space, asked: Asked) -> None:
    """Raise `InputError` for an objective that a kind of secret, or a bracket, does not have."""
    hidden, objective, is_bracket = space.hidden, asked.objective, asked.evaluation == "bracket"
    if hidden.each is not None and objective != "entropy":
        raise InputError("objective", ["a search for bits at every time has objective='entropy': use this one"])
    if hidden.path is not None and objective == "guess":
        raise InputError("objective", ["'guess' is not available for a whole path: use 'entropy' or 'leakage'"])
    if hidden.path is not None and is_bracket:
        raise InputError("evaluation", ["'bracket' is not available for a whole path: use 'exact' or 'sampled'"])
    if is_bracket and objective != "entropy":
        words = f"'bracket' bounds the entropy only, not {objective!r}: use 'exact' or 'sampled'"
        raise InputError("evaluation", [words])


def _exact(space: Space, asked: Asked) -> Backend | None:
    """The evaluation on all sequences, with a forecast of its cost; None where there are too many to tell it."""
    hidden = space.hidden
    if hidden.path is not None:
        return _exact_path(space, asked)
    if hidden.each is not None:
        return each_time(space, _seconds_of_times(space) if asked.evaluation == "auto" else 0.0)
    measure = guess_of_rows if asked.objective == "guess" else entropy_of_rows
    return _on_all(space, asked, Fed(partial(Rows, measure), measure))


class Fed(NamedTuple):
    """What all sequences are fed to: one table after the other, or many side by side."""

    one: Callable[[], Any]
    many: Measure
    keeps_events: bool = False


def _on_all(space: Space, asked: Asked, fed: Fed) -> Backend | None:
    """A function of all sequences by the cheapest way; see `_exact`."""
    hidden, most = space.hidden, asked.most_seconds(space)
    ends = (-1.0, 0.0) if asked.objective == "guess" else hidden_ends(space)
    if hidden.written is not None:
        strings = all_strings(space, min(EXACT_SECONDS if asked.evaluation == "exact" else COUNT_SECONDS, asked.limit))
        return None if strings is None else Tree(strings, fed.many, ends)
    if PER_ENTRY * sum(len(one) for one in reachable_sets(hidden)) > most:  # every reachable state is in some sequence
        return None
    chain = space.chain(any_table(space))
    if hidden.num_states > (MANY_STATES if asked.evaluation == "auto" else COUNTED_STATES):
        tried = try_sparse(chain, _BY_WORK, fed.one, most, gradient=True, keep_events=fed.keeps_events)
        if tried is not None:
            words, seconds = f"{tried[1].num_sequences:,.0f}", sparse_seconds(tried[1])
            return walked(space, fed.one, seconds, words, keep_events=fed.keeps_events, ends=ends)
    size = None if hidden.num_states > COUNTED_STATES else _counted(space, chain, asked)
    if size is None or not size.exact:
        return None
    seconds = size.seconds(chain, gradient=True)
    fits = not hidden.kernel.is_sparse and size.num_sequences * hidden.label.shape[1] <= MOST_NUMBERS
    if fits and seconds <= most:
        return Tree(BatchTree(hidden, space.available, stationary=space.stationary), fed.many, ends)
    return walked(space, fed.one, seconds, size.text(), size, ends=ends)


def _seconds_of_times(space: Space) -> float:
    """The forecast of a gradient on all sequences until each time; infinite where they are too many to count."""
    chain, total, left = space.chain(any_table(space)), 0.0, COUNT_SECONDS
    if chain.written is not None:
        return 0.0
    if chain.hidden.num_states > COUNTED_STATES:
        return math.inf
    try:
        for one in times_of(chain):
            size = tree_size(one.chain, most_seconds=left)
            left -= size.counting_seconds
            total += size.seconds(one.chain, gradient=True) if size.exact else math.inf
    except TooLargeError:
        return math.inf
    return total


def make_sampled(space: Space, asked: Asked, why: str) -> Backend:
    """The sampled evaluation of a problem's secret.

    **Raises:** `TooLargeError` where path and observations do not tell the hidden state, so that there is no sum over times.
    """
    _check_objective(space, asked)
    if asked.objective == "guess":
        raise InputError(
            "objective",
            ["'guess' needs all sequences, which are too many here: use objective='entropy' or a shorter horizon"],
        )
    if space.hidden.path is None:
        return Sampled(space, asked.draw, why, team=asked.team)
    seen = Sampled(space, asked.draw, why, likelihood_measure, asked.team)
    # The most bits of all paths are far above what policies reach.
    return Sum([(1.0, _over_times(space, alone=False)), (-1.0, seen)], seen.reason)


def _before(space: Space, asked: Asked) -> Backend:
    """The entropy of the secret before anything is observed."""
    if space.hidden.path is None:
        return prior(space)
    alone = show_path(space.hidden, alone=True)
    exact = asked.evaluation != "sampled" and _of_events(space, alone, replace(asked, objective="entropy"))
    return exact or _over_times(space, alone=True)


def _over_times(space: Space, *, alone: bool) -> OverTimes:
    found = show_path(space.hidden, alone=alone).entropy
    if found is None:
        what = "the path alone" if alone else "path and observations together"
        raise TooLargeError(
            f"a whole path is searched on samples where {what} tell the hidden state, and here they do not: shorten the"
            " horizon, or make the whole state the path"
        )
    return OverTimes(space, found)


def _exact_path(space: Space, asked: Asked) -> Backend | None:
    """`H(R|Y) = H(R,Y) − H(Y)` of a whole path: entropies of event sequences."""
    both, seen = (_of_events(space, shown, asked) for shown in (show_path(space.hidden), None))
    if both is None or seen is None:
        return None
    return Sum([(1.0, both), (-1.0, seen)], "entropies of all possible sequences, with and without the path")


def _of_events(space: Space, shown: Shown | None, asked: Asked) -> Backend | None:
    """The entropy of the events of a chain, or of one whose observer is shown the path."""
    if shown is not None and shown.entropy is not None:
        return OverTimes(space, shown.entropy)
    space = space if shown is None else replace(space, hidden=shown.hidden)
    return _on_all(space, asked, Fed(SequenceEntropy, entropy_of_sequences, keeps_events=True))


def exact_loss(space: Space, belief: Belief) -> Tree:
    """The loss of an observer who may be wrong, on all sequences.

    **Raises:** `InputError` if the observer rules out what some policy brings about; `TooLargeError`.
    """
    tree = _whole_tree(space)
    return Tree(tree, loss_measure(tree, space, belief))


def _whole_tree(space: Space) -> BatchTree | StringBatch:
    """All sequences, or all strings of an observer without a clock, for a loss."""
    hidden, count = space.hidden, "those"
    if hidden.written is not None:
        strings = all_strings(space, _ONLY_SECONDS)
        if strings is not None and strings.cost_seconds <= _ONLY_SECONDS:
            return strings
    elif not hidden.kernel.is_sparse:
        size = tree_size(space.chain(any_table(space)))
        if size.exact and size.num_sequences * hidden.label.shape[1] <= MOST_NUMBERS:
            return BatchTree(hidden, space.available, stationary=space.stationary)
        count = size.text()
    raise TooLargeError(
        f"the loss of an observer that may be wrong is evaluated on all sequences, and {count} over"
        f" {hidden.num_states:,} hidden states are too many: use evaluation='sampled', or shorten the horizon"
    )


def _counted(space: Space, chain: Chain, asked: Asked) -> TreeSize | None:
    """How many sequences are possible; None where counting them is too much work."""
    try:
        return tree_size(chain, most_seconds=asked.count_seconds(space))
    except TooLargeError:
        return None


def counted_seconds(space: Space, chain: Chain, seconds: float) -> float:
    """The forecast seconds of an exact value of one policy, infinite where it is not known in the time."""
    hidden = space.hidden
    if hidden.written is not None:
        strings = all_strings(space, min(COUNT_SECONDS, seconds))
        return math.inf if strings is None else strings.cost_seconds
    if hidden.num_states > COUNTED_STATES:
        return math.inf
    size = _counted(space, chain, Asked(time_limit=seconds))
    return size.seconds(chain, gradient=False) if size is not None and size.exact else math.inf
