"""Leakage over time and by sensor: exact where it can be, marked as an estimate where not, and sentences about it."""

import numpy as np
import pytest

import veil
from veil.common.clock import Clock
from veil.report.answer import audit, verdict
from veil.report.behaviour import behave
from veil.report.html import make_report
from veil.report.leaking import find_leaking, recommendations
from veil.report.observing import most_revealing, sample_runs


def test_the_numbers_are_the_library_s(paper: veil.Problem):
    small = paper.replace(horizon=4)
    policy = veil.MarkovPolicy.uniform(small)
    behaviour = behave(small, policy)
    sample = sample_runs(behaviour, 2)
    found = find_leaking(behaviour, sample)
    assert found.drawn == 0
    assert found.over_time == pytest.approx(veil.measures.bits_over_time(small, policy))
    assert found.sources == pytest.approx(veil.measures.sensor_costs(small, policy))
    assert list(found.sources.values()) == sorted(found.sources.values(), reverse=True)
    name, bits = next(iter(found.sources.items()))
    told = recommendations(found, most_revealing(behaviour, sample, 3).sequences, exact=True)
    assert told[0] == f"Muting sensor {name} would raise the observer's uncertainty by {bits:.3f} bits."
    assert any(line.startswith("The observer learns most at time ") for line in told)
    assert told[-1].startswith("An observer who sees “")


def test_what_does_not_fit_the_time_is_estimated_and_says_so(paper: veil.Problem):
    small = paper.replace(horizon=4)
    behaviour = behave(small, veil.MarkovPolicy.uniform(small))
    sample = sample_runs(behaviour, 2)
    exact = find_leaking(behaviour, sample)
    found = find_leaking(behaviour, sample, Clock(0))
    assert found.drawn == len(sample.events) == 400
    assert found.sources == {}
    assert found.errors.min() >= 0
    assert found.errors.max() > 0
    assert np.all(np.abs(found.over_time - exact.over_time) <= 5 * found.errors + 1e-9)
    page = make_report(small, audit(small, behaviour.policy), time_limit=0)
    assert "estimated from 400 sampled runs, band: two standard errors" in page
    assert 'id="sources"' not in page


def test_an_audit_measures_and_proves_nothing(paper: veil.Problem):
    policy = veil.MarkovPolicy.uniform(paper)
    answer = audit(paper, policy)
    found = answer.solution
    assert not answer.searched
    assert found.opacity.bits == pytest.approx(veil.opacity(paper, policy).bits)
    assert found.expected_return == veil.expected_return(paper, policy)
    assert not found.feasible
    assert "No bound is proven" not in verdict(answer)
    page = make_report(paper.replace(horizon=3), audit(paper.replace(horizon=3), policy))
    for section in ("attack", "advice", "over-time", "sources", "quantities"):
        assert f'id="{section}"' in page
    for section in ("convergence", "frontier", "certificate"):
        assert f'id="{section}"' not in page
