"""The agent: a network for its choices and one for what they are worth, improved by proximal policy optimisation.

The optimisation is one compiled function and not that of skrl, because in skrl 2.1.1 with JAX the weight of the entropy has no
effect on discrete actions, a seed does not decide the result, and checkpoints are pickles.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from ..common.errors import InputError
from ..learning.recurrent import orthogonal
from ..problem.problem import Problem

Params = dict[str, Any]
_FLOAT = jnp.float32
_CLIP = 0.2
_VALUE_WEIGHT = 0.5
_AVERAGED = 0.95  # of the running mean of the parameters, in an iteration
_PARTS = 2  # of what is earned: surprise, and the task's rewards
_HALF_LOG_TWO_PI = 0.9189385332046727


@dataclass(frozen=True)
class Shape:
    """What an agent reads and does.

    **Attributes:** `states`: their number, 0 where they are vectors of `width` numbers; `times`: how many it tells apart,
    1 for a stationary policy; `actions`: their number, or where `continuous` their dimensions; `hidden` units of both layers.
    """

    states: int
    width: int
    times: int
    actions: int
    continuous: bool
    hidden: int = 64


def shape_of(env: Any, horizon: int, hidden: int, *, timed: bool) -> Shape:
    """The shape for a vector environment. **Raises:** `InputError` for spaces that the agent cannot use."""
    from gymnasium import spaces

    seen, done, times = env.single_observation_space, env.single_action_space, horizon if timed else 1
    if isinstance(seen, spaces.Discrete) and seen.start == 0:
        states, width = int(seen.n), 0
    elif isinstance(seen, spaces.Box):
        states, width = 0, int(np.prod(seen.shape))
    else:
        remedy = "wrap it with gymnasium.wrappers.FlattenObservation"
        raise InputError("train", [f"observations are {seen}, expected Discrete from 0 on, or a Box: {remedy}"])
    if isinstance(done, spaces.Discrete) and done.start == 0:
        return Shape(states, width, times, int(done.n), continuous=False, hidden=hidden)
    if isinstance(done, spaces.Box):
        return Shape(states, width, times, int(np.prod(done.shape)), continuous=True, hidden=hidden)
    raise InputError("train", [f"actions are {done}, expected Discrete from 0 on, or a Box: number the combinations"])


def check_model(shape: Shape, problem: Problem) -> None:
    """Raise `InputError` if a problem cannot be the model of what an agent reads and does."""
    if not shape.states or shape.continuous:
        raise InputError("train", ["states or actions are continuous, which no problem describes: leave problem=… out"])
    if shape.states > problem.num_cells or shape.actions != problem.num_actions:
        sizes = f"{shape.states} states and {shape.actions} actions"
        known = f"{problem.num_cells} and {problem.num_actions}"
        remedy = "give the model of the same states"
        raise InputError("train", [f"the environment has {sizes}, its problem {known}: {remedy}"])


def begin(generator: np.random.Generator, shape: Shape) -> Params:
    """The parameters of an agent that acts almost uniformly."""
    params = {"policy": _net(generator, shape, shape.actions, 0.01), "value": _net(generator, shape, _PARTS, 1.0)}
    if shape.continuous:
        params["policy"]["log_spread"] = np.full(shape.actions, -0.5)
    return jax.tree.map(lambda array: array.astype(np.float32), params)


def _net(generator: np.random.Generator, shape: Shape, outputs: int, scale: float) -> dict[str, np.ndarray]:
    hidden, rows = shape.hidden, shape.states or shape.width
    # Of a state's number one row is read, of a vector all: both begin as large as a hidden unit needs.
    size = 1.0 if shape.states else 1 / np.sqrt(rows)
    return {
        "read": size * generator.normal(size=(rows, hidden)),
        "time": 0.5 * (shape.times > 1) * generator.normal(size=(shape.times, hidden)),
        "first": np.zeros(hidden),
        "middle": np.sqrt(2) * orthogonal(generator, hidden, hidden),
        "second": np.zeros(hidden),
        "out": scale * orthogonal(generator, hidden, outputs),
        "last": np.zeros(outputs),
    }


def _run(net: Params, states: jax.Array, times: jax.Array) -> jax.Array:
    """The output for each state, a number or a vector, at each time."""
    is_number = jnp.issubdtype(states.dtype, jnp.integer)
    read = net["read"][states] if is_number else states.reshape(len(states), -1) @ net["read"]
    first = jnp.tanh(read + net["time"][jnp.minimum(times, len(net["time"]) - 1)] + net["first"])
    return jnp.tanh(first @ net["middle"] + net["second"]) @ net["out"] + net["last"]


@jax.jit
def log_choices(params: Params, states: Any, times: Any, allowed: Any) -> jax.Array:
    """`ln π(a | s, t)`, `(n, A)`; `allowed`, `(S, A)`: -inf elsewhere."""
    logits = _run(params["policy"], states, times)
    return jax.nn.log_softmax(logits if allowed is None else jnp.where(allowed[states], logits, -jnp.inf))


@partial(jax.jit, static_argnames="continuous")
def act(
    params: Params, states: Any, times: Any, key: Any, allowed: Any, *, continuous: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Actions drawn from the policy, their log-probabilities, and the values `(n, 2)` of what is earned from here on."""
    worth = _run(params["value"], states, times)
    if not continuous:
        chances = log_choices(params, states, times, allowed)
        actions = jax.random.categorical(key, chances)
        return actions, chances[jnp.arange(len(actions)), actions], worth
    middle = _run(params["policy"], states, times)
    spread = jnp.exp(params["policy"]["log_spread"])
    actions = middle + spread * jax.random.normal(key, middle.shape, _FLOAT)
    return actions, _log_density(params["policy"], middle, actions), worth


def _log_density(policy: Params, middle: jax.Array, actions: jax.Array) -> jax.Array:
    away = (actions - middle) / jnp.exp(policy["log_spread"])
    return (-0.5 * away**2 - policy["log_spread"] - _HALF_LOG_TWO_PI).sum(axis=1)


def _scores(
    params: Params, batch: Mapping[str, jax.Array], allowed: jax.Array | None, *, continuous: bool
) -> tuple[jax.Array, jax.Array]:
    """The log-probability of each action that was taken, and the entropy of the choice in nats."""
    states, times, actions = batch["states"], batch["times"], batch["actions"]
    if continuous:
        policy = params["policy"]
        entropy = (policy["log_spread"] + 0.5 + _HALF_LOG_TWO_PI).sum()
        return _log_density(policy, _run(policy, states, times), actions), jnp.broadcast_to(entropy, len(actions))
    chances = log_choices(params, states, times, allowed)
    finite = jnp.where(jnp.isfinite(chances), chances, 0.0)
    return chances[jnp.arange(len(actions)), actions], -(jnp.exp(chances) * finite).sum(axis=1)


_RULE = optax.chain(optax.clip_by_global_norm(0.5), optax.scale_by_adam(eps=1e-5))


def rest(params: Params) -> Any:
    """The state of an optimiser that has made no step."""
    return _RULE.init(params)


@partial(jax.jit, static_argnames="continuous")
def improve(
    params: Params,
    mean: Params,
    state: Any,
    batch: Mapping[str, Any],
    order: Any,
    counts: Any,
    rate: Any,
    entropy_weight: Any,
    allowed: Any,
    *,
    continuous: bool,
) -> tuple[Params, Params, Any]:
    """Steps of proximal policy optimisation (Schulman et al., 2017) on the rows of each entry of `order`, `(steps, B)`.

    **Arguments:** `mean`: the running mean of the parameters; `batch`: `states`, `times`, `actions`, `log_chance` of the
    actions when they were taken, their `advantage`, and `returns` `(m, 2)`, which the values are fitted to; `counts`,
    `(steps, B)`: 1 for rows that count, 0 for those that only fill an entry.

    **Returns:** the parameters, their running mean, and the state of the optimiser.
    """

    def loss(params: Params, rows: jax.Array, count: jax.Array) -> jax.Array:
        part = {name: values[rows] for name, values in batch.items()}
        chance, entropy = _scores(params, part, allowed, continuous=continuous)
        ratio = jnp.exp(chance - part["log_chance"])
        gain = part["advantage"]
        gained = jnp.minimum(ratio * gain, jnp.clip(ratio, 1 - _CLIP, 1 + _CLIP) * gain)
        missed = jnp.square(_run(params["value"], part["states"], part["times"]) - part["returns"]).mean(axis=1)
        return jnp.sum(count * (_VALUE_WEIGHT * missed - gained - entropy_weight * entropy)) / count.sum()

    def step(carry: tuple[Params, Any], now: tuple[jax.Array, jax.Array]):
        params, state = carry
        change, state = _RULE.update(jax.grad(loss)(params, *now), state, params)
        return (jax.tree.map(lambda old, new: old - rate * new, params, change), state), None

    (params, state), _ = jax.lax.scan(step, (params, state), (order, counts))
    mean = jax.tree.map(lambda old, new: _AVERAGED * old + (1 - _AVERAGED) * new, mean, params)
    return params, mean, state


def advantages(
    rewards: Float[np.ndarray, "T N 2"],
    worth: Float[np.ndarray, "T N 2"],
    smoothing: float,
) -> Float[np.ndarray, "T N 2"]:
    """Generalised advantages (Schulman et al., 2016) of whole episodes: nothing is earned behind their end."""
    found, ahead = np.empty_like(rewards), np.zeros_like(rewards[0])
    after = np.concatenate([worth[1:], np.zeros_like(worth[:1])])
    for time in reversed(range(len(rewards))):
        ahead = rewards[time] + after[time] - worth[time] + smoothing * ahead
        found[time] = ahead
    return found


@jax.jit
def middle(params: Params, states: Any, times: Any) -> jax.Array:
    """The mean of continuous actions, `(n, k)`."""
    return _run(params["policy"], states, times)
