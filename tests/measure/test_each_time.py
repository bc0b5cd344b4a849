"""Bits at every time: the last time alone, searches, files and what is refused."""

import numpy as np
import pytest

import veil
from veil.problem.fingerprint import fingerprint


def random_problem(seed: int) -> tuple[veil.Problem, np.ndarray]:
    """A problem of two or three states with a secret at every time, and the table of a policy."""
    rng = np.random.default_rng(seed)
    states, horizon = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    model = veil.Model(rng.dirichlet(np.ones(states), size=(states, 2)), rng.normal(size=(states, 2)),
                       rng.dirichlet(np.ones(states)))  # fmt: skip
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=states), sees_actions=bool(seed % 3 == 0))
    weights = None if seed % 2 else rng.random(horizon + 1).tolist()
    secret = veil.StateNow([0], ahead=int(rng.integers(0, 3)), weights=weights)
    problem = veil.Problem(model, observer, secret, horizon)
    return problem, rng.dirichlet(np.ones(2), size=(horizon, states))


def test_all_weight_on_the_last_time_is_the_last_state():
    for seed in range(5):
        problem, table = random_problem(seed)
        last = [0.0] * problem.horizon + [1.0]
        policy = veil.TimedPolicy(table)
        now = problem.replace(secret=veil.StateNow([0], weights=last))
        then = problem.replace(secret=veil.LastState([0]))
        assert veil.opacity(now, policy).bits == pytest.approx(veil.opacity(then, policy).bits, abs=1e-13)
        each = veil.measures.bits_over_time(problem, policy)
        assert problem.secret_table.each is not None
        weights = problem.secret_table.each.weights
        assert float(each @ weights) == pytest.approx(veil.opacity(problem, policy).bits, abs=1e-12)


def test_it_is_searched_and_bounded_in_a_pair():
    problem, _ = random_problem(5)
    found = veil.solve(problem, time_limit=2, starts=2, iterations=30, progress=False)
    assert found.opacity.bits >= veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits - 1e-9
    assert found.certificate is not None
    assert found.certificate.lower == pytest.approx(found.opacity.bits, abs=1e-9)
    least = 0.9 * found.opacity.bits
    pair = veil.Pair("now", secret=problem.secret, min=least)
    both = problem.replace(secret=veil.InitialState(), pairs=[pair])
    answer = veil.solve(both, time_limit=2, starts=2, iterations=30, progress=False)
    assert answer.pairs[0].opacity.bits >= least - 1e-6


def test_a_search_on_samples_finds_what_the_exact_one_does():
    problem = random_problem(5)[0].replace(min_return="60%")
    given = {"time_limit": 3.0, "starts": 2, "iterations": 60, "progress": False, "certificate": False}
    exact, sampled = (veil.solve(problem, evaluation=how, **given) for how in ("exact", "sampled"))
    assert sampled.feasible
    assert sampled.opacity.bits == pytest.approx(exact.opacity.bits, abs=0.02)


def test_it_is_written_to_a_file_and_read(tmp_path):
    for number, secret in enumerate([
        veil.StateNow([0], ahead=2, weights=[1, 0, 0.5]), veil.StateNow(groups={"here": [0], "there": [1]}),
    ]):  # fmt: skip
        problem = random_problem(5)[0].replace(secret=secret, horizon=2)
        path = tmp_path / f"{number}.toml"
        problem.save(path)
        assert fingerprint(veil.load(path)) == fingerprint(problem)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (veil.StateNow([0], ahead=-1), "ahead is -1, expected a whole number"),
        (veil.StateNow(groups={"a": [0]}, ahead=1), "ahead is given with groups"),
        (veil.StateNow([0], weights=[1, 2]), "expected 3 numbers, 0 or more"),
        (veil.StateNow([0], weights=[0, 0, 0]), "not all 0"),
        (veil.StateNow([0], weights=[1, -1, 1]), "0 or more"),
        (veil.StateNow(), "neither states nor groups"),
    ],
)
def test_what_is_wrong_is_said(secret: veil.StateNow, words: str):
    with pytest.raises(veil.InputError, match=words):
        random_problem(1)[0].replace(secret=secret, horizon=2)


def test_what_is_about_one_value_is_refused():
    problem, _ = random_problem(5)
    policy = veil.MarkovPolicy.uniform(problem)
    for call in (veil.attack, veil.measures.quantities, veil.measures.joint_table):
        with pytest.raises(veil.VeilError, match="has a value at every time"):
            call(problem, policy)
