"""What `veil.solve` is compared with in the planning suite: each takes a problem, a policy class and seconds."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import veil
from veil.common.clock import UNLIMITED, Clock
from veil.engine.return_range import max_return, threshold
from veil.planning.policy_class import Space, make_space
from veil.planning.sampled_values import SampleSecrecy
from veil.planning.starts import logits, richest_table
from veil.planning.task import make_task
from veil.policy.tables import softmax_pull_back
from veil.problem.problem import Problem

_DENSE_STATES = 512  # up to which the JAX program multiplies by a dense matrix


def twenty_lines(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """What a user would write: Adam on fresh sampled gradients and an augmented Lagrangian, from near the richest policy."""
    clock, space = Clock(seconds), make_space(problem, memory)
    task = make_task(space, secrecy=SampleSecrecy(space, "entropy", 64, 0, ""))
    safe = richest_table(space, clock.share(0.3))
    theta = logits(space, safe, 0.5)
    mean, square, multiplier, step, best = np.zeros_like(theta), np.zeros_like(theta), 0.0, 0, safe
    while clock.left > 0.02 * seconds:
        step += 1
        table = space.softmax(theta)
        _, slope = task.secrecy.fresh(table, 64, step, UNLIMITED)  # pyright: ignore[reportAttributeAccessIssue]
        sums = task.sums(table[None])
        slack, slack_slope = sums.slack, sums.slack_slope
        short = float(slack[0, 0]) if slack.size else 1.0
        best = table if short >= 0 else best
        pull = max(0.0, multiplier - 6 * short)
        multiplier = max(0.0, multiplier - 0.6 * short)
        gradient = softmax_pull_back(table, slope + pull * (slack_slope[0, 0] if slack.size else 0.0))
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        theta = theta + 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-12)
    return space.policy(best)


def softened(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """The entropy-regularised baseline: the largest temperature, of a few, whose return meets the threshold."""
    wanted, largest = threshold(problem) or -np.inf, max_return(problem)
    best: veil.Policy | None = None
    clock = Clock(seconds)
    for temperature in np.geomspace(1e-3, 1.0, 10) * max(abs(largest), 1e-9):
        discount = 1 - 1 / max(2, problem.horizon)
        policy = veil.soft.soft_policy(problem, float(temperature), discount=discount)
        if best is not None and (clock.left <= 0 or veil.expected_return(problem, policy) < wanted):
            break
        best = policy
    assert best is not None
    return best


def straight_line_jax(problem: Problem, memory: Any, seconds: float) -> veil.Policy:
    """The same loop as a JAX user would write it: `lax.scan` for filter and return, `jax.grad`, Adam by hand, float32.

    Sampling, filter, return, gradient and step are one compiled function; compiling counts. Secrets are about the last state.
    """
    import jax
    import jax.numpy as jnp

    clock, space = Clock(seconds), make_space(problem, memory)
    safe, wanted = richest_table(space, clock.share(0.3)), threshold(problem)
    unit, hidden = make_task(space, secrecy=SampleSecrecy(space, "entropy", 64, 0, "")).unit, space.hidden

    def objective(theta: Any, arrays: Arrays, multiplier: Any, key: Any) -> tuple[Any, Any]:
        policies = jax.nn.softmax(theta + arrays.closed, axis=-1)[:, arrays.cell]
        policies = jnp.broadcast_to(policies, (hidden.horizon, *policies.shape[1:]))
        events = _drawn(arrays, jax.lax.stop_gradient(policies), key, 64)
        posterior, logs = _filtered(arrays, policies, events)
        bits = -(posterior * jnp.log2(jnp.where(posterior > 0, posterior, 1.0))).sum(axis=0)
        others = (bits.sum() - bits) / (len(bits) - 1)
        surrogate = jnp.mean(bits + jax.lax.stop_gradient(bits - others) * logs)
        slack = (
            jnp.float32(1.0) if wanted is None else (_earned(arrays, policies, hidden.paid[0].discount) - wanted) / unit
        )
        price = jnp.maximum(0.0, jax.lax.stop_gradient(multiplier - 6 * slack))
        return surrogate + price * slack, slack

    @jax.jit
    def update(state: Any, arrays: Arrays, multiplier: Any, step: Any) -> Any:
        theta, mean, square = state
        (_, slack), gradient = jax.value_and_grad(objective, has_aux=True)(
            theta, arrays, multiplier, jax.random.key(step)
        )
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        theta = theta + 0.1 * (mean / (1 - 0.9**step)) / (jnp.sqrt(square / (1 - 0.99**step)) + 1e-12)
        return (theta, mean, square), slack

    arrays, theta = _arrays(space), jnp.asarray(logits(space, safe, 0.5), jnp.float32)
    state, best, multiplier, step = (theta, 0 * theta, 0 * theta), None, 0.0, 0
    while clock.left > 0.02 * seconds:
        step += 1
        before = state[0]
        state, slack = update(state, arrays, jnp.float32(multiplier), step)
        if float(slack) >= 1e-5:  # single precision may misjudge less
            best = before
        multiplier = max(0.0, multiplier - 0.6 * float(slack))
    return space.policy(safe if best is None else space.softmax(np.asarray(best, dtype=float)))


class Arrays(NamedTuple):
    """A chain for a JAX program: edges with a probability for each action, those of each state padded to equally many.

    They are arguments: arrays that a compiled function holds as constants take seconds to compile.
    """

    source: Any
    target: Any
    chances: Any  # (edges + 1, A); the last edge fills up, with chance 0
    into: Any  # (S, K), edges to each state
    out: Any
    emission: Any
    first: Any
    label: Any
    start: Any
    reward: Any
    terminal: Any
    cell: Any
    closed: Any

    def ahead(self, columns: Any, policy: Any) -> Any:
        """Distributions `(S, n)` one step on."""
        import jax.numpy as jnp

        edge, size = (self.chances * policy[self.source]).sum(axis=1), len(self.start)
        if size <= _DENSE_STATES:
            return jnp.zeros((size, size), edge.dtype).at[self.target, self.source].add(edge) @ columns
        return (columns[self.source[self.into]] * edge[self.into][:, :, None]).sum(axis=1)


def _arrays(space: Space) -> Arrays:
    import jax

    hidden = space.hidden
    emitter, *more = hidden.emitters
    if more or hidden.split_time != hidden.horizon:
        raise ValueError("expected a secret about the last state and an observer that does not see actions")
    states, actions, moves = hidden.num_states, hidden.kernel.num_actions, hidden.kernel.stacked
    places = sp.coo_array(moves)
    edges, number = np.unique(places.row // actions * states + places.col, return_inverse=True)
    chances = np.zeros((len(edges) + 1, actions))
    chances[number, places.row % actions] = places.data
    source, target = edges // states, edges % states

    def single(numbers: Any) -> np.ndarray:
        return np.asarray(numbers, dtype=np.float32)

    return jax.device_put(
        Arrays(
            source=np.append(source, 0),
            target=np.append(target, 0),
            chances=single(chances),
            into=_padded(target, states),
            out=_padded(source, states),
            emission=single(emitter.emission),
            first=single(hidden.root),
            label=single(hidden.label),
            start=single(hidden.start),
            reward=single(hidden.paid[0].reward),
            terminal=single(hidden.paid[0].terminal),
            cell=hidden.cell,
            closed=single(np.where(space.available, 0.0, -1e9)),
        )
    )


def _padded(by: np.ndarray, states: int) -> np.ndarray:
    """The edges of each state, `(S, K)`, filled up with the number after the last."""
    order, counts = np.argsort(by, kind="stable"), np.bincount(by, minlength=states)
    result = np.full((states, counts.max()), len(by))
    result[by[order], np.arange(len(by)) - np.repeat(np.cumsum(counts) - counts, counts)] = order
    return result


def _drawn(arrays: Arrays, policies: Any, key: Any, sequences: int) -> Any:
    """Event sequences `(T+1, n)`."""
    import jax
    import jax.numpy as jnp

    def one(key: Any) -> Any:
        key, begin = jax.random.split(key)
        state, event = jnp.divmod(jax.random.categorical(begin, jnp.log(arrays.first).ravel()), arrays.first.shape[1])

        def step(state: Any, given: Any) -> tuple[Any, Any]:
            policy, key = given
            move, emit = jax.random.split(key)
            edges = arrays.out[state]
            drawn = jax.random.categorical(move, jnp.log(arrays.chances[edges] @ policy[state]))
            state = arrays.target[edges[drawn]]
            return state, jax.random.categorical(emit, jnp.log(arrays.emission[state]))

        _, events = jax.lax.scan(step, state, (policies, jax.random.split(key, len(policies))))
        return jnp.append(event, events)

    return jax.vmap(one, out_axes=1)(jax.random.split(key, sequences))


def _filtered(arrays: Arrays, policies: Any, events: Any) -> tuple[Any, Any]:
    """`P(z|y)`, `(Z, n)`, and `ln P(y)` of sequences."""
    import jax
    import jax.numpy as jnp

    def scaled(columns: Any) -> tuple[Any, Any]:
        total = columns.sum(axis=0)
        return columns / total, jnp.log(total)

    def step(carry: Any, given: Any) -> tuple[Any, None]:
        policy, event = given
        columns, more = scaled(arrays.ahead(carry[0], policy) * arrays.emission[:, event])
        return (columns, carry[1] + more), None

    (columns, logs), _ = jax.lax.scan(step, scaled(arrays.first[:, events[0]]), (policies, events[1:]))
    return arrays.label.T @ columns, logs


def _earned(arrays: Arrays, policies: Any, discount: float) -> Any:
    """The expected return, exactly."""
    import jax
    import jax.numpy as jnp

    def step(carry: Any, policy: Any) -> tuple[Any, None]:
        mass, total, weight = carry
        total = total + weight * jnp.sum(mass * policy * arrays.reward)
        return (arrays.ahead(mass, policy), total, weight * discount), None

    begin = arrays.start[:, None], jnp.float32(0.0), jnp.float32(1.0)
    (mass, total, weight), _ = jax.lax.scan(step, begin, policies)
    return total + weight * jnp.sum(mass[:, 0] * arrays.terminal)
