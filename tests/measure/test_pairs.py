"""What a pair and a constraint say of their values: bounds that are just met, the words, and what is refused."""

import numpy as np
import pytest

import veil
from tests.problem.test_constraints import make_problem
from tests.seeds import looped
from veil.measure.constrained import ConstraintValue
from veil.measure.pairs import PairValue
from veil.measure.result import Opacity

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


@looped(("relation", "value", "slack"), [("≥", 3.0, 1.0), ("≥", 2.0, 0.0), ("≤", 1.5, 0.5), ("≤", 2.5, -0.5)])
def test_a_constraint_is_met_up_to_its_bound(relation: str, value: float, slack: float):
    found = ConstraintValue("energy", relation, 2.0, value)
    assert found.slack == slack
    assert found.met == (slack >= 0)
    words = "at least" if relation == "≥" else "at most"
    missed = "" if found.met else " (not met)"
    assert found.fact() == ("energy", f"{value:g}, required: {words} 2{missed}")
    assert found.text == f"energy {relation} 2"


@looped(
    "measured", [veil.opacity, veil.opacity_gradient, veil.measures.quantities, veil.measures.joint_table, veil.attack]
)
def test_a_pair_that_does_not_exist_is_named_with_those_that_do(measured):
    problem = make_problem().replace(pairs=[veil.Pair("foe", observer=veil.Observer(np.ones((4, 1))))])
    with pytest.raises(veil.InputError, match=r"there is no pair 'fo'.*foe"):
        measured(problem, veil.MarkovPolicy.uniform(problem), pair="fo")
