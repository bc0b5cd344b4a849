"""What `veil.solve` is compared with: what a user would write. Each takes a problem, a policy class and seconds.

They use veil's measures, never its search: `veil.opacity_gradient`, `veil.constraint_values` and, for the gradients of the
constraints and for the program in JAX, the compiled chain. Policy classes are `"markov"` and `"timed"`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import veil
from veil.common.clock import Clock
from veil.engine.additive import sums_and_gradients
from veil.engine.chain import make_chain
from veil.engine.hidden import Hidden

_DENSE_STATES = 512  # up to which the JAX program multiplies by a dense matrix
_SEQUENCES, _RATE, _PENALTY = 64, 0.1, 6.0
_CLOSED = -1e9  # the logit of an action that is not available


def twenty_lines(problem: veil.Problem, memory: Any, seconds: float, starts: int = 1) -> veil.Policy:
    """What a user would write: Adam on fresh sampled gradients and an augmented Lagrangian.

    Several starts have equal shares of the time one after the other; the best of their last feasible policies on 2,000
    sequences is the answer.
    """
    clock, found = Clock(seconds), list[veil.Policy]()
    for number, table in zip(range(starts), start_tables(problem, memory), strict=False):
        part = Clock(0.95 * clock.left / (starts - number))
        policy = _adam(problem, table, part, number)
        found += [] if policy is None else [policy]
    return _most_hidden(problem, found) or most_earning(problem, memory)


def _adam(problem: veil.Problem, table: np.ndarray, clock: Clock, seed: int) -> veil.Policy | None:
    """The last feasible policy of one ascent."""
    theta, best = np.log(np.maximum(table, 1e-12)), None
    hidden, bounds = make_chain(problem, veil.MarkovPolicy.uniform(problem)).hidden, bounds_of(problem)
    mean, square, multiplier, step = np.zeros_like(theta), np.zeros_like(theta), np.zeros(len(bounds)), 0
    while clock.left > 0:
        step += 1
        _, gradient = veil.opacity_gradient(problem, theta, "sampled", sequences=_SEQUENCES, seed=10**6 * seed + step)
        slack, slack_gradient = _slacks(problem, hidden, bounds, theta)
        best = theta if (slack >= 0).all() else best
        price = np.maximum(0.0, multiplier - _PENALTY * slack)
        multiplier = np.maximum(0.0, multiplier - _PENALTY / 10 * slack)
        gradient = gradient + np.tensordot(price, slack_gradient, axes=1)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        theta = theta + _RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-12)
    return None if best is None else _policy(best, problem)


def _policy(theta: np.ndarray, problem: veil.Problem) -> veil.MarkovPolicy | veil.TimedPolicy:
    return (veil.TimedPolicy if theta.ndim == 3 else veil.MarkovPolicy).softmax(theta, problem)


def _slacks(
    problem: veil.Problem, hidden: Hidden, bounds: list[float], theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far each bound is met, in units of the bound, and the gradients in the logits."""
    table = np.where(problem.available, np.exp(theta - theta.max(axis=-1, keepdims=True)), 0.0)
    table /= table.sum(axis=-1, keepdims=True)
    stationary = table.ndim == 2
    full = table[None] if stationary else table
    values, slopes = sums_and_gradients(hidden, full[None], hidden.paid, stationary=stationary)
    slack, gradients = np.zeros(len(bounds)), np.zeros((len(bounds), *table.shape))
    for number, (one, bound) in enumerate(zip(problem.bounds, bounds, strict=True)):
        unit = abs(bound) or 1.0
        slack[number] = one.sign * (values[one.quantity, 0] - bound) / unit
        slope = slopes[one.quantity, 0].reshape(table.shape)
        gradients[number] = one.sign / unit * table * (slope - (table * slope).sum(axis=-1, keepdims=True))
    return slack, gradients


def bounds_of(problem: veil.Problem) -> list[float]:
    """Each of `problem.bounds` as a number, percentages included."""
    return [one.bound for one in veil.constraint_values(problem, veil.MarkovPolicy.uniform(problem))]


def is_feasible(problem: veil.Problem, policy: veil.Policy) -> bool:
    """Whether a policy meets every constraint."""
    return all(one.met for one in veil.constraint_values(problem, policy))


def _most_hidden(problem: veil.Problem, policies: list[veil.Policy]) -> veil.Policy | None:
    """The policy that hides most on 2,000 sequences."""
    if len(policies) < 2:
        return next(iter(policies), None)
    return max(policies, key=lambda one: veil.opacity(problem, one, "sampled", sequences=2000, seed=1).bits)


def start_tables(problem: veil.Problem, memory: Any) -> Iterator[np.ndarray]:
    """Full tables to begin at: half uniform and half of those that earn most; uniform; soft ones; then random ones."""
    uniform = problem.available / problem.available.sum(axis=1, keepdims=True)
    if memory == "timed":
        uniform = np.broadcast_to(uniform, (problem.horizon, *uniform.shape))
    earning = most_earning(problem, memory).probabilities
    yield 0.5 * earning + 0.5 * uniform
    yield 0.05 * earning + 0.95 * uniform
    for temperature in (0.02, 0.1):
        table = _soft(problem, memory, temperature * _scale(problem)).probabilities
        yield 0.95 * table + 0.05 * uniform
    generator = np.random.default_rng(0)
    while True:
        weights = uniform * generator.exponential(size=uniform.shape)
        yield 0.5 * earning + 0.5 * weights / weights.sum(axis=-1, keepdims=True)


def most_earning(problem: veil.Problem, memory: Any) -> veil.MarkovPolicy | veil.TimedPolicy:
    """The policy of the largest return; for stationary ones, of the largest discounted return."""
    return _soft(problem, memory, 0.0)


def _scale(problem: veil.Problem) -> float:
    return float(np.abs(problem.model.rewards).max()) or 1.0


def _soft(problem: veil.Problem, memory: Any, temperature: float) -> veil.MarkovPolicy | veil.TimedPolicy:
    if memory == "timed":
        return veil.soft.soft_policy(problem, temperature, horizon="finite")
    return veil.soft.soft_policy(problem, temperature, discount=1 - 1 / max(2, problem.horizon))


def softened(problem: veil.Problem, memory: Any, seconds: float) -> veil.Policy:
    """The entropy-regularised baseline: the largest temperature that meets the constraints, found by bisection."""
    clock, best = Clock(seconds), most_earning(problem, memory)
    low, high = np.log(1e-4 * _scale(problem)), np.log(10.0 * _scale(problem))
    for _ in range(12):
        middle = (low + high) / 2
        policy = _soft(problem, memory, float(np.exp(middle)))
        if is_feasible(problem, policy):
            best, low = policy, middle
        else:
            high = middle
        if clock.left <= 0:
            break
    return best


def straight_line_jax(problem: veil.Problem, memory: Any, seconds: float) -> veil.Policy:
    """The same loop as a JAX user would write it: `lax.scan` for filter and sums, `jax.grad`, Adam by hand, float32.

    Sampling, filter, sums, gradient and step are one compiled function; compiling counts. Secrets are about the first or the
    last state, or what was visited; the observer has a clock and does not see actions.
    """
    import jax
    import jax.numpy as jnp

    clock, first = Clock(seconds), next(start_tables(problem, memory))
    timed, size = first.ndim == 3, len(problem.bounds)
    hidden = make_chain(problem, veil.MarkovPolicy.uniform(problem)).hidden
    numbers, signs, bounds = (
        jnp.asarray(one)
        for one in (
            [bound.quantity for bound in problem.bounds],
            [bound.sign for bound in problem.bounds],
            bounds_of(problem),
        )
    )
    unit = jnp.where(bounds == 0, 1.0, jnp.abs(bounds)) if size else bounds
    discounts = tuple(one.discount for one in hidden.paid)

    def objective(theta: Any, arrays: Arrays, multiplier: Any, key: Any) -> tuple[Any, Any]:
        policies = jax.nn.softmax(theta + arrays.closed, axis=-1)[:, arrays.cell]
        policies = jnp.broadcast_to(policies, (hidden.horizon, *policies.shape[1:]))
        events = _drawn(arrays, jax.lax.stop_gradient(policies), key, _SEQUENCES)
        posterior, logs = _filtered(arrays, policies, events, from_start=hidden.split_time == 0)
        bits = -(posterior * jnp.log2(jnp.where(posterior > 0, posterior, 1.0))).sum(axis=0)
        others = (bits.sum() - bits) / (len(bits) - 1)
        surrogate = jnp.mean(bits + jax.lax.stop_gradient(bits - others) * logs)
        slack = signs * (_sums(arrays, policies, discounts)[numbers] - bounds) / unit if size else jnp.zeros(0)
        price = jnp.maximum(0.0, jax.lax.stop_gradient(multiplier - _PENALTY * slack))
        return surrogate + (price * slack).sum(), slack

    @jax.jit
    def update(state: Any, arrays: Arrays, multiplier: Any, step: Any) -> Any:
        theta, mean, square = state
        (_, slack), gradient = jax.value_and_grad(objective, has_aux=True)(
            theta, arrays, multiplier, jax.random.key(step)
        )
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        theta = theta + _RATE * (mean / (1 - 0.9**step)) / (jnp.sqrt(square / (1 - 0.99**step)) + 1e-12)
        return (theta, mean, square), slack

    arrays = _arrays(hidden, problem)
    theta = jnp.asarray(np.log(np.maximum(first if timed else first[None], 1e-12)), jnp.float32)
    state, best, multiplier, step = (theta, 0 * theta, 0 * theta), None, np.zeros(size), 0
    while clock.left > 0.02 * seconds:
        step += 1
        before = state[0]
        state, slack = update(state, arrays, jnp.asarray(multiplier, jnp.float32), step)
        slack = np.asarray(slack)
        if (slack >= 1e-5).all():  # single precision may misjudge less
            best = before
        multiplier = np.maximum(0.0, multiplier - _PENALTY / 10 * slack)
    if best is None:
        return most_earning(problem, memory)
    table = np.asarray(best, dtype=float)
    return _policy(table if timed else table[0], problem)


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
    rewards: Any  # (quantities, S, A)
    terminals: Any  # (quantities, S)
    cell: Any
    closed: Any

    def ahead(self, columns: Any, policy: Any) -> Any:
        """Distributions `(S, n)` one step on."""
        import jax.numpy as jnp

        edge, size = (self.chances * policy[self.source]).sum(axis=1), len(self.start)
        if size <= _DENSE_STATES:
            return jnp.zeros((size, size), edge.dtype).at[self.target, self.source].add(edge) @ columns
        return (columns[self.source[self.into]] * edge[self.into][:, :, None]).sum(axis=1)


def _arrays(hidden: Hidden, problem: veil.Problem) -> Arrays:
    import jax

    emitter, *more = hidden.emitters
    if more or hidden.written is not None or hidden.path is not None or hidden.split_time not in (0, hidden.horizon):
        raise ValueError(
            "expected a secret about the first or last state and an observer with a clock, blind to actions"
        )
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
            rewards=single([one.reward for one in hidden.paid]),
            terminals=single([one.terminal for one in hidden.paid]),
            cell=hidden.cell,
            closed=single(np.where(problem.available, 0.0, _CLOSED)),
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


def _filtered(arrays: Arrays, policies: Any, events: Any, *, from_start: bool) -> tuple[Any, Any]:
    """`P(z|y)`, `(Z, n)`, and `ln P(y)` of sequences; `from_start`: the secret is about the first state, else the last."""
    import jax
    import jax.numpy as jnp

    count, values = events.shape[1], arrays.label.shape[1]

    def scaled(columns: Any) -> tuple[Any, Any]:
        total = columns.reshape(len(columns), count, -1).sum(axis=(0, 2))
        return columns / jnp.repeat(total, columns.shape[1] // count), jnp.log(total)

    def step(carry: Any, given: Any) -> tuple[Any, None]:
        policy, event = given
        seen = jnp.repeat(arrays.emission[:, event], carry[0].shape[1] // count, axis=1)
        columns, more = scaled(arrays.ahead(carry[0], policy) * seen)
        return (columns, carry[1] + more), None

    first = arrays.first[:, events[0]]
    if from_start:
        first = (first[:, :, None] * arrays.label[:, None, :]).reshape(len(first), -1)
    (columns, logs), _ = jax.lax.scan(step, scaled(first), (policies, events[1:]))
    if from_start:
        return columns.sum(axis=0).reshape(count, values).T, logs
    return arrays.label.T @ columns, logs


def _sums(arrays: Arrays, policies: Any, discounts: tuple[float, ...]) -> Any:
    """The expected sum of each quantity, exactly."""
    import jax
    import jax.numpy as jnp

    factors = jnp.asarray(discounts, jnp.float32)

    def step(carry: Any, policy: Any) -> tuple[Any, None]:
        mass, total, weight = carry
        total = total + weight * (mass[:, 0] @ (policy[None] * arrays.rewards).sum(axis=2).T)
        return (arrays.ahead(mass, policy), total, weight * factors), None

    begin = arrays.start[:, None], jnp.zeros(len(discounts)), jnp.ones(len(discounts))
    (mass, total, weight), _ = jax.lax.scan(step, begin, policies)
    return total + weight * (arrays.terminals @ mass[:, 0])
