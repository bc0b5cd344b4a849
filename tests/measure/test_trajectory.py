"""Whole paths as secrets: known values, searches, large models, brackets, samples in parts, and refusals."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from tests.paths import all_runs
from tests.seeds import in_blocks
from veil.engine.chain import Chain, make_chain
from veil.engine.event_entropy import show_path
from veil.engine.path_pass import PathPass
from veil.measure.exact import Budget
from veil.measure.merged import Merged
from veil.measure.trajectory import SecretPath
from veil.policy.tables import softmax_pull_back


def distributions(rng: np.random.Generator, *shape: int, density: float = 0.6) -> np.ndarray:
    """Random distributions over the last axis, some entries exactly zero."""
    keep = rng.random(shape) < density
    keep[..., 0] |= ~keep.any(axis=-1)
    found = rng.uniform(0.05, 1, shape) * keep
    return found / found.sum(axis=-1, keepdims=True)


def random_problem(seed: int) -> tuple[veil.Problem, np.ndarray | None]:
    """A small problem whose secret is the path of states, or of two groups of them; and the group of each state."""
    rng = np.random.default_rng(seed)
    states, actions, observations, horizon = (int(rng.integers(*ends)) for ends in ((1, 5), (1, 3), (1, 4), (0, 4)))
    model = veil.Model(
        distributions(rng, states, actions, states), np.zeros((states, actions)), distributions(rng, states)
    )
    shape = (actions, states, observations) if rng.random() < 0.25 else (states, observations)
    observer = veil.Observer(
        distributions(rng, *shape), sees_actions=bool(rng.random() < 0.3), sees_initial=bool(rng.random() < 0.7)
    )
    group = rng.integers(0, 2, states) if rng.random() < 0.5 else None
    of = None
    if group is not None:
        of = {name: np.flatnonzero(group == number).tolist() for number, name in enumerate("ab") if number in group}
    return veil.Problem(model, observer, veil.Trajectory(of), horizon), group


def random_table(problem: veil.Problem, rng: np.random.Generator, timed: bool) -> np.ndarray:
    shape = (problem.num_states, problem.num_actions)
    return distributions(rng, *((problem.horizon, *shape) if timed else shape), density=0.8)


def random_case(seed: int) -> tuple[veil.Problem, np.ndarray | None, veil.Policy, dict]:
    """A problem, the group of each state, a policy, and all runs with their probabilities."""
    problem, group = random_problem(seed)
    rng = np.random.default_rng([seed, 1])
    timed = bool(rng.random() < 0.5) and problem.horizon > 0
    table = random_table(problem, rng, timed)
    policy = veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table)
    runs = all_runs(problem, lambda path, _: table[len(path) - 1, path[-1]] if timed else table[path[-1]])
    return problem, group, policy, runs


@pytest.mark.parametrize("horizon", [3, 5])
def test_smart_meter(horizon: int) -> None:
    """The least leakage is half a bit a step, where all feasible amounts are drawn alike (Li, Khisti and Mahajan, 2018)."""
    problem = veil.gallery.load("smart-meter", horizon=horizon, min_return=None)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact")
    assert found.leakage_bits == pytest.approx(horizon / 2, abs=1e-12)
    least = veil.solve(problem, objective="leakage", iterations=150, certificate=False)
    assert least.opacity.leakage_bits == pytest.approx(horizon / 2, abs=1e-6)


def test_planning() -> None:
    """A search ends above every one of many random policies, and its answer is what `opacity` measures."""
    problem = veil.gallery.load("night-round", horizon=3, min_return=None)
    found = veil.solve(problem, time_limit=20, iterations=60)
    assert found.certificate is not None
    assert found.certificate.lower == pytest.approx(found.opacity.bits, abs=1e-9)
    assert found.certificate.upper >= found.opacity.bits
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(30):
        theta = 2 * rng.normal(size=(problem.num_states, problem.num_actions))
        assert veil.opacity(problem, veil.MarkovPolicy.softmax(theta, problem)).bits < found.opacity.bits


def test_a_large_model() -> None:
    """Sparse transitions and sparse rows: a lazy walk on a ring of 3,000 states, of which the observer sees parity."""
    size = 3000
    rows = np.repeat(np.arange(size), 2)
    columns = np.stack([np.arange(size), (np.arange(size) + 1) % size], axis=1).ravel()
    matrix = sp.csr_array((np.full(2 * size, 0.5), (rows, columns)), shape=(size, size))
    initial = np.zeros(size)
    initial[[0, 2]] = 0.5
    problem = veil.Problem(
        veil.Model([matrix], np.zeros((size, 1)), initial),
        veil.Observer(sp.csr_array(np.eye(2)[np.arange(size) % 2])),
        veil.Trajectory(),
        4,
    )
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact")
    assert found.bits == pytest.approx(1.0, abs=1e-12)  # parity tells the moves, not the start
    assert found.prior_bits == pytest.approx(5.0, abs=1e-12)
    assert veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "sampled", sequences=50).bits == pytest.approx(1.0)


@in_blocks(12, 60, 12)
def test_the_gradient_of_a_bracket_is_that_of_its_lower_bound(seed: int) -> None:
    """All histories kept apart: the exact gradient. Few of them: differences of the lower bound."""
    problem, _, policy, _ = random_case(seed)
    _, exact = veil.opacity_gradient(problem, policy, "exact")
    found, slope = veil.opacity_gradient(problem, policy, "bracket", width=0.0)
    assert found.method == "bracket"
    assert slope == pytest.approx(exact, abs=1e-9)
    question, direction = SecretPath(make_chain(problem, policy)), np.random.default_rng(seed)
    towards = direction.normal(size=question.chain.table.shape)

    def lower(step: float) -> Merged:
        table = question.chain.table * np.exp(step * towards)
        moved = Chain(
            question.chain.hidden, table / table.sum(axis=-1, keepdims=True), stationary=question.chain.stationary
        )
        return SecretPath(moved).merged(2, Budget())

    rise = (lower(1e-5).lower - lower(-1e-5).lower) / 2e-5
    slope = softmax_pull_back(question.chain.table, lower(0.0).lower_gradient(question.chain, Budget())[0])
    assert np.sum(slope * towards) == pytest.approx(rise, abs=1e-7)


@in_blocks(30, 150, 15)
def test_the_uncertainty_of_each_sequence_adds_up_to_the_exact_value_and_gradient(seed: int) -> None:
    """What a sample averages, over all sequences with their probabilities, where path and observations tell the state."""
    problem, _, policy, _ = random_case(seed)
    chain = make_chain(problem, policy)
    if show_path(chain.hidden).entropy is None:
        return
    found, slope = veil.opacity_gradient(problem, policy, "exact")
    table = veil.measures.joint_table(problem, policy)
    run = PathPass(chain, table.events, gradient=True)
    chance = table.probabilities.sum(axis=1)[np.lexsort(table.events.T[::-1])]
    assert chance @ run.bits == pytest.approx(found.bits, abs=1e-12)
    for baseline in (0.0, 1.0):  # which changes no expectation
        pulled = softmax_pull_back(chain.table, run.pull_back(chance, np.full(len(chance), baseline)))
        assert pulled.reshape(slope.shape) == pytest.approx(slope, abs=1e-12)


def test_a_sample_that_does_not_fit_the_memory_is_drawn_in_parts() -> None:
    problem = veil.gallery.load("paper-last-state", horizon=6).replace(secret=veil.Trajectory())
    policy = veil.MarkovPolicy.uniform(problem)
    whole, slope = veil.opacity_gradient(problem, policy, "sampled", sequences=3000, seed=3)
    parts, other = veil.opacity_gradient(problem, policy, "sampled", sequences=3000, seed=3, memory_bytes=2**20)
    _, exact = veil.opacity_gradient(problem, policy, "exact")
    assert abs(parts.bits - whole.bits) < 5 * (parts.std_error + whole.std_error)
    assert max(np.abs(slope - exact).max(), np.abs(other - exact).max()) < 0.05


def test_a_table_of_all_paths() -> None:
    """Where the value of the path itself is asked for, each path that is possible is a value with a name."""
    problem = veil.gallery.load("two-rooms").replace(secret=veil.Trajectory(), horizon=2)
    policy = veil.MarkovPolicy.uniform(problem)
    table = veil.measures.joint_table(problem, policy)
    assert table.bits == pytest.approx(veil.opacity(problem, policy).bits, abs=1e-12)
    names = problem.model.states.all()
    assert all(len(value.split(" → ")) == 3 and set(value.split(" → ")) <= set(names) for value in table.secret_values)
    found = veil.measures.quantities(problem, policy)
    assert found.guess_probability.posterior == pytest.approx(table.guess_probability, abs=1e-12)
    assert table.revealing(1)[0].guess in table.secret_values
    attack = veil.attack(problem, policy, 2000)
    assert attack.accuracy.exact == pytest.approx(table.guess_probability, abs=1e-12)
    assert attack.secret_values == table.secret_values
    row = int(np.argmax(table.probabilities.sum(axis=1)))
    watching = veil.ObserverFilter(problem, policy)
    for observation in table.sequences[row]:
        watching.update(observation)
    assert watching.values == table.secret_values
    assert watching.posterior == pytest.approx(table.posterior[row], abs=1e-12)
    longer = veil.gallery.load("paper-false-alarms", horizon=20).replace(secret=veil.Trajectory())
    with pytest.raises(veil.TooLargeError, match="too many to list"):
        veil.measures.quantities(longer, veil.MarkovPolicy.uniform(longer))


def test_what_is_refused() -> None:
    """All that is about a secret at one time says so."""
    problem = veil.gallery.load("two-rooms").replace(secret=veil.Trajectory())
    policy = veil.MarkovPolicy.uniform(problem)
    whole = {
        "bracketed search": lambda: veil.solve(problem, evaluation="bracket"),
        "guess": lambda: veil.solve(problem, objective="guess"),
    }
    for name, call in whole.items():
        with pytest.raises(veil.VeilError, match="whole path"):
            pytest.fail(f"{name} found {call()}")
    with pytest.raises(veil.InputError, match="cannot be merged"):
        veil.opacity(problem, policy, "exact", merge_tolerance=1e-9)
    with pytest.raises(veil.InputError, match="of: found a list"):
        problem.replace(secret=veil.Trajectory([0]))  # pyright: ignore[reportArgumentType]


@pytest.mark.slow
def test_too_large_to_enumerate() -> None:
    """`auto` says that the sequences do not fit; a search samples there, unless exact values are asked for."""
    problem = veil.gallery.load("paper-false-alarms", horizon=30).replace(secret=veil.Trajectory())
    policy = veil.MarkovPolicy.uniform(problem)
    found = veil.opacity(problem, policy, width=1.0)
    assert found.method == "bracket"
    assert "too many" in found.reason
    with pytest.raises(veil.TooLargeError, match="observation sequences over"):
        veil.opacity(problem, policy, "exact")
    planned = veil.solve(problem, iterations=3, starts=1, sequences=20, certificate=False, progress=False)
    assert planned.feasible
    assert planned.opacity.method == "sampled"
    assert "too many" in planned.detail
    assert planned.opacity.bits > found.bits / 2
    with pytest.raises(veil.TooLargeError, match="shorten the horizon"):
        veil.solve(problem, evaluation="exact")
