"""A feature policy: planned on a floor of rooms, saved in a small file, and played on a larger floor."""

from itertools import product
from pathlib import Path

import veil

SIZE, HORIZON = 4, 30


def floor(rooms: int) -> veil.Problem:
    """Rooms of 4 × 4 cells in a square, a door in the middle of each shared wall; the secret: who ends in the second row."""
    pitch = SIZE + 1
    side = rooms * pitch - 1
    walls = {(r, c) for r, c in product(range(side), repeat=2) if SIZE in (r % pitch, c % pitch)}
    doors = {(r, c) for r, c in walls if {r % pitch, c % pitch} == {SIZE, 1}}
    world = veil.GridWorld(
        side, side, walls=walls - doors, slip=0.05, starts=(1, 1), goals={(6, 6): 1.0},
        secrets=[(r, c) for r, c in product(range(pitch, pitch + SIZE), repeat=2)],
        sensors=[veil.Sensor("door", [(1, SIZE), (SIZE, 1)], 0.9)],
    )  # fmt: skip
    return world.problem(HORIZON, min_return="40%", name=f"{rooms} × {rooms} rooms")


def main() -> None:
    """Plan, save, load, and measure on both floors."""
    small, large = floor(3), floor(6)
    solution = veil.solve(small, features="coordinates", time_limit=12, certificate=False)
    print(solution.summary())
    path = Path("out") / "features.safetensors"
    path.parent.mkdir(exist_ok=True)
    solution.policy.save(path)
    policy = veil.load_policy(path)
    print(f"\n{policy} in {path.stat().st_size / 1000:.0f} kB")
    for problem in (small, large):
        hidden = veil.opacity(problem, policy, "sampled", seed=1, sequences=2000)
        print(
            f"{problem.name}, {problem.num_states} cells: {hidden.bits:.3f} bits of {hidden.prior_bits:.3f},", end=" "
        )
        print(f"return {veil.expected_return(problem, policy):.2f}")


if __name__ == "__main__":
    main()
