"""`veil.jax`: values and gradients as veil's own, in compiled functions, of tables of probabilities and of logits."""

import numpy as np
import pytest

import veil

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def random_problem(seed: int) -> veil.Problem:
    """Four states, three actions, three observations, all possible; rewards at random."""
    rng = np.random.default_rng(seed)
    model = veil.Model(rng.dirichlet(np.ones(4), size=(4, 3)), rng.normal(size=(4, 3)), rng.dirichlet(np.ones(4)), 0.9)
    return veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(3), size=4)), veil.LastState([1, 2]), horizon=4)


def two_rooms() -> veil.Problem:
    return veil.gallery.load("two-rooms").replace(horizon=4)


def differences(function, table: np.ndarray, directions: np.ndarray, step: float = 1e-5) -> list[float]:
    return [float(function(table + step * one) - function(table - step * one)) / (2 * step) for one in directions]


@pytest.mark.parametrize("timed", [False, True])
def test_gradients_in_logits_are_those_of_differences(timed: bool):
    problem, rng = random_problem(3), np.random.default_rng(0)
    shape = (problem.num_cells, problem.num_actions)
    theta = rng.normal(size=(problem.horizon, *shape) if timed else shape)
    for loss in (veil.jax.opacity(problem, logits=True), veil.jax.expected_return(problem, logits=True)):
        gradient = jax.jit(jax.grad(loss))(theta)
        directions = rng.normal(size=(8, *theta.shape))
        found = [float((gradient * one).sum()) for one in directions]
        assert found == pytest.approx(differences(loss, theta, directions), abs=1e-6)


def test_gradients_in_probabilities_are_those_of_differences_along_the_rows():
    problem, rng = random_problem(5), np.random.default_rng(1)
    table = rng.dirichlet(np.full(problem.num_actions, 3.0), size=problem.num_cells)
    loss = veil.jax.opacity(problem)
    gradient = jax.grad(loss)(table)
    directions = rng.normal(size=(8, *table.shape))
    directions -= directions.mean(axis=-1, keepdims=True)  # rows keep their sum
    found = [float((gradient * one).sum()) for one in directions]
    assert found == pytest.approx(differences(loss, table, directions), abs=1e-6)
    theta = np.log(table)
    by_chain = jax.grad(lambda theta: loss(jax.nn.softmax(theta)))(theta)
    assert np.asarray(by_chain) == pytest.approx(veil.opacity_gradient(problem, theta)[1], abs=1e-9)


def test_values_are_those_of_veil_in_every_transformation():
    problem = two_rooms()
    tables = np.random.default_rng(2).dirichlet(np.ones(problem.num_actions), size=(3, problem.num_cells))
    loss, paid = veil.jax.opacity(problem), veil.jax.expected_return(problem)
    known = [veil.opacity(problem, veil.MarkovPolicy(table)).bits for table in tables]
    earned = [veil.expected_return(problem, veil.MarkovPolicy(table)) for table in tables]
    assert [float(loss(table)) for table in tables] == pytest.approx(known, abs=1e-12)
    assert jax.jit(jax.vmap(loss))(tables).tolist() == pytest.approx(known, abs=1e-12)
    assert jax.vmap(paid)(tables).tolist() == pytest.approx(earned, abs=1e-12)
    assert jax.vmap(jax.grad(loss))(tables).shape == tables.shape


def test_a_seed_decides_the_sequences_and_a_traced_one_does_not_compile_anew():
    problem = two_rooms()
    loss = veil.jax.opacity(problem, method="sampled", sequences=200)
    table, traces = np.full((problem.num_cells, problem.num_actions), 1 / problem.num_actions), []

    @jax.jit
    def step(table, seed):
        traces.append(seed)
        return jax.value_and_grad(loss)(table, seed)

    first, again, other = (step(table, seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len(traces) == 1
    policy = veil.MarkovPolicy(table)
    assert float(first) == pytest.approx(veil.opacity(problem, policy, "sampled", sequences=200, seed=1).bits)


def test_a_memory_and_a_pair_are_those_of_opacity():
    problem = veil.gallery.load("hospital-departments")
    name = problem.pairs[0].name
    loss = veil.jax.opacity(problem, pair=name)
    uniform = veil.MarkovPolicy.uniform(problem)
    assert float(loss(uniform.probabilities)) == pytest.approx(veil.opacity(problem, uniform, pair=name).bits)
    memory = veil.StateMemory(1)
    remembering = veil.MemoryPolicy.uniform(two_rooms(), memory)
    loss = veil.jax.opacity(two_rooms(), memory=memory, logits=True)
    value, gradient = jax.value_and_grad(loss)(remembering.logits())
    known, slope = veil.opacity_gradient(two_rooms(), remembering)
    assert float(value) == pytest.approx(known.bits)
    assert np.asarray(gradient) == pytest.approx(slope)


def test_single_precision_is_accepted_within_its_rounding_alone():
    problem = two_rooms()
    shape = (problem.num_cells, problem.num_actions)
    theta = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    loss = veil.jax.opacity(problem)
    value, gradient = jax.value_and_grad(lambda theta: loss(jax.nn.softmax(theta)))(jnp.asarray(theta))
    assert value.dtype == gradient.dtype == np.float32
    known, slope = veil.opacity_gradient(problem, theta.astype(float))
    assert float(value) == pytest.approx(known.bits, abs=1e-6)
    assert np.asarray(gradient) == pytest.approx(slope, abs=1e-6)
    for table in (jnp.full(shape, 0.7, dtype=jnp.float32), jnp.asarray(jax.nn.softmax(theta) * (1 + 1e-5))):
        with pytest.raises(veil.InputError, match="sums to"):
            loss(table)


def test_what_is_no_table_is_refused():
    problem = two_rooms()
    loss = veil.jax.opacity(problem)
    for table, message in (
        (jnp.ones(3), r"shape \(3,\)"),
        (jnp.ones((2, 2), dtype=int), "int64"),
        (jnp.full((1, 2), 0.5), r"has shape \(1, 1, 2\), expected \(T, 2, 2\)"),
        ("uniform", "found 'uniform', expected floats"),
    ):
        with pytest.raises(veil.InputError, match=message):
            loss(table)
    with pytest.raises(veil.InputError, match="method is 'quick'"):
        veil.jax.opacity(problem, method="quick")  # pyright: ignore[reportArgumentType]
    with pytest.raises(veil.InputError, match="nobody"):
        veil.jax.opacity(problem, pair="nobody")
