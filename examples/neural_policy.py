"""A network as the policy of 50,000 states: trained with `veil.jax.opacity`, its return held by a multiplier.

`python examples/neural_policy.py` takes about six minutes of one core. It needs `pip install 'veil[optax]'`.
"""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import veil

SIZE, HORIZON, HIDDEN = 4, 30, 32
RESERVE, STIFFNESS, GAIN = 0.002, 5.0, 0.3  # of the constraint: a reserve, its penalty, the steps of the multiplier


def floor(rooms: int) -> veil.Problem:
    """Rooms of 4 × 4 cells, of three kinds in turn, with doors between all neighbours; a robot begins in any cell of a room.

    The corners of workshops pay, and a sensor there sees the robot. Every door has a sensor, too. The secret: does the run end
    in a vault? 53 × 53 rooms have 50,456 cells.
    """
    pitch = SIZE + 1
    side = rooms * pitch - 1
    walls = {(r, c) for r, c in product(range(side), repeat=2) if SIZE in (r % pitch, c % pitch)}
    doors = {(r, c) for r, c in walls if {r % pitch, c % pitch} == {SIZE, 1}}
    kinds = {
        (r, c): (r // pitch + 2 * (c // pitch)) % 3 for r, c in product(range(side), repeat=2) if (r, c) not in walls
    }
    corners = [(r, c) for (r, c), kind in kinds.items() if kind == 0 and (r % pitch, c % pitch) == (SIZE - 1, SIZE - 1)]
    world = veil.GridWorld(
        side, side, walls=walls - doors, slip=0.05, starts=dict.fromkeys(kinds, 1 / len(kinds)),
        goals=dict.fromkeys(corners, 1.0), secrets=[cell for cell, kind in kinds.items() if kind == 2],
        sensors=[veil.Sensor("corner", corners, 0.9, 0.01), veil.Sensor("door", sorted(doors), 0.8, 0.01)],
    )  # fmt: skip
    return world.problem(HORIZON, name=f"{rooms} × {rooms} rooms")


def features(problem: veil.Problem) -> np.ndarray:
    """What the network reads of each state, `(S, 16)`: the place within the room, and the room's within a block of nine."""
    cells = np.array([tuple(map(int, name[1:].split("c"))) for name in problem.model.states.all()])
    place, block = cells % (SIZE + 1), cells // (SIZE + 1) % 3
    columns = [np.eye(SIZE + 1)[place[:, axis]] for axis in (0, 1)] + [np.eye(3)[block[:, axis]] for axis in (0, 1)]
    return np.concatenate(columns, axis=1)


def network(params: dict[str, Any], read: jax.Array) -> jax.Array:
    """Logits `(S, A)` of a network with two layers."""
    first = jnp.tanh(read @ params["first"])
    return jnp.tanh(first @ params["second"]) @ params["last"]


def trained(
    problem: veil.Problem, least: float, steps: int, sequences: int, seed: int = 0, rate: float = 0.01
) -> tuple[np.ndarray, list[tuple[float, float, float]]]:
    """The logits of the last network that earns `least`, and (hidden bits, return, multiplier) of each step.

    Each step draws other sequences. The multiplier follows what is missing of the return; a small reserve keeps it.
    """
    random, actions = np.random.default_rng(seed), problem.num_actions
    read = jnp.asarray(features(problem))
    shapes = {"first": (read.shape[1], HIDDEN), "second": (HIDDEN, HIDDEN), "last": (HIDDEN, actions)}
    params = {name: jnp.asarray(random.normal(size=shape) / shape[0] ** 0.5) for name, shape in shapes.items()}
    hidden = veil.jax.opacity(problem, logits=True, method="sampled", sequences=sequences)
    earned = veil.jax.expected_return(problem, logits=True)
    rule = optax.adam(optax.cosine_decay_schedule(rate, steps))

    @jax.jit
    def step(params: Any, state: Any, multiplier: Any, number: Any) -> Any:
        def loss(params: Any) -> Any:
            logits = network(params, read)
            bits, paid = hidden(logits, number), earned(logits)
            missing = (1 + RESERVE) - paid / least
            return -bits + multiplier * missing + STIFFNESS * jnp.maximum(0.0, missing) ** 2, (bits, paid, missing)

        (_, told), gradient = jax.value_and_grad(loss, has_aux=True)(params)
        change, state = rule.update(gradient, state)
        return optax.apply_updates(params, change), state, told

    state, multiplier, history, kept = rule.init(params), 0.0, [], None
    for number in range(steps):
        before = params
        params, state, (bits, paid, missing) = step(params, state, multiplier, number)
        multiplier = max(0.0, multiplier + GAIN * float(np.clip(missing, -0.1, 0.1)))
        history.append((float(bits), float(paid), multiplier))
        kept = before if paid >= least else kept
        if number % 25 == 0:
            told = "hides {:.3f} bits in these sequences, earns {:.3f}, multiplier {:.3f}".format(*history[-1])
            print(f"step {number:3}: {told}", flush=True)
    if kept is None:
        raise SystemExit(f"no network of {steps} steps earns {least:.3g}: give it more steps")
    return np.asarray(network(kept, read), dtype=np.float64), history


def main() -> None:
    """Train, and measure the answer on fresh sequences beside the uniform policy."""
    jax.config.update("jax_enable_x64", True)
    problem = floor(53)
    most = veil.max_return(problem)
    least = most / 2
    print(f"{problem.num_states:,} states, return at least {least:.3f} of {most:.3f}")
    logits, _ = trained(problem, least, steps=300, sequences=64)
    uniform, trained_one = veil.MarkovPolicy.uniform(problem), veil.MarkovPolicy.softmax(logits, problem)
    for name, policy in (("uniform", uniform), ("network", trained_one)):
        found = veil.opacity(problem, policy, "sampled", sequences=2000, seed=99)
        hidden = f"{found.bits:.4f} ± {found.std_error:.4f} of {found.prior_bits:.4f} bits"
        print(f"{name}: hides {hidden}, earns {veil.expected_return(problem, policy):.4f}")


if __name__ == "__main__":
    main()
