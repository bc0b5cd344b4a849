"""How a search evaluates the channels of a problem: exactly where that is forecast to be fast enough, else on samples.

Every choice has a reason in words, which the plan of a search tells.
"""

import contextlib
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_of_count
from ..common.workers import ALONE, Team
from ..engine.batch import BatchTree
from ..engine.chain import Chain
from ..engine.event_entropy import Shown, show_path
from ..engine.size import TreeSize, tree_size
from ..engine.string_walk import StringBatch
from ..measure.exact import COUNTED_STATES, Budget, refuse_if_too_large, sparse_seconds, try_sparse
from ..measure.loss import Rule
from ..measure.trajectory import SequenceEntropy
from ..problem.belief import Belief
from ..problem.pairs import OWN, Pair, hidden_names
from ..problem.terms import hidden_terms
from .backend import Backend, Draw, Sum
from .each_bits import each_time_backend, sampled_times
from .exact_bits import OverTimes, Prior, Rows, Tree, Walked, entropy_of_sequences, loss_measure, row_measure
from .objective import SUMMED_BITS, Channels, Wanted
from .options import Evaluation, SolveOptions
from .options import Objective as Goal
from .policy_class import Space, all_strings, any_table, make_space
from .sampled_bits import LossMeasure, Sampled, likelihood_measure
from .window_bits import MOST_STATES, Windowed

# An exact search makes about this many gradients. `auto` enumerates all sequences where they are forecast to take at most
# this many seconds, or the time limit where that is shorter; else it samples.
_EXACT_GRADIENTS, _EXACT_SECONDS = 1000, 300.0
# Over more states, counting the sequences can take longer than an attempt to enumerate them (a minute at 1,000 states): that
# is tried first, and the count is then given up after so many seconds of work, or this share of a time limit.
_COUNTED_STATES, COUNT_SECONDS, _COUNT_SHARE = 300, 2.0, 0.03
_GUESS_SECONDS = 1.0
_ALWAYS_EXACT_SECONDS = 0.02  # of one gradient: as fast as a sampled one
_MOST_SECONDS, _MOST_PATH_SECONDS, _LOSS_SECONDS = 300.0, 30.0, 10.0  # of one exact gradient, where it was asked for
_BATCH_NUMBERS, _PATH_BATCH_NUMBERS = (
    2**24,
    2**22,
)  # of the joint table of one policy, up to which many are side by side

_TOGETHER = "the sequences of one of the pairs are too many to enumerate"


_DRAW = Draw(2000, 0)
_BY_WORK = Budget(time_limit=math.inf)  # what is tried is limited by counted work, the same on every machine


@dataclass(frozen=True)
class Asked:
    """What decides how a channel is evaluated."""

    objective: Goal = "entropy"
    evaluation: Evaluation = "auto"
    draw: Draw = _DRAW
    time_limit: float | None = None
    team: Team = ALONE

    @property
    def exact_seconds(self) -> float:
        """The forecast seconds of one exact gradient up to which `auto` takes it."""
        if self.objective == "guess":  # there is no other way
            return _GUESS_SECONDS
        whole = _EXACT_SECONDS if self.time_limit is None else min(_EXACT_SECONDS, self.time_limit)
        return max(_ALWAYS_EXACT_SECONDS, whole / _EXACT_GRADIENTS)

    @property
    def count_seconds(self) -> float:
        """The work, in forecast seconds, in which sequences are counted where samples can serve instead."""
        return COUNT_SECONDS if self.time_limit is None else min(COUNT_SECONDS, _COUNT_SHARE * self.time_limit)


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
    own = make_backend(space, asked)
    if not (least or bounds or terms):
        return Channels((own, *(None for _ in problem.pairs)))
    _check(bool(least), options, own)
    used = {one.column for one in (*least, *bounds)} | {column for _, column in terms}
    pairs = [pair if columns[pair.name] in used else None for pair in problem.pairs]
    if own.kind == "exact":
        exact = [None if pair is None else _exact_pair(space, pair, options, asked) for pair in pairs]
        if all(pair is None or one is not None for pair, one in zip(pairs, exact, strict=True)):
            return Channels((own, *exact), bounds, terms, least)
        own = make_sampled(space, asked, _TOGETHER)
    sampled = (None if pair is None else sampled_pair(space, pair, options, team) for pair in pairs)
    return Channels((own, *sampled), bounds, terms, least)


def _check(is_least: bool, options: SolveOptions, own: Backend) -> None:
    if options.objective != "entropy" or (is_least and options.goal != "opaque"):
        raise InputError(
            "pairs", ["pairs are about the entropy H(Z|Y): use objective='entropy', and with hide goal='opaque'"]
        )
    if is_least and options.min_opacity is not None:
        raise InputError(
            "hide", ["min_opacity keeps the bits of the problem's own pair, and hide maximises others: use one"]
        )
    if own.kind == "bracket":
        raise InputError("evaluation", ["'bracket' is not available with pairs: use 'exact' or 'sampled'"])


def _exact_pair(space: Space, pair: Pair, options: SolveOptions, asked: Asked) -> Backend | None:
    """How one pair is evaluated on all sequences; None where these are too many.

    **Raises:** `TooLargeError` where they are, and exact values were asked for.
    """
    alone = make_space(space.problem.only(pair.name), options.memory)
    try:
        if pair.belief is not None:
            return exact_loss(alone, pair.belief)
        found = make_backend(alone, Asked("entropy", options.evaluation, asked.draw, asked.time_limit))
    except TooLargeError as error:
        if options.evaluation == "exact":
            raise TooLargeError(f"pair {pair.name!r}: {error}") from error
        return None
    return found if found.kind == "exact" else None


def sampled_pair(space: Space, pair: Pair, options: SolveOptions, team: Team = ALONE) -> Backend:
    """How one pair of a problem is evaluated on drawn sequences, by the policies of a class."""
    alone = make_space(space.problem.only(pair.name), options.memory)
    draw = Draw(options.sequences, options.seed)
    if pair.belief is not None:
        return Sampled(alone, draw, _TOGETHER, LossMeasure(Rule(alone.problem, pair.belief)), team)
    return make_sampled(alone, Asked(draw=draw, team=team), _TOGETHER)


def make_backend(space: Space, asked: Asked) -> Backend:
    """The evaluation of the problem's own channel that fits the class of policies.

    **Raises:** see `make_channels`.
    """
    if space.hidden.each is not None:
        fits = asked.exact_seconds
        return each_time_backend(space, asked.objective, asked.evaluation, fits, asked.draw, asked.team)
    if space.hidden.path is not None:
        return _of_path(space, asked)
    hidden, chain, evaluation = space.hidden, space.chain(any_table(space)), asked.evaluation
    most, enumerates = log2_of_count(hidden.num_values), evaluation in ("auto", "exact")
    fits = asked.exact_seconds
    if enumerates and hidden.written is not None:
        seconds = _MOST_SECONDS if evaluation == "exact" else COUNT_SECONDS
        strings = all_strings(space, seconds if asked.time_limit is None else min(seconds, asked.time_limit))
        if strings is not None and strings.cost_seconds <= (fits if evaluation == "auto" else _MOST_SECONDS):
            return Tree(strings, row_measure(asked.objective), most)
        if evaluation == "exact":
            raise TooLargeError(
                "one exact gradient over all strings of an observer without a clock takes more than five minutes, or they do"
                " not fit the memory: use evaluation='sampled', or 'bracket', a bound that holds against one with a clock too"
            )
        enumerates = False
    if enumerates and hidden.num_states > (_COUNTED_STATES if evaluation == "auto" else COUNTED_STATES):
        limit = fits if evaluation == "auto" else _MOST_SECONDS
        # The prior of a large chain takes seconds, and only a leakage depends on it.
        prior = chain.prior if asked.objective == "leakage" else np.zeros(hidden.num_values)
        tried = try_sparse(chain, _BY_WORK, lambda: Rows(asked.objective, prior), limit, gradient=True)
        if tried is not None:
            words = f"{tried[1].num_sequences:,.0f}"
            return Walked(space, partial(Rows, asked.objective), sparse_seconds(tried[1]), words, most_bits=most)
        enumerates = hidden.num_states <= COUNTED_STATES
    size = _counted(chain, asked) if enumerates else None
    seconds = size.seconds(chain, gradient=True) if size is not None and size.exact else math.inf
    if evaluation == "exact" or (evaluation == "auto" and seconds <= fits):
        return _of_tree(space, asked, chain, size, seconds)
    if evaluation == "bracket":
        return _of_window(space, asked)
    if asked.objective == "guess":
        raise InputError(
            "objective",
            ["'guess' needs all sequences, which are too many here: use objective='entropy' or a shorter horizon"],
        )
    why = "asked for"
    if evaluation == "auto":
        cost = f"an exact gradient is forecast to take {seconds:.2g} s"
        if math.isinf(seconds):
            late = enumerates and size is None
            cost = "they are too many to count" if late else "too many to enumerate"
        why = f"{cost}, and exact ascent is used up to {fits:.2g} s"
    return make_sampled(space, asked, why)


def _of_tree(space: Space, asked: Asked, chain: Chain, size: TreeSize | None, seconds: float) -> Backend:
    hidden = space.hidden
    if seconds > _MOST_SECONDS:
        if size is not None:
            refuse_if_too_large(chain, size, Budget(), gradient=True)  # says what else there is
        raise TooLargeError("one exact gradient takes more than five minutes: use evaluation='bracket' or 'sampled'")
    assert size is not None
    most = log2_of_count(hidden.num_values)
    if not hidden.kernel.is_sparse and size.num_sequences * hidden.label.shape[1] <= _BATCH_NUMBERS:
        tree = BatchTree(hidden, space.available, stationary=space.stationary)
        return Tree(tree, row_measure(asked.objective), most)
    return Walked(space, partial(Rows, asked.objective), seconds, size.text(), size, most_bits=most)


def _of_window(space: Space, asked: Asked) -> Backend:
    hidden = space.hidden
    if asked.objective == "entropy" and hidden.num_states <= MOST_STATES:
        return Windowed(space)
    why = f"bounds the entropy only, not {asked.objective!r}"
    if asked.objective == "entropy":
        why = f"needs a chain of {MOST_STATES} states or fewer, and this one has {hidden.num_states}"
    raise InputError("evaluation", [f"'bracket' {why}: use 'exact' or 'sampled'"])


def make_sampled(space: Space, asked: Asked, why: str) -> Backend:
    """The sampled evaluation of a problem's secret.

    **Raises:** `TooLargeError` where path and observations do not tell the hidden state, so that there is no sum over times.
    """
    if space.hidden.each is not None:
        return sampled_times(space, asked.draw, why, asked.team)
    if space.hidden.path is None:
        entropy = Sampled(space, asked.draw, why, team=asked.team)
        if asked.objective != "leakage":
            return entropy
        return Sum([(1.0, entropy), (-1.0, Prior(space))], entropy.reason, entropy.most_bits)
    seen = Sampled(space, asked.draw, why, likelihood_measure, asked.team)
    terms: list[tuple[float, Backend]] = [(1.0, _over_times(space, alone=False)), (-1.0, seen)]
    if asked.objective == "leakage":
        terms.append((-1.0, _over_times(space, alone=True)))
    return Sum(terms, seen.reason)  # the most bits of all paths are far above what policies reach


def _over_times(space: Space, *, alone: bool) -> OverTimes:
    found = show_path(space.hidden, alone=alone).entropy
    if found is None:
        what = "the path alone" if alone else "path and observations together"
        raise TooLargeError(
            f"a whole path is searched on samples where {what} tell the hidden state, and here they do not: shorten the"
            " horizon, or make the whole state the path"
        )
    return OverTimes(space, found)


def _of_path(space: Space, asked: Asked) -> Backend:
    """The evaluation of a whole path, `H(R|Y) = H(R,Y) − H(Y)`; less `H(R)` where the leakage is the objective.

    On all possible sequences where one gradient takes about the time for it, else sampled. Where it cannot be sampled either,
    all sequences are used up to half a minute a gradient.
    """
    if asked.objective == "guess":
        raise InputError("objective", ["'guess' is not available for a whole path: use 'entropy' or 'leakage'"])
    if asked.evaluation == "bracket":
        raise InputError("evaluation", ["'bracket' is not available for a whole path: use 'exact' or 'sampled'"])
    if asked.evaluation == "sampled":
        return make_sampled(space, asked, "asked for")
    seconds = asked.exact_seconds
    if asked.evaluation == "auto":
        found = _exact_path(space, asked, seconds, asked.count_seconds)
        if found.cost_seconds <= seconds:
            return found
        with contextlib.suppress(TooLargeError):
            return make_sampled(space, asked, "too many to enumerate")
    found = _exact_path(space, asked, _MOST_PATH_SECONDS, math.inf)
    if found.cost_seconds > _MOST_PATH_SECONDS:
        raise TooLargeError(
            f"one exact gradient of the whole path is forecast to take more than {_MOST_PATH_SECONDS:g} s: shorten the"
            " horizon, or measure given policies with veil.opacity (method='sampled')"
        )
    return found


def _exact_path(space: Space, asked: Asked, seconds: float, counting: float) -> Sum:
    """A signed sum of entropies of event sequences; what is found to take longer than the seconds has an infinite cost."""
    both, alone = show_path(space.hidden), show_path(space.hidden, alone=True)
    given = seconds, counting
    terms: list[tuple[float, Backend]] = [
        (1.0, _of_events(space, both, *given)),
        (-1.0, _of_events(space, None, *given)),
    ]
    if asked.objective == "leakage":
        terms.append((-1.0, _of_events(space, alone, *given)))
    return Sum(terms, "entropies of all possible sequences, with and without the path")


def _of_events(space: Space, shown: Shown | None, seconds: float, counting: float) -> Backend:
    """The entropy of the events of a chain, or of one whose observer is shown the path, by the cheapest way."""
    if shown is not None and shown.entropy is not None:
        return OverTimes(space, shown.entropy)
    space = space if shown is None else replace(space, hidden=shown.hidden)

    def walked(cost: float, size: TreeSize | None = None) -> Walked:
        keeps = size is None
        return Walked(space, lambda _: SequenceEntropy(), cost, "event", size, keep_events=keeps)

    if space.hidden.written is not None:
        strings = all_strings(space, min(_MOST_PATH_SECONDS, counting))
        return Tree(strings, entropy_of_sequences) if strings is not None else walked(math.inf)
    chain, hidden = space.chain(any_table(space)), space.hidden
    if hidden.num_states > COUNTED_STATES:
        tried = try_sparse(chain, _BY_WORK, SequenceEntropy, seconds, gradient=True, keep_events=True)
        return walked(math.inf if tried is None else sparse_seconds(tried[1]))
    try:
        size = tree_size(chain, most_seconds=counting)
    except TooLargeError:
        return walked(math.inf)
    if not hidden.kernel.is_sparse and size.num_sequences <= _PATH_BATCH_NUMBERS:
        return Tree(BatchTree(hidden, space.available, stationary=space.stationary), entropy_of_sequences)
    return walked(size.seconds(chain, gradient=True) if size.exact else math.inf, size)


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
        strings = all_strings(space, _LOSS_SECONDS)
        if strings is not None and strings.cost_seconds <= _LOSS_SECONDS:
            return strings
    elif not hidden.kernel.is_sparse:
        size = tree_size(space.chain(any_table(space)))
        if size.exact and size.num_sequences * hidden.label.shape[1] <= _BATCH_NUMBERS:
            return BatchTree(hidden, space.available, stationary=space.stationary)
        count = size.text()
    raise TooLargeError(
        f"the loss of an observer that may be wrong is evaluated on all sequences, and {count} over"
        f" {hidden.num_states:,} hidden states are too many: use evaluation='sampled', or shorten the horizon"
    )


def _counted(chain: Chain, asked: Asked) -> TreeSize | None:
    """How many sequences are possible; None where counting them over many states is too much work."""
    large = chain.hidden.num_states > _COUNTED_STATES
    try:
        return tree_size(chain, most_seconds=asked.count_seconds if large else math.inf)
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
    size = _counted(chain, Asked(time_limit=seconds))
    return size.seconds(chain, gradient=False) if size is not None and size.exact else math.inf
