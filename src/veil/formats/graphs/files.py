"""`veil.from_graph`: a directed graph as a model, its attributes as probabilities, rewards and sensors."""

import io
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...common.checks import SUM_TOLERANCE, Defects, is_number
from ...common.errors import InputError, MissingExtraError, ModelFileError
from ...common.json_text import parse_json
from ...problem.grid.sensors import Sensor, sensor_observer
from ...problem.model import Model
from ...problem.observer import Observer
from ...problem.secrets.last_state import LastState
from ...problem.secrets.secret import Secret
from ..imported import Imported
from ..rows import normalised
from ..sensing import observer_from
from ..text import read_text

MOST_NODES, MOST_EDGES = 50_000, 500_000
_MOST_BYTES = 2**26
_MOST_PAIRS = 2**24  # of a node and an action
_MOST_NAMED = 64  # targets that may give actions their names
STEP, STAY = "step", "stay"
EdgeMeaning = Literal["actions", "probabilities"]
# Attributes with a meaning of their own; all other plain values become variables.
_OF_NODES = ("reward", "terminal_reward", "start", "sensor", "detection", "false_alarm", "observation", "secret")


@dataclass
class _Graph:
    """A graph as it was read: nodes by name with their attributes, and edges `(source, target, attributes)`."""

    names: list[str]
    nodes: list[Mapping[str, Any]]
    edges: list[tuple[int, int, Mapping[str, Any]]]
    notes: list[str] = field(default_factory=list[str])


def from_graph(graph: Any, *, edges: EdgeMeaning = "actions", discount: float = 1.0) -> Imported:
    """The model of a directed graph of networkx.

    The nodes are the states, named by `str(node)`. Edges with the same `action` out of a node are one action, which leads to
    their targets with their probabilities. By default each edge without `action` is a separate action, `to TARGET`;
    with `edges="probabilities"` they are one action, `step`. A node without outgoing edges stays in place. If the edges
    lead to more than 64 nodes, actions are `edge 1`, `edge 2`, … of each node instead.

    **Edge attributes:** `action`; `probability`, which sums to 1 in each action; or `weight`, relative, which is divided by its
    sum; without both the edges of an action are equally likely. `reward`, paid for the decision, times its probability.

    **Node attributes:** `reward` for each decision there; `terminal_reward` for the last state; `start`, true or a relative
    weight; `sensor`, a name or several joined with `+`, with `detection` (1 by default) and, as an attribute of the graph,
    `false_alarm` (0 by default); or `observation`, what the observer sees there; `secret`, true, or the name of a group. All
    other plain values are variables for expressions, absent numbers 0, absent texts empty and absent truth values false.

    **Arguments:** `graph`: a networkx graph; one without directions is walked both ways. `edges`, `discount`.

    **Raises:** `InputError` naming each node and edge that is wrong.
    """
    return _from_networkx(graph, edges, discount, "graph", "graph")


def _from_networkx(graph: Any, edges: EdgeMeaning, discount: float, source: str, kind: str) -> Imported:
    """`from_graph` of a graph from somewhere, which messages name."""
    if not all(hasattr(graph, name) for name in ("nodes", "edges", "is_directed")):
        raise InputError(
            "graph", [f"it is a {type(graph).__name__}, expected a graph of networkx, such as networkx.DiGraph"]
        )
    if graph.number_of_nodes() > MOST_NODES or graph.number_of_edges() > MOST_EDGES:
        found = f"{graph.number_of_nodes():,} nodes and {graph.number_of_edges():,} edges"
        raise InputError(source, [f"it has {found}, expected at most {MOST_NODES:,} and {MOST_EDGES:,}"])
    nodes = list(graph.nodes(data=True))
    numbers: dict[Hashable, int] = {node: number for number, (node, _) in enumerate(nodes)}
    links = [(numbers[one], numbers[two], data) for one, two, data in graph.edges(data=True)]
    read = _Graph([str(node) for node, _ in nodes], [data for _, data in nodes], links)
    if not graph.is_directed():
        read.edges += [(two, one, data) for one, two, data in links if one != two]
        read.notes.append("the graph is undirected: each edge can be walked both ways")
    return _imported(read, dict(graph.graph), edges, discount, source, kind)


def read_graph(path: Path, **options: object) -> Imported:
    """The model in a GraphML or node-link JSON file; options as for `from_graph`."""
    try:
        import networkx
    except ImportError:
        raise MissingExtraError(f"{path}: graphs need networkx: pip install 'veil[graphs]'") from None
    text = read_text(path, _MOST_BYTES, "a larger graph needs from_graph")
    try:
        if path.suffix.lower() == ".json":
            document = parse_json(text)
            found = networkx.node_link_graph(document, edges="edges" if "edges" in document else "links")
        else:
            found = networkx.read_graphml(io.BytesIO(text.encode()))
    except Exception as error:  # whatever a damaged file makes the reader stumble upon
        raise ModelFileError(path, f"it cannot be read as a graph: {type(error).__name__}: {error}") from None
    edges, discount = options.get("edges", "actions"), options.get("discount", 1.0)
    try:
        number = float(str(discount))
    except ValueError:
        raise InputError(str(path), [f"discount is {discount!r}, expected a number"]) from None
    kind = "graph (GraphML)" if path.suffix.lower() == ".graphml" else "graph (node-link JSON)"
    return _from_networkx(found, edges, number, path.name, kind)  # pyright: ignore[reportArgumentType]


def is_graph(path: Path) -> bool:
    """Whether a JSON file is a graph, by its keys; any other extension is."""
    if path.suffix.lower() != ".json":
        return True
    try:
        document = json.loads(read_text(path, _MOST_BYTES))
    except (ModelFileError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "nodes" in document and bool({"links", "edges"} & document.keys())


def _imported(
    graph: _Graph, about: Mapping[str, Any], edges: EdgeMeaning, discount: float, source: str, kind: str
) -> Imported:
    defects = Defects(source)
    if edges not in ("actions", "probabilities"):
        defects.add(f"edges is {edges!r}, expected 'actions' or 'probabilities'", "edges")
    if len(set(graph.names)) < len(graph.names):
        twice = next(name for name in graph.names if graph.names.count(name) > 1)
        defects.add(f"two nodes are written {twice!r}, expected distinct names")
    if not graph.names:
        defects.add("it has no nodes")
    defects.raise_if_any()
    entries, rewards = _transitions(graph, edges, defects)
    actions = {action for _, action, _, _ in entries}
    if len(actions) * len(graph.names) > _MOST_PAIRS:
        found = f"{len(graph.names):,} nodes and {len(actions):,} actions"
        defects.add(f"it has {found}, expected at most {_MOST_PAIRS:,} pairs: give the edges fewer different actions")
    paid = _numbers(graph, "reward", defects)
    for pair in {(state, action) for state, action, _, _ in entries if state in paid}:
        rewards[pair] = rewards.get(pair, 0.0) + paid[pair[0]]
    initial, terminal = _starts(graph, defects), _numbers(graph, "terminal_reward", defects)
    observer = _observer(graph, about, defects)
    secret = _secret(graph, defects)
    defects.raise_if_any()
    model = Model.from_entries(entries, rewards, initial, discount, terminal, state_names=graph.names)
    return Imported(model, observer, source, kind, tuple(graph.notes), _variables(graph), {}, secret)


def _transitions(
    graph: _Graph, meaning: EdgeMeaning, defects: Defects
) -> tuple[list[tuple[str, str, str, float]], dict[tuple[str, str], float]]:
    """The entries of the model, and the rewards that edges pay."""
    groups: dict[tuple[int, str], list[tuple[int, Mapping[str, Any]]]] = {}
    name_of = _action_names(graph, meaning)
    for number, (source, target, data) in enumerate(graph.edges):
        groups.setdefault((source, name_of(number)), []).append((target, data))
    going = {source for source, _ in groups}
    ends = [number for number in range(len(graph.names)) if number not in going]
    if ends:
        graph.notes.append(f"{len(ends):,} nodes without outgoing edges stay in place, with the action {STAY!r}")
    entries = [(graph.names[number], STAY, graph.names[number], 1.0) for number in ends]
    rewards: dict[tuple[str, str], float] = {}
    normalised = 0
    for (source, action), members in groups.items():
        chances, was_normalised = _chances(members, graph.names[source], action, defects)
        normalised += was_normalised
        total: dict[int, float] = {}
        paid = 0.0
        for (target, data), chance in zip(members, chances, strict=True):
            total[target] = total.get(target, 0.0) + chance
            reward = data.get("reward", 0.0)
            if not is_number(reward) or not np.isfinite(reward):
                defects.add(
                    f"edge {graph.names[source]!r} to {graph.names[target]!r} has the reward {reward!r}, no number"
                )
                continue
            paid += chance * reward
        entries += [
            (graph.names[source], action, graph.names[target], chance) for target, chance in total.items() if chance
        ]
        if paid:
            rewards[graph.names[source], action] = paid
    if normalised:
        graph.notes.append(f"the weights of {normalised:,} actions are divided by their sums")
    return entries, rewards


def _action_names(graph: _Graph, meaning: EdgeMeaning) -> Callable[[int], str]:
    """The name of the action of each edge, by its number."""
    plain = [number for number, (_, _, data) in enumerate(graph.edges) if "action" not in data]
    targets = {graph.edges[number][1] for number in plain}
    names: dict[int, str] = {}
    if meaning == "actions" and len(targets) > _MOST_NAMED:
        count: dict[int, int] = {}
        for number in plain:
            source = graph.edges[number][0]
            count[source] = count.get(source, 0) + 1
            names[number] = f"edge {count[source]}"
        graph.notes.append(f"edges lead to {len(targets):,} nodes: the actions are 'edge 1', 'edge 2', … of each node")
    elif meaning == "actions":
        names = {number: f"to {graph.names[graph.edges[number][1]]}" for number in plain}

    def name_of(number: int) -> str:
        given = graph.edges[number][2].get("action")
        return names.get(number, STEP) if given is None else str(given)

    return name_of


def _chances(
    members: list[tuple[int, Mapping[str, Any]]], source: str, action: str, defects: Defects
) -> tuple[list[float], bool]:
    """The probability of each edge of an action, and whether weights were divided by their sum."""
    keys = {key for _, data in members for key in ("probability", "weight") if key in data}
    key = "probability" if "probability" in keys else "weight"
    where = f"action {action!r} of node {source!r}"
    values = [data.get(key) if keys else 1.0 for _, data in members]
    wrong = next((value for value in values if not is_number(value) or not 0 <= value < np.inf), None)
    if wrong is not None or None in values:
        defects.add(f"{where}: an edge has the {key} {wrong!r}, expected a number, 0 or more, on each of its edges")
        return [0.0] * len(values), False
    numbers = [float(value) for value in values if value is not None]
    total = sum(numbers)
    if key == "probability" and abs(total - 1) > SUM_TOLERANCE:
        defects.add(f"{where}: the probabilities sum to {total:.12g}, expected 1: use the attribute weight for others")
        return [0.0] * len(values), False
    if total <= 0:
        defects.add(f"{where}: the weights sum to {total:g}, expected more than 0")
        return [0.0] * len(values), False
    exact = abs(total - 1) <= SUM_TOLERANCE
    return (numbers if exact else [value / total for value in numbers]), not exact and len(numbers) > 1 and bool(keys)


def _numbers(graph: _Graph, key: str, defects: Defects) -> dict[str, float]:
    """The numbers of an attribute, by node."""
    found: dict[str, float] = {}
    for name, data in zip(graph.names, graph.nodes, strict=True):
        value = data.get(key)
        if value is None:
            continue
        if not is_number(value) or not np.isfinite(value):
            defects.add(f"node {name!r} has the {key} {value!r}, expected a finite number")
        else:
            found[name] = float(value)
    return found


def _starts(graph: _Graph, defects: Defects) -> dict[str, float]:
    weights: dict[str, float] = {}
    for name, data in zip(graph.names, graph.nodes, strict=True):
        value = data.get("start", False)
        if not isinstance(value, (bool, np.bool_)) and (not is_number(value) or not 0 <= value < np.inf):
            defects.add(f"node {name!r} has the start {value!r}, expected true, false or a weight")
        elif value:
            weights[name] = float(value)
    if not weights:
        graph.notes.append(f"no node has the attribute start: it starts in the first one, {graph.names[0]!r}")
        return {graph.names[0]: 1.0}
    return normalised(weights)


def _observer(graph: _Graph, about: Mapping[str, Any], defects: Defects) -> Observer | None:
    """Sensors, or what is seen in each node; None where no node says either."""
    has_sensors = any("sensor" in data for data in graph.nodes)
    has_shown = any("observation" in data for data in graph.nodes)
    if has_sensors and has_shown:
        defects.add("nodes have the attributes sensor and observation, expected one of them")
    if defects or not (has_sensors or has_shown):
        return None
    if has_shown:
        shown = [str(data.get("observation", "nothing")) for data in graph.nodes]
        return observer_from(shown, len(shown), None)
    alarm = about.get("false_alarm", 0.0)
    names: dict[str, None] = {}
    places: list[tuple[int, str, float]] = []
    for number, data in enumerate(graph.nodes):
        rate = data.get("detection", 1.0)
        for value, what in ((rate, "detection"), (alarm, "false_alarm")):
            if not is_number(value) or not 0 <= value <= 1:
                defects.add(f"node {graph.names[number]!r} has the {what} {value!r}, expected a number from 0 to 1")
                return None
        given = data.get("sensor")
        for sensor in () if given is None else _listed(given):
            names[sensor] = None
            places.append((number, sensor, float(rate)))
    bad = next((name for name in names if not name or name == "0"), None)
    if bad is not None:
        defects.add(f"a sensor has the name {bad!r}, expected a text other than '0'")
        return None
    column = {name: number for number, name in enumerate(names)}
    rates = np.full((len(graph.nodes), len(names)), float(alarm))
    for number, sensor, rate in places:
        rates[number, column[sensor]] = rate
    return sensor_observer([Sensor(name) for name in names], rates, "independent")


def _listed(given: object) -> Iterable[str]:
    """The names of the sensors of a node: one, several joined with `+`, or a list."""
    if isinstance(given, (list, tuple, set)):
        return [str(one).strip() for one in given]
    return [part.strip() for part in str(given).split("+")]


def _secret(graph: _Graph, defects: Defects) -> Secret | None:
    """The question where the last state is: in a set, or in which group; None where no node says."""
    values = {name: data["secret"] for name, data in zip(graph.names, graph.nodes, strict=True) if "secret" in data}
    flags = [isinstance(value, (bool, np.bool_)) or value in (0, 1) for value in values.values()]
    if all(flags):
        chosen = [name for name, value in values.items() if value]
        return LastState(chosen) if chosen else None
    if any(flags):
        defects.add("the attribute secret is a truth value in some nodes and a name in others, expected one kind")
        return None
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(str(value), []).append(name)
    return LastState(groups=groups)


def _variables(graph: _Graph) -> dict[str, np.ndarray]:
    """All other attributes with plain values, of one kind each."""
    keys = dict.fromkeys(key for data in graph.nodes for key in data if isinstance(key, str))
    found: dict[str, np.ndarray] = {}
    left = []
    for key in keys:
        if key in _OF_NODES or key in ("state", "index"):
            continue
        given = [data[key] for data in graph.nodes if key in data]
        kind = next((kind for kind in (bool, (int, float), str) if all(_is_a(value, kind) for value in given)), None)
        if kind is None:
            left.append(key)
            continue
        absent: object = False if kind is bool else "" if kind is str else 0
        found[key] = np.array([data.get(key, absent) for data in graph.nodes])
    if left:
        graph.notes.append("attributes that are no plain values are left out: " + ", ".join(left[:10]))
    return found


def _is_a(value: object, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is str:
        return isinstance(value, str)
    return is_number(value) and abs(value) < np.inf
