"""Worlds whose states are the nodes of a graph: networks of hosts, and campuses of buildings."""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.spatial import Delaunay

import veil
from benchmarks.layouts import DRAWS, horizon_of, pick
from benchmarks.planning_problems import draw_links

Link = tuple[int, int]


def networks(seed: int, size: int = 500) -> veil.Problem:
    """A random network of hosts in offices, two of three of them monitored. Which server groups did the run visit?

    A monitored host reports its office with a probability from 0.7 to 0.9, and reports of any office are false with 0.05 in
    all. Jobs on a few hosts pay for each decision there; 60% of the largest return is asked for. The secret is whether the
    file servers were visited; in every second problem also whether the mail servers were. The agent does not know it beside
    its state. The actions of a host are its links and staying; 5% of the moves fail.
    """
    generator = np.random.default_rng([6, seed])
    horizon = max(14, round(30 * (size / 500) ** 0.2))
    office_of = np.arange(size) % max(4, min(12, size // 30))
    links = draw_links(size, office_of, 4, generator)
    offices, detection = int(office_of.max()) + 1, float(generator.uniform(0.7, 0.9))
    emissions = np.full((size, 1 + offices), 0.05 / offices)
    emissions[:, 0] = 0.95
    monitored = np.flatnonzero(generator.random(size) < 2 / 3)
    emissions[monitored, 0] -= detection
    emissions[monitored, 1 + office_of[monitored]] += detection
    distance = graph_distances(links, size)
    near = np.flatnonzero((distance > 1) & (distance <= max(2, 0.3 * horizon)))
    jobs = generator.choice(near, size=max(2, min(len(near) // 5, size // 60)), replace=False)
    rest = np.setdiff1d(near, jobs)
    kinds, count = (("files", "mail") if seed % 2 else ("files",)), max(2, min(len(rest) // 6, size // 40))
    servers = generator.choice(rest, size=(len(kinds), count), replace=False)
    names = [f"host{number}" for number in range(size)]
    rewards = np.zeros(size)
    rewards[jobs] = 1.0
    model = graph_model(links, names, rewards, start=0, fails=0.05)
    zones = {kind: [names[server] for server in row] for kind, row in zip(kinds, servers, strict=True)}
    name = f"network {seed}, {size:,} hosts"
    return veil.Problem(model, veil.Observer(emissions), veil.Visited(zones), horizon, "60%", name=name)


def campus(seed: int, size: int = 600) -> veil.Problem:
    """Buildings and crossings connected by paths, with cameras at crossings. Does the run end in one of the laboratories?

    Inside a building nobody looks; each camera sees one or two crossings and the paths next to them, so that several
    buildings are entered past the same camera. The office pays for each decision in it; half of the largest return is asked
    for. The laboratories are a third of the buildings, at least one within reach of the office, as is one of the others.
    """
    generator, horizon = np.random.default_rng([7, seed]), horizon_of(size)
    for _ in range(DRAWS):
        drawn = _draw_campus(generator, size)
        found = _campus_roles(generator, drawn, horizon)
        if found is not None:
            return _campus_problem(generator, drawn, found, horizon, seed)
    raise RuntimeError(f"no campus of {size} nodes in {DRAWS} draws (seed {seed})")


def graph_model(links: list[Link], names: list[str], rewards: np.ndarray, *, start: int, fails: float) -> veil.Model:
    """Moves over the links of a graph: action k takes the k-th link of a node, or stays where there is none; the last stays."""
    size, ends = len(names), np.array(links)
    sources, targets = np.concatenate([ends, ends[:, ::-1]]).T
    order = np.argsort(sources, kind="stable")
    sources, targets = sources[order], targets[order]
    degrees = np.bincount(sources, minlength=size)
    port = np.arange(len(sources)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    to = np.tile(np.arange(size)[:, None], (1, int(degrees.max()) + 1))
    to[sources, port] = targets
    here = np.arange(size)
    matrices = [
        sp.csr_array(
            (np.repeat([1 - fails, fails], size), (np.tile(here, 2), np.append(column, here))), shape=(size, size)
        )
        for column in to.T
    ]
    return veil.Model(matrices, rewards, names[start], state_names=names)


def graph_distances(links: list[Link], size: int, source: int = 0) -> np.ndarray:
    """The links between a node and each other."""
    return shortest_path(_adjacency(links, size), directed=False, unweighted=True, indices=source)


def _adjacency(links: list[Link], size: int) -> sp.csr_array:
    ends = np.array(links)
    return sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))


class _Campus:
    """Nodes are numbered: crossings, then the nodes of paths, then building by building, its entrance first."""

    def __init__(self) -> None:
        self.links: list[Link] = []
        self.names: list[str] = []
        self.buildings: list[list[int]] = []
        self.entered: list[int] = []  # the crossing before each building
        self.crossings = 0

    def add(self, name: str, *beside: int) -> int:
        """A further node with links to some others."""
        self.names.append(name)
        self.links += [(other, len(self.names) - 1) for other in beside]
        return len(self.names) - 1


def _draw_campus(generator: np.random.Generator, size: int) -> _Campus:
    """Crossings at random places, joined by a tree and half of the other near pairs; buildings with a corridor of rooms."""
    drawn, inside = _Campus(), int(generator.integers(10, 19))
    count = max(3, round(0.65 * size / inside))
    drawn.crossings = max(4, round(1.2 * count))
    places = generator.random((drawn.crossings, 2))
    corners = Delaunay(places).simplices
    pairs = np.unique(
        np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]]), axis=1), axis=0
    )
    lengths = np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)
    graph = sp.csr_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(drawn.crossings,) * 2)
    kept = {(min(a, b), max(a, b)) for a, b in np.argwhere(minimum_spanning_tree(graph).toarray() > 0).tolist()}
    kept |= {
        (int(a), int(b))
        for (a, b), length in zip(pairs, lengths, strict=True)
        if length < np.median(lengths) and generator.random() < 0.5
    }
    for number in range(drawn.crossings):
        drawn.add(f"crossing{number}")
    left = size - drawn.crossings - count * inside
    scale = max(1.0, left / len(kept)) / np.mean([np.linalg.norm(places[a] - places[b]) for a, b in kept])
    for a, b in sorted(kept):
        last = a
        for step in range(max(1, round(scale * float(np.linalg.norm(places[a] - places[b]))))):
            last = drawn.add(f"path{a}-{b}.{step}", last)
        drawn.links.append((b, last))
    for number in range(count):
        drawn.entered.append(int(generator.integers(drawn.crossings)))
        entrance = drawn.add(f"building{number}.entrance", drawn.entered[-1])
        nodes, corridor = [entrance], entrance
        for room in range((inside - 1) // 2):
            corridor = drawn.add(f"building{number}.hall{room}", corridor)
            nodes += [corridor, drawn.add(f"building{number}.room{room}", corridor)]
        drawn.buildings.append(nodes)
    return drawn


def _campus_roles(generator: np.random.Generator, drawn: _Campus, horizon: int) -> tuple[int, int, list[int]] | None:
    """The crossing of the start, the building of the office and the laboratories; None where the time does not suffice."""
    start = int(generator.integers(drawn.crossings))
    from_start = graph_distances(drawn.links, len(drawn.names), start)
    entrances = np.array([nodes[0] for nodes in drawn.buildings])
    offices = [one for one, far in enumerate(from_start[entrances]) if 0.05 * horizon <= far <= 0.25 * horizon]
    if not offices:
        return None
    office = pick(generator, offices)
    ways = graph_distances(drawn.links, len(drawn.names), drawn.buildings[office][2])[entrances]
    near = [
        one for one in generator.permutation(len(entrances)).tolist() if one != office and ways[one] <= 0.25 * horizon
    ]
    if len(near) < 2:
        return None
    others = [one for one in range(len(entrances)) if one not in (office, *near[:2])]
    more = generator.permutation(others)[: max(0, len(entrances) // 3 - 1)].tolist()
    return start, office, [near[0], *more]


def _campus_problem(
    generator: np.random.Generator, drawn: _Campus, roles: tuple[int, int, list[int]], horizon: int, seed: int
) -> veil.Problem:
    start, office, laboratories = roles
    size = len(drawn.names)
    used = sorted(set(drawn.entered) | set(generator.permutation(drawn.crossings)[: drawn.crossings // 4].tolist()))
    order = generator.permutation([one for one in used if one != start])[:14]
    groups = [order[place : place + 2] for place in range(0, len(order), 2)]
    around = shortest_path(_adjacency(drawn.links, size), directed=False, unweighted=True, indices=order)
    outside = np.array([not name.startswith("building") for name in drawn.names])
    emissions = np.zeros((size, 1 + len(groups)))
    watched = np.full(size, -1)
    for number, crossing in enumerate(order):
        watched[outside & (around[number] <= 1) & (watched < 0)] = number // 2
        watched[crossing] = number // 2
    rate = generator.uniform(0.8, 0.9, size=len(groups))
    seen = np.flatnonzero(watched >= 0)
    emissions[:, 0] = 1.0
    emissions[seen, 0] -= rate[watched[seen]]
    emissions[seen, 1 + watched[seen]] = rate[watched[seen]]
    rewards = np.zeros(size)
    rewards[drawn.buildings[office][2::2]] = 1.0
    model = graph_model(drawn.links, drawn.names, rewards, start=start, fails=0.05)
    states = [drawn.names[node] for building in laboratories for node in drawn.buildings[building]]
    observer = veil.Observer(emissions, ["0", *(f"camera{number}" for number in range(len(groups)))])
    name = f"campus {seed}, {size:,} nodes"
    return veil.Problem(model, observer, veil.LastState(states), horizon, "50%", name=name)
