"""What a pair and a constraint say of their values: bounds that are just met, the words, and what is refused."""

import math

import numpy as np
import pytest

import veil
from tests.problem.test_constraints import ALL, make_problem
from tests.seeds import looped
from veil.engine.chain import make_chain
from veil.engine.sampling import draw_runs
from veil.game.pairs import FullHistory
from veil.game.solve import solve_game
from veil.measure.constrained import ConstraintValue, constraint_values
from veil.measure.loss import loss
from veil.measure.pairs import PairValue, pair_values
from veil.measure.result import Opacity
from veil.policy.history import HistoryPolicy


def history_policy() -> HistoryPolicy:
    problem = make_problem(min_return=None)
    return solve_game(problem, FullHistory(), gap=0.05, iterations=3).policy()


HALF = Opacity(0.5, 0.5, 0.5, prior_bits=1.0, method="exact", num_sequences=4)


@looped(
    ("low", "high", "met"),
    [
        (None, None, True),
        (0.5, None, True),
        (None, 0.5, True),
        (0.5, 0.5, True),
        (0.51, None, False),
        (None, 0.49, False),
    ],
)
def test_a_pair_is_met_within_its_bounds_ends_included(low: float | None, high: float | None, met: bool):
    pair = PairValue("foe", HALF, low, high)
    assert pair.met == met
    assert ("(not met)" in pair.fact()[1]) == (not met)


def test_a_pair_in_words():
    plain = PairValue("foe", HALF)
    assert plain.fact() == ("pair foe", "0.500000 of 1.000000 bits (exact)")
    assert plain.text == ""
    bounded = PairValue("foe", HALF, 0.25, 0.75, price_bits=0.125)
    assert bounded.text == "H(foe) ≥ 0.25 and H(foe) ≤ 0.75"
    assert bounded.fact()[1].endswith("(exact), required: at least 0.25 and at most 0.75; price 0.125")
    assert "price" not in PairValue("foe", HALF, price_bits=0.125).fact()[1]
    wrong = PairValue("foe", HALF, max=0.5, loss_bits=2.0)
    assert wrong.bits == 2.0
    assert not wrong.met
    words = "loss 2.000000 bits; 0.500000 of 1.000000 bits (exact) against an observer who knows the policy"
    assert wrong.fact()[1].startswith(words)


def test_each_pair_is_that_of_its_own_problem():
    problem = make_problem()
    rng = np.random.default_rng(5)
    believed = veil.Belief(veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=4)))
    blind = veil.Observer(np.ones((4, 1)))
    problem = problem.replace(
        pairs=[veil.Pair("blind", observer=blind, min=0.1), veil.Pair("wrong", belief=believed, max=3.0)]
    )
    policy = veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=4))
    first, second = pair_values(problem, policy)
    assert first.opacity == veil.opacity(problem.only("blind"), policy)
    assert (first.min, first.max, first.bits) == (0.1, None, first.opacity.bits)
    assert math.isnan(first.loss_bits)
    assert second.loss_bits == second.bits == loss(problem.only("wrong"), policy, believed).bits


@looped(("relation", "value", "slack"), [("≥", 3.0, 1.0), ("≥", 2.0, 0.0), ("≤", 1.5, 0.5), ("≤", 2.5, -0.5)])
def test_a_constraint_is_met_up_to_its_bound(relation: str, value: float, slack: float):
    found = ConstraintValue("energy", relation, 2.0, value)
    assert found.slack == slack
    assert found.met == (slack >= 0)
    words = "at least" if relation == "≥" else "at most"
    missed = "" if found.met else " (not met)"
    assert found.fact() == ("energy", f"{value:g}, required: {words} 2{missed}")
    assert found.text == f"energy {relation} 2"


def test_the_price_of_a_constraint_is_said_where_it_is_known():
    assert (
        ConstraintValue("energy", "≤", 2.0, 1.0, 0.25).fact()[1] == "1, required: at most 2; price 0.25 bits per unit"
    )


def by_pushing(problem: veil.Problem, table: np.ndarray, name: str) -> float:
    """The expected sum of a named reward, by pushing the distribution of states forward."""
    model = problem.model
    paid, law, total = model.named_rewards[name], model.initial, 0.0
    for _ in range(problem.horizon):
        flow = law[:, None] * table
        total += float(np.vdot(flow, paid.paid))
        law = np.sum([flow[:, action] @ model.matrices[action] for action in range(problem.num_actions)], axis=0)
    return total + float(law @ paid.terminal)


def test_values_of_constraints_in_the_order_of_the_problem():
    rng = np.random.default_rng(7)
    table = rng.dirichlet(np.ones(2), size=4)
    policy = veil.MarkovPolicy(table)
    problem = make_problem(ALL)
    threshold, energy, formula = constraint_values(problem, policy)
    assert (threshold.name, threshold.relation, energy.relation) == ("return", "≥", "≤")
    assert threshold.value == pytest.approx(veil.expected_return(problem, policy), abs=1e-15)
    assert energy.value == pytest.approx(by_pushing(problem, table, "energy"), abs=1e-14)
    assert 0 < formula.value < 1
    free = make_problem(ALL, min_return=None)
    assert [one.value for one in constraint_values(free, policy)] == [energy.value, formula.value]
    alone = make_problem()
    assert [one.name for one in constraint_values(alone, policy)] == ["return"]


def test_values_of_constraints_under_a_history_policy():
    problem = make_problem(ALL[:1])
    history = history_policy()
    chain = make_chain(problem, history)
    assert chain.followed is not None
    values = [one.value for one in constraint_values(problem, history)]
    assert values[0] == veil.expected_return(problem, history)
    runs = draw_runs(chain, 20_000, np.random.default_rng(0))
    states = chain.hidden.state[runs.states]
    paid = problem.model.named_rewards["energy"]
    earned = paid.paid[states[:, :-1], runs.actions].sum(axis=1) + paid.terminal[states[:, -1]]
    assert values[1] == pytest.approx(earned.mean(), abs=5 * earned.std() / np.sqrt(len(earned)))


@looped(
    "measured", [veil.opacity, veil.opacity_gradient, veil.measures.quantities, veil.measures.joint_table, veil.attack]
)
def test_a_pair_that_does_not_exist_is_named_with_those_that_do(measured):
    problem = make_problem().replace(pairs=[veil.Pair("foe", observer=veil.Observer(np.ones((4, 1))))])
    with pytest.raises(veil.InputError, match=r"there is no pair 'fo'.*foe"):
        measured(problem, veil.MarkovPolicy.uniform(problem), pair="fo")
