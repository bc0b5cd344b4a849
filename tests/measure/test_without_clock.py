"""Observers without a clock: every measure against the list of all sequences with their times, silent steps erased."""

import math
from collections import defaultdict

import numpy as np
import pytest

import veil
from tests.paths import all_runs, entropy, merged
from tests.seeds import in_blocks
from veil.common.errors import ImpossibleObservationError
from veil.policy.tabular import TablePolicy

Strings = dict[tuple, np.ndarray]


def random_problem(seed: int, *, trajectory: bool = False) -> veil.Problem:
    """A small problem whose observer sees two kinds of letters, or nothing."""
    rng = np.random.default_rng(seed)
    model = veil.Model(rng.dirichlet(np.full(3, 0.7), size=(3, 2)), rng.normal(size=(3, 2)), rng.dirichlet(np.ones(3)))
    emissions = rng.dirichlet(np.full(3, 0.6), size=3) * (rng.random((3, 3)) < 0.8)
    emissions[:, 0] += 0.1
    emissions /= emissions.sum(axis=1, keepdims=True)
    observer = veil.Observer(emissions, ["nothing", "a", "b"], silent=0, untimed=True, sees_initial=bool(seed % 3))
    secrets = [veil.LastState({1}), veil.StateAt(1, {2}), veil.InitialState(), veil.Visited({"two": {2}})]
    if trajectory:
        secrets = [veil.Trajectory(), veil.Trajectory({"low": [0], "high": [1, 2]})]
    return veil.Problem(model, observer, secrets[seed % len(secrets)], 3 + seed % 2, agent_sees="state+observations")


def policies(problem: veil.Problem, seed: int) -> dict[str, TablePolicy]:
    """One of each kind that acts in it."""
    rng = np.random.default_rng([seed, 1])
    table = rng.dirichlet(np.ones(2), size=(problem.horizon, 3))
    found: dict[str, TablePolicy] = {"markov": veil.MarkovPolicy(table[0]), "timed": veil.TimedPolicy(table)}
    for memory in (veil.StateMemory(1), veil.ObservationMemory(1), veil.Controller(2)):
        shape = veil.MemoryPolicy.uniform(problem, memory).probabilities.shape
        found[type(memory).__name__] = veil.MemoryPolicy(memory, rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]))
    return found


def erased(problem: veil.Problem, policy: veil.Policy, until: int | None = None) -> Strings:
    """`P(z,w)` of every string, from the sequences of the observer with a clock, up to a time."""
    table = veil.measures.joint_table(problem.with_clock(), policy)
    found: Strings = defaultdict(lambda: np.zeros(table.probabilities.shape[1]))
    last = problem.horizon if until is None else until
    length = last + 1 if problem.observer.sees_first else last
    for sequence, row in zip(table.sequences, table.probabilities, strict=True):
        found[tuple(one for one in sequence[:length] if one != "nothing")] += row
    return dict(found)


def bits_of(strings: Strings) -> float:
    return sum(float(-p * math.log2(p / row.sum())) for row in strings.values() for p in row if p > 0)


@in_blocks(8, 80, 8)
def test_values_of_every_kind_of_policy(seed: int):
    """Exact values and tables are those of all strings; samples are near them; a bracket contains them."""
    problem = random_problem(seed)
    for name, policy in policies(problem, seed).items():
        strings = erased(problem, policy)
        bits = bits_of(strings)
        assert veil.opacity(problem, policy, "exact").bits == pytest.approx(bits, abs=1e-12), name
        assert veil.opacity(problem, policy).bits == pytest.approx(bits, abs=1e-12), name
        table = veil.measures.joint_table(problem, policy)
        assert set(table.sequences) == strings.keys()
        for sequence, row in zip(table.sequences, table.probabilities, strict=True):
            np.testing.assert_allclose(row, strings[sequence], rtol=0, atol=1e-13)
        found = veil.opacity(problem, policy, "sampled", sequences=1000, seed=seed)
        assert abs(found.bits - bits) <= 5 * found.std_error + 1e-12, name
        bracket = veil.opacity(problem, policy, "bracket")
        assert bracket.lower - 1e-12 <= bits <= bracket.upper + 1e-12, name
        assert bracket.lower <= veil.opacity(problem.with_clock(), policy, "exact").bits + 1e-12, name


@in_blocks(3, 12, 3)
def test_a_sampled_gradient_is_unbiased(seed: int):
    problem = random_problem(seed)
    theta = np.random.default_rng([seed, 2]).normal(size=(3, 2))
    _, exact = veil.opacity_gradient(problem, theta, "exact")
    drawn = [veil.opacity_gradient(problem, theta, "sampled", sequences=400, seed=one)[1] for one in range(30)]
    error = np.std(drawn, axis=0, ddof=1) / math.sqrt(len(drawn))
    assert np.all(np.abs(np.mean(drawn, axis=0) - exact) <= 5 * error + 1e-9)


@in_blocks(6, 30, 6)
def test_bits_over_time_are_those_of_strings_cut_at_each_time(seed: int):
    problem = random_problem(seed)
    policy = policies(problem, seed)["timed"]
    found = veil.measures.bits_over_time(problem, policy)
    expected = [bits_of(erased(problem, policy, time)) for time in range(problem.horizon + 1)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    sampled = veil.measures.bits_over_time(problem, policy, "sampled", sequences=1000, seed=seed)
    np.testing.assert_allclose(sampled, expected, rtol=0, atol=0.1)
    assert sampled[-1] == pytest.approx(
        veil.opacity(problem, policy, "sampled", sequences=1000, seed=seed).bits, abs=1e-9
    )


@in_blocks(4, 20, 4)
def test_quantities_and_costs(seed: int):
    """Sampled quantities are near the exact ones, and list each string once; a muted letter is a string without it."""
    problem = random_problem(seed)
    policy = policies(problem, seed)["markov"]
    exact = veil.measures.quantities(problem, policy)
    found = veil.measures.quantities(problem, policy, "sampled", sequences=1000, seed=seed)
    assert exact.entropy_bits.posterior == pytest.approx(bits_of(erased(problem, policy)), abs=1e-12)
    for one, other in zip(exact.facts(), found.facts(), strict=True):
        assert abs(one[1].posterior - other[1].posterior) <= 5 * other[1].std_error + 1e-9
    listed = [one.observations for one in found.worst["posterior"]]
    assert len(set(listed)) == len(listed)
    costs = veil.measures.observation_costs(problem, policy)
    for letter, cost in costs.items():
        fewer: Strings = defaultdict(lambda: np.zeros(len(problem.secret_values)))
        for string, row in erased(problem, policy).items():
            fewer[tuple(one for one in string if one != letter)] += row
        assert cost == pytest.approx(bits_of(fewer) - exact.entropy_bits.posterior, abs=1e-11)


@in_blocks(6, 30, 6)
def test_a_filter_believes_what_a_string_says_if_the_run_is_over(seed: int):
    problem = random_problem(seed)
    for policy in policies(problem, seed).values():
        strings = erased(problem, policy)
        begun: Strings = defaultdict(lambda: np.zeros(len(problem.secret_values)))
        for string, row in strings.items():
            for length in range(len(string) + 1):
                begun[string[:length]] += row
        for prefix, row in begun.items():
            observer = veil.ObserverFilter(problem, policy)
            for letter in prefix:
                observer.update(letter)
                observer.update("nothing")
            over = strings.get(prefix, row)
            np.testing.assert_allclose(observer.posterior, over / over.sum(), rtol=0, atol=1e-12)
            assert observer.belief.sum() == pytest.approx(1)
            assert observer.time is None
            for letter in ("a", "b"):
                if (*prefix, letter) not in begun:
                    with pytest.raises(ImpossibleObservationError, match=r"is impossible.*possible are 'nothing'"):
                        observer.update(letter)


@in_blocks(4, 20, 4)
def test_a_smoother_says_where_the_agent_was_at_each_time(seed: int):
    problem = random_problem(seed)
    policy = policies(problem, seed)["markov"]
    table = policy.table[0]
    runs = all_runs(problem.with_clock(), lambda path, _: table[path[-1]])
    by_string: dict[tuple, dict[tuple, float]] = defaultdict(dict)
    names = ("nothing", *problem.observer.observations.all())  # -1 at time 0: nothing comes then
    for (path, seen), weight in runs.items():
        shown = (names[1 + int(str(one))] for one in seen)
        by_string[tuple(one for one in shown if one != "nothing")][path, seen] = weight
    observer = veil.smoother(problem, policy)
    for string, found in by_string.items():
        total = sum(found.values())
        smoothed = observer.smooth(string)
        assert smoothed.probability == pytest.approx(total, abs=1e-13)
        expected = np.zeros((problem.horizon + 1, 3))
        for (path, _), weight in found.items():
            expected[np.arange(len(path)), path] += weight / total
        np.testing.assert_allclose(smoothed.states, expected, rtol=0, atol=1e-12)
        assert smoothed.path_probability == pytest.approx(max(found.values()) / total, abs=1e-12)
        assert len(smoothed.path) == problem.horizon + 1
    with pytest.raises(veil.InputError, match="expected at most"):
        observer.smooth(["a"] * (problem.horizon + 2))


@in_blocks(4, 20, 4)
def test_an_attack_guesses_from_the_string(seed: int):
    problem = random_problem(seed)
    for policy in policies(problem, seed).values():
        strings = erased(problem, policy)
        found = veil.attack(problem, policy, 400, seed=seed, traces=2)
        right = sum(float(row.max()) for row in strings.values())
        assert found.accuracy.exact == pytest.approx(right, abs=1e-12)
        assert abs(found.accuracy.value - right) <= 5 * found.accuracy.std_error + 0.02
        assert found.cross_entropy_bits == pytest.approx(bits_of(strings), abs=0.25)
        for trace in found.traces:
            assert "nothing" not in trace.observations
            assert len(trace.posterior) == len(trace.observations) + 1
            row = strings[trace.observations]
            np.testing.assert_allclose(trace.posterior[-1], row / row.sum(), rtol=0, atol=1e-12)
    wrong = veil.attack(
        problem, policies(problem, seed)["markov"], 50, observer_believes=veil.MarkovPolicy([[1, 0]] * 3)
    )
    assert wrong.mistake is not None
    assert wrong.mistake.bits >= -0.5


@in_blocks(8, 40, 8)
def test_whole_paths(seed: int):
    """`H(R|W)` from all runs, and samples of it, for states and for groups of them."""
    problem = random_problem(seed, trajectory=True)
    policy = policies(problem, seed)["timed"]
    table = policy.table
    runs = all_runs(problem.with_clock(), lambda path, _: table[len(path) - 1, path[-1]])
    group = (0, 1, 2) if seed % 2 == 0 else (0, 1, 1)

    def string(seen: tuple) -> tuple:
        return tuple(one for one in seen if one not in (-1, 0))

    both = merged(runs, lambda path, seen: (tuple(group[one] for one in path), string(seen)))
    bits = entropy(both) - entropy(merged(runs, lambda _, seen: string(seen)))
    assert veil.opacity(problem, policy).bits == pytest.approx(bits, abs=1e-11)
    found = veil.opacity(problem, policy, "sampled", sequences=1000, seed=seed)
    assert abs(found.bits - bits) <= 5 * found.std_error
    bracket = veil.opacity(problem, policy, "bracket")
    assert bracket.lower - 1e-12 <= bits <= bracket.upper + 1e-12
