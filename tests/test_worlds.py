"""Each family of the benchmarks makes problems that can be solved, that hide something, and that a seed repeats."""

import pytest
from benchmarks.worlds import FAMILIES, HALVES, SMALLEST, make

import veil
from veil.engine.feasibility import check_constraints
from veil.engine.return_range import threshold
from veil.problem.fingerprint import fingerprint


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    problem, other = (make(family, seed, SMALLEST[family]) for seed in (0, 1))
    assert fingerprint(problem) == fingerprint(make(family, 0, SMALLEST[family])) != fingerprint(other)
    for one in (problem, other):
        check_constraints(one)
        wanted = threshold(one)
        assert wanted is None or 0 < wanted < veil.max_return(one)
        assert veil.opacity(one, veil.MarkovPolicy.uniform(one), "sampled", sequences=10).prior_bits > 1e-3


def test_halves_are_apart():
    assert not set(HALVES["dev"]) & set(HALVES["held-out"])
    assert [len(half) for half in HALVES.values()] == [10, 10]
