"""Problems of the planning suite, made from a few numbers each: floors of rooms, open grids, networks, masks."""

from itertools import product

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

import veil

Cell = tuple[int, int]


def floor_of_rooms(
    rooms: tuple[int, int], size: int, horizon: int, *, slip: float = 0.05, seed: int = 0, share: str = "50%"
) -> veil.Problem:
    """Square rooms in rows and columns with a door in each shared wall, every other doorway watched.

    The start is in the first room, the goals lie in the middle of the farthest rooms within the horizon, and the secret is
    whether the agent ends in one of the rooms of every second diagonal.
    """
    down, across = rooms
    pitch, generator = size + 1, np.random.default_rng(seed)
    rows, columns = down * pitch - 1, across * pitch - 1
    walls = {(r, c) for r, c in product(range(rows), range(columns)) if r % pitch == size or c % pitch == size}
    doors: list[Cell] = []
    for i, j in product(range(down), range(across)):
        at = int(generator.integers(1, size - 1))
        if j + 1 < across:
            doors.append((i * pitch + at, j * pitch + size))
        if i + 1 < down:
            doors.append((i * pitch + size, j * pitch + at))
    walls -= set(doors)
    middle = size // 2

    def room(i: int, j: int) -> list[Cell]:
        return [(i * pitch + r, j * pitch + c) for r, c in product(range(size), range(size))]

    near = [(i, j) for i, j in product(range(down), range(across)) if 0 < (i + j) * pitch <= 0.6 * horizon]
    far = max(i + j for i, j in near)
    goals = {(i * pitch + middle, j * pitch + middle): 1.0 for i, j in near if i + j == far}
    secrets = [cell for i, j in product(range(down), range(across)) if (i + j) % 4 == 2 for cell in room(i, j)]
    names = "abcdefgh"
    watched: dict[str, list[Cell]] = {}
    for number, (r, c) in enumerate(doors[::2]):
        around = [(r + x, c + y) for x, y in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))]
        watched.setdefault(names[number % len(names)], []).extend(cell for cell in around if cell not in walls)
    ranges = {name: [cell for cell in set(cells) if 0 <= cell[0] < rows and 0 <= cell[1] < columns]
              for name, cells in watched.items()}  # fmt: skip
    world = veil.GridWorld(
        rows,
        columns,
        walls=walls,
        slip=slip,
        starts=(middle, middle),
        goals=goals,
        secrets=secrets,
        sensors=[veil.Sensor(name, cells, 0.9) for name, cells in ranges.items()],
    )
    return world.problem(horizon, min_return=share, name=f"floor, {world.num_states:,} cells")


def open_grid(size: int, horizon: int, *, share: str = "50%") -> veil.Problem:
    """An open square: the start in a corner, one goal, three secret cells away from it, and four sensors around.

    A stationary policy has to leave the goal at random times to end in a secret cell half of the time.
    """
    middle = max(4, round(0.18 * horizon))
    gap = max(2, round(0.06 * horizon))
    secrets = [(middle + gap, middle), (middle, middle + gap), (middle + gap, middle + gap)]
    width = max(1, gap // 2)
    spots = {"a": (gap, gap), "b": (middle + gap, middle - gap), "c": (middle - gap, middle + gap),
             "d": (middle + gap, middle + gap)}  # fmt: skip
    sensors = [
        veil.Sensor(
            name,
            [
                (r + x, c + y)
                for x, y in product(range(-width, width + 1), repeat=2)
                if 0 <= r + x < size and 0 <= c + y < size
            ],
            0.85,
        )
        for name, (r, c) in spots.items()
    ]
    world = veil.GridWorld(
        size, size, slip=0.1, starts=(0, 0), goals={(middle, middle): 1.0}, secrets=secrets, sensors=sensors
    )
    return world.problem(horizon, min_return=share, name=f"open grid {size} × {size}")


def watched_grid(size: int, horizon: int, *, share: str = "50%") -> veil.Problem:
    """An open square whose two goals lie inside the ranges of two sensors; the three secret cells lie outside of them.

    A policy that stays at a goal is seen there, and one that only leaves for a secret cell gives that away by its silence: the
    gradient is zero at both.
    """
    middle, gap = max(4, round(0.15 * horizon)), max(3, round(0.07 * horizon))
    goals = [(middle, middle + gap), (middle + gap, middle)]
    secrets = [(middle + 2 * gap, middle + gap), (middle + gap, middle + 2 * gap), (middle, middle - gap)]
    width = max(1, gap // 2)
    sensors = [
        veil.Sensor(name, [(r + x, c + y) for x, y in product(range(-width, width + 1), repeat=2)], 0.9)
        for name, (r, c) in zip("ab", goals, strict=True)
    ]
    world = veil.GridWorld(
        size, size, slip=0.1, starts=(0, 0), goals=dict.fromkeys(goals, 1.0), secrets=secrets, sensors=sensors
    )
    return world.problem(horizon, min_return=share, name=f"watched grid {size} × {size}")


def network(hosts: int, horizon: int, *, ports: int = 4, seed: int = 0, share: str = "80%") -> veil.Problem:
    """An operator moves over the links of a network of hosts in offices ; two of three links are monitored.

    States are hosts and links, since what is seen is a link in use: a monitored one reports its office with probability 0.9,
    any other nothing. On a host the actions are its ports and staying; on a link, its two ends; 5% of the moves fail. Jobs
    wait on a few hosts of the farther offices, and the secret is whether the operator ends on one of the file servers.
    """
    generator, office_of = np.random.default_rng(seed), np.arange(hosts) % max(4, hosts // 20)
    offices = int(office_of.max()) + 1
    links = draw_links(hosts, office_of, ports, generator)
    size, actions = hosts + len(links), ports + 1
    to = np.tile(np.arange(size)[:, None], (1, actions))
    used = np.zeros(hosts, dtype=int)
    for number, ends in enumerate(links):
        for end in ends:
            to[end, 1 + used[end]] = hosts + number
            used[end] += 1
        to[hosts + number] = [ends[action % 2] for action in range(actions)]
    transitions = []
    for action in range(actions):
        moved = sp.csr_array((np.full(size, 0.95), (np.arange(size), to[:, action])), shape=(size, size))
        transitions.append(sp.csr_array(moved + 0.05 * sp.identity(size, format="csr")))
    emissions = np.zeros((size, 1 + offices))
    emissions[:, 0] = 1.0
    for number in (number for number in range(len(links)) if number % 3):
        emissions[hosts + number, [0, 1 + office_of[links[number][0]]]] = 0.1, 0.9
    distance = _distances(links, hosts)
    near = np.flatnonzero((distance > 1) & (2 * distance <= 0.5 * horizon))
    jobs = generator.choice(near, size=max(3, hosts // 60), replace=False)
    servers = generator.choice(np.setdiff1d(near, jobs), size=max(4, hosts // 30), replace=False)
    rewards = np.zeros((size, actions))
    rewards[jobs] = 1.0
    start = np.zeros(size)
    start[0] = 1.0
    names = [f"host{number}" for number in range(hosts)] + [f"link{a}-{b}" for a, b in links]
    model = veil.Model(transitions, rewards, start, state_names=names)
    secret = veil.LastState([names[server] for server in servers])
    return veil.Problem(model, veil.Observer(emissions), secret, horizon, share, name=f"network, {size:,} states")


def draw_links(hosts: int, office_of: np.ndarray, ports: int, generator: np.random.Generator) -> list[tuple[int, int]]:
    """A tree over all hosts, mostly inside offices, and random links on the ports that are left.

    **Arguments:** `office_of`: of each host; `ports`: the most links that a host has.
    """
    used, result = np.zeros(hosts, dtype=int), []
    for host in range(1, hosts):
        free = np.flatnonzero(used[:host] < ports - 1)
        alike = free[office_of[free] == office_of[host]]
        other = int(generator.choice(alike if len(alike) else free))
        result.append((other, host))
        used[[other, host]] += 1
    order = generator.permutation(np.repeat(np.arange(hosts), ports - used))
    seen = set(result)
    for one, two in zip(order[::2], order[1::2], strict=False):
        pair = (int(min(one, two)), int(max(one, two)))
        if pair[0] != pair[1] and pair not in seen:
            seen.add(pair)
            result.append(pair)
    return result


def _distances(links: list[tuple[int, int]], hosts: int) -> np.ndarray:
    """Links between the first host and each other."""
    ends = np.array(links)
    graph = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(hosts, hosts))
    return shortest_path(graph, directed=False, unweighted=True, indices=0)


def masks(horizon: int = 9, *, share: str = "60%") -> veil.Problem:
    """A robot drifts over a 6 × 6 grid; each step the agent masks one of four sensors or none. 180 states.

    The observer sees the mask and the reading of the sensor in range, which a mask silences; each is silent with
    probability 0.15. Masks cost, half as much when kept; the secret is whether the robot ends in a goal cell.
    """
    sensors = {1: [(0, 3), (0, 4), (1, 3), (1, 4)], 2: [(3, 3), (3, 4), (4, 3), (4, 4), (5, 3), (5, 4)],
               3: [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)], 4: [(3, 5), (4, 5), (5, 5), (2, 5)]}  # fmt: skip
    goals = [(1, 4), (3, 3), (4, 4), (2, 2), (3, 5), (5, 2)]
    return _masks(sensors, goals, (0.4, 0.35, 0.15, 0.1), horizon, share)


def random_masks(seed: int, horizon: int = 9, *, share: str = "60%") -> veil.Problem:
    """The same with sensors, goal cells and drift drawn anew."""
    generator = np.random.default_rng(seed)
    sensors: dict[int, list[Cell]] = {}
    for name, corner in zip(range(1, 5), ((0, 2), (2, 0), (2, 3), (4, 2)), strict=True):
        down, across = (int(number) for number in generator.integers(0, 2, size=2))
        sensors[name] = [(corner[0] + down + r, corner[1] + across + c) for r, c in product(range(2), range(2))]
    inside = list(product(range(1, 6), range(2, 6)))
    goals = [inside[number] for number in generator.choice(len(inside), size=6, replace=False)]
    drift = generator.dirichlet((8.0, 7.0, 3.0, 2.0))
    return _masks(sensors, goals, tuple(float(chance) for chance in drift), horizon, share)


def _masks(
    sensors: dict[int, list[Cell]], goals: list[Cell], chances: tuple[float, ...], horizon: int, share: str
) -> veil.Problem:
    side, num_masks = 6, 5
    cells = list(product(range(side), range(side)))
    covering = {cell: name for name, covered in sensors.items() for cell in covered}
    drift = np.zeros((36, 36))
    for (r, c), chance in product(cells, range(4)):
        down, right = ((0, 1), (1, 0), (-1, 0), (0, -1))[chance]
        to = (min(max(r + down, 0), side - 1), min(max(c + right, 0), side - 1))
        drift[cells.index((r, c)), cells.index(to)] += chances[chance]
    states = list(product(range(36), range(num_masks)))
    transitions = np.zeros((num_masks, len(states), len(states)))
    rewards = np.zeros((len(states), num_masks))
    costs = (0.0, 10.0, 20.0, 10.0, 30.0)
    for number, (cell, mask) in enumerate(states):
        for action in range(num_masks):
            rewards[number, action] = -costs[action] * (0.5 if action == mask else 1.0)
            for to in np.flatnonzero(drift[cell]):
                transitions[action, number, to * num_masks + action] = drift[cell, to]
    emissions = np.zeros((len(states), num_masks * 5))
    for number, (cell, mask) in enumerate(states):
        name = covering.get(cells[cell], 0)
        heard = 0.85 if name and name != mask else 0.0
        emissions[number, mask * 5 + name] += heard
        emissions[number, mask * 5] += 1 - heard
    start = np.zeros(len(states))
    start[[cells.index((row, 0)) * num_masks for row in range(4)]] = 0.25
    names = [f"r{r}c{c}m{mask}" for (r, c), mask in product(cells, range(num_masks))]
    model = veil.Model(transitions.transpose(1, 0, 2), rewards, start, state_names=names)
    observer = veil.Observer(emissions)
    secret = veil.LastState([f"r{r}c{c}m{mask}" for (r, c), mask in product(goals, range(num_masks))])
    return veil.Problem(model, observer, secret, horizon, share, name=f"masks, {len(states)} states")
