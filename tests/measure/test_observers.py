"""Observers that depend on time, and observers without a clock: against exact arithmetic, and refused where not covered."""

import random
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import central_differences, small_case
from tests.oracle import Answer, Event, Spec, evaluate
from tests.random_problems import KINDS, Case, _emissions, floats
from tests.seeds import looped

COUNT = 10


def scheduled(case: Case, rng: random.Random) -> tuple[Spec, veil.Problem]:
    """The case with other emissions at some times, and observations at some times only."""
    spec, observer = case.spec, case.problem.observer
    actions = spec.num_actions if spec.on_actions else 0
    chosen = [time for time in range(spec.horizon + 1) if rng.random() < 0.5]
    at = {t: _emissions(rng, spec.unit, actions, spec.num_states, spec.num_observations, False, 0.4) for t in chosen}
    times = rng.choice((None, "end", tuple(t for t in range(spec.horizon + 1) if rng.random() < 0.6)))
    received = range(spec.horizon + 1) if times is None else (spec.horizon,) if times == "end" else times
    silent = 0
    row = [spec.unit] + [0] * (spec.num_observations - 1)
    nothing = [row] * spec.num_states
    hidden = {t: [nothing] * actions if actions else nothing for t in range(spec.horizon + 1) if t not in received}
    other = veil.Observer(
        observer.emissions,
        sees_actions=observer.sees_actions,
        sees_initial=observer.sees_initial,
        silent=silent,
        times=times,
        emissions_at={t: floats(spec, table) for t, table in at.items()},
    )
    return replace(spec, emissions_at=at | hidden), case.problem.replace(observer=other)


def name(event: Event) -> str | tuple[str, str]:
    return (f"a{event[0]}", f"o{event[1]}") if isinstance(event, tuple) else f"o{event}"


def check(problem: veil.Problem, policy: veil.Policy, answer: Answer) -> None:
    """Value, table, quantities and return are those of the fractions."""
    found = veil.opacity(problem, policy, method="exact")
    assert found.bits == pytest.approx(answer.bits, abs=1e-10)
    assert found.prior_bits == pytest.approx(answer.prior_bits, abs=1e-10)
    assert found.num_sequences == answer.num_sequences
    table = veil.measures.joint_table(problem, policy)
    rows = dict(zip(table.sequences, table.probabilities.tolist(), strict=True))
    assert len(rows) == answer.num_sequences
    for sequence, row in answer.joint.items():
        expected = [float(row.get(z, 0)) for z in range(answer.num_values)]
        assert rows[tuple(map(name, sequence))] == pytest.approx(expected, abs=1e-12)
    guess = float(sum(max(row.values()) for row in answer.joint.values()))
    assert veil.measures.quantities(problem, policy).guess_probability.posterior == pytest.approx(guess, abs=1e-12)
    assert veil.expected_return(problem, policy) == pytest.approx(float(answer.expected_return), abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_an_observer_that_depends_on_time_is_that_of_the_fractions(kind: str):
    for seed in range(COUNT):
        case = small_case(f"times {seed}", kind, work=2_000)
        spec, problem = scheduled(case, random.Random(seed))
        check(problem, case.policy, evaluate(spec))


@pytest.mark.parametrize("kind", KINDS)
def test_the_unrolled_problem_is_the_same(kind: str):
    for seed in range(8):
        case = small_case(seed, kind)
        _, problem = scheduled(case, random.Random(seed))
        plain = problem.unrolled()
        assert not plain.observer.varies
        assert veil.max_return(plain) == pytest.approx(veil.max_return(problem), abs=1e-12)
        uniform, same = veil.MarkovPolicy.uniform(problem), veil.MarkovPolicy.uniform(plain)
        assert veil.opacity(plain, same, "exact").bits == pytest.approx(
            veil.opacity(problem, uniform, "exact").bits, abs=1e-12
        )
        assert veil.expected_return(plain, same) == pytest.approx(veil.expected_return(problem, uniform), abs=1e-12)


def erasing(case: Case) -> veil.Problem | None:
    """The case with its first observation silent and erased; None where the observer sees actions."""
    observer = case.problem.observer
    if observer.sees_actions:
        return None
    return case.problem.replace(
        observer=veil.Observer(observer.emissions, sees_initial=observer.sees_initial, silent=0, untimed=True)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_observer_without_a_clock_is_that_of_the_fractions(kind: str):
    for seed in range(COUNT):
        case = small_case(f"untimed {seed}", kind, sees_actions=False)
        problem = erasing(case)
        assert problem is not None
        check(problem, case.policy, evaluate(case.spec).erased(0))


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_without_a_clock_is_that_of_differences(kind: str):
    checked = 0
    for seed in range(12):
        case = small_case(f"slope {seed}", kind, work=250, sees_actions=False)
        problem = erasing(case)
        assert problem is not None
        rng = np.random.default_rng(seed)
        shape = (problem.num_cells, problem.num_actions)
        theta = np.where(problem.available, rng.normal(size=shape), -np.inf)
        bits, slope = veil.opacity_gradient(problem, theta)
        assert bits.bits == pytest.approx(veil.opacity(problem, veil.MarkovPolicy.softmax(theta, problem)).bits)

        def value(free: np.ndarray, problem: veil.Problem = problem) -> float:
            inside = np.where(problem.available, free, -np.inf)
            return veil.opacity(problem, veil.MarkovPolicy.softmax(inside, problem)).bits

        expected = central_differences(value, np.where(problem.available, theta, 0.0))
        np.testing.assert_allclose(slope, np.where(problem.available, expected, 0.0), atol=2e-8)
        checked += bool(np.abs(slope).max() > 1e-3)
        if checked == 2:  # many are dull
            break
    assert checked or kind == "model"


def test_times_and_no_clock_together():
    for seed in range(12):
        case = small_case(f"both {seed}", sees_actions=False)
        spec, problem = scheduled(case, random.Random(seed))
        untimed = problem.observer.replace(untimed=True)
        check(problem.replace(observer=untimed), case.policy, evaluate(spec).erased(0))


def test_strings_are_written_without_silence():
    problem = veil.gallery.load("two-rooms").replace(horizon=2)
    observer = problem.observer
    problem = problem.replace(
        observer=veil.Observer(observer.emissions, observer.observations, silent="0", untimed=True)
    )
    table = veil.measures.joint_table(problem, veil.MarkovPolicy.uniform(problem))
    assert set(table.sequences) == {(), ("beep",), ("beep", "beep")}
    assert {one.observations for one in table.revealing()} == set(table.sequences)


def small() -> veil.Problem:
    return veil.gallery.load("two-rooms", min_return=None).replace(horizon=2)


def at_the_end() -> veil.Problem:
    observer = small().observer
    return small().replace(observer=veil.Observer(observer.emissions, observer.observations, times="end"))


def without_clock() -> veil.Problem:
    observer = small().observer
    made = veil.Observer(observer.emissions, observer.observations, silent="0", untimed=True)
    return small().replace(observer=made)


def test_a_policy_with_memory_and_times():
    problem = at_the_end()
    policy = veil.MemoryPolicy.uniform(problem, veil.StateMemory(1))
    assert veil.opacity(problem, policy).bits == pytest.approx(
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits, abs=1e-12
    )


def test_a_policy_with_memory_and_no_clock():
    problem = without_clock()
    policy = veil.MemoryPolicy.uniform(problem, veil.StateMemory(1))
    assert veil.opacity(problem, policy).bits == pytest.approx(
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem)).bits, abs=1e-12
    )


def test_a_solution_has_a_certificate():
    problem = at_the_end()
    found = veil.solve(problem, starts=1, iterations=2)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)


def test_the_game_of_a_whole_path_is_played_with_a_clock():
    """It counts bits step by step; what its policy hides is measured against the observer without a clock."""
    problem = without_clock().replace(secret=veil.Trajectory())
    found = veil.solve(problem, method="game", certificate=False, time_limit=2)
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits, abs=1e-9)
    assert np.isnan(found.upper_bits)


def test_methods_that_cover_times_agree():
    problem = at_the_end()
    policy = veil.MarkovPolicy.uniform(problem)
    true = veil.opacity(problem, policy, "exact").bits
    bracket = veil.opacity(problem, policy, "bracket", width=1e-9)
    assert bracket.lower - 1e-9 <= true <= bracket.upper + 1e-9
    sampled = veil.opacity(problem, policy, "sampled", sequences=4000)
    assert abs(sampled.bits - true) <= 4 * sampled.std_error
    observer = veil.ObserverFilter(problem, policy)
    observer.update("unobserved")
    observer.update("unobserved")
    assert observer.update("beep").tolist() == [0.0, 1.0]
    assert veil.attack(problem, policy, 200).accuracy.exact == pytest.approx(
        veil.measures.joint_table(problem, policy).guess_probability
    )
    found = veil.solve(problem, starts=2, iterations=20, certificate=False)
    assert found.opacity.bits >= true - 1e-9


def test_a_certificate_of_the_unrolled_problem_verifies():
    problem = at_the_end().unrolled()
    found = veil.solve(problem, starts=2, iterations=20)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)
    assert found.certificate.lower <= found.opacity.bits + 1e-9


@looped(
    ("parts", "words"),
    [
        ({"times": [-1]}, "times are"),
        ({"times": "start"}, "times are 'start'"),
        ({"times": 1.5}, "times are 1.5"),
        ({"untimed": True}, "name the silent observation"),
        ({"untimed": True, "silent": 0, "sees_actions": True}, "every step is seen by its action"),
        ({"emissions_at": [np.eye(2)]}, "expected a mapping from times"),
        ({"emissions_at": {"1": np.eye(2)}}, "has the time '1'"),
        ({"emissions_at": {1: np.eye(3)}}, r"emissions_at 1 has shape \(3, 3\)"),
    ],
)
def test_wrong_schedules_are_refused(parts: dict, words: str):
    with pytest.raises(veil.InputError, match=words):
        veil.Observer(np.eye(2), **parts)


@looped("parts", [{"times": [3]}, {"emissions_at": {3: np.eye(2)}}])
def test_times_beyond_the_horizon_are_refused(parts: dict):
    with pytest.raises(veil.InputError, match="the time 3, expected times from 0 to the horizon 2"):
        small().replace(observer=veil.Observer(np.eye(2), **parts))


def test_wrong_rows_of_single_times_are_named():
    with pytest.raises(veil.InputError, match=r"time 1, state 'office'.*sums to"):
        small().replace(observer=veil.Observer(np.eye(2), emissions_at={1: [[0.5, 0.4], [0, 1]]}))


def test_observers_are_told_apart():
    plain = veil.Observer(np.eye(2), silent=0)
    kinds = [
        plain,
        veil.Observer(np.eye(2), silent=0, times="end"),
        veil.Observer(np.eye(2), silent=0, times=[1]),
        veil.Observer(np.eye(2), silent=0, emissions_at={1: np.ones((2, 2)) / 2}),
        veil.Observer(np.eye(2), silent=0, untimed=True),
    ]
    problems = [small().replace(observer=one) for one in kinds]
    from veil.problem.fingerprint import fingerprint

    assert len({fingerprint(one) for one in problems}) == len(kinds)
    assert len(set(map(repr, kinds))) == 3
    for number, one in enumerate(kinds):
        assert [other == one for other in kinds] == [place == number for place in range(len(kinds))]
    assert kinds[1].without([1]).times == "end"
    assert kinds[4].without([1]).untimed


def test_a_solution_against_an_observer_without_a_clock_says_what_is_proven():
    found = veil.solve(without_clock(), starts=1, iterations=2)
    assert found.certificate is not None
    assert "proven against an observer with a clock" in found.summary()
    assert "not proven" not in found.summary()
