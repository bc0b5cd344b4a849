"""Where searches begin.

Where evaluations are cheap: near the uniform policy, random, bold in single cells, near the policy of largest return, and
policies of convex games. On samples: policies of convex games, and soft policies.

**Convex games.** Against an observer whose memory is finite the best policy is the optimum of a convex game (`game.solve`),
found in seconds on a thousand states. As a policy of the class it may hide little, since an observer who remembers more sees
through it; as a start it leads to better optima than any bonus on the secret alone, since it is seen where the other values of
the secret are seen. The games of one and two observations are played, then of one at thresholds on either side of the one asked
for: a search that comes from a poorer or a richer policy may end elsewhere on the way along the frontier.

**Soft policies.** Where a policy never makes the secret uncertain the gradient of `H(Z|Y)` is zero, and a search that begins
there stays there. A soft backward induction is cheap and gives policies that are spread over many paths and look alike to the
observer. Its rewards are the return times a weight, a bonus for each value of the secret, and a cost for events that tell the
values apart:

- the bonus moves by `−ln P(z)` in each round, which evens out the values (with deterministic transitions, in one round);
- the cost of an event at time t is `c · KL(P(z|o_t) ‖ P(z))` in nats, its own information about the secret;
- the weight is the smallest, by bisection, at which the return meets the threshold.

A few factors c span the trade-off between random and unobtrusive policies. For a stationary class the soft policy is
averaged over time, with its occupancies as weights.
"""

import contextlib
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime, Stop
from ..common.errors import VeilError
from ..common.logs import divergence_bits, entropy_bits, natural_log, posteriors
from ..common.memo import memo
from ..engine.return_range import is_blind, return_extremes
from ..game.ascent import GameResult
from ..game.pairs import DEFAULT_MEMORY, TailEvents
from ..game.responses import AgentProblem
from ..game.solve import solve_game
from ..problem.problem import Problem
from .backend import PER_ENTRY
from .objective import Objective
from .options import SolveOptions
from .parameters import NOISE, logits
from .plan import SHARE
from .policy_class import Space, Table, make_space
from .solution import TOLD_BITS

# Numbers without a reason beside them are by judgement: what comes of them is where a search begins.
_BOLD = 3.0  # logit of an action that a start all but fixes: far enough to be another policy, near enough to come back
_SAMPLED_STARTS = 5  # tables to begin from in a search on samples on a device
# At which a game ends: one run in five of a start acts at random at some time (`parameters`), which costs more bits than this.
_GAP_BITS, _ITERATIONS = 0.05, 80
_ASIDE = 0.4  # of the way to the freest and to the strictest threshold, for the games on either side
_MOST_STATES = 100_000  # over all times they are millions, no longer a matter of seconds

# Of soft policies.
_FACTORS = (10.0, 30.0)  # c of the cost of being told apart, the more promising first
# Rounds of bonus and cost for each weight: so many, and up to so many where the secret keeps less than half of its bits.
_ROUNDS, _MOST_ROUNDS = 3, 8
_BISECTIONS = 10  # of the weight, which ends sooner where the slack is small
# To begin with, in nats for the range of returns: over short horizons, where log A for a decision is less. A value of the
# secret that needs a larger bonus than twice as much, or half the weight, is not reached.
_LEAST_WEIGHT = 30.0
_NEAR = 0.1  # slack, as a share of the range of returns, with which a weight is small enough
_MOST_VALUES = 64  # of a secret whose values are told apart; with more, the tables of a round grow too large


def spread_starts(space: Space, richest: Table, count: int, seed: int) -> Float[np.ndarray, "B T C A"]:
    """`count` starting tables, the same for the same seed, for searches whose evaluations are cheap.

    A nearly uniform one; an even mixture of the richest table with the uniform one; then, three to one, ones that are uniform
    but for one cell of consequence (a secret or a rewarding one) where one action is all but fixed, since what is done there
    decides which local optimum is found, and in turn mixtures that halve the share of the uniform table each time, and random
    ones, whose logits have a third of half such an action's size, two thirds, or all of it.
    """
    generator = np.random.default_rng(seed)
    scales = itertools.cycle(_BOLD / 2 * np.arange(1, 4) / 3)
    anything = (scale * generator.normal(size=space.shape) for scale in scales)
    bold, rich = _bold(space, generator), (logits(space, richest, 2.0**-count) for count in itertools.count(1))
    starts = [NOISE * generator.normal(size=space.shape), next(rich)]
    while len(starts) < count:
        source = bold if len(starts) % 4 else rich if len(starts) % 8 else anything
        found = next(source, None)
        starts.append(next(anything) if found is None else found)
    return space.softmax(np.stack(starts[: max(count, 1)]))


def exact_starts(objective: Objective, safe: Table, count: int, seed: int) -> list[Table]:
    """So many tables: at most a quarter of them those of convex games, the others spread."""
    games = list[np.ndarray]()
    with contextlib.suppress(OutOfTime):
        games += itertools.islice(game_starts(objective, objective.clock.share(SHARE)), count // 4)
    return [*spread_starts(objective.space, safe, count - len(games), seed), *games]


def sampled_starts(
    objective: Objective, safe: Table, options: SolveOptions, given: Sequence[np.ndarray]
) -> list[Table]:
    """Tables to begin from where evaluations are samples: those given, those of convex games, and soft policies.

    The first is of the game that promises most, the second a soft one, since the two kinds lead to different optima. As many
    as their share of the time allows; the safe table where there is no other.
    """
    found = list(given) + [safe] * objective.channels.has_friends  # the others hide from all
    most = _SAMPLED_STARTS if options.starts is None else options.starts
    share = SHARE / 2 if given else SHARE  # what is given is the answer of a smaller class as a rule
    clock = objective.clock.share(share)
    games, soft = game_starts(objective, clock), soft_starts(objective, objective.clock.share(share / 2))
    for source, count in ((games, 1), (soft, 1), (games, most), (soft, most)):
        with contextlib.suppress(OutOfTime):
            found += itertools.islice(source, max(0, min(count, most - len(found))))
    return found[:most] or [safe]


def _bold(space: Space, generator: np.random.Generator) -> Iterator[np.ndarray]:
    cells = _special_cells(space)
    pairs = [(cell, action) for cell in cells for action in np.flatnonzero(space.available[cell])]
    for index in generator.permutation(len(pairs)):
        cell, action = pairs[index]
        start = NOISE * generator.normal(size=space.shape)
        start[:, cell, action] += _BOLD
        yield start


def _special_cells(space: Space) -> Int[np.ndarray, " k"]:
    """Cells with a choice where the secret or the reward differs from what is usual."""
    hidden = space.hidden
    value = hidden.label.argmax(axis=1)
    usual = np.bincount(value).argmax()
    earned = hidden.paid[0]
    reward = earned.reward.max(axis=1) + earned.discount * earned.terminal
    special = (value != usual) | (reward != np.median(reward))
    cells = np.unique(hidden.cell[special])
    return cells[space.available[cells].sum(axis=1) > 1]


# Convex games.


def play_games(objective: Objective, clock: Clock) -> bool:
    """Play the games of a problem within the time, so that the searches of all classes begin from their policies."""
    deque(game_starts(objective, clock), maxlen=0)
    return True


def game_starts(objective: Objective, clock: Clock) -> Iterator[Table]:
    """Tables of the class, the most promising first, of games that are forecast to fit the time; none after one that it cut.

    Cost: about 80 rounds of five backward inductions for each game, unless it was played before.
    """
    for problem, memory, threshold in _games(objective):
        part = clock.silent()
        if objective.is_sampled and _game_seconds(objective) > part.left:
            return
        result = _solved(problem, memory, threshold, part)
        if result is not None:
            flows = AgentProblem(problem, result.pairs).flows(result.tables).flows
            layers = zip(result.pairs.layers, flows, strict=False)
            yield objective.space.table_of_flows(problem, ((layer.x, flow.T) for layer, flow in layers))
        if clock.left <= 0 or (result is not None and result.stopped == Stop.TIME_LIMIT):
            return


def _game_seconds(objective: Objective) -> float:
    """The least that a game takes, an induction for each of its rounds: all of them are about as large, since the observer
    remembers the end alone.
    """
    entries = max(one.layers.num_entries for one in objective.sampled)
    return _ITERATIONS * PER_ENTRY * entries * objective.space.hidden.kernel.num_actions


def _games(objective: Objective) -> Iterator[tuple[Problem, int, float]]:
    """Problem, remembered observations and threshold of each game, in turn for all channels of which more bits are wanted."""
    problem, wanted = objective.space.problem, objective.aim if objective.num_returns else -np.inf
    if objective.weight < 0 or objective.space.hidden.num_states > _MOST_STATES:
        return
    games = [(1, wanted), (2, wanted)]
    if objective.num_returns:
        extremes = return_extremes(problem)
        games += [(1, wanted + _ASIDE * (edge - wanted)) for edge in (extremes.smallest, extremes.largest)]
    names, seen = [one.name for one in problem.channels], problem.informed
    for memory, threshold in games:
        for column in objective.channels.raised if memory <= problem.horizon else ():
            yield (seen.only(names[column]) if column else seen).with_clock(), memory, threshold


def _solved(problem: Problem, memory: int, threshold: float, clock: Clock) -> GameResult | None:
    """The game, kept with the problem; None where it cannot be played in the time."""

    def solve() -> GameResult | None:
        try:
            return solve_game(
                problem,
                TailEvents(problem.horizon - memory),
                threshold=threshold,
                gap=_GAP_BITS,
                iterations=_ITERATIONS,
                memory_bytes=DEFAULT_MEMORY // 2,
                clock=clock,
            )
        except (VeilError, OutOfTime):  # such as a secret that is a whole path, or a tree that does not fit
            return None

    found = memo(problem, (_solved, memory, threshold), solve, keep=lambda found: found is not None or clock.left > 0)
    if found is not None and found.stopped == Stop.TIME_LIMIT:  # also if it was played before
        clock.note_late()
    return found


# Soft policies.


@dataclass(frozen=True, eq=False)
class _Wishes:
    """What a soft policy is rewarded for: the return times `weight`, `bonus[z]`, less `cost[t, e]`."""

    weight: float
    bonus: Float[np.ndarray, " Z"]
    cost: Float[np.ndarray, "T+1 E"]


@dataclass(frozen=True, eq=False)
class _Soft:
    """A soft table with what it was rewarded for, its slack, and how many bits of the secret it leaves uncertain at first."""

    table: Table
    wishes: _Wishes
    slack: float
    even: float


def soft_starts(objective: Objective, clock: Clock) -> Iterator[Table]:
    """Tables to search from: for each channel of which more bits are wanted one or two for each of `_FACTORS`.

    Each begins with the weight, bonus and costs of the one before.

    Cost: some thirty backward inductions and forward passes each, over the reachable states.
    """
    space, problem = objective.space, objective.space.problem
    for column in objective.channels.raised:
        own = make_space(problem.only(problem.channels[column].name), space.memory) if column else space
        objective, hidden = replace(objective, space=own), own.hidden
        # The return weighs as much as the entropy of all decisions: below, soft policies are spread over everything.
        weight = max(_LEAST_WEIGHT, hidden.horizon * float(natural_log(np.array(float(own.shape[2])))))
        wishes = _Wishes(weight, np.zeros(hidden.num_values), np.zeros((hidden.horizon + 1, hidden.num_events)))
        alike = 1 < hidden.num_values <= _MOST_VALUES  # of one value, as with whole paths, no event tells anything
        for factor in _FACTORS if alike else (0.0,):
            tried = _tried(objective, wishes, factor, clock)
            best = min((one for one in tried if one.slack >= 0), key=lambda one: one.wishes.weight, default=tried[-1])
            wishes = best.wishes
            yield best.table
            # A search can begin where the return misses a little and the secret is uncertain, if the best leaves nothing to
            # hide.
            most = max(one.even for one in tried)
            uncertain = max((one for one in tried if one.even >= most / 2), key=lambda one: one.slack)
            if best.even < uncertain.even / 2:
                yield uncertain.table


def _tried(objective: Objective, wishes: _Wishes, factor: float, clock: Clock) -> list[_Soft]:
    """The soft tables on the way to the smallest weight whose return suffices; the last one has the largest weight if none
    of them does."""
    low, high, tried = 0.0, np.inf, list[_Soft]()
    while len(tried) < _BISECTIONS:
        try:
            found = _balanced(objective, wishes, factor, clock)
        except OutOfTime:
            if not tried:
                raise
            break
        tried.append(found)
        if 0 <= found.slack <= _NEAR:
            break
        low, high = (low, wishes.weight) if found.slack >= 0 else (wishes.weight, high)
        middle = np.sqrt((low or high / 10) * (high if high < np.inf else 10 * low))
        wishes = replace(found.wishes, weight=float(middle))
    return tried


def _balanced(objective: Objective, wishes: _Wishes, factor: float, clock: Clock) -> _Soft:
    """The soft table after some rounds of bonus and cost: of the rounds that are as balanced as any, the last."""
    space, layers, hidden = objective.space, objective.space.layers, objective.space.hidden
    is_known = space.problem.return_over == "infinite" and not is_blind(space.problem)
    terminal = (
        hidden.paid[0].last if is_known else hidden.paid[0].terminal
    )  # of an infinite horizon the best continuation
    table, slack, evenest, values = np.zeros(0), -np.inf, -np.inf, len(wishes.bonus)
    most = float(entropy_bits(np.full(values, 1 / values)))
    largest, pace, before = max(2 * _LEAST_WEIGHT, wishes.weight / 2), np.ones(values), np.zeros(values)
    for number in range(_MOST_ROUNDS):
        if number >= _ROUNDS and (evenest >= most / 2 or np.abs(wishes.bonus).max() >= largest):
            break
        clock.check()
        prize, weight = hidden.label @ wishes.bonus, wishes.weight * (1 / objective.unit)
        soft = layers.soft_table(weight, prize, factor * wishes.cost, terminal, space.available)
        if space.stationary:
            soft = layers.time_average(soft)
        prior, seen = layers.seen(soft)
        even = max(0.0, float(entropy_bits(prior)))
        if even >= evenest - TOLD_BITS:  # as balanced as any
            earned = float(space.sums(soft[None], (0,))[0, 0])
            table, slack, evenest = soft, (earned - objective.aim) * (1 / objective.unit), max(even, evenest)
        wanted = -natural_log(np.maximum(prior, np.finfo(float).tiny))
        wanted = wanted - wanted.mean()
        # Shorter steps where the last one went too far; longer ones where the values of a policy with slips move by less.
        pace *= np.where(wanted * before < 0, 0.5, np.where((wanted * before > 0) & (number >= _ROUNDS), 2.0, 1.0))
        before, bonus = wanted, wishes.bonus + pace * wanted
        bonus = np.clip(bonus - bonus.mean(), -largest, largest)
        wishes = replace(wishes, bonus=bonus, cost=0.5 * (wishes.cost + _information(seen)))
    return _Soft(table, wishes, slack, evenest)


def _information(seen: Float[np.ndarray, "T+1 E Z"]) -> Float[np.ndarray, "T+1 E"]:
    """`KL(P(z|o_t = e) ‖ P(z))` in nats; 0 for events that do not occur."""
    prior = seen.sum(axis=1, keepdims=True)
    prior = posteriors(prior)
    return float(natural_log(np.array(2.0))) * divergence_bits(posteriors(seen), prior)
