"""The guard's side: which camera to look at, what a visitor can do about it, and both answering each other.

Run it as `python examples/guard.py`; with `--picture` it also writes docs/figures/guard.png.
"""

import sys
from pathlib import Path

import numpy as np

import veil
from veil.engine.chain import make_chain

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "guard.png"
DRAWING = """
S  n  n  .  .
.  .  m  m  .
S  .  m  m  .
.  .  s  .  .
S  s  s  .  .
"""
CAMERAS = {"n": "north", "m": "middle", "s": "south"}


def visitor() -> veil.Problem:
    """The problem of the visitor: three doors, three cameras, five steps."""
    sensors = {sign: veil.Sensor(name, detection=0.8) for sign, name in CAMERAS.items()}
    world = veil.GridWorld.from_ascii(DRAWING, sensors=sensors, slip=0.1)
    return world.problem(5, secret=veil.InitialState(), name="camera-guard")


def asked(guard: veil.Problem, policy: veil.HistoryPolicy) -> np.ndarray:
    """The probability of each query at each time, `(T, queries)`."""
    followed = make_chain(guard, policy).followed
    assert followed is not None
    shares = zip(followed.occupancies(), followed.layers, strict=True)
    return np.array([share @ layer.choice for share, layer in shares][: guard.horizon])


def draw(queries: list[str], before: np.ndarray, after: np.ndarray) -> None:
    """Which camera is asked at which time, against two visitors."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True, layout="constrained")
    for axis, shares, title in zip(axes, (before, after), ("a visitor that wanders", "one that answers"), strict=True):
        bottom = np.zeros(len(shares))
        for number, name in enumerate(queries):
            axis.bar(range(len(shares)), shares[:, number], 0.8, bottom, label=name, color=f"C{number}")
            bottom += shares[:, number]
        axis.set(title=f"Against {title}", xlabel="time")
    axes[0].set_ylabel("probability of a query")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})
    print("wrote", PICTURE)


def main() -> None:
    """Plan for the guard, then for the visitor, then for both in turns."""
    problem = visitor()
    querying = veil.Querying(walker=veil.MarkovPolicy.uniform(problem))
    guard = querying.apply(problem)
    plan = veil.best_queries(guard, time_limit=10)
    print("Against a visitor that wanders:")
    print(plan.summary())
    uniform = veil.opacity(guard, veil.MarkovPolicy.uniform(guard))
    print(f"asking uniformly     {uniform.bits:.6f} bits\n")
    rounds = veil.best_responses(problem, querying, rounds=3, time_limit=30)
    print("Guard and visitor answer each other, each knowing the other's policy:")
    print(rounds.summary())
    print(f"\nProven: the visitor keeps at least {rounds.lower:.4f} and at most {rounds.upper:.4f} bits.")
    if "--picture" in sys.argv:
        last = rounds.rounds[-1]
        other = veil.Querying(walker=last.walker).apply(problem)
        draw(list(guard.model.actions.all()), asked(guard, plan.policy), asked(other, last.plan.policy))


if __name__ == "__main__":
    main()
