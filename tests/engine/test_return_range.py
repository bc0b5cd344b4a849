"""The largest and smallest returns: against every deterministic policy, by hand, and what thresholds ask of them."""

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

import veil
from tests.engine.chains import return_and_gradient, small_case
from tests.planning.small_problems import harvest
from tests.random_problems import KINDS, random_spec, to_problem
from tests.seeds import looped
from veil.common.errors import InfeasibleError
from veil.common.exact import rounded_down
from veil.engine.chain import Chain
from veil.engine.compile import build
from veil.engine.return_range import (
    check_feasible,
    max_return,
    reaches,
    return_extremes,
    threshold,
)
from veil.planning.safe_tables import best_stationary_return, greedy_table
from veil.problem.return_rounding import return_rounding
from veil.proof.feasibility import reaches_threshold

MOST_POLICIES = 600


def choices(problem: veil.Problem, tables: int) -> list[np.ndarray]:
    """The actions available in each row of so many tables."""
    return [np.flatnonzero(row) for row in problem.available] * tables


def deterministic_tables(problem: veil.Problem, tables: int) -> Iterator[np.ndarray]:
    shape = (tables, problem.num_cells)
    for actions in itertools.product(*choices(problem, tables)):
        yield np.eye(problem.num_actions)[np.array(actions, dtype=int).reshape(shape)]


def value(problem: veil.Problem, table: np.ndarray, *, stationary: bool = False) -> float:
    return return_and_gradient(Chain(build(problem), table, stationary=stationary))[0]


def tiny_problems(
    kind: str, count: int, *, return_over: str = "horizon", blind: bool = False
) -> Iterator[veil.Problem]:
    """Random problems of a kind with a few decisions, whose deterministic policies can all be tried."""
    found = 0
    for seed in itertools.count():
        rng = random.Random(f"extremes {kind} {seed}")
        spec = random_spec(rng, kind, work=3_000)
        infinite = return_over == "infinite"
        if infinite and (spec.discount == 1 or any(any(model.terminal) for model in spec.models)):
            continue
        if (kind == "model" and not spec.secret.agent_knows) != blind or spec.num_states < 2 or spec.horizon < 1:
            continue
        problem = to_problem(spec, rng, return_over)
        policies = np.prod([float(len(row)) for row in choices(problem, 1 if infinite else spec.horizon)])
        if 4 <= policies <= MOST_POLICIES:
            yield problem
            found += 1
            if found == count:
                return


# Against every policy


@pytest.mark.parametrize("kind", KINDS)
def test_the_extremes_for_ever_are_those_of_all_deterministic_stationary_policies(kind: str):
    for problem in tiny_problems(kind, 6, return_over="infinite"):
        returns = [value(problem, table, stationary=True) for table in deterministic_tables(problem, 1)]
        assert max_return(problem) == pytest.approx(max(returns), abs=1e-11)
        assert return_extremes(problem).smallest == pytest.approx(min(returns), abs=1e-11)
        best, table = best_stationary_return(problem)
        assert best == pytest.approx(max(returns), abs=1e-11)
        assert value(problem, table[None], stationary=True) == best
        greedy, worst = greedy_table(problem), greedy_table(problem, smallest=True)
        assert greedy.shape == (problem.horizon, problem.num_cells, problem.num_actions)
        assert value(problem, greedy) == pytest.approx(max(returns), abs=1e-11)
        assert value(problem, worst[:1], stationary=True) == pytest.approx(min(returns), abs=1e-11)


def best_with_memory(problem: veil.Problem) -> float:
    """The largest return of an agent who remembers all, sees the state and infers the model from it."""
    models, discount = problem.models, problem.discount
    mask, dense = problem.model.available, [model.transitions for model in problem.models]

    def ahead(time: int, state: int, belief: np.ndarray) -> float:
        if time == problem.horizon:
            return sum(b * model.terminal_rewards[state] for b, model in zip(belief, models, strict=True))
        best = -np.inf
        for action in np.flatnonzero(mask[state]):
            total = sum(b * model.rewards[state, action] for b, model in zip(belief, models, strict=True))
            for there in range(problem.num_states):
                after = belief * [transitions[state, action, there] for transitions in dense]
                if after.any():
                    total += discount * ahead(time + 1, there, after)
            best = max(best, total)
        return best

    weights = problem.secret_table.weights
    assert weights is not None
    starts = np.array([model.initial for model in models])
    return float(sum(ahead(0, state, weights * starts[:, state]) for state in range(problem.num_states)))


def test_an_agent_who_does_not_know_the_model_is_bounded():
    """Greedy table ≤ the best table ≤ the best with memory ≤ the bound; over one decision all the same."""
    loose, equal, short = 0, 0, 0
    for problem in tiny_problems("model", 12, blind=True):
        best = max(value(problem, table) for table in deterministic_tables(problem, problem.horizon))
        worst = min(value(problem, table) for table in deterministic_tables(problem, problem.horizon))
        remembering, greedy = best_with_memory(problem), value(problem, greedy_table(problem))
        found = return_extremes(problem)
        assert greedy <= best + 1e-12
        assert best <= remembering + 1e-12
        assert remembering <= found.largest + 1e-12
        assert found.smallest <= worst + 1e-12
        assert value(problem, greedy_table(problem, smallest=True)) >= worst - 1e-12
        if found.exact:
            assert found.largest == pytest.approx(best, abs=1e-12)
            assert found.smallest == pytest.approx(worst, abs=1e-12)
        loose += found.largest > remembering + 1e-6
        equal += greedy > best - 1e-12
        short += found.exact
    assert loose > 0
    assert short > 0
    assert equal >= 11  # sweeps are a search, but on tiny problems a good one


def two_models(horizon: int, **changes) -> veil.Problem:
    """Left pays in one model, right in the other; nobody ever learns which it is."""
    stay = np.ones((1, 2, 1))
    models = [veil.Model(stay, [[1.0, 0.0]], 0, 0.5), veil.Model(stay, [[0.0, 1.0]], 0, 0.5)]
    secret = veil.WhichModel([0.6, 0.4], agent_knows=changes.pop("agent_knows", False))
    return veil.Problem(models, veil.Observer(np.ones((1, 1))), secret, horizon, **changes)


def test_two_models_by_hand():
    assert max_return(two_models(1)) == pytest.approx(0.6)
    assert return_extremes(two_models(1)).smallest == 0.4
    assert max_return(two_models(2)) == pytest.approx(0.6 + 0.5)  # the bound; 0.9 is what there is
    assert value(two_models(2), greedy_table(two_models(2))) == pytest.approx(0.9)
    assert max_return(two_models(2, agent_knows=True)) == pytest.approx(1.5)
    assert return_extremes(two_models(2, agent_knows=True)).exact
    assert not return_extremes(two_models(2)).exact
    forever = two_models(2, return_over="infinite")
    assert max_return(forever) == pytest.approx(0.6 + 1)
    assert best_stationary_return(forever)[0] == pytest.approx(1.2)
    assert greedy_table(forever).tolist() == [[[1, 0]], [[1, 0]]]
    assert greedy_table(forever, smallest=True).tolist() == [[[0, 1]], [[0, 1]]]


def test_a_model_that_never_runs_leaves_no_doubt():
    problem = two_models(3)
    certain = problem.replace(secret=veil.WhichModel([0.0, 1.0]))
    assert return_extremes(certain).exact
    assert max_return(certain) == 1.75
    assert value(certain, greedy_table(certain)) == 1.75


def test_no_decisions_leave_the_terminal_rewards():
    model = veil.Model(np.full((2, 2, 2), 0.5), np.ones((2, 2)), [0.25, 0.75], terminal_rewards=[4.0, 8.0])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), 0, "50%")
    assert max_return(problem) == return_extremes(problem).smallest == threshold(problem) == 7
    assert greedy_table(problem).shape == (0, 2, 2)
    assert best_stationary_return(problem)[0] == 7
    check_feasible(problem)


# Thresholds


def test_percentages_are_shares_of_the_range():
    assert return_extremes(harvest()).smallest == 2
    assert return_extremes(harvest()).largest == 4
    assert threshold(harvest("25%")) == 2.5
    assert threshold(harvest("0%")) == 2
    assert threshold(harvest("100%")) == 4
    assert threshold(harvest(3.3)) == 3.3
    assert threshold(harvest()) is None


@looped("name", [one for one in veil.gallery.names() if one != "camera-guard"])  # whose return is what queries cost
def test_the_largest_return_counts_as_feasible(name: str):
    problem = veil.gallery.load(name, min_return="100%")
    assert threshold(problem) == max_return(problem)
    check_feasible(problem)
    best = veil.TimedPolicy(greedy_table(problem))
    assert reaches_threshold(problem, best, veil.expected_return(problem, best))
    check_feasible(problem.replace(min_return=max_return(problem)))
    check_feasible(problem.replace(min_return=None))
    margin = 3 * return_rounding(problem) or 1e-12  # none where nothing is paid
    above = problem.replace(min_return=max_return(problem) + margin)
    assert not reaches_threshold(above, best, veil.expected_return(problem, best))
    with pytest.raises(InfeasibleError):
        check_feasible(above)
    below = problem.replace(min_return=max_return(problem) - margin)
    assert reaches(below, veil.expected_return(problem, best))


def test_an_infeasible_threshold_is_refused_with_the_largest_return():
    with pytest.raises(InfeasibleError, match=r"min_return is 4\.5, but no policy reaches more than 4: .*'90%'"):
        check_feasible(harvest(4.5))
    paper = veil.gallery.load("paper-last-state", min_return=0.6)
    with pytest.raises(veil.VeilError, match=r"min_return is 0\.6, but no policy reaches more than 0\.4507:"):
        check_feasible(paper)


# Stationary policies


def test_a_clock_reaches_what_no_stationary_policy_does():
    problem = harvest(3.5)
    check_feasible(problem)
    assert reaches(problem, value(problem, greedy_table(problem)))
    best, table = best_stationary_return(problem)
    assert best == pytest.approx(3.125, abs=1e-12)
    assert not reaches(problem, best)
    assert table[0, 1] == pytest.approx(0.75, abs=1e-6)
    deterministic = max(value(problem, found, stationary=True) for found in deterministic_tables(problem, 1))
    assert deterministic == 3  # chance is needed


def best_of_many(problem: veil.Problem, seed: int) -> float:
    """The largest return of every deterministic and of 200 random stationary policies."""
    rng = np.random.default_rng(seed)
    shape = (200, problem.num_cells, problem.num_actions)
    drawn = rng.exponential(size=shape) ** rng.choice([1, 4], size=(200, 1, 1)) * problem.available
    drawn /= drawn.sum(axis=2, keepdims=True)
    tables = itertools.chain(deterministic_tables(problem, 1), drawn[:, None])
    return max(value(problem, table, stationary=True) for table in tables)


def test_the_search_beats_every_deterministic_stationary_policy_and_many_random_ones():
    below = 0
    for kind in KINDS:
        for seed, problem in enumerate(tiny_problems(kind, 2, blind=kind == "model")):
            best, table = best_stationary_return(problem)
            assert value(problem, table[None], stationary=True) == best
            veil.MarkovPolicy(table)  # a table of distributions
            assert not table[~problem.available].any()
            assert best >= best_of_many(problem, seed) - 1e-9
            assert best <= max_return(problem) + 1e-12
            below += return_extremes(problem).exact and best < max_return(problem) - 1e-6
    assert below > 0


# To the last bit


@pytest.mark.parametrize("kind", KINDS)
def test_the_ends_are_the_returns_of_their_own_policies(kind: str):
    """The largest is rounded down, so that its policy reaches it exactly."""
    for seed in range(12):
        problem = small_case(f"own {seed}", kind).problem
        ends = return_extremes(problem)
        if not ends.exact:
            continue
        worst = veil.expected_return(problem, veil.TimedPolicy(greedy_table(problem, smallest=True)))
        assert min(worst, ends.largest) == pytest.approx(ends.smallest, abs=1e-13)
        best = veil.TimedPolicy(greedy_table(problem))
        assert ends.largest == pytest.approx(veil.expected_return(problem, best), abs=2 * return_rounding(problem))
        if problem.return_over == "horizon":
            assert reaches_threshold(problem.replace(min_return=ends.largest), best, ends.largest)


def test_the_rounding_error_is_on_the_safe_side():
    """A return reaches the threshold where it exceeds it by the bound on its error; twice that is not yet infeasible."""
    problem = veil.gallery.load("paper-last-state", min_return=None)
    largest, error = max_return(problem), return_rounding(problem)
    wanted = problem.replace(min_return=0.25)
    assert reaches(wanted, 0.25 + error)
    assert not reaches(wanted, np.nextafter(0.25 + error, 0.0))
    assert not reaches(wanted, 0.25)
    assert reaches(problem, -1e9)  # without a threshold any will do
    at_most = largest + 2 * error
    check_feasible(problem.replace(min_return=at_most))
    with pytest.raises(InfeasibleError):
        check_feasible(problem.replace(min_return=float(np.nextafter(at_most, 1.0))))


@pytest.mark.parametrize("rewards", [(0.1, 0.7), (1e9 + 0.1, 1e9)])
def test_the_largest_return_is_never_above_the_exact_one(rewards: tuple[float, float]):
    """Over an infinite horizon, and over a long one whether found in exact arithmetic or rounded down by a bound."""
    model = veil.Model(np.ones((1, 2, 1)), [list(rewards)], 0, discount=0.9)
    observer, secret = veil.Observer(np.ones((1, 1))), veil.LastState({0})
    best, discount = Fraction(max(rewards)), Fraction(0.9)
    forever = veil.Problem(model, observer, secret, 3, return_over="infinite")
    exact = best / (1 - discount)
    assert exact - 2 * Fraction(return_rounding(forever)) <= Fraction(max_return(forever)) <= exact
    exact = best * sum(discount**time for time in range(7))
    for size in (1, 128):  # in exact arithmetic, and where that would take too long
        model = veil.Model(np.full((size, 2, size), 1 / size), [list(rewards)] * size, 0, discount=0.9)
        problem = veil.Problem(model, veil.Observer(np.ones((size, 1))), secret, 7)
        found = max_return(problem)
        if size == 1:
            assert found == rounded_down(exact)
        assert exact - 2 * Fraction(return_rounding(problem)) <= Fraction(found) <= exact


def test_one_decision_of_an_agent_who_does_not_know_the_model():
    """The best action for the prior is reached; with two decisions the largest return is a bound alone."""
    models = [veil.Model(np.ones((1, 2, 1)), [pays], 0) for pays in ([0.3, 0.1], [0.1, 0.9])]
    observer = veil.Observer(np.ones((1, 1)))
    for horizon, exact in ((0, True), (1, True), (2, False)):
        problem = veil.Problem(models, observer, veil.WhichModel([0.5, 0.5]), horizon)
        found = return_extremes(problem)
        assert found.exact == exact
        if horizon == 1:
            assert 0.5 - 1e-12 <= found.largest <= 0.5
            assert found.smallest == pytest.approx(0.2)
    endless = [veil.Model(np.ones((1, 2, 1)), [pays], 0, discount=0.5) for pays in ([0.3, 0.1], [0.1, 0.9])]
    problem = veil.Problem(endless, observer, veil.WhichModel([0.5, 0.5]), 1, return_over="infinite")
    assert not return_extremes(problem).exact
