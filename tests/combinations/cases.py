"""Cases: a small random problem with chosen features, as veil's objects and as a plain world."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import veil

from .questions import SECRETS, Known, Property, Question, random_property, random_question, register_of
from .runs import EachJoint, Joint, Path, Runs, Watcher, World, all_runs
from .watchers import OBSERVERS, Seen, masked, observer_of, random_observer

CONSTRAINTS = ("none", "return", "percentage", "reward", "probability", "probability, known", "several")
PAIRS = ("none", "observer", "secret", "both", "untimed", "belief", "wrong belief", "bounds")
MASKS = ("none", "visible", "hidden", "cost")
AGENTS = ("state", "state+observations", "observations", "sensors", "sensors, actions", "sensors, no first")
MEMORIES = (
    "markov",
    "timed",
    "states",
    "states, no clock",
    "observations",
    "observations, no clock",
    "zones",
    "controller",
    "controller, clock",
    "mixture, clock",
    "history",
    "features",
)
FEATURES: dict[str, tuple[str, ...]] = {
    "secret": SECRETS,
    "observer": OBSERVERS,
    "constraint": CONSTRAINTS,
    "pair": PAIRS,
    "mask": MASKS,
    "memory": MEMORIES,
    "agent": AGENTS,
}
"""Each feature with its values; the first is the plain one."""

OTHER = "foe"
"""The name of the pair."""

AGENT = "the agent"
"""The name of what the agent reads, if it has sensors of its own."""

# A memory that an agent can have which does not see its state, in the place of one of states.
_BLIND = {
    "states": "observations",
    "states, no clock": "controller",
    "zones": "observations, no clock",
    "features": "timed",
}


@dataclass(frozen=True, eq=False)
class Channel:
    """A secret and the observer who wants it: `value` is a function of a run of the world, masks included."""

    watcher: Watcher
    value: Callable[[int, Path], Any]
    muted: dict[str, Callable[[Any], Any]]  # what is shown with a sensor switched off
    question: Question


@dataclass(frozen=True, eq=False)
class Bounded:
    """A constraint: veil's object, its name there, whether it is a lower bound, and its value over all runs."""

    constraint: Any
    name: str
    at_least: bool
    value: Callable[[Runs], Any]
    known: Known | None = None
    secret: Any = None


@dataclass(frozen=True, eq=False)
class Assumed:
    """What the observer of the pair assumes: a policy, as a table over states and actions, and its doubt."""

    table: list[list[float]] | None
    doubt: float


@dataclass(eq=False)
class Case:
    """One combination: call `problem` to build veil's objects, which may be refused."""

    features: dict[str, str]
    seed: int
    rng: random.Random
    world: World
    channels: dict[str, Channel]
    bounds: list[Bounded]
    build: Callable[[], Any]
    base: World
    masks: list[str]  # the sensors that can be masked
    assumed: Assumed | None = None
    pair_bounds: tuple[float | None, float | None] = (None, None)
    senses: Watcher | None = None  # what the agent reads, if it has sensors of its own
    notes: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def problem(self) -> Any:
        """Veil's problem; raises `VeilError` if veil refuses it."""
        return self.build()

    @property
    def is_blind(self) -> bool:
        """Whether the agent does not see its state."""
        return not self.features["agent"].startswith("state")

    @property
    def reads(self) -> str:
        """Whose observations the agent receives."""
        return AGENT if self.senses is not None else "own"

    def watcher(self, name: str) -> Watcher:
        """What the observer of a channel receives, or the agent."""
        if name == AGENT:
            assert self.senses is not None
            return self.senses
        return self.channels[name].watcher

    @property
    def horizon(self) -> int:
        """T."""
        return self.world.horizon

    def joint(self, runs: Runs, channel: str, watcher: int = 0, length: int | None = None) -> Joint:
        """The joint table of a channel."""
        problem, question = self.problem, self.channels[channel].question
        names = problem.secret_values if channel == "own" else problem.only(channel).secret_values
        if question.weights:  # one row for each time and what was seen until then
            times = enumerate(question.weights) if length is None else [(length - 1, 1.0)]
            rows, prior = dict[tuple, dict[Any, Any]](), 0.0
            for time, weight in times:
                value = lambda k, path, time=time: self.channels[channel].value(time, path)  # noqa: E731
                table = runs.joint(value, watcher, time + 1)
                prior += weight * Joint(table).prior_bits
                rows |= {(time, y): {z: weight * p for z, p in row.items()} for y, row in table.items() if weight}
            return EachJoint(rows, list(names), before=prior)
        return Joint(runs.joint(self.channels[channel].value, watcher, length), list(names))


def random_case(features: dict[str, str], seed: int, sensors: bool = False) -> Case:
    """A random problem with these features; those that are not named have their plain value.

    With `sensors` each observer has some that can be switched off, as it has with masks.
    """
    features = {name: features.get(name, values[0]) for name, values in FEATURES.items()}
    rng = random.Random(f"{seed} {sorted(features.items())}")
    blind = not features["agent"].startswith("state")
    if blind:
        features["memory"] = _BLIND.get(features["memory"], features["memory"])
    base = _world(features, rng)
    if blind and "belief" in features["pair"]:  # the uniform policy of the readings is that of the states then
        base = replace(base, available=[[True, True] for _ in base.states], moves=_everywhere(base))
    states, horizon = len(base.states), base.horizon
    wants = features["mask"] != "none"
    has_sensors = sensors or wants
    own = random_observer(features["observer"], rng, states, horizon, "o", has_sensors)
    ask = lambda kind: random_question(kind, rng, states, horizon, len(base.weights), base.weights)  # noqa: E731
    question = ask(features["secret"])
    masks = sorted(own.muted) if wants else []
    masks = masks[: rng.randint(1, len(masks))] if masks else []
    world = _with_masks(base, masks, rng) if wants else base
    visible = features["mask"] != "hidden" or own.watcher.sees_actions
    channels = {"own": _channel(own, question, world, masks, visible, wants)}
    pair, assumed, limits = _pair(features, rng, base, own, question, ask, has_sensors)
    if pair is not None:
        seen, other, _ = pair
        channels[OTHER] = _channel(seen, other, world, masks if seen is own else [], visible, wants)
        if seen is own:  # one sequence of observations
            channels[OTHER] = replace(channels[OTHER], watcher=channels["own"].watcher)
    costs = world.rewards.get("masking")
    sight, senses = _sight(features, rng, states, horizon)
    if senses is not None and wants:
        count, plain = len(masks) + 1, senses
        shown = lambda time, action, state: plain.shows(time, action // count, state // count)  # noqa: E731
        senses = replace(senses, shows=shown)
    bounds = _bounds(features, rng, base, world)

    def build() -> Any:
        problem = veil.Problem(
            [_model(base, k) for k in range(len(base.weights))] if len(base.weights) > 1 else _model(base, 0),
            observer_of(own),
            question.secret,
            horizon,
            constraints=[one.constraint for one in bounds if one.name != "masking"],
            pairs=[] if pair is None else [pair[2]()],
            agent_sees=sight,
        )
        if not wants:
            return problem
        assert costs is not None
        price = world.rewards["masking"][0][0]
        masking = veil.Masks(masks, {name: price[1 + n] for n, name in enumerate(masks)}, visible=visible)
        return masking.apply(problem, [one.constraint for one in bounds if one.name == "masking"])

    return Case(features, seed, rng, world, channels, bounds, build, base, masks, assumed, limits, senses)


def _sight(features: dict[str, str], rng: random.Random, states: int, horizon: int) -> tuple[Any, Watcher | None]:
    """What the agent sees, as veil takes it, and the watcher of its own sensors."""
    kind = features["agent"]
    if kind == "state" and features["memory"].startswith("observations"):
        return "state+observations", None
    if not kind.startswith("sensors"):
        return kind, None
    own = random_observer({"sensors": rng.choice(("plain", "plain", "times", "on steps", "other emissions")),
                           "sensors, actions": "sees actions", "sensors, no first": "no first"}[kind],
                          rng, states, horizon, "w", False)  # fmt: skip
    return own.observer, own.watcher


def _everywhere(base: World) -> list[list[list[dict[int, float]]]]:
    """The moves, where an action that is not available does what another does."""
    return [[[row or next(one for one in rows if one) for row in rows] for rows in model] for model in base.moves]


def _world(features: dict[str, str], rng: random.Random) -> World:
    """Models of two or three states, two actions and a short horizon; small enough for all runs."""
    crowded = features["mask"] != "none"
    models = 2 if features["secret"].startswith("which model") else 1
    reads = features["memory"] in ("observations", "observations, no clock", "history")
    reads = reads or features["agent"] not in ("state", "state+observations")
    states = 2 if crowded else rng.choice((2, 3, 3))
    short = crowded or (reads and features["pair"] != "none") or features["observer"].startswith("together")
    horizon = 2 if short else rng.choice((2, 3, 3))
    actions = ["go", "stay"]
    available = [[True, True] if rng.random() < 0.85 else [True, False] for _ in range(states)]
    moves, initial = [], []
    for _ in range(models):
        moves.append([
            [_spread(rng, states) if allowed else {} for allowed in row] for row in available
        ])  # fmt: skip
        initial.append(_spread(rng, states, most=2))
    rewards = {
        name: [[[rng.randint(-4, 4) / 2 if ok else 0.0 for ok in row] for row in available] for _ in range(models)]
        for name in ("gold", "energy")
    }
    last = rng.random() < 0.3
    terminal = {
        name: [[rng.randint(0, 3) / 2 if last else 0.0 for _ in range(states)] for _ in range(models)]
        for name in rewards
    }
    weight = rng.randint(2, 6) / 8
    return World(
        horizon,
        [f"s{s}" for s in range(states)],
        actions,
        moves,
        initial,
        [1.0] if models == 1 else [weight, 1 - weight],
        rewards,
        terminal,
        rng.choice((1.0, 1.0, 0.75)),
        available,
        list(range(states)),
    )


def _spread(rng: random.Random, states: int, most: int = 3) -> dict[int, float]:
    chosen = sorted(rng.sample(range(states), min(states, rng.choice((1, 2, 2, most)))))
    shares = [rng.randint(1, 8) for _ in chosen]
    return {s: share / sum(shares) for s, share in zip(chosen, shares, strict=True)}


def _with_masks(base: World, sensors: list[str], rng: random.Random) -> World:
    """The world whose states are `state/mask` and whose actions are `action/mask` with the mask of the next step."""
    masks = ["none", *sensors]
    count = len(masks)
    prices = [0.0, *(rng.randint(0, 4) / 4 for _ in sensors)]

    def moves(k: int, state: int, action: int) -> dict[int, float]:
        found = base.moves[k][state // count][action // count]
        return {s * count + action % count: p for s, p in found.items()}

    states, actions = range(len(base.states) * count), range(len(base.actions) * count)
    models = range(len(base.weights))
    rewards = {
        name: [[[table[k][s // count][a // count] for a in actions] for s in states] for k in models]
        for name, table in base.rewards.items()
    }
    rewards["masking"] = [[[prices[a % count] for a in actions] for _ in states] for _ in models]
    terminal = {name: [[table[k][s // count] for s in states] for k in models] for name, table in base.terminal.items()}
    terminal["masking"] = [[0.0] * len(states) for _ in models]
    return replace(
        base,
        states=[f"{state}/{mask}" for state in base.states for mask in masks],
        actions=[f"{action}/{mask}" for action in base.actions for mask in masks],
        moves=[[[moves(k, s, a) for a in actions] for s in states] for k in models],
        initial=[{s * count: p for s, p in one.items()} for one in base.initial],
        rewards=rewards,
        terminal=terminal,
        available=[[base.available[s // count][a // count] for a in actions] for s in states],
        base=[s // count for s in states],
    )


def _channel(seen: Seen, question: Question, world: World, sensors: list[str], visible: bool, lifted: bool) -> Channel:
    """A channel over the world: its secret is about the states without masks."""
    watcher, muted = seen.watcher, seen.muted
    if lifted and sensors:
        watcher = masked(seen, sensors, visible)
        if visible:
            muted = {name: (lambda o, mute=mute: (mute(o[0]), o[1])) for name, mute in muted.items()}
    elif lifted:
        count = len(world.states) // (max(world.base) + 1)
        plain = seen.watcher
        watcher = replace(plain, shows=lambda time, a, s: plain.shows(time, a // count, s // count))
    value = lambda k, path: question.value(k, tuple(world.base[s] for s in path))  # noqa: E731
    return Channel(watcher, value, muted, question)


def _model(world: World, k: int) -> Any:
    size, actions = len(world.states), len(world.actions)
    return veil.Model(
        [[[world.moves[k][s][a].get(to, 0.0) for to in range(size)] for a in range(actions)] for s in range(size)],
        {name: table[k] for name, table in world.rewards.items()},
        [world.initial[k].get(s, 0.0) for s in range(size)],
        world.discount,
        {name: table[k] for name, table in world.terminal.items()},
        world.states,
        world.actions,
        available=world.available,
    )


def uniform(world: World) -> Callable[..., list[tuple[int, int, float]]]:
    """The policy that takes all available actions alike."""

    def choose(time: int, k: int, path: Path, node: int, seen: Any) -> list[tuple[int, int, float]]:
        allowed = [a for a, ok in enumerate(world.available[path[-1]]) if ok]
        return [(a, 0, 1 / len(allowed)) for a in allowed]

    return choose


def _bounds(features: dict[str, str], rng: random.Random, base: World, world: World) -> list[Bounded]:
    """Constraints that the uniform policy meets with room to spare."""
    runs = all_runs(world, uniform(world), ())
    kind, found = features["constraint"], list[Bounded]()
    if kind in ("return", "several"):
        least = runs.returns["gold"] - 0.25
        found.append(Bounded(veil.Return(min=least), "return", True, lambda r: r.returns["gold"]))
    if kind == "percentage":
        found.append(Bounded(veil.Return(min=f"{rng.randint(1, 20)}%"), "return", True, lambda r: r.returns["gold"]))
    if kind in ("reward", "several"):
        most = runs.returns["energy"] + 0.25
        found.append(Bounded(veil.Return(max=most, reward="energy"), "energy", False, lambda r: r.returns["energy"]))
    if kind.startswith("probability") or kind == "several":
        one = random_property(rng, len(base.states))
        found.append(_probability(one, runs, world, base.horizon, knows=kind.endswith("known")))
    if features["mask"] == "cost":
        most = runs.returns["masking"] + 0.1
        masking = veil.Return(max=most, reward="masking")
        found.append(Bounded(masking, "masking", False, lambda r: r.returns["masking"]))
    return found


def _probability(one: Property, runs: Runs, world: World, horizon: int, *, knows: bool) -> Bounded:
    def value(found: Runs) -> Any:
        return found.probability(lambda k, path: one.holds(tuple(world.base[s] for s in path)))

    least = max(0.0, value(runs) - 0.125)
    constraint = veil.Probability(one.text, min=least, labels=one.labels, agent_knows=knows)
    known = register_of(one.secret, one.states, horizon) if knows else None
    return Bounded(constraint, f"P({one.text})", True, value, known, one.secret)


def _pair(
    features: dict[str, str],
    rng: random.Random,
    base: World,
    own: Seen,
    question: Question,
    ask: Callable[[str], Question],
    sensors: bool,
) -> tuple[tuple[Seen, Question, Callable[[], Any]] | None, Assumed | None, tuple[float | None, float | None]]:
    """The further pair: what its observer sees, its secret, how to make it; what the observer assumes; its bounds."""
    kind = features["pair"]
    states, horizon = len(base.states), base.horizon
    if kind == "none":
        return None, None, (None, None)
    seen, other, arguments = own, question, dict[str, Any]()
    if kind in ("observer", "both", "bounds"):
        watching = rng.choice([one for one in OBSERVERS if "untimed" not in one and not one.startswith("together")])
        seen = random_observer(watching, rng, states, horizon, "p", sensors)
    elif kind == "untimed":
        seen = random_observer(rng.choice(("untimed", "untimed on steps")), rng, states, horizon, "p", sensors)
    if kind in ("secret", "both"):
        models = len(base.weights) > 1
        kinds = [one for one in SECRETS if one.startswith("which model") == models]
        other = ask(rng.choice(kinds))
        arguments["secret"] = other.secret
    low, high = (None, None)
    if kind == "bounds":  # half of what the uniform policy hides, so that some policy meets it
        runs = all_runs(base, uniform(base), (seen.watcher,))
        low, high = round(Joint(runs.joint(other.value)).bits / 2, 4), 3.0
    assumed = None
    if kind in ("belief", "wrong belief"):
        table = None
        knows = any("known" in features[name] for name in ("secret", "constraint"))
        blind = not features["agent"].startswith("state")
        if kind == "wrong belief" and not knows and features["mask"] == "none" and not blind:
            table = []
            for row in base.available:
                share = rng.randint(1, 7) / 8
                table.append([share, 1 - share] if all(row) else [1.0 if ok else 0.0 for ok in row])
        assumed = Assumed(table, rng.choice((0.0, 0.125)))

    def make() -> Any:
        given = dict(arguments)
        if seen is not own:
            given["observer"] = observer_of(seen)
        if assumed is not None:
            policy = "uniform" if assumed.table is None else veil.MarkovPolicy(assumed.table)
            given["belief"] = veil.Belief(policy, doubt=assumed.doubt)
        return veil.Pair(OTHER, min=low, max=high, **given)

    return (seen, other, make), assumed, (low, high)
