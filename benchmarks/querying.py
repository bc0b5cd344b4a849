"""Observers that choose where to look: bounds and plans on two problems of the kind that the literature uses.

Usage: `python -m benchmarks.querying [grid | patrol] [--seconds 60] [--noise 0.1]`.
"""

import argparse
import time

import numpy as np

import veil

_STEPS = ((-1, 0), (1, 0), (0, -1), (0, 1))
_STARTS = (0, 12, 30)
_COVER = ((1, 2, 7, 8), (9, 10, 15, 16), (14, 20, 21), (25, 26, 31, 32), (22, 23, 28, 29))


def _moves(size: int, stray: float) -> np.ndarray:
    """Four directions on a square; each strays to either side."""
    found = np.zeros((size * size, 4, size * size))
    for row in range(size):
        for column in range(size):
            for action in range(4):
                sides = (2, 3) if action < 2 else (0, 1)
                for taken, chance in ((action, 1 - 2 * stray), *((side, stray) for side in sides)):
                    to = row + _STEPS[taken][0], column + _STEPS[taken][1]
                    inside = min(to) >= 0 and max(to) < size
                    there = to if inside else (row, column)
                    found[row * size + column, action, there[0] * size + there[1]] += chance
    return found


def _cameras(cover: list[np.ndarray], states: int, detection: float, noise: float) -> dict[str, veil.Observer]:
    found = {}
    for number, cells in enumerate(cover):
        table = np.tile([1 - noise, noise], (states, 1))
        table[cells] = [1 - detection, detection]
        found[f"camera {number}"] = veil.Observer(table, ["quiet", f"seen by {number}"])
    return found


def grid(noise: float = 0.0) -> tuple[veil.Problem, veil.Problem]:
    """A walker on six by six cells, three starts, five sensors and eleven queries: where did it begin?

    Returned: the walker's problem and that of the querying observer.
    """
    start = np.zeros(36)
    start[list(_STARTS)] = 1 / 3
    model = veil.Model(_moves(6, 0.15), np.zeros((36, 4)), start)
    secret = veil.InitialState({f"start {number}": [cell] for number, cell in enumerate(_STARTS)})
    problem = veil.Problem(model, veil.Observer(np.ones((36, 1))), secret, 10, name="a walker on a grid")
    walker = veil.MarkovPolicy(np.tile([0.1, 0.25, 0.1, 0.55], (36, 1)))  # to the lower right corner
    sensors = _cameras([np.array(cells) for cells in _COVER], 36, 0.8, noise)
    return problem, veil.Querying(sensors, walker=walker).apply(problem)


def patrol(noise: float = 0.05) -> tuple[veil.Problem, veil.Problem]:
    """A walker on ten by ten cells and a patrol on a round of twelve posts, ten cameras: in which quadrant does it end?

    A camera that the patrol stands at sees nothing. Returned: as by `grid`.
    """
    cells, posts = _moves(10, 0.1), 12
    rng = np.random.default_rng(0)
    place = np.arange(100 * posts)
    move = np.zeros((len(place), 4, len(place)))
    for post in range(posts):
        move[post::posts, :, (post + 1) % posts :: posts] = 0.9 * cells
        move[post::posts, :, post::posts] += 0.1 * cells
    model = veil.Model(move, np.zeros((len(place), 4)), np.eye(len(place))[55 * posts])
    row, column = np.divmod(np.arange(100), 10)
    quadrant = 2 * (row >= 5) + (column >= 5)
    groups = {f"quadrant {q}": np.flatnonzero(quadrant[place // posts] == q).tolist() for q in range(4)}
    problem = veil.Problem(model, veil.Observer(np.ones((len(place), 1))), veil.LastState(groups=groups), 19,
                           name="a walker and a patrol")  # fmt: skip
    walker = veil.MarkovPolicy(np.repeat(rng.dirichlet(np.full(4, 2.0), size=100), posts, axis=0))
    centres = rng.integers(1, 9, size=(10, 2))
    cover = []
    for number, (r, c) in enumerate(centres.tolist()):
        near = (abs(row - r) <= 1) & (abs(column - c) <= 1)
        cover.append(np.flatnonzero(near[place // posts] & (place % posts != number)))
    return problem, veil.Querying(_cameras(cover, len(place), 0.85, noise), walker=walker).apply(problem)


def main() -> None:
    """Print the bounds, the plan and what it is compared with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=("grid", "patrol"), nargs="?", default="grid")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--noise", type=float, default=None, help="probability of a false alarm")
    given = parser.parse_args()
    make = {"grid": grid, "patrol": patrol}[given.which]
    _, problem = make() if given.noise is None else make(given.noise)
    begun = time.process_time()
    plan = veil.best_queries(problem, time_limit=given.seconds)
    print(
        f"{given.which}: {problem.num_states - 1} states, {problem.num_actions - 1} sensors, {problem.horizon} queries"
    )
    print(f"bounds {plan.lower:.6f} to {plan.upper:.6f}, by {plan.how}; {plan.nodes:,} beliefs")
    print(f"greedy {plan.greedy}, nothing asked {plan.blind:.6f}, all sensors at once {plan.floor}")
    if plan.drawn is not None:
        print(f"in drawn runs {plan.drawn}")
    print(f"{plan.seconds:.1f} s, {time.process_time() - begun:.1f} s of processor time")
    sequences = {"method": "sampled", "sequences": 2000}
    uniform = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), **sequences)
    print(f"asking uniformly {uniform.bits:.4f} ± {uniform.std_error:.4f}")


if __name__ == "__main__":
    main()
