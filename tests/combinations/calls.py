"""Every call, with the comparison of its answer with the oracle: a call raises `Wrong` if they differ."""

import math
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import veil
from veil import verify_plain
from veil.engine.induced import induced_hmm
from veil.engine.return_range import return_extremes
from veil.formats.policies.text import policy_to_csv, policy_to_json
from veil.policy.exported import player_document
from veil.policy.runtime import Player as NamedPlayer
from veil.report.html import make_report

from .cases import OTHER, Case, uniform
from .policies import STEP, Acting, larger_memory, memory_of, random_acting, read
from .runs import Joint, Runs, all_runs, log2, row_bits
from .watchers import mapped

EXACT = 1e-9
_DRAWS = 400
_RUNS = 80  # of a player
_SECONDS = 0.3  # of a search


class Wrong(Exception):
    """An answer that differs from the oracle's."""


@dataclass(eq=False)
class Asked:
    """A case with its policy, the channel that is measured, and the oracle's answers."""

    case: Case
    acting: Acting
    channel: str
    rng: random.Random

    @property
    def pair(self) -> dict[str, Any]:
        """The argument that names the channel."""
        return {} if self.channel == "own" else {"pair": self.channel}

    @property
    def arguments(self) -> tuple[Any, Any]:
        """The problem and the policy."""
        return self.case.problem, self.acting.policy

    def runs(self, acting: Acting | None = None, choose: Any = None, channel: str | None = None) -> tuple[Runs, int]:
        """All runs with what the channel's observer receives, and its place among the watchers."""
        acting = self.acting if acting is None else acting
        watchers, place = acting.watchers(self.case, self.channel if channel is None else channel)
        return all_runs(self.case.world, choose or acting.choose, watchers), place

    def joint(self, acting: Acting | None = None, choose: Any = None, channel: str | None = None) -> Joint:
        """The joint table of the channel."""
        runs, place = self.runs(acting, choose, channel)
        return self.case.joint(runs, channel or self.channel, place)

    @property
    def watcher(self) -> Any:
        """The watcher of the channel."""
        return self.case.channels[self.channel].watcher

    @property
    def alone(self) -> Any:
        """The problem of the channel."""
        return self.case.problem if self.channel == "own" else self.case.problem.only(self.channel)


def same(what: str, found: float, expected: float, tolerance: float = EXACT) -> None:
    """Raise `Wrong` unless two numbers agree."""
    if math.isinf(expected) and found == expected:
        return
    if not abs(found - expected) <= tolerance * max(1.0, abs(expected)):
        raise Wrong(f"{what}: {found!r}, and all runs give {expected!r}")


def _measured(what: str, found: Any, joint: Joint) -> None:
    """An `Opacity` against the joint table, by what it claims."""
    same(f"{what} prior_bits", found.prior_bits, joint.prior_bits, 1e-9)
    if found.method == "sampled":
        _sampled(what, found.bits, found.std_error, joint.bits, joint.spread_bits, found.num_sequences)
    if not found.lower - EXACT <= joint.bits <= found.upper + EXACT:
        raise Wrong(f"{what}: bounds {found.lower!r} … {found.upper!r}, and all runs give {joint.bits!r}")
    if found.method == "exact":
        same(what, found.bits, joint.bits)


def _sampled(what: str, found: float, error: float, expected: float, spread: float, draws: int) -> None:
    """An estimate within five standard errors, by its own or by the true one; rare sequences need a little more."""
    allowed = max(5 * error, 6 * spread / math.sqrt(draws)) + 4 / draws + EXACT
    if not abs(found - expected) <= allowed:
        raise Wrong(f"{what}: {found!r} ± {error!r}, and all runs give {expected!r} (spread {spread!r})")


def _opacity(method: Any) -> Callable[[Asked], None]:
    def call(asked: Asked) -> None:
        found = veil.opacity(*asked.arguments, method, **asked.pair, sequences=_DRAWS)
        _measured(f"opacity({method})", found, asked.joint())

    return call


def _gradient(method: Any) -> Callable[[Asked], None]:
    def call(asked: Asked) -> None:
        acting, problem = asked.acting, asked.case.problem
        if acting.theta is None or asked.rng.random() < 0.3 or asked.case.features["memory"] == "features":
            found, gradient = veil.opacity_gradient(problem, acting.policy, method, **asked.pair, sequences=_DRAWS)
        else:
            memory = {} if acting.memory is None else {"memory": acting.memory}
            found, gradient = veil.opacity_gradient(
                problem, acting.theta, method, **asked.pair, **memory, sequences=_DRAWS
            )
        joint = asked.joint()
        _measured(f"opacity_gradient({method})", found, joint)
        assert acting.theta is not None
        assert acting.along is not None
        direction = np.random.default_rng(asked.rng.randrange(2**32)).normal(size=acting.theta.shape)
        moved = asked.joint(choose=acting.along(direction))
        slope, along = (
            moved.bits.imag / STEP if isinstance(moved.bits, complex) else 0.0,
            float(np.sum(gradient * direction)),
        )
        if found.method == "sampled":
            path = asked.case.channels[asked.channel].question.is_path
            _sampled("sampled gradient", along, 0.0, slope, _gradient_spread(moved, path), found.num_sequences)
        elif found.upper - found.lower < 1e-10:
            same(f"opacity_gradient({method})", along, slope, 1e-7)

    return call


def _gradient_spread(moved: Joint, path: bool) -> float:
    """The standard deviation of `∇h(y) + h(y) ∇log P(y)` along a direction, times a margin for another estimator.

    Of a whole path it is that of the surprisal of the path that was drawn, which may vary if h(y) does not.
    """
    terms = [(sum(row.values()), row_bits(row)) for row in moved.rows.values()]
    if path:
        whole = [(sum(row.values()), p) for row in moved.rows.values() for p in row.values()]
        terms = [(p, -p * log2(p / total)) for total, p in whole if p]
    mean = square = 0.0
    for total, bits in terms:
        p, h = complex(total).real, bits / total
        term = complex(h).imag / STEP + complex(h).real * complex(total).imag / STEP / p
        mean, square = mean + p * term, square + p * term**2
    return 2 * math.sqrt(max(0.0, square - mean**2)) + 0.1


def _return(asked: Asked) -> None:
    found = veil.expected_return(*asked.arguments)
    same("expected_return", found, asked.runs()[0].returns["gold"])


def _return_gradient(asked: Asked) -> None:
    acting, problem = asked.acting, asked.case.problem
    memory = {} if acting.memory is None else {"memory": acting.memory}
    if acting.theta is None or acting.along is None or asked.case.features["memory"] == "features":
        return
    found, gradient = veil.measures.return_gradient(problem, acting.theta, **memory)
    direction = np.random.default_rng(asked.rng.randrange(2**32)).normal(size=acting.theta.shape)
    runs = asked.runs(choose=acting.along(direction))[0].returns["gold"]
    same("return_gradient value", found, complex(runs).real)
    same("return_gradient", float(np.sum(gradient * direction)), complex(runs).imag / STEP, 1e-7)


def _unrolled(asked: Asked) -> None:
    """The problem whose states carry the time, under the same policy."""
    problem, policy = asked.arguments
    if not problem.agent.sees_state:
        return
    unrolled, states = problem.unrolled(), problem.model.states
    behind = np.array([states.find(name.rpartition("@")[0]) for name in unrolled.model.states])
    known = np.arange(problem.num_cells // problem.num_states)[:, None]
    same_policy = policy.on(problem).over((known * problem.num_states + behind).ravel())
    if same_policy is None:
        return
    if unrolled.observer.varies:
        raise Wrong("the observer of the unrolled problem depends on the time")
    _measured("opacity unrolled", veil.opacity(unrolled, same_policy, **asked.pair), asked.joint())
    same("return unrolled", veil.expected_return(unrolled, same_policy), asked.runs()[0].returns["gold"])


def _lifted(asked: Asked) -> None:
    """The policy with more memory that acts like the given one."""
    problem, policy = asked.arguments
    larger = larger_memory(asked.case)
    if larger is None:
        return
    lifted = veil.MemoryPolicy.lift(problem, larger, policy)
    _measured("opacity lifted", veil.opacity(problem, lifted, **asked.pair), asked.joint())
    same("return lifted", veil.expected_return(problem, lifted), asked.runs()[0].returns["gold"])


def _range(asked: Asked) -> None:
    """The largest and the smallest return, by backward induction in each model."""
    problem, world, found = asked.case.problem, asked.case.world, return_extremes(asked.case.problem)
    ends = []
    for sign in (1.0, -1.0):
        total = 0.0
        for k, weight in enumerate(world.weights):
            value = [sign * one for one in world.terminal["gold"][k]]
            for _ in range(world.horizon):
                value = [
                    max(
                        sign * world.rewards["gold"][k][s][a]
                        + world.discount * sum(p * value[to] for to, p in row.items())
                        for a, row in enumerate(world.moves[k][s])
                        if world.available[s][a]
                    )
                    for s in range(len(world.states))
                ]
            total += weight * sum(p * value[s] for s, p in world.initial[k].items())
        ends.append(sign * total)
    earned = asked.runs()[0].returns["gold"]
    if not found.smallest - EXACT <= earned <= found.largest + EXACT:
        raise Wrong(f"range {found.smallest!r} … {found.largest!r}, and a policy earns {earned!r}")
    if problem.agent.sees_state and (len(world.weights) == 1 or problem.agent.knows_model):
        same("largest return", found.largest, ends[0])
        same("smallest return", found.smallest, ends[1])
    elif found.largest > ends[0] + EXACT or found.smallest < ends[1] - EXACT:
        raise Wrong(f"range {found.smallest!r} … {found.largest!r}, and who knows all reaches {ends}")


def _given_secret(asked: Asked) -> None:
    """The return given each value of the secret."""
    found = veil.measures.return_given_secret(*asked.arguments, **asked.pair)
    (runs, place), channel = asked.runs(), asked.case.channels[asked.channel]
    if channel.question.weights:
        return
    joint, earned = asked.case.joint(runs, asked.channel, place), dict[Any, float]()
    for (k, path, _), weight in runs.earned.items():
        z = channel.value(k, path)
        earned[z] = earned.get(z, 0.0) + weight
    for z, p, mean in zip(joint.values, found.probability, found.expected_return, strict=True):
        same(f"P({z})", float(p), joint.prior.get(z, 0.0))
        if joint.prior.get(z, 0.0) > EXACT:
            same(f"return given {z}", float(mean), earned[z] / joint.prior[z], 1e-8)


def _disclosure(asked: Asked) -> None:
    """How often the observer ever becomes sure, and whether it can."""
    runs, place = asked.runs()
    watcher, rng = asked.watcher, asked.rng
    if watcher.untimed:
        return
    level, of = rng.choice((0.6, 0.8, 1.0)), rng.choice(("truth", "any"))
    method = rng.choice(("exact", "sampled"))
    found = veil.measures.disclosure(*asked.arguments, level, method, of=of, sequences=_DRAWS, **asked.pair)
    certain = veil.measures.certainty(*asked.arguments, **asked.pair)
    times = range(asked.case.horizon + 1)
    tables = [asked.case.joint(runs, asked.channel, place, time + 1) for time in times]
    over, shortest = [0.0 for _ in times], math.inf
    for y, row in tables[-1].rows.items():
        rows = [table.posterior(y[: time + 1]) for time, table in enumerate(tables)]
        sure = [{z for z, p in one.items() if p and (len(one) == 1 if level == 1 else p >= level)} for one in rows]
        alone = [time for time, one in enumerate(rows) if len(one) == 1]
        shortest = min([shortest, *alone])
        for time in times:
            known = set().union(*sure[: time + 1])
            over[time] += sum(p for z, p in row.items() if (z in known if of == "truth" else known))
    if certain.never != math.isinf(shortest):
        raise Wrong(f"certainty: never is {certain.never}, and all runs are certain first at {shortest}")
    if not certain.never and len(certain.sequence) != shortest + asked.alone.observer.sees_first:
        raise Wrong(f"certainty: a sequence of {len(certain.sequence)}, and the shortest ends at time {shortest}")
    for time, (one, wanted) in enumerate(zip(found.over_time, over, strict=True)):
        if method == "exact":
            same(f"disclosure at {time}", float(one), wanted)
        else:
            _sampled(f"sampled disclosure at {time}", float(one), found.std_error, wanted, 0.5, _DRAWS)


def _constraints(asked: Asked) -> None:
    found = veil.constraint_values(*asked.arguments)
    _same_bounds(asked.case, found, asked.runs()[0])


def _same_bounds(case: Case, found: Any, runs: Runs) -> None:
    """Constraint values against those over all runs."""
    if len(found) != len(case.bounds):
        raise Wrong(f"{len(found)} constraint values, and {len(case.bounds)} constraints")
    for one, wanted in zip(found, case.bounds, strict=True):
        if one.name != wanted.name or (one.relation == "≥") != wanted.at_least:
            raise Wrong(f"constraint {one.name} {one.relation}, expected {wanted.name}")
        same(f"constraint {one.name}", one.value, wanted.value(runs))


def _pair_values(asked: Asked) -> None:
    case = asked.case
    found = veil.pair_values(*asked.arguments, sequences=_DRAWS)
    if len(found) != len(case.channels) - 1:
        raise Wrong(f"{len(found)} pair values")
    for one in found:
        _same_pair(asked, one, asked.acting)


def _same_pair(asked: Asked, one: Any, acting: Acting) -> None:
    case = asked.case
    joint = asked.joint(acting, channel=one.name)
    _measured(f"pair {one.name}", one.opacity, joint)
    if case.assumed is not None and not one.loss_std_error:
        same("loss", one.loss_bits, joint.loss(_believed(asked, one.name), case.assumed.doubt))


def _believed(asked: Asked, channel: str) -> Joint:
    """The joint table that the observer of the pair assumes."""
    case = asked.case
    table = case.assumed.table if case.assumed is not None else None
    choose = uniform(case.world)
    if table is not None:
        rows = table
        choose = lambda time, k, path, node, seen: [(a, 0, p) for a, p in enumerate(rows[path[-1]])]  # noqa: E731
    runs = all_runs(case.world, choose, (case.channels[channel].watcher,))
    return case.joint(runs, channel)


def _quantities(method: Any) -> Callable[[Asked], None]:
    def call(asked: Asked) -> None:
        found = veil.measures.quantities(*asked.arguments, method, **asked.pair, sequences=_DRAWS, top=3)
        joint = asked.joint()
        if found.method == "exact":
            same("quantities H(Z|Y)", found.entropy_bits.posterior, joint.bits)
            same("quantities H(Z)", found.entropy_bits.prior, joint.prior_bits)
            same("guess probability", found.guess_probability.posterior, joint.guess)
            same("guesses", found.guessing_entropy.posterior, joint.guesses)
            same("channel sum", found.channel_sum.posterior, joint.channel_sum)
            for order in (0.5, 2.0):
                same(f"Rényi {order}", found.renyi_bits[order].posterior, joint.renyi(order))
            _worst(asked, found.worst, joint)
        else:
            one = found.entropy_bits
            _sampled("sampled quantities", one.posterior, one.std_error, joint.bits, joint.spread_bits, _DRAWS)
            guess = found.guess_probability
            _sampled("sampled guess", guess.posterior, guess.std_error, joint.guess, 0.5, _DRAWS)

    return call


def _worst(asked: Asked, worst: Any, joint: Joint) -> None:
    """The sequence that leaks most: as much as the largest over all sequences."""
    prior = joint.prior

    def leaked(row: dict[Any, float]) -> float:
        total = sum(row.values())
        return sum(p * log2(p / total / prior[z]) for z, p in row.items() if p)

    if worst["leaked_bits"]:
        same("most leaking sequence", worst["leaked_bits"][0].leaked_bits, max(map(leaked, joint.rows.values())))


def _joint_table(asked: Asked) -> None:
    found = veil.measures.joint_table(*asked.arguments, **asked.pair)
    joint = asked.joint()
    if found.num_sequences != len(joint.rows):
        raise Wrong(f"joint_table: {found.num_sequences} sequences, and {len(joint.rows)} are possible")
    same("joint_table bits", found.bits, joint.bits)
    same("joint_table guess", found.guess_probability, joint.guess)
    same("joint_table total", float(found.probabilities.sum()), 1.0)
    if asked.case.channels[asked.channel].question.is_path:
        return
    shown = {_written(asked, y): row for y, row in joint.rows.items()}
    names = list(joint.values)
    for y, row in zip(found.sequences, found.probabilities.tolist(), strict=True):
        if y not in shown:
            raise Wrong(f"joint_table: sequence {y} is impossible, possible are {list(shown)[:3]}")
        for z, p in zip(names, row, strict=True):
            same(f"joint_table {y} {z}", p, shown[y].get(z, 0.0))


def _written(asked: Asked, y: tuple) -> tuple:
    """A sequence as veil writes it; the untimed one without times."""
    watcher, actions = asked.watcher, asked.case.world.actions
    if watcher.untimed:
        return tuple(watcher.name(event) for event in y)
    return tuple(watcher.written(event, actions, time) for time, event in enumerate(y) if event is not None)


def _bits_over_time(asked: Asked) -> None:
    found = veil.measures.bits_over_time(*asked.arguments, **asked.pair)
    runs, place = asked.runs()
    for time, bits in enumerate(found):
        joint = asked.case.joint(runs, asked.channel, place, time + 1)
        same(f"bits_over_time[{time}]", float(bits), joint.bits)


def _sensor_costs(asked: Asked) -> None:
    found = veil.measures.sensor_costs(*asked.arguments, **asked.pair)
    muted = asked.case.channels[asked.channel].muted
    if sorted(found) != sorted(muted):
        raise Wrong(f"sensor_costs of {sorted(found)}, and the observer has {sorted(muted)}")
    for name, cost in found.items():
        same(f"sensor_costs[{name}]", cost, _cost(asked, mapped(asked.watcher, muted[name])))


def _observation_costs(asked: Asked) -> None:
    watcher = asked.watcher
    observer = asked.alone.observer
    silent = observer.silent if observer.silent is not None else 0
    quiet = observer.observations[silent]
    found = veil.measures.observation_costs(*asked.arguments, **asked.pair, silent=quiet)
    names = {watcher.name(o): o for o in _symbols(asked)}
    if quiet not in names:
        return
    name, cost = asked.rng.choice(sorted(found.items()))
    if name in names:
        gone, shown = names[name], names[quiet]
        same(f"observation_costs[{name}]", cost, _cost(asked, mapped(watcher, lambda o: shown if o == gone else o)))


def _symbols(asked: Asked) -> set:
    """All observations that the channel's observer can receive."""
    world, found = asked.case.world, set()
    for time in range(world.horizon + 1):
        for action in range(len(world.actions)):
            for state in range(len(world.states)):
                found |= set(asked.watcher.shows(time, action, state) or ())
    return found


def _cost(asked: Asked, changed: Any) -> float:
    """How much the opacity rises if the channel's observer receives something else, and an agent who sees it as well."""
    case, acting = asked.case, asked.acting
    watchers, place = acting.watchers(case, asked.channel)
    runs = all_runs(case.world, acting.choose, (*watchers[:place], changed, *watchers[place + 1 :]))
    return case.joint(runs, asked.channel, place).bits - asked.joint().bits


def _attack(asked: Asked) -> None:
    found = veil.attack(*asked.arguments, episodes=_DRAWS, **asked.pair, seed=1, traces=1)
    joint = asked.joint()
    _measured("attack opacity", found.opacity, joint)
    guess = found.accuracy
    _sampled("attack accuracy", guess.value, guess.std_error, joint.guess, 0.5, _DRAWS)
    if guess.exact is not None:
        same("attack exact accuracy", guess.exact, joint.guess)
    same("attack blind accuracy", found.blind_accuracy, max(joint.prior.values()))
    over = found.accuracy_over_time
    runs, place = asked.runs()
    for time, value in enumerate(over):
        part = asked.case.joint(runs, asked.channel, place, time + 1)
        _sampled(f"attack accuracy at {time}", float(value), 0.0, part.guess, 0.5, _DRAWS)


def _mistaken(asked: Asked) -> None:
    """An observer who assumes another policy, of which some actions are never taken."""
    case, problem, rng = asked.case, asked.case.problem, asked.rng
    if case.is_blind or case.channels[asked.channel].question.is_path:
        return
    rows = [[rng.choice((0, 1, 3)) if ok else 0 for ok in row] for row in case.world.available]
    table = [[p / sum(row) for p in row] if any(row) else [ok / sum(open_) for ok in open_]
             for row, open_ in zip(rows, case.world.available, strict=True)]  # fmt: skip
    believed = veil.MarkovPolicy(np.tile(table, (problem.num_cells // len(table), 1)))
    choose = lambda time, k, path, node, seen: [(a, 0, p) for a, p in enumerate(table[path[-1]]) if p]  # noqa: E731
    found = veil.attack(*asked.arguments, episodes=_DRAWS, observer_believes=believed, seed=1, traces=1, **asked.pair)
    joint, thought = asked.joint(), asked.joint(Acting(None, choose))
    right = infinite = impossible = bits = 0.0
    for y, row in joint.rows.items():
        rule = thought.posterior(y) if y in thought.rows else thought.prior
        best = [z for z, p in rule.items() if p >= max(rule.values()) - 1e-9]
        right += sum(row.get(z, 0.0) for z in best) / len(best)
        for z, p in row.items():
            ruled_out = y not in thought.rows or not rule.get(z)
            infinite += p * ruled_out
            bits -= 0.0 if ruled_out else p * log2(rule[z])
        impossible += 0.0 if y in thought.rows else sum(row.values())
    for name, one, wanted in (("right", found.accuracy, right), ("infinite", found.infinite_share, infinite),
                              ("impossible", found.impossible_share, impossible)):  # fmt: skip
        _sampled(f"mistaken {name}", one.value, one.std_error, wanted, 0.5, _DRAWS)
        if one.exact is not None:
            same(f"mistaken {name}", one.exact, wanted)
    if found.finite_cross_entropy_bits is not None and found.finite_cross_entropy_bits.exact is not None:
        same("mistaken bits", found.finite_cross_entropy_bits.exact, bits / (1 - infinite))
        mistake = found.mistake
        assert mistake is not None
        if mistake.exact_bits is not None:
            same("mistake", mistake.bits, math.inf if infinite > 1e-12 else bits - joint.bits, 1e-8)


def _sequence(asked: Asked, runs: Runs, place: int) -> tuple:
    """A random possible sequence of events."""
    possible = sorted({events[place] for (_, _, events) in runs.weight}, key=repr)
    return asked.rng.choice(possible)


def _filter(asked: Asked) -> None:
    watching = veil.ObserverFilter(*asked.arguments, **asked.pair)
    runs, place = asked.runs()
    y, case, watcher = _sequence(asked, runs, place), asked.case, asked.watcher
    values = list(case.joint(runs, asked.channel, place).values)
    for time, event in enumerate(y):
        if event is None or (watcher.untimed and watcher.is_silent(event)):
            continue
        found = watching.update(watcher.written(event, case.world.actions, time))
        held = watcher.held(y[: time + 1])
        if watcher.untimed:
            expected = _after_string(case.joint(runs, asked.channel, place), held)
        else:
            each = bool(case.channels[asked.channel].question.weights)
            expected = case.joint(runs, asked.channel, place, time + 1).posterior((time, held) if each else held)
        if case.channels[asked.channel].question.is_path:  # the names of paths are for people
            values, expected = list(range(len(found))), dict(enumerate(sorted(expected.values(), reverse=True)))
            found = sorted(found, reverse=True)
        for z, p in zip(values, found, strict=True):
            same(f"filter posterior of {z} at {time}", float(p), expected.get(z, 0.0))
        if watcher.untimed:
            continue
        where = _states(runs, place, watcher, y[: time + 1])
        for s, p in enumerate(watching.state_belief):
            same(f"filter state {s} at {time}", float(p), where[time].get(s, 0.0))


def _after_string(joint: Joint, held: tuple) -> dict[Any, float]:
    """What an observer without a clock believes: that the run is over with the string, or, if it cannot be, begins so."""
    if held in joint.rows:
        return joint.posterior(held)
    rows = [row for y, row in joint.rows.items() if y[: len(held)] == held]
    total = sum(sum(row.values()) for row in rows)
    values = {z for row in rows for z in row}
    return {z: sum(row.get(z, 0.0) for row in rows) / total for z in values}


def _states(runs: Runs, place: int, watcher: Any, y: tuple) -> list[dict[int, float]]:
    """`P(s_t | y)` at each time, from a part of a sequence."""
    times, total = [dict[int, float]() for _ in y], 0.0
    held = watcher.held(y)
    for (_, path, events), weight in runs.weight.items():
        if watcher.held(events[place][: len(y)]) == held:
            total += weight
            for time in range(len(y)):
                times[time][path[time]] = times[time].get(path[time], 0.0) + weight
    return [{s: p / total for s, p in one.items()} for one in times]


def _smoother(asked: Asked) -> None:
    smoothing = veil.smoother(*asked.arguments, **asked.pair)
    runs, place = asked.runs()
    y, watcher, case = _sequence(asked, runs, place), asked.watcher, asked.case
    shown = [
        watcher.name(event) if watcher.untimed else watcher.written(event, case.world.actions, time)
        for time, event in enumerate(y)
        if event is not None and not (watcher.untimed and watcher.is_silent(event))
    ]
    found = smoothing.smooth(shown)
    where = _states(runs, place, watcher, y)
    for time, row in enumerate(found.states):
        for s, p in enumerate(row):
            same(f"smoothed state {s} at {time}", float(p), where[time].get(s, 0.0))
    held = watcher.held(y)
    chance = sum(w for (_, _, events), w in runs.weight.items() if watcher.held(events[place]) == held)
    same("smoother probability", found.probability, chance)


def _player(asked: Asked) -> None:
    """Runs by the public player: it takes actions as often as the policy takes them."""
    problem, policy = asked.arguments
    _plays(asked, lambda model, seed: policy.player(problem, seed=seed, **model))


def _exported(asked: Asked) -> None:
    """The same by what a robot executes, which knows names alone; by the text of the policy if that is enough."""
    problem, policy = asked.arguments
    documents: dict[Any, Any] = {}

    def begin(model: dict[str, int], seed: int) -> Any:
        key = model.get("model")
        if key not in documents:
            documents[key] = player_document(problem, policy, **model)
        return NamedPlayer(documents[key], seed)

    _plays(asked, begin)


def _plays(asked: Asked, begin: Callable[[dict[str, int], int], Any]) -> None:
    """Whether the players that `begin` makes of the known model and a seed act by the law of the policy."""
    case, acting, rng = asked.case, asked.acting, asked.rng
    surplus, spread = dict[int, float](), dict[int, float]()
    for _ in range(_RUNS):
        for action, law in _played(case, acting, rng, begin):
            if not case.world.available[law.state][action]:
                raise Wrong(f"the player takes action {action}, which is not available")
            if not law.chances.get(action):
                raise Wrong(f"the player takes action {action}, which the policy never takes")
            for one, p in law.chances.items():
                surplus[one] = surplus.get(one, 0.0) + (one == action) - p
                spread[one] = spread.get(one, 0.0) + p * (1 - p)
    for action, more in surplus.items():
        if abs(more) > 5 * math.sqrt(max(0.0, spread[action])) + 1:  # a rounded 1 − p may be below 0
            raise Wrong(f"the player takes action {action} {more:+.1f} times more than the policy, in {_RUNS} runs")


@dataclass(frozen=True)
class _Law:
    """The true state, and how likely the policy takes each action there, after all that was."""

    state: int
    chances: dict[int, float]


def _played(case: Case, acting: Acting, rng: random.Random, begin: Callable[..., Any]) -> Iterator[tuple[int, _Law]]:
    """The decisions of one run, each with its law; the nodes of a controller are followed as a distribution."""
    world, watcher = case.world, case.watcher(case.reads)
    k = rng.choices(range(len(world.weights)), world.weights)[0]
    asked_for = [one.question for one in case.channels.values()]
    knows = len(world.weights) > 1 and any(one.which_model and one.known is not None for one in asked_for)
    playing = begin({"model": k} if knows else {}, rng.randrange(10**6))
    path: tuple[int, ...] = ()
    events: tuple = ()
    nodes, action = {0: 1.0}, -1
    for time in range(world.horizon):
        law = world.moves[k][path[-1]][action] if path else world.initial[k]
        path = (*path, rng.choices(list(law), list(law.values()))[0])
        shown = watcher.events(time, action, path[-1])
        event = rng.choices([one for one, _ in shown], [p for _, p in shown])[0]
        events = (*events, event)
        observation = None if event is None or not acting.reads else watcher.written(event, world.actions, time)
        told = not case.is_blind or case.problem.agent.register.size > 1
        action = playing.act(world.states[path[-1]] if told else None, observation)
        steps = [
            (a, node, weight * p)
            for before, weight in nodes.items()
            if weight
            for a, node, p in acting.choose(time, k, path, before, (events,))
        ]
        chances = {a: math.fsum(p for b, _, p in steps if b == a) for a, _, _ in steps}
        yield action, _Law(path[-1], chances)
        nodes = {n: sum(p for a, m, p in steps if (a, m) == (action, n)) / chances[action] for _, n, _ in steps}


def _save_load(asked: Asked) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.toml"
        asked.case.problem.save(path)
        loaded = veil.load(path)
    found = veil.opacity(loaded, asked.acting.policy, **asked.pair)
    _measured("opacity of the loaded problem", found, asked.joint())
    _same_bounds(asked.case, veil.constraint_values(loaded, asked.acting.policy), asked.runs()[0])


def _policy_file(asked: Asked) -> None:
    with tempfile.TemporaryDirectory() as folder:
        problem, policy = asked.arguments
        saved, policy_of = Path(folder) / "policy.safetensors", policy.on(problem)
        policy.save(saved)
        loaded = [(veil.load_policy(saved), policy)]
        for suffix, write in (("json", policy_to_json), ("csv", policy_to_csv)):
            path = saved.with_suffix(f".{suffix}")
            write(path, problem, policy)
            loaded += [(veil.load_policy(path), policy_of), (veil.load_policy(path, problem), policy_of)]
    for number, (found, expected) in enumerate(loaded):
        if found.digest() != expected.digest():
            raise Wrong(f"loaded policy {number} has another digest")


def _checked_answer(asked: Asked, policy: Any, opacity: Any, expected_return: float) -> tuple[Acting, Runs]:
    """What an answer says of its policy, against all runs of that policy."""
    acting = read(asked.case, policy)
    runs, place = asked.runs(acting, channel="own")
    _measured("answer's opacity", opacity, asked.case.joint(runs, "own", place))
    same("answer's return", expected_return, runs.returns["gold"])
    return acting, runs


def _solution(asked: Asked, found: Any) -> None:
    acting, runs = _checked_answer(asked, found.policy, found.opacity, found.expected_return)
    case = asked.case
    values = list(found.constraints)
    _same_bounds(case, values, runs)
    for one in found.pairs:
        _same_pair(asked, one, acting)
    met = all(
        one.value(runs) >= bound.bound - EXACT if one.at_least else one.value(runs) <= bound.bound + EXACT
        for one, bound in zip(case.bounds, values, strict=True)
    )
    if found.feasible and not met:
        raise Wrong(f"feasible, and all runs miss a constraint: {[(v.name, v.value, v.bound) for v in values]}")
    if found.certificate is not None:
        _proof(asked, found.certificate, found.policy)
    _travels(asked, found)


def _travels(asked: Asked, found: Any) -> None:
    """What comes back from a result folder, and what the second verifier says of its certificate."""
    with tempfile.TemporaryDirectory() as folder:
        found.save(folder)
        again = veil.load_result(folder, asked.case.problem)
        if (again.policy.digest(), again.pairs) != (found.policy.digest(), found.pairs):
            raise Wrong("the result folder holds another policy, or other values of pairs")
        if (again.opacity, again.constraints) != (found.opacity, found.constraints):
            raise Wrong("the result folder holds other values")
        if found.certificate is not None and asked.case.features["memory"] != "features":
            answer, code = verify_plain.main([folder, "--sequences", "400"])
            if code:
                raise Wrong(f"the second verifier: {answer}")


def _queries(asked: Asked) -> None:
    """An observer that asks one sensor or none, each alike, of a walker with the case's policy."""
    case, own, observer = asked.case, asked.case.channels["own"], asked.case.problem.observer
    timed = observer.varies or observer.emissions_at or observer.on_actions or not observer.sees_first
    if not own.muted or timed or observer.untimed or observer.sees_actions or asked.acting.reads or case.is_blind:
        return
    queries = [*own.muted, None]

    def shows(time: int, action: int, state: int) -> dict[Any, float] | None:
        found = dict[Any, float]()
        for reading, p in (own.watcher.shows(time, action, state) or {}).items():
            for query in queries:
                answer = reading
                for sensor, mute in own.muted.items():
                    answer = answer if sensor == query else mute(answer)
                event = query, None if query is None else answer
                found[event] = found.get(event, 0.0) + p / len(queries)
        return found

    asking = veil.Querying(walker=asked.acting.policy).apply(case.problem)
    found = veil.opacity(asking, veil.MarkovPolicy.uniform(asking), "exact")
    runs = all_runs(case.world, asked.acting.choose, (replace(own.watcher, shows=shows),))
    _measured("opacity under queries", found, case.joint(runs, "own"))


def _chain(asked: Asked) -> None:
    """The hidden Markov chain that the policy makes: the probability of every sequence, and the return."""
    problem, policy = asked.arguments
    if asked.watcher.untimed or asked.case.channels["own"].question.weights:
        return
    hmm = induced_hmm(problem, policy)
    place = {name: number for number, name in enumerate(hmm.symbols)}
    opening = [] if problem.observer.sees_first else ["(nothing)"]
    for y, row in asked.joint().rows.items():
        names = [one if isinstance(one, str) else "/".join(one) for one in _written(asked, y)]
        first, *later = (place[name] for name in opening + names)
        message = hmm.start * hmm.emissions[:, first]
        for symbol in later:
            message = (message @ hmm.transitions) * hmm.emissions[:, symbol]
        same(f"chain {names}", float(message.sum()), sum(row.values()))
    here, total = hmm.start, 0.0
    for time in range(problem.horizon):
        total += problem.discount**time * float(here @ hmm.rewards)
        here = here @ hmm.transitions
    total += problem.discount**problem.horizon * float(here @ hmm.terminal_rewards)
    same("return of the chain", total, asked.runs()[0].returns["gold"])


def _proof(asked: Asked, certificate: Any, policy: Any) -> None:
    """The bounds of a certificate against the policy's own value and that of other feasible policies."""
    verified = veil.verify(certificate, asked.case.problem, policy)
    own = asked.joint(read(asked.case, policy), channel="own").bits
    if certificate.lower > own + EXACT and "own" in certificate.hide:
        raise Wrong(f"certificate: lower {certificate.lower!r}, and the policy hides {own!r}")
    if certificate.goal == "opaque" and certificate.hide == ("own",) and not _bounded(asked):
        for acting in (asked.acting, Acting(None, uniform(asked.case.world))):
            bits = asked.joint(acting, channel="own").bits
            if not bits <= min(certificate.upper, verified.upper) + EXACT:
                raise Wrong(f"certificate: upper {certificate.upper!r}, and a policy hides {bits!r}")


def _bounded(asked: Asked) -> bool:
    """Whether a constraint or the bound of a pair may rule policies out."""
    return bool(asked.case.bounds) or asked.case.pair_bounds != (None, None)


def _in_time(call: Callable[[float], Any]) -> Any:
    """The answer within a short time limit, or, if that does not suffice on a busy machine, within a long one."""
    try:
        return call(_SECONDS)
    except veil.TooLargeError as error:
        if "time" not in str(error):
            raise
        return call(100 * _SECONDS)


def _solve(method: str, **options: Any) -> Callable[[Asked], None]:
    def call(asked: Asked) -> None:
        case = asked.case
        given = dict(options)
        memory = memory_of(case)
        if method == "game":
            memory = "history"
        elif memory == "history":
            memory = "timed"
        if case.features["memory"] == "features" and method == "ascent":
            given["features"] = "one-hot"
        if given.pop("hide", None) and OTHER in case.channels:
            given["hide"] = f"own, {OTHER}"
        if given.pop("task", None):
            given["task"] = f"0.1*H({OTHER})" if OTHER in case.channels else "-0.1*energy"
        if method != "game":
            given |= {"starts": 2, "iterations": 5}
        found = _in_time(
            lambda seconds: veil.solve(case.problem, method, memory, time_limit=seconds, progress=False, **given)
        )
        _solution(asked, found)

    return call


def _frontier(asked: Asked) -> None:
    memory = memory_of(asked.case)
    memory = "timed" if memory == "history" else memory
    few = {"starts": 2, "iterations": 5, "progress": False}
    found = _in_time(lambda seconds: veil.frontier(asked.case.problem, 2, memory=memory, time_limit=seconds, **few))
    for point in found.points:
        _checked_answer(asked, point.policy, point.opacity, point.expected_return)


def _compare(asked: Asked) -> None:
    memory = memory_of(asked.case)
    memories = ("markov",) if memory in ("markov", "history") else ("markov", memory)
    found = _in_time(
        lambda seconds: veil.compare(asked.case.problem, memories=memories, time_limit=2 * seconds, certificate=False)
    )
    for one in found.rows:
        _checked_answer(asked, one.policy, one.opacity, one.expected_return)
    for _, why in found.failed:
        if "time" not in why:
            raise veil.VeilError(why)


def _certify(asked: Asked) -> None:
    problem, policy = asked.arguments
    certificate = _in_time(lambda seconds: veil.certify(problem, policy, seconds, progress=False))
    _proof(asked, certificate, policy)


def _transparent(asked: Asked) -> None:
    problem, policy = asked.arguments
    certificate = _in_time(lambda seconds: veil.certify(problem, policy, seconds, goal="transparent", progress=False))
    veil.verify(certificate, problem, policy)
    own = asked.joint(channel="own").bits
    if own > certificate.upper + EXACT:
        raise Wrong(f"certificate: upper {certificate.upper!r}, and the policy hides {own!r}")


def _report(asked: Asked) -> None:
    from veil.report.answer import audit

    problem, policy = asked.arguments
    text = make_report(problem, audit(problem, policy, time_limit=1.0), runs=2, sequences=2, time_limit=1.0)
    if "<html" not in text:
        raise Wrong("the report is no page")


@dataclass(frozen=True)
class Call:
    """A call with its weight in samples: the higher, the more often; searches are rare, since they take long."""

    run: Callable[[Asked], None]
    weight: float = 3.0
    takes_pair: bool = True


CALLS: dict[str, Call] = {
    "expected_return": Call(_return, takes_pair=False),
    "return_gradient": Call(_return_gradient, takes_pair=False),
    "range": Call(_range, takes_pair=False),
    "return given secret": Call(_given_secret),
    "disclosure": Call(_disclosure),
    "queries": Call(_queries, takes_pair=False),
    "chain": Call(_chain, takes_pair=False),
    "unrolled": Call(_unrolled, 1.5),
    "lifted": Call(_lifted, 1.5),
    "constraint_values": Call(_constraints, takes_pair=False),
    "pair_values": Call(_pair_values, takes_pair=False),
    "opacity exact": Call(_opacity("exact")),
    "opacity bracket": Call(_opacity("bracket")),
    "opacity sampled": Call(_opacity("sampled")),
    "opacity auto": Call(_opacity("auto")),
    "gradient exact": Call(_gradient("exact")),
    "gradient bracket": Call(_gradient("bracket")),
    "gradient sampled": Call(_gradient("sampled")),
    "gradient auto": Call(_gradient("auto")),
    "quantities exact": Call(_quantities("exact")),
    "quantities sampled": Call(_quantities("sampled")),
    "joint_table": Call(_joint_table),
    "bits_over_time": Call(_bits_over_time),
    "sensor_costs": Call(_sensor_costs),
    "observation_costs": Call(_observation_costs),
    "attack": Call(_attack),
    "attack by a wrong belief": Call(_mistaken),
    "filter": Call(_filter),
    "smoother": Call(_smoother),
    "player": Call(_player, takes_pair=False),
    "exported player": Call(_exported, takes_pair=False),
    "policy file": Call(_policy_file, 1.0, takes_pair=False),
    "save and load": Call(_save_load, 1.5),
    "solve ascent": Call(_solve("ascent"), 0.2, takes_pair=False),
    "solve sampled": Call(
        _solve("ascent", evaluation="sampled", sequences=50, certificate=False), 0.2, takes_pair=False
    ),
    "solve primal-dual": Call(_solve("primal-dual", certificate=False), 0.2, takes_pair=False),
    "solve game": Call(_solve("game"), 0.2, takes_pair=False),
    "solve game hide": Call(_solve("game", hide=True, certificate=False), 0.1, takes_pair=False),
    "solve hide": Call(_solve("ascent", hide=True, certificate=False), 0.2, takes_pair=False),
    "solve task": Call(_solve("ascent", task=True, certificate=False), 0.2, takes_pair=False),
    "frontier": Call(_frontier, 0.1, takes_pair=False),
    "compare": Call(_compare, 0.1, takes_pair=False),
    "certify": Call(_certify, 0.2, takes_pair=False),
    "certify transparent": Call(_transparent, 0.2, takes_pair=False),
    "report": Call(_report, 0.2, takes_pair=False),
}


def ask(case: Case, call: str) -> None:
    """Build the case's policy and make the call; raises `Wrong` if it answers something else than the oracle."""
    rng = random.Random(f"{case.seed} {call}")
    acting = random_acting(case)
    takes = CALLS[call].takes_pair and OTHER in case.channels and rng.random() < 0.6
    CALLS[call].run(Asked(case, acting, OTHER if takes else "own", rng))
