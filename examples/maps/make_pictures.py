"""The pictures of docs/tutorials/maps.md: the office of 60 × 80 cells, planned for two minutes.

Run it from this folder: python make_pictures.py
"""

from pathlib import Path

import veil
from veil.report import plot

OUT = Path(__file__).parents[2] / "docs" / "figures"
ZONES = {
    "vault": [(20.5, 19), (30, 19), (30, 29), (20.5, 29)],
    "archive": [(10.5, 1), (20, 1), (20, 11), (10.5, 11)],
    "charger": [(32, 13), (35, 13), (35, 17), (32, 17)],
}


def main() -> None:
    """Plan and draw."""
    world = veil.from_map(
        Path(__file__).with_name("office.yaml"),
        cell_size=0.5,
        starts=(18, 15),
        goals={"charger": 0.05},
        zones=ZONES,
        sensors=[
            veil.Sensor.cone((38.5, 15), "west", 60, 12, name="east", edge=0.3),
            veil.Sensor.disc((18, 12.5), 4, name="lobby"),
        ],
    )
    problem = world.problem(60, secret=["vault", "archive"], min_return="40%", name="patrol")
    solution = veil.solve(problem, time_limit=120, certificate=False)
    print(solution)
    for name, figure in (
        ("policy", plot.policy(problem, solution.policy)),
        ("occupancy", plot.occupancy(problem, solution.policy)),
    ):
        figure.savefig(OUT / f"map-{name}.png", dpi=110, metadata={"Software": None})
        print("wrote", OUT / f"map-{name}.png")


if __name__ == "__main__":
    main()
