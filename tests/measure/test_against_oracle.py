"""Values against the oracle of exact fractions: 400 random problems in every run, 11,600 others in the long one."""

import random
from collections import Counter

import numpy as np
import pytest

import veil
from tests.oracle import Answer, Spec, evaluate
from tests.random_problems import KINDS, Case, random_case, random_spec

BATCH = 50
QUICK = range(0, 200, BATCH)
SLOW = (*range(200, 2_000, BATCH), *range(1_000_000, 1_010_000, BATCH))
TOLERANCE = 1e-12
FILTERED = 5  # one seed in so many is also followed online, along this many sequences


@pytest.mark.parametrize("first", QUICK)
def test_random_problems(first: int):
    _check_batch(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", SLOW)
def test_many_random_problems(first: int):
    _check_batch(first)


def _check_batch(first: int) -> None:
    for seed in range(first, first + BATCH):
        case = random_case(seed)
        answer = evaluate(case.spec)
        try:
            _check_value(case, answer)
            if seed % FILTERED == 0:
                _check_joint(case, answer)
                _check_filter(case, answer, random.Random(seed))
        except Exception as error:
            error.add_note(f"random problem of seed {seed}: {case.problem!r}")
            raise


def _check_value(case: Case, answer: Answer) -> None:
    found = veil.opacity(case.problem, case.policy, method="exact")
    assert abs(found.bits - answer.bits) <= TOLERANCE
    assert abs(found.prior_bits - answer.prior_bits) <= TOLERANCE
    assert abs(found.leakage_bits - (answer.prior_bits - answer.bits)) <= 2 * TOLERANCE
    assert found.lower <= found.bits <= found.upper
    assert found.upper - found.lower <= TOLERANCE
    assert found.num_sequences == answer.num_sequences
    assert abs(veil.expected_return(case.problem, case.policy) - float(answer.expected_return)) <= TOLERANCE


def _check_joint(case: Case, answer: Answer) -> None:
    """The same sequences, and `P(z,y)` of each to a relative 1e-12: rare ones count as much as likely ones."""
    table = veil.measures.joint_table(case.problem, case.policy)
    expected = {
        tuple(map(_named, sequence)): [row.get(z, 0) / answer.denominator for z in range(answer.num_values)]
        for sequence, row in answer.weights.items()
    }
    assert len(table.sequences) == len(set(table.sequences))
    assert set(table.sequences) == expected.keys()
    rows = [expected[sequence] for sequence in table.sequences]
    np.testing.assert_allclose(table.probabilities, rows, rtol=TOLERANCE, atol=0)


def _check_filter(case: Case, answer: Answer, rng: random.Random) -> None:
    for sequence in rng.sample(sorted(answer.weights, key=str), min(FILTERED, answer.num_sequences)):
        watcher = veil.ObserverFilter(case.problem, case.policy)
        for event, expected in zip(sequence, answer.posteriors(sequence), strict=True):
            found = watcher.update(_named(event) if rng.random() < 0.5 else event)
            np.testing.assert_allclose(found, [float(p) for p in expected], rtol=TOLERANCE, atol=TOLERANCE)
            # Certainty is a verdict: what the oracle rules out is exactly zero, what it leaves open is not.
            assert [p == 0 for p in found] == [p == 0 for p in expected]


def _named(event):
    return f"o{event}" if isinstance(event, int) else (f"a{event[0]}", f"o{event[1]}")


def test_an_event_that_the_oracle_rules_out_is_refused():
    """After every prefix of a random problem each event that no sequence continues with raises; the others do not."""
    refused = 0
    for seed in range(40):
        case = random_case(seed)
        answer = evaluate(case.spec)
        sequence = random.Random(seed).choice(sorted(answer.weights, key=str))
        for time in range(len(sequence)):
            possible = {y[time] for y in answer.weights if y[:time] == sequence[:time]}
            for event in _alphabet(case.spec, time):
                watcher = veil.ObserverFilter(case.problem, case.policy)
                for seen in sequence[:time]:
                    watcher.update(seen)
                if event in possible:
                    watcher.update(event)
                else:
                    refused += 1
                    with pytest.raises(veil.errors.ImpossibleObservationError):
                        watcher.update(event)
    assert refused > 80


def _alphabet(spec: Spec, position: int) -> list:
    observations = range(spec.num_observations)
    if spec.sees_actions and not (position == 0 and spec.sees_first):
        return [(a, o) for a in range(spec.num_actions) for o in observations]
    return list(observations)


def test_the_random_problems_cover_what_they_should():
    seen: Counter = Counter()
    for seed in range(1_000):
        spec = random_spec(random.Random(seed))
        kind = spec.secret.kind
        seen.update(_features(spec))
        seen.update(
            {
                (kind, "timed", spec.timed): 1,
                (kind, "sees initial", spec.sees_initial): 1,
                (kind, "sees actions", spec.sees_actions): 1,
                (kind, "on actions", spec.on_actions): 1,
                (kind, "agent knows", spec.secret.agent_knows): 1,
                (kind, "masked", not all(map(all, spec.available))): 1,
                (kind, "horizon", spec.horizon): 1,
            }
        )
    for kind in KINDS:
        for flag in ("timed", "sees initial", "sees actions", "on actions", "masked"):
            assert min(seen[kind, flag, True], seen[kind, flag, False]) >= 25, (kind, flag)
        assert min(seen[kind, "horizon", horizon] for horizon in range(7)) >= 10, kind
    for kind in ("automaton", "model"):
        assert min(seen[kind, "agent knows", True], seen[kind, "agent knows", False]) >= 50, kind
    for feature in FEATURES:
        assert seen[feature] >= 25, feature
    assert seen["largest"] >= 1


FEATURES = (
    "groups", "several starts", "zero transitions", "zero emissions", "deterministic policy row", "random policy row",
    "absorbing state", "never emitted", "middle time", "discounted", "terminal rewards",
)  # fmt: skip


def _features(spec: Spec) -> list[str]:
    states, rows = range(spec.num_states), [row for table in spec.policy for row in table]
    emissions = [row for table in spec.emissions for row in table] if spec.on_actions else spec.emissions
    transitions = [spec.models[0].transitions[s][a] for s in states for a, can in enumerate(spec.available[s]) if can]
    tests = {
        "groups": spec.secret.groups is not None and len(spec.secret.groups) > 1,
        "several starts": len(spec.starts) > 1,
        "zero transitions": any(0 in row for row in transitions),
        "zero emissions": any(0 in row for row in emissions),
        "deterministic policy row": any(spec.unit in row for row in rows),
        "random policy row": any(spec.unit not in row for row in rows),
        "absorbing state": spec.num_states > 1
        and any(all(row[s] in (spec.unit, 0) for row in spec.models[0].transitions[s]) for s in states),
        "never emitted": any(not any(row[o] for row in emissions) for o in range(spec.num_observations)),
        "middle time": spec.secret.kind == "at" and 0 < spec.secret.time < spec.horizon,
        "discounted": spec.discount < 1,
        "terminal rewards": any(spec.models[0].terminal),
        "largest": (spec.num_states, spec.num_observations, spec.horizon) == (6, 4, 6),
    }
    return [name for name, holds in tests.items() if holds]
