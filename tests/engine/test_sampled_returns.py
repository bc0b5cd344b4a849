"""The return estimated from runs: no bias, an honest error, and a refusal where runs end too early."""

import itertools

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, return_and_gradient, small_cases
from tests.engine.runs import MEMORIES, random_policy, remembering_cases
from tests.engine.test_sampling import law_of_runs
from tests.random_problems import KINDS
from veil.engine.chain import Chain, make_chain
from veil.engine.sampled_returns import sampled_gradient
from veil.engine.sampling import Runs, draw_runs
from veil.policy.tables import softmax_pull_back


def some(runs: Runs, part: slice) -> Runs:
    return Runs(runs.states[part], runs.actions[part], runs.events[part])


def scores(problem: veil.Problem, chain: Chain, seed: int, batches: int = 100, size: int = 100) -> np.ndarray:
    """How many standard errors the gradient in θ, averaged over batches, lies from the exact one, entry by entry."""
    runs = draw_runs(chain, batches * size, np.random.default_rng(seed))
    parts = [some(runs, slice(k * size, (k + 1) * size)) for k in range(batches)]
    found = np.array(
        [softmax_pull_back(chain.table, sampled_gradient(chain, chain.hidden.paid[0], part)[2]) for part in parts]
    )
    exact = softmax_pull_back(chain.table, return_and_gradient(chain)[1])
    error = found.std(axis=0, ddof=1) / np.sqrt(batches)
    off = found.mean(axis=0) - exact
    # What is too rare to be met is not in the error either.
    assert (np.abs(off) < 1e-3 + 4.5 * error).all()
    clear = error > 1e-3
    return (off[clear] / error[clear]).ravel()


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_right_on_average(kind: str, timed: bool):
    found = [
        scores(case.problem, chain_of(case), number)
        for number, case in enumerate(small_cases(8, kind, timed=timed))
        if case.problem.horizon
    ]
    together = np.concatenate(found)
    assert len(together) > 20
    assert np.abs(together).max() < 4
    assert 0.7 < np.sqrt(np.mean(together**2)) < 1.3


@pytest.mark.parametrize("name", ["controller", "controller with a clock", "observation", "state"])
def test_the_gradient_with_memory_is_right_on_average(name: str):
    found = [
        scores(case.problem, make_chain(case.problem, random_policy(case.problem, MEMORIES[name], seed)), seed)
        for seed, case in enumerate(remembering_cases(10, "last"))
    ]
    together = np.concatenate(found)
    assert len(together) > 10
    assert np.abs(together).max() < 4


def test_with_two_runs_the_mean_over_all_pairs_is_the_gradient_itself():
    """No chance left: every pair of runs, weighted by its probability. A baseline from all runs would give one half."""
    checked = 0
    for case in small_cases(40, work=60):
        chain = chain_of(case)
        law = law_of_runs(chain, most=40)
        exact = softmax_pull_back(chain.table, return_and_gradient(chain)[1])
        if not law or not np.abs(exact).max(initial=0) > 1e-3:
            continue
        expected_value, expected = 0.0, np.zeros(chain.table.shape)
        for (first, chance), (second, other) in itertools.product(law.items(), law.items()):
            pair = Runs(*(np.array([a, b]).reshape(2, -1) for a, b in zip(first, second, strict=True)))
            value, _, slope = sampled_gradient(chain, chain.hidden.paid[0], pair)
            expected_value += chance * other * value
            expected += chance * other * slope
        assert expected_value == pytest.approx(return_and_gradient(chain)[0], abs=1e-9)
        np.testing.assert_allclose(softmax_pull_back(chain.table, expected), exact, atol=1e-9)
        checked += 1
    assert checked >= 5


def test_the_value_is_right_within_its_error():
    found = []
    for number, case in enumerate(small_cases(40)):
        chain = chain_of(case)
        value, error, _ = sampled_gradient(
            chain, chain.hidden.paid[0], draw_runs(chain, 4_000, np.random.default_rng(number))
        )
        exact = return_and_gradient(chain)[0]
        assert value == pytest.approx(exact, abs=1e-9 + 4.5 * error + 1e-3)
        found += [(value - exact) / error] if error > 1e-3 else []
    assert len(found) > 15
    assert 0.7 < np.std(found) < 1.35


def test_an_action_never_taken_has_no_slope_and_no_decision_none_at_all():
    problem = veil.gallery.load("two-rooms")
    chain = make_chain(problem, veil.MarkovPolicy([[1.0, 0.0], [0.5, 0.5]]))
    slope = sampled_gradient(chain, chain.hidden.paid[0], draw_runs(chain, 100, np.random.default_rng(0)))[2]
    assert np.isfinite(slope).all()
    assert slope[0, 0, 1] == 0
    none = problem.replace(horizon=0)
    chain = make_chain(none, veil.MarkovPolicy.uniform(none))
    value, error, slope = sampled_gradient(chain, chain.hidden.paid[0], draw_runs(chain, 50, np.random.default_rng(0)))
    assert not slope.any()
    assert value == pytest.approx(return_and_gradient(chain)[0], abs=4.5 * error)


def test_what_cannot_be_sampled_is_refused():
    problem = veil.gallery.load("two-rooms")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    runs = draw_runs(chain, 3, np.random.default_rng(0))
    with pytest.raises(veil.InputError, match="1 runs are given, expected 2 or more"):
        sampled_gradient(chain, chain.hidden.paid[0], some(runs, slice(1)))
    model = veil.Model(np.full((2, 2, 2), 0.5), [0.0, 1.0], 0, discount=0.9)
    forever = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), 3, return_over="infinite")
    chain = make_chain(forever, veil.MarkovPolicy.uniform(forever))
    with pytest.raises(veil.InputError, match=r"goes on over an infinite horizon .* use the exact value and gradient"):
        sampled_gradient(chain, chain.hidden.paid[0], draw_runs(chain, 10, np.random.default_rng(0)))
