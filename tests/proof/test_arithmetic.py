"""The verifier's allowances for rounding: their formulas, and that they are what saves a bound."""

import math
from fractions import Fraction

import numpy as np
import pytest

from veil.common.errors import CertificateError
from veil.proof.arithmetic import UNIT, defect_of, discount_power, gamma, group
from veil.proof.entropy import conditional_entropy, merge_histories


@pytest.mark.parametrize(
    ("discount", "steps", "expected"),
    [
        (1.0, 10**6, (1.0, 0.0)),
        (0.5, 3, (0.125, 0.0)),
        (0.0, 0, (1.0, 0.0)),
        (0.0, 3, (0.0, 0.0)),
        (2.0**-450, 2, (2.0**-900, 0.0)),
        (2.0**-451, 2, (0.0, 1.01 * 2.0**-900)),
        (2.0**-600, 2, (0.0, 1.01 * 2.0**-900)),
    ],
)
def test_powers_of_a_discount(discount: float, steps: int, expected: tuple[float, float]):
    """Below 2^-900 one counts as 0, and what that leaves out is bounded; a discount of 0 leaves nothing out."""
    assert discount_power(discount, steps) == expected


@pytest.mark.parametrize("count", [1, 3, 10, 1e3, 1e9, 2.0**48])
def test_gamma_is_above_its_formula(count: float):
    exact = Fraction(int(count)) * Fraction(UNIT) / (1 - Fraction(int(count)) * Fraction(UNIT))
    assert exact < Fraction(gamma(count)) < exact * Fraction(102, 100)


def test_the_defect_covers_the_summation_of_the_longest_row():
    assert defect_of(np.ones(3), 7, "row") == gamma(8)
    assert defect_of(np.array([1.0, 1 + 1e-9, 1 - 2e-9]), 7, "row") == abs(1 - 2e-9 - 1) + gamma(8)
    assert defect_of(np.zeros(0), 7, "row") == gamma(8)
    with pytest.raises(CertificateError, match="row: a distribution sums to one only within 2e-06"):
        defect_of(np.array([1.000002]), 7, "row")


@pytest.mark.parametrize("largest", [5, 2**20, 2**40, 2**61])
@pytest.mark.parametrize("columns", [1, 2, 4])
def test_groups_are_the_distinct_rows_at_any_size(largest: int, columns: int):
    """Above 2^62 a row has no number of its own: columns are numbered anew, and nothing overflows."""
    rng = np.random.default_rng(columns)
    few = rng.integers(0, largest, size=(6, columns), endpoint=True)
    rows = few[rng.integers(0, len(few), size=50)]
    index, number = group(*rows.T)
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_array_equal(rows[index], distinct)
    np.testing.assert_array_equal(number, inverse.ravel())


def test_the_error_of_an_entropy_counts_the_values_of_its_longest_row():
    value, given = np.array([0, 1, 2, 3, 4, 5, 6, 7, 0]), np.array([0, 0, 0, 0, 0, 0, 0, 0, 1])
    mass = np.full(9, 1 / 16)
    assert conditional_entropy(mass, value, given) == conditional_entropy(mass, value, given, most=8)
    assert conditional_entropy(mass, value, value) == conditional_entropy(mass, value, value, most=1)


# Merging.


def merged(beliefs: np.ndarray, mass: np.ndarray, most: int, eta: float = 0.0) -> tuple[np.ndarray, float]:
    history, code = np.nonzero(beliefs)
    return merge_histories(history, code, (mass[:, None] * beliefs)[history, code], most, eta)


def test_merging_charges_the_divergence_from_the_mean_and_the_allowance():
    beliefs, mass = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])
    number, charge = merged(beliefs, mass, 1)
    assert len(set(number.tolist())) == 1
    mean = beliefs.mean(axis=0)
    exact = sum(0.5 * p * math.log2(p / q) for row in beliefs for p, q in zip(row, mean, strict=True))
    assert exact < charge < exact + 1e-13
    uncertain = merged(beliefs, mass, 1, eta=1e-3)[1]
    assert uncertain == pytest.approx(charge + 2.1 * 1e-3 * math.log2(3), abs=1e-15)


def test_merging_charges_each_cluster_by_itself():
    """Two clusters of two histories each, whose weights do not sum to one, as after some paths were left out."""
    beliefs = np.array([[0.9, 0.1], [0.9001, 0.0999], [0.2, 0.8], [0.2002, 0.7998]])
    mass = np.array([0.1, 0.2, 0.05, 0.15])
    number, charge = merged(beliefs, mass, 2)
    assert number.tolist() == [number[0]] * 4 + [1 - number[0]] * 4
    means = [np.average(beliefs[part], axis=0, weights=mass[part]) for part in ([0, 1], [2, 3])]
    exact = math.fsum(
        mass[row] * p * math.log2(p / q) for row in range(4) for p, q in zip(beliefs[row], means[row // 2], strict=True)
    )
    assert exact < charge < exact + 1e-14
    uncertain = merged(beliefs, mass, 2, eta=1e-3)[1]
    assert uncertain == pytest.approx(charge + 2.1 * 1e-3 * 0.5 * math.log2(3), abs=1e-15)


def test_the_allowance_of_merging_grows_with_the_terms():
    """Five for each weight and 16 for each of the terms, whatever their signs are."""
    beliefs, mass = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([0.5, 0.5])
    terms = [0.5 * p * math.log2(p / q) for row in beliefs for p, q in zip(row, beliefs.mean(axis=0), strict=True)]
    allowance = UNIT * ((5 * 4 + 16) * 1.0 + 16 * math.fsum(map(abs, terms)))
    assert merged(beliefs, mass, 1)[1] - math.fsum(terms) == pytest.approx(allowance, abs=5e-17)


def test_equal_beliefs_are_charged_the_allowance_alone():
    beliefs, mass = np.array([[0.7, 0.2, 0.1]] * 3), np.array([0.3, 0.3, 0.4])
    number, charge = merged(beliefs, mass, 1)
    assert len(set(number.tolist())) == 1
    allowance = UNIT * (5 * 9 + 16)
    assert allowance <= charge < 1.1 * allowance  # the sum of the terms may round to either side of 0


def test_few_histories_are_left_alone():
    beliefs, mass = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0.5, 0.5])
    number, charge = merged(beliefs, mass, 2, eta=1.0)
    assert number.tolist() == [0, 0, 1, 1]
    assert charge == 0.0
