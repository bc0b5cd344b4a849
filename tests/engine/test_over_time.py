"""Posteriors after every event of many sequences, against the filter and the pass along whole sequences."""

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, small_case, small_cases
from tests.random_problems import KINDS
from veil.engine.chain import make_chain
from veil.engine.over_time import posteriors_over_time
from veil.engine.sampling import draw_events


@pytest.mark.parametrize("kind", KINDS)
def test_each_time_is_what_the_filter_says(kind: str):
    for number, case in enumerate(small_cases(8, kind)):
        chain = chain_of(case)
        events = draw_events(chain, 12, np.random.default_rng(number))
        found = np.array(list(posteriors_over_time(chain, events)))
        assert found.shape == (case.problem.horizon + 1, 12, len(case.problem.secret_values))
        observer = case.problem.observer
        for run, row in enumerate(events.tolist()):
            watcher = veil.ObserverFilter(case.problem, case.policy)
            for time, event in enumerate(row):
                if time or observer.sees_first:
                    both = observer.sees_actions and time
                    watcher.update(divmod(event, observer.num_observations) if both else event)
                np.testing.assert_allclose(found[time, run], watcher.posterior, atol=1e-12)


def test_nothing_is_believed_from_the_first_impossible_event_on():
    model = veil.Model(np.eye(2)[:, None], np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer([[1, 0, 0], [0.5, 0.5, 0]]), veil.LastState({1}), 3)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    found = np.array(list(posteriors_over_time(chain, np.array([[0, 0, 1, 0], [0, 2, 0, 0]]))))
    np.testing.assert_allclose(found[:, 0], [[2 / 3, 1 / 3], [4 / 5, 1 / 5], [0, 1], [0, 1]], atol=1e-15)
    np.testing.assert_allclose(found[:, 1], [[2 / 3, 1 / 3], [0, 0], [0, 0], [0, 0]], atol=1e-15)


def test_a_long_horizon_does_not_underflow():
    case = small_case(3, "last")
    problem = case.problem.replace(horizon=2_000)
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    *_, last = posteriors_over_time(chain, draw_events(chain, 5, np.random.default_rng(0)))
    np.testing.assert_allclose(last.sum(axis=1), 1, atol=1e-12)
