"""Maps as robots record them, with bounds on energy, hazard and a formula that a known policy meets."""

import numpy as np

import veil
from benchmarks.layouts import DRAWS, PACE, Cell, Layout, box, cameras, draw_ranges, draw_rooms, half_of, pick


def maps(seed: int, size: int = 1300) -> veil.Problem:
    """A map as robots record them: cluttered rooms, four cameras. Does the run end in the labs, in the stores or elsewhere?

    40% of the largest return is asked for; the energy of moves and the decisions on hazardous cells are bounded, and in every
    second problem the dock has to be reached with probability 0.9. The bounds are those of a policy that goes to the dock and
    from there to the labs, to the stores or to a room like them, each with probability 1/3, and a tenth more: all constraints
    can be met together, and that policy is a start from which much can be hidden.
    """
    generator, horizon = np.random.default_rng([5, seed]), round(80 * (size / 1300) ** 0.4)
    for _ in range(DRAWS):
        plan = _cluttered(generator, draw_rooms(generator, round(1.02 * size), (8.0, 12.0), extra=0.4))
        found = _map_roles(generator, plan, horizon)
        if found is None:
            continue
        start, dock, targets, way = found
        hazards = _hazards(generator, plan, dock[0], horizon)
        ranges = [targets[0] + half_of(generator, targets[1]), targets[1] + half_of(generator, targets[2])]
        ranges += draw_ranges(generator, plan, targets, 2)
        world = veil.GridWorld(
            plan.rows,
            plan.columns,
            walls=plan.walls,
            slip=0.1,
            starts=start,
            goals=dict.fromkeys(dock, 1.0),
            sensors=cameras(generator, ranges),
        )
        grid = world.model()
        energy, hazard = np.ones_like(grid.rewards), np.zeros_like(grid.rewards)
        energy[:, -1] = 0.3
        hazard[[plan.number[cell] for cell in hazards]] = 1.0
        rewards = {"reward": grid.rewards, "energy": energy, "hazard": hazard}
        model = veil.Model(grid.matrices, rewards, grid.initial, state_names=list(grid.states.all()),
                           action_names=list(grid.actions.all()))  # fmt: skip
        groups = {"labs": plan.states(targets[0]), "stores": plan.states(targets[1])}
        secret = veil.LastState(groups=groups)
        free = veil.Problem(model, world.observer(), secret, horizon, "40%", layout=world.layout)
        values = _witness(free, [plan.states(cells) for cells in targets], horizon - round(1.2 * PACE * way) - 2)
        earned, spent, hurt, arrived = values
        if earned < 0.42 * veil.max_return(free) or arrived < 0.92:
            continue
        constraints: list[veil.Return | veil.Probability] = [veil.Return(max=round(1.1 * spent, 2), reward="energy"),
                       veil.Return(max=round(1.1 * hurt + 0.5, 2), reward="hazard")]  # fmt: skip
        if seed % 2:
            constraints.append(veil.Probability("F dock", min=0.9, labels={"dock": plan.states(dock)}))
        return free.replace(constraints=constraints, name=f"map {seed}, {world.num_states:,} cells")
    raise RuntimeError(f"no map of {size} cells in {DRAWS} draws (seed {seed})")


def _cluttered(generator: np.random.Generator, plan: Layout) -> Layout:
    """The same rooms with furniture of one to four cells, away from walls and doors."""
    walls = set(plan.walls)
    for room in plan.rooms:
        (top, left), (bottom, right) = room[0], room[-1]
        if min(bottom - top, right - left) < 3:
            continue
        for _ in range(int(generator.integers(0, 4))):
            corner = int(generator.integers(top + 1, bottom)), int(generator.integers(left + 1, right))
            height, width = (int(length) for length in generator.integers(1, 3, size=2))
            piece = {(r, c) for r, c in box(corner, height, width) if top < r < bottom and left < c < right}
            walls |= piece
    rooms = tuple(tuple(cell for cell in room if cell not in walls) for room in plan.rooms)
    return Layout(plan.rows, plan.columns, frozenset(walls), rooms, plan.doors)


def _hazards(generator: np.random.Generator, plan: Layout, dock: Cell, horizon: int) -> list[Cell]:
    """Three patches that runs from the dock may pass; not at the dock itself."""
    from_dock = plan.distances(dock)
    near = [cell for cell in plan.cells if 3 < from_dock[plan.number[cell]] < 0.25 * horizon]
    return plan.inside(cell for _ in range(3) for cell in box(pick(generator, near), 3, 3))


def _map_roles(
    generator: np.random.Generator, plan: Layout, horizon: int
) -> tuple[Cell, list[Cell], list[list[Cell]], float] | None:
    """Start, dock, the rooms to end in (labs, stores, neither) and the longest way to them from the dock; None: no time."""
    order = [int(room) for room in generator.permutation(len(plan.rooms))]
    start = pick(generator, plan.rooms[order[0]])
    from_start = plan.distances(start)
    if not np.isfinite(from_start).all():
        return None
    for room in order[1:]:
        centre = pick(generator, plan.rooms[room])
        if not 0.12 * horizon <= PACE * from_start[plan.number[centre]] <= 0.3 * horizon:
            continue
        from_dock = plan.distances(centre)
        left = horizon - PACE * from_start[plan.number[centre]]
        ways = {other: plan.nearest(from_dock, plan.rooms[other]) for other in order[1:] if other != room}
        near = [other for other, way in ways.items() if 0.1 * left <= PACE * way <= 0.4 * left]
        if len(near) >= 3:
            dock = plan.inside(box(centre, 2, 2))
            return start, dock, [list(plan.rooms[other]) for other in near[:3]], max(ways[other] for other in near[:3])
    return None


def _witness(problem: veil.Problem, targets: list[list[str]], leaves: int) -> tuple[float, float, float, float]:
    """Return, energy and hazard of the policy that earns until it leaves for one of the targets, and P(F dock) by then."""
    model = problem.model
    docked = model.rewards[:, 0] > 0
    earn = _best_actions(model, docked.astype(float), leaves)
    sums, flow, away = np.zeros(3), model.initial, model.initial
    for actions in earn:
        sums += _paid(model, flow, actions)
        flow, away = (_moved(model, one, actions) for one in (flow, np.where(docked, 0.0, away)))
    arrived = 1 - float(away[~docked].sum())
    for states in targets:
        inside = np.isin(list(model.states.all()), states).astype(float)
        ahead = flow
        for actions in _best_actions(model, inside, problem.horizon - leaves):
            sums += _paid(model, ahead, actions) / len(targets)
            ahead = _moved(model, ahead, actions)
    earned, spent, hurt = (float(total) for total in sums)
    return earned, spent, hurt, arrived


def _best_actions(model: veil.Model, wanted: np.ndarray, steps: int) -> list[np.ndarray]:
    """For each decision the action of each state that spends most time where it is wanted, with little energy and hazard."""
    costs = 1e-3 * model.named_rewards["energy"].paid + 0.3 * model.named_rewards["hazard"].paid
    value, result = wanted, list[np.ndarray]()
    for _ in range(steps):
        ahead = np.stack([matrix @ value for matrix in model.matrices], axis=1) - costs
        result.append(ahead.argmax(axis=1))
        value = wanted + ahead.max(axis=1)
    return result[::-1]


def _moved(model: veil.Model, flow: np.ndarray, actions: np.ndarray) -> np.ndarray:
    return sum(
        (matrix.T @ np.where(actions == action, flow, 0.0) for action, matrix in enumerate(model.matrices)),
        np.zeros_like(flow),
    )


def _paid(model: veil.Model, flow: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """What the rewards pay for a decision, each in its order."""
    here = np.arange(len(flow))
    return np.array([flow @ one.paid[here, actions] for one in model.named_rewards.values()])
