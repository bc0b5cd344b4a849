"""Runs as the observer sees them, and the sequences that tell most: the numbers of the filter and of the joint table."""

import pytest

import veil
from tests.seeds import looped
from veil.common.clock import Clock
from veil.report.behaviour import behave
from veil.report.observing import most_revealing, observe, sample_run, sample_runs


@looped("name", ["two-rooms", "courier-depots", "network-probe", "badge-doors", "convoy-checkpoint"])
def test_a_run_is_what_the_filter_says(name: str):
    problem = veil.gallery.load(name)
    policy = veil.MarkovPolicy.uniform(problem)
    run = sample_run(behave(problem, policy), seed=4)
    observer = veil.ObserverFilter(problem, policy)
    assert run.states is not None
    assert len(run.states) == len(run.observations) == problem.horizon + 1
    for time, event in enumerate(run.observations):
        if event is not None:
            observer.update(event)
        assert run.posterior[time] == pytest.approx(observer.posterior)
        assert run.belief[time].sum() == pytest.approx(1)
        assert run.belief[time][run.states[time]] > 0  # the truth is never ruled out
    assert (run.observations[0] is None) == (not problem.observer.sees_first)


def test_the_telling_runs_are_the_extremes(courier: veil.Problem):
    sample = sample_runs(behave(courier, veil.MarkovPolicy.uniform(courier)), 5, seed=1)
    assert [run.title for run in sample.runs] == [
        "Sample 1",
        "Sample 2",
        "Sample 3",
        "Most revealing",
        "Most misleading",
    ]
    ends = [run.posterior[-1][run.secret] for run in sample.runs]
    assert ends[3] == max(ends)
    assert ends[4] == min(ends)


def test_where_the_table_does_not_fit_the_sample_serves(courier: veil.Problem):
    seen = behave(courier, veil.MarkovPolicy.uniform(courier))
    exact = {one.observations: one for one in veil.measures.joint_table(courier, seen.policy).revealing(10**6)}
    sample = sample_runs(seen, 2, seed=2)
    found = most_revealing(seen, sample, 6, Clock(0))
    assert not found.exact
    assert found.table.prior_guess_probability == pytest.approx(float(seen.chain.prior.max()))
    for one in found.sequences:
        truth = exact[one.observations]
        assert one.gain_bits == pytest.approx(truth.gain_bits)
        assert one.posterior == pytest.approx(truth.posterior)
        assert one.probability * len(sample.events) == pytest.approx(round(one.probability * len(sample.events)))
    gains = [one.gain_bits for one in found.sequences]
    assert gains == sorted(gains, reverse=True)


def test_given_observations_may_be_numbers_and_too_many_are_refused(paper: veil.Problem):
    seen = behave(paper, veil.MarkovPolicy.uniform(paper))
    assert observe(seen, [0, "0", 0]).observations == ("0", "0", "0")
    assert observe(seen, [0, "0", 0]).secret is None
    with pytest.raises(veil.InputError, match="found 12, expected at most 11"):
        observe(seen, ["0"] * 12)
    with pytest.raises(veil.InputError, match="found none"):
        observe(seen, [])
    with pytest.raises(veil.VeilError, match="impossible"):
        observe(seen, ["b"])
