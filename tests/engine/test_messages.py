"""Messages along one sequence: against exact integers, at a horizon where unscaled ones vanish, and where nothing fits."""

import math
import random
from decimal import Decimal, localcontext

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases
from tests.engine.messages import backward, first_message, forward, next_messages
from tests.oracle import Event, Spec, evaluate
from veil.engine.chain import Chain, make_chain


def as_events(spec: Spec, sequence: tuple[Event, ...]) -> list[int]:
    """The numbers of the engine for a sequence of the oracle: an empty event first where nothing is received."""
    numbers = [e if isinstance(e, int) else e[0] * spec.num_observations + e[1] for e in sequence]
    return numbers if spec.sees_first else [0, *numbers]


def test_likelihood_and_posterior_are_those_of_the_oracle():
    followed = 0
    for case in small_cases(60):
        answer, chain = evaluate(case.spec), chain_of(case)
        hidden = chain.hidden
        rng = random.Random(str(case.problem))
        for sequence in rng.sample(sorted(answer.weights, key=str), min(5, answer.num_sequences)):
            events = as_events(case.spec, sequence)
            row = answer.weights[sequence]
            total = sum(row.values())
            beliefs, logarithm = forward(chain, events)
            assert logarithm == pytest.approx(math.log(total / answer.denominator), abs=1e-11)
            np.testing.assert_allclose(beliefs.sum(axis=1), 1, rtol=1e-13)
            messages, scales = backward(chain, events)
            assert (messages.max(axis=1) == 1).all()
            split = hidden.split_time
            joint = (beliefs[split] * messages[split]) @ hidden.label
            expected = [row.get(z, 0) / total for z in range(answer.num_values)]
            np.testing.assert_allclose(joint / joint.sum(), expected, atol=1e-12)
            start = hidden.root[:, events[0]] @ messages[0]
            assert math.log(start) + scales[0] == pytest.approx(logarithm, abs=1e-11)
            followed += 1
    assert followed > 150


def test_forward_meets_backward_at_every_time():
    """`Σ_x α_t(x) β_t(x) = P(y)` whatever t is."""
    for case in small_cases(60):
        chain = chain_of(case)
        sequence = max(evaluate(case.spec).weights, key=str)
        events = as_events(case.spec, sequence)
        beliefs, logarithm = forward(chain, events)
        messages, scales = backward(chain, events)
        for time in range(len(events)):
            _, sofar = forward(chain, events[: time + 1])
            found = sofar + math.log(beliefs[time] @ messages[time]) + scales[time]
            assert found == pytest.approx(logarithm, abs=1e-11)


def test_sparse_transitions_give_the_same_messages():
    for case in small_cases(20):
        chain = chain_of(case)
        events = as_events(case.spec, min(evaluate(case.spec).weights, key=str))
        for one, other in zip(forward(chain, events), forward(on_sparse_kernel(chain), events), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)
        for one, other in zip(backward(chain, events), backward(on_sparse_kernel(chain), events), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


# A long sequence

UNIT = 97
TRANSITIONS = [[[50, 40, 7], [10, 10, 77]], [[0, 96, 1], [30, 30, 37]], [[1, 1, 95], [90, 0, 7]]]
EMISSIONS = [[60, 36, 1], [20, 77, 0], [0, 40, 57]]
POLICY = [[90, 7], [48, 49], [1, 96]]
INITIAL = [96, 0, 1]
HORIZON = 2_000


def long_problem() -> tuple[veil.Problem, Chain]:
    model = veil.Model(np.array(TRANSITIONS) / UNIT, np.zeros((3, 2)), np.array(INITIAL) / UNIT)
    observer = veil.Observer(np.array(EMISSIONS) / UNIT)
    problem = veil.Problem(model, observer, veil.LastState({2}), HORIZON)
    return problem, make_chain(problem, veil.MarkovPolicy(np.array(POLICY) / UNIT))


def long_events() -> list[int]:
    """Events drawn without regard to the model: unlikely ones, but each is possible."""
    rng = random.Random(1)
    return [rng.randrange(3) for _ in range(HORIZON + 1)]


def integer_messages(events: list[int]) -> list[list[int]]:
    """`α_t · UNIT^(2 + 3t)`: the paper's recursion in integers of any length."""
    step = [[sum(POLICY[s][a] * TRANSITIONS[s][a][n] for a in range(2)) for n in range(3)] for s in range(3)]
    rows = [[INITIAL[s] * EMISSIONS[s][events[0]] for s in range(3)]]
    for event in events[1:]:
        rows.append([sum(rows[-1][s] * step[s][n] for s in range(3)) * EMISSIONS[n][event] for n in range(3)])
    return rows


def test_the_likelihood_of_two_thousand_steps_is_right_to_the_last_digits():
    _, chain = long_problem()
    events = long_events()
    exact = integer_messages(events)
    with localcontext() as context:
        context.prec = 60
        scale = Decimal(UNIT).ln() * (2 + 3 * HORIZON)
        expected = float(Decimal(sum(exact[-1])).ln() - scale)
    assert expected < -1_000  # e^-745 is the smallest float64: unscaled messages would have vanished
    beliefs, logarithm = forward(chain, events)
    assert logarithm == pytest.approx(expected, rel=1e-14)
    for time in (0, 1, 100, HORIZON):
        total = sum(exact[time])
        np.testing.assert_allclose(beliefs[time], [n / total for n in exact[time]], rtol=1e-12)
    messages, scales = backward(chain, events)
    assert math.log(chain.hidden.root[:, events[0]] @ messages[0]) + scales[0] == pytest.approx(expected, rel=1e-14)


def test_the_filter_agrees_after_two_thousand_steps():
    problem, _ = long_problem()
    watcher = veil.ObserverFilter(problem, veil.MarkovPolicy(np.array(POLICY) / UNIT))
    events = long_events()
    for event in events:
        watcher.update(event)
    last = integer_messages(events)[-1]
    assert watcher.posterior[1] == pytest.approx(last[2] / sum(last), rel=1e-12)


# Sequences that cannot occur


def blocked_chain() -> Chain:
    """0 goes to 1 and 1 stays; 0 shows itself, 1 shows itself: 0 cannot be seen after 1."""
    model = veil.Model(np.array([[[0.5, 0.5]], [[0, 1]]]), np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.eye(2, 3)), veil.LastState({1}), horizon=4)
    return make_chain(problem, veil.MarkovPolicy(np.ones((2, 1))))


@pytest.mark.parametrize(
    ("events", "possible"),
    [([0, 0, 1, 0, 1], 3), ([0, 1, 0, 1, 1], 2), ([2, 0, 0, 0, 0], 0), ([1, 1, 1, 1, 2], 4), ([0, 0, 0, 0, 1], 5)],
)
def test_from_the_first_impossible_event_on_all_is_zero(events: list[int], possible: int):
    chain = blocked_chain()
    beliefs, logarithm = forward(chain, events)
    np.testing.assert_array_equal(beliefs.any(axis=1), np.arange(5) < possible)
    assert not np.isnan(beliefs).any()
    if possible == 5:
        assert logarithm == pytest.approx(math.log(0.5**5), rel=1e-15)
    else:
        assert logarithm == -math.inf
        assert not (chain.hidden.root[:, events[0]] * backward(chain, events)[0][0]).any()


def test_backward_messages_that_cannot_be_are_zero_with_scale_minus_infinity():
    messages, scales = backward(blocked_chain(), [0, 0, 0, 2, 1])
    np.testing.assert_array_equal(messages, [[0, 0], [0, 0], [0, 0], [0.5, 1], [1, 1]])
    assert scales.tolist() == [-math.inf] * 3 + [0, 0]


def test_one_event_is_a_whole_sequence():
    beliefs, logarithm = forward(blocked_chain(), [1])
    np.testing.assert_array_equal(beliefs, [[0, 1]])
    assert logarithm == math.log(0.5)
    messages, scales = backward(blocked_chain(), [1])
    np.testing.assert_array_equal(messages, [[1, 1]])
    assert scales.tolist() == [0]


# Single steps


def test_a_step_is_the_sum_over_actions_and_states():
    """`α'(x') = Σ_x Σ_a α(x) π(a|x) P(x'|x,a) b(e|a,x')`, for every event."""
    for case in small_cases(30, "last", on_actions=True):
        chain, spec = chain_of(case), case.spec
        rows = np.random.default_rng(0).random((2, spec.num_states))
        for time in range(spec.horizon):
            for event in range(chain.hidden.num_events):
                expected = np.zeros_like(rows)
                for action in range(spec.num_actions):
                    seen, observation = divmod(event, spec.num_observations)
                    if spec.sees_actions and seen != action:
                        continue
                    moved = (rows * chain.weights(time)[:, action]) @ case.problem.model.transitions[:, action]
                    expected += moved * case.problem.observer.emissions[action, :, observation]
                np.testing.assert_allclose(next_messages(chain, rows, event, time), expected, atol=1e-15)


def test_the_first_message_is_start_times_emission():
    _, chain = long_problem()
    for event in range(3):
        expected = np.array(INITIAL) / UNIT * np.array(EMISSIONS)[:, event] / UNIT
        np.testing.assert_allclose(first_message(chain, event), expected, rtol=1e-15)
