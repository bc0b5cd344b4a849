"""Families of freshly seeded problems: each function makes a `veil.Problem` from a seed and a number of states.

The same seed and size give the same problem. Seeds 0 to 9 are for development (`HALVES["dev"]`), seeds 10 to 19 are held
out: nothing may be tuned on them. Problems are drawn again until what they ask for is possible by distances: time to earn
the return and then to end where the observer cannot tell.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import scipy.sparse as sp

import veil
from benchmarks.graph_worlds import campus, networks
from benchmarks.layouts import (
    DRAWS,
    PACE,
    Cell,
    Layout,
    box,
    cameras,
    draw_ranges,
    draw_rooms,
    half_of,
    horizon_of,
    pick,
)
from benchmarks.map_worlds import maps

HALVES = {"dev": range(10), "held-out": range(10, 20)}


def floors(seed: int, size: int = 800) -> veil.Problem:
    """A floor of rooms. Did the run end in the secret room?

    One start, a dock of one to three cells that pays for each decision there, and half of the largest return is asked for. One
    camera covers the secret room and half of a room beside it; three to five others cover rectangles anywhere, at most half of
    either. Moves slip to each side with probability 0.1; one floor in three has false alarms.
    """
    generator, horizon = np.random.default_rng([1, seed]), horizon_of(size)
    for _ in range(DRAWS):
        plan = draw_rooms(generator, size, (6.0, 10.0), extra=0.5)
        found = _floor_roles(generator, plan, horizon)
        if found is not None:
            break
    else:
        raise RuntimeError(f"no floor of {size} cells in {DRAWS} draws (seed {seed})")
    start, dock, secret, alike = found
    ranges = [[*secret, *alike], *draw_ranges(generator, plan, [secret, alike], int(generator.integers(3, 6)))]
    world = veil.GridWorld(
        plan.rows,
        plan.columns,
        walls=plan.walls,
        slip=0.1,
        starts=start,
        goals=dict.fromkeys(dock, 1.0),
        secrets=secret,
        sensors=cameras(generator, ranges, false_alarm=0.02 if seed % 3 == 2 else 0.0),
    )
    return world.problem(horizon, min_return="50%", name=f"floor {seed}, {world.num_states:,} cells")


def _floor_roles(
    generator: np.random.Generator, plan: Layout, horizon: int
) -> tuple[Cell, list[Cell], list[Cell], list[Cell]] | None:
    """Start, dock, secret room and the half of a room that looks the same; None where the time does not suffice."""
    order = [int(room) for room in generator.permutation(len(plan.rooms))]
    start = pick(generator, plan.rooms[order[0]])
    from_start = plan.distances(start)
    centre, dock_room = next(
        (
            (cell, room)
            for room in order[1:]
            if 0.15 * horizon
            <= PACE * from_start[plan.number[cell := pick(generator, plan.rooms[room])]]
            <= 0.35 * horizon
        ),
        (None, -1),
    )
    if centre is None:
        return None
    row, column = centre
    dock = plan.inside([(row, column), (row, column + 1), (row + 1, column)][: int(generator.integers(1, 4))])
    from_dock = plan.distances(centre)
    left = horizon - PACE * from_start[plan.number[centre]]  # decisions in which all could be earned
    for room in order[1:]:
        others = [other for other in plan.beside(room) if other not in (order[0], dock_room)]
        if room == dock_room or not others:
            continue
        alike = half_of(generator, plan.rooms[pick(generator, others)])
        ways = [PACE * plan.nearest(from_dock, cells) for cells in (plan.rooms[room], alike)]
        if 0.15 * left <= max(ways) <= 0.42 * left:
            return start, dock, list(plan.rooms[room]), alike
    return None


def warehouses(seed: int, size: int = 350) -> veil.Problem:
    """Aisles between racks. At which of three docks, or elsewhere, does the run end?

    Two to four stations in the aisles pay for each decision there, and half of the largest return is asked for. The docks lie
    in the lowest cross aisle: one camera covers the first two, another the last two with a stretch of the cross aisle. Each
    aisle has a camera for a part of it, some of which reach into the aisle beside it.
    """
    generator, horizon = np.random.default_rng([2, seed]), horizon_of(size)
    plan, lanes = _draw_aisles(generator, size)
    bottom, middle = plan.rows - 1, plan.columns // 2
    gap = max(3, min(plan.columns // 3, round(0.15 * horizon)))
    docks = [
        plan.inside((bottom, middle + shift + step) for step in range(-1, 1 + (gap > 3))) for shift in (-gap, 0, gap)
    ]
    far = plan.distances((bottom, middle)) / horizon
    start = pick(generator, [cell for cell, share in zip(plan.cells, far, strict=True) if 0.2 <= share <= 0.35])
    between = plan.distances(start) / horizon
    near = [
        cell
        for cell, share, other in zip(plan.cells, far, between, strict=True)
        if cell[1] in lanes and cell[0] < bottom and 0.08 <= share <= 0.25 and other <= 0.3
    ]
    stations = {pick(generator, near): 1.0 for _ in range(int(generator.integers(2, 5)))}
    ranges = [docks[0] + docks[1], docks[1] + docks[2] + box((bottom, middle - gap // 2), 1, 3)]
    watched = [lane for lane in lanes if abs(lane - middle) <= 2 * gap][:6]
    for lane in watched:
        top = int(generator.integers(1, max(2, plan.rows // 2)))
        width = int(generator.integers(1, 4))
        ranges.append(box((top + plan.rows // 4, lane), plan.rows // 2, width))
    world = veil.GridWorld(
        plan.rows,
        plan.columns,
        walls=plan.walls,
        slip=0.1,
        starts=start,
        goals=stations,
        sensors=cameras(generator, [plan.inside(cells) for cells in ranges]),
    )
    groups = {f"dock{number}": plan.states(cells) for number, cells in enumerate(docks, 1)}
    name = f"warehouse {seed}, {world.num_states:,} cells"
    return world.problem(horizon, secret=veil.LastState(groups=groups), min_return="50%", name=name)


def _draw_aisles(generator: np.random.Generator, size: int) -> tuple[Layout, list[int]]:
    """Racks one or two cells wide between aisles of one cell, with three cross aisles; and the columns of the aisles."""
    rack, stretch = int(generator.integers(1, 3)), float(generator.uniform(0.6, 0.9))
    columns = round(np.sqrt(size * (1 + rack) * 0.75 / stretch))
    lanes = list(range(int(generator.integers(rack + 1)), columns, rack + 1))
    rows = 6
    while (rows + 1) * len(lanes) + 3 * (columns - len(lanes)) <= size:
        rows += 1
    crossing = (0, rows // 2 + int(generator.integers(-1, 2)), rows - 1)
    walls = {(r, c) for r, c in product(range(rows), range(columns)) if r not in crossing and c not in lanes}
    return Layout(rows, columns, frozenset(walls), (), ()), lanes


def yards(seed: int, size: int = 600) -> veil.Problem:
    """An open yard with some obstacles. At which of two to four gates did the run begin?

    The gates lie along one side and the dock across the yard; 75% of the largest return is asked for. Bands of cameras lie
    between them, each over a part of the width, so that a run that goes straight ahead tells its gate.
    """
    generator, horizon = np.random.default_rng([3, seed]), horizon_of(size)
    plan = _draw_yard(generator, size)
    count = int(generator.integers(2, 5))
    spread = min(plan.columns - 2, max(count * 2, round(0.45 * horizon)))
    left = int(generator.integers(0, plan.columns - spread))
    gates = [(0, round(left + place)) for place in np.linspace(0, spread, count)]
    centre = round(left + float(generator.uniform(0.2, 0.8)) * spread)
    depth = min(plan.rows - 1, round(0.25 * horizon))
    distances = plan.distances(gates[0])
    around = [
        cell for cell in box((depth, centre), 3, 3) if cell in plan.number and np.isfinite(distances[plan.number[cell]])
    ]
    docks = around[: int(generator.integers(1, 4))]
    ranges = []
    for _ in range(int(generator.integers(4, 7))):
        row, width = int(generator.integers(1, depth)), int(generator.integers(spread // 3, spread))
        column = left + int(generator.integers(0, spread + 1))
        ranges.append(plan.inside(box((row, column), int(generator.integers(1, 4)), width)))
    world = veil.GridWorld(
        plan.rows,
        plan.columns,
        walls=plan.walls,
        slip=0.1,
        starts=gates,
        goals=dict.fromkeys(docks, 1.0),
        sensors=cameras(generator, ranges, false_alarm=0.02 if seed % 3 == 2 else 0.0),
    )
    name = f"yard {seed}, {world.num_states:,} cells"
    return world.problem(horizon, secret=veil.InitialState(), min_return="75%", name=name)


def _draw_yard(generator: np.random.Generator, size: int) -> Layout:
    """A rectangle with obstacles of two to six cells; the first and the last row stay free."""
    stretch = float(generator.uniform(0.7, 1.4))
    rows, columns = round(np.sqrt(size * 1.06 * stretch)), round(np.sqrt(size * 1.06 / stretch))
    walls: set[Cell] = set()
    while len(walls) < 0.06 * rows * columns:
        corner = int(generator.integers(2, rows - 2)), int(generator.integers(columns))
        height, width = (int(length) for length in generator.integers(1, 3, size=2))
        walls |= {(r, c) for r, c in box(corner, height, width) if 1 < r < rows - 1 and 0 <= c < columns}
    return Layout(rows, columns, frozenset(walls), (), ())


def masks(seed: int, size: int = 180) -> veil.Problem:
    """A robot drifts over a small grid; each step the agent masks one of four sensors or none. Does it end in a goal cell?

    `size` counts states with masks. A masked sensor is silent and the mask is seen; masks cost, half as much when kept, and at
    most 30% of the largest sum may be spent. In every second problem the agent also chooses between two drifts and has to earn
    40% of the largest return.
    """
    generator = np.random.default_rng([4, seed])
    side = max(4, round(np.sqrt(size / 5)))
    horizon, moving = round(1.5 * side), seed % 2 == 1
    drifts = [_drift(side, generator.dirichlet(weights)) for weights in ((8.0, 7.0, 3.0, 2.0), (3.0, 9.0, 3.0, 5.0))]
    reach = max(2, side // 3)
    corners = [(0, side // 3), (side // 3, 0), (side // 3, side // 2), (2 * side // 3, side // 3)]
    shifts = generator.integers(0, 2, size=(4, 2)).tolist()
    ranges = [
        {(r + down + i, c + right + j) for i, j in product(range(reach), repeat=2)}
        for (r, c), (down, right) in zip(corners, shifts, strict=True)
    ]
    cells = list(product(range(side), range(side)))
    inside = [cell for cell in cells if cell[0] > 0 and cell[1] > 1]
    goals = [inside[number] for number in generator.choice(len(inside), size=max(3, len(inside) // 4), replace=False)]
    rewards = np.array([float(cell in goals) for cell in cells])
    initial = {f"r{row}c0": 1 / (side - 2) for row in range(side - 2)}
    names = [f"r{row}c{column}" for row, column in cells]
    chosen = drifts if moving else drifts[:1]
    model = veil.Model(chosen, np.tile(rewards[:, None], len(chosen)), initial, state_names=names)
    base = veil.Problem(
        model,
        _masked_observer(cells, ranges),
        veil.LastState([name for name, reward in zip(names, rewards, strict=True) if reward]),
        horizon,
        "40%" if moving else None,
        name=f"masks {seed}, {5 * len(cells)} states",
    )
    costs = {f"sensor{number}": float(cost) for number, cost in enumerate(generator.integers(5, 31, size=4))}
    budget = veil.Return(max="30%", reward="masking")
    return veil.Masks(costs=costs, keep_discount=0.5).apply(base, [budget])


def _drift(side: int, chances: np.ndarray) -> sp.csr_array:
    """Moves east, south, north and west with some chances; the border holds what would leave."""
    rows, columns = np.divmod(np.arange(side * side), side)
    total = sp.csr_array((side * side, side * side))
    for (down, right), chance in zip(((0, 1), (1, 0), (-1, 0), (0, -1)), chances, strict=True):
        target = np.clip(rows + down, 0, side - 1) * side + np.clip(columns + right, 0, side - 1)
        total = total + sp.csr_array(
            (np.full(side * side, chance), (np.arange(side * side), target)), shape=total.shape
        )
    return sp.csr_array(total)


def _masked_observer(cells: list[Cell], ranges: list[set[Cell]]) -> veil.Observer:
    """Four sensors, the last one in whose range a cell lies reports it with probability 0.85."""
    emissions = np.zeros((len(cells), 5))
    for row, cell in zip(emissions, cells, strict=True):
        heard = max((number for number, covered in enumerate(ranges, 1) if cell in covered), default=0)
        row[heard] += 0.85
        row[0] += 0.15
    names = ["0", *(f"sensor{number}" for number in range(4))]
    return veil.Observer(emissions, names, sensors={name: {name: "0"} for name in names[1:]})


FAMILIES: dict[str, Callable[..., veil.Problem]] = {
    "floors": floors,
    "warehouses": warehouses,
    "networks": networks,
    "yards": yards,
    "masks": masks,
    "campus": campus,
    "maps": maps,
}

SMALLEST = {"floors": 100, "warehouses": 100, "networks": 100, "yards": 100, "masks": 80, "campus": 100, "maps": 300}


def make(family: str, seed: int, size: int | None = None) -> veil.Problem:
    """The problem of a family; of the family's own size if none is given.

    **Raises:** `KeyError` for a family that is not in `FAMILIES`.
    """
    return FAMILIES[family](seed) if size is None else FAMILIES[family](seed, size)
