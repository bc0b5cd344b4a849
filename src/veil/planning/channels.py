"""How a search evaluates the channels of a problem: exactly where that is forecast to be fast enough, else on samples.

What a channel hides is a signed sum of terms, functions of what an observer receives: `H(Z|Y)`; of a whole path
`H(R,Y) − H(Y)`; less `H(Z)` for the leakage. `WAYS` lists the ways to evaluate a term, for each kind of evaluation those to be
tried first before the others: each is a function that offers a backend with a forecast of its cost, or None where it cannot
serve. To add one, write the function and name it there. Every choice has a reason in words, which the plan of a search tells.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ..common.errors import InputError, TooLargeError, VeilError
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
from ..problem.belief import Belief
from ..problem.pairs import OWN, Pair, hidden_names
from ..problem.terms import hidden_terms
from .backend import PER_ENTRY, STEP_SECONDS, UNBOUNDED, Backend, Draw, Ends, summed
from .bits import (
    MOST_NUMBERS,
    LossMeasure,
    Measure,
    Rows,
    each_time,
    entropy_of_rows,
    entropy_of_sequences,
    guess_of_rows,
    hidden_ends,
    likelihood_measure,
    loss_measure,
    on_tree,
    over_times,
    prior,
    sampled,
    walked,
    windowed,
)
from .layers import Measure as Drawn
from .objective import SUMMED_BITS, Channels, Wanted
from .options import Evaluation, SolveOptions
from .options import Objective as Goal
from .policy_class import Space, all_strings, any_table, make_space

# An exact search makes about this many gradients. `auto` enumerates all sequences where they are forecast to take at most
# `EXACT_SECONDS` together, or the time limit where that is shorter; else it samples.
_EXACT_GRADIENTS = 1000
# Over more states, counting the sequences can take longer than an attempt to enumerate them (a minute at 1,000 states): that
# is tried first, and the count, as that of paths, is given up after so many seconds of work, or this share of a time limit: by
# judgement.
MANY_STATES, COUNT_SECONDS, _COUNT_SHARE = 300, 2.0, 0.03
ALWAYS_EXACT_SECONDS = 0.02  # of one gradient: as fast as a sampled one (`schedule`)
_ONLY_SECONDS = 30.0  # of one where there is no other way, of a path, a best guess, or a loss: by judgement

_TOGETHER = "the sequences of one of the pairs are too many to enumerate"

_DRAW = Draw(SolveOptions.sequences, SolveOptions.seed)
_BY_WORK = Budget(time_limit=math.inf)  # what is tried is limited by counted work, the same on every machine


@dataclass(frozen=True)
class Asked:
    """What decides how a channel is evaluated; with a `belief` it is its loss."""

    objective: Goal = "entropy"
    evaluation: Evaluation = "auto"
    draw: Draw = _DRAW
    time_limit: float | None = None
    team: Team = ALONE
    why: str = "asked for"  # where samples are
    belief: Belief | None = None

    @property
    def limit(self) -> float:
        """The time limit, infinite where there is none."""
        return math.inf if self.time_limit is None else self.time_limit

    def most_seconds(self, space: Space) -> float:
        """The forecast seconds of one exact gradient up to which it is taken."""
        is_auto = self.evaluation == "auto"
        if is_auto and self.objective != "guess" and self.belief is None:
            return max(ALWAYS_EXACT_SECONDS, min(EXACT_SECONDS, self.limit) / _EXACT_GRADIENTS)
        return _ONLY_SECONDS if is_auto or space.hidden.path is not None else EXACT_SECONDS

    def count_seconds(self, space: Space) -> float:
        """The work, in forecast seconds, in which sequences are counted where samples can serve instead."""
        is_path = space.hidden.path is not None
        quick = space.hidden.num_states <= MANY_STATES and not is_path
        if quick or (self.evaluation == "exact" and (is_path or self.belief is not None)):
            return math.inf
        return min(COUNT_SECONDS, _COUNT_SHARE * self.limit)


def make_channels(space: Space, options: SolveOptions, time_limit: float | None, team: Team = ALONE) -> Channels:
    """The channels of a problem that count, and how each is evaluated. Where one of them is sampled all are.

    **Raises:** `InputError` where an option names no pair or does not go with others, or an evaluation cannot serve;
    `TooLargeError` where exact values were asked for and would take minutes a gradient.
    """
    problem = space.problem
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
    _check(options, has_pairs=bool(least or bounds or terms), is_least=bool(least))
    draw = Draw(options.sequences, options.seed)
    asked = Asked(options.objective, options.evaluation, draw, time_limit, team)
    own, pairs = make_backend(space, asked), [pair if columns[pair.name] in used else None for pair in problem.pairs]
    together = replace(asked, evaluation="sampled", why=_TOGETHER)
    found = _backends(space, pairs, together if own.drawn else asked)
    if not own.drawn and any(one is not None and one.drawn for one in found):
        own, found = make_backend(space, together), _backends(space, pairs, together)
    return Channels((own, *found), bounds, terms, least)


def _check(options: SolveOptions, *, has_pairs: bool, is_least: bool) -> None:
    is_plain, kept = options.objective == "entropy", options.min_opacity is not None
    if kept and not (is_plain and options.goal == "opaque"):
        words = "it constrains the entropy from below: use goal='opaque' and objective='entropy'"
        raise InputError("min_opacity", [words])
    if has_pairs and not (is_plain and (options.goal == "opaque" or not is_least)):
        words = "pairs are about the entropy H(Z|Y): use objective='entropy', and with hide goal='opaque'"
        raise InputError("pairs", [words])
    if is_least and kept:
        words = "min_opacity keeps the bits of the problem's own pair, and hide maximises others: use one"
        raise InputError("hide", [words])
    if has_pairs and options.evaluation == "bracket":
        raise InputError("evaluation", ["'bracket' is not available with pairs: use 'exact' or 'sampled'"])


def _backends(space: Space, pairs: Sequence[Pair | None], asked: Asked) -> list[Backend | None]:
    """How each of some pairs is evaluated. **Raises:** `TooLargeError`, which names the pair."""
    found = list[Backend | None]()
    for pair in pairs:
        try:
            found.append(None if pair is None else pair_backend(space, pair, asked))
        except TooLargeError as error:
            assert pair is not None
            raise TooLargeError(f"pair {pair.name!r}: {error}") from error
    return found


def pair_backend(space: Space, pair: Pair, asked: Asked) -> Backend:
    """How one pair of a problem is evaluated, by the policies of a class."""
    return make_backend(make_space(space.problem.only(pair.name), space.memory), replace(asked, belief=pair.belief))


def make_backend(space: Space, asked: Asked) -> Backend:
    """The evaluation of the problem's own channel that fits the class of policies.

    **Raises:** see `make_channels`.
    """
    _check_objective(space, asked)
    terms, why = _terms(space, asked), asked.why
    if asked.evaluation in ("auto", "exact"):
        found, most = _offered("exact", terms, asked), asked.most_seconds(space)
        if found is not None and found.cost_seconds <= most:
            return found
        cost = "they are too many to enumerate"
        if found is not None and math.isfinite(found.cost_seconds):
            cost = f"an exact gradient is forecast to take {found.cost_seconds:.2g} s"
        if asked.evaluation == "exact":
            raise TooLargeError(
                f"{cost}, and exact gradients of up to {most:g} s are taken: shorten the horizon, use evaluation='sampled',"
                " or evaluation='bracket' for a secret that is no whole path"
            )
        why = f"{cost}, and exact ascent is used up to {most:.2g} s"
    kind = "sampled" if asked.evaluation == "auto" else asked.evaluation
    for error in (term.unsampled for term in terms if kind == "sampled" and term.unsampled is not None):
        if asked.evaluation == "auto" and isinstance(error, TooLargeError):
            return make_backend(space, replace(asked, evaluation="exact"))
        raise error
    found = _offered(kind, terms, replace(asked, why=why))
    assert found is not None
    return found


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


# What is evaluated.


@dataclass(frozen=True, eq=False)
class Term:
    """`sign · f`, with f a function of what an observer of a chain receives, in the forms that ways need.

    **Attributes:** `measure`: f as a function of joint tables; `rule`: of an observer whose loss it is instead, which depends
    on the sequences of a tree; `drawn`: f on samples, None for the entropy of the posteriors; `unsampled`: the error where it
    has no such form; `closed`: a backend without sequences, such as a sum over times; `ends`: no table has less or more;
    `keeps_events`: whether sequences must not be merged.
    """

    sign: float
    space: Space
    measure: Measure = entropy_of_rows
    rule: Rule | None = None
    drawn: Drawn | None = None
    unsampled: VeilError | None = None
    closed: Backend | None = None
    ends: Ends = UNBOUNDED
    keeps_events: bool = False

    @cached_property
    def chain(self) -> Chain:
        """The chain under a table with no symmetry, on which sequences are counted."""
        return self.space.chain(any_table(self.space))

    @cached_property
    def least_seconds(self) -> float:
        """The least that a pass over all sequences takes: every reachable state is in some of them."""
        return PER_ENTRY * sum(len(one) for one in reachable_sets(self.space.hidden))

    def on(self, tree: BatchTree | StringBatch) -> Backend:
        """The backend of a whole tree."""
        measure = self.measure if self.rule is None else loss_measure(tree, self.space, self.rule)
        return on_tree(tree, measure, self.ends)


def _terms(space: Space, asked: Asked) -> tuple[Term, ...]:
    """What a channel hides as a sum of terms."""
    hidden, ends = space.hidden, hidden_ends(space)
    if asked.belief is not None:
        rule = Rule(space.problem, asked.belief)
        return (Term(1.0, space, rule=rule, drawn=LossMeasure(rule)),)
    if asked.objective == "guess":
        words = "'guess' needs all sequences, which are too many here: use objective='entropy' or a shorter horizon"
        return (Term(1.0, space, guess_of_rows, unsampled=InputError("objective", [words]), ends=(-1.0, 0.0)),)
    is_leakage = asked.objective == "leakage"  # −I(Z;Y) = H(Z|Y) − H(Z)
    if hidden.path is None:
        before = [Term(-1.0, space, closed=prior(space), ends=ends)] if is_leakage else []
        return Term(1.0, space, ends=ends), *before
    both = _of_events(1.0, space, show_path(hidden), "path and observations together")
    seen = Term(-1.0, space, entropy_of_sequences, drawn=likelihood_measure, keeps_events=True)
    before = [_of_events(-1.0, space, show_path(hidden, alone=True), "the path alone")] if is_leakage else []
    return both, seen, *before


def _of_events(sign: float, space: Space, shown: Shown, what: str) -> Term:
    """The entropy of the events of an observer who is shown the path."""
    if shown.entropy is not None:
        return Term(sign, space, closed=over_times(space, shown.entropy))
    words = f"a whole path is searched on samples where {what} tell the hidden state, and here they do not"
    error = TooLargeError(f"{words}: shorten the horizon, or make the whole state the path")
    space = replace(space, hidden=shown.hidden)
    return Term(sign, space, entropy_of_sequences, unsampled=error, keeps_events=True)


# The ways to evaluate a term.


def _closed(term: Term, asked: Asked) -> Backend | None:
    """Without sequences."""
    return term.closed


def _until_each_time(term: Term, asked: Asked) -> Backend | None:
    """All sequences until each time that counts."""
    if term.space.hidden.each is None:
        return None
    return each_time(term.space, _seconds_of_times(term.chain) if asked.evaluation == "auto" else 0.0)


def _on_strings(term: Term, asked: Asked) -> Backend | None:
    """All strings of an observer without a clock."""
    if term.space.hidden.written is None:
        return None
    strings = all_strings(term.space, min(max(COUNT_SECONDS, asked.most_seconds(term.space)), asked.limit))
    return None if strings is None else term.on(strings)


def _on_sparse_rows(term: Term, asked: Asked) -> Backend | None:
    """All sequences on rows with sparse support, where it would take longer to count them."""
    space, most = term.space, asked.most_seconds(term.space)
    few = space.hidden.num_states <= (MANY_STATES if asked.evaluation == "auto" else COUNTED_STATES)
    if few or space.hidden.written is not None or term.rule is not None or term.least_seconds > most:
        return None
    given: dict[str, Any] = {"keep_events": term.keeps_events}
    tried = try_sparse(term.chain, _BY_WORK, partial(Rows, term.measure), most, gradient=True, **given)
    if tried is None:
        return None
    words, seconds = f"{tried[1].num_sequences:,.0f}", sparse_seconds(tried[1])
    return walked(space, term.measure, seconds, words, ends=term.ends, **given)


def _on_all(term: Term, asked: Asked) -> Backend | None:
    """All sequences for many tables side by side, or one table after the other where they are too many for that."""
    space, hidden, most = term.space, term.space.hidden, asked.most_seconds(term.space)
    if hidden.written is not None or hidden.num_states > COUNTED_STATES or term.least_seconds > most:
        return None
    size = _counted(term.chain, asked.count_seconds(space))
    if size is None or not size.exact:
        return None
    seconds = size.seconds(term.chain, gradient=True)
    fits = not hidden.kernel.is_sparse and size.num_sequences * hidden.label.shape[1] <= MOST_NUMBERS
    if fits and seconds <= most:
        return term.on(BatchTree(hidden, space.available, stationary=space.stationary))
    if term.rule is not None:
        return None
    given: dict[str, Any] = {"keep_events": term.keeps_events, "ends": term.ends}
    return walked(space, term.measure, seconds, size.text(), size, **given)


def _in_windows(term: Term, asked: Asked) -> Backend | None:
    """The lower end of a bracket."""
    return windowed(term.space, EXACT_SECONDS / _EXACT_GRADIENTS)


def _on_samples(term: Term, asked: Asked) -> Backend | None:
    """Drawn sequences."""
    return sampled(term.space, asked.draw, asked.why, term.drawn, asked.team)


WAYS: dict[str, tuple[Callable[[Term, Asked], Backend | None], ...]] = {
    "exact": (_closed, _until_each_time, _on_strings, _on_sparse_rows, _on_all),
    "bracket": (_in_windows,),
    "sampled": (_closed, _on_samples),
}
"""The ways of each kind of evaluation, in the order in which they are tried."""


def _offered(kind: str, terms: Sequence[Term], asked: Asked) -> Backend | None:
    """The backend of a sum of terms, each by the first way that can serve; None where one of them has none."""
    offers = list[tuple[float, Backend]]()
    for term in terms:
        offer = next(filter(None, (way(term, asked) for way in WAYS[kind])), None)
        if offer is None:
            return None
        offers.append((term.sign, offer))
    first = offers[0][1]
    if len(offers) == 1:
        return first
    is_path = terms[1].space.hidden.path is not None
    reason = "entropies of all possible sequences, with and without the path" if is_path else first.reason
    reason = next((one.reason for _, one in offers if one.drawn), reason)
    # The most bits of all paths are far above what policies reach.
    return summed(offers, reason, (first.ends[0] - first.ends[1], 0.0) if asked.objective == "leakage" else UNBOUNDED)


def _seconds_of_times(chain: Chain) -> float:
    """The forecast of a gradient on all sequences until each time; infinite where they are too many to count."""
    total, left = 0.0, COUNT_SECONDS
    if chain.written is not None:
        return 0.0
    if chain.hidden.num_states > COUNTED_STATES:
        return math.inf
    for one in times_of(chain):
        size = _counted(one.chain, left)
        if size is None or not size.exact:
            return math.inf
        left -= size.counting_seconds
        total += size.seconds(one.chain, gradient=True)
    return total


def _counted(chain: Chain, seconds: float) -> TreeSize | None:
    """How many sequences are possible; None where counting them is too much work."""
    try:
        return tree_size(chain, most_seconds=seconds)
    except TooLargeError:
        return None


def counted_seconds(space: Space, chain: Chain, seconds: float) -> float:
    """The forecast seconds of an exact value of one policy, infinite where it is not known in the time."""
    hidden = space.hidden
    if hidden.written is not None:
        strings = all_strings(space, min(COUNT_SECONDS, seconds))
        return math.inf if strings is None else strings.cost_seconds
    steps = hidden.horizon * STEP_SECONDS  # of the count, and of the value
    if hidden.num_states > COUNTED_STATES or steps > seconds:
        return math.inf
    size = _counted(chain, Asked(time_limit=seconds).count_seconds(space))
    return steps + size.seconds(chain, gradient=False) if size is not None and size.exact else math.inf
