"""Small random problems as chains, and one walk over them: what most tests of the engine begin with."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

import veil
from tests.random_problems import Case, random_spec, to_policy, to_problem
from veil.engine.additive import sums_and_gradients
from veil.engine.chain import Chain, make_chain
from veil.engine.joint import Walk
from veil.engine.kernel import DenseKernel, SparseKernel
from veil.measure.exact import EntropyObjective


def small_case(seed: int | str, kind: str | None = None, *, work: int = 5_000, **fixed: bool) -> Case:
    """The random problem of a seed, small by default; `kind` and `fixed` as for `random_spec`."""
    rng = random.Random(f"small {seed}")
    spec = random_spec(rng, kind, work=work, **fixed)
    problem = to_problem(spec, rng)
    return Case(spec, problem, to_policy(spec, problem))


def small_cases(count: int, kind: str | None = None, *, work: int = 5_000, **fixed: bool) -> Iterator[Case]:
    """`count` such problems."""
    return (small_case(seed, kind, work=work, **fixed) for seed in range(count))


def chain_of(case: Case) -> Chain:
    """The hidden chain of a case under its policy."""
    return make_chain(case.problem, case.policy)


def return_and_gradient(chain: Chain) -> tuple[float, np.ndarray]:
    """The expected return of a chain's policy, and its gradient in the policy's table."""
    hidden = chain.hidden
    values, slopes = sums_and_gradients(hidden, chain.table[None], hidden.paid[:1], stationary=chain.stationary)
    return float(values[0, 0]), slopes[0, 0]


def mixing_chain(horizon: int, split: int, *, timed: bool = False) -> Chain:
    """Three states, two actions, two observations, nothing impossible, and a secret at any time."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), np.zeros((3, 2)), rng.dirichlet(np.ones(3)))
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    problem = veil.Problem(model, observer, veil.StateAt(split, {0}), horizon)
    if timed:
        return make_chain(problem, veil.TimedPolicy(rng.dirichlet(np.ones(2), size=(horizon, 3))))
    return make_chain(problem, veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=3)))


def sparse_matrices(kernel: DenseKernel) -> list[sp.csr_array]:
    """The transitions of a dense kernel, one sparse matrix an action."""
    return [sp.csr_array(matrix) for matrix in kernel.array]


def on_sparse_kernel(chain: Chain) -> Chain:
    """The same chain with its transitions held sparsely."""
    kernel = chain.hidden.kernel
    assert isinstance(kernel, DenseKernel)
    hidden = replace(chain.hidden, kernel=SparseKernel(sparse_matrices(kernel)))
    return Chain(hidden, chain.table, stationary=chain.stationary)


def with_table(chain: Chain, table: np.ndarray) -> Chain:
    """The same chain under another table, which need not consist of distributions."""
    return Chain(chain.hidden, table, stationary=chain.stationary)


def total_of(walk: Walk) -> float:
    """`H(Z|Y)` by one walk."""
    objective = EntropyObjective()
    walk.run(objective)
    return objective.bits


def total_and_slope(walk: Walk) -> tuple[float, np.ndarray]:
    """`H(Z|Y)` and its slope in the policy's table by one walk."""
    objective = EntropyObjective()
    slope = walk.run(objective, gradient=True)
    assert slope is not None
    return objective.bits, slope


def central_differences(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """`∂f/∂x` for each entry of `at`."""
    slope = np.zeros(at.shape)
    for index in np.ndindex(at.shape):
        change = np.zeros(at.shape)
        change[index] = step
        slope[index] = (function(at + change) - function(at - change)) / (2 * step)
    return slope
