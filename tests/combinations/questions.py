"""Secrets and formulas: each as veil's object and as a plain function of a run."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import veil
from veil.common.checks import Defects

Path = tuple[int, ...]
Known = Callable[[int, Path], str]

SECRETS = (
    "last",
    "last groups",
    "state at",
    "initial",
    "initial groups",
    "visited",
    "visited, known",
    "first reached",
    "automaton",
    "automaton, known",
    "automaton state",
    "formula",
    "formula, known",
    "two formulas",
    "which model",
    "which model, known",
    "path",
    "path of groups",
    "state now",
    "state now, ahead",
)


@dataclass(frozen=True, eq=False)
class Question:
    """A secret: veil's object, its value on a run of states, and the register that the agent knows (None: none)."""

    secret: Any
    value: Callable[[int, Path], Any]
    known: Known | None = None
    is_path: bool = False
    which_model: bool = False
    weights: tuple[float, ...] = ()  # of each time, for a secret with a value at every time: `value(time, run)` then


Word = list[set[str]]
# Formulas over the propositions a and b, each with its meaning on the sets of propositions that are true at each time.
FORMULAS: tuple[tuple[str, Callable[[Word], bool]], ...] = (
    ("F a", lambda word: any("a" in now for now in word)),
    ("G !b", lambda word: all("b" not in now for now in word)),
    ("a U b", lambda word: any("b" in word[t] and all("a" in one for one in word[:t]) for t in range(len(word)))),
    ("F (a & X b)", lambda word: any("a" in now and "b" in then for now, then in itertools.pairwise(word))),
    ("X a", lambda word: len(word) > 1 and "a" in word[1]),
    ("F (last & a)", lambda word: "a" in word[-1]),
)


@dataclass(frozen=True, eq=False)
class Property:
    """A formula with labels: its text, whether it holds on a run, and the state of its automaton after a part of one."""

    text: str
    labels: dict[str, list[int]]
    meaning: Callable[[Word], bool]
    states: int

    def holds(self, path: Path) -> bool:
        """Whether it holds on a run."""
        return self.meaning([{name for name, where in self.labels.items() if s in where} for s in path])

    @property
    def secret(self) -> Any:
        """The secret whether it holds, whose memory is the formula's automaton."""
        return veil.Holds(self.text, self.labels)


def register_of(secret: Any, states: int, horizon: int) -> Known:
    """The name of a secret's memory after a part of a run, by the table to which the secret resolves."""
    table = _resolved(secret, states, horizon)

    def known(k: int, path: Path) -> str:
        memory = int(table.memory_start[path[0]])
        for s in path[1:]:
            memory = int(table.memory_step[memory, s])
        return str(table.memory_names[memory])

    return known


def register_content(secret: Any, states: int, horizon: int) -> bytes:
    """The numbers of a secret's memory: registers with the same numbers are one."""
    table = _resolved(secret, states, horizon)
    return np.asarray(table.memory_start, int).tobytes() + np.asarray(table.memory_step, int).tobytes()


def _resolved(secret: Any, states: int, horizon: int) -> Any:
    rows = [[[1.0 if to == s else 0.0 for to in range(states)]] for s in range(states)]
    return secret.resolve([veil.Model(rows, [0.0] * states, 0)], horizon, Defects("test"))


def random_property(rng: random.Random, states: int) -> Property:
    """A formula with random labels."""
    text, meaning = rng.choice(FORMULAS)
    labels = {name: subset(rng, states) for name in ("a", "b") if name in text.replace("last", "")}
    return Property(text, labels, meaning, states)


def subset(rng: random.Random, states: int) -> list[int]:
    """Some states, not none and not all."""
    return sorted(rng.sample(range(states), rng.randint(1, states - 1)))


def _groups(rng: random.Random, states: int) -> tuple[dict[str, list[int]], Callable[[int], str]]:
    """Two groups, with or without states that are in none."""
    order = rng.sample(range(states), states)
    groups = {"red": order[:1], "blue": order[1:2] if rng.random() < 0.5 else order[1:]}
    name = {s: group for group, members in groups.items() for s in members}
    return groups, lambda s: name.get(s, "elsewhere")


def _now(rng: random.Random, states: int, horizon: int, ahead: int) -> Question:
    """A value at every time: where the state is, or whether the run is soon in a set."""
    weights: Any = [rng.randint(0, 3) / 8 for _ in range(horizon)] + [0.25] if rng.random() < 0.5 else None
    spread = tuple(weights or [1 / (horizon + 1)] * (horizon + 1))
    if not ahead and rng.random() < 0.5:
        groups, name = _groups(rng, states)
        return Question(veil.StateNow(groups=groups, weights=weights), lambda t, path: name(path[t]), weights=spread)
    inside = subset(rng, states)
    soon = lambda t, path: "secret" if set(path[t : t + ahead + 1]) & set(inside) else "elsewhere"  # noqa: E731
    return Question(veil.StateNow(inside, ahead=ahead, weights=weights), soon, weights=spread)


def random_question(
    kind: str, rng: random.Random, states: int, horizon: int, models: int, weights: list[float]
) -> Question:
    """A secret of a kind."""
    knows = kind.endswith(", known")
    if kind.startswith("state now"):
        return _now(rng, states, horizon, ahead=rng.randint(1, 2) if kind.endswith("ahead") else 0)
    match kind.removesuffix(", known"):
        case "last":
            inside = subset(rng, states)
            return Question(veil.LastState(inside), lambda k, p: "secret" if p[-1] in inside else "elsewhere")
        case "last groups":
            groups, group = _groups(rng, states)
            return Question(veil.LastState(groups=groups), lambda k, p: group(p[-1]))
        case "state at":
            inside, time = subset(rng, states), rng.randint(0, horizon)
            return Question(veil.StateAt(time, inside), lambda k, p: "secret" if p[time] in inside else "elsewhere")
        case "initial":
            return Question(veil.InitialState(), lambda k, p: f"s{p[0]}")
        case "initial groups":
            inside = subset(rng, states)
            groups = {"in": inside, "out": [s for s in range(states) if s not in inside]}
            return Question(veil.InitialState(groups), lambda k, p: "in" if p[0] in inside else "out")
        case "visited":
            zones = {"x": subset(rng, states), "y": subset(rng, states)}
            visited = lambda k, p: " and ".join(z for z, where in zones.items() if set(p) & set(where)) or "none"  # noqa: E731
            return Question(veil.Visited(zones, agent_knows=knows), visited, visited if knows else None)
        case "first reached":
            zones = {"x": subset(rng, states), "y": subset(rng, states)}

            def first(k: int, p: Path) -> str:
                return next((z for s in p for z, where in zones.items() if s in where), "none")

            return Question(veil.FirstReached(zones, agent_knows=knows), first, first if knows else None)
        case "automaton" | "automaton state":
            return _automaton(kind, rng, states, knows)
        case "formula":
            one = random_property(rng, states)
            secret = veil.Holds(one.text, one.labels, agent_knows=knows)
            known = register_of(secret, states, horizon) if knows else None
            return Question(secret, lambda k, p: "holds" if one.holds(p) else "does not hold", known)
        case "two formulas":
            (first_text, first_is), (second_text, second_is) = rng.sample(FORMULAS, 2)
            labels = {name: subset(rng, states) for name in ("a", "b")}
            used = {n: s for n, s in labels.items() if n in (first_text + second_text).replace("last", "")}
            both = (Property(first_text, labels, first_is, states), Property(second_text, labels, second_is, states))

            def value(k: int, p: Path) -> str:
                return "; ".join(one.text if one.holds(p) else f"not {one.text}" for one in both)

            return Question(veil.Holds([first_text, second_text], used), value)
        case "which model":
            names = [f"model {k}" for k in range(models)]
            secret = veil.WhichModel(weights, agent_knows=knows)
            return Question(secret, lambda k, p: names[k], (lambda k, p: names[k]) if knows else None, which_model=True)
        case "path":
            return Question(veil.Trajectory(), lambda k, p: p, is_path=True)
        case _:
            groups, group = _groups(rng, states)
            return Question(veil.Trajectory(groups), lambda k, p: tuple(map(group, p)), is_path=True)


def _automaton(kind: str, rng: random.Random, states: int, knows: bool) -> Question:
    """A random automaton of two or three states over two letters."""
    names = ["idle", "busy", "done"][: rng.randint(2, 3)]
    letters: dict[str | int, str] = {s: rng.choice("uv") for s in range(states)}
    step = {(q, letter): rng.choice(names) for q in names for letter in set(letters.values())}

    def last(k: int, p: Path) -> str:
        q = "idle"
        for s in p:
            q = step[q, letters[s]]
        return q

    if kind == "automaton state":
        return Question(veil.AutomatonState(step, "idle", letters, agent_knows=knows), last)
    accepting = {q for q in names if rng.random() < 0.5 and q in {"idle", *step.values()}} or {"idle"}
    secret = veil.Automaton(step, "idle", accepting, letters, agent_knows=knows)
    return Question(secret, lambda k, p: "accepts" if last(k, p) in accepting else "rejects", last if knows else None)
