"""Quantities of leakage: against qif and exact fractions on random tables, by every backend, and from samples."""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from validation.qif_tables import channel_problem, random_channel

import veil
from tests.engine.chains import small_case, small_cases
from tests.oracle import evaluate
from tests.random_problems import KINDS
from tests.seeds import looped
from veil.measure.quantities import Quantities, of_joint, quantities


def of_channel(prior: np.ndarray, channel: np.ndarray, **asked: Any) -> Quantities:
    problem = channel_problem(prior, channel)
    return quantities(problem, veil.MarkovPolicy.uniform(problem), "exact", **asked)


def arimoto(rows: list[list[Fraction]], order: float) -> float:
    """Arimoto's conditional entropy by its definition, in floats from exact fractions."""
    mean = math.fsum(math.fsum(float(p) ** order for p in row) ** (1 / order) for row in rows)
    return order / (1 - order) * math.log2(mean)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_secret_as_exact_fractions_have_it(kind: str):
    for case in small_cases(8, kind):
        answer = evaluate(case.spec)
        rows = [[row.get(z, Fraction(0)) for z in range(answer.num_values)] for row in answer.joint.values()]
        prior = [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
        gain = [[Fraction((3 * w + 5 * z) % 7 - 1, 4) for z in range(answer.num_values)] for w in range(3)]
        found = quantities(
            case.problem, case.policy, "exact", gain=np.array(gain, dtype=float), orders=(0.5, 1, 3, math.inf), top=4
        )
        assert found.method == "exact"
        assert found.num_sequences == answer.num_sequences
        assert found.entropy_bits.posterior == pytest.approx(answer.bits, abs=1e-12)
        assert found.guess_probability.posterior == pytest.approx(float(sum(map(max, rows))), abs=1e-12)
        best = sum(max(sum(g * p for g, p in zip(line, row, strict=True)) for line in gain) for row in rows)
        assert found.gain is not None
        assert found.gain.posterior == pytest.approx(float(best), abs=1e-12)
        total = sum(max(p / q for p, q in zip(row, prior, strict=True) if q) for row in rows)
        assert found.maximal_leakage_bits == pytest.approx(math.log2(total), abs=1e-11)
        for order in (0.5, 3):
            assert found.renyi_bits[order].prior == pytest.approx(arimoto([prior], order), abs=1e-11)
            assert found.renyi_bits[order].posterior == pytest.approx(arimoto(rows, order), abs=1e-11)
        assert found.renyi_bits[1] == found.entropy_bits
        assert found.renyi_leakage_bits(math.inf) == pytest.approx(found.min_entropy_leakage_bits, abs=1e-11)
        table = veil.measures.joint_table(case.problem, case.policy)
        for by in ("leaked_bits", "gain_bits", "posterior"):
            listed, expected = found.worst[by], table.revealing(4, by=by)
            # Ties may be broken differently: rounding depends on the order of the products.
            assert [key(one, by) for one in listed] == pytest.approx([key(one, by) for one in expected], abs=1e-11)


def key(one: veil.measures.RevealingSequence, by: str) -> float:
    return max(one.posterior.values()) if by == "posterior" else getattr(one, by)


def test_a_capacity_is_the_most_that_any_prior_leaks():
    rng = np.random.default_rng(8)
    for _ in range(40):
        prior, channel = random_channel(rng)
        found = of_channel(prior, channel)
        uniform = of_channel(np.full(len(prior), 1 / len(prior)), channel)
        assert found.maximal_leakage_bits == pytest.approx(uniform.min_entropy_leakage_bits, abs=1e-9)
        assert found.min_entropy_leakage_bits <= found.maximal_leakage_bits + 1e-12


def test_order_one_is_the_limit_and_entropies_fall_with_the_order():
    rng = np.random.default_rng(9)
    orders = (0.05, 0.5, 1 - 1e-6, 1, 1 + 1e-6, 2, 5000.0, math.inf)
    for _ in range(40):
        prior, channel = random_channel(rng)
        found = of_channel(prior, channel, orders=orders).renyi_bits
        bits = [found[order].posterior for order in orders]
        assert all(one >= two - 1e-9 for one, two in pairwise(bits))
        assert bits[2] == pytest.approx(bits[3], abs=1e-4)
        assert bits[-2] == pytest.approx(bits[-1], abs=0.01)


def test_proportional_outputs_are_merged_without_the_worst_sequences():
    problem = veil.gallery.load("two-rooms").replace(horizon=6)
    policy = veil.MarkovPolicy.uniform(problem)
    apart, merged = (quantities(problem, policy, "exact", top=top) for top in (3, 0))
    assert merged.worst == {"leaked_bits": (), "gain_bits": (), "posterior": ()}
    assert len(apart.worst["posterior"]) == 3
    for (name, one, leaked, _), (_, two, other, _) in zip(apart.facts(), merged.facts(), strict=True):
        assert one.posterior == pytest.approx(two.posterior, abs=1e-12), name
        assert leaked == pytest.approx(other, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_agrees_within_its_error(kind: str):
    case = small_case(4, kind)
    gain = np.eye(len(case.problem.secret_values))
    true = quantities(case.problem, case.policy, "exact", gain=gain)
    found = quantities(case.problem, case.policy, "sampled", gain=gain, sequences=20_000, seed=1)
    assert found.method == "sampled"
    assert found.num_sequences == 20_000
    for (name, one, _, _), (_, two, _, _) in zip(true.facts(), found.facts(), strict=True):
        assert one.std_error == 0
        # A fixed seed: this either holds or does not, on every machine.
        assert abs(one.posterior - two.posterior) <= 4 * two.std_error + 1e-9, name
        assert one.prior == pytest.approx(two.prior, abs=1e-12)
    assert found.gain == found.guess_probability
    assert sum(one.probability for one in found.worst["leaked_bits"]) <= 1 + 1e-12


def test_auto_samples_where_the_sequences_do_not_fit():
    problem = veil.gallery.load("paper-false-alarms")
    policy = veil.MarkovPolicy.uniform(problem)
    found = quantities(problem, policy, sequences=50, time_limit=0.05)
    assert found.method == "sampled"
    assert "too many" in found.reason
    assert found.entropy_bits.std_error > 0
    with pytest.raises(veil.TooLargeError):
        quantities(problem, policy, "exact", time_limit=0.05)


def test_history_policies_are_measured():
    problem = veil.gallery.load("two-rooms", min_return=None).replace(horizon=3, agent_sees="state+observations")
    policy = veil.solve(problem, method="game", certificate=False).policy
    found, table = quantities(problem, policy), veil.measures.joint_table(problem, policy)
    assert found.guess_probability.posterior == pytest.approx(table.guess_probability, abs=1e-15)
    assert found.worst["leaked_bits"] == tuple(table.revealing(10))


@looped(
    ("asked", "message"),
    [
        ({"gain": [[1.0, 2.0, 3.0]]}, r"gain has shape \(1, 3\), expected \(W, 2\)"),
        ({"gain": [[1.0, math.nan]]}, r"gain \(0, 1\) is nan, expected a finite number"),
        ({"gain": np.zeros((0, 2))}, "gain has no rows"),
        ({"orders": (0.01,)}, "expected numbers of 0.05 or more"),
        ({"orders": "two"}, "orders are 'two'"),
        ({"top": -1}, "top is -1"),
        ({"method": "bracket"}, "method is 'bracket'"),
        ({"sequences": 1}, "sequences is 1"),
    ],
)
def test_wrong_settings_are_refused(asked: dict[str, Any], message: str):
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=message):
        quantities(problem, veil.MarkovPolicy.uniform(problem), **asked)


def test_an_order_that_was_not_asked_for_is_named():
    with pytest.raises(veil.InputError, match=r"known are 0\.5, 2"):
        of_channel(np.array([0.5, 0.5]), np.eye(2)).renyi_leakage_bits(3)


def test_negative_gains_have_no_bits():
    found = of_channel(np.array([0.5, 0.5]), np.eye(2), gain=[[-1.0, -2.0]])
    assert found.gain_leakage_bits is None
    assert found.gain is not None
    assert found.gain.prior == found.gain.posterior == -1.5


def test_the_smallest_settings_are_good():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    found = veil.measures.quantities(problem, policy, orders=0.05, top=0)
    assert list(found.renyi_bits) == [0.05]
    assert not any(found.worst.values())
    wrong: list[dict[str, Any]] = [
        {"orders": 0.049}, {"orders": (1.0, 0.0)}, {"top": -1}, {"top": True}, {"gain": np.zeros((0, 2))}
    ]  # fmt: skip
    assert veil.measures.quantities(problem, policy, "sampled").num_sequences == 2000
    for settings in wrong:
        with pytest.raises(veil.InputError):
            veil.measures.quantities(problem, policy, **settings)


def test_errors_of_a_sample_are_those_of_its_draws():
    """Two rows drawn three times and once: mean and error of each function are those of four numbers."""
    problem = veil.gallery.load("two-rooms")
    posterior, share = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0.75, 0.25])
    found = of_joint(problem, share[:, None] * posterior, np.array([[0, 0], [0, 1]]), np.array([0.5, 0.5]), 4)
    drawn = {"guess_probability": [0.5, 0.5, 0.5, 1.0], "entropy_bits": [1.0, 1.0, 1.0, 0.0]}
    for name, values in drawn.items():
        quantity = getattr(found, name)
        assert quantity.posterior == pytest.approx(np.mean(values))
        assert quantity.std_error == pytest.approx(np.std(values, ddof=1) / 2)
    assert (found.method, found.num_sequences, found.reason) == ("sampled", 4, "4 drawn sequences")
