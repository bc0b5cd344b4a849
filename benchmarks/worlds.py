"""Families of freshly seeded problems: each function makes a `veil.Problem` from a seed and a number of states.

The same seed and size give the same problem. Seeds 0 to 9 are for development (`HALVES["dev"]`), seeds 10 to 19 are held
out: nothing may be tuned on them. Problems are drawn again until what they ask for is possible by distances: time to earn
the return and then to end where the observer cannot tell.
"""

from collections.abc import Callable

import numpy as np

import veil
from benchmarks.layouts import PACE, Cell, Layout, box, cameras, draw_rooms, half_of, horizon_of, pick

HALVES = {"dev": range(10), "held-out": range(10, 20)}
_DRAWS = 200


def floors(seed: int, size: int = 800) -> veil.Problem:
    """A floor of rooms. Did the run end in the secret room?

    One start, a dock of one to three cells that pays for each decision there, and half of the largest return is asked for. One
    camera covers the secret room and half of a room beside it; three to five others cover rectangles anywhere, at most half of
    either. Moves slip to each side with probability 0.1; one floor in three has false alarms.
    """
    generator, horizon = np.random.default_rng([1, seed]), horizon_of(size)
    for _ in range(_DRAWS):
        plan = draw_rooms(generator, size, (6.0, 10.0), extra=0.5)
        found = _floor_roles(generator, plan, horizon)
        if found is not None:
            break
    else:
        raise RuntimeError(f"no floor of {size} cells in {_DRAWS} draws (seed {seed})")
    start, dock, secret, alike = found
    ranges = [[*secret, *alike], *_other_ranges(generator, plan, [secret, alike], int(generator.integers(3, 6)))]
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


def _other_ranges(
    generator: np.random.Generator, plan: Layout, spared: list[list[Cell]], count: int
) -> list[list[Cell]]:
    """Rectangles of cells, none of which covers more than half of any of the sets to spare."""
    typical = int(np.sqrt(len(plan.cells) / len(plan.rooms)))
    result: list[list[Cell]] = []
    while len(result) < count:
        height, width = (int(length) for length in generator.integers(max(2, typical // 2), typical + 3, size=2))
        covered = plan.inside(box(pick(generator, plan.cells), height, width))
        if all(2 * len(set(covered) & set(cells)) <= len(cells) for cells in spared):
            result.append(covered)
    return result


FAMILIES: dict[str, Callable[[int, int], veil.Problem]] = {"floors": floors}
SIZES = {"floors": 800}
